package table_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/backlog/table/work"
	"backlog/internal/testkit"
)

func TestNewWorkRefuses(t *testing.T) {
	f := orders(t)
	m := plainMapping()
	m.Columns = []string{"item"}
	s := f.store(m)
	for _, c := range []struct{ statement, want string }{
		{want: "handler.sql: statement 2: it is empty; write a statement, such as INSERT INTO …"},
		{
			statement: "SELECT 1; SELECT 2",
			want:      "handler.sql: statement 2: another one stands behind its semicolon; make it an item of its own in the list of statements",
		},
		{statement: "SELECT 'a", want: "handler.sql: statement 2: what begins with 'a has no closing '; add it"},
		{statement: "DELETE FROM a WHERE b = ?", want: "handler.sql: statement 2: ? begins no parameter here; write :column, such as :id"},
		{
			statement: "UPDATE a SET b = :c",
			want:      `handler.sql: statement 2: parameter: table BACKLOG has no column "c"; the columns are: id, status, date_inserted, item`,
		},
		{
			statement: "UPDATE a SET b = :ITEM, c = :Status",
			want:      "handler.sql: statement 2: the handler is not given the column status; add it to table.columns",
		},
		{
			statement: "begin",
			want:      "handler.sql: statement 2 is BEGIN: all statements and the record's settlement are one transaction, which begins and ends by itself; remove it",
		},
		{
			statement: "COMMIT",
			want:      "handler.sql: statement 2 is COMMIT: all statements and the record's settlement are one transaction, which begins and ends by itself; remove it",
		},
		{statement: "/* DELETE */ ROLLBACK TO x", want: "handler.sql: statement 2 is ROLLBACK: …; remove it"},
		{statement: "SAVEPOINT x", want: "handler.sql: statement 2 is SAVEPOINT: …; remove it"},
		{statement: "release x", want: "handler.sql: statement 2 is RELEASE: …; remove it"},
		{statement: "END", want: "handler.sql: statement 2 is END: …; remove it"},
		{
			statement: "PRAGMA\n\tjournal_mode = delete",
			want:      "handler.sql: statement 2, PRAGMA journal_mode …, does not work on rows; write one that begins with INSERT, UPDATE, DELETE, REPLACE, MERGE, SELECT or WITH",
		},
		{statement: "ATTACH 'x' AS y", want: "handler.sql: statement 2, ATTACH 'x' AS y, does not work on rows; …"},
		{statement: "vacuum", want: "handler.sql: statement 2, vacuum, does not work on rows; …"},
		{statement: "CREATE TABLE a (b)", want: "handler.sql: statement 2, CREATE TABLE a (b), does not work on rows; …"},
		{statement: "('a')", want: "handler.sql: statement 2, ('a'), does not work on rows; …"},
	} {
		w, err := work.New(s, []string{"DELETE FROM stock WHERE item = :item OR n = :Id", c.statement}, false)
		if p := (*table.Problem)(nil); w != nil || !errors.As(err, &p) || !testkit.Matches(err.Error(), c.want) {
			t.Errorf("%s\n got %v\nwant %s", c.statement, err, c.want)
		}
	}
	if _, err := work.New(s, nil, false); err == nil || err.Error() != "handler.sql: there is no statement; write what is to be done, such as INSERT INTO …" {
		t.Errorf("no statement: got %v", err)
	}
}

