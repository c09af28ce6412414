package inspect_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/memory"
	"backlog/internal/testkit"
	"backlog/tiers"
)

const day = 24 * time.Hour

func key(n int) backlog.Key { return backlog.NewKey(int64(n)) }

// explained is the current time in these tests, a minute before a tick of all tiers except the cron's.
var explained = time.Date(2026, 1, 5, 11, 59, 0, 0, time.UTC)

func explainedSchedule(t testing.TB) *tiers.Schedule {
	t.Helper()
	return testkit.Schedule(t,
		tiers.Tier{MaxAge: 2 * time.Hour, Every: 30 * time.Minute},
		tiers.Tier{MaxAge: day, Every: time.Hour, Name: "day"},
		tiers.Tier{MaxAge: 2 * day, Cron: "20 3,17 * * *", Location: time.FixedZone("", 3600)}, // 02:20 and 16:20 in UTC
	)
}

// doubling waits a minute, then two, four, and so on.
func doubling(retries int) *backlog.Policy {
	return &backlog.Policy{Name: "doubling", Retries: retries, Wait: func(n int) (least, most time.Duration) {
		d := min(time.Minute<<min(n-1, 12), day)
		return d, d
	}}
}

var (
	plannedPolicy = &backlog.Policy{Name: "planned", Retries: 3, Planned: true, Wait: func(n int) (least, most time.Duration) {
		return time.Minute, time.Hour
	}}
	neverPolicy = &backlog.Policy{Name: "none", Never: true, Wait: doubling(0).Wait}
)

// A rowChange changes a row for a test of Explain.
type rowChange func(*inspect.Row)

// ago returns a time before explained.
func ago(d time.Duration) time.Time { return explained.Add(-d) }

// explainedRow returns a row of the age, without a date if that is negative.
func explainedRow(standing backlog.RowState, age time.Duration, change ...rowChange) inspect.Row {
	r := inspect.Row{State: standing, NoDate: "skip"}
	if age >= 0 {
		r.Inserted = ago(age)
	}
	for _, f := range change {
		f(&r)
	}
	return r
}

func failed(n int, last time.Time) rowChange {
	return func(r *inspect.Row) { r.Memory = &backlog.Memory{Failures: n, LastFailure: last} }
}

func planned(n int, next time.Time) rowChange {
	return func(r *inspect.Row) { r.Memory = &backlog.Memory{Failures: n, Next: next} }
}

func noDate(word string) rowChange      { return func(r *inspect.Row) { r.NoDate = word } }
func eligible(at time.Time) rowChange   { return func(r *inspect.Row) { r.Eligible = at } }
func expires(at time.Time) rowChange    { return func(r *inspect.Row) { r.Expires = at } }
func insertedAt(at time.Time) rowChange { return func(r *inspect.Row) { r.Inserted = at } }
func filtered(r *inspect.Row)           { r.Filtered = true }
func unreadable(err error) rowChange    { return func(r *inspect.Row) { r.Unreadable = err } }

const (
	isNew     = backlog.RowNew
	isError   = backlog.RowError
	isSuccess = backlog.RowSuccess
	progress  = "it has failed, and is tried again at every tick of a tier that reaches its age"
	tooOld    = "; before a tick comes it is older than every tier reaches (2d)"
)

