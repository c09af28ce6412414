package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
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

// Missed ticks that were not all counted are at least so many.
func TestObserverSaysMissed(t *testing.T) {
	for _, more := range []bool{false, true} {
		var out bytes.Buffer
		newObserver(slog.New(slog.NewJSONHandler(&out, nil))).Observe(backlog.Event{Kind: backlog.TicksMissed, At: time.Now(), N: 9999, AtLeast: more})
		var line map[string]any
		if err := json.Unmarshal(out.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if atLeast, said := line["missed_at_least"]; line["missed"] != 9999.0 || said != more || said && atLeast != true {
			t.Errorf("more %v: got %v", more, line)
		}
	}
}

// A pass that takes its time is in the log before its end; of others that is
// enough.
func TestPassUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		o := newObserver(slog.New(slog.NewJSONHandler(&log, nil)))
		for _, x := range []struct {
			tier string
			took time.Duration
		}{{"1d", time.Second - 1}, {"7d", time.Second + 1}, {"1d", 0}} {
			o.Observe(backlog.Event{Kind: backlog.PassStarted, Tier: x.tier, At: time.Now()})
			time.Sleep(x.took)
			synctest.Wait()
			o.Observe(backlog.Event{Kind: backlog.PassEnded, Tier: x.tier, Report: &backlog.Report{Tier: x.tier}})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		list := logged(t, &log, "pass under way")
		if len(list) != 1 || list[0]["tier"] != "7d" || list[0]["started"] != "2000-01-01T00:00:00Z" {
			t.Errorf("got %v", list)
		}
	})
}

// Outcomes that could not be written are told of in one line of the pass, which
// says how many, whose and why.
func TestUnwritten(t *testing.T) {
	var log bytes.Buffer
	o := newObserver(slog.New(slog.NewJSONHandler(&log, nil)))
	for pass, n := range []int{56, 0, 2, 1} {
		for i := range n {
			rec := &backlog.Record{Key: backlog.NewKey(int64(100*pass + i))}
			o.Observe(backlog.Event{Kind: backlog.Unwritten, Tier: "1d", Record: rec, Outcome: backlog.Succeeded, Err: errors.New("it is full")})
		}
		if pass == 3 { // given up after the end of the pass, which had lost its lock
			o.end()
			break
		}
		o.Observe(backlog.Event{Kind: backlog.PassEnded, Tier: "1d", Report: &backlog.Report{Tier: "1d"}})
	}
	list := logged(t, &log, "outcomes could not be written: their records will be handled again")
	if len(list) != 3 {
		t.Fatalf("want a line for each pass with such outcomes, got %v", list)
	}
	for i, want := range []map[string]any{
		{"outcomes": 56., "ids": "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 46 more"},
		{"outcomes": 2., "ids": "200, 201"},
		{"outcomes": 1., "ids": "300"},
	} {
		got := list[i]
		if got["level"] != "ERROR" || got["outcomes"] != want["outcomes"] || got["ids"] != want["ids"] || got["error"] != "it is full" || got["tier"] != "1d" {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}
