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

// A held is a delivery that is not acknowledged. When its session is over and the message
// comes again, another takes its place.
type held struct {
	amqp.Delivery
	session *session
	attempt identity    // tells apart the messages, and the attempts on each
	request request     // of a worker
	key     backlog.Key // likewise: the row
	done    bool        // acknowledged, while others of its group are not, or by the worker
}

// An ended is the outcome of a message whose handler has ended and that is not
// acknowledged: it comes again, or its outcome cannot be published yet.
type ended struct {
	backlog.Settlement
	id        string
	at        time.Time
	writing   sync.Mutex // held while it is written
	published bool       // the broker has what the outcome publishes
	suspect   bool       // a connection was lost while it was published
	waits     error      // why it cannot be published; nil: nothing has refused it
}

const (
	// releaseAfter is how long a message that was skipped waits before the broker gives it
	// again.
	releaseAfter = time.Second

	// keepEnded is how long the outcome of a message is kept that does not come again: the
	// broker has given it to another consumer.
	keepEnded = 10 * time.Minute
)

var errSessionLost = fmt.Errorf("%w: the connection was lost, and the broker gives the message again", backlog.ErrConflict)

// hold gives the record its Origin and keeps its message until its outcome is settled. It
// reports whether the record may be worked on now. A worker's request waits while another
// for the same row is at work: giving it back would count as a death.
func (c *Source) hold(h *held, rec *backlog.Record) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read != nil {
		h.key = rec.Key
		for origin, other := range c.held {
			if other.key.Compare(h.key) == 0 {
				c.behind[origin] = append(c.behind[origin], h)
				return false
			}
		}
	}
	c.last++
	c.held[c.last] = h
	rec.Origin = c.last
	return true
}

// nextFreed returns a request that has waited in hold, nil if there is none.
func (c *Source) nextFreed() *held {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.freed) > 0 {
		h := c.freed[0]
		c.freed = c.freed[1:]
		if !h.session.over() {
			return h
		}
	}
	return nil
}

// forget lets go of a message. c.mu must be held.
func (c *Source) forget(origin int) {
	delete(c.held, origin)
	delete(c.ended, origin)
	c.freed = append(c.freed, c.behind[origin]...)
	delete(c.behind, origin)
}

// expectAgain notes which messages the broker gives again over a new session.
func (c *Source) expectAgain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		c.held = make(map[int]*held)
		c.ended = make(map[int]*ended)
		c.behind = make(map[int][]*held)
		c.doubtful = make(map[string]bool)
	}
	c.stream.Store(nil)
	c.orphans = make(map[identity][]int)
	for origin, h := range c.held {
		if e := c.ended[origin]; e != nil && time.Since(e.at) > keepEnded {
			c.forget(origin)
		} else {
			c.orphans[h.attempt] = append(c.orphans[h.attempt], origin)
		}
	}
}

// adopt reports whether the message is one that this process had already when its session
// ended. It stays unacknowledged, in the place of the old delivery: its handler is still
// at work, or has ended, and the outcome is settled on the new delivery. Giving it back
// would count towards the delivery limit of its queue, and call the handler once more.
// Only a redelivered message can be one. Of equal ones any takes the place: they cannot be
// told apart, and there are as many outcomes as messages.
func (c *Source) adopt(p *session, d *amqp.Delivery) bool {
	if !d.Redelivered {
		return false
	}
	attempt := c.identify(d).attempt(d.Headers)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, origin := range c.orphans[attempt] {
		old := c.held[origin]
		if old == nil || old.session == p { // let go of, or adopted
			continue
		}
		c.held[origin] = &held{Delivery: *d, session: p, attempt: attempt}
		if e := c.ended[origin]; e != nil {
			go c.insist(origin)
			if e.waits != nil {
				go c.takeAnother(p)
			}
		}
		return true
	}
	return false
}

// abandon forgets the messages that no handler has any more, as its session is closed. An
// outcome is kept.
func (c *Source) abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.held, func(origin int, _ *held) bool { return c.ended[origin] == nil })
	clear(c.behind)
	c.freed = nil
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

// Release implements [backlog.Queue].
func (c *Source) Release(r *backlog.Record) {
	c.mu.Lock()
	h := c.held[r.Origin]
	c.forget(r.Origin)
	c.mu.Unlock()
	if h == nil || h.done || h.session.over() {
		return
	}
	time.AfterFunc(releaseAfter, func() { c.giveBack(h) })
}

// giveBack gives a message back to its queue. A quorum queue counts that, and at its limit
// the message would be lost: one that has come back before is published anew, with all it
// has, and acknowledged.
func (c *Source) giveBack(h *held) {
	if c.read == nil && returns(h.Headers) > 0 && c.giveBackAnew(h) == nil {
		_ = h.Ack(false) // else its session ends
		return
	}
	_ = h.Nack(false, true)
}

func (c *Source) giveBackAnew(h *held) error {
	p := c.back(&h.Delivery)
	maps.Copy(p.Headers, retryHeaders(h.Headers))
	refused, err := h.session.post(h.session.ctx, message{c.requeueExchange(), c.backKey(firstKey(&h.Delivery)), p})
	return errors.Join(refused, err)
}

// returns returns how often a quorum queue has got the message back.
func returns(headers amqp.Table) int64 {
	n, _ := integer(headers["x-delivery-count"]).(int64)
	return n
}
