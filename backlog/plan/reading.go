package plan

import (
	"slices"
	"time"

	"backlog/backlog/key"
)

// A page is read with as many records as are dispatched in about a second, so
// that a slow handler is not given rows as they were minutes ago.
const (
	minPage = 10
	MaxPage = 1000
)

// MaxPageAge is how old a page may be when a record of it is dispatched. The
// rest of an older one, left over by handlers that take minutes, is read again:
// somebody may have taken a record back in the meantime.
const MaxPageAge = 5 * time.Minute

// A Walk is how far a pass has looked at the records of a lane. It must not be called
// concurrently.
type Walk struct {
	lane     Lane
	sections []Section
	section  int // in which the next record is
	looked   int // records of the lane
}

// Walk returns the walk through a lane of the pass that goes on there.
func (r Resume) Walk(l Lane) *Walk { return &Walk{lane: l, sections: r.Sections(l)} }

// Enter says that the next record is in the section of the number.
func (w *Walk) Enter(section int) { w.section = section }

// Pass goes on behind the record at the place.
func (w *Walk) Pass(at key.Cursor) { w.sections[w.section].After = at }

// Look returns the place of the record that was passed last, which is to be dispatched, or
// passed over for good.
func (w *Walk) Look(at key.Cursor) Place {
	w.looked++
	return Place{Lane: w.lane, Section: w.section, Seq: w.looked, At: at}
}

// Reading returns the reading of all that is behind the last record that was passed.
func (w *Walk) Reading() *Reading {
	at := w.sections[w.section].After
	return &Reading{sections: slices.Clone(w.sections), section: w.section, after: at, limit: minPage}
}

// A Reading goes through the sections of a lane, page by page. It must not be called
// concurrently.
type Reading struct {
	sections []Section
	section  int
	after    key.Cursor // the next page begins behind it
	limit    int
}

// A Request is for the next page.
type Request struct {
	Section      int
	After, Until key.Cursor
	Limit        int // of records
}

// Request returns that for the next page.
func (r *Reading) Request() Request {
	return Request{Section: r.section, After: r.after, Until: r.sections[r.section].Until, Limit: r.limit}
}

// Read says that a page was read up to the place next, behind which its section may have more.
// It reports whether that was the lane's last page.
func (r *Reading) Read(next key.Cursor, more bool) (final bool) {
	switch {
	case more:
		r.after = next
	case r.section == len(r.sections)-1:
		return true
	default:
		r.section++
		r.after = r.sections[r.section].After
	}
	return false
}

// Paced says that a page of n rows has taken so long, and that the next one may have at most
// limit.
func (r *Reading) Paced(n int, took time.Duration, limit int) {
	if n > 0 {
		r.limit = max(minPage, min(Within(time.Second, n, took, MaxPage), 4*n))
	}
	r.limit = min(r.limit, limit)
}

// Within returns how many records are dispatched in a time when n took that
// long, at most limit.
func Within(d time.Duration, n int, took time.Duration, limit int) int {
	if took <= 0 {
		return limit
	}
	return int(min(float64(n)*float64(d)/float64(took), float64(limit)))
}
