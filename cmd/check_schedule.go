package cmd

import (
	"backlog/tiers"
)

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
	shortest, _ := p.Wait(1)
	for n := 2; n <= 100 && !p.GivenUp(n); n++ {
		least, _ := p.Wait(n)
		shortest = min(shortest, least)
	}
	tick := k.cfg.Tiers.MinInterval()
	switch {
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
