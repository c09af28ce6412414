package cmd

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"backlog/backlog"
	"backlog/backlog/table"
	"backlog/backlog/table/doctor"
)

// policy finds settings of the policy that have no effect.
func (k *checker) policy() {
	p := policyOf(k.cfg)
	switch {
	case p == nil:
	case p.Refresher != nil:
		k.refresh(refreshOf(k.cfg), k.now)
	default:
		k.CheckPolicy(p, k.cfg.Tiers)
	}
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
		k.AddWarning("rules", "mend them: such a row is not started", "%s of the %d looked at cannot be read; the first: %s", plural(n, "rule"), len(list), first)
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
		k.AddGood(name, "%s", c.Checked())
	}
	if n, ok := h.(interface{ Notes() []string }); ok {
		for _, note := range n.Notes() {
			what, cure, _ := strings.Cut(note, "; ")
			k.AddWarning(name, cure, "%s", what)
		}
	}
}

func (k *checker) counts(ctx context.Context) {
	c, err := k.table.Count(ctx, k.now, maxAges(k.cfg.Tiers))
	if k.bad("records", err) {
		return
	}
	k.leftAlone = doctor.Statuses(&k.Findings, k.cfg.Table, c)
	beyond := c.Beyond.Fresh + c.Beyond.Failed
	k.AddGood("records", "%d pending, %d of them older than every tier", c.Pending(), beyond)
	if beyond > 0 && beyond == c.Pending() {
		k.AddWarning("records", "if rows come in that are young, look at the zone: `timezone:`, or `zone:` of the column", "the newest of them is older than every tier: none is tried")
	}
	if c.Exhausted > 0 {
		k.AddGood("records", "%d out of retries besides", c.Exhausted)
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
		k.AddWarning("dates", "give them one, or say what a missing one means: table.inserted: {column: …, \"null\": oldest, zero: oldest}",
			"%s without a date: never tried", plural(none, "pending row"))
	}
	if n > 0 {
		k.AddWarning("dates", "mend the rows", "%s whose date cannot be right: not tried while that is so; the first: %v", plural(n, "pending row"), first)
	}
}
