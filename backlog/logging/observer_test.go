package logging_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/logging"
	"backlog/internal/testkit"
)

// debug is a log of everything.
var debug = &slog.HandlerOptions{Level: slog.LevelDebug}

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
		{backlog.Event{Kind: backlog.AttemptEnded, Record: rec, Outcome: backlog.Errored, Err: broken}, "DEBUG", "failed", "4"},
		{backlog.Event{Kind: backlog.AttemptEnded, Record: rec, Outcome: backlog.Rejected, Err: broken}, "DEBUG", "rejected", "4"},
		{backlog.Event{Kind: backlog.OnDeadFailed, Record: rec, Err: broken}, "ERROR", "on_dead failed: the record is dead, and its notification was not delivered", "4"},
		{backlog.Event{Kind: backlog.LockLost, Err: broken}, "ERROR", "the run lock is lost: its passes are stopped and taken up again at the next wake", nil},
	} {
		var out bytes.Buffer
		tt.ev.At = time.Now()
		logging.New(slog.New(slog.NewJSONHandler(&out, debug))).Observe(tt.ev)
		var line map[string]any
		if err := json.Unmarshal(out.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v in %q", tt.msg, err, &out)
		}
		testkit.Equal(t, tt.msg+": level", line["level"], any(tt.level))
		testkit.Equal(t, tt.msg+": message", line["msg"], any(tt.msg))
		testkit.Equal(t, tt.msg+": id", line["id"], tt.id)
		testkit.Equal(t, tt.msg+": error", line["error"], any(broken.Error()))
	}
}

// A pass that takes hours skips a tick each minute, which is a warning now and then.
func TestObserverSaysSkipped(t *testing.T) {
	var out bytes.Buffer
	o := logging.New(slog.New(slog.NewJSONHandler(&out, nil)))
	began := time.Now()
	for minute := range 60 {
		o.Observe(backlog.Event{Kind: backlog.TierSkipped, Tier: "1d", At: began.Add(time.Duration(minute) * time.Minute)})
	}
	testkit.Equal(t, "the warnings", len(logged(t, &out, "tick skipped: the tier's last pass still runs")), 12)
}

