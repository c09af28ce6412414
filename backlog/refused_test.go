package backlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/internal/testkit"
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
		if !errors.Is(err, errCheck) {
			t.Errorf("got the error %v, want %v", err, errCheck)
		}
		testkit.Equal(t, "rows that were tried", len(rows), 3)
		testkit.Equal(t, "selected", rep.Selected, 0)
		testkit.Equal(t, "calls", len(b.calls.all()), 0)
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

// A row that two passes try at the same time is refused once.
func TestRowThatTwoPassesTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.add(t, "NEW", 1, 20, time.Hour)
		tries(b, func(s backlog.Settlement) error {
			time.Sleep(100 * time.Millisecond)
			if id(s.Record) <= 5 {
				return &backlog.Refusal{Reach: backlog.OneRow, Err: errCheck}
			}
			return nil
		})
		var passes sync.WaitGroup
		var refused, said atomic.Int64
		b.Observe = func(ev backlog.Event) {
			if ev.Kind == backlog.Refused {
				said.Add(1)
			}
		}
		for _, tier := range []string{"1d", "7d"} {
			passes.Go(func() {
				rep, err := b.Pass(t.Context(), backlog.Pass{Tier: tier, MaxAge: day})
				if err != nil {
					t.Error(err)
				}
				refused.Add(int64(rep.Refused))
			})
		}
		passes.Wait()
		if refused.Load() != 5 || said.Load() != 5 {
			t.Errorf("%d are refused and %d are said to be, not 5", refused.Load(), said.Load())
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
		testkit.Equal(t, "stopped by", rep.Stopped, backlog.StoppedError)
		testkit.Equal(t, "succeeded", rep.Succeeded, 1)
		if rep.Refused < 14 || rep.Refused > 16 {
			t.Errorf("want 14 refused and one or two that were under way, got %s", outcomes(rep))
		}
	})
}

// sickRow is the refusal of a row for a reason of its own.
var sickRow = &backlog.Refusal{Reach: backlog.OneRow, Err: errCheck}

// refusing makes the bench's table refuse some rows, at the trial and at the settlement.
func refusing(b *bench, is func(backlog.Settlement) error) (trials *int) {
	trials = new(int)
	h := tries(b, func(s backlog.Settlement) error {
		*trials++
		return is(s)
	})
	h.settle = func(ctx context.Context, group []backlog.Settlement) (left []backlog.Unsettled, err error) {
		for i, s := range group {
			if err := is(s); err != nil {
				left = append(left, backlog.Unsettled{Index: i, Err: err})
			} else if _, err := h.Store.Settle(ctx, group[i:i+1]); err != nil {
				return nil, err
			}
		}
		return left, nil
	}
	return trials
}

// A row with a trouble of its own stops neither its lane nor the other one, wherever on the
// page it stands.
func TestSickRowsStopNobody(t *testing.T) {
	for name, sick := range map[string]func(int) bool{
		"the only fresh row":            func(id int) bool { return id == 1 },
		"first, last and middle":        func(id int) bool { return id == 1 || id == 105 || id == 110 || id == 106 },
		"hundreds before a healthy one": func(id int) bool { return id >= 101 && id <= 600 },
		"all that have failed":          func(id int) bool { return id > 100 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, succeed)
				b.add(t, "NEW", 1, 1, time.Minute)
				rows, all := 10, 11
				if name != "first, last and middle" {
					rows, all = 700, 701
				}
				b.add(t, "ERROR", 101, rows, time.Hour)
				want := 0
				for _, id := range append([]int{1}, numbersFrom(101, rows)...) {
					if sick(id) {
						want++
					}
				}
				refusing(b, func(s backlog.Settlement) error {
					if sick(id(s.Record)) {
						return sickRow
					}
					return nil
				})
				rep := b.pass(t)
				checkSum(t, rep)
				if rep.Refused != want || rep.Succeeded != all-want || !rep.Complete {
					t.Errorf("got %s, want %d refused and all others to succeed", outcomes(rep), want)
				}
				if n := len(b.calls.all()); name != "first, last and middle" && n != all-want {
					t.Errorf("%d handler calls for %d rows that take their outcome", n, all-want)
				}
				if rep := b.pass(t); rep.Selected != 0 {
					t.Errorf("the next pass: %s", outcomes(rep))
				}
			})
		})
	}
}

func numbersFrom(first, n int) (list []int) {
	for i := range n {
		list = append(list, first+i)
	}
	return list
}

// However many rows are sick, a pass tries a bounded number of them and calls no handler in
// vain; the other lane goes on, and later passes of other processes go on behind them.
func TestMoreSickRowsThanAPassTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.add(t, "NEW", 1, 2500, time.Hour)
		b.add(t, "NEW", 3001, 20, 2*time.Hour)
		b.add(t, "ERROR", 4001, 20, time.Hour)
		trials := refusing(b, func(s backlog.Settlement) error {
			if id(s.Record) <= 2500 {
				return sickRow
			}
			return nil
		})
		var resume backlog.Resume
		for i, want := range []string{"20 succeeded, 1000 refused", "1000 refused", "20 succeeded, 1000 refused"} {
			*trials = 0
			e := &backlog.Engine{Store: b.Store, Handler: b.Handler, Now: b.Now} // as another process
			rep, err := e.Pass(t.Context(), backlog.Pass{MaxAge: day, Resume: resume})
			if got := outcomes(rep); got != want || *trials > 1010 || !errors.Is(err, errCheck) {
				t.Errorf("pass %d: got %s after %d trials, %v; want %s", i, got, *trials, err, want)
			}
			resume = rep.Resume
		}
		if n := len(b.calls.all()); n != 40 {
			t.Errorf("%d handler calls, want 40", n)
		}
	})
}

