package amqp

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
)

// Redrive reads both forms of what failed, and ours, publishes the original body with its
// properties as if it had never failed, and leaves what it does not know where it is.
func TestRedrive(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	s.Exchange.RoutingKeys = []string{s.Queue, "other"}
	open(t, s)
	failed := s.Queue + "-error"
	list := []amqp.Publishing{
		{Body: []byte("no JSON")},
		// The Ruby handler, under Rails and without.
		{Headers: amqp.Table{"mine": "kept"}, MessageId: "m", Body: []byte(`{"error":"reject","num_attempts":6,"failed_at":"2026-01-05T12:00:00+01:00",` +
			`"payload":"eyJjaXR5IjoiUm9tZSJ9\n","properties":"eyJjb250ZW50X3R5cGUiOiJhcHBsaWNhdGlvbi9qc29uIiwiaGVhZGVycyI6\ne319\n"}`)},
		{Body: []byte(`{"error":"boom","error_class":"RuntimeError","error_message":"no such city","backtrace":"a, b","num_attempts":6,` +
			`"payload":"T3Ns\nbw==\n","properties":"Ins6Y29udGVudF90eXBlPT5cInRleHQveFwiLCA6Y29udGVudF9lbmNvZGluZz0+XCJnemlwXCJ9Ig==\n"}`)},
		// Maxretry and Kicks, which write a list after the second failure.
		{Headers: amqp.Table{"retry_info": `[{"error":"no such city","num_attempts":6},{"error":"reject"}]`}, Body: []byte("kicks"), ContentType: "text/plain"},
		{Headers: amqp.Table{"retry_info": `{"error":"reject","num_attempts":1}`}, Body: []byte(`{"payload":"kept"}`)},
		{Body: []byte(`{"payload":"no base64!","num_attempts":6}`)},
	}
	for i, p := range list {
		key := s.Queue
		if i == 3 {
			key = "other"
		}
		b.sendTo(failed, key, p)
	}
	redrive := func(match string, dry bool) string {
		t.Helper()
		c := NewInspector(*s)
		n, err := c.Redrive(t.Context(), match, dry)
		b.check(err)
		return fmt.Sprint(n)
	}
	if got := redrive("", true); got != "{4 0 2 0}" || b.ready(failed) != 6 || b.ready(s.Queue) != 0 {
		t.Errorf("dry: %s, %d", got, b.ready(failed))
	}
	if got := redrive("no such city", false); got != "{2 2 2 0}" || b.ready(failed) != 4 {
		t.Errorf("matching: %s, %d", got, b.ready(failed))
	}
	if got := redrive("", false); got != "{2 0 2 0}" {
		t.Errorf("all: %s", got)
	}
	if got := redrive("", false); got != "{0 0 2 0}" {
		t.Errorf("none: %s", got)
	}
	for _, want := range []string{
		"Oslo text/x map[]  " + s.Queue, "kicks text/plain map[]  other", `{"city":"Rome"} application/json map[mine:kept] m ` + s.Queue, `{"payload":"kept"}  map[]  ` + s.Queue,
	} {
		d := b.receive(s.Queue)
		if got := fmt.Sprintf("%s %s %v %s %s", d.Body, d.ContentType, d.Headers, d.MessageId, d.RoutingKey); got != want || d.Exchange != s.Exchange.Name {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, want := range []string{"no JSON", `{"payload":"no base64!","num_attempts":6}`} {
		if d := b.receive(failed); string(d.Body) != want {
			t.Errorf("%s, want %s", d.Body, want)
		}
	}
}

// A message that the broker does not take is named and stays, and the others go on.
func TestRedriveRefused(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	open(t, s)
	failed := s.Queue + "-error"
	properties := fmt.Sprintf(`{"message_id":"large","headers":{"fill":%q}}`, strings.Repeat("x", 131_072))
	b.sendTo(failed, s.Queue, amqp.Publishing{Body: fmt.Appendf(nil, `{"error":"boom","num_attempts":6,"payload":"","properties":%q}`, encode64([]byte(properties)))})
	for range 3 {
		b.sendTo(failed, s.Queue, amqp.Publishing{Body: []byte(`{"error":"boom","num_attempts":6,"payload":"Z29vZA==\n","properties":""}`)})
	}
	c := NewInspector(*s)
	n, err := c.Redrive(t.Context(), "", false)
	if n != (RedriveReport{Matched: 3, Refused: 1}) || err == nil || !strings.Contains(err.Error(), "stay in the error queue: 1\nmessage large: its headers and properties would take") {
		t.Errorf("%+v %v", n, err)
	}
	b.waitReady(s.Queue, 3)
	b.waitReady(failed, 1)
}

// What we have written is given back, too, in either form, and to a queue without an
// exchange of its own.
func TestRedriveOurs(t *testing.T) {
	for _, body := range []string{"json", "original"} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			s, b := newBroker(t)
			s.Exchange.Name, s.Sneakers.MaxRetries, s.Sneakers.ErrorBody = noExchange, 0, body
			c := NewInspector(*s)
			if n, err := c.Redrive(t.Context(), "", false); err != nil || n != (RedriveReport{}) {
				t.Errorf("without queues: %v %v", n, err)
			}
			stop, _ := serve(t, source(t, s), fails)
			b.sendTo("", s.Queue, amqp.Publishing{Body: []byte{}, ContentType: "text/x", Headers: amqp.Table{"mine": "kept"}})
			b.waitReady(s.Queue+"-error", 1)
			stop()
			for _, test := range []struct {
				match string
				want  RedriveReport
			}{{"another", RedriveReport{Unmatched: 1}}, {"boom", RedriveReport{Matched: 1}}} {
				c := NewInspector(*s)
				if n, err := c.Redrive(t.Context(), test.match, false); err != nil || n != test.want {
					t.Errorf("%s: %v %v", test.match, n, err)
				}
			}
		})
	}
}

