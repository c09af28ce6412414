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
// read. It changes nothing. The file of an SQLite database is itself created by
// Create, but not its folder. now is the present, by which dates are found right
// or wrong.
func Missing(ctx context.Context, url string, m Mapping, now time.Time) ([]string, error) {
	db, err := Open(ctx, url, Options{ReadOnly: true})
	if IsMissingFile(err) {
		return missingFrom(ctx, url, m, now)
	}
	if err != nil {
		return nil, err
	}
	defer db.Close()
	t, err := New(ctx, db, m)
	if err == nil {
		if err := t.ProveTimes(ctx, now); err != nil {
			return nil, err
		}
		steps, err := t.MissingIndexes(ctx, now)
		if t.catalog.kind == "partitioned" {
			for i, s := range steps {
				steps[i] = "-- keeps writers waiting until it is made: PostgreSQL has no CONCURRENTLY for a table in partitions\n" + s
			}
		}
		return steps, err
	}
	if has, herr := hasTable(ctx, db, m); herr != nil {
		return nil, errors.Join(herr, err)
	} else if has {
		return missingColumns(ctx, db, m, now, err)
	}
	return missingTable(ctx, db, m, now)
}

// missingFrom is Missing where there is no file yet.
func missingFrom(ctx context.Context, url string, m Mapping, now time.Time) ([]string, error) {
	if err := hasFolder(url); err != nil {
		return nil, err
	}
	db, err := laboratory(ctx)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	steps, err := missingTable(ctx, db, m, now)
	// Readers and a writer do not wait for each other then. Only a database
	// that we make ourselves is switched.
	return slices.Concat([]string{"PRAGMA journal_mode = WAL"}, steps), err
}

// missingTable returns the statements for a table that does not exist.
func missingTable(ctx context.Context, db *DB, m Mapping, now time.Time) ([]string, error) {
	if m.Schema == "" {
		err := db.patiently(ctx, func(ctx context.Context) (err error) {
			m.Schema, err = db.dialect.newSchema(ctx, db.read)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	create, cat, err := createTable(db.dialect, m)
	if err != nil {
		return nil, err
	}
	indexes, err := indexesOf(ctx, db, m, cat, now, create)
	return slices.Concat([]string{create}, indexes), err
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

// indexesOf returns the indexes for a table that is yet to be made, or to get
// more columns, by the statements. cat is what it will be then.
func indexesOf(ctx context.Context, db *DB, m Mapping, cat *catalog, now time.Time, create ...string) ([]string, error) {
	if _, isFile := db.dialect.(sqlite); isFile {
		return triedIndexes(ctx, m, now, create)
	}
	t, err := resolve(db, m, cat)
	if err != nil {
		return nil, err
	}
	var list []string
	err = t.within(ctx, func(ctx context.Context) error {
		list = nil
		for i, b := range t.branches {
			var texts []string
			if t.followsPolicy(b.lane) {
				for _, x := range t.retryIndexes(i) {
					text, err := t.createIndex(ctx, x.name, b, x.conds, x.columns...)
					if err != nil {
						return err
					}
					texts = append(texts, text)
				}
			} else if text, err := t.indexFor(ctx, i, b); err != nil {
				return err
			} else {
				texts = []string{text}
			}
			for _, text := range texts {
				if !slices.Contains(list, text) {
					list = append(list, text)
				}
			}
		}
		return nil
	})
	return list, err
}

// triedIndexes is indexesOf where all can be tried in memory, what is there
// already with it.
func triedIndexes(ctx context.Context, m Mapping, now time.Time, create []string) ([]string, error) {
	db, err := laboratory(ctx, create...)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	t, err := New(ctx, db, m)
	if err != nil {
		return nil, err
	}
	return t.MissingIndexes(ctx, now)
}

// laboratory returns an SQLite database in memory in which the statements have
// been run.
func laboratory(ctx context.Context, create ...string) (*DB, error) {
	lab, err := sql.Open(sqliteDriver, inMemory)
	if err != nil {
		return nil, err
	}
	lab.SetMaxOpenConns(1)
	for _, text := range create {
		if _, err := lab.ExecContext(ctx, text); err != nil {
			lab.Close()
			return nil, err
		}
	}
	return &DB{dialect: sqlite{path: inMemory}, read: lab, write: lab}, nil
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
			// There is no IF NOT EXISTS for columns, and in MySQL none for
			// indexes, whose names say there what they have.
			if text := strings.ToLower(err.Error()); strings.Contains(text, "duplicate column name") || strings.Contains(text, "duplicate key name") {
				continue
			}
			return fmt.Errorf("%s: %w", s, db.wrap(ctx, err))
		}
	}
	return nil
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
		// Where an index has no condition, one can be that of several states.
		if p.Bad != "" && !p.Stale && !slices.Contains(list, p.Cure) {
			list = append(list, p.Cure)
		}
	}
	return list, nil
}

// A Plan is how the database reads the pages of one status.
type Plan struct {
	What  string // the condition
	Steps []string
	// Indexes are those by which no more than the page is read, if nothing is
	// Bad; they are Unused where the planner takes the rows for so few that
	// another way is as good.
	Indexes []string
	Unused  bool
	Bad     string // why it reads more than the page, or empty
	Cure    string // the statement that creates the index to have; empty if Bad is
	Stale   bool   // the index is there: Cure has the planner look at the table
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
	p := Plan{What: fmt.Sprintf("%s records, %s", b.lane, b.cond)}
	err := t.within(ctx, func(ctx context.Context) (err error) {
		x, err := t.d.plan(ctx, t.db.read, t, b, text, args)
		p.Steps, p.Indexes, p.Unused, p.Bad = x.steps, x.indexes, x.unused, x.bad
		p.Cure, p.Stale = x.analyze, x.analyze != ""
		if err != nil || p.Bad == "" || p.Stale {
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
	columns = distinct(slices.Concat(t.lead, b.lead, columns, t.key))
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
		if s = t.d.place(s); s != "" && !slices.Contains(list, s) {
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
			for _, failures := range []int{0, 1} { // as a policy counts them
				text, _ := t.updateText(batch{state: i, outcome: o, count: failures}, 1)
				add(text)
			}
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
