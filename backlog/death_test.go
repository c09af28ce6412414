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
)

// errUnique is what the table of a deathBench says.
var errUnique = errors.New("UNIQUE constraint failed")

// immortal returns options of a table that refuses the dead status of the records.
func immortal(ids ...int) memory.Options {
	return memory.Options{Dead: "DEAD", Refuses: func(r memory.Row) error {
		if r.Status == "DEAD" && slices.Contains(ids, int(r.Key.Part(0).(int64))) {
			return errUnique
		}
		return nil
	}}
}

// A deathBench is a bench that notes for whom OnDead was called.
type deathBench struct {
	*bench
	told []int
}

func newDeathBench(t *testing.T, o memory.Options, do backlog.HandlerFunc) *deathBench {
	b := &deathBench{bench: newBench(t, o, do)}
	b.OnDead = backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
		b.told = append(b.told, id(r))
		return nil
	})
	return b
}

// named returns the records of the events of a kind, in order.
func (b *bench) named(kind backlog.EventKind) (list []int) {
	for _, ev := range b.events.of(kind) {
		list = append(list, id(ev.Record))
	}
	return list
}

// Where a row does not take its dead status by age, OnDead is not called for it, the others
// die, and later passes leave it alone.
func TestExpiryRefused(t *testing.T) {
	for _, at := range []int{1, 3, 5} { // the youngest, the one in the middle, and the oldest
		for _, announced := range []bool{true, false} {
			t.Run(fmt.Sprintf("record %d, announced %t", at, announced), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newDeathBench(t, immortal(at), succeed)
					b.add(t, "ERROR", 1, 5, 2*day)
					b.add(t, "NEW", 10, 2, time.Hour)
					if !announced {
						b.OnDead = nil
					}
					others := slices.DeleteFunc(numbers(1, 5), func(n int) bool { return n == at })
					p := backlog.Pass{MaxAge: day, Widest: true}
					if got, want := outcomes(b.passOf(t, p)), "2 succeeded, 1 refused, 4 expired"; got != want {
						t.Errorf("the first pass: got %s, want %s", got, want)
					}
					for range 3 {
						if got := outcomes(b.passOf(t, p)); got != "" {
							t.Errorf("another pass: got %s, want nothing", got)
						}
					}
					if got := b.named(backlog.Refused); !slices.Equal(got, []int{at}) {
						t.Errorf("refused are %v, want %d alone, once", got, at)
					}
					if got := b.named(backlog.Died); !slices.Equal(got, others) {
						t.Errorf("the log says that %v have died, want %v", got, others)
					}
					if announced && !slices.Equal(b.told, others) {
						t.Errorf("OnDead was called for %v, want %v", b.told, others)
					}
					ev := b.events.of(backlog.Refused)[0]
					if ev.Err != errUnique || ev.Record.Reason != backlog.ReasonExpired {
						t.Errorf("got the reasons %v and %q", ev.Err, ev.Record.Reason)
					}
				})
			})
		}
	}
}

// Rows of which every one refuses to die end no pass: the others are handled.
func TestExpiryRefusedOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newDeathBench(t, immortal(numbers(1, 1200)...), succeed)
		b.add(t, "ERROR", 1, 1200, 2*day)
		b.add(t, "NEW", 2001, 2, time.Hour)
		p := backlog.Pass{MaxAge: day, Widest: true}
		if got, want := outcomes(b.passOf(t, p)), "2 succeeded, 1200 refused"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := outcomes(b.passOf(t, p)); got != "" || len(b.told) > 0 {
			t.Errorf("another pass: got %s, and OnDead was called %d times", got, len(b.told))
		}
	})
}

// A handler's rejection, and a failure that is the last, that the row does not take: OnDead is
// not called, and the record is refused as with any outcome.
func TestDeathRefused(t *testing.T) {
	for _, x := range []struct {
		name string
		err  error
	}{
		{"rejected", backlog.Reject(errBroken)}, {"out of retries", errBroken},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := immortal(2)
				o.Policy = &backlog.Policy{Wait: func(int) (least, most time.Duration) { return time.Minute, time.Minute }}
				b := newDeathBench(t, o, func(context.Context, *backlog.Record) error { return x.err })
				b.Policy = o.Policy
				b.add(t, "NEW", 1, 3, time.Hour)
				for range 3 {
					b.pass(t)
				}
				if want := []int{1, 3}; !slices.Equal(b.told, want) || !slices.Equal(b.named(backlog.Died), want) {
					t.Errorf("OnDead was called for %v, and the log says that %v have died; want %v", b.told, b.named(backlog.Died), want)
				}
				if got := b.named(backlog.Refused); !slices.Equal(got, []int{2}) || len(b.calls.of(2)) != 1 {
					t.Errorf("refused are %v, handled %d times; want record 2, once", got, len(b.calls.of(2)))
				}
			})
		})
	}
}

// OnDead is called once, though the death cannot be written until the store is back, and
// though a trial has taken what the row refuses in the end.
func TestOnDeadOnce(t *testing.T) {
	for _, x := range []struct {
		name string
		why  error
	}{
		{"away", errAway}, {"refused after its trial", errUnique},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				deaths := 0
				o := memory.Options{Dead: "DEAD", Refuses: func(r memory.Row) error {
					if deaths++; r.Status == "DEAD" && deaths == 2 { // the first is the trial
						return x.why
					}
					return nil
				}}
				b := newDeathBench(t, o, succeed)
				b.add(t, "ERROR", 1, 1, 2*day)
				b.Store = unavailable{b.table}
				for range 3 {
					b.passOf(t, backlog.Pass{MaxAge: day, Widest: true})
				}
				if len(b.told) != 1 {
					t.Errorf("OnDead was called %d times, want once", len(b.told))
				}
				if dead := b.status(t, 1) == "DEAD"; dead != (x.why == errAway) {
					t.Errorf("the record's status is %s", b.status(t, 1))
				}
			})
		})
	}
}

