package table_test

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/backlog/table/work"
)

// A typedTable is a table jobs with a column a for each type, in whose place the
// expressions mean the same by the parameter :a.
type typedTable struct {
	t     *testing.T
	plain *sql.DB
	open  func(mapping.Mapping) (*table.Table, error)
	as    string // behind an expression: what is written down of it
	exprs []string
	more  int // how many of the expressions the type takes at least
}

// check runs each expression that the database takes of the column over :a, in every row,
// and compares. In the expressions @ is the column.
func (x *typedTable) check(decl string) {
	x.t.Helper()
	s, err := x.open(jobs())
	if err != nil {
		x.t.Fatal(err)
	}
	var good, statements []string
	for _, e := range x.exprs {
		byColumn := fmt.Sprintf("INSERT INTO done SELECT id, %d, %s FROM jobs", -len(good)-1, x.text(e, "jobs.a"))
		if _, err := x.plain.Exec(byColumn); err != nil {
			continue
		}
		good = append(good, e)
		statements = append(statements, fmt.Sprintf("INSERT INTO done VALUES (:id, %d, %s)", len(good), x.text(e, ":a")))
	}
	if len(good) < x.more {
		x.t.Errorf("%s: the database takes %q alone", decl, good)
	}
	w := newWork(x.t, s, statements...)
	if err := w.Check(context.Background()); err != nil {
		x.t.Errorf("%s: %v, which is %s", decl, err, good)
	}
	for _, r := range lane(x.t, s, backlog.Fresh) {
		x.run(w, &r)
	}
	for i, e := range good {
		want, got := x.done(-i-1), x.done(i+1)
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			x.t.Errorf("%s: %s\n by the parameter %s\n by the column    %s", decl, e, got, want)
		}
	}
}

// text is the expression over a.
func (x *typedTable) text(expr, a string) string {
	return "(" + strings.ReplaceAll(expr, "@", a) + ")" + x.as
}

func (x *typedTable) run(w *work.SQLHandler, r *backlog.Record) {
	x.t.Helper()
	if err := w.Handle(context.Background(), r); err != nil {
		x.t.Errorf("record %v: %v", r.Key, err)
	}
}

// done returns what is written down as the n-th, for each row.
func (x *typedTable) done(n int) (list []string) {
	x.t.Helper()
	rows, err := x.plain.Query("SELECT v FROM done WHERE n = " + strconv.Itoa(n) + " ORDER BY id")
	if err != nil {
		x.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var v sql.NullString
		if err := rows.Scan(&v); err != nil {
			x.t.Fatal(err)
		}
		one := "NULL"
		if v.Valid {
			one = fmt.Sprintf("%q", v.String)
		}
		list = append(list, one)
	}
	return list
}

