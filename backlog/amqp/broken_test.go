package amqp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
	"backlog/internal/testkit"
	"backlog/internal/testserver"
)

// A backoff queue that refuses messages loses none, and keeps no other message waiting:
// they are held and published when it is mended, and are not handled again.
func TestRefused(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	s.Sneakers.Multiplier = 1000
	open(t, s)
	queue := b.fill("-backoff-60", 3)
	c := source(t, s) // it binds the queue
	first := c.sessions.current().publish
	var v survey
	stop, seen := serve(t, c, func(ctx context.Context, r *backlog.Record) error {
		err := v.Handle(ctx, r)
		if strings.HasPrefix(string(Body(r)), "good") {
			return nil
		}
		return err
	})
	for i := range 6 {
		b.send(amqp.Publishing{Body: fmt.Append(nil, i)})
		b.send(amqp.Publishing{Body: fmt.Append(nil, "good ", i)})
	}
	testkit.Eventually(t, "all are handled", func() bool { return v.count() == 12 })
	testkit.Eventually(t, "the log says why", func() bool { return seen.has(backlog.Refused, "the broker has refused it") })
	if n := b.ready(queue); n != 3 {
		t.Errorf("%d in a queue of three", n)
	}
	testkit.Eventually(t, "only they wait", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.unacked) == 6 && len(c.keptOutcomes) == 6 })
	testkit.Eventually(t, "the channel on which it was refused is closed", first.IsClosed)
	again := dialBroker(t, s)
	for range 2 { // what is sent to one that is deleted meanwhile would be lost
		_, err := again.QueuePurge(queue, false)
		b.check(err)
		again.waitReady(queue, 3)
	}
	testkit.Eventually(t, "nothing waits", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.unacked) == 0 })
	r := stop()
	testkit.Equal(t, "succeeded", r.Succeeded, 6)
	testkit.Equal(t, "refused", r.Refused, 6)
	testkit.Equal(t, "unwritten", r.Unwritten, 0)
	testkit.Equal(t, "the broker was lost", seen.has(backlog.StoreUnavailable, ""), false)
	for id, n := range v.seen {
		if n != 1 {
			t.Errorf("%s was handled %d times", id, n)
		}
	}
}

// fill makes the queue of that ending one that has so many messages and refuses every other
// one, and returns its name.
func (b *broker) fill(ending string, n int) string {
	b.t.Helper()
	queue := b.s.Queue + ending
	_, err := b.QueueDelete(queue, false, false, false)
	b.check(err)
	_, err = b.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-max-length": int32(n), "x-overflow": "reject-publish"})
	b.check(err)
	for range n {
		b.check(b.PublishWithContext(b.t.Context(), "", queue, false, false, amqp.Publishing{}))
	}
	b.waitReady(queue, n)
	return queue
}

// A source that is stopped while the broker refuses leaves the messages in their queue.
func TestRefusedAndStopped(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	open(t, s)
	b.fill("-backoff-60", 0)
	c := source(t, s)
	b.send(amqp.Publishing{})
	e := &backlog.Engine{Store: c, Handler: backlog.HandlerFunc(fails), Policy: c.Policy(), ShutdownTimeout: 1}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if r, err := e.Pass(ctx, backlog.Pass{MaxAge: time.Hour}); err != nil || r.Refused != 1 {
		t.Errorf("%+v %v", r, err)
	}
	c.Close()
	b.waitReady(s.Queue, 1)
}

// A survey says which messages were handled, and how often.
type survey struct {
	mu   sync.Mutex
	seen map[string]int
}

// Handle fails each message once.
func (v *survey) Handle(_ context.Context, r *backlog.Record) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seen == nil {
		v.seen = make(map[string]int)
	}
	id := string(Body(r))
	v.seen[id]++
	if n, _ := r.Column("attempt"); n == int64(1) {
		return errBoom
	}
	return nil
}

func (v *survey) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.seen)
}

