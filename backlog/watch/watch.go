// Package watch folds what passes leave behind, told by Observe, into one bounded
// picture: why records fail, and whether an outage lasts. It does no I/O.
package watch

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"time"

	"backlog/backlog"
	"backlog/backlog/causes"
	"backlog/backlog/inspect"
)

// A Pass is the report of a pass as commands print it and the state folder keeps it.
type Pass struct {
	N        int64         `json:"n,omitempty"` // what it is called: the milliseconds of its start
	Tier     string        `json:"tier"`
	MaxAge   float64       `json:"max_age_seconds"`
	Tick     inspect.Stamp `json:"tick,omitzero"` // that it is for
	Started  inspect.Stamp `json:"started"`
	Duration float64       `json:"duration_seconds"`
	backlog.Report
	Covered []string `json:"covered,omitempty"` // the tiers that ticked with it
	Missed  int      `json:"missed,omitempty"`  // ticks that it makes up for
	Causes  []Cause  `json:"causes"`
	Error   string   `json:"error,omitempty"` // with which it ended

	ofHandler bool // the error is the handler's, not the store's
}

// A Trouble is why work does not go on as it should.
type Trouble struct {
	Since inspect.Stamp `json:"since"`
	// Passes says that passes end with the error; else the database is unavailable, or
	// its table cannot be read.
	Passes bool   `json:"passes"`
	Error  string `json:"error"`
	// Away says that the same may go on later by itself.
	Away bool `json:"-"`
	// Handler says that the error is the handler's.
	Handler bool `json:"-"`
}

// A Cause is why records failed: their error where all have the same, else what their
// errors have in common.
type Cause struct {
	Error   string          `json:"error"`
	Records int             `json:"records"`
	First   json.RawMessage `json:"first_id"` // a key
}

// PassOf returns the report with its causes.
func PassOf(r backlog.Report, list []causes.Cause) Pass {
	p := Pass{
		Tier: r.Tier, MaxAge: r.MaxAge.Seconds(), Tick: inspect.Stamp(r.Tick), Started: inspect.Stamp(r.Started),
		Duration: r.Duration.Seconds(), Report: r, Causes: make([]Cause, len(list)),
	}
	for i := range list {
		p.Causes[i] = CauseOf(&list[i])
	}
	return p
}

// Ended returns when the pass ended.
func (p *Pass) Ended() time.Time {
	return time.Time(p.Started).Add(time.Duration(p.Duration * float64(time.Second)))
}

// A Pause is a time in which nothing is started.
type Pause struct {
	Until  *time.Time `json:"until"` // nil: until it is ended
	Reason string     `json:"reason"`
	By     string     `json:"by"` // the account that asked for it
}

// Current returns the pause if it holds at the time, else nil. A nil Pause holds never.
func (p *Pause) Current(now time.Time) *Pause {
	if p != nil && (p.Until == nil || now.Before(*p.Until)) {
		return p
	}
	return nil
}

// String says until when, and why.
func (p *Pause) String() string { return p.In(time.UTC) }

// In is String with the date in a zone.
func (p *Pause) In(zone *time.Location) string {
	text := "until it is resumed"
	if p.Until != nil {
		text = "until " + inspect.Stamp(*p.Until).In(zone)
	}
	if p.Reason != "" {
		text += " (" + p.Reason + ")"
	}
	return text
}

// An Outage is a time in which every attempt fails. It begins with a pass without a
// success that had a record tried for the first time, and was ended by abort_after or
// had ten failures; the first success ends it.
type Outage struct {
	Since    time.Time `json:"since"`
	Cause    string    `json:"cause"`   // the most frequent one of the last pass
	Pending  int       `json:"pending"` // when it was last counted
	Passes   int       `json:"passes"`
	Reminded time.Time `json:"reminded,omitzero"` // when it was last told that it lasts
}

const (
	// outageFailures are the failures in one pass that are an outage.
	outageFailures = 10
	// A reminder that an outage lasts comes at the earliest minReminder after the one
	// before, then less and less often, at least every maxReminder.
	minReminder = 5 * time.Minute
	maxReminder = time.Hour
)

// A Change is what an event means for the outage.
type Change int

// Lasts is a pass in an outage of which to remind.
const (
	None Change = iota
	Began
	Lasts
	Recovered
)

// A Picture is what the events of an engine and its loop add up to. The zero value is an
// empty one. All methods may be called concurrently.
type Picture struct {
	mu     sync.Mutex
	passes map[string]*pass // the last of each tier, under way or ended
	outage *Outage
	away   *Trouble // of the database; nil: none

	*history
}

type pass struct {
	causes.Tally
	begun            *Pass // nil: it has ended
	ended            *Pass
	covered          []string
	missed           int
	fresh, succeeded bool // a record was tried for the first time; one succeeded
}

// Outage returns the outage that lasts, or nil. The caller may change it.
func (p *Picture) Outage() *Outage {
	defer p.lock()()
	if p.outage == nil {
		return nil
	}
	return new(*p.outage)
}

// Counted notes how many records are pending in the outage that began at a time.
func (p *Picture) Counted(since time.Time, pending int) {
	defer p.lock()()
	if p.outage != nil && p.outage.Since.Equal(since) {
		p.outage.Pending = pending
	}
}

// Causes returns why records failed in the tier's last pass, the most frequent cause
// first.
func (p *Picture) Causes(tier string) []causes.Cause {
	defer p.lock()()
	return p.of(tier).Causes()
}

// Last returns the tier's last pass that has ended since its last one began; nil: none.
func (p *Picture) Last(tier string) *Pass {
	defer p.lock()()
	return p.of(tier).ended
}

