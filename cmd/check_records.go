package cmd

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"backlog/backlog/config"
)

func (k *checker) counts(ctx context.Context) {
	list := k.cfg.Tiers.Tiers()
	edges := make([]time.Duration, len(list))
	for i, t := range list {
		edges[i] = t.MaxAge
	}
	c, err := countOf(ctx, k.table, k.cfg, k.now, edges)
	if k.bad("records", err) {
		return
	}
	k.statuses(c)
	beyond := c.Beyond.Fresh + c.Beyond.Failed
	k.good("records", "%d pending, %d of them older than every tier", c.Pending(), beyond)
	if beyond > 0 && beyond == c.Pending() {
		k.warn("records", "if rows come in that are young, look at the zone: `timezone:`, or `zone:` of the column", "the newest of them is older than every tier: none is tried")
	}
	if c.Exhausted > 0 {
		k.good("records", "%d out of retries besides", c.Exhausted)
	}
	if n, err := k.table.Keyless(ctx); n > 0 {
		k.warn("keys", "give them one", "%s without a key, or with a NULL in it: never tried", plural(n, "pending row"))
	} else {
		k.bad("keys", err)
	}
	n, first, err := k.table.Wrong(ctx, k.now)
	if none := c.Unreadable - n; none > 0 {
		k.warn("dates", "give them one, or say what a missing one means: table.inserted: "+withNull(k.cfg.Table.Inserted), "%s without a date: never tried", plural(none, "pending row"))
	}
	if err == nil && n > 0 {
		k.warn("dates", "mend the rows", "%s whose date cannot be right: not tried while that is so; the first: %v", plural(n, "pending row"), first)
	} else {
		k.bad("dates", err)
	}
}

// withNull is what is written for the column when a missing date is to mean that
// the record is old.
func withNull(c config.TimeColumn) string {
	text := "{column: " + inYAML(c.Column)
	if c.As != "" {
		text += ", as: " + inYAML(c.As)
	}
	if c.Zone != nil {
		text += ", zone: " + inYAML(c.Zone.String())
	}
	return text + `, "null": oldest}`
}

var yamlWord = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_/]*$`)

// inYAML returns a text as a configuration has it.
func inYAML(s string) string {
	other := []string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"} // which YAML takes for something else
	if yamlWord.MatchString(s) && !slices.Contains(other, strings.ToLower(s)) {
		return s
	}
	return strconv.Quote(s)
}
