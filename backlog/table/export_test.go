package table

import (
	"time"
)

// Impatient returns options by which SQLite waits no longer than d for another
// program's lock.
func Impatient(d time.Duration) Options { return Options{Patience: d} }

// LoseCommit has the table think that the end of a commit with the attempt's
// outcome is not known.
func (t *Table) LoseCommit(attempt string) { t.unsure = map[string]bool{attempt: true} }
