package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// A Table describes the table that a case needs. The zero Table has an integer
// key, one status each for fresh, failed and success, a column for the time of
// insertion, and the columns amount, note and payload in [Row].Columns.
type Table struct {
	Keys      Keys
	NoDate    string // what a row without a time of insertion counts as: skip, oldest or newest; Run fills in skip
	TwoFresh  bool   // the AlsoFresh status means fresh too
	Dead      bool   // the Dead status is configured
	ErrorKeep bool   // an error leaves the status; there is no Failed one
	Times     bool   // the times of eligibility and expiry are mapped; the former keeps snoozes
	Notes     bool   // the number of attempts and the last error are mapped

	// Policy decides which failed records are due; nil: all are. With a policy
	// the columns of Row.Memory for failures are mapped, Next and InRetry only
	// if it is a planned one. With ErrorKeep, a Fresh row whose count of
	// failures is above 0 has failed.
	Policy *backlog.Policy

	// Refuses says that the table refuses the statuses Success and Dead of rows whose note
	// is Stuck, like a CHECK constraint.
	Refuses bool

	// Refresh maps the columns of the refresh policy, and the store is a
	// backlog.Beginner. The statuses of rows do not matter to it.
	Refresh bool

	// NoUID and NoDeadline say that the columns of UIDs and of deadlines are missing. Memory
	// always has both.
	NoUID, NoDeadline bool
}

// Options returns the options of such a table in memory.
func (t Table) Options() memory.Options {
	o := memory.Options{ErrorKeep: t.ErrorKeep, NullDate: t.NoDate, Policy: t.Policy, Eligible: t.Times}
	if t.Refresh {
		o.Policy = &backlog.Policy{Refresher: struct{ backlog.Refresher }{}} // the suite plans the starts
	}
	if t.TwoFresh {
		o.New = []string{Fresh, AlsoFresh}
	}
	if t.Dead {
		o.Dead = Dead
	}
	if t.Refuses {
		o.Refuses = refuseStuck
	}
	return o
}

// Stuck is the note of rows that a table with Refuses refuses.
const Stuck = "stuck"

