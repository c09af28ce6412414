package table_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/backlog/table/work"
	"backlog/internal/testkit"
)

// A postgresSchema is a schema of a test's own.
type postgresSchema struct {
	testing.TB
	plain *sql.DB
	url   string
}

func newPostgresSchema(t testing.TB, create ...string) *postgresSchema {
	plain, url := openPostgres(t)
	s := &postgresSchema{t, plain, url}
	t.Cleanup(func() { plain.Close() })
	s.exec(create...)
	return s
}

func (s *postgresSchema) exec(list ...string) {
	s.Helper()
	for _, text := range list {
		if _, err := s.plain.Exec(text); err != nil {
			s.Fatalf("%s: %v", text, err)
		}
	}
}

// name returns the name of the table as SQL that anybody may run has it.
func (s *postgresSchema) name(table string) (name string) {
	s.Helper()
	if err := s.plain.QueryRow(`SELECT format('"%s"."%s"', current_schema(), $1::text)`, table).Scan(&name); err != nil {
		s.Fatal(err)
	}
	return name
}

// open opens the table, and proves it if there is nothing wrong so far.
func (s *postgresSchema) open(url string, m mapping.Mapping) (*table.Table, error) {
	s.Helper()
	ctx := context.Background()
	db, err := openDB(ctx, url, table.Options{})
	if err != nil {
		return nil, err
	}
	s.Cleanup(func() { db.Close() })
	t, err := table.New(ctx, db, m)
	if err == nil {
		err = t.Prove(ctx, noon)
	}
	return t, err
}

// with returns the URL with a change.
func (s *postgresSchema) with(change func(*url.URL)) string {
	u, err := url.Parse(s.url)
	if err != nil {
		s.Fatal(err)
	}
	change(u)
	return u.String()
}

// as returns the URL for another user, NAME:PASSWORD.
func (s *postgresSchema) as(user string) string {
	name, password, _ := strings.Cut(user, ":")
	return s.with(func(u *url.URL) { u.User = url.UserPassword(name, password) })
}

func jobs() mapping.Mapping {
	m := plainMapping()
	m.Name, m.Inserted = "jobs", mapping.Time{Column: "created"}
	return m
}

