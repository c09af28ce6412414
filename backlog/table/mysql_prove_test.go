package table_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/backlog/table/doctor"
)

// proveMySQL proves the mapping as passes have it proved.
func proveMySQL(tb testing.TB, rawURL string, m mapping.Mapping) (*table.Table, error) {
	tb.Helper()
	db, err := openDB(tb.Context(), rawURL, table.Options{})
	if err != nil {
		return nil, err
	}
	tb.Cleanup(func() { db.Close() })
	s, err := table.New(tb.Context(), db, m)
	if err == nil {
		err = tried(s)
	}
	return s, err
}

// TestMySQLProof: what settlements could not write is refused before the first
// record, and what may go wrong is said.
func TestMySQLProof(t *testing.T) {
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	plain.SetMaxOpenConns(1)
	execMySQL(t, plain, "SET sql_mode = ''") // zero dates
	const key, at = "id INT PRIMARY KEY", "date_inserted DATETIME"
	insert := "INSERT INTO BACKLOG (id, date_inserted) VALUES (1, '2026-02-10 11:00:00'), (2, '2026-02-10 11:00:00')"
	for _, x := range []struct {
		name, columns, rest string
		change              func(*mapping.Mapping)
		want                string // of the error; "": none
		note                string
	}{
		{name: "plain", columns: "status VARCHAR(20) DEFAULT 'NEW'"},
		{name: "enum", columns: "status ENUM('NEW','DONE') DEFAULT 'NEW'", want: `"ERROR" is none of the labels of column status: NEW, DONE`},
		{
			name:    "enum with a quote",
			columns: "status ENUM('NEW','it''s','SUCCESS','ERROR') DEFAULT 'NEW'",
			change:  func(m *mapping.Mapping) { m.Error = is(text("it's")) },
		},
		{name: "too short", columns: "status VARCHAR(5) DEFAULT 'NEW'", want: `"SUCCESS" is longer than column status allows (varchar(5))`},
		{
			name:    "check",
			columns: "status VARCHAR(20) DEFAULT 'NEW' CHECK (status IN ('NEW', 'ERROR', 'it''s ('))",
			want:    "statuses.success: table BACKLOG does not take `status` = 'SUCCESS': Error 4025",
		},
		{
			name:    "check of other columns",
			columns: "status VARCHAR(20) DEFAULT 'NEW', done_at DATETIME",
			rest:    ", CONSTRAINT c CHECK (status <> 'SUCCESS' OR done_at IS NOT NULL)",
			want:    "statuses.success: table BACKLOG takes `status` = 'SUCCESS' only by what the row has in done_at",
		},
		{
			name:    "check that touch meets",
			columns: "status VARCHAR(20) DEFAULT 'NEW', done_at DATETIME",
			rest:    ", CONSTRAINT c CHECK (status <> 'SUCCESS' OR done_at IS NOT NULL)",
			change: func(m *mapping.Mapping) {
				m.Touch = []mapping.Assignment{{Column: "done_at", Value: text("now")}}
			},
		},
		{
			name:    "out of range",
			columns: "status TINYINT DEFAULT 0",
			change:  numbers(0, 1, 300),
			want:    "statuses.success: 300 is out of the range of column status, which is tinyint",
		},
		{
			name:    "unsigned",
			columns: "status TINYINT UNSIGNED DEFAULT 0",
			change:  numbers(0, -1, 200),
			want:    "-1 is out of the range of column status, which is tinyint",
		},
		{name: "not a number", columns: "status INT DEFAULT 0", want: "NEW is not a whole number"},
		{
			name:    "engine",
			columns: "status VARCHAR(20) DEFAULT 'NEW'",
			rest:    ") ENGINE = MyISAM -- ",
			note:    "the storage engine of BACKLOG is MyISAM, which has no transactions",
		},
		{
			name:    "on update",
			columns: "status VARCHAR(20) DEFAULT 'NEW', changed TIMESTAMP NULL ON UPDATE CURRENT_TIMESTAMP",
			note:    "column changed is set by the database whenever a row is written",
		},
		{
			name:    "trigger",
			columns: "status VARCHAR(20) DEFAULT 'NEW'",
			rest:    "); CREATE TRIGGER tr BEFORE UPDATE ON BACKLOG FOR EACH ROW SET NEW.id = NEW.id; -- ",
			note:    "triggers run when a row is updated: tr",
		},
		{name: "generated", columns: "a VARCHAR(20) DEFAULT 'NEW', status VARCHAR(20) AS (a)", want: "column status is computed by the database"},
		{
			name:    "not unique",
			columns: "status VARCHAR(20) DEFAULT 'NEW', a INT",
			change:  func(m *mapping.Mapping) { m.ID = []string{"a"} },
			want:    "table.id: a does not identify a row of BACKLOG",
		},
		{
			name:    "partitioned",
			columns: "status VARCHAR(20) DEFAULT 'NEW', p INT DEFAULT 1, PRIMARY KEY (id, p)",
			rest:    ") PARTITION BY HASH (p) PARTITIONS 4 -- ",
			want:    "table.id: id does not identify a row of BACKLOG",
		},
		{
			name:    "zero dates",
			columns: "status VARCHAR(20) DEFAULT 'NEW', gone DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00'",
			change: func(m *mapping.Mapping) {
				m.Eligible = &mapping.Time{Column: "gone", Keep: true}
			},
		},
		{
			name:    "words",
			columns: "status VARCHAR(20) DEFAULT 'NEW', `order by` INT DEFAULT 3",
			change: func(m *mapping.Mapping) {
				m.Where = []mapping.Condition{cond("order by", text("3"))}
			},
		},
	} {
		k := key
		if strings.Contains(x.columns, "PRIMARY KEY") {
			k = "id INT"
		}
		execMySQL(t, plain, "DROP TABLE IF EXISTS BACKLOG")
		for i, part := range strings.Split(fmt.Sprintf("CREATE TABLE BACKLOG (%s, %s, %s%s)", k, at, x.columns, x.rest), ";") {
			if part = strings.TrimSuffix(strings.TrimSpace(part), "-- )"); i == 0 || part != "" {
				execMySQL(t, plain, part)
			}
		}
		execMySQL(t, plain, insert)
		m := plainMapping()
		if x.change != nil {
			x.change(&m)
		}
		s, err := proveMySQL(t, rawURL, m)
		wantProblemLike(t, x.name, err, within(x.want))
		if err != nil {
			continue
		}
		wantNotes(t, x.name, s.Notes(), x.note)
		settleOne(t, x.name, s)
	}
}

