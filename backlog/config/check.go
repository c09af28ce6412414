package config

import (
	"slices"
	"strings"
)

// check notes where the table, the statuses and the policy contradict each
// other. Such things would come to light only after a record has been handled:
// its outcome cannot be written, or it is written and the record is handled for
// ever.
func (d *decoder) check(c *Config) {
	if d.failed("table") || d.failed("statuses") {
		return // half of it is missing and would be missed a second time
	}
	if d.checkStatusColumn(c) {
		d.checkStates(c)
		d.checkWrites(c)
		d.checkPolicy(c)
	}
}

// failed reports whether something is wrong with a part of the file.
func (d *decoder) failed(part string) bool {
	return slices.ContainsFunc(d.errs, func(e *Error) bool { return strings.HasPrefix(e.Key, part) })
}

// checkStatusColumn clears the name of the status column if it is a default
// and no state refers to it: such a table has none. It reports whether states
// and column go together.
func (d *decoder) checkStatusColumn(c *Config) (ok bool) {
	before := len(d.errs)
	_, named := d.lines["table.status"]
	long := false // whether a state is written in the long form
	for _, r := range roles {
		s := r.state(&c.Statuses)
		named = named || s.Given && s.mentions(c.Table.Status)
		long = long || len(s.When)+len(s.Set) > 0
	}
	if !named && long {
		c.Table.Status = ""
		for _, r := range roles {
			if s := r.state(&c.Statuses); len(s.Values) > 0 {
				write := r.name
				if r.name == "error" {
					write = "error: keep"
				}
				d.failf(join("statuses", r.name), "missing, and its default %s needs a status column, which no state here has; write %s, or table.status if there is one",
					s.Values[0].show(), write)
			}
		}
	}
	for _, w := range c.Table.Where {
		if w.Column == c.Table.Status {
			d.failf(join("table.where", w.Column), "this is the status column, of which statuses tells; remove it")
		}
	}
	return len(d.errs) == before
}

// mentions reports whether s refers to the column when it is that of statuses.
func (s *State) mentions(column string) bool {
	return len(s.Values) > 0 ||
		slices.ContainsFunc(s.When, func(c Condition) bool { return c.Column == column }) ||
		slices.ContainsFunc(s.Set, func(a Assignment) bool { return a.Column == column })
}

// checkStates notes states that cannot be told apart where they must be.
func (d *decoder) checkStates(c *Config) {
	s := &c.Statuses
	for _, r := range roles {
		d.checkHalves(r, s)
	}
	isNew, isError := s.New.admitted(c.Table.Status), s.Error.admitted(c.Table.Status)
	stays := func(s *State, in admitted) bool {
		return len(in) > 0 && slices.ContainsFunc(s.assignments(c.Table.Status), func(set []Assignment) bool {
			return !in.without(set)
		})
	}
	if stays(&s.Success, isNew) {
		d.failf("statuses.success", "a record that succeeded would still be new and be tried for ever; write what does not meet the condition of new")
	}
	if stays(&s.Success, isError) {
		d.failf("statuses.success", "a record that succeeded would still be in error and be tried for ever; write what does not meet the condition of error")
	}
	if stays(&s.Dead, isNew) {
		d.failf("statuses.dead", "a dead record would still be new and be tried for ever; write what does not meet the condition of new")
	}
	if len(s.Error.Set) > 0 && len(s.Error.When) == 0 && isNew.without(s.Error.Set) {
		d.failf("statuses.error", "a failed record would be neither new nor in error and never be tried again; add when")
	}
	d.checkSuccess(s, c.Table.Status)
}

// checkSuccess notes states in which a record could not be told from one that
// succeeded. What a success cannot be told from, checkStates has noted.
func (d *decoder) checkSuccess(s *Statuses, status string) {
	success, dead := s.Success.admitted(status), s.Dead.admitted(status)
	pending := []admitted{s.New.admitted(status), s.Error.admitted(status)}
	enters := func(s *State, to admitted) bool {
		return len(to) > 0 && slices.ContainsFunc(s.assignments(status), func(set []Assignment) bool {
			return slices.ContainsFunc(pending, func(from admitted) bool { return from.leadsTo(to, set) })
		})
	}
	switch {
	case enters(&s.Dead, success):
		d.failf("statuses.dead", "a dead record could not be told from one that succeeded; write what does not meet the condition of success")
	case enters(&s.Success, dead):
		d.failf("statuses.success", "a record that succeeded would be dead; write what does not meet the condition of dead")
	case sameSet(s.Dead.Set, s.Success.Set):
		d.failf("statuses.dead", "sets just what success does: a dead record could not be told from one that succeeded; set something else")
	}
	if enters(&s.Error, success) && !d.failed("statuses.success") {
		d.failf("statuses.error", "a failed record could not be told from one that succeeded; write what does not meet the condition of success")
	}
}