// TestPostgresTables are refused, or worked with a note, for what the catalogue
// and a few rows tell.
func TestPostgresTables(t *testing.T) {
	const columns = "created timestamptz DEFAULT '2026-02-10 11:00Z'"
	for _, x := range []struct {
		name   string
		create string
		change func(*mapping.Mapping)
		want   string // of the error; "" if there is none
		note   string
	}{
		{name: "a plain one", create: `CREATE TABLE jobs (id bigint PRIMARY KEY, status text, ` + columns + `)`},
		{
			name:   "a view",
			create: `CREATE TABLE j (id int, status text, ` + columns + `); CREATE VIEW jobs AS SELECT * FROM j`,
			want:   "jobs is a view",
		},
		{
			name:   "no key",
			create: `CREATE TABLE jobs (id int, status text, ` + columns + `); CREATE UNIQUE INDEX ON jobs (id) WHERE id > 0; CREATE UNIQUE INDEX ON jobs ((id + 1))`,
			want:   "table.id: id does not identify a row",
		},
		{
			name:   "an index with more",
			create: `CREATE TABLE jobs (id int NOT NULL, status text, ` + columns + `); CREATE UNIQUE INDEX ON jobs (id) INCLUDE (status)`,
		},
		{
			name: "partitions",
			create: `CREATE TABLE jobs (id int, status text, ` + columns + `, PRIMARY KEY (id, created)) PARTITION BY RANGE (created);
			CREATE TABLE jobs_1 PARTITION OF jobs FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')`,
			want: "table.id: id does not identify a row of jobs",
		},
		{
			name: "partitions by the key",
			create: `CREATE TABLE jobs (id int PRIMARY KEY, status text, ` + columns + `) PARTITION BY HASH (id);
			CREATE TABLE jobs_1 PARTITION OF jobs FOR VALUES WITH (MODULUS 1, REMAINDER 0)`,
		},
		{
			name:   "inheritance",
			create: `CREATE TABLE jobs (id int PRIMARY KEY, status text, ` + columns + `); CREATE TABLE jobs_1 () INHERITS (jobs)`,
			want:   "other tables inherit from it",
		},
		{
			name:   "an enum",
			create: `CREATE TYPE state AS ENUM ('NEW', 'ERROR', 'SUCCESS'); CREATE TABLE jobs (id int PRIMARY KEY, status state, ` + columns + `)`,
		},
		{
			name:   "an enum without it",
			create: `CREATE TYPE state AS ENUM ('NEW', 'SUCCESS'); CREATE TABLE jobs (id int PRIMARY KEY, status state, ` + columns + `)`,
			want:   `"ERROR" is none of the labels of column status: NEW, SUCCESS`,
		},
		{
			name:   "an enum under a domain",
			create: `CREATE TYPE state AS ENUM ('NEW', 'SUCCESS'); CREATE DOMAIN d AS state; CREATE TABLE jobs (id int PRIMARY KEY, status d, ` + columns + `)`,
			want:   `"ERROR" is none of the labels`,
		},
		{
			name:   "a short column",
			create: `CREATE TABLE jobs (id int PRIMARY KEY, status varchar(5), ` + columns + `)`,
			want:   `"SUCCESS" is longer than column status allows (character varying(5))`,
		},
		{
			name:   "a short domain",
			create: `CREATE DOMAIN d AS varchar(5); CREATE TABLE jobs (id int PRIMARY KEY, status d, ` + columns + `)`,
			want:   `"SUCCESS" is longer`,
		},
		{name: "numbers", create: `CREATE TABLE jobs (id int PRIMARY KEY, status int, ` + columns + `)`, want: "NEW is not a whole number"},
		{
			name:   "a small number",
			create: `CREATE TABLE jobs (id int PRIMARY KEY, status smallint, ` + columns + `)`,
			change: func(m *mapping.Mapping) {
				m.New.Values, m.Error.Values, m.Success.Values = []mapping.Value{text("0")}, []mapping.Value{text("1")}, []mapping.Value{text("40000")}
			},
			want: "statuses.success: 40000 is out of the range of column status, which is smallint",
		},
		{name: "a decimal", create: `CREATE TABLE jobs (id int PRIMARY KEY, status numeric(3), ` + columns + `)`, want: "NEW is not a number"},
		{
			name:   "a check",
			create: `CREATE TABLE jobs (id int PRIMARY KEY, status text CONSTRAINT legal CHECK (status IN ('NEW', 'ERROR')), ` + columns + `); INSERT INTO jobs VALUES (1, 'NEW')`,
			want:   `statuses.success: table jobs does not take "status" = 'SUCCESS': new row for relation "jobs" violates check constraint "legal"`,
		},
		{
			name:   "a check, with rows",
			create: `CREATE TABLE jobs (id int PRIMARY KEY, status text CHECK (status IN ('NEW', 'ERROR') OR status IS NULL), ` + columns + `); INSERT INTO jobs VALUES (1, 'NEW')`,
			want:   `statuses.success: table jobs does not take "status" = 'SUCCESS'`,
		},
		{
			name:   "a check on others",
			create: `CREATE TABLE jobs (id int PRIMARY KEY, status text, done timestamptz, ` + columns + `, CHECK (status <> 'SUCCESS' OR done IS NOT NULL)); INSERT INTO jobs VALUES (1, 'NEW')`,
			want:   `statuses.success: table jobs takes "status" = 'SUCCESS' only by what the row has in done, which the handler may write`,
		},
		{
			name:   "a check on others, met",
			create: `CREATE TABLE jobs (id int PRIMARY KEY, status text, done timestamptz, ` + columns + `, CHECK (status <> 'SUCCESS' OR done IS NOT NULL)); INSERT INTO jobs VALUES (1, 'NEW')`,
			change: func(m *mapping.Mapping) {
				m.Success = mapping.State{Set: []mapping.Assignment{{Column: "status", Value: text("SUCCESS")}, {Column: "done", Value: text("now")}}}
			},
		},
		{
			name:   "a domain's check",
			create: `CREATE DOMAIN d AS text CHECK (VALUE <> 'SUCCESS'); CREATE TABLE jobs (id int PRIMARY KEY, status d, ` + columns + `)`,
			want:   `statuses.success: table jobs does not take "status" = 'SUCCESS': value for domain d violates check constraint`,
		},
		{
			name:   "a list of statuses",
			create: `CREATE TABLE s (name text PRIMARY KEY); INSERT INTO s VALUES ('NEW'), ('ERROR'); CREATE TABLE jobs (id int PRIMARY KEY, status text CONSTRAINT known REFERENCES s, ` + columns + `); INSERT INTO jobs VALUES (1, 'NEW')`,
			want:   `statuses.success: table jobs does not take "status" = 'SUCCESS': insert or update on table "jobs" violates foreign key constraint "known"`,
		},
		{
			name: "a trigger",
			create: `CREATE TABLE jobs (id int PRIMARY KEY, status text, ` + columns + `); CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END';
			CREATE TRIGGER grumble BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION f(); CREATE TRIGGER silent BEFORE INSERT ON jobs EXECUTE FUNCTION f()`,
			note: "triggers run when a row is updated: grumble",
		},
		{
			name:   "a computed column",
			create: `CREATE TABLE jobs (id int PRIMARY KEY, status text GENERATED ALWAYS AS ('NEW') STORED, ` + columns + `)`,
			want:   "column status is computed by the database",
		},
		{
			name:   "none",
			create: `CREATE TABLE "Jobs" (id int); CREATE TABLE other (id int)`,
			want:   "table jobs does not exist in schema Backlog-test-",
		},
		{
			name:   "a time of day",
			create: `CREATE TABLE jobs (id int PRIMARY KEY, status text, created time DEFAULT '12:00'); INSERT INTO jobs VALUES (1, 'NEW')`,
			want:   "column created",
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := newPostgresSchema(t, x.create)
			m := jobs()
			if x.change != nil {
				x.change(&m)
			}
			got, err := s.open(s.url, m)
			if err == nil {
				err = tried(got)
			}
			wantProblem(t, err, x.want)
			if x.want == "" || x.note != "" {
				wantNotes(t, "the table", got.Notes(), x.note)
			}
		})
	}
}

