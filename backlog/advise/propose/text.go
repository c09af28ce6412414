package propose

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"backlog/backlog/advise"
	"backlog/backlog/inspect"
	"backlog/tiers"
)

// Text returns the advice for people: the answer first, then how it comes about.
func (a *Advice) Text() string {
	var b strings.Builder
	b.WriteString(a.answer())
	b.WriteString(a.learnedText())
	if len(a.Proposals) > 0 {
		b.WriteString("\n" + inspect.Columns(a.table()))
		fmt.Fprintf(&b, "Counted: %s calls a day, those in outages included.\n", thousands(a.Counted))
	}
	for _, w := range a.Warnings {
		fmt.Fprintf(&b, "\nNote: %s.\n", w)
	}
	if a.Kind == Propose {
		fmt.Fprintf(&b, "\n%s:\n\n%s", a.Proposals[1].Name, a.YAML())
	}
	return b.String()
}

// answer returns what the advice comes to.
func (a *Advice) answer() string {
	var b strings.Builder
	switch a.Kind {
	case Propose:
		b.WriteString("A better schedule than today's is below.\n")
	case Keep:
		b.WriteString("Keep what you have.\n")
	case Wait:
		b.WriteString("Not enough is known yet for a proposal.\n")
	case Impossible:
		b.WriteString("There is no such schedule.\n")
	}
	for _, reason := range a.Reasons {
		fmt.Fprintf(&b, "  %s\n", reason)
	}
	if a.WaitDays != nil {
		fmt.Fprintf(&b, "  ask again in about %s\n", inspect.Plural(int(*a.WaitDays), "day"))
	}
	return b.String()
}

// learnedText returns what was learned.
func (a *Advice) learnedText() string {
	l := a.Learned
	if l.From == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nLearned from %.1f days, %s to %s: %s, %s, %s, %s.\n",
		l.Days, inspect.When(*l.From), inspect.When(*l.To),
		many(l.Passes, "pass", "passes"), many(l.Records, "record", "records"), many(l.Attempts, "attempt", "attempts"),
		many(l.Recoveries, "recovery", "recoveries"))
	if l.Oldest == 0 {
		return b.String()
	}
	oldest := tiers.FormatDuration(seconds(l.Oldest))
	fmt.Fprintf(&b, "Of all records %s fail at first; of these %s are still broken at %s.\n",
		percents(l.FirstFailures), percents(l.BrokenForGood), oldest)
	fmt.Fprintf(&b, "Beyond %s nothing is known: of 1,000 that fail at first, between 0 and %.0f recover later.\n", oldest, 1000*l.BrokenForGood.Value)
	if o := l.Outages; o.Count > 0 {
		fmt.Fprintf(&b, "%s, %.1f a week; half of them last up to %s, the longest %s.\n", inspect.Plural(o.Count, "outage"), o.PerWeek, roughly(o.Median), roughly(o.Longest))
	}
	b.WriteString("\nOf the records that recover, so many are still broken:\n")
	b.WriteString(inspect.Columns(stillBrokenRows(l.StillBroken)))
	var heights []int
	for _, p := range l.StillBroken {
		heights = append(heights, int(1000*p.Share))
	}
	fmt.Fprintf(&b, "  %s  by age, as in the table\n", inspect.Sparkline(heights))
	return b.String()
}

// almostNone is a share that is printed as 0.
const almostNone = 0.0005

// many returns a number with its noun.
func many(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return inspect.Thousands(n) + " " + several
}

// stillBrokenRows returns the table of the shares that are still broken. Of the ages at which almost none is, it
// has the first and the last.
func stillBrokenRows(list []advise.StillBroken) []string {
	rows := inspect.Grid{"  AGE\tSHARE\t90 % SURE\tATTEMPTS"}
	for i, p := range list {
		if i > 0 && i < len(list)-1 && list[i-1].Share < almostNone {
			continue
		}
		rows.Add("  %s\t%.1f %%\t%.1f to %.1f\t%s",
			tiers.FormatDuration(seconds(p.Age)), 100*p.Share, 100*p.Low, 100*p.High, inspect.Thousands(p.Attempts))
	}
	return rows
}

// percents returns a share and its interval in percent.
func percents(e advise.Estimate) string {
	return fmt.Sprintf("%.1f %% (%.1f to %.1f)", 100*e.Value, 100*e.Low, 100*e.High)
}

// table returns the figures of the schedules, a row each.
func (a *Advice) table() []string {
	rows := inspect.Grid{"SCHEDULE\tCALLS/DAY\tIN VAIN/DAY\tPEAK\tWAIT P50\tWAIT P95\tNEW WAIT\tRECOVERY\tLOST/1000"}
	for _, p := range a.Proposals {
		f := p.Figures
		rows.Add("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", p.Name,
			between(f.CallsPerDay, thousands), between(f.InVainPerDay, thousands), thousands(f.Peak),
			between(f.Wait.P50, roughly), between(f.Wait.P95, roughly), roughly(f.NewWait), recovery(f.Recovery),
			between(f.LostPer1000, func(x float64) string { return fmt.Sprintf("%.1f", max(0, x)) }))
	}
	return rows
}

