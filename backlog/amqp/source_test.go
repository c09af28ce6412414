package amqp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
	"backlog/internal/testkit"
	"backlog/internal/testserver"
)

// A broker is the channel of a test beside the source's: it publishes and looks.
type broker struct {
	*amqp.Channel
	conn *amqp.Connection
	t    *testing.T
	s    *Settings
}

// newBroker returns settings with a queue of the test's own, whose delays are of
// milliseconds, and a channel. All of it is deleted in the end.
func newBroker(t *testing.T) (*Settings, *broker) {
	t.Helper()
	return brokerAt(t, testserver.RabbitMQURL(t).String())
}

func brokerAt(t *testing.T, url string) (*Settings, *broker) {
	t.Helper()
	s := NewSettings()
	s.URL = []string{url}
	s.Queue = testserver.Name("test-")
	s.Exchange.Name = s.Queue + "-main"
	s.Sneakers.Multiplier = 1
	return s, dialBroker(t, s)
}

func dialBroker(t *testing.T, s *Settings) *broker {
	t.Helper()
	c, err := amqp.Dial(s.URL[0])
	if err != nil {
		t.Fatal(err)
	}
	ch, err := c.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	b := &broker{ch, c, t, s}
	b.check(err)
	t.Cleanup(func() {
		for _, q := range s.Topology(0).Queues {
			b.QueueDelete(q.Name, false, false, false)
		}
		for _, e := range s.Topology(0).Exchanges {
			b.ExchangeDelete(e[0], false, false)
		}
		c.Close()
	})
	return b
}

func (b *broker) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// send publishes to the main exchange and waits until the queue has it.
func (b *broker) send(p amqp.Publishing) {
	b.t.Helper()
	b.sendTo(b.s.Exchange.Name, b.s.routingKeys()[0], p)
}

func (b *broker) sendTo(exchange, key string, p amqp.Publishing) {
	b.t.Helper()
	c, err := b.PublishWithDeferredConfirm(exchange, key, false, false, p)
	b.check(err)
	if !c.Wait() {
		b.t.Fatal("the broker has refused it")
	}
}

// receive takes the next message of a queue, which is waited for.
func (b *broker) receive(queue string) amqp.Delivery {
	b.t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(5 * time.Millisecond) {
		d, ok, err := b.Get(queue, true)
		b.check(err)
		if ok {
			return d
		}
	}
	b.t.Fatalf("nothing comes to %s", queue)
	panic("")
}

// ready returns how many messages the queue has that nobody was given, -1 if there is no
// such queue.
func (b *broker) ready(queue string) int {
	b.t.Helper()
	ch, err := b.conn.Channel()
	b.check(err)
	defer ch.Close()
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if isMissing(err) {
		return -1
	}
	b.check(err)
	return q.Messages
}

// waitReady waits until the queue has so many messages.
func (b *broker) waitReady(queue string, n int) {
	b.t.Helper()
	testkit.Eventually(b.t, fmt.Sprintf("%d messages in %s", n, queue), func() bool { return b.ready(queue) == n })
}

