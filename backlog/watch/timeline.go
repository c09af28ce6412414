package watch

import (
	"slices"
	"strings"
	"time"

	"backlog/backlog/advise"
	"backlog/backlog/inspect"
)

// How many columns charts have.
const (
	timelineHours = 24
	timelineDays  = 30
)

// A Timeline is what was in the last day, hour by hour, and in the last 30 days. The present hour and day are the last
// of each.
type Timeline struct {
	Hours []Span `json:"hours"`
	Days  []Span `json:"days"` // of a time zone

	Since time.Time `json:"-"` // the start of the first hour that is known
}

// A Span is what was in an hour or a day.
type Span struct {
	Start    inspect.Stamp  `json:"start"`
	Length   float64        `json:"seconds"`
	Passes   int            `json:"passes"`   // that started in it
	Selected int            `json:"selected"` // records given to the handler
	Outcomes map[string]int `json:"outcomes"` // by the keys of [inspect.OutcomeCounts]
	Pending  *int           `json:"pending"`  // when they were last counted in it; nil: they were not
	Failed   *int           `json:"failed"`
	Outage   float64        `json:"outage_seconds"`
}

// NewTimeline returns the timeline of hours, the oldest first, with days of a zone; nil: nothing is known of the time
// before now.
func NewTimeline(hours []advise.Hour, now time.Time, zone *time.Location) *Timeline {
	if len(hours) == 0 || hours[0].Start.After(now) {
		return nil
	}
	t := &Timeline{Since: hours[0].Start}
	hour := now.UTC().Truncate(time.Hour)
	for i := range timelineHours {
		start := hour.Add(time.Duration(i-timelineHours+1) * time.Hour)
		t.Hours = append(t.Hours, newSpan(start, start.Add(time.Hour)))
	}
	year, month, today := now.In(zone).Date()
	for i := range timelineDays {
		day := today + i - timelineDays + 1
		t.Days = append(t.Days, newSpan(startOfDay(year, month, day, zone), startOfDay(year, month, day+1, zone)))
	}
	for _, h := range hours {
		if h.Start.After(now) {
			continue // a clock was set
		}
		addHour(t.Hours, h)
		addHour(t.Days, h)
	}
	return t
}

// startOfDay returns when a day of a zone starts. Where clocks are put forward at midnight, that is then.
func startOfDay(year int, month time.Month, day int, zone *time.Location) time.Time {
	start := time.Date(year, month, day, 0, 0, 0, 0, zone)
	if start.Hour() > 12 { // there is no midnight, and this is the evening before
		_, start = start.ZoneBounds()
	}
	return start
}

func newSpan(start, end time.Time) Span {
	return Span{
		Start:    inspect.Stamp(start),
		Length:   end.Sub(start).Seconds(),
		Outcomes: make(map[string]int),
	}
}

// addHour adds an hour to the span that it starts in, if there is one.
func addHour(spans []Span, h advise.Hour) {
	i, found := slices.BinarySearchFunc(spans, h.Start, func(s Span, at time.Time) int {
		return time.Time(s.Start).Compare(at)
	})
	if !found {
		i--
	}
	if i < 0 || !h.Start.Before(spans[i].End()) {
		return
	}
	s := &spans[i]
	s.Passes += h.Passes
	s.Selected += h.Handled
	for key, n := range h.Outcomes {
		s.Outcomes[key] += n
	}
	s.Outage += h.Outage
	if h.Counted != nil {
		s.Pending = new(h.Counted.Pending)
		s.Failed = new(h.Counted.Failed)
	}
}

// Count sets what is pending and failed now. The timeline may be nil.
func (t *Timeline) Count(pending, failed int) {
	if t == nil {
		return
	}
	for _, spans := range [][]Span{t.Hours, t.Days} {
		last := &spans[len(spans)-1]
		last.Pending = &pending
		last.Failed = &failed
	}
}

// End returns when the span ends.
func (s *Span) End() time.Time {
	return time.Time(s.Start).Add(time.Duration(s.Length * float64(time.Second)))
}

