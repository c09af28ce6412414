package table_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"backlog/backlog"
	"backlog/backlog/mapping"
)

// TestTouch: what is written at every settlement, and that it is written in
// the same way when the group holds one record and when it holds several.
func TestTouch(t *testing.T) {
	f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT,
		updated_at TEXT, seen_ms INTEGER, version INTEGER, note TEXT, claimed_by TEXT, attempts INTEGER, error TEXT, "now" TEXT);
		INSERT INTO BACKLOG VALUES
		(1, 'NEW', '2026-02-10 01:00:00', '2026-01-01T00:00:00.000Z', 1767225600000, 7, 'x', 'w1', NULL, NULL, 'x'),
		(2, 'NEW', '2026-02-10 02:00:00', NULL, NULL, NULL, NULL, NULL, 0, 'old', NULL),
		(3, 'ERROR', '2026-02-10 03:00:00', NULL, NULL, 9223372036854775806, 'y', 'w2', 41, 'old', ''),
		(4, 'ERROR', '2026-02-10 04:00:00', NULL, NULL, 1, 'y', 'w2', 41, 'old', ''),
		(5, 'DONE', '2026-02-10 05:00:00', NULL, NULL, 1, 'y', 'w2', 41, 'old', '')`)
	m := plainMapping()
	m.Attempts, m.LastError = "attempts", "error"
	m.Touch = []mapping.Assignment{set("updated_at", text("now")), set("seen_ms", text("now")), set("version", text("+1")),
		set("note", quoted("+1")), set("claimed_by", null), set("now", quoted("now"))}
	s := f.store(m)
	outcomes := map[string]backlog.Outcome{"1": backlog.Succeeded, "2": backlog.Errored, "3": backlog.Succeeded, "4": backlog.Rejected}
	settleAll(t, s, func(r backlog.Record) (backlog.Outcome, string) {
		if o := outcomes[r.Key.String()]; o != backlog.Succeeded {
			return o, "it's broken"
		}
		return backlog.Succeeded, ""
	})
	f.wantRows("SELECT * FROM BACKLOG",
		`1 'SUCCESS' '2026-02-10 01:00:00' '2026-02-10T12:00:00.000Z' 1770724800000 8 '+1' NULL 1 NULL 'now'`,
		`2 'ERROR' '2026-02-10 02:00:00' '2026-02-10T12:00:00.000Z' 1770724800000 1 '+1' NULL 1 'it''s broken' 'now'`,
		`3 'SUCCESS' '2026-02-10 03:00:00' '2026-02-10T12:00:00.000Z' 1770724800000 9223372036854775807 '+1' NULL 42 'old' 'now'`,
		`4 'ERROR' '2026-02-10 04:00:00' '2026-02-10T12:00:00.000Z' 1770724800000 2 '+1' NULL 42 'it''s broken' 'now'`,
		`5 'DONE' '2026-02-10 05:00:00' NULL NULL 1 'y' 'w2' 41 'old' ''`)
}

// TestTouchOfMixedForms: nobody reads the times of a column that is only
// written, so it need not be of one form. What is written is then in that of
// the time of insertion.
func TestTouchOfMixedForms(t *testing.T) {
	f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT, updated_at TEXT);
		INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-02-10 01:00:00', '2026-01-01T00:00:00Z'), (2, 'NEW', '2026-02-10 02:00:00', '2026-01-01')`)
	m := plainMapping()
	m.Touch = []mapping.Assignment{set("updated_at", text("now"))}
	s := f.store(m)
	want := `column updated_at: mixed: 2026-01-01T00:00:00Z and 2026-01-01: times that are written there get the form of date_inserted`
	if got := s.Notes(); len(got) != 1 || got[0] != want {
		t.Errorf("Notes:\n got %q\nwant %q", got, want)
	}
	settleAll(t, s, func(backlog.Record) (backlog.Outcome, string) { return backlog.Succeeded, "" })
	f.wantRows("SELECT updated_at FROM BACKLOG", "'2026-02-10 12:00:00'", "'2026-02-10 12:00:00'")
}

