package table_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
)

func TestOpenSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("buy milk\n", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ url, want string }{
		{
			url:  "backlog.db",
			want: "the database is not a URL of a known kind; write sqlite:PATH, postgres://USER:PASSWORD@HOST:5432/DATABASE or mysql://USER:PASSWORD@HOST:3306/DATABASE",
		},
		{
			url:  "oracle://scott:tiger@db/x",
			want: `the database is not a URL of a known kind; write sqlite:PATH, postgres://USER:PASSWORD@HOST:5432/DATABASE or mysql://USER:PASSWORD@HOST:3306/DATABASE`,
		},
		{url: "sqlite:", want: "the database URL names no file; write sqlite:PATH, such as sqlite:backlog.db"},
		{
			url:  "password=s3cret;x:y",
			want: "the database is not a URL of a known kind; write sqlite:PATH, postgres://USER:PASSWORD@HOST:5432/DATABASE or mysql://USER:PASSWORD@HOST:3306/DATABASE",
		},
		{
			url:  "s3cret pass:word@host/db",
			want: "the database is not a URL of a known kind; write sqlite:PATH, postgres://USER:PASSWORD@HOST:5432/DATABASE or mysql://USER:PASSWORD@HOST:3306/DATABASE",
		},
		{url: "sqlite:a.db?synchronous=off&tell=s3cret", want: "the database URL has a synchronous that is not known; write one of full normal"},
		{
			url:  "sqlite::memory:",
			want: "a database in memory is nobody else's and ends with the program; write sqlite:PATH, such as sqlite:backlog.db",
		},
		{
			url:  "sqlite:~/a.db",
			want: "the database file ~/a.db: ~ is not replaced here; write the folder out, or ${HOME} in the configuration; ./~ is a file of that name",
		},
		{
			url:  "sqlite:" + filepath.Join(dir, "no.db"),
			want: "the database file DIR/no.db does not exist; start in its folder, name another file, or create it by `backlog init --create-table`",
		},
		{url: "sqlite:" + dir, want: "DIR is a directory, not a database file; name the file in it"},
		{url: "sqlite:" + text, want: "the file DIR/notes.txt is not an SQLite database; name another"},
	} {
		db, err := openDB(context.Background(), x.url, table.Options{})
		if err == nil {
			_, err = table.New(context.Background(), db, plainMapping())
			db.Close()
		}
		if p := (*table.Problem)(nil); !errors.As(err, &p) && !isMissingFile(err) {
			t.Errorf("%s: got error %v, want a Problem", x.url, err)
		} else if got := strings.NewReplacer(dir, "DIR", " (26)", "").Replace(err.Error()); got != x.want {
			t.Errorf("%s:\n got %s\nwant %s", x.url, got, x.want)
		}
		if missing := strings.Contains(x.want, "does not exist"); isMissingFile(err) != missing {
			t.Errorf("%s: IsMissingFile: got %v, want %v", x.url, !missing, missing)
		}
	}
}

