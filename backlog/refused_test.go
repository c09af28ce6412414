package backlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// A refuser is a table that refuses outcomes and can be asked to prove itself.
type refuser struct {
	*hooked
	prove func(context.Context) error
}

func (r *refuser) Prove(ctx context.Context) error { return r.prove(ctx) }

var errCheck = errors.New("CHECK constraint failed")

// refuses makes the bench's table refuse the outcomes of records for which no
// is true.
func refuses(b *bench, no func(id int) bool, prove func(context.Context) error) {
	h := b.hook()
	h.settle = func(ctx context.Context, group []backlog.Settlement) (left []backlog.Unsettled, err error) {
		for i, s := range group {
			if no(id(s.Record)) {
				left = append(left, backlog.Unsettled{Index: i, Err: errCheck})
			} else if _, err := h.Store.Settle(ctx, group[i:i+1]); err != nil {
				return nil, err
			}
		}
		return left, nil
	}
	b.Store = &refuser{h, prove}
}

func all(int) bool { return true }

// After the first refused outcome nothing is handed out before the store has
// proved that it takes others, however long that takes.
func TestRefusalIsFollowedByAProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *bench
		var before, after int
		b = newBench(t, memory.Options{}, slowly(50*time.Millisecond, succeed))
		b.add(t, "NEW", 1, 1000, time.Hour)
		broken := errors.New("the table takes no status; mend it")
		refuses(b, all, func(context.Context) error {
			before = len(b.calls.all())
			time.Sleep(700 * time.Millisecond)
			after = len(b.calls.all())
			return broken
		})
		rep, err := b.Pass(t.Context(), backlog.Pass{MaxAge: day})
		if !errors.Is(err, broken) {
			t.Errorf("want the pass to end with what the proof says, got %v", err)
		}
		// One may have been let go just before.
		if n := len(b.calls.all()); before == 0 || after > before+1 || n != after {
			t.Errorf("want nothing handed out during the proof and after it, got %d calls before, %d at its end and %d in all", before, after, n)
		}
		checkSum(t, rep)
		if rep.Refused != 0 || rep.Unwritten != rep.Selected {
			t.Errorf("want the rows not to be blamed, got %s", outcomes(rep))
		}
		refuses(b, func(int) bool { return false }, nil)
		if rep := b.pass(t); rep.Succeeded != 1000 {
			t.Errorf("want all records tried when the table is mended, got %s", outcomes(rep))
		}
	})
}

// A store that has proved itself is asked once in a pass: it depends on the row.
func TestRefusalThatDependsOnTheRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		b := newBench(t, memory.Options{}, succeed)
		b.add(t, "NEW", 1, 3000, time.Hour)
		refuses(b, func(id int) bool { return id%10 != 0 }, func(context.Context) error { asked.Add(1); return nil })
		rep := b.pass(t)
		if got, want := outcomes(rep), "300 succeeded, 2700 refused"; got != want || !rep.Complete {
			t.Errorf("got %s, want %s and the pass complete", got, want)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("want one proof, got %d", n)
		}
	})
}

// Ten refused outcomes in a row, over groups too, end the pass.
func TestPassEndsAfterRefusalsInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(time.Second, succeed))
		b.add(t, "NEW", 1, 100, time.Hour)
		refuses(b, func(id int) bool { return id != 5 }, func(context.Context) error { return nil })
		rep, err := b.Pass(t.Context(), backlog.Pass{MaxAge: day})
		if err == nil || !errors.Is(err, errCheck) || !strings.Contains(err.Error(), "refused 10 outcomes in a row") {
			t.Errorf("want the pass to end with the number and the last reason, got %v", err)
		}
		if got := outcomes(rep); rep.Stopped != backlog.StoppedError || rep.Succeeded != 1 || rep.Refused < 14 || rep.Refused > 16 {
			t.Errorf("want 14 refused and one or two that were under way, got %s; stopped by %s", got, rep.Stopped)
		}
	})
}

// A store that is away when it is to prove itself has proved nothing.
func TestProofWaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		b := newBench(t, memory.Options{}, succeed)
		b.add(t, "NEW", 1, 20, time.Hour)
		refuses(b, func(id int) bool { return id == 3 }, func(context.Context) error {
			if tries++; tries < 4 {
				return fmt.Errorf("%w: no route", backlog.ErrAway)
			}
			return nil
		})
		if got, want := outcomes(b.pass(t)), "19 succeeded, 1 refused"; got != want || tries != 4 {
			t.Errorf("got %s and %d tries, want %s and 4", got, tries, want)
		}
	})
}
