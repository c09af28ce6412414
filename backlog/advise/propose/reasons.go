package propose

import (
	"fmt"
	"math"

	"backlog/tiers"
)

// Reasons returns for each tier of a proposal why it is there, one line each.
func Reasons(in *Inputs, list []tiers.Tier) []string {
	groups := newGroups(in)
	m := &model{newTable(in.Broken, in.Oldest.Seconds()), groups}
	var reasons []string
	before := step{}
	pending := 1.0 // the share of records that no tier so far has done
	for i, t := range list {
		now := step{t.MaxAge.Seconds(), meanInterval(t)}
		left := m.at(now.upto) + m.edge(now, never, math.MaxFloat64)
		calls := m.inVain(now.every, now.upto) - m.inVain(now.every, before.upto) + pending - left
		first := list[0]
		all := m.recoverable(meanInterval(first))
		from := m.at(before.upto)
		if i == 0 {
			from = all + m.end
		}
		share := 0.0
		if all > 0 {
			share = min(max(0, from-m.at(now.upto))/all, 1)
		}
		reasons = append(reasons, tierReason(i == 0, share, calls, pending-left))
		before = now
		pending = left
	}
	for i, t := range list {
		if i > 0 && list[i-1].MaxAge >= in.Oldest {
			reasons[i] = fmt.Sprintf("nothing is known of records older than %s", tiers.FormatDuration(in.Oldest))
		}
		_ = t
	}
	return reasons
}

// tierReason returns the reason for a tier in which a share of the recoverable recovers, and so many calls succeed.
func tierReason(first bool, share, calls, succeed float64) string {
	text := ""
	switch percent := 100 * share; {
	case percent < 0.1:
		text = "almost none of the recoverable recover at these ages"
	case percent < 10:
		text = fmt.Sprintf("%.1f %% of the recoverable recover at these ages", percent)
	default:
		text = fmt.Sprintf("%.0f %% of the recoverable recover at these ages", percent)
	}
	switch {
	case first:
		text = "new records, and " + text
	case succeed <= calls/1e6:
		return text
	}
	return text + "; " + chance(succeed/calls)
}

// chance writes the chance that a call succeeds.
func chance(p float64) string {
	if p >= 0.095 {
		return fmt.Sprintf("%.0f %% of the calls succeed", 100*p)
	}
	return fmt.Sprintf("1 call in %s succeeds", rounded(math.Round(1/p)))
}
