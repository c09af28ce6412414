package backlog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// split counts the records of a pass by lane: in the tests that ask, those that
// had failed are numbered from 1000 on.
func split(ids []int) (fresh, failed int) {
	for _, id := range ids {
		if id < 1000 {
			fresh++
		} else {
			failed++
		}
	}
	return fresh, failed
}

func TestCapIsSharedByTheLanes(t *testing.T) {
	for _, c := range []struct {
		max, fresh, failed    int
		fromFresh, fromFailed int
		complete              bool
	}{
		{max: 10, fresh: 100, failed: 100, fromFresh: 9, fromFailed: 1},
		{max: 11, fresh: 100, failed: 100, fromFresh: 9, fromFailed: 2},
		{max: 20, fresh: 100, failed: 100, fromFresh: 18, fromFailed: 2},
		{max: 100, fresh: 500, failed: 500, fromFresh: 90, fromFailed: 10},
		{max: 2, fresh: 100, failed: 100, fromFresh: 1, fromFailed: 1},
		{max: 1, fresh: 100, failed: 100, fromFresh: 1, fromFailed: 0},
		{max: 1, fresh: 0, failed: 100, fromFresh: 0, fromFailed: 1},
		{max: 10, fresh: 3, failed: 100, fromFresh: 3, fromFailed: 7},
		{max: 10, fresh: 0, failed: 100, fromFresh: 0, fromFailed: 10},
		{max: 10, fresh: 100, failed: 0, fromFresh: 10, fromFailed: 0},
		{max: 20, fresh: 100, failed: 1, fromFresh: 19, fromFailed: 1},
		{max: 10, fresh: 9, failed: 1, fromFresh: 9, fromFailed: 1, complete: true},
		{max: 10, fresh: 10, failed: 0, fromFresh: 10, fromFailed: 0, complete: true},
		{max: 10, fresh: 0, failed: 10, fromFresh: 0, fromFailed: 10, complete: true},
		{max: 10, fresh: 5, failed: 2, fromFresh: 5, fromFailed: 2, complete: true},
		{max: 10, fresh: 0, failed: 0, complete: true},
		{max: 0, fresh: 100, failed: 100, fromFresh: 100, fromFailed: 100, complete: true},
		{max: -1, fresh: 100, failed: 100, fromFresh: 100, fromFailed: 100, complete: true},
	} {
		t.Run(fmt.Sprintf("cap=%d/fresh=%d/failed=%d", c.max, c.fresh, c.failed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, memory.Options{}, fail)
				b.MaxRecords = c.max
				b.Concurrency = 3
				b.add(t, "NEW", 1, c.fresh, 0)
				b.add(t, "ERROR", 1000, c.failed, 0)
				ids, rep := b.tier().pass(t)
				if fresh, failed := split(ids); fresh != c.fromFresh || failed != c.fromFailed {
					t.Errorf("want %d fresh and %d failed records handed out, got %d and %d", c.fromFresh, c.fromFailed, fresh, failed)
				}
				stopped := backlog.StoppedMaxRecords
				if c.complete {
					stopped = ""
				}
				if rep.Complete != c.complete || rep.Stopped != stopped {
					t.Errorf("want complete %t, stopped %q; got %t, %q", c.complete, stopped, rep.Complete, rep.Stopped)
				}
				if rep.Resume.IsZero() != c.complete {
					t.Errorf("want a resume point exactly when the pass is not complete, got %+v", rep.Resume)
				}
			})
		})
	}
}

// Skips use up the cap: the handler was called.
func TestCapCountsHandlerCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, func(context.Context, *backlog.Record) error { return backlog.Skip })
		b.MaxRecords = 10
		b.add(t, "NEW", 1, 50, 0)
		tr := b.tier()
		for range 5 {
			if ids, rep := tr.pass(t); len(ids) != 10 || rep.Skipped != 10 {
				t.Errorf("want 10 records handed out and skipped, got %d, %s", len(ids), outcomes(rep))
			}
		}
	})
}

func TestCapOfOneIsEachLanesInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.MaxRecords = 1
		b.add(t, "NEW", 1, 6, 0)
		b.add(t, "ERROR", 1000, 4, 0)
		tr := b.tier()
		var got []int
		for range 10 {
			ids, _ := tr.pass(t)
			got = append(got, ids...)
		}
		if want := []int{1, 1000, 2, 1001, 3, 1002, 4, 1003, 5, 6}; !slices.Equal(got, want) {
			t.Errorf("want the lanes to take turns while both have records: %v, got %v", want, got)
		}
	})
}

// passesFor is in how many passes P failed records must each have been tried,
// when the failed lane has a share of the cap.
func passesFor(p, share int) int { return (p + share - 1) / share }

