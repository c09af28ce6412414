package table

import (
	"slices"
	"strings"
)

// A syntax is how a database's SQL is written, as far as it takes to find
// parameters: a colon within a string or a comment is none.
type syntax struct {
	placeholder func(n int) string // of the n-th argument, from 1 on
	own         string             // what begins the database's own parameters, which are refused

	brackets  bool // […] is a name
	backticks bool // so is `…`
	nested    bool // block comments nest
	dollars   bool // $tag$…$tag$ is a string
	escapes   bool // E'…' is a string with backslashes

	backslashes bool // so are '…' and "…"
	hashes      bool // # begins a comment
}

// A sqlText is one SQL statement.
type sqlText struct {
	source string   // as it was written
	text   string   // with placeholders
	params []string // the columns of the placeholders, in order
	verb   string   // what it does, in capitals: INSERT, also after WITH
}

// parseSQL divides the text into its statements and finds their parameters:
// :column, or :"column" for names of other than letters, digits and
// underscores. The errors are [*Problem]s; first is the number by which they
// call the first statement.
func parseSQL(text string, first int, x syntax) ([]sqlText, error) {
	p := &sqlParser{s: text, x: x, first: first}
	if strings.IndexByte(text, 0) >= 0 {
		return nil, p.refuse("remove it", "there is a NUL byte in it")
	}
	for p.at < len(p.s) {
		if err := p.next(); err != nil {
			return nil, err
		}
	}
	if p.seen || len(p.list) == 0 {
		if err := p.end(); err != nil {
			return nil, err
		}
	}
	return p.list, nil
}

type sqlParser struct {
	s     string
	x     syntax
	first int
	at    int
	list  []sqlText

	// Of the present statement:
	sqlText
	out   strings.Builder
	begin int
	seen  bool // more than blanks and comments
	depth int  // of parentheses
}

// refuse returns what is wrong with the present statement.
func (p *sqlParser) refuse(cure, what string) error {
	return problem(cure, "handler.sql: statement %d: %s", p.first+len(p.list), what)
}

// next takes what stands at the present place: a string, a comment, a word, a
// parameter, or a single character.
func (p *sqlParser) next() error {
	c, rest := p.s[p.at], p.s[p.at:]
	switch {
	case strings.HasPrefix(rest, "--") || c == '#' && p.x.hashes:
		n := strings.IndexByte(rest, '\n')
		if n < 0 {
			n = len(rest)
		}
		p.take(n)
		return nil
	case strings.HasPrefix(rest, "/*"):
		p.take(p.comment(rest))
		return nil
	case c == ';':
		return p.end()
	case strings.IndexByte(" \t\r\n\f\v", c) >= 0:
		p.take(1)
		return nil
	}
	p.seen = true
	switch {
	case c == '\'' || c == '"' || c == '`' && p.x.backticks:
		return p.takeQuoted(rest, c, c != '`' && p.x.backslashes)
	case c == '[' && p.x.brackets:
		return p.takeQuoted(rest, ']', false)
	case c == '$' && p.x.dollars:
		return p.dollarQuoted(rest)
	case c == ':':
		return p.colon(rest)
	case strings.IndexByte(p.x.own, c) >= 0:
		return p.notOurs(c)
	case isWordByte(c):
		return p.word(rest)
	case c == '(':
		p.depth++
	case c == ')':
		p.depth--
	}
	p.take(1)
	return nil
}

// take copies the next n bytes.
func (p *sqlParser) take(n int) {
	p.out.WriteString(p.s[p.at : p.at+n])
	p.at += n
}

// end ends the present statement, at a semicolon or at the end of the text.
func (p *sqlParser) end() error {
	if !p.seen && len(p.list) == 0 {
		return p.refuse("write a statement, such as INSERT INTO …", "it is empty")
	}
	if !p.seen {
		return p.refuse("remove one of them", "nothing stands between two semicolons")
	}
	p.source, p.text = strings.TrimSpace(p.s[p.begin:p.at]), strings.TrimSpace(p.out.String())
	p.list = append(p.list, p.sqlText)
	p.at = min(p.at+1, len(p.s))
	p.sqlText, p.begin, p.seen, p.depth = sqlText{}, p.at, false, 0
	p.out.Reset()
	return nil
}

