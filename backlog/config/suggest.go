package config

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"

	"backlog/backlog/mapping"
)

// suggest names the word that was probably meant or, if none is near, all of
// them after the label.
func suggest(got, label string, words []string) string {
	if best := Near(got, words); best != "" {
		return "did you mean " + best + "?"
	}
	return label + ": " + strings.Join(words, ", ")
}

// Near returns the word that was probably meant, "" if none is near.
func Near(got string, words []string) (best string) {
	got = fold(got)
	least := len(got)/3 + 1
	for _, w := range words {
		n := levenshtein.ComputeDistance(got, fold(w))
		if letters(got) == letters(fold(w)) { // swapped
			n = min(n, 1)
		}
		if n < least {
			best, least = w, n
		}
	}
	return best
}

var separators = strings.NewReplacer("_", "", "-", "", " ", "")

// fold makes maxAge, max-age and MAX_AGE alike. What is too long to be a slip
// of any key is cut, which bounds the work of comparing.
func fold(s string) string {
	s = s[:min(len(s), 40)]
	return strings.ToLower(separators.Replace(s))
}

func letters(s string) string {
	b := []byte(s)
	slices.Sort(b)
	return string(b)
}

// isWord reports whether s is like the name of a key. It is no regular
// expression, because that would be compiled at every start.
func isWord(s string) bool {
	first, _ := utf8.DecodeRuneInString(s)
	return (first == '_' || unicode.IsLetter(first)) && show(s) == s && !strings.ContainsAny(s, ":/+")
}

func show(s string) string { return mapping.Show(s) }
