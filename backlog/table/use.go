package table

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Use makes a store of a table in a database that the program has opened
// itself, and proves that the table can be worked as the mapping says; see
// [Table.Prove]. A [*Problem] says why it cannot. now is the present, by which
// it is judged whether the dates of insertion can be right.
//
// What the mapping leaves out has the default of a configuration file: the key
// id, the column status, the column date_inserted, NEW, ERROR and SUCCESS. The
// table's name has none.
//
// Which kind of database it is is found out by asking it: SQLite, with
// modernc.org/sqlite or github.com/mattn/go-sqlite3, PostgreSQL, with
// github.com/jackc/pgx/v5/stdlib, or MySQL and MariaDB, with
// github.com/go-sql-driver/mysql.
//
// The pool stays the program's, which closes it; neither its limits nor the
// settings of its connections are changed. How carefully the database writes
// to disk is theirs to say. One connection is enough, two let the next records
// be read while outcomes are written. No connection is held while a handler
// runs, but for those that locks are held on, below.
//
// SQLite: Outcomes are written in transactions that have the lock from the
// start, whatever _txlock says; locks of others are waited for up to ten
// seconds, whatever the busy timeout is. A database in memory must be one of a
// single connection; its locks exclude those who use the same pool only. Unlike
// a database that [Open] has opened, a file that is replaced is not noticed.
//
// Servers: A connection is borrowed for each statement or transaction, at most
// four at a time, set up as the store needs it, and set back before the program
// has it again: with PostgreSQL by settings that end with a transaction, with
// MySQL by one statement before and one after, which are left out where the
// session is as it is to be. No parameter of the data source name has to be
// set; that of a MySQL pool must not have columnsWithAlias. A table that the
// mapping names without a schema is looked up once, now, whatever the session
// is told later. Statements have a time limit of a minute.
//
// A lock on a server belongs to a connection. One is taken from the pool for as
// long as a table has any, such as during the passes of a Loop, and closed at the
// end. A pool whose limit leaves none beside it is refused when a lock is asked
// for. That such a connection has died without a word is noticed within seconds,
// whatever the driver's settings are: the lock is checked every two seconds, and
// an answer is not waited for any longer.
func Use(ctx context.Context, db *sql.DB, m Mapping, now time.Time) (*Table, error) {
	if m.Name == "" {
		return nil, problem("set Name of the mapping", "the mapping names no table")
	}
	used, err := use(ctx, db)
	if err != nil {
		return nil, err
	}
	t, err := used.prove(ctx, m.withDefaults(), now)
	if err != nil && used.lent {
		used.Close()
	}
	return t, err
}

// A server's connection may look elsewhere for a table by and by, as the
// program sets it: the schema is the one where the first of them finds it.
type usedServer interface {
	schemaOf(ctx context.Context, db *sql.DB, table string) (string, error)
}

// prove makes the table and proves that it can be worked.
func (db *DB) prove(ctx context.Context, m Mapping, now time.Time) (*Table, error) {
	if d, ok := db.dialect.(usedServer); ok && m.Schema == "" {
		var err error
		if m.Schema, err = d.schemaOf(ctx, db.read, m.Name); err != nil {
			return nil, db.wrap(ctx, err)
		}
	}
	t, err := New(ctx, db, m)
	if err != nil {
		return nil, err
	}
	if err := t.ProveTimes(ctx, now); err != nil {
		return nil, fmt.Errorf("table %s: %w", m.Name, err)
	}
	if err := t.ProveWrites(ctx, now); err != nil {
		return nil, err
	}
	return t, nil
}

// Is returns the state of rows whose status column has one of the values: a
// record that gets into the state gets the first. The column's type decides
// what a value becomes, a text or a number.
func Is(values ...string) State {
	s := State{Given: true}
	for _, v := range values {
		s.Values = append(s.Values, Value{Text: v, Quoted: v == "now" || v == "+1"})
	}
	return s
}

func (m Mapping) withDefaults() Mapping {
	if len(m.ID) == 0 {
		m.ID = []string{"id"}
	}
	for _, x := range []struct {
		column    *string
		otherwise string
	}{{&m.Status, "status"}, {&m.Inserted.Column, "date_inserted"}} {
		if *x.column == "" {
			*x.column = x.otherwise
		}
	}
	for _, x := range []struct {
		state     *State
		otherwise string
	}{{&m.New, "NEW"}, {&m.Error, "ERROR"}, {&m.Success, "SUCCESS"}} {
		if x.state.isZero() {
			x.state.Values = []Value{{Text: x.otherwise}}
		}
	}
	return m
}

// use finds out what the pool leads to. What the driver says of another kind
// of database is not shown: it may hold a password.
func use(ctx context.Context, pool *sql.DB) (*DB, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	const question = "SELECT file FROM pragma_database_list WHERE name = 'main' AND sqlite_version() > ''"
	var path string
	err := pool.QueryRowContext(ctx, question).Scan(&path)
	if _, ok := sqlState(err); ok || isPostgres(pool.Driver()) {
		return usedOr(ctx, postgres{unknownServer()}, pool, usePostgres)
	}
	if mysqlNumber(err) != 0 || isMySQL(pool.Driver()) {
		return usedOr(ctx, mysql{hints: new(mysqlHints), names: new(mysqlNames)}, pool, useMySQL)
	}
	return useSQLite(ctx, pool, path, err)
}

// usedOr returns the database or its error with a class.
func usedOr(ctx context.Context, d dialect, pool *sql.DB, use func(context.Context, *sql.DB) (*DB, error)) (*DB, error) {
	db, err := use(ctx, pool)
	if err != nil {
		return nil, (&DB{dialect: d}).wrap(ctx, err)
	}
	return db, nil
}