// Connections that are cut again and again lose no message, whoever cuts them: each is
// handled to its success, and is nowhere in the end.
func TestCut(t *testing.T) {
	for _, name := range []string{"sockets", "broker"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 300
			var cut func(*Source)
			var s *Settings
			var b *broker
			shares := []int{n / 4, n / 2, 3 * n / 4}
			if name == "sockets" {
				s, b = newBroker(t)
				cut = func(c *Source) {
					c.mu.Lock()
					defer c.mu.Unlock()
					c.sessions.current().closeSockets()
				}
			} else {
				u, ctl := testserver.RabbitMQVhost(t) // others' connections stay
				s, b = brokerAt(t, u.String())
				shares = shares[:1] // rabbitmqctl takes seconds
				cut = func(*Source) { ctl("close_all_connections", "--vhost", u.Path[1:], "for a test") }
			}
			s.Prefetch = 8
			c := source(t, s)
			var v survey
			var hold sync.RWMutex
			for i := range n {
				b.send(amqp.Publishing{Body: fmt.Append(nil, i)})
			}
			stop, seen := serve(t, c, func(ctx context.Context, r *backlog.Record) error {
				hold.RLock() // the cut finds some of them under way
				defer hold.RUnlock()
				return v.Handle(ctx, r)
			})
			for _, share := range shares {
				testkit.Eventually(t, "a part is handled", func() bool { return v.count() >= share })
				hold.Lock()
				cut(c)
				hold.Unlock()
			}
			testkit.Eventually(t, "all are handled", func() bool { return v.count() == n })
			again := dialBroker(t, s)
			quiet := 0 // a message may be between the broker and the source
			testkit.Eventually(t, "nothing is left", func() bool {
				quiet++
				for _, q := range s.Topology(0).Queues {
					if again.ready(q.Name) > 0 {
						quiet = 0
					}
				}
				c.mu.Lock()
				defer c.mu.Unlock()
				if len(c.unacked) > 0 {
					quiet = 0
				}
				return quiet > 20
			})
			r := stop()
			c.Close()
			for _, q := range s.Topology(0).Queues {
				if k := again.ready(q.Name); k != 0 {
					t.Errorf("%d in %s", k, q.Name)
				}
			}
			if r.Succeeded < n {
				t.Errorf("got %d successes, want at least %d: %+v", r.Succeeded, n, r)
			}
			testkit.Equal(t, "rejected, given up or unwritten", r.Rejected+r.GivenUp+r.Unwritten, 0)
			testkit.Equal(t, "the loss of the broker was seen", seen.has(backlog.StoreUnavailable, ""), true)
			testkit.Equal(t, "its return was seen", seen.has(backlog.StoreBack, ""), true)
			t.Logf("%d attempts of %d messages, %d conflicts", r.Selected, n, r.Conflicts)
		})
	}
}

// A queue that is deleted under the consumer is said to be so, and declared again.
func TestQueueDeleted(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	c := source(t, s)
	var v survey
	_, seen := serve(t, c, v.Handle)
	b.send(amqp.Publishing{Body: []byte("before")})
	testkit.Eventually(t, "it is handled", func() bool { return v.count() == 1 })
	_, err := b.QueueDelete(s.Queue, false, false, false)
	b.check(err)
	testkit.Eventually(t, "the log says so", func() bool {
		return seen.has(backlog.StoreUnavailable, "the broker has ended the consumer; is the queue "+s.Queue+" still there?")
	})
	testkit.Eventually(t, "it goes on", func() bool { return seen.has(backlog.StoreBack, "") })
	b.send(amqp.Publishing{Body: []byte("after")})
	testkit.Eventually(t, "it is handled", func() bool { return v.count() == 2 })
}

// A channel that the broker closes under the consumer is said to be so, and not that its
// queue was deleted.
func TestChannelClosed(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	c := source(t, s)
	var v survey
	_, seen := serve(t, c, v.Handle)
	b.send(amqp.Publishing{Body: []byte("before")})
	testkit.Eventually(t, "it is handled", func() bool { return v.count() == 1 })
	b.check(c.sessions.current().consume.Ack(99, false))
	testkit.Eventually(t, "the log says why", func() bool { return seen.has(backlog.StoreUnavailable, "unknown delivery tag 99") })
	testkit.Eventually(t, "it goes on", func() bool { return seen.has(backlog.StoreBack, "") })
}

// An exchange that is deleted while messages are handled is declared again.
func TestExchangeDeleted(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	c := source(t, s)
	var v survey
	serve(t, c, v.Handle)
	b.check(b.ExchangeDelete(s.Queue+"-backoff", false, false))
	b.send(amqp.Publishing{Body: []byte("one")})
	testkit.Eventually(t, "it has succeeded", func() bool { v.mu.Lock(); defer v.mu.Unlock(); return v.seen["one"] == 2 })
}

// Sessions that were cut or closed leave no goroutine behind. It runs beside no other test.
func TestNothingIsLeft(t *testing.T) {
	s, b := newBroker(t)
	began := runtime.NumGoroutine()
	c := source(t, s)
	for range 3 {
		var v survey
		stop, _ := serve(t, c, v.Handle)
		c.mu.Lock()
		sess := c.sessions.current()
		c.mu.Unlock()
		sess.closeSockets()
		<-sess.ctx.Done()
		b.send(amqp.Publishing{})
		testkit.Eventually(t, "it is handled", func() bool { return v.count() == 1 })
		stop()
	}
	c.Close()
	testkit.Eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= began })
}

// A reason for which the broker is away is logged when it has changed, and what somebody
// must mend once a minute. The first reason is the caller's to log.
func TestTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l sessionKeeper
		var out strings.Builder
		log := slog.New(slog.NewTextHandler(&out, nil))
		says := func(err error, want string) {
			t.Helper()
			out.Reset()
			if l.logError(log, err) != err || (want == "") != (out.Len() == 0) || !strings.Contains(out.String(), want) {
				t.Errorf("%v: %q, want %q", err, out.String(), want)
			}
			time.Sleep(5 * time.Second)
		}
		refused, blocked := unavailable(errors.New("refused")), unavailable(errors.New("blocked"))
		says(refused, "")
		says(blocked, "") // it may soon be over
		says(blocked, "the broker is still unavailable, now for another reason")
		says(blocked, "")
		says(refused, "now for another reason")
		says(refused, "")
		says(nil, "")
		time.Sleep(time.Minute)
		says(blocked, "")
		says(errBoom, "the broker refuses something")
		says(errBoom, "")
		time.Sleep(time.Minute)
		says(errBoom, "the broker refuses something")
		says(context.Canceled, "")
	})
}