// TestWorkParametersOnPostgres: :a means what the column a means in the same place.
func TestWorkParametersOnPostgres(t *testing.T) {
	t.Parallel()
	exprs := []string{"@", "pg_typeof(@)", "@ IS NULL", "coalesce(@, @)", "@ = @", "@ < @", "@ / 2", "@ * 0.1", "-@", "@ + 1", "round(@)", "@ + interval '1 day'", "@ - interval '1 month'",
		"extract(epoch FROM @)", "date_trunc('hour', @)", "@ AT TIME ZONE 'Asia/Kolkata'", "@ || 'x'", "'x' || @", "@ || @", "@ = 'ABC'", "@ < 'b'", "@ > 'B'", "upper(@)", "length(@)", "octet_length(@)", "@ LIKE 'a%'",
		"concat(@, '|')", "format('%s', @)", "row(@)", "array[@, @]", "to_jsonb(@)", "jsonb_build_object('a', @)", "@ -> 'a'", "@ ->> 0", "@ ? 'a'", "@ #> '{a}'", "(@)[1]", "@[1:1]", "array_length(@, 1)",
		"array_lower(@, 1)", "'a' = ANY(@)", "2 = ANY (@)", "cardinality(@)", "lower(@)", "@ && @", "@ = @ || @", "isempty(@)", "encode(@, 'hex')", "@ | @", "@ & @", "host(@)", "masklen(@)", "(@).x", "@::text", "md5(@::text)",
		"CASE WHEN @ IS NULL THEN NULL ELSE @ END", "nullif(@, @)", "greatest(@, @)", "(SELECT max(v) FROM (VALUES (@)) AS q (v))", "@ IN (SELECT a FROM jobs)", "pg_collation_for(@)", "@ = @ COLLATE \"C\""}
	for decl, values := range map[string][]string{
		"smallint": {"7", "-3"}, "integer": {"7", "-3"}, "bigint": {"9007199254740993", "-7"}, "numeric": {"3", "2.5", "12345678901234567890.50", "7.00", "NaN"}, "numeric(10,2)": {"3", "2.5"},
		"real": {"0.1", "16777216", "NaN"}, "double precision": {"0.1", "1e300", "-Infinity"}, "money": {"2.50"}, "boolean": {"true", "false"},
		"text": {"abc", "ABC", "7", "", "a'b\\c"}, "varchar(5)": {"abc", "12345"}, "char(5)": {"abc", "ABC"}, `"char"`: {"a"}, "name": {"abc"}, `text COLLATE "C"`: {"abc", "ABC"}, `varchar(9) COLLATE "und-x-icu"`: {"abc", "B"},
		"bytea": {`\x00ff`, `\x`}, "uuid": {"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}, "date": {"2026-01-31", "infinity", "0044-03-15 BC"}, "time": {"11:30:00.5"}, "timetz": {"11:30:00+02"},
		"timestamp": {"2026-01-31 11:30:00.5", "-infinity"}, "timestamp(0)": {"2026-01-31 11:30:00"}, "timestamptz": {"2026-01-31 11:30:00.5+00", "infinity", "0044-03-15 BC"},
		"interval": {"1 month 2 days 03:04:05.5"}, "interval day to minute": {"2 days 03:04"}, "json": {`{"a":  [1, 2.50]}`, `"x"`, `[3]`}, "jsonb": {`{"a": [1, 2.50]}`, `[3]`}, "xml": {"<a>b</a>"},
		"bit(3)": {"101"}, "bit": {"1"}, "varbit": {"10101"}, "inet": {"10.0.0.1/8", "::1"}, "cidr": {"10.0.0.0/8"}, "macaddr": {"08:00:2b:01:02:03"}, "point": {"(1,2)"}, "oid": {"4000000000"}, "pg_lsn": {"16/B374D848"},
		"int4range": {"[1,7)", "empty"}, "tstzrange": {"[2026-01-01 00:00+00,infinity)"}, "nummultirange": {"{[1.5,2),(3,)}"}, "tsvector": {"'a':1 'b':2"}, "jsonpath": {"$.a"},
		"text[]": {`{a,"b c",NULL}`, "{}", "[0:1]={a,b}"}, "integer[]": {"{1,2}", "{{1,2},{3,4}}"}, "numeric(6,2)[]": {"{1.10,NaN}"}, "jsonb[]": {`{"{\"a\": 1}","null"}`}, "timestamptz[]": {`{"2026-01-31 11:30:00.5+00",infinity}`},
		"bytea[]": {`{"\\x00ff"}`}, `text[] COLLATE "C"`: {"{a,B}"},
		"mood": {"sad", "ABC"}, "mood[]": {"{sad}"}, "pair": {"(1,abc)"}, "pair[]": {`{"(1,abc)"}`}, "posint": {"7"}, "short": {"abc"}, "bare": {"abc"}, "posint[]": {"{7}"},
	} {
		t.Run(decl, func(t *testing.T) {
			t.Parallel()
			s := newPostgresSchema(t, `CREATE TYPE mood AS ENUM ('sad', 'ABC', 'ok')`, `CREATE TYPE pair AS (x int, y text)`, `CREATE DOMAIN posint AS numeric(6,2) CHECK (VALUE > 0)`,
				`CREATE DOMAIN short AS varchar(5)`, `CREATE DOMAIN bare AS text COLLATE "C"`,
				`CREATE TABLE jobs (id int PRIMARY KEY, status text DEFAULT 'NEW', created timestamptz DEFAULT '2026-02-10 11:00Z', a `+decl+`)`, `CREATE TABLE done (id int, n int, v text)`,
				"INSERT INTO jobs (id) VALUES (0)")
			bare, _, _ := strings.Cut(decl, " COLLATE")
			for i, v := range values {
				if _, err := s.plain.Exec("INSERT INTO jobs (id, a) VALUES ($1, $2::text::"+bare+")", i+1, v); err != nil {
					t.Fatal(err)
				}
			}
			x := typedTable{t, s.plain, func(m mapping.Mapping) (*table.Table, error) { return s.open(s.url, m) }, "::text", exprs, 12}
			x.check(decl)
		})
	}
}

// TestWorkParametersOnMySQL likewise. What the number of an ENUM, the bytes of a BIT and
// the short text of a FLOAT are in other surroundings no parameter can be.
func TestWorkParametersOnMySQL(t *testing.T) {
	t.Parallel()
	numbers := []string{"@", "@ IS NULL", "coalesce(@, 5)", "@ = @", "@ / 2", "@ / 3", "@ * 0.1", "@ * 3", "-@", "@ + 1", "@ + 0.01", "@ - 5", "round(@)", "round(@, 1)", "@ DIV 2", "@ % 2", "concat(@, '|')", "@ = 7", "@ > '10'", "greatest(@, 5)",
		"if(@ > 2, @, 0)", "CASE WHEN @ IS NULL THEN 0 ELSE @ END", "@ IN (1, 7)", "@ << 1", "truncate(@, 0)", "sqrt(abs(@))", "json_array(@)"}
	texts := []string{"@", "@ IS NULL", "coalesce(@, 'x')", "@ = 'ABC'", "@ = 'abc'", "@ < 'b'", "@ LIKE 'a%'", "upper(@)", "length(@)", "char_length(@)", "hex(@)", "concat(@, '|')", "concat(@, 'ü')", "if(@ IS NULL, '', collation(@))", "@ IN ('ABC', 'é')",
		"replace(@, 'b', 'x')", "@ = 'é'", "locate('B', @)", "instr(@, 'B')", "strcmp(@, 'ABC')", "md5(@)", "@ REGEXP 'B'", "if(@ = 'ABC', 1, 0)"}
	times := []string{"@", "@ IS NULL", "@ + INTERVAL 1 DAY", "@ - INTERVAL 1 MONTH", "date_add(@, INTERVAL 90 MINUTE)", "date(@)", "year(@)", "month(@)", "@ + 0", "@ * 1", "concat(@, '|')", "@ > '2026-01-01'", "@ = '2026-01-31'",
		"unix_timestamp(@)", "extract(DAY FROM @)", "timestampdiff(HOUR, @, '2026-02-10 00:00')", "greatest(@, @)", "date_format(@, '%Y')", "coalesce(@, 'x')", "hour(@)", "time(@)", "@ < '2026-1-31 12:00'"}
	text := func(v ...string) []string { return v }
	for _, c := range []struct {
		decl   string
		exprs  []string
		values []string
	}{
		{
			decl:   "tinyint",
			exprs:  numbers,
			values: text("7", "-3"),
		}, {
			decl:   "int",
			exprs:  numbers,
			values: text("7", "-3"),
		}, {
			decl:   "int unsigned",
			exprs:  numbers,
			values: text("7", "4000000000"),
		}, {
			decl:   "bigint",
			exprs:  numbers,
			values: text("9007199254740993", "-7"),
		},
		{
			decl:   "bigint unsigned",
			exprs:  numbers,
			values: text("7", "18446744073709551615", "9223372036854775808"),
		}, {
			decl:   "decimal(10,2)",
			exprs:  numbers,
			values: text("3", "2.5", "-0.05"),
		}, {
			decl:   "decimal(30,10)",
			exprs:  numbers,
			values: text("12345678901234567890.0000000001", "7"),
		},
		{
			decl:   "decimal(5,0) unsigned",
			exprs:  numbers,
			values: text("7"),
		}, {
			decl:   "float",
			exprs:  numbers[1:],
			values: text("0.1", "7", "1e30"),
		}, {
			decl:   "double",
			exprs:  numbers,
			values: text("0.1", "7", "1e300"),
		}, {
			decl:   "boolean",
			exprs:  numbers,
			values: text("1", "0"),
		},
		{
			decl:   "year",
			exprs:  []string{"@", "@ IS NULL", "@ + 1", "@ / 2", "@ = 2026", "@ > '2000'", "concat(@, '|')", "@ - 1000"},
			values: text("2026", "1999"),
		}, {
			decl:   "bit(9)",
			exprs:  []string{"@ + 0", "@ * 2", "@ = 257", "@ > 2", "@ IS NULL", "hex(@)", "bin(@)"},
			values: text("257", "1"),
		},
		{
			decl:   "varchar(9)",
			exprs:  texts,
			values: text("abc", "ABC", "é", `a'b\`),
		}, {
			decl:   "char(5)",
			exprs:  texts,
			values: text("abc", "ABC"),
		}, {
			decl:   "text",
			exprs:  texts,
			values: text("abc", "ABC", ""),
		},
		{
			decl:   "varchar(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
			exprs:  texts,
			values: text("abc", "ABC", "é"),
		}, {
			decl:   "varchar(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci",
			exprs:  texts,
			values: text("abc", "ABC", "É"),
		},
		{
			decl:   "varchar(9) CHARACTER SET latin1",
			exprs:  texts,
			values: text("abc", "ABC", "é"),
		}, {
			decl:   "char(36) CHARACTER SET ascii COLLATE ascii_bin",
			exprs:  texts,
			values: text("abc", "ABC"),
		}, {
			decl:   "json",
			exprs:  texts,
			values: text(`"abc"`, `{"a":  [1, 2.50]}`),
		},
		{
			decl:   "varbinary(9)",
			exprs:  texts,
			values: text("abc", "ABC", "\xff\x00"),
		}, {
			decl:   "binary(5)",
			exprs:  texts,
			values: text("abc", "\xff"),
		}, {
			decl:   "blob",
			exprs:  texts,
			values: text("abc", "ABC", "\xff\x00"),
		},
		{decl: "enum('abc','b')", exprs: texts[:len(texts)-1], values: text("abc", "b")}, {decl: "set('abc','b')", exprs: texts, values: text("abc,b", "b")},
		{
			decl:   "date",
			exprs:  times,
			values: text("2026-01-31"),
		}, {
			decl:   "date NULL",
			exprs:  []string{"@", "@ IS NULL", "year(@)", "@ + 0", "concat(@, '|')", "@ > '2026-01-01'"},
			values: text("0000-00-00", "2026-01-31"),
		}, {
			decl:   "datetime",
			exprs:  times,
			values: text("2026-01-31 11:30:00"),
		}, {
			decl:   "datetime(6)",
			exprs:  times,
			values: text("2026-01-31 11:30:00.500000"),
		}, {
			decl:   "timestamp NULL",
			exprs:  times,
			values: text("2026-01-31 11:30:00"),
		},
		{
			decl:   "timestamp(3) NULL",
			exprs:  times,
			values: text("2026-01-31 11:30:00.125"),
		}, {
			decl:   "time",
			exprs:  times,
			values: text("11:30:00", "-120:00:00"),
		}, {
			decl:   "time(3)",
			exprs:  times,
			values: text("11:30:00.125"),
		},
		{
			decl:   "uuid",
			exprs:  []string{"@ IS NULL", "hex(@)", "concat(@, '|')", "@ = 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "@ < 'b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"},
			values: text("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
		},
		{decl: "inet6", exprs: []string{"@ IS NULL", "hex(@)", "concat(@, '|')", "@ = '0::1'"}, values: text("::1")},
	} {
		t.Run(c.decl, func(t *testing.T) {
			t.Parallel()
			plain, url := newMySQL(t)
			for _, text := range []string{"CREATE TABLE jobs (id int PRIMARY KEY, status varchar(9) DEFAULT 'NEW', created datetime DEFAULT '2026-02-10 11:00', a " + c.decl + ") DEFAULT CHARSET utf8mb4", "CREATE TABLE done (id int, n int, v longblob)",
				"INSERT INTO jobs (id) VALUES (0)"} {
				if _, err := plain.Exec(text); err != nil {
					if c.decl == "uuid" || c.decl == "inet6" { // which MySQL and old MariaDB do not have
						t.Skip(err)
					}
					t.Fatalf("%s: %v", text, err)
				}
			}
			for i, v := range c.values {
				var value any = v
				if strings.Contains(c.decl, "bina") || c.decl == "blob" {
					value = []byte(v)
				}
				if c.decl == "bit(9)" {
					value = map[string]int{"257": 257, "1": 1}[v]
				}
				if _, err := plain.Exec("INSERT INTO jobs (id, a) VALUES (?, ?)", i+1, value); err != nil {
					t.Fatal(err)
				}
			}
			open := func(m mapping.Mapping) (*table.Table, error) {
				d, err := openDB(context.Background(), url, table.Options{})
				if err != nil {
					return nil, err
				}
				t.Cleanup(func() { d.Close() })
				return table.New(context.Background(), d, m)
			}
			x := typedTable{t, plain, open, "", c.exprs, len(c.exprs) * 2 / 3}
			x.check(c.decl)
		})
	}
}

// TestWorkParametersOnSQLite likewise: of a value's storage class and of its column's
// affinity, by which it is compared.
func TestWorkParametersOnSQLite(t *testing.T) {
	exprs := []string{"@", "typeof(@)", "@ IS NULL", "@ = '7'", "@ = 7", "@ = 7.0", "'7' = @", "@ < '10'", "@ > 10", "@ IN ('7', 'abc')", "@ IN (7)", "@ BETWEEN '1' AND '8'", "CASE @ WHEN '7' THEN 1 WHEN 7 THEN 2 ELSE 3 END",
		"@ / 2", "@ * 0.5", "@ || 'x'", "@ + 1", "upper(@)", "length(@)", "hex(@)", "coalesce(@, 'x')", "max(@, '8')", "@ = @", "nullif(@, '7')", "quote(@)", "@ LIKE '7%'", "@ IN (SELECT '7')", "(SELECT @ = '7')", "@ IS '7'", "json_array(@ = '7')"}
	for _, decl := range []string{"INTEGER", "BIGINT", "TEXT", "VARCHAR(9)", "REAL", "DOUBLE", "NUMERIC", "DECIMAL(10,2)", "BOOLEAN", "JSON", "DATETIME", "DATE", "BLOB", "", "ANY", "FLOATING POINT"} {
		t.Run("type "+decl, func(t *testing.T) {
			f := newFile(t, `CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT DEFAULT 'NEW', created TEXT DEFAULT '2026-02-10 11:00:00', a `+decl+`); CREATE TABLE done (id, n, v);
				INSERT INTO jobs (id, a) VALUES (0, NULL), (1, 7), (2, '7'), (3, 2.5), (4, 7.0), (5, 'abc'), (6, x'37'), (7, 9007199254740993), (8, '07'), (9, ''), (10, 1)`)
			x := typedTable{t, f.plain, f.open, "", exprs, len(exprs)}
			x.check(decl)
		})
	}
	t.Run("STRICT", func(t *testing.T) {
		f := newFile(t, `CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT DEFAULT 'NEW', created TEXT DEFAULT '2026-02-10 11:00:00', a ANY) STRICT; CREATE TABLE done (id, n, v);
			INSERT INTO jobs (id, a) VALUES (0, NULL), (1, 7), (2, '7'), (3, 2.5)`)
		x := typedTable{t, f.plain, f.open, "", exprs, len(exprs)}
		x.check("ANY")
	})
}
