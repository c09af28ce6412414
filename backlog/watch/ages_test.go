package watch_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/watch"
	"backlog/internal/testkit"
)

// A pass counts its attempts by the age that their records had when it started. Attempts that say nothing about
// their records, or whose outcomes were not written, do not count.
func TestAgesOfAPass(t *testing.T) {
	start := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	record := func(lane backlog.Lane, age time.Duration) *backlog.Record {
		return &backlog.Record{Key: backlog.NewKey(int64(1)), Lane: lane, Inserted: start.Add(-age), AttemptID: "a1"}
	}
	ended := func(r *backlog.Record, o backlog.Outcome) backlog.Event {
		ev := backlog.Event{Kind: backlog.AttemptEnded, Tier: "1d", Record: r, Outcome: o}
		if o == backlog.Errored || o == backlog.Rejected {
			ev.Err = errors.New("boom")
		}
		return ev
	}
	counting := record(backlog.Failed, time.Hour)
	counting.Memory = &backlog.Memory{LastFailure: start.Add(-10 * time.Minute)}
	undated := &backlog.Record{Key: backlog.NewKey(int64(2)), AttemptID: "a2"}
	dead := record(backlog.Failed, time.Hour)
	dead.Reason = backlog.ReasonExpired
	tried := record(backlog.Fresh, time.Minute)
	tried.AttemptID = ""
	undone := ended(record(backlog.Fresh, time.Minute), backlog.Skipped)
	undone.Err = backlog.ErrConflict
	for _, x := range []struct {
		name   string
		events []backlog.Event
		want   string
	}{
		{"no attempt", nil, `[]`},
		{"a success at the edge of a band",
			[]backlog.Event{ended(record(backlog.Fresh, time.Minute), backlog.Succeeded)},
			`[{"upto":60,"fresh":[1,1]}]`},
		{"both lanes",
			[]backlog.Event{
				ended(record(backlog.Fresh, time.Minute), backlog.Errored),
				ended(record(backlog.Failed, time.Hour), backlog.Errored),
				ended(record(backlog.Failed, time.Hour), backlog.Succeeded),
			},
			`[{"upto":60,"fresh":[1,0]},{"upto":5400,"failed":[2,1]}]`},
		{"a row that tells when it failed last",
			[]backlog.Event{ended(counting, backlog.Errored)},
			`[{"upto":5400,"failed":[1,0],"waited":600,"aged":3600}]`},
		{"a rejected record is tried once",
			[]backlog.Event{ended(record(backlog.Fresh, 900*24*time.Hour), backlog.Rejected)},
			`[{"upto":null,"fresh":[1,0]}]`},
		{"a date ahead of the clock is now",
			[]backlog.Event{ended(record(backlog.Fresh, -time.Hour), backlog.Succeeded)},
			`[{"upto":60,"fresh":[1,1]}]`},
		{"a skipped record, one that was handed over, one without a date",
			[]backlog.Event{
				ended(record(backlog.Fresh, time.Minute), backlog.Skipped),
				ended(record(backlog.Fresh, time.Minute), backlog.HandedOver),
				ended(undated, backlog.Succeeded),
			},
			`[]`},
		{"outcomes that are not written",
			[]backlog.Event{
				ended(record(backlog.Fresh, time.Minute), backlog.Succeeded),
				{Kind: backlog.Conflicted, Tier: "1d", Record: record(backlog.Fresh, time.Minute), Outcome: backlog.Succeeded},
				ended(record(backlog.Fresh, time.Minute), backlog.Errored),
				{Kind: backlog.Unwritten, Tier: "1d", Record: record(backlog.Fresh, time.Minute), Outcome: backlog.Errored},
				ended(counting, backlog.Errored),
				{Kind: backlog.Refused, Tier: "1d", Record: counting, Outcome: backlog.Errored},
			},
			`[]`},
		{"a refusal or a conflict without an attempt that counts takes nothing back",
			[]backlog.Event{
				ended(record(backlog.Fresh, time.Minute), backlog.Succeeded),
				{Kind: backlog.Refused, Tier: "1d", Record: tried, Outcome: backlog.Succeeded},
				{Kind: backlog.Refused, Tier: "1d", Record: dead, Outcome: backlog.Rejected},
				undone,
				{Kind: backlog.Conflicted, Tier: "1d", Record: record(backlog.Fresh, time.Minute), Outcome: backlog.Succeeded},
			},
			`[{"upto":60,"fresh":[1,1]}]`},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := new(watch.Picture)
			report := &backlog.Report{Tier: "1d", Started: start}
			p.Observe(backlog.Event{Kind: backlog.PassStarted, Tier: "1d", Report: report})
			for _, ev := range x.events {
				p.Observe(ev)
			}
			p.Observe(backlog.Event{Kind: backlog.PassEnded, Tier: "1d", Report: report})
			got, err := json.Marshal(p.Last("1d").Ages)
			if err != nil {
				t.Fatal(err)
			}
			testkit.Equal(t, "ages", string(got), x.want)
		})
	}
}

// BenchmarkAges is what a record costs that succeeds, whether or not its age is counted.
func BenchmarkAges(b *testing.B) {
	start := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	for name, inserted := range map[string]time.Time{"counted": start.Add(-time.Hour), "no date": {}} {
		b.Run(name, func(b *testing.B) {
			p := new(watch.Picture)
			p.Observe(backlog.Event{Kind: backlog.PassStarted, Tier: "1d", Report: &backlog.Report{Started: start}})
			ev := backlog.Event{
				Kind:    backlog.AttemptEnded,
				Tier:    "1d",
				Outcome: backlog.Succeeded,
				Record:  &backlog.Record{Key: backlog.NewKey(int64(1)), Inserted: inserted},
			}
			for b.Loop() {
				p.Observe(ev)
			}
		})
	}
}
