package amqp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"backlog/backlog"
)

// An outcomeWrite is one try to write an outcome to the broker.
type outcomeWrite struct {
	*unacked // nil: the message has been forgotten
	backlog.Settlement
	message   message // what is published for it; unused for a success
	published bool    // the broker has confirmed the message
	suspect   bool    // as in keptOutcome
	err       error   // why it is not settled
}

// Settle implements [backlog.Store]. If the connection was lost, an outcome counts as settled:
// it is kept until the broker redelivers its message. An outcome that the broker refuses is
// returned as unsettled, and retried until the broker takes it. No other outcome waits for it.
func (c *Source) Settle(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	var list []*outcomeWrite
	c.mu.Lock()
	for _, s := range group {
		list = append(list, &outcomeWrite{unacked: c.unacked[s.Record.Origin], Settlement: s})
	}
	c.mu.Unlock()
	c.publishAndAck(ctx, list)
	c.publishAndAck(ctx, c.redelivered(list))
	failed := func(w *outcomeWrite) bool { return w.err != nil }
	if ctx.Err() != nil && slices.ContainsFunc(list, failed) {
		return nil, unavailable(context.Cause(ctx))
	}
	var unsettled []backlog.Unsettled
	for i, w := range list {
		if err := c.noteResult(w); err != nil {
			unsettled = append(unsettled, backlog.Unsettled{Index: i, Err: err})
		}
	}
	return unsettled, nil
}

// redelivered returns the writes that have failed because their session ended, and whose
// messages have been redelivered since. They can be tried again on the new delivery.
func (c *Source) redelivered(list []*outcomeWrite) (again []*outcomeWrite) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range list {
		u := c.unacked[w.Record.Origin]
		if errors.Is(w.err, errSessionLost) && u != w.unacked {
			w.unacked = u
			w.err = nil
			again = append(again, w)
		}
	}
	return again
}

// publishAndAck publishes what each outcome publishes, and acknowledges the original message
// when the broker has confirmed that. It leaves in err why an outcome could not be written.
func (c *Source) publishAndAck(ctx context.Context, list []*outcomeWrite) {
	var batch []*outcomeWrite
	for _, w := range list {
		switch {
		case w.unacked == nil || w.session.ended():
			w.err = errSessionLost
		case w.acked || w.published || w.Target == backlog.RowSuccess: // nothing to publish
		default:
			w.message, w.err = c.outcomeMessage(w.unacked, w.Settlement)
			switch {
			case w.err != nil:
			case c.needsOwnConnection(w):
				c.publishIsolated(ctx, w)
			default:
				batch = append(batch, w)
			}
		}
	}
	c.publishAll(ctx, batch)
	for _, w := range list {
		if w.err == nil && !w.acked {
			w.acked = w.Ack(false) == nil
			if !w.acked {
				w.err = errSessionLost
			}
		}
	}
}

// publishAll publishes the messages of a batch, which have the same session.
func (c *Source) publishAll(ctx context.Context, batch []*outcomeWrite) {
	if len(batch) == 0 {
		return
	}
	var list []message
	for _, w := range batch {
		list = append(list, w.message)
	}
	errs, err := c.publishDeclared(ctx, batch[0].session, list)
	for i, w := range batch {
		switch {
		case err != nil && w.session.ended():
			w.err = errSessionLost // it is unknown whether the broker has it
			w.suspect = true
		case err != nil:
			w.err = err
		case errors.Is(errs[i], errUnconfirmed):
			c.publishIsolated(ctx, w)
		case errs[i] != nil:
			w.err = fmt.Errorf("exchange %s, routing key %s: %w", w.message.exchange, w.message.key, errs[i])
		default:
			w.published = true
		}
	}
}

// noteResult forgets the message of an outcome that was written, keeps the outcome otherwise,
// and returns the error for the engine.
func (c *Source) noteResult(w *outcomeWrite) error {
	origin := w.Record.Origin
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.unacked == nil {
		return errSessionLost
	}
	sessionLost := errors.Is(w.err, errSessionLost)
	awaitsRedelivery := sessionLost && c.unacked[origin] == w.unacked
	isDropped := awaitsRedelivery && c.MaxMessages > 0 // then nothing waits for a redelivery
	if w.err == nil || isDropped {
		c.forget(origin)
		return w.err
	}
	kept := &keptOutcome{Settlement: w.Settlement, id: w.Record.Key.String(), endedAt: time.Now(), published: w.published, suspect: w.suspect}
	c.keptOutcomes[origin] = kept
	switch {
	case awaitsRedelivery:
		c.unacked[origin] = &unacked{session: w.session, attempt: w.attempt} // without the body, to save memory
		return nil
	case sessionLost: // it has been redelivered already
		go c.retryOutcome(origin)
		return nil
	}
	c.noteRefusal(kept, w.unacked, w.err)
	go c.retryOutcome(origin)
	return w.err
}

