package simulate_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
	"backlog/backlog/retry"
	"backlog/backlog/simulate"
	"backlog/internal/testkit"
	"backlog/tiers"
)

// A golden is a timeline of a record that always fails, by the passes of a tier.
type golden struct {
	settings func(*retry.Refresh)
	every    time.Duration // of the tier
	from     string
	call     time.Duration
	starts   string
	running  string // refresh_at while the first attempt runs
	after    string // refresh_at after each attempt, "-" for NULL; "" where nobody asks
	ended    string // when it was disabled
	reason   string
}

const hour = time.Hour

var twiceADay = mapping.Rule{Text: "FREQ=DAILY;BYHOUR=6,16;BYMINUTE=0;BYSECOND=0"}

// goldens are T1 to T7 of those that have ticks.
var goldens = map[string]golden{
	"T1": {func(s *retry.Refresh) {
		s.Schedule, s.Timeout, s.Intervals, s.Reason = "none", time.Minute, []time.Duration{0, time.Minute, 5 * time.Minute}, "thumbnail creation failed"
	}, 10 * time.Second, "10:00:00", 5 * time.Second, "10:00:00 10:00:10 10:01:20 10:06:30", "10:01:00", "10:00:05 10:01:15 10:06:25 -", "10:06:35", "thumbnail creation failed"},
	"T2": {func(s *retry.Refresh) { s.RRule, s.Timeout = twiceADay, hour }, time.Minute, "05:00:00", 90 * time.Second,
		"06:00:00 06:02:00 06:05:00 06:12:00 06:29:00 07:01:00 08:03:00", "16:00:00",
		"06:01:30 06:04:30 06:11:30 06:28:30 07:00:30 08:02:30 -", "08:04:30", "Cannot refresh after 7 attempts"},
	"T2b": {func(s *retry.Refresh) { s.RRule, s.Timeout = twiceADay, hour }, time.Minute, "05:00:00", 24 * hour,
		"06:00:00 07:00:00 08:01:00 09:06:00 10:21:00 11:51:00 13:51:00", "16:00:00", "", "14:51:00", "Cannot refresh after 7 attempts"},
	"T4": {func(s *retry.Refresh) {
		s.Every, s.Timeout, s.Intervals = 2*hour, hour, []time.Duration{0, time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute}
	}, time.Minute, "08:00:00", 90 * time.Second, "08:00:00 08:02:00 08:05:00 08:12:00 08:24:00 08:41:00", "10:00:00", "", "08:42:30", "Cannot refresh after 6 attempts"},
	"T6": {func(s *retry.Refresh) { s.Every, s.Timeout = 2*hour, 2*hour }, time.Minute, "08:00:00", time.Minute,
		"08:00:00 10:00:00 12:00:00 14:00:00 16:00:00 18:00:00 20:00:00", "10:00:00", "", "20:01:00", "Cannot refresh after 7 attempts"},
}

func TestRefresh(t *testing.T) {
	for name, g := range goldens {
		t.Run(name, func(t *testing.T) {
			list := refreshOf(t, g, 100)
			var starts, after []string
			clock := func(stamp inspect.Stamp) string {
				t := time.Time(stamp)
				if t.IsZero() {
					return "-"
				}
				return t.UTC().Format(time.TimeOnly)
			}
			for _, a := range list {
				starts, after = append(starts, clock(a.Start)), append(after, clock(a.Next))
			}
			last := list[len(list)-1]
			if got := strings.Join(starts, " "); got != g.starts {
				t.Errorf("starts\n%s\nwant\n%s", got, g.starts)
			}
			if got := strings.Join(after, " "); g.after != "" && got != g.after {
				t.Errorf("refresh_at after each\n%s\nwant\n%s", got, g.after)
			}
			if got := clock(list[0].Planned); got != g.running {
				t.Errorf("refresh_at is %s while it runs; want %s", got, g.running)
			}
			if !last.Disabled || clock(last.End) != g.ended || last.Reason != g.reason {
				t.Errorf("the last: %+v", last)
			}
		})
	}
}

// T3 gives up after a week.
func TestRefreshForAWeek(t *testing.T) {
	g := goldens["T2"]
	g.settings = func(s *retry.Refresh) {
		s.RRule, s.Timeout, s.AfterLast, s.GiveUpAfter = twiceADay, hour, "wait", 7*24*hour
	}
	list := refreshOf(t, g, 1000)
	last := list[len(list)-1]
	testkit.Equal(t, "attempts", len(list), 99)
	testkit.Equal(t, "the last attempt disables", last.Disabled, true)
	testkit.Equal(t, "end of the last attempt", time.Time(last.End), time.Date(2026, 1, 12, 6, 1, 30, 0, time.UTC))
	testkit.Equal(t, "reason", last.Reason, "No success since 2026-01-05T06:01:30Z")
	if seventh := list[6]; !time.Time(seventh.Next).Equal(time.Date(2026, 1, 5, 16, 0, 0, 0, time.UTC)) || list[7].AttemptNo != 1 || seventh.Disabled {
		t.Errorf("the seventh: %+v", seventh)
	}
	if i := slices.IndexFunc(list, func(a simulate.RefreshAttempt) bool { return time.Time(a.Start).Day() == 6 }); i != 14 || time.Time(list[i].Start).Hour() != 6 {
		t.Errorf("the second day begins with attempt %d", i)
	}
}

// An attempt that takes no time is retried by a later pass.
func TestRefreshAtOnce(t *testing.T) {
	g := goldens["T4"]
	g.call = 0
	var starts []string
	for _, a := range refreshOf(t, g, 3) {
		starts = append(starts, time.Time(a.Start).Format("15:04"))
	}
	if got := strings.Join(starts, " "); got != "08:00 08:01 08:02" {
		t.Errorf("starts %s", got)
	}
}

// T7: nobody answers, and the timeout is longer than the interval.
func TestRefreshOverlaps(t *testing.T) {
	g := golden{settings: func(s *retry.Refresh) { s.Every, s.Timeout = 30*time.Minute, hour }, every: time.Minute, from: "08:00:00", call: 24 * hour}
	var starts []string
	for _, a := range refreshOf(t, g, 4) {
		starts = append(starts, time.Time(a.Start).Format("15:04"))
	}
	if got := strings.Join(starts, " "); got != "08:00 09:30 11:00 12:30" {
		t.Errorf("starts %s", got)
	}
}

func refreshOf(t *testing.T, g golden, n int) []simulate.RefreshAttempt {
	t.Helper()
	settings := retry.New("refresh").(*retry.Refresh)
	g.settings(settings)
	p, err := retry.Policy(settings)
	if err != nil {
		t.Fatal(err)
	}
	s := testkit.Schedule(t, tiers.Tier{MaxAge: hour, Every: g.every})
	from, err := time.Parse(time.DateTime, "2026-01-05 "+g.from)
	if err != nil {
		t.Fatal(err)
	}
	list, err := simulate.RefreshAttempts(p.Refresher, s, from, g.call, n)
	if err != nil || len(list) == 0 {
		t.Fatal(len(list), err)
	}
	return list
}
