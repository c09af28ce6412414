package retry_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
	"backlog/backlog/retry"
	"backlog/internal/testkit"
	"backlog/tiers"
)

// at returns a time of Monday, 5 January 2026, or of a day given, in UTC.
func at(text string) time.Time {
	if !strings.Contains(text, "-") {
		text = "2026-01-05 " + text
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t
		}
	}
	panic(text)
}

// refreshed returns the refresher with settings as they differ from the default.
func refreshed(t testing.TB, change func(*retry.Refresh)) *retry.Refresher {
	t.Helper()
	s := retry.New("refresh").(*retry.Refresh)
	change(s)
	p, err := retry.Policy(s)
	if err != nil {
		t.Fatal(err)
	}
	return p.Refresher.(*retry.Refresher)
}

const (
	m = time.Minute
	h = time.Hour
)

var twiceADay = mapping.Rule{Text: "RRULE:FREQ=DAILY;BYHOUR=6,16;BYMINUTE=0;BYSECOND=0"}

// A step is what happens to a row, and what it has afterwards.
type step struct {
	at       string
	action   retry.Action
	next     string // refresh_at; "": NULL
	no       int
	deadline string
}

// The goldens without ticks: exact times.
func TestTransitions(t *testing.T) {
	every2h := func(s *retry.Refresh) { s.Every, s.Timeout, s.Intervals = 2*h, h, []time.Duration{0, 5 * m} }
	for name, c := range map[string]struct {
		settings func(*retry.Refresh)
		steps    []step
	}{
		"T2c a third attempt succeeds": {func(s *retry.Refresh) { s.RRule, s.Timeout = twiceADay, h }, []step{
			{"06:00", retry.Start, "16:00", 1, "07:00"}, {"06:01:30", retry.Failure, "06:01:30", 1, ""},
			{"06:02", retry.Start, "16:00", 2, "07:02"}, {"06:03:30", retry.Failure, "06:04:30", 2, ""},
			{"06:05", retry.Start, "16:00", 3, "07:05"}, {"06:06:30", retry.Success, "16:00", 0, ""},
		}},
		"T5 success": {every2h, []step{{"08:00", retry.Start, "10:00", 1, "09:00"}, {"08:02", retry.Success, "10:00", 0, ""}}},
		"T5 retry": {every2h, []step{
			{"08:00", retry.Start, "10:00", 1, "09:00"}, {"08:05", retry.Failure, "08:05", 1, ""},
			{"08:05", retry.Start, "10:00", 2, "09:05"}, {"08:06", retry.Success, "10:00", 0, ""},
		}},
		"T5 two retries": {every2h, []step{
			{"08:00", retry.Start, "10:00", 1, "09:00"}, {"08:05", retry.Failure, "08:05", 1, ""},
			{"08:05", retry.Start, "10:00", 2, "09:05"}, {"08:10", retry.Failure, "08:15", 2, ""},
			{"08:15", retry.Start, "10:00", 3, "09:15"}, {"08:17", retry.Success, "10:00", 0, ""},
		}},
		"T7 the timeout is longer than the interval": {func(s *retry.Refresh) { s.Every, s.Timeout = 30*m, h }, []step{
			{"08:00", retry.Start, "09:00", 1, "09:00"}, {"08:10", retry.Success, "08:30", 0, ""},
		}},
		"T7 a late success": {func(s *retry.Refresh) { s.Every, s.Timeout = 30*m, h }, []step{
			{"08:00", retry.Start, "09:00", 1, "09:00"}, {"08:45", retry.Success, "09:00", 0, ""},
		}},
		"T8 a retry that could end after the next": {func(s *retry.Refresh) { s.Every, s.Timeout, s.Intervals = 10*m, 5*m, []time.Duration{m} }, []step{
			{"08:00", retry.Start, "08:10", 1, "08:05"}, {"08:05", retry.Failure, "08:10", 1, ""},
		}},
		"T8 a retry that ends at the next": {func(s *retry.Refresh) { s.Every, s.Timeout, s.Intervals = 10*m, 5*m, []time.Duration{m} }, []step{
			{"08:00", retry.Start, "08:10", 1, "08:05"}, {"08:04", retry.Failure, "08:05", 1, ""},
		}},
		"T8 aligned": {func(s *retry.Refresh) {
			s.RRule.Text, s.Timeout, s.Intervals = "FREQ=DAILY;BYHOUR=14;BYMINUTE=0;BYSECOND=0", 2*h, []time.Duration{30 * m, 30 * m}
		}, []step{
			{"13:00", retry.Start, "2026-01-06 14:00", 1, "15:00"}, {"13:00", retry.Failure, "14:00", 1, ""}, {"14:00", retry.Start, "2026-01-06 14:00", 2, "16:00"},
		}},
		"T8 not aligned": {func(s *retry.Refresh) {
			s.RRule.Text, s.Timeout, s.Intervals, s.Align = "FREQ=DAILY;BYHOUR=14;BYMINUTE=0;BYSECOND=0", 2*h, []time.Duration{30 * m}, false
		}, []step{{"13:00", retry.Start, "2026-01-06 14:00", 1, "15:00"}, {"13:00", retry.Failure, "13:30", 1, ""}}},
		"T8 a retry after the next": {func(s *retry.Refresh) { s.Every, s.Timeout, s.Intervals = 10*m, 5*m, []time.Duration{h} }, []step{
			{"08:00", retry.Start, "08:10", 1, "08:05"}, {"08:01", retry.Failure, "08:10", 1, ""},
		}},
		"T9 nothing is left of the rule": {func(s *retry.Refresh) {
			s.RRule.Text, s.Timeout = "DTSTART:20260105T080000Z RRULE:FREQ=DAILY;COUNT=1", h
		}, []step{
			{"08:00", retry.Start, "09:00", 1, "09:00"}, {"08:01", retry.Failure, "08:01", 1, ""},
			{"08:02", retry.Start, "09:02", 2, "09:02"}, {"08:03", retry.Failure, "08:04", 2, ""},
			{"08:04", retry.Start, "09:04", 3, "09:04"}, {"08:05", retry.Success, "", 0, ""},
		}},
		"saved again": {every2h, []step{
			{"08:00", retry.Start, "10:00", 1, "09:00"}, {"08:10", retry.Save, "08:10", 0, ""},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := refreshed(t, c.settings)
			var s backlog.Memory
			for i, x := range c.steps {
				var err error
				if s, _, err = p.Apply(s, x.action, at(x.at)); err != nil {
					t.Fatal(err)
				}
				want := backlog.Memory{AttemptNo: x.no}
				if x.next != "" {
					want.Next = at(x.next)
				}
				if x.deadline != "" {
					want.Deadline = at(x.deadline)
				}
				if !s.Next.Equal(want.Next) || s.AttemptNo != want.AttemptNo || !s.Deadline.Equal(want.Deadline) {
					t.Fatalf("step %d, %s at %s: %v %d %v; want %v %d %v", i, x.action, x.at, s.Next, s.AttemptNo, s.Deadline, want.Next, want.AttemptNo, want.Deadline)
				}
			}
		})
	}
}

