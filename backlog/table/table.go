// Package table is a backlog.Store over a table in a database that its owner
// keeps as it is. A Mapping says what the columns mean; the catalogue and the
// rows prove, before the first record is touched, that it can be worked so.
//
// Which database it is is known by package db alone, and by the dialect it is given.
package table

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table/attempt"
	"backlog/backlog/table/db"
)

// A Table is a backlog.Store over one table. It is safe for concurrent use.
type Table struct {
	*layout
	db          *DB
	prepared    db.Statements
	db.Notebook // of the mapping; the proofs add to them
}

// A layout is what the mapping means in the catalogue's columns. Its methods make
// the text and the arguments of statements and understand rows; they ask the
// database nothing.
type layout struct {
	d       *DB // its text and its values
	text    *db.Text
	m       mapping.Mapping
	catalog *catalog
	name    string // quoted, with its schema

	key    []string // quoted
	keys   []*column
	status string // quoted; "" where no state is a value of a status column
	where  filter // the fixed one

	inserted, eligible, expires *timeCol // the latter two may be nil
	times                       []*timeCol

	columns []*column // what the handler is given
	sel     columns

	retry      *retryCols       // nil: no policy keeps anything in the row
	refresh    *attempt.Columns // of the refresh policy; nil: another one
	branches   []branch
	success    string // a condition, for counting; "" where it cannot be told
	dead       filter // likewise
	actions    [backlog.RowOther]action
	errCol     *column  // takes the error's text; nil: none does
	attempts   *column  // counts them, whatever their outcome; nil: none does
	expireSet  []assign // nil: no dead status
	requeueSet []assign // what makes a record new; nil: it cannot be said
}

var (
	_ backlog.Store  = (*Table)(nil)
	_ backlog.Locker = (*Table)(nil)
)

// New finds the mapping's columns in the database's catalogue. The errors are
// [*Problem]s where the mapping does not fit. It reads nothing but the
// catalogue; Prove reads rows.
func New(ctx context.Context, d *DB, m mapping.Mapping) (*Table, error) {
	cat, err := d.Describe(ctx, m.Schema, m.Name)
	if err != nil {
		return nil, err
	}
	return Resolve(d, m, cat)
}

// Resolve makes a table of what the catalogue says. d need not be open where the
// table is only to be described.
func Resolve(d *DB, m mapping.Mapping, cat *catalog) (*Table, error) {
	if cat.Wrong != nil {
		return nil, cat.Wrong
	}
	if cat.Kind == db.View {
		return nil, problem("name the table behind it", "%s is a view: outcomes cannot be written to it", m.Name)
	}
	if m.Policy != nil && m.Policy.Refresh != nil {
		m = m.Refreshing(func(name string) bool { return cat.Find(name, d.Text().FoldsNames) != nil })
	}
	t := &Table{layout: &layout{d: d, text: d.Text(), m: m, catalog: cat}, db: d}
	t.prepared.Plain = !t.text.Prepares
	t.name = t.text.Qualified(cmp.Or(m.Schema, cat.Schema), m.Name)
	r := &resolver{t: t}
	for _, step := range []func(){
		r.keyColumns, r.refresh, r.timeColumns, r.handlerColumns, r.fixed, r.retry, r.states, r.requeue, r.actions,
	} {
		step()
		if _, more := r.err.(*db.Problems); r.err != nil && !more {
			return nil, r.err
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	t.sel = t.newColumns()
	t.declared()
	return t, nil
}

// declared notes what the catalogue says of writing to the table.
func (t *Table) declared() {
	if len(t.catalog.Triggers) > 0 {
		t.Notef("triggers run when a row is updated: %s", strings.Join(t.catalog.Triggers, ", "))
	}
	if t.catalog.Engine != "" {
		t.Notef("the storage engine of %s is %s, which has no transactions: a crash, or a row that somebody else changes at the time, can leave a part of a group written, "+
			"and whether it takes the statuses cannot be tried; with InnoDB it would be all or nothing", t.m.Name, t.catalog.Engine)
	}
	for _, c := range t.catalog.Columns {
		if q := t.text.Quote(c.Name); c.Long && (q == t.status || q == t.inserted.quoted || slices.Contains(t.where.prefix, q)) {
			t.Notef("column %s is %s, of which an index has only the beginnings: every page sorts all that is pending; with VARCHAR it would not", c.Name, c.Decl)
		}
		kept := slices.ContainsFunc(t.actions[backlog.RowSuccess].also, func(a assign) bool { return a.col == t.text.Quote(c.Name) })
		if c.Updated && !kept {
			hint := ""
			if slices.ContainsFunc(t.times, func(tc *timeCol) bool { return tc.name == c.Name && !tc.written }) {
				hint = "; `keep: true` in its long form keeps it"
			}
			t.Notef("column %s is set by the database whenever a row is written%s", c.Name, hint)
		}
	}
}

func (r *resolver) keyColumns() {
	var names []string
	for _, name := range r.t.m.ID {
		c := r.column("table.id", name)
		if c.Ordinal {
			r.refuse("name other columns of a unique key", "table.id: %s is of the type %s, whose order is not that of its texts", r.t.text.Quote(c.Name), c.Decl)
		}
		names = append(names, c.Name)
		r.t.key, r.t.keys = append(r.t.key, r.t.text.Quote(c.Name)), append(r.t.keys, c)
	}
	if r.t.catalog.Unique(names) {
		return
	}
	for _, u := range r.t.catalog.Uniques {
		if !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(u, name) }) {
			r.refuse(fmt.Sprintf("write table.id: [%s]", mapping.InYAML(u...)), "table.id: %s does not identify a row of %s: a key of that table is %d columns: %s",
				strings.Join(names, ", "), r.t.m.Name, len(u), strings.Join(u, ", "))
		}
	}
	r.refuse("name the columns of the primary key or of a unique index, or create one: "+
		fmt.Sprintf("CREATE UNIQUE INDEX %s ON %s (%s)", r.t.text.Quote(r.t.m.Name+"_key"), r.t.name, strings.Join(r.t.key, ", ")),
		"table.id: %s does not identify a row of %s: no primary key or unique index covers it", strings.Join(names, ", "), r.t.m.Name)
}

