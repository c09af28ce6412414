package table

import (
	"fmt"
	"slices"
	"strings"

	"backlog/backlog"
)

// A branch is one of the conditions under which a row is in a lane. A lane is
// read by one query per branch: a planner can then follow an index through
// each, where a single query over several conditions would have to sort.
type branch struct {
	lane    backlog.Lane
	cond    string   // SQL
	columns []string // in cond
	lead    []string // quoted: those of one value, the first of an index
	label   string   // the status as text, where no status column is read
	equal   map[string]any

	base      string // SQL: cond without what a policy adds; "" if it adds nothing
	exhausted string // SQL for those that a policy has given up; "" if none are
}

// An assign is a column with the SQL text of its new value.
type assign struct {
	col  string // quoted
	expr string // SQL; "" where now is bound
	time *timeCol
}

// An action is what a kind of settlement writes.
type action struct {
	status []assign       // of the state
	equal  map[string]any // the plain values that status sets
	also   []assign       // touch, attempts, kept columns
	errCol *column        // takes the error's text, which is bound; nil: none does
}

// resolve turns the mapping into SQL against the catalogue. Every column that
// is named is looked up, since a misspelt quoted name is a string to some
// databases.
type resolver struct {
	t   *Table
	cat *catalog
	d   dialect
	m   Mapping
}

func (r *resolver) column(setting, name string) (*column, error) {
	c := r.cat.find(name, r.d.foldsNames())
	if c == nil {
		return nil, problem("the columns are: "+r.cat.names(), "%s: table %s has no column %q", setting, r.m.Name, name)
	}
	return c, nil
}

// writable is column for one that is to be written.
func (r *resolver) writable(setting, name string) (*column, error) {
	c, err := r.column(setting, name)
	if err == nil && c.generated {
		return nil, problem("name another", "%s: column %s is computed by the database and cannot be written", setting, c.name)
	}
	return c, err
}

