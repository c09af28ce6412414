package cmd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"backlog/backlog/config"
	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
)

func (k *checker) counts(ctx context.Context) {
	c, err := countOf(ctx, k.table, k.cfg, k.now)
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
	if c.Unreadable == 0 {
		return
	}
	n, first, err := k.table.Wrong(ctx, k.now)
	if k.bad("dates", err) {
		return
	}
	if none := c.Unreadable - n; none > 0 {
		k.warn("dates", "give them one, or say what a missing one means: table.inserted: {column: …, \"null\": oldest, zero: oldest}",
			"%s without a date: never tried", plural(none, "pending row"))
	}
	if n > 0 {
		k.warn("dates", "mend the rows", "%s whose date cannot be right: not tried while that is so; the first: %v", plural(n, "pending row"), first)
	}
}

// statuses finds rows that no pass takes because of their status. Passes say nothing
// where no row has a configured status, or where one differs in capitals only: that
// is a warning. Other statuses are rightly left alone, and named.
func (k *checker) statuses(c inspect.Counts) {
	s := k.cfg.Table
	configured := statusValues(k.cfg, s.New, s.Error, s.Success, s.Dead)
	if len(configured) == 0 || len(c.ByStatus) == 0 {
		return
	}
	known := func(text string) bool { return slices.Contains(configured, text) }
	has := slices.SortedFunc(maps.Keys(c.ByStatus), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.ByStatus[b], c.ByStatus[a]), cmp.Compare(a, b))
	})
	if c.Pending()+c.Exhausted == 0 && !slices.ContainsFunc(has, known) {
		k.warn("statuses", "write under statuses: what the table has; capitals count", "no row has a status of the configuration, which names %s; the table has %s",
			strings.Join(each(configured, shown), ", "), countedList(has, c.ByStatus))
		return
	}
	pending, taken := statusValues(k.cfg, s.New, s.Error), 0
	for _, text := range pending {
		taken += c.ByStatus[text]
	}
	if taken != c.Pending()+c.Exhausted {
		return // the database compares texts in a way of its own
	}
	var others []string
	for _, text := range has {
		like := func(value string) bool { return strings.EqualFold(strings.TrimSpace(text), value) }
		if i := slices.IndexFunc(pending, like); i >= 0 && !known(text) {
			k.warn("statuses", "write under statuses: what the table has, or mend the rows", "%s with the status %q, which differs from %s in capitals or spaces only: never tried",
				plural(c.ByStatus[text], "row"), text, shown(pending[i]))
		} else if !slices.ContainsFunc(configured, like) {
			others = append(others, text)
		}
	}
	for _, text := range statusValues(k.cfg, s.New) {
		if near := config.Near(text, others); near != "" && c.ByStatus[text] == 0 {
			k.warn("statuses", "write under statuses: what the table has", "statuses.new: no row has %s; the table has %s: is that meant?", shown(text), countedList([]string{near}, c.ByStatus))
		}
	}
	if len(others) > 0 {
		k.leftAlone = "; left alone: " + countedList(others, c.ByStatus)
	}
}

// countedList shows the first few statuses, with their counts.
func countedList(list []string, counts map[string]int) string {
	const most = 5
	more := ""
	if len(list) > most {
		list, more = list[:most], fmt.Sprintf(" and %d more", len(list)-most)
	}
	counted := func(s string) string { return fmt.Sprintf("%s (%d)", shown(s), counts[s]) }
	return strings.Join(each(list, counted), ", ") + more
}

// statusValues returns the status column's values for the states, none if another
// column takes part in a state.
func statusValues(cfg *config.Config, states ...mapping.State) (list []string) {
	for _, x := range states {
		values, others := ofStatus(cfg, x)
		if others {
			return nil
		}
		for _, v := range values {
			text := v.Text
			if v.Null {
				text = "NULL"
			}
			if !slices.Contains(list, text) {
				list = append(list, text)
			}
		}
	}
	return list
}

// ofStatus returns the status column's values for the state, and whether other
// columns take part in it.
func ofStatus(cfg *config.Config, x mapping.State) (values []mapping.Value, others bool) {
	values = slices.Clone(x.Values)
	for _, c := range x.When {
		if strings.EqualFold(c.Column, cfg.Table.Status) {
			values = append(values, c.Values...)
		} else {
			others = true
		}
	}
	return values, others
}
