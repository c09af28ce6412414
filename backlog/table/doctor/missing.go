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

// Requirements are what [Missing] compares a database with.
type Requirements struct {
	Mapping     mapping.Mapping
	CreateTable bool // create the table, and the file of an SQLite database, if they do not exist
	Now         time.Time
}

// Missing returns the statements that create what the mapping needs and the database lacks: an index for
// each status that is read, the columns of a policy and, with CreateTable, the table. It changes nothing.
// [Create] also creates the file of an SQLite database, but not its folder.
func Missing(ctx context.Context, dialect db.Server, url string, r Requirements) ([]string, error) {
	d, err := db.Open(ctx, dialect, url, db.Options{ReadOnly: true})
	if file := (*db.MissingFile)(nil); r.CreateTable && errors.As(err, &file) {
		dir := filepath.Dir(file.Path)
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil, db.Problemf("create it, or name another file", "the folder %s of the database file %s does not exist", dir, file.Path)
		}
		steps, err := missingTable(&db.DB{Server: dialect}, r.Mapping, &db.Catalog{}, r.Now)
		// In WAL mode readers and a writer do not wait for each other. Only a database that this
		// program creates is switched to it.
		return slices.Concat([]string{"PRAGMA journal_mode = WAL"}, steps), err
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	cat, err := d.Describe(ctx, r.Mapping.Schema, r.Mapping.Name)
	if err != nil {
		return nil, err
	}
	if cat.Kind == db.Missing && r.CreateTable {
		return missingTable(d, r.Mapping, cat, r.Now)
	}
	t, err := table.Resolve(d, r.Mapping, cat)
	if err != nil {
		return missingColumns(d, r.Mapping, cat, r.Now, err)
	}
	steps, err := MissingIndexes(ctx, t, r.Now)
	if cat.Kind == db.Partitioned && strings.Contains(d.Text().CreateIndex, "CONCURRENTLY") {
		for i, s := range steps {
			steps[i] = "-- keeps writers waiting until it is made: PostgreSQL has no CONCURRENTLY for a table in partitions\n" + s
		}
	}
	return steps, err
}

// missingTable returns the statements that create the table and its indexes, in the schema in which the
// database would create it.
func missingTable(d *db.DB, m mapping.Mapping, cat *db.Catalog, now time.Time) ([]string, error) {
	m.Schema = cmp.Or(m.Schema, cat.Schema)
	create, made, err := createTable(d.Text(), m)
	if err != nil {
		return nil, err
	}
	indexes, err := indexesOf(d, m, made, now)
	return slices.Concat([]string{create}, indexes), err
}

// indexesOf returns the statements that create the indexes of a table which other statements create or
// extend first. cat describes the table after those statements.
func indexesOf(d *db.DB, m mapping.Mapping, cat *db.Catalog, now time.Time) ([]string, error) {
	t, err := table.Resolve(d, m, cat)
	if err != nil {
		return nil, err
	}
	plans, err := plansWith(context.Background(), t, nil, cat, t.PassQueries(now))
	return createStatements(plans), err
}

// Create runs the statements of [Missing], and creates the database file if it does not exist. It is safe to
// run it twice. It returns a *db.Problem if the user may not write to the database.
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
			// Columns have no IF NOT EXISTS, and in MySQL neither do indexes. An index of the same
			// name has the same columns, because its name is a hash of them.
			text := strings.ToLower(err.Error())
			if !strings.Contains(text, "duplicate column name") && !strings.Contains(text, "duplicate key name") {
				return fmt.Errorf("%s: %w", s, d.Wrap(ctx, err))
			}
		}
	}
	return nil
}

// missingColumns returns the statements that add the columns of the policy to a table, and those that
// create the indexes. If no column is missing, it returns wrong, which is why the table cannot be used.
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

