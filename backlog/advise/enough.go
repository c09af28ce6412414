package advise

import (
	"fmt"
	"math"
	"time"
)

// A model of less than this is not relied on.
const (
	LeastRecoveries = 100
	LeastDays       = 7
)

// mostUnreadable is how many lines may be unreadable; of many passes it is one in a hundred.
const mostUnreadable = 10

// Missing returns what is missing in a model that is too little to rely on, a reason for each limit that it does not
// reach, and about how many more days it takes; +Inf: that is not known. Of enough there is no reason.
func (m *Model) Missing() (reasons []string, days float64) {
	if m.Passes == 0 {
		return []string{"there is no pass to learn from"}, math.Inf(1)
	}
	if unreadable := m.LeftOut.Unreadable; unreadable > mostUnreadable && unreadable*100 > m.Passes {
		reasons = append(reasons, fmt.Sprintf("%d lines cannot be read: what happened to records in these passes is not known", unreadable))
		days = math.Inf(1)
	}
	if m.Days < LeastDays {
		reasons = append(reasons, fmt.Sprintf("the passes are of %.1f days, and a week is needed", m.Days))
		days = max(days, LeastDays-m.Days)
	}
	if m.Recoveries < LeastRecoveries {
		reasons = append(reasons, fmt.Sprintf("%s recovered after a failure, and %d are needed", records(m.Recoveries), LeastRecoveries))
		more := math.Inf(1)
		if m.Recoveries > 0 {
			more = m.Days * (LeastRecoveries/float64(m.Recoveries) - 1)
		}
		days = max(days, more)
	}
	if len(reasons) == 0 && m.Oldest == 0 {
		reasons = append(reasons, fmt.Sprintf("no band of ages has %d attempts that can be learned from", leastTried))
		days = math.Inf(1)
	}
	return reasons, days
}

// records returns a number of records in words.
func records(n int) string {
	if n == 1 {
		return "1 record"
	}
	return fmt.Sprintf("%d records", n)
}

// OutageGaps returns the mean time from the end of an outage to the next one, and how long each outage lasted.
// Outages before From do not count. It returns 0 if there was none.
func (m *Model) OutageGaps() (gap time.Duration, lengths []time.Duration) {
	quiet := m.To.Sub(m.From)
	for _, o := range m.Outages {
		length := o.To.Sub(o.From)
		if o.From.Before(m.From) || length <= 0 {
			continue
		}
		lengths = append(lengths, length)
		quiet -= length
	}
	if len(lengths) == 0 {
		return 0, nil
	}
	return max(quiet, 0) / time.Duration(len(lengths)), lengths
}