// TestPostgresTables18 are of kinds that PostgreSQL 18 has introduced; an older
// server has nothing that could be tried.
func TestPostgresTables18(t *testing.T) {
	s := newPostgresSchema(t)
	var version int
	if err := s.plain.QueryRow("SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		t.Fatal(err)
	}
	if version < 180000 {
		return
	}
	const end = "created timestamptz DEFAULT '2026-02-10 11:00Z')"
	for name, x := range map[string]struct{ create, want string }{
		"a check that is not enforced": {"CREATE TABLE jobs (id int PRIMARY KEY, status text CHECK (status = 'NEW') NOT ENFORCED, " + end, ""},
		"a reference that is not":      {"CREATE TABLE s (name text PRIMARY KEY); CREATE TABLE jobs (id int PRIMARY KEY, status text REFERENCES s NOT ENFORCED, " + end, ""},
		"a virtual column":             {"CREATE TABLE jobs (id int PRIMARY KEY, status text GENERATED ALWAYS AS ('NEW') VIRTUAL, " + end, "column status is computed by the database"},
		"a key without overlaps": {"CREATE TABLE jobs (id int4range, status text, valid tstzrange, " + strings.TrimSuffix(end, ")") + ", PRIMARY KEY (id, valid WITHOUT OVERLAPS))",
			"table.id: id does not identify a row of jobs"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newPostgresSchema(t, x.create)
			_, err := s.open(s.url, jobs())
			wantProblem(t, err, x.want)
		})
	}
}