// Grants returns the statements that give the user of the connection exactly the rights that passes need.
// It returns none if the database has no users.
func Grants(t *table.Table) (list []string) {
	cat := t.Catalog()
	text := t.DB().Text()
	if cat.QuotedUser == "" {
		return nil
	}
	if schema := t.Mapping().Schema; schema != "" && text.GrantsUsage {
		list = append(list, fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s", text.Quote(schema), cat.QuotedUser))
	}
	readable := "" // all columns, because the handler gets them all
	if t.Mapping().Columns != nil {
		readable = " (" + strings.Join(t.ReadColumns(), ", ") + ")"
	}
	writable := strings.Join(t.WrittenColumns(), ", ")
	return append(list, fmt.Sprintf("GRANT SELECT%s, UPDATE (%s) ON %s TO %s", readable, writable, cat.QuotedName, cat.QuotedUser))
}

// Samples says how up to three pending rows are understood. It reads more rows than that, because the
// first ones may be unreadable.
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
				age := now.Sub(r.Inserted)
				side := "old"
				if age < 0 {
					age = -age
					side = "ahead of the clock"
				}
				list = append(list, fmt.Sprintf("row %v: %s, %s %s", r.Key, r.Inserted.UTC().Format("2006-01-02 15:04:05 MST"), timeform.Roughly(age), side))
			}
		}
	}
	return list, nil
}

// A columnDef is the definition of a column that init can create.
type columnDef struct {
	name, decl string
	rest       string // what follows the type
	class      db.Class
}