// TestCatalogueIsAsked: a table that is missing, or is none, and every column
// that the mapping names.
func TestCatalogueIsAsked(t *testing.T) {
	const have = "; the columns are: id, status, date_inserted"
	col := func(c string) mapping.Time { return mapping.Time{Column: c} }
	assigned := []mapping.Assignment{set("nope", text("1"))}
	asked := []mapping.Condition{cond("nope", text("1"))}
	f := newFile(t, `CREATE TABLE backlog (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT);
		CREATE TABLE other (x); CREATE VIEW pending AS SELECT * FROM backlog; CREATE INDEX i ON other (x)`)
	for _, x := range []struct {
		change func(*mapping.Mapping)
		want   string
	}{
		{
			change: func(m *mapping.Mapping) { m.Name = "BACKLOGS" },
			want:   "table BACKLOGS does not exist in FILE; did you mean backlog? set table.name; `backlog init --create-table` creates it; the tables are: backlog, other, pending",
		},
		{
			change: func(m *mapping.Mapping) { m.Name = "main.backlog" },
			want:   "table main.backlog does not exist in …; if that is schema and name, write table: {schema: main, name: backlog}; set table.name…",
		},
		{
			change: func(m *mapping.Mapping) { m.Schema = "public" },
			want:   "table.schema: an SQLite file has only the schema main, not public; leave it out",
		},
		{
			change: func(m *mapping.Mapping) { m.Name = "Pending" },
			want:   "Pending is a view: outcomes cannot be written to it; name the table behind it",
		},
		{change: func(m *mapping.Mapping) { m.ID = []string{"status", "nope"} }, want: `table.id: table BACKLOG has no column "nope"` + have},
		{change: func(m *mapping.Mapping) { m.Status = "nope" }, want: `table.status: table BACKLOG has no column "nope"` + have},
		{change: func(m *mapping.Mapping) { m.Inserted = col("nope") }, want: `table.inserted: table BACKLOG has no column "nope"` + have},
		{change: func(m *mapping.Mapping) { c := col("nope"); m.Eligible = &c }, want: `table.eligible: table BACKLOG has no column "nope"` + have},
		{change: func(m *mapping.Mapping) { c := col("nope"); m.Expires = &c }, want: `table.expires: table BACKLOG has no column "nope"` + have},
		{change: func(m *mapping.Mapping) { m.Where = asked }, want: `table.where: table BACKLOG has no column "nope"` + have},
		{change: func(m *mapping.Mapping) { m.Touch = assigned }, want: `table.touch: table BACKLOG has no column "nope"` + have},
		{change: func(m *mapping.Mapping) { m.Attempts = "nope" }, want: `table.attempts: table BACKLOG has no column "nope"` + have + `; or add it: ALTER TABLE BACKLOG ADD COLUMN nope INTEGER`},
		{change: func(m *mapping.Mapping) { m.LastError = "nope" }, want: `table.last_error: table BACKLOG has no column "nope"` + have + `; or add it: ALTER TABLE BACKLOG ADD COLUMN nope TEXT`},
		{change: func(m *mapping.Mapping) { m.Columns = []string{"id", "nope"} }, want: `table.columns: table BACKLOG has no column "nope"` + have},
		{
			change: func(m *mapping.Mapping) { m.New = mapping.State{When: asked, Explicit: true} },
			want:   `statuses.new: table BACKLOG has no column "nope"` + have,
		},
		{
			change: func(m *mapping.Mapping) { m.Error = mapping.State{When: asked, Explicit: true} },
			want:   `statuses.error: table BACKLOG has no column "nope"` + have,
		},
		{
			change: func(m *mapping.Mapping) { m.Success = mapping.State{Set: assigned, Explicit: true} },
			want:   `statuses.success: table BACKLOG has no column "nope"` + have,
		},
		{
			change: func(m *mapping.Mapping) { m.Dead = mapping.State{Set: assigned, Explicit: true} },
			want:   `statuses.dead: table BACKLOG has no column "nope"` + have,
		},
		{
			change: func(m *mapping.Mapping) { m.Inserted.As = "native" },
			want:   "table.inserted: as: column date_inserted is TEXT, which is no type for times; leave it out",
		},
		{
			change: func(m *mapping.Mapping) { m.Inserted.As = "text:DD.MM.YYYY" },
			want:   `table.inserted: as: layout "DD.MM.YYYY": the order of such texts is not known to be the order of time, as is that of 2006-01-02 15:04:05, with or without a fraction (.000, .999) and an offset (Z07:00, -07:00); mend ` + "`as:`",
		},
	} {
		m := plainMapping()
		x.change(&m)
		f.wantRefused(m, x.want)
	}
	newFile(t, "").wantRefused(plainMapping(), "table BACKLOG does not exist in FILE; set table.name; `backlog init --create-table` creates it; there are no tables")

	// Names are compared as the database does.
	m := plainMapping()
	m.Schema, m.Name, m.ID, m.Status = "MAIN", "Backlog", []string{"ID"}, "Status"
	f.store(m)
}

