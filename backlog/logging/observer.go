// Package logging says in a log what passes do: little in a good hour, one clear line in
// a bad one. The text of a message is constant; what varies is an attribute.
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
	// quiet is how long a pass runs before the log says that it has begun. The end of a
	// shorter one tells enough.
	quiet = time.Second
	// maxAlike is how many records of a pass with the same trouble are named.
	maxAlike = 10
	// maxDied is how many of the records that die in a pass are named.
	maxDied = 20
	// failing is how many attempts a pass needs for its end to be a warning, where half of
	// them failed.
	failing = 5
	// Remind is how often the log says that the database is still unreachable.
	Remind = 5 * time.Minute
)

// endings are how attempts end.
var endings = map[backlog.Outcome]string{
	backlog.Succeeded: "success", backlog.HandedOver: "handed over", backlog.Skipped: "not attempted",
	backlog.Rejected: "rejected", backlog.Errored: "failed",
}

// plain are the events of which no more is said than what they are about.
var plain = map[backlog.EventKind]struct {
	level slog.Level
	text  string
}{
	backlog.OnDeadFailed: {slog.LevelError, "on_dead failed: nobody has been told that the record is dead"},
	backlog.TierSkipped:  {slog.LevelWarn, "tick skipped: the tier's last pass still runs"},
	backlog.TierCovered:  {slog.LevelDebug, "tick covered by a wider tier's pass"},
	backlog.LockWaiting:  {slog.LevelInfo, "the pass waits: another process is working on this table"},
	backlog.LockLost:     {slog.LevelError, "the run lock is lost: its passes are stopped and taken up again at the next wake"},
	backlog.ClockSetBack: {slog.LevelWarn, "the clock was set back"},
	backlog.StateFailed:  {slog.LevelWarn, "the state file cannot be used, a restart may not know what was missed"},
	backlog.NoTick:       {slog.LevelError, "no tick was handled for long"},
	backlog.Panicked:     {slog.LevelError, "panic"},
}

// Broker is the Server of messages.
const Broker = "broker"

// An Observer logs the events of engine and loop. Its fields must not be changed after
// the first event.
type Observer struct {
	Log     *slog.Logger
	Server  string         // what the records are from
	Dead    bool           // there is a dead status
	Single  bool           // of one pass among many processes: what each would say again is no warning
	Picture *watch.Picture // is told of every event

	// OnOutage is called when an outage begins, lasts or is over, and must return soon:
	// [Observer.Outage], or what has that log it.
	OnOutage func(watch.Change, watch.Outage, time.Time)

	mu     sync.Mutex // guards what follows
	passes map[string]*pass
	since  time.Time // when the database went away
	away   *time.Timer
	broken string // the error of the last pass; "" if it had none
}

// A pass is what the log will say of a tier's pass at its end.
type pass struct {
	begun                       *time.Timer
	causes                      bool // logged
	unreadable, conflicts, died int
	unwritten                   int
	ids                         []string // of the first unwritten ones
	why                         error    // the first one was not written
}

// New returns an observer of passes over a database.
func New(log *slog.Logger) *Observer {
	o := &Observer{Log: log, Server: "database", Picture: new(watch.Picture), passes: make(map[string]*pass)}
	o.OnOutage = o.Outage
	return o
}

// of returns the tier's pass. The caller holds the lock.
func (o *Observer) of(tier string) *pass {
	if o.passes[tier] == nil {
		o.passes[tier] = new(pass)
	}
	return o.passes[tier]
}

// Observe takes one event.
func (o *Observer) Observe(ev backlog.Event) {
	change, outage := o.Picture.Observe(ev)
	if ev.Kind != backlog.AttemptEnded || o.Log.Enabled(context.Background(), slog.LevelDebug) { // there may be millions
		o.log(ev)
	}
	if change != watch.None {
		o.OnOutage(change, outage, ev.At)
	}
}

