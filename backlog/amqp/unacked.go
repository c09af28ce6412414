package amqp

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
)

// An unacked is a delivery that is not acknowledged yet. If the session ends and the broker
// redelivers the message, the new delivery takes its place.
type unacked struct {
	amqp.Delivery
	session *session
	attempt identity    // differs for each message, and for each attempt on it
	request request     // of a worker
	key     backlog.Key // of a worker: the row's
	acked   bool        // acknowledged already: by the worker, or with others of its group
}

// A keptOutcome is the outcome of an unacked message whose handler has ended. It is kept until
// the broker redelivers the message, or until the broker takes what the outcome publishes.
type keptOutcome struct {
	backlog.Settlement
	id        string
	endedAt   time.Time
	retrying  sync.Mutex // held during a retry
	published bool       // the broker has confirmed what the outcome publishes
	suspect   bool       // the connection was lost while it was published: the message may be why
	refusal   error      // why the broker does not take it; nil: it has not refused it
}

const (
	// releaseAfter is how long a skipped message is kept before it is requeued.
	releaseAfter = time.Second

	// keepOutcome is how long an outcome waits for the redelivery of its message. Later it is
	// dropped: the broker has given the message to another consumer.
	keepOutcome = 10 * time.Minute
)

var errSessionLost = fmt.Errorf("%w: the connection was lost, and the broker gives the message again", backlog.ErrConflict)

// track gives the record its Origin, and keeps its delivery until the outcome is settled. It
// returns false for a worker's request if another request for the same row is being handled.
// Such a request is deferred and not requeued, since a requeue would count as a death of its
// worker.
func (c *Source) track(u *unacked, rec *backlog.Record) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.decodeRequest != nil {
		u.key = rec.Key
		for origin, other := range c.unacked {
			if other.key.Compare(u.key) == 0 {
				c.deferred[origin] = append(c.deferred[origin], u)
				return false
			}
		}
	}
	c.lastOrigin++
	c.unacked[c.lastOrigin] = u
	rec.Origin = c.lastOrigin
	return true
}

// nextRunnable returns a deferred request whose row is free again, nil if all others wait.
func (c *Source) nextRunnable() *unacked {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.runnable) > 0 {
		u := c.runnable[0]
		c.runnable = c.runnable[1:]
		if !u.session.ended() {
			return u
		}
	}
	return nil
}

// forget drops a message and its kept outcome, and makes the requests runnable that were
// deferred for it. c.mu must be held.
func (c *Source) forget(origin int) {
	delete(c.unacked, origin)
	delete(c.keptOutcomes, origin)
	c.runnable = append(c.runnable, c.deferred[origin]...)
	delete(c.deferred, origin)
}

// expectRedeliveries notes which messages the broker will redeliver in a new session.
func (c *Source) expectRedeliveries() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unacked == nil {
		c.unacked = make(map[int]*unacked)
		c.keptOutcomes = make(map[int]*keptOutcome)
		c.deferred = make(map[int][]*unacked)
		c.refusing = make(map[string]bool)
	}
	c.subscription.Store(nil)
	c.redeliverable = make(map[identity][]int)
	for origin, u := range c.unacked {
		if kept := c.keptOutcomes[origin]; kept != nil && time.Since(kept.endedAt) > keepOutcome {
			c.forget(origin)
		} else {
			c.redeliverable[u.attempt] = append(c.redeliverable[u.attempt], origin)
		}
	}
}

// adoptRedelivery reports whether d is the redelivery of a message that this process had when
// its session ended. Then d takes the place of the old delivery, and the outcome is settled
// on it: the handler is still at work or has ended already. A requeue would count towards the
// queue's delivery limit, and the handler would be called once more. Of several equal
// messages any may be taken, since they have as many outcomes.
func (c *Source) adoptRedelivery(sess *session, d *amqp.Delivery) bool {
	if !d.Redelivered {
		return false
	}
	attempt := c.identify(d).attempt(d.Headers)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, origin := range c.redeliverable[attempt] {
		old := c.unacked[origin]
		if old == nil || old.session == sess { // forgotten, or redelivered already
			continue
		}
		c.unacked[origin] = &unacked{Delivery: *d, session: sess, attempt: attempt}
		if kept := c.keptOutcomes[origin]; kept != nil {
			go c.retryOutcome(origin)
			if kept.refusal != nil {
				go c.replaceConsumer(sess)
			}
		}
		return true
	}
	return false
}

// forgetUnfinished drops the messages without an outcome when the source is closed, at which
// time no handler works on them any more. Outcomes are kept.
func (c *Source) forgetUnfinished() {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.unacked, func(origin int, _ *unacked) bool { return c.keptOutcomes[origin] == nil })
	clear(c.deferred)
	c.runnable = nil
}

// lookup returns the record's delivery, errSessionLost if its session has ended.
func (c *Source) lookup(r *backlog.Record) (*unacked, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.unacked[r.Origin]
	if u == nil || u.session.ended() {
		return nil, errSessionLost
	}
	return u, nil
}

// Release implements [backlog.Queue]. It requeues the message after releaseAfter.
func (c *Source) Release(r *backlog.Record) {
	c.mu.Lock()
	u := c.unacked[r.Origin]
	c.forget(r.Origin)
	c.mu.Unlock()
	if u == nil || u.acked || u.session.ended() {
		return
	}
	time.AfterFunc(releaseAfter, func() { c.requeue(u) })
}

// requeue gives a message back to its queue. A quorum queue counts that, and drops the message
// at the delivery limit. So a message that has been requeued before is published as a new one,
// with all that it has, and then acknowledged.
func (c *Source) requeue(u *unacked) {
	if c.decodeRequest == nil && deliveryCount(u.Headers) > 0 && c.republish(u) == nil {
		_ = u.Ack(false) // fails only if the session ends
		return
	}
	_ = u.Nack(false, true)
}

// republish publishes the message to its own queue, with the count of its failures.
func (c *Source) republish(u *unacked) error {
	p := c.retryMessage(&u.Delivery)
	maps.Copy(p.Headers, retryHeaders(u.Headers))
	refused, err := u.session.sendOne(u.session.ctx, message{c.requeueExchange(), c.retryKey(originalKey(&u.Delivery)), p})
	return errors.Join(refused, err)
}

// deliveryCount returns how often a quorum queue has got the message back.
func deliveryCount(headers amqp.Table) int64 {
	n, _ := asInteger(headers["x-delivery-count"]).(int64)
	return n
}