// sameSet reports whether the assignments are the same, in any order.
func sameSet(a, b []Assignment) bool {
	return len(a) > 0 && len(a) == len(b) &&
		!slices.ContainsFunc(a, func(x Assignment) bool { return !slices.Contains(b, x) })
}

// checkHalves notes a state whose set leads to where its own when is not met.
func (d *decoder) checkHalves(r role, s *Statuses) {
	when := r.state(s).admitted("")
	for _, a := range r.state(s).Set {
		if values, ok := when[a.Column]; ok && !a.Value.isIncrement() && excludes(values, a.Value) {
			d.failf(join(join("statuses."+r.name, "set"), a.Column), "sets %s, which is not what when asks for; a record would not be found in the state it was put in",
				a.Value.show())
		}
	}
}

// admitted holds, for columns that a condition speaks of, the values that meet
// it.
type admitted map[string]map[Value]bool

// admitted returns the state's condition. It is empty for a state without one.
func (s *State) admitted(status string) admitted {
	conditions := s.When
	if len(s.Values) > 0 {
		conditions = []Condition{{status, s.Values}}
	}
	all := make(admitted, len(conditions))
	for _, c := range conditions {
		values := make(map[Value]bool, len(c.Values))
		for _, v := range c.Values {
			values[v.plain()] = true
		}
		all[c.Column] = values
	}
	return all
}

// without reports whether a record that met the condition does not after the
// assignments. An increment is trusted to lead away.
func (c admitted) without(set []Assignment) bool {
	return slices.ContainsFunc(set, func(a Assignment) bool {
		values, ok := c[a.Column]
		return ok && excludes(values, a.Value)
	})
}

// leadsTo reports whether every record that met the condition meets the other
// one after the assignments.
func (c admitted) leadsTo(to admitted, set []Assignment) bool {
	for column, values := range to {
		i := slices.IndexFunc(set, func(a Assignment) bool { return a.Column == column })
		switch {
		case i >= 0 && excludes(values, set[i].Value):
			return false
		case i < 0 && len(c[column]) == 0:
			return false // nothing is known of it
		case i < 0:
			for v := range c[column] {
				if !values[v] {
					return false
				}
			}
		}
	}
	return true
}

// excludes reports whether v is not among the values. A moment never is.
func excludes(values map[Value]bool, v Value) bool {
	return v.isNow() || !values[v.plain()]
}

// assignments returns the ways into a state: one for each value, or the one
// that is written out.
func (s *State) assignments(status string) (ways [][]Assignment) {
	for _, v := range s.Values {
		ways = append(ways, []Assignment{{status, v}})
	}
	if len(s.Set) > 0 {
		ways = append(ways, s.Set)
	}
	return ways
}

// checkWrites notes columns that would be written twice in one statement,
// which databases refuse, and key columns that would be written at all.
func (d *decoder) checkWrites(c *Config) {
	owner := make(map[string]string) // of a column that is taken: the path of the key that takes it
	claim := func(column, path string) {
		if by, taken := owner[column]; taken {
			d.failf(path, "the column %s is taken by %s; remove one of them", show(column), by)
			return
		}
		owner[column] = path
	}
	t := &c.Table
	for _, column := range t.ID {
		claim(column, "table.id")
	}
	if t.Status != "" {
		claim(t.Status, "table.status")
	}
	for _, k := range t.kept() {
		claim(k.column, k.path)
	}
	for _, a := range t.Touch {
		claim(a.Column, join("table.touch", a.Column))
	}
	if t.Attempts != "" {
		claim(t.Attempts, "table.attempts")
	}
	if t.LastError != "" {
		claim(t.LastError, "table.last_error")
	}
	d.claimPolicy(c, claim)
	for _, r := range roles {
		for _, a := range r.state(&c.Statuses).Set {
			by, taken := owner[a.Column]
			if taken && !r.maySet(by) {
				d.failf(join(join("statuses."+r.name, "set"), a.Column), "the column is taken by %s; remove one of them", by)
			}
		}
	}
}

// A kept is a column to be written back unchanged, and the key that says so.
type kept struct{ column, path string }

// kept returns such columns, each once.
func (t *Table) kept() (list []kept) {
	seen := make(map[string]bool)
	for _, c := range []struct {
		*TimeColumn
		path string
	}{{&t.Inserted, "table.inserted"}, {t.Eligible, "table.eligible"}, {t.Expires, "table.expires"}} {
		if c.TimeColumn != nil && c.Keep && !seen[c.Column] {
			seen[c.Column] = true
			list = append(list, kept{c.Column, c.path + ".keep"})
		}
	}
	return list
}

// maySet reports whether the role's set may name a column that the key at the
// path takes. Attempts are not counted at a reset to new, and error texts are
// not written at a success either: both are there to be cleared.
func (r role) maySet(path string) bool {
	switch path {
	case "table.status":
		return true
	case "table.attempts":
		return r.name == "new"
	case "table.last_error":
		return r.name == "new" || r.name == "success"
	}
	return false
}