// explanations are for explainedSchedule.
var explanations = []struct {
	name   string
	row    inspect.Row
	policy *backlog.Policy
	due    bool
	reason string
	next   string // on the 5th of January; "": never
	tier   string
}{
	{name: "new", row: explainedRow(isNew, 8*time.Minute), due: true, reason: "it is new", next: "12:00:00", tier: "day"},
	{
		name:   "new, of the future",
		row:    explainedRow(isNew, -1, insertedAt(ago(-time.Minute))),
		due:    true,
		reason: "it is new",
		next:   "12:00:00",
		tier:   "day",
	},
	{
		name:   "new, by a policy",
		row:    explainedRow(isNew, 8*time.Minute, failed(9, explained)),
		policy: doubling(3),
		due:    true,
		reason: "it is new",
		next:   "12:00:00",
		tier:   "day",
	},
	{name: "failed", row: explainedRow(isError, 8*time.Minute), due: true, reason: progress, next: "12:00:00", tier: "day"},
	{name: "of the widest tier alone", row: explainedRow(isError, day), due: true, reason: progress, next: "16:20:00", tier: "2d"},
	{
		name:   "as old as a tier reaches at its tick",
		row:    explainedRow(isError, day-time.Minute),
		due:    true,
		reason: progress,
		next:   "12:00:00",
		tier:   "day",
	},
	{
		name:   "a millisecond older",
		row:    explainedRow(isError, day-time.Minute+time.Millisecond),
		due:    true,
		reason: progress,
		next:   "16:20:00",
		tier:   "2d",
	},
	{name: "at the last tick of all", row: explainedRow(isError, 2*day-261*time.Minute), due: true, reason: progress, next: "16:20:00", tier: "2d"},
	{name: "after the last tick of all", row: explainedRow(isError, 2*day-260*time.Minute), due: true, reason: progress + tooOld},
	{name: "as old as any tier reaches", row: explainedRow(isNew, 2*day), due: true, reason: "it is new" + tooOld},
	{name: "older", row: explainedRow(isNew, 2*day+time.Millisecond), reason: "it is 2 days old, older than every tier reaches (2d)"},
	{
		name:   "older, and waiting",
		row:    explainedRow(isError, 9*day, failed(1, explained)),
		policy: doubling(-1),
		reason: "it is 9 days old, older than every tier reaches (2d)",
	},

	{name: "succeeded", row: explainedRow(isSuccess, time.Hour), reason: "it has succeeded"},
	{name: "dead", row: explainedRow(backlog.RowDead, time.Hour), reason: "it is dead; `backlog retry` makes it new"},
	{name: "held", row: explainedRow(backlog.RowOther, time.Hour), reason: "it is in none of the states that are tried"},
	{name: "filtered", row: explainedRow(isNew, time.Hour, filtered), reason: "table.where leaves it out"},
	{name: "succeeded and filtered", row: explainedRow(isSuccess, time.Hour, filtered), reason: "it has succeeded"},
	{
		name:   "unreadable",
		row:    explainedRow(isNew, time.Hour, unreadable(errors.New("column a: x is no time"))),
		reason: "no pass takes it: column a: x is no time",
	},

	{name: "no date", row: explainedRow(isNew, -1), reason: "it has no date of insertion; table.inserted can say what that means"},
	{name: "no date: newest", row: explainedRow(isNew, -1, noDate("newest")), due: true, reason: "it is new", next: "12:00:00", tier: "day"},
	{name: "no date: oldest", row: explainedRow(isNew, -1, noDate("oldest")), due: true, reason: "it is new", next: "16:20:00", tier: "2d"},

	{
		name:   "not eligible",
		row:    explainedRow(isNew, time.Hour, eligible(ago(-time.Hour))),
		reason: "it is not eligible before 2026-01-05 12:59:00 UTC",
		next:   "13:00:00",
		tier:   "day",
	},
	{
		name:   "eligible at a tick",
		row:    explainedRow(isNew, time.Hour, eligible(ago(-31*time.Minute))),
		reason: "it is not eligible before 2026-01-05 12:30:00 UTC",
		next:   "12:30:00",
		tier:   "2h",
	},
	{
		name:   "eligible after a tick",
		row:    explainedRow(isNew, time.Hour, eligible(ago(-31*time.Minute-time.Millisecond))),
		reason: "it is not eligible before 2026-01-05 12:30:00.001 UTC",
		next:   "13:00:00",
		tier:   "day",
	},
	{name: "eligible now", row: explainedRow(isNew, time.Hour, eligible(explained)), due: true, reason: "it is new", next: "12:00:00", tier: "day"},
	{
		name:   "eligible too late",
		row:    explainedRow(isNew, time.Hour, eligible(ago(-2*day))),
		reason: "it is not eligible before 2026-01-07 11:59:00 UTC" + tooOld,
	},
	{name: "expired", row: explainedRow(isNew, time.Hour, expires(ago(time.Millisecond))), reason: "it expired at 2026-01-05 11:58:59.999 UTC"},
	{
		name:   "expires now",
		row:    explainedRow(isNew, time.Hour, expires(explained)),
		due:    true,
		reason: "it is new; before a tick comes it expires, at 2026-01-05 11:59:00 UTC",
	},
	{
		name:   "expires at the tick",
		row:    explainedRow(isNew, time.Hour, expires(ago(-time.Minute))),
		due:    true,
		reason: "it is new",
		next:   "12:00:00",
		tier:   "day",
	},
	{
		name:   "expires before it is due",
		row:    explainedRow(isError, time.Hour, failed(7, explained), expires(ago(-time.Hour))),
		policy: doubling(-1),
		reason: "it has failed 7 times, and doubling lets it wait until 2026-01-05 13:03:00 UTC; before a tick comes it expires, at 2026-01-05 12:59:00 UTC",
	},

	{
		name:   "waiting",
		row:    explainedRow(isError, time.Hour, failed(6, ago(time.Minute))),
		policy: doubling(-1),
		reason: "it has failed 6 times, and doubling lets it wait until 2026-01-05 12:30:00 UTC",
		next:   "12:30:00",
		tier:   "2h",
	},
	{
		name:   "waiting, a moment longer",
		row:    explainedRow(isError, time.Hour, failed(6, ago(time.Minute-time.Millisecond))),
		policy: doubling(-1),
		reason: "it has failed 6 times, and doubling lets it wait until 2026-01-05 12:30:00.001 UTC",
		next:   "13:00:00",
		tier:   "day",
	},
	{
		name:   "waiting for longer than a tier reaches",
		row:    explainedRow(isError, 119*time.Minute, failed(6, ago(time.Minute))),
		policy: doubling(-1),
		reason: "it has failed 6 times, and doubling lets it wait until 2026-01-05 12:30:00 UTC",
		next:   "13:00:00",
		tier:   "day",
	},
	{
		name:   "waiting for longer than any tier reaches",
		row:    explainedRow(isError, 2*day-time.Hour, failed(12, explained)),
		policy: doubling(-1),
		reason: "it has failed 12 times, and doubling lets it wait until 2026-01-06 11:59:00 UTC" + tooOld,
	},
	{
		name:   "due, counted",
		row:    explainedRow(isError, time.Hour, failed(1, ago(time.Minute))),
		policy: doubling(-1),
		due:    true,
		reason: "it has failed once, and is due since 2026-01-05 11:59:00 UTC (doubling)",
		next:   "12:00:00",
		tier:   "day",
	},
	{
		name:   "no longer known when",
		row:    explainedRow(isError, time.Hour, failed(3, time.Time{})),
		policy: doubling(-1),
		due:    true,
		reason: "it has failed, and nothing in its row lets it wait: it is due at once",
		next:   "12:00:00",
		tier:   "day",
	},
	{
		name:   "not counted",
		row:    explainedRow(isError, time.Hour, failed(0, explained)),
		policy: doubling(-1),
		due:    true,
		reason: "it has failed, and nothing in its row lets it wait: it is due at once",
		next:   "12:00:00",
		tier:   "day",
	},
	{
		name:   "eligible later than due",
		row:    explainedRow(isError, time.Hour, failed(1, ago(time.Minute)), eligible(ago(-2*time.Minute))),
		policy: doubling(-1),
		reason: "it is not eligible before 2026-01-05 12:01:00 UTC",
		next:   "12:30:00",
		tier:   "2h",
	},
	{
		name:   "due later than eligible",
		row:    explainedRow(isError, time.Hour, failed(3, explained), eligible(ago(-2*time.Minute))),
		policy: doubling(-1),
		reason: "it has failed 3 times, and doubling lets it wait until 2026-01-05 12:03:00 UTC",
		next:   "12:30:00",
		tier:   "2h",
	},
	{
		name:   "the last retry",
		row:    explainedRow(isError, time.Hour, failed(3, ago(time.Hour))),
		policy: doubling(3),
		due:    true,
		reason: "it has failed 3 times, and is due since 2026-01-05 11:03:00 UTC (doubling)",
		next:   "12:00:00",
		tier:   "day",
	},
	{
		name:   "out of retries",
		row:    explainedRow(isError, time.Hour, failed(4, ago(time.Hour))),
		policy: doubling(3),
		reason: "it has failed 4 times and is out of retries, of which doubling allows 3; `backlog retry` makes it new",
	},

	{
		name:   "planned",
		row:    explainedRow(isError, time.Hour, planned(2, ago(-31*time.Minute))),
		policy: plannedPolicy,
		reason: "it has failed 2 times, and its next attempt is planned for 2026-01-05 12:30:00 UTC",
		next:   "12:30:00",
		tier:   "2h",
	},
	{
		name:   "planned for the past",
		row:    explainedRow(isError, time.Hour, planned(1, ago(time.Hour))),
		policy: plannedPolicy,
		due:    true,
		reason: "it has failed once, and is due since 2026-01-05 10:59:00 UTC (planned)",
		next:   "12:00:00",
		tier:   "day",
	},
	{
		name:   "planned and not counted",
		row:    explainedRow(isError, time.Hour, planned(0, ago(-31*time.Minute))),
		policy: plannedPolicy,
		reason: "it has failed, and its next attempt is planned for 2026-01-05 12:30:00 UTC",
		next:   "12:30:00",
		tier:   "2h",
	},
	{
		name:   "nothing planned",
		row:    explainedRow(isError, time.Hour, failed(2, explained)),
		policy: plannedPolicy,
		due:    true,
		reason: "it has failed, and nothing in its row lets it wait: it is due at once",
		next:   "12:00:00",
		tier:   "day",
	},
	{
		name:   "planned no more",
		row:    explainedRow(isError, time.Hour, planned(4, time.Time{})),
		policy: plannedPolicy,
		reason: "it has failed 4 times and is out of retries, of which planned allows 3; `backlog retry` makes it new",
	},
	{
		name:   "never again",
		row:    explainedRow(isError, time.Hour),
		policy: neverPolicy,
		reason: "it has failed, and the policy none never tries again; `backlog retry` makes it new",
	},
	{
		name:   "new where nothing is tried again",
		row:    explainedRow(isNew, time.Hour),
		policy: neverPolicy,
		due:    true,
		reason: "it is new",
		next:   "12:00:00",
		tier:   "day",
	},
}

