package cmd

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/config"
	"backlog/backlog/table"
)

// A wildTable is a table of a well-known program, with rows and the
// configuration that it is worked off with: see testdata/wild.
type wildTable struct {
	name, table, key string
	// reply is what the handler says, by key; nil for success. Records that
	// it does not have must not be handed out.
	reply map[string]error
	// order is that of the records; what is new comes first.
	order string
	// changed are the only columns that differ afterwards, by key, as SQL
	// literals.
	changed map[string]map[string]string
	report  backlog.Report // its counts
}

var wild = []wildTable{
	{
		name: "post_office", table: "post_office_email", key: "id",
		reply: map[string]error{
			"2": nil, "3": nil, "7": nil, "9": nil, "13": nil,
			"5": errors.New("451 greylisted"), "15": errors.New("421 too busy"),
			"10": backlog.Reject(errors.New("550 no such user")),
		},
		order: "2 3 7 10 15 13 9 5",
		changed: map[string]map[string]string{
			"2":  {"status": "0", "number_of_retries": "1", "last_updated": "'2026-02-10 12:00:00.250000'"},
			"3":  {"status": "0", "number_of_retries": "1", "last_updated": "'2026-02-10 12:00:00.250000'"},
			"5":  {"number_of_retries": "5", "last_updated": "'2026-02-10 12:00:00.250000'"},
			"7":  {"status": "0", "number_of_retries": "1", "last_updated": "'2026-02-10 12:00:00.250000'"},
			"8":  {"status": "1"}, // never sent after expires_at
			"9":  {"status": "0", "number_of_retries": "2", "last_updated": "'2026-02-10 12:00:00.250000'"},
			"10": {"status": "1", "number_of_retries": "1", "last_updated": "'2026-02-10 12:00:00.250000'"},
			"12": {"status": "1"},
			"13": {"status": "0", "number_of_retries": "1", "last_updated": "'2026-02-10 12:00:00.250000'"},
			"14": {"status": "1"},
			"15": {"status": "3", "number_of_retries": "1", "last_updated": "'2026-02-10 12:00:00.250000'"},
		},
		report: backlog.Report{Selected: 8, Succeeded: 5, Failed: 2, Rejected: 1, Expired: 3},
	},
	{
		name: "joplin", table: "resources", key: "id",
		reply: map[string]error{
			"00000000000000000000000000000001": nil, "deadbeefdeadbeefdeadbeefdeadbeef": nil, "12345678901234567890123456789012": nil,
			"0a1b2c3d4e5f60718293a4b5c6d7e8f9": errors.New("page 2: it's unreadable"),
			"0000000000000000000000000000000a": backlog.Reject(errors.New("more than 500 pages")),
			"abcdefabcdefabcdefabcdefabcdefab": errors.New("timeout again"),
		},
		order: "00000000000000000000000000000001 0a1b2c3d4e5f60718293a4b5c6d7e8f9 0000000000000000000000000000000a deadbeefdeadbeefdeadbeefdeadbeef " +
			"12345678901234567890123456789012 abcdefabcdefabcdefabcdefabcdefab",
		changed: map[string]map[string]string{
			"00000000000000000000000000000001": {"ocr_status": "2"},
			"deadbeefdeadbeefdeadbeefdeadbeef": {"ocr_status": "2"},
			"12345678901234567890123456789012": {"ocr_status": "2"}, // and the last error stays
			"0a1b2c3d4e5f60718293a4b5c6d7e8f9": {"ocr_status": "3", "ocr_error": "'page 2: it''s unreadable'"},
			"0000000000000000000000000000000a": {"ocr_status": "3", "ocr_error": "'more than 500 pages'"}, // there is no dead status
			"abcdefabcdefabcdefabcdefabcdefab": {"ocr_error": "'timeout again'"},
		},
		report: backlog.Report{Selected: 6, Succeeded: 3, Failed: 2, Rejected: 1},
	},
}

// noon is what these tests take for the present.
var noon = time.Date(2026, 2, 10, 12, 0, 0, 0, time.UTC)

