package table

import (
	"database/sql"
	"time"
)

// Impatient returns options by which SQLite waits no longer than d for another
// program's lock.
func Impatient(d time.Duration) Options { return Options{busy: d} }

// Pool is the pool that the store reads with.
func Pool(db *DB) *sql.DB { return db.read }

// MySQLLockText is mysqlLockText.
func MySQLLockText(schema, table, name string) string { return mysqlLockText(schema, table, name) }

// MySQLChecks is mysqlChecks.
func MySQLChecks(create string) []string { return mysqlChecks(create) }

// LoseCommit has the table think that the end of a commit with the attempt's
// outcome is not known.
func (t *Table) LoseCommit(attempt string) { t.unsure = map[string]bool{attempt: true} }
