package table_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/backlog/table/work"
	"backlog/internal/testkit"
)

// orders is a file with a table of records and one that work is done in.
func orders(t *testing.T) *file {
	return newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT, item TEXT);
		INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-02-10 11:00:00', 'apple'), (2, 'NEW', '2026-02-10 10:00:00', 'pear');
		CREATE TABLE stock (item TEXT PRIMARY KEY, n INTEGER CHECK (n >= 0));
		INSERT INTO stock VALUES ('apple', 5), ('plum', 0);
		CREATE TABLE shipped (id INTEGER PRIMARY KEY, item TEXT)`)
}

func newWork(t testing.TB, s *table.Table, statements ...string) *work.SQLHandler {
	t.Helper()
	w, err := work.New(s, statements, false)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func atNoon() time.Time { return noon }

// do handles and settles a record at noon.
func do(w *work.SQLHandler, r backlog.Record) error {
	return w.HandleAndSettle(context.Background(), &r, atNoon)
}

// TestWork: the statements and the settlement are written together.
func TestWork(t *testing.T) {
	f := orders(t)
	s := f.store(plainMapping())
	w := newWork(t, s, "UPDATE stock SET n = n - 1 WHERE item = :item", "INSERT INTO shipped SELECT :id, item || ' ' || n FROM stock WHERE item = :ITEM", "SELECT 1 WHERE 0")
	if err := w.Check(context.Background()); err != nil {
		t.Error(err)
	}
	records := lane(t, s, backlog.Fresh)
	if err := do(w, records[0]); err != nil {
		t.Error(err)
	}
	if err := do(w, records[1]); err == nil || err.Error() != "statement 1 affected no row" {
		t.Errorf("got %v, want that statement 1 affected no row", err)
	}
	if err := do(w, records[0]); !errors.Is(err, backlog.ErrConflict) {
		t.Errorf("the same record again: got %v, want a conflict", err)
	}
	f.wantRows("SELECT id, status, date_inserted FROM BACKLOG", "1 'SUCCESS' '2026-02-10 11:00:00'", "2 'NEW' '2026-02-10 10:00:00'")
	f.wantRows("SELECT * FROM shipped", "1 'apple 4'")
	f.wantRows("SELECT * FROM stock", "'apple' 4", "'plum' 0")
}

// TestWorkUndone: whatever goes wrong, nothing of the record's work is left,
// and the next one goes well.
func TestWorkUndone(t *testing.T) {
	const first = "INSERT INTO shipped VALUES (:id, :item)"
	for _, c := range []struct{ name, script, statement, want string }{
		{name: "no row", statement: "UPDATE stock SET n = 1 WHERE item = :item || '!'", want: "statement 2 affected no row"},
		{name: "no row after WITH", statement: "WITH a AS (SELECT 'x' AS x) DELETE FROM stock WHERE item IN a", want: "statement 2 affected no row"},
		{name: "constraint", statement: "UPDATE stock SET n = n - 6", want: "statement 2: …CHECK constraint failed: n >= 0…"},
		{
			name:      "rollback",
			statement: "INSERT OR ROLLBACK INTO shipped VALUES (:id, 'again')",
			want:      "statement 2: …UNIQUE constraint failed: shipped.id…",
		},
		{name: "ignored", statement: "INSERT OR IGNORE INTO shipped VALUES (:id, 'again')", want: "statement 2 affected no row"},
		{
			name:      "trigger",
			script:    "CREATE TRIGGER no BEFORE UPDATE ON stock BEGIN SELECT RAISE(ROLLBACK, 'not now'); END",
			statement: "UPDATE stock SET n = 1",
			want:      "statement 2: …not now…",
		},
		{
			name:      "settlement",
			script:    "CREATE TRIGGER no BEFORE UPDATE ON BACKLOG WHEN new.status = 'SUCCESS' BEGIN SELECT RAISE(ABORT, 'no success'); END",
			statement: "UPDATE stock SET n = 1",
			want:      "settlement: …no success…",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := orders(t)
			f.exec(c.script)
			s := f.store(plainMapping())
			w := newWork(t, s, first, c.statement)
			good := newWork(t, s, first)
			records := lane(t, s, backlog.Fresh)
			before := f.content()
			err := do(w, records[0])
			if err == nil || !testkit.Matches(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			testkit.Equal(t, "outcome", backlog.OutcomeOf(err), backlog.Errored)
			testkit.Equal(t, "the database is unavailable", errors.Is(err, backlog.ErrUnavailable), false)
			if after := f.content(); strings.Join(after, "\n") != strings.Join(before, "\n") {
				t.Errorf("something was left:\n%s\nbefore:\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
			}
			if c.name == "settlement" {
				return
			}
			if err := do(good, records[1]); err != nil {
				t.Errorf("the next record: %v", err)
			}
			f.wantRows("SELECT * FROM shipped", "2 'pear'")
		})
	}
}

// TestWorkLosesATable: before the first work that says that there is no use in
// going on, afterwards it is an error like any other.
func TestWorkLosesATable(t *testing.T) {
	f := orders(t)
	s := f.store(plainMapping())
	w := newWork(t, s, "INSERT INTO shipped VALUES (:id, :item)", "SELECT * FROM nowhere")
	records := lane(t, s, backlog.Fresh)
	r, err := (&backlog.Engine{Store: s, Handler: w}).Pass(context.Background(), backlog.Pass{MaxAge: ages, Now: noon})
	want := "the handler cannot be started: handler.sql: statement 2 is not understood by the database: …no such table: nowhere…; correct it, or create what it names"
	if err == nil || !testkit.Matches(err.Error(), want) {
		t.Errorf("the pass: got %v, want %s", err, want)
	}
	testkit.Equal(t, "failed", r.Failed, 0)
	testkit.Equal(t, "succeeded", r.Succeeded, 0)
	f.exec("CREATE TABLE nowhere (a)")
	if err := do(w, records[0]); err != nil {
		t.Error(err)
	}
	f.exec("DROP TABLE nowhere")
	if err := do(w, records[1]); err == nil || !testkit.Matches(err.Error(), "statement 2: …no such table: …nowhere…") || backlog.OutcomeOf(err) != backlog.Errored {
		t.Errorf("got %v", err)
	}
	f.wantRows("SELECT id FROM shipped", "1")
}

// TestWorkPanics: what panics in the middle is undone, and the connection is
// good for the next.
func TestWorkPanics(t *testing.T) {
	f := orders(t)
	s := f.store(plainMapping())
	w := newWork(t, s, "INSERT INTO shipped VALUES (:id, :item)")
	records := lane(t, s, backlog.Fresh)
	func() {
		defer func() {
			if p := recover(); p != "boom" {
				t.Errorf("got the panic %v", p)
			}
		}()
		w.HandleAndSettle(context.Background(), &records[0], func() time.Time { panic("boom") })
	}()
	if err := do(w, records[1]); err != nil {
		t.Error(err)
	}
	f.wantRows("SELECT id FROM shipped", "2")
}

// TestWorkAllowsZeroRows where that was asked for.
func TestWorkAllowsZeroRows(t *testing.T) {
	f := orders(t)
	s := f.store(plainMapping())
	w, err := work.New(s, []string{"UPDATE stock SET n = 9 WHERE item = :item"}, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range lane(t, s, backlog.Fresh) {
		if err := do(w, r); err != nil {
			t.Errorf("record %v: %v", r.Key, err)
		}
	}
	f.wantRows("SELECT status FROM BACKLOG", "'SUCCESS'", "'SUCCESS'")
	f.wantRows("SELECT * FROM stock", "'apple' 9", "'plum' 0")
}

// TestWorkOnTheRowItself: the statements find the row as it was read, may change
// it and may delete it.
func TestWorkOnTheRowItself(t *testing.T) {
	f := orders(t)
	s := f.store(plainMapping())
	w := newWork(t, s, "INSERT INTO shipped SELECT id, status FROM BACKLOG WHERE id = :id AND status = 'NEW'", "DELETE FROM BACKLOG WHERE id = :id")
	if n := w.Describe().MaxConcurrency; n != 1 {
		t.Errorf("%d are said to be able to write at a time", n)
	}
	records := lane(t, s, backlog.Fresh)
	if err := do(w, records[0]); err != nil {
		t.Error(err)
	}
	w = newWork(t, s, "UPDATE BACKLOG SET status = 'SHIPPED BY ' || :status WHERE id = :id")
	if err := do(w, records[1]); err != nil {
		t.Error(err)
	}
	f.wantRows("SELECT * FROM shipped", "1 'NEW'")
	f.wantRows("SELECT id, status FROM BACKLOG", "2 'SHIPPED BY NEW'")
}

// TestWorkBindsWhatIsStored, whatever handlers of other kinds are given.
func TestWorkBindsWhatIsStored(t *testing.T) {
	f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TIMESTAMP, n INTEGER, r REAL, s TEXT, b BLOB, yes BOOLEAN, j JSON, d DATE, x, "send after" TEXT);
		INSERT INTO BACKLOG VALUES
			(1, 'NEW', '2026-02-10 11:00:00', 9007199254740993, 0.1, 'it''s :id; -- ü', x'00ff', 1, '{"a": [1, 2.50]}', '2026-01-02', 5, ' '),
			(2, 'NEW', '2026-02-10 10:00:00', NULL, 1e300, '', x'', 0, '[]', NULL, 'text', NULL),
			(3, 'NEW', '2026-02-10 09:00:00', 'word', 2, '7', 'text', 'maybe', 'no JSON', 20260102, x'31', '1');
		CREATE TABLE copy (id, status, date_inserted, n, r, s, b, yes, j, d, x, y)`)
	s := f.store(plainMapping())
	w := newWork(t, s, `INSERT INTO copy VALUES (:id, :status, :date_inserted, :n, :r, :s, :b, :yes, :j, :d, :x, :"send after")`)
	for _, r := range lane(t, s, backlog.Fresh) {
		if err := do(w, r); err != nil {
			t.Errorf("record %v: %v", r.Key, err)
		}
	}
	f.exec("UPDATE BACKLOG SET status = 'NEW'")
	columns := []string{"id", "status", "date_inserted", "n", "r", "s", "b", "yes", "j", "d", "x"}
	for i, c := range columns {
		columns[i] = "typeof(" + c + ") || ' ' || quote(" + c + ")"
	}
	list := strings.Join(columns, " || ', ' || ") + " || ', ' || "
	f.wantRows("SELECT "+list+"quote(y) AS a FROM copy ORDER BY id", f.rows("SELECT "+list+`quote("send after") AS a FROM BACKLOG ORDER BY id`)...)
}

