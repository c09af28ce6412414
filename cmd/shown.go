package cmd

import (
	"strconv"
	"strings"
	"time"

	"backlog/tiers"
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

// shortly returns a duration in its two largest units: of 6d3h0m50s people read
// 6d3h.
func shortly(d time.Duration) string {
	for _, unit := range []struct{ from, to time.Duration }{{24 * time.Hour, time.Hour}, {time.Hour, time.Minute}} {
		if d.Abs() >= unit.from {
			return tiers.FormatDuration(d.Truncate(unit.to))
		}
	}
	return tiers.FormatDuration(d.Truncate(time.Second))
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
