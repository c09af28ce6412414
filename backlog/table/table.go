// Package table is a backlog.Store over a table in a database that its owner
// keeps as it is. A Mapping says what the columns mean; the catalogue and the
// rows prove, before the first record is touched, that it can be worked so.
//
// Only a dialect knows which database it is; it holds SQL text and quirks.
package table

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"backlog/backlog"
)

// statementTimeout bounds every statement. A page or a group takes
// milliseconds where the index is there.
const statementTimeout = time.Minute

// A Table is a backlog.Store over one table. It is safe for concurrent use.
type Table struct {
	db      *DB
	d       dialect
	m       Mapping
	catalog *catalog
	name    string // quoted, with its schema

	key    []string // quoted
	status string   // quoted; "" where no state is a value of a status column
	where  string   // SQL of the fixed filter, "" for none

	filtered []string // columns of the fixed filter
	lead     []string // quoted: those of one value

	inserted, eligible, expires *timeCol // the latter two may be nil
	times                       []*timeCol

	columns []*column // what the handler is given
	sel     selection

	retry         *retryCols // nil: no policy keeps anything in the row
	branches      []branch
	failedLane    bool
	success, dead string // conditions, for counting; "" where they cannot be told
	actions       [3]action
	expireSet     []assign     // nil: no dead status
	resetSet      []assign     // what makes a record new; nil: it cannot be said
	mergeFits     atomic.Int64 // rows in a page that is merged; see scanner

	mu         sync.Mutex
	notes      []string
	statements map[string]*statement
	keyTypes   [2]string       // of the key, by lane, as pages have it; "" before the first
	keeps      bool            // a row has kept what was written
	undoneRows int             // rows that have not, since
	unsure     map[string]bool // attempts of which nobody knows whether their outcome is written
}

var (
	_ backlog.Store   = (*Table)(nil)
	_ backlog.Pinger  = (*Table)(nil)
	_ backlog.Expirer = (*Table)(nil)
	_ backlog.Locker  = (*Table)(nil)
	_ backlog.Counter = (*Table)(nil)
)

// New finds the mapping's columns in the database's catalogue. The errors are
// [*Problem]s where the mapping does not fit. It reads nothing but the
// catalogue; Prove reads rows.
func New(ctx context.Context, db *DB, m Mapping) (*Table, error) {
	d := db.dialect
	cctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	var cat *catalog
	err := db.patiently(cctx, func(ctx context.Context) (err error) {
		cat, err = d.describe(ctx, db.read, m.Schema, m.Name)
		return db.dotted(ctx, m, err)
	})
	if err != nil {
		return nil, db.wrap(ctx, err)
	}
	return resolve(db, m, cat)
}

// resolve makes a table of what the catalogue says.
func resolve(db *DB, m Mapping, cat *catalog) (*Table, error) {
	d := db.dialect
	t := &Table{db: db, d: d, m: m, catalog: cat, statements: make(map[string]*statement)}
	t.name = qualified(d, cmp.Or(m.Schema, cat.schema), m.Name)
	r := &resolver{t: t, cat: cat, d: d, m: m}
	for _, step := range []func() error{r.kind, r.keyColumns, r.timeColumns, r.handlerColumns, r.filter, r.retry, r.states} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	t.sel = t.newSelection()
	if len(cat.triggers) > 0 {
		t.note("triggers run when a row is updated: %s", strings.Join(cat.triggers, ", "))
	}
	return t, nil
}

func (r *resolver) kind() error {
	if r.cat.wrong != nil {
		return r.cat.wrong
	}
	if r.cat.kind == "view" {
		return problem("name the table behind it", "%s is a view: outcomes cannot be written to it", r.m.Name)
	}
	return nil
}

func (r *resolver) keyColumns() error {
	var names []string
	for _, name := range r.m.ID {
		c, err := r.column("table.id", name)
		if err != nil {
			return err
		}
		names = append(names, c.name)
		r.t.key = append(r.t.key, r.d.quote(c.name))
	}
	if !r.cat.unique(names) {
		for _, u := range r.cat.uniques {
			if !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(u, name) }) {
				return problem(fmt.Sprintf("write table.id: [%s]", strings.Join(inYAML(u), ", ")), "table.id: %s does not identify a row of %s: a key of that table is %d columns: %s",
					strings.Join(names, ", "), r.m.Name, len(u), strings.Join(u, ", "))
			}
		}
		return problem("name the columns of the primary key or of a unique index, or create one: "+
			fmt.Sprintf("CREATE UNIQUE INDEX %s ON %s (%s)", r.d.quote(r.m.Name+"_key"), r.t.name, strings.Join(r.t.key, ", ")),
			"table.id: %s does not identify a row of %s: no primary key or unique index covers it", strings.Join(names, ", "), r.m.Name)
	}
	return nil
}

