package cmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"backlog/backlog"
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
