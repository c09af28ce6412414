package backlog_test

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// parseTraceparent reads a traceparent by the grammar of W3C Trace Context, level 1.
func parseTraceparent(text string) (traceID, parentID string, sampled bool, err error) {
	parts := strings.Split(text, "-")
	if len(parts) != 4 {
		return "", "", false, fmt.Errorf("%q has %d parts", text, len(parts))
	}
	for i, size := range []int{1, 16, 8, 1} {
		b, err := hex.DecodeString(parts[i])
		isZero := strings.Trim(parts[i], "0") == ""
		isID := i == 1 || i == 2
		if err != nil || len(b) != size || parts[i] != strings.ToLower(parts[i]) || isID && isZero {
			return "", "", false, fmt.Errorf("%q: part %d is not valid", text, i)
		}
	}
	if parts[0] != "00" || parts[3] != "00" && parts[3] != "01" {
		return "", "", false, fmt.Errorf("%q has another version or other flags", text)
	}
	return parts[1], parts[2], parts[3] == "01", nil
}

func TestTraceparent(t *testing.T) {
	for _, tt := range []struct {
		attempt string
		sampled bool
		want    string
	}{
		{"9c1f2a7be07d4411-3f", true, "00-e22b1cf2f04dae87efde7dedd1440832-2cd469ad9570eddf-01"},
		{"9c1f2a7be07d4411-3f", false, "00-e22b1cf2f04dae87efde7dedd1440832-2cd469ad9570eddf-00"},
		{"9c1f2a7be07d4411-3g", true, "00-ca44b225554be9b1c17eb4cc5da468f9-48ca5aaa43704e36-01"},
		{"", false, "00-e3b0c44298fc1c149afbf4c8996fb924-27ae41e4649b934c-00"},
	} {
		got := backlog.Traceparent(tt.attempt, tt.sampled)
		if got != tt.want {
			t.Errorf("%q: %s, want %s", tt.attempt, got, tt.want)
		}
		traceID, _, sampled, err := parseTraceparent(got)
		if err != nil || sampled != tt.sampled {
			t.Errorf("%q: read back as sampled: %v, error: %v", tt.attempt, sampled, err)
		}
		if id := (&backlog.Record{Traceparent: got}).TraceID(); id != traceID {
			t.Errorf("%q: the trace id is %s, want %s", tt.attempt, id, traceID)
		}
	}
	for _, text := range []string{"", "00"} {
		if id := (&backlog.Record{Traceparent: text}).TraceID(); id != "" {
			t.Errorf("%q has the trace id %s", text, id)
		}
	}
}

// OnDead is called within the trace of the attempt that the record died of. A death without an
// attempt has a trace of its own.
func TestTraceOfEachCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{Dead: "DEAD"}, func(context.Context, *backlog.Record) error {
			return backlog.Reject(errors.New("no such city"))
		})
		var dead []backlog.Record
		b.OnDead = backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
			dead = append(dead, *r)
			return nil
		})
		b.add(t, "NEW", 1, 1, time.Minute)
		b.pass(t)
		if r := dead[0]; b.calls.all()[0].rec.Traceparent != "" || r.Traceparent != "" {
			t.Errorf("without tracing the record has the traceparent %q", r.Traceparent)
		}

		b.Traceparent = func(r *backlog.Record) string { return backlog.Traceparent(r.AttemptID, true) }
		b.add(t, "NEW", 2, 1, time.Minute)
		b.add(t, "NEW", 3, 1, 2*day)
		b.passOf(t, backlog.Pass{MaxAge: day, Widest: true})
		if err := b.NotifyDiscarded(t.Context(), &backlog.Record{Key: backlog.NewKey(int64(4))}); err != nil {
			t.Fatal(err)
		}
		handled := b.calls.all()[1].rec
		if dead[1].Traceparent != handled.Traceparent {
			t.Errorf("on_dead has the traceparent %s, its attempt %s", dead[1].Traceparent, handled.Traceparent)
		}
		traces := make(map[string]bool)
		for _, r := range dead[1:] {
			if r.Traceparent != backlog.Traceparent(r.AttemptID, true) {
				t.Errorf("record %d, attempt %s: the traceparent is %q", id(&r), r.AttemptID, r.Traceparent)
			}
			traces[r.TraceID()] = true
		}
		if len(traces) != 3 {
			t.Errorf("three deaths have %d traces", len(traces))
		}
	})
}

// A latecomer is a handler with the outcome of one attempt that another process has begun.
type latecomer struct {
	backlog.Handler
	record backlog.Record
}

func (l latecomer) CollectLate(ctx context.Context, settle func(context.Context, []backlog.Record, []backlog.Answer) ([]error, error)) error {
	reasons, err := settle(ctx, []backlog.Record{l.record}, []backlog.Answer{{Outcome: backlog.Rejected}})
	return cmp.Or(err, reasons[0])
}

// Outcomes that no call waits for belong to the trace of their attempt.
func TestTraceOfLaterOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rejected := backlog.Answer{Outcome: backlog.Rejected, Text: "no such city"}
		answered := newRefreshBench(t, 1, func(context.Context, *backlog.Record) error { return backlog.Accepted })
		late := newBench(t, memory.Options{Dead: "DEAD"}, nil)
		var dead []backlog.Record
		for _, b := range []*bench{answered, late} {
			b.Traceparent = func(r *backlog.Record) string { return backlog.Traceparent(r.AttemptID, false) }
			b.OnDead = backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
				dead = append(dead, *r)
				return nil
			})
		}

		answered.pass(t)
		rejected.UID = answered.refreshOf(t, 1).UID
		if _, err := answered.Resolve(t.Context(), []backlog.Answer{rejected}); err != nil {
			t.Fatal(err)
		}
		late.add(t, "NEW", 1, 1, time.Minute)
		page, err := late.table.Pending(t.Context(), backlog.Query{Now: time.Now(), Since: time.Now().Add(-day), Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		page.Records[0].AttemptID = "another process's"
		late.Handler = latecomer{record: page.Records[0]}
		if err := late.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, attempt := range []string{rejected.UID, "another process's"} {
			if got, want := dead[i].Traceparent, backlog.Traceparent(attempt, false); got != want {
				t.Errorf("the traceparent is %q, want %s", got, want)
			}
		}
	})
}
