package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/causes"
)

// failures feeds an observer with what a pass tells of records that fail: the
// n-th has the n-th error.
func failures(o *observer, tier string, errs ...error) {
	o.Observe(backlog.Event{Kind: backlog.PassStarted, Tier: tier})
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

// Ten thousand failures of one cause read as one line, in the log and below
// the report.
func TestCauses(t *testing.T) {
	var log bytes.Buffer
	o := newObserver(slog.New(slog.NewJSONHandler(&log, nil)))
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

	if got := len(logged(t, &log, "failed")) + len(logged(t, &log, "rejected")); got != 9998 {
		t.Errorf("%d errors are in the log, want each of 9998", got)
	}
	var got []string
	for _, line := range logged(t, &log, "failed alike") {
		got = append(got, fmt.Sprintf("%v %v, %v %v: %.20v", line["tier"], line["cause"], line["records"], line["first_id"], line["example"]))
	}
	want := []string{
		"7d order #: the service is away, 9983 3: order 3: the service",
		`7d no such city "#", 10 1: no such city "x"`,
		"7d is out of stock, 1 2:  is out of stock",
		"7d un is out of stock, 1 2002: un is out of stock",
		"7d unun is out of stock, 1 4002: unun is out of stock",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if rest := logged(t, &log, "failed otherwise"); len(rest) != 1 || rest[0]["causes"] != 2.0 || rest[0]["records"] != 2.0 {
		t.Errorf("the others are summed up as %v", rest)
	}

	var out strings.Builder
	if err := printReport(&out, "7d", backlog.Report{Tier: "7d"}, false, o.causes("7d")); err != nil {
		t.Fatal(err)
	}
	const text = `7d: 0 records selected in 0s
  9,983 × order #: the service is away (first: id 3)
  10 × no such city "#" (first: id 1)
  1 × is out of stock (first: id 2)
  1 × un is out of stock (first: id 2002)
  1 × unun is out of stock (first: id 4002)
  2 × for 2 other causes
`
	if out.String() != text {
		t.Errorf("the report is\n%swant\n%s", &out, text)
	}
}

// What is summed up is the last pass of each tier, and that once.
func TestCausesOfPasses(t *testing.T) {
	var log bytes.Buffer
	o := newObserver(slog.New(slog.NewJSONHandler(&log, nil)))
	broken := errors.New("broken")
	lines := func() int { return len(logged(t, &log, "failed alike")) }
	failures(o, "1d", broken, broken)
	failures(o, "7d", errors.New("one error is its own summary"))
	if lines() != 1 {
		t.Errorf("want one summary, got %s", &log)
	}
	o.Observe(backlog.Event{Kind: backlog.PassEnded, Tier: "1d", Report: &backlog.Report{Tier: "1d"}, Err: errors.New("no lock")})
	if lines() != 1 {
		t.Errorf("want no summary of a pass that did not begin, got %s", &log)
	}
	if c := o.causes("1d"); len(c) != 1 || c[0].Records != 2 {
		t.Errorf("want the causes there after the pass, got %v", c)
	}
	failures(o, "1d")
	if c := o.causes("1d"); len(c) != 0 {
		t.Errorf("want none after a pass without errors, got %v", c)
	}
}

func TestCausesOfOnDead(t *testing.T) {
	o := newObserver(slog.New(slog.DiscardHandler))
	for i := range 3 {
		o.Observe(backlog.Event{Kind: backlog.OnDeadFailed, Tier: "1d", Record: &backlog.Record{Key: backlog.NewKey(int64(i))}, Err: fmt.Errorf("no mail to user%d", i)})
	}
	if c := o.causes("1d"); len(c) != 1 || c[0].Text != "on_dead: no mail to user#" || c[0].Records != 3 {
		t.Errorf("got %v", c)
	}
}

// A cause reads as the error does where that is the same each time; what differs
// is left out only where it does.
func TestCausesShow(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		errs       []string
	}{
		{"one record", "timed out after 1.5s", []string{"timed out after 1.5s"}},
		{"all the same", "POST http://127.0.0.1:8080: connection refused", []string{"POST http://127.0.0.1:8080: connection refused", "POST http://127.0.0.1:8080: connection refused"}},
		{"they differ", "timed out after #s", []string{"timed out after 1.5s", "timed out after 1.5s", "timed out after 2s"}},
		{"lines", "Traceback: order 7 is lost", []string{"Traceback:\n\torder 7 is lost\n"}},
		{"an exit status that is an id, too", "exit status 1", []string{"exit status 1", "exit status 1", "exit status 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newObserver(slog.New(slog.DiscardHandler))
			failures(o, "1d", repeated(len(tt.errs), func(i int) error { return errors.New(tt.errs[i-1]) })...)
			if got, want := causes.Lines(o.causes("1d")), fmt.Sprintf("  %d × %s (first: id 1)\n", len(tt.errs), tt.want); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			var out bytes.Buffer
			var got struct{ Causes []struct{ Error string } }
			if err := errors.Join(printReport(&out, "1d", backlog.Report{}, true, o.causes("1d")), json.Unmarshal(out.Bytes(), &got)); err != nil {
				t.Fatal(err)
			}
			if got.Causes[0].Error != tt.want {
				t.Errorf("JSON has %q, want %q", got.Causes[0].Error, tt.want)
			}
		})
	}
}

// A terminal shows a few of the errors that are alike; any other log has all.
func TestFloodOnATerminal(t *testing.T) {
	for _, tt := range []struct {
		name     string
		terminal bool
		level    slog.Level
		err      func(i int) error
		want     int
	}{
		{"alike", true, slog.LevelInfo, func(i int) error { return fmt.Errorf("order %d", i) }, maxAlike},
		{"none alike", true, slog.LevelInfo, func(i int) error { return errors.New(strings.Repeat("x", i)) }, maxShown},
		{"debug", true, slog.LevelDebug, func(i int) error { return fmt.Errorf("order %d", i) }, 300},
		{"no terminal", false, slog.LevelInfo, func(i int) error { return fmt.Errorf("order %d", i) }, 300},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			h := slog.Handler(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: tt.level}))
			if tt.terminal {
				h = onTerminal{h}
			}
			failures(newObserver(slog.New(h)), "1d", repeated(300, tt.err)...)
			if got := len(logged(t, &log, "failed")); got != tt.want {
				t.Errorf("%d of 300 errors are shown, want %d", got, tt.want)
			}
			said := strings.Count(log.String(), "more records fail: ")
			if said > 1 || (said == 1) != (tt.want < 300) {
				t.Errorf("it is said %d times that there are more", said)
			}
		})
	}
}

