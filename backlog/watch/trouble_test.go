package watch_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/watch"
	"backlog/internal/testkit"
)

// There is one account of what is wrong: the database before passes, of passes those that ended
// with an error since a time and that no later one made up for.
func TestTrouble(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(minute int) time.Time { return start.Add(time.Duration(minute) * time.Minute) }
	p := new(watch.Picture)
	pass := func(minute int, tier string, age time.Duration, err error) {
		r := &backlog.Report{Tier: tier, MaxAge: age, Started: at(minute)}
		if err != nil {
			r.Stopped = backlog.StoppedError
		}
		p.Observe(backlog.Event{Kind: backlog.PassStarted, At: at(minute), Tier: tier, Report: r})
		p.Observe(backlog.Event{Kind: backlog.PassEnded, At: at(minute), Tier: tier, Report: r, Err: err})
	}
	want := func(from, since int, passes bool, text string) {
		t.Helper()
		got := p.Trouble(at(from))
		if text == "" {
			if got != nil {
				t.Errorf("want no trouble, got %+v", got)
			}
			return
		}
		if got == nil {
			t.Errorf("want %q since minute %d, got no trouble", text, since)
			return
		}
		testkit.Equal(t, "error", got.Error, text)
		testkit.Equal(t, "it is of passes", got.Passes, passes)
		testkit.Equal(t, "since when", time.Time(got.Since), at(since))
	}
	refused := errors.New("column status: no such value")
	want(0, 0, false, "")
	pass(1, "7d", 7*24*time.Hour, refused)
	want(0, 1, true, refused.Error())
	want(1, 0, true, "") // of an older configuration
	pass(2, "1d", 24*time.Hour, nil)
	want(0, 1, true, refused.Error())
	pass(3, "7d", 7*24*time.Hour, errors.New("something else"))
	want(0, 1, true, "something else")
	p.Observe(backlog.Event{Kind: backlog.StoreUnavailable, At: at(4), Err: fmt.Errorf("%w: connection refused", backlog.ErrUnavailable)})
	want(0, 4, false, "the database is away: connection refused")
	if !p.Trouble(start).Temporary {
		t.Error("want a database that is away")
	}
	p.Observe(backlog.Event{Kind: backlog.StoreBack, At: at(5)})
	want(0, 1, true, "something else")
	pass(6, "30d", 30*24*time.Hour, nil) // it reaches as far
	want(0, 0, true, "")
	p.Observe(backlog.Event{Kind: backlog.StoreUnavailable, At: at(7), Err: errors.New("no such table")})
	if x := p.Trouble(start); x == nil || x.Temporary {
		t.Errorf("want a table that is gone, got %+v", x)
	}
	if last := p.Passes(); last[len(last)-1].Error != refused.Error() || last[0].Error != "" {
		t.Errorf("want the errors with the passes, got %+v", last)
	}
}