func TestExplain(t *testing.T) {
	s := explainedSchedule(t)
	for _, tt := range explanations {
		t.Run(tt.name, func(t *testing.T) {
			got := inspect.Explain(tt.row, s, tt.policy, explained)
			next := ""
			if !got.Next.IsZero() {
				next = got.Next.UTC().Format("15:04:05")
			}
			testkit.Equal(t, "it is due", got.Due, tt.due)
			testkit.Equal(t, "reason", got.Reason, tt.reason)
			testkit.Equal(t, "next", next, tt.next)
			testkit.Equal(t, "tier", got.Tier, tt.tier)
		})
	}
}

// The engine does with any record what Explain says, tick by tick.
func TestExplainAgreesWithPasses(t *testing.T) {
	s, now := explainedSchedule(t), explained
	rapid.Check(t, func(t *rapid.T) {
		// Times that meet ticks, and miss them by a millisecond.
		at := func(name string, from, to time.Duration) time.Time {
			return now.Truncate(10 * time.Minute).Add(
				10*time.Minute*time.Duration(rapid.IntRange(int(from/(10*time.Minute)), int(to/(10*time.Minute))).Draw(t, name)) +
					time.Duration(rapid.IntRange(-1, 1).Draw(t, name+"_ms"))*time.Millisecond)
		}
		maybe := func(name string, from, to time.Duration) (none time.Time) {
			if rapid.IntRange(0, 2).Draw(t, name+"_given") > 0 {
				return none
			}
			return at(name, from, to)
		}
		p := rapid.SampledFrom([]*backlog.Policy{nil, doubling(-1), doubling(3), plannedPolicy, neverPolicy}).Draw(t, "policy")
		o := memory.Options{Policy: p, NullDate: rapid.SampledFrom([]string{"skip", "oldest", "newest"}).Draw(t, "null"), Dead: "DEAD"}
		row := memory.Row{
			Key: key(1), Status: rapid.SampledFrom([]string{"NEW", "ERROR", "ERROR", "ERROR", "SUCCESS", "DEAD", "HELD"}).Draw(t, "status"),
			Eligible: maybe("eligible", -time.Hour, 3*day), Expires: maybe("expires", -time.Hour, 3*day),
			Memory: backlog.Memory{Failures: rapid.IntRange(-1, 12).Draw(t, "count"), LastFailure: maybe("last", -2*day, time.Hour), Next: maybe("next", -day, 3*day)},
		}
		if rapid.IntRange(0, 9).Draw(t, "dated") > 0 {
			row.Inserted = at("inserted", -3*day, 0)
		}
		store := struct{ backlog.Store }{storeOf(t, o, row)} // which does not expire
		got := inspect.Explain(rowOf(row, o.NullDate), s, p, now)

		widest := s.Widest()
		if due := handsOut(t, store, p, backlog.Pass{MaxAge: widest.MaxAge, Widest: true, Now: now}); due != got.Due {
			t.Fatalf("a pass takes the record now: %t, but %+v", due, got)
		}
		var next time.Time
		var tier string
		for tick := s.Next(now.Add(-1)); next.IsZero() && tick.Before(now.Add(4*day)); tick = s.Next(tick) {
			pick := tiers.Coalesce(s.Due(tick.Add(-1), tick), func(tiers.Tier) bool { return true }).Start.Tier
			if handsOut(t, store, p, backlog.Pass{Tier: pick.Name, MaxAge: pick.MaxAge, Widest: pick.Name == widest.Name, Now: tick}) {
				next, tier = tick, pick.Name
			}
		}
		if !next.Equal(got.Next) || tier != got.Tier {
			t.Fatalf("a pass takes the record at %v (%s), but %+v", next, tier, got)
		}
	})
}

