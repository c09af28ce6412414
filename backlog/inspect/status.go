package inspect

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/tiers"
)

// A Status is what there is in a table, and when its next passes start.
type Status struct {
	Counts     map[string]int `json:"counts"`
	Pending    int            `json:"pending"`
	Bands      []TierBand     `json:"bands"`
	Beyond     Band           `json:"beyond"`
	Unreadable int            `json:"unreadable"`
	Exhausted  int            `json:"exhausted"`
	Waiting    int            `json:"waiting"`
	Expired    int            `json:"expired"`
	Next       []Start        `json:"next"`

	now time.Time
}

// Uncounted has the fields of a [Status] whose records have not been counted: what is not
// known is null.
type Uncounted struct {
	Counts     *struct{} `json:"counts"`
	Pending    *struct{} `json:"pending"`
	Bands      *struct{} `json:"bands"`
	Beyond     *struct{} `json:"beyond"`
	Unreadable *struct{} `json:"unreadable"`
	Exhausted  *struct{} `json:"exhausted"`
	Waiting    *struct{} `json:"waiting"`
	Expired    *struct{} `json:"expired"`
	Next       []Start   `json:"next"`
}

// A TierBand is the band that a tier adds.
type TierBand struct {
	Tier   string  `json:"tier"`
	MinAge float64 `json:"min_age_seconds"`
	MaxAge float64 `json:"max_age_seconds"`
	Band
	Ages string `json:"-"` // in words
}

// NewStatus returns the status of a table with the counts, whose edges are the tiers'.
func NewStatus(c Counts, s *tiers.Schedule, now time.Time) *Status {
	status := &Status{
		Counts: c.ByStatus, Pending: c.Pending(), Beyond: c.Beyond, Unreadable: c.Unreadable, Exhausted: c.Exhausted, Waiting: c.Waiting, Expired: c.Expired,
		Next: Starts(s, now), now: now,
	}
	from := time.Duration(0)
	for i, t := range s.Tiers() {
		status.Bands = append(status.Bands, TierBand{t.Name, from.Seconds(), t.MaxAge.Seconds(), c.Bands[i], Ages(from, t.MaxAge)})
		from = t.MaxAge
	}
	return status
}

// NewRefreshStatus returns the status of a table of the policy refresh: rows by state.
func NewRefreshStatus(counts map[string]int, s *tiers.Schedule, now time.Time) *Status {
	status := &Status{Counts: make(map[string]int), Pending: counts["waiting"] + counts["running"], Bands: []TierBand{}, Next: Starts(s, now)}
	for _, state := range States {
		status.Counts[state] = counts[state]
	}
	return status
}

// Lines are the status for people, with tabs between cells.
func (s *Status) Lines() (rows Grid) {
	if len(s.Bands) == 0 {
		rows.Add("STATE\tRECORDS")
		for _, state := range States {
			rows.Add("%s\t%d", state, s.Counts[state])
		}
	} else {
		rows.Add("STATUS\tRECORDS")
		for _, name := range slices.Sorted(maps.Keys(s.Counts)) {
			rows.Add("%s\t%d", Shown(name), s.Counts[name])
		}
		rows.Add("\nPENDING\tFRESH\tFAILED\tOLDEST")
		for _, b := range append(s.Bands, TierBand{Band: s.Beyond, Ages: "older: never tried"}) {
			oldest := "-"
			if t := time.Time(b.Oldest); !t.IsZero() {
				oldest = Shortly(s.now.Sub(t)) + " old"
			}
			rows.Add("%s\t%d\t%d\t%s", b.Ages, b.Fresh, b.Failed, oldest)
		}
		for _, others := range []struct {
			n      int
			format string
		}{
			{s.Waiting, "not eligible yet\t%d\t\t"},
			{s.Expired, "past their own time: never tried\t%d\t\t"},
			{s.Unreadable, "without a date that can be read: never tried\t%d\t\t"},
			{s.Exhausted, "out of retries: never tried again\t-\t%d\t-"},
		} {
			if others.n > 0 {
				rows.Add(others.format, others.n)
			}
		}
	}
	rows.Add("\nNEXT PASS\tTIER")
	for _, n := range s.Next {
		rows.Add("%v\t%s", n.At, Shown(n.Tier))
	}
	return rows
}

// Counts are the numbers of records in a table at a time, for ages in ascending
// order, the edges: band i holds the records older than edge i-1 (the first: of
// any age below) and at most edge i old. What is older than the last edge is in
// Beyond. A record that is not eligible yet, or has expired, is pending, and in no band.
type Counts struct {
	ByStatus   map[string]int // every row within the configured filter; "NULL" is NULL
	Bands      []Band         // one per edge
	Beyond     Band
	Unreadable int // pending rows in no band: their date is missing or cannot be right
	Waiting    int // pending rows that are not eligible yet, in no band
	Expired    int // pending rows past their own time of expiry, in no band
	Exhausted  int // failed records that are out of retries: no longer pending, and in no band
}

