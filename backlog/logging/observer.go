// Package logging writes what passes do to a log: little while all is well, one clear line when
// something is wrong. The message of a line is constant; what varies is an attribute.
//
// An [Observer] logs the events of an engine and its loop. A [Screen] shows a progress bar below
// the log on a terminal.
package logging

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"backlog/backlog"
	"backlog/backlog/causes"
	"backlog/backlog/inspect"
	"backlog/backlog/watch"
)

const (
	// quiet is how long a pass runs before the log says that it has begun. Of a shorter pass,
	// only the end is logged.
	quiet = time.Second
	// maxAlike is how many records of a pass are named for the same problem.
	maxAlike = 10
	// maxDied is how many of the records that die in a pass are named.
	maxDied = 20
	// manyAttempts is how many attempts a pass needs for its end to be a warning if at least
	// half of them failed.
	manyAttempts = 5
	// Remind is how often the log says that the database is still unreachable.
	Remind = 5 * time.Minute
)

// outcomeMessages are the messages about the ends of attempts.
var outcomeMessages = map[backlog.Outcome]string{
	backlog.Succeeded:  "success",
	backlog.HandedOver: "handed over",
	backlog.Skipped:    "not attempted",
	backlog.Snoozed:    "snoozed",
	backlog.Rejected:   "rejected",
	backlog.Errored:    "failed",
}

// simpleMessages are the messages about events with no attributes but a record and an error.
var simpleMessages = map[backlog.EventKind]struct {
	level slog.Level
	text  string
}{
	backlog.OnDeadFailed:     {slog.LevelError, "on_dead failed: the record is dead, and its notification was not delivered"},
	backlog.TierCovered:      {slog.LevelDebug, "tick covered by a wider tier's pass"},
	backlog.LockWaiting:      {slog.LevelInfo, "the pass waits: another process is working on this table"},
	backlog.LockLost:         {slog.LevelError, "the run lock is lost: its passes are stopped and taken up again at the next wake"},
	backlog.ClockSetBack:     {slog.LevelWarn, "the clock was set back"},
	backlog.SnoozesForgotten: {slog.LevelWarn, "snoozed records are forgotten, and tried again before their time"},
	backlog.SnoozeRefused:    {slog.LevelWarn, "the database does not keep a snooze in its row; this process remembers it, and others do not"},
	backlog.StateFailed:      {slog.LevelWarn, "the state file cannot be used, a restart may not know what was missed"},
	backlog.NoTick:           {slog.LevelError, "no tick was handled for a long time"},
	backlog.Panicked:         {slog.LevelError, "panic"},
}

// Broker is the Server of an Observer whose records are messages.
const Broker = "broker"

// An Observer logs the events of an engine and its loop. Its fields must not be changed after the
// first event. All methods may be called concurrently.
type Observer struct {
	Log     *slog.Logger
	Server  string         // where the records are from, for messages: "database" or [Broker]
	Dead    bool           // there is a dead status
	Single  bool           // one of many processes that each handle one pass: what all would log is no warning
	Picture *watch.Picture // gets every event

	// OnOutage is called when an outage begins, is ongoing or is over. It must return soon. The
	// default is [Observer.Outage].
	OnOutage func(watch.Change, watch.Outage, time.Time)

	mu     sync.Mutex // guards what follows
	passes map[string]*pass

	unavailableSince time.Time
	reminder         *time.Timer // runs while the database is unavailable
	lastError        string      // of the last pass; "" if it had none

	skipLogged map[string]time.Time // when the log last said that a tick of the tier was skipped
}

// A pass is what is logged of a tier's pass at its end.
type pass struct {
	underWay     *time.Timer // logs that the pass has begun
	causesLogged bool
	unreadable   int
	conflicts    int
	died         int

	unwritten      int
	unwrittenIDs   []string // of the first ones
	unwrittenError error    // of the first one
}

// New returns an Observer of passes over a database.
func New(log *slog.Logger) *Observer {
	o := &Observer{Log: log, Server: "database", Picture: new(watch.Picture), passes: make(map[string]*pass), skipLogged: make(map[string]time.Time)}
	o.OnOutage = o.Outage
	return o
}

