package amqp

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The broker closes the channel, or the connection, over which it gets a message that it
// refuses, and all other confirms and acknowledgements on it are lost. So messages are checked
// before they are published, and one that may be refused is published on a connection of its
// own.

// When so many messages are held whose outcome the broker refuses, or so many bytes of them, no
// more messages are taken.
const (
	maxRefused      = 100
	maxRefusedBytes = 256 << 20
)

// needsOwnConnection reports whether the message may be refused: its body is larger than any
// that the broker has taken, its exchange has refused another message, or a connection was
// lost while it was published.
func (c *Source) needsOwnConnection(w *outcomeWrite) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return w.suspect || c.refusing[w.message.exchange] || int64(len(w.message.Body)) > w.session.largestAccepted.Load()
}

// publishIsolated publishes the outcome's message on a connection of its own. If its exchange
// is missing it declares the topology and tries once more.
func (c *Source) publishIsolated(ctx context.Context, w *outcomeWrite) {
	c.isolatedMu.Lock() // one at a time, since messages may be large
	defer c.isolatedMu.Unlock()
	w.err = c.publishOnOwnConnection(ctx, w.session, w.message)
	if isMissing(w.err) && c.Declare != "never" {
		declareErr := w.session.declare(ctx, c.Topology(w.session.major), c.Declare)
		if declareErr == nil { // else w.err says what is missing
			w.err = c.publishOnOwnConnection(ctx, w.session, w.message)
		}
	}
	if w.err != nil {
		w.err = fmt.Errorf("exchange %s, routing key %s: %w", w.message.exchange, w.message.key, w.err)
		return
	}
	w.published = true
	c.mu.Lock()
	delete(c.refusing, w.message.exchange)
	c.mu.Unlock()
}

// publishOnOwnConnection publishes a message once, on a new connection. sess only notes the
// size of an accepted body. After an error the broker does not have the message, or that is
// unknown.
func (c *Source) publishOnOwnConnection(ctx context.Context, sess *session, m message) error {
	own, err := dial(ctx, &c.Settings, "publish")
	if err != nil {
		return err
	}
	defer own.close()
	errs, err := c.publishDeclared(ctx, own, []message{m})
	if err == nil {
		err = errs[0]
	}
	if isMissing(err) || hasCode(err, amqp.AccessRefused) { // it would refuse every other message as well
		c.mu.Lock()
		c.refusing[m.exchange] = true
		c.mu.Unlock()
	}
	if err == nil || errors.Is(err, errNacked) || errors.Is(err, errReturned) {
		sess.noteAccepted(len(m.Body))
	}
	return err
}

// noteAccepted notes that the broker has not found a body of that size too large.
func (sess *session) noteAccepted(size int) {
	for old := sess.largestAccepted.Load(); int64(size) > old; old = sess.largestAccepted.Load() {
		if sess.largestAccepted.CompareAndSwap(old, int64(size)) {
			return
		}
	}
}

// checkRefused returns an error if the messages held in this session, whose outcomes the
// broker refuses, have reached a limit.
func (c *Source) checkRefused(sess *session) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var n, bytes int
	var refusal error
	for origin, kept := range c.keptOutcomes {
		if u := c.unacked[origin]; kept.refusal != nil && u.session == sess {
			n++
			bytes += len(u.Body)
			refusal = kept.refusal
		}
	}
	if n < maxRefused && bytes < maxRefusedBytes {
		return nil
	}
	return unavailable(fmt.Errorf("%d messages are held that cannot be published, and no more are taken until one of them can; the last: %w", n, refusal))
}

// noteRefusal notes why the broker refuses an outcome. At the first refusal it lets the source
// take one more message in place of the held one. c.mu must be held.
func (c *Source) noteRefusal(kept *keptOutcome, u *unacked, err error) {
	if kept.refusal == nil {
		go c.replaceConsumer(u.session)
	}
	kept.refusal = err
}

// replaceConsumer cancels the consumer and begins another one. The prefetch
// counts the unacknowledged messages of one consumer only, so that the new one gets more.
func (c *Source) replaceConsumer(sess *session) {
	c.consumeMu.Lock()
	defer c.consumeMu.Unlock()
	s := c.subscription.Load()
	if s == nil || s.session != sess || sess.ended() {
		return
	}
	old := s.tag
	s.replacements++
	s.tag = fmt.Sprint(consumerTag, s.replacements)
	s.openConsumers.Add(1)
	err := sess.withTimeout(sess.ctx, func() error { return sess.consume.Cancel(old, false) })
	if err == nil {
		err = c.subscribe(sess.ctx, s)
	}
	if err != nil {
		sess.end(err)
		s.consumerEnded()
	}
}
