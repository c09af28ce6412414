package table

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table/db"
	"backlog/internal/lists"
)

// A filter is a list of conditions of the mapping, joined by AND.
type filter struct {
	cond        string         // SQL; "": no condition
	equal       map[string]any // columns, quoted, that must have this value
	indexPrefix []string       // columns of equal, quoted, with which an index begins
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
	column     string                        // quoted
	expr       string                        // SQL, with ? for a bound value
	nowColumn  *timeColumn                   // the bound value is the present time, in the form of this column
	valueOf    func(*backlog.Settlement) any // returns the bound value; nil: only nowColumn binds one
	constant   bool                          // every row gets value
	value      any
	keepsLater *timeColumn // of a valueOf: the row keeps a time of this column that is later than the bound one
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
			f.indexPrefix = append(f.indexPrefix, name)
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
	return lists.Map(set, func(a mapping.Assignment) setClause { return r.resolveSetClause(setting, a) })
}

// resolveSetClause resolves an assignment of the mapping.
func (r *resolver) resolveSetClause(setting string, a mapping.Assignment) setClause {
	col := r.writable(setting, a.Column)
	quoted := r.t.text.Quote(col.Name)
	switch {
	case a.Value.IsNow():
		return setClause{column: quoted, expr: "?", nowColumn: r.t.timeOf(col)}
	case a.Value.IsIncrement():
		return setClause{column: quoted, expr: col.IncrementExpr(quoted)}
	}
	value := r.constant(setting, col, a.Value)
	return setClause{column: quoted, expr: r.t.text.Literal(value), constant: true, value: value}
}

// constant returns the value of an assignment that gives every row the same one, in the type of the
// column.
func (r *resolver) constant(setting string, col *column, v mapping.Value) any {
	value := r.typed(setting, col, v)
	if value == nil && col.NotNull {
		r.refuse("give it a value", "%s: column %s must not be NULL", setting, col.Name)
	}
	text, isText := value.(string)
	isTooLong := isText && col.MaxLength > 0 && len([]rune(text)) > col.MaxLength
	if isTooLong {
		r.refuse("write a shorter one", "%s: %q is longer than column %s allows (%s)", setting, text, col.Name, col.Decl)
	}
	return value
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
		also = append(also, r.resolveSetClause("table.touch", a))
	}
	if attempt && r.t.m.Attempts != "" {
		r.t.attemptsColumn = r.column("table.attempts", r.t.m.Attempts)
		also = append(also, r.resolveSetClause("table.attempts", mapping.Assignment{Column: r.t.m.Attempts, Value: mapping.Value{Text: "+1"}}))
	}
	for _, tc := range r.t.times {
		if tc.spec.Keep {
			r.writable(tc.setting, tc.name)
			also = append(also, setClause{column: tc.quoted, expr: tc.quoted})
		}
	}
	return also
}
