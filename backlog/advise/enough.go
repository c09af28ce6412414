package advise

import (
	"fmt"
	"time"
)

// A model of less than this is not relied on.
const (
	LeastRecoveries = 100
	LeastDays       = 7
)

// Lacking returns what is missing in a model that is too little to rely on, an item for each limit that it does
// not reach. It is empty for a model of enough.
func (m *Model) Lacking() []string {
	var list []string
	if m.Passes == 0 {
		return []string{"there is no pass to learn from"}
	}
	if m.Days < LeastDays {
		list = append(list, fmt.Sprintf("the passes are of %.1f days, it takes %d", m.Days, LeastDays))
	}
	if m.Recoveries < LeastRecoveries {
		list = append(list, fmt.Sprintf("there are %d recoveries, it takes %d", m.Recoveries, LeastRecoveries))
	}
	if m.Oldest == 0 {
		list = append(list, "there is no age at which enough records were tried")
	}
	return list
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