// What the goldens do not show of the ends.
func TestEnds(t *testing.T) {
	running := backlog.Memory{Next: at("10:00"), AttemptNo: 2, Deadline: at("09:00"), UID: "a", Started: at("08:00"), FailingSince: at("07:00"), Reason: "still at it"}
	with := func(change func(*backlog.Memory)) backlog.Memory {
		s := running
		change(&s)
		return s
	}
	every := func(s *retry.Refresh) { s.Every, s.Timeout, s.Intervals = 2*h, h, []time.Duration{0} }
	for name, c := range map[string]struct {
		settings func(*retry.Refresh)
		state    backlog.Memory
		outcome  backlog.Outcome
		began    *backlog.Memory
		want     backlog.Memory
		final    bool
	}{
		"a success clears what failed": {
			settings: every,
			state:    running,
			outcome:  backlog.Succeeded,
			want:     backlog.Memory{Next: at("10:00"), Started: at("08:00")},
		},
		"a reject is final and gives its own reason": {
			settings: every,
			state:    with(func(s *backlog.Memory) { s.AttemptNo = 1 }),
			outcome:  backlog.Rejected,
			want:     backlog.Memory{AttemptNo: 1, Started: at("08:00"), FailingSince: at("07:00"), Disabled: true, Reason: "boom"},
			final:    true,
		},
		"the last failure": {
			settings: every,
			state:    running,
			outcome:  backlog.Errored,
			want:     backlog.Memory{AttemptNo: 2, Started: at("08:00"), FailingSince: at("07:00"), Disabled: true, Reason: "Cannot refresh after 2 attempts"},
			final:    true,
		},
		"a reason of its own": {
			settings: func(s *retry.Refresh) { every(s); s.Reason = "{error} at {attempts}, {failing_since}" },
			state:    running,
			outcome:  backlog.Errored,
			want:     backlog.Memory{AttemptNo: 2, Started: at("08:00"), FailingSince: at("07:00"), Disabled: true, Reason: "boom at 2, 2026-01-05T07:00:00Z"},
			final:    true,
		},
		"it waits for the next": {
			settings: func(s *retry.Refresh) { every(s); s.AfterLast = "wait" },
			state:    running,
			outcome:  backlog.Errored,
			want:     backlog.Memory{Next: at("10:00"), Started: at("08:00"), FailingSince: at("07:00"), Reason: "still at it"},
		},
		"there is no next to wait for": {
			settings: func(s *retry.Refresh) { every(s); s.Every, s.Schedule, s.AfterLast = 0, "none", "wait" },
			state:    running,
			outcome:  backlog.Errored,
			want:     backlog.Memory{AttemptNo: 2, Started: at("08:00"), FailingSince: at("07:00"), Disabled: true, Reason: "Cannot refresh after 2 attempts"},
			final:    true,
		},
		"time is looked at first": {
			settings: func(s *retry.Refresh) { every(s); s.GiveUpAfter, s.AfterLast = 90*m, "wait" },
			state:    running,
			outcome:  backlog.Errored,
			want:     backlog.Memory{AttemptNo: 2, Started: at("08:00"), FailingSince: at("07:00"), Disabled: true, Reason: "No success since 2026-01-05T07:00:00Z"},
			final:    true,
		},
		"a release": {
			settings: every,
			state:    running,
			outcome:  backlog.Skipped,
			began:    &backlog.Memory{Next: at("08:00"), AttemptNo: 1},
			want:     backlog.Memory{Next: at("08:00"), AttemptNo: 1, Started: at("08:00"), FailingSince: at("07:00"), Reason: "still at it"},
		},
		"saved meanwhile": {
			settings: every,
			state:    with(func(s *backlog.Memory) { s.Next = at("08:20") }),
			outcome:  backlog.Errored,
			want:     backlog.Memory{Next: at("08:20"), AttemptNo: 2, Started: at("08:00"), FailingSince: at("07:00"), Reason: "still at it"},
		},
		"a success of what was saved meanwhile": {
			settings: every,
			state:    with(func(s *backlog.Memory) { s.Next = at("08:20") }),
			outcome:  backlog.Succeeded,
			want:     backlog.Memory{Next: at("08:20"), AttemptNo: 2, Started: at("08:00"), Reason: "still at it"},
		},
		"a number below 1": {
			settings: every,
			state:    with(func(s *backlog.Memory) { s.AttemptNo = 0 }),
			outcome:  backlog.Errored,
			want:     backlog.Memory{Next: at("08:30"), Started: at("08:00"), FailingSince: at("07:00"), Reason: "still at it"},
		},
		"its rule became bad": {
			settings: func(s *retry.Refresh) { every(s); s.Every, s.RRule.Column = 0, "rule" },
			state:    with(func(s *backlog.Memory) { s.Rule = "FREQ=NEVER" }),
			outcome:  backlog.Succeeded,
			want:     backlog.Memory{AttemptNo: 2, Started: at("08:00"), FailingSince: at("07:00"), Disabled: true, Rule: "FREQ=NEVER", Reason: "column rule: "},
			final:    true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, final := refreshed(t, c.settings).End(c.state, c.outcome, at("08:30"), "boom", c.began)
			if strings.HasPrefix(c.want.Reason, "column ") && strings.HasPrefix(got.Reason, c.want.Reason) {
				c.want.Reason = got.Reason
			}
			if got != c.want || final != c.final {
				t.Errorf("got  %+v %v\nwant %+v %v", got, final, c.want, c.final)
			}
		})
	}
}