// TestWildTables works tables of well-known programs off as they are: each row
// has afterwards what it should, and everything else is byte for byte as it
// was.
func TestWildTables(t *testing.T) {
	for _, w := range wild {
		t.Run(w.name, func(t *testing.T) {
			dir := filepath.Join("..", "testdata", "wild", w.name)
			cfg, err := config.LoadFile(filepath.Join(dir, "schedule.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "a.db")
			db := wildDatabase(t, path, dir)
			schema, before := literals(t, db, "pragma_schema_version, sqlite_master", "name"), literals(t, db, w.table, w.key)
			s := w.work(t, "sqlite:"+path, cfg)
			if after := literals(t, db, "pragma_schema_version, sqlite_master", "name"); !reflect.DeepEqual(after, schema) {
				t.Errorf("the schema was changed: %q, it was %q", after, schema)
			}
			w.wantChanges(t, before, literals(t, db, w.table, w.key))
			wantIndexes(t, "sqlite:"+path, mapping(cfg), s)
		})
	}
}

// wildDatabase makes the file that the program has, and stays open as it does.
func wildDatabase(t *testing.T, path, dir string) *sql.DB {
	t.Helper()
	driver := "sqlite"
	if slices.Contains(sql.Drivers(), "sqlite3") {
		driver = "sqlite3"
	}
	db, err := sql.Open(driver, "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, script := range []string{"schema.sql", "rows.sql"} {
		text, err := os.ReadFile(filepath.Join(dir, script))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(string(text)); err != nil {
			t.Fatalf("%s: %v", script, err)
		}
	}
	return db
}

// work runs one pass of the widest tier over the table.
func (w wildTable) work(t *testing.T, url string, cfg *config.Config) *table.Table {
	t.Helper()
	ctx := context.Background()
	db, err := table.Open(ctx, url, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s, err := table.New(ctx, db, mapping(cfg))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prove(ctx, noon); err != nil {
		t.Fatal(err)
	}
	if notes := s.Notes(); len(notes) > 0 {
		t.Errorf("Notes: got %q, want none", notes)
	}
	var order []string
	e := &backlog.Engine{
		Store: s, Concurrency: 1,
		Now: func() time.Time { return noon.Add(250 * time.Millisecond) },
		Handler: backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
			order = append(order, r.Key.String())
			reply, ok := w.reply[r.Key.String()]
			if !ok {
				t.Errorf("row %v must not be handed out", r.Key)
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
	return s
}

func (w wildTable) wantChanges(t *testing.T, before, after map[string]map[string]string) {
	t.Helper()
	if len(after) != len(before) {
		t.Errorf("%d rows, there were %d", len(after), len(before))
	}
	for key, row := range before {
		for column, was := range row {
			want, changes := w.changed[key][column]
			if !changes {
				want = was
			} else if want == was {
				t.Errorf("row %s, %s: the test expects a change to what was there", key, column)
			}
			if got := after[key][column]; got != want {
				t.Errorf("row %s, %s: got %s, want %s (it was %s)", key, column, got, want, was)
			}
		}
	}
}

// wantIndexes checks that the indexes to have are missed, and that they are
// used when init has made them, whatever others the program has.
func wantIndexes(t *testing.T, url string, m table.Mapping, s *table.Table) {
	t.Helper()
	ctx := context.Background()
	steps, err := table.Missing(ctx, url, m, noon)
	if err != nil || len(steps) != 2 {
		t.Fatalf("Missing: got %q, %v, want an index for each lane", steps, err)
	}
	if err := table.Create(ctx, url, steps); err != nil {
		t.Fatal(err)
	}
	plans, err := s.Plans(ctx, noon)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plans {
		if p.Bad != "" {
			t.Errorf("%s: %s, by %q", p.What, p.Bad, p.Steps)
		}
	}
}

// literals returns all rows by key, and of each row the columns as SQL
// literals.
func literals(t *testing.T, db *sql.DB, from, key string) map[string]map[string]string {
	t.Helper()
	one, err := db.Query("SELECT * FROM " + from + " LIMIT 0")
	if err != nil {
		t.Fatal(err)
	}
	names, err := one.Columns()
	if err != nil {
		t.Fatal(err)
	}
	one.Close()
	rows, err := db.Query(`SELECT "` + key + `", quote("` + strings.Join(names, `"), quote("`) + `") FROM ` + from)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	all := make(map[string]map[string]string)
	for rows.Next() {
		values := make([]string, len(names)+1)
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
