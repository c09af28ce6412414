package storetest

import (
	"testing"
	"time"

	"backlog/backlog"
)

// A Table is what a case needs. The zero Table has an integer key, one status
// each for fresh, failed and success, a column for the time of insertion and
// the columns amount, note and payload of [Row].
type Table struct {
	Keys      Keys
	NoDate    NoDate
	TwoFresh  bool // the AlsoFresh status means fresh too
	Dead      bool // the Dead status is configured
	ErrorKeep bool // an error leaves the status; there is no Failed one
	Times     bool // the times of eligibility and expiry are mapped
	Notes     bool // the number of attempts and the last error are mapped

	// Policy decides which failed records are due; nil: all are, and no
	// columns are mapped for one. The columns of [Row.Failures] are, but for Next
	// and InRetry only if it is planned. With ErrorKeep, a Fresh row whose
	// count is above 0 has failed.
	Policy *backlog.Policy

	// Refresh maps the columns of the refresh policy, and the store is a
	// backlog.Beginner. The statuses are those of the suite and show what is so.
	Refresh bool
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

// NoDate says what a row without a time of insertion counts as.
type NoDate string

const (
	Skip   NoDate = "skip"   // never selected; the default, Run fills it in
	Oldest NoDate = "oldest" // as old as the widest tier reaches
	Newest NoDate = "newest" // as if inserted now
)

// A Status is one of the texts that a row may have in its status column.
type Status int

const (
	Fresh     Status = iota
	AlsoFresh        // another status that means fresh; only with Table.TwoFresh
	Failed           // not with Table.ErrorKeep
	Success
	Dead  // only with Table.Dead
	Other // a status that the configuration does not name
	Null  // NULL; where the status cannot be NULL, another that is not named
)

var statusNames = [...]string{"fresh", "fresh (second status)", "failed", "success", "dead", "other", "NULL"}

// String returns the status's name for messages.
func (s Status) String() string { return statusNames[s] }

// A Row is a row of the table as the suite writes and reads it.
type Row struct {
	Key      backlog.Key
	Status   Status
	Inserted time.Time // zero: none

	Eligible, Expires time.Time // zero: NULL; only with Table.Times

	// Columns that handlers are given, under the names in small letters.
	Amount  any // int64 or nil
	Note    any // string or nil
	Payload any // []byte or nil

	Attempts  int    // 0 is NULL where the column allows it; only with Table.Notes
	LastError string // empty is NULL likewise; only with Table.Notes

	Failures backlog.Failures // what is zero is NULL where the column allows it; only with Table.Policy
	InRetry  bool             // only with a planned Table.Policy

	Refresh backlog.Refresh // likewise; only with Table.Refresh
}

// A Harness is one table, empty at first, the store under test on it, and
// access to its rows behind the store's back. Its methods take effect before
// they return. Insert and Row may be called while the store works.
type Harness interface {
	// Store returns the store, always the same one. The suite first asks for
	// it when the first rows are in, if the case has any, for stores that
	// learn from them what form a column has.
	Store() backlog.Store

	// Text returns the status as in backlog.Record.Status and
	// inspect.Counts.ByStatus.
	Text(s Status) string

	// Insert adds rows.
	Insert(rows ...Row) error

	// Row reads a row with all its fields and reports whether it exists.
	// Fields that the table does not map are zero.
	Row(key backlog.Key) (row Row, ok bool, err error)

	// SetStatus gives a row another status, as another program would.
	SetStatus(key backlog.Key, s Status) error

	// Delete removes the rows, if they exist.
	Delete(keys ...backlog.Key) error
}

// A Refreshing Harness has tables with Table.Refresh.
type Refreshing interface {
	// SetRefresh gives a row another state, as another program would.
	SetRefresh(key backlog.Key, s backlog.Refresh) error
}

// A Precise Harness has times finer than a second.
type Precise interface {
	// Precision returns the step between two times that the columns can
	// tell apart. It divides a second.
	Precision() time.Duration
}

// An Opener is a Harness that can open its table a second time, as another
// process would.
type Opener interface {
	Open() (backlog.Store, error)
}

// Run runs the suite. open makes a harness for an empty table of the wanted
// kind, and skips the test if there can be none.
func Run(t *testing.T, open func(t *testing.T, want Table) Harness) {
	run(t, append(timeCases(), otherCases()...), open)
}

// RunTimes runs the part of the suite in which it matters how columns write
// times, for a store that has several forms.
func RunTimes(t *testing.T, open func(t *testing.T, want Table) Harness) {
	run(t, timeCases(), open)
}

func run(t *testing.T, cases []testCase, open func(t *testing.T, want Table) Harness) {
	for _, c := range cases {
		if c.table.NoDate == "" {
			c.table.NoDate = Skip
		}
		t.Run(c.name, func(t *testing.T) {
			h := open(t, c.table)
			c.run(&fixture{T: t, h: h, table: c.table})
		})
	}
}