// source returns one that is open.
func source(t *testing.T, s *Settings) *Source {
	t.Helper()
	c := &Source{Settings: *s}
	if err := c.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// events are what an engine tells of a source.
type events struct {
	mu   sync.Mutex
	list []backlog.Event
}

func (v *events) add(e backlog.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.list = append(v.list, e)
}

// has reports whether there was an event with this kind and a part of its error's text.
func (v *events) has(kind backlog.EventKind, text string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.ContainsFunc(v.list, func(e backlog.Event) bool {
		return e.Kind == kind && strings.Contains(fmt.Sprint(e.Err), text)
	})
}

// serve handles messages until stop is called, at the latest when the test ends.
func serve(t *testing.T, c *Source, h backlog.HandlerFunc) (stop func() backlog.Report, seen *events) {
	t.Helper()
	seen = new(events)
	e := &backlog.Engine{Store: c, Handler: h, Policy: c.Policy(), Concurrency: max(1, c.Prefetch), ShutdownTimeout: 5 * time.Second, Observe: seen.add}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan backlog.Report, 1)
	go func() {
		r, err := e.Pass(ctx, backlog.Pass{Tier: c.Queue, MaxAge: time.Hour})
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	stop = sync.OnceValue(func() backlog.Report { cancel(); return <-done })
	t.Cleanup(func() { stop() })
	return stop, seen
}

var errBoom = errors.New("boom")

func fails(context.Context, *backlog.Record) error { return errBoom }

// The delays and all names are those of the Ruby handler.
func TestTopology(t *testing.T) {
	for base, want := range map[int]string{0: "60 120 240 480 960", 15: "120 240 480 960 1920", 30: "180 360 720 1440 2880", 45: "240 480 960 1920 3840"} {
		s := NewSettings()
		s.Sneakers.Base = time.Duration(base) * time.Second
		var list []string
		for _, d := range s.delays() {
			list = append(list, fmt.Sprint(d))
			if s.ttl(d) != d*1000 {
				t.Errorf("%d: %d ms for %d s", base, s.ttl(d), d)
			}
		}
		if got := strings.Join(list, " "); got != want {
			t.Errorf("base %d: %s", base, got)
		}
	}
	s := NewSettings()
	s.Queue, s.Sneakers.MaxRetries = "primary", 2
	show := func() string { return fmt.Sprint(s.Topology(3)) }
	if got, want := show(), "{[[primary-backoff headers] [primary-retry-requeue topic] [primary-error topic] [sneakers direct]] "+
		"[{primary map[]} {primary-error map[]} "+
		"{primary-backoff-60 map[x-dead-letter-exchange:primary-retry-requeue x-message-ttl:60000]} "+
		"{primary-backoff-120 map[x-dead-letter-exchange:primary-retry-requeue x-message-ttl:120000]}] "+
		"[{primary-retry-requeue primary # map[]} {primary-error primary-error # map[]} {sneakers primary primary map[]} "+
		"{primary-backoff primary-backoff-60  map[backoff:60]} {primary-backoff primary-backoff-120  map[backoff:120]}]}"; got != want {
		t.Errorf("%s\n%s", got, want)
	}
	s.Exchange = Exchange{Name: noExchange}
	s.Quorum = true
	s.Sneakers = Sneakers{MaxRetries: 1, BackoffExchange: "activejob-backoff", ErrorExchange: "activejob-error", RequeueExchange: "activejob-retry-requeue", RoutingKey: "primary", Multiplier: 10, Queues: "quorum"}
	if got, want := show(), "{[[activejob-backoff headers] [activejob-retry-requeue topic] [activejob-error topic]] "+
		"[{primary map[x-queue-type:quorum]} {activejob-error map[x-queue-type:quorum]} "+
		"{activejob-backoff-60 map[x-dead-letter-exchange:activejob-retry-requeue x-dead-letter-strategy:at-least-once x-message-ttl:600 x-overflow:reject-publish x-queue-type:quorum]}] "+
		"[{activejob-retry-requeue primary primary map[]} {activejob-error activejob-error # map[]} {activejob-backoff activejob-backoff-60  map[backoff:60]}]}"; got != want {
		t.Errorf("%s\n%s", got, want)
	}
}

// Topic patterns, and the key by which a message comes back.
func TestBackKey(t *testing.T) {
	for _, test := range []struct{ pattern, key, back string }{
		{"#", "any.key", "any.key"}, {"#", "", ""}, {"primary", "primary", "primary"}, {"primary", "other", "primary"},
		{"orders.*", "orders.new", "orders.new"}, {"orders.#", "orders", "orders"}, {"#.new", "a.b.new", "a.b.new"}, {"*.b.#.d", "a.b.d", "a.b.d"},
		{"orders.*", "orders.new.eu", "orders.first"}, {"orders.*", "other", "orders.first"},
	} {
		s := NewSettings()
		s.Sneakers.RoutingKey, s.Exchange.RoutingKeys = test.pattern, []string{"orders.first"}
		if got := s.retryKey(test.key); got != test.back {
			t.Errorf("%s comes back to %s by %q, want %q", test.key, test.pattern, got, test.back)
		}
	}
}

// A message that always fails is handled six times, by the delays of the Ruby handler,
// and ends in the error queue in its form. A publisher's own count is no failure.
func TestRetries(t *testing.T) {
	for _, queues := range []string{"classic", "quorum"} {
		t.Run(queues, func(t *testing.T) {
			t.Parallel()
			s, b := newBroker(t)
			s.Quorum, s.Sneakers.Queues = queues == "quorum", queues
			testRetries(t, s, b)
		})
	}
}

func testRetries(t *testing.T, s *Settings, b *broker) {
	c := source(t, s)
	var mu sync.Mutex
	var seen []string
	stop, _ := serve(t, c, func(_ context.Context, r *backlog.Record) error {
		attempt, _ := r.Column("attempt")
		h, _ := r.Column("headers")
		var headers struct {
			Mine    string
			Count   int
			Backoff int
		}
		if err := json.Unmarshal(h.(json.RawMessage), &headers); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf("%v %s %v %s", attempt, r.Status, headers, Body(r)))
		return errBoom
	})
	b.send(amqp.Publishing{Body: []byte("hello"), MessageId: "one", Headers: amqp.Table{"mine": "kept", "count": int32(100)}})
	d := b.receive(s.Queue + "-error")
	if r := stop(); r.Failed != 6 || r.GivenUp != 1 || r.Selected != 6 {
		t.Errorf("%+v", r)
	}
	want := []string{
		"1 new {kept 100 0} hello", "2 error {kept 1 60} hello", "3 error {kept 2 120} hello",
		"4 error {kept 3 240} hello", "5 error {kept 4 480} hello", "6 error {kept 5 960} hello",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("%q\n%q", seen, want)
	}
	delete(d.Headers, "x-delivery-count") // a quorum queue's own
	if !maps.Equal(d.Headers, amqp.Table{"mine": "kept", "count": int32(100)}) || d.RoutingKey != s.Queue || d.MessageId != "one" {
		t.Errorf("%v %s %s", d.Headers, d.RoutingKey, d.MessageId)
	}
}