// Missed ticks that were not all counted are at least so many.
func TestObserverSaysMissed(t *testing.T) {
	for _, more := range []bool{false, true} {
		var out bytes.Buffer
		logging.New(slog.New(slog.NewJSONHandler(&out, debug))).Observe(backlog.Event{Kind: backlog.TicksMissed, At: time.Now(), N: 9999, AtLeast: more})
		var line map[string]any
		if err := json.Unmarshal(out.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		testkit.Equal(t, "missed", line["missed"], any(9999.0))
		atLeast, said := line["missed_at_least"]
		testkit.Equal(t, "the line has missed_at_least", said, more)
		if said {
			testkit.Equal(t, "missed_at_least", atLeast, any(true))
		}
	}
}

// A pass that takes its time is in the log before its end; of others that is
// enough.
func TestPassUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		o := logging.New(slog.New(slog.NewJSONHandler(&log, nil)))
		for _, x := range []struct {
			tier string
			took time.Duration
		}{{"1d", time.Second - 1}, {"7d", time.Second + 1}, {"1d", 0}} {
			o.Observe(backlog.Event{Kind: backlog.PassStarted, Report: new(backlog.Report), Tier: x.tier, At: time.Now()})
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
	o := logging.New(slog.New(slog.NewJSONHandler(&log, nil)))
	for pass, n := range []int{56, 0, 2, 1} {
		for i := range n {
			rec := &backlog.Record{Key: backlog.NewKey(int64(100*pass + i))}
			o.Observe(backlog.Event{Kind: backlog.Unwritten, Tier: "1d", Record: rec, Outcome: backlog.Succeeded, Err: errors.New("it is full")})
		}
		if pass == 3 { // given up after the end of the pass, which had lost its lock
			o.End()
			break
		}
		o.Observe(backlog.Event{Kind: backlog.PassEnded, Tier: "1d", Report: &backlog.Report{Tier: "1d"}})
	}
	list := logged(t, &log, "outcomes could not be written: their records will be handled again")
	if len(list) != 3 {
		t.Fatalf("want a line for each pass with such outcomes, got %v", list)
	}
	for i, want := range []map[string]any{
		{"level": "ERROR", "outcomes": 56., "ids": "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 46 more", "error": "it is full", "tier": "1d"},
		{"level": "ERROR", "outcomes": 2., "ids": "200, 201", "error": "it is full", "tier": "1d"},
		{"level": "ERROR", "outcomes": 1., "ids": "300", "error": "it is full", "tier": "1d"},
	} {
		for key := range want {
			testkit.Equal(t, fmt.Sprintf("line %d: %s", i+1, key), list[i][key], want[key])
		}
	}
}

// failures feeds an observer with what a pass tells of records that fail: the
// n-th has the n-th error.
func failures(o *logging.Observer, tier string, errs ...error) {
	o.Observe(backlog.Event{Kind: backlog.PassStarted, Report: new(backlog.Report), Tier: tier})
	for i, err := range errs {
		o.Observe(backlog.Event{
			Kind: backlog.AttemptEnded, Tier: tier, Outcome: backlog.OutcomeOf(err), Err: err,
			Record: &backlog.Record{Key: backlog.NewKey(int64(i + 1))},
		})
	}
	o.Observe(backlog.Event{Kind: backlog.PassEnded, Tier: tier, Report: &backlog.Report{Tier: tier}})
}

// repeated returns n errors, the i-th as f has it.
func repeated(n int, f func(i int) error) []error {
	list := make([]error, n)
	for i := range list {
		list[i] = f(i + 1)
	}
	return list
}

// logged returns the lines of a JSON log with the message.
func logged(t *testing.T, log *bytes.Buffer, msg string) (lines []map[string]any) {
	t.Helper()
	for d := json.NewDecoder(bytes.NewReader(log.Bytes())); ; {
		var line map[string]any
		switch err := d.Decode(&line); {
		case err == io.EOF:
			return lines
		case err != nil:
			t.Fatal(err)
		case line["msg"] == msg:
			lines = append(lines, line)
		}
	}
}

// Ten thousand failures of one cause read as one line.
func TestCauses(t *testing.T) {
	var log bytes.Buffer
	o := logging.New(slog.New(slog.NewJSONHandler(&log, nil)))
	failures(o, "7d", repeated(10_000, func(i int) error {
		switch {
		case i%1000 == 1:
			return backlog.Reject(fmt.Errorf("no such city %q", strings.Repeat("x", i)))
		case i == 77:
			return backlog.Skip
		case i == 88:
			return nil
		case i%2000 == 2:
			return fmt.Errorf("%s is out of stock", strings.Repeat("un", i/2000))
		}
		return fmt.Errorf("order %d: the service is away", i)
	})...)

	var got []string
	for _, line := range logged(t, &log, "records failed") {
		got = append(got, fmt.Sprintf("%v %v, %v %v: %.20v", line["tier"], line["cause"], line["records"], line["first_id"], cmp.Or(line["example"], any(""))))
	}
	want := []string{
		"7d order #: the service is away, 9983 3: order 3: the service",
		`7d no such city "#", 10 1: no such city "x"`,
		"7d is out of stock, 1 2:  is out of stock",
		"7d un is out of stock, 1 2002: ",
		"7d unun is out of stock, 1 4002: ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if rest := logged(t, &log, "records failed for more causes"); len(rest) != 1 || rest[0]["causes"] != 2.0 || rest[0]["records"] != 2.0 {
		t.Errorf("the others are summed up as %v", rest)
	}

}

// What is summed up is the last pass of each tier, and that once.
func TestCausesOfPasses(t *testing.T) {
	var log bytes.Buffer
	o := logging.New(slog.New(slog.NewJSONHandler(&log, nil)))
	broken := errors.New("broken")
	lines := func() int { return len(logged(t, &log, "records failed")) }
	failures(o, "1d", broken, broken)
	if lines() != 1 {
		t.Errorf("want one summary, got %s", &log)
	}
	o.Observe(backlog.Event{Kind: backlog.PassEnded, Tier: "1d", Report: &backlog.Report{Tier: "1d"}, Err: errors.New("no lock")})
	if lines() != 1 {
		t.Errorf("want no summary of a pass that did not begin, got %s", &log)
	}
	if c := o.Picture.Causes("1d"); len(c) != 1 || c[0].Records != 2 {
		t.Errorf("want the causes there after the pass, got %v", c)
	}
	failures(o, "1d")
	if c := o.Picture.Causes("1d"); len(c) != 0 {
		t.Errorf("want none after a pass without errors, got %v", c)
	}
}
