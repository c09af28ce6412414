package table

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table/db"
)

// A filter is a list of conditions that hold together.
type filter struct {
	cond    string         // SQL; "" for none
	columns []string       // in it
	equal   map[string]any // quoted: those with one value
	prefix  []string       // quoted: those of equal with which an index begins
}

// A branch is one of the conditions under which a row is in a lane. A lane is
// read by one query per branch: a planner can then follow an index through
// each, where a single query over several conditions would have to sort.
type branch struct {
	filter
	lane  backlog.Lane
	label string // the status as text, where no status column is read

	base      string // SQL: cond without what a policy adds; "" if it adds nothing
	guard     string // SQL: what settlement asks for, cond or exhausted; "": cond
	exhausted string // SQL for those that a policy has given up; "" if none are
}

// An assign is a column with the SQL text of its new value.
type assign struct {
	col   string   // quoted
	expr  string   // SQL
	time  *timeCol // of which the present time is bound; nil: none is
	fixed bool     // it is set to value, whatever the row has
	value any
}

// An action is what a kind of settlement writes.
type action struct {
	status []assign // of the state
	also   []assign // touch, attempts, kept columns
	errCol *column  // takes the error's text, which is bound; nil: none does
}

// resolve turns the mapping into SQL against the catalogue. Every column that
// is named is looked up, since a misspelt quoted name is a string to some
// databases.
type resolver struct {
	t    *Table
	cat  *catalog
	text *db.Text
	m    mapping.Mapping
}

func (r *resolver) column(setting, name string) (*column, error) {
	c := r.cat.Find(name, r.text.FoldsNames)
	if c == nil {
		return nil, problem("the columns are: "+r.cat.Names(), "%s: table %s has no column %q", setting, r.m.Name, name)
	}
	return c, nil
}

// writable is column for one that is to be written.
func (r *resolver) writable(setting, name string) (*column, error) {
	c, err := r.column(setting, name)
	if err == nil && c.Generated {
		return nil, problem("name another", "%s: column %s is computed by the database and cannot be written", setting, c.Name)
	}
	return c, err
}

// condition returns the SQL for the column's values and, if it is a single one, that.
func (r *resolver) condition(setting string, col *column, values []mapping.Value) (sql string, value any, err error) {
	name := r.text.Quote(col.Name)
	var alternatives, literals []string
	for _, v := range values {
		value, err = col.Typed(v)
		if err != nil {
			return "", nil, unfit(setting, err)
		}
		if value == nil {
			alternatives = append(alternatives, name+" IS NULL")
		} else {
			literals = append(literals, r.text.Literal(value))
		}
	}
	switch len(literals) {
	case 0:
	case 1:
		alternatives = append(alternatives, name+" = "+literals[0])
	default:
		alternatives = append(alternatives, name+" IN ("+strings.Join(literals, ", ")+")")
	}
	if len(alternatives) == 1 {
		return alternatives[0], value, nil
	}
	return "(" + strings.Join(alternatives, " OR ") + ")", value, nil
}

func (r *resolver) filter(setting string, list []mapping.Condition) (f filter, err error) {
	var all []string
	f.equal = make(map[string]any)
	for _, c := range list {
		col, err := r.column(setting, c.Column)
		if err != nil {
			return f, err
		}
		cond, value, err := r.condition(setting, col, c.Values)
		if err != nil {
			return f, err
		}
		all, f.columns = append(all, cond), append(f.columns, col.Name)
		if name := r.text.Quote(col.Name); len(c.Values) == 1 {
			f.equal[name] = value
			if r.text.SearchedFirst {
				f.prefix = append(f.prefix, name)
			}
		}
	}
	f.cond = strings.Join(all, " AND ")
	return f, nil
}

// branches returns the conditions of a pending state: one for each status.
func (r *resolver) branches(setting string, s mapping.State, lane backlog.Lane) (list []branch, err error) {
	alternatives, labels := [][]mapping.Condition{s.When}, []string{map[backlog.Lane]string{backlog.Fresh: "new", backlog.Failed: "error"}[lane]}
	if len(s.When) == 0 {
		alternatives, labels = nil, nil
		for _, v := range s.Values {
			alternatives = append(alternatives, []mapping.Condition{{Column: r.m.Status, Values: []mapping.Value{v}}})
			labels = append(labels, v.Text)
		}
	}
	for i, when := range alternatives {
		b := branch{lane: lane, label: labels[i]}
		if b.filter, err = r.filter(setting, when); err != nil {
			return nil, r.unheld(setting, s, err)
		}
		same := func(o branch) bool { return o.cond == b.cond }
		if !slices.ContainsFunc(list, same) { // 1 and '1' are one value of a number's column
			list = append(list, b)
		}
	}
	return list, nil
}

