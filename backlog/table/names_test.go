package table_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
)

// TestOddNames works a table off, from its index to its counts, whose names
// are everything that a name can be; the mapping writes them in another case.
func TestOddNames(t *testing.T) {
	f := newFile(t, `CREATE TABLE "tab.Email ""Queue"" (old)/new's" (
			"order by" INTEGER, "the ""key""" TEXT, "select" TEXT, "a.b" TEXT, "Größe" INTEGER, "from" TEXT, "with space" INTEGER,
			"x' OR 1" TEXT, "c0" TEXT, "rowid" TEXT, "updated;--" TEXT, PRIMARY KEY ("order by", "the ""key"""));
		INSERT INTO "tab.Email ""Queue"" (old)/new's" VALUES
			(1, 'a', 'NEW', '2026-02-10 01:00:00', 7, NULL, 0, NULL, 'z', 'r', NULL),
			(1, 'b', 'NEW', '2026-02-10 02:00:00', 7, NULL, 0, NULL, 'y', 'r', NULL),
			(2, 'a', 'NEW', '2026-02-10 03:00:00', 7, NULL, 0, NULL, 'x', 'r', NULL),
			(2, 'b', 'ERROR', '2026-02-09 03:00:00', 7, NULL, 0, NULL, 'x', 'r', NULL),
			(3, 'a', 'NEW', '2026-01-01 03:00:00', 7, NULL, 0, NULL, 'x', 'r', NULL),
			(3, 'b', 'NEW', '2026-02-10 03:00:00', 8, NULL, 0, NULL, 'x', 'r', NULL)`)
	m := mapping.Mapping{
		Name: `TAB.email "queue" (OLD)/new's`, ID: []string{"ORDER BY", `the "KEY"`}, Status: "SELECT",
		Inserted: mapping.Time{Column: "A.B"}, Expires: &mapping.Time{Column: "FROM"},
		Where: []mapping.Condition{cond("Größe", text("7"))}, Attempts: "WITH space", LastError: "X' or 1",
		Touch:   []mapping.Assignment{set("UPDATED;--", text("now"))},
		Columns: []string{"C0", "ROWID"},
		New:     is(text("NEW")), Error: is(text("ERROR")), Success: is(text("SUCCESS")), Dead: is(text("DEAD")),
	}
	ctx := context.Background()
	url := "sqlite:" + f.path
	steps, err := missing(ctx, url, m, noon)
	if err != nil || len(steps) != 2 {
		t.Fatalf("Missing: got %q, %v, want an index for each lane", steps, err)
	}
	if err := create(ctx, url, steps); err != nil {
		t.Fatal(err)
	}
	s := f.store(m)
	wantGoodPlans(t, "odd names", s)
	records := lane(t, s, backlog.Fresh)
	wantKeys(t, "fresh lane", records, `[2,"a"] [1,"b"] [1,"a"] [3,"a"]`)
	if got, want := fields(records[0]), "c0=string(x) rowid=string(r)"; got != want {
		t.Errorf("columns: got %s, want %s", got, want)
	}
	for i, o := range []backlog.Outcome{backlog.Succeeded, backlog.Errored, backlog.Rejected} {
		if err := settle(t, s, records[i], o, "why"); err != nil {
			t.Errorf("settle %v: %v", records[i].Key, err)
		}
	}
	if n, err := expire(ctx, s, noon, noon.Add(-30*day)); n != 1 || err != nil {
		t.Errorf("Expire: got %d, %v, want 1", n, err)
	}
	if c, err := s.Count(ctx, noon, []time.Duration{day}); err != nil || c.Bands[0].Failed != 1 || c.Beyond.Failed != 1 {
		t.Errorf("Count: got %+v, %v", c, err)
	}
	f.wantRows(`SELECT * FROM "tab.Email ""Queue"" (old)/new's"`,
		`1 'a' 'DEAD' '2026-02-10 01:00:00' 7 NULL 1 'why' 'z' 'r' '2026-02-10 12:00:00'`,
		`1 'b' 'ERROR' '2026-02-10 02:00:00' 7 NULL 1 'why' 'y' 'r' '2026-02-10 12:00:00'`,
		`2 'a' 'SUCCESS' '2026-02-10 03:00:00' 7 NULL 1 NULL 'x' 'r' '2026-02-10 12:00:00'`,
		`2 'b' 'ERROR' '2026-02-09 03:00:00' 7 NULL 0 NULL 'x' 'r' NULL`,
		`3 'a' 'DEAD' '2026-01-01 03:00:00' 7 NULL 0 NULL 'x' 'r' '2026-02-10 12:00:00'`,
		`3 'b' 'NEW' '2026-02-10 03:00:00' 8 NULL 0 NULL 'x' 'r' NULL`)
}

// TestColumnsNamedLikeOurs: the columns of a page have names of our own, which
// must not be taken for the table's.
func TestColumnsNamedLikeOurs(t *testing.T) {
	f := newFile(t, `CREATE TABLE q (c1 TEXT, c2 TEXT, c3 INTEGER PRIMARY KEY, c0 TEXT);
		INSERT INTO q VALUES ('3', 'NEW', 1, '2026-02-10 01:00:00'), ('1', 'AGAIN', 2, '2026-02-10 02:00:00'),
			('4', 'AGAIN', 3, '2026-02-10 03:00:00'), ('2', 'NEW', 4, '2026-02-10 04:00:00')`)
	for _, fresh := range []mapping.State{is(text("NEW")), is(text("NEW"), text("AGAIN"))} {
		s := f.store(mapping.Mapping{
			Name: "q", ID: []string{"c3"}, Status: "c2", Inserted: mapping.Time{Column: "c0"},
			New: fresh, Error: is(text("ERROR")), Success: is(text("SUCCESS")),
		})
		want := map[int]string{1: "4 1", 2: "4 3 2 1"}[len(fresh.Values)]
		for _, size := range []int{1, 2, 7} {
			records, _ := readAll(t, s, backlog.Query{Limit: size})
			wantKeys(t, fmt.Sprintf("%d new statuses in pages of %d", len(fresh.Values), size), records, want)
		}
	}
}

