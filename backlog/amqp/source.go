package amqp

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
)

// A Source is a RabbitMQ queue as a [backlog.Store]; its messages are the records. A success
// is acknowledged. A failure is published to the queue of its delay, or to the error queue
// after the last retry, and acknowledged when the broker has confirmed that. A crash in
// between leaves a copy of the message and never loses it.
//
// Methods may be called concurrently.
type Source struct {
	Settings

	// MaxMessages, if not 0, is how many ready messages are taken, one by one. Then the queue
	// counts as empty. With 0 the source waits for messages.
	MaxMessages int

	Log *slog.Logger // logs what has to be corrected at the broker; nil: no log

	sessions     sessionKeeper
	inspectOnly  bool // it neither declares nor consumes
	stopped      atomic.Bool
	isolatedMu   sync.Mutex                   // held while a message is published on a connection of its own
	consumeMu    sync.Mutex                   // held during calls on the channel that consumes
	pausedUntil  time.Time                    // guarded by consumeMu
	subscription atomic.Pointer[subscription] // nil with MaxMessages, and during a pause

	mu            sync.Mutex           // guards the following
	unacked       map[int]*unacked     // by Record.Origin
	keptOutcomes  map[int]*keptOutcome // outcomes that are not written yet; by Record.Origin
	redeliverable map[identity][]int   // Origins of the messages that were unacked when the session began
	deferred      map[int][]*unacked   // of a worker: requests for a row that is being handled, by the Origin of that
	runnable      []*unacked           // of a worker: deferred requests whose row is free again
	refusing      map[string]bool      // exchanges that have refused a message
	lastOrigin    int

	decodeRequest func(*unacked) (backlog.Record, error) // of a worker, else nil: makes a record of a request
}

var (
	_ backlog.Queue  = (*Source)(nil)
	_ backlog.Pinger = (*Source)(nil)

	_ backlog.Snoozer = (*Source)(nil)
	_ backlog.Snoozer = (*Worker)(nil)
)

// firstMessageWait is how long Pending waits for the first message of a page.
const firstMessageWait = time.Second

// Up reports whether the source is connected to the broker.
func (c *Source) Up() bool { return c.sessions.up() }

// open returns the session, whose queues are declared and whose consumer has begun. It opens a
// new one if the last has ended.
func (c *Source) open(ctx context.Context) (*session, error) {
	return c.sessions.open(ctx, c.Log, &c.Settings, func(sess *session) error {
		err := c.prepare(ctx, sess)
		if c.decodeRequest != nil && isMissing(err) {
			err = unavailable(fmt.Errorf("there is no queue %s yet; the daemon makes it when it dispatches its first record", c.Queue))
		}
		return err
	})
}

// prepare makes a new session ready: it declares the topology and begins to consume.
func (c *Source) prepare(ctx context.Context, sess *session) error {
	if c.inspectOnly {
		return nil
	}
	if c.decodeRequest == nil { // the daemon declares what a worker needs
		if err := sess.declare(ctx, c.Topology(sess.major), c.Declare); err != nil {
			return err
		}
	}
	sess.renewable.Store(c.decodeRequest == nil)
	c.expectRedeliveries()
	return onlyError(c.consume(ctx, sess))
}

// A subscription is the messages that the broker sends in a session. It begins with one
// consumer, which [Source.replaceConsumer] may replace by another.
type subscription struct {
	session    *session
	deliveries chan amqp.Delivery // closed when the last consumer has ended
	tag        string             // of the present consumer; guarded by Source.consumeMu

	replacements  int          // how often the consumer was replaced
	openConsumers atomic.Int64 // consumers that still forward to deliveries
}

// consumerEnded notes that one of the consumers forwards no more messages.
func (s *subscription) consumerEnded() {
	if s.openConsumers.Add(-1) == 0 {
		close(s.deliveries)
	}
}

