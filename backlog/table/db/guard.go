package db

import (
	"slices"
	"strings"
)

// A Judge is the kind of rule by which a database refuses what is written to a row.
type Judge int

// The kinds of rules.
const (
	Unjudged   Judge = iota // the database does not say
	Unique                  // no two rows may be alike: a unique index, an exclusion constraint
	ForeignKey              // another table must have the value, or must not
	Check                   // a CHECK constraint of the table
	NotNull                 // a column takes no NULL
	Type                    // a column's type, its length, or a domain
	Overflow                // a number is too large for its column
	Trigger                 // a trigger raises, or fails
)

// A Guard is a constraint or a trigger that judges an UPDATE of a table.
type Guard struct {
	Judge   Judge
	Name    string   // of the constraint; of the trigger, or of its function where errors name that
	Columns []string // those that the catalogue lists
	Text    string   // SQL in which others are named
	Whole   bool     // it is handed the row as a whole, and may look at any column
}

// judges are the kinds of rules as queries of catalogues tell them.
var judges = map[string]Judge{"c": Check, "f": ForeignKey, "t": Trigger}

// Guards returns the guards of rows that have a kind (c, f or t), a name, a body, columns divided
// by a character 1, and whole, which says yes or no.
func Guards(rows []Row) (list []Guard) {
	for _, r := range rows {
		columns := NonEmpty(strings.Split(r["columns"], "\x01")...)
		list = append(list, Guard{Judge: judges[r["kind"]], Name: r["name"], Columns: columns, Text: r["body"], Whole: r.Is("whole")})
	}
	return list
}

// Names returns which of the columns the guard names.
func (g *Guard) Names(columns []string) []string {
	words := Words(g.Text)
	return slices.DeleteFunc(slices.Clone(columns), func(name string) bool {
		is := func(word string) bool { return strings.EqualFold(word, name) }
		return !slices.ContainsFunc(g.Columns, is) && !slices.ContainsFunc(words, is)
	})
}

// SeesAll reports whether the guard may look at columns that it does not name: the row is
// handed on as a whole, as by to_jsonb(NEW). To return it is nothing of the kind.
func (g *Guard) SeesAll() bool {
	if g.Whole {
		return true
	}
	words := Words(g.Text)
	for i, word := range words {
		if !strings.EqualFold(word, "NEW") && !strings.EqualFold(word, "OLD") {
			continue
		}
		returned := i > 0 && strings.EqualFold(words[i-1], "RETURN")
		followed := i+2 < len(words) && words[i+1] == "." && words[i+2] != "*"
		if !returned && !followed {
			return true
		}
	}
	return false
}

// Words returns the names and signs of an SQL text, each sign alone, without comments and
// strings. Names lose their quotes.
func Words(text string) (words []string) {
	for text != "" {
		c := text[0]
		switch {
		case strings.HasPrefix(text, "--"):
			_, text, _ = strings.Cut(text, "\n")
		case strings.HasPrefix(text, "/*"):
			_, text, _ = strings.Cut(text[2:], "*/")
		case c == '\'':
			_, text = quoted(text)
		case c == '"' || c == '`':
			var name string
			name, text = quoted(text)
			words = append(words, name)
		case isNamed(c):
			rest := strings.TrimLeftFunc(text, func(r rune) bool { return r >= 0x80 || isNamed(byte(r)) })
			words = append(words, text[:len(text)-len(rest)])
			text = rest
		default:
			if strings.TrimSpace(text[:1]) != "" {
				words = append(words, text[:1])
			}
			text = text[1:]
		}
	}
	return words
}

// isNamed reports whether a byte can be a part of a name without quotes, or of a number.
func isNamed(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= 0x80
}

// quoted splits a text that begins with a quote behind the end of the quoted part, whose
// quotes are taken off.
func quoted(text string) (inner, rest string) {
	quote := text[:1]
	rest = text[1:]
	for {
		part, behind, closed := strings.Cut(rest, quote)
		inner += part
		rest = behind
		if !closed || !strings.HasPrefix(rest, quote) { // twice it is one
			return inner, rest
		}
		inner += quote
		rest = rest[1:]
	}
}

// Parenthesized returns what stands in the parentheses with which the text begins.
func Parenthesized(text string) (inner string) {
	var depth int
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
			if depth == 0 {
				return text[1:i]
			}
		case '\'', '"', '`':
			_, rest := quoted(text[i:])
			i = len(text) - len(rest) - 1
		}
	}
	return ""
}
