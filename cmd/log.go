package cmd

import (
	"fmt"
	"io"
	"log/slog"
	"os"
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
	return slog.New(slog.NewTextHandler(w, o))
}

func isTerminal(w any) bool {
	if _, ok := w.(*screen); ok {
		return true
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// maxUnreadable is how many unreadable rows of a pass are logged one by one.
const maxUnreadable = 10

// An observer logs what engine and loop tell.
type observer struct {
	log *slog.Logger

	mu         sync.Mutex
	unreadable map[string]int // by tier, in the pass under way
	awaySince  time.Time
}

func newObserver(log *slog.Logger) *observer {
	return &observer{log: log, unreadable: make(map[string]int)}
}

// Observe takes one event.
func (o *observer) Observe(ev backlog.Event) {
	log := o.log
	if ev.Tier != "" {
		log = log.With("tier", ev.Tier)
	}
	switch ev.Kind {
	case backlog.PassStarted:
		log.Debug("pass started")
	case backlog.PassEnded:
		o.passEnded(log, ev)
	case backlog.AttemptEnded:
		attemptEnded(log, ev)
	case backlog.Conflicted:
		log.Warn("left alone: somebody else has changed the row", "id", ev.Record.Key.String(), "outcome", ev.Outcome.String())
	case backlog.Refused:
		log.Error("the database does not take the outcome; the record is not tried again before a restart", "id", ev.Record.Key.String(), "outcome", ev.Outcome.String(), "error", ev.Err)
	case backlog.Unwritten:
		log.Error("the outcome could not be written: the record will be tried again", "id", ev.Record.Key.String(), "outcome", ev.Outcome.String())
	case backlog.OnDeadFailed:
		log.Error("on_dead failed: nobody has been told that the record is dead", "id", ev.Record.Key.String(), "error", ev.Err)
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

func attemptEnded(log *slog.Logger, ev backlog.Event) {
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

func (o *observer) firstUnreadable(tier string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unreadable[tier]++
	return o.unreadable[tier] <= maxUnreadable
}

func (o *observer) passEnded(log *slog.Logger, ev backlog.Event) {
	o.mu.Lock()
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
	if ev.Err != nil {
		log.Error("pass ended early: "+ev.Err.Error(), args...)
		return
	}
	log.Info("pass ended", args...)
}
