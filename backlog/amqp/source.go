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
	apart    sync.Mutex             // held while there is a connection for one message
	calling  sync.Mutex             // held while the channel to consume on is asked for something
	resume   time.Time              // no messages are taken before; calling guards it
	stream   atomic.Pointer[stream] // nil with Most, and until resume
	mu       sync.Mutex             // guards what follows
	held     map[int]*held          // by Record.Origin
	ended    map[int]*ended
	orphans  map[identity][]int // those that were held when the session began; some may have come again since
	behind   map[int][]*held    // of a worker: requests for a record that is still at work
	freed    []*held            // likewise, for which nothing is at work any more
	doubtful map[string]bool    // exchanges that have refused a message
	last     int

	read func(*held) (backlog.Record, error) // of a worker: makes a record of a request
}

var (
	_ backlog.Queue  = (*Source)(nil)
	_ backlog.Pinger = (*Source)(nil)
)

// waitFor is how long a page waits for its first message.
const waitFor = time.Second

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
	p.gentle.Store(c.read == nil)
	c.expectAgain()
	return errorOf(c.consume(ctx, p))
}

// A stream is the messages that the broker sends over a session.
type stream struct {
	session *session
	list    chan amqp.Delivery // closed: the consumer has ended
	tag     string             // of the consumer; Source.calling must be held

	consumers int          // after the first
	feeds     atomic.Int64 // consumers whose messages come to the list
}

// fed notes that no more comes of a consumer.
func (s *stream) fed() {
	if s.feeds.Add(-1) == 0 {
		close(s.list)
	}
}

// consume has messages sent, unless it is too early, and returns them; nil: none come now.
func (c *Source) consume(ctx context.Context, p *session) (*stream, error) {
	c.calling.Lock()
	defer c.calling.Unlock()
	s := c.stream.Load()
	if c.Most > 0 || s != nil || c.stopped.Load() || time.Now().Before(c.resume) {
		return s, nil
	}
	s = &stream{session: p, list: make(chan amqp.Delivery, max(1, c.Prefetch)), tag: consumerTag}
	s.feeds.Add(1)
	if err := c.subscribe(ctx, s); err != nil {
		return nil, err
	}
	c.stream.Store(s)
	return s, nil
}

// subscribe begins the consumer that the tag names. c.calling must be held.
func (c *Source) subscribe(ctx context.Context, s *stream) error {
	p := s.session
	return p.within(ctx, func() error {
		if err := p.consume.Qos(max(1, c.Prefetch), 0, false); err != nil {
			return worded(err)
		}
		list, err := p.consume.Consume(c.Queue, s.tag, false, false, false, false, nil)
		if err == nil {
			go c.feed(s, list)
		}
		return worded(err)
	})
}

// consumerTag names the first consumer of a channel.
const consumerTag = "backlog"

// feed passes messages on, so that a page takes all that have come: at most so many
// are not acknowledged. What is still at work goes no further, and a request has the time
// of its arrival.
func (c *Source) feed(s *stream, list <-chan amqp.Delivery) {
	defer s.fed()
	for d := range list {
		if c.read != nil {
			d.Timestamp = time.Now()
		} else if c.adopt(s.session, &d) {
			continue
		}
		select {
		case s.list <- d:
		case <-s.session.ctx.Done(): // the broker gives it again
		}
	}
}

// Stop has no more messages sent, and gives back those that no page has taken.
func (c *Source) Stop() {
	c.stopped.Store(true)
	c.Pause(time.Now())
}

// Pause is Stop until then.
func (c *Source) Pause(until time.Time) {
	c.calling.Lock()
	defer c.calling.Unlock()
	c.resume = until
	s := c.stream.Swap(nil)
	c.mu.Lock()
	freed := c.freed
	c.freed = nil
	c.mu.Unlock()
	for _, h := range freed {
		c.giveBack(h)
	}
	if s == nil {
		return
	}
	p := s.session
	_ = p.within(context.Background(), func() error { return p.consume.Cancel(s.tag, false) })
	for d := range s.list {
		c.giveBack(&held{Delivery: d, session: p})
	}
}

// Open connects and declares, as the first page would.
func (c *Source) Open(ctx context.Context) error { return errorOf(c.open(ctx)) }

// Close ends the connections. The broker gives again what is not acknowledged. A later
// page connects anew.
func (c *Source) Close() error {
	if p := c.link.current(); p != nil {
		p.close()
	}
	c.abandon()
	return nil
}

// Ping implements [backlog.Pinger].
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
	if err == nil {
		err = c.full(p)
	}
	var s *stream
	if err == nil {
		s, err = c.consume(ctx, p)
	}
	if err != nil {
		return page, c.link.tell(c.Log, err)
	}
	page.More = true
	for len(page.Records) < q.Limit {
		h, err := c.next(ctx, p, s, len(page.Records) == 0)
		if err != nil {
			for i := range page.Records { // else they would take the place of the same messages when these come again
				c.Release(&page.Records[i])
			}
			return backlog.Page{}, c.link.tell(c.Log, err)
		}
		if h == nil {
			page.More = c.Most == 0
			break
		}
		rec, err := c.record(h)
		if err != nil {
			page.Unreadable = append(page.Unreadable, backlog.Unreadable{Key: backlog.NewKey(h.MessageId), Err: err})
			_ = h.Nack(false, false) // where the queue has a place for these, it goes there
		} else if c.hold(h, &rec) {
			page.Records = append(page.Records, rec)
		}
	}
	return page, nil
}

// record returns the message as a record.
func (c *Source) record(h *held) (backlog.Record, error) {
	if c.read != nil {
		return c.read(h)
	}
	i := c.identify(&h.Delivery)
	h.attempt = i.attempt(h.Headers)
	return c.recordOf(&h.Delivery, i), nil
}

// next returns the next message, nil if there is none; the first is waited for.
func (c *Source) next(ctx context.Context, p *session, s *stream, first bool) (*held, error) {
	if c.Most > 0 {
		return c.get(ctx, p)
	}
	if h := c.nextFreed(); h != nil {
		return h, nil
	}
	if s == nil {
		s = new(stream) // of which nothing comes
	}
	var d amqp.Delivery
	var ok bool
	select {
	case d, ok = <-s.list:
	default:
		if !first {
			return nil, nil
		}
		select {
		case d, ok = <-s.list:
		case <-time.After(waitFor):
			return nil, nil
		case <-ctx.Done():
			return nil, nil
		}
	}
	if ok {
		return &held{Delivery: d, session: s.session}, nil
	}
	if c.stream.Load() == s { // neither stopped nor paused
		return nil, p.cancelled(c.Queue)
	}
	return nil, nil
}

// get takes one message more, unless it was the last.
func (c *Source) get(ctx context.Context, p *session) (*held, error) {
	for c.last < c.Most {
		c.calling.Lock()
		d, ok, err := p.get(context.WithoutCancel(ctx), c.Queue) // what is being handled needs the session
		c.calling.Unlock()
		if err != nil || !ok {
			return nil, err
		}
		if !c.adopt(p, &d) {
			return &held{Delivery: d, session: p}, nil
		}
	}
	return nil, nil
}