// A Band counts the pending records in a range of ages.
type Band struct {
	Fresh  int   `json:"fresh"`
	Failed int   `json:"failed"`
	Oldest Stamp `json:"oldest"` // zero: the band is empty

	OldestFresh Stamp `json:"oldest_fresh"` // likewise
}

// Add counts n pending records; oldest is zero if they have no date.
func (b *Band) Add(lane backlog.Lane, n int, oldest time.Time) {
	older := func(than Stamp) Stamp {
		if first := time.Time(than); !oldest.IsZero() && (first.IsZero() || oldest.Before(first)) {
			return Stamp(oldest)
		}
		return than
	}
	b.Oldest = older(b.Oldest)
	if lane == backlog.Fresh {
		b.Fresh += n
		b.OldestFresh = older(b.OldestFresh)
	} else {
		b.Failed += n
	}
}

// Pending returns the number of pending records in all bands.
func (c Counts) Pending() int {
	n := c.Beyond.Fresh + c.Beyond.Failed + c.Unreadable + c.Waiting + c.Expired
	for _, b := range c.Bands {
		n += b.Fresh + b.Failed
	}
	return n
}

// A Tick is an instant at which a pass starts.
type Tick struct {
	At     Stamp    `json:"at"`
	Tier   string   `json:"tier"`
	MaxAge float64  `json:"max_age_seconds"`
	Covers []string `json:"covers"`
}

// Ticks returns the ticks after from, up to until if that is not zero, at most count.
func Ticks(s *tiers.Schedule, from, until time.Time, count int) iter.Seq[Tick] {
	return func(yield func(Tick) bool) {
		at := s.Next(from)
		for n := 0; !at.IsZero() && (until.IsZero() || !at.After(until)) && n < count; n++ {
			pick := tiers.Coalesce(s.Due(at.Add(-time.Nanosecond), at), func(tiers.Tier) bool { return true })
			covers := []string{}
			for _, d := range pick.Covered {
				covers = append(covers, d.Tier.Name)
			}
			if start := pick.Start.Tier; !yield(Tick{Stamp(at), start.Name, start.MaxAge.Seconds(), covers}) {
				return
			}
			at = s.Next(at)
		}
	}
}

// A Start is when a tier's next pass starts.
type Start struct {
	At   Stamp  `json:"at"`
	Tier string `json:"tier"`
}

// Starts returns when each tier's next pass starts. A tier whose ticks are all
// covered by wider ones for long has none.
func Starts(s *tiers.Schedule, now time.Time) (next []Start) {
	const ticks = 10_000 // how far ahead to look
	for t := range Ticks(s, now, time.Time{}, ticks) {
		if !slices.ContainsFunc(next, func(n Start) bool { return n.Tier == t.Tier }) {
			next = append(next, Start{t.At, t.Tier})
		}
		if len(next) == len(s.Tiers()) {
			break
		}
	}
	return next
}

// An OutcomeCount is how many records of a pass had one outcome.
type OutcomeCount struct {
	N          int
	Key, Words string // in the log and for people
}

// OutcomeCounts returns the report's counts but for the selected records.
func OutcomeCounts(r backlog.Report) []OutcomeCount {
	return []OutcomeCount{
		{r.Succeeded, "succeeded", "succeeded"}, {r.Failed, "failed", "failed"}, {r.GivenUp, "given_up", "of them out of retries"},
		{r.Rejected, "rejected", "rejected"}, {r.Skipped, "skipped", "skipped"},
		{r.Accepted, "accepted", "handed over"}, {r.Overdue, "overdue", "not answered by their deadline"},
		{r.Conflicts, "conflicts", "changed by somebody else meanwhile"}, {r.Refused, "refused", "refused by the database"},
		{r.Interrupted, "interrupted", "interrupted"}, {r.Unwritten, "unwritten", "not written"}, {r.Expired, "expired", "expired"},
		{r.Unreadable, "unreadable", "unreadable and left alone"},
	}
}

// ReportText is the report of the pass called name in one line. What did not happen is
// not mentioned.
func ReportText(name string, r backlog.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s selected", Shown(name), Plural(r.Selected, "record"))
	for _, c := range OutcomeCounts(r) {
		if c.N > 0 {
			fmt.Fprintf(&b, ", %d %s", c.N, c.Words)
		}
	}
	fmt.Fprintf(&b, " in %v", r.Duration.Round(time.Millisecond))
	if r.Stopped != "" {
		fmt.Fprintf(&b, "; stopped by %s, the next pass goes on from there", r.Stopped)
	}
	return b.String()
}
