package storetest

import (
	"fmt"
	"slices"
	"time"

	"backlog/backlog"
)

// A testCase is one subtest, run on an empty table.
type testCase struct {
	name  string
	table Table
	run   func(f *fixture)
}

// The policies of the suite. Their waits tell the numbers of failures apart.
var (
	counted        = policy(3, false, time.Minute, 10*time.Minute, 3*time.Minute) // not in the order of the numbers
	countedEndless = policy(-1, false, 0, time.Minute, 2*time.Minute, 5*time.Minute)
	planned        = policy(3, true, time.Minute, 2*time.Minute, 4*time.Minute)
	plannedEndless = policy(-1, true, time.Minute, time.Hour)
)

// policy returns a policy with these waits; the last applies to every later
// failure.
func policy(retries int, planned bool, waits ...time.Duration) *backlog.Policy {
	return &backlog.Policy{
		Name: "of the suite", Retries: retries, Planned: planned,
		Wait: func(n int) (least, most time.Duration) {
			w := waits[min(n, len(waits))-1]
			return w, w
		},
	}
}

// A policyTable is a kind of table whose failed records a policy holds back.
type policyTable struct {
	name  string
	table Table
	few   bool // cases show what others do not
}

var policyTables = []policyTable{
	{"Counted", Table{Policy: counted}, false},
	{"CountedEndless", Table{Policy: countedEndless}, true},
	{"CountedErrorKeep", Table{Policy: counted, ErrorKeep: true}, true},
	{"CountedEndlessErrorKeep", Table{Policy: countedEndless, ErrorKeep: true, TwoFresh: true}, false},
	{"Planned", Table{Policy: planned}, false},
	{"PlannedErrorKeep", Table{Policy: planned, ErrorKeep: true}, true},
	{"PlannedEndless", Table{Policy: plannedEndless}, true},
}

// refreshTable is one of the refresh policy.
var refreshTable = Table{Refresh: true, Dead: true, Notes: true}

var noDates = []string{"skip", "oldest", "newest"}

// timeCases are the cases in which it matters how columns write times.
func timeCases() []testCase {
	list := []testCase{
		{"Cursor", Table{}, testCursor},
		{"SettleWithDead", Table{NoDate: "oldest", Dead: true, Times: true, Notes: true}, testSettle},
		{"Expire", Table{TwoFresh: true, Dead: true, Notes: true, Times: true}, testExpire},
		{"RefreshPending", refreshTable, testRefreshPending},
		{"RefreshAttempts", refreshTable, attemptsOf(attempts)},
		{"RefreshOverdue", refreshTable, testOverdue},
	}
	for _, word := range noDates {
		t := Table{NoDate: word, TwoFresh: true, Dead: true, Times: true, Notes: true}
		list = append(list, testCase{"Walk" + word, t, testWalk}, testCase{"Random" + word, t, testRandom},
			testCase{"Count" + word, t, testCount})
	}
	for i, x := range policyTables {
		list = append(list, x.with("Settle", testSettle))
		if x.few {
			list = append(list, x.with("Walk", testWalk))
			continue
		}
		list = append(list,
			x.walk(noDates[i%len(noDates)]),
			x.with("Random", testRandom),
			x.with("SettleWithDead", testSettle, full),
			x.with("SettleGroupOf40", groupOf(40), dead),
			x.with("Expire", testExpire, full),
			x.with("Count", testCount, dead),
		)
	}
	return list
}

// otherCases are the cases in which it does not.
func otherCases() []testCase {
	list := []testCase{
		{"CursorOfGoneRecord", Table{}, testCursorOfGoneRecord},
		{"NewRowsDuringWalk", Table{}, testNewRowsDuringWalk},
		{"Cancelled", Table{Dead: true, Notes: true}, testCancelled},
		{"SettleWithoutDead", Table{}, testSettle},
		{"SettleErrorKeep", Table{ErrorKeep: true, Notes: true}, testSettle},
		{"SettleErrorKeepWithDead", Table{NoDate: "newest", ErrorKeep: true, Dead: true}, testSettle},
		{"SettleTwice", Table{}, testSettleTwice},
		{"Guard", Table{Dead: true}, testGuard},
		{"GuardWithNotes", Table{TwoFresh: true, Dead: true, Notes: true}, testGuard},
		{"Errors", Table{Notes: true}, testErrors},
		{"Concurrency", Table{Notes: true}, testConcurrency},
		{"ExpireWithoutDead", Table{}, testExpire},
		{"ExpireStopped", Table{Dead: true}, testExpireStopped},
		{"Lock", Table{}, testLock},
		{"RefreshBeginTwice", refreshTable, testBeginTwice},
		{fmt.Sprintf("RefreshGroupOf%d", backlog.MaxGroup), refreshTable, attemptsOf(slices.Repeat([]attempt{failure}, backlog.MaxGroup))},
	}
	for _, k := range []Keys{IntKeys, TextKeys, BlobKeys, CompositeKeys} {
		refresh := refreshTable
		refresh.Keys = k
		list = append(list, testCase{fmt.Sprintf("%vKeys", k), Table{Keys: k, Notes: true}, testKeys},
			testCase{fmt.Sprintf("Refresh%vKeys", k), refresh, attemptsOf(attempts)})
	}
	groups := []int{1, 2, backlog.MaxGroup - 1, backlog.MaxGroup}
	for _, n := range groups {
		list = append(list, testCase{fmt.Sprintf("SettleGroupOf%d", n), Table{Dead: true, Notes: true}, groupOf(n)})
	}
	for i, x := range policyTables {
		list = append(list, x.with("SettleTwice", testSettleTwice), x.with("SettleLate", testSettleLate))
		if x.few {
			continue
		}
		for j, word := range noDates {
			if j != i%len(noDates) {
				list = append(list, x.walk(word))
			}
		}
		list = append(list, x.with("NotDue", testNotDue), x.with("Guard", testGuard, full), x.with("ExpireWithoutDead", testExpire))
		for _, k := range []Keys{TextKeys, BlobKeys, CompositeKeys} {
			list = append(list, x.with(fmt.Sprintf("Settle%vKeys", k), groupOf(40), func(t *Table) { t.Keys = k }))
		}
		for _, n := range groups {
			list = append(list, x.with(fmt.Sprintf("SettleGroupOf%d", n), groupOf(n), dead))
		}
	}
	return list
}

// walk returns the walk on such a table where rows without a date count as that.
func (x policyTable) walk(word string) testCase {
	return x.with("Walk"+word, testWalk, full, func(t *Table) { t.NoDate = word })
}

// with returns a case on such a table, or one that is changed.
func (x policyTable) with(what string, run func(*fixture), change ...func(*Table)) testCase {
	c := testCase{x.name + what, x.table, run}
	for _, f := range change {
		f(&c.table)
	}
	return c
}

func dead(t *Table) { t.Dead = true }
func full(t *Table) { t.Dead, t.Times, t.Notes = true, true, true }
