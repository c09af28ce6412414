package amqp

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
	"backlog/internal/testkit"
)

// A secret has 16 characters at least.
func TestSecretLength(t *testing.T) {
	for length, want := range map[int]string{15: "secret: is shorter than 16 characters; `openssl rand -hex 32` makes one", 16: ""} {
		s := NewDispatchSettings()
		s.URL, s.Secret = []string{"amqp://guest:guest@localhost/"}, strings.Repeat("x", length)
		var got []string
		s.Check(func(field, problem string) { got = append(got, field+": "+problem) })
		testkit.Equal(t, "what is wrong", strings.Join(got, "\n"), want)
	}
}

// A request for a record without a date of insertion has none.
func TestRequestWithoutADate(t *testing.T) {
	m, _, err := new(Dispatch).request(&backlog.Record{Key: backlog.NewKey(int64(1)), AttemptID: "a"})
	if err != nil || !strings.Contains(string(m.Body), `"inserted":null`) {
		t.Errorf("%s, %v", m.Body, err)
	}
}

// The traceparent of an attempt is in the request and in a header of the message. Without one
// there is neither.
func TestRequestTraceparent(t *testing.T) {
	for traceparent, want := range map[string]struct {
		headers amqp.Table
		body    string
	}{
		"":                {nil, `"tier":"1d","record":{}`},
		"00-4bf9-00f0-01": {amqp.Table{"traceparent": "00-4bf9-00f0-01"}, `"tier":"1d","traceparent":"00-4bf9-00f0-01","record":{}`},
	} {
		r := &backlog.Record{Key: backlog.NewKey(int64(1)), AttemptID: "a", Tier: "1d", Traceparent: traceparent}
		m, _, err := new(Dispatch).request(r)
		if err != nil || !strings.Contains(string(m.Body), want.body) {
			t.Errorf("%q: %s, %v", traceparent, m.Body, err)
		}
		testkit.Equal(t, "headers", m.Headers, want.headers)
	}
}
