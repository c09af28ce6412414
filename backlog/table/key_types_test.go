package table_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/table"
	"backlog/backlog/table/postgres"
	"backlog/internal/testkit"
)

// wantKeyRefused checks what is said of the key, before anything is read.
func (d tableServer) wantKeyRefused(t *testing.T, id []string, want string) {
	t.Helper()
	m := plainMapping()
	m.ID = id
	if _, err := d.prove(t, m); err == nil || err.Error() != want {
		t.Errorf("%s: key %v: got %v, want %s", d.name, id, err, want)
	}
}

// TestKeysOfSeveralValues: an array or a composite value is refused as a key.
func TestKeysOfSeveralValues(t *testing.T) {
	s := newPostgresSchema(t, "CREATE TYPE pair AS (x int, y int)", "CREATE DOMAIN few AS int[]",
		`CREATE TABLE "BACKLOG" (list int[] UNIQUE, words text[] UNIQUE, few few UNIQUE, pair pair UNIQUE, span int4range UNIQUE, status text, date_inserted timestamptz)`)
	d := tableServer{"PostgreSQL", s.plain, s.url}
	const rest = ", of which a value is several: it is no key; name other columns of a unique key"
	d.wantKeyRefused(t, []string{"list"}, `table.id: "list" is of the type integer[]`+rest)
	d.wantKeyRefused(t, []string{"words"}, `table.id: "words" is of the type text[]`+rest)
	d.wantKeyRefused(t, []string{"few"}, `table.id: "few" is of the type integer[]`+rest)
	d.wantKeyRefused(t, []string{"pair"}, `table.id: "pair" is of the type pair`+rest)
	m := plainMapping()
	m.ID = []string{"span"}
	s.exec(`INSERT INTO "BACKLOG" (span, status, date_inserted) VALUES ('[1,3)', 'NEW', '2026-02-10')`)
	wantKeys(t, "a range", lane(t, d.open(t, m), backlog.Fresh), "[1,3)")
}

// TestGroupsByKeysOfAnyType: a group is written by an array of its keys, whatever their type, and
// whatever their text has in it. A row that another program has changed is the only one left out.
func TestGroupsByKeysOfAnyType(t *testing.T) {
	for decl, keys := range map[string][]string{
		"bigint":                   {"-9223372036854775808", "0", "9223372036854775807"},
		"numeric(20,3)":            {"1.250", "12345678901234567.891", "-3"},
		"double precision":         {"0.1", "1e300", "-2"},
		"text":                     {`a"b`, `c\d`, "e,f", "{g}", "NULL", "", " h ", "ü’", "i\nj"},
		"varchar(9)":               {"a", "A", "ä"},
		"char(5)":                  {"a", "bb", "ccccc"},
		"uuid":                     {"00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-00000000000a"},
		"bytea":                    {`\x00ff`, `\x5c22`, `\x`},
		"timestamp with time zone": {"2026-01-01 10:00:00.123456+00", "2026-01-01 10:00:00+00"},
		"date":                     {"2026-01-01", "infinity"},
	} {
		t.Run(decl, func(t *testing.T) {
			s := newPostgresSchema(t, `CREATE TABLE "BACKLOG" (id `+decl+` PRIMARY KEY, status text DEFAULT 'NEW', date_inserted timestamptz DEFAULT '2026-02-10 11:00:00Z')`)
			for _, k := range keys {
				if _, err := s.plain.Exec(`INSERT INTO "BACKLOG" (id) VALUES ($1::text::`+decl+`)`, k); err != nil {
					t.Fatal(err)
				}
			}
			d := tableServer{"PostgreSQL", s.plain, s.url}
			store := d.open(t, plainMapping())
			records := lane(t, store, backlog.Fresh)
			if len(records) != len(keys) {
				t.Fatalf("%d records of %d", len(records), len(keys))
			}
			last := len(records) - 1
			if left, err := store.Settle(t.Context(), successes(records[:last])); len(left) > 0 || err != nil {
				t.Fatal(left, err)
			}
			if _, err := s.plain.Exec(`UPDATE "BACKLOG" SET status = 'HELD' WHERE status <> 'SUCCESS'`); err != nil {
				t.Fatal(err)
			}
			if _, err := s.plain.Exec(`UPDATE "BACKLOG" SET status = 'NEW' WHERE status = 'SUCCESS'`); err != nil {
				t.Fatal(err)
			}
			left, err := store.Settle(t.Context(), successes(records))
			if err != nil || len(left) != 1 || left[0].Index != last || !errors.Is(left[0].Err, backlog.ErrConflict) {
				t.Fatal(left, err)
			}
			var written int
			if err := s.plain.QueryRow(`SELECT count(*) FROM "BACKLOG" WHERE status = 'SUCCESS'`).Scan(&written); err != nil || written != last {
				t.Errorf("%d rows are written, want %d, %v", written, last, err)
			}
		})
	}
}

