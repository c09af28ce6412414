package config

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"backlog/backlog/mapping"
)

// suggest names the word that was probably meant or, if none is near, all of
// them after the label.
func suggest(got, label string, words []string) string {
	if best := mapping.Near(got, words); best != "" {
		return "did you mean " + best + "?"
	}
	return label + ": " + strings.Join(words, ", ")
}

// isWord reports whether s is like the name of a key. It is no regular
// expression, because that would be compiled at every start.
func isWord(s string) bool {
	first, _ := utf8.DecodeRuneInString(s)
	return (first == '_' || unicode.IsLetter(first)) && show(s) == s && !strings.ContainsAny(s, ":/+")
}

func show(s string) string { return mapping.Show(s) }
