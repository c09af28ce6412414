package simulate_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"backlog/backlog/advise"
	"backlog/backlog/retry"
	"backlog/backlog/simulate"
	"backlog/internal/testkit"
	"backlog/tiers"
)

// halfLife is a behavior: a fifth of the records is broken at first, and a twentieth of these for good. Half of the
// others recovers within four hours, as long as that takes.
func halfLife() *simulate.Behavior {
	return &simulate.Behavior{
		Oldest: 30 * day,
		Broken: func(age time.Duration) float64 {
			return 0.2 * (0.05 + 0.95*math.Pow(2, -age.Hours()/4))
		},
	}
}

// learnedWorkload returns a week of records with a behavior and an outage.
func learnedWorkload(perHour float64) *simulate.Workload {
	from := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	outage := simulate.Outage{From: from.Add(50 * time.Hour), To: from.Add(55 * time.Hour)}
	return &simulate.Workload{
		From: from, To: from.Add(7 * day), PerHour: perHour, Seed: 5, Learned: halfLife(), Outages: []simulate.Outage{outage},
	}
}

// Of many records as many are broken at each age as the behavior says.
func TestDrawnRecordsAreBrokenAsLearned(t *testing.T) {
	w := learnedWorkload(200_000.0 / 7 / 24)
	records := w.Drawn()
	for _, edge := range append(advise.Edges[:20:20], 0) {
		broken := 0
		for i := range records {
			if !w.HasRecovered(&records[i], records[i].Inserted.Add(edge)) {
				broken++
			}
		}
		n := float64(len(records))
		want := w.Learned.Broken(min(edge, w.Learned.Oldest))
		if got := float64(broken) / n; math.Abs(got-want) > 4*math.Sqrt(want*(1-want)/n) {
			t.Errorf("at %v the share %.4f of %d records is broken, not %.4f", edge, got, len(records), want)
		}
	}
}

// A record that has failed before is drawn from those that are still broken.
func TestFailedRecordsAreStillBroken(t *testing.T) {
	w := learnedWorkload(1)
	const n = 100_000
	age := 6 * time.Hour
	later := 3 * time.Hour
	recovered := 0
	for i := range uint64(n) {
		r := simulate.Record{Inserted: w.From.Add(-age), Failed: true, Seed: i << 20}
		if w.HasRecovered(&r, w.From.Add(-1)) {
			t.Fatal("a failed record has recovered before the workload")
		}
		if w.HasRecovered(&r, w.From.Add(later)) {
			recovered++
		}
	}
	want := 1 - w.Learned.Broken(age+later)/w.Learned.Broken(age)
	if got := float64(recovered) / n; math.Abs(got-want) > 0.006 {
		t.Errorf("the share %.3f has recovered, not %.3f", got, want)
	}
}