func storeOf(t *rapid.T, o memory.Options, r memory.Row) *memory.Store {
	s := memory.New(o)
	if err := s.Insert(r); err != nil {
		t.Fatal(err)
	}
	return s
}

// rowOf returns the row as a store would read it.
func rowOf(r memory.Row, noDate string) inspect.Row {
	standing := map[string]backlog.RowState{
		"NEW": backlog.RowNew, "ERROR": backlog.RowError, "SUCCESS": backlog.RowSuccess, "DEAD": backlog.RowDead,
	}
	out := inspect.Row{
		Record: backlog.Record{Key: r.Key, Status: r.Status, Inserted: r.Inserted, Memory: &r.Memory},
		State:  backlog.RowOther, NoDate: noDate, Eligible: r.Eligible, Expires: r.Expires,
	}
	if s, ok := standing[r.Status]; ok {
		out.State = s
	}
	return out
}

// handsOut reports whether the pass takes the record. It does not change it.
func handsOut(t *rapid.T, s backlog.Store, policy *backlog.Policy, p backlog.Pass) bool {
	taken := false
	e := &backlog.Engine{Store: s, Policy: policy, Handler: backlog.HandlerFunc(func(context.Context, *backlog.Record) error {
		taken = true
		return backlog.Skip
	})}
	if _, err := e.Pass(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	return taken
}

// The cause of death is only given if the row tells it.
func TestDied(t *testing.T) {
	schedule := testkit.Schedule(t, tiers.Tier{MaxAge: 24 * time.Hour, Every: 5 * time.Minute}, tiers.Tier{MaxAge: 7 * 24 * time.Hour, Every: time.Hour})
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	policy := &backlog.Policy{Name: "list", Retries: 3, Wait: func(int) (least, most time.Duration) { return time.Hour, time.Hour }}
	born := now.Add(-10 * 24 * time.Hour)
	end := born.Add(7 * 24 * time.Hour) // it is older than every tier
	for _, x := range []struct {
		name     string
		policy   *backlog.Policy
		inserted time.Time
		expires  time.Time
		failures backlog.Memory
		want     string
	}{
		{"no policy", nil, born, time.Time{}, backlog.Memory{}, "unknown"},
		{"out of retries", policy, born, time.Time{}, backlog.Memory{Failures: 4, LastFailure: born}, backlog.ReasonRetries},
		{"never tried and old", policy, born, time.Time{}, backlog.Memory{}, backlog.ReasonExpired},
		{"never tried and young", policy, now.Add(-time.Hour), time.Time{}, backlog.Memory{}, "unknown"},
		{"failed just before it was too old", policy, born, time.Time{}, backlog.Memory{Failures: 2, LastFailure: end.Add(-30 * time.Minute)}, backlog.ReasonExpired},
		{"should have been tried again", policy, born, time.Time{}, backlog.Memory{Failures: 2, LastFailure: end.Add(-6 * time.Hour)}, "unknown"},
		{"past its own time", policy, now.Add(-3 * time.Hour), now.Add(-time.Hour), backlog.Memory{Failures: 1, LastFailure: now.Add(-90 * time.Minute)}, backlog.ReasonExpired},
		{"no date", policy, time.Time{}, time.Time{}, backlog.Memory{Failures: 1, LastFailure: born}, "unknown"},
	} {
		row := inspect.Row{Record: backlog.Record{Key: backlog.NewKey(int64(1)), Inserted: x.inserted, Memory: &x.failures}, State: backlog.RowDead, Expires: x.expires}
		if got := row.Sheet(schedule, x.policy, 0, now).Died; got == nil || *got != x.want {
			t.Errorf("%s: %v, want %s", x.name, got, x.want)
		}
	}
}