func TestEveryFailedRecordIsTriedUnderACap(t *testing.T) {
	t.Parallel()
	for _, p := range []int{1, 7, 10, 23, 100} {
		for _, limit := range []int{1, 2, 3, 7, 10, 30, 100, 101} {
			t.Run(fmt.Sprintf("P=%d/C=%d", p, limit), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t, memory.Options{}, fail)
					b.MaxRecords = limit
					b.Concurrency = 4
					b.add(t, "ERROR", 1000, p, 0)
					tr := b.tier()
					n := passesFor(p, limit)
					// From the beginning, and from wherever the last pass
					// stopped.
					for round := range 4 {
						var ids []int
						for range n {
							more, _ := tr.pass(t)
							ids = append(ids, more...)
						}
						slices.Sort(ids)
						if got := len(slices.Compact(ids)); got != p {
							t.Errorf("round %d: want all %d failed records tried in %d passes, got %d", round, p, n, got)
						}
					}
				})
			})
		}
	}
}

func TestEveryFailedRecordIsTriedThoughFreshOnesKeepComing(t *testing.T) {
	t.Parallel()
	for _, handler := range []struct {
		name string
		do   backlog.HandlerFunc // of the fresh ones
	}{{"fresh succeed", succeed}, {"fresh fail", fail}} {
		for _, p := range []int{1, 10, 23} {
			for _, limit := range []int{1, 2, 5, 10, 11, 30, 55} {
				t.Run(fmt.Sprintf("%s/P=%d/C=%d", handler.name, p, limit), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						b := newBench(t, memory.Options{}, func(ctx context.Context, r *backlog.Record) error {
							if r.Lane == backlog.Failed {
								return errBroken
							}
							return handler.do(ctx, r)
						})
						b.MaxRecords = limit
						b.Concurrency = 4
						b.add(t, "ERROR", 1000, p, time.Minute)
						tr := b.tier()
						n := passesFor(p, (limit+9)/10)
						if limit == 1 {
							// Every other pass is the failed lane's, and
							// the first fresh record may have joined it.
							n = 2 * (p + 1)
						}
						tried := make(map[int]bool)
						for i := range n {
							time.Sleep(time.Second)
							b.add(t, "NEW", 10_000+i*limit, limit, 0)
							ids, rep := tr.pass(t)
							if rep.Selected != limit {
								t.Fatalf("want the cap of %d used up, got %d", limit, rep.Selected)
							}
							for _, id := range ids {
								tried[id] = true
							}
						}
						for id := 1000; id < 1000+p; id++ {
							if !tried[id] {
								t.Errorf("want all %d records that had failed tried in %d passes, record %d was not", p, n, id)
							}
						}
					})
				})
			}
		}
	}
}

func TestPassGoesOnAndWrapsRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, fail)
		b.MaxRecords = 4
		b.add(t, "ERROR", 1001, 10, 0)
		tr := b.tier()
		for i, want := range [][]int{
			{1001, 1002, 1003, 1004},
			{1005, 1006, 1007, 1008},
			{1009, 1010, 1001, 1002},
			{1003, 1004, 1005, 1006},
		} {
			if got, _ := tr.pass(t); !slices.Equal(got, want) {
				t.Errorf("pass %d: want it to go on where the last one stopped and wrap round: %v, got %v", i+1, want, got)
			}
		}
		// A pass that gets through is a whole one, from the same place on.
		b.Engine = &backlog.Engine{Store: b.table, Handler: b.calls}
		got, rep := tr.pass(t)
		if want := append(numbers(1007, 1010), numbers(1001, 1006)...); !slices.Equal(got, want) || !rep.Complete || !rep.Resume.IsZero() {
			t.Errorf("want a complete pass over %v, got %v, %+v", want, got, rep)
		}
	})
}

// The place to go on from needs no record to be there any more.
func TestResumePointOutlivesItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, fail)
		b.MaxRecords = 4
		b.add(t, "ERROR", 1001, 10, 0)
		tr := b.tier()
		tr.pass(t)
		for id := 1003; id <= 1005; id++ {
			b.table.Delete(key(id))
		}
		if got, want := second(tr.pass(t)), []int{1006, 1007, 1008, 1009}; !slices.Equal(got, want) {
			t.Errorf("want the pass to go on with %v, got %v", want, got)
		}
	})
}

func second(ids []int, _ backlog.Report) []int { return ids }

func TestNewFreshRecordsComeBeforeTheResumePoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.MaxRecords = 5 // of which the failed lane keeps one
		b.add(t, "NEW", 1, 20, 0)
		b.add(t, "ERROR", 1001, 20, 0)
		tr := b.tier()
		tr.pass(t)
		time.Sleep(time.Minute)
		b.add(t, "NEW", 501, 2, 0)
		if got, want := second(tr.pass(t)), []int{501, 502, 5, 6, 1002}; !slices.Equal(got, want) {
			t.Errorf("want new records first, then on from the last one: %v, got %v", want, got)
		}
	})
}

