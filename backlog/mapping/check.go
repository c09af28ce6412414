package mapping

import (
	"fmt"
	"slices"
)

// Check reports where the table, the states and the policy contradict each
// other: after a record was handled, its outcome could not be written, or the
// record would be handled for ever. fail gets the path of a setting and the
// problem with it.
func (m *Mapping) Check(p Policy, fail func(path, problem string)) {
	m.checkHalves(fail)
	m.checkStates(fail)
	m.checkWrites(p, fail)
	if p.Once && !m.Dead.Given && m.failedIsNew() {
		fail("policy", p.Name+" needs failed records to be told from new ones, else each is tried again; "+
			"give statuses.error a value or condition of its own, or add statuses.dead")
	}
}

// FirstProblem returns the first of the problems that check reports, as an error, or nil.
func FirstProblem(check func(fail func(field, problem string))) (err error) {
	check(func(field, problem string) {
		if err == nil {
			err = fmt.Errorf("%s: %s", field, problem)
		}
	})
	return err
}

// checkHalves reports states whose set leads to where their own when is not met.
func (m *Mapping) checkHalves(fail func(path, problem string)) {
	for _, s := range m.States() {
		when := m.condition(State{When: s.When})
		for _, a := range s.Set {
			if values, ok := when[a.Column]; ok && !a.Value.IsIncrement() && excludes(values, a.Value) {
				fail("statuses."+s.Name+".set."+Show(a.Column), fmt.Sprintf(
					"sets %s, which is not what when asks for; a record would not be found in the state it was put in", a.Value))
			}
		}
	}
}

// checkStates reports outcomes that would leave a record in a state it should leave,
// or lead it to the state of another outcome.
func (m *Mapping) checkStates(fail func(path, problem string)) {
	isNew, isError := m.condition(m.New), m.condition(m.Error)
	success, dead := m.condition(m.Success), m.condition(m.Dead)
	refuse := func(state, problem, of string) {
		fail("statuses."+state, problem+"; write what does not meet the condition of "+of)
	}
	if m.leads(m.Success, isNew, isNew) {
		refuse("success", "a record that succeeded would still be new and be tried for ever", "new")
	}
	if m.leads(m.Success, isError, isError) {
		refuse("success", "a record that succeeded would still be in error and be tried for ever", "error")
	} else if m.leads(m.Error, success, isNew, isError) {
		refuse("error", "a failed record could not be told from one that succeeded", "success")
	}
	if m.leads(m.Dead, isNew, isNew) {
		refuse("dead", "a dead record would still be new and be tried for ever", "new")
	}
	if len(m.Error.Set) > 0 && len(m.Error.When) == 0 && !isNew.leadsTo(isNew, m.Error.Set) {
		fail("statuses.error", "a failed record would be neither new nor in error and never be tried again; add when")
	}
	switch {
	case m.leads(m.Dead, success, isNew, isError):
		refuse("dead", "a dead record could not be told from one that succeeded", "success")
	case m.leads(m.Success, dead, isNew, isError):
		refuse("success", "a record that succeeded would be dead", "dead")
	case sameSet(m.Dead.Set, m.Success.Set):
		fail("statuses.dead", "sets just what success does: a dead record could not be told from one that succeeded; set something else")
	}
}

// failedIsNew reports whether a record that has failed is still new.
func (m *Mapping) failedIsNew() bool {
	isNew := m.condition(m.New)
	return m.Error.Keep || isNew.leadsTo(isNew, m.ways(m.Error)[0]) // the first is what is written
}

// A condition holds, for columns that it speaks of, the values that meet it.
type condition map[string]map[Value]bool

// condition returns the state's, which is empty for a state without one.
func (m *Mapping) condition(s State) condition {
	if len(s.Values) > 0 {
		s.When = []Condition{{m.Status, s.Values}}
	}
	all := make(condition, len(s.When))
	for _, c := range s.When {
		all[c.Column] = make(map[Value]bool, len(c.Values))
		for _, v := range c.Values {
			all[c.Column][v.Plain()] = true
		}
	}
	return all
}

// leads reports whether some way into the state leads from one of the conditions
// to another.
func (m *Mapping) leads(s State, to condition, from ...condition) bool {
	return len(to) > 0 && slices.ContainsFunc(m.ways(s), func(set []Assignment) bool {
		return slices.ContainsFunc(from, func(c condition) bool { return c.leadsTo(to, set) })
	})
}

// leadsTo reports whether every record that met the condition meets the other
// one after the assignments. An increment is trusted to lead away.
func (c condition) leadsTo(to condition, set []Assignment) bool {
	for column, values := range to {
		if i := slices.IndexFunc(set, func(a Assignment) bool { return a.Column == column }); i >= 0 {
			if excludes(values, set[i].Value) {
				return false
			}
			continue
		}
		for v := range c[column] {
			if !values[v] {
				return false
			}
		}
		if len(c[column]) == 0 { // nothing is known of it
			return false
		}
	}
	return true
}