// What a failure keeps of a message's properties and headers, and what it removes.
func TestProperties(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	s.Sneakers.Multiplier = 1000 // it stays in the queue of its delay
	c := source(t, s)
	serve(t, c, fails)
	at := time.Unix(1_700_000_000, 0)
	sent := amqp.Publishing{
		Headers: amqp.Table{
			"mine": "kept", "number": int64(7), "table": amqp.Table{"a": "b"}, "CC": []any{"nowhere"}, "BCC": []any{"nowhere"}, "x-mine": "kept",
			"x-death": []any{amqp.Table{"count": int64(1)}}, "x-first-death-queue": "old", "x-last-death-reason": "old", "x-delivery-count": int64(3), "x-acquired-count": int64(4),
		},
		ContentType: "application/json", ContentEncoding: "gzip", Type: "job", MessageId: "m", CorrelationId: "c", ReplyTo: "r", Timestamp: at, AppId: "a",
		Priority: 3, DeliveryMode: amqp.Transient, Expiration: "60000", UserId: "guest", Body: []byte("body"),
	}
	b.send(sent)
	b.waitReady(s.Queue+"-backoff-60", 1)
	got := b.receive(s.Queue + "-backoff-60")
	if got.Exchange != s.Queue+"-backoff" || got.RoutingKey != s.Queue {
		t.Errorf("exchange %s, key %s", got.Exchange, got.RoutingKey)
	}
	if want := (amqp.Table{"mine": "kept", "number": int64(7), "table": amqp.Table{"a": "b"}, "x-mine": "kept", "backoff": int64(60), "count": int64(1)}); fmt.Sprint(got.Headers) != fmt.Sprint(want) {
		t.Errorf("headers: %v, want %v", got.Headers, want)
	}
	p := amqp.Publishing{
		ContentType: got.ContentType, ContentEncoding: got.ContentEncoding, Type: got.Type, MessageId: got.MessageId, CorrelationId: got.CorrelationId,
		ReplyTo: got.ReplyTo, Timestamp: got.Timestamp, AppId: got.AppId, Priority: got.Priority, DeliveryMode: got.DeliveryMode, Expiration: got.Expiration, UserId: got.UserId, Body: got.Body,
	}
	sent.Headers, sent.Expiration, sent.UserId, sent.DeliveryMode = nil, "", "", amqp.Persistent
	if fmt.Sprintf("%+v", p) != fmt.Sprintf("%+v", sent) {
		t.Errorf("%+v\n%+v", p, sent)
	}
}