// unavailable returns errAway where a row is refused with that.
type unavailable struct{ *memory.Store }

func (s unavailable) Expire(ctx context.Context, x backlog.Expiry) (int, error) {
	var away error
	refused := x.Refused
	x.Refused = func(r *backlog.Record, why error) {
		if errors.Is(why, errAway) {
			away = why
			return
		}
		refused(r, why)
	}
	n, err := s.Store.Expire(ctx, x)
	if away != nil {
		err = away
	}
	return n, err
}

// A record that dies again, after it was put back, is announced again.
func TestOnDeadForEachDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newDeathBench(t, memory.Options{Dead: "DEAD"}, func(context.Context, *backlog.Record) error { return backlog.Reject(errBroken) })
		b.add(t, "NEW", 1, 1, time.Hour)
		for range 3 {
			b.pass(t)
			b.table.Update(key(1), func(r *memory.Row) { r.Status = "NEW" })
		}
		if len(b.told) != 3 {
			t.Errorf("OnDead was called %d times, want 3", len(b.told))
		}
		if got := strings.Count(fmt.Sprint(b.named(backlog.Died)), "1"); got != 3 {
			t.Errorf("the log says that the record died %d times, want 3", got)
		}
	})
}

// refusedRefresh is a bench of the refresh policy whose table does not take what is said of the
// second row.
func refusedRefresh(t *testing.T, is func(backlog.Memory) bool, do backlog.HandlerFunc) *deathBench {
	b := &deathBench{bench: newRefreshBench(t, 3, do)}
	b.table = memory.New(memory.Options{Policy: b.Policy, Refuses: func(r memory.Row) error {
		if r.Key.Compare(key(2)) == 0 && is(r.Memory) {
			return errUnique
		}
		return nil
	}})
	b.Store = b.table
	for n := range 3 {
		if err := b.table.Insert(memory.Row{Key: key(n + 1), Status: "NEW", Memory: backlog.Memory{Next: time.Now()}}); err != nil {
			t.Fatal(err)
		}
	}
	b.OnDead = backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
		b.told = append(b.told, id(r))
		return nil
	})
	return b
}

// The refresh policy writes starts, ends, and the failures of attempts without an answer: the
// row that is refused one of them is named once, and the others go on.
func TestRefreshRefused(t *testing.T) {
	for _, x := range []struct {
		name  string
		is    func(backlog.Memory) bool
		do    backlog.HandlerFunc
		calls int // for the second row
		told  []int
	}{
		{"start", func(s backlog.Memory) bool { return s.UID != "" }, succeed, 0, nil},
		{"success", func(s backlog.Memory) bool { return s.UID == "" }, succeed, 1, nil},
		{"death", func(s backlog.Memory) bool { return s.Disabled }, func(context.Context, *backlog.Record) error { return backlog.Reject(errBroken) }, 1, []int{1, 3}},
		{"overdue", func(s backlog.Memory) bool { return s.UID == "" }, func(context.Context, *backlog.Record) error { return backlog.Accepted }, 1, []int{1, 3}},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := refusedRefresh(t, x.is, x.do)
				counted := 0
				for range 6 {
					counted += b.pass(t).Refused
					time.Sleep(time.Minute)
				}
				if got := b.named(backlog.Refused); !slices.Equal(got, []int{2}) || counted != 1 {
					t.Errorf("refused are %v, counted %d times; want record 2, once", got, counted)
				}
				if n := len(b.calls.of(2)); n != x.calls {
					t.Errorf("record 2 was handled %d times, want %d", n, x.calls)
				}
				slices.Sort(b.told)
				if !slices.Equal(b.told, x.told) {
					t.Errorf("OnDead was called for %v, want %v", b.told, x.told)
				}
				if n := len(b.calls.of(1)); n == 0 {
					t.Error("record 1 was not handled")
				}
			})
		})
	}
}

// What is said of an attempt from outside, and the row refuses, is an error of that answer
// alone; OnDead is not called for it.
func TestResolveRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := refusedRefresh(t, func(s backlog.Memory) bool { return s.UID == "" }, func(context.Context, *backlog.Record) error { return backlog.Accepted })
		b.pass(t)
		var answers []backlog.Answer
		for n := range 3 {
			answers = append(answers, backlog.Answer{UID: b.refreshOf(t, n+1).UID, Outcome: backlog.Rejected, Text: "no"})
		}
		reasons, err := b.Resolve(t.Context(), answers)
		if err != nil || reasons[0] != nil || !errors.Is(reasons[1], errUnique) || reasons[2] != nil {
			t.Errorf("got %v, %v; want the second refused alone", reasons, err)
		}
		slices.Sort(b.told) // a table has its attempts in any order
		died := slices.Sorted(slices.Values(b.named(backlog.Died)))
		if want := []int{1, 3}; !slices.Equal(b.told, want) || !slices.Equal(died, want) {
			t.Errorf("OnDead was called for %v, and the log says that %v have died; want %v", b.told, died, want)
		}
		if got := b.named(backlog.Refused); !slices.Equal(got, []int{2}) {
			t.Errorf("refused are %v, want 2", got)
		}
	})
}
