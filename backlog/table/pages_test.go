package table_test

import (
	"context"
	"fmt"
	"testing"

	"backlog/backlog"
)

// TestPagesOfLargeRowsEndEarly: memory is bounded by what rows weigh, not by
// their number, also where a page is merged from several statuses, and every
// row comes.
func TestPagesOfLargeRowsEndEarly(t *testing.T) {
	const rows = 13
	for _, x := range []struct{ name, payload, status string }{
		{"BLOB", "zeroblob(1 << 20)", "'NEW'"},
		{"TEXT", "CAST(zeroblob(1 << 20) AS TEXT)", "'NEW'"},
		{"two statuses", "zeroblob(1 << 20)", "CASE WHEN i % 3 THEN 'NEW' ELSE 'AGAIN' END"},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := newFile(t, "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT, payload); CREATE INDEX i ON BACKLOG (status, date_inserted)")
			f.exec(fmt.Sprintf(`WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < %d)
				INSERT INTO BACKLOG SELECT i, %s, datetime('2026-02-10 11:00:00', (i / 4) || ' seconds'), %s FROM s`, rows, x.status, x.payload))
			m := plainMapping()
			m.New = is(text("NEW"), text("AGAIN"))
			if x.name != "two statuses" {
				m.New = is(text("NEW"))
			}
			s := f.store(m)
			q := backlog.Query{Now: noon, Since: noon.Add(-ages), Limit: 1000}
			want := int64(rows)
			for want > 0 {
				p, err := s.Pending(context.Background(), q)
				if err != nil {
					t.Fatal(err)
				}
				if len(p.Records) == 0 || len(p.Records) > 5 {
					t.Fatalf("a page of %d records of a megabyte", len(p.Records))
				}
				if !p.More && want > int64(len(p.Records)) {
					t.Fatalf("no more after row %v, want %d rows more", p.Next.Key, want-int64(len(p.Records)))
				}
				for _, r := range p.Records {
					if r.Key.Part(0) != want {
						t.Fatalf("got row %v, want row %d", r.Key, want)
					}
					want--
				}
				q.After = p.Next
			}
		})
	}
}

// TestPagesAreFilledUp: rows of one time that a page has cut through do not
// make the next one short.
func TestPagesAreFilledUp(t *testing.T) {
	for _, key := range []string{"id INTEGER PRIMARY KEY", "id TEXT PRIMARY KEY"} {
		f := newFile(t, "CREATE TABLE BACKLOG ("+key+`, status TEXT, date_inserted TEXT);
			WITH RECURSIVE s(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM s WHERE i < 99)
			INSERT INTO BACKLOG SELECT i, 'NEW', datetime('2026-02-10 11:00:00', (i / 7) || ' seconds') FROM s`)
		s := f.store(plainMapping())
		q := backlog.Query{Now: noon, Since: noon.Add(-ages), Limit: 10}
		for n := 90; n > 0; n -= 10 {
			p, err := s.Pending(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Records) != 10 || !p.More {
				t.Errorf("%s: %d records, more %v, want 10 of %d", key, len(p.Records), p.More, n)
			}
			if first := fmt.Sprint(n + 9); p.Records[0].Key.String() != first {
				t.Errorf("%s: the first is %v, want %s", key, p.Records[0].Key, first)
			}
			q.After = p.Next
		}
	}
}
