package table

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// A columnDef is a column that init can make.
type columnDef struct {
	name  string
	decl  string
	rest  string // what follows the type
	class class
}

// columnTypes are those of a database from which init makes columns.
type columnTypes struct {
	key     string // of a key that numbers itself, all of its definition
	integer string
	status  string // of a text that an index may be over
	text    string
	options string // what follows the table's closing bracket

	// at returns the type of a time column and, if the database can write
	// the present in that form, the default that does.
	at func(tc Time, zone *time.Location) (decl, present string)
}

// createTable returns the statement for a table as the mapping describes it, and
// what the catalogue will say of it.
func createTable(d dialect, m Mapping) (string, *catalog, error) {
	if len(m.New.When) > 0 || len(m.New.Values) == 0 || m.New.Values[0].Null {
		return "", nil, problem("create it yourself", "table %s does not exist, and its columns cannot be told from statuses.new", m.Name)
	}
	types, cat := d.types(), &catalog{kind: "table"}
	var defs []string
	add := func(c columnDef) {
		if c.name == "" || cat.find(c.name, true) != nil {
			return
		}
		defs = append(defs, strings.TrimRight("  "+d.quote(c.name)+" "+c.decl+" "+c.rest, " "))
		cat.columns = append(cat.columns, c.column())
	}
	if len(m.ID) == 1 {
		add(columnDef{name: m.ID[0], decl: types.key, class: classInteger})
		cat.columns[0].notNull = true
	} else {
		for _, k := range m.ID {
			add(columnDef{k, types.integer, "NOT NULL", classInteger})
		}
	}
	add(statusColumn(d, m))
	inserted, present := timeColumn(types, m.Inserted, m.Zone)
	inserted.rest = "NOT NULL" + prefixed(" DEFAULT ", present)
	add(inserted)
	for _, tc := range []*Time{m.Eligible, m.Expires} {
		if tc != nil {
			c, _ := timeColumn(types, *tc, m.Zone)
			add(c)
		}
	}
	add(columnDef{m.Attempts, types.integer, "NOT NULL DEFAULT 0", classInteger})
	add(columnDef{name: m.LastError, decl: types.text, class: classText})
	for _, a := range m.Touch {
		c := columnDef{name: a.Column, decl: types.status, class: classText}
		if a.Value.Text == "now" && !a.Value.Quoted {
			c, _ = timeColumn(types, Time{Column: a.Column}, m.Zone)
		}
		add(c)
	}
	for _, c := range m.Where {
		add(columnDef{name: c.Column, decl: types.status, class: classText})
	}
	for _, c := range m.Columns {
		add(columnDef{name: c, decl: types.text, class: classText})
	}
	for _, c := range retryColumns(types, m, nil) {
		add(c)
	}
	cat.uniques = [][]string{m.ID}
	if len(m.ID) > 1 {
		key := make([]string, len(m.ID))
		for i, k := range m.ID {
			key[i] = d.quote(k)
		}
		defs = append(defs, "  PRIMARY KEY ("+strings.Join(key, ", ")+")")
	}
	return "CREATE TABLE IF NOT EXISTS " + qualified(d, m.Schema, m.Name) + " (\n" + strings.Join(defs, ",\n") + "\n)" + types.options, cat, nil
}

// qualified returns the quoted name of the table, with that of the schema unless
// it is empty.
func qualified(d dialect, schema, name string) string {
	if schema == "" {
		return d.quote(name)
	}
	return d.quote(schema) + "." + d.quote(name)
}

// column is what the catalogue will say.
func (c columnDef) column() column {
	return column{name: c.name, decl: c.decl, class: c.class, notNull: strings.HasPrefix(c.rest, "NOT NULL")}
}

// statusColumn is that of the status, with the first of the new statuses for its
// default.
func statusColumn(d dialect, m Mapping) columnDef {
	c := column{name: m.Status, class: classInteger}
	def := columnDef{name: m.Status, decl: d.types().integer, class: classInteger}
	for _, s := range []State{m.New, m.Error, m.Success, m.Dead} {
		for _, v := range s.Values {
			if _, err := c.typed(v); err != nil {
				def.decl, def.class, c.class = d.types().status, classText, classText
			}
		}
	}
	v, _ := c.typed(m.New.Values[0])
	def.rest = "NOT NULL DEFAULT " + d.literal(v)
	return def
}

// timeColumn returns a column that holds times, and the default that writes the
// present, if there is one.
func timeColumn(types columnTypes, tc Time, zone *time.Location) (c columnDef, present string) {
	decl, present := types.at(tc, cmp.Or(tc.Zone, zone, time.UTC))
	return columnDef{name: tc.Column, decl: decl}, present
}

// retryColumns are those of the policy, for a table whose columns are known or,
// with a nil catalogue, a new one. Constant defaults let the database add them
// without writing every row, and no type is one that a STRICT table lacks.
func retryColumns(types columnTypes, m Mapping, cat *catalog) []columnDef {
	r := m.Retry
	if r == nil {
		return nil
	}
	at, _ := timeColumn(types, Time{Column: r.Last, As: m.Inserted.As, Zone: m.Inserted.Zone}, m.Zone)
	if cat != nil {
		// Times are written there as in the column of insertion, which one
		// of another type would turn into something else.
		if c := cat.find(m.Inserted.Column, true); c != nil && !c.generated {
			at.decl, at.class = c.decl, c.class
		}
	}
	count := columnDef{"", types.integer, "NOT NULL DEFAULT 0", classInteger}
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

func (c columnDef) String() string {
	return strings.TrimRight(fmt.Sprintf("%s %s", c.decl, c.rest), " ")
}
