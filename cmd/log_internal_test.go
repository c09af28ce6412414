package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"backlog/backlog"
)

// What becomes of a record, or of a lock, is said in words that a search for
// them finds.
func TestObserverSays(t *testing.T) {
	broken := errors.New("it is broken")
	rec := &backlog.Record{Key: backlog.NewKey(int64(4))}
	for _, tt := range []struct {
		ev         backlog.Event
		level, msg string
		id         any
	}{
		{backlog.Event{Kind: backlog.AttemptEnded, Record: rec, Outcome: backlog.Errored, Err: broken}, "WARN", "failed", "4"},
		{backlog.Event{Kind: backlog.AttemptEnded, Record: rec, Outcome: backlog.Errored, Err: broken, GivenUp: true}, "WARN", "given up: out of retries", "4"},
		{backlog.Event{Kind: backlog.AttemptEnded, Record: rec, Outcome: backlog.Rejected, Err: broken, GivenUp: true}, "WARN", "rejected", "4"},
		{backlog.Event{Kind: backlog.OnDeadFailed, Record: rec, Err: broken}, "ERROR", "on_dead failed: nobody has been told that the record is dead", "4"},
		{backlog.Event{Kind: backlog.LockLost, Err: broken}, "ERROR", "the run lock is lost: its passes are stopped and taken up again at the next wake", nil},
	} {
		var out bytes.Buffer
		tt.ev.At = time.Now()
		newObserver(slog.New(slog.NewJSONHandler(&out, nil))).Observe(tt.ev)
		var line map[string]any
		if err := json.Unmarshal(out.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v in %q", tt.msg, err, &out)
		}
		if line["level"] != tt.level || line["msg"] != tt.msg || line["id"] != tt.id || line["error"] != broken.Error() {
			t.Errorf("got %v, want %s, %s and the id %v", line, tt.level, tt.msg, tt.id)
		}
	}
}
