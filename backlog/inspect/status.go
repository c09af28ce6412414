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

// A Status says what is in a table, and when its next passes start.
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

	// Configured are the statuses that the configuration names. nil: other columns decide too.
	Configured []string `json:"-"`

	now time.Time
}

// Uncounted has the fields of a [Status] whose records were not counted. What is unknown is null.
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

// A TierBand is the band of ages that a tier adds to the narrower ones.
type TierBand struct {
	Tier   string  `json:"tier"`
	MinAge float64 `json:"min_age_seconds"`
	MaxAge float64 `json:"max_age_seconds"`
	Band
	Ages string `json:"-"` // for people
}

// NewStatus returns the status of a table. The edges of the counts must be the ages of the tiers.
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

// NewRefreshStatus returns the status of a table of the policy refresh, whose rows are counted by state.
func NewRefreshStatus(counts map[string]int, s *tiers.Schedule, now time.Time) *Status {
	status := &Status{
		Counts:  make(map[string]int),
		Pending: counts["waiting"] + counts["running"],
		Bands:   []TierBand{},
		Next:    Starts(s, now),
	}
	for _, state := range States {
		status.Counts[state] = counts[state]
	}
	return status
}

// Failed returns the number of failed records. Those that the policy refresh has disabled count.
func (s *Status) Failed() int {
	if len(s.Bands) == 0 {
		return s.Counts["disabled"]
	}
	n := s.Beyond.Failed
	for _, b := range s.Bands {
		n += b.Failed
	}
	return n
}

// Lines returns the status for people, with tabs between cells.
func (s *Status) Lines() (rows Grid) {
	if len(s.Bands) == 0 {
		rows.Add("STATE\tRECORDS")
		for _, state := range States {
			rows.Add("%s\t%d", state, s.Counts[state])
		}
	} else {
		rows.Add("STATUS\tRECORDS")
		for _, name := range slices.Sorted(maps.Keys(s.Counts)) {
			rows.Add("%s\t%d%s", Shown(name), s.Counts[name], s.leftAlone(name))
		}
		rows.Add("\nPENDING\tFRESH\tFAILED\tOLDEST")
		for _, b := range append(s.Bands, TierBand{Band: s.Beyond, Ages: "older: not tried"}) {
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
			{s.Expired, "past their own time: not tried\t%d\t\t"},
			{s.Unreadable, "without a date that can be read: not tried\t%d\t\t"},
			{s.Exhausted, "out of retries: not tried\t-\t%d\t-"},
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

// leftAlone returns a note for people about a status that the configuration does not name, so that passes
// do not touch its rows. The database may ignore capitals and spaces; so does this.
func (s *Status) leftAlone(status string) string {
	isStatus := func(configured string) bool {
		return strings.EqualFold(strings.TrimSpace(status), strings.TrimSpace(configured))
	}
	if s.Configured == nil || slices.ContainsFunc(s.Configured, isStatus) {
		return ""
	}
	return "\tnot under statuses: left alone"
}

// Counts are the numbers of records in a table at one time, by bands of ages. The bands lie between edges,
// which are ages in ascending order: Bands[i] has the records older than edge i-1 and at most as old as
// edge i, Bands[0] all up to edge 0. Beyond has those older than the last edge. Records that are not
// eligible yet or have expired are pending, but in no band.
type Counts struct {
	ByStatus   map[string]int // all rows that the filter of the mapping admits; "NULL" is NULL
	Bands      []Band         // one for each edge
	Beyond     Band
	Unreadable int // pending rows in no band, because a date is missing or implausible
	Waiting    int // pending rows in no band, because they are not eligible yet
	Expired    int // pending rows in no band, because they have expired
	Exhausted  int // failed records out of retries, which are not pending and in no band
}

// A Band counts the pending records in a range of ages.
type Band struct {
	Fresh  int   `json:"fresh"`
	Failed int   `json:"failed"`
	Oldest Stamp `json:"oldest"` // zero: the band has no record with a date

	OldestFresh Stamp `json:"oldest_fresh"` // of the fresh records; zero: none has a date
}

// Add counts n pending records, the oldest inserted at that time. It is zero if they have no date.
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

// Pending returns the number of all pending records, in bands or not.
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

// anyTier reports that a tier may start. It is for schedules as such, without passes that are under way.
func anyTier(tiers.Tier) bool { return true }

// Ticks returns at most count ticks after from, and none after until, unless that is zero.
func Ticks(s *tiers.Schedule, from, until time.Time, count int) iter.Seq[Tick] {
	return func(yield func(Tick) bool) {
		at := s.Next(from)
		for n := 0; !at.IsZero() && (until.IsZero() || !at.After(until)) && n < count; n++ {
			pick := tiers.Coalesce(s.Due(at.Add(-time.Nanosecond), at), anyTier)
			covers := []string{}
			for _, d := range pick.Covered {
				covers = append(covers, d.Tier.Name)
			}
			start := pick.Start.Tier
			if !yield(Tick{Stamp(at), start.Name, start.MaxAge.Seconds(), covers}) {
				return
			}
			at = s.Next(at)
		}
	}
}

// A Start is the start of a tier's next pass.
type Start struct {
	At   Stamp  `json:"at"`
	Tier string `json:"tier"`
}

// Starts returns when the next pass of each tier starts. A tier is missing if wider ones cover its ticks for
// a long time.
func Starts(s *tiers.Schedule, now time.Time) (next []Start) {
	const ticks = 10_000 // how many ticks of the schedule to look at
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

// An OutcomeCount is how many records of a pass have had one outcome.
type OutcomeCount struct {
	N          int
	Key, Words string // the key in the log, and the words for people
}

// OutcomeCounts returns all counts of the report except for the selected records.
func OutcomeCounts(r backlog.Report) []OutcomeCount {
	return []OutcomeCount{
		{r.Succeeded, "succeeded", "succeeded"}, {r.Failed, "failed", "failed"}, {r.GivenUp, "given_up", "of them out of retries"},
		{r.Rejected, "rejected", "rejected"}, {r.Skipped, "skipped", "skipped"}, {r.Snoozed, "snoozed", "snoozed"},
		{r.Accepted, "accepted", "handed over"}, {r.Overdue, "overdue", "not answered by their deadline"},
		{r.Conflicts, "conflicts", "changed by somebody else meanwhile"}, {r.Refused, "refused", "refused by the database"},
		{r.Interrupted, "interrupted", "interrupted"}, {r.Unwritten, "unwritten", "not written"}, {r.Expired, "expired", "expired"},
		{r.Unreadable, "unreadable", "unreadable and left alone"},
	}
}

// OutcomeText returns the counts of outcomes, by their keys, in words. It leaves out counts of 0, and some keys.
func OutcomeText(counts map[string]int, without ...string) string {
	var list []string
	for _, c := range OutcomeCounts(backlog.Report{}) {
		if n := counts[c.Key]; n > 0 && !slices.Contains(without, c.Key) {
			list = append(list, Thousands(n)+" "+c.Words)
		}
	}
	return strings.Join(list, ", ")
}

// ReportText returns the report of the pass with that name in one line. It leaves out counts of 0.
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
