package table

import "slices"

// Given returns the names of the columns that a handler is given of each
// record, in their order.
func (t *Table) Given() []string { return slices.Clone(t.sel.names) }
