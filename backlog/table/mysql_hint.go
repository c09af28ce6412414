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
// on with the order's, and then in the same direction with what else the key
// has. InnoDB adds the primary key by itself, ascending.
func (x mysqlIndex) leads(d mysql, t *Table, lead []string, order string) bool {
	columns, down := x.columns, x.down
	for _, p := range t.catalog.indexes {
		for _, c := range p.columns {
			if p.name == "PRIMARY" && p.whole && !slices.Contains(columns, c) {
				columns, down = append(slices.Clip(columns), c), append(slices.Clip(down), false)
			}
		}
	}
	wanted := []string{order}
	for _, k := range t.key {
		if k != order && !slices.Contains(lead, k) {
			wanted = append(wanted, k)
		}
	}
	n := len(lead)
	end := n + len(wanted)
	if len(columns) < end || slices.Contains(down[n:end], !down[n]) {
		return false
	}
	for i, c := range columns[:end] {
		if i < n && !slices.Contains(lead, d.quote(c)) || i >= n && d.quote(c) != wanted[i-n] {
			return false
		}
	}
	return true
}
