package backlog_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// A fresh record that fails is one of the failed before the pass comes to
// them.
func TestOneAttemptPerPass(t *testing.T) {
	t.Parallel()
	for _, o := range []memory.Options{{}, {ErrorKeep: true}} {
		for _, concurrency := range []int{1, 8} {
			for _, handler := range []struct {
				name string
				err  error
			}{{"errors", errBroken}, {"rejections", backlog.Reject(errBroken)}, {"skips", backlog.Skip}} {
				t.Run(fmt.Sprintf("%s/keep=%t/concurrency=%d", handler.name, o.ErrorKeep, concurrency), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						b := newBench(t, o, slowly(time.Second, func(context.Context, *backlog.Record) error { return handler.err }))
						b.Concurrency = concurrency
						b.add(t, "NEW", 1, 40, time.Minute)
						want := numbers(1, 40)
						if !o.ErrorKeep {
							b.add(t, "ERROR", 41, 40, 0) // in between the fresh ones by age
							want = numbers(1, 80)
						}
						for n := 1; n <= 3; n++ {
							rep := b.pass(t)
							if !rep.Complete {
								t.Errorf("want a complete pass, got %+v", rep)
							}
							for _, id := range want {
								if got := b.calls.attempts()[id]; got != n {
									t.Errorf("want record %d tried once in each of %d passes, got %d attempts", id, n, got)
								}
							}
						}
					})
				})
			}
		}
	}
}

// Somebody else marks the record as failed while its handler runs, so that the
// failed lane shows it to the same pass.
func TestOneAttemptPerPassAlsoAfterAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *bench
		b = newBench(t, memory.Options{}, slowly(time.Second, func(_ context.Context, r *backlog.Record) error {
			if id(r) == 1 {
				b.table.Update(r.Key, func(row *memory.Row) { row.Status = "ERROR" })
			}
			return nil
		}))
		b.add(t, "NEW", 1, 5, 0)
		rep := b.pass(t)
		if n := len(b.calls.of(1)); n != 1 {
			t.Errorf("want one attempt on a record in one pass, got %d", n)
		}
		if got, want := outcomes(rep), "4 succeeded, 1 conflicts"; got != want {
			t.Errorf("want %s, got %s", want, got)
		}
	})
}

// Where the failed lane goes by the last failure, longest-waiting first, a
// record that fails moves to its end, and a policy may call it due at once.
func TestOneAttemptPerPassWhereFailedRecordsMoveToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 30
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b := newBench(t, memory.Options{}, nil)
		b.calls.do = func(context.Context, *backlog.Record) error {
			if len(b.calls.all()) > 10*n {
				cancel() // it would go on for ever
			}
			wait(ctx, time.Second)
			return errBroken
		}
		b.Store = &queue{waiting: numbers(1, n)}
		rep, err := b.Pass(ctx, backlog.Pass{MaxAge: day})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := b.calls.ids(), numbers(1, n); !slices.Equal(got, want) || !rep.Complete {
			t.Errorf("want a complete pass with an attempt on each of %d records, got %d attempts, complete %t", n, len(got), rep.Complete)
		}
	})
}

// A queue is a table whose failed lane goes by the last failure.
type queue struct {
	mu      sync.Mutex
	waiting []int // the place in it is the record's in the lane; 0: it has moved
}

func (q *queue) Pending(_ context.Context, query backlog.Query) (page backlog.Page, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	page.Next = query.After
	if query.Lane == backlog.Fresh {
		return page, nil
	}
	from := 0
	if !query.After.IsZero() {
		from = int(query.After.Order.(int64)) + 1
	}
	for i := from; i < len(q.waiting); i++ {
		if len(page.Records) == query.Limit {
			page.More = true
			break
		}
		if n := q.waiting[i]; n != 0 {
			c := backlog.Cursor{Order: int64(i), Key: key(n)}
			page.Records = append(page.Records, backlog.Record{Key: key(n), Status: "ERROR", Lane: backlog.Failed, Cursor: c})
			page.Next = c
		}
	}
	return page, nil
}

func (q *queue) Settle(_ context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range group {
		q.waiting[slices.Index(q.waiting, id(s.Record))] = 0
		q.waiting = append(q.waiting, id(s.Record))
	}
	return nil, nil
}

