// Package table is a [backlog.Store] over an existing table in an SQL database. The schema
// of the table stays as it is: a [mapping.Mapping] says what its columns mean.
//
// [Open] compares the mapping with the catalogue and with rows of the table, so that a
// mistake is found before the first record is touched. [Table.Pending] reads pending records
// page by page, and [Table.Settle] writes the outcomes of a group in one transaction.
// [Table.Count], [Table.List], [Table.Requeue] and [Table.Discard] are for commands and pages.
//
// The package writes SQL for every dialect alike. What the dialects differ in is in package
// db and in the packages sqlite, postgres and mysql.
package table

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
	"backlog/backlog/table/db"
	"backlog/internal/lists"
)

// A Table is a [backlog.Store] over one table. It is safe for concurrent use.
//
// Begin, Overdue, Running and CountAttempts need a mapping for the refresh policy. With
// another mapping they return a [*Problem].
type Table struct {
	*layout
	db          *DB
	writer      writer
	guards      guardList
	db.Notebook // notes about the mapping, to which proofs and trials add
}

// A layout is the mapping, resolved to columns of the catalogue. Its methods write statements
// and interpret rows. They send nothing to the database.
type layout struct {
	database *DB // converts values of rows
	text     *db.Text
	m        mapping.Mapping
	catalog  *catalog
	name     string // quoted, with its schema

	key        []string // quoted
	keyColumns []*column
	status     string // quoted; "": no state is a value of a status column
	where      filter // of the mapping, part of every statement

	whereUnsearched string // the condition of where, in a form that no index is searched by; "": no condition

	inserted      *timeColumn
	eligible      *timeColumn   // nil: records are eligible at once
	expires       *timeColumn   // nil: records do not expire
	formSource    *timeColumn   // columns without a known form are written in the form of this one; nil: inserted
	times         []*timeColumn // all of them
	hasUnreadable atomic.Bool   // a date was unreadable since the forms were last detected

	columns  []*column // whose values handlers get
	selected pageColumns

	policy         policyColumns
	refresh        *attemptColumns                          // nil: the policy has no deadlines
	memoryColumns  []string                                 // quoted; what a row remembers, apart from some times
	readMemory     func(row []any) (*backlog.Memory, error) // nil: rows remember nothing
	guard          rowGuard
	words          inspect.Words // for the states of rows
	lanes          [2]laneOrder
	states         []pendingState
	success        string // condition, for counting; "": successes cannot be recognized
	dead           filter // its condition is "" if dead records cannot be recognized
	updates        [backlog.RowOther]stateUpdate
	errorColumn    *column     // takes the text of the last error; nil: no column does
	attemptsColumn *column     // counts attempts, whatever their outcome; nil: no column does
	expireSet      []setClause // kills a record; nil: there is no dead status
	requeueSet     []setClause // makes a record new; nil: the mapping does not say how

	snoozeSet [2][]setClause // keeps a snooze, by the record's lane; nil: no column does
}

var (
	_ backlog.Pinger      = (*Table)(nil)
	_ backlog.Prober      = (*Table)(nil)
	_ backlog.Trier       = (*Table)(nil)
	_ backlog.StrayFinder = (*Table)(nil)
	_ backlog.Expirer     = (*Table)(nil)
	_ backlog.Rehearser   = (*Table)(nil)
	_ backlog.Verifier    = (*Table)(nil)
	_ backlog.Snoozer     = (*Table)(nil)
	_ backlog.Beginner    = (*Table)(nil)
)

// New resolves the mapping to columns of the catalogue. It reads no rows: call
// [Table.Prove] before records are handed out. A [*Problem] says where the mapping does not
// fit.
func New(ctx context.Context, d *DB, m mapping.Mapping) (*Table, error) {
	cat, err := d.Describe(ctx, m.Schema, m.Name)
	if err != nil {
		return nil, err
	}
	return Resolve(d, m, cat)
}

