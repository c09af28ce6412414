package table_test

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
)

// TestCreateFromNothing makes file, table and indexes, twice, and works a row
// off.
func TestCreateFromNothing(t *testing.T) {
	ctx := context.Background()
	f := &file{TB: t, path: filepath.Join(t.TempDir(), "a.db")}
	url := "sqlite:" + f.path
	m := plainMapping()
	m.Expires, m.Attempts, m.LastError = &mapping.Time{Column: "best before"}, "tries", "error"
	m.Touch, m.Where = []mapping.Assignment{set("updated_at", text("now"))}, []mapping.Condition{cond("queue", text("mail"))}
	m.Columns = []string{"payload", "queue"}
	steps, err := missing(ctx, url, m, noon)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"PRAGMA journal_mode = WAL",
		`CREATE TABLE IF NOT EXISTS "BACKLOG" (
  "id" INTEGER PRIMARY KEY,
  "status" TEXT NOT NULL DEFAULT 'NEW',
  "date_inserted" TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
  "best before" TEXT,
  "tries" INTEGER NOT NULL DEFAULT 0,
  "error" TEXT,
  "updated_at" TEXT,
  "queue" TEXT,
  "payload" TEXT
)`,
		`CREATE INDEX IF NOT EXISTS "BACKLOG_backlog_91b40291" ON "BACKLOG" ("queue", "status", "date_inserted", "id") WHERE "status" = 'NEW' AND "queue" = 'mail'`,
		`CREATE INDEX IF NOT EXISTS "BACKLOG_backlog_b104429f" ON "BACKLOG" ("queue", "status", "date_inserted", "id") WHERE "status" = 'ERROR' AND "queue" = 'mail'`,
	}
	if !reflect.DeepEqual(steps, want) {
		t.Errorf("Missing:\n got %s\nwant %s", strings.Join(steps, "\n"), strings.Join(want, "\n"))
	}
	if _, err := os.Stat(f.path); !os.IsNotExist(err) {
		t.Errorf("Missing has created the file (Stat: %v)", err)
	}
	for range 2 {
		if err := create(ctx, url, steps); err != nil {
			t.Fatal(err)
		}
	}
	if steps, err := missing(ctx, url, m, noon); len(steps) > 0 || err != nil {
		t.Errorf("Missing after Create: got %q, %v", steps, err)
	}

	f.plain = openPlain(t, f.path)
	t.Cleanup(func() { f.plain.Close() })
	f.wantRows("SELECT * FROM pragma_journal_mode", "'wal'")
	f.exec("INSERT INTO BACKLOG (payload, queue) VALUES ('hello', 'mail')")
	s := f.storeAt(m, time.Now())
	wantGoodPlans(t, "created from nothing", s)
	e := backlog.Engine{Store: s, Handler: backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
		if got, want := fields(*r), "payload=string(hello) queue=string(mail)"; got != want {
			t.Errorf("the handler was given %s, want %s", got, want)
		}
		return nil
	})}
	if r, err := e.Pass(ctx, backlog.Pass{MaxAge: day}); r.Succeeded != 1 || err != nil {
		t.Errorf("a pass over a row that was inserted just now: %+v, %v", r, err)
	}
	f.wantRows("SELECT status, tries, error, updated_at = date_inserted OR updated_at > date_inserted FROM BACKLOG", "'SUCCESS' 1 NULL 1")
}

// TestCreateKeepsTheJournalMode: a database that is there already is its
// owner's affair.
func TestCreateKeepsTheJournalMode(t *testing.T) {
	ctx := context.Background()
	f := newFile(t, "PRAGMA journal_mode = DELETE; CREATE TABLE other (x)")
	url := "sqlite:" + f.path
	steps, err := missing(ctx, url, plainMapping(), noon)
	if err != nil || len(steps) != 3 || !strings.HasPrefix(steps[0], "CREATE TABLE") {
		t.Fatalf("Missing: got %q, %v, want a table and two indexes", steps, err)
	}
	if err := create(ctx, url, steps); err != nil {
		t.Fatal(err)
	}
	f.wantRows("SELECT * FROM pragma_journal_mode", "'delete'")
	wantGoodPlans(t, "a new table in an old file", f.store(plainMapping()))
}

// TestCreatedColumns: the types that a table gets from what its mapping says,
// and that a row with its defaults is a record.
func TestCreatedColumns(t *testing.T) {
	for _, x := range []struct {
		name   string
		change func(*mapping.Mapping)
		want   []string // name and type
		insert string
	}{
		{"unix seconds", func(m *mapping.Mapping) { m.Inserted.As = "unix_s" },
			[]string{"id INTEGER", "status TEXT", "date_inserted INTEGER"}, "DEFAULT VALUES"},
		{"unix milliseconds", func(m *mapping.Mapping) { m.Inserted.As = "unix_ms" },
			[]string{"id INTEGER", "status TEXT", "date_inserted INTEGER"}, "DEFAULT VALUES"},
		{"Julian days", func(m *mapping.Mapping) { m.Inserted.As = "julian" },
			[]string{"id INTEGER", "status TEXT", "date_inserted REAL"}, "DEFAULT VALUES"},
		{"a form that SQLite cannot write", func(m *mapping.Mapping) { m.Inserted.As = "text:20060102150405" },
			[]string{"id INTEGER", "status TEXT", "date_inserted TEXT"}, "(date_inserted) SELECT strftime('%Y%m%d%H%M%S', 'now')"},
	} {
		ctx := context.Background()
		f := newFile(t, "")
		m := plainMapping()
		x.change(&m)
		createIndexes(f, m)
		var want []string
		for _, w := range x.want {
			name, decl, _ := strings.Cut(w, " ")
			want = append(want, "'"+name+"' '"+decl+"'")
		}
		if got := f.rows("SELECT name, type FROM pragma_table_info('BACKLOG')"); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got columns %q, want %q", x.name, got, want)
		}
		f.exec("INSERT INTO BACKLOG " + x.insert)
		e := backlog.Engine{Store: f.storeAt(m, time.Now()), Handler: backlog.HandlerFunc(func(context.Context, *backlog.Record) error { return nil })}
		if r, err := e.Pass(ctx, backlog.Pass{MaxAge: day}); r.Succeeded != 1 || err != nil {
			t.Errorf("%s: a pass: %+v, %v", x.name, r, err)
		}
	}
}

// TestMissingSaysWhatItCannotCreate: a state that is a condition does not tell
// a column's type, and a table that is there but does not fit is not replaced.
func TestMissingSaysWhatItCannotCreate(t *testing.T) {
	f := newFile(t, "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, state TEXT, date_inserted TEXT)")
	for _, x := range []struct {
		m    mapping.Mapping
		want string
	}{
		{plainMapping(), `table.status: table BACKLOG has no column "status"; did you mean state? the columns are: id, state, date_inserted`},
		{outboxMapping(), "table event_publication does not exist, and its columns cannot be told from table.id and statuses.new; create it yourself"},
	} {
		steps, err := missing(context.Background(), "sqlite:"+f.path, x.m, noon)
		if err == nil || !strings.Contains(err.Error(), x.want) || len(steps) > 0 {
			t.Errorf("%s: got %q, %v, want the error %s", x.m.Name, steps, err, x.want)
		}
	}
}
