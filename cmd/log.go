package cmd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"backlog/backlog"
	"backlog/backlog/causes"
	"backlog/backlog/config"
	"backlog/backlog/inspect"
	"backlog/backlog/logqueue"
)

// newLog returns the logger that the configuration asks for. Over a queue it also
// says what the queue has dropped.
func newLog(c config.Log, w io.Writer) *slog.Logger {
	s, terminal := w.(*screen)
	q, queued := w.(*logqueue.Queue)
	if terminal {
		q, queued = s.w, true
	}
	if queued {
		late := slog.New(logHandler(c, q.To(), terminal))
		q.OnDropped(func(n int64) { late.Warn("log lines are dropped: nobody has read the log", "lines", n) })
	}
	h := logHandler(c, w, terminal)
	if terminal {
		h = onTerminal{h}
	}
	return slog.New(h)
}

func logHandler(c config.Log, w io.Writer, terminal bool) slog.Handler {
	o := &slog.HandlerOptions{Level: c.Level}
	if c.Format == "json" || c.Format == "auto" && !terminal {
		return slog.NewJSONHandler(w, o)
	}
	return slog.NewTextHandler(w, o)
}

// onTerminal marks the log that people read as it comes.
type onTerminal struct{ slog.Handler }

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

const (
	// wordless is how long a pass runs before the log says that it has begun.
	// The end of a shorter one tells enough.
	wordless = time.Second
	// maxAlike is how many records of a pass with the same trouble are named: whose
	// row is unreadable, whose outcome is unwritten and, on a terminal, who failed
	// for one cause.
	maxAlike = 10
	// maxShown is how many failed records a terminal shows one by one in a pass.
	maxShown = 100
)

// An observer logs the events of engine and loop.
type observer struct {
	log    *slog.Logger
	server string // what the records are from
	spare  bool   // spares a person the flood of errors that are alike

	mu     sync.Mutex // guards what follows
	passes map[string]*passLog
	since  time.Time // when the database went away
	broken string    // the error of the last pass; "" if it had none
}

// A passLog is what the log will say of a tier's pass at its end.
type passLog struct {
	causes.Tally      // kept until the tier's next pass begins
	lines, held  int  // failed records logged one by one, and not
	summed       bool // the causes are logged
	begun        *time.Timer
	unreadable   int
	unwritten    int
	ids          []string // of the first unwritten ones
	why          error    // the first one was not written
}

func newObserver(log *slog.Logger) *observer {
	_, terminal := log.Handler().(onTerminal)
	return &observer{log: log, server: "database", spare: terminal && !log.Enabled(context.Background(), slog.LevelDebug), passes: make(map[string]*passLog)}
}

// of returns the tier's pass. The caller holds the lock.
func (o *observer) of(tier string) *passLog {
	p := o.passes[tier]
	if p == nil {
		p = new(passLog)
		o.passes[tier] = p
	}
	return p
}