// Where errors keep their status there is one lane, and a record that fails
// stays in it.
func TestOneLaneUnderACap(t *testing.T) {
	for _, limit := range []int{1, 2, 3, 10, 64} {
		t.Run(fmt.Sprintf("C=%d", limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 60
				b := newBench(t, memory.Options{ErrorKeep: true}, fail)
				b.MaxRecords = limit
				b.add(t, "NEW", 1, n, 0)
				tr := b.tier()
				passes := passesFor(n, limit)
				for range passes {
					tr.pass(t)
				}
				if tried := b.calls.attempts(); len(tried) != n {
					t.Errorf("want each of %d failing records tried in %d passes of %d, got %d; record 1 was tried %d times", n, passes, limit, len(tried), tried[1])
				}
			})
		})
	}
}

func TestOneLaneTakesNewRecordsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{ErrorKeep: true}, fail)
		b.MaxRecords = 10
		b.add(t, "NEW", 1, 100, 0)
		tr := b.tier()
		for i := range 30 {
			time.Sleep(time.Minute)
			first := 1001 + 10*i
			b.add(t, "NEW", first, 3, 0)
			got, _ := tr.pass(t)
			if want := numbers(first, first+2); len(got) != 10 || !slices.Equal(got[:3], want) {
				t.Fatalf("pass %d: want ten records, the new ones %v first, got %v", i, want, got)
			}
		}
	})
}

// A burst that fills one pass must not make the pass after it begin the old
// records all over again.
func TestOneLaneSurvivesBursts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const old = 100
		b := newBench(t, memory.Options{ErrorKeep: true}, func(_ context.Context, r *backlog.Record) error {
			if id(r) <= old {
				return errBroken
			}
			return nil
		})
		b.MaxRecords = 10
		b.add(t, "NEW", 1, old, 0)
		tr := b.tier()
		for i := range 100 {
			time.Sleep(time.Minute)
			if i%5 == 0 {
				b.add(t, "NEW", 1000+10*i, 10, 0) // two a pass on average
			}
			tr.pass(t)
		}
		missed := 0
		for id := 1; id <= old; id++ {
			if b.calls.attempts()[id] == 0 {
				missed++
			}
		}
		if missed > 0 {
			t.Errorf("want each of %d failing records tried in 100 passes of 10 with a burst of 10 new ones in every fifth, %d were never tried", old, missed)
		}
	})
}

// Whatever comes and goes, and wherever passes stop, each record of one lane
// is tried again and again, none of them much more rarely than the others.
func TestOneLaneIsFair(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			dice := rand.New(rand.NewPCG(seed, 0))
			limit := 2 + dice.IntN(9)
			const old = 50
			b := newBench(t, memory.Options{ErrorKeep: true}, func(_ context.Context, r *backlog.Record) error {
				if id(r) <= old {
					return errBroken
				}
				return []error{nil, errBroken}[dice.IntN(2)] // one call at a time
			})
			b.MaxRecords = limit
			b.add(t, "NEW", 1, old, time.Hour)
			tr := b.tier()
			const passes = 120
			next := 1000
			for range passes {
				time.Sleep(time.Minute)
				if dice.IntN(6) == 0 { // at most a third of what the passes can do
					n := 1 + dice.IntN(2*limit)
					b.add(t, "NEW", next, n, 0)
					next += n
				}
				tr.pass(t)
			}
			// Half of the passes' work is left for the old ones, as those
			// that come are done after two attempts on average.
			want := passes * limit / (8 * old)
			for id := 1; id <= old; id++ {
				if got := b.calls.attempts()[id]; got < want {
					t.Errorf("seed %d: want each of %d old records tried at least %d times in %d passes of %d, record %d got %d attempts",
						seed, old, want, passes, limit, id, got)
				}
			}
		})
	}
}

// Records that a handler skips stay fresh. One of them must not keep the turn
// for ever.
func TestSkippedRecordsDoNotBlockACapOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, func(_ context.Context, r *backlog.Record) error {
			if id(r) == 1 {
				return backlog.Skip
			}
			return nil
		})
		b.MaxRecords = 1
		b.add(t, "NEW", 1, 10, 0)
		tr := b.tier()
		for range 25 {
			tr.pass(t)
		}
		if done := b.statuses()["SUCCESS"]; done != 9 {
			t.Errorf("want the nine records behind a skipped one done in 25 passes of one, got %d", done)
		}
	})
}