// wantProblem checks that the error is a *Problem with the text in it, or none.
func wantProblem(t testing.TB, err error, want string) {
	t.Helper()
	p := (*table.Problem)(nil)
	switch {
	case want == "" && err != nil:
		t.Fatalf("error: %v", err)
	case want != "" && (!errors.As(err, &p) || !strings.Contains(err.Error(), want)):
		t.Fatalf("got %v\nwant %s", err, want)
	}
}

// TestPostgresKeys of many types come back as they are, from a page to a
// settlement and from people's hands.
func TestPostgresKeys(t *testing.T) {
	for _, x := range []struct{ decl, keys string }{
		{"smallint", "-5 0 7"},
		{"bigint", "-9007199254740993 1 9007199254740993"},
		{"numeric", "-1.50 7 12345678901234567890123 99999.000000000000000001"},
		{"numeric(20)", "1 2 18446744073709551615"},
		{"text", "B Z a é"},
		{"varchar(20)", "? ?? q\"q 'q'"},
		{"uuid", "00000000-0000-0000-0000-000000000001 a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
		{"bytea", "\\x00ff \\x0a"},
		{"inet", "10.0.0.1 10.0.0.0/8 ::1"},
		{"date", "2026-01-01 0044-03-15"},
		{"timestamptz", "2026-01-01T12:00:00.5Z 2026-01-01T12:00:00Z"},
		{"double precision", "-1.5 0.1 1e300"},
		{"boolean", "false true"},
		{"mood", "sad ok"},
		{"d", "1 2"},
		{"char(4)", "a bb"},
		{"bit(3)", "101 010"},
		{"interval", "1day 2hours"},
	} {
		t.Run(x.decl, func(t *testing.T) {
			s := newPostgresSchema(t, "CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN d AS int CHECK (VALUE > 0)",
				"CREATE TABLE jobs (id "+x.decl+" PRIMARY KEY, status text DEFAULT 'NEW', created timestamptz DEFAULT '2026-02-10 11:00Z')")
			keys := strings.Fields(x.keys)
			for _, k := range keys {
				if _, err := s.plain.Exec("INSERT INTO jobs (id) VALUES ($1::text::"+x.decl+")", k); err != nil {
					t.Fatal(err)
				}
			}
			got, err := s.open(s.url, jobs())
			if err != nil {
				t.Fatal(err)
			}
			records, unreadable := readAll(t, got, backlog.Query{Lane: backlog.Fresh, Limit: 1, Now: noon, Since: noon.Add(-ages)})
			if len(records) != len(keys) || len(unreadable) > 0 {
				t.Fatalf("got %v and %v, want the keys %v", records, unreadable, keys)
			}
			var group []backlog.Settlement
			for i, r := range records {
				group = append(group, backlog.Settlement{Record: &records[i], Target: backlog.RowSuccess, At: noon})
				if k, err := got.ParseKey(strings.Trim(fmt.Sprint(r.Key), `"`)); err != nil {
					t.Error(err)
				} else if row, ok, err := got.Find(context.Background(), k, noon); err != nil || !ok || row.Record.Key.String() != r.Key.String() {
					t.Errorf("%v was not found: %v, %v, %v", r.Key, row.Record.Key, ok, err)
				}
			}
			if left, err := got.Settle(context.Background(), group); err != nil || len(left) > 0 {
				t.Errorf("settled but for %v, %v", left, err)
			}
		})
	}
}

// TestPostgresKeysThatAreNone: what no row can have as its key is told from what
// no row has.
func TestPostgresKeysThatAreNone(t *testing.T) {
	for _, x := range []struct{ decl, key, want string }{
		{"uuid", "nonsense", `"nonsense" is not a key of table jobs: column id is uuid`},
		{"uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", ""},
		{"date", "2026-02-30", `"2026-02-30" is not a key of table jobs: column id is date`},
		{"numeric(5, 2)", "x", `x is not a number, and column id is numeric(5,2)`},
		{"numeric(5, 2)", "123456", ""},
		{"text", "a\x00b", `"a\x00b" is not a key of table jobs: column id is text`},
		{"bigint", "9223372036854775808", `9223372036854775808 is not a whole number, and column id is bigint`},
		{"int", "-2147483649", `-2147483649 is out of the range of column id, which is integer`},
		{"int", "-2147483648", ""},
		{"smallint", "32768", `32768 is out of the range of column id, which is smallint`},
		{"uuid", `["nonsense", 1]`, `"[\"nonsense\",1]" is not a key of table jobs: column id is uuid, column part is integer`},
		{"uuid", `["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", 2147483648]`, `2147483648 is out of the range of column part, which is integer`},
		{"uuid", `["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]`, `"[\"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\"]" is not a key of 2 columns: write a JSON array, such as '["a", 7]'`},
		{"uuid", `["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", 1]`, ""},
	} {
		s := newPostgresSchema(t, "CREATE TABLE jobs (id "+x.decl+" UNIQUE, part int, status text, created timestamptz, UNIQUE (id, part))")
		m := jobs()
		if strings.HasPrefix(x.key, "[") {
			m.ID = append(m.ID, "part")
		}
		got, err := s.open(s.url, m)
		if err != nil {
			t.Fatal(err)
		}
		k, err := got.ParseKey(x.key)
		if err == nil {
			var ok bool
			if _, ok, err = got.Find(context.Background(), k, noon); ok {
				t.Errorf("%s: %s is in an empty table", x.decl, x.key)
			}
			if e := (*table.KeyError)(nil); err != nil && !errors.As(err, &e) {
				t.Errorf("%s: %s: %v is not a KeyError", x.decl, x.key, err)
			}
		}
		wrong := ""
		if err != nil {
			wrong = err.Error()
		}
		testkit.Equal(t, x.decl+": "+x.key, wrong, x.want)
	}
}

// TestPostgresValues: a handler is given what the columns hold, without loss, and
// statements that are bound to it write the very same.
func TestPostgresValues(t *testing.T) {
	s := newPostgresSchema(t, `CREATE TABLE jobs (id int PRIMARY KEY, status text DEFAULT 'NEW', created timestamptz DEFAULT '2026-02-10 11:00Z', j json, jb jsonb, n numeric, small numeric, big numeric,
		b bytea, words text[], deep int[], decimals numeric[], truths boolean[], docs jsonb[], f real, e double precision, d date, at timestamp(3), inf timestamptz, ok boolean, span interval, net inet, nothing int)`,
		"CREATE TABLE copies (LIKE jobs)",
		`INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00Z', '{"a": [1, 2.50]}', '{"a": 1}', 1.10, 7, 12345678901234567890, '\x00ff', '{a,"b c",NULL}', '{{1,2},{3,4}}', '{1.10,NaN}', '{t,f}',
			ARRAY['{"a": 1}']::jsonb[], 0.1, 'NaN', '2026-01-02', '2026-01-02 03:04:05.6', 'infinity', true, '1 day', '10.0.0.1', NULL)`)
	got, err := s.open(s.url, jobs())
	if err != nil {
		t.Fatal(err)
	}
	records, _ := readAll(t, got, backlog.Query{Lane: backlog.Fresh, Limit: 1})
	values := make(map[string]any)
	for i, name := range records[0].Names {
		values[name] = records[0].Values[i]
	}
	has, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"at":"2026-01-02 03:04:05.6","b":"AP8=","big":"12345678901234567890","created":"2026-02-10 11:00:00+00","d":"2026-01-02","decimals":[1.10,"NaN"],"deep":[[1,2],[3,4]],` +
		`"docs":[{"a":1}],"e":"NaN","f":0.1,"id":1,"inf":"infinity","j":{"a":[1,2.50]},"jb":{"a":1},"n":"1.10","net":"10.0.0.1","nothing":null,"ok":true,"small":7,"span":"1 day","status":"NEW","truths":[true,false],"words":["a","b c",null]}`
	if string(has) != want {
		t.Errorf("got  %s\nwant %s", has, want)
	}
	names := strings.Join(records[0].Names, ", ")
	work, err := work.New(got, []string{"INSERT INTO copies (" + names + ") VALUES (:" + strings.ReplaceAll(names, ", ", ", :") + ")"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := work.Handle(context.Background(), &records[0]); err != nil {
		t.Fatal(err)
	}
	var same bool
	if err := s.plain.QueryRow("SELECT jobs::text = copies::text FROM jobs, copies").Scan(&same); err != nil || !same {
		t.Errorf("the copy differs, %v", err)
	}
}

// TestPostgresWorkOnArrays: an array is the one that the record has, whatever a statement
// before has made of the row.
func TestPostgresWorkOnArrays(t *testing.T) {
	s := newPostgresSchema(t, `CREATE TABLE jobs (id int PRIMARY KEY, status text DEFAULT 'NEW', created timestamptz DEFAULT '2026-02-10 11:00Z', tags text[])`,
		`CREATE TABLE done (id int, tags text[])`, `INSERT INTO jobs (id, tags) VALUES (1, '[0:1]={a,"b c"}'), (2, NULL)`)
	got, err := s.open(s.url, jobs())
	if err != nil {
		t.Fatal(err)
	}
	w := newWork(t, got, "INSERT INTO done VALUES (:id, :tags)", "UPDATE jobs SET tags = '{x}' WHERE id = :id", "INSERT INTO done VALUES (:id + 2, :tags || 'c'::text)", "DELETE FROM jobs WHERE id = :id", "INSERT INTO done VALUES (:id + 4, :tags)")
	records, _ := readAll(t, got, backlog.Query{Lane: backlog.Fresh, Limit: 10})
	for _, r := range records {
		if err := do(w, r); err != nil {
			t.Errorf("record %v: %v", r.Key, err)
		}
	}
	if err := do(w, records[0]); !errors.Is(err, backlog.ErrConflict) {
		t.Errorf("a row that is gone: got %v", err)
	}
	var list string
	if err := s.plain.QueryRow(`SELECT string_agg(coalesce(tags::text, 'NULL'), ' ' ORDER BY id) FROM done`).Scan(&list); err != nil || list != `[0:1]={a,"b c"} NULL [0:2]={a,"b c",c} {c} [0:1]={a,"b c"} NULL` {
		t.Errorf("got %s, %v", list, err)
	}
}

// TestPostgresWorkCasts: a parameter of another type than its place needs is refused before
// the first record, with what to do.
func TestPostgresWorkCasts(t *testing.T) {
	s := newPostgresSchema(t, `CREATE TABLE jobs (id text PRIMARY KEY, status text DEFAULT 'NEW', created timestamptz DEFAULT '2026-02-10 11:00Z')`, `CREATE TABLE done (id uuid)`)
	got, err := s.open(s.url, jobs())
	if err != nil {
		t.Fatal(err)
	}
	w := newWork(t, got, "DELETE FROM done WHERE id = :id")
	wantProblem(t, w.Check(t.Context()), "operator does not exist: uuid = text")
	wantProblem(t, w.Check(t.Context()), "cast it, such as CAST(:id AS …)")
	if err := newWork(t, got, "DELETE FROM done WHERE id = CAST(:id AS uuid)").Check(t.Context()); err != nil {
		t.Error(err)
	}
}
