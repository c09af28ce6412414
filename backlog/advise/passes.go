// Package advise learns from the passes of a table how long its records stay broken. [Read] takes the
// lines that passes leave behind, [Fit] makes a [Model] of them. It does no I/O of its own, and the
// same lines always give the same model.
package advise

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"sort"
	"time"

	"backlog/backlog"
)

const day = 24 * time.Hour

// Edges are the upper edges of the bands of ages. An age on an edge is in the younger band; the ages
// beyond the last edge are one more band. They are the same on every machine, so that files can be merged.
var Edges = []time.Duration{
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 45 * time.Minute,
	90 * time.Minute,
	3 * time.Hour, 6 * time.Hour, 9 * time.Hour, 12 * time.Hour, 15 * time.Hour, 18 * time.Hour, 21 * time.Hour,
	day, 2 * day, 4 * day, 7 * day, 14 * day, 30 * day, 60 * day, 120 * day, 240 * day, 480 * day,
}

// bandOf returns the index of the band that an age is in.
func bandOf(age time.Duration) int {
	return sort.Search(len(Edges), func(i int) bool { return age <= Edges[i] })
}

// inBand reports whether an age is in the band of an index.
func inBand(i int, age time.Duration) bool {
	return (i == 0 || age > Edges[i-1]) && (i == len(Edges) || age <= Edges[i])
}

// A Lane says whether a record was tried before.
type Lane int

// The lanes of a pass.
const (
	Fresh  Lane = iota // never tried
	Failed             // tried before, and failed
)

// A Tally counts attempts.
type Tally struct{ Tried, Succeeded int }

// Counts are the attempts of a pass at the records of one band.
type Counts struct {
	Band  int // the index of its upper edge in Edges; len(Edges): beyond the last
	Lanes [2]Tally
	// Waited is the sum over the failed lane of the seconds since the attempt before, and Aged of the
	// ages; less than 0: the rows do not tell.
	Waited, Aged float64
}

// An AgeBand is [Counts] as a line of JSON has them.
type AgeBand struct {
	UpTo   *float64 `json:"upto"`            // seconds; null: there is no edge
	Fresh  []int    `json:"fresh,omitempty"` // tried, succeeded
	Failed []int    `json:"failed,omitempty"`
	Waited *float64 `json:"waited,omitempty"` // sums of seconds
	Aged   *float64 `json:"aged,omitempty"`
}

// A Collector counts the attempts of a pass by age. The zero value has none. It must not be used
// concurrently.
type Collector struct {
	bands   []Counts // one for each band, once there is an attempt
	unknown []bool   // the bands with a failed record whose row does not tell when it failed
	last    int      // the band of the attempt before: a pass goes by age, so that the next one is often in it
}

// An Attempt is an attempt at a record.
type Attempt struct {
	Lane      Lane
	Age       time.Duration // of the record
	Succeeded bool
	Waited    time.Duration // since the attempt before
	WaitKnown bool          // false: the row does not tell
}

// Add counts an attempt.
func (c *Collector) Add(a Attempt) { c.count(a, 1) }

// Drop takes back an attempt that was added, because its outcome was not written.
func (c *Collector) Drop(a Attempt) { c.count(a, -1) }

// count counts an attempt n times.
func (c *Collector) count(a Attempt, n int) {
	c.makeBands()
	i := c.last
	if !inBand(i, a.Age) {
		i = bandOf(a.Age)
		c.last = i
	}
	t := &c.bands[i].Lanes[a.Lane]
	t.Tried += n
	if a.Succeeded {
		t.Succeeded += n
	}
	if a.Lane == Failed {
		c.bands[i].Waited += float64(n) * a.Waited.Seconds()
		c.bands[i].Aged += float64(n) * a.Age.Seconds()
		c.unknown[i] = c.unknown[i] || !a.WaitKnown
	}
}

// makeBands makes the bands before the first attempt.
func (c *Collector) makeBands() {
	if c.bands == nil {
		c.bands = make([]Counts, len(Edges)+1)
		c.unknown = make([]bool, len(Edges)+1)
	}
}

// Ages returns the bands with any attempt, youngest first.
func (c *Collector) Ages() []AgeBand {
	list := []AgeBand{}
	for i, b := range c.bands {
		var line AgeBand
		if i < len(Edges) {
			seconds := Edges[i].Seconds()
			line.UpTo = &seconds
		}
		line.Fresh = pairOf(b.Lanes[Fresh])
		line.Failed = pairOf(b.Lanes[Failed])
		if line.Failed != nil && !c.unknown[i] {
			line.Waited = &b.Waited
			line.Aged = &b.Aged
		}
		if line.Fresh != nil || line.Failed != nil {
			list = append(list, line)
		}
	}
	return list
}

// MarshalJSON returns the list of [Collector.Ages].
func (c *Collector) MarshalJSON() ([]byte, error) { return json.Marshal(c.Ages()) }

