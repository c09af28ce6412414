package table_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/internal/testkit"
)

// wantGarbledLeftAlone has a pass over the rows 1 to 3, of which 2 has text that is no UTF-8.
func wantGarbledLeftAlone(t *testing.T, d tableServer, m mapping.Mapping) {
	t.Helper()
	s := d.open(t, m)
	var named []string
	e := backlog.Engine{
		Store:   s,
		Handler: backlog.HandlerFunc(func(context.Context, *backlog.Record) error { return nil }),
		Observe: func(ev backlog.Event) {
			if ev.Kind == backlog.UnreadableRow {
				named = append(named, ev.Record.Key.String()+": "+ev.Err.Error())
			}
		},
	}
	const why = `column body: its text "gr\xfcn" is no UTF-8; mend it, or leave the column out of table.columns`
	r, err := e.Pass(t.Context(), backlog.Pass{MaxAge: ages, Now: noon})
	if err != nil {
		t.Errorf("a pass: %v", err)
	}
	testkit.Equal(t, "succeeded", r.Succeeded, 2)
	testkit.Equal(t, "unreadable", r.Unreadable, 1)
	testkit.Equal(t, "named rows", named, []string{"2: " + why})
	row, ok, err := s.Find(t.Context(), backlog.NewKey(int64(2)), noon)
	if err != nil || !ok || row.Never(noon) != "no pass takes it: "+why {
		t.Errorf("Find: %+v, %v", row, err)
	}
	text, err := json.Marshal(row.Record)
	if err != nil || strings.Contains(string(text), "\ufffd") || !strings.Contains(string(text), `"Z3L8bg=="`) {
		t.Errorf("handlers of its death are given %s, %v: want the text as base64", text, err)
	}
	m.Columns = []string{"id"}
	if r, err := (&backlog.Engine{Store: d.open(t, m), Handler: e.Handler}).Pass(t.Context(), backlog.Pass{MaxAge: ages, Now: noon}); err != nil || r.Succeeded != 1 {
		t.Errorf("a pass without the column: %+v, %v", r, err)
	}
}

// TestTextThatIsNoUTF8: a handler is given UTF-8 only, and such a row stops no other.
func TestTextThatIsNoUTF8(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		f := newFile(t, "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT, body TEXT)")
		f.exec(`INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-02-10', 'grün'), (2, 'NEW', '2026-02-10', CAST(x'6772fc6e' AS TEXT)), (3, 'NEW', '2026-02-10', x'6772fc6e')`)
		wantGarbledLeftAlone(t, tableServer{"SQLite", f.plain, "sqlite:" + f.path}, plainMapping())
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		for _, parameter := range []string{"", "&default_query_exec_mode=exec"} {
			s := newPostgresDatabaseWith(t, "ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'",
				`CREATE TABLE "BACKLOG" (id BIGINT PRIMARY KEY, status TEXT, date_inserted TIMESTAMPTZ, body TEXT)`,
				`INSERT INTO "BACKLOG" VALUES (1, 'NEW', '2026-02-10', E'gr\303\274n'), (2, 'NEW', '2026-02-10', E'gr\374n'), (3, 'NEW', '2026-02-10', NULL)`)
			wantGarbledLeftAlone(t, tableServer{"PostgreSQL", s.plain, s.url + parameter}, plainMapping())
		}
	})
}

// TestTextOfOtherCharacterSets: the server converts text to UTF-8, and what is declared to be bytes is
// base64.
func TestTextOfOtherCharacterSets(t *testing.T) {
	plain, url := newMySQL(t)
	d := tableServer{"MariaDB", plain, url}
	d.exec(t, "CREATE TABLE BACKLOG (id BIGINT PRIMARY KEY, status VARCHAR(20), date_inserted DATETIME, body TEXT CHARACTER SET latin1, raw TEXT CHARACTER SET binary)",
		"INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-02-10', x'6772fc6e', x'6772fc6e')")
	s := d.open(t, plainMapping())
	r := lane(t, s, backlog.Fresh)[0]
	text, err := json.Marshal(r)
	if want := `"grün","Z3L8bg=="`; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
}
