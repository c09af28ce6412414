package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"backlog/backlog"
)

// The policies of the suite. Their waits tell the numbers of failures apart.
var (
	counted        = policy(3, false, time.Minute, 10*time.Minute, 3*time.Minute) // not in the order of the numbers
	countedEndless = policy(-1, false, 0, time.Minute, 2*time.Minute, 5*time.Minute)
	planned        = policy(3, true, time.Minute, 2*time.Minute, 4*time.Minute)
	plannedEndless = policy(-1, true, time.Minute, time.Hour)
)

// policy returns one with these waits, the last of which is that of more
// failures.
func policy(retries int, planned bool, waits ...time.Duration) *backlog.Policy {
	return &backlog.Policy{
		Name: "of the suite", Retries: retries, Planned: planned,
		Wait: func(n int) (least, most time.Duration) {
			w := waits[min(n, len(waits))-1]
			return w, w
		},
	}
}

// retryTables are the kinds of tables whose failed records a policy holds back.
var retryTables = []struct {
	name  string
	table Table
	few   bool // what the others do not show
}{
	{"Counted", Table{Policy: counted}, false},
	{"CountedEndless", Table{Policy: countedEndless}, true},
	{"CountedErrorKeep", Table{Policy: counted, ErrorKeep: true}, true},
	{"CountedEndlessErrorKeep", Table{Policy: countedEndless, ErrorKeep: true, TwoFresh: true}, false},
	{"Planned", Table{Policy: planned}, false},
	{"PlannedErrorKeep", Table{Policy: planned, ErrorKeep: true}, true},
	{"PlannedEndless", Table{Policy: plannedEndless}, true},
}

func retryCases() []testCase {
	var list []testCase
	for _, x := range retryTables {
		add := func(name string, run func(*fixture), change ...func(*Table)) {
			table := x.table
			for _, c := range change {
				c(&table)
			}
			list = append(list, testCase{x.name + name, table, run})
		}
		dead := func(t *Table) { t.Dead = true }
		full := func(t *Table) { t.Dead, t.Times, t.Notes = true, true, true }
		add("Due", testDue)
		add("GivenUp", testGivenUp, dead)
		add("Property", testProperty)
		add("Settle", testRetrySettle)
		add("SettleTwice", testRetrySettleTwice)
		add("SettleAgain", testRetrySettleAgain)
		add("FailedSince", testRetryFailedSince)
		if x.few {
			continue
		}
		add("NeverTried", testNeverTried)
		add("Order", testRetryOrder)
		add("CursorOfAnotherProcess", testRetryOfAnotherProcess)
		add("NotDue", testNotDue)
		add("Timely", testRetryTimely, func(t *Table) { t.Times = true })
		for _, word := range []NoDate{Skip, Oldest, Newest} {
			add("NoDate"+string(word), testRetryAges, func(t *Table) { t.NoDate = word })
		}
		add("SettleWithDead", testRetrySettle, full)
		add("Guard", testRetryGuard, full)
		add("Expire", testRetryExpire, full)
		add("ExpireWithoutDead", testRetryExpireWithoutDead)
		add("Count", testRetryCount, dead)
		for _, k := range []Keys{TextKeys, BlobKeys, CompositeKeys} {
			add(fmt.Sprintf("Settle%vKeys", k), func(f *fixture) { testRetryGroup(f, 40) }, func(t *Table) { t.Keys = k })
		}
		for _, n := range []int{1, 2, backlog.MaxGroup - 1, backlog.MaxGroup} {
			add(fmt.Sprintf("SettleGroupOf%d", n), func(f *fixture) { testRetryGroup(f, n) }, dead)
		}
	}
	return list
}

// failed returns a row that has failed, most lately at the given time, and is
// an hour old. Under a planned policy it is tried again when it would be under
// a counted one.
func (f *fixture) failed(n, failures int, last time.Time) Row {
	r := f.row(n, Failed, time.Hour)
	if f.table.ErrorKeep {
		r.State = Fresh
	}
	r.Retry = backlog.Retry{Count: failures, Last: last}
	if f.table.Policy.Planned && !last.IsZero() && !f.table.Policy.GivenUp(failures) {
		r.Retry.Next, r.InRetry = last.Add(f.wait(failures)), true
	}
	return r
}

// dueAt returns a row that has failed so often and is due at the time.
func (f *fixture) dueAt(n, failures int, at time.Time) Row {
	return f.failed(n, failures, at.Add(-f.wait(failures)))
}

// wait is what the policy makes a record wait after so many failures.
func (f *fixture) wait(failures int) time.Duration { return f.table.Policy.Draw(failures, 0) }

// numbers returns numbers of failures with which a record is not given up, some
// of them beyond the last that the policy tells apart.
func (f *fixture) numbers() []int {
	if r := f.table.Policy.Retries; r >= 0 {
		return []int{1, 2, 3}[:r]
	}
	return []int{1, 2, 3, 4, 5, 1000, 2_000_000}
}

// byWait returns the rows as a policy's failed lane orders them: the longest
// waiting first by (last or next, key), those with no such time before all.
func (t Table) byWait(rows []Row) []Row {
	rows = slices.Clone(rows)
	at := func(r Row) time.Time {
		if t.Policy.Planned {
			return r.Retry.Next
		}
		return r.Retry.Last
	}
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(at(a).Compare(at(b)), compareKeys(a.Key, b.Key))
	})
	return rows
}

// wantDue checks the failed lane of the rows at a time, whatever the pages.
func (f *fixture) wantDue(now time.Time, rows ...Row) {
	f.Helper()
	for _, size := range pageSizes {
		q := pages(backlog.Failed, size)
		q.Now = now
		wantRecords(f, fmt.Sprintf("failed lane at %v in pages of %d", now.Format("15:04:05.999999"), size), f.table.byWait(rows), f.walk(q))
	}
}

// wantRetry checks what a record carries of its failures.
func (f *fixture) wantRetry(got backlog.Record, want Row) {
	f.Helper()
	if !f.table.Policy.Planned {
		want.Retry.Next = got.Retry.Next
	}
	if g, w := got.Retry, want.Retry; g.Count != w.Count || !g.Last.Equal(w.Last) || !g.Next.Equal(w.Next) {
		f.Errorf("record %v: want Retry %+v, got %+v", want.Key, w, g)
	}
	lane, _ := f.table.lane(want)
	if text := f.h.Status(want.State); got.Status != text || got.Lane != lane {
		f.Errorf("record %v: want status %q in the %v lane, got %q in the %v lane", want.Key, text, lane, got.Status, got.Lane)
	}
}

// drawRetry draws what a row remembers, often at the edge of being due.
func (f *fixture) drawRetry(t *rapid.T) (r backlog.Retry) {
	r.Count = rapid.SampledFrom([]int{1, 2, 3, 0, 4, 5, 6, -1}).Draw(t, "failures")
	edge := func(wait time.Duration, what string) time.Time {
		n := rapid.SampledFrom([]int{1, 0, -1, 2, 100, -100, -4}).Draw(t, what)
		if n == -4 {
			return time.Time{}
		}
		return now.Add(-wait + time.Duration(n)*f.precision())
	}
	r.Last = edge(f.wait(r.Count), "last failure")
	if f.table.Policy.Planned {
		r.Next = edge(0, "next attempt")
	}
	return r
}
