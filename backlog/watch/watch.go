// Package watch keeps what the events of passes add up to: why records fail, which outages there
// were, and whether work goes on. A [Picture] takes the events by [Picture.Observe]; logs, pages,
// probes and metrics read it. Its memory is bounded, and it does no I/O.
package watch

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"backlog/backlog"
	"backlog/backlog/advise"
	"backlog/backlog/causes"
	"backlog/backlog/inspect"
)

// A Pass is the report of a pass as commands print it and the state folder keeps it.
type Pass struct {
	N        int64         `json:"n,omitempty"` // its name: the Unix time of its start in milliseconds
	Tier     string        `json:"tier"`
	MaxAge   float64       `json:"max_age_seconds"`
	Tick     inspect.Stamp `json:"tick,omitzero"` // for which it runs
	Started  inspect.Stamp `json:"started"`
	Duration float64       `json:"duration_seconds"`
	backlog.Report
	Covered []string `json:"covered,omitempty"` // narrower tiers that ticked at the same time
	Missed  int      `json:"missed,omitempty"`  // ticks that it makes up for
	Causes  []Cause  `json:"causes"`
	Error   string   `json:"error,omitempty"` // with which it ended

	Table string           `json:"table,omitempty"` // as the state folder names it
	Ages  []advise.AgeBand `json:"ages,omitzero"`   // the attempts by the age of their records

	// CallTime is the mean time in seconds that the handler took for a record; 0: it took none.
	CallTime float64 `json:"call_seconds,omitempty"`

	handlerError bool // the error is the handler's, not the store's
}

// A Trouble is what keeps work from going on.
type Trouble struct {
	Since inspect.Stamp `json:"since"`
	// Passes says that passes end with the error. Otherwise the database is unavailable, or
	// its table cannot be read.
	Passes bool   `json:"passes"`
	Error  string `json:"error"`
	// Temporary says that the database may be available again without any change.
	Temporary bool `json:"-"`
	// Handler says that the error is the handler's.
	Handler bool `json:"-"`
}

// A Cause is why records failed: their error if all have the same, else what their errors have in
// common.
type Cause struct {
	Error   string          `json:"error"`
	Records int             `json:"records"`
	First   json.RawMessage `json:"first_id"` // the key of the first of them
}