func refuseStuck(r Row) error {
	if r.Columns["note"] == Stuck && (r.Status == Success || r.Status == Dead) {
		return errors.New("CHECK constraint failed")
	}
	return nil
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

// The values of the status column.
const (
	Fresh     = "NEW"
	AlsoFresh = "REQUEUED" // also means fresh; only with Table.TwoFresh
	Failed    = "ERROR"    // not with Table.ErrorKeep
	Success   = "SUCCESS"
	Dead      = "DEAD"    // only with Table.Dead
	Other     = "ON HOLD" // not in the configuration
	Null      = ""        // NULL
)

// A Row is a row of the table as the suite writes and reads it. A zero field is NULL if its
// column allows that. Columns has amount (int64 or nil), note (string or nil) and payload
// ([]byte or nil).
type Row = memory.Row

// A Harness is one table, which is empty at first, the store under test on it, and
// direct access to its rows. Its methods take effect before they return. Insert
// and Row may be called while the store works.
type Harness interface {
	// Store returns the store, always the same one. The suite calls it only
	// after the case has inserted its first rows, because a store may learn the
	// form of a column from them.
	Store() backlog.Store

	// Open opens the table a second time, as another process would.
	Open() (backlog.Store, error)

	// Precision returns the least step between two times in the columns. A
	// second is a multiple of it.
	Precision() time.Duration

	// Insert adds rows.
	Insert(rows ...Row) error

	// Row reads a row, with times in UTC, and reports whether it exists.
	Row(key backlog.Key) (row Row, ok bool, err error)

	// Rows reads all rows.
	Rows() ([]Row, error)

	// Update writes the status, the columns and the Memory of a row, as another program
	// would.
	Update(row Row) error

	// Delete removes the rows, if they exist.
	Delete(keys ...backlog.Key) error
}

// An Operator is a Harness that can do what `backlog retry` and `backlog discard` do. For any
// other Harness the suite writes what these commands are documented to write.
type Operator interface {
	Harness
	// Retry puts the row back to new, at the time now.
	Retry(key backlog.Key, now time.Time) error
	// Discard gives the pending row the dead status, at the time now.
	Discard(key backlog.Key, now time.Time) error
}

// Run runs the suite. open makes a harness for an empty table of the wanted
// kind, or skips the test if the store cannot have one.
func Run(t *testing.T, open func(t *testing.T, want Table) Harness) {
	walks := 40
	if testing.Short() {
		walks = 10
	}
	run(t, allCases(), walks, open)
}

// RunWhole is Run for a store that always has every column of a policy. It leaves out the cases of
// tables that lack one.
func RunWhole(t *testing.T, open func(t *testing.T, want Table) Harness) {
	lacks := func(c testCase) bool { return c.table.NoUID || c.table.NoDeadline }
	run(t, slices.DeleteFunc(allCases(), lacks), 40, open)
}

// RunTimes runs the cases in which it matters how columns write times, for a
// store that has several forms.
func RunTimes(t *testing.T, open func(t *testing.T, want Table) Harness) {
	run(t, slices.DeleteFunc(allCases(), func(c testCase) bool { return !c.times }), 10, open)
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
	times bool // it matters how columns write times
}

// The policies of the suite. Each number of failures has another wait.
var (
	counted        = policy(3, false, time.Minute, 10*time.Minute, 3*time.Minute) // not in the order of the numbers
	countedEndless = policy(-1, false, 0, time.Minute, 2*time.Minute, 5*time.Minute)
	planned        = policy(3, true, time.Minute, 2*time.Minute, 4*time.Minute)
	plannedEndless = policy(-1, true, time.Minute, time.Hour)
)

// policy returns a policy with these waits. The last applies to every later
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

// A policyTable is a kind of table with a policy that counts failures.
type policyTable struct {
	name  string
	table Table
	few   bool // only a few cases differ from those of the other tables
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

// refreshTable is a table of the refresh policy.
var refreshTable = Table{Refresh: true, Dead: true, Notes: true}

var noDates = []string{"skip", "oldest", "newest"}

// allCases are the cases of the suite.
func allCases() (list []testCase) {
	add := func(times bool, cases ...testCase) {
		for _, c := range cases {
			c.times = times
			list = append(list, c)
		}
	}
	add(true,
		testCase{name: "Cursor", run: testCursor},
		testCase{name: "SettleWithDead", table: Table{NoDate: "oldest", Dead: true, Times: true, Notes: true}, run: testSettle},
		testCase{name: "Expire", table: Table{TwoFresh: true, Dead: true, Notes: true, Times: true}, run: testExpire},
		testCase{name: "Snooze", table: Table{Dead: true, Times: true, Notes: true}, run: testSnooze},
		testCase{name: "RefreshPending", table: refreshTable, run: testRefreshPending},
		testCase{name: "RefreshAttempts", table: refreshTable, run: attemptsOf(attempts)},
		testCase{name: "RefreshOverdue", table: refreshTable, run: testOverdue},
	)
	add(false, promiseCases()...)
	add(false,
		testCase{name: "Cancelled", table: Table{Dead: true, Notes: true}, run: testCancelled},
		testCase{name: "SettleWithoutDead", run: testSettle},
		testCase{name: "SettleErrorKeep", table: Table{ErrorKeep: true, Notes: true}, run: testSettle},
		testCase{name: "SettleErrorKeepWithDead", table: Table{NoDate: "newest", ErrorKeep: true, Dead: true}, run: testSettle},
		testCase{name: "Guard", table: Table{Dead: true}, run: testGuard},
		testCase{name: "GuardWithNotes", table: Table{TwoFresh: true, Dead: true, Notes: true}, run: testGuard},
		testCase{name: "Twice", table: Table{Dead: true, Notes: true}, run: testTwice},
		testCase{name: "TwiceErrorKeep", table: Table{ErrorKeep: true, Notes: true}, run: testTwice},
		testCase{name: "Errors", table: Table{Notes: true}, run: testErrors},
		testCase{name: "Concurrency", table: Table{Notes: true}, run: testConcurrency},
		testCase{name: "ExpireWithoutDead", run: testExpire},
		testCase{name: "ExpireStopped", table: Table{Dead: true}, run: testExpireStopped},
		testCase{name: "Refused", table: Table{Dead: true, Notes: true, Refuses: true}, run: testRefused},
		testCase{name: "Lock", run: testLock},
		testCase{name: "RefreshBeginTwice", table: refreshTable, run: testBeginTwice},
		testCase{name: fmt.Sprintf("RefreshGroupOf%d", backlog.MaxGroup), table: refreshTable, run: attemptsOf(slices.Repeat([]attempt{failure}, backlog.MaxGroup))},
	)
	for _, word := range noDates {
		x := policyTable{table: Table{NoDate: word, TwoFresh: true, Dead: true, Times: true, Notes: true}}
		add(true, x.with("Walk"+word, testWalk), x.with("Random"+word, testRandom), x.with("Count"+word, testCount))
	}
	for _, k := range []Keys{IntKeys, TextKeys, BlobKeys, CompositeKeys} {
		refresh := refreshTable
		refresh.Keys = k
		add(false, testCase{name: fmt.Sprintf("%vKeys", k), table: Table{Keys: k, Notes: true}, run: testKeys},
			testCase{name: fmt.Sprintf("Refresh%vKeys", k), table: refresh, run: attemptsOf(attempts)})
	}
	groups := []int{1, 2, backlog.MaxGroup - 1, backlog.MaxGroup}
	for _, n := range groups {
		add(false, testCase{name: fmt.Sprintf("SettleGroupOf%d", n), table: Table{Dead: true, Notes: true}, run: groupOf(n)})
	}
	for i, x := range policyTables {
		add(true, x.with("Settle", testSettle), x.with("Snooze", testSnooze), x.with("SnoozeTimes", testSnooze, full))
		if x.few {
			add(true, x.with("Walk", testWalk))
			add(false, x.with("Guard", testGuard), x.with("Twice", testTwice))
			continue
		}
		add(true,
			x.with("Random", testRandom),
			x.with("SettleWithDead", testSettle, full),
			x.with("SettleGroupOf40", groupOf(40), dead),
			x.with("Expire", testExpire, full),
			x.with("Count", testCount, dead),
		)
		for j, word := range noDates {
			add(j == i%len(noDates), x.with("Walk"+word, testWalk, full, func(t *Table) { t.NoDate = word }))
		}
		add(false, x.with("NotDue", testNotDue), x.with("Guard", testGuard, full), x.with("ExpireWithoutDead", testExpire))
		for _, k := range []Keys{TextKeys, BlobKeys, CompositeKeys} {
			add(false, x.with(fmt.Sprintf("Settle%vKeys", k), groupOf(40), func(t *Table) { t.Keys = k }))
		}
		for _, n := range groups {
			add(false, x.with(fmt.Sprintf("SettleGroupOf%d", n), groupOf(n), dead))
		}
	}
	return list
}

// with returns a case on such a table, after the changes.
func (x policyTable) with(what string, run func(*fixture), change ...func(*Table)) testCase {
	c := testCase{name: x.name + what, table: x.table, run: run}
	for _, f := range change {
		f(&c.table)
	}
	return c
}

func dead(t *Table) { t.Dead = true }
func full(t *Table) { t.Dead, t.Times, t.Notes = true, true, true }

// promiseCases are the cases of the promises about rows that other programs change.
func promiseCases() []testCase {
	once := func(planned bool) *backlog.Policy { return policy(3, planned, time.Minute) }
	return []testCase{
		{name: "RefreshPromises", table: refreshTable, run: promisesOf(refreshPromises)},
		{name: "RefreshPromisesWithoutUID", table: Table{Refresh: true, Dead: true, Notes: true, NoUID: true}, run: promisesOf(noUIDPromises)},
		{name: "RefreshPromisesWithoutDeadline", table: Table{Refresh: true, Dead: true, Notes: true, NoUID: true, NoDeadline: true}, run: promisesOf(fewPromises)},
		{name: "RefreshPromisesWithUIDAlone", table: Table{Refresh: true, Dead: true, Notes: true, NoDeadline: true}, run: promisesOf(uidPromises)},
		{name: "Promises", table: Table{Dead: true, Notes: true}, run: promisesOf(plainPromises)},
		{name: "CountedPromises", table: Table{Dead: true, Notes: true, Policy: once(false)}, run: promisesOf(countedPromises)},
		{name: "PlannedPromises", table: Table{Dead: true, Notes: true, Policy: once(true)}, run: promisesOf(countedPromises)},
		{name: "CountedPromisesErrorKeep", table: Table{Dead: true, Notes: true, ErrorKeep: true, Policy: once(false)}, run: promisesOf(keptPromises)},
	}
}
