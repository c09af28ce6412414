package table

import (
	"context"
	"database/sql"
	"time"

	"backlog/backlog"
)

// A dialect is what differs between databases: SQL text and quirks. It holds
// no state but its connection's address.
type dialect interface {
	// quote returns the name as an identifier.
	quote(name string) string
	// literal returns the value (nil, bool, int64, float64, decimal, string) as SQL
	// text.
	literal(v any) string
	// place returns the text of a statement, in which this package marks the
	// places of arguments by ?, as the database marks them.
	place(text string) string
	// cast returns the place of an argument that the database could not tell
	// the type of: it is for the column.
	cast(c *column) string
	// raw returns an expression for the column's value as stored, which
	// drivers would otherwise convert by the declared type.
	raw(col string) string
	// value returns what the driver has read from the column as the store
	// has it: nil, bool, int64, float64, string or []byte. It may be called
	// with nil for the column, which is then of no known type.
	value(c *column, v any) any
	// timeForm returns the form in which a column of its type holds times,
	// zone being that of types without one; nil if that is not told by the
	// type but by the rows.
	timeForm(c *column, zone *time.Location) timeCodec
	// zeroDate returns the condition for zero dates in the column, "" if it
	// can hold none.
	zeroDate(c *column) string
	// keyIn returns a condition that holds for the n keys bound to it, the
	// parts of each in the order of cols.
	keyIn(cols []string, n int) string
	// guard returns the condition as one that no index is searched by: a
	// row is found by its key, whatever a planner thinks of the status.
	guard(cond string) string
	// from returns the table as a query for pages names it that is to be
	// answered by an index over the lead columns, of which there is one value
	// each, and then by that of the order; all are quoted.
	from(t *Table, lead []string, order string) string
	// prepares reports whether statements are to be prepared: not where the
	// driver does that by itself, or has been told not to.
	prepares() bool
	// lazyUnion reports whether the ordered union of ordered queries is read
	// no further than its limit.
	lazyUnion() bool
	// partialIndexes reports whether an index may have a condition.
	partialIndexes() bool
	// leads reports whether an index for pages is to begin with a column that
	// has a single value in their conditions, or is NULL in them.
	leads(null bool) bool
	// understood returns the error for which the database would not run the
	// statement, which may be one that writes in a pool that is to be read
	// only. It does not run it.
	understood(ctx context.Context, db *sql.DB, text string) error
	// permits returns the error for which the user may not run a statement of
	// n arguments, where that is not a part of understood. It does not run it.
	permits(ctx context.Context, db *sql.DB, text string, n int) error
	// ungranted returns a *Problem, with what is to be granted, of an error by
	// which the user was refused the statement; nil of others.
	ungranted(ctx context.Context, db *sql.DB, text string, err error) error
	// grantee returns the table and the user of the connection as GRANT names
	// them, no user where the database knows none, and schemaRights whether a
	// schema has rights of its own.
	grantee(ctx context.Context, db *sql.DB, t *Table) (on, to string, err error)
	schemaRights() bool
	// present is an expression for the server's time, in microseconds since
	// 1970; "" where there is no server.
	present() string
	// home returns the zone in which a session is whose program asks for none,
	// and whether its clocks show UTC, in winter and in summer; utc where the
	// database knows no zones.
	home(ctx context.Context, db *sql.DB) (zone string, utc bool, err error)
	// driver is the module that speaks to the database.
	driver() string
	// syntax is how SQL that others have written is to be read.
	syntax() syntax
	// foldsNames reports whether column names differ only by more than case.
	foldsNames() bool

	// reach is the first use of a connection. What a person has to mend is a
	// *Problem.
	reach(ctx context.Context, db *sql.DB) error
	// describe reads the catalogue. A missing table is a *Problem.
	describe(ctx context.Context, db *sql.DB, schema, name string) (*catalog, error)
	// lockRow is what ends a SELECT within a transaction that writes, so that
	// nobody else changes the row before its end.
	lockRow() string
	// writers returns how many transactions can write at a time on the pool.
	writers(pool *sql.DB) int
	// begin begins a transaction that writes.
	begin(ctx context.Context, conn *sql.Conn) (*sql.Tx, error)
	// classify says what an error of the driver means.
	classify(err error) errorClass
	// hinders tells of an error that may pass what is in the way though the
	// database is there, what the database says itself, and where to look; what
	// is "" if it is away, look if there is nothing to see.
	hinders(err error) (what, said, look string)
	// explain makes a *Problem of an error that only a person can mend.
	explain(err error) error
	// plan returns how the branch's query is answered.
	plan(ctx context.Context, db *sql.DB, t *Table, b branch, query string, args []any) (explanation, error)
	// newSchema returns the schema of a table that is made without naming one;
	// "" where whoever makes it can find no other.
	newSchema(ctx context.Context, db *sql.DB) (string, error)
	// types are those of the columns that init makes.
	types() columnTypes
	// created returns the statements that have made the table and its
	// indexes, where the database remembers them; nil if not.
	created(ctx context.Context, db *sql.DB, table string) ([]string, error)
	// createIndex returns the statement that creates an index of the table,
	// if there is none of that name; rest is what follows the bracket.
	createIndex(t *Table, name, rest string) string
	// indexName returns the name for the index that the statement creates,
	// one that nothing else in the database has.
	indexName(ctx context.Context, db *sql.DB, wanted string, create func(name string) string) (string, error)
	// mayWrite proves that the table can be written to, changing nothing;
	// it is a *Problem if not.
	mayWrite(ctx context.Context, db *sql.DB) error
	// try proves on a copy that the rows take what settlements would write.
	try(ctx context.Context, db *sql.DB, t *Table, writes []trialWrite) error
	// advice is for the owner of the database; "" if there is none.
	advice(ctx context.Context, db *sql.DB) string
	// tryLock takes the named lock of the table.
	tryLock(ctx context.Context, schema, table string, name backlog.LockName) (backlog.Lock, error)
}

// An explanation is how a database means to answer a query.
type explanation struct {
	steps   []string // a line each
	indexes []string // that serve, if nothing is bad
	unused  bool     // they would serve, but the rows are few
	bad     string   // how it reads more than the page, "" if it does not
	analyze string   // the statement that mends what is bad, if no index is missing
}

// A querier is a pool or one connection.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// texts returns the first column of a query's rows.
func texts(ctx context.Context, db querier, query string, args ...any) (list []string, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, rows.Err()
}

type errorClass int

const (
	classOther   errorClass = iota
	classAway               // the same call may succeed later
	classBusy               // in a moment: another program has the lock
	classRefused            // this row does not take these values
)