func (r *resolver) handlerColumns() {
	names := r.t.m.Columns
	if names == nil {
		names = r.t.catalog.ColumnNames()
	}
	r.t.columns = db.Mapped(names, func(name string) *column { return r.column("table.columns", name) })
}

// fixed resolves the filter of every statement, and the status column.
func (r *resolver) fixed() {
	r.t.where = r.filter("table.where", r.t.m.Where)
	if slices.ContainsFunc(r.t.m.States(), func(s mapping.Named) bool { return len(s.Values) > 0 }) {
		r.t.status = r.t.text.Quote(r.column("table.status", r.t.m.Status).Name)
	}
}

// OneLane reports that failed records cannot be told from fresh ones.
func (t *layout) OneLane() bool {
	return !slices.ContainsFunc(t.branches, func(b branch) bool { return b.lane == backlog.Failed })
}

// HasDead reports whether the table has a dead status.
func (t *layout) HasDead() bool { return len(t.expireSet) > 0 }

// TryLock takes the named lock of the table.
func (t *Table) TryLock(ctx context.Context, name string) (backlog.Lock, error) {
	return t.db.Lock(ctx, t.catalog, name)
}

// DB is the database of the table.
func (t *Table) DB() *DB { return t.db }

// Catalog is what the database says about the table.
func (t *layout) Catalog() *catalog { return t.catalog }

// Name is the table's, quoted, with its schema.
func (t *layout) Name() string { return t.name }

// Mapping says what the columns mean.
func (t *layout) Mapping() mapping.Mapping { return t.m }

// Ping returns nil when the database answers.
func (t *Table) Ping(ctx context.Context) error {
	return t.db.One(ctx, "SELECT 1 FROM "+t.name+" LIMIT 1", nil, new(int))
}

// Open makes a store of a table in the database. A [*Problem] says why the table does
// not fit. now is the present, by which dates of insertion are found right or wrong.
//
// What the mapping leaves out has the default of a configuration file: the key
// id, the column status, the column date_inserted, NEW, ERROR and SUCCESS. The
// table's name has none.
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

// OpenDB is Open for a database that the program has opened itself. The pool stays the
// program's, which closes it. Its sessions must be set up as docs/go.md says; one
// connection is looked at, and what it shows to be set up otherwise is refused. Two
// connections let the next records be read while outcomes are written; each lock of a
// server keeps another.
func OpenDB(ctx context.Context, pool *sql.DB, dialect db.Server, m mapping.Mapping, now time.Time) (*Table, error) {
	d, err := db.Open(ctx, dialect, "", Options{Own: pool})
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
