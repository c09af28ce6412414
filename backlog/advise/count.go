package advise

import "slices"

// leastCalls is how many attempts a pass has from whose duration the speed of calls is learned.
const leastCalls = 20

// count sets how many records came and how many calls were made.
func (l *learner) count(m *Model) {
	arrived := 0
	calls := 0
	var speeds []float64 // of passes, in calls per second
	l.walk(l.inOutage, func(_ int, lane Lane, c Counts, list []piece) {
		if lane == Fresh && list != nil {
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
		m.PerHour = float64(arrived) / m.Days / 24
		m.CallsPerDay = float64(calls) / m.Days
	}
	if len(speeds) > 0 {
		slices.Sort(speeds)
		m.CallsPerSecond = speeds[len(speeds)/2]
	}
}
