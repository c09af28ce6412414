package simulate_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/simulate"
	"backlog/internal/testkit"
	"backlog/tiers"
)

// A pending is a record of the naive walk.
type pending struct {
	simulate.Record
	n     int
	state backlog.Memory
	over  bool
}

func (p *pending) reached(at time.Time, start, widest tiers.Tier) bool {
	if p.Inserted.IsZero() {
		return !p.Oldest || start.Name == widest.Name
	}
	return p.Inserted.Before(at) && at.Sub(p.Inserted) <= start.MaxAge
}

// naive walks through every tick and, at each, every pending record.
func naive(w *simulate.Workload, o simulate.Options) *simulate.Report {
	var list []*pending
	for _, d := range w.Drawn() {
		list = append(list, &pending{Record: d, state: *cmp.Or(d.Memory, new(backlog.Memory))})
	}
	rule := o.Policy.Rule()
	r := &simulate.Report{Records: len(list), Series: make([]simulate.Bucket, int((w.To.Sub(w.From)+o.Bucket-1)/o.Bucket))}
	minutes := make(map[int64]int)
	for at := o.Schedule.Next(w.From); !at.After(w.To); at = o.Schedule.Next(at) {
		pick := tiers.Coalesce(o.Schedule.Due(at.Add(-1), at), func(tiers.Tier) bool { return true })
		var outage *simulate.Outage
		for i, out := range w.Outages {
			if !at.Before(out.From) && at.Before(out.To) {
				outage = &w.Outages[i]
			}
		}
		for _, p := range list {
			if p.over || !p.reached(at, pick.Start.Tier, o.Schedule.Widest()) || at.Before(p.Eligible) || !p.Expires.IsZero() && at.After(p.Expires) {
				continue
			}
			if due, ok := rule.At(backlog.Failed, &p.state); (p.n > 0 || p.Failed) && (!ok || due.After(at)) {
				continue
			}
			p.n++
			r.Attempts++
			minutes[at.Unix()/60]++
			b := &r.Series[(at.Sub(w.From)-1)/o.Bucket]
			b.Attempts++
			if outage == nil && !p.Poison && simulate.Roll(p.Seed, 2*p.n) < w.Success {
				r.Succeeded++
				p.over = true
				var end time.Time
				for _, out := range w.Outages {
					if !out.To.After(at) && out.To.After(p.Inserted) && out.To.After(end) {
						end = out.To
					}
				}
				if !end.IsZero() {
					r.Recovery = append(r.Recovery, at.Sub(end))
				}
				continue
			}
			r.Failed++
			b.Failed++
			end := backlog.End{Outcome: backlog.Errored, At: at, Random: func() float64 { return simulate.Roll(p.Seed, 2*p.n+1) }}
			next, over := o.Policy.End(&p.state, end)
			p.over = over
			if next != nil {
				p.state = *next
			}
			if p.over {
				r.Dead++
			}
		}
	}
	for _, p := range list {
		if !p.over && (!p.Inserted.IsZero() && w.To.Sub(p.Inserted) > o.Schedule.Widest().MaxAge || !p.Expires.IsZero() && w.To.After(p.Expires)) {
			r.Dead++
		}
	}
	for _, n := range minutes {
		r.PeakPerMinute = max(r.PeakPerMinute, n)
	}
	r.Pending = r.Records - r.Succeeded - r.Dead
	slices.Sort(r.Recovery)
	r.Recovered = len(r.Recovery)
	return r
}

func TestRunIsTheNaiveWalk(t *testing.T) {
	from := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	jitter := minutes(5)
	jitter.Planned, jitter.Wait = true, func(n int) (least, most time.Duration) {
		return time.Duration(n) * time.Minute, 3 * time.Duration(n) * time.Minute
	}
	schedules := map[string]*tiers.Schedule{
		"two tiers": testkit.Schedule(t, tiers.Tier{MaxAge: 2 * time.Hour, Every: 5 * time.Minute}, tiers.Tier{MaxAge: day, Every: time.Hour}),
		"crossing":  testkit.Schedule(t, tiers.Tier{MaxAge: time.Hour, Every: 7 * time.Minute, Offset: time.Minute}, tiers.Tier{MaxAge: 30 * time.Hour, Cron: "*/25 3-20 * * *"}),
		"one":       testkit.Schedule(t, tiers.Tier{MaxAge: 3 * time.Hour, Every: 20 * time.Minute}),
	}
	for name, s := range schedules {
		for pname, p := range map[string]*backlog.Policy{"progressive": nil, "counted": minutes(-1), "given up": minutes(3), "planned": jitter} {
			t.Run(name+" "+pname, func(t *testing.T) {
				w := &simulate.Workload{
					From: from.Add(17 * time.Second), To: from.Add(3 * day), PerHour: 20, Poison: 0.1, Success: 0.7, Seed: 3,
					Outages: []simulate.Outage{{From: from.Add(30 * time.Hour), To: from.Add(32 * time.Hour)}, {From: from.Add(31 * time.Hour), To: from.Add(33 * time.Hour)}},
				}
				w.Outages[0].To = w.Outages[1].To // the naive walk knows nothing of two at once
				o := simulate.Options{Schedule: s, Policy: p, Bucket: time.Hour}
				compare(t, w, o)
			})
		}
	}
}