func (r *resolver) timeColumns() error {
	for _, x := range []struct {
		setting string
		spec    *Time
		to      **timeCol
	}{
		{"table.inserted", &r.m.Inserted, &r.t.inserted},
		{"table.eligible", r.m.Eligible, &r.t.eligible},
		{"table.expires", r.m.Expires, &r.t.expires},
	} {
		if x.spec == nil {
			continue
		}
		c, err := r.column(x.setting, x.spec.Column)
		if err != nil {
			return err
		}
		tc := &timeCol{name: c.name, quoted: r.d.quote(c.name), setting: x.setting, null: x.spec.Null, zero: x.spec.Zero}
		r.t.readIn(tc, c, cmp.Or(x.spec.Zone, r.m.Zone))
		if tc.fixed && x.spec.As != "" && x.spec.As != "native" {
			return problem("leave it out", "%s: as: column %s is %s, whose times are read as what they are", x.setting, c.name, c.decl)
		}
		if !tc.fixed && x.spec.As != "" {
			f, err := parseTimeForm(x.spec.As, tc.zone)
			if err != nil {
				return problem("mend `as:`", "%s: as: %v", x.setting, err)
			}
			if u, ok := f.timeCodec.(timeUnix); ok {
				switch c.class {
				case classText:
					u.class = timeText // whatever is stored there becomes text
				case classReal:
					u.class, u.fine = timeReal, true
				}
				f = timeForm{u}
			}
			tc.set(f)
			tc.fixed = true
		}
		*x.to = tc
		r.t.times = append(r.t.times, tc)
	}
	return nil
}

// timeOf returns the time column of that name, a new one if no setting has
// said more about it.
func (t *Table) timeOf(c *column) *timeCol {
	for _, tc := range t.times {
		if tc.name == c.name {
			return tc
		}
	}
	tc := &timeCol{name: c.name, quoted: t.d.quote(c.name), written: true}
	t.readIn(tc, c, t.m.Zone)
	t.times = append(t.times, tc)
	return tc
}

// readIn sets the zone of the column and, if its type says it, the form. A zone
// of nil is that which nobody has named.
func (t *Table) readIn(tc *timeCol, c *column, zone *time.Location) {
	tc.zone, tc.assumed = cmp.Or(zone, time.UTC), zone == nil
	if c.bits > 0 {
		tc.most = 1<<(c.bits-1) - 1
	}
	if codec := t.d.timeForm(c, tc.zone); codec != nil {
		tc.set(timeForm{codec})
		tc.fixed = true
	}
}

func (r *resolver) handlerColumns() error {
	if r.m.Columns == nil {
		for i := range r.cat.columns {
			r.t.columns = append(r.t.columns, &r.cat.columns[i])
		}
		return nil
	}
	for _, name := range r.m.Columns {
		c, err := r.column("table.columns", name)
		if err != nil {
			return err
		}
		r.t.columns = append(r.t.columns, c)
	}
	return nil
}

func (r *resolver) filter() (err error) {
	if r.t.where, _, err = r.conditions("table.where", r.m.Where); err != nil {
		return err
	}
	r.t.filtered, r.t.lead = r.columnsOf(r.m.Where, false), r.columnsOf(r.m.Where, true)
	m := r.m
	if slices.ContainsFunc([]State{m.New, m.Error, m.Success, m.Dead}, func(s State) bool { return len(s.Values) > 0 }) {
		c, err := r.column("table.status", m.Status)
		if err != nil {
			return err
		}
		r.t.status = r.d.quote(c.name)
	}
	return nil
}

// Notes are what a person should know about the mapping, though it works. The
// proofs add to them.
func (t *Table) Notes() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.notes)
}

// note adds a note, once.
func (t *Table) note(format string, args ...any) {
	n := fmt.Sprintf(format, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.notes, n) {
		t.notes = append(t.notes, n)
	}
}

// OneLane reports that failed records cannot be told from fresh ones.
func (t *Table) OneLane() bool { return !t.failedLane }

// HasDead reports whether the table has a dead status.
func (t *Table) HasDead() bool { return t.expireSet != nil }

// TryLock takes the named lock of the table.
func (t *Table) TryLock(ctx context.Context, name backlog.LockName) (backlog.Lock, error) {
	return t.d.tryLock(ctx, t.m.Schema, t.m.Name, name)
}

// Ping returns nil when the database answers.
func (t *Table) Ping(ctx context.Context) error {
	return t.within(ctx, func(ctx context.Context) error {
		var one int
		return t.db.read.QueryRowContext(ctx, "SELECT 1 FROM "+t.name+" LIMIT 1").Scan(&one)
	})
}

// within runs f under the statement timeout and gives its error a class.
func (t *Table) within(ctx context.Context, f func(context.Context) error) error {
	sctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	err := t.db.patiently(sctx, f)
	if err == sql.ErrNoRows {
		return nil
	}
	return t.db.wrap(ctx, err)
}
