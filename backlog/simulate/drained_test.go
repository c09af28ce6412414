package simulate_test

import (
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/retry"
	"backlog/backlog/simulate"
	"backlog/internal/testkit"
	"backlog/tiers"
)

// A backlog is done when the ticks have come that reach its ages, and passes had the time for it.
func TestDrainedBy(t *testing.T) {
	ended := time.Date(2026, 3, 2, 12, 2, 0, 0, time.UTC)
	six := testkit.Schedule(t, tiers.Tier{Name: "1d", MaxAge: day, Every: 5 * time.Minute}, tiers.Tier{Name: "7d", MaxAge: 7 * day, Every: time.Hour})
	none := policyOf(t, retry.New("none"))
	fibonacci := policyOf(t, retry.New("fibonacci"))
	for _, c := range []struct {
		name    string
		length  time.Duration // of the outage
		pending int           // spread over its ages
		running []simulate.Running
		options simulate.Options
		perHour float64
		least   time.Duration // after its end
		most    time.Duration
	}{
		{name: "the next tick", length: 2 * time.Hour, pending: 100, least: 3 * time.Minute, most: 3 * time.Minute},
		{name: "the next tick of a wider tier", length: 30 * time.Hour, pending: 100, least: 58 * time.Minute, most: 58 * time.Minute},
		{
			name: "calls that take time", length: 2 * time.Hour, pending: 100, options: simulate.Options{CallTime: 12 * time.Second, Concurrency: 2},
			least: 13 * time.Minute, most: 13*time.Minute + 30*time.Second,
		},
		{name: "a rate", length: 2 * time.Hour, pending: 100, options: simulate.Options{Rate: 0.5}, least: 6 * time.Minute, most: 7 * time.Minute},
		{name: "a cap", length: 2 * time.Hour, pending: 100, options: simulate.Options{MaxRecords: 30}, least: 18 * time.Minute, most: 18 * time.Minute},
		{
			name: "a cap that new records take too", length: 2 * time.Hour, pending: 100, options: simulate.Options{MaxRecords: 30}, perHour: 180,
			least: 28 * time.Minute, most: 48 * time.Minute,
		},
		{
			name: "many records, of which each one stands for ten", length: 2 * time.Hour, pending: 100_000, options: simulate.Options{Rate: 100},
			least: 19 * time.Minute, most: 20 * time.Minute,
		},
		{
			name: "the pass under way", length: 2 * time.Hour, pending: 100, options: simulate.Options{CallTime: time.Second, Concurrency: 1},
			running: []simulate.Running{{Tier: "1d", Started: ended.Add(-time.Minute)}}, least: 95 * time.Second, most: 101 * time.Second,
		},
		{
			name: "what has failed in the pass under way", length: 2 * time.Hour, pending: 100, options: simulate.Options{CallTime: time.Second, Concurrency: 1},
			running: []simulate.Running{{Tier: "1d", Started: ended.Add(-time.Minute), Failed: 20}}, least: 3*time.Minute + 20*time.Second, most: 3*time.Minute + 25*time.Second,
		},
		{name: "waits of a policy", length: 2 * time.Hour, pending: 100, options: simulate.Options{Policy: fibonacci}, least: 20 * time.Minute, most: 2 * time.Hour},
		{name: "never again", length: 2 * time.Hour, pending: 100, options: simulate.Options{Policy: none}},
		{name: "passes that are too slow", length: 2 * time.Hour, pending: 100, options: simulate.Options{CallTime: 10 * time.Hour}},
		{name: "nothing is left", length: 2 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := simulate.Drain{Options: c.options, Since: ended.Add(-c.length), Running: c.running}
			d.Schedule = six
			d.NewTable = inMemoryWith(c.options.Policy)
			d.At = ended
			d.PerHour = c.perHour
			d.SetEdges()
			d.Bands = make([]inspect.Band, len(d.Edges))
			for i := range c.pending {
				age := time.Duration(float64(c.length) * (float64(i) + 0.5) / float64(c.pending))
				for k, edge := range d.Edges {
					if age <= edge {
						d.Bands[k].Add(backlog.Failed, 1, time.Time{})
						break
					}
				}
			}
			by, err := d.DrainedBy(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			after := by.Sub(ended)
			if by.IsZero() {
				after = 0
			}
			if after < c.least || after > c.most {
				t.Errorf("done after %v, want %v to %v", after, c.least, c.most)
			}
		})
	}
}

func policyOf(t *testing.T, s any) *backlog.Policy {
	t.Helper()
	p, err := retry.Policy(s.(retry.Settings))
	if err != nil {
		t.Fatal(err)
	}
	return p
}
