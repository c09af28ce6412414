package amqp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"backlog/backlog"
)

// A writing is an outcome on its way to the broker.
type writing struct {
	*held
	backlog.Settlement
	message   message // what is published for it, if anything is
	published bool    // the broker has it
	suspect   bool    // a connection was lost while it was published
	err       error   // why it is not settled
}

// Settle implements [backlog.Store]. An outcome whose message has to come again, since the
// connection was lost, counts as settled: it is kept until then. One that the broker does
// not take is returned, and published later: nothing else waits for it.
func (c *Source) Settle(ctx context.Context, group []backlog.Settlement) (left []backlog.Unsettled, err error) {
	var list []*writing
	c.mu.Lock()
	for _, s := range group {
		list = append(list, &writing{held: c.held[s.Record.Origin], Settlement: s})
	}
	c.mu.Unlock()
	c.write(ctx, list)
	c.write(ctx, c.cameAgain(list))
	if ctx.Err() != nil && slices.ContainsFunc(list, func(w *writing) bool { return w.err != nil }) {
		return nil, unavailable(context.Cause(ctx))
	}
	for i, w := range list {
		if err := c.written(w); err != nil {
			left = append(left, backlog.Unsettled{Index: i, Err: err})
		}
	}
	return left, nil
}

// cameAgain returns those whose session was lost and whose messages have come again since,
// to be written anew.
func (c *Source) cameAgain(list []*writing) (again []*writing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range list {
		h := c.held[w.Record.Origin]
		if errors.Is(w.err, errSessionLost) && h != w.held {
			w.held = h
			w.err = nil
			again = append(again, w)
		}
	}
	return again
}

// write publishes what the outcomes publish, and acknowledges the messages for which the
// broker has it.
func (c *Source) write(ctx context.Context, list []*writing) {
	var batch []*writing
	for _, w := range list {
		switch {
		case w.held == nil || w.session.over():
			w.err = errSessionLost
		case w.done || w.published || w.Target == backlog.RowSuccess:
		default:
			w.message, w.err = c.message(w.held, w.Settlement)
			switch {
			case w.err != nil:
			case c.alone(w):
				c.publishAlone(ctx, w)
			default:
				batch = append(batch, w)
			}
		}
	}
	c.publishAll(ctx, batch)
	for _, w := range list {
		if w.err == nil && !w.done {
			w.done = w.Ack(false) == nil
			if !w.done {
				w.err = errSessionLost
			}
		}
	}
}

// publishAll publishes the messages of the batch, whose session is one.
func (c *Source) publishAll(ctx context.Context, batch []*writing) {
	if len(batch) == 0 {
		return
	}
	var list []message
	for _, w := range batch {
		list = append(list, w.message)
	}
	errs, err := c.publish(ctx, batch[0].session, list)
	for i, w := range batch {
		switch {
		case err != nil && w.session.over():
			w.err = errSessionLost // whether the broker has it is unknown
			w.suspect = true
		case err != nil:
			w.err = err
		case errors.Is(errs[i], errUnknown):
			c.publishAlone(ctx, w)
		case errs[i] != nil:
			w.err = fmt.Errorf("exchange %s, routing key %s: %w", w.message.exchange, w.message.key, errs[i])
		default:
			w.published = true
		}
	}
}

// written takes note of what has become of an outcome, and returns the error for the
// engine.
func (c *Source) written(w *writing) error {
	origin := w.Record.Origin
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.held == nil {
		return errSessionLost
	}
	if w.err == nil || c.Most > 0 && errors.Is(w.err, errSessionLost) && c.held[origin] == w.held {
		c.forget(origin)
		return w.err
	}
	e := &ended{Settlement: w.Settlement, id: w.Record.Key.String(), at: time.Now(), published: w.published, suspect: w.suspect}
	c.ended[origin] = e
	if errors.Is(w.err, errSessionLost) {
		if c.held[origin] != w.held { // it has come again
			go c.insist(origin)
		} else {
			c.held[origin] = &held{session: w.session, attempt: w.attempt} // without its body
		}
		return nil
	}
	c.refused(e, w.held, w.err)
	go c.insist(origin)
	return w.err
}