// unfit is the problem of a value that is not of its column's type.
func unfit(setting string, err error) error {
	return problem(fmt.Sprintf("give %s a value that the column can hold", setting), "%s: %v", setting, err)
}

// unheld adds to an error about a status that nobody has written down where it
// comes from.
func (r *resolver) unheld(setting string, s mapping.State, err error) error {
	if s.Given {
		return err
	}
	return fmt.Errorf("%w (%s is not given, this is its default)", err, setting)
}

// assigns returns what setting the state writes.
func (r *resolver) assigns(setting string, s mapping.State) (list []assign, err error) {
	set := s.Set
	if len(s.Values) > 0 {
		set = []mapping.Assignment{{Column: r.m.Status, Value: s.Values[0]}}
	}
	for _, a := range set {
		one, err := r.assign(setting, a)
		if err != nil {
			return nil, r.unheld(setting, s, err)
		}
		list = append(list, one)
	}
	return list, nil
}

// assign returns one assignment.
func (r *resolver) assign(setting string, a mapping.Assignment) (out assign, err error) {
	col, err := r.writable(setting, a.Column)
	if err != nil {
		return out, err
	}
	out.col = r.text.Quote(col.Name)
	if !a.Value.Quoted && !a.Value.Null {
		switch a.Value.Text {
		case "now":
			out.expr, out.time = "?", r.t.timeOf(col)
			return out, nil
		case "+1":
			out.expr = col.OneMore(out.col)
			return out, nil
		}
	}
	if out.value, err = col.Typed(a.Value); err != nil {
		return out, unfit(setting, err)
	}
	if out.value == nil && col.NotNull {
		return out, problem("give it a value", "%s: column %s must not be NULL", setting, col.Name)
	}
	if s, ok := out.value.(string); ok && col.Length > 0 && len([]rune(s)) > col.Length {
		return out, problem("write a shorter one", "%s: %q is longer than column %s allows (%s)", setting, s, col.Name, col.Decl)
	}
	out.expr, out.fixed = r.text.Literal(out.value), true
	return out, nil
}

// states fills in the table's branches and actions.
func (r *resolver) states() error {
	t, m := r.t, r.m
	if t.refresh != nil {
		r.refreshLanes()
		return cmp.Or(r.requeue(), r.actions())
	}
	fresh, err := r.branches("statuses.new", m.New, backlog.Fresh)
	if err != nil {
		return err
	}
	failed, err := r.branches("statuses.error", m.Error, backlog.Failed)
	if err != nil {
		return err
	}
	if t.success, err = r.end("statuses.success", m.Success); err != nil {
		return err
	}
	if t.dead, err = r.end("statuses.dead", m.Dead); err != nil {
		return err
	}
	dead, err := r.branches("statuses.dead", m.Dead, backlog.Failed) // no lane: to compare with
	if err != nil {
		return err
	}
	t.branches = fresh
	for _, b := range failed {
		same := func(o branch) bool { return o.cond == b.cond }
		switch {
		case slices.ContainsFunc(fresh, same) && t.retry != nil:
		case slices.ContainsFunc(fresh, same):
			t.note("statuses.error is one of statuses.new: failed records are not told from new ones, and age alone decides when they are tried")
		case slices.ContainsFunc(dead, same):
			t.note("statuses.error is statuses.dead: a record that fails once is never tried again")
		default:
			t.branches = append(t.branches, b)
			t.failedLane = true
		}
	}
	if t.retry == nil && (m.Error.Keep || len(failed) == 0) {
		t.note("no error status is written: failed records are not told from new ones, and age alone decides when they are tried")
	}
	r.retryLanes()
	if err := r.requeue(); err != nil {
		return err
	}
	return r.actions()
}