// excludes reports whether v is not among the values. A moment never is.
func excludes(values map[Value]bool, v Value) bool { return v.IsNow() || !values[v.Plain()] }

// ways returns the ways into a state: one for each value, or its assignments.
func (m *Mapping) ways(s State) (ways [][]Assignment) {
	for _, v := range s.Values {
		ways = append(ways, []Assignment{{m.Status, v}})
	}
	if len(s.Set) > 0 {
		ways = append(ways, s.Set)
	}
	return ways
}

// sameSet reports whether the assignments are the same, in any order.
func sameSet(a, b []Assignment) bool {
	return len(a) > 0 && len(a) == len(b) &&
		!slices.ContainsFunc(a, func(x Assignment) bool { return !slices.Contains(b, x) })
}

// A Policy is what a mapping has to know of the configured policy.
type Policy struct {
	Name    string
	Once    bool // no record is tried a second time, although the policy keeps no state
	Columns Names
}

// Names are the columns of a policy, each with its default name: the count, the
// time of the last failure and, if it plans, the time of the next attempt and
// whether one is planned.
type Names [][2]string

// checkWrites reports columns that would be written twice in one statement,
// which databases refuse, and key columns that would be written at all.
func (m *Mapping) checkWrites(p Policy, fail func(path, problem string)) {
	owner := make(map[string]string) // of a column that is taken: the path of the key that takes it
	claim := func(column, path string) {
		if by, taken := owner[column]; taken {
			fail(path, fmt.Sprintf("the column %s is taken by %s; remove one of them", Show(column), by))
		} else if column != "" {
			owner[column] = path
		}
	}
	for _, column := range m.ID {
		claim(column, "table.id")
	}
	claim(m.Status, "table.status")
	kept := make(map[string]bool)
	for i, t := range []*Time{&m.Inserted, m.Eligible, m.Expires} {
		if t != nil && t.Keep && !kept[t.Column] {
			kept[t.Column] = true
			claim(t.Column, []string{"table.inserted", "table.eligible", "table.expires"}[i]+".keep")
		}
	}
	for _, a := range m.Touch {
		claim(a.Column, "table.touch."+Show(a.Column))
	}
	claim(m.Attempts, "table.attempts")
	claim(m.LastError, "table.last_error")
	m.checkPolicy(p, claim, fail)
	for _, s := range m.States() {
		for _, a := range s.Set {
			if by, taken := owner[a.Column]; taken && !slices.Contains(maySet[by], s.Name) {
				fail("statuses."+s.Name+".set."+Show(a.Column), "the column is taken by "+by+"; remove one of them")
			}
		}
	}
}

// maySet has the states whose set may name a column that the key at the path
// takes. Attempts are not counted at a reset to new, and error texts are not
// written at a success either: both are there to be cleared.
var maySet = map[string][]string{
	"table.status": {"new", "error", "success", "dead"}, "table.attempts": {"new"}, "table.last_error": {"new", "success"},
}

// checkPolicy claims the columns that the policy writes.
func (m *Mapping) checkPolicy(p Policy, claim, fail func(string, string)) {
	refresh, count, last := p.Name == "refresh", 0, 1
	if refresh { // by the next start, which may be named as the date of insertion to say more about it
		count, last = AttemptNo, RefreshAt
	}
	for i, c := range p.Columns {
		column, path := c[0], "policy."+p.Name+".columns."+c[1]
		is := func(t *Time) bool { return t != nil && t.Column == column }
		touched := slices.IndexFunc(m.Touch, func(a Assignment) bool { return a.Column == column })
		switch {
		case slices.ContainsFunc(m.Where, func(w Condition) bool { return w.Column == column }):
			fail(path, "the column "+Show(column)+" is in table.where: a failure would take the record out of it; name another")
		case is(m.Eligible) && (refresh || i != 2), is(m.Expires), is(&m.Inserted) && i != last:
			fail(path, "the column "+Show(column)+" is one of the record's own times, which the policy would overwrite; name another")
		case i == count && column == m.Attempts:
			fail("table.attempts", fmt.Sprintf("the policy %s counts in the column %s already; remove table.attempts", p.Name, Show(column)))
		case i == last && touched >= 0 && !refresh && m.Touch[touched].Value.IsNow():
			// Each touch writes the time, and the policy writes a failure's.
		case i == last && touched >= 0 && !refresh:
			fail("table.touch."+Show(column), "the policy "+p.Name+" writes the time of a failure there; write now or remove it")
		default:
			claim(column, path)
		}
	}
}