// Succeeded returns how many records have succeeded.
func (s *Span) Succeeded() int { return s.Outcomes["succeeded"] }

// FailedAttempts returns how many attempts have failed.
func (s *Span) FailedAttempts() int { return s.Outcomes["failed"] }

// Others returns how many records have had another outcome.
func (s *Span) Others() int { return max(0, s.Selected-s.Succeeded()-s.FailedAttempts()) }

// Lines returns charts for people, with tabs between cells. Times are in a zone. The timeline may be nil.
func (t *Timeline) Lines(zone *time.Location, levels inspect.Levels) (rows inspect.Grid) {
	if t == nil {
		return nil
	}
	from := func(spans []Span, layout string) string { return time.Time(spans[0].Start).In(zone).Format(layout) }
	rows.Add("\nLAST 24 HOURS\tFROM %s", from(t.Hours, "2006-01-02 15:04 MST"))
	t.addChart(&rows, t.Hours, levels)
	rows.Add("\nLAST 30 DAYS\tFROM %s", from(t.Days, time.DateOnly))
	t.addChart(&rows, t.Days, levels)
	if first := time.Time(t.Days[0].Start); t.Since.After(first) {
		rows.Add("of the time before %s nothing is known", inspect.Stamp(t.Since).In(zone))
	}
	return rows
}

// addChart adds a line for each kind of number that is known.
func (t *Timeline) addChart(rows *inspect.Grid, spans []Span, levels inspect.Levels) {
	s := Sum(spans)
	add := func(name string, number func(*Span) *int, format string, numbers ...int) {
		values := make([]*int, len(spans))
		for i := range spans {
			if spans[i].End().After(t.Since) {
				values[i] = number(&spans[i])
			}
		}
		words := make([]any, len(numbers))
		for i, n := range numbers {
			words[i] = inspect.Thousands(n)
		}
		rows.Add("%s\t%s\t"+format, append([]any{name, levels.Line(values)}, words...)...)
	}
	if s.Pending >= 0 {
		add("pending", func(x *Span) *int { return x.Pending }, "%s now, at most %s", s.Pending, s.MostPending)
		add("of them failed", func(x *Span) *int { return x.Failed }, "%s now, at most %s", s.Failed, s.MostFailed)
	}
	add("attempts succeeded", func(x *Span) *int { return new(x.Succeeded()) }, "%s", s.Succeeded)
	add("attempts failed", func(x *Span) *int { return new(x.FailedAttempts()) }, "%s", s.Errors)
	if s.Others > 0 {
		add("other outcomes", func(x *Span) *int { return new(x.Others()) }, "%s", s.Others)
	}
	if s.Outage > 0 {
		add("outages", func(x *Span) *int { return new(int(x.Outage)) }, strings.ReplaceAll(inspect.Shortly(s.Outage), "%", "%%"))
	}
}

// A Summary is what spans add up to.
type Summary struct {
	Pending      int // at the last count; less than 0: there was none
	MostPending  int
	Failed       int
	MostFailed   int
	Succeeded    int
	MostSelected int // of a span
	Errors       int // attempts that failed
	Others       int // other outcomes
	Outage       time.Duration
}

// Sum returns the summary of spans.
func Sum(spans []Span) Summary {
	s := Summary{Pending: -1, Failed: -1}
	seconds := 0.0
	for i := range spans {
		span := &spans[i]
		s.Succeeded += span.Succeeded()
		s.Errors += span.FailedAttempts()
		s.Others += span.Others()
		s.MostSelected = max(s.MostSelected, span.Selected)
		seconds += span.Outage
		if span.Pending != nil {
			s.Pending = *span.Pending
			s.MostPending = max(s.MostPending, s.Pending)
		}
		if span.Failed != nil {
			s.Failed = *span.Failed
			s.MostFailed = max(s.MostFailed, s.Failed)
		}
	}
	s.Outage = time.Duration(seconds * float64(time.Second))
	return s
}
