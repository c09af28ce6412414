package backlog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/internal/testkit"
)

// snoozeOnce returns a handler that snoozes each record at its first call, and then succeeds.
func snoozeOnce(wait time.Duration) backlog.HandlerFunc {
	seen := make(map[int]bool)
	return func(_ context.Context, r *backlog.Record) error {
		if seen[id(r)] {
			return nil
		}
		seen[id(r)] = true
		return backlog.Snooze(wait, errors.New("ask again later"))
	}
}

func TestSnoozeIsAnOutcome(t *testing.T) {
	wrapped := fmt.Errorf("the service: %w", backlog.Snooze(time.Hour, errBroken))
	testkit.Equal(t, "outcome", backlog.OutcomeOf(wrapped), backlog.Snoozed)
	testkit.Equal(t, "outcome of one that is over", backlog.OutcomeOf(backlog.Snooze(0, nil)), backlog.Skipped)
	testkit.Equal(t, "outcome of a negative one", backlog.OutcomeOf(backlog.Snooze(-1, nil)), backlog.Skipped)
	testkit.Equal(t, "text", backlog.Snooze(90*time.Minute, nil).Error(), "snoozed for 1h30m")
	testkit.Equal(t, "it wraps the reason", errors.Is(wrapped, errBroken), true)
	end := time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)
	until := backlog.SnoozeUntil(end.Add(time.Hour), nil)
	testkit.Equal(t, "text", until.Error(), "snoozed until 2026-12-01T09:00:00Z")
	snooze, _ := backlog.SnoozeOf(until)
	testkit.Equal(t, "until", snooze.After(end), end.Add(time.Hour))
	testkit.Equal(t, "one that has passed", backlog.SnoozeTime{Until: end.Add(-day)}.After(end), end)
	for _, long := range []backlog.SnoozeTime{{For: 10_000 * day}, {Until: end.Add(10_000 * day)}} {
		testkit.Equal(t, "the longest", long.After(end), end.Add(backlog.MaxSnooze))
	}
}

func TestParseSnooze(t *testing.T) {
	at := time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		value any
		want  backlog.SnoozeTime
		err   string
	}{
		{value: "5400", want: backlog.SnoozeTime{For: 90 * time.Minute}},
		{value: "0"},
		{value: "1.5", want: backlog.SnoozeTime{For: 1500 * time.Millisecond}},
		{value: 2.5, want: backlog.SnoozeTime{For: 2500 * time.Millisecond}},
		{value: 1e300, want: backlog.SnoozeTime{For: backlog.MaxSnooze}},
		{value: strings.Repeat("9", 400), want: backlog.SnoozeTime{For: backlog.MaxSnooze}},
		{value: " 90m\r\n", want: backlog.SnoozeTime{For: 90 * time.Minute}},
		{value: "3d", want: backlog.SnoozeTime{For: 3 * day}},
		{value: "PT2H", want: backlog.SnoozeTime{For: 2 * time.Hour}},
		{value: "2026-12-01T08:00:00Z", want: backlog.SnoozeTime{Until: at}},
		{value: "2026-12-01t09:00:00.25+01:00", want: backlog.SnoozeTime{Until: at.Add(250 * time.Millisecond)}},
		{value: "", err: "it says no time"},
		{value: nil, err: "it says no time"},
		{value: true, err: "it says no time"},
		{value: "-5m", err: `"-5m" is no time`},
		{value: -5.0, err: `"-5" is no time`},
		{value: "1.2.3", err: `"1.2.3" is no time`},
		{value: "NaN", err: `"NaN" is no time`},
		{value: "tomorrow", err: `"tomorrow" is no time`},
		{value: "2026-12-01", err: `"2026-12-01" is no time`},
		{value: "0001-01-01T00:00:00Z", err: `"0001-01-01T00:00:00Z" is no time`},
	} {
		got, err := backlog.ParseSnooze(tt.value)
		if !got.Until.IsZero() {
			got.Until = got.Until.UTC()
		}
		wrong := err != nil && (tt.err == "" || !strings.HasPrefix(err.Error(), tt.err))
		if got != tt.want || wrong || err == nil && tt.err != "" {
			t.Errorf("%.40v: %v, %v; want %v, %s", tt.value, got, err, tt.want, tt.err)
		}
	}
}

// Whatever is written, a snooze has an end within the bounds, or the reason is given.
func FuzzParseSnooze(f *testing.F) {
	for _, text := range []string{"90", "90m", "3d", "1.5", "2026-12-01T08:00:00Z", "-1", "", "every hour"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := backlog.ParseSnooze(text)
		if err != nil && (got != backlog.SnoozeTime{} || len(err.Error()) > 700) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
		end := time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)
		if got.For < 0 || got.After(end).After(end.Add(backlog.MaxSnooze)) {
			t.Errorf("%q: %v", text, got)
		}
	})
}