// createTable returns the statement that creates the table as the mapping describes it, and the catalog
// that the database will then have.
func createTable(d *db.Text, m mapping.Mapping) (string, *db.Catalog, error) {
	if isRefreshing(m) { // the table gets the columns that the configuration names
		m = m.Refreshing(func(column string) bool { return column != "" })
	}
	none := isRefreshing(m) && m.New.IsZero()
	if len(m.ID) != 1 || !none && (len(m.New.When) > 0 || len(m.New.Values) == 0 || m.New.Values[0].Null) {
		return "", nil, db.Problemf("create it yourself", "table %s does not exist, and its columns cannot be told from table.id and statuses.new", m.Name)
	}
	types := d.Types
	cat := &db.Catalog{Kind: db.Relation}
	var defs []string
	add := func(list ...columnDef) {
		for _, c := range list {
			if c.name != "" && cat.Find(c.name, true) == nil {
				defs = append(defs, "  "+d.Quote(c.name)+" "+c.String())
				cat.Columns = append(cat.Columns, c.column())
			}
		}
	}
	add(columnDef{name: m.ID[0], decl: types.Key, class: db.Integer})
	cat.Columns[0].NotNull = true
	if slices.ContainsFunc(m.States(), func(s mapping.Named) bool { return len(s.Values) > 0 }) {
		status := textColumn(m.Status, types.Status)
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
	add(counterColumn(m.Attempts, types), textColumn(m.LastError, types.Text))
	for _, a := range m.Touch {
		c := textColumn(a.Column, types.Status)
		if a.Value.IsNow() {
			c = columnDef{name: a.Column, decl: timeType(types, mapping.Time{}, m.Zone).Decl}
		}
		add(c)
	}
	add(lists.Map(m.Where, func(c mapping.Condition) columnDef { return textColumn(c.Column, types.Status) })...)
	add(lists.Map(m.Columns, func(name string) columnDef { return textColumn(name, types.Text) })...)
	add(policyColumns(types, m, nil)...)
	cat.Uniques = [][]string{m.ID}
	return "CREATE TABLE IF NOT EXISTS " + d.Qualified(m.Schema, m.Name) + " (\n" + strings.Join(defs, ",\n") + "\n)" + types.Options, cat, nil
}

// counterColumn returns a column that counts from 0.
func counterColumn(name string, types db.Types) columnDef {
	return columnDef{name: name, decl: types.Integer, rest: "NOT NULL DEFAULT 0", class: db.Integer}
}

// textColumn returns a column for texts. decl is its type.
func textColumn(name, decl string) columnDef {
	return columnDef{name: name, decl: decl, class: db.Textual}
}

// column returns the column as the catalog will describe it.
func (c columnDef) column() db.Column {
	return db.Column{Name: c.name, Decl: c.decl, Class: c.class, NotNull: strings.HasPrefix(c.rest, "NOT NULL")}
}

// String returns the type and what follows it.
func (c columnDef) String() string { return strings.TrimRight(c.decl+" "+c.rest, " ") }

// timeType returns the type of a column for times.
func timeType(types db.Types, tc mapping.Time, zone *time.Location) db.TimeType {
	form := cmp.Or(tc.As, "native")
	if tc.As == "" && cmp.Or(tc.Zone, zone, time.UTC) == time.UTC {
		form = "utc"
	}
	return cmp.Or(types.Times[form], types.Times["text"])
}

// timeLike returns a column without a name for times in the same form as in the named column. A column of
// another type could convert them. found is false if there is no such column; cat is nil for a new table.
func timeLike(types db.Types, m mapping.Mapping, cat *db.Catalog, name string) (at columnDef, found bool) {
	at.decl = timeType(types, m.Inserted, m.Zone).Decl
	if cat == nil {
		return at, false
	}
	c := cat.Find(name, true)
	found = c != nil && !c.Generated
	if found {
		at.decl = c.Decl
		at.class = c.Class
	}
	return at, found
}

// policyColumns returns the columns of the policy, for a table with the catalog cat, or a new table if cat
// is nil. Constant defaults let the database add the columns without writing every row. A STRICT table
// knows all of the types.
func policyColumns(types db.Types, m mapping.Mapping, cat *db.Catalog) []columnDef {
	r := m.Policy
	if r == nil || isRefreshing(m) {
		return refreshColumns(types, m, cat)
	}
	at, _ := timeLike(types, m, cat, m.Inserted.Column)
	last := at
	last.name = r.Last
	next := at
	next.name = r.Next
	list := []columnDef{counterColumn(r.Count, types), last, next, counterColumn(r.InRetry, types)}
	isUnnamed := func(c columnDef) bool { return c.name == "" }
	return slices.DeleteFunc(list, isUnnamed)
}

func isRefreshing(m mapping.Mapping) bool { return m.Policy != nil && m.Policy.Refresh != nil }

// refreshColumns returns the columns of the refresh policy, like policyColumns. If the table already has
// the time of the next start, these are the columns that the configuration names, else all of them. In an
// existing table that time is added last: if init was stopped, running it again adds the rest.
func refreshColumns(types db.Types, m mapping.Mapping, cat *db.Catalog) (list []columnDef) {
	if !isRefreshing(m) {
		return nil
	}
	next, _ := m.Policy.RefreshColumn(mapping.RefreshAt)
	timeColumn, hasNext := timeLike(types, m, cat, next) // the other columns of times are empty, and take the same form
	for i := range mapping.RefreshColumns {
		name, named := m.Policy.RefreshColumn(i)
		required := i == mapping.RefreshAt || i == mapping.AttemptNo
		if hasNext && !named && !required {
			continue
		}
		switch i {
		case mapping.AttemptNo, mapping.Disabled:
			list = append(list, counterColumn(name, types))
		case mapping.AttemptUID:
			list = append(list, textColumn(name, types.Status))
		case mapping.DisabledReason:
			list = append(list, textColumn(name, types.Text))
		default:
			c := timeColumn
			c.name = name
			list = append(list, c)
		}
	}
	if cat != nil {
		refreshAt := list[0]
		others := list[1:]
		return append(others, refreshAt)
	}
	if m.Policy.Rule != "" {
		list = append(list, textColumn(m.Policy.Rule, types.Text))
	}
	return list
}

// A Plan says how the database answers a query, such as for the pages of one status.
type Plan struct {
	What    string   // the condition
	Index   string   // the index that serves; "": the key itself, or none
	Problem string   // why reading a page reads more than its rows; "": it does not
	Steps   []string // the plan of the database; nil: it was not asked for
	Hint    string   // the statement that creates the missing index, if there is a problem
}

// QueryPlans returns the plan of each query, in their order. It looks at the indexes that the table has
// now: some may have been created since the table was opened.
func QueryPlans(ctx context.Context, t *table.Table, queries []table.IndexedQuery) ([]Plan, error) {
	d := t.DB()
	opened := t.Catalog()
	schema := cmp.Or(opened.Schema, opened.Database) // what MySQL calls a database is a schema
	current, err := d.Describe(ctx, schema, opened.Name)
	if err != nil {
		return nil, err
	}
	return db.Get(ctx, d, func(ctx context.Context) ([]Plan, error) {
		return plansWith(ctx, t, d.Read, current, queries)
	})
}

// plansWith implements [QueryPlans] with the indexes of a catalog. on is nil if the table does not exist yet.
func plansWith(ctx context.Context, t *table.Table, on db.Querier, cat *db.Catalog, queries []table.IndexedQuery) (list []Plan, err error) {
	for _, q := range queries {
		p, err := planOf(ctx, t, on, cat, q)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// planOf returns how one query is served: by the index that [Create] makes for it, by an index of all
// rows, by a partial index that the database uses, or by none.
func planOf(ctx context.Context, t *table.Table, on db.Querier, cat *db.Catalog, q table.IndexedQuery) (Plan, error) {
	name, create := indexOf(t, cat, q)
	p := Plan{What: q.What}
	isCreated := func(x db.Index) bool { return x.Name == name }
	if slices.ContainsFunc(cat.Indexes, isCreated) {
		// ServingIndexes may leave it out, since it may contain only the beginnings of texts.
		p.Index = name
		return p, nil
	}
	candidates := cat.ServingIndexes(q.Equal, q.OrderBy)
	hasAllRows := func(x db.Index) bool { return x.Where == "" }
	if i := slices.IndexFunc(candidates, hasAllRows); i >= 0 {
		p.Index = candidates[i].Name
		return p, nil
	}
	if on != nil {
		// The candidates are partial indexes. Only the database knows whether their rows are enough.
		steps, err := explained(ctx, t.DB().Text(), on, q)
		if err != nil {
			return Plan{}, err
		}
		p.Steps = steps
		// Each database has its own notation for the steps, but all of them name the index that they read.
		text := strings.Join(steps, "\n")
		isUsed := func(x db.Index) bool { return strings.Contains(text, x.Name) }
		if i := slices.IndexFunc(candidates, isUsed); i >= 0 {
			p.Index = candidates[i].Name
			return p, nil
		}
	}
	p.Problem = "no index serves its pages"
	p.Hint = create
	return p, nil
}

// explained returns the plan of the database for the query of a page.
func explained(ctx context.Context, text *db.Text, on db.Querier, q table.IndexedQuery) (steps []string, err error) {
	lines, err := db.ScanAll(ctx, on, text.Explain+text.Rebind(q.Query), q.Args, func(rows *sql.Rows) (string, error) {
		names, err := rows.Columns()
		if err != nil {
			return "", err
		}
		values, err := db.ScanValues(rows, len(names))
		if names[len(names)-1] == "detail" { // in SQLite the other columns are numbers of nodes
			values = values[len(names)-1:]
		}
		return strings.Join(lists.NonEmpty(lists.Map(values, db.AsText)...), " "), err
	})
	return lists.Distinct(lines), err
}

// MissingIndexes returns the statements that create an index for every status whose pages read more
// rows than they return.
func MissingIndexes(ctx context.Context, t *table.Table, now time.Time) ([]string, error) {
	plans, err := QueryPlans(ctx, t, t.PassQueries(now))
	return createStatements(plans), err
}

// createStatements returns the hints of the plans, each once: without a condition one index can serve
// several states.
func createStatements(plans []Plan) []string {
	return lists.NonEmpty(lists.Distinct(lists.Map(plans, func(p Plan) string { return p.Hint }))...)
}

// indexOf returns the name of the index for a query, and the statement that creates it. The name
// contains a hash of the columns and the condition, because two states or two configurations may need
// the same index. If an index of that name is unusable, because its creation failed or because the
// planner must not use it, the new one gets another name.
func indexOf(t *table.Table, cat *db.Catalog, q table.IndexedQuery) (name, create string) {
	text := t.DB().Text()
	m := t.Mapping()
	on := text.Qualified(cmp.Or(m.Schema, t.Catalog().Schema), m.Name)
	if text.File { // a file has one schema
		on = text.Quote(m.Name)
	}
	if !text.PartialIndexes {
		q.IndexWhere = ""
	}
	for salt := ""; ; salt += "_" {
		sum := sha256.Sum256([]byte(text.Index(t.Catalog(), text.Quote(m.Name), salt, q.IndexColumns, q.IndexWhere)))
		hash := fmt.Sprintf("_backlog_%x", sum[:4])
		name = strings.ToValidUTF8(m.Name[:min(len(m.Name), text.NameLength-len(hash))], "") + hash
		if !slices.ContainsFunc(cat.Indexes, func(x db.Index) bool { return x.Name == name && x.Unused }) {
			return name, text.Index(t.Catalog(), on, name, q.IndexColumns, q.IndexWhere)
		}
	}
}