func TestCausesConcurrently(t *testing.T) {
	o := newObserver(slog.New(slog.DiscardHandler))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 100 {
				o.Observe(backlog.Event{Kind: backlog.AttemptEnded, Tier: "1d", Outcome: backlog.Errored, Err: fmt.Errorf("order %d", i), Record: &backlog.Record{Key: backlog.NewKey(int64(i))}})
			}
		})
	}
	all.Wait()
	if c := o.causes("1d"); len(c) != 1 || c[0].Records != 800 {
		t.Errorf("got %v", c)
	}
}

// BenchmarkCauses is the tally's share of a failed record, as a part of what it
// costs to log the record's error. Limit: 1.
func BenchmarkCauses(b *testing.B) {
	errs := repeated(1000, func(i int) error {
		return fmt.Errorf("deliver order %d to joe%d@example.com: dial tcp 10.0.%d.1:5432: connect: connection refused", i, i, i%256)
	})
	r := &backlog.Record{Key: backlog.NewKey(int64(4711))}
	log := slog.New(slog.NewJSONHandler(io.Discard, nil)).With("tier", "1d")
	o := newObserver(log)
	var tally, line time.Duration
	n := 0
	for b.Loop() {
		start := time.Now()
		for _, err := range errs {
			o.count(log, backlog.Event{Tier: "1d", Record: r, Err: err}, "")
		}
		middle := time.Now()
		for _, err := range errs {
			log.With("id", r.Key.String()).Warn("failed", "error", err)
		}
		tally, line, n = tally+middle.Sub(start), line+time.Since(middle), n+len(errs)
	}
	b.ReportMetric(float64(tally.Nanoseconds())/float64(n), "ns/record")
	b.ReportMetric(float64(tally)/float64(line), "tally/line")
}
