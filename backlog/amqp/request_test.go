package amqp

import (
	"strings"
	"testing"

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