// retryOutcome writes a kept outcome to the message's present delivery. While the broker
// refuses it, it tries again after growing pauses, until the session ends.
func (c *Source) retryOutcome(origin int) {
	c.mu.Lock()
	u := c.unacked[origin]
	kept := c.keptOutcomes[origin]
	c.mu.Unlock()
	for pause := time.Second; u != nil && kept != nil; pause = min(2*pause, time.Minute) {
		if c.isRefused(kept) && !backlog.Sleep(u.session.ctx, pause) {
			return
		}
		if c.retryOutcomeOnce(origin, u, kept) {
			return
		}
	}
}

// isRefused reports whether the broker has refused the outcome.
func (c *Source) isRefused(kept *keptOutcome) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return kept.refusal != nil
}

// retryOutcomeOnce tries once, and returns true if nothing more can be done with this delivery:
// the outcome is written, or the session has ended. It waits for a try on the previous
// delivery that is still running, since that may succeed.
func (c *Source) retryOutcomeOnce(origin int, u *unacked, kept *keptOutcome) (done bool) {
	kept.retrying.Lock()
	defer kept.retrying.Unlock()
	c.mu.Lock()
	current := c.unacked[origin] == u
	c.mu.Unlock()
	if !current || u.session.ended() {
		return true
	}
	w := &outcomeWrite{unacked: u, Settlement: kept.Settlement, published: kept.published, suspect: kept.suspect || c.isRefused(kept)}
	// Not the session's context: a publish on a connection of its own must end with an answer
	// even if the session ends.
	ctx, cancel := context.WithTimeout(context.Background(), retryTimeout)
	defer cancel()
	c.publishAndAck(ctx, []*outcomeWrite{w})
	return c.noteRetry(origin, kept, w)
}

// retryTimeout bounds one try to write a kept outcome.
const retryTimeout = 5 * time.Minute

// noteRetry notes and logs the result of a retry. It returns true if nothing more can be done in
// this session.
func (c *Source) noteRetry(origin int, kept *keptOutcome, w *outcomeWrite) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept.published = w.published
	kept.suspect = w.suspect
	switch {
	case w.err == nil:
		if c.Log != nil && kept.refusal != nil {
			c.Log.Info("an outcome that waited is published", "id", kept.id, "outcome", kept.Target.String())
		}
		c.forget(origin)
		return true
	case errors.Is(w.err, errSessionLost) || w.session.ended():
		return true
	}
	if c.Log != nil && (kept.refusal == nil || kept.refusal.Error() != w.err.Error()) {
		c.Log.Error("the outcome cannot be published for now; the message is held, and this process does not handle it again", "id", kept.id, "outcome", kept.Target.String(), "error", w.err)
	}
	c.noteRefusal(kept, w.unacked, w.err)
	return false
}

// KeepsSnooze implements [backlog.Snoozer]: a snoozed message waits in one of the queues for delays.
func (c *Source) KeepsSnooze(*backlog.Record) bool { return c.Sneakers.MaxRetries > 0 }

// outcomeMessage returns what is published for a failure or a snooze: a message for the error queue
// if the record is dead, else one for the queue of its delay. It returns an error for a message for
// which the broker or the client would close the connection.
func (c *Source) outcomeMessage(u *unacked, s backlog.Settlement) (m message, err error) {
	key := originalKey(&u.Delivery)
	if s.Target == backlog.RowDead {
		m = message{c.errorExchange(), key, c.errorMessage(&u.Delivery, s)}
		err = u.session.checkPublishable(&m, 0)
		if err != nil && c.Sneakers.ErrorBody == "json" {
			m.Headers = nil // the body has them, too
			err = u.session.checkPublishable(&m, 0)
		}
		return m, err
	}
	p := c.retryMessage(&u.Delivery)
	failures := s.Memory.Failed()
	d := c.delay(min(failures, c.Sneakers.MaxRetries))
	if s.Target == backlog.RowOther { // it is snoozed, which is no failure
		failures = s.Record.Memory.Failed()
		d = c.snoozeDelay(s.Until.Sub(s.At))
	}
	p.Headers["backoff"] = d
	p.Headers["count"] = int64(failures)
	m = message{c.backoffExchange(), c.retryKey(key), p}
	queue := fmt.Sprint(m.exchange, "-", d)
	return m, u.session.checkPublishable(&m, maxDeathSize(queue, m.exchange, m.key))
}

// publishDeclared publishes as [session.send] does. If no queue takes a message, it declares
// the topology and publishes that message once more.
func (c *Source) publishDeclared(ctx context.Context, sess *session, list []message) (errs []error, err error) {
	errs, err = sess.send(ctx, list)
	if err != nil {
		return nil, err
	}
	for i, m := range list {
		if !errors.Is(errs[i], errUnconfirmed) {
			sess.noteAccepted(len(m.Body))
		}
	}
	if c.Declare != "never" && slices.Contains(errs, errReturned) {
		if err := sess.declare(ctx, c.Topology(sess.major), c.Declare); err != nil {
			return nil, err
		}
	}
	for i, m := range list {
		if errs[i] == errReturned {
			errs[i], err = sess.sendOne(ctx, m)
		}
		if err != nil {
			return nil, err
		}
	}
	return errs, nil
}