// comment returns the length of the block comment that rest begins with. One
// without an end goes on to that of the text, as databases have it.
func (p *sqlParser) comment(rest string) int {
	depth := 0
	for i := 0; i+1 < len(rest); i++ {
		switch {
		case rest[i:i+2] == "/*" && (depth == 0 || p.x.nested):
			depth++
			i++
		case rest[i:i+2] == "*/":
			depth--
			i++
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(rest)
}

// quoted returns the length of the string or name that rest begins with. Its
// last character twice is not the end, but for brackets.
func (p *sqlParser) quoted(rest string, end byte, backslashes bool) (int, error) {
	for i := 1; i < len(rest); i++ {
		switch {
		case rest[i] == '\\' && backslashes:
			i++
		case rest[i] != end:
		case end != ']' && i+1 < len(rest) && rest[i+1] == end:
			i++
		default:
			return i + 1, nil
		}
	}
	return 0, p.open(rest, string(end))
}

// open refuses what rest begins with, since it has no end.
func (p *sqlParser) open(rest, end string) error {
	return p.refuse("add it", "what begins with "+beginning(rest)+" has no closing "+end)
}

func (p *sqlParser) takeQuoted(rest string, end byte, backslashes bool) error {
	n, err := p.quoted(rest, end, backslashes)
	p.take(n)
	return err
}

// dollarQuoted takes a string between two equal tags.
func (p *sqlParser) dollarQuoted(rest string) error {
	n := 1
	for n < len(rest) && isWordByte(rest[n]) && rest[n] != '$' {
		n++
	}
	if n == len(rest) || rest[n] != '$' || n > 1 && isDigit(rest[1]) {
		return p.notOurs('$')
	}
	tag := rest[:n+1]
	i := strings.Index(rest[len(tag):], tag)
	if i < 0 {
		return p.open(rest, tag)
	}
	p.take(i + 2*len(tag))
	return nil
}

// colon takes a parameter, a cast (::), an assignment (:=) or a lone colon.
func (p *sqlParser) colon(rest string) error {
	var c byte // what follows it
	if len(rest) > 1 {
		c = rest[1]
	}
	switch {
	case c == ':' || c == '=':
		p.take(2)
	case c == '"':
		n, err := p.quoted(rest[1:], '"', false)
		if err != nil {
			return err
		}
		if n == 2 {
			return p.refuse("write one between the quotes", `:"" names no column`)
		}
		p.at += 1 + n
		p.param(strings.ReplaceAll(rest[2:n], `""`, `"`))
	case isWordByte(c) && !isDigit(c) && c != '$':
		n := 1
		for n < len(rest) && isWordByte(rest[n]) && rest[n] != '$' {
			n++
		}
		p.at += n
		p.param(rest[1:n])
	default:
		p.take(1)
	}
	return nil
}

// notOurs refuses a parameter that is written as the database itself has it: it
// would be bound to whatever comes first.
func (p *sqlParser) notOurs(c byte) error {
	return p.refuse("write :column, such as :id", string(c)+" begins no parameter here")
}

func (p *sqlParser) param(name string) {
	p.params = append(p.params, name)
	p.out.WriteString(p.x.placeholder(len(p.params)))
}

// mainVerbs are what a statement that begins with WITH can do.
var mainVerbs = []string{"SELECT", "VALUES", "INSERT", "UPDATE", "DELETE", "REPLACE", "MERGE"}

// word takes a word or a number.
func (p *sqlParser) word(rest string) error {
	n := 1
	for n < len(rest) && isWordByte(rest[n]) {
		n++
	}
	word := strings.ToUpper(rest[:n])
	if p.verb == "" || p.verb == "WITH" && p.depth == 0 && slices.Contains(mainVerbs, word) {
		p.verb = word
	}
	p.take(n)
	if word == "E" && p.x.escapes && n < len(rest) && rest[n] == '\'' {
		return p.takeQuoted(rest[n:], '\'', true)
	}
	return nil
}

// isWordByte reports whether names and numbers are made of c. The dollar is,
// but not at the beginning.
func isWordByte(c byte) bool {
	return c == '_' || c >= 0x80 || isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '$'
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// beginning returns the first characters of a text, in one line.
func beginning(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if short := cut(s, 20, 0); short != s {
		return short + "…"
	}
	return s
}
