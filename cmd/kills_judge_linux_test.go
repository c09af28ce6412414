package cmd_test

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"backlog/internal/history"
	"backlog/internal/testkit"
)

// A killsEnd is what comes after the strikes.
type killsEnd struct {
	ticks time.Time // the last tick
	calm  time.Time // until then each tick must have had its calls
	quiet history.Span
}

// calm is how long a daemon may take at most for what the strikes have left behind.
func (p *killsPlan) calm() time.Duration { return cmp.Or(p.patience, 3*time.Minute) }

// settle lets a daemon work until no fresh row is left and each tick has had its calls, and then
// makes a pass over all rows in the future, when all of them are due.
func (w *killsWorld) settle() (end killsEnd) {
	w.t.Helper()
	d := w.lead()
	eventuallyWithin(w.plan.calm(), func() bool { return w.count("NEW") == 0 || d.hasEnded() })
	end.ticks = time.Now()
	if w.plan.policy.eachTick {
		eventuallyWithin(w.plan.calm(), func() bool { return w.hasTriedFailed(end.ticks) || d.hasEnded() })
	}
	end.calm = time.Now()
	if w.standby != nil {
		w.stop(w.standby)
	}
	w.stop(w.lead())
	end.quiet.From = time.Now()
	passes := []time.Duration{48 * time.Hour}
	if w.plan.policy.deadlines { // attempts that were lost fail first
		passes = []time.Duration{time.Hour, 2 * time.Hour, 3 * time.Hour}
	}
	for _, later := range passes {
		args := []string{"once", "--wait", "30s", "--now", time.Now().UTC().Add(later).Format(time.RFC3339)}
		if !w.plan.policy.deadlines {
			args = append(args, "--max-age", "60d")
		}
		if status, _, log := w.run(args...); status != 0 {
			w.fault("the quiet pass ends with exit status %d:\n%s", status, log)
		}
	}
	end.quiet.To = time.Now()
	return end
}

// hasTriedFailed reports whether each failed row of the narrow tier was called since.
func (w *killsWorld) hasTriedFailed(since time.Time) bool {
	w.t.Helper()
	w.look()
	for key := range strings.FieldsSeq(w.site.rows(`SELECT id FROM "BACKLOG" WHERE status = 'ERROR'`)) {
		isNarrow := since.Sub(w.inserted[key]) < killsNarrow
		if isNarrow && w.called[key].Before(since) {
			return false
		}
	}
	return true
}

func (w *killsWorld) rules() history.Rules {
	repeats := 500
	r := history.Rules{
		Pending: []string{"NEW", "ERROR"}, Due: []string{"NEW"}, Failed: "ERROR", Success: "SUCCESS", Dead: "DEAD",
		Repeats: repeats, Slack: 2 * time.Millisecond, Margin: 10 * time.Minute,
	}
	if w.plan.policy.once {
		r.Pending = []string{"NEW"}
	}
	if w.plan.policy.eachTick {
		r.Due = r.Pending
	}
	if w.plan.policy.deadlines {
		r.Margin = 0 // its rows have no age
	}
	return r
}

// history returns all that was written down.
func (w *killsWorld) history(end killsEnd) *history.History {
	w.t.Helper()
	calls, torn := history.ReadNotes(w.shop.read("notes.log"))
	w.faults = append(w.faults, torn...)
	h := &history.History{
		Calls: calls, Changes: w.changes(), Strikes: w.strikes, Inserted: w.inserted,
		Final: make(map[string]string), Quiet: end.quiet,
	}
	for line := range strings.Lines(w.site.rows(`SELECT id, status FROM "BACKLOG"`)) {
		f := strings.Fields(line)
		h.Final[f[0]] = f[1]
	}
	testkit.Equal(w.t, "rows", len(h.Final), w.rows)
	if w.kind == onSQLite {
		testkit.Equal(w.t, "integrity_check", w.site.rows("PRAGMA integrity_check"), "ok\n")
	}
	narrow := killsNarrow
	if w.plan.policy.deadlines {
		narrow = 100 * 365 * 24 * time.Hour
	} else {
		h.Ticks = append(h.Ticks, history.Tick{Tier: "wide", At: w.started, MaxAge: killsWide, Until: end.calm})
	}
	for at := w.started.Truncate(time.Second).Add(time.Second); at.Before(end.ticks); at = at.Add(time.Second) {
		h.Ticks = append(h.Ticks, history.Tick{Tier: "narrow", At: at, MaxAge: narrow, Until: end.calm})
		if at.Truncate(killsWideEvery).Equal(at) && !w.plan.policy.deadlines {
			h.Ticks = append(h.Ticks, history.Tick{Tier: "wide", At: at, MaxAge: killsWide, Until: end.calm})
		}
	}
	return h
}

// show logs how to repeat the plan, and the history of the first row that is found fault with.
func (w *killsWorld) show(h *history.History, found []history.Violation) {
	w.t.Helper()
	w.t.Logf("seed %d, plan %v: %d violations", w.plan.seed, w.plan, len(found))
	key := ""
	for i, v := range found {
		if i < 10 {
			w.t.Log(v)
		}
		if key == "" {
			key = v.Key
		}
	}
	for _, s := range h.Strikes {
		w.t.Logf("strike: %s of %d from %s to %s", s.What, s.PID, s.At.UTC().Format(killsClock), s.Until.UTC().Format(killsClock))
	}
	for _, c := range h.Calls {
		if c.Key == key {
			w.t.Logf("call: %+v", c)
		}
	}
	for _, c := range h.Changes {
		if c.Key == key {
			w.t.Logf("change: %s -> %s at %s", c.From, c.To, c.At.UTC().Format(killsClock))
		}
	}
	for _, d := range []*daemon{w.daemon, w.standby} {
		if d != nil {
			w.t.Logf("daemon %d:\n%s", d.cmd.Process.Pid, telling(d.log.String()))
		}
	}
}

// telling returns the lines of a log that are no daily round, at most some kilobytes.
func telling(log string) string {
	var b strings.Builder
	for line := range strings.Lines(log) {
		isRound := strings.Contains(line, `"msg":"record died"`) || strings.Contains(line, `"msg":"tick skipped`) || strings.Contains(line, `"selected":0,`)
		if !isRound {
			b.WriteString(line)
		}
	}
	const most = 16_000
	text := b.String()
	return text[:min(len(text), most)]
}

const killsClock = "15:04:05.000000"

// A killsAccount counts strikes, by what was struck and how.
type killsAccount map[string]int

func (a killsAccount) add(p *killsPlan, counts map[string]int) {
	for kind, n := range counts {
		a["all"] += n
		a["kind "+kind] += n
		a["database "+p.database()] += n
		a["policy "+p.policy.name] += n
		a["shape "+p.shape.name] += n
		a[fmt.Sprintf("%s %s", p.database(), kind)] += n
		switch kind {
		case "takeover", "handover", "session", "prompt", "freeze":
			a["take-overs"] += n
		}
	}
}