// A snoozed record is not tried before its time, and no attempt is counted, wherever that is kept.
func TestSnoozedRecordWaits(t *testing.T) {
	planned := &backlog.Policy{
		Name: "planned", Planned: true, Retries: -1,
		Wait: func(int) (least, most time.Duration) { return time.Minute, time.Minute },
	}
	for name, o := range map[string]memory.Options{
		"in the column of eligibility": {Eligible: true},
		"in the planned column":        {Policy: planned},
		"in memory":                    {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, o, snoozeOnce(2*time.Hour))
				b.Policy = o.Policy
				b.AbortAfter = 2
				b.add(t, "ERROR", 1, 5, time.Hour)
				before := b.row(t, 1)
				rep := b.pass(t)
				if got, want := outcomes(rep), "5 snoozed"; got != want || !rep.Complete {
					t.Errorf("got %s, want %s of a complete pass", got, want)
				}
				after := b.row(t, 1)
				testkit.Equal(t, "status", after.Status, before.Status)
				testkit.Equal(t, "attempts", after.Attempts, before.Attempts)
				testkit.Equal(t, "failures", after.Memory.Failures, before.Memory.Failures)
				testkit.Equal(t, "last error", after.LastError, before.LastError)
				ev := b.events.of(backlog.AttemptEnded)[0]
				testkit.Equal(t, "the event says until when", ev.Until, time.Now().Add(2*time.Hour))
				testkit.Equal(t, "settled attempts", len(b.events.of(backlog.Settled)), 0)
				time.Sleep(2*time.Hour - time.Second)
				testkit.Equal(t, "selected a second early", b.pass(t).Selected, 0)
				time.Sleep(time.Second)
				if got, want := outcomes(b.pass(t)), "5 succeeded"; got != want {
					t.Errorf("afterwards got %s, want %s", got, want)
				}
			})
		})
	}
}

// A snooze until a time is until just that, and one that is over is a skip.
func TestSnoozeUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(time.Hour)
		b := newBench(t, memory.Options{Eligible: true}, func(_ context.Context, r *backlog.Record) error {
			time.Sleep(time.Second)
			return backlog.SnoozeUntil(until.Add(-time.Duration(id(r)-1)*time.Hour), nil)
		})
		b.add(t, "NEW", 1, 2, 0)
		if got, want := outcomes(b.pass(t)), "1 skipped, 1 snoozed"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		testkit.Equal(t, "until", b.row(t, 1).Eligible, until)
		testkit.Equal(t, "the one that is over", b.row(t, 2).Eligible, time.Time{})
	})
}

// A snooze of a fresh record is kept in memory by a planned policy, whose column does not count then.
func TestSnoozedFreshRecordOfAPlannedPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := &backlog.Policy{Planned: true, Retries: -1, Wait: func(int) (least, most time.Duration) { return 0, 0 }}
		b := newBench(t, memory.Options{Policy: policy}, snoozeOnce(time.Hour))
		b.Policy = policy
		b.add(t, "NEW", 1, 1, 0)
		b.pass(t)
		testkit.Equal(t, "snoozes in memory", b.Snoozes(), 1)
		testkit.Equal(t, "until", b.SnoozedUntil(key(1)), time.Now().Add(time.Hour))
		testkit.Equal(t, "selected", b.pass(t).Selected, 0)
		time.Sleep(time.Hour)
		testkit.Equal(t, "until, when it is over", b.SnoozedUntil(key(1)), time.Time{})
	})
}

// Under the refresh policy the next start is when the snooze is over, and the attempt is not
// counted. A row that was saved during it starts when the save says.
func TestSnoozeUnderRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *bench
		b = newRefreshBench(t, 2, func(_ context.Context, r *backlog.Record) error {
			if id(r) == 2 {
				b.table.Update(r.Key, func(row *memory.Row) { row.Memory.Next = time.Now() })
			}
			return backlog.Snooze(3*time.Hour, nil)
		})
		rep := b.pass(t)
		testkit.Equal(t, "snoozed", rep.Snoozed, 2)
		got := b.refreshOf(t, 1)
		testkit.Equal(t, "number of the attempt", got.AttemptNo, 0)
		testkit.Equal(t, "deadline", got.Deadline, time.Time{})
		testkit.Equal(t, "next start", got.Next, time.Now().Add(3*time.Hour))
		testkit.Equal(t, "next start of the row that was saved", b.refreshOf(t, 2).Next, time.Now())
		testkit.Equal(t, "snoozes in memory", b.Snoozes(), 0)
	})
}

