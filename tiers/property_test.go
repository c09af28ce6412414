package tiers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"backlog/tiers"

	"pgregory.net/rapid"
)

// changes are instants at or near which a location's clock jumps, or does not.
var changes = []struct{ zone, at string }{
	{"UTC", "2026-01-05T00:00:00Z"},
	{"Asia/Kolkata", "2026-03-29T01:00:00Z"},
	{"America/New_York", "2026-03-08T07:00:00Z"},
	{"America/New_York", "2026-11-01T06:00:00Z"},
	{"America/New_York", "2040-12-31T12:00:00Z"},
	{"Australia/Lord_Howe", "2026-04-04T15:00:00Z"},
	{"Australia/Lord_Howe", "2026-10-03T15:30:00Z"},
	{"America/Sao_Paulo", "2018-02-18T02:00:00Z"},
	{"America/Sao_Paulo", "2018-11-04T03:00:00Z"},
	{"Pacific/Apia", "2011-12-30T10:00:00Z"},
	{"Europe/Berlin", "1945-05-24T00:00:00Z"},
}

// A fields is a cron expression whose days are all days.
type fields struct{ minutes, hours []int }

func drawFields(t *rapid.T) fields {
	f := fields{rapid.SliceOfNDistinct(rapid.IntRange(0, 59), 1, 8, rapid.ID).Draw(t, "minutes"), nil}
	if rapid.Bool().Draw(t, "hours named") {
		f.hours = rapid.SliceOfNDistinct(rapid.IntRange(0, 4), 1, 5, rapid.ID).Draw(t, "hours")
	}
	return f
}

func (f fields) String() string {
	list := func(numbers []int) string {
		if numbers == nil {
			return "*"
		}
		return strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ","), "[]")
	}
	return fmt.Sprintf("%s %s * * *", list(f.minutes), list(f.hours))
}

func (f fields) match(wall time.Time) bool {
	return slices.Contains(f.minutes, wall.Minute()) && (f.hours == nil || slices.Contains(f.hours, wall.Hour()))
}

// watch finds the ticks in (after, upTo] by looking at a clock every minute.
// Named hours tick when the clock reaches or leaps over them for the first
// time, unnamed ones whenever it shows them.
func (f fields) watch(loc *time.Location, after, upTo time.Time) (list []time.Time) {
	var reached time.Time
	for now := after.Add(-2 * day).Truncate(time.Minute); !now.After(upTo); now = now.Add(time.Minute) {
		_, offset := now.In(loc).Zone()
		wall := now.Add(time.Duration(offset) * time.Second).UTC()
		tick := f.match(wall)
		if f.hours != nil {
			tick = false
			for !reached.IsZero() && reached.Before(wall) && !tick {
				reached = reached.Add(time.Minute)
				tick = f.match(reached)
			}
			if reached.Before(wall) {
				reached = wall
			}
		}
		if tick && now.After(after) {
			list = append(list, now.UTC())
		}
	}
	return list
}

func TestCronFollowsTheClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		change := rapid.SampledFrom(changes).Draw(t, "change")
		f := drawFields(t)
		minutes := rapid.IntRange(-36*60, 60)
		middle, err := time.Parse(time.RFC3339, change.at)
		if err != nil {
			t.Fatal(err)
		}
		loc, err := time.LoadLocation(change.zone)
		if err != nil {
			t.Fatal(err)
		}
		s, err := tiers.New(tiers.Tier{MaxAge: day, Cron: f.String(), Location: loc})
		if err != nil {
			t.Fatal(err)
		}
		after := middle.Add(time.Duration(minutes.Draw(t, "start")) * time.Minute)
		upTo := after.Add(time.Duration(rapid.IntRange(1, 3*24*60).Draw(t, "length")) * time.Minute)
		want := f.watch(loc, after, upTo)
		if got := ticks(s.Widest(), after, upTo); !slices.Equal(got, want) {
			t.Fatalf("%s: Next goes %v\nwant %v", f, got, want)
		}
		due := s.Due(after, upTo)
		switch {
		case len(want) == 0 && due != nil:
			t.Fatalf("%s: due %v, want nothing", f, due)
		case len(want) > 0 && (len(due) != 1 || due[0].Ticks != len(want) || due[0].Last != want[len(want)-1]):
			t.Fatalf("%s: due %v, want %d ticks until %v", f, due, len(want), want[len(want)-1])
		}
	})
}

func drawTier(t *rapid.T, maxAge time.Duration) tiers.Tier {
	if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
		loc, err := time.LoadLocation(rapid.SampledFrom(changes).Draw(t, "change").zone)
		if err != nil {
			t.Fatal(err)
		}
		return tiers.Tier{MaxAge: maxAge, Cron: drawFields(t).String(), Location: loc}
	}
	every := rapid.IntRange(60, 2*24*3600).Draw(t, "every")
	offset := rapid.IntRange(0, every-1).Draw(t, "offset")
	return tiers.Tier{MaxAge: maxAge, Every: time.Duration(every) * time.Second, Offset: time.Duration(offset) * time.Second}
}