func numbers(fresh, failed, success int) func(*mapping.Mapping) {
	return func(m *mapping.Mapping) {
		m.New, m.Error, m.Success = is(text(fmt.Sprint(fresh))), is(text(fmt.Sprint(failed))), is(text(fmt.Sprint(success)))
	}
}

// settleOne settles the newest of two records.
func settleOne(t *testing.T, what string, s *table.Table) {
	t.Helper()
	records, unreadable := readAll(t, s, backlog.Query{Lane: backlog.Fresh, Limit: 10})
	if len(records) != 2 || len(unreadable) > 0 {
		t.Errorf("%s: got %d records and %v, want 2", what, len(records), unreadable)
		return
	}
	left, err := s.Settle(t.Context(), []backlog.Settlement{{Record: &records[0], Target: backlog.RowSuccess, At: noon}})
	if len(left) > 0 || err != nil {
		t.Errorf("%s: settling: %v, %v", what, left, err)
	}
	if records, _ := readAll(t, s, backlog.Query{Lane: backlog.Fresh, Limit: 10}); len(records) != 1 {
		t.Errorf("%s: got %d records after one was settled", what, len(records))
	}
}

// TestMySQLNames: what is not there is named, with what is.
func TestMySQLNames(t *testing.T) {
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	u, _ := url.Parse(rawURL)
	name := strings.TrimPrefix(u.Path, "/")
	execMySQL(t, plain, "CREATE TABLE other (a INT)")
	execMySQL(t, plain, "CREATE VIEW v AS SELECT 1 AS id, 'NEW' AS status, NOW() AS date_inserted")
	m := plainMapping()
	_, err := proveMySQL(t, rawURL, m)
	want := "table BACKLOG does not exist in the database " + name + "; set table.name or table.schema; `backlog init --create-table` creates it; the tables are: other, v"
	if p := (*table.Problem)(nil); !errors.As(err, &p) || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	m.Name = "v"
	if _, err := proveMySQL(t, rawURL, m); err == nil || !strings.Contains(err.Error(), "v is a view") {
		t.Errorf("a view: got %v", err)
	}
	u.Path = ""
	if _, err := proveMySQL(t, u.String(), m); err == nil || !strings.HasPrefix(err.Error(), "the database URL names no database; ") {
		t.Errorf("no database: got %v", err)
	}
	m.Schema, m.Name = name, "BACKLOG"
	execMySQL(t, plain, "CREATE TABLE BACKLOG (id INT PRIMARY KEY, status VARCHAR(20), date_inserted DATETIME)")
	execMySQL(t, plain, "INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-02-10 11:00:00'), (2, 'NEW', '2026-02-10 11:00:00')")
	s, err := proveMySQL(t, u.String(), m)
	if err != nil {
		t.Fatal(err)
	}
	settleOne(t, "table.schema", s)
}