func TestKeyMustBeUnique(t *testing.T) {
	const columns = "CREATE TABLE BACKLOG (pk INTEGER PRIMARY KEY, tenant TEXT, id TEXT, status TEXT, date_inserted TEXT);"
	for _, x := range []struct {
		index string
		key   string
		ok    bool
		wider string // a key that there is
	}{
		{"", "pk", true, ""},
		{"", "id, pk", true, ""},
		{"", "id", false, ""},
		{"CREATE INDEX i ON BACKLOG (id)", "id", false, ""},
		{"CREATE UNIQUE INDEX i ON BACKLOG (id) WHERE status = 'NEW'", "id", false, ""},
		{"CREATE UNIQUE INDEX i ON BACKLOG (id, tenant)", "id", false, "id, tenant"},
		{"CREATE UNIQUE INDEX i ON BACKLOG (id, lower(tenant))", "id, tenant", false, ""},
		{"CREATE UNIQUE INDEX i ON BACKLOG (lower(id))", "id", false, ""},
		{"CREATE UNIQUE INDEX i ON BACKLOG (id)", "id", true, ""},
		{"CREATE UNIQUE INDEX i ON BACKLOG (id, tenant)", "tenant, id", true, ""},
		{"CREATE UNIQUE INDEX i ON BACKLOG (id)", "tenant, ID", true, ""},
	} {
		f := newFile(t, columns+x.index)
		m := plainMapping()
		m.ID = strings.Split(x.key, ", ")
		if x.ok {
			f.store(m)
			continue
		}
		if x.wider != "" {
			f.wantRefused(m, "table.id: "+x.key+" does not identify a row of BACKLOG: a key of that table is 2 columns: "+x.wider+"; write table.id: ["+x.wider+"]")
			m.ID = strings.Split(x.wider, ", ")
			f.store(m)
			continue
		}
		quoted := `"` + strings.Join(m.ID, `", "`) + `"`
		f.wantRefused(m, "table.id: "+x.key+" does not identify a row of BACKLOG: no primary key or unique index covers it; "+
			`name the columns of the primary key or of a unique index, or create one: CREATE UNIQUE INDEX "BACKLOG_key" ON "BACKLOG" (`+quoted+")")
		f.exec(`CREATE UNIQUE INDEX "BACKLOG_key" ON "BACKLOG" (` + quoted + ")")
		f.store(m)
	}
}

// TestWritesAreTriedBeforeTheFirstRecord: what the database would refuse at
// settlement, when the mail has gone out, is refused before.
func TestWritesAreTriedBeforeTheFirstRecord(t *testing.T) {
	const (
		cure   = "; change it to one that the table takes"
		look   = "; look at the table's triggers and constraints"
		rows   = "INSERT INTO BACKLOG (id, status, date_inserted) VALUES (1, 'NEW', '2026-02-10 01:00:00'), (2, 'ERROR', '2026-02-10 02:00:00');"
		fresh  = "INSERT INTO BACKLOG (id, status, date_inserted) VALUES (1, 'NEW', '2026-02-10 01:00:00');"
		simple = "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT);"
	)
	for _, x := range []struct {
		name, script string
		change       func(*mapping.Mapping)
		want         string
	}{
		{
			name:   "CHECK",
			script: "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT CHECK (status IN ('NEW', 'ERROR', 'SENT')), date_inserted TEXT);" + rows,
			want:   `statuses.success: table BACKLOG does not take "status" = 'SUCCESS': …CHECK constraint failed: status IN ('NEW', 'ERROR', 'SENT')…` + cure,
		},
		{
			name:   "CHECK of another status",
			script: "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT CHECK (status IN ('NEW', 'SUCCESS')), date_inserted TEXT);" + fresh,
			want:   `statuses.error: table BACKLOG does not take "status" = 'ERROR': …CHECK constraint failed: status IN ('NEW', 'SUCCESS')…` + cure,
		},
		{
			name:   "CHECK that a dead status breaks",
			script: "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT, CONSTRAINT \"state's\" CHECK (status <> 'DEAD'));" + rows,
			change: func(m *mapping.Mapping) { m.Dead = is(text("DEAD")) },
			want:   `statuses.dead: table BACKLOG does not take "status" = 'DEAD': …CHECK constraint failed: state's…` + cure,
		},
		{
			name:   "CHECK of a number",
			script: "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status INTEGER CHECK (status >= 0), date_inserted TEXT); INSERT INTO BACKLOG VALUES (1, 1, '2026-02-10 01:00:00')",
			change: func(m *mapping.Mapping) { m.New, m.Error, m.Success = is(text("1")), is(text("-1")), is(text("0")) },
			want:   `statuses.error: table BACKLOG does not take "status" = -1: …CHECK constraint failed: status >= 0…` + cure,
		},
		{
			name:   "CHECK of a touched column",
			script: "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT, version INTEGER CHECK (version < 1));" + rows,
			change: func(m *mapping.Mapping) { m.Touch = []mapping.Assignment{set("version", text("+1"))} },
			want:   `statuses.success: this row does not take "status" = 'SUCCESS', "version" = coalesce("version", 0) + 1: …CHECK constraint failed: version < 1…; look at the row, and at what the table asks of it`,
		},
		{
			name:   "CHECK of the error's text",
			script: "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT, error JSON CHECK (json_valid(error)));" + rows,
			change: func(m *mapping.Mapping) { m.LastError = "error" },
			want:   `statuses.error: table BACKLOG does not take "status" = 'ERROR', "error" = 'the text of an error': …CHECK constraint failed: json_valid(error)…` + cure,
		},
		{
			name:   "STRICT type",
			script: "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT, touched INTEGER) STRICT;" + rows,
			change: func(m *mapping.Mapping) { m.Touch = []mapping.Assignment{set("touched", text("now"))} },
			want:   `statuses.success: table BACKLOG does not take "status" = 'SUCCESS', "touched" = '2026-02-10 12:00:00': …cannot store TEXT value in INTEGER column BACKLOG.touched…` + cure,
		},
		{
			name:   "STRICT type with a BLOB",
			script: "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status INT NOT NULL, date_inserted TEXT NOT NULL, data BLOB NOT NULL, touched INTEGER) STRICT; INSERT INTO BACKLOG VALUES (1, 0, '2026-02-10 01:00:00', x'00', 0)",
			change: func(m *mapping.Mapping) {
				m.New, m.Error, m.Success = is(text("0")), is(text("1")), is(text("2"))
				m.Touch = []mapping.Assignment{set("data", text("x"))}
			},
			want: `statuses.success: table BACKLOG does not take "status" = 2, "data" = 'x': …cannot store TEXT value in BLOB column BACKLOG.data…` + cure,
		},
		{
			name:   "trigger that uses what is not there",
			script: simple + rows + "CREATE TRIGGER audit AFTER UPDATE ON BACKLOG BEGIN INSERT INTO log VALUES (new.id); END;",
			want:   `statuses.success: "status" = 'SUCCESS' cannot be set in table BACKLOG: …no such table: main.log…` + look,
		},
		{
			name:   "trigger that calls what only its program has",
			script: simple + rows + "CREATE TRIGGER audit AFTER UPDATE ON BACKLOG BEGIN SELECT my_notify(new.id); END;",
			want:   `statuses.success: "status" = 'SUCCESS' cannot be set in table BACKLOG: …no such function: my_notify…` + look,
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			m := plainMapping()
			if x.change != nil {
				x.change(&m)
			}
			newFile(t, x.script).wantRefused(m, x.want)
		})
	}
}

