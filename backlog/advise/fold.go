package advise

import (
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"time"
)

// A dayLine is what is kept of the passes of a day.
type dayLine struct {
	Table string    `json:"table"`
	Day   string    `json:"day"`
	Ages  []AgeBand `json:"ages"`
}

// A tableTime is a table and the start of an hour or of a day.
type tableTime struct {
	table string
	at    time.Time
}

func (t tableTime) compare(o tableTime) int {
	return cmp.Or(t.at.Compare(o.at), cmp.Compare(t.table, o.table))
}

// A folding sums up lines by table and time.
type folding struct {
	from  time.Time
	days  map[tableTime]*Collector // of the days before from
	hours map[string]*Hours        // by table, from there on
	ages  map[tableTime]*Collector // of these hours
}

// Fold returns lines with the sums of the lines: an [Hour] for each table and hour from the time on, and for each
// table and day before that one with the sums of the bands. What is folded already is summed up, too. Of the days,
// lines without ages are dropped.
func Fold(lines io.Reader, from time.Time) ([]byte, error) {
	f := folding{
		from:  from.UTC().Truncate(time.Hour),
		days:  make(map[tableTime]*Collector),
		hours: make(map[string]*Hours),
		ages:  make(map[tableTime]*Collector),
	}
	err := eachLine(lines, f.add)
	return f.lines(), err
}

// add adds a line.
func (f *folding) add(line []byte) {
	l, ok := parseLine(line)
	if !ok {
		return
	}
	p, ok := l.pass()
	if !ok {
		return
	}
	if l.Day == "" && (l.PastOutage != nil || !l.Started.Before(f.from)) {
		f.hoursOf(l.Table).add(l)
		if p.HasAges {
			addBands(f.ages, tableTime{l.Table, l.Started.Truncate(time.Hour)}, p.Bands)
		}
	} else if p.HasAges {
		addBands(f.days, tableTime{l.Table, l.Started.Truncate(day)}, p.Bands)
	}
}

// hoursOf returns the hours of a table.
func (f *folding) hoursOf(table string) *Hours {
	if f.hours[table] == nil {
		f.hours[table] = NewHours(table, f.from)
	}
	return f.hours[table]
}

// addBands adds the counts of passes to the sums of a table and time.
func addBands(sums map[tableTime]*Collector, at tableTime, list []Counts) {
	if sums[at] == nil {
		sums[at] = new(Collector)
	}
	sums[at].addBands(list)
}

// lines returns the sums, the days first.
func (f *folding) lines() []byte {
	var folded []byte
	add := func(v any) {
		line, _ := json.Marshal(v) // cannot fail: it has numbers and texts only
		folded = append(folded, line...)
		folded = append(folded, '\n')
	}
	for _, at := range slices.SortedFunc(maps.Keys(f.days), tableTime.compare) {
		add(dayLine{at.table, at.at.Format(time.DateOnly), f.days[at].Ages()})
	}
	hours := make(map[tableTime]Hour)
	for table, list := range f.hours {
		for _, h := range list.List() {
			hours[tableTime{table, h.Start}] = h
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(hours), tableTime.compare) {
		h := hours[at]
		if ages := f.ages[at]; ages != nil {
			h.Ages = new(ages.Ages())
		}
		add(h)
	}
	return folded
}

// addBands adds the counts of a pass, an hour or a day.
func (c *Collector) addBands(list []Counts) {
	c.makeBands()
	for _, counts := range list {
		sum := &c.bands[counts.Band]
		for lane, t := range counts.Lanes {
			sum.Lanes[lane].Tried = min(sum.Lanes[lane].Tried+t.Tried, mostTried)
			sum.Lanes[lane].Succeeded = min(sum.Lanes[lane].Succeeded+t.Succeeded, mostTried)
		}
		sum.Waited = min(sum.Waited+max(0, counts.Waited), mostSeconds)
		sum.Aged = min(sum.Aged+max(0, counts.Aged), mostSeconds)
		isUnknown := min(counts.Waited, counts.Aged) < 0 && counts.Lanes[Failed].Tried > 0
		c.unknown[counts.Band] = c.unknown[counts.Band] || isUnknown
	}
}