// TestWorkCheck: the database must understand each statement. Nothing is
// changed, and the right to write is not needed.
func TestWorkCheck(t *testing.T) {
	f := orders(t)
	ctx := context.Background()
	db, err := openDB(ctx, "sqlite:"+f.path, table.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := table.New(ctx, db, plainMapping())
	if err != nil {
		t.Fatal(err)
	}
	before := f.content()
	for _, c := range []struct{ statement, want string }{
		{"UPDATE stock SET n = n - 1 WHERE item = :item -- that is all", ""},
		{"DELETE FROM stock WHERE item = :item;", ""},
		{"DELETE FROM stok WHERE item = :item", "statement 2 is not understood by the database: …no such table: stok…"},
		{"DELETE FROM stock WHERE itm = :item", "statement 2 is not understood by the database: …no such column: itm…"},
		{"DELET FROM stock", "handler.sql: statement 2, DELET FROM stock, does not work on rows…"},
		{"DELETE stock", "statement 2 is not understood by the database: …syntax error…"},
	} {
		w, err := work.New(s, []string{"INSERT INTO shipped VALUES (:id, :item)", c.statement}, false)
		if err == nil {
			err = w.Check(ctx)
		}
		want := c.want
		if strings.HasPrefix(want, "statement") {
			want = "handler.sql: " + want + "; correct it, or create what it names"
		}
		wantProblemLike(t, c.statement, err, want)
	}
	w := newWork(t, s, "DELETE FROM stock")
	if err := do(w, lane(t, f.store(plainMapping()), backlog.Fresh)[0]); backlog.OutcomeOf(err) != backlog.Skipped || err.Error() != "the database is open to be read only; open it to be written to" {
		t.Errorf("work on a database that is read only: got %v", err)
	}
	if after := f.content(); strings.Join(after, "\n") != strings.Join(before, "\n") {
		t.Errorf("the database was changed:\n%s", strings.Join(after, "\n"))
	}
}

// TestWorkCheckEnded: that the time is over says nothing about the statements.
func TestWorkCheckEnded(t *testing.T) {
	f := orders(t)
	w := newWork(t, f.store(plainMapping()), "DELETE FROM stock WHERE item = :item")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.Check(ctx); !errors.Is(err, context.Canceled) || errors.As(err, new(*table.Problem)) {
		t.Errorf("got %v", err)
	}
}

// TestWorkTry logs the work of a record and leaves nothing of it.
func TestWorkTry(t *testing.T) {
	f := orders(t)
	f.exec("UPDATE BACKLOG SET item = replace(hex(zeroblob(200)), '0', 'ü') WHERE id = 2; INSERT INTO BACKLOG VALUES (3, NULL, '2026-02-10 09:00:00', x'00ff')")
	m := plainMapping()
	m.New = is(text("NEW"), null)
	m.Touch = []mapping.Assignment{set("date_inserted", text("now"))}
	s := f.store(m)
	records := lane(t, s, backlog.Fresh)
	before := f.content()
	var logged bytes.Buffer
	rehearse := func(r *backlog.Record, statements ...string) (sent, got string, err error) {
		logged.Reset()
		w := newWork(t, s, statements...)
		w.Log = slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
		err = w.Try(context.Background(), r)
		var line struct{ Msg, Sent, Got string }
		if err := json.Unmarshal(logged.Bytes(), &line); err != nil || line.Msg != "exchange" {
			t.Fatalf("logged %s: %v", &logged, err)
		}
		return line.Sent, line.Got, err
	}
	for _, c := range []struct {
		statement      string
		record         int
		sent, got, err string
	}{
		{"UPDATE stock\nSET n = n - 1 WHERE item = :item AND :item <> :id;; SELECT 1", 0, `statement 1:
    UPDATE stock
    SET n = n - 1 WHERE item = :item AND :item <> :id
  item = "apple"
  id = 1
statement 2:
    SELECT 1
`, "statement 1: rows affected: 1\n", ""},
		{"SELECT :status, :item", 2, `statement 1:
    SELECT :status, :item
  status = NULL
  item = a BLOB of 2 bytes
`, "", ""},
		{"DELETE FROM stock;; DELETE FROM stock", 0, "statement 1:\n    DELETE FROM stock\nstatement 2:\n    DELETE FROM stock\n",
			"statement 1: rows affected: 2\nstatement 2 affected no row", "statement 2 affected no row"},
		{"INSERT INTO shipped VALUES (:id, :item), (2, NULL)", 1,
			"statement 1:\n    INSERT INTO shipped VALUES (:id, :item), (2, NULL)\n  id = 2\n  item = \"" + strings.Repeat("ü", 200) + "\" and more, 800 bytes\n",
			"statement 1: …UNIQUE constraint failed…", "statement 1: …UNIQUE constraint failed…"},
	} {
		sent, got, err := rehearse(&records[c.record], strings.Split(c.statement, ";; ")...)
		if sent != c.sent || !testkit.Matches(got, c.got) {
			t.Errorf("%s:\nsent %s\nwant %s\ngot %s\nwant %s", c.statement, sent, c.sent, got, c.got)
		}
		if (err == nil) != (c.err == "") || err != nil && !testkit.Matches(err.Error(), c.err) {
			t.Errorf("%s: got the error %v, want %s", c.statement, err, c.err)
		}
		if after := f.content(); strings.Join(after, "\n") != strings.Join(before, "\n") {
			t.Errorf("the database was changed:\n%s", strings.Join(after, "\n"))
		}
	}
	f.exec("UPDATE BACKLOG SET status = 'SUCCESS'")
	before = f.content()
	_, got, err := rehearse(&records[0], "DELETE FROM stock")
	if err != nil || got != "statement 1: rows affected: 2\n" || strings.Join(f.content(), "\n") != strings.Join(before, "\n") {
		t.Errorf("a record that is settled: %s, error %v", got, err)
	}
}
