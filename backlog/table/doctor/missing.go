// Package doctor finds what a table lacks: indexes, columns, rights. It has what the
// commands check and init need, in words and in statements.
package doctor

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/backlog/table/db"
	"backlog/backlog/table/timeform"
	"backlog/internal/lists"
)

// Missing returns the statements that create what the mapping needs and the
// database does not have: an index for each status that is read, a policy's columns
// and, if create says so, the table. It changes nothing. The file of an SQLite database
// is itself created by Create, but not its folder. now is the present.
func Missing(ctx context.Context, dialect db.Server, url string, m mapping.Mapping, create bool, now time.Time) ([]string, error) {
	d, err := db.Open(ctx, dialect, url, db.Options{ReadOnly: true})
	if file := (*db.MissingFile)(nil); create && errors.As(err, &file) {
		dir := filepath.Dir(file.Path)
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil, db.Problemf("create it, or name another file", "the folder %s of the database file %s does not exist", dir, file.Path)
		}
		steps, err := missingTable(&db.DB{Server: dialect}, m, &db.Catalog{}, now)
		// Readers and a writer do not wait for each other then. Only a database
		// that we make ourselves is switched.
		return slices.Concat([]string{"PRAGMA journal_mode = WAL"}, steps), err
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	cat, err := d.Describe(ctx, m.Schema, m.Name)
	if err != nil {
		return nil, err
	}
	if cat.Kind == db.Missing && create {
		return missingTable(d, m, cat, now)
	}
	t, err := table.Resolve(d, m, cat)
	if err != nil {
		return missingColumns(d, m, cat, now, err)
	}
	steps, err := MissingIndexes(ctx, t, now)
	if cat.Kind == db.Partitioned && strings.Contains(d.Text().CreateIndex, "CONCURRENTLY") {
		for i, s := range steps {
			steps[i] = "-- keeps writers waiting until it is made: PostgreSQL has no CONCURRENTLY for a table in partitions\n" + s
		}
	}
	return steps, err
}

// missingTable returns the statements for a table that does not exist, in the
// schema in which the database would make it.
func missingTable(d *db.DB, m mapping.Mapping, cat *db.Catalog, now time.Time) ([]string, error) {
	m.Schema = cmp.Or(m.Schema, cat.Schema)
	create, made, err := createTable(d.Text(), m)
	if err != nil {
		return nil, err
	}
	indexes, err := indexesOf(d, m, made, now)
	return slices.Concat([]string{create}, indexes), err
}

// indexesOf returns the indexes for a table that is yet to be made, or to get
// more columns, by the statements. cat is what it will be then.
func indexesOf(d *db.DB, m mapping.Mapping, cat *db.Catalog, now time.Time) ([]string, error) {
	t, err := table.Resolve(d, m, cat)
	if err != nil {
		return nil, err
	}
	plans, err := compare(context.Background(), t, nil, cat, t.Readings(now))
	return createStatements(plans), err
}

// Create runs the statements of Missing, creating the database file if there
// is none. It is safe to run twice. That the user may not write there is a
// *db.Problem.
func Create(ctx context.Context, dialect db.Server, url string, steps []string) error {
	d, err := db.Open(ctx, dialect, url, db.Options{Create: true})
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.CheckRights(ctx); err != nil {
		return err
	}
	for _, s := range steps {
		if _, err := d.Write.ExecContext(ctx, s); err != nil {
			// There is no IF NOT EXISTS for columns, and in MySQL none for
			// indexes, whose names say there what they have.
			text := strings.ToLower(err.Error())
			if !strings.Contains(text, "duplicate column name") && !strings.Contains(text, "duplicate key name") {
				return fmt.Errorf("%s: %w", s, d.Wrap(ctx, err))
			}
		}
	}
	return nil
}

