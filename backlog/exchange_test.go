package backlog_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"backlog/backlog"
	"backlog/internal/testkit"
)

func TestLogExchange(t *testing.T) {
	var out bytes.Buffer
	r := &backlog.Record{Key: backlog.NewKey(int64(7)), AttemptID: "attempt"}
	level := new(slog.LevelVar)
	log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level}))
	exchange := func(sent, got string) func() (string, string) { return func() (string, string) { return sent, got } }
	backlog.LogExchange(t.Context(), nil, r, exchange("a", "b"))
	backlog.LogExchange(t.Context(), log, r, exchange("a", "b"))
	if out.Len() > 0 {
		t.Fatalf("logged without DEBUG: %s", &out)
	}
	level.Set(slog.LevelDebug)
	backlog.LogExchange(t.Context(), log, r, exchange("short \xff", strings.Repeat("ä", 2000)))
	var line struct {
		Level, Msg, ID, Sent, Got string
		Attempt                   string `json:"attempt_id"`
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "level", line.Level, "DEBUG")
	testkit.Equal(t, "message", line.Msg, "exchange")
	testkit.Equal(t, "attempt", line.Attempt, "attempt")
	testkit.Equal(t, "id", line.ID, "7")
	testkit.Equal(t, "sent", line.Sent, "short \uFFFD")
	if n := len(line.Got); n < 2000 || n > 2<<10 {
		t.Errorf("a long text is cut to %d bytes, want 2000 to 2 KiB", n)
	}
	if !strings.HasSuffix(line.Got, "ä…") {
		t.Errorf("a long text ends in %q, want a whole letter and …", line.Got[max(0, len(line.Got)-10):])
	}
	testkit.Equal(t, "a long text is valid UTF-8", utf8.ValidString(line.Got), true)
}
