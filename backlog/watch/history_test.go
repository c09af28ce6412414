package watch_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/watch"
	"backlog/internal/testkit"
)

// attempt tells of one at a record; an empty text is a success.
func attempt(p *watch.Picture, id int, text string) {
	ev := backlog.Event{Kind: backlog.AttemptEnded, At: time.Unix(int64(id), 0), Tier: "1d", Outcome: backlog.Succeeded, Record: &backlog.Record{Key: backlog.NewKey(int64(id))}}
	if text != "" {
		ev.Outcome, ev.Err = backlog.Errored, errors.New(text)
	}
	p.Observe(ev)
}

func suspects(p *watch.Picture) (list []string) {
	for _, s := range p.Suspects() {
		list = append(list, fmt.Sprintf("%s:%d", s.ID, s.Failures))
	}
	return list
}

// A record is suspected after five failures among which half of the others succeed.
func TestSuspects(t *testing.T) {
	for _, x := range []struct {
		name            string
		passes, others  int // passes with the record, and how many others in each
		good            int // of the others
		success, wanted string
	}{
		{"others succeed", 5, 2, 2, "", "7:5"},
		{"half of them", 5, 2, 1, "", "7:5"},
		{"fewer than half", 5, 3, 1, "", ""},
		{"four failures", 4, 2, 2, "", ""},
		{"nobody else", 5, 0, 0, "", ""},
		{"it goes on", 8, 2, 2, "", "7:8"},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := new(watch.Picture)
			for range x.passes {
				for i := range x.others {
					text := "away"
					if i < x.good {
						text = ""
					}
					attempt(p, 100+i, text)
				}
				attempt(p, 7, "no such order")
			}
			got := suspects(p)
			for len(got) > 0 && !strings.HasPrefix(got[len(got)-1], "7:") {
				got = got[:len(got)-1] // another record that fails
			}
			if strings.Join(got, " ") != x.wanted && (len(got) == 0 || got[0] != x.wanted) {
				t.Errorf("got %v, want %q", got, x.wanted)
			}
			attempt(p, 7, "")
			if got := strings.Join(suspects(p), " "); strings.Contains(got, "7:") {
				t.Errorf("after its success: %s", got)
			}
		})
	}
}

// Of each record that failed the last five attempts are remembered, its success among them.
func TestAttempts(t *testing.T) {
	p := new(watch.Picture)
	attempt(p, 8, "")
	for i := range 5 {
		attempt(p, 7, fmt.Sprint("no answer ", i))
	}
	attempt(p, 7, "")
	list := p.Attempts(backlog.NewKey(int64(7)))
	if len(list) != 5 {
		t.Fatalf("got %d attempts, want 5: %+v", len(list), list)
	}
	testkit.Equal(t, "the last outcome", list[0].Outcome, "success")
	testkit.Equal(t, "the error before", list[1].Error, "no answer 4")
	testkit.Equal(t, "the oldest error", list[4].Error, "no answer 1")
	if list := p.Attempts(backlog.NewKey(int64(8))); len(list) != 0 {
		t.Errorf("a record that never failed: %+v", list)
	}
}

func TestFailures(t *testing.T) {
	p := new(watch.Picture)
	for i := range 3 {
		attempt(p, 1+i, fmt.Sprintf("order %d is lost", i))
	}
	attempt(p, 9, "refused")
	f := p.Failures()
	if len(f.Causes) != 2 {
		t.Fatalf("got %d causes, want 2: %+v", len(f.Causes), f)
	}
	lost, refused := f.Causes[0], f.Causes[1]
	testkit.Equal(t, "failed attempts", f.Attempts, 4)
	testkit.Equal(t, "the most frequent cause", lost.Error, "order # is lost")
	testkit.Equal(t, "its share", lost.Share, 0.75)
	testkit.Equal(t, "when it was last seen", time.Time(lost.LastSeen), time.Unix(3, 0))
	testkit.Equal(t, "its first tier", lost.Tiers[0], "1d")
	testkit.Equal(t, "the first record of the other cause", string(refused.First), "9")
}