// TestRowThatRefuses: such a row is left as it was, with the database's
// reason, and the others of its group are written. Nor does it keep others
// alive that are past their time.
func TestRowThatRefuses(t *testing.T) {
	for _, x := range []struct {
		name, constraint, trigger string
		reason                    string // a part of it
	}{
		{name: "CHECK", constraint: ", CHECK (status = 'NEW' OR n <> 3)", reason: "CHECK constraint failed: status = 'NEW' OR n <> 3"},
		{name: "UNIQUE", constraint: ", UNIQUE (status, u)", reason: "UNIQUE constraint failed: BACKLOG.status, BACKLOG.u"},
		{name: "ABORT", trigger: "BEFORE UPDATE ON BACKLOG WHEN new.n = 3 BEGIN SELECT raise(ABORT, 'not this one'); END", reason: "not this one"},
		{
			name:    "FAIL",
			trigger: "AFTER UPDATE OF status ON BACKLOG WHEN new.n = 3 BEGIN SELECT raise(FAIL, 'not this one'); END",
			reason:  "not this one",
		},
		{
			name:    "ROLLBACK",
			trigger: "AFTER UPDATE ON BACKLOG WHEN new.n = 3 BEGIN SELECT raise(ROLLBACK, 'not this one'); END",
			reason:  "not this one",
		},
		{
			name:    "IGNORE",
			trigger: "BEFORE UPDATE ON BACKLOG WHEN new.n = 3 BEGIN SELECT raise(IGNORE); END",
			reason:  "a row of table BACKLOG is as it was after it was written, which is the work of a trigger: guard",
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := newFile(t, "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT, n INTEGER, u INTEGER"+x.constraint+`);
				INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-02-10 01:00:00', 1, 1), (2, 'NEW', '2026-02-10 02:00:00', 2, 2), (3, 'NEW', '2026-02-10 03:00:00', 3, 3),
					(4, 'NEW', '2026-02-10 04:00:00', 4, 4), (5, 'NEW', '2026-02-10 05:00:00', 5, 5), (6, 'SUCCESS', '2026-02-10 05:00:00', 6, 3), (7, 'DEAD', '2026-02-10 05:00:00', 7, 3)`)
			if x.trigger != "" {
				f.exec("CREATE TRIGGER guard " + x.trigger)
			}
			m := plainMapping()
			m.Dead = is(text("DEAD"))
			s := f.store(m)
			if got := s.Notes(); x.trigger != "" && !reflect.DeepEqual(got, []string{"triggers run when a row is updated: guard"}) {
				t.Errorf("Notes: got %q, want the trigger's name", got)
			}
			records := lane(t, s, backlog.Fresh)
			wantKeys(t, "fresh lane", records, "5 4 3 2 1")
			var group []backlog.Settlement
			for i := range records {
				group = append(group, backlog.Settlement{Record: &records[i], Target: backlog.RowSuccess, At: noon})
			}
			left, err := s.Settle(context.Background(), group)
			if err != nil {
				t.Fatal(err)
			}
			if len(left) != 1 || left[0].Index != 2 {
				t.Fatalf("left are %v, want the third alone", left)
			}
			if errors.Is(left[0].Err, backlog.ErrConflict) || !strings.Contains(left[0].Err.Error(), x.reason) {
				t.Errorf("the reason is %v, want %q", left[0].Err, x.reason)
			}
			f.wantRows("SELECT status FROM BACKLOG ORDER BY id", "'SUCCESS'", "'SUCCESS'", "'NEW'", "'SUCCESS'", "'SUCCESS'", "'SUCCESS'", "'DEAD'")

			f.exec("UPDATE BACKLOG SET status = 'NEW' WHERE id IN (1, 2, 4, 5)")
			if n, err := expire(context.Background(), s, noon, noon); n != 4 || err != nil {
				t.Errorf("Expire: got %d, %v, want 4", n, err)
			}
			f.wantRows("SELECT status FROM BACKLOG ORDER BY id", "'DEAD'", "'DEAD'", "'NEW'", "'DEAD'", "'DEAD'", "'SUCCESS'", "'DEAD'")
		})
	}
}

