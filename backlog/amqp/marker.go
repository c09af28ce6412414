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

// A marker is what this process knows of the mark queue. That queue exists while requests may
// be with workers. Its one message, the mark, names the process that has dispatched last.
type marker struct {
	exists  bool     // the queue exists; a clean end deletes it
	session *session // the session in which this process has written the mark
	owner   string   // the random name of this process; "": it has dispatched nothing yet
}

const markType = "backlog.mark.v1"

// takeOver finds out whether another process has left requests with workers. If so it purges
// the requests that no worker has taken, and lets nothing be dispatched for Bound. The session
// has the lock, and Bound begins now: another process could have had the lock until now, even
// if this process led before it lost its connection.
func (d *Dispatch) takeOver(ctx context.Context, sess *session) error {
	owner, exists, err := d.lastOwner(ctx, sess)
	if err != nil {
		return err
	}
	d.mu.Lock()
	markIsOurs := exists && d.mark.owner != "" && owner == d.mark.owner
	d.mark.exists = exists
	d.mu.Unlock()
	if !exists || markIsOurs {
		return nil
	}
	if err := sess.purge(ctx, workQueue(d.Name)); err != nil {
		return err
	}
	d.mu.Lock()
	d.holdUntil = time.Now().Add(d.Bound())
	d.mu.Unlock()
	d.Log.Warn("workers may still have records, since the last daemon did not end cleanly: nothing is dispatched until they are done", "for", d.Bound().String())
	return nil
}

// lastOwner returns the process that has dispatched last, "" if the mark queue is empty, and
// whether that queue exists.
func (d *Dispatch) lastOwner(ctx context.Context, sess *session) (owner string, exists bool, err error) {
	_, missing, err := sess.inspect(ctx, markQueue(d.Name))
	if err != nil || missing {
		return "", false, err
	}
	err = sess.withChannel(ctx, func(ch *amqp.Channel) error {
		m, found, err := ch.Get(markQueue(d.Name), false)
		if err != nil || !found {
			return err
		}
		owner = string(m.Body)
		return m.Nack(false, true)
	})
	return owner, true, queueError(markQueue(d.Name), err)
}

// writeMark writes, once in each session, the mark that requests of this process may be with
// workers.
func (d *Dispatch) writeMark(ctx context.Context, sess *session) error {
	d.markMu.Lock()
	defer d.markMu.Unlock()
	d.mu.Lock()
	if d.mark.owner == "" {
		d.mark.owner = rand.Text()
	}
	m := d.mark
	d.mu.Unlock()
	if m.session == sess {
		return nil
	}
	name := markQueue(d.Name)
	err := sess.declare(ctx, Topology{Queues: []Queue{{name, amqp.Table{"x-queue-type": "quorum"}}}}, "missing")
	if err != nil {
		return err
	}
	// After a crash at this point the queue is empty: every process takes the mark for another's.
	if err := sess.purge(ctx, name); err != nil {
		return err
	}
	p := amqp.Publishing{Body: []byte(m.owner), MessageId: m.owner, Type: markType, Timestamp: time.Now()}
	refused, err := sess.sendOne(ctx, message{"", name, p})
	if err != nil {
		return err
	}
	if refused != nil {
		return unavailable(fmt.Errorf("queue %s: %w", name, refused))
	}
	d.mu.Lock()
	d.mark.exists = true
	d.mark.session = sess
	d.mu.Unlock()
	return nil
}

// deleteMarkQueue deletes the mark queue, with the mark.
func (sess *session) deleteMarkQueue(dispatch string) error {
	const (
		ifUnused = false // consumers do not keep it
		ifEmpty  = false // messages do not keep it
		noWait   = false
	)
	err := sess.withChannel(context.Background(), func(ch *amqp.Channel) error {
		return onlyError(ch.QueueDelete(markQueue(dispatch), ifUnused, ifEmpty, noWait))
	})
	return explain(err) // nil if err is
}

// ready returns the session on which records may be dispatched, after wait. It logs when the
// broker becomes unavailable and when it is back.
func (d *Dispatch) ready(ctx context.Context) (sess *session, wait time.Duration, err error) {
	sess, err = d.open(ctx)
	if err == nil {
		err = sess.err()
	}
	d.mu.Lock()
	wait = time.Until(d.holdUntil)
	d.mu.Unlock()
	if err == nil && wait <= 0 {
		err = d.writeMark(ctx, sess)
	}
	before := d.unavailable.Swap(err != nil)
	switch {
	case err == nil && before:
		d.Log.Info("records are dispatched again")
	case err != nil && errors.Is(err, backlog.ErrUnavailable) && !before:
		d.Log.Error("records wait: they cannot be dispatched now", "error", err)
	}
	_ = d.sessions.logError(d.Log, err)
	return sess, wait, err
}

// redialPause is how long a pass waits before it asks again whether the broker is back.
const redialPause = 500 * time.Millisecond

// Closed implements [backlog.ClosingHandler]. No record is claimed while the broker is
// unavailable, or while workers may still have requests of another process.
func (d *Dispatch) Closed(ctx context.Context) (time.Duration, error) {
	_, wait, err := d.ready(ctx)
	if errors.Is(err, backlog.ErrUnavailable) {
		return redialPause, nil
	}
	return max(0, wait), err
}

// mayBeInFlight reports whether a worker may have an attempt of the record, or its outcome waits
// to be settled. d.mu must be held.
func (d *Dispatch) mayBeInFlight(hash uint64) bool {
	f := d.inFlight[hash]
	return f != nil && time.Now().Before(f.until)
}
