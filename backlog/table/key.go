package table

import (
	"fmt"
	"slices"
	"strings"

	"backlog/backlog/mapping"
	"backlog/backlog/table/db"
)

// keyColumns resolves the key and makes sure that it identifies a row.
func (r *resolver) keyColumns() {
	var names []string
	for _, name := range r.t.m.ID {
		c := r.column("table.id", name)
		switch {
		case c.LabelOrder:
			r.refuse("name other columns of a unique key", "table.id: %s is of the type %s, whose order is not that of its texts", r.t.text.Quote(c.Name), c.Decl)
		case c.Composite:
			r.refuse("name other columns of a unique key", "table.id: %s is of the type %s, of which a value is several: it is no key", r.t.text.Quote(c.Name), c.Decl)
		}
		names = append(names, c.Name)
		r.t.key = append(r.t.key, r.t.text.Quote(c.Name))
		r.t.keyColumns = append(r.t.keyColumns, c)
	}
	if !r.t.catalog.Unique(names) {
		r.notUnique(names)
	}
}

// notUnique refuses a key and proposes a unique one that begins with its columns. A key must
// not contain a column that outcomes change.
func (r *resolver) notUnique(names []string) {
	name := r.t.m.Name
	key := strings.Join(names, ", ")
	isChanged := func(column string) bool {
		isIt := func(s mapping.Named) bool {
			isStatus := len(s.Values) > 0 && strings.EqualFold(column, r.t.m.Status)
			setsIt := func(a mapping.Assignment) bool { return strings.EqualFold(a.Column, column) }
			return isStatus || slices.ContainsFunc(s.Set, setsIt)
		}
		return slices.ContainsFunc(r.t.m.States(), isIt)
	}
	changed := ""
	for _, u := range r.t.catalog.Uniques {
		lacks := func(name string) bool { return !slices.Contains(u, name) }
		if slices.ContainsFunc(names, lacks) {
			continue
		}
		if i := slices.IndexFunc(u, isChanged); i >= 0 {
			changed = u[i]
			continue
		}
		r.refuse(fmt.Sprintf("write table.id: [%s]", mapping.InYAML(u...)), "table.id: %s does not identify a row of %s: a key of that table is %d columns: %s",
			key, name, len(u), strings.Join(u, ", "))
	}
	if changed != "" && r.t.catalog.Kind == db.Partitioned {
		r.refuse("give it a unique key without that column; if the table is partitioned by it, partition it by another one, such as the date of insertion, and add that to table.id",
			"table.id: %s does not identify a row of %s: each key has the column %s in it, which outcomes change", key, name, changed)
	}
	r.refuse("name the columns of the primary key or of a unique index, or create one: "+
		fmt.Sprintf("CREATE UNIQUE INDEX %s ON %s (%s)", r.t.text.Quote(name+"_key"), r.t.name, strings.Join(r.t.key, ", ")),
		"table.id: %s does not identify a row of %s: no primary key or unique index covers it", key, name)
}
