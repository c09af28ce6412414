package table

import (
	"context"
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
)

// Missing returns the statements that create what the mapping needs and the
// database does not have: the table, and an index for each status that is
// read. It changes nothing. The database file itself is created by Create, but
// not its folder. now is the present, by which dates are found right or wrong.
func Missing(ctx context.Context, url string, m Mapping, now time.Time) ([]string, error) {
	var steps []string
	db, err := Open(ctx, url, Options{ReadOnly: true})
	if err == nil {
		defer db.Close()
		t, err := New(ctx, db, m)
		if err == nil {
			if err := t.ProveTimes(ctx, now); err != nil {
				return nil, err
			}
			return t.MissingIndexes(ctx, now)
		}
		if has, herr := hasTable(ctx, db, m); herr != nil {
			return nil, errors.Join(herr, err)
		} else if has {
			return missingColumns(ctx, db, m, now, err)
		}
	} else if !IsMissingFile(err) {
		return nil, err
	} else if err := hasFolder(url); err != nil {
		return nil, err
	} else {
		// Readers and a writer do not wait for each other then. Only a
		// database that we make ourselves is switched.
		steps = append(steps, "PRAGMA journal_mode = WAL")
	}
	create, err := createTable(m)
	if err != nil {
		return nil, err
	}
	indexes, err := indexesOf(ctx, m, now, create)
	return slices.Concat(steps, []string{create}, indexes), err
}

// hasFolder makes sure that there is a folder for the database file.
func hasFolder(url string) error {
	path, _, err := sqlitePath(url)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return problem("create it, or name another file", "the folder %s of the database file %s does not exist", dir, path)
	}
	return nil
}

// hasTable reports whether the catalogue knows the table.
func hasTable(ctx context.Context, db *DB, m Mapping) (bool, error) {
	err := db.patiently(ctx, func(ctx context.Context) error {
		_, err := db.dialect.describe(ctx, db.read, m.Schema, m.Name)
		return err
	})
	if p := (*Problem)(nil); errors.As(err, &p) {
		return false, nil
	}
	return err == nil, err
}

// indexesOf returns the indexes for a table that does not exist yet.
func indexesOf(ctx context.Context, m Mapping, now time.Time, create ...string) ([]string, error) {
	lab, err := sql.Open(sqliteDriver, ":memory:")
	if err != nil {
		return nil, err
	}
	lab.SetMaxOpenConns(1)
	db := &DB{dialect: sqlite{path: ":memory:"}, read: lab, write: lab}
	defer db.Close()
	for _, text := range create {
		if _, err := lab.ExecContext(ctx, text); err != nil {
			return nil, err
		}
	}
	t, err := New(ctx, db, m)
	if err != nil {
		return nil, err
	}
	return t.MissingIndexes(ctx, now)
}

// Create runs the statements of Missing, creating the database file if there
// is none. It is safe to run twice. That the user may not write there is a
// *Problem.
func Create(ctx context.Context, url string, steps []string) error {
	db, err := openToCreate(url)
	if err != nil {
		return err
	}
	defer db.Close()
	err = db.patiently(ctx, func(ctx context.Context) error { return db.dialect.reach(ctx, db.write) })
	if err == nil {
		err = db.ProveRights(ctx)
	}
	if err != nil {
		return db.wrap(ctx, err)
	}
	for _, s := range steps {
		if _, err := db.write.ExecContext(ctx, s); err != nil {
			if strings.Contains(err.Error(), "duplicate column name") {
				continue // there is no IF NOT EXISTS for columns
			}
			return fmt.Errorf("%s: %w", s, db.wrap(ctx, err))
		}
	}
	return nil
}

