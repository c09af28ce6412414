package amqp

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
)

// Whatever a publisher changes makes another message, and what brokers and retries write
// does not. A message_id does not stand for all of a message.
func TestIdentity(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	base := amqp.Delivery{
		RoutingKey: "paid", ContentType: "text/plain", Type: "job", CorrelationId: "c", AppId: "a", Priority: 1, Body: []byte("7"), Timestamp: at,
		Headers: amqp.Table{"list": []any{int64(1), "x"}, "table": amqp.Table{"a": true}, "float": 1.5, "time": at, "none": nil, "bytes": []byte("b")},
	}
	with := func(change func(*amqp.Delivery)) amqp.Delivery {
		d := base
		d.Headers = maps.Clone(base.Headers)
		change(&d)
		return d
	}
	header := func(name string, v any) func(*amqp.Delivery) {
		return func(d *amqp.Delivery) { d.Headers[name] = v }
	}
	s := NewSettings()
	s.URL, s.Queue = []string{"amqp://guest@127.0.0.1/shop"}, "orders"
	of := func(d amqp.Delivery) string { return s.identify(&d).String() }
	seen := make(map[string]string)
	differs := func(what, id string) {
		t.Helper()
		if other, is := seen[id]; is {
			t.Errorf("%s is %s", what, other)
		}
		seen[id] = what
	}
	differs("the base", of(base))
	for what, change := range map[string]func(*amqp.Delivery){
		"body": func(d *amqp.Delivery) { d.Body = []byte("8") }, "key": func(d *amqp.Delivery) { d.RoutingKey = "cancelled" },
		"type": func(d *amqp.Delivery) { d.Type = "c"; d.CorrelationId = "job" }, "time": func(d *amqp.Delivery) { d.Timestamp = at.Add(time.Second) },
		"no time": func(d *amqp.Delivery) { d.Timestamp = time.Time{} }, "id": func(d *amqp.Delivery) { d.MessageId = "m" },
		"id and body": func(d *amqp.Delivery) { d.MessageId = "m"; d.Body = []byte("8") }, "priority": func(d *amqp.Delivery) { d.Priority = 2 },
		"list": header("list", []any{int64(1), "y"}), "flat list": header("list", []any{int64(1)}), "table": header("table", amqp.Table{"a": false}),
		"float": header("float", 1.25), "date": header("time", at.Add(time.Hour)), "text": header("none", ""), "bytes": header("bytes", "b"), "more": header("x-mine", "1"),
		"count": header("count", int64(3)), "other count": header("count", int64(4)), "backoff": header("backoff", "x"), "nil as text": header("none", "<nil> <nil>"),
	} {
		differs(what, of(with(change)))
	}
	for _, place := range []struct{ url, queue string }{{"amqp://guest@127.0.0.1/shop", "mails"}, {"amqp://guest@127.0.0.1/", "orders"}} {
		s.URL, s.Queue = []string{place.url}, place.queue
		differs(place.url+" "+place.queue, of(base))
	}
	s.URL, s.Queue = []string{"amqp://guest@other/shop"}, "orders"
	dated := with(func(d *amqp.Delivery) { d.MessageId = "m"; d.Timestamp = at.Add(time.Hour) })
	if got := seen[of(dated)]; got != "id" {
		t.Errorf("sent again, it is %q", got)
	}
	counted := with(func(d *amqp.Delivery) {
		d.Headers["backoff"], d.Headers["count"], d.Headers[savedHeadersHeader] = int64(60), int64(1), amqp.Table{"count": int64(3)}
	})
	if got := seen[of(counted)]; got != "count" {
		t.Errorf("with its own count retried, it is %q", got)
	}
	retried := with(func(d *amqp.Delivery) {
		d.RoutingKey, d.DeliveryTag, d.Redelivered, d.Exchange, d.DeliveryMode, d.Expiration, d.UserId = "orders", 9, true, "retry", 2, "1000", "guest"
		for name, v := range map[string]any{
			"count": int64(2), "backoff": int64(120), originalKeyHeader: "paid", "x-death": []any{}, "x-first-death-queue": "q", "x-last-death-reason": "r", "CC": []any{"x"},
			"x-delivery-count": int64(1), "x-acquired-count": int64(1), retryInfo: "[]", "list": []any{int32(1), "x"},
		} {
			d.Headers[name] = v
		}
	})
	if got := seen[of(retried)]; got != "the base" {
		t.Errorf("retried, it is %q", got)
	}
}

// A message has one id over its retries, also where it comes back by another routing key,
// and after a restart. Others, which had the same delivery tag, have others.
func TestIdentityStays(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	s.Sneakers.MaxRetries = 3
	s.Exchange.RoutingKeys = []string{"orders.paid", "orders.cancelled"}
	s.Sneakers.RoutingKey = s.Queue
	var mu sync.Mutex
	seen := make(map[string]map[string]int)
	h := func(_ context.Context, r *backlog.Record) error {
		mu.Lock()
		defer mu.Unlock()
		key, _ := r.Column("routing_key")
		what := fmt.Sprintf("%s %s", key, Body(r))
		if seen[what] == nil {
			seen[what] = make(map[string]int)
		}
		seen[what][r.Key.String()+" "+strings.Join(r.Identity, " ")]++
		return errBoom
	}
	for n := range 2 { // with delivery tags from 1 on
		c := source(t, s)
		stop, _ := serve(t, c, h)
		for _, key := range s.Exchange.RoutingKeys {
			b.sendTo(s.Exchange.Name, key, amqp.Publishing{Body: fmt.Append(nil, n)})
		}
		b.waitReady(s.Queue+"-error", 2*(n+1))
		stop()
		c.Close()
	}
	all := make(map[string]bool)
	for what, ids := range seen {
		for id, n := range ids {
			if n != 4 || len(ids) != 1 || all[id] {
				t.Errorf("%s: %v", what, ids)
			}
			all[id] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("%v", seen)
	}
}

// A publisher's own headers with the names of ours tell its messages apart, and come back
// with them from the error queue.
func TestOwnHeaders(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"json", "original"} {
		s, b := newBroker(t)
		s.Sneakers.MaxRetries = 1
		s.Sneakers.ErrorBody = form
		var mu sync.Mutex
		ids := make(map[string]int)
		c := source(t, s)
		stop, _ := serve(t, c, func(_ context.Context, r *backlog.Record) error {
			mu.Lock()
			defer mu.Unlock()
			ids[strings.Join(r.Identity, " ")]++
			return errBoom
		})
		for n := range int64(2) {
			b.sendTo(s.Exchange.Name, s.Queue, amqp.Publishing{Headers: amqp.Table{"count": 7 + n, "backoff": "no"}, Body: []byte("7")})
		}
		b.waitReady(s.Queue+"-error", 2)
		stop()
		c.Close()
		if len(ids) != 2 {
			t.Errorf("%s: two messages have the ids %v", form, ids)
		}
		for id, n := range ids {
			if n != 2 {
				t.Errorf("%s: %s came %d times", form, id, n)
			}
		}
		_, err := NewInspector(*s).Redrive(t.Context(), "", false)
		b.check(err)
		found := make(map[string]bool)
		for range 2 {
			d := b.receive(s.Queue)
			found[fmt.Sprint(d.Headers)] = true
		}
		if !found["map[backoff:no count:7]"] || !found["map[backoff:no count:8]"] {
			t.Errorf("%s: %v came back", form, found)
		}
	}
}
