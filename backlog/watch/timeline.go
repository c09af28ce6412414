package watch

import (
	"slices"
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

	Since time.Time `json:"-"` // the start of the first hour of which anything is known; zero: there is none
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

// NewTimeline returns the timeline of hours, the oldest first, with days of a zone.
func NewTimeline(hours []advise.Hour, now time.Time, zone *time.Location) *Timeline {
	t := new(Timeline)
	hour := now.UTC().Truncate(time.Hour)
	for i := range timelineHours {
		start := hour.Add(time.Duration(i-timelineHours+1) * time.Hour)
		t.Hours = append(t.Hours, newSpan(start, start.Add(time.Hour)))
	}
	year, month, today := now.In(zone).Date()
	for i := range timelineDays {
		day := today + i - timelineDays + 1
		start := time.Date(year, month, day, 0, 0, 0, 0, zone)
		t.Days = append(t.Days, newSpan(start, time.Date(year, month, day+1, 0, 0, 0, 0, zone)))
	}
	for _, h := range hours {
		if h.Start.After(now) {
			continue // a clock was set
		}
		if t.Since.IsZero() {
			t.Since = h.Start
		}
		addHour(t.Hours, h)
		addHour(t.Days, h)
	}
	return t
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

// IsEmpty reports whether nothing is known of the past. The timeline may be nil.
func (t *Timeline) IsEmpty() bool { return t == nil || t.Since.IsZero() }

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