func TestRefreshRefuses(t *testing.T) {
	for _, c := range []struct {
		change func(*retry.Refresh)
		want   string
	}{
		{func(s *retry.Refresh) { s.Every = 0 }, "every: missing, and so are rrule and schedule"},
		{func(s *retry.Refresh) { s.Schedule = "none" }, "every: rrule, every and schedule each say when"},
		{func(s *retry.Refresh) { s.Timeout = 0 }, "timeout: missing or 0"},
		{func(s *retry.Refresh) { s.Intervals = nil }, "intervals: is an empty list"},
		{func(s *retry.Refresh) { s.Intervals = slices.Repeat(s.Intervals, 20) }, "intervals: has 120 intervals; 100 are the most"},
		{func(s *retry.Refresh) { s.Every, s.RRule.Text = 0, "FREQ=DAILY;INTERVAL=2" }, "rrule: "},
		{func(s *retry.Refresh) {
			s.Every, s.RRule.Text, s.Anchor = 0, "DTSTART:20260105T080000Z RRULE:FREQ=DAILY", "day"
		}, "anchor: the rule has a DTSTART"},
	} {
		s := retry.New("refresh").(*retry.Refresh)
		s.Every, s.Timeout = h, h
		c.change(s)
		if _, err := retry.Policy(s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v; want %s", err, c.want)
		}
	}
}