// createTable returns the statement for a table as the mapping describes it.
func createTable(m Mapping) (string, error) {
	d := sqlite{}
	if len(m.New.When) > 0 || len(m.New.Values) == 0 || m.New.Values[0].Null {
		return "", problem("create it yourself", "table %s does not exist, and its columns cannot be told from statuses.new", m.Name)
	}
	var defs []string
	seen := map[string]bool{}
	add := func(name, def string) {
		if key := strings.ToLower(name); name != "" && !seen[key] {
			seen[key] = true
			defs = append(defs, "  "+d.quote(name)+" "+def)
		}
	}
	if len(m.ID) == 1 {
		add(m.ID[0], "INTEGER PRIMARY KEY")
	} else {
		for _, k := range m.ID {
			add(k, "INTEGER NOT NULL")
		}
	}
	status, literal := statusType(m)
	add(m.Status, status+" NOT NULL DEFAULT "+literal)
	add(m.Inserted.Column, timeType(m.Inserted, m.Zone, true))
	for _, tc := range []*Time{m.Eligible, m.Expires} {
		if tc != nil {
			add(tc.Column, timeType(*tc, m.Zone, false))
		}
	}
	add(m.Attempts, "INTEGER NOT NULL DEFAULT 0")
	add(m.LastError, "TEXT")
	for _, a := range m.Touch {
		add(a.Column, "TEXT")
	}
	for _, c := range m.Where {
		add(c.Column, "TEXT")
	}
	for _, c := range m.Columns {
		add(c, "TEXT")
	}
	for _, c := range retryColumns(m, nil) {
		add(c.name, c.def)
	}
	if len(m.ID) > 1 {
		key := make([]string, len(m.ID))
		for i, k := range m.ID {
			key[i] = d.quote(k)
		}
		defs = append(defs, "  PRIMARY KEY ("+strings.Join(key, ", ")+")")
	}
	return "CREATE TABLE IF NOT EXISTS " + d.quote(m.Name) + " (\n" + strings.Join(defs, ",\n") + "\n)", nil
}

// statusType returns the type of the status column and its default, the first
// of the new statuses.
func statusType(m Mapping) (decl, literal string) {
	c := column{name: m.Status, class: classInteger}
	for _, s := range []State{m.New, m.Error, m.Success, m.Dead} {
		for _, v := range s.Values {
			if _, err := c.typed(v); err != nil {
				return "TEXT", sqlite{}.literal(m.New.Values[0].Text)
			}
		}
	}
	v, _ := c.typed(m.New.Values[0])
	return "INTEGER", sqlite{}.literal(v)
}

// timeType returns the definition of a time column. Only a form that SQLite
// can write itself has a default.
func timeType(tc Time, zone *time.Location, now bool) string {
	if tc.Zone != nil {
		zone = tc.Zone
	}
	decl, value := "TEXT", ""
	switch {
	case tc.As == "unix_s":
		decl, value = "INTEGER", "(unixepoch())"
	case tc.As == "unix_ms":
		decl, value = "INTEGER", "(CAST(unixepoch('subsec') * 1000 AS INTEGER))"
	case tc.As == "unix_us":
		decl = "INTEGER"
	case tc.As == "julian":
		decl, value = "REAL", "(julianday())"
	case tc.As == "" && (zone == nil || zone == time.UTC):
		value = "CURRENT_TIMESTAMP"
	}
	if !now {
		return decl
	}
	if value == "" {
		return decl + " NOT NULL"
	}
	return decl + " NOT NULL DEFAULT " + value
}

// MissingIndexes returns the statements that create an index for every status
// whose pages read more than they return. now is that of Plans.
func (t *Table) MissingIndexes(ctx context.Context, now time.Time) ([]string, error) {
	plans, err := t.Plans(ctx, now)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, p := range plans {
		if p.Bad != "" {
			list = append(list, p.Cure)
		}
	}
	return list, nil
}

// A Plan is how the database reads the pages of one status.
type Plan struct {
	What  string // the condition
	Steps []string
	Bad   string // why it reads more than the page, or empty
	Cure  string // the statement that creates the index to have; empty if Bad is
}

