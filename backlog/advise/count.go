package advise

import "slices"

// leastCalls is how many attempts a pass has from whose duration the speed of calls is learned.
const leastCalls = 20

// count sets how many records came and how many calls were made.
func (l *learner) count(m *Model) {
	arrived := 0 // before the last week
	recently := 0
	weekAgo := m.To.Add(-7 * day)
	calls := 0
	var speeds []float64 // of passes, in calls per second
	l.walk(l.inOutage, func(i int, lane Lane, c Counts, list []piece) {
		switch {
		case lane != Fresh || list == nil:
		case l.passes[i].Started.After(weekAgo):
			recently += c.Lanes[Fresh].Tried
		default:
			arrived += c.Lanes[Fresh].Tried
		}
	})
	for i := l.since; i < len(l.passes); i++ {
		p := &l.passes[i]
		tried, _ := p.sums()
		calls += tried
		if seconds := p.Duration.Seconds(); tried >= leastCalls && seconds > 0 && !l.inOutage[i] {
			speeds = append(speeds, float64(tried)/seconds)
		}
	}
	if m.Days > 0 {
		recentDays := min(m.Days, 7)
		m.PerHour = float64(recently) / recentDays / 24
		if m.Days > recentDays {
			m.PerHourBefore = float64(arrived) / (m.Days - recentDays) / 24
		}
		m.CallsPerDay = float64(calls) / m.Days
	}
	if len(speeds) > 0 {
		slices.Sort(speeds)
		m.CallsPerSecond = speeds[len(speeds)/2]
	}
}
