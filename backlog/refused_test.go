package backlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// A trier is a table that can be asked to try an outcome.
type trier struct {
	*hooked
	try func(backlog.Settlement) error
}

func (r *trier) Try(_ context.Context, s backlog.Settlement) error { return r.try(s) }

var errCheck = errors.New("CHECK constraint failed")

// tries makes the bench's table try outcomes.
func tries(b *bench, try func(backlog.Settlement) error) *hooked {
	h := b.hook()
	b.Store = &trier{h, try}
	return h
}

// Before the first record of each state is dispatched, each outcome is tried on
// it, and not again while the database takes them.
func TestTrialOfEachState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tried []string
		b := newBench(t, memory.Options{}, succeed)
		b.add(t, "NEW", 1, 20, time.Hour)
		b.add(t, "ERROR", 21, 20, time.Hour)
		tries(b, func(s backlog.Settlement) error {
			if len(b.calls.all()) > 20 {
				t.Error("a record of a state was handled before it was tried")
			}
			tried = append(tried, fmt.Sprint(s.Record.Status, " ", s.Target))
			return nil
		})
		b.pass(t)
		b.add(t, "NEW", 41, 5, time.Hour)
		b.pass(t)
		want := "NEW success, NEW error, NEW dead, ERROR success, ERROR error, ERROR dead"
		if got := strings.Join(tried, ", "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// Where three rows refuse, the pass ends before any handler was called; when the
// table is mended all records are tried.
func TestTrialThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.add(t, "NEW", 1, 20, time.Hour)
		rows, broken := map[int]bool{}, errCheck
		tries(b, func(s backlog.Settlement) error {
			rows[id(s.Record)] = true
			return broken
		})
		rep, err := b.Pass(t.Context(), backlog.Pass{MaxAge: day})
		if !errors.Is(err, errCheck) || len(rows) != 3 || rep.Selected != 0 || len(b.calls.all()) > 0 {
			t.Errorf("got %v after %d rows and %d calls, %s; want the reason after 3 rows", err, len(rows), len(b.calls.all()), outcomes(rep))
		}
		broken = nil
		if rep := b.pass(t); rep.Succeeded != 20 {
			t.Errorf("after it was mended: %s", outcomes(rep))
		}
	})
}

// One row that refuses does not stop the others: it is counted and not tried
// again by this process.
func TestRowThatRefusesItsTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.add(t, "NEW", 1, 20, time.Hour)
		first := 0
		tries(b, func(s backlog.Settlement) error {
			if first == 0 {
				first = id(s.Record)
			}
			if id(s.Record) == first {
				return errCheck
			}
			return nil
		})
		rep := b.pass(t)
		checkSum(t, rep)
		if got, want := outcomes(rep), "19 succeeded, 1 refused"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if rep := b.pass(t); rep.Selected != 0 {
			t.Errorf("the next pass: %s", outcomes(rep))
		}
	})
}

// Three rows that come together and refuse do not stop the others.
func TestRowsTogetherThatRefuseTheirTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.add(t, "NEW", 1, 3, time.Minute)
		b.add(t, "NEW", 4, 20, time.Hour)
		tries(b, func(s backlog.Settlement) error {
			if id(s.Record) <= 3 {
				return errCheck
			}
			return nil
		})
		rep := b.pass(t)
		checkSum(t, rep)
		if got, want := outcomes(rep), "22 succeeded, 1 refused"; got != want { // memory takes what the trial refuses
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// Rows that are locked say nothing; while all are, the pass waits. Rows that are
// gone are passed over.
func TestTrialOfRowsThatAreNotFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.add(t, "NEW", 1, 5, time.Hour)
		free := time.Now().Add(10 * time.Second)
		tries(b, func(s backlog.Settlement) error {
			switch {
			case id(s.Record) == 5:
				return backlog.ErrConflict
			case time.Now().Before(free):
				return backlog.ErrLocked
			}
			return nil
		})
		if got, want := outcomes(b.pass(t)), "4 succeeded"; got != want || time.Now().Before(free) {
			t.Errorf("got %s at %v, want %s from %v on", got, time.Now(), want, free)
		}
	})
}

// A settlement that the database refused has every state tried anew.
func TestTrialAfterARefusedOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(50*time.Millisecond, succeed))
		b.add(t, "NEW", 1, 1000, time.Hour)
		var broken error
		h := tries(b, func(s backlog.Settlement) error { return broken })
		h.settle = func(_ context.Context, group []backlog.Settlement) (left []backlog.Unsettled, err error) {
			broken = errCheck
			for i := range group {
				left = append(left, backlog.Unsettled{Index: i, Err: errCheck})
			}
			return left, nil
		}
		rep, err := b.Pass(t.Context(), backlog.Pass{MaxAge: day})
		if n := len(b.calls.all()); !errors.Is(err, errCheck) || n > 5 {
			t.Errorf("got %v after %d calls, %s; want the reason of the trial after the first group", err, n, outcomes(rep))
		}
		checkSum(t, rep)
		broken, h.settle = nil, nil
		if rep := b.pass(t); rep.Succeeded != 1000 {
			t.Errorf("after it was mended: %s", outcomes(rep))
		}
	})
}

// A table that others cannot reach is no refusal.
func TestTrialWaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.add(t, "NEW", 1, 20, time.Hour)
		n := 0
		tries(b, func(backlog.Settlement) error {
			if n++; n < 4 {
				return fmt.Errorf("%w: no route", backlog.ErrUnavailable)
			}
			return nil
		})
		if got, want := outcomes(b.pass(t)), "20 succeeded"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// Ten refused outcomes in a row, over groups too, end the pass.
func TestPassEndsAfterRefusalsInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(time.Second, succeed))
		b.add(t, "NEW", 1, 100, time.Hour)
		h := b.hook()
		h.settle = func(ctx context.Context, group []backlog.Settlement) (left []backlog.Unsettled, err error) {
			for i, s := range group {
				if id(s.Record) != 5 {
					left = append(left, backlog.Unsettled{Index: i, Err: errCheck})
				} else if _, err := h.Store.Settle(ctx, group[i:i+1]); err != nil {
					return nil, err
				}
			}
			return left, nil
		}
		rep, err := b.Pass(t.Context(), backlog.Pass{MaxAge: day})
		if err == nil || !errors.Is(err, errCheck) || !strings.Contains(err.Error(), "refused 10 outcomes in a row") {
			t.Errorf("want the pass to end with the number and the last reason, got %v", err)
		}
		if got := outcomes(rep); rep.Stopped != backlog.StoppedError || rep.Succeeded != 1 || rep.Refused < 14 || rep.Refused > 16 {
			t.Errorf("want 14 refused and one or two that were under way, got %s; stopped by %s", got, rep.Stopped)
		}
	})
}
