package amqp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
)

// A Source is a queue as a [backlog.Store]: its messages are records, a success is
// acknowledged, a failure is published to the queue of its delay and, after the last,
// to the error queue, and only then acknowledged. A crash between makes a copy of it and
// loses none. Methods may be called concurrently.
type Source struct {
	Settings

	// Most, if not 0, is how many ready messages are taken, one by one; then the queue is
	// as empty. Else messages are waited for.
	Most int

	Log *slog.Logger // of what somebody must mend at the broker; nil: none

	link     link
	looks    bool // at queues, and neither declares nor consumes
	stopped  atomic.Bool
	mu       sync.Mutex           // guards what follows
	messages <-chan amqp.Delivery // nil with Most, and until resume
	resume   time.Time            // no messages are taken before
	held     map[int]*held        // by Record.Origin
	last     int

	read func(*held) (backlog.Record, error) // of a worker: makes a record of a request
}

// A held is a message that is not acknowledged.
type held struct {
	amqp.Delivery
	session *session
	request request // of a worker
	done    bool    // acknowledged, while others of its group are not, or by the worker
}

// releaseAfter is how long a message that was skipped waits before the broker gives it
// again.
const releaseAfter = time.Second

// waitFor is how long a page waits for its first message.
const waitFor = time.Second

var errSessionLost = fmt.Errorf("%w: the connection was lost, and the broker gives the message again", backlog.ErrConflict)

// Up reports whether there is a connection to the broker.
func (c *Source) Up() bool { return c.link.up() }

// open returns the session, a new one if need be, which has the queues.
func (c *Source) open(ctx context.Context) (*session, error) {
	return c.link.open(ctx, c.Log, &c.Settings, func(p *session) error {
		err := c.prepare(ctx, p)
		if c.read != nil && isMissing(err) {
			err = unavailable(fmt.Errorf("there is no queue %s yet; the daemon makes it when it dispatches its first record", c.Queue))
		}
		return err
	})
}

// prepare declares what is to be declared, and has messages sent.
func (c *Source) prepare(ctx context.Context, p *session) error {
	if c.looks {
		return nil
	}
	if c.read == nil { // what a worker needs is the daemon's to declare
		if err := p.declare(ctx, c.Topology(p.major), c.Declare); err != nil {
			return err
		}
	}
	c.mu.Lock()
	c.held, c.messages = make(map[int]*held), nil
	c.mu.Unlock()
	return errorOf(c.consume(ctx, p))
}

// consume has messages sent, unless it is too early, and returns them; nil: none come now.
func (c *Source) consume(ctx context.Context, p *session) (<-chan amqp.Delivery, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Most > 0 || c.messages != nil || c.stopped.Load() || time.Now().Before(c.resume) {
		return c.messages, nil
	}
	err := p.within(ctx, func() error {
		err := p.consume.Qos(max(1, c.Prefetch), 0, false)
		if err == nil {
			c.messages, err = p.consume.Consume(c.Queue, consumerTag, false, false, false, false, nil)
		}
		if err == nil {
			c.messages = buffered(c.messages, max(1, c.Prefetch), c.read != nil)
		}
		return worded(err)
	})
	return c.messages, err
}

// consumerTag names the one consumer of a channel.
const consumerTag = "backlog"

// buffered passes messages on, so that a page takes all that have come: at most so many
// are not acknowledged. With stamp they have the time of their arrival.
func buffered(list <-chan amqp.Delivery, most int, stamp bool) <-chan amqp.Delivery {
	out := make(chan amqp.Delivery, most)
	go func() {
		defer close(out)
		for d := range list {
			if stamp {
				d.Timestamp = time.Now()
			}
			out <- d
		}
	}()
	return out
}

// Stop has no more messages sent, and gives back those that no page has taken.
func (c *Source) Stop() {
	c.stopped.Store(true)
	c.Pause(time.Now())
}

// Pause is Stop until then.
func (c *Source) Pause(until time.Time) {
	p := c.link.current()
	c.mu.Lock()
	list := c.messages
	c.messages, c.resume = nil, until
	c.mu.Unlock()
	if p == nil || list == nil {
		return
	}
	_ = p.within(context.Background(), func() error { return p.consume.Cancel(consumerTag, false) })
	for d := range list {
		_ = d.Nack(false, true)
	}
}

// Open connects and declares, as the first page would.
func (c *Source) Open(ctx context.Context) error { return errorOf(c.open(ctx)) }

// Close ends the connections. The broker gives again what is not acknowledged. A later
// page connects anew.
func (c *Source) Close() error {
	c.link.close()
	return nil
}

// Ping implements the method that the engine looks for.
func (c *Source) Ping(context.Context) error {
	if p := c.link.current(); p != nil {
		return c.link.tell(c.Log, p.err())
	}
	return nil
}

