package amqp

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A message is what is published.
type message struct {
	exchange, key string
	amqp.Publishing
}

// name is the same for messages that are routed alike: the broker returns all of them or none.
func (m message) name() string {
	return fmt.Sprint(m.exchange, "\n", m.key, "\n", asInteger(m.Headers["backoff"]), "\n", m.MessageId)
}

// errReturned says that the broker has returned a message, since no queue is bound for it.
var errReturned = errors.New("no queue is bound for it")

// errUnconfirmed says that the broker has closed the channel because of this message or another
// one. Whether it has this message is unknown.
var errUnconfirmed = unavailable(errors.New("the broker has closed the channel before it has confirmed the message"))

// errNacked says that the broker has refused a message by basic.nack.
var errNacked = errors.New("the broker has refused it, as by a queue that is full, or whose nodes are down: `rabbitmqctl list_queues name messages policy arguments online` shows why")

// errConfirmLate says that a publish confirm has not come in time.
var errConfirmLate = fmt.Errorf("a message is not confirmed after %v; has a quorum queue lost most of its nodes? `rabbitmqctl list_queues name online` shows them", answerTimeout)

// send publishes the messages and waits for the publish confirms. It returns an error for each
// message, nil if a queue has it. The second result says that nothing is known of any: the
// session has ended. It ends, too, if ctx is done before send returns.
//
// send may be called concurrently, if no two calls at a time have messages of the same name.
// Messages of the same name in one call get the same error. If the broker closes the channel
// and the session replaces it, the messages without a confirm get errUnconfirmed.
func (sess *session) send(ctx context.Context, list []message) ([]error, error) {
	stop := context.AfterFunc(ctx, sess.closeSockets) // nothing else ends a publish that has begun
	defer stop()
	errs := make([]error, len(list))
	ch, confirms, err := sess.publishAll(list)
	if err != nil {
		sess.end(err)
		return errs, sess.err()
	}
	var refused bool
	for i, confirm := range confirms {
		acked, err := sess.awaitConfirm(ch, confirm)
		switch {
		case errors.Is(err, errUnconfirmed):
			errs[i] = err
		case err != nil:
			return errs, err
		case !acked:
			errs[i] = errNacked
			refused = true
		}
	}
	// The broker returns a message before it confirms it, and a sender sets returnsPending
	// before it takes anything from returns. So if returns is empty, and returnsPending is 0
	// after that, no message of this call was returned.
	noReturns := len(sess.returns) == 0
	last := sess.senders.Add(-1) == 0
	if noReturns && sess.returnsPending.Load() == 0 && !refused {
		return errs, nil
	}
	sess.publishMu.Lock()
	defer sess.publishMu.Unlock()
	sess.collectReturned(list, errs)
	// What RabbitMQ 3.10 refuses once while the node that leads the queue is down, it refuses
	// on that channel for ever.
	if refused && last && sess.senders.Load() == 0 && !sess.ended() {
		sess.renewChannel(ctx)
	}
	return errs, nil
}

// collectReturned takes the returned messages from the channel, and sets the errors of those in
// list that are among them. sess.publishMu must be held.
func (sess *session) collectReturned(list []message, errs []error) {
	sess.returnsPending.Store(1)
	for range len(sess.returns) {
		r := <-sess.returns
		sess.returned[message{r.Exchange, r.RoutingKey, amqp.Publishing{Headers: r.Headers, MessageId: r.MessageId}}.name()] = true
	}
	for i, m := range list {
		if sess.returned[m.name()] {
			errs[i] = errReturned
		}
	}
	for _, m := range list {
		delete(sess.returned, m.name())
	}
	sess.returnsPending.Store(int64(len(sess.returned)))
}

// publishAll publishes the messages, and returns the channel and a confirm for each. A confirm is
// nil if the broker had closed the channel by then.
func (sess *session) publishAll(list []message) (ch *amqp.Channel, confirms []*amqp.DeferredConfirmation, err error) {
	sess.publishMu.Lock()
	defer sess.publishMu.Unlock()
	if err := sess.replaceClosedChannel(); err != nil {
		return nil, nil, err
	}
	sess.senders.Add(1)
	confirms = make([]*amqp.DeferredConfirmation, len(list))
	for i, m := range list {
		m.DeliveryMode = amqp.Persistent
		confirms[i], err = sess.publish.PublishWithDeferredConfirm(m.exchange, m.key, true, false, m.Publishing)
		if errors.Is(err, amqp.ErrClosed) && sess.canReplaceChannel() {
			break
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return sess.publish, confirms, nil
}

// replaceClosedChannel replaces a publishing channel that the broker has closed, as soon as no
// sender waits for its confirms. sess.publishMu must be held; it is released while waiting.
func (sess *session) replaceClosedChannel() error {
	for sess.publish.IsClosed() && sess.canReplaceChannel() {
		if sess.senders.Load() == 0 {
			clear(sess.returned)
			sess.returnsPending.Store(0)
			return sess.withTimeout(sess.ctx, sess.openPublish)
		}
		sess.publishMu.Unlock() // the senders have their confirms, and need the lock to return
		time.Sleep(time.Millisecond)
		sess.publishMu.Lock()
	}
	return nil
}

// sendOne is send for one message. refused is the error of the message.
func (sess *session) sendOne(ctx context.Context, m message) (refused, err error) {
	errs, err := sess.send(ctx, []message{m})
	return errs[0], err
}

// awaitConfirm waits for a publish confirm and reports whether the broker has taken the message.
// After an error that is unknown: the channel was closed, or the session has ended.
func (sess *session) awaitConfirm(ch *amqp.Channel, c *amqp.DeferredConfirmation) (acked bool, err error) {
	if c == nil {
		return false, errUnconfirmed
	}
	defer time.AfterFunc(answerTimeout, sess.onLateConfirm).Stop()
	select {
	case <-c.Done():
	case <-sess.ctx.Done():
	}
	closed := !c.Acked() && ch.IsClosed()
	if closed && !sess.ended() && sess.canReplaceChannel() {
		return false, errUnconfirmed
	}
	if sess.ended() || closed {
		<-sess.ctx.Done() // then the reason is known
		return false, sess.err()
	}
	return c.Acked(), nil
}
