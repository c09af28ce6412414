package plan

import (
	"slices"
	"time"

	"backlog/backlog/key"
)

// A page has as many records as are dispatched in about a second, within these
// bounds. So a slow handler is not given rows as they were minutes ago.
const (
	minPage = 10
	MaxPage = 1000
)

// MaxPageAge is how old a page may be when a record of it is dispatched. The
// rest of an older page is read again after handlers that took minutes, because
// its rows may have changed since.
const MaxPageAge = 5 * time.Minute

// A Walk is how far a pass has come in a lane. It must not be used concurrently.
type Walk struct {
	lane     Lane
	sections []Section
	section  int // index of the current one
	placed   int // records to which Place gave a number
}

// Walk returns the walk through a lane, for a pass that goes on at r.
func (r Resume) Walk(l Lane) *Walk { return &Walk{lane: l, sections: r.Sections(l)} }

// Enter says in which section the next record is, by its index.
func (w *Walk) Enter(section int) { w.section = section }

// Pass moves the walk behind the record at the cursor.
func (w *Walk) Pass(at key.Cursor) { w.sections[w.section].After = at }

// Place numbers the record at the cursor, which was passed last, and returns its place. It is
// called for each record that counts as dispatched later, see [Plan.Dispatched].
func (w *Walk) Place(at key.Cursor) Place {
	w.placed++
	return Place{Lane: w.lane, Section: w.section, Seq: w.placed, At: at}
}

// Reading returns the reading of all records behind the one that was passed last.
func (w *Walk) Reading() *Reading {
	at := w.sections[w.section].After
	return &Reading{sections: slices.Clone(w.sections), section: w.section, after: at, limit: minPage}
}

// A Reading goes through the sections of a lane, page by page. It must not be used
// concurrently.
type Reading struct {
	sections []Section
	section  int
	after    key.Cursor // the next page begins behind it
	limit    int        // of the next page
}

// A Request says what the next page is to have.
type Request struct {
	Section int
	After   key.Cursor // records behind this place
	Until   key.Cursor // records before this place
	Limit   int        // the number of records at most
}

// Request returns the request for the next page.
func (r *Reading) Request() Request {
	return Request{Section: r.section, After: r.after, Until: r.sections[r.section].Until, Limit: r.limit}
}

// Read says that a page was read up to the place next, and whether its section may have more
// records behind that. It reports whether the page was the lane's last one.
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

// Paced sets the size of the next page, at most limit, so that it takes about a second. The
// last page had n rows and took that long. A page has at most four times as many rows as the
// one before.
func (r *Reading) Paced(n int, took time.Duration, limit int) {
	if n > 0 {
		r.limit = max(minPage, min(Within(time.Second, n, took, MaxPage), 4*n))
	}
	r.limit = min(r.limit, limit)
}

// Within returns how many records are dispatched in the time d, at most limit, if n
// records took that long.
func Within(d time.Duration, n int, took time.Duration, limit int) int {
	if took <= 0 {
		return limit
	}
	return int(min(float64(n)*float64(d)/float64(took), float64(limit)))
}