// insist settles an outcome that was kept, however long the broker does not take it, until
// the session is over.
func (c *Source) insist(origin int) {
	c.mu.Lock()
	h, e := c.held[origin], c.ended[origin]
	c.mu.Unlock()
	for pause := time.Second; h != nil && e != nil; pause = min(2*pause, time.Minute) {
		if c.waits(e) && !backlog.Sleep(h.session.ctx, pause) {
			return
		}
		if c.insistOnce(origin, h, e) {
			return
		}
	}
}

// waits reports whether the broker has refused the outcome.
func (c *Source) waits(e *ended) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.waits != nil
}

// insistOnce tries once, and reports whether that is all that can be done with this delivery.
// It waits for an attempt that was begun with the last one: the broker may take that.
func (c *Source) insistOnce(origin int, h *held, e *ended) (done bool) {
	e.writing.Lock()
	defer e.writing.Unlock()
	c.mu.Lock()
	current := c.held[origin] == h
	c.mu.Unlock()
	if !current || h.session.over() {
		return true
	}
	w := &writing{held: h, Settlement: e.Settlement, published: e.published, suspect: e.suspect || c.waits(e)}
	// What is published on a connection of its own goes on when the session ends: else it
	// would be unknown whether the broker has it.
	ctx, cancel := context.WithTimeout(context.Background(), lateWithin)
	defer cancel()
	c.write(ctx, []*writing{w})
	return c.insisted(origin, e, w)
}

// lateWithin is how long the broker may take for an outcome that was kept.
const lateWithin = 5 * time.Minute

// insisted takes note of what has become of an outcome that was kept, and reports whether
// that is all that can be done over this session.
func (c *Source) insisted(origin int, e *ended, w *writing) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.published = w.published
	e.suspect = w.suspect
	switch {
	case w.err == nil:
		if c.Log != nil && e.waits != nil {
			c.Log.Info("an outcome that waited is published", "id", e.id, "outcome", e.Target.String())
		}
		c.forget(origin)
		return true
	case errors.Is(w.err, errSessionLost) || w.session.over():
		return true
	}
	if c.Log != nil && (e.waits == nil || e.waits.Error() != w.err.Error()) {
		c.Log.Error("the outcome cannot be published for now; the message is held, and this process does not handle it again", "id", e.id, "outcome", e.Target.String(), "error", w.err)
	}
	c.refused(e, w.held, w.err)
	return false
}

// message returns what is published for a failure, an error where that would end the
// connection.
func (c *Source) message(h *held, s backlog.Settlement) (m message, err error) {
	key := firstKey(&h.Delivery)
	if s.Target == backlog.RowDead {
		m = message{c.errorExchange(), key, c.failed(&h.Delivery, s)}
		err = h.session.foresee(&m, 0)
		if err != nil && c.Sneakers.ErrorBody == "json" {
			m.Headers = nil // the properties in the body have them
			err = h.session.foresee(&m, 0)
		}
		return m, err
	}
	p := c.back(&h.Delivery)
	d := c.delay(min(s.Memory.Failed(), c.Sneakers.MaxRetries))
	p.Headers["backoff"], p.Headers["count"] = d, int64(s.Memory.Failed())
	m = message{c.backoffExchange(), c.backKey(key), p}
	queue := fmt.Sprint(m.exchange, "-", d)
	return m, h.session.foresee(&m, deathSize(queue, m.exchange, m.key))
}

// publish is send, but what no queue takes is published once more, when its queue has been
// declared.
func (c *Source) publish(ctx context.Context, p *session, list []message) (errs []error, err error) {
	errs, err = p.send(ctx, list)
	if err != nil {
		return nil, err
	}
	for i, m := range list {
		if !errors.Is(errs[i], errUnknown) {
			p.took(len(m.Body))
		}
	}
	if c.Declare != "never" && slices.Contains(errs, errReturned) {
		if err := p.declare(ctx, c.Topology(p.major), c.Declare); err != nil {
			return nil, err
		}
	}
	for i, m := range list {
		if errs[i] == errReturned {
			errs[i], err = p.post(ctx, m)
		}
		if err != nil {
			return nil, err
		}
	}
	return errs, nil
}
