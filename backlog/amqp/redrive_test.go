package amqp

import (
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
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
		c := Look(*s)
		n, err := c.Redrive(t.Context(), match, dry)
		b.check(err)
		return fmt.Sprint(n)
	}
	if got := redrive("", true); got != "{4 0 2}" || b.ready(failed) != 6 || b.ready(s.Queue) != 0 {
		t.Errorf("dry: %s, %d", got, b.ready(failed))
	}
	if got := redrive("no such city", false); got != "{2 2 2}" || b.ready(failed) != 4 {
		t.Errorf("matching: %s, %d", got, b.ready(failed))
	}
	if got := redrive("", false); got != "{2 0 2}" {
		t.Errorf("all: %s", got)
	}
	if got := redrive("", false); got != "{0 0 2}" {
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

// What we have written is given back, too, in either form, and to a queue without an
// exchange of its own.
func TestRedriveOurs(t *testing.T) {
	for _, body := range []string{"json", "original"} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			s, b := newBroker(t)
			s.Exchange.Name, s.Sneakers.MaxRetries, s.Sneakers.ErrorBody = none, 0, body
			c := Look(*s)
			if n, err := c.Redrive(t.Context(), "", false); err != nil || n != (Redriven{}) {
				t.Errorf("without queues: %v %v", n, err)
			}
			stop, _ := serve(t, source(t, s), fails)
			b.sendTo("", s.Queue, amqp.Publishing{Body: []byte{}, ContentType: "text/x", Headers: amqp.Table{"mine": "kept"}})
			b.waitReady(s.Queue+"-error", 1)
			stop()
			for _, test := range []struct {
				match string
				want  Redriven
			}{{"another", Redriven{Unmatched: 1}}, {"boom", Redriven{Matched: 1}}} {
				c := Look(*s)
				if n, err := c.Redrive(t.Context(), test.match, false); err != nil || n != test.want {
					t.Errorf("%s: %v %v", test.match, n, err)
				}
			}
		})
	}
}

// The properties as JSON, and as older and newer Ruby show a hash.
func TestOriginalProperties(t *testing.T) {
	for _, text := range []string{
		`{"content_type":"text/x","content_encoding":"gzip","priority":3,"headers":{}}`,
		`"{:headers=>{}, :content_type=>\"text/x\", :content_encoding=>\"gzip\"}"`,
		`"{headers: {}, content_type: \"text/x\", content_encoding: \"gzip\"}"`,
	} {
		if was := originalProperties([]byte(text)); was["content_type"] != "text/x" || was["content_encoding"] != "gzip" {
			t.Errorf("%s: %v", text, was)
		}
	}
}