// Where no row of a lane takes what another lane's rows take, the other one goes on, and the
// error says that it is not the table as a whole.
func TestLaneThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.add(t, "NEW", 1, 20, time.Hour)
		b.add(t, "ERROR", 101, 20, time.Hour)
		tries(b, func(s backlog.Settlement) error {
			if s.Record.Lane == backlog.Fresh {
				return errCheck
			}
			return nil
		})
		rep, err := b.Pass(t.Context(), backlog.Pass{MaxAge: day})
		if got := outcomes(rep); got != "20 succeeded" || !errors.Is(err, errCheck) || !strings.Contains(err.Error(), "while those of another do") {
			t.Errorf("got %s, %v", got, err)
		}
	})
}

// Where the handler decides whether an outcome is taken, that is said once for each state,
// and the outcomes decide: of a handler that never writes what is asked for, few calls are
// in vain, and the other lane goes on.
func TestHandlerDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		filled := make(map[int]bool)
		b := newBench(t, memory.Options{}, func(_ context.Context, r *backlog.Record) error {
			if n := id(r); n < 3 || n > 12 {
				filled[n] = true
			}
			return nil
		})
		b.add(t, "NEW", 1, 40, time.Hour)
		refusing(b, func(s backlog.Settlement) error {
			if !filled[id(s.Record)] && s.Target == backlog.RowSuccess {
				return &backlog.Refusal{Reach: backlog.HandlerDecides, Err: errCheck}
			}
			return nil
		})
		uncertain := 0
		observe := b.Observe
		b.Observe = func(ev backlog.Event) {
			if ev.Kind == backlog.Uncertain {
				uncertain++
			}
			if observe != nil {
				observe(ev)
			}
		}
		var all backlog.Report
		for range 2 {
			rep, _ := b.Pass(t.Context(), backlog.Pass{MaxAge: day})
			checkSum(t, rep)
			all.Succeeded += rep.Succeeded
			all.Refused += rep.Refused
		}
		if uncertain != 1 || all.Succeeded != 30 || all.Refused != 10 {
			t.Errorf("said %d times, %d succeeded, %d refused; want once, 30 and 10", uncertain, all.Succeeded, all.Refused)
		}
	})
}

// A handler that fills nothing is called in vain for few records of a lane.
func TestHandlerThatNeverDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.Concurrency = 8
		b.add(t, "NEW", 1, 500, time.Hour)
		b.add(t, "ERROR", 1001, 20, time.Hour)
		refusing(b, func(s backlog.Settlement) error {
			if s.Record.Lane == backlog.Fresh && s.Target == backlog.RowSuccess {
				return &backlog.Refusal{Reach: backlog.HandlerDecides, Err: errCheck}
			}
			return nil
		})
		rep, err := b.Pass(t.Context(), backlog.Pass{MaxAge: day})
		if got, want := outcomes(rep), "20 succeeded, 10 refused"; got != want || !errors.Is(err, errCheck) || rep.Resume.FreshLast.IsZero() {
			t.Errorf("got %s, %v; want %s, and the next pass behind them", got, err, want)
		}
	})
}

// Sick rows that a trial did not see, since healthy ones came before them, do not keep those
// behind them waiting.
func TestSickRowsAmongHealthyOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.Concurrency = 4
		b.add(t, "NEW", 1, 1, time.Minute)
		b.add(t, "NEW", 101, 60, time.Hour)
		b.add(t, "NEW", 1001, 100, 2*time.Hour)
		refusing(b, func(s backlog.Settlement) error {
			if n := id(s.Record); n > 100 && n < 1000 {
				return sickRow
			}
			return nil
		})
		rep := b.pass(t)
		checkSum(t, rep)
		if got, want := outcomes(rep), "101 succeeded, 60 refused"; got != want || !rep.Complete {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// Outcomes that are refused though the trial took them end the lane, not the pass.
func TestOutcomesThatNoTrialForesees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(time.Second, succeed))
		b.add(t, "NEW", 1, 500, time.Hour)
		b.add(t, "ERROR", 1001, 20, time.Hour)
		h := tries(b, func(backlog.Settlement) error { return nil })
		h.settle = func(ctx context.Context, group []backlog.Settlement) (left []backlog.Unsettled, err error) {
			for i, s := range group {
				if s.Record.Lane == backlog.Fresh {
					left = append(left, backlog.Unsettled{Index: i, Err: errCheck})
				} else if _, err := h.Store.Settle(ctx, group[i:i+1]); err != nil {
					return nil, err
				}
			}
			return left, nil
		}
		rep, err := b.Pass(t.Context(), backlog.Pass{MaxAge: day})
		if !errors.Is(err, errCheck) {
			t.Errorf("got the error %v, want %v", err, errCheck)
		}
		testkit.Equal(t, "failed records that succeed", rep.Succeeded, 20)
		if rep.Refused < 10 || rep.Refused > 15 {
			t.Errorf("want 10 to 15 refused, got %d", rep.Refused)
		}
		if rep.Resume.FreshLast.IsZero() {
			t.Errorf("want the place among fresh records kept, got %+v", rep.Resume)
		}
	})
}