// What each outcome does to a message, and that messages of one id do not take each
// other's place.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	s.Sneakers.Multiplier, s.Prefetch = 1000, 4
	c := source(t, s)
	var mu sync.Mutex
	seen := make(map[string]int)
	stop, _ := serve(t, c, func(_ context.Context, r *backlog.Record) error {
		body := string(Body(r))
		mu.Lock()
		seen[body]++
		n := seen[body]
		mu.Unlock()
		switch again, _ := r.Column("redelivered"); {
		case body == "reject":
			return backlog.Reject(errors.New("no such city"))
		case body == "skip" && n == 1:
			return backlog.Skip
		case body == "skip" && again != true:
			return errors.New("is not marked as redelivered")
		}
		return nil
	})
	for _, body := range []string{"skip", "reject", "fine", "fine", "fine"} {
		b.send(amqp.Publishing{Body: []byte(body), MessageId: "same"})
	}
	var f failure
	d := b.receive(s.Queue + "-error")
	if err := json.Unmarshal(d.Body, &f); err != nil {
		t.Errorf("%v: %s", err, d.Body)
	}
	testkit.Equal(t, "error", f.Error, "reject")
	testkit.Equal(t, "message", f.Message, "no such city")
	testkit.Equal(t, "attempts", f.Attempts, 1)
	testkit.Eventually(t, "all handled", func() bool { mu.Lock(); defer mu.Unlock(); return seen["skip"] == 2 && seen["fine"] == 3 })
	r := stop()
	c.Close()
	testkit.Equal(t, "succeeded", r.Succeeded, 4)
	testkit.Equal(t, "rejected", r.Rejected, 1)
	testkit.Equal(t, "skipped", r.Skipped, 1)
	testkit.Equal(t, "messages in the queue", b.ready(s.Queue), 0)
	testkit.Equal(t, "messages that wait", b.ready(s.Queue+"-backoff-60"), 0)
}

