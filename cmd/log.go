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
	"backlog/backlog/config"
)

// newLog returns the logger that the configuration asks for.
func newLog(c config.Log, w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.Level}
	if c.Format == "json" || c.Format == "auto" && !isTerminal(w) {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	h := slog.Handler(slog.NewTextHandler(w, o))
	if isTerminal(w) {
		h = onTerminal{h}
	}
	return slog.New(h)
}

// onTerminal marks the log that people read as it comes.
type onTerminal struct{ slog.Handler }

func isTerminal(w any) bool {
	if _, ok := w.(*screen); ok {
		return true
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

const (
	// wordless is how long a pass may take before the log says that it has
	// begun. Of most its end tells enough.
	wordless = time.Second
	// maxUnreadable is how many unreadable rows of a pass are logged one by
	// one.
	maxUnreadable = 10
	// maxShownAlike and maxShown are how many failed records of one cause,
	// and of all causes, a terminal shows one by one in a pass.
	maxShownAlike = 10
	maxShown      = 100
)

// An observer logs what engine and loop tell.
type observer struct {
	log   *slog.Logger
	spare bool // whoever reads the log a flood of errors that are alike

	mu         sync.Mutex
	unreadable map[string]int         // by tier, in the pass under way
	begun      map[string]*time.Timer // by tier, of the pass under way: until that is worth a word
	tallies    map[string]*tally      // by tier, of its last pass or the one under way
	unwritten  map[string]*unwritten  // by tier, in the pass under way
	awaySince  time.Time
	broken     string // the error of the last pass; "" if it had none
}

// unwritten are the outcomes of a pass that were given up.
type unwritten struct {
	n     int
	first []string // of the records' IDs
	err   error    // why
}

func newObserver(log *slog.Logger) *observer {
	_, terminal := log.Handler().(onTerminal)
	return &observer{
		log:        log,
		spare:      terminal && !log.Enabled(context.Background(), slog.LevelDebug),
		unreadable: make(map[string]int), tallies: make(map[string]*tally), begun: make(map[string]*time.Timer), unwritten: make(map[string]*unwritten),
	}
}

// Observe takes one event.
func (o *observer) Observe(ev backlog.Event) {
	log := o.log
	if ev.Tier != "" {
		log = log.With("tier", ev.Tier)
	}
	switch ev.Kind {
	case backlog.PassStarted:
		o.mu.Lock()
		delete(o.tallies, ev.Tier)
		o.begun[ev.Tier] = time.AfterFunc(wordless, func() {
			log.Info("pass under way", "started", ev.At.UTC().Format(time.RFC3339))
		})
		o.mu.Unlock()
		log.Debug("pass started")
	case backlog.PassEnded:
		o.passEnded(log, ev)
	case backlog.AttemptEnded:
		o.attemptEnded(log, ev)
	case backlog.Conflicted:
		log.Warn("left alone: somebody else has changed the row", "id", ev.Record.Key.String(), "outcome", ev.Outcome.String())
	case backlog.Refused:
		log.Error("the database does not take the outcome; this process does not try the record again", "id", ev.Record.Key.String(), "outcome", ev.Outcome.String(), "error", ev.Err)
	case backlog.Unwritten:
		o.countUnwritten(ev)
	case backlog.OnDeadFailed:
		if o.count(log, ev, "on_dead: ") {
			log.Error("on_dead failed: nobody has been told that the record is dead", "id", ev.Record.Key.String(), "error", ev.Err)
		}
	case backlog.UnreadableRow:
		if o.firstUnreadable(ev.Tier) {
			log.Warn("row cannot be read and is left alone", "id", ev.Record.Key.String(), "error", ev.Err)
		}
	case backlog.StoreAway:
		o.mu.Lock()
		o.awaySince = ev.At
		o.mu.Unlock()
		log.Error("no record is handed out until the database answers again", "error", ev.Err)
	case backlog.StoreBack:
		o.mu.Lock()
		away := ev.At.Sub(o.awaySince)
		o.mu.Unlock()
		log.Info("the database answers again", "after", away.Round(time.Millisecond).String())
	default:
		loopEvent(log, ev)
	}
}

// loopEvent logs what only a daemon tells.
func loopEvent(log *slog.Logger, ev backlog.Event) {
	switch ev.Kind {
	case backlog.Paused:
		log.Warn("the handler asked for a pause", "until", ev.At.UTC().Format(time.RFC3339), "error", ev.Err)
	case backlog.TicksMissed:
		log.Warn("missed ticks are made up for by one pass", "missed", ev.N)
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

// count adds an error, of those that the prefix names, to its pass's tally and
// reports whether it is to be logged by itself: always, but where that is a
// terminal.
func (o *observer) count(log *slog.Logger, ev backlog.Event, prefix string) bool {
	text := ev.Err.Error()
	folded := prefix + fold(text, ownOf(ev.Record)) // before the lock: others wait for that
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.tallies[ev.Tier]
	if t == nil {
		t = newTally()
		o.tallies[ev.Tier] = t
	}
	c := t.add(folded, prefix+text, ev.Record.Key)
	if !o.spare || c.records <= maxShownAlike && t.lines < maxShown {
		t.lines++
		return true
	}
	if t.held++; t.held == 1 {
		log.Warn("more records fail: they are summed up when the pass ends; --log-level debug shows each, and so does a log that is no terminal")
	}
	return false
}

// causes returns why records failed in the tier's last pass, the most frequent
// cause first.
func (o *observer) causes(tier string) []cause {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t := o.tallies[tier]; t != nil {
		return t.causes()
	}
	return nil
}

func (o *observer) firstUnreadable(tier string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unreadable[tier]++
	return o.unreadable[tier] <= maxUnreadable
}

// maxUnwritten is how many records with an outcome that could not be written are
// named.
const maxUnwritten = 10

func (o *observer) countUnwritten(ev backlog.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	u := o.unwritten[ev.Tier]
	if u == nil {
		u = &unwritten{err: ev.Err}
		o.unwritten[ev.Tier] = u
	}
	if u.n++; u.n <= maxUnwritten {
		u.first = append(u.first, ev.Record.Key.String())
	}
}

// sayUnwritten sums up the outcomes of a pass that could not be written: with one
// line for each, what else is in the log would be lost.
func (o *observer) sayUnwritten(log *slog.Logger, tier string) {
	o.mu.Lock()
	u := o.unwritten[tier]
	delete(o.unwritten, tier)
	o.mu.Unlock()
	if u == nil {
		return
	}
	ids := strings.Join(u.first, ", ")
	if more := u.n - len(u.first); more > 0 {
		ids += fmt.Sprintf(" and %d more", more)
	}
	log.Error("outcomes could not be written: their records will be handled again", "outcomes", u.n, "ids", ids, "error", u.err)
}

func (o *observer) passEnded(log *slog.Logger, ev backlog.Event) {
	o.sayUnwritten(log, ev.Tier)
	o.mu.Lock()
	if t := o.begun[ev.Tier]; t != nil {
		t.Stop()
	}
	delete(o.begun, ev.Tier)
	if n := o.unreadable[ev.Tier]; n > maxUnreadable {
		log.Warn(fmt.Sprintf("%d more rows cannot be read", n-maxUnreadable))
	}
	delete(o.unreadable, ev.Tier)
	o.mu.Unlock()
	r := ev.Report
	args := []any{"selected", r.Selected, "succeeded", r.Succeeded, "failed", r.Failed, "seconds", float64(r.Duration.Milliseconds()) / 1000}
	for _, x := range []struct {
		name string
		n    int
	}{
		{"given_up", r.GivenUp}, {"rejected", r.Rejected}, {"skipped", r.Skipped}, {"conflicts", r.Conflicts}, {"refused", r.Refused},
		{"interrupted", r.Interrupted}, {"unwritten", r.Unwritten}, {"unreadable", r.Unreadable}, {"expired", r.Expired},
	} {
		if x.n > 0 {
			args = append(args, x.name, x.n)
		}
	}
	if r.Stopped != "" {
		args = append(args, "stopped", r.Stopped)
	}
	o.sayEnd(log, ev, args)
	o.logCauses(log, ev.Tier)
}

// sayEnd says once, while passes come to nothing, why, and once that it is over.
func (o *observer) sayEnd(log *slog.Logger, ev backlog.Event, args []any) {
	text := ""
	if ev.Err != nil {
		text = ev.Err.Error()
	}
	o.mu.Lock()
	before := o.broken
	o.broken = text
	o.mu.Unlock()
	switch {
	case text == "":
		if before != "" {
			log.Info("passes can be finished again")
		}
		log.Info("pass ended", args...)
	case text == before && ev.Report.Selected == 0:
		log.Debug("pass ended early: "+text, args...)
	default:
		log.Error("pass ended early: "+text, args...)
	}
}

// logCauses sums up the errors of a pass that has ended. One is its own summary.
func (o *observer) logCauses(log *slog.Logger, tier string) {
	o.mu.Lock()
	t := o.tallies[tier]
	if t == nil || t.summed { // the pass could not begin
		o.mu.Unlock()
		return
	}
	t.summed = true
	list := t.causes()
	o.mu.Unlock()
	if len(list) == 1 && list[0].records == 1 {
		return
	}
	top, rest, records := topOf(list)
	for _, c := range top {
		log.Warn("failed alike", "cause", c.shows(), "records", c.records, "first_id", c.first.String(), "example", c.example)
	}
	if len(rest) > 0 {
		log.Warn("failed otherwise", "causes", len(rest), "records", records)
	}
}