func (o *Observer) log(ev backlog.Event) {
	log := o.Log
	if ev.Tier != "" {
		log = log.With("tier", ev.Tier)
	}
	if ev.Kind == backlog.AttemptEnded {
		log.Debug(endings[ev.Outcome], about(ev)...)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.of(ev.Tier)
	switch ev.Kind {
	case backlog.PassStarted:
		begun := time.AfterFunc(quiet, func() {
			log.Info("pass under way", "started", ev.At.UTC().Format(time.RFC3339))
		})
		p.logUnwritten(log) // since the end of the last one
		o.passes[ev.Tier] = &pass{begun: begun}
		log.Debug("pass started")
	case backlog.PassEnded:
		o.passEnded(log, p, ev)
	case backlog.Died:
		if o.Dead {
			p.died++
			if p.died <= maxDied {
				log.Info("record died", "id", ev.Record.Key.String(), "reason", ev.Record.Reason)
			}
		}
	case backlog.Expired:
		p.died += ev.N
	case backlog.Conflicted:
		p.conflicts++
		if p.conflicts <= maxAlike {
			log.Warn("left alone: somebody else has changed the row", "id", ev.Record.Key.String(), "outcome", ev.Outcome.String())
		}
	case backlog.Refused:
		o.logRefused(log, ev)
	case backlog.Uncertain:
		o.logUncertain(log, ev)
	case backlog.Unwritten:
		p.unwritten++
		if p.unwritten == 1 {
			p.why = ev.Err
		}
		if p.unwritten <= maxAlike {
			p.ids = append(p.ids, ev.Record.Key.String())
		}
	case backlog.UnreadableRow:
		p.unreadable++
		if p.unreadable <= maxAlike {
			log.Warn("row cannot be read and is left alone", "id", ev.Record.Key.String(), "error", ev.Err)
		}
	case backlog.StoreUnavailable:
		o.since = ev.At
		if errors.Is(ev.Err, backlog.ErrUnavailable) {
			log.Error("no record is handed out until the "+o.Server+" answers again", "error", ev.Err)
		} else {
			log.Error("no record is handed out until the table can be used again", "error", ev.Err)
		}
		o.away = time.AfterFunc(Remind, func() { o.stillAway(log, ev.Err) })
	case backlog.StoreBack:
		if o.away != nil {
			o.away.Stop()
			o.away = nil
		}
		log.Warn("the "+o.Server+" answers again", "after", ev.At.Sub(o.since).Round(time.Millisecond).String())
	case backlog.Paused:
		log.Warn("the handler asked for a pause", "until", ev.At.UTC().Format(time.RFC3339), "error", ev.Err)
	case backlog.TicksMissed:
		logMissed(log, ev)
	default:
		if x, ok := plain[ev.Kind]; ok {
			log.Log(context.Background(), x.level, x.text, about(ev)...)
		}
	}
}

// logUncertain says that only the outcome will tell whether the row takes its status.
func (o *Observer) logUncertain(log *slog.Logger, ev backlog.Event) {
	level := slog.LevelWarn
	if o.Single {
		level = slog.LevelInfo
	}
	log.Log(context.Background(), level, "only the outcome will tell whether the table takes it",
		"id", ev.Record.Key.String(), "outcome", ev.Outcome.String(), "error", ev.Err)
}

// logMissed says that a pass makes up for missed ticks: loudly where the daemon was away for
// long.
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

// logRefused names a record whose outcome, or whose death by age, the database does not take.
func (o *Observer) logRefused(log *slog.Logger, ev backlog.Event) {
	id := ev.Record.Key.String()
	if o.Server == Broker {
		log.Error("the outcome cannot be published for now; the message is held, and this process does not handle it again", "id", id, "outcome", ev.Outcome.String(), "error", ev.Err)
		return
	}
	if ev.Record.Reason == "" {
		log.Error("the database does not take the outcome; this process does not try the record again", "id", id, "outcome", ev.Outcome.String(), "error", ev.Err)
		return
	}
	log.Error("the database does not take the dead status; this process does not try that again", "id", id, "reason", ev.Record.Reason, "error", ev.Err)
}

// Outage logs what has become of an outage.
func (o *Observer) Outage(change watch.Change, x watch.Outage, now time.Time) {
	since := x.Since.UTC().Format(time.RFC3339)
	switch change {
	case watch.Began:
		o.Log.Error("outage: every attempt fails", "since", since, "cause", x.Cause, "pending", x.Pending)
	case watch.Lasts:
		o.Log.Warn("outage goes on", "since", since, "passes", x.Passes, "cause", x.Cause, "pending", x.Pending)
	case watch.Recovered:
		o.Log.Warn("recovered from the outage", "since", since, "after", now.Sub(x.Since).Round(time.Second).String(), "passes", x.Passes, "pending", x.Pending)
	}
}

// about returns what the event is of: its record and its error, if it has them.
func about(ev backlog.Event) (args []any) {
	if ev.Record != nil {
		args = append(args, "id", ev.Record.Key.String())
	}
	if ev.Err != nil {
		args = append(args, "error", ev.Err)
	}
	return args
}

// stillAway says that the database is still unreachable.
func (o *Observer) stillAway(log *slog.Logger, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.away != nil {
		log.Warn("the "+o.Server+" is still unreachable", "since", o.since.UTC().Format(time.RFC3339), "error", err)
		o.away.Reset(Remind)
	}
}

// passEnded logs the end of a pass. The caller holds the lock.
func (o *Observer) passEnded(log *slog.Logger, p *pass, ev backlog.Event) {
	if p.begun != nil {
		p.begun.Stop()
	}
	p.logUnwritten(log)
	p.logMore(log)
	if r := ev.Report; r.Conflicts > 1 && r.Conflicts == r.Selected {
		log.Warn("every row was changed while its handler ran: the handler seems to set the status itself, which backlog does")
	}
	lasts := o.Picture.Outage() != nil
	o.sayEnd(log, ev, lasts)
	if !p.causes { // the pass may have failed to begin
		p.causes = true
		logCauses(log, o.Picture.Causes(ev.Tier), lasts)
	}
}

// logMore says how many there were beside those that are named.
func (p *pass) logMore(log *slog.Logger) {
	more := func(n int, level slog.Level, text string) {
		if n > 0 {
			log.Log(context.Background(), level, text, "records", n)
		}
	}
	more(p.unreadable-maxAlike, slog.LevelWarn, "more rows cannot be read")
	more(p.conflicts-maxAlike, slog.LevelWarn, "more rows were left alone: somebody else has changed them")
	more(p.died-maxDied, slog.LevelInfo, "more records died")
	p.unreadable, p.conflicts, p.died = 0, 0, 0
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

// logUnwritten sums up the outcomes that could not be written. A line for each would
// drown the rest of the log.
func (p *pass) logUnwritten(log *slog.Logger) {
	if p.unwritten == 0 {
		return
	}
	ids := strings.Join(p.ids, ", ")
	if more := p.unwritten - len(p.ids); more > 0 {
		ids += fmt.Sprintf(" and %d more", more)
	}
	log.Error("outcomes could not be written: their records will be handled again", "outcomes", p.unwritten, "ids", ids, "error", p.why)
	p.unwritten, p.ids = 0, nil
}

// sayEnd says that a pass has ended and, once while passes come to nothing, why. In an
// outage its reminders take the place of that. The caller holds the lock.
func (o *Observer) sayEnd(log *slog.Logger, ev backlog.Event, outage bool) {
	r := ev.Report
	args := []any{"selected", r.Selected, "succeeded", r.Succeeded, "failed", r.Failed, "seconds", float64(r.Duration.Milliseconds()) / 1000}
	for _, c := range inspect.OutcomeCounts(*r)[2:] { // whose first two are said already
		if c.N > 0 {
			args = append(args, c.Key, c.N)
		}
	}
	if r.Stopped != "" {
		args = append(args, "stopped", r.Stopped)
	}
	before := o.broken
	o.broken = ""
	level, text := slog.LevelInfo, "pass ended"
	if n := r.Succeeded + r.Failed + r.Rejected; n >= failing && 2*r.Failed >= n {
		level = slog.LevelWarn
	}
	switch {
	case ev.Err != nil:
		o.broken = ev.Err.Error()
		level, text = slog.LevelError, "pass ended early"
		if o.broken == before && r.Selected == 0 {
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

// logCauses says why records failed in a pass that has ended.
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