func TestOutcomes(t *testing.T) {
	const timeout = 5 * time.Second
	var nowhere map[string]int
	returns := func(err error) backlog.HandlerFunc {
		return func(context.Context, *backlog.Record) error { return err }
	}
	for _, c := range []struct {
		name    string
		do      backlog.HandlerFunc
		counted string // in the report
		status  string // of the row, "" for as it was
		text    string // of the row's last error
	}{
		{"success", succeed, "succeeded", "SUCCESS", ""},
		{"error", returns(errors.New("no route")), "failed", "ERROR", "no route"},
		{"reject", returns(backlog.Reject(errors.New("no such street"))), "rejected", "DEAD", "no such street"},
		{"reject without a reason", returns(backlog.Reject(nil)), "rejected", "DEAD", "rejected"},
		{"skip", returns(backlog.Skip), "skipped", "", ""},
		{"skip with a reason", returns(fmt.Errorf("later: %w", backlog.Skip)), "skipped", "", ""},
		{"pause", returns(backlog.RetryAfter(time.Second, errors.New("too many"))), "failed", "ERROR", "too many"},
		{"panic", func(context.Context, *backlog.Record) error { panic("boom") }, "failed", "ERROR", "the handler panicked: boom"},
		{"panic with an error", func(context.Context, *backlog.Record) error { panic(errBroken) }, "failed", "ERROR", "the handler panicked: the service is broken"},
		{"panic of the runtime", func(context.Context, *backlog.Record) error { nowhere["x"] = 1; return nil }, "failed", "ERROR",
			"the handler panicked: assignment to entry in nil map"},
		{"timeout", func(ctx context.Context, _ *backlog.Record) error {
			<-ctx.Done()
			return fmt.Errorf("deliver: %w", context.Cause(ctx))
		}, "failed", "ERROR", "deliver: timed out after 5s"},
		{"timeout as the context's error", func(ctx context.Context, _ *backlog.Record) error { <-ctx.Done(); return ctx.Err() }, "failed", "ERROR", "timed out after 5s"},
		{"timeout around the context's error", func(ctx context.Context, _ *backlog.Record) error {
			<-ctx.Done()
			return fmt.Errorf("deliver: %w", ctx.Err())
		}, "failed", "ERROR", "timed out after 5s: deliver: context deadline exceeded"},
		{"timeout that is a rejection", func(ctx context.Context, _ *backlog.Record) error { <-ctx.Done(); return backlog.Reject(ctx.Err()) }, "rejected", "DEAD",
			"timed out after 5s: context deadline exceeded"},
		{"error after the timeout", func(ctx context.Context, _ *backlog.Record) error { <-ctx.Done(); return errors.New("no route") }, "failed", "ERROR", "no route"},
		{"timeout of its own", returns(context.DeadlineExceeded), "failed", "ERROR", "context deadline exceeded"},
		{"success in spite of the timeout", func(ctx context.Context, _ *backlog.Record) error { <-ctx.Done(); return nil }, "succeeded", "SUCCESS", ""},
		{"success just before the timeout", slowly(timeout-1, succeed), "succeeded", "SUCCESS", ""},
	} {
		for lane, status := range []string{backlog.Fresh: "NEW", backlog.Failed: "ERROR"} {
			t.Run(c.name+"/"+backlog.Lane(lane).String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t, memory.Options{Dead: "DEAD"}, c.do)
					b.Timeout = timeout
					b.add(t, status, 1, 1, 0)
					before := b.row(t, 1)
					rep := b.pass(t)
					if got, want := outcomes(rep), "1 "+c.counted; got != want || rep.Selected != 1 {
						t.Errorf("want %s of 1 selected, got %s of %d", want, got, rep.Selected)
					}
					want := before
					if c.status != "" {
						want.Status, want.LastError, want.Attempts = c.status, c.text, 1
					}
					if got := b.row(t, 1); !reflect.DeepEqual(got, want) {
						t.Errorf("want the row %+v, got %+v", want, got)
					}
				})
			})
		}
	}
}

// Who asks with errors.Is hears the same as ever.
func TestTimeoutIsADeadlineExceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, func(ctx context.Context, r *backlog.Record) error {
			<-ctx.Done()
			return []error{ctx.Err(), context.Cause(ctx), fmt.Errorf("%w: %w", errBroken, ctx.Err())}[id(r)]
		})
		b.Timeout = 5 * time.Second
		b.add(t, "NEW", 0, 3, 0)
		b.pass(t)
		for _, ev := range b.events.of(backlog.AttemptEnded) {
			if !errors.Is(ev.Err, context.DeadlineExceeded) || id(ev.Record) == 2 && !errors.Is(ev.Err, errBroken) {
				t.Errorf("want record %d's error to be what the handler returned, got %v", id(ev.Record), ev.Err)
			}
		}
	})
}

func TestNoTimeoutByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, func(ctx context.Context, _ *backlog.Record) error {
			if _, ok := ctx.Deadline(); ok {
				t.Error("want no deadline without a Timeout")
			}
			return slowly(1000*time.Hour, succeed)(ctx, nil)
		})
		b.add(t, "NEW", 1, 1, 0)
		if rep := b.pass(t); rep.Succeeded != 1 {
			t.Errorf("want a handler that takes 1,000 hours to succeed, got %+v", rep)
		}
	})
}

func TestRecordCarriesTierAndAttemptID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(map[string]bool)
		for range 3 { // engines, as in three processes
			b := newBench(t, memory.Options{}, fail)
			b.Concurrency = 4
			b.add(t, "NEW", 1, 100, 0)
			b.pass(t)
			b.passOf(t, backlog.Pass{Tier: "7d", MaxAge: 7 * day})
			for i, c := range b.calls.all() {
				want := "1d"
				if i >= 100 {
					want = "7d"
				}
				if c.rec.Tier != want {
					t.Errorf("want call %d to carry tier %s, got %q", i, want, c.rec.Tier)
				}
				if c.rec.AttemptID == "" || seen[c.rec.AttemptID] {
					t.Errorf("want every attempt to have an id of its own, got %q again", c.rec.AttemptID)
				}
				seen[c.rec.AttemptID] = true
			}
		}
	})
}

// A handler that skips may leave its record at another place of the lane.
func TestSkippedRecordIsNotTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *bench
		b = newBench(t, memory.Options{}, slowly(time.Second, func(_ context.Context, r *backlog.Record) error {
			row := b.row(t, id(r))
			b.table.Delete(r.Key)
			row.Inserted = row.Inserted.Add(-time.Hour)
			if err := b.table.Insert(row); err != nil {
				t.Error(err)
			}
			return backlog.Skip
		}))
		b.add(t, "NEW", 1, 40, 0)
		if rep := b.pass(t); rep.Skipped != 40 || len(b.calls.all()) != 40 {
			t.Errorf("want each of 40 records skipped once, got %s in %d calls", outcomes(rep), len(b.calls.all()))
		}
	})
}