// missingColumns returns the statements that add the policy's columns to a
// table that is there, and then the indexes. Where none of them is missing,
// whatever is wrong with the table stays so.
func missingColumns(d *db.DB, m mapping.Mapping, cat *db.Catalog, now time.Time, wrong error) ([]string, error) {
	var steps []string
	text := d.Text()
	for _, c := range policyColumns(text.Types, m, cat) {
		if cat.Find(c.name, text.FoldsNames) == nil {
			steps = append(steps, fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", text.Qualified(cmp.Or(m.Schema, cat.Schema), m.Name), text.Quote(c.name), c))
			cat.Columns = append(cat.Columns, c.column())
		}
	}
	if len(steps) == 0 {
		return nil, wrong
	}
	indexes, err := indexesOf(d, m, cat, now)
	return append(steps, indexes...), err
}

// Grants returns the statements that give the user of the connection the rights
// that passes take, and no others; none where the database knows no users.
func Grants(t *table.Table) (list []string) {
	c, text := t.Catalog(), t.DB().Text()
	if c.User == "" {
		return nil
	}
	if schema := t.Mapping().Schema; schema != "" && text.GrantsUsage {
		list = append(list, "GRANT USAGE ON SCHEMA "+text.Quote(schema)+" TO "+c.User)
	}
	var read string // empty: all columns, since the handler is given them
	if t.Mapping().Columns != nil {
		read = " (" + strings.Join(t.Read(), ", ") + ")"
	}
	return append(list, "GRANT SELECT"+read+", UPDATE ("+strings.Join(t.Written(), ", ")+") ON "+c.Grant+" TO "+c.User)
}

// Samples says how up to three pending rows are understood. It looks at some more
// of each lane: rows that cannot be read may come first.
func Samples(ctx context.Context, t *table.Table, now time.Time) ([]string, error) {
	const most = 3
	var list []string
	for _, lane := range []backlog.Lane{backlog.Fresh, backlog.Failed} {
		p, err := t.Pending(ctx, backlog.Query{Lane: lane, Now: now, Since: timeform.First, Limit: 50})
		if err != nil {
			return nil, err
		}
		for _, r := range p.Records {
			if len(list) < most && !r.Inserted.IsZero() {
				age, side := now.Sub(r.Inserted), "old"
				if age < 0 {
					age, side = -age, "ahead of the clock"
				}
				list = append(list, fmt.Sprintf("row %v: %s, %s %s", r.Key, r.Inserted.UTC().Format("2006-01-02 15:04:05 MST"), timeform.Roughly(age), side))
			}
		}
	}
	return list, nil
}

// A columnDef is a column that init can make.
type columnDef struct {
	name, decl string
	rest       string // what follows the type
	class      db.Class
}

// createTable returns the statement for a table as the mapping describes it, and
// what the catalogue will say of it.
func createTable(d *db.Text, m mapping.Mapping) (string, *db.Catalog, error) {
	if isRefreshing(m) { // the table has what the file names
		m = m.Refreshing(func(column string) bool { return column != "" })
	}
	none := isRefreshing(m) && m.New.IsZero()
	if len(m.ID) != 1 || !none && (len(m.New.When) > 0 || len(m.New.Values) == 0 || m.New.Values[0].Null) {
		return "", nil, db.Problemf("create it yourself", "table %s does not exist, and its columns cannot be told from table.id and statuses.new", m.Name)
	}
	types, cat := d.Types, &db.Catalog{Kind: db.Relation}
	var defs []string
	add := func(list ...columnDef) {
		for _, c := range list {
			if c.name != "" && cat.Find(c.name, true) == nil {
				defs, cat.Columns = append(defs, "  "+d.Quote(c.name)+" "+c.String()), append(cat.Columns, c.column())
			}
		}
	}
	add(columnDef{name: m.ID[0], decl: types.Key, class: db.Integer})
	cat.Columns[0].NotNull = true
	if slices.ContainsFunc(m.States(), func(s mapping.Named) bool { return len(s.Values) > 0 }) {
		status := columnDef{name: m.Status, decl: types.Status, class: db.Textual}
		if len(m.New.Values) > 0 {
			status.rest = "NOT NULL DEFAULT " + d.Literal(m.New.Values[0].Text)
		}
		add(status)
	}
	add(refreshColumns(types, m, nil)...)
	at := timeType(types, m.Inserted, m.Zone)
	add(columnDef{name: m.Inserted.Column, decl: at.Decl, rest: "NOT NULL" + db.Prefixed(" DEFAULT ", at.Default)})
	for _, tc := range []*mapping.Time{m.Eligible, m.Expires} {
		if tc != nil {
			add(columnDef{name: tc.Column, decl: timeType(types, *tc, m.Zone).Decl})
		}
	}
	add(columnDef{m.Attempts, types.Integer, counting, db.Integer}, columnDef{name: m.LastError, decl: types.Text, class: db.Textual})
	for _, a := range m.Touch {
		c := columnDef{name: a.Column, decl: types.Status, class: db.Textual}
		if a.Value.IsNow() {
			c = columnDef{name: a.Column, decl: timeType(types, mapping.Time{}, m.Zone).Decl}
		}
		add(c)
	}
	add(lists.Map(m.Where, func(c mapping.Condition) columnDef {
		return columnDef{name: c.Column, decl: types.Status, class: db.Textual}
	})...)
	add(lists.Map(m.Columns, func(name string) columnDef { return columnDef{name: name, decl: types.Text, class: db.Textual} })...)
	add(policyColumns(types, m, nil)...)
	cat.Uniques = [][]string{m.ID}
	return "CREATE TABLE IF NOT EXISTS " + d.Qualified(m.Schema, m.Name) + " (\n" + strings.Join(defs, ",\n") + "\n)" + types.Options, cat, nil
}

// counting follows the type of a column that counts.
const counting = "NOT NULL DEFAULT 0"

// column is what the catalogue will say.
func (c columnDef) column() db.Column {
	return db.Column{Name: c.name, Decl: c.decl, Class: c.class, NotNull: strings.HasPrefix(c.rest, "NOT NULL")}
}

// String is the type and what follows it.
func (c columnDef) String() string { return strings.TrimRight(c.decl+" "+c.rest, " ") }

// timeType returns the type of a column that holds times.
func timeType(types db.Types, tc mapping.Time, zone *time.Location) db.TimeType {
	form := cmp.Or(tc.As, "native")
	if tc.As == "" && cmp.Or(tc.Zone, zone, time.UTC) == time.UTC {
		form = "utc"
	}
	return cmp.Or(types.Times[form], types.Times["text"])
}

// timeLike returns a column for times that are written as those in the one of that name,
// which one of another type would turn into something else; cat is nil for a new table.
func timeLike(types db.Types, m mapping.Mapping, cat *db.Catalog, name string) (at columnDef, found bool) {
	at.decl = timeType(types, m.Inserted, m.Zone).Decl
	if cat == nil {
		return at, false
	}
	c := cat.Find(name, true)
	if found = c != nil && !c.Generated; found {
		at.decl, at.class = c.Decl, c.Class
	}
	return at, found
}

// policyColumns declares the columns of the policy, for a table whose columns are known or,
// with a nil catalogue, a new one. Constant defaults let the database add them
// without writing every row, and no type is one that a STRICT table lacks.
func policyColumns(types db.Types, m mapping.Mapping, cat *db.Catalog) []columnDef {
	r := m.Policy
	if r == nil || isRefreshing(m) {
		return refreshColumns(types, m, cat)
	}
	at, _ := timeLike(types, m, cat, m.Inserted.Column)
	last, next := at, at
	last.name, next.name = r.Last, r.Next
	list := []columnDef{{r.Count, types.Integer, counting, db.Integer}, last, next, {r.InRetry, types.Integer, counting, db.Integer}}
	return slices.DeleteFunc(list, func(c columnDef) bool { return c.name == "" })
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
	at, has := timeLike(types, m, cat, next) // empty columns take its form
	for i := range mapping.RefreshColumns {
		name, named := m.Policy.RefreshColumn(i)
		c := at
		switch i {
		case mapping.AttemptNo, mapping.Disabled:
			c = columnDef{"", types.Integer, counting, db.Integer}
		case mapping.AttemptUID:
			c = columnDef{decl: types.Status, class: db.Textual}
		case mapping.DisabledReason:
			c = columnDef{decl: types.Text, class: db.Textual}
		}
		if c.name = name; !has || named || i <= mapping.AttemptNo {
			list = append(list, c)
		}
	}
	if cat != nil {
		return append(list[1:], list[0])
	}
	if m.Policy.Rule != "" {
		list = append(list, columnDef{name: m.Policy.Rule, decl: types.Text, class: db.Textual})
	}
	return list
}

// A Plan is how the database reads the pages of one status.
type Plan struct {
	What    string   // the condition
	Index   string   // that serves; "": none, or the key itself
	Problem string   // why pages read more than their rows; "" if they do not
	Steps   []string // how the database reads them then, in its words
	Hint    string   // the statement that creates the index to have then
}

// Plans compares the indexes that the queries should have with the indexes there are.
func Plans(ctx context.Context, t *table.Table, readings []table.Reading) (list []Plan, err error) {
	d, was := t.DB(), t.Catalog()
	cat, err := d.Describe(ctx, cmp.Or(was.Schema, was.Database), was.Name)
	if err == nil {
		list, err = db.Get(ctx, d, func(ctx context.Context) ([]Plan, error) { return compare(ctx, t, d.Read, cat, readings) })
	}
	return list, err
}

// compare is Plans by a catalogue. q is nil where there is no table yet.
func compare(ctx context.Context, t *table.Table, q db.Querier, cat *db.Catalog, readings []table.Reading) (list []Plan, err error) {
	text := t.DB().Text()
	for _, r := range readings {
		name, create := indexOf(t, cat, r)
		p := Plan{What: r.What, Problem: "no index serves its pages", Hint: create}
		serving := cat.ServingIndexes(r.Equal, r.Order)
		serves := func(x db.Index) bool { return x.Where == "" || x.Name == name }
		if i := slices.IndexFunc(cat.Indexes, func(x db.Index) bool { return x.Name == name }); i >= 0 {
			serving = cat.Indexes[i : i+1] // of the beginnings of texts, perhaps
		} else if q != nil && !slices.ContainsFunc(serving, serves) {
			if p.Steps, err = explained(ctx, text, q, r); err != nil {
				return nil, err
			}
			// Whether a partial index serves the database alone can tell.
			serves = func(x db.Index) bool { return strings.Contains(strings.Join(p.Steps, "\n"), x.Name) }
		}
		if i := slices.IndexFunc(serving, serves); i >= 0 {
			p.Index, p.Problem, p.Hint = serving[i].Name, "", ""
		}
		list = append(list, p)
	}
	return list, nil
}

// explained returns the plan of the page's query as the database has it.
func explained(ctx context.Context, text *db.Text, q db.Querier, r table.Reading) (steps []string, err error) {
	lines, err := db.ScanAll(ctx, q, text.Explain+text.Rebind(r.Query), r.Args, func(rows *sql.Rows) (string, error) {
		names, err := rows.Columns()
		if err != nil {
			return "", err
		}
		values, err := db.ScanValues(rows, len(names))
		if names[len(names)-1] == "detail" { // SQLite's numbers say nothing
			values = values[len(names)-1:]
		}
		return strings.Join(lists.NonEmpty(lists.Map(values, db.AsText)...), " "), err
	})
	return lists.Distinct(lines), err
}

// MissingIndexes returns the statements that create an index for every status
// whose pages read more than they return.
func MissingIndexes(ctx context.Context, t *table.Table, now time.Time) ([]string, error) {
	plans, err := Plans(ctx, t, t.Readings(now))
	return createStatements(plans), err
}

// hints returns the statements of the plans. Where an index has no condition, one
// can serve several states.
func createStatements(plans []Plan) []string {
	return lists.NonEmpty(lists.Distinct(lists.Map(plans, func(p Plan) string { return p.Hint }))...)
}

// indexOf returns the name of the reading's index and the statement that creates it. The
// name tells what the index has, since two states, or two configurations, may need the
// very same. One that is left of a creation that failed, or that the planner is not to
// use, keeps its name.
func indexOf(t *table.Table, cat *db.Catalog, r table.Reading) (name, create string) {
	text, m := t.DB().Text(), t.Mapping()
	on := text.Qualified(cmp.Or(m.Schema, t.Catalog().Schema), m.Name)
	if text.File { // which has one schema
		on = text.Quote(m.Name)
	}
	if !text.PartialIndexes {
		r.Where = ""
	}
	for salt := ""; ; salt += "_" {
		sum := sha256.Sum256([]byte(text.Index(t.Catalog(), text.Quote(m.Name), salt, r.Columns, r.Where)))
		hash := fmt.Sprintf("_backlog_%x", sum[:4])
		name = strings.ToValidUTF8(m.Name[:min(len(m.Name), text.NameLength-len(hash))], "") + hash
		if !slices.ContainsFunc(cat.Indexes, func(x db.Index) bool { return x.Name == name && x.Unused }) {
			return name, text.Index(t.Catalog(), on, name, r.Columns, r.Where)
		}
	}
}
