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
	"sync/atomic"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
	"backlog/backlog/table/db"
	"backlog/internal/lists"
)

// A Table is a backlog.Store over one table. It is safe for concurrent use.
//
// Begin, Overdue, Running and CountAttempts need a mapping for the refresh policy. Over another
// they return a [*Problem].
type Table struct {
	*layout
	db          *DB
	writer      writer
	prepared    db.Statements
	guards      guardList
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

	whereUnsearched string // its condition as one that no index is searched by; "" for none

	inserted, eligible, expires *timeCol // the latter two may be nil
	pattern                     *timeCol // in whose form times are written to a column that has none yet; nil: inserted
	times                       []*timeCol
	misreads                    atomic.Bool // a row had a date that cannot be read, since the forms were found out

	columns []*column // what the handler is given
	sel     columns

	policy     policyColumns
	refresh    *attemptColumns                          // of a policy with deadlines; nil: another one
	memory     []string                                 // quoted: the columns of what a row remembers, but for some times
	read       func(row []any) (*backlog.Memory, error) // returns what it remembers; nil: nothing
	guard      rowGuard
	words      inspect.Words // for the states of rows
	lanes      [2]laneOrder
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
	_ backlog.Pinger      = (*Table)(nil)
	_ backlog.Prober      = (*Table)(nil)
	_ backlog.Trier       = (*Table)(nil)
	_ backlog.StrayFinder = (*Table)(nil)
	_ backlog.Expirer     = (*Table)(nil)
	_ backlog.Rehearser   = (*Table)(nil)
	_ backlog.Verifier    = (*Table)(nil)
	_ backlog.Beginner    = (*Table)(nil)
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
	if cat.Unusable != nil {
		return nil, cat.Unusable
	}
	if cat.Kind == db.View {
		return nil, problem("name the table behind it", "%s is a view: outcomes cannot be written to it", m.Name)
	}
	r := new(resolver)
	steps := []func(){r.keyColumns, r.timeColumns, r.handlerColumns, r.fixed, r.counted, r.states, r.requeue, r.actions, r.deaths}
	if m.Policy != nil && m.Policy.Refresh != nil {
		steps = []func(){r.keyColumns, r.deadlines, r.timeColumns, r.handlerColumns, r.fixed, r.attemptLanes, r.requeue, r.actions}
		m = m.Refreshing(func(name string) bool { return cat.Find(name, d.Text().FoldsNames) != nil })
	}
	t := &Table{layout: &layout{d: d, text: d.Text(), m: m, catalog: cat, words: inspect.StatusWords}, db: d}
	t.prepared.Plain = !t.text.Prepares
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
		if q := t.text.Quote(c.Name); c.PrefixIndexed && (q == t.status || q == t.inserted.quoted || slices.Contains(t.where.prefix, q)) {
			t.Notef("column %s is %s, of which an index has only the beginnings: every page sorts all that is pending; with VARCHAR it would not", c.Name, c.Decl)
		}
		kept := slices.ContainsFunc(t.actions[backlog.RowSuccess].also, func(a assign) bool { return a.col == t.text.Quote(c.Name) })
		if c.AutoUpdated && !kept {
			hint := ""
			if slices.ContainsFunc(t.times, func(tc *timeCol) bool { return tc.name == c.Name && !tc.written }) {
				hint = "; `keep: true` in its long form keeps it"
			}
			t.Notef("column %s is set by the database whenever a row is written%s", c.Name, hint)
		}
	}
}

func (r *resolver) handlerColumns() {
	names := r.t.m.Columns
	if names == nil {
		names = r.t.catalog.ColumnNames()
	}
	r.t.columns = lists.Map(names, func(name string) *column { return r.column("table.columns", name) })
}

