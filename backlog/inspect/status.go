package inspect

import (
	"fmt"
	"maps"
	"slices"
	"time"

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
	Next       []Start        `json:"next"`

	now time.Time
}

// A TierBand is the band that a tier adds.
type TierBand struct {
	Tier   string  `json:"tier"`
	MinAge float64 `json:"min_age_seconds"`
	MaxAge float64 `json:"max_age_seconds"`
	Band
	ages string
}

// NewStatus returns the status of a table with the counts, whose edges are the tiers'.
func NewStatus(c Counts, s *tiers.Schedule, now time.Time) *Status {
	status := &Status{
		Counts: c.ByStatus, Pending: c.Pending(), Beyond: c.Beyond, Unreadable: c.Unreadable, Exhausted: c.Exhausted,
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
func (s *Status) Lines() (rows []string) {
	add := func(format string, args ...any) { rows = append(rows, fmt.Sprintf(format, args...)) }
	if len(s.Bands) == 0 {
		add("STATE\tRECORDS")
		for _, state := range States {
			add("%s\t%d", state, s.Counts[state])
		}
	} else {
		s.addBands(add)
	}
	add("\nNEXT PASS\tTIER")
	for _, n := range s.Next {
		add("%v\t%s", n.At, Shown(n.Tier))
	}
	return rows
}

func (s *Status) addBands(add func(format string, args ...any)) {
	add("STATUS\tRECORDS")
	for _, name := range slices.Sorted(maps.Keys(s.Counts)) {
		add("%s\t%d", Shown(name), s.Counts[name])
	}
	add("\nPENDING\tFRESH\tFAILED\tOLDEST")
	for _, b := range append(s.Bands, TierBand{Band: s.Beyond, ages: "older: never tried"}) {
		oldest := "-"
		if t := time.Time(b.Oldest); !t.IsZero() {
			oldest = Shortly(s.now.Sub(t)) + " old"
		}
		add("%s\t%d\t%d\t%s", b.ages, b.Fresh, b.Failed, oldest)
	}
	if s.Unreadable > 0 {
		add("without a date that can be read: never tried\t%d\t\t", s.Unreadable)
	}
	if s.Exhausted > 0 {
		add("out of retries: never tried again\t-\t%d\t-", s.Exhausted)
	}
}
