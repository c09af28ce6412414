package work

import (
	"fmt"
	"strings"
	"testing"

	"backlog/backlog/table/db"
	"backlog/backlog/table/mysql"
	"backlog/backlog/table/postgres"
	"backlog/backlog/table/sqlite"
)

var (
	inPostgres = postgres.Dialect.Text()
	inSQLite   = sqlite.Dialect.Text()
	inMySQL    = mysql.Dialect.Text()
)

func TestParseSQL(t *testing.T) {
	for _, c := range []struct {
		name   string
		syntax *db.Text
		text   string
		want   string
	}{
		{
			name:   "plain",
			syntax: inSQLite,
			text:   "insert into a select :id, b from c where d = :d2_x;",
			want:   "[INSERT id,d2_x] insert into a select ?, b from c where d = ?",
		},
		{name: "twice", syntax: inSQLite, text: "UPDATE a SET b = :id WHERE c = :id", want: "[UPDATE id,id] UPDATE a SET b = ? WHERE c = ?"},
		{name: "numbered", syntax: inPostgres, text: "UPDATE a SET b = :id WHERE c = :id", want: "[UPDATE id,id] UPDATE a SET b = $1 WHERE c = $2"},
		{name: "at the end", syntax: inSQLite, text: "SELECT :id", want: "[SELECT id] SELECT ?"},
		{name: "close together", syntax: inSQLite, text: "SELECT(:a,:b)+:c", want: "[SELECT a,b,c] SELECT(?,?)+?"},
		{
			name:   "odd names",
			syntax: inSQLite,
			text:   `SELECT :"send after", :"a""b:c", :größe`,
			want:   `[SELECT send after,a"b:c,größe] SELECT ?, ?, ?`,
		},
		{
			name:   "strings",
			syntax: inSQLite,
			text:   `SELECT ':a', 'it''s :a', "b :a""", ` + "`:a`",
			want:   `[SELECT ] SELECT ':a', 'it''s :a', "b :a""", ` + "`:a`",
		},
		{
			name:   "dollar quotes",
			syntax: inPostgres,
			text:   "SELECT $$:a;'$$, $b_1$ $$ :a $b$ $b_1$, a$b$, :c",
			want:   "[SELECT c] SELECT $$:a;'$$, $b_1$ $$ :a $b$ $b_1$, a$b$, $1",
		},
		{name: "backslash is an escape", syntax: inMySQL, text: `SELECT '\':a', "b", :b`, want: `[SELECT b] SELECT '\':a', "b", ?`},
		{
			name:   "a semicolon at the end",
			syntax: inSQLite,
			text:   "DELETE FROM b; -- and that is all\n",
			want:   "[DELETE ] DELETE FROM b -- and that is all",
		},
		{name: "backslash is no escape", syntax: inSQLite, text: `SELECT '\', :a`, want: `[SELECT a] SELECT '\', ?`},
		{name: "line comment", syntax: inSQLite, text: "SELECT 1 -- :a; 'x\n, :b --", want: "[SELECT b] SELECT 1 -- :a; 'x\n, ? --"},
		{
			name:   "block comment",
			syntax: inSQLite,
			text:   "SELECT /* :a ; ' */ :b /*/ :c */ + /**/ 1 / 2 - 3",
			want:   "[SELECT b] SELECT /* :a ; ' */ ? /*/ :c */ + /**/ 1 / 2 - 3",
		},
		{name: "comment without end", syntax: inSQLite, text: "SELECT 1 /* :a", want: "[SELECT ] SELECT 1 /* :a"},
		{
			name:   "casts",
			syntax: inPostgres,
			text:   "SELECT :a::text, '1'::int :: b, x := :c",
			want:   "[SELECT a,c] SELECT $1::text, '1'::int :: b, x := $2",
		},
		{name: "slices", syntax: inPostgres, text: "SELECT a[1:2], b[:n], c[:]", want: "[SELECT n] SELECT a[1:2], b[$1], c[:]"},
		{name: "operators", syntax: inPostgres, text: "SELECT a ? 'b', a @> :c, @ -1", want: "[SELECT c] SELECT a ? 'b', a @> $1, @ -1"},
		{name: "dollar in a name", syntax: inSQLite, text: `SELECT a$b, :"c$d"`, want: "[SELECT c$d] SELECT a$b, ?"},
		{name: "ends in a colon", syntax: inSQLite, text: "SELECT 1:", want: "[SELECT ] SELECT 1:"},
		{name: "a time", syntax: inSQLite, text: "SELECT '12:30', 1:2", want: "[SELECT ] SELECT '12:30', 1:2"},
		{
			name:   "with",
			syntax: inSQLite,
			text:   "WITH a(b) AS (SELECT 1), c AS (DELETE FROM x RETURNING y) INSERT INTO d SELECT b FROM a",
			want:   "[INSERT ] WITH a(b) AS (SELECT 1), c AS (DELETE FROM x RETURNING y) INSERT INTO d SELECT b FROM a",
		},
		{
			name:   "with select",
			syntax: inPostgres,
			text:   "with recursive a as (values (1)) select * from a, (update)",
			want:   "[SELECT ] with recursive a as (values (1)) select * from a, (update)",
		},
		{
			name:   "escape strings",
			syntax: inPostgres,
			text:   `SELECT E'it\'s :a', e'\\', :b, E'' , E'a''\':c', :d`,
			want:   `[SELECT b,d] SELECT E'it\'s :a', e'\\', $1, E'' , E'a''\':c', $2`,
		},
		{
			name:   "no escape string",
			syntax: inPostgres,
			text:   `SELECT E '\', :a, fe'\', :b, N'\', :c, E"\", :d`,
			want:   `[SELECT a,b,c,d] SELECT E '\', $1, fe'\', $2, N'\', $3, E"\", $4`,
		},
		{
			name:   "an escape string goes on",
			syntax: inPostgres,
			text:   "SELECT E'a'\n  'b\\':a', :b, 'a'\n'\\', :c",
			want:   "[SELECT b,c] SELECT E'a'\n  'b\\':a', $1, 'a'\n'\\', $2",
		},
		{name: "an escape string of others", syntax: inSQLite, text: `SELECT E'\', :a`, want: `[SELECT a] SELECT E'\', ?`},
		{
			name:   "nested comments",
			syntax: inPostgres,
			text:   "SELECT /* a /* b */ :c ' */ :d /* /* */",
			want:   "[SELECT d] SELECT /* a /* b */ :c ' */ $1 /* /* */",
		},
		{
			name:   "comments that do not nest",
			syntax: inMySQL,
			text:   "SELECT /* a /* b */ :c, /**/ :d",
			want:   "[SELECT c,d] SELECT /* a /* b */ ?, /**/ ?",
		},
		{name: "hash comments", syntax: inMySQL, text: "SELECT 1 # it's :a; \n, :b #", want: "[SELECT b] SELECT 1 # it's :a; \n, ? #"},
		{
			name:   "a hash that begins no comment",
			syntax: inPostgres,
			text:   "SELECT a #> :b, c #- '{x}', 1 # :d",
			want:   "[SELECT b,d] SELECT a #> $1, c #- '{x}', 1 # $2",
		},
		{
			name:   "dashes in front of a blank",
			syntax: inMySQL,
			text:   "SELECT 5--:a, 5--1, 7 --\t:b\n, :c --",
			want:   "[SELECT a,c] SELECT 5--?, 5--1, 7 --\t:b\n, ? --",
		},
		{name: "dashes alone", syntax: inPostgres, text: "SELECT 5--:a\n, :b", want: "[SELECT b] SELECT 5--:a\n, $1"},
		{
			name:   "escapes in double quotes",
			syntax: inMySQL,
			text:   `SELECT "\":a", "b""\\", ` + "`\\`" + `, :c`,
			want:   `[SELECT c] SELECT "\":a", "b""\\", ` + "`\\`" + `, ?`,
		},
		{name: "names in brackets", syntax: inSQLite, text: "SELECT [it's :a], :b", want: "[SELECT b] SELECT [it's :a], ?"},
		{
			name:   "JSON operators",
			syntax: inPostgres,
			text:   "SELECT a ?| :b, a ?& '{}', a @? '$.x', a @@ :c, a -> :d ->> 'e'",
			want:   "[SELECT b,c,d] SELECT a ?| $1, a ?& '{}', a @? '$.x', a @@ $2, a -> $3 ->> 'e'",
		},
		{name: "limits", syntax: inMySQL, text: "SELECT :a FROM b LIMIT :c, :d", want: "[SELECT a,c bare,d bare] SELECT ? FROM b LIMIT ?, ?"},
		{
			name:   "limits of others",
			syntax: inPostgres,
			text:   "SELECT (SELECT :a LIMIT :b OFFSET :c), :d",
			want:   "[SELECT a,b,c,d] SELECT (SELECT $1 LIMIT $2 OFFSET $3), $4",
		},
		{
			name:   "behind a limit",
			syntax: inMySQL,
			text:   "SELECT (SELECT 1 LIMIT :a OFFSET :b), :c",
			want:   "[SELECT a bare,b bare,c] SELECT (SELECT 1 LIMIT ? OFFSET ?), ?",
		},
		{name: "in parentheses", syntax: inSQLite, text: "(select 1)", want: "[SELECT ] (select 1)"},
		{name: "a comment first", syntax: inSQLite, text: "/* BEGIN */ -- END\ndelete from a", want: "[DELETE ] /* BEGIN */ -- END\ndelete from a"},
		{name: "no word", syntax: inSQLite, text: "123 + 'a'", want: "[123 ] 123 + 'a'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var params []string
			s, err := parseSQL(c.text, 1, c.syntax, func(name string, bare bool) (string, error) {
				if bare {
					params = append(params, name+" bare")
				} else {
					params = append(params, name)
				}
				return c.syntax.Placeholder(len(params)), nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("[%s %s] %s", s.verb, strings.Join(params, ","), s.text); got != c.want {
				t.Errorf("%s\n got %s\nwant %s", c.text, got, c.want)
			}
		})
	}
}

func TestParseSQLRefuses(t *testing.T) {
	for _, c := range []struct {
		syntax     *db.Text
		text, want string
	}{
		{inSQLite, "", "1: it is empty; write a statement, such as INSERT INTO …"},
		{inSQLite, " \n-- nothing\n/* at all */", "1: it is empty; write a statement, such as INSERT INTO …"},
		{inSQLite, ";", "1: it is empty; write a statement, such as INSERT INTO …"},
		{inSQLite, "SELECT 1;; SELECT 2", "1: another one stands behind its semicolon; make it an item of its own in the list of statements"},
		{inSQLite, "SELECT 'it''s a long story, :id", "1: what begins with 'it''s a long story,… has no closing '; add it"},
		{inSQLite, `SELECT "a`, `1: what begins with "a has no closing "; add it`},
		{inSQLite, "SELECT `a", "1: what begins with `a has no closing `; add it"},
		{inSQLite, `SELECT :"a`, `1: what begins with :"a has no closing "; add it`},
		{inPostgres, `SELECT E'a\'`, `1: what begins with E'a\' has no closing '; add it`},
		{inMySQL, `SELECT "a\"`, `1: what begins with "a\" has no closing "; add it`},
		{inSQLite, "SELECT [a", "1: what begins with [a has no closing ]; add it"},
		{inMySQL, "# nothing\n-- at all\n--", "1: it is empty; write a statement, such as INSERT INTO …"},
		{inSQLite, "SELECT ?", "1: ? begins no parameter here; write :column, such as :id"},
		{inSQLite, "SELECT a FROM b WHERE c = @c", "1: @ begins no parameter here; write :column, such as :id"},
		{inSQLite, "SELECT :a$b", "1: $ begins no parameter here; write :column, such as :id"},
		{inSQLite, "SELECT $c", "1: $ begins no parameter here; write :column, such as :id"},
		{inPostgres, "SELECT $1", "1: $ begins no parameter here; write :column, such as :id"},
		{inPostgres, "SELECT $1$ a $1$", "1: $ begins no parameter here; write :column, such as :id"},
		{inPostgres, "SELECT $a$ b $A$", "1: what begins with $a$ b $A$ has no closing $a$; add it"},
		{inSQLite, "SELECT 1\x00", "1: there is a NUL byte in it; remove it"},
	} {
		if s, err := parseSQL(c.text, 1, c.syntax, func(string, bool) (string, error) { return "?", nil }); err == nil || err.Error() != "handler.sql: statement "+c.want {
			t.Errorf("%s\n got %v, %v\nwant %s", c.text, s, err, c.want)
		}
	}
}