// TestWorkSettles as any success is settled: touch, attempts, the policy's
// columns, under the filter and the guard of the state that was read.
func TestWorkSettles(t *testing.T) {
	f := newFile(t, `CREATE TABLE jobs (tenant TEXT, nr INTEGER, done INTEGER DEFAULT 0, failed INTEGER DEFAULT 0, at TEXT, touched TEXT, tries INTEGER, queue TEXT DEFAULT 'a',
			attempt_count INTEGER, last_attempt_time TEXT, next_attempt_time TEXT, in_retry INTEGER, PRIMARY KEY (tenant, nr));
		INSERT INTO jobs (tenant, nr, at, touched) VALUES ('x', 1, '2026-02-10 11:00:00', '2026-02-10 11:00:00'), ('x', 3, '2026-02-10 10:00:00', NULL), ('y', 1, '2026-02-10 09:00:00', NULL);
		UPDATE jobs SET failed = 1, attempt_count = 2, last_attempt_time = '2026-02-10 11:00:00', next_attempt_time = '2026-02-10 11:30:00', in_retry = 1 WHERE nr = 3;
		CREATE TABLE log (tenant, nr)`)
	zero, one := text("0"), text("1")
	m := mapping.Mapping{
		Name: "jobs", ID: []string{"tenant", "nr"}, Inserted: mapping.Time{Column: "at"}, Columns: []string{"queue"},
		Where: []mapping.Condition{cond("queue", text("a"))}, Touch: []mapping.Assignment{set("touched", text("now"))}, Attempts: "tries",
		New:     mapping.State{When: []mapping.Condition{cond("done", zero), cond("failed", zero)}},
		Error:   mapping.State{When: []mapping.Condition{cond("done", zero), cond("failed", one)}, Set: []mapping.Assignment{set("failed", one)}},
		Success: mapping.State{Set: []mapping.Assignment{set("done", one)}},
		Policy:  &mapping.PolicyColumns{Count: "attempt_count", Last: "last_attempt_time", Next: "next_attempt_time", InRetry: "in_retry", Retries: 3},
	}
	s := f.store(m)
	w := newWork(t, s, "INSERT INTO log VALUES (:tenant, :nr)")
	fresh, failed := lane(t, s, backlog.Fresh), lane(t, s, backlog.Failed)
	if len(fresh) != 2 || len(failed) != 1 {
		t.Fatalf("fresh: %s, failed: %s", keys(fresh), keys(failed))
	}
	f.exec("UPDATE jobs SET queue = 'b' WHERE tenant = 'y'")
	for r, want := range map[*backlog.Record]error{&fresh[0]: nil, &fresh[1]: backlog.ErrConflict, &failed[0]: nil} {
		if err := do(w, *r); !errors.Is(err, want) {
			t.Errorf("record %v: got %v, want %v", r.Key, err, want)
		}
	}
	f.wantRows("SELECT tenant, nr, done, failed, at, touched, tries, attempt_count, in_retry FROM jobs ORDER BY 1, 2",
		"'x' 1 1 0 '2026-02-10 11:00:00' '2026-02-10 12:00:00' 1 NULL 0",
		"'x' 3 1 1 '2026-02-10 10:00:00' '2026-02-10 12:00:00' 1 2 0",
		"'y' 1 0 0 '2026-02-10 09:00:00' NULL NULL NULL NULL")
	f.wantRows("SELECT * FROM log ORDER BY nr", "'x' 1", "'x' 3")
}

