package cmd

import (
	"context"
	"strings"

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
	doctor.CheckDates(ctx, &k.Findings, k.table, c, maxAges(k.cfg.Tiers), k.now)
}
