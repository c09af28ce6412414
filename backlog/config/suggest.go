package config

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
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
		if n := distance(got, fold(w)); n < least {
			best, least = w, n
		}
	}
	return best
}

var separators = strings.NewReplacer("_", "", "-", "", " ", "")

// fold makes maxAge, max-age and MAX_AGE alike. What is too long to be a slip
// of any key is cut, which bounds the work of distance.
func fold(s string) string {
	s = s[:min(len(s), 40)]
	return strings.ToLower(separators.Replace(s))
}

// distance returns how many bytes must be inserted, removed, replaced or
// swapped with the next one to turn a into b.
func distance(a, b string) int {
	// Rows of the usual table: two rows up, one row up, and the current one.
	var older, old []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		older, old, row = old, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(old[j+1]+1, row[j]+1, old[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], older[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// isBare reports whether s is short and of letters, digits and the given marks.
// It is no regular expression, since those would be compiled at every start of
// the program.
func isBare(s, marks string) bool {
	other := func(r rune) bool {
		return r == utf8.RuneError || !unicode.IsLetter(r) && !unicode.IsNumber(r) && !strings.ContainsRune(marks, r)
	}
	return s != "" && utf8.RuneCountInString(s) <= 63 && !strings.ContainsFunc(s, other)
}

// isWord reports whether s is like the name of a key.
func isWord(s string) bool {
	first, _ := utf8.DecodeRuneInString(s)
	return isBare(s, "_.-") && (first == '_' || unicode.IsLetter(first))
}

// show returns s as it goes into an error: quoted unless that is clear without,
// and not too long.
func show(s string) string {
	if isBare(s, "_.:/+-") {
		return s
	}
	const most = 60
	if r := []rune(s[:min(len(s), 4*most)]); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return strconv.Quote(s)
}