// pairOf returns a tally as JSON has it; nil: nothing was tried.
func pairOf(t Tally) []int {
	if t.Tried == 0 {
		return nil
	}
	return []int{t.Tried, t.Succeeded}
}

// A Pass is what a line tells of a pass, or, if Folded, of all passes of an hour or a day.
type Pass struct {
	Tier     string
	Table    string
	Started  time.Time
	Duration time.Duration
	MaxAge   time.Duration
	Complete bool
	Folded   bool
	HasAges  bool // the line has ages, even if they are none
	Bands    []Counts

	file   int  // the index of the file that it is in
	isHour bool // it is Folded, and has the passes of an hour
}

// passLine is a line of a file of passes.
type passLine struct {
	backlog.Report
	Tier     string     `json:"tier"`
	Table    string     `json:"table"`
	Started  time.Time  `json:"started"`
	Duration float64    `json:"duration_seconds"`
	MaxAge   float64    `json:"max_age_seconds"`
	Complete bool       `json:"complete"`
	Day      string     `json:"day"`
	Ages     *[]AgeBand `json:"ages"`

	Hour *time.Time `json:"hour"` // it is the line of an Hour
	hourSums
	PastOutage *Interval `json:"outage"` // an outage that is over, and the line has nothing else
}

// LeftOut counts the passes, or lines of files, that nothing is learned from.
type LeftOut struct {
	NoAges     int `json:"no_ages"`     // written by an older version
	Unreadable int `json:"unreadable"`  // lines that are no passes
	OtherTable int `json:"other_table"` // of another table than the newest pass
	Outage     int `json:"outage"`
	Incomplete int `json:"incomplete"`
	Clock      int `json:"clock"` // out of order, because the clock was set
}

// A History has the passes of one table.
type History struct {
	Table   string
	Passes  []Pass // in the order of their starts
	LeftOut LeftOut
}

// maxLine is the length in bytes of the longest line that is read.
const maxLine = 1 << 20

// Read merges files of passes. A pass that several files have counts once. Lines that are no passes, passes
// of other tables than the newest pass, and those that are out of order are counted and left out.
func Read(files ...io.Reader) (*History, error) {
	h := new(History)
	var all []Pass
	for i, file := range files {
		list, err := h.readFile(file, i)
		if err != nil {
			return nil, err
		}
		ordered := inOrder(list)
		h.LeftOut.Clock += len(list) - len(ordered)
		all = append(all, ordered...)
	}
	slices.SortStableFunc(all, func(a, b Pass) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.MaxAge, b.MaxAge), cmp.Compare(a.Table, b.Table))
	})
	for i := len(all) - 1; i >= 0 && h.Table == ""; i-- {
		h.Table = all[i].Table
	}
	inFull := daysOf(all, func(p *Pass) bool { return !p.Folded })
	inHours := daysOf(all, func(p *Pass) bool { return !p.Folded || p.isHour })
	h.Passes = all[:0] // in place: there may be many
	for _, p := range all {
		switch {
		case p.Table != "" && p.Table != h.Table:
			h.LeftOut.OtherTable++
		case p.isHour && inFull[dayOf(p.Started)].hasOther(p.file), h.repeats(p):
		case p.Folded && !p.isHour && inHours[dayOf(p.Started)].hasOther(p.file):
		default:
			h.Passes = append(h.Passes, p)
			if !p.HasAges {
				h.LeftOut.NoAges++
			}
		}
	}
	return h, nil
}

// A fileSet are the indexes of files.
type fileSet map[int]bool

// hasOther reports whether there is another file than the one given.
func (s fileSet) hasOther(file int) bool { return len(s) > 1 || len(s) == 1 && !s[file] }

// daysOf returns, for each day, which files have passes of it that are as asked for.
func daysOf(list []Pass, asked func(*Pass) bool) map[int]fileSet {
	days := make(map[int]fileSet)
	for i := range list {
		p := &list[i]
		if !asked(p) {
			continue
		}
		day := dayOf(p.Started)
		if days[day] == nil {
			days[day] = make(fileSet)
		}
		days[day][p.file] = true
	}
	return days
}

// repeats reports whether the last pass of the history is the same, from another file.
func (h *History) repeats(p Pass) bool {
	if len(h.Passes) == 0 {
		return false
	}
	last := h.Passes[len(h.Passes)-1]
	sameTime := last.Started.Equal(p.Started) && last.Folded == p.Folded && last.isHour == p.isHour
	return sameTime && last.Tier == p.Tier && last.MaxAge == p.MaxAge && last.Table == p.Table
}

// readFile returns the passes of a file in the order of its lines.
func (h *History) readFile(file io.Reader, index int) ([]Pass, error) {
	var list []Pass
	err := eachLine(file, func(line []byte) {
		l, ok := parseLine(line)
		p := Pass{}
		if ok {
			p, ok = l.pass()
		}
		switch {
		case !ok:
			h.LeftOut.Unreadable++
		case l.hasAttempts():
			p.file = index
			list = append(list, p)
		}
	})
	return list, err
}

