package db

import (
	"slices"
	"strings"

	"backlog/internal/lists"
)

// A GuardKind is the kind of rule by which a database refuses a write to a row.
type GuardKind int

// The kinds of guards.
const (
	UnknownGuard GuardKind = iota // the database does not say which
	Unique                        // a unique index or an exclusion constraint
	ForeignKey                    // another table must have the value, or must not reference it
	Check                         // a CHECK constraint
	NotNull                       // a NOT NULL column
	Type                          // the type of a column, its length, or its domain
	Overflow                      // a number is too large for its column
	Trigger                       // a trigger raised an error, or failed
)

// A Guard is a constraint or a trigger that can refuse an UPDATE of a table.
type Guard struct {
	Kind     GuardKind
	Name     string   // of the constraint or trigger; of the trigger's function if errors name that
	Columns  []string // that the catalog lists
	Text     string   // the SQL of the condition or of the trigger, which may mention more columns
	WholeRow bool     // it gets the row as a whole, so that it may read any column
}

// guardKinds are the kinds as the catalog queries of the dialects return them.
var guardKinds = map[string]GuardKind{"c": Check, "f": ForeignKey, "t": Trigger}

// Guards makes guards of the rows of a catalog query. Their columns are kind (c, f or t),
// name, body, columns (separated by the character 1) and whole (yes or no).
func Guards(rows []Row) (list []Guard) {
	for _, r := range rows {
		columns := lists.NonEmpty(strings.Split(r["columns"], "\x01")...)
		list = append(list, Guard{
			Kind:     guardKinds[r["kind"]],
			Name:     r["name"],
			Columns:  columns,
			Text:     r["body"],
			WholeRow: r.Is("whole"),
		})
	}
	return list
}

// Mentions returns the columns that the guard mentions.
func (g *Guard) Mentions(columns []string) []string {
	words := Tokens(g.Text)
	return slices.DeleteFunc(slices.Clone(columns), func(name string) bool {
		is := func(word string) bool { return strings.EqualFold(word, name) }
		return !slices.ContainsFunc(g.Columns, is) && !slices.ContainsFunc(words, is)
	})
}

// ReadsWholeRow reports whether the guard may read columns that it does not mention, because
// it passes the row on as a whole, such as to to_jsonb(NEW). RETURN NEW does not count.
func (g *Guard) ReadsWholeRow() bool {
	if g.WholeRow {
		return true
	}
	words := Tokens(g.Text)
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

// Tokens splits an SQL text into names and single punctuation characters. Comments and
// strings are left out, and names lose their quotes.
func Tokens(text string) (words []string) {
	for text != "" {
		c := text[0]
		switch {
		case strings.HasPrefix(text, "--"):
			_, text, _ = strings.Cut(text, "\n")
		case strings.HasPrefix(text, "/*"):
			_, text, _ = strings.Cut(text[2:], "*/")
		case c == '\'':
			_, text = cutQuoted(text)
		case c == '"' || c == '`':
			var name string
			name, text = cutQuoted(text)
			words = append(words, name)
		case isNameByte(c):
			rest := strings.TrimLeftFunc(text, func(r rune) bool { return r >= 0x80 || isNameByte(byte(r)) })
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

// isNameByte reports whether a byte can be part of a number or of a name without quotes.
func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= 0x80
}

// cutQuoted takes the quoted name or string off the beginning of text. It returns it without
// its quotes, and the rest of the text.
func cutQuoted(text string) (inner, rest string) {
	quote := text[:1]
	rest = text[1:]
	for {
		part, behind, closed := strings.Cut(rest, quote)
		inner += part
		rest = behind
		if !closed || !strings.HasPrefix(rest, quote) { // a doubled quote stands for one
			return inner, rest
		}
		inner += quote
		rest = rest[1:]
	}
}

// Parenthesized returns what is inside the parentheses with which text begins.
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
			_, rest := cutQuoted(text[i:])
			i = len(text) - len(rest) - 1
		}
	}
	return ""
}