// Trouble returns what is wrong, nil if nothing is: the one account of it for pages, probes
// and metrics. Of passes those count that have ended after the time from; a later pass that
// reaches as far and ends without an error makes up for one that did not.
func (p *Picture) Trouble(from time.Time) *Trouble {
	defer p.lock()()
	if p.away != nil {
		return new(*p.away)
	}
	return failing(p.history.passes, from)
}

// failing returns the trouble of the oldest of the passes that end with an error again and
// again, or for the first time.
func failing(passes []Pass, from time.Time) *Trouble {
	bad := make(map[string]*Pass) // the first of each tier since its last good one
	latest := make(map[string]*Pass)
	for i := range passes {
		x := &passes[i]
		if !x.Ended().After(from) {
			continue
		}
		if x.Error != "" {
			bad[x.Tier] = cmp.Or(bad[x.Tier], x)
			latest[x.Tier] = x
			continue
		}
		maps.DeleteFunc(bad, func(_ string, b *Pass) bool { return b.MaxAge <= x.MaxAge })
	}
	var t *Trouble
	for tier, x := range bad {
		ended := inspect.Stamp(x.Ended())
		if t == nil || time.Time(ended).Before(time.Time(t.Since)) {
			t = &Trouble{Since: ended, Passes: true, Error: latest[tier].Error, Handler: latest[tier].ofHandler}
		}
	}
	return t
}

// of returns the tier's pass. The caller holds the lock.
func (p *Picture) of(tier string) *pass {
	if p.passes[tier] == nil {
		p.passes[tier] = new(pass)
	}
	return p.passes[tier]
}

// Observe takes one event. The outage is the one that began, lasts or, Recovered, is over.
func (p *Picture) Observe(ev backlog.Event) (Change, Outage) {
	var folded, text string
	switch ev.Kind {
	case backlog.AttemptEnded:
		if ev.Outcome == backlog.Errored || ev.Outcome == backlog.Rejected {
			text = ev.Err.Error()
			folded = causes.Fold(text) // before the lock: others wait for that
		}
	case backlog.OnDeadFailed:
		text = "on_dead: " + ev.Err.Error()
		folded = "on_dead: " + causes.Fold(ev.Err.Error())
	}
	defer p.lock()()
	p.since = cmp.Or(p.since, ev.At)
	switch ev.Kind {
	case backlog.TierCovered:
		x := p.of(ev.By)
		x.covered = append(x.covered, ev.Tier)
	case backlog.TicksMissed:
		p.of(ev.Tier).missed = ev.N
	case backlog.PassStarted:
		x := p.of(ev.Tier)
		begun := PassOf(*ev.Report, nil)
		begun.N, begun.Covered, begun.Missed = begun.Report.Started.UnixMilli(), x.covered, x.missed
		p.passes[ev.Tier] = &pass{begun: &begun}
	case backlog.PassEnded:
		return p.passEnded(ev, p.of(ev.Tier))
	case backlog.OnDeadFailed:
		p.of(ev.Tier).Add(folded, text, ev.Record.Key)
	case backlog.AttemptEnded:
		return p.attemptEnded(ev, folded, text)
	case backlog.StoreUnavailable:
		p.away = &Trouble{
			Since: inspect.Stamp(ev.At), Error: inspect.Elide(ev.Err.Error(), maxError), Away: errors.Is(ev.Err, backlog.ErrUnavailable),
		}
	case backlog.StoreBack:
		p.away = nil
	}
	return None, Outage{}
}

func (p *Picture) attemptEnded(ev backlog.Event, folded, text string) (Change, Outage) {
	x := p.of(ev.Tier)
	if text != "" {
		x.Add(folded, text, ev.Record.Key)
		x.fresh = x.fresh || ev.Record.Lane == backlog.Fresh
	}
	p.attempt(ev, folded, text)
	x.succeeded = x.succeeded || ev.Outcome == backlog.Succeeded
	o := p.outage
	if o == nil || ev.Outcome != backlog.Succeeded {
		return None, Outage{}
	}
	p.outage, p.outages = nil, last(append(p.outages, PastOutage{*o, ev.At}), maxOutages)
	return Recovered, *o
}

func (p *Picture) passEnded(ev backlog.Event, x *pass) (Change, Outage) {
	r := ev.Report
	ended := PassOf(*r, x.Causes())
	ended.N = r.Started.UnixMilli()
	if x.begun != nil {
		ended.Covered, ended.Missed = x.begun.Covered, x.begun.Missed
	}
	if ev.Err != nil && r.Stopped == backlog.StoppedError {
		ended.Error = inspect.Elide(ev.Err.Error(), maxError)
		ended.ofHandler = backlog.IsHandlerFault(ev.Err)
	}
	x.begun, x.ended = nil, &ended
	p.history.passes = last(append(p.history.passes, ended), maxPasses)
	if x.succeeded || r.Succeeded > 0 || r.Failed == 0 {
		return None, Outage{}
	}
	change := Lasts
	if p.outage == nil {
		if !x.fresh || r.Failed < outageFailures && r.Stopped != backlog.StoppedAbortAfter {
			return None, Outage{}
		}
		change, p.outage = Began, &Outage{Since: r.Started}
	}
	o := p.outage
	o.Passes++
	if len(ended.Causes) > 0 {
		o.Cause = ended.Causes[0].Error
	}
	if gap := min(max(o.Reminded.Sub(o.Since), minReminder), maxReminder); change == Lasts && ev.At.Sub(o.Reminded) < gap {
		return None, Outage{}
	}
	o.Reminded = ev.At
	return change, *o
}
