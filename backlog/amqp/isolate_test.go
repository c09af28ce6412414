package amqp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
	"backlog/internal/testkit"
	"backlog/internal/testserver"
)

// refusedCount returns how many messages are held whose outcomes cannot be published, and how
// many others.
func (c *Source) refusedCount() (waiting, others int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for origin := range c.unacked {
		if kept := c.keptOutcomes[origin]; kept != nil && kept.refusal != nil {
			waiting++
		} else {
			others++
		}
	}
	return waiting, others
}

// A sickness says how the handler answers: by the first word of the body.
func (v *survey) sickness(ctx context.Context, r *backlog.Record) error {
	err := v.Handle(ctx, r)
	switch body := string(Body(r)[:min(20, len(Body(r)))]); {
	case strings.HasPrefix(body, "good"):
		return nil
	case strings.HasPrefix(body, "reject"):
		return backlog.Reject(errBoom)
	}
	return err
}

// once reports what was not handled exactly once.
func (v *survey) once(t *testing.T, calls int) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.seen) != calls {
		t.Errorf("%d were handled", len(v.seen))
	}
	for body, n := range v.seen {
		if n != 1 {
			t.Errorf("%.20s was handled %d times", body, n)
		}
	}
}

// filled returns headers that make the frame of a message without properties so large.
func filled(size int) amqp.Table {
	h := amqp.Table{"fill": ""}
	h["fill"] = strings.Repeat("x", size-frameSize(&amqp.Publishing{Headers: h}))
	return h
}

// Headers that leave no room for those of a retry are foreseen: the connection stays, the
// message is named and held, and neither it nor another is handled again. A reject has room.
func TestFrameFilled(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	s.Sneakers.Multiplier, s.Prefetch = 1000, 2
	c := source(t, s)
	first := c.sessions.current()
	var v survey
	stop, seen := serve(t, c, v.sickness)
	for i, size := range []int{131_030, 131_072, 131_000, 130_500, 129_000} {
		b.send(amqp.Publishing{Body: fmt.Append(nil, "sick ", i), Headers: filled(size)})
		b.send(amqp.Publishing{Body: fmt.Append(nil, "reject ", i), Headers: filled(size)})
		for k := range 4 {
			b.send(amqp.Publishing{Body: fmt.Append(nil, "good ", i, k)})
		}
	}
	b.waitReady(s.Queue+"-error", 5)
	b.waitReady(s.Queue+"-backoff-60", 1)
	testkit.Eventually(t, "only four wait", func() bool { n, others := c.refusedCount(); return n == 4 && others == 0 && v.count() == 30 })
	r := stop()
	testkit.Equal(t, "succeeded", r.Succeeded, 20)
	testkit.Equal(t, "rejected", r.Rejected, 5)
	testkit.Equal(t, "failed", r.Failed, 1)
	testkit.Equal(t, "refused", r.Refused, 4)
	if c.sessions.current() != first || first.ended() {
		t.Errorf("want the first connection still in use, it has ended: %v", first.reason())
	}
	v.once(t, 30)
	if !seen.has(backlog.Refused, "the broker's frame_max is 131072; its publisher must send less in headers") {
		t.Errorf("%v", seen.list)
	}
	c.Close()
	b.waitReady(s.Queue, 4)
}

// The size of a frame is what the broker finds, which lets eight bytes more pass.
func TestFrameSize(t *testing.T) {
	t.Parallel()
	_, b := newBroker(t)
	p := amqp.Publishing{
		ContentType: "a", ContentEncoding: "b", CorrelationId: "c", ReplyTo: "d", Expiration: "1000", MessageId: "e", Type: "f", UserId: "guest", AppId: "g",
		Priority: 1, DeliveryMode: 2, Timestamp: time.Unix(1_700_000_000, 0), Headers: amqp.Table{
			"nil": nil, "bool": true, "byte": byte(1), "int8": int8(1), "int16": int16(1), "uint16": uint16(1), "int": 1, "int32": int32(1), "uint32": uint32(1), "int64": int64(1),
			"float32": float32(1), "float64": 1.0, "decimal": amqp.Decimal{Scale: 1, Value: 1}, "bytes": []byte("abc"), "time": time.Unix(1_700_000_000, 0), "table": amqp.Table{"a": "b"}, "list": []any{int8(1), "x"}, "fill": "",
		},
	}
	for size, want := range map[int]bool{131_080: true, 131_081: false} {
		c, err := amqp.Dial(b.s.URL[0])
		b.check(err)
		ch, err := c.Channel()
		b.check(errors.Join(err, ch.Confirm(false)))
		p.Headers["fill"] = ""
		p.Headers["fill"] = strings.Repeat("x", size-frameSize(&p))
		confirm, err := ch.PublishWithDeferredConfirm("", "nowhere", false, false, p)
		b.check(err)
		if got := confirm.Wait(); got != want {
			t.Errorf("with %d bytes: %v", frameSize(&p), got)
		}
		c.Close()
	}
}

