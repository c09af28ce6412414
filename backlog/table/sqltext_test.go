package table

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// inPostgres is how PostgreSQL's SQL is written, which has what SQLite's has
// not.
var inPostgres = syntax{
	placeholder: func(n int) string { return fmt.Sprintf("$%d", n) },
	own:         "$", nested: true, dollars: true, escapes: true,
}

var inSQLite = sqlite{}.syntax()

// show returns statements as text: verb, parameters, text.
func showSQL(list []sqlText) string {
	var b strings.Builder
	for _, s := range list {
		fmt.Fprintf(&b, "[%s %s] %s\n", s.verb, strings.Join(s.params, ","), s.text)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func TestParseSQL(t *testing.T) {
	for _, c := range []struct {
		name   string
		syntax syntax
		text   string
		want   string
	}{
		{"plain", inSQLite, "insert into a select :id, b from c where d = :d2_x;", "[INSERT id,d2_x] insert into a select ?, b from c where d = ?"},
		{"twice", inSQLite, "UPDATE a SET b = :id WHERE c = :id", "[UPDATE id,id] UPDATE a SET b = ? WHERE c = ?"},
		{"numbered", inPostgres, "UPDATE a SET b = :id WHERE c = :id", "[UPDATE id,id] UPDATE a SET b = $1 WHERE c = $2"},
		{"at the end", inSQLite, "SELECT :id", "[SELECT id] SELECT ?"},
		{"close together", inSQLite, "SELECT(:a,:b)+:c", "[SELECT a,b,c] SELECT(?,?)+?"},
		{"odd names", inSQLite, `SELECT :"send after", :"a""b:c", :größe`, `[SELECT send after,a"b:c,größe] SELECT ?, ?, ?`},
		{"strings", inSQLite, `SELECT ':a', 'it''s :a', "b :a""", ` + "`:a`, [:a]]", `[SELECT ] SELECT ':a', 'it''s :a', "b :a""", ` + "`:a`, [:a]]"},
		{"backslash is no escape", inSQLite, `SELECT '\', :a`, `[SELECT a] SELECT '\', ?`},
		{"line comment", inSQLite, "SELECT 1 -- :a; 'x\n, :b --", "[SELECT b] SELECT 1 -- :a; 'x\n, ? --"},
		{"block comment", inSQLite, "SELECT /* :a ; ' */ :b /*/ :c */ + /**/ 1 / 2 - 3", "[SELECT b] SELECT /* :a ; ' */ ? /*/ :c */ + /**/ 1 / 2 - 3"},
		{"comments do not nest", inSQLite, "SELECT /* /* */ :a */ 1", "[SELECT a] SELECT /* /* */ ? */ 1"},
		{"comments nest", inPostgres, "SELECT /* /* */ :a */ :b", "[SELECT b] SELECT /* /* */ :a */ $1"},
		{"comment without end", inSQLite, "SELECT 1 /* :a", "[SELECT ] SELECT 1 /* :a"},
		{"casts", inPostgres, "SELECT :a::text, '1'::int :: b, x := :c", "[SELECT a,c] SELECT $1::text, '1'::int :: b, x := $2"},
		{"slices", inPostgres, "SELECT a[1:2], b[:n], c[:]", "[SELECT n] SELECT a[1:2], b[$1], c[:]"},
		{"escapes", inPostgres, `SELECT E'\':a', e'\\', :b, 'c\', name'd'`, `[SELECT b] SELECT E'\':a', e'\\', $1, 'c\', name'd'`},
		{"dollar quotes", inPostgres, "SELECT $$:a;'$$, $b_1$ $$ :a $b$ $b_1$, a$b$, :c", "[SELECT c] SELECT $$:a;'$$, $b_1$ $$ :a $b$ $b_1$, a$b$, $1"},
		{"operators", inPostgres, "SELECT a ? 'b', a @> :c, @ -1", "[SELECT c] SELECT a ? 'b', a @> $1, @ -1"},
		{"dollar in a name", inSQLite, `SELECT a$b, :"c$d"`, "[SELECT c$d] SELECT a$b, ?"},
		{"ends in a colon", inSQLite, "SELECT 1:", "[SELECT ] SELECT 1:"},
		{"a time", inSQLite, "SELECT '12:30', 1:2", "[SELECT ] SELECT '12:30', 1:2"},
		{"several", inSQLite, "INSERT INTO a VALUES (';');\n\n DELETE FROM b; -- and\n update c set d = :e ;\n-- that is all\n",
			"[INSERT ] INSERT INTO a VALUES (';')\n[DELETE ] DELETE FROM b\n[UPDATE e] -- and\n update c set d = ?"},
		{"numbers begin anew", inPostgres, "SELECT :a, :b; SELECT :c", "[SELECT a,b] SELECT $1, $2\n[SELECT c] SELECT $1"},
		{"with", inSQLite, "WITH a(b) AS (SELECT 1), c AS (DELETE FROM x RETURNING y) INSERT INTO d SELECT b FROM a", "[INSERT ] WITH a(b) AS (SELECT 1), c AS (DELETE FROM x RETURNING y) INSERT INTO d SELECT b FROM a"},
		{"with select", inPostgres, "with recursive a as (values (1)) select * from a, (update)", "[SELECT ] with recursive a as (values (1)) select * from a, (update)"},
		{"in parentheses", inSQLite, "(select 1)", "[SELECT ] (select 1)"},
		{"a comment first", inSQLite, "/* BEGIN */ -- END\ndelete from a", "[DELETE ] /* BEGIN */ -- END\ndelete from a"},
		{"no word", inSQLite, "123 + 'a'", "[123 ] 123 + 'a'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			list, err := parseSQL(c.text, 1, c.syntax)
			if err != nil {
				t.Fatal(err)
			}
			if got := showSQL(list); got != c.want {
				t.Errorf("%s\n got %s\nwant %s", c.text, got, c.want)
			}
		})
	}
}

func TestParseSQLRefuses(t *testing.T) {
	for _, c := range []struct {
		syntax     syntax
		text, want string
	}{
		{inSQLite, "", "1: it is empty; write a statement, such as INSERT INTO …"},
		{inSQLite, " \n-- nothing\n/* at all */", "1: it is empty; write a statement, such as INSERT INTO …"},
		{inSQLite, ";", "1: it is empty; write a statement, such as INSERT INTO …"},
		{inSQLite, "SELECT 1;; SELECT 2", "2: nothing stands between two semicolons; remove one of them"},
		{inSQLite, "SELECT 1; /* a */ ;", "2: nothing stands between two semicolons; remove one of them"},
		{inSQLite, "SELECT 'it''s a long story, :id", "1: what begins with 'it''s a long story,… has no closing '; add it"},
		{inSQLite, `SELECT "a`, `1: what begins with "a has no closing "; add it`},
		{inSQLite, "SELECT [a", "1: what begins with [a has no closing ]; add it"},
		{inSQLite, "SELECT `a", "1: what begins with `a has no closing `; add it"},
		{inSQLite, `SELECT :"a`, `1: what begins with "a has no closing "; add it`},
		{inSQLite, `SELECT :""`, `1: :"" names no column; write one between the quotes`},
		{inSQLite, "SELECT ?", "1: ? begins no parameter here; write :column, such as :id"},
		{inSQLite, "SELECT a FROM b WHERE c = @c", "1: @ begins no parameter here; write :column, such as :id"},
		{inSQLite, "SELECT :a$b", "1: $ begins no parameter here; write :column, such as :id"},
		{inSQLite, "SELECT $c", "1: $ begins no parameter here; write :column, such as :id"},
		{inPostgres, "SELECT $1", "1: $ begins no parameter here; write :column, such as :id"},
		{inPostgres, "SELECT $1$ a $1$", "1: $ begins no parameter here; write :column, such as :id"},
		{inPostgres, "SELECT $a$ b $A$", "1: what begins with $a$ b $A$ has no closing $a$; add it"},
		{inPostgres, `SELECT E'\'`, `1: what begins with '\' has no closing '; add it`},
		{inSQLite, "SELECT 1\x00", "1: there is a NUL byte in it; remove it"},
	} {
		if list, err := parseSQL(c.text, 1, c.syntax); err == nil || err.Error() != "handler.sql: statement "+c.want {
			t.Errorf("%s\n got %v, %v\nwant %s", c.text, list, err, c.want)
		}
	}
}

// FuzzParseSQL: whatever is found, as many placeholders are in the texts as
// there are parameters, and with the parameters written out again the same is
// found anew.
func FuzzParseSQL(f *testing.F) {
	for _, s := range []string{
		"INSERT INTO a SELECT :id, :\"b c\" FROM d; UPDATE e SET f = ':g' -- :h\n WHERE i = :j /* :k */",
		"WITH a AS (SELECT 1) SELECT $$a$$, $b$c$b$, E'\\'' :: text, [x], `y`, z := 1, \"q\"\"\"", "/* /* */ ; */ SELECT 1;;",
	} {
		f.Add(s)
	}
	const mark = '\x01'
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsRune(text, mark) {
			return
		}
		for _, x := range []syntax{inSQLite, inPostgres} {
			x.placeholder = func(int) string { return string(mark) }
			list, err := parseSQL(text, 1, x)
			if err != nil {
				continue
			}
			if len(list) == 0 {
				t.Fatalf("%q: no statement and no error", text)
			}
			for _, s := range list {
				parts := strings.Split(s.text, string(mark))
				if len(parts) != len(s.params)+1 || strings.TrimSpace(s.text) == "" {
					t.Fatalf("%q: %d placeholders in %q for the parameters %q", text, len(parts)-1, s.text, s.params)
				}
				again := parts[0]
				for i, name := range s.params {
					if strings.HasPrefix(parts[i+1], `"`) {
						return // it would become a part of the name
					}
					again += `:"` + strings.ReplaceAll(name, `"`, `""`) + `"` + parts[i+1]
				}
				same, err := parseSQL(again, 1, x)
				if err != nil || len(same) != 1 || same[0].text != s.text || !slices.Equal(same[0].params, s.params) || same[0].verb != s.verb {
					t.Fatalf("%q is %q; written out again, %q, it is %q, %v", text, s, again, same, err)
				}
			}
		}
	})
}