// thousands returns a number rounded to a whole one.
func thousands(x float64) string { return inspect.Thousands(int(math.Round(x))) }

// roughly returns a wait in seconds for people, in at most two units.
func roughly(s float64) string {
	if math.IsInf(s, 1) {
		return "never"
	}
	return inspect.Shortly(seconds(s).Round(time.Second))
}

// recovery returns how long it takes after an outage; "-": there was none.
func recovery(s float64) string {
	if s == 0 {
		return "-"
	}
	return roughly(s)
}

// between returns a value and, where they differ from it, the ends of its interval.
func between(e advise.Estimate, text func(float64) string) string {
	value := text(e.Value)
	low := text(e.Low)
	high := text(e.High)
	if low == value && high == value {
		return value
	}
	return fmt.Sprintf("%s (%s–%s)", value, low, high)
}

// HasYAML reports whether there is a schedule to use: the proposed one, or today's if it is to be kept.
func (a *Advice) HasYAML() bool { return a.Kind == Propose || a.Kind == Keep }

// YAML returns the part of a configuration that the advice is about: the proposed one, or today's if it is to
// be kept. There must be one.
func (a *Advice) YAML() string {
	p := a.Proposals[0]
	if a.Kind == Propose {
		p = a.Proposals[1]
	}
	var b strings.Builder
	b.WriteString("tiers:\n")
	if p.Policy != "" {
		for _, t := range p.Tiers {
			fmt.Fprintf(&b, "  - %s\n", tierYAML(t))
		}
		fmt.Fprintf(&b, "policy: %s\n", p.Policy)
		return b.String()
	}
	reasons := Reasons(a.inputs, p.Tiers)
	for i, t := range p.Tiers {
		fmt.Fprintf(&b, "  # %s\n  - %s\n", reasons[i], tierYAML(t))
	}
	return b.String()
}

// tierYAML returns a tier as one line of a configuration.
func tierYAML(t tiers.Tier) string {
	settings := []string{"max_age: " + tiers.FormatDuration(t.MaxAge)}
	if t.Name != tiers.FormatDuration(t.MaxAge) {
		settings = append([]string{"name: " + strconv.Quote(t.Name)}, settings...)
	}
	if t.Cron != "" {
		settings = append(settings, "cron: "+strconv.Quote(t.Cron), "timezone: "+t.Location.String())
	} else {
		settings = append(settings, "every: "+tiers.FormatDuration(t.Every))
	}
	if t.Offset > 0 {
		settings = append(settings, "offset: "+tiers.FormatDuration(t.Offset))
	}
	return "{" + strings.Join(settings, ", ") + "}"
}

// MarshalJSON implements [json.Marshaler].
func (p Proposal) MarshalJSON() ([]byte, error) {
	type tier struct {
		Name     string `json:"name,omitempty"` // unless it is made from the age
		MaxAge   string `json:"max_age"`
		Every    string `json:"every,omitempty"`
		Offset   string `json:"offset,omitempty"`
		Cron     string `json:"cron,omitempty"`
		Timezone string `json:"timezone,omitempty"`
	}
	list := []tier{}
	for _, t := range p.Tiers {
		x := tier{MaxAge: tiers.FormatDuration(t.MaxAge), Cron: t.Cron}
		if t.Name != x.MaxAge {
			x.Name = t.Name
		}
		if t.Cron != "" {
			x.Timezone = t.Location.String()
		} else {
			x.Every = tiers.FormatDuration(t.Every)
		}
		if t.Offset > 0 {
			x.Offset = tiers.FormatDuration(t.Offset)
		}
		list = append(list, x)
	}
	type waits struct {
		P50 advise.Estimate `json:"p50"`
		P95 advise.Estimate `json:"p95"`
	}
	f := p.Figures
	return json.Marshal(struct {
		Name     string          `json:"name"`
		Tiers    []tier          `json:"tiers"`
		Policy   string          `json:"policy,omitempty"`
		Calls    advise.Estimate `json:"calls_per_day"`
		InVain   advise.Estimate `json:"in_vain_per_day"`
		Peak     advise.Number   `json:"peak"`
		Wait     waits           `json:"wait_seconds"`
		NewWait  advise.Number   `json:"new_wait_seconds"`
		Recovery advise.Number   `json:"recovery_seconds"`
		Lost     advise.Estimate `json:"lost_per_1000"`
	}{
		Name:     p.Name,
		Tiers:    list,
		Policy:   p.Policy,
		Calls:    f.CallsPerDay,
		InVain:   f.InVainPerDay,
		Peak:     advise.Number(f.Peak),
		Wait:     waits{f.Wait.P50, f.Wait.P95},
		NewWait:  advise.Number(f.NewWait),
		Recovery: advise.Number(f.Recovery),
		Lost:     f.LostPer1000,
	})
}
