package work

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"backlog/backlog/table/db"
)

// A kind is the kind of a token.
type kind int

const (
	other  kind = iota
	blank       // white space or a comment
	quoted      // a string or a name in quotes of any kind
	parameter
	word
	broken // a quotation that does not end
)

// A token is a piece of a statement, split as the database does it.
type token struct {
	kind kind
	text string
	end  string // of a broken token: the missing quotation mark
}

var (
	wordPattern   = regexp.MustCompile(`^[\pL\pN_][\pL\pN_$]*`)
	namePattern   = regexp.MustCompile(`^[\pL_][\pL\pN_]*`)
	dollarPattern = regexp.MustCompile(`^\$(?:[\pL_][\pL\pN_]*)?\$`)
	// A string may continue in quotes on another line.
	continued = regexp.MustCompile(`^\s*\n\s*'`)
)

// nextToken returns the token with which the rest of a statement begins.
func nextToken(s string, x *db.Text) token {
	if n := len(s) - len(strings.TrimLeft(s, " \t\r\n\f\v")); n > 0 {
		return token{kind: blank, text: s[:n]}
	}
	if n := commentLength(s, x); n > 0 {
		return token{kind: blank, text: s[:n]}
	}
	switch c := s[0]; {
	case c == '\'' || c == '"' || c == '`':
		return quotation(s, 0, x.Backslashes && c != '`')
	case c == '[' && x.Brackets:
		return until(s, 1, "]")
	case (c == 'e' || c == 'E') && x.EscapeStrings && strings.HasPrefix(s[1:], "'"):
		return escapeString(s)
	case c == '$' && x.EscapeStrings:
		if tag := dollarPattern.FindString(s); tag != "" {
			return until(s, len(tag), tag)
		}
	case strings.HasPrefix(s, "::") || strings.HasPrefix(s, ":="):
		return token{text: s[:2]}
	case strings.HasPrefix(s, `:"`):
		t := quotation(s, 1, false)
		if t.kind == quoted {
			t.kind = parameter
		}
		return t
	case c == ':':
		if name := namePattern.FindString(s[1:]); name != "" {
			return token{kind: parameter, text: s[:1+len(name)]}
		}
	}
	if w := wordPattern.FindString(s); w != "" {
		return token{kind: word, text: w}
	}
	_, n := utf8.DecodeRuneInString(s)
	return token{text: s[:n]}
}

// commentLength returns the length of the comment that s begins with, 0 if it begins with none.
func commentLength(s string, x *db.Text) int {
	switch {
	case strings.HasPrefix(s, "/*"):
		return blockLength(s, x.EscapeStrings)
	case strings.HasPrefix(s, "--"):
		if x.HashComments && len(s) > 2 && s[2] > ' ' { // two minus signs
			return 0
		}
	case !x.HashComments || s[0] != '#':
		return 0
	}
	line, _, _ := strings.Cut(s, "\n")
	return len(line)
}

// blockLength returns the length of the comment in /* */ that s begins with. In some databases such
// comments nest.
func blockLength(s string, nests bool) int {
	depth := 1
	for i := 2; i < len(s); i++ {
		switch {
		case strings.HasPrefix(s[i:], "*/"):
			depth--
			i++
			if depth == 0 {
				return i + 1
			}
		case nests && strings.HasPrefix(s[i:], "/*"):
			depth++
			i++
		}
	}
	return len(s)
}

// quotation returns the token that ends with the quotation beginning at s[from]. A doubled quotation
// mark does not end it.
func quotation(s string, from int, backslashes bool) token {
	quote := s[from]
	for i := from + 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && backslashes:
			i++
		case s[i] != quote:
		case i+1 < len(s) && s[i+1] == quote:
			i++
		default:
			return token{kind: quoted, text: s[:i+1]}
		}
	}
	return token{kind: broken, text: s, end: string(quote)}
}