// condition returns the SQL for one column's condition and, if it is a single
// value, that value.
func (r *resolver) condition(setting string, c Condition) (sql string, value any, err error) {
	col, err := r.column(setting, c.Column)
	if err != nil {
		return "", nil, err
	}
	name := r.d.quote(col.name)
	var alternatives, literals []string
	for _, v := range c.Values {
		value, err = col.typed(v)
		if err != nil {
			return "", nil, unfit(setting, err)
		}
		if value == nil {
			alternatives = append(alternatives, name+" IS NULL")
		} else {
			literals = append(literals, r.d.literal(value))
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

func (r *resolver) conditions(setting string, list []Condition) (sql string, equal map[string]any, err error) {
	var all []string
	equal = make(map[string]any)
	for _, c := range list {
		s, v, err := r.condition(setting, c)
		if err != nil {
			return "", nil, err
		}
		all = append(all, s)
		if len(c.Values) == 1 {
			equal[strings.ToLower(c.Column)] = v
		}
	}
	return strings.Join(all, " AND "), equal, nil
}

// branches returns the conditions of a pending state.
func (r *resolver) branches(setting string, s State, lane backlog.Lane) ([]branch, error) {
	if len(s.When) > 0 {
		cond, equal, err := r.conditions(setting, s.When)
		label := map[backlog.Lane]string{backlog.Fresh: "new", backlog.Failed: "error"}[lane]
		return []branch{{lane: lane, cond: cond, columns: r.columnsOf(s.When, false), lead: r.columnsOf(s.When, true), label: label, equal: equal}}, err
	}
	var list []branch
	for _, v := range s.Values {
		short := []Condition{{Column: r.m.Status, Values: []Value{v}}}
		cond, equal, err := r.conditions(setting, short)
		if err != nil {
			return nil, r.unheld(setting, s, err)
		}
		list = append(list, branch{lane: lane, cond: cond, columns: r.columnsOf(short, false), lead: r.columnsOf(short, true), label: v.Text, equal: equal})
	}
	return list, nil
}

// columnsOf returns the columns of conditions as the catalogue writes them, or
// quoted those with one value by which an index can begin.
func (r *resolver) columnsOf(list []Condition, lead bool) []string {
	var names []string
	for _, c := range list {
		col := r.cat.find(c.Column, r.d.foldsNames())
		switch {
		case col == nil:
		case !lead:
			names = append(names, col.name)
		case len(c.Values) == 1 && r.d.leads(c.Values[0].Null):
			names = append(names, r.d.quote(col.name))
		}
	}
	return names
}

// unfit is the problem of a value that is not of its column's type.
func unfit(setting string, err error) error {
	return problem(fmt.Sprintf("give %s a value that the column can hold", setting), "%s: %v", setting, err)
}

// unheld adds to an error about a status that nobody has written down where it
// comes from.
func (r *resolver) unheld(setting string, s State, err error) error {
	if s.Given {
		return err
	}
	return fmt.Errorf("%w (%s is not given, this is its default)", err, setting)
}

// assigns returns what setting the state writes.
func (r *resolver) assigns(setting string, s State) (list []assign, equal map[string]any, err error) {
	set := s.Set
	if len(s.Values) > 0 {
		set = []Assignment{{Column: r.m.Status, Value: s.Values[0]}}
	}
	equal = make(map[string]any)
	for _, a := range set {
		one, value, plain, err := r.assign(setting, a)
		if err != nil {
			return nil, nil, r.unheld(setting, s, err)
		}
		list = append(list, one)
		if plain {
			equal[strings.ToLower(a.Column)] = value
		}
	}
	return list, equal, nil
}

// assign returns one assignment; plain says that it sets a value.
func (r *resolver) assign(setting string, a Assignment) (out assign, value any, plain bool, err error) {
	col, err := r.writable(setting, a.Column)
	if err != nil {
		return assign{}, nil, false, err
	}
	name := r.d.quote(col.name)
	if !a.Value.Quoted && !a.Value.Null {
		switch a.Value.Text {
		case "now":
			return assign{col: name, time: r.t.timeOf(col)}, nil, false, nil
		case "+1":
			return assign{col: name, expr: oneMore(name, col)}, nil, false, nil
		}
	}
	value, err = col.typed(a.Value)
	if err != nil {
		return assign{}, nil, false, unfit(setting, err)
	}
	if value == nil && col.notNull {
		return assign{}, nil, false, problem("give it a value", "%s: column %s must not be NULL", setting, col.name)
	}
	if s, ok := value.(string); ok && col.length > 0 && len([]rune(s)) > col.length {
		return assign{}, nil, false, problem("write a shorter one", "%s: %q is longer than column %s allows (%s)", setting, s, col.name, col.decl)
	}
	return assign{col: name, expr: r.d.literal(value)}, value, true, nil
}

// oneMore counts one up, but not beyond what the column holds: an outcome must
// not fail to be written for a count.
func oneMore(quoted string, c *column) string {
	expr := "coalesce(" + quoted + ", 0) + 1"
	if c.most > 0 {
		return fmt.Sprintf("least(%s, %d)", expr, c.most)
	}
	return expr
}

// states fills in the table's branches and actions.
func (r *resolver) states() error {
	t, m := r.t, r.m
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
	if err := r.reset(); err != nil {
		return err
	}
	return r.actions()
}

// end returns the condition of a state that is not pending, "" if none can be
// told.
func (r *resolver) end(setting string, s State) (string, error) {
	list := s.When
	if len(s.Values) > 0 {
		list = []Condition{{Column: r.m.Status, Values: s.Values}}
	}
	if len(list) == 0 { // what it sets tells it, but for times and counts
		for _, a := range s.Set {
			if now := !a.Value.Quoted && (a.Value.Text == "now" || a.Value.Text == "+1"); !now || a.Value.Null {
				list = append(list, Condition{Column: a.Column, Values: []Value{a.Value}})
			}
		}
	}
	if len(list) == 0 {
		return r.moment(setting, s)
	}
	cond, _, err := r.conditions(setting, list)
	if err != nil {
		return "", r.unheld(setting, s, err)
	}
	return cond, nil
}

// moment returns the condition of a state that is told by a time alone: it is the
// only one to set it, and what is new has none.
func (r *resolver) moment(setting string, s State) (string, error) {
	m := r.m
	for _, a := range s.Set {
		isNull := func(c Condition) bool {
			return strings.EqualFold(c.Column, a.Column) && len(c.Values) == 1 && c.Values[0].Null
		}
		sets := 0
		for _, state := range []State{m.New, m.Error, m.Success, m.Dead} {
			if slices.ContainsFunc(state.Set, func(o Assignment) bool { return strings.EqualFold(o.Column, a.Column) && !o.Value.Null }) {
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
		return r.d.quote(c.name) + " IS NOT NULL", nil
	}
	return "", nil
}