// TestKeep: such a column is written back as it is, wherever anything is
// written, since some databases would write the time there by themselves.
func TestKeep(t *testing.T) {
	f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT, until TEXT);
		CREATE TABLE log (at);
		CREATE TRIGGER t AFTER UPDATE OF date_inserted, until ON BACKLOG BEGIN INSERT INTO log VALUES (old.date_inserted || ' ' || new.date_inserted || ' ' || new.until); END;
		INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-02-10 01:00:00', '2026-02-11 01:00:00')`)
	m := plainMapping()
	m.Inserted.Keep, m.Expires = true, &mapping.Time{Column: "until", Keep: true}
	s := f.store(m)
	settleAll(t, s, func(backlog.Record) (backlog.Outcome, string) { return backlog.Errored, "" })
	f.wantRows("SELECT * FROM log", "'2026-02-10 01:00:00 2026-02-10 01:00:00 2026-02-11 01:00:00'")
	f.wantRows("SELECT * FROM BACKLOG", "1 'ERROR' '2026-02-10 01:00:00' '2026-02-11 01:00:00'")
}

func TestLastErrorIsCutToTheColumn(t *testing.T) {
	for _, x := range []struct{ decl, text, want string }{
		{"VARCHAR(5)", "12345678", "'12345'"},
		{"VARCHAR( 5 )", "äöü€😀!", "'äöü€😀'"},
		{"NVARCHAR(5)", "12345", "'12345'"},
		{"VARCHAR(5)", "", "''"},
		{"CHARACTER VARYING(3)", "a\xffbcd", "'a\uFFFDb'"},
		{"TEXT", "a\x00b", "'a\uFFFDb'"},
		{"TEXT", strings.Repeat("€", 70_000), "'" + strings.Repeat("€", 65_536) + "'"},
	} {
		f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT, error `+x.decl+`);
			INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-02-10 01:00:00', 'before')`)
		m := plainMapping()
		m.LastError = "error"
		s := f.store(m)
		if err := settle(t, s, lane(t, s, backlog.Fresh)[0], backlog.Errored, x.text); err != nil {
			t.Fatal(err)
		}
		if got := f.rows("SELECT error FROM BACKLOG")[0]; got != x.want {
			t.Errorf("%.20q in a column of type %s: got %.30s, want %.30s", x.text, x.decl, got, x.want)
		}
	}
}

// TestValuesAreTypedByTheColumn writes values of many kinds to columns of many
// kinds, and finds the row by them.
func TestValuesAreTypedByTheColumn(t *testing.T) {
	probes := []struct {
		decl  string
		value mapping.Value
		want  string
	}{
		{"TEXT", text("false"), "'false'"},
		{"TEXT", text("007"), "'007'"},
		{"TEXT", text("1e3"), "'1e3'"},
		{"TEXT", text("it's"), "'it''s'"},
		{"VARCHAR(20)", text("1.50"), "'1.50'"},
		{"TEXT", null, "NULL"},
		{"BOOLEAN", text("false"), "0"},
		{"BOOLEAN", text("TRUE"), "1"},
		{"BOOLEAN", text("1"), "1"},
		{"BOOLEAN", quoted("false"), "'false'"}, // as its author wants it
		{"INTEGER", text("false"), "0"},
		{"INTEGER", quoted("2"), "2"},
		{"INTEGER", text("007"), "7"},
		{"INT", text("-9223372036854775808"), "-9223372036854775808"},
		{"BIGINT", text("9223372036854775807"), "9223372036854775807"},
		{"REAL", text("1.50"), "1.5"},
		{"REAL", text("2"), "2.0"},
		{"DOUBLE PRECISION", text("-1e300"), "-1.0e+300"},
		{"DECIMAL(10,2)", text("1.50"), "1.5"},
		{"DECIMAL(10,2)", text("3"), "3"},
		{"DECIMAL(10,2)", text("n/a"), "'n/a'"},
		{"ENUM", text("inf"), "'inf'"}, // these are words to SQLite
		{"ENUM", text("NaN"), "'NaN'"},
		{"ENUM", text("0x10"), "'0x10'"},
		{"ENUM", text("0x1p4"), "'0x1p4'"},
		{"DATETIME", text("2026-02-10"), "'2026-02-10'"},
		{"", text("7"), "7"},
		{"", quoted("7"), "'7'"},
		{"", text("seven"), "'seven'"},
		{"", text("true"), "1"},
		{"", text("Infinity"), "'Infinity'"},
		{"BLOB", text("x"), "'x'"},
	}
	m := plainMapping()
	columns := ""
	for i, x := range probes {
		column := fmt.Sprint("probe", i)
		columns += ", " + column + " " + x.decl
		m.Touch = append(m.Touch, set(column, x.value))
	}
	f := newFile(t, "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT"+columns+`);
		INSERT INTO BACKLOG (id, status, date_inserted) VALUES (1, 'NEW', '2026-02-10 01:00:00')`)
	s := f.store(m)
	settleAll(t, s, func(backlog.Record) (backlog.Outcome, string) { return backlog.Succeeded, "" })
	f.exec("UPDATE BACKLOG SET status = 'NEW'")
	m.Touch = nil
	for i, x := range probes {
		column := fmt.Sprint("probe", i)
		if got := f.rows("SELECT " + column + " FROM BACKLOG")[0]; got != x.want {
			t.Errorf("%+v in a column of type %q: got %s, want %s", x.value, x.decl, got, x.want)
		}
		m.Where = []mapping.Condition{cond(column, x.value)}
		s, err := f.open(m)
		if err != nil {
			t.Fatal(err)
		}
		wantKeys(t, "where a column of type "+x.decl+" is "+x.want, lane(t, s, backlog.Fresh), "1")
	}
}