// tierPass returns the tier's last pass. The caller holds the lock.
func (o *Observer) tierPass(tier string) *pass {
	if o.passes[tier] == nil {
		o.passes[tier] = new(pass)
	}
	return o.passes[tier]
}

// Observe takes one event.
func (o *Observer) Observe(ev backlog.Event) {
	change, outage := o.Picture.Observe(ev)
	// There may be millions of attempts, so log is not called in vain.
	if ev.Kind != backlog.AttemptEnded || o.Log.Enabled(context.Background(), slog.LevelDebug) {
		o.log(ev)
	}
	if change != watch.Unchanged {
		o.OnOutage(change, outage, ev.At)
	}
}

// log logs one event.
func (o *Observer) log(ev backlog.Event) {
	log := o.Log
	if ev.Tier != "" {
		log = log.With("tier", ev.Tier)
	}
	if ev.Kind == backlog.AttemptEnded {
		log.Debug(outcomeMessages[ev.Outcome], attributes(ev)...)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.tierPass(ev.Tier)
	switch ev.Kind {
	case backlog.PassStarted:
		underWay := time.AfterFunc(quiet, func() {
			log.Info("pass under way", "started", ev.At.UTC().Format(time.RFC3339))
		})
		p.logUnwritten(log) // outcomes since the end of the last pass
		o.passes[ev.Tier] = &pass{underWay: underWay}
		log.Debug("pass started")
	case backlog.PassEnded:
		o.passEnded(log, p, ev)
	case backlog.Died:
		if o.Dead {
			p.logDied(log, ev.Record)
		}
	case backlog.Expired:
		p.died += ev.N
	case backlog.Conflicted:
		p.conflicts++
		if p.conflicts <= maxAlike {
			log.Warn("outcome not written: another writer has changed the row", "id", ev.Record.Key.String(), "outcome", ev.Outcome.String())
		}
	case backlog.Refused:
		o.logRefused(log, ev)
	case backlog.TierSkipped:
		o.logSkipped(log, ev)
	case backlog.Uncertain:
		o.logUncertain(log, ev)
	case backlog.Unwritten:
		p.unwritten++
		if p.unwritten == 1 {
			p.unwrittenError = ev.Err
		}
		if p.unwritten <= maxAlike {
			p.unwrittenIDs = append(p.unwrittenIDs, ev.Record.Key.String())
		}
	case backlog.UnreadableRow:
		p.unreadable++
		if p.unreadable <= maxAlike {
			log.Warn("row cannot be read and is skipped", "id", ev.Record.Key.String(), "error", ev.Err)
		}
	case backlog.StoreUnavailable:
		o.unavailableSince = ev.At
		if errors.Is(ev.Err, backlog.ErrUnavailable) {
			log.Error("no record is dispatched until the "+o.Server+" answers again", "error", ev.Err)
		} else {
			log.Error("no record is dispatched until the table can be used again", "error", ev.Err)
		}
		o.reminder = time.AfterFunc(Remind, func() { o.remindUnavailable(log, ev.Err) })
	case backlog.StoreBack:
		if o.reminder != nil {
			o.reminder.Stop()
			o.reminder = nil
		}
		log.Warn("the "+o.Server+" answers again", "after", ev.At.Sub(o.unavailableSince).Round(time.Millisecond).String())
	case backlog.Paused:
		log.Warn("the handler asked for a pause", "until", ev.At.UTC().Format(time.RFC3339), "error", ev.Err)
	case backlog.TicksMissed:
		logMissed(log, ev)
	default:
		if m, ok := simpleMessages[ev.Kind]; ok {
			log.Log(context.Background(), m.level, m.text, attributes(ev)...)
		}
	}
}

// logUncertain logs that the database cannot say before the outcome whether it takes it.
func (o *Observer) logUncertain(log *slog.Logger, ev backlog.Event) {
	level := slog.LevelWarn
	if o.Single {
		level = slog.LevelInfo
	}
	log.Log(context.Background(), level, "whether the table accepts an outcome cannot be checked before the handler is called",
		"id", ev.Record.Key.String(), "outcome", ev.Outcome.String(), "error", ev.Err)
}

// logMissed logs that a pass makes up for missed ticks: a warning if they were missed for an hour
// or more.
func logMissed(log *slog.Logger, ev backlog.Event) {
	args := []any{"missed", ev.N}
	if ev.AtLeast {
		args = append(args, "missed_at_least", true)
	}
	level := slog.LevelInfo
	if ev.At.Sub(ev.Since) >= time.Hour {
		level = slog.LevelWarn
	}
	log.Log(context.Background(), level, "missed ticks are made up for by one pass", args...)
}

// logDied counts a record that died, and logs the first ones of a pass. The caller holds the lock.
func (p *pass) logDied(log *slog.Logger, r *backlog.Record) {
	p.died++
	if p.died <= maxDied {
		args := []any{"id", r.Key.String(), "reason", r.Reason}
		log.Info("record died", append(args, attempt(r)...)...)
	}
}

// logSkipped logs that a tick was skipped, as a warning every five minutes. A pass that waits for the database skips
// each tick of its tier.
func (o *Observer) logSkipped(log *slog.Logger, ev backlog.Event) {
	level := slog.LevelDebug
	if ev.At.Sub(o.skipLogged[ev.Tier]) >= Remind {
		o.skipLogged[ev.Tier] = ev.At
		level = slog.LevelWarn
	}
	log.Log(context.Background(), level, "tick skipped: the tier's last pass still runs")
}

// logRefused logs that the database refuses to write a record's outcome, or its death by age.
func (o *Observer) logRefused(log *slog.Logger, ev backlog.Event) {
	id := ev.Record.Key.String()
	if o.Server == Broker {
		log.Error("the outcome cannot be published for now; the message is held, and this process does not handle it again", "id", id, "outcome", ev.Outcome.String(), "error", ev.Err)
		return
	}
	if ev.Record.Reason == "" {
		log.Error("the database refuses the outcome; this process does not try the record again", "id", id, "outcome", ev.Outcome.String(), "error", ev.Err)
		return
	}
	log.Error("the database refuses the dead status; this process does not try that again", "id", id, "reason", ev.Record.Reason, "error", ev.Err)
}

// Outage logs that an outage began, is ongoing or is over.
func (o *Observer) Outage(change watch.Change, x watch.Outage, now time.Time) {
	since := x.Since.UTC().Format(time.RFC3339)
	switch change {
	case watch.Began:
		o.Log.Error("outage: every attempt fails", "since", since, "cause", x.Cause, "pending", x.Pending)
	case watch.Ongoing:
		o.Log.Warn("outage goes on", "since", since, "passes", x.Passes, "cause", x.Cause, "pending", x.Pending)
	case watch.Recovered:
		args := []any{"since", since, "after", now.Sub(x.Since).Round(time.Second).String(), "passes", x.Passes, "pending", x.Pending}
		if !x.DrainedBy.IsZero() {
			args = append(args, "drained_by", x.DrainedBy.UTC().Format(time.RFC3339))
		}
		o.Log.Warn("recovered from the outage", args...)
	}
}

// attributes returns the event's record, its error, until when it is snoozed and the attempt, as far as it has
// them.
func attributes(ev backlog.Event) []any {
	var args []any
	if ev.Record != nil {
		args = append(args, "id", ev.Record.Key.String())
	}
	if !ev.Until.IsZero() {
		args = append(args, "until", ev.Until.UTC().Format(time.RFC3339))
	}
	if ev.Err != nil {
		args = append(args, "error", ev.Err)
	}
	if ev.Record != nil {
		args = append(args, attempt(ev.Record)...)
	}
	return args
}

// attempt returns the attempt on a record and its trace, if it has them.
func attempt(r *backlog.Record) []any {
	var args []any
	if r.AttemptID != "" {
		args = append(args, "attempt_id", r.AttemptID)
	}
	if id := r.TraceID(); id != "" {
		args = append(args, "trace_id", id)
	}
	return args
}

// remindUnavailable logs that the database is still unreachable.
func (o *Observer) remindUnavailable(log *slog.Logger, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.reminder != nil {
		log.Warn("the "+o.Server+" is still unreachable", "since", o.unavailableSince.UTC().Format(time.RFC3339), "error", err)
		o.reminder.Reset(Remind)
	}
}

// passEnded logs the end of a pass. The caller holds the lock.
func (o *Observer) passEnded(log *slog.Logger, p *pass, ev backlog.Event) {
	if p.underWay != nil {
		p.underWay.Stop()
	}
	p.logUnwritten(log)
	p.logMore(log)
	if r := ev.Report; r.Conflicts > 1 && r.Conflicts == r.Selected {
		log.Warn("every row was changed while its handler ran: the handler seems to set the status, which only backlog should")
	}
	outage := o.Picture.Outage() != nil
	o.logEnd(log, ev, outage)
	if !p.causesLogged { // if the pass failed to begin, p is the pass before it
		p.causesLogged = true
		logCauses(log, o.Picture.Causes(ev.Tier), outage)
	}
}

// logMore logs how many rows there were besides those that were named.
func (p *pass) logMore(log *slog.Logger) {
	more := func(n int, level slog.Level, text string) {
		if n > 0 {
			log.Log(context.Background(), level, text, "records", n)
		}
	}
	more(p.unreadable-maxAlike, slog.LevelWarn, "more rows cannot be read")
	more(p.conflicts-maxAlike, slog.LevelWarn, "more outcomes were not written: another writer has changed the rows")
	more(p.died-maxDied, slog.LevelInfo, "more records died")
	p.unreadable = 0
	p.conflicts = 0
	p.died = 0
}

// End logs the outcomes that were given up after the end of their pass.
func (o *Observer) End() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for tier, p := range o.passes {
		p.logUnwritten(o.Log.With("tier", tier))
		p.logMore(o.Log)
	}
}

