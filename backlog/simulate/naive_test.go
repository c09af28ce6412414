package simulate_test

import (
	"slices"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/simulate"
	"backlog/tiers"
)

// naive walks through every tick and, at each, every pending record.
func naive(w *simulate.Workload, o simulate.Options) *simulate.Report {
	type pending struct {
		simulate.Drawn
		n     int
		state backlog.Retry
		down  time.Time
		over  bool
	}
	var list []*pending
	for _, d := range w.Drawn() {
		list = append(list, &pending{Drawn: d})
	}
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
			inserted := time.Unix(0, p.Inserted)
			if due, ok := o.Policy.Due(p.state); p.over || !inserted.Before(at) || at.Sub(inserted) > pick.Start.Tier.MaxAge || !ok || due.After(at) {
				continue
			}
			p.n++
			r.Attempts++
			minutes[at.Unix()/60]++
			b := &r.Series[(at.Sub(w.From)-1)/o.Bucket]
			b.Attempts++
			if outage != nil {
				p.down = outage.To
			}
			if outage == nil && !p.Poison && simulate.Draw(p.Seed, 2*p.n) < w.Success {
				r.Succeeded++
				p.over = true
				if !p.down.IsZero() {
					r.Recovery = append(r.Recovery, at.Sub(p.down))
				}
				continue
			}
			r.Failed++
			b.Failed++
			p.state, p.over = o.Policy.After(p.state, at, simulate.Draw(p.Seed, 2*p.n+1))
			if p.over {
				r.Dead++
			}
		}
	}
	for _, p := range list {
		if !p.over && w.To.Sub(time.Unix(0, p.Inserted)) > o.Schedule.Widest().MaxAge {
			r.Dead++
		}
	}
	for _, n := range minutes {
		r.PeakPerMinute = max(r.PeakPerMinute, n)
	}
	r.Pending = r.Records - r.Succeeded - r.Dead
	slices.Sort(r.Recovery)
	return r
}

func TestRunIsTheNaiveWalk(t *testing.T) {
	from := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	jitter := minutes(5)
	jitter.Planned, jitter.Wait = true, func(n int) (least, most time.Duration) {
		return time.Duration(n) * time.Minute, 3 * time.Duration(n) * time.Minute
	}
	schedules := map[string]*tiers.Schedule{
		"two tiers": schedule(t, tiers.Tier{MaxAge: 2 * time.Hour, Every: 5 * time.Minute}, tiers.Tier{MaxAge: day, Every: time.Hour}),
		"crossing":  schedule(t, tiers.Tier{MaxAge: time.Hour, Every: 7 * time.Minute, Offset: time.Minute}, tiers.Tier{MaxAge: 30 * time.Hour, Cron: "*/25 3-20 * * *"}),
		"one":       schedule(t, tiers.Tier{MaxAge: 3 * time.Hour, Every: 20 * time.Minute}),
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
				got, _ := simulate.Run(t.Context(), w, o)
				want := naive(w, o)
				for i := range got.Series { // the naive walk does not count these
					want.Series[i].At, want.Series[i].Pending = got.Series[i].At, got.Series[i].Pending
				}
				if !slices.Equal(got.Series, want.Series) || !slices.Equal(got.Recovery, want.Recovery) {
					t.Errorf("series and recovery differ:\n%+v\n%+v", got, want)
				}
				got.Series, want.Series, got.Recovery, want.Recovery = nil, nil, nil, nil
				if g, w := *got, *want; g.Records != w.Records || g.Attempts != w.Attempts || g.Succeeded != w.Succeeded || g.Failed != w.Failed ||
					g.Dead != w.Dead || g.Pending != w.Pending || g.PeakPerMinute != w.PeakPerMinute {
					t.Errorf("got %+v\nwant %+v", g, w)
				}
			})
		}
	}
}

// BenchmarkRun is a year of the six tiers for records that never succeed, against
// the naive walk. Limit: 200 times its attempts per second, at any number of
// records.
func BenchmarkRun(b *testing.B) {
	from := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	o := simulate.Options{Schedule: schedule(b, ladder...), Bucket: day}
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
