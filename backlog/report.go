package backlog

import "time"

// A Report sums up one pass. Selected is the sum of Succeeded, Failed,
// Rejected, Skipped, Accepted, Conflicts, Refused, Interrupted and Unwritten.
type Report struct {
	Tier     string        `json:"tier"`
	MaxAge   time.Duration `json:"-"`
	Started  time.Time     `json:"-"` // the pass's one reading of the clock
	Duration time.Duration `json:"-"`

	Selected    int    `json:"selected"` // handed to the handler
	Succeeded   int    `json:"succeeded"`
	Failed      int    `json:"failed"`
	Rejected    int    `json:"rejected"`
	Skipped     int    `json:"skipped"`
	Conflicts   int    `json:"conflicts"`         // outcome not written: the row had been changed meanwhile
	Expired     int    `json:"expired"`           // records that became dead by age
	Complete    bool   `json:"complete"`          // every record of the pass's age was looked at
	Stopped     string `json:"stopped"`           // why not: one of the Stopped constants, or empty
	Refused     int    `json:"refused"`           // outcome not written: the database does not take it
	Interrupted int    `json:"interrupted"`       // handlers ended by the stop: no attempt
	Unwritten   int    `json:"unwritten"`         // outcome not written when the pass ended: the database stayed away
	Unreadable  int    `json:"unreadable"`        // rows that could not be records
	GivenUp     int    `json:"given_up"`          // of the failed: out of retries
	Accepted    int    `json:"accepted"`          // handed over, the outcome follows
	Overdue     int    `json:"overdue,omitempty"` // attempts that failed because nobody answered by their deadline

	Resume Resume `json:"-"` // where the tier's next pass goes on

	tried map[uint64]struct{} // keys attempted so far, for the pass that goes on after a reload
}

// Why a pass ended early.
const (
	StoppedMaxRecords = "max_records"
	StoppedAbortAfter = "abort_after"
	StoppedSignal     = "signal"
	StoppedReload     = "reload" // another engine goes on with the rest
	StoppedLock       = "lock"   // it was lost
	StoppedError      = "error"
)

// A Resume is where the next pass of a tier goes on after one that ended
// early. The zero Resume starts from the beginning.
type Resume struct {
	// Fresh: records before FreshTop are new since. After them comes what is
	// behind FreshLast, then all else.
	FreshTop  Cursor `json:"fresh_top"`
	FreshLast Cursor `json:"fresh_last"`
	// Failed: records after FailedLast first, then those before it.
	FailedLast Cursor `json:"failed_last"`
	// TurnFailed says that under a cap of one the next turn is the failed
	// lane's.
	TurnFailed bool `json:"turn_failed,omitempty"`
}

// IsZero reports whether a pass with r starts from the beginning.
func (r Resume) IsZero() bool {
	return r.FreshLast.IsZero() && r.FailedLast.IsZero() && !r.TurnFailed
}

// add counts an outcome that was written.
func (r *Report) add(a *attempt) {
	if a.givenUp {
		r.GivenUp++
	}
	switch a.outcome {
	case Succeeded:
		r.Succeeded++
	case Errored:
		r.Failed++
	case Rejected:
		r.Rejected++
	}
}
