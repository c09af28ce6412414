package cmd

import (
	"strconv"
	"strings"
)

// shown returns a value of the table or the configuration as it may stand on a
// terminal: quoted if it holds what cannot be printed, which might be an escape
// code or look like a line of ours.
func shown(s string) string {
	if escaped(s) == s {
		return s
	}
	return strconv.Quote(s)
}

// escaped returns text of our own, with values in it, without anything that a
// terminal would take for more than text.
func escaped(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '\uFFFD' && !strings.HasPrefix(s[i:], "\uFFFD"): // a byte that is no UTF-8
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[i]), 16))
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}
