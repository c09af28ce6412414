package config

import (
	"strings"
	"time"
)

// A Table maps the columns of a table to what they mean. Names are as written,
// never split on a dot.
type Table struct {
	Schema string // "" for the connection's default
	Name   string
	ID     []string // key columns, at least one

	// Status is the status column. It is empty where the file neither names
	// one nor has a state that needs one.
	Status string

	Inserted  TimeColumn
	Eligible  *TimeColumn // not before; nil: none
	Expires   *TimeColumn // not after; nil: none
	Where     []Condition // all must hold
	Touch     []Assignment
	Attempts  string   // column of the count; "": none
	LastError string   // column of the error's text; "": none
	Columns   []string // what a handler is given; nil: every column
}

// A TimeColumn is a column that holds instants, and how it writes them.
type TimeColumn struct {
	Column string

	// As is the form: native, unix_s, unix_ms, unix_us, julian or text: with
	// a layout of package time. Empty: to be detected.
	As string

	Zone       *time.Location // of times without zone; nil: [Config.Timezone]
	Null, Zero string         // what NULL and zero dates mean: skip, oldest or newest; "": the default
	Keep       bool           // whether to write the column back unchanged
}

// A Condition holds where the column is equal to one of the values. A null
// among them means IS NULL.
type Condition struct {
	Column string
	Values []Value // at least one
}

// An Assignment sets a column to a value. Two values are special when they are
// not quoted: now, the time of writing, and +1, one more than before.
type Assignment struct {
	Column string
	Value  Value
}

func defaultTable() Table {
	return Table{
		Name:     "BACKLOG",
		ID:       []string{"id"},
		Status:   "status",
		Inserted: TimeColumn{Column: "date_inserted"},
	}
}

func (v value) table() Table {
	t := defaultTable()
	if v.isText() {
		v.mismatch("a mapping such as {name: orders, inserted: created_at}")
		return t
	}
	v.object(keys{
		"schema":     func(v value) { t.Schema = v.text() },
		"name":       func(v value) { t.Name = v.text() },
		"id":         func(v value) { t.ID = v.names() },
		"status":     func(v value) { t.Status = v.text() },
		"inserted":   func(v value) { t.Inserted = *v.timeColumn() },
		"eligible":   func(v value) { t.Eligible = v.timeColumn() },
		"expires":    func(v value) { t.Expires = v.timeColumn() },
		"where":      func(v value) { t.Where = v.conditions() },
		"touch":      func(v value) { t.Touch = v.assignments() },
		"attempts":   func(v value) { t.Attempts = v.text() },
		"last_error": func(v value) { t.LastError = v.text() },
		"columns":    func(v value) { t.Columns = v.names() },
	})
	return t
}

// timeColumn decodes the name of a column or the long form.
func (v value) timeColumn() *TimeColumn {
	if v.isText() {
		return &TimeColumn{Column: v.text()}
	}
	var c TimeColumn
	if !v.isMapping() {
		v.mismatch("a column or a mapping (column: name)")
		return &c
	}
	v.object(keys{
		"column": func(v value) { c.Column = v.text() },
		"as":     func(v value) { c.As = v.timeForm() },
		"zone":   func(v value) { c.Zone = v.location() },
		"null":   func(v value) { c.Null = v.oneOf("meaning", "skip", "oldest", "newest") },
		"zero":   func(v value) { c.Zero = v.oneOf("meaning", "skip", "oldest", "newest") },
		"keep":   func(v value) { c.Keep = v.boolean() },
	})
	if !v.has("column") {
		v.fail("no column; add column: and its name")
	}
	return &c
}

// timeForm decodes the form in which a column holds time.
func (v value) timeForm() string {
	layout, ok := "", false
	if v.isText() {
		layout, ok = strings.CutPrefix(v.node.Value, "text:")
	}
	if !ok {
		return v.oneOf("form", "native", "unix_s", "unix_ms", "unix_us", "julian", "text:<layout>")
	}
	if !isLayout(layout) {
		v.fail("%s is no layout; write the second of January 2006, 15:04:05, as the column would: text:2006-01-02 15:04:05", show(layout))
	}
	return v.node.Value
}

// isLayout reports whether the layout of package time can tell one day from
// another. One in the style of other languages, such as YYYY-MM-DD, cannot.
func isLayout(layout string) bool {
	day := time.Date(1987, time.November, 28, 0, 0, 0, 0, time.UTC)
	read, err := time.Parse(layout, day.Format(layout))
	return err == nil && read.Equal(day)
}

// conditions decodes a mapping from columns to a value or a list of values.
func (v value) conditions() []Condition {
	var list []Condition
	for _, f := range v.columns() {
		list = append(list, Condition{f.name, f.values()})
	}
	return list
}

// assignments decodes a mapping from columns to a value.
func (v value) assignments() []Assignment {
	var list []Assignment
	for _, f := range v.columns() {
		val, _ := f.scalar()
		list = append(list, Assignment{f.name, val})
	}
	return list
}

// columns returns the fields of a mapping whose keys are columns.
func (v value) columns() []field {
	fields := v.fields()
	if v.isMapping() && len(v.node.Content) == 0 {
		v.fail("is an empty mapping; name a column or remove it")
	}
	for _, f := range fields {
		if f.name == "" {
			f.fail("an empty key names no column")
		}
	}
	return fields
}

// values decodes a value or a list of different ones.
func (v value) values() []Value {
	items := []value{v}
	if !v.isScalar() {
		items = v.filled("a value or a list of values")
	}
	var list []Value
	seen := make(map[Value]bool)
	for _, item := range items {
		val, ok := item.scalar()
		if !ok {
			continue
		}
		if seen[val.plain()] {
			item.fail("%s is listed twice; remove one", val.show())
		}
		seen[val.plain()] = true
		list = append(list, val)
	}
	return list
}
