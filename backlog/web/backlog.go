// Package web serves pages, an API and probes that show what a daemon does and what its table holds.
// Pages and API need a token.
//
// A [Site] answers the requests. What it shows comes from a [Backlog], so this package knows no
// database.
package web

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/watch"
	"backlog/tiers"
)

// A Backlog is what a [Site] shows and acts on. Its methods may be called concurrently. An error that
// the visitor can do something about is a [*Problem].
type Backlog interface {
	// Now returns what is known without asking the database.
	Now() Now
	// LookBack returns what the state folder knows: passes, the daemon, the outage and the pause.
	LookBack(ctx context.Context) watch.LookBack
	// Timeline returns what was in the last day and in the last 30 days, as far as the state folder knows; nil: it
	// knows nothing.
	Timeline() *watch.Timeline
	// Records returns a page of the records that match the filter. Dates within texts are in the
	// zone; nil: in UTC, and shown columns are as the table has them.
	Records(ctx context.Context, f Filter, zone *time.Location) (Records, error)
	// Record returns the record with the id, with dates in the zone as by Records.
	Record(ctx context.Context, id string, zone *time.Location) (Record, error)
	// Simulate compares what the running schedule and another would do with the records that the
	// table has now. The other is YAML with the key tiers.
	Simulate(ctx context.Context, schedule string) (Simulation, error)
	// Choose counts the records that Retry would reset.
	Choose(ctx context.Context, f Filter) (Choice, error)
	// Retry resets the records that match the filter. If they have become considerably more than
	// expected, it resets none and returns a [*Problem].
	Retry(ctx context.Context, f Filter, expect int) (Retried, error)
	// Pause begins a pause; nil ends it.
	Pause(p *watch.Pause) error
	// Resolve gives an attempt of the policy refresh its outcome.
	Resolve(ctx context.Context, r Resolution) error
}

// A Resolution is an outcome of an attempt: success, error or snooze.
type Resolution struct {
	UID, Outcome, Reason string
	Snooze               any // of a snooze, as [backlog.ParseSnooze] takes it
}

// The roles of a process.
const (
	Leader  = "leader"
	Standby = "standby"
	Viewer  = "viewer" // it runs no daemon
)

// A Now is what is known at a moment without asking the database.
type Now struct {
	Role       string
	Version    string
	Database   string // without password
	Table      string
	Name       string    // from the configuration; "": it has none
	Loaded     time.Time // when the configuration was loaded
	Woke       time.Time // when the loop last woke; zero for a viewer
	Stopping   bool
	Zone       *time.Location
	Schedule   *tiers.Schedule
	Refresh    bool          // the policy is refresh: ages do not matter
	LastErrors bool          // a column keeps the last errors
	Choices    []string      // lanes and states that the table has, as words of a [Filter]; nil: not known yet
	Timer      inspect.Timer // how cron or systemd runs the schedule

	Counts   *inspect.Status // nil: not counted yet
	Counted  time.Time
	Took     time.Duration // the count
	CountErr string        // why the last count failed; "": it did not
	Rows     *Rows         // counted as well; nil: no column keeps the last errors

	Trouble *watch.Trouble // with the database or with passes; nil: none
	Pause   *watch.Pause
	Pausing bool           // a pause can be begun and ended in this process
	Picture *watch.Picture // passes, causes, outages and suspects
	Learned *Learned       // from past passes; nil: too little
}

// Rows are why the newest failed records have failed, by their last errors.
type Rows struct {
	Records  int           `json:"records"`  // how many were looked at
	Complete bool          `json:"complete"` // there are no older ones
	Causes   []watch.Cause `json:"causes"`
}

