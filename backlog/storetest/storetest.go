package storetest

import (
	"cmp"
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
// they return. Insert and Row may be called while the store works. It may have a method
// Rows() ([]Row, error), which reads all rows: the suite takes it where it wants them all.
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