// fixed resolves the filter of every statement, and the status column.
func (r *resolver) fixed() {
	r.t.where = r.filter("table.where", r.t.m.Where)
	if r.t.where.cond != "" {
		r.t.whereUnsearched = r.t.text.WithoutIndex(r.t.where.cond)
	}
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

// DB is the database of the table.
func (t *Table) DB() *DB { return t.db }

// Catalog is what the database says about the table.
func (t *layout) Catalog() *catalog { return t.catalog }

// Mapping says what the columns mean.
func (t *layout) Mapping() mapping.Mapping { return t.m }

// Ping implements [backlog.Pinger].
func (t *Table) Ping(ctx context.Context) error {
	return t.db.QueryOne(ctx, "SELECT 1 FROM "+t.name+" LIMIT 1", nil, new(int))
}

// Probe implements [backlog.Prober]: it returns nil when the table can be read, has each column
// that passes read, and the database lets a transaction begin that writes, which in SQLite
// another program may prevent. It changes nothing.
func (t *Table) Probe(ctx context.Context) error {
	if err := t.Ping(ctx); err != nil {
		return err
	}
	if err := t.db.QueryOne(ctx, t.columnsText(), nil, new(any)); err != nil {
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

// columnsText is a query for no row that names what passes read.
func (t *layout) columnsText() string {
	states := lists.NonEmpty(t.dead.cond)
	for _, b := range t.branches {
		states = append(states, b.cond)
	}
	return t.recordsText(never+" AND ("+strings.Join(states, " OR ")+")", "", true)
}

// Open makes a store of a table in the database. A [*Problem] says why the table does
// not fit. now is the present, by which dates of insertion are found right or wrong.
//
// What the mapping leaves out has the default of a configuration file: the key
// id, the column status, the column date_inserted, NEW, ERROR and SUCCESS. The
// table's name has none.
//
// With the columns of the refresh policy it is a store for that one:
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

// OpenDB is Open for a database that the program has opened itself. The pool stays the
// program's, which closes it. Its sessions must be set up as docs/go.md says; one
// connection is looked at, and what it shows to be set up otherwise is refused. Two
// connections let the next records be read while outcomes are written; each lock of a
// server keeps another.
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

// A filter is a list of conditions that hold together.
type filter struct {
	cond   string         // SQL; "" for none
	equal  map[string]any // quoted: the columns with one value
	prefix []string       // quoted: the columns of equal with which an index begins
}

// A branch is one of the conditions under which a row is in a lane. A lane is
// read by one query per branch: a planner can then follow an index through
// each, where a single query over several conditions would have to sort.
type branch struct {
	filter
	lane  backlog.Lane
	label string // the status as text, where no status column is read

	base      string // SQL: cond without what a policy adds
	page      string // SQL: what pages ask for beside the class
	index     string // SQL: the condition of an index for pages
	guard     string // SQL: what settlement asks for, cond or exhausted; "": cond
	exhausted string // SQL for those that a policy has given up; "" if none are
	shown     string // SQL: what people are shown as this state; "": cond
	what      string // SQL: what check calls its pages by; "": cond
}

// An assign is a column with the SQL text of its new value.
type assign struct {
	col   string                        // quoted
	expr  string                        // SQL
	time  *timeCol                      // in whose form the present time is bound; nil: none is
	of    func(*backlog.Settlement) any // what is bound; nil: nothing is
	fixed bool                          // it is set to value, whatever the row has
	value any
}

// An action is what a kind of settlement writes.
type action struct {
	status []assign // of the state
	also   []assign // touch, attempts, kept columns, the error's text
}

// resolve turns the mapping into SQL against the catalogue. Every column that
// is named is looked up, since a misspelt quoted name is a string to some
// databases.
type resolver struct {
	t   *Table
	err error // the first problem; what is resolved behind it is of no use
}

// refuse is a problem of the mapping.
func (r *resolver) refuse(hint, format string, args ...any) {
	r.err = cmp.Or(r.err, problem(hint, format, args...))
}

func (r *resolver) column(setting, name string) *column {
	c := r.t.catalog.Find(name, r.t.text.FoldsNames)
	if c == nil {
		r.lacks(setting, name)
		return &column{Name: name}
	}
	return c
}

// lacks notes a column that is not there, each once: all of them are told.
func (r *resolver) lacks(setting, name string) {
	err := r.t.catalog.MissingColumn(setting, r.t.m.Name, name)
	if all, more := r.err.(*db.Problems); more {
		if !slices.ContainsFunc(all.List, func(o error) bool { return strings.Contains(o.Error(), fmt.Sprintf(" has no column %q; ", name)) }) {
			r.err = &db.Problems{List: append(slices.Clip(all.List), err)}
		}
	} else if r.err == nil {
		r.err = &db.Problems{List: []error{err}}
	}
}

// writable is column for one that is to be written.
func (r *resolver) writable(setting, name string) *column {
	c := r.column(setting, name)
	if c.Generated {
		r.refuse("name another", "%s: column %s is computed by the database and cannot be written", setting, c.Name)
	}
	return c
}

// typed is the value as the column has it.
func (r *resolver) typed(setting string, col *column, v mapping.Value) any {
	value, err := col.Convert(v)
	if err != nil {
		r.refuse(fmt.Sprintf("give %s a value that the column can hold", setting), "%s: %v", setting, err)
	}
	return value
}

// condition returns the SQL for the column's values and, if it is a single one, that.
func (r *resolver) condition(setting string, col *column, values []mapping.Value) (sql string, value any) {
	name := r.t.text.Quote(col.Name)
	var alternatives, literals []string
	for _, v := range values {
		if value = r.typed(setting, col, v); value == nil {
			alternatives = append(alternatives, name+" IS NULL")
		} else {
			literals = append(literals, r.t.text.Literal(value))
		}
	}
	if len(literals) == 1 {
		alternatives = append(alternatives, name+" = "+literals[0])
	} else if len(literals) > 1 {
		alternatives = append(alternatives, name+" IN ("+strings.Join(literals, ", ")+")")
	}
	if len(alternatives) == 1 {
		return alternatives[0], value
	}
	return "(" + strings.Join(alternatives, " OR ") + ")", value
}

func (r *resolver) filter(setting string, list []mapping.Condition) filter {
	f := filter{equal: make(map[string]any)}
	var all []string
	for _, c := range list {
		col := r.column(setting, c.Column)
		cond, value := r.condition(setting, col, c.Values)
		all = append(all, cond)
		if name := r.t.text.Quote(col.Name); len(c.Values) == 1 {
			f.equal[name] = value
			if r.t.text.EqualFirst {
				f.prefix = append(f.prefix, name)
			}
		}
	}
	f.cond = strings.Join(all, " AND ")
	return f
}

// branches returns the conditions of a pending state: one for each status.
func (r *resolver) branches(setting string, s mapping.State, lane backlog.Lane) (list []branch) {
	defer r.unheld(setting, s)()
	if len(s.When) > 0 {
		label := map[backlog.Lane]string{backlog.Fresh: "new", backlog.Failed: "error"}[lane]
		return []branch{{lane: lane, label: label, filter: r.filter(setting, s.When)}}
	}
	for _, v := range s.Values {
		is := []mapping.Condition{{Column: r.t.m.Status, Values: []mapping.Value{v}}}
		b := branch{lane: lane, label: v.Text, filter: r.filter(setting, is)}
		if !slices.ContainsFunc(list, b.same) { // 1 and '1' are one value of a number's column
			list = append(list, b)
		}
	}
	return list
}

func (b *branch) same(o branch) bool { return o.cond == b.cond }

// unheld returns what adds to an error that comes until then about a status that nobody
// has written down where it comes from.
func (r *resolver) unheld(setting string, s mapping.State) func() {
	had := r.err
	return func() {
		if had == nil && r.err != nil && !s.Explicit {
			r.err = fmt.Errorf("%w (%s is not given, this is its default)", r.err, setting)
		}
	}
}

// assigns returns what setting the state writes.
func (r *resolver) assigns(setting string, s mapping.State) []assign {
	defer r.unheld(setting, s)()
	set := s.Set
	if len(s.Values) > 0 {
		set = []mapping.Assignment{{Column: r.t.m.Status, Value: s.Values[0]}}
	}
	return lists.Map(set, func(a mapping.Assignment) assign { return r.assign(setting, a) })
}

// assign returns one assignment.
func (r *resolver) assign(setting string, a mapping.Assignment) assign {
	col := r.writable(setting, a.Column)
	out := assign{col: r.t.text.Quote(col.Name)}
	switch {
	case a.Value.IsNow():
		out.expr, out.time = "?", r.t.timeOf(col)
		return out
	case a.Value.IsIncrement():
		out.expr = col.IncrementExpr(out.col)
		return out
	}
	out.value = r.typed(setting, col, a.Value)
	if out.value == nil && col.NotNull {
		r.refuse("give it a value", "%s: column %s must not be NULL", setting, col.Name)
	}
	if s, ok := out.value.(string); ok && col.MaxLength > 0 && len([]rune(s)) > col.MaxLength {
		r.refuse("write a shorter one", "%s: %q is longer than column %s allows (%s)", setting, s, col.Name, col.Decl)
	}
	out.expr, out.fixed = r.t.text.Literal(out.value), true
	return out
}

// states fills in the table's branches and actions.
func (r *resolver) states() {
	t, m := r.t, r.t.m
	fresh := r.branches("statuses.new", m.New, backlog.Fresh)
	failed := r.branches("statuses.error", m.Error, backlog.Failed)
	t.success, t.dead = r.end("statuses.success", m.Success).cond, r.end("statuses.dead", m.Dead)
	dead := r.branches("statuses.dead", m.Dead, backlog.Failed) // no lane: to compare with
	t.branches = fresh
	for _, b := range failed {
		switch {
		case slices.ContainsFunc(fresh, b.same):
			r.noteUncounted("statuses.error is one of statuses.new")
		case slices.ContainsFunc(dead, b.same):
			t.Notef("statuses.error is statuses.dead: a record that fails once is never tried again")
		default:
			t.branches = append(t.branches, b)
		}
	}
	if m.Error.Keep || len(failed) == 0 {
		r.noteUncounted("no error status is written")
	}
	r.lanes()
}

// noteUncounted notes why no status tells that a record has failed, where its row does not
// count failures.
func (r *resolver) noteUncounted(why string) {
	if !r.t.policy.counts() {
		r.t.Notef("%s: failed records are not told from new ones, and age alone decides when they are tried", why)
	}
}

// end returns the condition of a state that is not pending, none if it cannot be
// told.
func (r *resolver) end(setting string, s mapping.State) filter {
	defer r.unheld(setting, s)()
	list := s.When
	if len(s.Values) > 0 {
		list = []mapping.Condition{{Column: r.t.m.Status, Values: s.Values}}
	}
	if len(list) == 0 { // what it sets tells it, but for times and counts
		for _, a := range s.Set {
			if !a.Value.IsNow() && !a.Value.IsIncrement() {
				list = append(list, mapping.Condition{Column: a.Column, Values: []mapping.Value{a.Value}})
			}
		}
	}
	if i := slices.IndexFunc(s.Set, r.isMoment); len(list) == 0 && i >= 0 {
		return filter{cond: r.t.text.Quote(r.column(setting, s.Set[i].Column).Name) + " IS NOT NULL"}
	}
	return r.filter(setting, list)
}

// isMoment reports whether a state is told by the time alone that it sets: no other
// state sets it, and what is new has none.
func (r *resolver) isMoment(a mapping.Assignment) bool {
	isNull := func(c mapping.Condition) bool {
		return strings.EqualFold(c.Column, a.Column) && len(c.Values) == 1 && c.Values[0].Null
	}
	setting := slices.DeleteFunc(r.t.m.States(), func(s mapping.Named) bool {
		return !slices.ContainsFunc(s.Set, func(o mapping.Assignment) bool { return strings.EqualFold(o.Column, a.Column) && !o.Value.Null })
	})
	return a.Value.IsNow() && len(setting) == 1 && slices.ContainsFunc(r.t.m.New.When, isNull)
}

func (r *resolver) actions() {
	m := r.t.m
	also, failed := r.touched(true), []assign(nil)
	if m.LastError != "" {
		c := r.writable("table.last_error", m.LastError)
		r.t.errCol = c
		failed = []assign{{col: r.t.text.Quote(c.Name), of: func(s *backlog.Settlement) any { return c.Fit(s.Error) }}}
	}
	dead := m.Dead
	if dead.IsZero() {
		dead = m.Error // nothing could remember the difference
	}
	r.t.actions[backlog.RowSuccess] = action{r.assigns("statuses.success", m.Success), slices.Concat(also, r.t.policy.success)}
	r.t.actions[backlog.RowError] = action{r.assigns("statuses.error", m.Error), slices.Concat(also, failed)}
	r.t.actions[backlog.RowDead] = action{r.assigns("statuses.dead", dead), slices.Concat(also, failed)}
}

// deaths resolves what a record becomes that is too old, and makes sure that a success is
// told from what is pending.
func (r *resolver) deaths() {
	t := r.t
	if len(t.actions[backlog.RowSuccess].status) == 0 {
		r.refuse("say what a success sets, such as success: {set: {done_at: now}}", "statuses.success writes nothing: a record that succeeded would be tried again")
	}
	if !t.m.Dead.IsZero() {
		set := slices.Concat(t.actions[backlog.RowDead].status, t.policy.expired, r.touched(false)) // no attempt is counted
		t.expireSet = onceEach(set)
	}
}

// onceEach leaves out what is said of a column after the first time.
func onceEach(list []assign) []assign {
	seen := make(map[string]bool)
	return slices.DeleteFunc(list, func(a assign) bool {
		twice := seen[a.col]
		seen[a.col] = true
		return twice
	})
}

// touched returns what is written beside the state: what table.touch says, the
// count of attempts if there was one, and the columns to be kept.
func (r *resolver) touched(attempt bool) (also []assign) {
	also = lists.Map(r.t.m.Touch, func(a mapping.Assignment) assign { return r.assign("table.touch", a) })
	if attempt && r.t.m.Attempts != "" {
		r.t.attempts = r.column("table.attempts", r.t.m.Attempts)
		also = append(also, r.assign("table.attempts", mapping.Assignment{Column: r.t.m.Attempts, Value: mapping.Value{Text: "+1"}}))
	}
	for _, tc := range r.t.times {
		if tc.spec.Keep {
			r.writable(tc.setting, tc.name)
			also = append(also, assign{col: tc.quoted, expr: tc.quoted})
		}
	}
	return also
}
