package cmd

import (
	"time"

	"backlog/tiers"
)

// tiers finds tiers that do next to nothing: those that tick too seldom for the
// ages that are theirs, and those that a wider one outdoes.
func (k *checker) tiers() {
	list := k.cfg.Tiers.Tiers()
	from := time.Duration(0)
	reliable := false // whether every record is tried at least once
	for i, t := range list {
		gap, text := k.gap(t), often(t)
		band := t.MaxAge - from
		switch {
		case gap > band && from == 0 && i == len(list)-1, gap > band && i == len(list)-1 && !reliable:
			k.warn("tiers", "let it tick more often, or widen it", "the tier %s takes records up to %s old, but ticks %s: most of them are too old by then and are never tried",
				shown(t.Name), tiers.FormatDuration(t.MaxAge), text)
		case gap > band:
			k.warn("tiers", "let it tick more often, widen it, or remove it", "the tier %s ticks %s, but a record is of its ages, %s to %s, for %s only: it tries few",
				shown(t.Name), text, tiers.FormatDuration(from), tiers.FormatDuration(t.MaxAge), tiers.FormatDuration(band))
		}
		reliable = reliable || gap <= t.MaxAge
		for _, wider := range list[i+1:] {
			if w := k.gap(wider); w < gap || w == gap && t.Cron == wider.Cron && t.Offset == wider.Offset {
				k.warn("tiers", "let it tick more often than the wider one, or remove it", "the tier %s ticks %s, and the wider tier %s, which takes its records too, %s: it adds next to nothing",
					shown(t.Name), text, shown(wider.Name), often(wider))
				break
			}
		}
		from = t.MaxAge
	}
}

// gap returns the time between two ticks of the tier, the shortest of those to
// come.
func (k *checker) gap(t tiers.Tier) time.Duration {
	if t.Cron == "" {
		return t.Every
	}
	const ticks = 50
	at := t.Next(k.now)
	shortest := time.Duration(0)
	for range ticks {
		next := t.Next(at)
		if gap := next.Sub(at); shortest == 0 || gap < shortest {
			shortest = gap
		}
		at = next
	}
	return shortest
}

// policy finds delays that the schedule cannot keep: it looks at ticks only.
func (k *checker) policy() {
	p := policyOf(k.cfg)
	switch {
	case p == nil:
		return
	case p.Never || p.Retries == 0:
		k.good("policy", "%s: a record that has failed once is not tried again", p.Name)
		return
	}
	shortest := time.Duration(0) // but for none at all, which is one until the next tick
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