// Records of every kind, as a table has them.
func TestRunOfRecordsIsTheNaiveWalk(t *testing.T) {
	from := time.Date(2026, 1, 5, 7, 3, 0, 0, time.UTC)
	s := testkit.Schedule(t, tiers.Tier{MaxAge: 2 * time.Hour, Every: 5 * time.Minute}, tiers.Tier{MaxAge: day, Every: time.Hour})
	random := rand.New(rand.NewPCG(1, 2))
	near := func(most time.Duration) time.Time {
		return from.Add(time.Duration(random.Int64N(int64(2*most))) - most).Truncate(time.Millisecond)
	}
	never := minutes(0)
	never.Never = true
	for pname, p := range map[string]*backlog.Policy{"progressive": nil, "counted": minutes(-1), "given up": minutes(7), "none": never} {
		t.Run(pname, func(t *testing.T) {
			w := &simulate.Workload{From: from, To: from.Add(2 * day), Success: 0.2}
			for i := range 400 {
				r := simulate.Record{Inserted: near(30 * time.Hour), Poison: i%3 == 0, Seed: uint64(i)}
				switch i % 7 {
				case 0:
					r.Inserted, r.Oldest = time.Time{}, i%2 == 0
				case 1:
					r.Eligible = near(5 * time.Hour)
				case 2:
					r.Expires = near(5 * time.Hour)
				}
				if i%2 == 0 {
					r.Failed, r.Memory = true, &backlog.Memory{Failures: i % 5, LastFailure: near(time.Hour)}
				}
				w.Records = append(w.Records, r)
			}
			compare(t, w, simulate.Options{Schedule: s, Policy: p, Bucket: time.Hour})
		})
	}
}

// compare runs the workload both ways.
func compare(t *testing.T, w *simulate.Workload, o simulate.Options) {
	t.Helper()
	got, err := simulate.Run(t.Context(), w, o)
	if err != nil {
		t.Fatal(err)
	}
	want := naive(w, o)
	same(t, got, want)
	if slices.ContainsFunc(w.Drawn(), func(r simulate.Record) bool { return r.Inserted.IsZero() }) {
		return
	}
	// A cap that is never reached makes no difference but for the way.
	o.MaxRecords, o.NewTable = 1_000_000, inMemoryWith(o.Policy)
	if got, err = simulate.Run(t.Context(), w, o); err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
}

func same(t *testing.T, got, want *simulate.Report) {
	t.Helper()
	for i := range got.Series {
		if g, w := got.Series[i], want.Series[i]; g.Attempts != w.Attempts || g.Failed != w.Failed {
			t.Fatalf("from %v: %d attempts, %d failed; want %d, %d", g.At, g.Attempts, g.Failed, w.Attempts, w.Failed)
		}
	}
	if !slices.Equal(got.Recovery, want.Recovery) {
		t.Errorf("recovery %v, want %v", got.Recovery, want.Recovery)
	}
	if g, w := *got, *want; g.Records != w.Records || g.Attempts != w.Attempts || g.Succeeded != w.Succeeded || g.Failed != w.Failed ||
		g.Dead != w.Dead || g.Pending != w.Pending || g.PeakPerMinute != w.PeakPerMinute {
		g.Series, w.Series, g.Recovery, w.Recovery = nil, nil, nil, nil
		t.Errorf("got  %+v\nwant %+v", g, w)
	}
}

// BenchmarkRun is a year of the six tiers for records that never succeed, against
// the naive walk. Limit: 200 times its attempts per second, at any number of
// records.
func BenchmarkRun(b *testing.B) {
	from := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	o := simulate.Options{Schedule: testkit.Schedule(b, ladder...), Bucket: day}
	rate := func(f func(*simulate.Workload) int, w *simulate.Workload) float64 {
		start := time.Now()
		n := f(w)
		return float64(n) / time.Since(start).Seconds()
	}
	fast := func(w *simulate.Workload) int {
		r, _ := simulate.Run(b.Context(), w, o)
		return r.Attempts
	}
	year := func(records float64) *simulate.Workload {
		return &simulate.Workload{From: from, To: from.Add(365 * day), PerHour: records / 365 / 24, Poison: 1, Seed: 1}
	}
	for b.Loop() {
		slow := rate(func(w *simulate.Workload) int { return naive(w, o).Attempts }, year(1000))
		b.ReportMetric(slow, "naive-attempts/s")
		b.ReportMetric(rate(fast, year(10_000))/slow, "10k/naive")
		b.ReportMetric(rate(fast, year(1_000_000))/slow, "1M/naive")
	}
}