// A body that is too large in the error queue's form is published on a connection of its own,
// whose loss is no other message's.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	s.Prefetch = 4
	c := source(t, s)
	first := c.sessions.current()
	var v survey
	stop, seen := serve(t, c, v.sickness)
	b.send(amqp.Publishing{Body: append([]byte("reject"), bytes.Repeat([]byte("x"), 101<<20)...), MessageId: "large"})
	for i := range 20 {
		b.send(amqp.Publishing{Body: fmt.Append(nil, "good ", i)})
	}
	testkit.Eventually(t, "only it waits", func() bool { n, others := c.refusedCount(); return n == 1 && others == 0 && v.count() == 21 })
	r := stop()
	testkit.Equal(t, "succeeded", r.Succeeded, 20)
	testkit.Equal(t, "refused", r.Refused, 1)
	if c.sessions.current() != first || first.ended() {
		t.Errorf("want the first connection still in use, it has ended: %v", first.reason())
	}
	v.once(t, 21)
	if !seen.has(backlog.Refused, "the broker needs a larger max_message_size") {
		t.Errorf("%v", seen.list)
	}
	c.Close()
	b.waitReady(s.Queue, 1)
}

// An exchange that refuses what is published, since it is missing or a right is, keeps only
// those waiting that need it, until it takes them. No connection is lost.
func TestExchangeRefuses(t *testing.T) {
	u, ctl := testserver.RabbitMQVhost(t)
	for _, fault := range []string{"right", "exchange", "full"} {
		t.Run(fault, func(t *testing.T) {
			s, b := brokerAt(t, u.String())
			s.Sneakers.Multiplier, s.Prefetch = 1000, 2
			open(t, s)
			failed := s.Queue + "-error"
			mend := func() {}
			switch fault {
			case "right":
				user := testserver.Name("test-")
				ctl("add_user", user, "word")
				t.Cleanup(func() { ctl("delete_user", user) })
				grant := func(write string) { ctl("set_permissions", "--vhost", u.Path[1:], user, ".*", write, ".*") }
				grant("^" + s.Queue + "(-backoff.*|-retry-requeue|-main)?$")
				s.URL, s.Declare = []string{fmt.Sprintf("amqp://%s:word@%s%s", user, u.Host, u.Path)}, "never"
				mend = func() { grant(".*") }
			case "exchange":
				s.Declare = "never"
			case "full":
				b.fill("-error", 0)
				mend = func() {
					_, err := b.QueueDelete(failed, false, false, false)
					b.check(err)
				}
			}
			c := source(t, s)
			if fault == "exchange" {
				b.check(b.ExchangeDelete(failed, false, false))
				mend = func() {
					b.check(b.ExchangeDeclare(failed, "topic", true, false, false, false, nil))
					b.check(b.QueueBind(failed, "#", failed, false, nil))
				}
			}
			first := c.sessions.current()
			var v survey
			stop, seen := serve(t, c, v.sickness)
			for i := range 5 {
				for _, kind := range []string{"reject", "sick", "good"} {
					b.send(amqp.Publishing{Body: fmt.Append(nil, kind, " ", i)})
				}
			}
			b.waitReady(s.Queue+"-backoff-60", 5)
			testkit.Eventually(t, "only the rejected wait", func() bool { n, others := c.refusedCount(); return n == 5 && others == 0 && v.count() == 15 })
			if !seen.has(backlog.Refused, "exchange "+failed) {
				t.Errorf("%v", seen.list)
			}
			mend()
			b.waitReady(failed, 5)
			testkit.Eventually(t, "nothing waits", func() bool { n, _ := c.refusedCount(); return n == 0 })
			r := stop()
			testkit.Equal(t, "succeeded", r.Succeeded, 5)
			testkit.Equal(t, "failed", r.Failed, 5)
			testkit.Equal(t, "refused", r.Refused, 5)
			if c.sessions.current() != first || first.ended() {
				t.Errorf("want the first connection still in use, it has ended: %v", first.reason())
			}
			v.once(t, 15)
		})
	}
}

// So many messages may wait; then no more are taken, and the log says why. The connection is
// lost while they wait, and they are not handled again.
func TestMostWaiting(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	open(t, s)
	b.fill("-error", 0)
	c := source(t, s)
	var v survey
	stop, seen := serve(t, c, v.sickness)
	for i := range maxRefused + 20 {
		b.send(amqp.Publishing{Body: fmt.Append(nil, "reject ", i)})
	}
	testkit.Eventually(t, "the log says why", func() bool {
		return seen.has(backlog.StoreUnavailable, "messages are held that cannot be published, and no more are taken until one of them can")
	})
	handled := v.count()
	if handled < maxRefused || handled > maxRefused+10 {
		t.Errorf("%d were handled", handled)
	}
	_, err := b.QueueDelete(s.Queue+"-error", false, false, false)
	b.check(err)
	c.sessions.current().closeSockets()
	b2 := dialBroker(t, s)
	b2.waitReady(s.Queue+"-error", maxRefused+20)
	stop()
	v.once(t, maxRefused+20)
	if slices.ContainsFunc(seen.list, func(e backlog.Event) bool { return e.Kind == backlog.Unwritten }) {
		t.Errorf("%v", seen.list)
	}
}