// PassOf returns the pass of a report and its causes.
func PassOf(r backlog.Report, list []causes.Cause) Pass {
	p := Pass{
		Tier:     r.Tier,
		MaxAge:   r.MaxAge.Seconds(),
		Tick:     inspect.Stamp(r.Tick),
		Started:  inspect.Stamp(r.Started),
		Duration: r.Duration.Seconds(),
		Report:   r,
		Causes:   make([]Cause, len(list)),
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
	Until  *time.Time `json:"until"` // nil: until it is ended by hand
	Reason string     `json:"reason"`
	By     string     `json:"by"` // the account that began it
}

// Current returns the pause if it has not ended at the time, else nil. The pause may be nil.
func (p *Pause) Current(now time.Time) *Pause {
	if p != nil && (p.Until == nil || now.Before(*p.Until)) {
		return p
	}
	return nil
}

// String returns until when the pause lasts, and why.
func (p *Pause) String() string { return p.In(time.UTC) }

// In returns the same as String, with the date in a zone.
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

// An Outage is a time in which every attempt fails. It begins with a pass in which no record
// succeeded and a record failed at its first attempt, if abort_after ended the pass or it had ten
// failures. The first success ends it.
type Outage struct {
	Since    time.Time `json:"since"`
	Cause    string    `json:"cause"`   // the most frequent one of the last pass
	Pending  int       `json:"pending"` // records, when they were last counted
	Passes   int       `json:"passes"`
	Reminded time.Time `json:"reminded,omitzero"` // when Observe last returned that it began or lasts

	// DrainedBy is about when every record that it has kept is tried again, as was reckoned at its end; zero: it is
	// not over, or that is not known.
	DrainedBy time.Time `json:"-"`

	// Running are, of an outage that Observe returns as over, the passes under way at its end. The first is that
	// with which it ended, unless that has ended, too.
	Running []Running `json:"-"`
}

// Running is a pass under way.
type Running struct {
	Tier    string
	Started time.Time
	Failed  int // attempts so far
}

const (
	// outageFailures is how many failures in one pass are an outage.
	outageFailures = 10
	// The reminders of an outage become rarer the longer it lasts: the gaps between them grow
	// from minReminder to maxReminder.
	minReminder = 5 * time.Minute
	maxReminder = time.Hour
)

// A Change is what an event means for the outage.
type Change int

const (
	Unchanged Change = iota
	Began
	Ongoing // a pass in an outage after which a reminder is due
	Recovered
)

// A Picture is what the events of an engine and its loop add up to. The zero value has seen no
// event. All methods may be called concurrently.
type Picture struct {
	mu          sync.Mutex
	passes      map[string]*pass // the last of each tier, under way or ended
	outage      *Outage
	unavailable *Trouble // of the database; nil: it is available

	*history
}

// A pass is what the events of a tier's last pass add up to.
type pass struct {
	causes.Tally
	begun       *Pass // nil: it has ended
	ended       *Pass // nil: it has not ended
	covered     []string
	missed      int
	failed      int           // attempts
	calls       int           // of the handler
	called      time.Duration // how long they took together
	freshFailed bool          // a record failed at its first attempt
	succeeded   bool          // a record succeeded

	ages    advise.Collector
	skipped map[string]bool // the IDs of attempts that ages does not count because of a conflict
}

// countAge counts an attempt by the age of its record when the pass started.
func (x *pass) countAge(ev backlog.Event) {
	if a, ok := x.agedAttempt(ev); ok {
		x.ages.Add(a)
	} else if ev.Outcome == backlog.Skipped && errors.Is(ev.Err, backlog.ErrConflict) { // the event of the conflict follows
		if x.skipped == nil {
			x.skipped = make(map[string]bool)
		}
		x.skipped[ev.Record.AttemptID] = true
	}
}

// dropAge takes back an attempt whose outcome was not written. The event may also be about a record that was
// not attempted, since its trial or its death failed.
func (x *pass) dropAge(ev backlog.Event) {
	id := ev.Record.AttemptID
	if id == "" || ev.Record.Reason != "" || x.skipped[id] {
		delete(x.skipped, id)
		return
	}
	if a, ok := x.agedAttempt(ev); ok {
		x.ages.Drop(a)
	}
}

// agedAttempt returns the attempt of the event. It returns false if the age is not known, or if the attempt
// says nothing about whether the record is broken.
func (x *pass) agedAttempt(ev backlog.Event) (advise.Attempt, bool) {
	r := ev.Record
	tellsState := ev.Outcome == backlog.Succeeded || ev.Outcome == backlog.Errored || ev.Outcome == backlog.Rejected
	if x.begun == nil || r.Inserted.IsZero() || !tellsState {
		return advise.Attempt{}, false
	}
	started := x.begun.Report.Started
	a := advise.Attempt{
		Lane:      advise.Fresh,
		Age:       max(0, started.Sub(r.Inserted)),
		Succeeded: ev.Outcome == backlog.Succeeded,
	}
	if r.Lane == backlog.Failed {
		a.Lane = advise.Failed
	}
	if m := r.Memory; m != nil && !m.LastFailure.IsZero() {
		a.Waited = max(0, started.Sub(m.LastFailure))
		a.WaitKnown = true
	}
	return a, true
}

// Outage returns a copy of the present outage, nil without one.
func (p *Picture) Outage() *Outage {
	defer p.lock()()
	if p.outage == nil {
		return nil
	}
	return new(*p.outage)
}

// SetPending sets how many records are pending in the outage that began at a time, if that is the
// present one.
func (p *Picture) SetPending(since time.Time, pending int) {
	defer p.lock()()
	if p.outage != nil && p.outage.Since.Equal(since) {
		p.outage.Pending = pending
	}
}

// SetBacklog sets the pending records of an outage that is over, and by when they are done.
func (p *Picture) SetBacklog(o Outage) {
	defer p.lock()()
	for i := range p.outages {
		if p.outages[i].Since.Equal(o.Since) {
			p.outages[i].Pending = o.Pending
			p.outages[i].Drained = o.DrainedBy
		}
	}
}

// Causes returns why records failed in the tier's last pass, the most frequent cause first.
func (p *Picture) Causes(tier string) []causes.Cause {
	defer p.lock()()
	return p.tierPass(tier).Causes()
}

// Last returns the tier's last pass, nil if that has not ended.
func (p *Picture) Last(tier string) *Pass {
	defer p.lock()()
	return p.tierPass(tier).ended
}

// Trouble returns what keeps work from going on, nil if nothing does. Pages, probes and metrics all
// show this. It looks at passes that ended after the time from. A pass that ends with an error is
// trouble until a later one, of the same tier or a wider one, ends without.
func (p *Picture) Trouble(from time.Time) *Trouble {
	defer p.lock()()
	if p.unavailable != nil {
		return new(*p.unavailable)
	}
	return failingPasses(p.history.passes, from)
}

// failingPasses returns the trouble of the tier whose passes have ended with errors for the longest
// time, nil if no tier's have.
func failingPasses(passes []Pass, from time.Time) *Trouble {
	first := make(map[string]*Pass) // by tier, the first with an error since the last without
	latest := make(map[string]*Pass)
	for i := range passes {
		x := &passes[i]
		if !x.Ended().After(from) {
			continue
		}
		if x.Error != "" {
			first[x.Tier] = cmp.Or(first[x.Tier], x)
			latest[x.Tier] = x
			continue
		}
		maps.DeleteFunc(first, func(_ string, failed *Pass) bool { return failed.MaxAge <= x.MaxAge })
	}
	var t *Trouble
	for tier, x := range first {
		ended := inspect.Stamp(x.Ended())
		if t == nil || time.Time(ended).Before(time.Time(t.Since)) {
			t = &Trouble{Since: ended, Passes: true, Error: latest[tier].Error, Handler: latest[tier].handlerError}
		}
	}
	return t
}

// tierPass returns the tier's last pass. The caller holds the lock.
func (p *Picture) tierPass(tier string) *pass {
	if p.passes[tier] == nil {
		p.passes[tier] = new(pass)
	}
	return p.passes[tier]
}

// Observe takes one event. It returns what that means for the outage, and the outage that began, is
// ongoing or, after Recovered, is over.
func (p *Picture) Observe(ev backlog.Event) (Change, Outage) {
	var folded, text string
	switch ev.Kind {
	case backlog.AttemptEnded:
		if ev.Outcome == backlog.Errored || ev.Outcome == backlog.Rejected {
			text = ev.Err.Error()
			folded = causes.Fold(text) // before the lock, because it takes long
		}
	case backlog.OnDeadFailed:
		text = "on_dead: " + ev.Err.Error()
		folded = "on_dead: " + causes.Fold(ev.Err.Error())
	}
	defer p.lock()()
	p.since = cmp.Or(p.since, ev.At)
	switch ev.Kind {
	case backlog.TierCovered:
		x := p.tierPass(ev.By)
		x.covered = append(x.covered, ev.Tier)
	case backlog.TicksMissed:
		p.tierPass(ev.Tier).missed = ev.N
	case backlog.PassStarted:
		x := p.tierPass(ev.Tier)
		begun := PassOf(*ev.Report, nil)
		begun.N = begun.Report.Started.UnixMilli()
		begun.Covered = x.covered
		begun.Missed = x.missed
		p.passes[ev.Tier] = &pass{begun: &begun}
	case backlog.PassEnded:
		return p.passEnded(ev, p.tierPass(ev.Tier))
	case backlog.OnDeadFailed:
		p.tierPass(ev.Tier).Add(folded, text, ev.Record.Key)
	case backlog.AttemptEnded:
		return p.attemptEnded(ev, folded, text)
	case backlog.Conflicted, backlog.Refused, backlog.Unwritten:
		p.tierPass(ev.Tier).dropAge(ev)
	case backlog.StoreUnavailable:
		p.unavailable = &Trouble{
			Since:     inspect.Stamp(ev.At),
			Error:     inspect.Elide(ev.Err.Error(), maxError),
			Temporary: errors.Is(ev.Err, backlog.ErrUnavailable),
		}
	case backlog.StoreBack:
		p.unavailable = nil
	}
	return Unchanged, Outage{}
}

// attemptEnded takes the end of an attempt; text is its error's, folded what [causes.Fold] makes of
// it.
func (p *Picture) attemptEnded(ev backlog.Event, folded, text string) (Change, Outage) {
	x := p.tierPass(ev.Tier)
	if text != "" {
		x.Add(folded, text, ev.Record.Key)
		x.freshFailed = x.freshFailed || ev.Record.Lane == backlog.Fresh
	}
	if ev.Outcome == backlog.Errored {
		x.failed++
	}
	if ev.Took > 0 {
		x.calls++
		x.called += ev.Took
	}
	x.countAge(ev)
	p.addAttempt(ev, folded, text)
	if ev.Outcome != backlog.Succeeded {
		return Unchanged, Outage{}
	}
	x.succeeded = true
	o := p.outage
	if o == nil {
		return Unchanged, Outage{}
	}
	p.outage = nil
	p.outages = newest(append(p.outages, PastOutage{Outage: *o, Ended: ev.At}), maxOutages)
	over := *o
	over.Running = p.runningFrom(ev.Tier)
	return Recovered, over
}

// runningFrom returns the passes under way, beginning with the tier. The caller holds the lock.
func (p *Picture) runningFrom(tier string) []Running {
	var list []Running
	for _, name := range append([]string{tier}, slices.Sorted(maps.Keys(p.passes))...) {
		x := p.passes[name]
		if x.begun != nil && (name != tier || len(list) == 0) {
			list = append(list, Running{Tier: name, Started: time.Time(x.begun.Started), Failed: x.failed})
		}
	}
	return list
}

// passEnded takes the end of the pass x.
func (p *Picture) passEnded(ev backlog.Event, x *pass) (Change, Outage) {
	r := ev.Report
	ended := PassOf(*r, x.Causes())
	ended.N = r.Started.UnixMilli()
	if x.begun != nil {
		ended.Covered = x.begun.Covered
		ended.Missed = x.begun.Missed
	}
	if ev.Err != nil && r.Stopped == backlog.StoppedError {
		ended.Error = inspect.Elide(ev.Err.Error(), maxError)
		ended.handlerError = backlog.IsHandlerFault(ev.Err)
	}
	ended.Ages = x.ages.Ages()
	if x.calls > 0 {
		ended.CallTime = (x.called / time.Duration(x.calls)).Seconds()
	}
	x.begun = nil
	x.ended = &ended
	p.history.passes = newest(append(p.history.passes, ended), maxPasses)
	if x.succeeded || r.Succeeded > 0 || r.Failed == 0 {
		return Unchanged, Outage{}
	}
	change := Ongoing
	if p.outage == nil {
		manyFailed := r.Failed >= outageFailures || r.Stopped == backlog.StoppedAbortAfter
		if !x.freshFailed || !manyFailed {
			return Unchanged, Outage{}
		}
		change = Began
		p.outage = &Outage{Since: r.Started}
	}
	o := p.outage
	o.Passes++
	if len(ended.Causes) > 0 {
		o.Cause = ended.Causes[0].Error
	}
	gap := min(max(o.Reminded.Sub(o.Since), minReminder), maxReminder)
	if change == Ongoing && ev.At.Sub(o.Reminded) < gap {
		return Unchanged, Outage{}
	}
	o.Reminded = ev.At
	return change, *o
}