// The forms of what ends in the error queue: those of the Ruby handler and of Kicks.
func TestErrorForms(t *testing.T) {
	s := NewSettings()
	d := &amqp.Delivery{Body: []byte(strings.Repeat("hello ", 10)), ContentType: "text/plain", DeliveryMode: 2, Headers: amqp.Table{"count": int64(5), "backoff": int64(960), "mine": 1}}
	at := time.Date(2026, 1, 5, 12, 0, 0, 0, time.FixedZone("", 3600))
	form := func(text string, failures int) amqp.Publishing {
		return s.errorMessage(d, backlog.Settlement{Error: text, At: at, Memory: &backlog.Memory{Failures: failures}})
	}
	rest := `"failed_at":"2026-01-05T12:00:00+01:00",%s"payload":"aGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8gaGVs\nbG8gaGVsbG8gaGVsbG8g\n",` +
		`"properties":"eyJjb250ZW50X3R5cGUiOiJ0ZXh0L3BsYWluIiwiZGVsaXZlcnlfbW9kZSI6\nMiwiaGVhZGVycyI6eyJiYWNrb2ZmIjo5NjAsImNvdW50Ijo1LCJtaW5lIjox\nfX0=\n"}`
	for _, test := range []struct {
		text     string
		failures int
		want     string
	}{
		{"no such city", 6, `{"error":"no such city","num_attempts":6,` + fmt.Sprintf(rest, "")},
		{"timed out after 30s", 6, `{"error":"timeout","num_attempts":6,` + fmt.Sprintf(rest, "")},
		{"no such city", 3, `{"error":"reject","num_attempts":3,` + fmt.Sprintf(rest, `"error_message":"no such city",`)},
	} {
		p := form(test.text, test.failures)
		if string(p.Body) != test.want || p.ContentType != "application/json" || fmt.Sprint(p.Headers) != "map[mine:1]" {
			t.Errorf("%s %s %v, want\n%s", p.Body, p.ContentType, p.Headers, test.want)
		}
	}
	s.Sneakers.ErrorBody = "original"
	p := form("no such city", 6)
	if want := `map[mine:1 retry_info:[{"error":"no such city","num_attempts":6,"failed_at":"2026-01-05T12:00:00+01:00"}]]`; fmt.Sprint(p.Headers) != want {
		t.Errorf("%v", p.Headers)
	}
	if !bytes.Equal(p.Body, d.Body) || p.ContentType != "text/plain" {
		t.Errorf("%s", p.Body)
	}
}

// Bodies come back byte for byte: empty, no UTF-8, and of 5 MB; also from the error queue.
func TestBodies(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	s.Sneakers.MaxRetries = 1
	c := source(t, s)
	bodies := map[string][]byte{"empty": {}, "binary": []byte("\xff\x00\xfe"), "large": bytes.Repeat([]byte("0123456789\n"), 500_000)}
	stop, _ := serve(t, c, func(_ context.Context, r *backlog.Record) error {
		if !bytes.Equal(Body(r), bodies[r.Key.String()]) {
			t.Errorf("%s: another body", r.Key)
		}
		switch _, is := r.Column("body_base64"); {
		case is != (r.Key.String() == "binary"):
			t.Errorf("%s: %v", r.Key, r.Names)
		case is:
			if text, err := r.ColumnsJSON(); err != nil || !bytes.Contains(text, []byte(`"body_base64":"/wD+"`)) {
				t.Errorf("%s %v", text, err)
			}
		}
		return errBoom
	})
	for id, body := range bodies {
		b.send(amqp.Publishing{MessageId: id, Body: body})
	}
	for range bodies {
		d := b.receive(s.Queue + "-error")
		var f failure
		b.check(json.Unmarshal(d.Body, &f))
		body, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(f.Payload, "\n", ""))
		if err != nil || !bytes.Equal(body, bodies[d.MessageId]) {
			t.Errorf("%s: another payload (%v)", d.MessageId, err)
		}
	}
	if r := stop(); r.Failed != 6 {
		t.Errorf("%+v", r)
	}
}

// In a pause others get the messages; then the source takes them again.
func TestPause(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	s.Prefetch = 100
	c := source(t, s)
	for i := range 300 {
		b.send(amqp.Publishing{MessageId: fmt.Sprint(i)})
	}
	var handled sync.Map
	stop, _ := serve(t, c, func(_ context.Context, r *backlog.Record) error {
		handled.Store(r.Key.String(), true)
		return nil
	})
	consumers := func() int {
		q, err := b.QueueDeclarePassive(s.Queue, true, false, false, false, nil)
		b.check(err)
		return q.Consumers
	}
	c.Pause(time.Now().Add(2 * time.Second))
	if n := consumers(); n != 0 {
		t.Error(n)
	}
	id := b.receive(s.Queue).MessageId // somebody else takes one
	handled.Store(id, true)
	testkit.Eventually(t, "all messages", func() bool {
		n := 0
		handled.Range(func(any, any) bool { n++; return true })
		return n == 300
	})
	if n := consumers(); n != 1 {
		t.Error(n)
	}
	stop()
}
