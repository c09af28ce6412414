package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"backlog/backlog/mapping"
	"backlog/backlog/table/db"
)

// A columnDef is a column that init can make.
type columnDef struct {
	name  string
	decl  string
	rest  string // what follows the type
	class db.Class
}

// createTable returns the statement for a table as the mapping describes it, and
// what the catalogue will say of it.
func createTable(d *db.Text, m mapping.Mapping) (string, *db.Catalog, error) {
	refreshing := isRefreshing(m)
	if refreshing { // the table has what the file names
		m = m.Refreshing(func(column string) bool { return column != "" })
	}
	none := refreshing && m.New.IsZero()
	if len(m.ID) != 1 || !none && (len(m.New.When) > 0 || len(m.New.Values) == 0 || m.New.Values[0].Null) {
		return "", nil, db.Problemf("create it yourself", "table %s does not exist, and its columns cannot be told from table.id and statuses.new", m.Name)
	}
	types, cat := d.Types, &db.Catalog{Kind: db.Relation}
	var defs []string
	add := func(c columnDef) {
		if c.name == "" || cat.Find(c.name, true) != nil {
			return
		}
		defs = append(defs, strings.TrimRight("  "+d.Quote(c.name)+" "+c.decl+" "+c.rest, " "))
		cat.Columns = append(cat.Columns, c.column())
	}
	add(columnDef{name: m.ID[0], decl: types.Key, class: db.Integer})
	cat.Columns[0].NotNull = true
	if slices.ContainsFunc(m.States(), func(s mapping.Named) bool { return len(s.Values) > 0 }) {
		add(statusColumn(d, m))
	}
	for _, c := range refreshColumns(types, m, nil) {
		add(c)
	}
	inserted, present := timeColumn(types, m.Inserted, m.Zone)
	if inserted.rest = "NOT NULL"; present != "" {
		inserted.rest += " DEFAULT " + present
	}
	add(inserted)
	for _, tc := range []*mapping.Time{m.Eligible, m.Expires} {
		if tc != nil {
			c, _ := timeColumn(types, *tc, m.Zone)
			add(c)
		}
	}
	add(columnDef{m.Attempts, types.Integer, "NOT NULL DEFAULT 0", db.Integer})
	add(columnDef{name: m.LastError, decl: types.Text, class: db.Textual})
	for _, a := range m.Touch {
		c := columnDef{name: a.Column, decl: types.Status, class: db.Textual}
		if a.Value.Text == "now" && !a.Value.Quoted {
			c, _ = timeColumn(types, mapping.Time{Column: a.Column}, m.Zone)
		}
		add(c)
	}
	for _, c := range m.Where {
		add(columnDef{name: c.Column, decl: types.Status, class: db.Textual})
	}
	for _, c := range m.Columns {
		add(columnDef{name: c, decl: types.Text, class: db.Textual})
	}
	for _, c := range retryColumns(types, m, nil) {
		add(c)
	}
	cat.Uniques = [][]string{m.ID}
	return "CREATE TABLE IF NOT EXISTS " + d.Qualified(m.Schema, m.Name) + " (\n" + strings.Join(defs, ",\n") + "\n)" + types.Options, cat, nil
}

// column is what the catalogue will say.
func (c columnDef) column() db.Column {
	return db.Column{Name: c.name, Decl: c.decl, Class: c.class, NotNull: strings.HasPrefix(c.rest, "NOT NULL")}
}

// statusColumn declares the status column, with the first of the new statuses for its
// default.
func statusColumn(d *db.Text, m mapping.Mapping) columnDef {
	c := columnDef{name: m.Status, decl: d.Types.Status, class: db.Textual}
	if len(m.New.Values) > 0 {
		c.rest = "NOT NULL DEFAULT " + d.Literal(m.New.Values[0].Text)
	}
	return c
}

// timeColumn returns a column that holds times, and the default that writes the
// present, if there is one.
func timeColumn(types db.Types, tc mapping.Time, zone *time.Location) (c columnDef, present string) {
	form := tc.As
	if form == "" && cmp.Or(tc.Zone, zone, time.UTC) == time.UTC {
		form = "utc"
	}
	at, ok := types.Times[cmp.Or(form, "native")]
	if !ok {
		at = types.Times["text"]
	}
	return columnDef{name: tc.Column, decl: at.Decl}, at.Present
}

// retryColumns declares the columns of the policy, for a table whose columns are known or,
// with a nil catalogue, a new one. Constant defaults let the database add them
// without writing every row, and no type is one that a STRICT table lacks.
func retryColumns(types db.Types, m mapping.Mapping, cat *db.Catalog) []columnDef {
	r := m.Policy
	if r == nil || isRefreshing(m) {
		return refreshColumns(types, m, cat)
	}
	at, _ := timeColumn(types, mapping.Time{Column: r.Last, As: m.Inserted.As, Zone: m.Inserted.Zone}, m.Zone)
	if cat != nil {
		// Times are written there as in the column of insertion, which one
		// of another type would turn into something else.
		if c := cat.Find(m.Inserted.Column, true); c != nil && !c.Generated {
			at.decl, at.class = c.Decl, c.Class
		}
	}
	count := columnDef{"", types.Integer, "NOT NULL DEFAULT 0", db.Integer}
	named := func(name string, c columnDef) columnDef { c.name = name; return c }
	list := []columnDef{named(r.Count, count), at}
	if r.Next != "" {
		list = append(list, named(r.Next, at))
	}
	if r.InRetry != "" {
		list = append(list, named(r.InRetry, count))
	}
	return list
}

func isRefreshing(m mapping.Mapping) bool { return m.Policy != nil && m.Policy.Refresh != nil }

// refreshColumns declares the columns of the refresh policy likewise: all of them for a
// table that has no times of starts yet, else those that have a name in the file. A table
// that is there gets the times of starts last: init may be stopped, and run again.
func refreshColumns(types db.Types, m mapping.Mapping, cat *db.Catalog) (list []columnDef) {
	if !isRefreshing(m) {
		return nil
	}
	next, _ := m.Policy.RefreshColumn(mapping.RefreshAt)
	at, _ := timeColumn(types, mapping.Time{As: m.Inserted.As, Zone: m.Inserted.Zone}, m.Zone)
	var has *db.Column
	if cat != nil {
		has = cat.Find(next, true)
	}
	if has != nil { // empty columns take its form
		at.decl, at.class = has.Decl, has.Class
	}
	number := columnDef{"", types.Integer, "NOT NULL DEFAULT 0", db.Integer}
	for i := range mapping.RefreshColumns {
		name, named := m.Policy.RefreshColumn(i)
		if has != nil && !named && i > mapping.AttemptNo {
			continue
		}
		c, ok := map[int]columnDef{
			mapping.AttemptNo: number, mapping.Disabled: number,
			mapping.AttemptUID:     {decl: types.Status, class: db.Textual},
			mapping.DisabledReason: {decl: types.Text, class: db.Textual},
		}[i]
		if !ok {
			c = at
		}
		c.name = name
		list = append(list, c)
	}
	if cat != nil {
		return append(list[1:], list[0])
	}
	if m.Policy.Rule != "" {
		list = append(list, columnDef{name: m.Policy.Rule, decl: types.Text, class: db.Textual})
	}
	return list
}

func (c columnDef) String() string {
	return strings.TrimRight(fmt.Sprintf("%s %s", c.decl, c.rest), " ")
}