// Resolve is [New] with a catalogue that was read before. d may be closed if the table is
// only described.
func Resolve(d *DB, m mapping.Mapping, cat *catalog) (*Table, error) {
	if cat.Unusable != nil {
		return nil, cat.Unusable
	}
	if cat.Kind == db.View {
		return nil, problem("name the table behind it", "%s is a view: outcomes cannot be written to it", m.Name)
	}
	r := new(resolver)
	steps := []func(){
		r.keyColumns, r.timeColumns, r.handlerColumns, r.fixedFilter,
		r.countedPolicy, r.states, r.requeueClauses, r.updates, r.deathClauses, r.snoozeClauses,
	}
	if m.Policy != nil && m.Policy.Refresh != nil {
		steps = []func(){
			r.keyColumns, r.deadlines, r.timeColumns, r.handlerColumns, r.fixedFilter,
			r.attemptLanes, r.requeueClauses, r.updates,
		}
		m = m.Refreshing(func(name string) bool { return cat.Find(name, d.Text().FoldsNames) != nil })
	}
	t := &Table{layout: &layout{database: d, text: d.Text(), m: m, catalog: cat, words: inspect.StatusWords}, db: d}
	t.name = t.text.Qualified(cmp.Or(m.Schema, cat.Schema), m.Name)
	r.t = t
	for _, step := range steps {
		step()
		if _, more := r.err.(*db.Problems); r.err != nil && !more {
			return nil, r.err
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	t.writer = batchWriter{t}
	if t.guard != statusGuard {
		t.writer = attemptWriter{t}
	}
	t.selected = t.newPageColumns()
	t.noteCatalog()
	return t, nil
}

// noteCatalog notes what the catalogue says about writes to the table: triggers, an engine
// without transactions, columns that an index shortens, columns that the database updates.
func (t *Table) noteCatalog() {
	if len(t.catalog.Triggers) > 0 {
		t.Notef("triggers run when a row is updated: %s", strings.Join(t.catalog.Triggers, ", "))
	}
	if !t.canRollBack() {
		t.Notef("the storage engine of %s is %s, which has no transactions: a crash, or a row that somebody else changes at the time, can leave a part of a group written, "+
			"and whether it takes the statuses cannot be tried; with InnoDB it would be all or nothing", t.m.Name, t.catalog.Engine)
	}
	for _, c := range t.catalog.Columns {
		q := t.text.Quote(c.Name)
		isSearched := q == t.status || q == t.inserted.quoted || slices.Contains(t.where.indexPrefix, q)
		if c.PrefixIndexed && isSearched {
			t.Notef("column %s is %s, of which an index has only the beginnings: every page sorts all that is pending; with VARCHAR it would not", c.Name, c.Decl)
		}
		isIt := func(a setClause) bool { return a.column == q }
		kept := slices.ContainsFunc(t.updates[backlog.RowSuccess].others, isIt)
		if c.AutoUpdated && !kept {
			hint := ""
			if slices.ContainsFunc(t.times, func(tc *timeColumn) bool { return tc.name == c.Name && !tc.onlyWritten }) {
				hint = "; `keep: true` in its long form keeps it"
			}
			t.Notef("column %s is set by the database whenever a row is written%s", c.Name, hint)
		}
	}
}

// handlerColumns resolves the columns whose values handlers get.
func (r *resolver) handlerColumns() {
	names := r.t.m.Columns
	if names == nil {
		names = r.t.catalog.ColumnNames()
	}
	r.t.columns = lists.Map(names, func(name string) *column { return r.column("table.columns", name) })
}

// fixedFilter resolves table.where, which is part of every statement, and the status column.
func (r *resolver) fixedFilter() {
	r.t.where = r.filter("table.where", r.t.m.Where)
	if r.t.where.cond != "" {
		r.t.whereUnsearched = r.t.text.WithoutIndex(r.t.where.cond)
	}
	hasValues := func(s mapping.Named) bool { return len(s.Values) > 0 }
	if slices.ContainsFunc(r.t.m.States(), hasValues) {
		r.t.status = r.t.text.Quote(r.column("table.status", r.t.m.Status).Name)
	}
}

// OneLane reports whether all pending records are in the fresh lane, since nothing in a row
// distinguishes a failed record from a new one.
func (t *layout) OneLane() bool {
	return !slices.ContainsFunc(t.states, func(state pendingState) bool { return state.lane == backlog.Failed })
}

// HasDead reports whether the table has a dead status.
func (t *layout) HasDead() bool { return len(t.expireSet) > 0 }

// canRollBack reports whether writes to the table can be rolled back. Some storage engines of
// MySQL have no transactions.
func (t *layout) canRollBack() bool { return t.catalog.Engine == "" }

// DB returns the database of the table.
func (t *Table) DB() *DB { return t.db }

// SchemaVersion returns a text that changes with each change of the database's tables, triggers and constraints.
// It is as the table was opened. "": the database does not tell.
func (t *Table) SchemaVersion() string { return t.catalog.SchemaVersion }

// Catalog returns what the database says about the table.
func (t *layout) Catalog() *catalog { return t.catalog }

// Mapping returns the mapping, with its defaults filled in.
func (t *layout) Mapping() mapping.Mapping { return t.m }

// Ping implements [backlog.Pinger].
func (t *Table) Ping(ctx context.Context) error {
	return t.db.QueryOne(ctx, "SELECT 1 FROM "+t.name+" LIMIT 1", nil, new(int))
}

// HasMoreThan reports whether the table has more than n rows. It reads as many.
func (t *Table) HasMoreThan(ctx context.Context, n int) (bool, error) {
	found := 0
	err := t.db.QueryOne(ctx, "SELECT 1 FROM "+t.name+" LIMIT 1 OFFSET ?", []any{n}, &found)
	return found == 1, err
}

// Probe implements [backlog.Prober]. It returns nil if the table can be read, has every
// column that passes read, and a transaction that writes can begin. In SQLite another program
// can prevent that. Probe changes nothing.
func (t *Table) Probe(ctx context.Context) error {
	if err := t.Ping(ctx); err != nil {
		return err
	}
	text, args := t.columnsQuery().sql()
	if err := t.db.QueryOne(ctx, text, args, new(any)); err != nil {
		return err
	}
	return t.db.Do(ctx, func(ctx context.Context) error {
		tx, err := t.db.Write.BeginTx(ctx, nil)
		if err == nil {
			err = tx.Rollback()
		}
		return err
	})
}

// columnsQuery returns a query that names every column passes read, and matches no row.
func (t *layout) columnsQuery() selectQuery {
	states := allOf(t.dead.cond)
	for _, state := range t.states {
		states.add(state.cond, nil)
	}
	return t.recordsQuery(allOf(never, states.any()), t.selected.exprs)
}

// Open returns a store over a table of the database. A [*Problem] says why the mapping does
// not fit the table. now is the present time: dates of insertion after it are suspicious.
//
// What the mapping leaves out has the default of the configuration file: the key id, the
// columns status and date_inserted, the statuses NEW, ERROR and SUCCESS. The name of the table
// has no default.
//
// With the columns of the refresh policy the store serves that policy:
//
//	m := mapping.Mapping{Name: "banners", Policy: settings.PolicyColumns()} // of retry.Refresh
//	banners, err := table.Open(ctx, database, m, time.Now())
//	engine := &backlog.Engine{Store: banners, Policy: policy, Handler: handler}
func Open(ctx context.Context, d *DB, m mapping.Mapping, now time.Time) (*Table, error) {
	if m.Name == "" {
		return nil, problem("set Name of the mapping", "the mapping names no table")
	}
	t, err := New(ctx, d, m.WithDefaults())
	if err != nil {
		return nil, err
	}
	return t, t.Prove(ctx, now)
}

// OpenDB is [Open] for a pool that the caller has opened and closes. The sessions of the pool
// must be configured as docs/go.md says. OpenDB checks this on one connection and returns an
// error if a setting differs. The pool should allow two connections, so that the next records
// are read while outcomes are written, and one more for each lock on a server.
func OpenDB(ctx context.Context, pool *sql.DB, dialect db.Server, m mapping.Mapping, now time.Time) (*Table, error) {
	d, err := db.Open(ctx, dialect, "", Options{Existing: pool})
	if err != nil {
		return nil, err
	}
	return Open(ctx, d, m, now)
}

type (
	DB      = db.DB
	Options = db.Options
	Problem = db.Problem

	KeyError = db.KeyError
	column   = db.Column
	catalog  = db.Catalog
)

var problem = db.Problemf
