package cmd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/config"
	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
	"backlog/backlog/table"
	"backlog/tiers"
)

// tiers finds tiers that add next to nothing: a tier may tick too seldom for its
// ages, or less often than a wider one.
func (k *checker) tiers() {
	list := k.cfg.Tiers.Tiers()
	from := time.Duration(0)
	reliable := false // whether every record is tried at least once
	for i, t := range list {
		gap, text := t.MinInterval(), often(t)
		band := t.MaxAge - from
		switch {
		case gap > band && i == len(list)-1 && !reliable:
			k.warn("tiers", "let it tick more often, or widen it", "the tier %s takes records up to %s old, but ticks %s: most of them are too old by then and are never tried",
				shown(t.Name), tiers.FormatDuration(t.MaxAge), text)
		case gap > band:
			k.warn("tiers", "let it tick more often, widen it, or remove it", "the tier %s ticks %s, but a record is of its ages, %s to %s, for %s only: it tries few",
				shown(t.Name), text, tiers.FormatDuration(from), tiers.FormatDuration(t.MaxAge), tiers.FormatDuration(band))
		}
		reliable = reliable || gap <= t.MaxAge
		for _, wider := range list[i+1:] {
			if w := wider.MinInterval(); w < gap || w == gap && t.Cron == wider.Cron && t.Offset == wider.Offset {
				k.warn("tiers", "let it tick more often than the wider one, or remove it", "the tier %s ticks %s, and the wider tier %s, which takes its records too, %s: it adds next to nothing",
					shown(t.Name), text, shown(wider.Name), often(wider))
				break
			}
		}
		from = t.MaxAge
	}
}

// policy finds delays that the schedule cannot keep, since it looks only at ticks.
func (k *checker) policy() {
	p := policyOf(k.cfg)
	switch {
	case p == nil:
		return
	case p.Refresher != nil:
		k.refresh(refreshOf(k.cfg), k.now)
		return
	case p.Never || p.Retries == 0:
		k.good("policy", "%s: a record that has failed once is not tried again", p.Name)
		return
	}
	shortest := time.Duration(0) // a delay of 0 lasts until the next tick and is left out
	for n := 1; n == 1 || n <= 100 && !p.GivenUp(n); n++ {
		if least, _ := p.Wait(n); least > 0 && (shortest == 0 || least < shortest) {
			shortest = least
		}
	}
	tick := k.cfg.Tiers.MinInterval()
	switch {
	case shortest == 0:
	case shortest < tick:
		k.warn("policy", "make a tier tick more often, or wait longer", "the shortest delay of %s is %s, but the schedule looks only every %s",
			p.Name, tiers.FormatDuration(shortest), tiers.FormatDuration(tick))
		return
	case shortest%tick == 0:
		k.warn("policy", "make a tier tick more often, or wait a little less", "the shortest delay of %s is %s, which ends a moment after a tick: it begins when an attempt ends, and the schedule looks every %s",
			p.Name, tiers.FormatDuration(shortest), tiers.FormatDuration(tick))
		return
	}
	k.good("policy", "%s", p.Name)
}

// rules looks at the rules of rows: one whose rule cannot be read is not started.
func (k *checker) rules(ctx context.Context) {
	p := refreshOf(k.cfg)
	if p == nil || p.Settings().RRule.Column == "" {
		return
	}
	list, err := k.table.Rules(ctx, p.Settings().RRule.Column)
	k.bad("rules", err)
	n, first := 0, ""
	for _, text := range list {
		if _, err := p.Rule(backlog.Refresh{Rule: text}); err != nil {
			if n++; n == 1 {
				first = fmt.Sprintf("%s: %v", shown(text), err)
			}
		}
	}
	if n > 0 {
		k.warn("rules", "mend them: such a row is not started", "%s of the %d looked at cannot be read; the first: %s", plural(n, "rule"), len(list), first)
	}
}

// tools checks the handlers, and returns those that there are.
func (k *checker) tools(ctx context.Context) (h, onDead tool) {
	h, err := newHandler(ctx, k.cfg, nil)
	k.tool(ctx, "handler", h, err)
	onDead, err = newOnDead(ctx, k.cfg, nil)
	k.tool(ctx, "on_dead", onDead, err)
	onOutage, err := newOnOutage(ctx, k.cfg, nil)
	k.tool(ctx, "on_outage", onOutage, err)
	return h, onDead
}

// tool checks the handler or on_dead, if there is one, with its network.
func (k *checker) tool(ctx context.Context, name string, h tool, err error) {
	if h != nil {
		err = h.Check(ctx)
	}
	if k.bad(name, err) || h == nil {
		return
	}
	if c, ok := h.(interface{ Checked() string }); ok {
		k.good(name, "%s", c.Checked())
	}
	if n, ok := h.(interface{ Notes() []string }); ok {
		for _, note := range n.Notes() {
			what, cure, _ := strings.Cut(note, "; ")
			k.warn(name, cure, "%s", what)
		}
	}
}

func (k *checker) counts(ctx context.Context) {
	c, err := k.table.Count(ctx, k.now, maxAges(k.cfg.Tiers))
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
	n, first := 0, error(nil)
	for after, more := (backlog.Cursor{}), true; more; more = !after.IsZero() {
		page, err := k.table.List(ctx, table.Filter{State: "unreadable", Ages: maxAges(k.cfg.Tiers)}, k.now, after, 1000)
		if k.bad("dates", err) {
			return
		}
		for _, row := range page.Rows {
			if row.Unreadable != nil {
				n, first = n+1, cmp.Or(first, row.Unreadable)
			}
		}
		after = page.Next
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
		if near := mapping.Near(text, others); near != "" && c.ByStatus[text] == 0 {
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