// TestMySQLRightsOfOddNames: a GRANT names the very table, and not one whose name
// is the beginning of its.
func TestMySQLRightsOfOddNames(t *testing.T) {
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	u, _ := url.Parse(rawURL)
	schema := strings.TrimPrefix(u.Path, "/")
	const quoted = "`or``d \"it's\"`"
	execMySQL(t, plain, "CREATE TABLE "+quoted+" (id INT PRIMARY KEY, status VARCHAR(20), date_inserted DATETIME, place TEXT, card TEXT)")
	execMySQL(t, plain, "CREATE USER "+schema[:20])
	defer execMySQL(t, plain, "DROP USER "+schema[:20])
	execMySQL(t, plain, "GRANT SELECT ON "+schema+".* TO "+schema[:20])
	u.User = url.User(schema[:20])
	m := plainMapping()
	m.Name = "or`d \"it's\""
	_, err := proveMySQL(t, u.String(), m)
	if err == nil || !strings.Contains(err.Error(), "UPDATE command denied to user") {
		t.Errorf("got %v", err)
	}
	db, err := openDB(t.Context(), u.String(), table.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := table.New(t.Context(), db, m)
	if err != nil {
		t.Fatal(err)
	}
	few := m
	few.Columns = []string{"place"}
	narrow, err := table.New(t.Context(), db, few)
	if err != nil {
		t.Fatal(err)
	}
	for what, s := range map[string]*table.Table{"SELECT": s, "SELECT (`id`, `status`, `date_inserted`, `place`)": narrow} {
		grants := doctor.Grants(s)
		if want := "GRANT " + what + ", UPDATE (`status`) ON `" + schema + "`." + quoted + " TO '" + schema[:20] + "'@'%'"; len(grants) != 1 || grants[0] != want {
			t.Errorf("got %q\nwant %s", grants, want)
		}
	}
}

// TestMySQLRights: the least that is needed is enough, and what is missing is
// told in the server's words before the first record.
func TestMySQLRights(t *testing.T) {
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	u, _ := url.Parse(rawURL)
	name := strings.TrimPrefix(u.Path, "/")
	user := name[:20]
	execMySQL(t, plain, "CREATE TABLE BACKLOG (id INT PRIMARY KEY, status VARCHAR(20) CHECK (status <> 'DEAD'), date_inserted DATETIME)")
	execMySQL(t, plain, "INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-02-10 11:00:00'), (2, 'NEW', '2026-02-10 11:00:00')")
	execMySQL(t, plain, "CREATE USER "+user+" IDENTIFIED BY 's3cret'")
	defer execMySQL(t, plain, "DROP USER "+user)
	u.User = url.UserPassword(user, "s3cret")
	execMySQL(t, plain, "GRANT SELECT ON "+name+".BACKLOG TO "+user)
	_, err := proveMySQL(t, u.String(), plainMapping())
	const cure = "let its owner grant it; `backlog check --sql` prints what passes take, `backlog init --print` what init runs"
	if p := (*table.Problem)(nil); !errors.As(err, &p) || !strings.HasSuffix(err.Error(), cure) {
		t.Errorf("with SELECT only: got %v\nwant %s", err, cure)
	}
	execMySQL(t, plain, "GRANT UPDATE (status) ON "+name+".BACKLOG TO "+user)
	s, err := proveMySQL(t, u.String(), plainMapping())
	if err != nil {
		t.Fatal(err)
	}
	settleOne(t, "with UPDATE (status)", s)
	m := plainMapping()
	m.Dead = is(text("DEAD"))
	if _, err := proveMySQL(t, u.String(), m); err == nil || !strings.Contains(err.Error(), "does not take `status` = 'DEAD'") {
		t.Errorf("a CHECK, by a user with few rights: got %v", err)
	}
	m = plainMapping()
	m.Touch = []mapping.Assignment{{Column: "date_inserted", Value: text("now")}}
	if _, err := proveMySQL(t, u.String(), m); err == nil ||
		!strings.Contains(err.Error(), "for column 'date_inserted' in table 'BACKLOG'; "+cure) {
		t.Errorf("a column that may not be written: got %v", err)
	}
	execMySQL(t, plain, "UPDATE BACKLOG SET status = 'NEW'")
	execMySQL(t, plain, "REVOKE SELECT ON "+name+".BACKLOG FROM "+user)
	execMySQL(t, plain, "GRANT SELECT (id, status, date_inserted) ON "+name+".BACKLOG TO "+user)
	s, err = proveMySQL(t, u.String(), plainMapping())
	if err != nil {
		t.Fatal(err)
	}
	settleOne(t, "with SELECT on columns only", s)
	if err := create(t.Context(), u.String(), []string{"CREATE INDEX x ON BACKLOG (id)"}); err == nil || !strings.HasSuffix(err.Error(), cure) {
		t.Errorf("an index by a user with few rights: got %v\nwant %s", err, cure)
	}
	execMySQL(t, plain, "REVOKE SELECT (date_inserted) ON "+name+".BACKLOG FROM "+user)
	want := `table.inserted: table BACKLOG has no column "date_inserted"; the columns are: id, status, and such as this user may not read`
	if _, err := proveMySQL(t, u.String(), plainMapping()); err == nil || err.Error() != want {
		t.Errorf("a column that may not be read: got %v\nwant %s", err, want)
	}
}

// A policy may give up at the last failure that its column can count, not later.
func TestMySQLCountsToTheLargest(t *testing.T) {
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	execMySQL(t, plain, "CREATE TABLE BACKLOG (id INT PRIMARY KEY, status VARCHAR(20), date_inserted DATETIME, failures TINYINT, last_failure DATETIME)")
	for retries, isRefused := range map[int]bool{126: false, 127: true} {
		m := plainMapping()
		m.Policy = retryColumns(waiting(retries, time.Minute), "failures", "last_failure")
		_, err := proveMySQL(t, rawURL, m)
		if isRefused && (err == nil || !strings.Contains(err.Error(), "which cannot count 128 failures")) || !isRefused && err != nil {
			t.Errorf("%d retries: got %v, want a refusal: %t", retries, err, isRefused)
		}
	}
}
