package table

import (
	"slices"
	"sync/atomic"
)

// mysqlHints is whether the planner is told which index to use.
type mysqlHints struct{ off atomic.Bool }

// vanished says that an index that was named is not there any more, and
// reports whether that is news. Queries are then made without naming any until
// the next start: they are slower at worst.
func (h *mysqlHints) vanished() bool { return !h.off.Swap(true) }

// from names the index to be used. Left to itself MariaDB prefers to look up
// the status in the index and to go through all that has it from its newest end
// up to the page's place, where most rows have that status: each page would
// read what the pages before it have read. Without a column of one value an
// index over the order alone may be the worse one: that is left to the planner.
func (d mysql) from(t *Table, lead []string, order string) string {
	if len(lead) == 0 || d.hints.off.Load() {
		return t.name
	}
	for _, x := range t.catalog.indexes {
		if !x.hidden && x.whole && x.leads(d, t, lead, order) {
			return t.name + " FORCE INDEX (" + d.quote(x.name) + ")"
		}
	}
	return t.name
}

// leads reports whether the index begins with the columns, in any order, goes
// on with the order's, and then in the same direction with the key, which InnoDB
// adds by itself, ascending, if it is the primary one.
func (x mysqlIndex) leads(d mysql, t *Table, lead []string, order string) bool {
	n := len(lead)
	if len(x.columns) <= n || d.quote(x.columns[n]) != order {
		return false
	}
	for _, c := range x.columns[:n] {
		if !slices.Contains(lead, d.quote(c)) {
			return false
		}
	}
	rest := make([]string, 0, len(t.key))
	for _, c := range x.columns[n+1:] {
		rest = append(rest, d.quote(c))
	}
	implied := len(rest) < len(t.key)
	if len(rest) > len(t.key) || slices.Contains(x.down[n:], !x.down[n]) || implied && x.down[n] {
		return false
	}
	if implied {
		i := slices.IndexFunc(t.catalog.indexes, func(x mysqlIndex) bool { return x.name == "PRIMARY" })
		if i < 0 || !slices.EqualFunc(t.catalog.indexes[i].columns, t.key, func(c, k string) bool { return d.quote(c) == k }) {
			return false
		}
	}
	return slices.Equal(rest, t.key[:len(rest)])
}