func TestValuesThatAColumnCannotHold(t *testing.T) {
	const columns = "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status INTEGER NOT NULL, date_inserted TEXT, short VARCHAR(3) NOT NULL, amount REAL, double_amount AS (amount * 2));"
	numbers := func(m *mapping.Mapping) { m.New, m.Error, m.Success = is(text("0")), is(text("1")), is(text("2")) }
	for _, x := range []struct {
		change func(*mapping.Mapping)
		want   string
	}{
		{
			change: func(m *mapping.Mapping) {},
			want:   "statuses.new: NEW is not a whole number, and column status is INTEGER; give statuses.new a value that the column can hold (statuses.new is not given, this is its default)",
		},
		{
			change: func(m *mapping.Mapping) { m.New = is(text("NEW")) },
			want:   "statuses.new: NEW is not a whole number, and column status is INTEGER; give statuses.new a value that the column can hold",
		},
		{
			change: func(m *mapping.Mapping) { m.New.Values = []mapping.Value{text("0")} },
			want:   "statuses.error: ERROR is not a whole number, and column status is INTEGER; give statuses.error a value that the column can hold (statuses.error is not given, this is its default)",
		},
		{
			change: func(m *mapping.Mapping) { numbers(m); m.Success = is(text("2.5")) },
			want:   "statuses.success: 2.5 is not a whole number, and column status is INTEGER; give statuses.success a value that the column can hold",
		},
		{change: func(m *mapping.Mapping) { numbers(m); m.Dead = is(null) }, want: "statuses.dead: column status must not be NULL; give it a value"},
		{
			change: func(m *mapping.Mapping) { numbers(m); m.Where = []mapping.Condition{cond("amount", text("much"))} },
			want:   "table.where: much is not a number, and column amount is REAL; give table.where a value that the column can hold",
		},
		{
			change: func(m *mapping.Mapping) { numbers(m); m.Where = []mapping.Condition{cond("amount", text("inf"))} },
			want:   "table.where: inf is not a number, and column amount is REAL; give table.where a value that the column can hold",
		},
		{
			change: func(m *mapping.Mapping) { numbers(m); m.Touch = []mapping.Assignment{set("short", text("long"))} },
			want:   `table.touch: "long" is longer than column short allows (VARCHAR(3)); write a shorter one`,
		},
		{
			change: func(m *mapping.Mapping) { numbers(m); m.Touch = []mapping.Assignment{set("short", null)} },
			want:   "table.touch: column short must not be NULL; give it a value",
		},
		{
			change: func(m *mapping.Mapping) { numbers(m); m.Touch = []mapping.Assignment{set("double_amount", text("1"))} },
			want:   "table.touch: column double_amount is computed by the database and cannot be written; name another",
		},
		{
			change: func(m *mapping.Mapping) { numbers(m); m.Attempts = "double_amount" },
			want:   "table.attempts: column double_amount is computed by the database and cannot be written; name another",
		},
		{
			change: func(m *mapping.Mapping) { numbers(m); m.LastError = "double_amount" },
			want:   "table.last_error: column double_amount is computed by the database and cannot be written; name another",
		},
	} {
		f := newFile(t, columns)
		m := plainMapping()
		x.change(&m)
		f.wantRefused(m, x.want)
	}
}

