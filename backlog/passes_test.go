package backlog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// A record that one pass works on is passed over by another.
func TestRecordInFlightIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(time.Minute, succeed))
		b.Concurrency = 2
		b.add(t, "NEW", 1, 3, 0)
		var first sync.WaitGroup
		first.Go(func() { b.pass(t) })
		time.Sleep(time.Second) // 1 and 2 are in flight
		rep := b.passOf(t, backlog.Pass{Tier: "7d", MaxAge: 7 * day})
		first.Wait()
		if n := len(b.calls.ids()); n != 3 || b.statuses()["SUCCESS"] != 3 {
			t.Errorf("want three records done with a call each, got %d calls and %v", n, b.statuses())
		}
		if !rep.Complete || rep.Selected > 1 {
			t.Errorf("want the second pass complete without the two in flight, got %+v", rep)
		}
	})
}

// A page that was read before another pass settled a record says what is no
// longer true. It is held back here until that has happened.
func TestPageReadBeforeASettlementIsTooOld(t *testing.T) {
	for _, c := range []struct {
		name string
		o    memory.Options
		do   []backlog.HandlerFunc // of the first, second and third attempt
		// Calls in all: those of the passes before the page is let go, and
		// those that pages read afterwards ask for.
		calls int
	}{
		{"succeeded", memory.Options{}, []backlog.HandlerFunc{succeed}, 1},
		{"failed, and tried again from a newer page", memory.Options{}, []backlog.HandlerFunc{fail, fail}, 2},
		{"failed and kept its status", memory.Options{ErrorKeep: true}, []backlog.HandlerFunc{fail}, 1},
		{"failed, then skipped by a third pass, and tried again from a newer page", memory.Options{}, []backlog.HandlerFunc{fail,
			func(context.Context, *backlog.Record) error { return backlog.Skip }, succeed}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n atomic.Int64
				b := newBench(t, c.o, func(ctx context.Context, r *backlog.Record) error {
					return c.do[n.Add(1)-1](ctx, r)
				})
				h := b.hook()
				let := make(chan struct{})
				var held atomic.Bool
				h.pending = func(ctx context.Context, q backlog.Query) (backlog.Page, error) {
					page, err := h.Store.Pending(ctx, q)
					if held.CompareAndSwap(false, true) {
						<-let
					}
					return page, err
				}
				b.add(t, "NEW", 1, 1, 0)
				var late backlog.Report
				var pass sync.WaitGroup
				pass.Go(func() { late = b.passOf(t, backlog.Pass{Tier: "late", MaxAge: day}) })
				synctest.Wait() // the page is read
				for range max(1, len(c.do)-1) {
					b.pass(t)
				}
				close(let)
				pass.Wait()

				calls := b.calls.all()
				if len(calls) != c.calls {
					t.Errorf("want %d handler calls in all, got %d", c.calls, len(calls))
				}
				for _, call := range calls {
					if call.rec.Tier == "late" && call.rec.Lane == backlog.Fresh {
						t.Errorf("want the record not handed out as it was before it was settled, got %+v", call.rec)
					}
				}
				if late.Conflicts > 0 {
					t.Errorf("want no outcome lost to a conflict, got %s", outcomes(late))
				}
			})
		})
	}
}

// The narrow pass's records wait for their turn among the wide one's, not for
// the wide pass.
func TestWidePassDelaysNarrowOneByAHandlersTime(t *testing.T) {
	for _, concurrency := range []int{1, 4} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const takes = 10 * time.Second
				b := newBench(t, memory.Options{}, slowly(takes, succeed))
				b.Concurrency = concurrency
				b.add(t, "ERROR", 1, 1000, 3*day)
				var wide sync.WaitGroup
				wide.Go(func() { b.passOf(t, backlog.Pass{Tier: "7d", MaxAge: 7 * day}) })
				time.Sleep(35 * time.Second)
				b.add(t, "NEW", 2001, 20, 0)
				began := time.Now()
				b.pass(t)
				last := began
				for id := 2001; id <= 2020; id++ {
					at := b.calls.of(id)[0].at
					if waited := at.Sub(last); waited > 2*takes || id == 2001 && waited > takes {
						t.Errorf("want record %d handed out within a handler's time of the one before, got %v", id, waited)
					}
					last = at
				}
				if took := last.Sub(began); took > 20*2*takes/time.Duration(concurrency) {
					t.Errorf("want the narrow pass to have half of the hands, got 20 records in %v", took)
				}
				wide.Wait()
			})
		})
	}
}