// A record that was handed over can be snoozed by its answer.
func TestSnoozeByAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRefreshBench(t, 1, func(context.Context, *backlog.Record) error { return backlog.Accepted })
		b.pass(t)
		answer := backlog.Answer{UID: b.refreshOf(t, 1).UID, Outcome: backlog.Snoozed, Snooze: backlog.SnoozeTime{For: 3 * time.Hour}}
		reasons, err := b.Resolve(t.Context(), []backlog.Answer{answer})
		if err != nil || reasons[0] != nil {
			t.Fatal(reasons, err)
		}
		got := b.refreshOf(t, 1)
		testkit.Equal(t, "number of the attempt", got.AttemptNo, 0)
		testkit.Equal(t, "next start", got.Next, time.Now().Add(3*time.Hour))
	})
}

// A change by another program wins over a snooze. One that a row refuses counts as any other.
func TestSnoozeThatIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *bench
		b = newBench(t, memory.Options{Eligible: true}, func(_ context.Context, r *backlog.Record) error {
			if id(r) == 1 {
				b.table.Update(r.Key, func(row *memory.Row) { row.Status = "SUCCESS" })
			}
			return backlog.Snooze(time.Hour, nil)
		})
		b.hook().refuse(2, errCheck)
		b.add(t, "NEW", 1, 3, 0)
		rep := b.pass(t)
		if got, want := outcomes(rep), "2 snoozed, 1 conflicts"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		testkit.Equal(t, "the row of another program", b.row(t, 1).Eligible, time.Time{})
	})
}

// A reload keeps what is snoozed in memory.
func TestReloadKeepsSnoozes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, snoozeOnce(time.Hour))
		b.add(t, "NEW", 1, 1, 0)
		l := b.loop(schedule(t, "1d 10m"))
		stop := start(t, l)
		until(11 * time.Minute)
		l.Reload(to(schedule(t, "1d 10m"), &backlog.Engine{Store: b.Store, Handler: b.calls, Observe: b.events.observe}))
		until(69 * time.Minute)
		testkit.Equal(t, "calls within the hour", len(b.calls.ids()), 1)
		until(71 * time.Minute)
		stop()
		testkit.Equal(t, "calls after it", len(b.calls.ids()), 2)
	})
}

// Of more snoozes than the memory holds the last are forgotten, which is said once. The others are kept:
// the next pass asks only for the forgotten ones again. Room is made by those that are over.
func TestTooManySnoozes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, func(context.Context, *backlog.Record) error { return backlog.Snooze(time.Hour, nil) })
		b.add(t, "NEW", 1, 100_003, 0)
		b.passOf(t, backlog.Pass{Tier: "7d", MaxAge: 7 * day})
		testkit.Equal(t, "snoozes", b.Snoozes(), 100_000)
		forgotten := b.events.of(backlog.SnoozesForgotten)
		if len(forgotten) != 1 || !strings.Contains(forgotten[0].Err.Error(), "more than 100000 records are snoozed in memory") {
			t.Errorf("got %+v, want one event", forgotten)
		}
		testkit.Equal(t, "selected by the next pass", b.passOf(t, backlog.Pass{Tier: "7d", MaxAge: 7 * day}).Selected, 3)
		time.Sleep(time.Hour)
		b.passOf(t, backlog.Pass{Tier: "7d", MaxAge: 7 * day})
		testkit.Equal(t, "snoozes an hour later", b.Snoozes(), 100_000)
	})
}

// A snooze that the database refuses is kept in memory. However many are refused, other records are
// handled, and this one again at its time.
func TestRefusedSnoozeIsKeptInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{Eligible: true}, func(_ context.Context, r *backlog.Record) error {
			if id(r) > 30 {
				return nil
			}
			return backlog.Snooze(time.Hour, nil)
		})
		b.add(t, "NEW", 1, 40, time.Hour)
		h := b.hook()
		h.settle = func(ctx context.Context, group []backlog.Settlement) (left []backlog.Unsettled, err error) {
			for i := range group {
				if !group[i].Until.IsZero() {
					left = append(left, backlog.Unsettled{Index: i, Err: errCheck})
				}
			}
			group = slices.DeleteFunc(slices.Clone(group), func(s backlog.Settlement) bool { return !s.Until.IsZero() })
			if _, err := h.Store.Settle(ctx, group); err != nil {
				t.Error(err)
			}
			return left, nil
		}
		rep := b.pass(t)
		if got, want := outcomes(rep), "10 succeeded, 30 snoozed"; got != want || !rep.Complete {
			t.Errorf("got %s, want %s of a complete pass", got, want)
		}
		testkit.Equal(t, "events", len(b.events.of(backlog.SnoozeRefused)), 1)
		testkit.Equal(t, "refusals", len(b.events.of(backlog.Refused)), 0)
		testkit.Equal(t, "selected before their time", b.pass(t).Selected, 0)
		time.Sleep(time.Hour)
		testkit.Equal(t, "selected at their time", b.pass(t).Selected, 30)
	})
}
