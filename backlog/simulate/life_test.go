package simulate_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"backlog/backlog"
	"backlog/backlog/simulate"
	"backlog/internal/testkit"
	"backlog/tiers"
)

const day = 24 * time.Hour

var ladder = []tiers.Tier{
	{MaxAge: day, Every: 5 * time.Minute}, {MaxAge: 7 * day, Every: time.Hour}, {MaxAge: 14 * day, Every: 12 * time.Hour},
	{MaxAge: 30 * day, Every: day}, {MaxAge: 180 * day, Every: 4 * day}, {MaxAge: 360 * day, Every: 8 * day},
}

// minutes waits n minutes after the n-th failure.
func minutes(retries int) *backlog.Policy {
	return &backlog.Policy{Name: "minutes", Retries: retries, Wait: func(n int) (least, most time.Duration) {
		w := min(time.Duration(n)*time.Minute, 30*day)
		return w, w
	}}
}

func attempts(l simulate.Life) (list []int) {
	for _, t := range l.ByTier {
		list = append(list, t.Attempts)
	}
	return list
}

func TestLife(t *testing.T) {
	monday := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	half := 30 * time.Minute
	for _, c := range []struct {
		name     string
		tiers    []tiers.Tier
		policy   *backlog.Policy
		inserted time.Time
		want     []int
		first    time.Time
		givenUp  bool
	}{
		{"six tiers from a tick of all", ladder, nil, monday, []int{288, 144, 14, 16, 37, 23}, monday.Add(5 * time.Minute), false},
		// The day's last tick is at the age of 24 h less 2 min.
		{"between two ticks", ladder[:1], nil, monday.Add(2 * time.Minute), []int{288}, monday.Add(5 * time.Minute), false},
		{"the age itself is within", []tiers.Tier{{MaxAge: time.Hour, Every: half}}, nil, monday, []int{2}, monday.Add(half), false},
		{"never", []tiers.Tier{{MaxAge: time.Hour, Every: day}}, nil, monday.Add(time.Second), []int{0}, time.Time{}, false},
		// Failures at 0:01 1:02 and then 2, 3 … minutes later, each at the tick of that moment.
		{"a policy on the minute", []tiers.Tier{{MaxAge: time.Hour, Every: time.Minute}}, minutes(-1), monday, []int{11}, monday.Add(time.Minute), false},
		// Ticks are at 0:01, 0:08 …, whole multiples of 7 min since 1970.
		{"a policy between ticks", []tiers.Tier{{MaxAge: time.Hour, Every: 7 * time.Minute}}, minutes(-1), monday, []int{8}, monday.Add(time.Minute), false},
		{"given up", []tiers.Tier{{MaxAge: time.Hour, Every: time.Minute}, {MaxAge: day, Every: time.Hour}}, minutes(2), monday, []int{3, 0}, monday.Add(time.Minute), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testkit.Schedule(t, c.tiers...)
			l := simulate.LifeOf(t.Context(), s, c.policy, c.inserted, rand.Float64)
			total := 0
			for _, n := range c.want {
				total += n
			}
			if got := attempts(l); !slices.Equal(got, c.want) || l.Total != total {
				t.Errorf("attempts %v, %d in all; want %v, %d", got, l.Total, c.want, total)
			}
			if !l.First.Equal(c.first) || l.GivenUp != c.givenUp {
				t.Errorf("first %v, given up %v; want %v, %v", l.First, l.GivenUp, c.first, c.givenUp)
			}
			if want := c.inserted.Add(s.Widest().MaxAge); !l.Expires.Equal(want) {
				t.Errorf("expires %v, want %v", l.Expires, want)
			}
		})
	}
}

// The witness goes through every second and asks what is due.
func TestLifeIsThatOfTheTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.IntRange(1, 500)
		var list []tiers.Tier
		for range rapid.IntRange(1, 4).Draw(t, "tiers") {
			age := time.Duration(seconds.Draw(t, "age")) * time.Second
			if len(list) > 0 {
				age += list[len(list)-1].MaxAge
			}
			every := seconds.Draw(t, "every")
			offset := rapid.IntRange(0, every-1).Draw(t, "offset")
			list = append(list, tiers.Tier{MaxAge: age, Every: time.Duration(every) * time.Second, Offset: time.Duration(offset) * time.Second})
		}
		s := testkit.Schedule(t, list...)
		inserted := time.Unix(1_767_571_200, int64(rapid.IntRange(0, 999).Draw(t, "ms"))*1e6).UTC()
		var p *backlog.Policy
		if rapid.Bool().Draw(t, "policy") {
			p = &backlog.Policy{Retries: rapid.IntRange(-1, 9).Draw(t, "retries"), Wait: func(n int) (least, most time.Duration) {
				w := time.Duration(min(n, 60)) * 7 * time.Second
				return w, w
			}}
		}
		want, state := make([]int, len(list)), new(backlog.Memory)
		for at := inserted.Truncate(time.Second).Add(time.Second); ; at = at.Add(time.Second) {
			age := at.Sub(inserted)
			if age > s.Widest().MaxAge {
				break
			}
			pick := tiers.Coalesce(s.Due(at.Add(-time.Second), at), func(tiers.Tier) bool { return true })
			due, ok := p.Rule().At(backlog.Failed, state)
			if pick.Start == nil || age > pick.Start.Tier.MaxAge || !ok || due.After(at) {
				continue
			}
			want[slices.IndexFunc(list, func(t tiers.Tier) bool { return age <= t.MaxAge })]++
			if next, _ := p.End(state, backlog.End{Outcome: backlog.Errored, At: at}); next != nil {
				state = next
			}
		}
		if got := attempts(simulate.LifeOf(context.Background(), s, p, inserted, func() float64 { return 0 })); !slices.Equal(got, want) {
			t.Fatalf("attempts %v, want %v", got, want)
		}
	})
}

func TestLifeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if l := simulate.LifeOf(ctx, testkit.Schedule(t, ladder...), nil, time.Unix(0, 0), rand.Float64); l.Total != 0 {
		t.Errorf("%d attempts after the end", l.Total)
	}
}
