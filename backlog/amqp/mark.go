package amqp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
)

// A mark is what this process knows of the queue outQueue, which is there while something
// may be out. Its one message names the process that has dispatched last.
type mark struct {
	there bool     // a clean end deletes it
	on    *session // in which it was made to name this process
	owner string   // the name of this process; "": it has dispatched nothing yet
}

const markType = "backlog.mark.v1"

// takeOver looks, under the lock of the session, whether something may be out that another
// process has dispatched. Then what no worker has taken is deleted, and nothing is dispatched
// until the rest is over. The wait begins now: until the lock was taken, another process could
// have had it, also where this one has led before it lost its connection.
func (d *Dispatch) takeOver(ctx context.Context, p *session) error {
	owner, there, err := d.lastOwner(ctx, p)
	if err != nil {
		return err
	}
	d.mu.Lock()
	ours := there && d.mark.owner != "" && owner == d.mark.owner
	d.mark.there = there
	d.mu.Unlock()
	if !there || ours {
		return nil
	}
	if err := p.purge(ctx, workQueue(d.Name)); err != nil {
		return err
	}
	d.mu.Lock()
	d.hold = time.Now().Add(d.Bound())
	d.mu.Unlock()
	d.Log.Warn("records may still be with workers, as the last daemon did not end in peace: nothing is dispatched until they are done", "for", d.Bound().String())
	return nil
}

// lastOwner returns which process has dispatched last, "" where the mark does not say it, and
// whether there is a mark.
func (d *Dispatch) lastOwner(ctx context.Context, p *session) (owner string, there bool, err error) {
	_, missing, err := p.inspect(ctx, outQueue(d.Name))
	if err != nil || missing {
		return "", false, err
	}
	err = p.probe(ctx, func(ch *amqp.Channel) error {
		m, named, err := ch.Get(outQueue(d.Name), false)
		if err != nil || !named {
			return err
		}
		owner = string(m.Body)
		return m.Nack(false, true)
	})
	return owner, true, ofQueue(outQueue(d.Name), err)
}

// leaveMark tells the broker, once in a session, that something of this process may be out.
func (d *Dispatch) leaveMark(ctx context.Context, p *session) error {
	d.marking.Lock()
	defer d.marking.Unlock()
	d.mu.Lock()
	if d.mark.owner == "" {
		d.mark.owner = rand.Text()
	}
	m := d.mark
	d.mu.Unlock()
	if m.on == p {
		return nil
	}
	name := outQueue(d.Name)
	err := p.declare(ctx, Topology{Queues: []Queue{{name, amqp.Table{"x-queue-type": "quorum"}}}}, "missing")
	if err != nil {
		return err
	}
	// A crash after this leaves a mark without a name, which is another's to every process.
	if err := p.purge(ctx, name); err != nil {
		return err
	}
	refused, err := p.post(ctx, message{"", name, amqp.Publishing{Body: []byte(m.owner), MessageId: m.owner, Type: markType, Timestamp: time.Now()}})
	if err != nil {
		return err
	}
	if refused != nil {
		return unavailable(fmt.Errorf("queue %s: %w", name, refused))
	}
	d.mu.Lock()
	d.mark.there, d.mark.on = true, p
	d.mu.Unlock()
	return nil
}

// ready returns a session on which records may be dispatched once wait is over.
func (d *Dispatch) ready(ctx context.Context) (p *session, wait time.Duration, err error) {
	p, err = d.open(ctx)
	if err == nil {
		err = p.err()
	}
	d.mu.Lock()
	wait = time.Until(d.hold)
	d.mu.Unlock()
	if err == nil && wait <= 0 {
		err = d.leaveMark(ctx, p)
	}
	was := d.away.Swap(err != nil)
	switch {
	case err == nil && was:
		d.Log.Info("records are dispatched again")
	case err != nil && errors.Is(err, backlog.ErrUnavailable) && !was:
		d.Log.Error("records wait: they cannot be dispatched now", "error", err)
	}
	_ = d.link.tell(d.Log, err)
	return p, wait, err
}

// redialEvery is how long a pass waits before it asks again for a broker that is away.
const redialEvery = 500 * time.Millisecond

// Closed implements [backlog.ClosingHandler]: nothing is taken from the table
// while the broker is away, or others may still handle what they were given.
func (d *Dispatch) Closed(ctx context.Context) (time.Duration, error) {
	_, wait, err := d.ready(ctx)
	if errors.Is(err, backlog.ErrUnavailable) {
		return redialEvery, nil
	}
	return max(0, wait), err
}

// mayBeOut reports whether an attempt of the record may be with a worker, or its outcome
// waits to be settled. d.mu must be held.
func (d *Dispatch) mayBeOut(hash uint64) bool {
	f := d.out[hash]
	return f != nil && time.Now().Before(f.until)
}
