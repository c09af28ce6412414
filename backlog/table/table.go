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

// A Table is a [backlog.Store] over one table. It is safe for concurrent use.
//
// Begin, Overdue, Running and CountAttempts need a mapping for the refresh policy. With
// another mapping they return a [*Problem].
type Table struct {
	*layout
	db          *DB
	writer      writer
	prepared    db.Statements
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
		r.countedPolicy, r.states, r.requeueClauses, r.updates, r.deathClauses,
	}
	if m.Policy != nil && m.Policy.Refresh != nil {
		steps = []func(){
			r.keyColumns, r.deadlines, r.timeColumns, r.handlerColumns, r.fixedFilter,
			r.attemptLanes, r.requeueClauses, r.updates,
		}
		m = m.Refreshing(func(name string) bool { return cat.Find(name, d.Text().FoldsNames) != nil })
	}
	t := &Table{layout: &layout{database: d, text: d.Text(), m: m, catalog: cat, words: inspect.StatusWords}, db: d}
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
	t.selected = t.newPageColumns()
	t.noteCatalog()
	return t, nil
}

// declared notes what the catalogue says about writes to the table: triggers, an engine
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
		isSearched := q == t.status || q == t.inserted.quoted || slices.Contains(t.where.prefix, q)
		if c.PrefixIndexed && isSearched {
			t.Notef("column %s is %s, of which an index has only the beginnings: every page sorts all that is pending; with VARCHAR it would not", c.Name, c.Decl)
		}
		isIt := func(a setClause) bool { return a.column == q }
		kept := slices.ContainsFunc(t.updates[backlog.RowSuccess].others, isIt)
		if c.AutoUpdated && !kept {
			hint := ""
			if slices.ContainsFunc(t.times, func(tc *timeColumn) bool { return tc.name == c.Name && !tc.written }) {
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

// fixed resolves table.where, which is part of every statement, and the status column.
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

// Catalog returns what the database says about the table.
func (t *layout) Catalog() *catalog { return t.catalog }

// Mapping returns the mapping, with its defaults filled in.
func (t *layout) Mapping() mapping.Mapping { return t.m }

// Ping implements [backlog.Pinger].
func (t *Table) Ping(ctx context.Context) error {
	return t.db.QueryOne(ctx, "SELECT 1 FROM "+t.name+" LIMIT 1", nil, new(int))
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

// A filter is a list of conditions of the mapping, joined by AND.
type filter struct {
	cond   string         // SQL; "": no condition
	equal  map[string]any // columns, quoted, that must have this value
	prefix []string       // columns of equal, quoted, with which an index begins
}

// A pendingState is a condition under which rows belong to a lane, such as one status value.
// A lane is read with a query for each of its states, joined by UNION ALL: each query can
// follow an index, while a single query over several conditions would have to sort.
//
// The SQL conditions that are "" are the same as cond, except for exhaustedCond.
type pendingState struct {
	filter
	lane  backlog.Lane
	label string // the status as text, for a table without a status column

	statusCond    string // cond without the conditions of the policy
	pageCond      string // what pages ask for in addition to a waitClass
	indexCond     string // what a partial index for pages asks for
	guardCond     string // what a row must meet when it is settled: cond or exhaustedCond
	exhaustedCond string // rows that are out of retries; "": there are none
	shownCond     string // rows that people are shown in this state
	title         string // what check calls the pages of this state
}

// A setClause assigns a new value to a column in an UPDATE.
type setClause struct {
	column   string                        // quoted
	expr     string                        // SQL, with ? for a bound value
	now      *timeColumn                   // the bound value is the present time, in the form of this column
	valueOf  func(*backlog.Settlement) any // returns the bound value; nil: only now binds one
	constant bool                          // every row gets value
	value    any
}

// A stateUpdate is what a settlement writes for one target state.
type stateUpdate struct {
	status []setClause // the columns that define the state
	others []setClause // touch, attempts, kept columns, the text of the error
}

// A resolver resolves the mapping to columns of the catalogue. It looks up every column that
// the mapping names, since some databases take a misspelt quoted name for a string.
type resolver struct {
	t   *Table
	err error // the first problem; what is resolved after it is meaningless
}

// refuse records a problem of the mapping, unless there is one already.
func (r *resolver) refuse(hint, format string, args ...any) {
	r.err = cmp.Or(r.err, problem(hint, format, args...))
}

// column returns the named column. If it is missing, column records that and returns an empty
// column.
func (r *resolver) column(setting, name string) *column {
	c := r.t.catalog.Find(name, r.t.text.FoldsNames)
	if c == nil {
		r.lacks(setting, name)
		return &column{Name: name}
	}
	return c
}

// lacks records a missing column, so that one error lists all of them, each once.
func (r *resolver) lacks(setting, name string) {
	err := r.t.catalog.MissingColumn(setting, r.t.m.Name, name)
	if r.err == nil {
		r.err = &db.Problems{List: []error{err}}
		return
	}
	all, ok := r.err.(*db.Problems)
	if !ok {
		return // another problem came first
	}
	isListed := func(other error) bool {
		return strings.Contains(other.Error(), fmt.Sprintf(" has no column %q; ", name))
	}
	if !slices.ContainsFunc(all.List, isListed) {
		r.err = &db.Problems{List: append(slices.Clip(all.List), err)}
	}
}

// writable is [resolver.column] for a column that is written.
func (r *resolver) writable(setting, name string) *column {
	c := r.column(setting, name)
	if c.Generated {
		r.refuse("name another", "%s: column %s is computed by the database and cannot be written", setting, c.Name)
	}
	return c
}

// typed returns the value in the type of the column.
func (r *resolver) typed(setting string, col *column, v mapping.Value) any {
	value, err := col.Convert(v)
	if err != nil {
		r.refuse(fmt.Sprintf("give %s a value that the column can hold", setting), "%s: %v", setting, err)
	}
	return value
}

// condition returns the SQL condition that the column has one of the values, and the value if it
// is the only one.
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

// filter resolves conditions of the mapping.
func (r *resolver) filter(setting string, list []mapping.Condition) filter {
	f := filter{equal: make(map[string]any)}
	var all []string
	for _, c := range list {
		col := r.column(setting, c.Column)
		cond, value := r.condition(setting, col, c.Values)
		all = append(all, cond)
		if len(c.Values) != 1 {
			continue
		}
		name := r.t.text.Quote(col.Name)
		f.equal[name] = value
		if r.t.text.EqualFirst {
			f.prefix = append(f.prefix, name)
		}
	}
	f.cond = strings.Join(all, " AND ")
	return f
}

// pendingStates resolves a state of the mapping: one pendingState for each status value.
func (r *resolver) pendingStates(setting string, s mapping.State, lane backlog.Lane) (list []pendingState) {
	defer r.explainDefaults(setting, s)()
	if len(s.When) > 0 {
		label := "new"
		if lane == backlog.Failed {
			label = "error"
		}
		return []pendingState{{lane: lane, label: label, filter: r.filter(setting, s.When)}}
	}
	for _, v := range s.Values {
		is := []mapping.Condition{{Column: r.t.m.Status, Values: []mapping.Value{v}}}
		state := pendingState{lane: lane, label: v.Text, filter: r.filter(setting, is)}
		if !slices.ContainsFunc(list, state.isSame) { // to a column of numbers 1 and '1' are one value
			list = append(list, state)
		}
	}
	return list
}

// isSame reports whether both have the same rows.
func (s *pendingState) isSame(other pendingState) bool { return other.cond == s.cond }

// explainDefaults returns a function to defer. If a problem was recorded in between, the
// function adds that the status is a default, since the user will not find it in the file.
func (r *resolver) explainDefaults(setting string, s mapping.State) func() {
	had := r.err
	return func() {
		if had == nil && r.err != nil && !s.Explicit {
			r.err = fmt.Errorf("%w (%s is not given, this is its default)", r.err, setting)
		}
	}
}

// setClauses returns what puts a row into the state.
func (r *resolver) setClauses(setting string, s mapping.State) []setClause {
	defer r.explainDefaults(setting, s)()
	set := s.Set
	if len(s.Values) > 0 {
		set = []mapping.Assignment{{Column: r.t.m.Status, Value: s.Values[0]}}
	}
	return lists.Map(set, func(a mapping.Assignment) setClause { return r.setClause(setting, a) })
}

// setClause resolves an assignment of the mapping.
func (r *resolver) setClause(setting string, a mapping.Assignment) setClause {
	col := r.writable(setting, a.Column)
	out := setClause{column: r.t.text.Quote(col.Name)}
	switch {
	case a.Value.IsNow():
		out.expr = "?"
		out.now = r.t.timeOf(col)
		return out
	case a.Value.IsIncrement():
		out.expr = col.IncrementExpr(out.column)
		return out
	}
	out.value = r.typed(setting, col, a.Value)
	if out.value == nil && col.NotNull {
		r.refuse("give it a value", "%s: column %s must not be NULL", setting, col.Name)
	}
	if s, ok := out.value.(string); ok && col.MaxLength > 0 && len([]rune(s)) > col.MaxLength {
		r.refuse("write a shorter one", "%s: %q is longer than column %s allows (%s)", setting, s, col.Name, col.Decl)
	}
	out.expr = r.t.text.Literal(out.value)
	out.constant = true
	return out
}

// states resolves the statuses of the mapping.
func (r *resolver) states() {
	t := r.t
	m := t.m
	fresh := r.pendingStates("statuses.new", m.New, backlog.Fresh)
	failed := r.pendingStates("statuses.error", m.Error, backlog.Failed)
	t.success = r.endCondition("statuses.success", m.Success).cond
	t.dead = r.endCondition("statuses.dead", m.Dead)
	dead := r.pendingStates("statuses.dead", m.Dead, backlog.Failed) // only to compare with
	t.states = fresh
	for _, state := range failed {
		switch {
		case slices.ContainsFunc(fresh, state.isSame):
			r.noteUncounted("statuses.error is one of statuses.new")
		case slices.ContainsFunc(dead, state.isSame):
			t.Notef("statuses.error is statuses.dead: a record that fails once is never tried again")
		default:
			t.states = append(t.states, state)
		}
	}
	if m.Error.Keep || len(failed) == 0 {
		r.noteUncounted("no error status is written")
	}
	r.lanes()
}

// noteUncounted notes why no status distinguishes failed records from new ones, unless rows
// count failures.
func (r *resolver) noteUncounted(why string) {
	if !r.t.policy.counts() {
		r.t.Notef("%s: failed records are not told from new ones, and age alone decides when they are tried", why)
	}
}

// endCondition returns the condition of a state that is not pending. It is empty if rows in
// that state cannot be recognized.
func (r *resolver) endCondition(setting string, s mapping.State) filter {
	defer r.explainDefaults(setting, s)()
	list := s.When
	if len(s.Values) > 0 {
		list = []mapping.Condition{{Column: r.t.m.Status, Values: s.Values}}
	}
	if len(list) == 0 { // the state is recognized by what it sets, except for times and counts
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

// isMoment reports whether the assignment sets a time that only rows in its state have: no
// other state sets the column, and it is NULL in new rows.
func (r *resolver) isMoment(a mapping.Assignment) bool {
	isNull := func(c mapping.Condition) bool {
		return strings.EqualFold(c.Column, a.Column) && len(c.Values) == 1 && c.Values[0].Null
	}
	setsIt := func(o mapping.Assignment) bool { return strings.EqualFold(o.Column, a.Column) && !o.Value.Null }
	setting := 0
	for _, s := range r.t.m.States() {
		if slices.ContainsFunc(s.Set, setsIt) {
			setting++
		}
	}
	return a.Value.IsNow() && setting == 1 && slices.ContainsFunc(r.t.m.New.When, isNull)
}

// updates resolves what settlements write.
func (r *resolver) updates() {
	m := r.t.m
	also := r.otherClauses(true)
	var failed []setClause
	if m.LastError != "" {
		c := r.writable("table.last_error", m.LastError)
		r.t.errorColumn = c
		lastError := func(s *backlog.Settlement) any { return c.Fit(s.Error) }
		failed = []setClause{{column: r.t.text.Quote(c.Name), valueOf: lastError}}
	}
	dead := m.Dead
	if dead.IsZero() {
		dead = m.Error // no status distinguishes the two
	}
	r.t.updates[backlog.RowSuccess] = stateUpdate{r.setClauses("statuses.success", m.Success), slices.Concat(also, r.t.policy.success)}
	r.t.updates[backlog.RowError] = stateUpdate{r.setClauses("statuses.error", m.Error), slices.Concat(also, failed)}
	r.t.updates[backlog.RowDead] = stateUpdate{r.setClauses("statuses.dead", dead), slices.Concat(also, failed)}
}

// deathClauses resolves what is written to a record that is too old, and makes sure that a
// success is written at all.
func (r *resolver) deathClauses() {
	t := r.t
	if len(t.updates[backlog.RowSuccess].status) == 0 {
		r.refuse("say what a success sets, such as success: {set: {done_at: now}}", "statuses.success writes nothing: a record that succeeded would be tried again")
	}
	if !t.m.Dead.IsZero() {
		set := slices.Concat(t.updates[backlog.RowDead].status, t.policy.expired, r.otherClauses(false))
		t.expireSet = onceEach(set)
	}
}

// onceEach keeps the first clause of each column.
func onceEach(list []setClause) []setClause {
	seen := make(map[string]bool)
	return slices.DeleteFunc(list, func(a setClause) bool {
		twice := seen[a.column]
		seen[a.column] = true
		return twice
	})
}

// otherClauses returns what is written in addition to the state: table.touch, one more
// attempt if there was one, and the columns whose value the database must not renew.
func (r *resolver) otherClauses(attempt bool) (also []setClause) {
	for _, a := range r.t.m.Touch {
		also = append(also, r.setClause("table.touch", a))
	}
	if attempt && r.t.m.Attempts != "" {
		r.t.attemptsColumn = r.column("table.attempts", r.t.m.Attempts)
		also = append(also, r.setClause("table.attempts", mapping.Assignment{Column: r.t.m.Attempts, Value: mapping.Value{Text: "+1"}}))
	}
	for _, tc := range r.t.times {
		if tc.spec.Keep {
			r.writable(tc.setting, tc.name)
			also = append(also, setClause{column: tc.quoted, expr: tc.quoted})
		}
	}
	return also
}
