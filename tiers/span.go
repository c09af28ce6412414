package tiers

import "time"

// forever is beyond any instant in use, and can take an offset without
// overflowing.
const forever = 1 << 62

// A span is a stretch of time in which the clock of a location is neither put
// forward nor back: a wall second is a Unix second plus the offset. All values
// are in seconds.
type span struct {
	start, end int64 // Unix; end is exclusive
	offset     int64 // of the clock in this span, east of UTC
	before     int64 // of the clock in the span before
}

// spanAt returns the span that holds the Unix second.
func spanAt(sec int64, loc *time.Location) span {
	t := time.Unix(sec, 0).In(loc)
	s := span{start: -forever, end: forever, offset: offset(t)}
	s.before = s.offset
	start, end := t.ZoneBounds()
	if !start.IsZero() {
		s.start, s.before = start.Unix(), offset(start.Add(-time.Second))
	}
	if !end.IsZero() {
		s.end = end.Unix()
	}
	if s.end <= sec {
		// For years beyond a zone's table, ZoneBounds reckons with 365 days: on
		// the last day of a leap year its end has passed. Midnight is near
		// enough, the offset being the same on both sides.
		s.end = sec - mod(sec, day) + day
	}
	return s
}

// following returns the span after s.
func (s span) following(loc *time.Location) span {
	next := spanAt(s.end, loc)
	next.start, next.before = s.end, s.offset
	return next
}

func offset(t time.Time) int64 {
	_, seconds := t.Zone()
	return int64(seconds)
}