// consume returns the subscription, which the first call begins. It returns nil while no
// messages are to be sent: with MaxMessages, after Stop, and in a pause.
func (c *Source) consume(ctx context.Context, sess *session) (*subscription, error) {
	c.consumeMu.Lock()
	defer c.consumeMu.Unlock()
	s := c.subscription.Load()
	if c.MaxMessages > 0 || s != nil || c.stopped.Load() || time.Now().Before(c.pausedUntil) {
		return s, nil
	}
	s = &subscription{session: sess, deliveries: make(chan amqp.Delivery, max(1, c.Prefetch)), tag: consumerTag}
	s.openConsumers.Add(1)
	if err := c.subscribe(ctx, s); err != nil {
		return nil, err
	}
	c.subscription.Store(s)
	return s, nil
}

// subscribe begins a consumer with the subscription's tag. c.consumeMu must be held.
func (c *Source) subscribe(ctx context.Context, s *subscription) error {
	sess := s.session
	return sess.withTimeout(ctx, func() error {
		if err := sess.consume.Qos(max(1, c.Prefetch), 0, false); err != nil {
			return explain(err)
		}
		list, err := sess.consume.Consume(c.Queue, s.tag, false, false, false, false, nil)
		if err == nil {
			go c.forward(s, list)
		}
		return explain(err)
	})
}

// consumerTag names the first consumer of a channel.
const consumerTag = "backlog"

// forward sends what a consumer receives to the subscription's channel. The channel holds as
// many messages as may be unacknowledged, so that a page gets all that have arrived. A
// redelivered message that this process is still working on goes no further. A request gets
// the time of its arrival.
func (c *Source) forward(s *subscription, list <-chan amqp.Delivery) {
	defer s.consumerEnded()
	for d := range list {
		if c.decodeRequest != nil {
			d.Timestamp = time.Now()
		} else if c.adoptRedelivery(s.session, &d) {
			continue
		}
		select {
		case s.deliveries <- d:
		case <-s.session.ctx.Done(): // the broker redelivers it
		}
	}
}

// Stop cancels the consumer for good, and requeues the messages that no page has taken.
func (c *Source) Stop() {
	c.stopped.Store(true)
	c.Pause(time.Now())
}

// Pause does what Stop does until the given time; then a page consumes again.
func (c *Source) Pause(until time.Time) {
	c.consumeMu.Lock()
	defer c.consumeMu.Unlock()
	c.pausedUntil = until
	s := c.subscription.Swap(nil)
	c.mu.Lock()
	waiting := c.runnable
	c.runnable = nil
	c.mu.Unlock()
	for _, u := range waiting {
		c.requeue(u)
	}
	if s == nil {
		return
	}
	sess := s.session
	_ = sess.withTimeout(context.Background(), func() error { return sess.consume.Cancel(s.tag, false) })
	for d := range s.deliveries {
		c.requeue(&unacked{Delivery: d, session: sess})
	}
}

// Open connects, declares the topology and begins to consume, as the first page would.
func (c *Source) Open(ctx context.Context) error { return onlyError(c.open(ctx)) }

// Close closes the connections. The broker redelivers what is not acknowledged. A later page
// connects again.
func (c *Source) Close() error {
	if sess := c.sessions.current(); sess != nil {
		sess.close()
	}
	c.forgetUnfinished()
	return nil
}

// Ping implements [backlog.Pinger]. It reports the state of the session and sends nothing.
func (c *Source) Ping(context.Context) error {
	if sess := c.sessions.current(); sess != nil {
		return c.sessions.logError(c.Log, sess.err())
	}
	return nil
}

// Pending implements [backlog.Store]. It waits a second for the first message. All messages
// are in the fresh lane.
func (c *Source) Pending(ctx context.Context, q backlog.Query) (page backlog.Page, err error) {
	if q.Lane != backlog.Fresh {
		return page, nil
	}
	sess, s, err := c.usableSession(ctx)
	if err != nil {
		return page, c.sessions.logError(c.Log, err)
	}
	page.More = true
	for len(page.Records) < q.Limit {
		u, err := c.next(ctx, sess, s, len(page.Records) == 0)
		if err != nil {
			// The session has ended: the broker redelivers the messages of this page.
			c.releaseAll(page.Records)
			return backlog.Page{}, c.sessions.logError(c.Log, err)
		}
		if u == nil {
			waitsForMessages := c.MaxMessages == 0 // otherwise the queue counts as empty now
			page.More = waitsForMessages
			break
		}
		rec, err := c.record(u)
		if err != nil {
			page.Unreadable = append(page.Unreadable, backlog.Unreadable{Key: backlog.NewKey(u.MessageId), Err: err})
			_ = u.Nack(false, false) // goes to the dead-letter exchange if the queue has one
			continue
		}
		isDeferred := !c.track(u, &rec)
		if !isDeferred {
			page.Records = append(page.Records, rec)
		}
	}
	return page, nil
}