// TestGroupsAreReadCommitted: a group is written in READ COMMITTED, whatever the sessions of a
// pool have.
func TestGroupsAreReadCommitted(t *testing.T) {
	for _, name := range []string{"a pool of its own", "a pool of the calling program"} {
		t.Run(name, func(t *testing.T) {
			s := newPostgresSchema(t,
				"CREATE TABLE levels (level text)",
				`CREATE FUNCTION note_level() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
					INSERT INTO levels VALUES (current_setting('transaction_isolation'));
					RETURN true;
				END $$`,
				`CREATE TABLE "BACKLOG" (id int PRIMARY KEY, status text, date_inserted timestamptz, CHECK (status = 'NEW' OR note_level()))`,
				`INSERT INTO "BACKLOG" VALUES (1, 'NEW', '2026-02-10'), (2, 'NEW', '2026-02-10')`)
			address := s.with(func(u *url.URL) {
				q := u.Query()
				q.Set("default_transaction_isolation", "serializable")
				q.Set("timezone", "UTC")
				q.Set("row_security", "off")
				u.RawQuery = q.Encode()
			})
			var store *table.Table
			if name == "a pool of its own" {
				store = tableServer{"PostgreSQL", s.plain, address}.open(t, plainMapping())
			} else {
				var err error
				store, err = table.OpenDB(t.Context(), testkit.OpenPool(t, "pgx", address), postgres.Dialect, plainMapping(), noon)
				if err != nil {
					t.Fatal(err)
				}
			}
			left, err := store.Settle(t.Context(), successes(lane(t, store, backlog.Fresh)))
			if len(left) > 0 || err != nil {
				t.Fatal(left, err)
			}
			var levels string
			if err := s.plain.QueryRow("SELECT string_agg(DISTINCT level, ' ') FROM levels").Scan(&levels); err != nil || levels != "read committed" {
				t.Errorf("rows were written in %q, %v", levels, err)
			}
		})
	}
}

// TestPartitionedByStatus: a key that outcomes change is not asked for, and what is said instead
// can be done.
func TestPartitionedByStatus(t *testing.T) {
	const want = "table.id: id does not identify a row of BACKLOG: each key has the column status in it, which outcomes change; " +
		"give it a unique key without that column; if the table is partitioned by it, partition it by another one, such as the date of insertion, and add that to table.id"
	check := func(t *testing.T, d tableServer, by string) {
		d.wantKeyRefused(t, []string{"id"}, want)
		d.exec(t, strings.Split(by, "; ")...)
		m := plainMapping()
		m.ID = []string{"id", "date_inserted"}
		s := d.open(t, m)
		r := lane(t, s, backlog.Fresh)[0]
		left, err := s.Settle(t.Context(), []backlog.Settlement{{Record: &r, Target: backlog.RowSuccess, At: noon.Add(time.Second)}})
		if len(left) > 0 || err != nil || len(lane(t, s, backlog.Fresh)) != 0 {
			t.Errorf("%s: %v, %v", d.name, left, err)
		}
	}
	t.Run("PostgreSQL", func(t *testing.T) {
		s := newPostgresSchema(t, `CREATE TABLE "BACKLOG" (id bigint, status text, date_inserted timestamptz, PRIMARY KEY (id, status)) PARTITION BY LIST (status)`,
			`CREATE TABLE fresh PARTITION OF "BACKLOG" FOR VALUES IN ('NEW')`, `CREATE TABLE rest PARTITION OF "BACKLOG" DEFAULT`)
		check(t, tableServer{"PostgreSQL", s.plain, s.url}, `DROP TABLE "BACKLOG"; CREATE TABLE "BACKLOG" (id bigint, status text, date_inserted timestamptz, PRIMARY KEY (id, date_inserted)) PARTITION BY RANGE (date_inserted); `+
			`CREATE TABLE all_of_it PARTITION OF "BACKLOG" DEFAULT; INSERT INTO "BACKLOG" VALUES (1, 'NEW', '2026-02-10')`)
	})
	t.Run("MariaDB", func(t *testing.T) {
		plain, url := newMySQL(t)
		d := tableServer{"MariaDB", plain, url}
		d.exec(t, "CREATE TABLE BACKLOG (id BIGINT, status VARCHAR(20), date_inserted DATETIME, PRIMARY KEY (id, status)) PARTITION BY LIST COLUMNS (status) (PARTITION a VALUES IN ('NEW'), PARTITION b VALUES IN ('ERROR', 'SUCCESS'))")
		check(t, d, "DROP TABLE BACKLOG; CREATE TABLE BACKLOG (id BIGINT, status VARCHAR(20), date_inserted DATETIME, PRIMARY KEY (id, date_inserted)) PARTITION BY RANGE COLUMNS (date_inserted) (PARTITION a VALUES LESS THAN (MAXVALUE)); "+
			"INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-02-10')")
	})
	t.Run("not partitioned", func(t *testing.T) {
		f := newFile(t, "CREATE TABLE BACKLOG (id INTEGER, status TEXT, date_inserted TEXT, PRIMARY KEY (id, status))")
		f.wantRefused(plainMapping(), `table.id: id does not identify a row of BACKLOG: no primary key or unique index covers it; `+
			`name the columns of the primary key or of a unique index, or create one: CREATE UNIQUE INDEX "BACKLOG_key" ON "BACKLOG" ("id")`)
	})
}
