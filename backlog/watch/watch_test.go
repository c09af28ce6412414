package watch_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/watch"
	"backlog/internal/testkit"
)

// failures tells of records that fail: the n-th has the n-th error.
func failures(p *watch.Picture, tier string, errs ...string) {
	p.Observe(backlog.Event{Kind: backlog.PassStarted, Report: new(backlog.Report), Tier: tier})
	for i, text := range errs {
		p.Observe(backlog.Event{
			Kind: backlog.AttemptEnded, Tier: tier, Outcome: backlog.Errored, Err: errors.New(text),
			Record: &backlog.Record{Key: backlog.NewKey(int64(i + 1))},
		})
	}
}

// An outage begins with a pass without a success that had something new in it, and ends
// with the first success. Old poison alone is none.
func TestOutage(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	type pass struct {
		minute             int
		fresh, failed, won int
		stopped            string
		want               watch.Change
	}
	for _, x := range []struct {
		name   string
		passes []pass
	}{
		{"ten failures", []pass{{0, 10, 0, 0, "", watch.Began}}},
		{"nine", []pass{{0, 9, 0, 0, "", watch.Unchanged}}},
		{"one that was tried for the first time", []pass{{0, 1, 9, 0, "", watch.Began}}},
		{"abort_after", []pass{{0, 3, 0, 0, backlog.StoppedAbortAfter, watch.Began}}},
		{"one success", []pass{{0, 20, 0, 1, "", watch.Unchanged}}},
		{"old poison", []pass{{0, 0, 40, 0, "", watch.Unchanged}}},
		{"reminded less and less often", []pass{
			{0, 10, 0, 0, "", watch.Began}, {4, 0, 10, 0, "", watch.Unchanged}, {5, 0, 10, 0, "", watch.Ongoing}, {9, 0, 10, 0, "", watch.Unchanged},
			{10, 0, 10, 0, "", watch.Ongoing}, {15, 0, 10, 0, "", watch.Unchanged}, {20, 0, 10, 0, "", watch.Ongoing}, {40, 0, 10, 0, "", watch.Ongoing},
			{79, 0, 10, 0, "", watch.Unchanged}, {80, 0, 10, 0, "", watch.Ongoing}, {140, 0, 10, 0, "", watch.Ongoing}, {141, 0, 9, 1, "", watch.Recovered},
			{145, 9, 0, 0, "", watch.Unchanged},
		}},
		{"a pass without attempts says nothing", []pass{{0, 10, 0, 0, "", watch.Began}, {30, 0, 0, 0, "", watch.Unchanged}, {31, 0, 1, 0, "", watch.Ongoing}}},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := new(watch.Picture)
			attempt := func(lane backlog.Lane, outcome backlog.Outcome) watch.Change {
				ev := backlog.Event{Kind: backlog.AttemptEnded, Tier: "1d", Outcome: outcome, Record: &backlog.Record{Key: backlog.NewKey(int64(1)), Lane: lane}}
				if outcome == backlog.Errored {
					ev.Err = errors.New("the service is away")
				}
				c, _ := p.Observe(ev)
				return c
			}
			for i, y := range x.passes {
				at := start.Add(time.Duration(y.minute) * time.Minute)
				p.Observe(backlog.Event{Kind: backlog.PassStarted, Report: new(backlog.Report), Tier: "1d", At: at})
				for range y.fresh {
					attempt(backlog.Fresh, backlog.Errored)
				}
				for range y.failed {
					attempt(backlog.Failed, backlog.Errored)
				}
				got := watch.Unchanged
				for range y.won {
					got = max(got, attempt(backlog.Failed, backlog.Succeeded))
				}
				r := &backlog.Report{Tier: "1d", Started: at, Selected: y.fresh + y.failed + y.won, Succeeded: y.won, Failed: y.fresh + y.failed, Stopped: y.stopped}
				c, o := p.Observe(backlog.Event{Kind: backlog.PassEnded, Tier: "1d", At: at, Report: r})
				if got = max(got, c); got != y.want {
					t.Errorf("pass %d: got %v, want %v", i+1, got, y.want)
				}
				if c == watch.Began {
					testkit.Equal(t, "when the outage began", o.Since, at)
					testkit.Equal(t, "its cause", o.Cause, "the service is away")
					testkit.Equal(t, "its passes", o.Passes, 1)
				}
			}
		})
	}
}

// A process goes on with the outage that another has seen.
func TestRestoredOutage(t *testing.T) {
	p := new(watch.Picture)
	p.Restore(nil, nil, &watch.Outage{Passes: 7, Cause: "away"})
	c, o := p.Observe(backlog.Event{Kind: backlog.AttemptEnded, Outcome: backlog.Succeeded, Record: new(backlog.Record)})
	if c != watch.Recovered || o.Passes != 7 || p.Outage() != nil {
		t.Errorf("got %v, %+v", c, o)
	}
}

func TestCausesOfOnDead(t *testing.T) {
	o := new(watch.Picture)
	for i := range 3 {
		o.Observe(backlog.Event{Kind: backlog.OnDeadFailed, Tier: "1d", Record: &backlog.Record{Key: backlog.NewKey(int64(i))}, Err: fmt.Errorf("no mail to user%d", i)})
	}
	if c := o.Causes("1d"); len(c) != 1 || c[0].Text != "on_dead: no mail to user#" || c[0].Records != 3 {
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
			o := new(watch.Picture)
			failures(o, "1d", tt.errs...)
			got := watch.PassOf(backlog.Report{}, o.Causes("1d")).Causes
			want := []watch.Cause{{Error: tt.want, Records: len(tt.errs), First: json.RawMessage("1")}}
			testkit.Equal(t, "causes", got, want)
		})
	}
}

func TestCausesConcurrently(t *testing.T) {
	o := new(watch.Picture)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 100 {
				o.Observe(backlog.Event{Kind: backlog.AttemptEnded, Tier: "1d", Outcome: backlog.Errored, Err: fmt.Errorf("order %d", i), Record: &backlog.Record{Key: backlog.NewKey(int64(i))}})
			}
		})
	}
	all.Wait()
	if c := o.Causes("1d"); len(c) != 1 || c[0].Records != 800 {
		t.Errorf("got %v", c)
	}
}

// BenchmarkCauses is what a failed record costs.
func BenchmarkCauses(b *testing.B) {
	var list []backlog.Event
	for i := range 1000 {
		err := fmt.Errorf("deliver order %d to joe%d@example.com: dial tcp 10.0.%d.1:5432: connect: connection refused", i, i, i%256)
		list = append(list, backlog.Event{Kind: backlog.AttemptEnded, Tier: "1d", Outcome: backlog.Errored, Err: err, Record: &backlog.Record{Key: backlog.NewKey(int64(4711))}})
	}
	p := new(watch.Picture)
	for b.Loop() {
		for _, ev := range list {
			p.Observe(ev)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(list)), "ns/record")
}