// end returns the condition of a state that is not pending, "" if none can be
// told.
func (r *resolver) end(setting string, s mapping.State) (string, error) {
	list := s.When
	if len(s.Values) > 0 {
		list = []mapping.Condition{{Column: r.m.Status, Values: s.Values}}
	}
	if len(list) == 0 { // what it sets tells it, but for times and counts
		for _, a := range s.Set {
			if now := !a.Value.Quoted && (a.Value.Text == "now" || a.Value.Text == "+1"); !now || a.Value.Null {
				list = append(list, mapping.Condition{Column: a.Column, Values: []mapping.Value{a.Value}})
			}
		}
	}
	if len(list) == 0 {
		return r.moment(setting, s)
	}
	f, err := r.filter(setting, list)
	if err != nil {
		return "", r.unheld(setting, s, err)
	}
	return f.cond, nil
}

// moment returns the condition of a state that is told by a time alone: it is the
// only one to set it, and what is new has none.
func (r *resolver) moment(setting string, s mapping.State) (string, error) {
	m := r.m
	for _, a := range s.Set {
		isNull := func(c mapping.Condition) bool {
			return strings.EqualFold(c.Column, a.Column) && len(c.Values) == 1 && c.Values[0].Null
		}
		sets := 0
		for _, state := range []mapping.State{m.New, m.Error, m.Success, m.Dead} {
			if slices.ContainsFunc(state.Set, func(o mapping.Assignment) bool { return strings.EqualFold(o.Column, a.Column) && !o.Value.Null }) {
				sets++
			}
		}
		if a.Value.Text != "now" || sets != 1 || !slices.ContainsFunc(m.New.When, isNull) {
			continue
		}
		c, err := r.column(setting, a.Column)
		if err != nil {
			return "", err
		}
		return r.text.Quote(c.Name) + " IS NOT NULL", nil
	}
	return "", nil
}

func (r *resolver) actions() error {
	m := r.m
	also, err := r.touched(true)
	if err != nil {
		return err
	}
	dead := m.Dead
	if dead.IsZero() {
		dead = m.Error // nothing could remember the difference
	}
	for _, x := range []struct {
		target  backlog.RowState
		setting string
		state   mapping.State
	}{
		{backlog.RowSuccess, "statuses.success", m.Success},
		{backlog.RowError, "statuses.error", m.Error},
		{backlog.RowDead, "statuses.dead", dead},
	} {
		a := action{also: also}
		if x.target == backlog.RowSuccess && r.t.retry != nil {
			a.also = slices.Concat(also, r.t.retry.done)
		}
		if a.status, err = r.assigns(x.setting, x.state); err != nil {
			return err
		}
		if x.target == backlog.RowSuccess && len(a.status) == 0 && r.t.refresh == nil {
			return problem("say what a success sets, such as success: {set: {done_at: now}}", "statuses.success writes nothing: a record that succeeded would be tried again")
		}
		if m.LastError != "" && x.target != backlog.RowSuccess {
			c, err := r.writable("table.last_error", m.LastError)
			if err != nil {
				return err
			}
			a.errCol = c
		}
		r.t.actions[x.target] = a
	}
	if m.Dead.IsZero() || r.t.refresh != nil {
		return nil
	}
	touch, err := r.touched(false) // no attempt is counted
	if err != nil {
		return err
	}
	set := slices.Clone(r.t.actions[backlog.RowDead].status)
	if r.t.retry != nil {
		set = append(set, r.t.retry.ended...)
	}
	r.t.expireSet = onceEach(append(set, touch...))
	return nil
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
func (r *resolver) touched(attempt bool) (also []assign, err error) {
	add := func(setting string, a mapping.Assignment) {
		one, wrong := r.assign(setting, a)
		also, err = append(also, one), cmp.Or(err, wrong)
	}
	for _, a := range r.m.Touch {
		add("table.touch", a)
	}
	if attempt && r.m.Attempts != "" {
		add("table.attempts", mapping.Assignment{Column: r.m.Attempts, Value: mapping.Value{Text: "+1"}})
	}
	for _, tc := range r.t.times {
		if tc.keep {
			_, wrong := r.writable(tc.setting, tc.name)
			also, err = append(also, assign{col: tc.quoted, expr: tc.quoted}), cmp.Or(err, wrong)
		}
	}
	return also, err
}
