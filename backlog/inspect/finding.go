package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/tiers"
)

// A Finding is the result of one check.
type Finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Cure   string `json:"cure"`
	// Warning says that the program works nevertheless, so that OK is true too.
	Warning bool `json:"warning"`
}

// Findings are the results of checks, in their order.
type Findings []Finding

// AddGood adds that something is right.
func (l *Findings) AddGood(name, format string, args ...any) {
	*l = append(*l, Finding{Name: name, OK: true, Detail: fmt.Sprintf(format, args...)})
}

// AddWarning adds a problem with which the program works nevertheless.
func (l *Findings) AddWarning(name, cure, format string, args ...any) {
	*l = append(*l, Finding{Name: name, OK: true, Warning: true, Detail: fmt.Sprintf(format, args...), Cure: cure})
}

// Text returns the findings for people.
func (l Findings) Text() string {
	var b strings.Builder
	for _, f := range l {
		mark := "ok   "
		if f.Warning {
			mark = "warn "
		} else if !f.OK {
			mark = "FAIL "
		}
		lines := strings.Split(f.Detail, "\n")
		for i, line := range lines {
			lines[i] = Escaped(line)
		}
		fmt.Fprintf(&b, "%s %-11s %s\n", mark, f.Name, strings.Join(lines, "\n                  "))
		if f.Cure != "" {
			fmt.Fprintf(&b, "                  cure: %s\n", Escaped(f.Cure))
		}
	}
	return b.String()
}

// CheckTiers warns about tiers that add next to nothing, because they tick too seldom for their ages, or not
// more often than a wider one, and about a schedule that leaves records untried.
func (l *Findings) CheckTiers(s *tiers.Schedule) {
	list := s.Tiers()
	everyRecordTried := slices.ContainsFunc(list, triesAll)
	youngest := time.Duration(0)
	for i, t := range list {
		interval := t.MinInterval()
		name := Shown(t.Name)
		band := t.MaxAge - youngest // how long a record is of the tier's own ages
		isWidest := i == len(list)-1
		switch {
		case isWidest && !everyRecordTried:
			missed := "some of them"
			if interval >= 2*t.MaxAge {
				missed = "most of them"
			}
			l.AddWarning("tiers", "let it tick more often, or widen it", "the tier %s takes records up to %s old, but ticks %s: %s are too old by then and are never tried",
				name, tiers.FormatDuration(t.MaxAge), Often(t), missed)
		case interval > band:
			l.AddWarning("tiers", "let it tick more often, widen it, or remove it", "the tier %s ticks %s, but a record has its ages, %s to %s, for %s only: most records get no attempt in it",
				name, Often(t), tiers.FormatDuration(youngest), tiers.FormatDuration(t.MaxAge), tiers.FormatDuration(band))
		}
		makesNeedless := func(wider tiers.Tier) bool { return ticksAsOften(wider, t) }
		if at := slices.IndexFunc(list[i+1:], makesNeedless); at >= 0 {
			wider := list[i+1+at]
			l.AddWarning("tiers", "let it tick more often than the wider one, or remove it", "the tier %s ticks %s, and the wider tier %s, which takes its records too, %s: it adds next to nothing",
				name, Often(t), Shown(wider.Name), Often(wider))
		}
		youngest = t.MaxAge
	}
}

// triesAll reports whether the tier ticks at least once while a record is young enough for it.
func triesAll(t tiers.Tier) bool { return t.MinInterval() <= t.MaxAge }

// ticksAsOften reports whether the wider tier ticks more often than t, or at the same times.
func ticksAsOften(wider, t tiers.Tier) bool {
	isSameTime := t.Cron == wider.Cron && t.Offset == wider.Offset
	return wider.MinInterval() < t.MinInterval() || wider.MinInterval() == t.MinInterval() && isSameTime
}

// shortestDelay returns the shortest delay that the policy may draw after one of the first 100
// failures. Delays of 0, which end at the next tick, do not count; 0: there are no others.
func shortestDelay(p *backlog.Policy) time.Duration {
	shortest := time.Duration(0)
	for n := 1; n <= 100; n++ {
		least, _ := p.Wait(n)
		if least > 0 && (shortest == 0 || least < shortest) {
			shortest = least
		}
		if p.GivenUp(n + 1) {
			break
		}
	}
	return shortest
}

// CheckPolicy warns about delays that the schedule cannot keep, because passes start only at ticks.
func (l *Findings) CheckPolicy(p *backlog.Policy, s *tiers.Schedule) {
	if p.Never || p.Retries == 0 {
		l.AddGood("policy", "%s: a record that has failed once is not tried again", p.Name)
		return
	}
	shortest := shortestDelay(p)
	tick := s.MinInterval()
	delay := tiers.FormatDuration(shortest)
	interval := tiers.FormatDuration(tick)
	switch {
	case shortest > 0 && shortest < tick:
		l.AddWarning("policy", "make a tier tick more often, or wait longer", "the shortest delay of %s is %s, but the schedule looks only every %s",
			p.Name, delay, interval)
	case shortest > 0 && shortest%tick == 0: // it ends a moment after a tick, and waits for the next one
		l.AddWarning("policy", "make a tier tick more often, or wait a little less", "the shortest delay of %s is %s, which ends a moment after a tick: it begins when an attempt ends, and the schedule looks every %s",
			p.Name, delay, interval)
	default:
		l.AddGood("policy", "%s", p.Name)
	}
}