// Records that never recover are counted tick by tick, others one by one, or all pass by pass: the figures are the
// same, and so is each attempt.
func TestLearnedInEachWay(t *testing.T) {
	schedule := testkit.Schedule(t, tiers.Tier{MaxAge: 6 * time.Hour, Every: 10 * time.Minute}, tiers.Tier{MaxAge: 2 * day, Every: 3 * time.Hour})
	exponential, err := retry.Policy(retry.New("exponential"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []simulate.Options{{Schedule: schedule}, {Schedule: schedule, Policy: exponential}} {
		o.NewTable = inSeconds(o.Policy)
		counted, err := simulate.Run(t.Context(), learnedWorkload(100), o)
		if err != nil {
			t.Fatal(err)
		}
		failed := make(map[int]bool)
		observed := o
		observed.Observe = func(_ time.Time, _ string, record int, success bool) {
			if !success {
				failed[record] = true
			}
		}
		alone, err := simulate.Run(t.Context(), learnedWorkload(100), observed)
		if err != nil {
			t.Fatal(err)
		}
		passes := o
		passes.MaxRecords = 1_000_000
		byPass, err := simulate.Run(t.Context(), learnedWorkload(100), passes)
		if err != nil {
			t.Fatal(err)
		}
		for name, r := range map[string]*simulate.Report{"alone": alone, "by pass": byPass} {
			if !sameFigures(r, counted) {
				t.Errorf("%s: %+v, counted: %+v", name, r, counted)
			}
		}
		if counted.Failed == 0 || counted.Dead == 0 || counted.Recovered == 0 || len(failed) < 2000 {
			t.Errorf("%d calls fail, %d records die, %d recover, %d fail", counted.Failed, counted.Dead, counted.Recovered, len(failed))
		}
	}
}

// sameFigures reports whether two reports have the same counts.
func sameFigures(a, b *simulate.Report) bool {
	return a.Records == b.Records && a.Attempts == b.Attempts && a.Succeeded == b.Succeeded && a.Failed == b.Failed &&
		a.Dead == b.Dead && a.Lost == b.Lost && slices.Equal(a.Recovery, b.Recovery)
}

// Drawn outages come as often and last as long as the gap and the lengths say, and are the same for a seed.
func TestDrawOutages(t *testing.T) {
	w := learnedWorkload(1)
	w.To = w.From.Add(10_000 * day)
	lengths := []time.Duration{time.Hour, 3 * time.Hour, 20 * time.Hour}
	list := w.DrawOutages(40*time.Hour, lengths)
	down := 0.0
	for i, o := range list {
		down += o.To.Sub(o.From).Hours()
		if i > 0 && !o.From.After(list[i-1].To) {
			t.Fatalf("the outage at %v overlaps", o.From)
		}
	}
	if share := down / (10_000 * 24); math.Abs(share-8.0/48) > 0.01 { // a mean of 8 of 48 hours
		t.Errorf("%.3f of the time there is an outage", share)
	}
	if again := w.DrawOutages(40*time.Hour, lengths); !slices.Equal(list, again) {
		t.Error("the same seed draws other outages")
	}
	if none := w.DrawOutages(0, nil); none != nil {
		t.Errorf("outages without any learned: %v", none)
	}
}

// What is learned from simulated passes is the behavior that they were simulated with.
func TestLearnedAgain(t *testing.T) {
	schedule := testkit.Schedule(t, tiers.Tier{Name: "young", MaxAge: 6 * time.Hour, Every: 10 * time.Minute}, tiers.Tier{Name: "old", MaxAge: 2 * day, Every: 3 * time.Hour})
	w := learnedWorkload(200)
	w.To = w.From.Add(14 * day)
	passes := make(map[time.Time]*advise.Collector)
	tried := make(map[int]bool)
	o := simulate.Options{Schedule: schedule}
	o.Observe = func(at time.Time, _ string, record int, success bool) {
		c := passes[at]
		if c == nil {
			c = new(advise.Collector)
			passes[at] = c
		}
		a := advise.Attempt{Age: at.Sub(w.Records[record].Inserted), Succeeded: success}
		if tried[record] {
			a.Lane = advise.Failed
		}
		tried[record] = true
		c.Add(a)
	}
	if _, err := simulate.Run(t.Context(), w, o); err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, at := range slices.SortedFunc(maps.Keys(passes), time.Time.Compare) {
		due := schedule.Due(at.Add(-1), at)
		maxAge := due[len(due)-1].Tier.MaxAge.Seconds()
		encoder.Encode(map[string]any{"tier": "t", "started": at, "max_age_seconds": maxAge, "complete": true, "ages": passes[at]})
	}
	h, err := advise.Read(&lines)
	if err != nil {
		t.Fatal(err)
	}
	m := advise.Fit(h)
	if missing, _ := m.Missing(); len(missing) > 0 || len(m.Outages) != 1 {
		t.Fatalf("%v, outages %v", missing, m.Outages)
	}
	if m.Oldest != 2*day {
		t.Errorf("the oldest age is %v", m.Oldest)
	}
	for _, age := range []time.Duration{20 * time.Minute, 90 * time.Minute, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day} {
		if got, want := m.Broken(age), w.Learned.Broken(age); math.Abs(got-want) > 0.005 {
			t.Errorf("at %v the share %.4f is broken, not %.4f", age, got, want)
		}
	}
	if math.Abs(m.PerHour-200) > 5 {
		t.Errorf("%.1f records come in an hour", m.PerHour)
	}
}
