package backlog_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"backlog/backlog"
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
	if line.Level != "DEBUG" || line.Msg != "exchange" || line.Attempt != "attempt" || line.ID != "7" || line.Sent != "short \uFFFD" {
		t.Errorf("logged %+v", line)
	}
	if len(line.Got) > 2<<10 || len(line.Got) < 2000 || !strings.HasSuffix(line.Got, "ä…") || !utf8.ValidString(line.Got) {
		t.Errorf("a long text is cut to %d bytes: …%q", len(line.Got), line.Got[max(0, len(line.Got)-10):])
	}
}