func drawSchedule(t *rapid.T) *tiers.Schedule {
	var list []tiers.Tier
	for i := range rapid.IntRange(1, 6).Draw(t, "tiers") {
		list = append(list, drawTier(t, time.Duration(i+1)*day))
	}
	s, err := tiers.New(list...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// drawInstant returns an instant around 1970 or in a year of clock changes, to
// the nanosecond.
func drawInstant(t *rapid.T) time.Time {
	starts := []string{"1969-12-31T00:00:00Z", "2026-03-07T00:00:00Z", "2026-10-31T00:00:00Z"}
	start := rapid.SampledFrom(starts).Draw(t, "start")
	base, err := time.Parse(time.RFC3339, start)
	if err != nil {
		t.Fatal(err)
	}
	return base.Add(time.Duration(rapid.Int64Range(0, int64(2*day)).Draw(t, "since start")))
}

func TestEveryIsAligned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		every := rapid.Int64Range(1, 400*24*3600).Draw(t, "every")
		offset := rapid.Int64Range(0, every-1).Draw(t, "offset")
		sec := rapid.Int64Range(-62135596800, 253402300799).Draw(t, "sec") // years 1 to 9999
		after := time.Unix(sec, rapid.Int64Range(0, 999999999).Draw(t, "ns"))
		tier := tiers.Tier{Every: time.Duration(every) * time.Second, Offset: time.Duration(offset) * time.Second}
		next := tier.Next(after)
		if !next.After(after) || next.Unix()-after.Unix() > every {
			t.Fatalf("after %v comes %v", after, next)
		}
		if (next.Unix()-offset)%every != 0 || next.Nanosecond() != 0 {
			t.Fatalf("%v is not aligned", next)
		}
	})
}

func TestDueCoversEveryTickOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSchedule(t)
		after := drawInstant(t)
		length := rapid.Int64Range(1, int64(2*day)).Draw(t, "length")
		upTo := after.Add(time.Duration(length))
		cuts := rapid.SliceOfN(rapid.Int64Range(0, length), 0, 20).Draw(t, "cuts")
		cuts = append(cuts, length)
		slices.Sort(cuts)

		got := map[string]int{}
		last := map[string]time.Time{}
		from := after
		for _, cut := range cuts {
			to := after.Add(time.Duration(cut))
			for _, due := range s.Due(from, to) {
				got[due.Tier.Name] += due.Ticks
				last[due.Tier.Name] = due.Last
			}
			from = to
		}
		whole := s.Due(after, upTo)
		if len(whole) != len(got) {
			t.Fatalf("due %v in one piece, %v in many", whole, got)
		}
		for _, due := range whole {
			name, steps := due.Tier.Name, ticks(due.Tier, after, upTo)
			if due.Ticks != len(steps) || due.More || due.Last != steps[len(steps)-1] {
				t.Fatalf("due %v, but Next goes %v", due, steps)
			}
			if got[name] != due.Ticks || last[name] != due.Last {
				t.Fatalf("due %v in one piece, %d until %v in many", due, got[name], last[name])
			}
		}
	})
}

func TestNextIsTheFirstDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, after := drawSchedule(t), drawInstant(t)
		next := s.Next(after)
		if due := s.Due(after, next); len(due) == 0 || due[0].Last != next {
			t.Fatalf("due %v up to the next tick %v", due, next)
		}
		if due := s.Due(after, next.Add(-1)); due != nil {
			t.Fatalf("due %v before the next tick %v", due, next)
		}
	})
}

func TestCoalesceDropsNoRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, after := drawSchedule(t), drawInstant(t)
		busy := map[string]bool{}
		for _, tier := range s.Tiers() {
			busy[tier.Name] = rapid.Bool().Draw(t, tier.Name+" busy")
		}
		due := s.Due(after, after.Add(time.Duration(rapid.Int64Range(1, int64(day)).Draw(t, "length"))))
		pick := tiers.Coalesce(due, func(tier tiers.Tier) bool { return !busy[tier.Name] })

		age := time.Duration(rapid.Int64Range(0, int64(8*day)).Draw(t, "age"))
		covered := slices.ContainsFunc(due, func(d tiers.Due) bool { return !busy[d.Tier.Name] && age <= d.Tier.MaxAge })
		if tried := pick.Start != nil && age <= pick.Start.Tier.MaxAge; tried != covered {
			t.Fatalf("record aged %v: tried %v, held by an idle due tier %v; %+v", age, tried, covered, pick)
		}

		parts := slices.Clone(pick.Covered)
		if pick.Start != nil {
			parts = append(parts, *pick.Start)
		}
		if parts = append(parts, pick.Skipped...); !slices.Equal(parts, due) {
			t.Fatalf("%v is not the whole of %v", parts, due)
		}
	})
}

func TestProgressiveFirstDay(t *testing.T) {
	s := progressive(t)
	rapid.Check(t, func(t *rapid.T) {
		tick := rapid.Int64Range(0, 1<<24).Draw(t, "tick")
		inserted := time.Unix(tick*5*60, 0)
		starts := 0
		for now := s.Next(inserted); now.Sub(inserted) <= day; now = s.Next(now) {
			pick := tiers.Coalesce(s.Due(now.Add(-1), now), idle)
			if pick.Start != nil && now.Sub(inserted) <= pick.Start.Tier.MaxAge {
				starts++
			}
		}
		if starts != 288 {
			t.Fatalf("tried %d times, want 288", starts)
		}
	})
}