// The same where a rate is what holds calls back, however many hands wait for
// it.
func TestWidePassDelaysNarrowOneByATurnOfTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, succeed)
		b.Concurrency, b.Rate = 50, 1
		b.add(t, "ERROR", 1, 300, 3*day)
		var wide sync.WaitGroup
		wide.Go(func() { b.passOf(t, backlog.Pass{Tier: "7d", MaxAge: 7 * day}) })
		time.Sleep(100 * time.Second)
		b.add(t, "NEW", 2001, 5, 0)
		last := time.Now()
		b.pass(t)
		for _, call := range b.calls.all() {
			if call.id < 2001 {
				continue
			}
			if waited := call.at.Sub(last); waited > 3*time.Second {
				t.Errorf("want record %d handed out when another record has had its turn, two seconds after the one before, got %v", call.id, waited)
			}
			last = call.at
		}
		wide.Wait()
	})
}

// Limits are the engine's: two passes share them.
func TestPassesShareTheConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, memory.Options{}, slowly(time.Second, succeed))
		b.Concurrency = 5
		b.add(t, "NEW", 1, 100, 0)
		b.add(t, "NEW", 1001, 100, 3*day)
		start := time.Now()
		var both sync.WaitGroup
		both.Go(func() { b.pass(t) })
		both.Go(func() { b.passOf(t, backlog.Pass{Tier: "7d", MaxAge: 7 * day}) })
		both.Wait()
		for _, call := range b.calls.all() {
			if call.handed+1 > 5 {
				t.Fatalf("want at most five handlers at a time over both passes, got %d", call.handed+1)
			}
		}
		if took := time.Since(start); took != 40*time.Second {
			t.Errorf("want all hands busy, 200 records in 40s, got %v", took)
		}
	})
}

// Four passes at once, again and again until nothing is pending, over records
// of which many fail at first. The journal sees to it that no record is in two
// hands.
func TestPassesAtOnce(t *testing.T) {
	t.Parallel()
	const records, passes = 5000, 4
	for _, o := range []memory.Options{{Dead: "DEAD"}, {Dead: "DEAD", ErrorKeep: true}} {
		t.Run(fmt.Sprintf("keep=%t", o.ErrorKeep), func(t *testing.T) {
			var mu sync.Mutex
			attempts := make(map[int]int)  // by record
			inPass := make(map[[2]int]int) // by record and pass
			finished := make(map[int]int)  // successes and rejections by record
			seed := uint64(time.Now().Unix())
			t.Logf("seed %d", seed)
			b := newBench(t, o, func(_ context.Context, r *backlog.Record) error {
				mu.Lock()
				defer mu.Unlock()
				n := id(r)
				attempts[n]++
				dice := rand.New(rand.NewPCG(seed, uint64(n<<8+attempts[n]))).IntN(10)
				if dice == 0 {
					return backlog.Skip // no attempt
				}
				var pass int
				fmt.Sscan(r.Tier, &pass)
				inPass[[2]int{n, pass}]++
				switch {
				case dice == 1:
					panic("boom")
				case dice < 5:
					return errBroken
				case dice == 5:
					finished[n]++
					return backlog.Reject(errBroken)
				}
				finished[n]++
				return nil
			})
			b.Concurrency = 32
			b.add(t, "NEW", 1, records/2, 0)
			if !o.ErrorKeep {
				b.add(t, "ERROR", records/2+1, records/2, 0)
			} else {
				b.add(t, "NEW", records/2+1, records/2, 0)
			}
			var number atomic.Int64
			var all sync.WaitGroup
			for range passes {
				all.Go(func() {
					for range 40 {
						if s := b.statuses(); s["NEW"]+s["ERROR"] == 0 {
							return
						}
						rep := b.passOf(t, backlog.Pass{Tier: fmt.Sprint(number.Add(1)), MaxAge: day})
						if rep.Conflicts+rep.Refused+rep.Unwritten > 0 {
							t.Errorf("want no outcome lost, got %s", outcomes(rep))
						}
					}
				})
			}
			all.Wait()
			if got := b.statuses(); got["SUCCESS"]+got["DEAD"] != records {
				t.Errorf("want all %d records settled in the end, got %v", records, got)
			}
			for at, n := range inPass {
				if n > 1 {
					t.Errorf("want record %d tried at most once by pass %d, got %d attempts", at[0], at[1], n)
				}
			}
			for n, times := range finished {
				if times > 1 {
					t.Errorf("want record %d not handed out again after it was done, it was done %d times", n, times)
				}
			}
		})
	}
}

// Observers keep many reports, so a report holds nothing that grows with its pass.
func TestReportDoesNotGrow(t *testing.T) {
	typ := reflect.TypeFor[backlog.Report]()
	for i := range typ.NumField() {
		field := typ.Field(i)
		switch field.Type.Kind() {
		case reflect.Map, reflect.Slice, reflect.Pointer, reflect.Interface, reflect.Func, reflect.Chan:
			t.Errorf("%s is a %v", field.Name, field.Type)
		}
	}
}
