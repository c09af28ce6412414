package table

import (
	"slices"
	"strconv"
	"strings"
)

// A selection is the list of columns that a page reads: first those that the
// handler is given, then the others that are needed.
type selection struct {
	exprs   []string
	columns []*column // that they are of
	prefix  string    // of the names of the expressions, unlike any column's
	key     []int     // where the key's parts stand
	status  int       // likewise; -1: not there
	names   []string  // of the handler's columns
	// Where the time columns stand; -1: there is none.
	inserted, eligible, expires int
}

func (t *Table) newSelection() selection {
	s := selection{status: -1, prefix: "c"}
	for slices.ContainsFunc(t.catalog.columns, func(c column) bool { return strings.HasPrefix(strings.ToLower(c.name), s.prefix) }) {
		s.prefix += "_"
	}
	at := make(map[string]int)
	add := func(quoted string) int {
		i, ok := at[quoted]
		if !ok {
			i = len(s.exprs)
			at[quoted] = i
			s.exprs = append(s.exprs, t.d.raw(quoted))
			s.columns = append(s.columns, t.quotedColumn(quoted))
		}
		return i
	}
	for _, c := range t.columns {
		add(t.d.quote(c.name))
		s.names = append(s.names, c.name)
	}
	for _, k := range t.key {
		s.key = append(s.key, add(k))
	}
	if t.status != "" {
		s.status = add(t.status)
	}
	for _, x := range []struct {
		col *timeCol
		at  *int
	}{{t.inserted, &s.inserted}, {t.eligible, &s.eligible}, {t.expires, &s.expires}} {
		*x.at = -1
		if x.col != nil {
			*x.at = add(x.col.quoted)
		}
	}
	if c := t.retry; c != nil {
		c.countAt, c.lastAt, c.nextAt = add(c.count), add(c.last.quoted), -1
		if c.next != nil {
			c.nextAt = add(c.next.quoted)
		}
	}
	return s
}

// quotedColumn returns the column of that quoted name.
func (t *Table) quotedColumn(quoted string) *column {
	i := slices.IndexFunc(t.catalog.columns, func(c column) bool { return t.d.quote(c.name) == quoted })
	return &t.catalog.columns[i]
}

// alias returns the name of an expression of the page.
func (s *selection) alias(i int) string { return s.prefix + strconv.Itoa(i) }

// aliased returns the expressions as a SELECT has them.
func (s *selection) aliased() string {
	list := make([]string, len(s.exprs))
	for i, e := range s.exprs {
		list[i] = e + " AS " + s.alias(i)
	}
	return strings.Join(list, ", ")
}