// releaseAll gives back records that no handler was called for.
func (c *Source) releaseAll(records []backlog.Record) {
	for i := range records {
		c.Release(&records[i])
	}
}

// usableSession returns a session over which messages can be taken now, and its subscription,
// which may be nil, see [Source.consume].
func (c *Source) usableSession(ctx context.Context) (*session, *subscription, error) {
	sess, err := c.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := sess.err(); err != nil {
		return nil, nil, err
	}
	if err := c.checkRefused(sess); err != nil {
		return nil, nil, err
	}
	s, err := c.consume(ctx, sess)
	return sess, s, err
}

// record returns a delivery as a record.
func (c *Source) record(u *unacked) (backlog.Record, error) {
	if c.decodeRequest != nil {
		return c.decodeRequest(u)
	}
	i := c.identify(&u.Delivery)
	u.attempt = i.attempt(u.Headers)
	return c.recordOf(&u.Delivery, i), nil
}

// next returns the next delivery, nil if none has arrived. For the first of a page it waits.
func (c *Source) next(ctx context.Context, sess *session, s *subscription, first bool) (*unacked, error) {
	if c.MaxMessages > 0 {
		return c.get(ctx, sess)
	}
	if u := c.nextRunnable(); u != nil {
		return u, nil
	}
	if s == nil {
		s = new(subscription) // its nil channel delivers nothing
	}
	var d amqp.Delivery
	var ok bool
	select {
	case d, ok = <-s.deliveries:
	default:
		if !first {
			return nil, nil
		}
		select {
		case d, ok = <-s.deliveries:
		case <-time.After(firstMessageWait):
			return nil, nil
		case <-ctx.Done():
			return nil, nil
		}
	}
	if ok {
		return &unacked{Delivery: d, session: s.session}, nil
	}
	if c.subscription.Load() == s { // neither stopped nor paused
		return nil, sess.consumerCancelled(c.Queue)
	}
	return nil, nil
}

// get takes one more message from the queue, nil after MaxMessages of them or if the queue is empty.
func (c *Source) get(ctx context.Context, sess *session) (*unacked, error) {
	for c.lastOrigin < c.MaxMessages {
		c.consumeMu.Lock()
		d, ok, err := sess.get(context.WithoutCancel(ctx), c.Queue) // an abort would close the session, which messages at work need
		c.consumeMu.Unlock()
		if err != nil || !ok {
			return nil, err
		}
		if !c.adoptRedelivery(sess, &d) {
			return &unacked{Delivery: d, session: sess}, nil
		}
	}
	return nil, nil
}

const (
	// outagePause is how long Serve takes no messages after abort_after has ended a pass.
	outagePause = time.Minute
	// anyAge is the maximum age of a pass over a queue: no message is too old.
	anyAge = 100 * 365 * 24 * time.Hour
)

// PassOf returns a pass over a queue. The name stands for the tier in logs and reports.
func PassOf(name string) backlog.Pass { return backlog.Pass{Tier: name, MaxAge: anyAge} }

// Serve handles messages in passes of the engine, with name as their tier, until ctx is done
// or a pass returns an error. It closes the source, so that other consumers get the messages,
// while the engine is paused and for a minute after abort_after has ended a pass. The
// source's Log must be set.
func (s *Source) Serve(ctx context.Context, e *backlog.Engine, name string) error {
	for ctx.Err() == nil {
		report, err := e.Pass(ctx, PassOf(name))
		if err != nil {
			return err
		}
		switch report.Stopped {
		case backlog.StoppedAbortAfter:
			s.Close()
			s.Log.Warn("too many failures in a row: no message is taken for a while", "for", outagePause.String())
			backlog.Sleep(ctx, outagePause)
		case backlog.StoppedPause:
			s.Close()
			for e.Paused() && ctx.Err() == nil {
				backlog.Sleep(ctx, time.Second)
			}
		}
	}
	return nil
}