// A start after a number below 0 is the first attempt.
func TestStartOfANumberBelow0(t *testing.T) {
	p := refreshed(t, func(s *retry.Refresh) { s.Every, s.Timeout = h, m })
	got, err := p.Start(backlog.Memory{AttemptNo: -3}, at("08:00"), "a")
	if err != nil || got.AttemptNo != 1 {
		t.Errorf("got attempt %d, %v; want 1", got.AttemptNo, err)
	}
}

// The table must have the columns without which nothing is planned, and the others if they are needed.
func TestRefreshColumns(t *testing.T) {
	for _, c := range []struct {
		giveUpAfter time.Duration
		want        []string
	}{
		{0, []string{"refresh_at", "attempt_no"}},
		{h, []string{"refresh_at", "attempt_no", "failing_since"}},
	} {
		s := retry.New("refresh").(*retry.Refresh)
		s.GiveUpAfter = c.giveUpAfter
		var got []string
		for _, name := range s.PolicyColumns().Refresh {
			if name[0] != "" {
				got = append(got, name[0])
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("give_up_after %v: the table must have %q, want %q", c.giveUpAfter, got, c.want)
		}
	}
}

// Settings that have no effect under ticks every five minutes.
func TestCheckSchedule(t *testing.T) {
	ticks := testkit.Schedule(t, tiers.Tier{MaxAge: day, Every: 5 * m})
	const (
		late  = "timeout is 1h and occurrences are 1h apart"
		short = "the interval 4m is shorter than the 5m from one look to the next"
	)
	for name, c := range map[string]struct {
		change func(*retry.Refresh)
		want   string // "": all is well
	}{
		"well":                             {func(s *retry.Refresh) {}, ""},
		"a timeout as long as the gap":     {func(s *retry.Refresh) { s.Timeout = h }, late},
		"the same, not aligned":            {func(s *retry.Refresh) { s.Timeout, s.Align = h, false }, ""},
		"a timeout, and nothing recurs":    {func(s *retry.Refresh) { s.Every, s.Schedule = 0, "none" }, ""},
		"at once":                          {func(s *retry.Refresh) { s.Intervals = []time.Duration{0} }, ""},
		"an interval as long as the ticks": {func(s *retry.Refresh) { s.Intervals = []time.Duration{5 * m} }, ""},
		"the first interval is shorter":    {func(s *retry.Refresh) { s.Intervals = []time.Duration{4 * m, h} }, short},
	} {
		var got inspect.Findings
		p := refreshed(t, func(s *retry.Refresh) {
			s.Every, s.Timeout, s.Intervals = h, h-m, []time.Duration{h}
			c.change(s)
		})
		p.CheckSchedule(&got, ticks, at("08:00"))
		if len(got) != 1 || got[0].Warning != (c.want != "") || !strings.HasPrefix(got[0].Detail, c.want) {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
}