// A Filter says which records are meant, in the words of the pages' URLs. "": any.
type Filter struct {
	Band  string `json:"band"`  // a tier's name, or beyond
	Lane  string `json:"lane"`  // fresh or failed
	State string `json:"state"` // dead, exhausted or unreadable; "": all pending ones
	Cause string `json:"cause"` // a part of the last error, or the name of a cause
	ID    string `json:"q"`     // only this record
	After string `json:"-"`     // the place that the previous page calls next
	Limit int    `json:"-"`
}

// String returns the filter in words.
func (f Filter) String() string {
	if f.ID != "" {
		return "the record " + f.ID
	}
	text := "records that are " + cmp.Or(f.State, f.Lane, "pending")
	if f.Band != "" {
		text += ", whose age is in the band " + f.Band
	}
	if f.Cause != "" {
		text += ", whose last error has " + f.Cause
	}
	return text
}

// Records are a page of records.
type Records struct {
	Records []Entry `json:"records"`
	Next    *string `json:"next"` // nil: there are no more
}

// An Entry is a record in a list.
type Entry struct {
	inspect.Entry
	Retrying bool   `json:"in_retry"`
	Data     []Cell `json:"data,omitempty"` // the columns of web.show
}

// A Cell is a column of a record. NULL is nil.
type Cell struct {
	Name  string  `json:"name"`
	Value *string `json:"value"`
}

// A Record is everything that is known about one record.
type Record struct {
	*inspect.Sheet
	Retrying bool            `json:"in_retry"`
	Data     []Cell          `json:"data,omitempty"`
	Attempts []watch.Attempt `json:"seen"` // by this process, the newest first
	Ahead    *Ahead          `json:"ahead"`
}

// Ahead is what happens to a record that goes on failing; nil if that is not known.
type Ahead struct {
	Tiers []RemainingTicks `json:"tiers"`
	Until inspect.Stamp    `json:"until"` // when it is older than every tier, or out of retries
	Then  string           `json:"then"`  // what happens to it then, in words
}

// RemainingTicks is how often a tier will still try a record.
type RemainingTicks struct {
	Tier  string `json:"tier"`
	Ticks int    `json:"ticks"`
}

// A Simulation is what the running schedule and another one would do.
type Simulation struct {
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`    // the best cells of a column end in a star
	Results []any      `json:"results"` // as `simulate --json` prints them, the running schedule first
	Assumed Assumption `json:"assumed"`
	Plot    []byte     `json:"-"` // SVG: calls and pending records in the next 24 hours
}

// An Assumption says how attempts end in a simulation.
type Assumption string

const (
	AllFail   Assumption = "all fail"   // and no new record comes in
	AsLearned Assumption = "as learned" // records stay broken, and come in, as past passes show
)

// Text returns the assumption as a clause for people.
func (a Assumption) Text() string {
	if a == AsLearned {
		return "if records come in and stay broken as past passes show"
	}
	return "if every attempt fails"
}

// Starred reports whether any cell ends in a star.
func (s *Simulation) Starred() bool {
	cells := slices.Concat(s.Rows...)
	return slices.ContainsFunc(cells, func(c string) bool { return strings.HasSuffix(c, "*") })
}

// A Choice is which records match a filter at a moment.
type Choice struct {
	Records  int           `json:"records"`
	Where    string        `json:"where"` // the filter in words
	Examples []backlog.Key `json:"examples"`
}

// Retried is what [Backlog.Retry] has done.
type Retried struct {
	Selected  int `json:"selected"`
	Reset     int `json:"reset"`
	Conflicts int `json:"conflicts"` // changed by another process since they were selected

	Refused  int       `json:"refused,omitempty"`  // by the database
	Refusals []Refusal `json:"refusals,omitempty"` // the first of them
}

// A Refusal is a record that the database refuses to change, and its error.
type Refusal struct {
	ID    backlog.Key `json:"id"`
	Error string      `json:"error"`
}

// A Problem is an error that the visitor can do something about.
type Problem struct {
	Status int    // of HTTP
	Text   string // a sentence
}

// Error implements error.
func (p *Problem) Error() string { return p.Text }
