package propose

import (
	"fmt"
	"math"

	"backlog/tiers"
)

// Reasons returns for each tier of a proposal why it is there, one line each.
func Reasons(in *Inputs, list []tiers.Tier) []string {
	m := newModel(in.Broken, in.Oldest.Seconds(), newGroups(in))
	recoverable := m.recoverable(meanInterval(list[0]))
	var reasons []string
	var before step
	from := recoverable + m.end // the share of records that are broken when the tier begins
	pending := 1.0              // the share of records that the tiers so far have not done
	for i, t := range list {
		now := step{t.MaxAge.Seconds(), meanInterval(t)}
		if i > 0 && list[i-1].MaxAge >= in.Oldest {
			reasons = append(reasons, fmt.Sprintf("nothing is known of records older than %s", tiers.FormatDuration(in.Oldest)))
			continue
		}
		rest := m.at(now.upto) + m.edge(now, never, math.MaxFloat64)
		calls := m.inVain(now.every, now.upto) - m.inVain(now.every, before.upto) + pending - rest
		share := 0.0
		if recoverable > 0 {
			share = min(max(0, from-m.at(now.upto))/recoverable, 1)
		}
		reason := recovering(share)
		if i == 0 {
			reason = "new records, and " + reason
		}
		if succeed := pending - rest; succeed > 0 {
			reason += "; " + chance(succeed/calls)
		}
		reasons = append(reasons, reason)
		before = now
		from = m.at(now.upto)
		pending = rest
	}
	return reasons
}

// recovering writes the share of the recoverable that recovers at the ages of a tier.
func recovering(share float64) string {
	switch percent := 100 * share; {
	case percent < 0.05:
		return "almost none of the recoverable recover at these ages"
	case percent < 9.5:
		return fmt.Sprintf("%.1f %% of the recoverable recover at these ages", percent)
	default:
		return fmt.Sprintf("%.0f %% of the recoverable recover at these ages", percent)
	}
}

// chance writes the chance that a call succeeds.
func chance(p float64) string {
	switch {
	case p >= 0.095:
		return fmt.Sprintf("%.0f %% of the calls succeed", 100*p)
	case p < 1e-6:
		return "almost no call succeeds"
	}
	return fmt.Sprintf("1 call in %.0f succeeds", 1/p)
}