// A cause's records are counted once each, its attempts every time: a success between them
// changes nothing. The share is of attempts.
func TestFailuresOfOneRecord(t *testing.T) {
	p := new(watch.Picture)
	for i := range 7 {
		attempt(p, 1, "no answer")
		if i%2 == 0 {
			attempt(p, 1, "")
			attempt(p, 2, "no answer")
		}
	}
	attempt(p, 1, "refused")
	f := p.Failures()
	type count struct{ records, attempts int }
	var causes []count
	for _, c := range f.Causes {
		causes = append(causes, count{c.Records, c.Attempts})
	}
	testkit.Equal(t, "causes", causes, []count{{records: 2, attempts: 11}, {records: 1, attempts: 1}})
	testkit.Equal(t, "failed attempts", f.Attempts, 12)
}

// Of more records than are held each that fails once is still counted once.
func TestFailuresOfManyRecords(t *testing.T) {
	p := new(watch.Picture)
	for i := range 120_000 {
		attempt(p, i, "no answer")
		attempt(p, i, "no answer")
	}
	if c := p.Failures().Causes[0]; c.Records != 120_000 || c.Attempts != 240_000 {
		t.Errorf("got %+v", c)
	}
}

// A pass tells what it covered and made up for; it runs until it has ended, and is kept.
func TestPasses(t *testing.T) {
	p := new(watch.Picture)
	p.Restore([]watch.Pass{{Tier: "7d", N: 1}}, []watch.PastOutage{{Outage: watch.Outage{Cause: "old"}}}, nil)
	at := time.UnixMilli(1_700_000_000_000)
	report := &backlog.Report{Tier: "7d", Started: at}
	p.Observe(backlog.Event{Kind: backlog.TicksMissed, Tier: "7d", N: 4})
	p.Observe(backlog.Event{Kind: backlog.TierCovered, Tier: "1d", By: "7d"})
	p.Observe(backlog.Event{Kind: backlog.PassStarted, Tier: "7d", Report: report})
	if r := p.Running(); len(r) != 1 || r[0].Tier != "7d" || r[0].Missed != 4 {
		t.Errorf("running: %+v", r)
	}
	p.Observe(backlog.Event{Kind: backlog.PassEnded, Tier: "7d", Report: report})
	list := p.Passes()
	if len(list) != 2 {
		t.Fatalf("got %d passes, want 2: %+v", len(list), list)
	}
	testkit.Equal(t, "running passes", len(p.Running()), 0)
	testkit.Equal(t, "number of the last pass", list[0].N, 1_700_000_000_000)
	testkit.Equal(t, "tiers that it covered", list[0].Covered, []string{"1d"})
	testkit.Equal(t, "number of the restored pass", list[1].N, 1)
	if last := p.Last("7d"); last == nil || last.Missed != 4 {
		t.Errorf("the last pass: %+v", last)
	}
	if o := p.Outages(); len(o) != 1 || o[0].Cause != "old" {
		t.Errorf("outages: %+v", o)
	}
}

// What has been is bounded, whatever comes.
func TestHistoryIsBounded(t *testing.T) {
	p := new(watch.Picture)
	for i := range 1100 {
		p.Observe(backlog.Event{Kind: backlog.PassEnded, Tier: "1d", Report: &backlog.Report{Started: time.UnixMilli(int64(i))}})
	}
	for i := range 12_000 {
		attempt(p, i, strings.Repeat("x", 5000))
	}
	if list := p.Passes(); len(list) != 1000 || list[0].N != 1099 {
		t.Errorf("passes: %d", len(list))
	}
	if first, last := p.Attempts(backlog.NewKey(int64(1))), p.Attempts(backlog.NewKey(int64(11_999))); len(first) != 0 || len(last) != 1 || len(last[0].Error) > 300 {
		t.Errorf("attempts: %v, %v", first, last)
	}
}
