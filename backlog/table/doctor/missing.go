// Package doctor finds what a table lacks: indexes, columns, rights. It has what the
// commands check and init need, in words and in statements.
package doctor

import (
	"cmp"
	"context"
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
)

// Missing returns the statements that create what the mapping needs and the
// database does not have: the table, and an index for each status that is
// read. It changes nothing. The file of an SQLite database is itself created by
// Create, but not its folder. now is the present.
func Missing(ctx context.Context, dialect db.Server, url string, m mapping.Mapping, now time.Time) ([]string, error) {
	d, err := db.Open(ctx, dialect, url, db.Options{ReadOnly: true})
	if file := (*db.MissingFile)(nil); errors.As(err, &file) {
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
	if cat.Kind == db.Missing {
		return missingTable(d, m, cat, now)
	}
	t, err := table.Resolve(d, m, cat)
	if err != nil {
		return missingColumns(d, m, cat, now, err)
	}
	steps, err := MissingIndexes(ctx, t, now)
	if cat.Kind == db.Partitioned {
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
	plans, err := compare(context.Background(), t, nil, cat, now)
	return hints(plans), err
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
			if text := strings.ToLower(err.Error()); strings.Contains(text, "duplicate column name") || strings.Contains(text, "duplicate key name") {
				continue
			}
			return fmt.Errorf("%s: %w", s, d.Wrap(ctx, err))
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
	for _, c := range retryColumns(text.Types, m, cat) {
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
	read := "" // all columns: the handler is given them
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
