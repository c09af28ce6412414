package cmd

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/config"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/backlog/table/doctor"
)

// A wildTable is a table of a well-known program, with rows and the
// configuration that it is worked off with: see testdata/wild.
type wildTable struct {
	name, table, key string
	on               []wildKind // the databases that the program runs on
	// reply is what the handler says, by key; nil for success. Records that
	// it does not have must not be handed out.
	reply map[string]error
	// meanwhile is what the program does while a record is handled, by key.
	meanwhile map[string]string
	// order is that of the records; what is new comes first.
	order string
	// changed are the only columns that differ afterwards, by key, as SQL
	// literals; nil: the row is gone.
	changed map[string]map[string]string
	report  backlog.Report // its counts
	notes   []string
	indexes int // to have, that the program does not have
}

// noon is what these tests take for the present.
var noon = time.Date(2026, 2, 10, 12, 0, 0, 0, time.UTC)

// TestWildTables works tables of well-known programs off as they are: each row
// has afterwards what it should, and everything else is byte for byte as it
// was.
func TestWildTables(t *testing.T) {
	for _, w := range slices.Concat(wild, wildInServers) {
		for _, k := range w.on {
			t.Run(w.name+"/"+k.name, func(t *testing.T) {
				dir := filepath.Join("..", "testdata", "wild", w.name)
				cfg, err := config.LoadFile(filepath.Join(dir, "schedule.yaml"), knownSettings())
				if err != nil {
					t.Fatal(err)
				}
				db, url := k.make(t)
				loadWild(t, db, dir, k)
				schema, before := wildSchema(t, db, k, w.table), w.literals(t, db, k)
				w.work(t, db, url, cfg)
				if after := wildSchema(t, db, k, w.table); !reflect.DeepEqual(after, schema) {
					t.Errorf("the schema was changed:\n got %q\nwant %q", after, schema)
				}
				w.wantChanges(t, k, before, w.literals(t, db, k))
				w.wantIndexes(t, k, url, mappingOf(cfg))
			})
		}
	}
}

// loadWild runs the scripts of the program's table.
func loadWild(t *testing.T, db *sql.DB, dir string, k wildKind) {
	t.Helper()
	schema := filepath.Join(dir, "schema."+k.name+".sql")
	if _, err := os.Stat(schema); err != nil { // it is the same everywhere
		schema = filepath.Join(dir, "schema.sql")
	}
	for _, script := range []string{schema, filepath.Join(dir, "rows.sql")} {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, db, string(text))
	}
}

// wildSchema returns all that is declared where the table is.
func wildSchema(t *testing.T, db *sql.DB, k wildKind, table string) (list [][]string) {
	t.Helper()
	for _, query := range k.schema(table) {
		list = append(list, rowsOf(t, db, query))
	}
	return list
}

// work runs one pass of the widest tier over the table.
func (w wildTable) work(t *testing.T, theirs *sql.DB, url string, cfg *config.Config) {
	t.Helper()
	ctx := context.Background()
	db, err := openDatabase(ctx, url, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s, err := table.New(ctx, db, mappingOf(cfg))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Prove(ctx, noon); err != nil {
		t.Fatal(err)
	}
	if notes := s.Notes(); !reflect.DeepEqual(notes, w.notes) {
		t.Errorf("Notes: got %q, want %q", notes, w.notes)
	}
	var order []string
	e := &backlog.Engine{
		Store: s, Concurrency: 1,
		Now: func() time.Time { return noon.Add(250 * time.Millisecond) },
		Handler: backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
			key := r.Key.String()
			order = append(order, key)
			if text, ok := w.meanwhile[key]; ok {
				mustExec(t, theirs, text)
			}
			reply, ok := w.reply[key]
			if !ok {
				t.Errorf("row %s must not be handed out", key)
			}
			return reply
		}),
	}
	tiers := cfg.Tiers.Tiers()
	r, err := e.Pass(ctx, backlog.Pass{MaxAge: tiers[len(tiers)-1].MaxAge, Widest: true, Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, " "); got != w.order {
		t.Errorf("the order of handling:\n got %s\nwant %s", got, w.order)
	}
	got := backlog.Report{Selected: r.Selected, Succeeded: r.Succeeded, Failed: r.Failed, Rejected: r.Rejected, Expired: r.Expired,
		Unreadable: r.Unreadable, Conflicts: r.Conflicts, Refused: r.Refused}
	if !reflect.DeepEqual(got, w.report) {
		t.Errorf("the pass: got %+v, want %+v", got, w.report)
	}
}