// The properties as JSON, and as older and newer Ruby show a hash.
func TestPropertiesOf(t *testing.T) {
	const want = `map[app_id:a "b" content_type:text/x f:1.5 headers:map[list:[1 x é map[]] mine:kept n:7 nothing:<nil> yes:true] message_id:m timestamp:2026-01-05 12:00:00 +0100]`
	for _, text := range []string{
		`{"content_type":"text/x","message_id":"m","app_id":"a \"b\"","f":1.5,"timestamp":"2026-01-05 12:00:00 +0100","headers":{"mine":"kept","n":7,"nothing":null,"yes":true,"list":[1,"x é",{}]}}`,
		`"{:content_type=>\"text/x\", :message_id=>\"m\", :app_id=>\"a \\\"b\\\"\", :f=>1.5, :timestamp=>2026-01-05 12:00:00 +0100, :headers=>{\"mine\"=>\"kept\", \"n\"=>7, \"nothing\"=>nil, \"yes\"=>true, \"list\"=>[1, \"x \\u00e9\", {}]}}"`,
		`"{content_type: \"text/x\", message_id: \"m\", app_id: \"a \\\"b\\\"\", f: 1.5, timestamp: 2026-01-05 12:00:00 +0100, headers: {\"mine\" => \"kept\", \"n\" => 7, \"nothing\" => nil, \"yes\" => true, \"list\" => [1, \"x \\xC3\\xA9\", {}]}}"`,
	} {
		was := propertiesOf([]byte(text))
		if got := fmt.Sprint(was); got != want {
			t.Errorf("%s\n%s", got, text)
		}
		if at, ok := timestampOf(was["timestamp"]); !ok || at.Unix() != 1_767_610_800 {
			t.Errorf("%v", at)
		}
	}
	for _, text := range []string{``, `7`, `"{"`, `"{:a"`, `"{:a=>"`, `"{:a=>\""`, `"{:a=>\"\\"`, `"{:a=>[1"`, `"{:a=>[1 2]`, `"{:a 1}"`, `"{{}}"`, `"` + strings.Repeat("[", 1_000_000) + `"`} {
		if was := propertiesOf([]byte(text)); was != nil {
			t.Errorf("%.20s: %v", text, was)
		}
	}
}