// TestUniqueIndexOfAnotherCollationDoesNotCount: 'a' and 'A' are two to it,
// but one to the column and so to a condition.
func TestUniqueIndexOfAnotherCollationDoesNotCount(t *testing.T) {
	f := newFile(t, `CREATE TABLE BACKLOG (id TEXT COLLATE NOCASE, status TEXT, date_inserted TEXT);
		CREATE UNIQUE INDEX i ON BACKLOG (id COLLATE BINARY);
		INSERT INTO BACKLOG VALUES ('a', 'NEW', '2026-02-10 01:00:00'), ('A', 'NEW', '2026-02-10 02:00:00')`)
	f.wantRefused(plainMapping(), "table.id: id does not identify a row of BACKLOG: no primary key or unique index covers it; "+
		`name the columns of the primary key or of a unique index, or create one: CREATE UNIQUE INDEX "BACKLOG_key" ON "BACKLOG" ("id")`)
}

// stamp is all that can be seen of a file and those beside it.
func stamp(t *testing.T, path string) map[string]string {
	t.Helper()
	list, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, p := range list {
		if strings.HasSuffix(p, "-shm") {
			continue // the memory that connections share, rebuilt by the first
		}
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(b)
		all[filepath.Base(p)] = info.ModTime().String() + " " + string(sum[:])
	}
	return all
}

// TestLookingChangesNoByte: neither a read-only connection, whatever is asked
// of it, nor the proof that it can be written to, nor a trial write changes the file.
func TestLookingChangesNoByte(t *testing.T) {
	for _, mode := range []string{"DELETE", "WAL"} {
		for _, readOnly := range []bool{true, false} {
			f := newFile(t, "PRAGMA journal_mode = "+mode+`; CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT);
				INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-02-10 01:00:00'), (2, 'ERROR', '2026-02-10 02:00:00')`)
			if mode == "WAL" && !readOnly {
				// The last to close copies the log into the file, whoever wrote it.
				f.exec("PRAGMA wal_checkpoint(TRUNCATE)")
			}
			before := stamp(t, f.path)
			ctx := context.Background()
			db, err := openDB(ctx, "sqlite:"+f.path, table.Options{ReadOnly: readOnly})
			if err != nil {
				t.Fatal(err)
			}
			s, err := table.New(ctx, db, plainMapping())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Prove(ctx, noon); err != nil {
				t.Error(err)
			}
			if !readOnly {
				if err := tried(s); err != nil {
					t.Error(err)
				}
			}
			wantKeys(t, "fresh lane", lane(t, s, backlog.Fresh), "1")
			if _, err := s.Count(ctx, noon, nil); err != nil {
				t.Error(err)
			}
			plans(t, s)
			if err := s.Ping(ctx); err != nil {
				t.Error(err)
			}
			s.Notes()
			if _, err := missing(ctx, "sqlite:"+f.path, plainMapping(), noon); err != nil {
				t.Error(err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			if after := stamp(t, f.path); !reflect.DeepEqual(after, before) {
				t.Errorf("journal mode %s, read only %v: the files were changed:\n%q\nbefore:\n%q", mode, readOnly, after, before)
			}
		}
	}
}