func (w wildTable) wantChanges(t *testing.T, k wildKind, before, after map[string]map[string]string) {
	t.Helper()
	for key := range after {
		if before[key] == nil {
			t.Errorf("row %s is there, and was not before", key)
		}
	}
	for key, row := range before {
		changes, changed := w.changed[key]
		if gone := changed && changes == nil; gone || after[key] == nil {
			if gone != (after[key] == nil) {
				t.Errorf("row %s: got %q, want it gone: %t", key, after[key], gone)
			}
			continue
		}
		for column, was := range row {
			want, changes := changes[column]
			if !changes {
				want = was
			} else if want = k.written(want); want == was {
				t.Errorf("row %s, %s: the test expects a change to what was there", key, column)
			}
			if got := after[key][column]; got != want {
				t.Errorf("row %s, %s: got %s, want %s (it was %s)", key, column, got, want, was)
			}
		}
	}
}

// written returns the literal as the database's own rows are shown: servers show
// numbers as text.
func (k wildKind) written(literal string) string {
	switch {
	case literal == wildNow:
		return k.now
	case literal == wildTick:
		return k.tick
	case k.name == inSQLite.name, literal == "NULL", strings.HasPrefix(literal, "'"):
		return literal
	}
	return "'" + literal + "'"
}

// wantIndexes checks that the indexes to have are missed, and that they are
// used when init has made them, whatever others the program has.
func (w wildTable) wantIndexes(t *testing.T, k wildKind, at string, m mapping.Mapping) {
	t.Helper()
	ctx := context.Background()
	want := w.indexes
	if k.name == inMySQL.name {
		want = 1 // for all statuses, since none has a condition
	}
	server, err := serverOf(at)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := doctor.Missing(ctx, server, at, doctor.Requirements{Mapping: m, Now: noon})
	if err != nil || len(steps) != want {
		t.Fatalf("Missing: got %q, %v, want %d indexes", steps, err, want)
	}
	if err := doctor.Create(ctx, server, at, steps); err != nil {
		t.Fatal(err)
	}
	if steps, err = doctor.Missing(ctx, server, at, doctor.Requirements{Mapping: m, Now: noon}); err != nil || len(steps) > 0 {
		t.Errorf("Missing, when all have been made: got %q, %v", steps, err)
	}
}

// literals returns all rows by key, and of each row the columns as SQL
// literals.
func (w wildTable) literals(t *testing.T, db *sql.DB, k wildKind) map[string]map[string]string {
	t.Helper()
	from := k.quote(w.table)
	one, err := db.Query("SELECT * FROM " + from + " LIMIT 0")
	if err != nil {
		t.Fatal(err)
	}
	names, err := one.Columns()
	if err != nil {
		t.Fatal(err)
	}
	one.Close()
	exprs := []string{k.quote(w.key)}
	for _, n := range names {
		exprs = append(exprs, k.literal(k.quote(n)))
	}
	rows, err := db.Query("SELECT " + strings.Join(exprs, ", ") + " FROM " + from)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	all := make(map[string]map[string]string)
	for rows.Next() {
		values := make([]string, len(exprs))
		to := make([]any, len(values))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		row := make(map[string]string)
		for i, n := range names {
			row[n] = values[i+1]
		}
		all[values[0]] = row
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatalf("no rows in %s", from)
	}
	return all
}
