package config

import (
	"fmt"
	"slices"

	"backlog/backlog"
	"backlog/backlog/mapping"
)

// Work returns the work of the configuration, with its marks: by which records it takes and what it does with
// them, and in which file it stands. call is what its handler calls, without what is secret about it; path is
// the file's absolute path, "" if that is not known. Marks are digests, as other users of the database see them.
func (c *Config) Work(path string, call any) backlog.Work {
	w := backlog.Work{Name: c.Name, Marks: []backlog.Mark{
		backlog.NewMark("where", conditionsOf(c.Table)),
		backlog.NewMark("statuses", statesOf(c.Table)),
		backlog.NewMark("handler", call),
	}}
	if path != "" && c.Text != "" {
		w.Marks = append(w.Marks, backlog.NewMark(backlog.MarkFile, path), backlog.NewMark(backlog.MarkText, c.Text))
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
		x.Explicit = false // a default that is written down is still the default
		states = append(states, x)
	}
	return states
}
