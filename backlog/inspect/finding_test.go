package inspect

import (
	"strings"
	"testing"
	"time"

	"backlog/tiers"
)

// every returns a tier that ticks in the interval.
func every(maxAge, interval time.Duration) tiers.Tier {
	return tiers.Tier{MaxAge: maxAge, Every: interval}
}

// A schedule is said to leave records untried only where no tier ticks while each of them is
// young enough for it.
func TestTiersThatLeaveRecordsUntried(t *testing.T) {
	const hour = time.Hour
	for _, c := range []struct {
		name  string
		tiers []tiers.Tier
		want  []string // what each warning contains, in their order
	}{
		{
			name:  "each record meets a tick",
			tiers: []tiers.Tier{every(hour, 5*time.Minute), every(24*hour, hour)},
		},
		{
			name:  "a tick as long as the tier",
			tiers: []tiers.Tier{every(hour, hour)},
		},
		{
			name:  "a tick that is a little longer misses some",
			tiers: []tiers.Tier{every(hour, 90*time.Minute)},
			want:  []string{"up to 1h old, but ticks every 1h30m: some of them are too old by then and are never tried"},
		},
		{
			name:  "one of twice the age misses at least half",
			tiers: []tiers.Tier{every(hour, 2*hour)},
			want:  []string{"up to 1h old, but ticks every 2h: most of them are too old by then and are never tried"},
		},
		{
			name:  "a wider tier that ticks often enough tries them all",
			tiers: []tiers.Tier{every(hour, 3*hour), every(3*hour, 150*time.Minute)},
			want: []string{
				"the tier 1h ticks every 3h, but a record has its ages, 0s to 1h, for 1h only: most records get no attempt in it",
				"the tier 1h ticks every 3h, and the wider tier 3h, which takes its records too, every 2h30m: it adds next to nothing",
				"the tier 3h ticks every 2h30m, but a record has its ages, 1h to 3h, for 2h only: most records get no attempt in it",
			},
		},
		{
			name:  "a narrow tier that ticks often enough tries them all",
			tiers: []tiers.Tier{every(24*hour, 5*time.Minute), every(7*24*hour, 30*24*hour)},
			want:  []string{"the tier 7d ticks every 30d, but a record has its ages, 1d to 7d, for 6d only: most records get no attempt in it"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			schedule, err := tiers.New(c.tiers...)
			if err != nil {
				t.Fatal(err)
			}
			var found Findings
			found.CheckTiers(schedule)
			if len(found) != len(c.want) {
				t.Fatalf("%d warnings, want %d:\n%s", len(found), len(c.want), found.Text())
			}
			for i, f := range found {
				if !f.Warning || !strings.Contains(f.Detail, c.want[i]) {
					t.Errorf("warning %d is\n%s\nwant\n%s", i, f.Detail, c.want[i])
				}
			}
		})
	}
}