// Pending implements [backlog.Store]. It waits a second for a message.
func (c *Source) Pending(ctx context.Context, q backlog.Query) (page backlog.Page, err error) {
	if q.Lane != backlog.Fresh {
		return page, nil
	}
	p, err := c.open(ctx)
	if err == nil {
		err = p.err()
	}
	var list <-chan amqp.Delivery
	if err == nil {
		list, err = c.consume(ctx, p)
	}
	if err != nil {
		return page, c.link.tell(c.Log, err)
	}
	page.More = true
	for len(page.Records) < q.Limit {
		d, ok, err := c.next(ctx, p, list, len(page.Records) == 0)
		if err != nil {
			return backlog.Page{}, c.link.tell(c.Log, err)
		}
		if !ok {
			page.More = c.Most == 0
			break
		}
		h := &held{Delivery: d, session: p}
		var rec backlog.Record
		if c.read == nil {
			rec = recordOf(&d)
		} else if rec, err = c.read(h); err != nil {
			page.Unreadable = append(page.Unreadable, backlog.Unreadable{Key: backlog.NewKey(d.MessageId), Err: err})
			_ = d.Nack(false, false) // where the queue has a place for these, it goes there
			continue
		}
		c.mu.Lock()
		c.last++
		c.held[c.last] = h
		rec.Origin = c.last
		c.mu.Unlock()
		page.Records = append(page.Records, rec)
	}
	return page, nil
}

// next returns the next message of the list, if there is one; the first is waited for.
func (c *Source) next(ctx context.Context, p *session, list <-chan amqp.Delivery, first bool) (d amqp.Delivery, ok bool, err error) {
	if c.Most > 0 {
		if c.last == c.Most {
			return d, false, nil
		}
		return p.get(context.WithoutCancel(ctx), c.Queue) // what is being handled needs the session
	}
	select {
	case d, ok = <-list:
	default:
		if !first {
			return d, false, nil
		}
		select {
		case d, ok = <-list:
		case <-time.After(waitFor):
			return d, false, nil
		case <-ctx.Done():
			return d, false, nil
		}
	}
	if ok {
		return d, true, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.messages == list { // neither stopped nor paused
		err = p.cancelled(c.Queue)
	}
	return d, false, err
}

// take returns the message of the record, unless its session is over.
func (c *Source) take(r *backlog.Record) (*held, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.held[r.Origin]
	if h == nil || h.session.over() {
		return nil, errSessionLost
	}
	return h, nil
}

// Release implements the method that the engine looks for.
func (c *Source) Release(r *backlog.Record) {
	h, err := c.take(r)
	if err != nil {
		return
	}
	c.mu.Lock()
	delete(c.held, r.Origin)
	c.mu.Unlock()
	if !h.done {
		time.AfterFunc(releaseAfter, func() { _ = h.Nack(false, true) }) // else its session ends
	}
}

// Settle implements [backlog.Store]. What the broker does not take is tried again.
func (c *Source) Settle(ctx context.Context, group []backlog.Settlement) (left []backlog.Unsettled, err error) {
	var list []message
	var of []int // the settlement of each
	taken := make([]*held, len(group))
	for i, s := range group {
		h, err := c.take(s.Record)
		if err != nil {
			left = append(left, backlog.Unsettled{Index: i, Err: err})
			continue
		}
		taken[i] = h
		if !h.done && s.Target != backlog.RowSuccess {
			list, of = append(list, c.message(h, s)), append(of, i)
		}
	}
	var refused error
	if len(list) > 0 {
		errs, err := c.publish(ctx, taken[of[0]].session, list)
		if err != nil && !taken[of[0]].session.over() {
			return nil, c.link.tell(c.Log, unavailable(err))
		}
		for k, i := range of {
			if err != nil { // whether the broker has the copies is unknown, and it gives the messages again
				_ = taken[i].Nack(false, true) // if it is of a newer session
				left, taken[i] = append(left, backlog.Unsettled{Index: i, Err: errSessionLost}), nil
			} else if errs[k] != nil {
				taken[i], refused = nil, fmt.Errorf("exchange %s, routing key %s: %w", list[k].exchange, list[k].key, errs[k])
			}
		}
	}
	for i, h := range taken {
		if h == nil || h.done {
			continue
		}
		if err := h.Ack(false); err != nil {
			left = append(left, backlog.Unsettled{Index: i, Err: errSessionLost})
		}
		h.done = true
	}
	if refused != nil {
		return nil, c.link.tell(c.Log, unavailable(refused))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range group {
		delete(c.held, group[i].Record.Origin)
	}
	return left, nil
}

// message returns what is published for a failure.
func (c *Source) message(h *held, s backlog.Settlement) message {
	if s.Target == backlog.RowDead {
		return message{c.errorExchange(), h.RoutingKey, c.failed(&h.Delivery, s)}
	}
	p := again(&h.Delivery)
	d := c.delay(min(s.Failures.Count, c.Sneakers.MaxRetries))
	p.Headers["backoff"], p.Headers["count"] = d, int64(s.Failures.Count)
	return message{c.backoffExchange(), c.backKey(h.RoutingKey), p}
}

// publish is send, but what no queue takes is published once more, when its queue has been
// declared.
func (c *Source) publish(ctx context.Context, p *session, list []message) (errs []error, err error) {
	errs, err = p.send(ctx, list)
	if err != nil {
		return nil, err
	}
	declared := false
	for i, e := range errs {
		if errors.Is(e, errReturned) {
			if !declared && c.Declare != "never" {
				declared = true
				if err := p.declare(ctx, c.Topology(p.major), c.Declare); err != nil {
					return nil, err
				}
			}
			if errs[i], err = p.post(ctx, list[i]); err != nil {
				return nil, err
			}
		}
	}
	return errs, nil
}
