package advise

import (
	"maps"
	"slices"
	"time"

	"backlog/backlog/inspect"
)

// KeptHours is for how long the sums of each hour are kept: for 30 days in any time zone.
const KeptHours = 31 * day

// An Hour is what is kept of an hour: the sums of the passes that started in it, the seconds of it that are within
// outages, and the last count of the table. A line of JSON may have only some of that; the lines of an hour add up.
type Hour struct {
	Table string    `json:"table,omitempty"`
	Start time.Time `json:"hour"`
	hourSums
	Ages *[]AgeBand `json:"ages,omitempty"`
}

// hourSums are the sums of an hour but for the ages.
type hourSums struct {
	Passes   int            `json:"passes,omitempty"`
	Handled  int            `json:"handled,omitempty"`  // records given to the handler
	Outcomes map[string]int `json:"outcomes,omitempty"` // by the keys of [inspect.OutcomeCounts]
	Outage   float64        `json:"outage_seconds,omitempty"`
	Counted  *Counted       `json:"counted,omitempty"`
}

// Counted is what a count of the table has found.
type Counted struct {
	Pending int `json:"pending"`
	Failed  int `json:"failed"` // records that wait to be tried again, or are disabled
}

// NewHour returns the line of a count.
func NewHour(table string, at time.Time, c Counted) Hour {
	h := Hour{Table: table, Start: hourOf(at)}
	h.Counted = &c
	return h
}

// An Interval is an outage that is over.
type Interval struct {
	Since time.Time `json:"since"`
	Ended time.Time `json:"ended"`
}

// An OutageLine keeps an outage that is over.
type OutageLine struct {
	Table  string   `json:"table,omitempty"`
	Outage Interval `json:"outage"`
}

// Hours add up the lines of a file of passes by the hour.
type Hours struct {
	From time.Time // hours before it are left out

	table string
	sums  map[time.Time]*Hour
	ended outageEnds
}

// outageEnds are when outages were over, by when they began.
type outageEnds map[time.Time]time.Time

// unseen returns the part of an outage that is not known yet: each process that was in it keeps when it has seen its
// end.
func (e outageEnds) unseen(o Interval) Interval {
	since := o.Since.UTC()
	if seen, ok := e[since]; ok && seen.After(o.Since) {
		o.Since = seen
	}
	if o.Ended.After(e[since]) {
		e[since] = o.Ended
	}
	return o
}

// NewHours returns the hours of a table from a time on. Lines without a table are of this one.
func NewHours(table string, from time.Time) *Hours {
	return &Hours{From: hourOf(from), table: table, sums: make(map[time.Time]*Hour), ended: make(outageEnds)}
}

func hourOf(at time.Time) time.Time { return at.UTC().Truncate(time.Hour) }

// Add adds a line of the file. Lines that cannot be read, and lines of other tables, are left out.
func (h *Hours) Add(line []byte) {
	l, ok := parseLine(line)
	if ok && (l.Table == "" || l.Table == h.table) {
		h.add(l)
	}
}

// add adds a line of the table.
func (h *Hours) add(l *passLine) {
	switch {
	case l.PastOutage != nil:
		for start, seconds := range h.spread(h.ended.unseen(*l.PastOutage)) {
			h.at(start).addOutage(seconds)
		}
	case l.Day != "" || l.Started.Before(h.From):
	case l.Hour != nil:
		h.at(l.Started).add(l.hourSums)
	default:
		h.at(l.Started).add(sumsOf(l))
	}
}

// at returns the hour of a time.
func (h *Hours) at(t time.Time) *Hour {
	start := hourOf(t)
	if h.sums[start] == nil {
		h.sums[start] = &Hour{Table: h.table, Start: start}
	}
	return h.sums[start]
}

// sumsOf returns the sums of a pass.
func sumsOf(l *passLine) hourSums {
	s := hourSums{Passes: 1, Handled: l.Selected, Outcomes: make(map[string]int)}
	for _, c := range inspect.OutcomeCounts(l.Report) {
		s.Outcomes[c.Key] = c.N
	}
	return s
}

// add adds sums. They may come from any file.
func (h *Hour) add(s hourSums) {
	h.Passes = plus(h.Passes, s.Passes)
	h.Handled = plus(h.Handled, s.Handled)
	for key, n := range s.Outcomes {
		if n <= 0 {
			continue
		}
		if h.Outcomes == nil {
			h.Outcomes = make(map[string]int)
		}
		h.Outcomes[key] = plus(h.Outcomes[key], n)
	}
	h.addOutage(s.Outage)
	if s.Counted != nil {
		h.Counted = &Counted{Pending: plus(0, s.Counted.Pending), Failed: plus(0, s.Counted.Failed)}
	}
}

// plus adds a number that may be anything. The sum is neither negative nor too large.
func plus(sum, n int) int { return min(sum+min(max(n, 0), mostTried), mostTried) }

func (h *Hour) addOutage(seconds float64) {
	h.Outage = min(h.Outage+max(seconds, 0), time.Hour.Seconds())
}

// spread returns the seconds of an outage by hour, from h.From on and no further than hours are kept.
func (h *Hours) spread(o Interval) map[time.Time]float64 {
	seconds := make(map[time.Time]float64)
	since := o.Since
	if since.Before(h.From) {
		since = h.From
	}
	ended := o.Ended
	if latest := since.Add(KeptHours); ended.After(latest) {
		ended = latest
	}
	for since.Before(ended) {
		start := hourOf(since)
		next := start.Add(time.Hour)
		if next.After(ended) {
			next = ended
		}
		seconds[start] = next.Sub(since).Seconds()
		since = next
	}
	return seconds
}

// List returns the hours that the lines tell about, the oldest first.
func (h *Hours) List() []Hour { return h.With(nil) }

// With returns the same as List, with outages that are known from elsewhere. The lines may have them, too.
func (h *Hours) With(outages []Interval) []Hour {
	list := make(map[time.Time]Hour, len(h.sums))
	for start, hour := range h.sums {
		list[start] = *hour
	}
	elsewhere := make(map[time.Time]float64)
	ended := make(outageEnds)
	for _, o := range outages {
		for start, seconds := range h.spread(ended.unseen(o)) {
			elsewhere[start] += seconds
		}
	}
	for start, seconds := range elsewhere {
		hour := list[start]
		hour.Table = h.table
		hour.Start = start
		hour.Outage = min(max(hour.Outage, seconds), time.Hour.Seconds())
		list[start] = hour
	}
	return slices.SortedFunc(maps.Values(list), func(a, b Hour) int { return a.Start.Compare(b.Start) })
}
