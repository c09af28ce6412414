package config

import (
	"fmt"
	"slices"

	"backlog/backlog"
	"backlog/backlog/mapping"
)

// Work identifies the configuration to other processes that work on the table, by marks. These are digests of the
// conditions of its records, of what its handler does with them, and of its file. call identifies what the handler calls, without
// secrets. path is the absolute path of the file, "" if that is not known. Marks are digests because other users
// of the database can read them.
func (c *Config) Work(path string, call any) backlog.Work {
	w := backlog.Work{Name: c.Name, Marks: []backlog.Mark{
		backlog.NewMark("where", conditionsOf(c.Table)),
		backlog.NewMark("statuses", statesOf(c.Table)),
		backlog.NewMark("handler", call),
	}}
	if path != "" && c.Digest != "" {
		w.Marks = append(w.Marks, backlog.NewMark(backlog.MarkFile, path), backlog.NewMark(backlog.MarkText, c.Digest))
	}
	return w
}

// conditionsOf returns the conditions of `where`, sorted: their order in the file does not matter.
func conditionsOf(m mapping.Mapping) []string {
	var list []string
	for _, c := range m.Where {
		var values []string
		for _, v := range c.Values {
			values = append(values, fmt.Sprintf("%q %t", v.Text, v.Null))
		}
		slices.Sort(values)
		list = append(list, fmt.Sprintf("%q %q", c.Column, values))
	}
	slices.Sort(list)
	return list
}

// statesOf returns the states of a record and their column.
func statesOf(m mapping.Mapping) any {
	states := []any{m.Status}
	for _, s := range m.States() {
		x := *s.State
		x.Explicit = false // writing a default down changes nothing
		states = append(states, x)
	}
	return states
}
