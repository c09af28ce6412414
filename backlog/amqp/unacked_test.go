package amqp

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
	"backlog/internal/testkit"
)

// limited has the worker queue be a quorum queue that drops what comes back too often.
func (b *broker) limited(limit int32) {
	b.t.Helper()
	_, err := b.QueueDeclare(b.s.Queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": limit})
	b.check(err)
}

// loseConnection ends the session as the network does, and waits for the next.
func (c *Source) loseConnection(t *testing.T) {
	t.Helper()
	sess := c.sessions.current()
	sess.closeSockets()
	<-sess.closed
	testkit.Eventually(t, "the next session", func() bool { return c.sessions.current() != sess && c.sessions.up() })
}

// A calls says how often the handler was called with each body, and keeps it from ending.
type calls struct {
	mu   sync.Mutex
	seen map[string]int
	end  chan struct{} // closed: handlers end
	err  error         // of each
}

func newCalls(err error) *calls {
	return &calls{seen: make(map[string]int), end: make(chan struct{}), err: err}
}

func (v *calls) Handle(_ context.Context, r *backlog.Record) error {
	v.mu.Lock()
	v.seen[string(Body(r))]++
	v.mu.Unlock()
	<-v.end
	return v.err
}

func (v *calls) count(body string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen[body]
}

// A connection that is lost again and again during a handler takes as many of the returns
// that the queue allows, and no more: the message is held until its handler has ended, and
// its outcome is settled then. The handler is called once.
func TestDeliveryLimit(t *testing.T) {
	for _, outcome := range []string{"failure", "success", "reject"} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			s, b := newBroker(t)
			s.Sneakers.Multiplier, s.Prefetch = 1000, 2
			b.limited(3)
			c := source(t, s)
			v := newCalls(map[string]error{"failure": errBoom, "reject": backlog.Reject(errBoom)}[outcome])
			stop, _ := serve(t, c, v.Handle)
			b.send(amqp.Publishing{Body: []byte("one"), MessageId: "one"})
			testkit.Eventually(t, "it is at work", func() bool { return v.count("one") == 1 })
			for range 2 {
				c.loseConnection(t)
				time.Sleep(1500 * time.Millisecond) // longer than what is given back waits
			}
			close(v.end)
			switch outcome {
			case "failure":
				b.waitReady(s.Queue+"-backoff-60", 1)
			case "reject":
				b.waitReady(s.Queue+"-error", 1)
			}
			testkit.Eventually(t, "it is settled", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.unacked) == 0 })
			stop()
			c.Close()
			if n := b.ready(s.Queue); n != 0 || v.count("one") != 1 {
				t.Errorf("%d are in the queue, %d calls", n, v.count("one"))
			}
		})
	}
}

// Handlers that end while there is no connection are not called again either: what they
// came to is settled when their messages come again. Messages that are equal in all are as
// many as they were.
func TestEndedWhileAway(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	s.Sneakers.Multiplier, s.Prefetch = 1000, 8
	c := source(t, s)
	v := newCalls(errBoom)
	stop, _ := serve(t, c, v.Handle)
	for _, body := range []string{"one", "two", "twin", "twin", "twin"} {
		b.send(amqp.Publishing{Body: []byte(body)})
	}
	all := func() int { return v.count("one") + v.count("two") + v.count("twin") }
	testkit.Eventually(t, "all are at work", func() bool { return all() == 5 })
	sess := c.sessions.current()
	c.sessions.dialMu.Lock() // there is no connection for as long
	sess.closeSockets()
	<-sess.closed
	close(v.end)
	testkit.Eventually(t, "all have ended", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.keptOutcomes) == 5 })
	c.sessions.dialMu.Unlock()
	b.waitReady(s.Queue+"-backoff-60", 5)
	b.send(amqp.Publishing{Body: []byte("twin")}) // a new one is none of them
	b.waitReady(s.Queue+"-backoff-60", 6)
	r := stop()
	c.Close()
	testkit.Equal(t, "messages in the queue", b.ready(s.Queue), 0)
	testkit.Equal(t, "calls", all(), 6)
	testkit.Equal(t, "failed", r.Failed, 6)
	testkit.Equal(t, "conflicts", r.Conflicts, 0)
}

// Messages of one message_id are worked on side by side, and none is given back for it.
func TestOneMessageID(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	s.Sneakers.Multiplier, s.Prefetch = 1000, 4
	b.limited(0) // what is given back is lost
	c := source(t, s)
	v := newCalls(errBoom)
	stop, _ := serve(t, c, v.Handle)
	for _, body := range []string{"one", "two", "two"} {
		b.send(amqp.Publishing{Body: []byte(body), MessageId: "same"})
	}
	testkit.Eventually(t, "all are at work", func() bool { return v.count("one") == 1 && v.count("two") == 2 })
	close(v.end)
	b.waitReady(s.Queue+"-backoff-60", 3)
	if r := stop(); r.Failed != 3 {
		t.Errorf("%+v", r)
	}
}

// What is skipped again and again, or given back in pauses, is not lost at the limit of
// its queue, and keeps its properties and its count.
func TestSkippedAtLimit(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	b.limited(2)
	c := source(t, s)
	var mu sync.Mutex
	var seen []string
	stop, _ := serve(t, c, func(_ context.Context, r *backlog.Record) error {
		mu.Lock()
		defer mu.Unlock()
		n, _ := r.Column("attempt")
		seen = append(seen, fmt.Sprintf("%s %v %v", r.Key, n, r.Identity))
		if len(seen) < 5 {
			return backlog.Skip
		}
		return nil
	})
	b.send(amqp.Publishing{Body: []byte("one"), MessageId: "one", Headers: amqp.Table{"mine": "kept", "backoff": int64(60), "count": int64(1)}})
	testkit.Eventually(t, "it has succeeded", func() bool { mu.Lock(); defer mu.Unlock(); return len(seen) == 5 })
	stop()
	for _, text := range seen {
		if text != seen[0] || text[:6] != "one 2 " {
			t.Errorf("%q", seen)
		}
	}
}

// A worker's request for a row that is still at work waits, and is then worked on.
func TestRequestWaits(t *testing.T) {
	c := &Source{decodeRequest: func(*unacked) (backlog.Record, error) { return backlog.Record{}, nil }}
	live, cancel := context.WithCancel(t.Context())
	defer cancel()
	sess := &session{ctx: live}
	c.expectRedeliveries()
	record := func() *backlog.Record { return &backlog.Record{Key: backlog.NewKey(int64(7))} }
	first, second := &unacked{session: sess}, &unacked{session: sess}
	r := record()
	if !c.track(first, r) || c.track(second, record()) || c.nextRunnable() != nil {
		t.Error("the second does not wait")
	}
	c.mu.Lock()
	c.forget(r.Origin)
	c.mu.Unlock()
	if c.nextRunnable() != second || !c.track(second, record()) {
		t.Error("the second does not come")
	}
}
