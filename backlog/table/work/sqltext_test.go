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
		{"plain", inSQLite, "insert into a select :id, b from c where d = :d2_x;", "[INSERT id,d2_x] insert into a select ?, b from c where d = ?"},
		{"twice", inSQLite, "UPDATE a SET b = :id WHERE c = :id", "[UPDATE id,id] UPDATE a SET b = ? WHERE c = ?"},
		{"numbered", inPostgres, "UPDATE a SET b = :id WHERE c = :id", "[UPDATE id,id] UPDATE a SET b = $1 WHERE c = $2"},
		{"at the end", inSQLite, "SELECT :id", "[SELECT id] SELECT ?"},
		{"close together", inSQLite, "SELECT(:a,:b)+:c", "[SELECT a,b,c] SELECT(?,?)+?"},
		{"odd names", inSQLite, `SELECT :"send after", :"a""b:c", :größe`, `[SELECT send after,a"b:c,größe] SELECT ?, ?, ?`},
		{"strings", inSQLite, `SELECT ':a', 'it''s :a', "b :a""", ` + "`:a`", `[SELECT ] SELECT ':a', 'it''s :a', "b :a""", ` + "`:a`"},
		{"dollar quotes", inPostgres, "SELECT $$:a;'$$, $b_1$ $$ :a $b$ $b_1$, a$b$, :c", "[SELECT c] SELECT $$:a;'$$, $b_1$ $$ :a $b$ $b_1$, a$b$, $1"},
		{"backslash is an escape", inMySQL, `SELECT '\':a', "b", :b`, `[SELECT b] SELECT '\':a', "b", ?`},
		{"a semicolon at the end", inSQLite, "DELETE FROM b; -- and that is all\n", "[DELETE ] DELETE FROM b -- and that is all"},
		{"backslash is no escape", inSQLite, `SELECT '\', :a`, `[SELECT a] SELECT '\', ?`},
		{"line comment", inSQLite, "SELECT 1 -- :a; 'x\n, :b --", "[SELECT b] SELECT 1 -- :a; 'x\n, ? --"},
		{"block comment", inSQLite, "SELECT /* :a ; ' */ :b /*/ :c */ + /**/ 1 / 2 - 3", "[SELECT b] SELECT /* :a ; ' */ ? /*/ :c */ + /**/ 1 / 2 - 3"},
		{"comment without end", inSQLite, "SELECT 1 /* :a", "[SELECT ] SELECT 1 /* :a"},
		{"casts", inPostgres, "SELECT :a::text, '1'::int :: b, x := :c", "[SELECT a,c] SELECT $1::text, '1'::int :: b, x := $2"},
		{"slices", inPostgres, "SELECT a[1:2], b[:n], c[:]", "[SELECT n] SELECT a[1:2], b[$1], c[:]"},
		{"operators", inPostgres, "SELECT a ? 'b', a @> :c, @ -1", "[SELECT c] SELECT a ? 'b', a @> $1, @ -1"},
		{"dollar in a name", inSQLite, `SELECT a$b, :"c$d"`, "[SELECT c$d] SELECT a$b, ?"},
		{"ends in a colon", inSQLite, "SELECT 1:", "[SELECT ] SELECT 1:"},
		{"a time", inSQLite, "SELECT '12:30', 1:2", "[SELECT ] SELECT '12:30', 1:2"},
		{"with", inSQLite, "WITH a(b) AS (SELECT 1), c AS (DELETE FROM x RETURNING y) INSERT INTO d SELECT b FROM a", "[INSERT ] WITH a(b) AS (SELECT 1), c AS (DELETE FROM x RETURNING y) INSERT INTO d SELECT b FROM a"},
		{"with select", inPostgres, "with recursive a as (values (1)) select * from a, (update)", "[SELECT ] with recursive a as (values (1)) select * from a, (update)"},
		{"escape strings", inPostgres, `SELECT E'it\'s :a', e'\\', :b, E'' , E'a''\':c', :d`, `[SELECT b,d] SELECT E'it\'s :a', e'\\', $1, E'' , E'a''\':c', $2`},
		{"no escape string", inPostgres, `SELECT E '\', :a, fe'\', :b, N'\', :c, E"\", :d`, `[SELECT a,b,c,d] SELECT E '\', $1, fe'\', $2, N'\', $3, E"\", $4`},
		{"an escape string goes on", inPostgres, "SELECT E'a'\n  'b\\':a', :b, 'a'\n'\\', :c", "[SELECT b,c] SELECT E'a'\n  'b\\':a', $1, 'a'\n'\\', $2"},
		{"an escape string of others", inSQLite, `SELECT E'\', :a`, `[SELECT a] SELECT E'\', ?`},
		{"nested comments", inPostgres, "SELECT /* a /* b */ :c ' */ :d /* /* */", "[SELECT d] SELECT /* a /* b */ :c ' */ $1 /* /* */"},
		{"comments that do not nest", inMySQL, "SELECT /* a /* b */ :c, /**/ :d", "[SELECT c,d] SELECT /* a /* b */ ?, /**/ ?"},
		{"hash comments", inMySQL, "SELECT 1 # it's :a; \n, :b #", "[SELECT b] SELECT 1 # it's :a; \n, ? #"},
		{"a hash that begins no comment", inPostgres, "SELECT a #> :b, c #- '{x}', 1 # :d", "[SELECT b,d] SELECT a #> $1, c #- '{x}', 1 # $2"},
		{"dashes in front of a blank", inMySQL, "SELECT 5--:a, 5--1, 7 --\t:b\n, :c --", "[SELECT a,c] SELECT 5--?, 5--1, 7 --\t:b\n, ? --"},
		{"dashes alone", inPostgres, "SELECT 5--:a\n, :b", "[SELECT b] SELECT 5--:a\n, $1"},
		{"escapes in double quotes", inMySQL, `SELECT "\":a", "b""\\", ` + "`\\`" + `, :c`, `[SELECT c] SELECT "\":a", "b""\\", ` + "`\\`" + `, ?`},
		{"names in brackets", inSQLite, "SELECT [it's :a], :b", "[SELECT b] SELECT [it's :a], ?"},
		{"JSON operators", inPostgres, "SELECT a ?| :b, a ?& '{}', a @? '$.x', a @@ :c, a -> :d ->> 'e'", "[SELECT b,c,d] SELECT a ?| $1, a ?& '{}', a @? '$.x', a @@ $2, a -> $3 ->> 'e'"},
		{"limits", inMySQL, "SELECT :a FROM b LIMIT :c, :d", "[SELECT a,c bare,d bare] SELECT ? FROM b LIMIT ?, ?"},
		{"limits of others", inPostgres, "SELECT (SELECT :a LIMIT :b OFFSET :c), :d", "[SELECT a,b,c,d] SELECT (SELECT $1 LIMIT $2 OFFSET $3), $4"},
		{"behind a limit", inMySQL, "SELECT (SELECT 1 LIMIT :a OFFSET :b), :c", "[SELECT a bare,b bare,c] SELECT (SELECT 1 LIMIT ? OFFSET ?), ?"},
		{"in parentheses", inSQLite, "(select 1)", "[SELECT ] (select 1)"},
		{"a comment first", inSQLite, "/* BEGIN */ -- END\ndelete from a", "[DELETE ] /* BEGIN */ -- END\ndelete from a"},
		{"no word", inSQLite, "123 + 'a'", "[123 ] 123 + 'a'"},
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
