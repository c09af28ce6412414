package amqp

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// What the broker refuses ends a channel or a connection, and with it the confirms and
// acknowledgements of all others. So that is foreseen where it can be, and a message of
// which it cannot be said is published on a connection of its own.

// So many messages may be held whose outcome cannot be published, with so many bytes. Then no
// more messages are taken.
const (
	mostWaiting      = 100
	mostWaitingBytes = 256 << 20
)

// alone reports whether the message is to be published on a connection of its own: the
// broker may find it too large, or its exchange has refused another.
func (c *Source) alone(w *writing) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return w.suspect || c.doubtful[w.message.exchange] || int64(len(w.message.Body)) > w.session.taken.Load()
}

// publishAlone publishes the message of the outcome on a connection of its own.
func (c *Source) publishAlone(ctx context.Context, w *writing) {
	c.apart.Lock() // one at a time: it may be large
	defer c.apart.Unlock()
	w.err = c.tryAlone(ctx, w.session, w.message)
	if isMissing(w.err) && c.Declare != "never" {
		if err := w.session.declare(ctx, c.Topology(w.session.major), c.Declare); err == nil {
			w.err = c.tryAlone(ctx, w.session, w.message)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.err == nil {
		w.published = true
		delete(c.doubtful, w.message.exchange)
	} else {
		w.err = fmt.Errorf("exchange %s, routing key %s: %w", w.message.exchange, w.message.key, w.err)
	}
}

// tryAlone publishes a message once, not over the session p. An error says that the broker
// does not have it, or that this is unknown.
func (c *Source) tryAlone(ctx context.Context, p *session, m message) error {
	alone, err := dial(ctx, &c.Settings, "publish")
	if err != nil {
		return err
	}
	defer alone.close()
	errs, err := c.publish(ctx, alone, []message{m})
	if err == nil {
		err = errs[0]
	}
	if isMissing(err) || hasCode(err, amqp.AccessRefused) { // as it would any other message
		c.mu.Lock()
		c.doubtful[m.exchange] = true
		c.mu.Unlock()
	}
	if err == nil || errors.Is(err, errNacked) || errors.Is(err, errReturned) {
		p.took(len(m.Body))
	}
	return err
}

// took notes that the broker does not find a body of that size too large.
func (p *session) took(size int) {
	for old := p.taken.Load(); int64(size) > old; old = p.taken.Load() {
		if p.taken.CompareAndSwap(old, int64(size)) {
			return
		}
	}
}

// full returns an error when as many messages wait as may.
func (c *Source) full(p *session) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var n, bytes int
	var reason error
	for origin, e := range c.ended {
		if h := c.held[origin]; e.waits != nil && h.session == p {
			n++
			bytes += len(h.Body)
			reason = e.waits
		}
	}
	if n < mostWaiting && bytes < mostWaitingBytes {
		return nil
	}
	return unavailable(fmt.Errorf("%d messages are held that cannot be published, and no more are taken until one of them can; the last: %w", n, reason))
}

// refused notes why the outcome of a message cannot be published. The message is held, and
// another is taken in its place. c.mu must be held.
func (c *Source) refused(e *ended, h *held, err error) {
	if e.waits == nil {
		go c.takeAnother(h.session)
	}
	e.waits = err
}

// takeAnother begins another consumer in place of the present one: messages that the old
// one was given do not count towards what the new one may have unacknowledged.
func (c *Source) takeAnother(p *session) {
	c.calling.Lock()
	defer c.calling.Unlock()
	s := c.stream.Load()
	if s == nil || s.session != p || p.over() {
		return
	}
	old := s.tag
	s.consumers++
	s.tag = fmt.Sprint(consumerTag, s.consumers)
	s.feeds.Add(1)
	err := p.within(p.ctx, func() error { return p.consume.Cancel(old, false) })
	if err == nil {
		err = c.subscribe(p.ctx, s)
	}
	if err != nil {
		p.end(err)
		s.fed()
	}
}