// What each handler records of a message comes back with it: as Sneakers, Kicks and we do.
func TestRestored(t *testing.T) {
	at := time.Date(2026, 1, 5, 12, 0, 0, 0, time.FixedZone("", 3600))
	first := amqp.Publishing{
		Headers: amqp.Table{"mine": "kept", "n": int64(7), "list": []any{"a", int64(1)}}, ContentType: "application/json", ContentEncoding: "gzip", Type: "job", MessageId: "m",
		CorrelationId: "c", ReplyTo: "r", Timestamp: at, AppId: "a", Priority: 3, Body: []byte("body"),
	}
	const properties = `{"content_type":"application/json","content_encoding":"gzip","headers":{"mine":"kept","n":7,"list":["a",1],"count":5,"backoff":960,` +
		`"x-death":[{"count":5,"queue":"q"}],"x-first-death-queue":"q"},"delivery_mode":2,"priority":3,"correlation_id":"c","reply_to":"r","expiration":"1000",` +
		`"message_id":"m","timestamp":"2026-01-05 12:00:00 +0100","type":"job","user_id":"guest","app_id":"a"}`
	sneakers := fmt.Sprintf(`{"error":"boom","num_attempts":6,"payload":%q,"properties":%q}`, encode64([]byte("body")), encode64([]byte(properties)))
	ours := func(form string) *amqp.Delivery {
		s := NewSettings()
		s.Sneakers.ErrorBody = form
		d := amqp.Delivery{
			Headers: maps.Clone(first.Headers), ContentType: first.ContentType, ContentEncoding: first.ContentEncoding, Type: first.Type, MessageId: first.MessageId,
			CorrelationId: first.CorrelationId, ReplyTo: first.ReplyTo, Timestamp: first.Timestamp, AppId: first.AppId, Priority: first.Priority, Body: first.Body,
		}
		d.Headers["count"], d.Headers["backoff"] = int64(5), int64(960)
		p := s.errorMessage(&d, backlog.Settlement{Error: "boom", Memory: &backlog.Memory{Failures: 6}, At: at})
		return &amqp.Delivery{
			Headers: p.Headers, ContentType: p.ContentType, ContentEncoding: p.ContentEncoding, Type: p.Type, MessageId: p.MessageId,
			CorrelationId: p.CorrelationId, ReplyTo: p.ReplyTo, Timestamp: p.Timestamp, AppId: p.AppId, Priority: p.Priority, Body: p.Body,
		}
	}
	bare := ours("json") // as where the headers leave no room
	bare.Headers = nil
	kicks := func(info string) *amqp.Delivery {
		return &amqp.Delivery{Headers: amqp.Table{retryInfo: info}, ContentType: "application/octet-stream", Body: []byte("body")}
	}
	for name, d := range map[string]*amqp.Delivery{
		"Sneakers": {ContentType: "application/octet-stream", Body: []byte(sneakers)},
		"Kicks":    kicks(`{"error":"boom","num_attempts":6,"properties":` + properties + `}`),
		"Kicks again": kicks(`[{"error":"boom","num_attempts":6,"properties":{"content_type":"application/octet-stream","headers":{}}},` +
			`{"error":"boom","num_attempts":6,"properties":` + properties + `}]`),
		"ours": ours("json"), "ours, bare": bare, "ours, original": ours("original"),
	} {
		m, text, ok := decode(d)
		if !ok || text != "boom " || !m.Timestamp.Equal(at) {
			t.Errorf("%s: %v %q %v", name, ok, text, m.Timestamp)
		}
		m.Timestamp = at
		if got, want := fmt.Sprintf("%+v", m), fmt.Sprintf("%+v", first); got != want {
			t.Errorf("%s:\n%s\n%s", name, got, want)
		}
	}
}

// Headers are JSON for handlers, whatever numbers they have.
func TestHeadersAsJSON(t *testing.T) {
	h := amqp.Table{"nan": math.NaN(), "list": []any{math.Inf(1), float32(1.5)}, "table": amqp.Table{"n": int8(1)}}
	if got := string(asJSON(jsonField(h))); got != `{"list":["+Inf",1.5],"nan":"NaN","table":{"n":1}}` {
		t.Error(got)
	}
	if got := string(asJSON(jsonField(amqp.Table(nil)))); got != "null" {
		t.Error(got)
	}
}