// Plans explains how each status is read by a pass that begins now.
func (t *Table) Plans(ctx context.Context, now time.Time) ([]Plan, error) {
	var list []Plan
	for i, b := range t.branches {
		q := backlog.Query{Lane: b.lane, Now: now, MaxAge: 24 * time.Hour, Limit: 1000}
		if t.followsPolicy(b.lane) {
			plans, err := t.retryPlans(ctx, q, i)
			if err != nil {
				return nil, err
			}
			list = append(list, plans...)
			continue
		}
		text, args := t.branchQuery(q, part{seg: segDated}, i, q.Limit)
		p, err := t.plan(ctx, b, text, args, func(ctx context.Context) (string, error) { return t.indexFor(ctx, i, b) })
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// plan explains a query of the branch; cure returns the index that it misses.
func (t *Table) plan(ctx context.Context, b branch, text string, args []any, cure func(context.Context) (string, error)) (Plan, error) {
	p := Plan{What: b.cond}
	err := t.within(ctx, func(ctx context.Context) (err error) {
		p.Steps, p.Bad, err = t.d.plan(ctx, t.db.read, t, b, text, args)
		if err != nil || p.Bad == "" {
			return err
		}
		p.Cure, err = cure(ctx)
		return err
	})
	return p, err
}

// indexFor returns the statement that creates the index for a branch. It has
// the time and the key of the branch's rows, in front of them the columns whose
// value its condition says already: a planner without statistics prefers any
// index that it can search by a status, and would then sort.
func (t *Table) indexFor(ctx context.Context, i int, b branch) (string, error) {
	name := fmt.Sprintf("%s_backlog_%s", t.m.Name, b.lane)
	if i > 0 && t.branches[i-1].lane == b.lane {
		name = fmt.Sprintf("%s_%d", name, i)
	}
	return t.createIndex(ctx, name, b, []string{b.cond}, t.inserted.quoted)
}

// createIndex returns the statement for an index over the rows of the branch
// that meet the conditions, in the order of the columns and then of the key.
func (t *Table) createIndex(ctx context.Context, name string, b branch, conds []string, columns ...string) (string, error) {
	where := " WHERE " + strings.Join(append(conds, nonEmpty(t.where)...), " AND ")
	if !t.d.partialIndexes() {
		where = ""
	}
	columns = slices.Concat(t.lead, b.lead, columns, t.key)
	create := func(name string) string {
		return t.d.createIndex(t, name, strings.Join(columns, ", ")+")"+where)
	}
	name, err := t.d.indexName(ctx, t.db.read, name, create)
	return create(name), err
}

// Statements returns the text of every statement that passes run, for people
// who want to know before they grant.
func (t *Table) Statements() []string {
	var list []string
	add := func(s string) {
		if s != "" && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	parts := make([]any, len(t.key))
	for i := range parts {
		parts[i] = ""
	}
	place := backlog.Cursor{Order: "", Key: backlog.NewKey(parts...)}
	for _, lane := range []backlog.Lane{backlog.Fresh, backlog.Failed} {
		for seg := segNewest; seg < segEnd; seg++ {
			if seg != segDated && !t.laneHasSegment(backlog.Query{Lane: lane, Widest: true}, seg) {
				continue
			}
			for _, after := range []backlog.Cursor{{}, place} {
				after.Segment = seg
				q := backlog.Query{Lane: lane, After: after}
				for _, p := range partsOf(q, seg) {
					text, _ := t.pageQuery(q, p, 1)
					add(text)
				}
			}
		}
	}
	for i := range t.branches {
		for _, o := range []backlog.Outcome{backlog.Succeeded, backlog.Errored, backlog.Rejected} {
			text, _ := t.updateText(batch{state: i, outcome: o}, 1)
			add(text)
		}
		if t.expireSet != nil {
			for _, col := range []*timeCol{t.inserted, t.expires} {
				if col != nil {
					add(t.expireText(t.expired(t.branches[i], col)))
				}
			}
			if b := t.branches[i]; b.exhausted != "" {
				b.cond = b.exhausted
				add(t.expireText(t.pending(b)))
			}
		}
	}
	return list
}