// TestWorkWithNothingToSettle: a success that is the state which the row has is
// written nowhere, and the work is done all the same.
func TestWorkWithNothingToSettle(t *testing.T) {
	f := orders(t)
	m := plainMapping()
	m.Success = is(text("NEW")) // a mapping that Prove refuses
	s, err := f.open(m)
	if err != nil {
		t.Fatal(err)
	}
	w := newWork(t, s, "INSERT INTO shipped VALUES (:id, :item)")
	for _, r := range lane(t, s, backlog.Fresh) {
		if err := do(w, r); err != nil {
			t.Errorf("record %v: %v", r.Key, err)
		}
	}
	f.wantRows("SELECT id FROM shipped", "1", "2")
	f.wantRows("SELECT status FROM BACKLOG", "'NEW'", "'NEW'")
}

// TestWorkWithoutSettlement is what Handle does.
func TestWorkWithoutSettlement(t *testing.T) {
	f := orders(t)
	s := f.store(plainMapping())
	w := newWork(t, s, "UPDATE stock SET n = n - 1 WHERE item = :item")
	records := lane(t, s, backlog.Fresh)
	if err := w.Handle(context.Background(), &records[0]); err != nil {
		t.Error(err)
	}
	if err := w.Handle(context.Background(), &records[1]); err == nil || err.Error() != "statement 1 affected no row" {
		t.Errorf("got %v", err)
	}
	f.wantRows("SELECT status FROM BACKLOG", "'NEW'", "'NEW'")
	f.wantRows("SELECT * FROM stock", "'apple' 4", "'plum' 0")
}