// logUnwritten logs in one line which outcomes could not be written. A line for each would drown the
// rest of the log.
func (p *pass) logUnwritten(log *slog.Logger) {
	if p.unwritten == 0 {
		return
	}
	ids := strings.Join(p.unwrittenIDs, ", ")
	if more := p.unwritten - len(p.unwrittenIDs); more > 0 {
		ids += fmt.Sprintf(" and %d more", more)
	}
	log.Error("outcomes could not be written: their records will be handled again", "outcomes", p.unwritten, "ids", ids, "error", p.unwrittenError)
	p.unwritten = 0
	p.unwrittenIDs = nil
}

// logEnd logs that a pass has ended. The error of passes that end early without a record is logged
// once and repeated at level debug. In an outage its reminders take the place of the line. The
// caller holds the lock.
func (o *Observer) logEnd(log *slog.Logger, ev backlog.Event, outage bool) {
	r := ev.Report
	args := []any{"selected", r.Selected, "succeeded", r.Succeeded, "failed", r.Failed, "seconds", float64(r.Duration.Milliseconds()) / 1000}
	for _, c := range inspect.OutcomeCounts(*r)[2:] { // the first two are succeeded and failed
		if c.N > 0 {
			args = append(args, c.Key, c.N)
		}
	}
	if r.Stopped != "" {
		args = append(args, "stopped", r.Stopped)
	}
	before := o.lastError
	o.lastError = ""
	level := slog.LevelInfo
	text := "pass ended"
	if n := r.Succeeded + r.Failed + r.Rejected; n >= manyAttempts && 2*r.Failed >= n {
		level = slog.LevelWarn
	}
	switch {
	case ev.Err != nil:
		o.lastError = ev.Err.Error()
		level = slog.LevelError
		text = "pass ended early"
		if o.lastError == before && r.Selected == 0 {
			level = slog.LevelDebug
		}
		args = append(args, "error", ev.Err)
	case before != "":
		log.Info("passes can be finished again")
	case outage:
		level = slog.LevelDebug
	}
	log.Log(context.Background(), level, text, args...)
}

// logCauses logs why records failed in a pass that has ended.
func logCauses(log *slog.Logger, list []causes.Cause, outage bool) {
	level := slog.LevelWarn
	if outage {
		level = slog.LevelDebug
	}
	top, others, records := causes.Top(list)
	for _, c := range top {
		args := []any{"cause", c.String(), "records", c.Records, "first_id", c.First.String()}
		if c.Example != c.String() {
			args = append(args, "example", c.Example)
		}
		log.Log(context.Background(), level, "records failed", args...)
	}
	if others > 0 {
		log.Log(context.Background(), level, "records failed for more causes", "causes", others, "records", records)
	}
}
