// Package web serves pages and an API that show what a daemon and its table are about,
// closed to everybody without the token. It knows no database: see [Backlog].
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

// A Backlog is what a [Site] shows and acts on. Its methods may be called concurrently. An
// error that the visitor has caused is a [*Problem].
type Backlog interface {
	// Now returns what is known without asking the database.
	Now() Now
	// LookBack returns what the state folder tells, and who works.
	LookBack(ctx context.Context) watch.LookBack
	// Records returns a page of the records that the filter means. Texts for people, of which
	// shown columns are some, have dates in the zone; nil: UTC, and columns as they are.
	Records(ctx context.Context, f Filter, zone *time.Location) (Records, error)
	Record(ctx context.Context, id string, zone *time.Location) (Record, error)
	// Simulate shows what the schedule, YAML with the key tiers, would do with the records
	// that the table has now, beside the running one.
	Simulate(ctx context.Context, schedule string) (Simulation, error)
	// Choose counts the records that Retry would put back.
	Choose(ctx context.Context, f Filter) (Choice, error)
	// Retry puts back what the filter means. It is a [*Problem] if that has become
	// considerably more than expected.
	Retry(ctx context.Context, f Filter, expect int) (Retried, error)
	// Pause begins a pause; nil: ends it.
	Pause(p *watch.Pause) error
	// Resolve gives an attempt of the policy refresh its outcome, success or error.
	Resolve(ctx context.Context, uid, outcome, reason string) error
}

// What the process is.
const (
	Leader  = "leader"
	Standby = "standby"
	Viewer  = "viewer" // no daemon
)

// A Now is what is known at a moment without asking the database.
type Now struct {
	Role       string
	Version    string
	Database   string // without password
	Table      string
	Name       string    // of the work on it; "": none
	Loaded     time.Time // when the configuration was
	Woke       time.Time // when the loop did last; a viewer has none
	Stopping   bool
	Zone       *time.Location
	Schedule   *tiers.Schedule
	Refresh    bool          // the policy refresh: ages do not matter
	LastErrors bool          // a column has them
	Choices    []string      // the lanes and states that the table has, as a filter has them; nil: not known yet
	Timer      inspect.Timer // how a system's own timer runs it

	Counts   *inspect.Status // nil: not counted yet
	Counted  time.Time
	Took     time.Duration
	CountErr string // why the last count failed; empty: it did not
	Rows     *Rows  // counted, too; nil: no column has last errors

	Trouble *watch.Trouble // with the database, or with passes; nil: none
	Pause   *watch.Pause
	Pausing bool           // a pause can be set, and ended, here
	Picture *watch.Picture // passes, causes, outages, what failed
}

// Rows are why the newest failed records have failed, by their last errors.
type Rows struct {
	Records  int           `json:"records"`  // that were looked at
	Complete bool          `json:"complete"` // there are no older ones
	Causes   []watch.Cause `json:"causes"`
}

// A Filter says which records are meant, in the words of the pages' URLs. Empty: any.
type Filter struct {
	Band  string `json:"band"`  // a tier's name, or beyond
	Lane  string `json:"lane"`  // fresh or failed
	State string `json:"state"` // dead, exhausted or unreadable; empty: all that is pending
	Cause string `json:"cause"` // part of the last error, or what a cause is called
	ID    string `json:"q"`     // this record alone
	After string `json:"-"`     // the place that the page before has called next
	Limit int    `json:"-"`
}

// String says it in words.
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

// Records are a page of them.
type Records struct {
	Records []Entry `json:"records"`
	Next    *string `json:"next"` // nil: there are no more
}

// An Entry is a record in a list.
type Entry struct {
	inspect.Entry
	Retrying bool   `json:"in_retry"`
	Data     []Cell `json:"data,omitempty"` // of the columns that are to be shown
}

// A Cell is a column of a record. NULL is nil.
type Cell struct {
	Name  string  `json:"name"`
	Value *string `json:"value"`
}

// A Record is one in full.
type Record struct {
	*inspect.Sheet
	Retrying bool            `json:"in_retry"`
	Data     []Cell          `json:"data,omitempty"`
	Attempts []watch.Attempt `json:"seen"` // by this process, the newest first
	Ahead    *Ahead          `json:"ahead"`
}

// Ahead is what becomes of a record that goes on failing; nil where that cannot be said.
type Ahead struct {
	Tiers []Left        `json:"tiers"`
	Until inspect.Stamp `json:"until"` // when it outgrows the widest tier, or is out of retries
	Then  string        `json:"then"`  // what happens to it then, in words
}

// Left is how often a tier will still try a record.
type Left struct {
	Tier  string `json:"tier"`
	Ticks int    `json:"ticks"`
}

// A Simulation is what the running schedule and another one would do.
type Simulation struct {
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`    // the best of a column end in a star
	Results []any      `json:"results"` // the same as numbers, of the running one first, as `simulate --json` has them
	Plot    []byte     `json:"-"`       // SVG: calls, and records pending, in the next 24 hours if every attempt fails
}

// Starred reports whether a cell ends in a star.
func (s *Simulation) Starred() bool {
	cells := slices.Concat(s.Rows...)
	return slices.ContainsFunc(cells, func(c string) bool { return strings.HasSuffix(c, "*") })
}

// A Choice is what a filter means at a moment.
type Choice struct {
	Records  int           `json:"records"`
	Where    string        `json:"where"` // in words
	Examples []backlog.Key `json:"examples"`
}

// Retried is what Retry has done.
type Retried struct {
	Selected  int `json:"selected"`
	Reset     int `json:"reset"`
	Conflicts int `json:"conflicts"` // changed by somebody else meanwhile

	Refused  int       `json:"refused,omitempty"`  // by the database
	Refusals []Refusal `json:"refusals,omitempty"` // the first of them
}

// A Refusal is a record that the database refuses, and what it said.
type Refusal struct {
	ID    backlog.Key `json:"id"`
	Error string      `json:"error"`
}

// A Problem is an error that the visitor can do something about.
type Problem struct {
	Status int    // of HTTP
	Text   string // a sentence
}

func (p *Problem) Error() string { return p.Text }