// escapeString returns the token of a string E'…', including its continuations on other lines.
func escapeString(s string) token {
	t := quotation(s, 1, true)
	for t.kind == quoted {
		gap := continued.FindString(s[len(t.text):])
		if gap == "" {
			break
		}
		t = quotation(s, len(t.text)+len(gap)-1, true)
	}
	return t
}

// until returns the token that ends with the first end behind the first n bytes.
func until(s string, n int, end string) token {
	at := strings.Index(s[n:], end)
	if at < 0 {
		return token{kind: broken, text: s, end: end}
	}
	return token{kind: quoted, text: s[:n+at+len(end)]}
}

// A parser parses a statement token by token.
type parser struct {
	x     *db.Text
	param func(name string, bare bool) (string, error)

	out   strings.Builder // the statement with placeholders
	verb  string
	depth int  // of nested parentheses
	seen  bool // the statement consists of more than comments
	ended bool // a semicolon has ended it
	limit bool // the last word was LIMIT or OFFSET, behind which the database takes no expression
}

// parseSQL parses the n-th statement and replaces its parameters by the text that param returns for
// them. A parameter is :column, or :"column" for a name with characters other than letters, digits and
// underscores. bare tells param that the database takes a placeholder there, but no expression. Errors
// are [*db.Problem]s.
func parseSQL(source string, n int, x *db.Text, param func(name string, bare bool) (string, error)) (step, error) {
	p := parser{x: x, param: param}
	refuse := func(cure, what string) (step, error) {
		return step{}, db.Problemf(cure, "handler.sql: statement %d: %s", n, what)
	}
	if strings.Contains(source, "\x00") {
		return refuse("remove it", "there is a NUL byte in it")
	}
	rest := source
	for rest != "" {
		t := nextToken(rest, x)
		switch {
		case t.text == ";":
			p.ended = true
			rest = rest[1:]
			continue
		case p.ended && t.kind != blank:
			return refuse("make it an item of its own in the list of statements", "another one stands behind its semicolon")
		case t.kind == broken:
			return refuse("add it", "what begins with "+beginning(rest)+" has no closing "+t.end)
		case t.kind == other && strings.Contains(x.PlaceholderMarks, t.text):
			return refuse("write :column, such as :id", t.text+" begins no parameter here")
		}
		if err := p.add(t); err != nil {
			return step{}, err
		}
		rest = rest[len(t.text):]
	}
	if !p.seen {
		return refuse("write a statement, such as INSERT INTO …", "it is empty")
	}
	return step{source: strings.TrimRight(strings.TrimSpace(source), "; \n\t"), text: strings.TrimSpace(p.out.String()), verb: p.verb}, nil
}

// add adds a token to the statement.
func (p *parser) add(t token) error {
	if t.kind == blank {
		p.out.WriteString(t.text)
		return nil
	}
	p.seen = true
	switch {
	case t.kind == word:
		p.word(strings.ToUpper(t.text))
	case t.kind == parameter:
		text, err := p.param(parameterName(t.text), p.limit)
		if err != nil {
			return err
		}
		t.text = text
	case t.text == "(":
		p.depth++
	case t.text == ")":
		p.depth--
	}
	if t.kind != word && t.kind != parameter && t.text != "," {
		p.limit = false
	}
	p.out.WriteString(t.text)
	return nil
}

// word notes a word, which is in capitals.
func (p *parser) word(w string) {
	p.limit = p.x.PlainLimit && (w == "LIMIT" || w == "OFFSET")
	if p.verb == "" || p.verb == "WITH" && p.depth == 0 && (slices.Contains(changing, w) || slices.Contains(reading, w)) {
		p.verb = w
	}
}

// parameterName returns the name of the column in the text of a parameter.
func parameterName(text string) string {
	name := text[1:]
	if name[0] == '"' {
		name = strings.ReplaceAll(name[1:len(name)-1], `""`, `"`)
	}
	return name
}

// beginning returns the first characters of a text, in one line.
func beginning(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if short := db.Truncate(s, 20, 0); short != s {
		return short + "…"
	}
	return s
}
