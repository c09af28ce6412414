package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// A Table is what a case needs. The zero Table has an integer key, one status
// each for fresh, failed and success, a column for the time of insertion and
// the columns amount, note and payload in [Row].Columns.
type Table struct {
	Keys      Keys
	NoDate    string // what a row without a time of insertion counts as: skip, oldest or newest; Run fills in skip
	TwoFresh  bool   // the AlsoFresh status means fresh too
	Dead      bool   // the Dead status is configured
	ErrorKeep bool   // an error leaves the status; there is no Failed one
	Times     bool   // the times of eligibility and expiry are mapped
	Notes     bool   // the number of attempts and the last error are mapped

	// Policy decides which failed records are due; nil: all are, and no
	// columns are mapped for one. The columns of Row.Failures are, but for Next
	// and InRetry only if it is planned. With ErrorKeep, a Fresh row whose
	// count is above 0 has failed.
	Policy *backlog.Policy

	// Refresh maps the columns of the refresh policy, and the store is a
	// backlog.Beginner. The suite sets the statuses, which show what is so.
	Refresh bool
}

// Options returns the options of such a table in memory.
func (t Table) Options() memory.Options {
	o := memory.Options{ErrorKeep: t.ErrorKeep, NullDate: t.NoDate, Policy: t.Policy}
	if t.Refresh {
		o.Policy = &backlog.Policy{Refresher: struct{ backlog.Refresher }{}} // the suite plans the starts
	}
	if t.TwoFresh {
		o.New = []string{Fresh, AlsoFresh}
	}
	if t.Dead {
		o.Dead = Dead
	}
	return o
}

// Keys are the kinds of a table's key.
type Keys int

const (
	IntKeys       Keys = iota // int64
	TextKeys                  // string
	BlobKeys                  // []byte
	CompositeKeys             // string, int64
)

// String returns "Int", "Text", "Blob" or "Composite".
func (k Keys) String() string { return [...]string{"Int", "Text", "Blob", "Composite"}[k] }

// What a row may have in its status column.
const (
	Fresh     = "NEW"
	AlsoFresh = "REQUEUED" // means fresh, too; only with Table.TwoFresh
	Failed    = "ERROR"    // not with Table.ErrorKeep
	Success   = "SUCCESS"
	Dead      = "DEAD"    // only with Table.Dead
	Other     = "ON HOLD" // which the configuration does not name
	Null      = ""        // NULL
)

// A Row is a row of the table as the suite writes and reads it. What is zero is NULL
// where the column allows it. Its columns are amount (int64 or nil), note (string or
// nil) and payload ([]byte or nil).
type Row = memory.Row

// A Harness is one table, empty at first, the store under test on it, and
// access to its rows behind the store's back. Its methods take effect before
// they return. Insert and Row may be called while the store works.
type Harness interface {
	// Store returns the store, always the same one. The suite first asks for
	// it when the first rows are in, if the case has any, for stores that
	// learn from them what form a column has.
	Store() backlog.Store

	// Open opens the table a second time, as another process would.
	Open() (backlog.Store, error)

	// Precision returns the step between two times that the columns can
	// tell apart. It divides a second.
	Precision() time.Duration

	// Insert adds rows.
	Insert(rows ...Row) error

	// Row reads a row, with times in UTC, and reports whether it exists.
	Row(key backlog.Key) (row Row, ok bool, err error)

	// Rows reads all of them.
	Rows() ([]Row, error)

	// Update gives a row its status and its Refresh, as another program would.
	Update(row Row) error

	// Delete removes the rows, if they exist.
	Delete(keys ...backlog.Key) error
}

// Run runs the suite. open makes a harness for an empty table of the wanted
// kind, and skips the test if there can be none.
func Run(t *testing.T, open func(t *testing.T, want Table) Harness) {
	walks := 40
	if testing.Short() {
		walks = 10
	}
	run(t, append(timeCases(), otherCases()...), walks, open)
}

// RunTimes runs the part of the suite in which it matters how columns write
// times, for a store that has several forms.
func RunTimes(t *testing.T, open func(t *testing.T, want Table) Harness) {
	run(t, timeCases(), 10, open)
}

func run(t *testing.T, cases []testCase, walks int, open func(t *testing.T, want Table) Harness) {
	for _, c := range cases {
		c.table.NoDate = cmp.Or(c.table.NoDate, "skip")
		t.Run(c.name, func(t *testing.T) {
			c.run(&fixture{T: t, h: open(t, c.table), table: c.table, memory: memory.New(c.table.Options()), walks: walks})
		})
	}
}

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
		{"Cancelled", Table{Dead: true, Notes: true}, testCancelled},
		{"SettleWithoutDead", Table{}, testSettle},
		{"SettleErrorKeep", Table{ErrorKeep: true, Notes: true}, testSettle},
		{"SettleErrorKeepWithDead", Table{NoDate: "newest", ErrorKeep: true, Dead: true}, testSettle},
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
		if x.few {
			list = append(list, x.with("Guard", testGuard))
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
