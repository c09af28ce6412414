package config

import (
	"slices"
	"strings"
	"time"

	"backlog/backlog/mapping"
)

// table decodes the columns into m.
func (v value) table(m *mapping.Mapping) {
	if v.isText() {
		v.mismatch("a mapping such as {name: orders, inserted: created_at}")
	} else {
		v.settings(m)
	}
}

// timeColumn decodes the name of a column, or its long form.
func (v value) timeColumn() (t mapping.Time) {
	switch {
	case v.isText():
		t.Column = v.text()
	case !v.isMapping():
		v.mismatch("a column or a mapping (column: name)")
	default:
		v.settings(&t)
	}
	return t
}

// timeForm decodes the form in which a column writes times.
func (v value) timeForm() string {
	layout, ok := strings.CutPrefix(v.node.Value, "text:")
	if !ok || !v.isText() {
		return v.oneOf("form", "native", "unix_s", "unix_ms", "unix_us", "julian", "text:<layout>")
	}
	// A layout in the style of other languages, such as YYYY-MM-DD, writes every day in the same way.
	day := time.Date(1987, time.November, 28, 0, 0, 0, 0, time.UTC)
	if read, err := time.Parse(layout, day.Format(layout)); err != nil || !read.Equal(day) {
		v.fail("%s is no layout; write the second of January 2006, 15:04:05, as the column would: text:2006-01-02 15:04:05", mapping.Show(layout))
	}
	return v.node.Value
}

// statuses decodes the states of records into m.
func (v value) statuses(m *mapping.Mapping) {
	known := make(keys)
	for _, s := range m.States() {
		known[s.Name] = func(v value) { *s.State = v.state(s.Name) }
	}
	v.object(known)
}

// state decodes a state: a value, a list of values, when and set, or keep.
func (v value) state(name string) mapping.State {
	s := mapping.State{Explicit: true}
	switch {
	case v.isMapping():
		v.settings(&s)
		if name == "new" && !v.has("when") {
			v.fail("no when; it says which records to take")
		} else if name != "new" && !v.has("set") {
			v.fail("no set; it says how a record gets there")
		}
	case !v.isText() || v.isQuoted() || v.node.Value != "keep":
		s.Values = v.values()
	case name == "error":
		s.Keep = true
	default:
		v.fail("keep is for error only; put it in quotes if it is a value of the column")
	}
	return s
}

// conditions decodes a mapping from columns to a value or a list of values.
func (v value) conditions() (list []mapping.Condition) {
	for _, f := range v.columns() {
		list = append(list, mapping.Condition{Column: f.name, Values: f.values()})
	}
	return list
}

// assignments decodes a mapping from columns to a value.
func (v value) assignments() (list []mapping.Assignment) {
	for _, f := range v.columns() {
		val, _ := f.scalar()
		list = append(list, mapping.Assignment{Column: f.name, Value: val})
	}
	return list
}

// columns returns the fields of a mapping whose keys are columns.
func (v value) columns() []field {
	fields := v.fields()
	if v.isMapping() && len(v.node.Content) == 0 {
		v.fail("is an empty mapping; name a column or remove it")
	}
	return fields
}

// values decodes a value or a list of different values.
func (v value) values() (list []mapping.Value) {
	items := []value{v}
	if !v.isScalar() {
		items = v.nonEmptyList("a value or a list of values", nameOneOrRemove)
	}
	seen := make(map[any]bool)
	for _, item := range items {
		val, _ := item.scalar()
		item.rejectDuplicate(seen, val.Plain(), val.String()+" ")
		list = append(list, val)
	}
	return list
}

// check notes where the table, the states and the policy contradict each other.
func (d *decoder) check(c *Config) {
	if d.failed("table") || d.failed("statuses") {
		return // parts that could not be decoded would be reported a second time
	}
	before := len(d.errs)
	d.checkStatusColumn(&c.Table)
	if len(d.errs) > before {
		return
	}
	p := c.Policy.keeps()
	if d.failed("policy") { // the name of a column may be missing
		p.Columns = nil
	}
	c.Table.Check(p, func(path, problem string) { d.failf(path, "%s", problem) })
	_, isRefresh := c.Policy.Settings.(Refresher)
	becomesDead := c.Table.Dead.Explicit || isRefresh
	if d.has("on_dead") && !becomesDead {
		d.failf("on_dead", "no record is ever dead without statuses.dead; add it, such as statuses: {dead: DEAD}, or remove on_dead")
	}
}

// failed reports whether an error is noted for a part of the file, or for something in it.
func (d *decoder) failed(part string) bool {
	return slices.ContainsFunc(d.errs, func(e *Error) bool {
		rest, ok := strings.CutPrefix(e.Key, part)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// checkStatusColumn finds out whether the table has a status column, and clears its name if
// not. The table has one if the file names it, if a state of the file refers to it, or if no
// state is written in the long form.
func (d *decoder) checkStatusColumn(m *mapping.Mapping) {
	named := d.has("table.status")
	var long bool // a state is written in the long form
	for _, s := range m.States() {
		named = named || s.Explicit && s.Mentions(m.Status)
		long = long || len(s.When)+len(s.Set) > 0
	}
	exists := named || !long
	used := slices.ContainsFunc(m.States(), func(s mapping.Named) bool {
		return s.Mentions(m.Status) && (s.Explicit || exists)
	})
	for _, w := range m.Where {
		if w.Column == m.Status && used {
			d.failf(join("table.where", w.Column), "this is the status column, of which statuses tells; remove it")
		}
	}
	if exists {
		return
	}
	m.Status = ""
	for _, s := range m.States() {
		if len(s.Values) > 0 {
			cure := s.Name
			if cure == "error" {
				cure = "error: keep"
			}
			d.failf(join("statuses", s.Name), "missing, and its default %s needs a status column, which no state here has; write %s, or table.status if there is one",
				s.Values[0], cure)
		}
	}
}