// Observe takes one event.
func (o *observer) Observe(ev backlog.Event) {
	log := o.log
	if ev.Tier != "" {
		log = log.With("tier", ev.Tier)
	}
	switch ev.Kind { // the errors are counted under the lock, each by itself
	case backlog.AttemptEnded:
		o.attemptEnded(log, ev)
		return
	case backlog.OnDeadFailed:
		if o.count(log, ev, "on_dead: ") {
			log.Error("on_dead failed: nobody has been told that the record is dead", "id", ev.Record.Key.String(), "error", ev.Err)
		}
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch ev.Kind {
	case backlog.PassStarted:
		begun := time.AfterFunc(wordless, func() {
			log.Info("pass under way", "started", ev.At.UTC().Format(time.RFC3339))
		})
		o.of(ev.Tier).logUnwritten(log) // since the end of the last one
		o.passes[ev.Tier] = &passLog{begun: begun}
		log.Debug("pass started")
	case backlog.PassEnded:
		o.passEnded(log, ev)
	case backlog.Conflicted:
		log.Warn("left alone: somebody else has changed the row", "id", ev.Record.Key.String(), "outcome", ev.Outcome.String())
	case backlog.Refused:
		log.Error("the database does not take the outcome; this process does not try the record again", "id", ev.Record.Key.String(), "outcome", ev.Outcome.String(), "error", ev.Err)
	case backlog.Unwritten:
		p := o.of(ev.Tier)
		if p.unwritten++; p.unwritten == 1 {
			p.why = ev.Err
		}
		if p.unwritten <= maxAlike {
			p.ids = append(p.ids, ev.Record.Key.String())
		}
	case backlog.UnreadableRow:
		p := o.of(ev.Tier)
		if p.unreadable++; p.unreadable <= maxAlike {
			log.Warn("row cannot be read and is left alone", "id", ev.Record.Key.String(), "error", ev.Err)
		}
	case backlog.StoreUnavailable:
		o.since = ev.At
		log.Error("no record is handed out until the "+o.server+" answers again", "error", ev.Err)
	case backlog.StoreBack:
		log.Info("the "+o.server+" answers again", "after", ev.At.Sub(o.since).Round(time.Millisecond).String())
	default:
		loopEvent(log, ev)
	}
}

// loopEvent logs the events of a daemon.
func loopEvent(log *slog.Logger, ev backlog.Event) {
	switch ev.Kind {
	case backlog.Paused:
		log.Warn("the handler asked for a pause", "until", ev.At.UTC().Format(time.RFC3339), "error", ev.Err)
	case backlog.TicksMissed:
		args := []any{"missed", ev.N}
		if ev.AtLeast {
			args = append(args, "missed_at_least", true)
		}
		log.Warn("missed ticks are made up for by one pass", args...)
	case backlog.TierSkipped:
		log.Warn("tick skipped: the tier's last pass still runs")
	case backlog.TierCovered:
		log.Debug("tick covered by a wider tier's pass")
	case backlog.LockWaiting:
		log.Info("the pass waits: another process is working on this table")
	case backlog.LockLost:
		log.Error("the run lock is lost: its passes are stopped and taken up again at the next wake", "error", ev.Err)
	case backlog.ClockSetBack, backlog.StateFailed:
		log.Warn(ev.Err.Error())
	case backlog.NoTick, backlog.Panicked:
		log.Error(ev.Err.Error())
	}
}

func (o *observer) attemptEnded(log *slog.Logger, ev backlog.Event) {
	if failed := ev.Outcome == backlog.Errored || ev.Outcome == backlog.Rejected; failed && !o.count(log, ev, "") {
		return
	}
	log = log.With("id", ev.Record.Key.String())
	switch {
	case ev.Outcome == backlog.Succeeded:
		log.Debug("success")
	case ev.Outcome == backlog.HandedOver:
		log.Debug("handed over")
	case ev.Outcome == backlog.Skipped:
		log.Debug("not attempted", "reason", ev.Err)
	case ev.Outcome == backlog.Rejected:
		log.Warn("rejected", "error", ev.Err)
	case ev.GivenUp:
		log.Warn("given up: out of retries", "error", ev.Err)
	default:
		log.Warn("failed", "error", ev.Err)
	}
}

// count adds an error to its pass's tally and reports whether the record is logged
// by itself: always, except where a terminal is spared. The prefix names errors of
// their own kind.
func (o *observer) count(log *slog.Logger, ev backlog.Event, prefix string) bool {
	text := ev.Err.Error()
	folded := prefix + causes.Fold(text) // before the lock: others wait for that
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.of(ev.Tier)
	c := p.Add(folded, prefix+text, ev.Record.Key)
	if !o.spare || c.Records <= maxAlike && p.lines < maxShown {
		p.lines++
		return true
	}
	if p.held++; p.held == 1 {
		log.Warn("more records fail: they are summed up when the pass ends; --log-level debug shows each, and so does a log that is no terminal")
	}
	return false
}

// causes returns why records failed in the tier's last pass, the most frequent
// cause first.
func (o *observer) causes(tier string) []causes.Cause {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of(tier).Causes()
}

// passEnded logs the end of a pass. The caller holds the lock.
func (o *observer) passEnded(log *slog.Logger, ev backlog.Event) {
	p := o.of(ev.Tier)
	if p.begun != nil {
		p.begun.Stop()
	}
	p.logUnwritten(log)
	if more := p.unreadable - maxAlike; more > 0 {
		log.Warn(fmt.Sprintf("%d more rows cannot be read", more))
	}
	o.sayEnd(log, ev)
	if !p.summed { // the pass may have failed to begin
		p.logCauses(log)
	}
	p.unreadable = 0
}

// end logs the outcomes that were given up after the end of their pass.
func (o *observer) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for tier, p := range o.passes {
		p.logUnwritten(o.log.With("tier", tier))
	}
}

// logUnwritten sums up the outcomes that could not be written. A line for each would
// drown the rest of the log.
func (p *passLog) logUnwritten(log *slog.Logger) {
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

// sayEnd says once, while passes come to nothing, why, and once that it is over.
// The caller holds the lock.
func (o *observer) sayEnd(log *slog.Logger, ev backlog.Event) {
	r := ev.Report
	args := []any{"selected", r.Selected, "succeeded", r.Succeeded, "failed", r.Failed, "seconds", float64(r.Duration.Milliseconds()) / 1000}
	for _, c := range inspect.OutcomeCounts(*r)[2:] { // in which the first two are said already
		if c.N > 0 {
			args = append(args, c.Key, c.N)
		}
	}
	if r.Stopped != "" {
		args = append(args, "stopped", r.Stopped)
	}
	before := o.broken
	o.broken = ""
	if ev.Err != nil {
		o.broken = ev.Err.Error()
	}
	switch {
	case o.broken == "":
		if before != "" {
			log.Info("passes can be finished again")
		}
		log.Info("pass ended", args...)
	case o.broken == before && ev.Report.Selected == 0:
		log.Debug("pass ended early: "+o.broken, args...)
	default:
		log.Error("pass ended early: "+o.broken, args...)
	}
}

// logCauses sums up the errors of a pass that has ended. One is its own summary.
func (p *passLog) logCauses(log *slog.Logger) {
	p.summed = true
	list := p.Causes()
	if len(list) == 1 && list[0].Records == 1 {
		return
	}
	top, others, records := causes.Top(list)
	for _, c := range top {
		log.Warn("failed alike", "cause", c.String(), "records", c.Records, "first_id", c.First.String(), "example", c.Example)
	}
	if others > 0 {
		log.Warn("failed otherwise", "causes", others, "records", records)
	}
}