// TestOddKeys settles every other record of tables with all kinds of keys, in
// one group and one by one, and looks that each outcome is in its own row.
func TestOddKeys(t *testing.T) {
	for _, x := range []struct{ name, table, key, rows string }{
		{"text", "(id TEXT PRIMARY KEY, status TEXT, at TEXT)", "id",
			`('it''s'), ('a "b"'), ('two
lines'), ('Größe'), ('😀'), (''), (' '), ('1'), ('01'), ('1.0'), ('NULL'), ('%_'), ('a' || char(0) || 'b'), ('a' || char(0) || 'c'), ('A'), ('a')`},
		{"text that ignores case", "(id TEXT COLLATE NOCASE PRIMARY KEY, status TEXT, at TEXT)", "id",
			"('a'), ('B'), ('c'), ('D'), ('e')"},
		{"text in a table without rowids", "(id TEXT PRIMARY KEY, status TEXT, at TEXT) WITHOUT ROWID", "id",
			"('b'), ('a'), (''), ('ä')"},
		{"blob", "(id BLOB PRIMARY KEY, status TEXT, at TEXT)", "id",
			"(x''), (x'00'), (x'0000'), (x'000001'), (x'ff00fe'), (x'61'), (x'2700')"},
		{"no type", "(id PRIMARY KEY, status TEXT, at TEXT)", "id",
			"(1), ('1'), (x'31'), (1.5), ('1.5'), ('a'), (x'61')"},
		{"integer", "(id INTEGER PRIMARY KEY, status TEXT, at TEXT)", "id",
			"(0), (-1), (1), (9223372036854775807), (9223372036854775806), (-9223372036854775808), (9007199254740993)"},
		{"real", "(id REAL PRIMARY KEY, status TEXT, at TEXT)", "id",
			"(0.1), (0.30000000000000004), (0.3), (1e300), (-1e-300), (2)"},
		{"decimal", "(id DECIMAL(20, 2) UNIQUE, status TEXT, at TEXT)", "id",
			"(1), (1.5), ('x'), (12345678901234567)"},
		{"unique, but not the primary key", "(pk INTEGER PRIMARY KEY, id VARCHAR(10) UNIQUE, status TEXT, at TEXT)", "id",
			"('a'), (NULL), ('b'), (NULL), ('c')"},
		{"composite", "(id TEXT, part INTEGER, ratio REAL, data BLOB, status TEXT, at TEXT, PRIMARY KEY (data, id, ratio, part))", "id, part, ratio, data",
			"('a', 1, 0.5, x'00'), ('a', 1, 0.5, x'0000'), ('a', 2, 0.5, x'00'), ('it''s', 1, 0.5, x'00'), ('', 0, 0, x''), ('b', -1, 1e300, x'ff00')"},
		{"composite in a strict table without rowids", "(id TEXT, part INT, status TEXT, at TEXT, PRIMARY KEY (part, id)) STRICT, WITHOUT ROWID", "id, part",
			"('a', 2), ('b', 1), ('a', 1), ('', 9007199254740993), ('', 9007199254740992)"},
		{"composite with a part that is NULL", "(id TEXT, part INT, status TEXT, at TEXT, PRIMARY KEY (id, part))", "id, part",
			"('a', NULL), ('a', 1), ('b', NULL), ('b', 2), (NULL, 2)"},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := newFile(t, "CREATE TABLE q "+x.table+"; INSERT INTO q ("+x.key+") VALUES "+x.rows+"; UPDATE q SET status = 'NEW', at = '2026-02-10 01:00:00'")
			m := mapping.Mapping{
				Name: "q", ID: strings.Split(x.key, ", "), Status: "status", Inserted: mapping.Time{Column: "at"},
				New: is(text("NEW")), Error: is(text("ERROR")), Success: is(text("SUCCESS")),
			}
			inOrder := "SELECT %s FROM q WHERE " + strings.Join(m.ID, " IS NOT NULL AND ") + " IS NOT NULL ORDER BY " + strings.Join(m.ID, " DESC, ") + " DESC"
			want := f.rows(fmt.Sprintf(inOrder, x.key))

			s := f.store(m)
			records, _ := readAll(t, s, backlog.Query{Limit: 1})
			if len(records) != len(want) {
				t.Fatalf("%d records in pages of one, want %d: %s", len(records), len(want), keys(records))
			}
			var group []backlog.Settlement
			for i := range records {
				switch i % 4 {
				case 1:
					if err := settle(t, s, records[i], backlog.Errored, ""); err != nil {
						t.Errorf("settle %v: %v", records[i].Key, err)
					}
					want[i] += " 'ERROR'"
				case 3:
					want[i] += " 'NEW'"
				default:
					group = append(group, backlog.Settlement{Record: &records[i], Target: backlog.RowSuccess, At: noon})
					want[i] += " 'SUCCESS'"
				}
			}
			left, err := s.Settle(context.Background(), group)
			if err != nil || len(left) > 0 {
				t.Errorf("Settle of %d: %v, %v", len(group), left, err)
			}
			f.wantRows(fmt.Sprintf(inOrder, x.key+", status"), want...)
		})
	}
}
