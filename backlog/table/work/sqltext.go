package work

import (
	"regexp"
	"slices"
	"strings"

	"backlog/backlog/table/db"
)

// A sqlText is one SQL statement.
type sqlText struct {
	source string // as it was written
	text   string // with placeholders
	verb   string // what it does, in capitals: INSERT, also after WITH
}

// sqlTokens are a comment, a string or a quoted name, the beginning of a
// dollar-quoted string, a cast, a parameter, a word, and any other character.
const sqlTokens = `(?s)^(?:--[^\n]*|/\*.*?(?:\*/|$)|'(?:[^']|'')*'|:?"(?:[^"]|"")*"|` + "`[^`]*`" +
	`|\$(?:[\pL_][\pL\pN_]*)?\$|::|:=|:[\pL_][\pL\pN_]*|[\pL\pN_][\pL\pN_$]*|.)`

// mainVerbs are what a statement that begins with WITH can do.
var mainVerbs = []string{"SELECT", "VALUES", "INSERT", "UPDATE", "DELETE", "REPLACE", "MERGE"}

// parseSQL reads the n-th statement and replaces its parameters by what param
// returns for them: :column, or :"column" for names of other than letters, digits
// and underscores. The errors are [*Problem]s.
func parseSQL(source string, n int, x *db.Text, param func(name string) (string, error)) (s sqlText, err error) {
	refuse := func(cure, what string) (sqlText, error) {
		return sqlText{}, db.Problemf(cure, "handler.sql: statement %d: %s", n, what)
	}
	tokens := sqlTokens
	if x.Backslashes {
		tokens = strings.Replace(tokens, `'(?:[^']|'')*`, `'(?:[^'\\]|''|\\.)*`, 1)
	}
	token := regexp.MustCompile(tokens)
	var out strings.Builder
	depth, seen, ended := 0, false, false
	for rest := source; rest != ""; {
		text := rest[:max(1, len(token.FindString(rest)))]
		c, blank := text[0], strings.TrimSpace(text) == "" || strings.HasPrefix(text, "--") || strings.HasPrefix(text, "/*")
		if len(text) > 1 && c == '$' { // up to the same tag again
			end := strings.Index(rest[len(text):], text)
			if end < 0 {
				return refuse("add it", "what begins with "+beginning(rest)+" has no closing "+text)
			}
			text = rest[:end+2*len(text)]
		}
		switch {
		case c == 0:
			return refuse("remove it", "there is a NUL byte in it")
		case text == ";":
			ended = true
			rest = rest[1:]
			continue
		case ended && !blank:
			return refuse("make it an item of its own in the list of statements", "another one stands behind its semicolon")
		case strings.Contains("'\"`", text): // alone
			return refuse("add it", "what begins with "+beginning(rest)+" has no closing "+text)
		case len(text) == 1 && strings.IndexByte(x.Own, c) >= 0:
			return refuse("write :column, such as :id", text+" begins no parameter here")
		}
		rest = rest[len(text):]
		seen = seen || !blank
		if c == ':' && len(text) > 1 && text[1] != ':' && text[1] != '=' {
			name := text[1:]
			if name[0] == '"' {
				name = strings.ReplaceAll(name[1:len(name)-1], `""`, `"`)
			}
			if text, err = param(name); err != nil {
				return sqlText{}, err
			}
		}
		out.WriteString(text)
		switch word := strings.ToUpper(text); {
		case text == "(":
			depth++
		case text == ")":
			depth--
		case isWordByte(c) && (s.verb == "" || s.verb == "WITH" && depth == 0 && slices.Contains(mainVerbs, word)):
			s.verb = word
		}
	}
	if !seen {
		return refuse("write a statement, such as INSERT INTO …", "it is empty")
	}
	s.source, s.text = strings.TrimRight(strings.TrimSpace(source), "; \n\t"), strings.TrimSpace(out.String())
	return s, nil
}

// isWordByte reports whether words and numbers begin with c.
func isWordByte(c byte) bool {
	return c == '_' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// beginning returns the first characters of a text, in one line.
func beginning(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if short := db.Cut(s, 20, 0); short != s {
		return short + "…"
	}
	return s
}
