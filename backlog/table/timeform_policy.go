package table

import "time"

// coarse reports whether one second cannot be told from the next.
func (f timeForm) coarse() bool {
	c, ok := f.timeCodec.(timeCalendar)
	return ok && c.precision() > time.Second
}

// numeric reports whether values are numbers.
func (f timeForm) numeric() bool {
	switch c := f.timeCodec.(type) {
	case timeUnix:
		return c.class != timeText
	case timeJulian:
		return true
	case timeCalendar:
		return c.class != timeText
	}
	return false
}

// isPolicys reports whether the policy keeps a time in the column.
func (t *Table) isPolicys(c *timeCol) bool {
	return t.retry != nil && (c == t.retry.last || c == t.retry.next)
}

// suits reports whether times can be written to the column in the form of
// another one. A policy's must be as fine as its waits, and be read again: what
// a column of text makes of a number is in no form.
func (t *Table) suits(f timeForm, c *timeCol) bool {
	if !t.isPolicys(c) {
		return true
	}
	isText := t.catalog.find(c.name, false).class == classText
	return !f.coarse() && !(isText && f.numeric())
}

// proveStep refuses a column of the policy whose own form is too coarse for it.
func (t *Table) proveStep(c *timeCol) error {
	if f := c.known(); f != nil && f.coarse() && t.isPolicys(c) {
		return problem("name another under columns: of the policy, which `backlog init` adds",
			"policy: column %s holds times as %s, which does not tell one second from the next: waits would be lost", c.name, f)
	}
	return nil
}
