package table_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/table"
	"backlog/internal/testkit"
)

// An error's text may have characters that its column does not take, or more
// than it has room for. What fits is kept, and the status is written whatever
// the text is: else the record would be handled again and again.
func TestNotesThatDoNotFit(t *testing.T) {
	const words = "café … 😀 "
	for name, x := range map[string]struct{ column, error, want string }{
		"latin1":                 {"last_error VARCHAR(200) CHARACTER SET latin1", words, "café … ? "},
		"utf8mb3":                {"last_error VARCHAR(200) CHARACTER SET utf8mb3", words, "café … ? "},
		"ascii":                  {"last_error TEXT CHARACTER SET ascii", words, "caf? ? ? "},
		"characters":             {"last_error VARCHAR(4) CHARACTER SET latin1", words, "café"},
		"bytes of a text":        {"last_error TINYTEXT CHARACTER SET utf8mb4", strings.Repeat("é", 200), strings.Repeat("é", 127)},
		"characters of a string": {"last_error VARCHAR(200) CHARACTER SET utf8mb4", strings.Repeat("é", 300), strings.Repeat("é", 200)},
	} {
		t.Run(name, func(t *testing.T) {
			plain, rawURL := newMySQL(t)
			defer plain.Close()
			execMySQL(t, plain, "CREATE TABLE BACKLOG (id INT PRIMARY KEY, status VARCHAR(20) NOT NULL, date_inserted DATETIME NOT NULL, "+x.column+")")
			wantNote(t, plain, rawURL, x.error, x.want)
		})
	}
	t.Run("a database in LATIN1", func(t *testing.T) {
		admin, rawURL := openPostgres(t)
		name := "backlog_test_" + strings.ToLower(rand.Text()[:12])
		u, err := url.Parse(rawURL)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{"CREATE DATABASE " + name + " ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"} {
			if _, err := admin.Exec(s); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() {
			admin, _ := sql.Open("pgx", postgresURL(t))
			defer admin.Close()
			if _, err := admin.Exec("DROP DATABASE " + name); err != nil {
				t.Error(err)
			}
		})
		u.Path, u.RawQuery = "/"+name, ""
		plain := testkit.OpenPool(t, "pgx", u.String())
		defer plain.Close()
		if _, err := plain.Exec(`CREATE TABLE "BACKLOG" (id int PRIMARY KEY, status text NOT NULL, date_inserted timestamptz NOT NULL, last_error text)`); err != nil {
			t.Fatal(err)
		}
		wantNote(t, plain, u.String(), words, "caf? ? ? ")
	})
}

// Several errors of one group are cast to the type of their column, which must not shorten them.
func TestNotesOfFixedLength(t *testing.T) {
	plain, rawURL := openPostgres(t)
	for _, text := range []string{
		`CREATE TABLE "BACKLOG" (id int PRIMARY KEY, status text NOT NULL, date_inserted timestamptz NOT NULL, last_error char(12))`,
		`INSERT INTO "BACKLOG" VALUES (1, 'NEW', '2026-01-01'), (2, 'NEW', '2026-01-01')`,
	} {
		if _, err := plain.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	s := openWithNotes(t, rawURL)
	var group []backlog.Settlement
	now := time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC)
	page, err := s.Pending(ctx, backlog.Query{Lane: backlog.Fresh, Now: now, Limit: 2})
	if err != nil || len(page.Records) != 2 {
		t.Fatalf("%d records, %v", len(page.Records), err)
	}
	for i := range page.Records {
		r := &page.Records[i]
		group = append(group, backlog.Settlement{Record: r, Target: backlog.RowError, At: now, Error: "no answer " + r.Key.String()})
	}
	if unsettled, err := s.Settle(ctx, group); err != nil || len(unsettled) > 0 {
		t.Fatal(unsettled, err)
	}
	for id, want := range map[int]string{1: "no answer 1 ", 2: "no answer 2 "} {
		var got string
		if err := plain.QueryRow(`SELECT last_error FROM "BACKLOG" WHERE id = $1`, id).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("the error of row %d is %q, want %q", id, got, want)
		}
	}
}

// openWithNotes opens the table, which keeps the last error of a record.
func openWithNotes(t *testing.T, rawURL string) *table.Table {
	t.Helper()
	m := plainMapping()
	m.LastError = "last_error"
	return tableServer{url: rawURL}.open(t, m)
}

// wantNote has the only record of an empty table fail.
func wantNote(t *testing.T, plain *sql.DB, rawURL, text, want string) {
	t.Helper()
	ctx := context.Background()
	if _, err := plain.Exec(sqlNames(rawURL, `INSERT INTO "BACKLOG" (id, status, date_inserted) VALUES (1, 'NEW', '2026-01-01 00:00:00')`)); err != nil {
		t.Fatal(err)
	}
	s := openWithNotes(t, rawURL)
	e := &backlog.Engine{Store: s, Handler: backlog.HandlerFunc(func(context.Context, *backlog.Record) error { return errors.New(text) })}
	r, err := e.Pass(ctx, backlog.Pass{Tier: "all", MaxAge: 24 * time.Hour, Now: time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC)})
	if err != nil || r.Failed != 1 || r.Refused != 0 {
		t.Fatalf("the pass: %+v, %v", r, err)
	}
	var status, got string
	if err := plain.QueryRow(sqlNames(rawURL, `SELECT status, last_error FROM "BACKLOG"`)).Scan(&status, &got); err != nil {
		t.Fatal(err)
	}
	if status != "ERROR" || got != want {
		t.Errorf("status %s, error %q, want %q", status, got, want)
	}
}

// sqlNames has names quoted as the database of the URL does it.
func sqlNames(rawURL, text string) string {
	if strings.HasPrefix(rawURL, "mysql:") {
		return strings.ReplaceAll(text, `"`, "`")
	}
	return text
}