// eachLine calls visit with each line that is not blank; with nil, if it is too long.
func eachLine(file io.Reader, visit func(line []byte)) error {
	r := bufio.NewReaderSize(file, maxLine)
	for {
		line, err := r.ReadSlice('\n')
		tooLong := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.ReadSlice('\n')
		}
		if err != nil && err != io.EOF {
			return err
		}
		if len(bytes.TrimSpace(line)) > 0 {
			if tooLong {
				line = nil
			}
			visit(line)
		}
		if err == io.EOF {
			return nil
		}
	}
}

// parseLine decodes a line; false: it is neither a pass, an hour, a day nor an outage.
func parseLine(line []byte) (*passLine, bool) {
	l := new(passLine)
	if json.Unmarshal(line, l) != nil {
		return nil, false
	}
	at := l.Started
	switch {
	case l.PastOutage != nil:
		at = l.PastOutage.Since
	case l.Hour != nil:
		at = l.Hour.Truncate(time.Hour)
	case l.Day != "":
		day, err := time.Parse(time.DateOnly, l.Day)
		if err != nil {
			return nil, false
		}
		at = day
	case l.MaxAge <= 0:
		return nil, false
	}
	l.Started = at.UTC()
	isDate := l.Started.Year() > 1 && l.Started.Year() <= 9999 // else its day could not be read again
	return l, isDate && !l.Started.IsZero()
}

// isPass reports whether the line is about one pass.
func (l *passLine) isPass() bool { return l.PastOutage == nil && l.Hour == nil && l.Day == "" }

// hasAttempts reports whether the line is about passes, and not only about a count or an outage.
func (l *passLine) hasAttempts() bool { return l.isPass() || l.Day != "" || l.Ages != nil }

// pass returns the pass, or the passes, of the line; false: its ages are not possible.
func (l *passLine) pass() (Pass, bool) {
	p := Pass{
		Tier:     l.Tier,
		Table:    l.Table,
		Started:  l.Started,
		Duration: secondsOf(l.Duration),
		MaxAge:   secondsOf(l.MaxAge),
		Complete: l.Complete,
		Folded:   !l.isPass(),
		HasAges:  l.Ages != nil,
		isHour:   l.Hour != nil,
	}
	if l.Ages == nil {
		return p, true
	}
	p.Bands = make([]Counts, 0, len(*l.Ages))
	for _, a := range *l.Ages {
		c, ok := a.counts()
		if !ok {
			return Pass{}, false
		}
		p.Bands = append(p.Bands, c)
	}
	return p, true
}

// secondsOf returns a number of seconds as a duration. It is bounded, because a file may hold anything.
func secondsOf(seconds float64) time.Duration {
	const most = 200 * 365 * 24 * 3600
	return time.Duration(min(max(seconds, 0), most) * float64(time.Second))
}

// A band has at most so many attempts, and sums of so many seconds: a file may hold anything, and what is
// folded of it must be read again.
const (
	mostTried   = math.MaxInt32
	mostSeconds = 1e18
)

// counts returns the counts of a band; false: they are not possible.
func (a *AgeBand) counts() (Counts, bool) {
	c := Counts{Band: len(Edges), Waited: -1, Aged: -1}
	if a.UpTo != nil {
		edge, found := slices.BinarySearch(Edges, secondsOf(*a.UpTo))
		if !found {
			return c, false
		}
		c.Band = edge
	}
	for lane, pair := range [][]int{a.Fresh, a.Failed} {
		if len(pair) == 0 {
			continue
		}
		if len(pair) != 2 || pair[1] < 0 || pair[1] > pair[0] || pair[0] > mostTried {
			return c, false
		}
		c.Lanes[lane] = Tally{Tried: pair[0], Succeeded: pair[1]}
	}
	if a.Waited != nil {
		c.Waited = min(*a.Waited, mostSeconds)
	}
	if a.Aged != nil {
		c.Aged = min(*a.Aged, mostSeconds)
	}
	return c, true
}

// clockGrain is by how much passes that end at about the same time may be out of order in a file.
const clockGrain = 10 * time.Second

// inOrder leaves out the fewest passes so that the others ended in the order of their lines. A pass is
// written when it ends, so others are written by a clock that was set.
func inOrder(list []Pass) []Pass {
	ended := func(i int) int64 { return list[i].Started.Add(list[i].Duration).Unix() / int64(clockGrain/time.Second) }
	var last []int // of the sequences of each length, the end of the one that ends first
	before := make([]int, len(list))
	for i := range list {
		n := sort.Search(len(last), func(k int) bool { return ended(last[k]) > ended(i) })
		before[i] = -1
		if n > 0 {
			before[i] = last[n-1]
		}
		if n == len(last) {
			last = append(last, i)
		} else {
			last[n] = i
		}
	}
	if len(last) == len(list) {
		return list
	}
	ordered := make([]Pass, len(last))
	at := last[len(last)-1]
	for k := len(ordered) - 1; k >= 0; k-- {
		ordered[k] = list[at]
		at = before[at]
	}
	return ordered
}