// TestHandlerColumns: which columns a handler is given, in which order and as
// what.
func TestHandlerColumns(t *testing.T) {
	f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted DATETIME, ok BOOLEAN, odd BOOL,
			doc JSON, broken JSON, doc_text TEXT, price DECIMAL(10,2), exact TEXT, least BIGINT, most BIGINT, ratio REAL, data BLOB,
			sum AS (least + 1), born DATE);
		INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-02-10 01:00:00', 1, 2,
			'{"b": [1, 12345678901234567890.10], "a": null}', '{', '{"a": 1}', 19.99, '12345678901234567890.10', -9223372036854775808, 9223372036854775807, 0.1, x'00ff27', '2026-02-10'),
			(2, 'NEW', '2026-02-10 00:00:00', 0, NULL, '[]', NULL, '', 20, '', 0, 0, 3.0, x'', NULL)`)
	m := plainMapping()
	s := f.store(m)
	r := lane(t, s, backlog.Fresh)
	for i, want := range []string{
		`{"id":1,"status":"NEW","date_inserted":"2026-02-10 01:00:00","ok":true,"odd":2,` +
			`"doc":{"b":[1,12345678901234567890.10],"a":null},"broken":"{","doc_text":"{\"a\": 1}","price":19.99,"exact":"12345678901234567890.10",` +
			`"least":-9223372036854775808,"most":9223372036854775807,"ratio":0.1,"data":"AP8n","sum":-9223372036854775807,"born":"2026-02-10"}`,
		`{"id":2,"status":"NEW","date_inserted":"2026-02-10 00:00:00","ok":false,"odd":null,` +
			`"doc":[],"broken":null,"doc_text":"","price":20,"exact":"","least":0,"most":0,"ratio":3,"data":"","sum":1,"born":null}`,
	} {
		got, err := r[i].ColumnsJSON()
		if err != nil || string(got) != want {
			t.Errorf("row %v: %v\n got %s\nwant %s", r[i].Key, err, got, want)
		}
	}
	if v, _ := r[0].Column("least"); v != int64(math.MinInt64) {
		t.Errorf("least: got %T(%v)", v, v)
	}

	m.Columns = []string{"PRICE", "doc", "status"}
	r = lane(t, f.store(m), backlog.Fresh)
	if want := []string{"price", "doc", "status"}; !reflect.DeepEqual(r[0].Names, want) {
		t.Errorf("columns: got %q, want %q", r[0].Names, want)
	}
	if got, want := fields(r[1]), "price=int64(20) doc=json.RawMessage([91 93]) status=string(NEW)"; got != want {
		t.Errorf("values:\n got %s\nwant %s", got, want)
	}
	m.Columns = []string{}
	r = lane(t, f.store(m), backlog.Fresh)
	if got, err := r[0].ColumnsJSON(); string(got) != "{}" || r[0].Status != "NEW" || err != nil {
		t.Errorf("an empty list of columns: got %s, status %q, %v", got, r[0].Status, err)
	}
}

// TestReadColumnsMayBeGenerated: what is only read may be computed.
func TestReadColumnsMayBeGenerated(t *testing.T) {
	f := newFile(t, `CREATE TABLE jobs (uuid TEXT PRIMARY KEY, body TEXT, done_at INTEGER,
			created TEXT GENERATED ALWAYS AS (body ->> 'created') VIRTUAL,
			state TEXT GENERATED ALWAYS AS (CASE WHEN done_at IS NULL THEN 'todo' ELSE 'done' END) STORED);
		INSERT INTO jobs (uuid, body) VALUES ('a', '{"created": "2026-02-10T01:00:00Z"}'), ('b', '{"created": "2026-02-10T02:00:00Z"}'), ('c', '{}')`)
	m := mapping.Mapping{
		Name: "jobs", ID: []string{"uuid"}, Inserted: mapping.Time{Column: "created"},
		New:     mapping.State{When: []mapping.Condition{cond("state", text("todo"))}},
		Success: mapping.State{Set: []mapping.Assignment{set("done_at", text("1"))}},
		Error:   mapping.State{Keep: true},
	}
	s := f.store(m)
	records := lane(t, s, backlog.Fresh)
	wantKeys(t, "fresh lane", records, "b a")
	if err := settle(t, s, records[0], backlog.Succeeded, ""); err != nil {
		t.Fatal(err)
	}
	f.wantRows("SELECT uuid, state FROM jobs", "'a' 'todo'", "'b' 'done'", "'c' 'todo'")
	if err := s.Prove(context.Background(), noon); err != nil {
		t.Error(err)
	}
}
