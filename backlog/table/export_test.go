package table

import (
	"time"
)

// Impatient returns options by which SQLite waits no longer than d for another
// program's lock.
func Impatient(d time.Duration) Options { return Options{Patience: d} }
