package inspect

import (
	"time"

	"backlog/backlog"
)

// Counts are the numbers of records in a table at a time, for ages in ascending
// order, the edges: band i holds the records older than edge i-1 (the first: of
// any age below) and at most edge i old. What is older than the last edge is in
// Beyond. Pending records count as such also before they are eligible and after
// they have expired.
type Counts struct {
	ByStatus   map[string]int // every row within the configured filter; "NULL" is NULL
	Bands      []Band         // one per edge
	Beyond     Band
	Unreadable int // pending rows in no band: their date is missing or cannot be right
	Exhausted  int // failed records that are out of retries: no longer pending, and in no band
}

// A Band counts the pending records in a range of ages.
type Band struct {
	Fresh  int   `json:"fresh"`
	Failed int   `json:"failed"`
	Oldest Stamp `json:"oldest"` // zero: the band is empty
}

// Add counts n pending records; oldest is zero if they have no date.
func (b *Band) Add(lane backlog.Lane, n int, oldest time.Time) {
	if lane == backlog.Fresh {
		b.Fresh += n
	} else {
		b.Failed += n
	}
	if first := time.Time(b.Oldest); !oldest.IsZero() && (first.IsZero() || oldest.Before(first)) {
		b.Oldest = Stamp(oldest)
	}
}

// Pending returns the number of pending records in all bands.
func (c Counts) Pending() int {
	n := c.Beyond.Fresh + c.Beyond.Failed + c.Unreadable
	for _, b := range c.Bands {
		n += b.Fresh + b.Failed
	}
	return n
}

// TriedOnce returns the counts under a policy that never tries again: failed records are
// out of retries, not pending.
func (c Counts) TriedOnce() Counts {
	for i := range c.Bands {
		c.Exhausted += c.Bands[i].Failed
		c.Bands[i].Failed = 0
	}
	c.Exhausted += c.Beyond.Failed
	c.Beyond.Failed = 0
	return c
}
