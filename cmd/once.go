package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"backlog/backlog"
	"backlog/backlog/config"
	"backlog/backlog/table"
	"backlog/tiers"
)

// OnceOptions are the flags of once.
type OnceOptions struct {
	MaxAge string
	Tier   string
	Due    bool
	DryRun bool
	Strict bool
	Wait   string
	JSON   jsonFlag
	Now    nowFlag
}

func (o *OnceOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.MaxAge, "max-age", "", "process records up to `AGE` old, such as 7d")
	f.StringVar(&o.Tier, "tier", "", "process what the tier called `NAME` does")
	f.BoolVar(&o.Due, "due", false, "process the widest tier that ticked in the last minute, if any")
	f.BoolVar(&o.DryRun, "dry-run", false, "show the records in the order of handling, and do nothing")
	f.BoolVar(&o.Strict, "strict", false, "exit with 3 if a record failed")
	f.StringVar(&o.Wait, "wait", "0", "wait up to `DURATION` while another process works on the table")
	o.JSON.AddFlags(f)
	o.Now.AddFlags(f)
}

func newOnce(g *globals) *cobra.Command {
	var o OnceOptions
	c := &cobra.Command{
		Use:   "once {--max-age AGE | --tier NAME | --due}",
		Short: "Run one pass, for a system crontab",
		Long: `Once runs one pass over the pending records of the given age: first those never
tried, newest first, then those that failed. Each is handed to the handler once
and its outcome is written back. A database that is away at the start is waited
for, up to two minutes.

With --due it runs the pass of the widest tier that ticked in the last minute,
or does nothing. One line in the crontab of one machine then serves a whole
schedule; on several, which would each run every tick, "backlog run" is for that:

  * * * * * cd /srv/shop && /usr/local/bin/backlog once --due --wait 50s --log-level error >/dev/null

"backlog schedule --format crontab" prints that line for your tiers. A tick that
finds another process at work is dropped, which is in the log only.` + exitStatusPassHelp + `

A pass that a signal ends is done, too: 0. The report says so. One with outcomes
that the database does not take is not: 1.`,
		Args: noArgs,
		RunE: ran(func(ctx context.Context) error { return runOnce(ctx, o, g) }),
	}
	o.AddFlags(c.Flags())
	return c
}

func runOnce(ctx context.Context, o OnceOptions, g *globals) error {
	clock, now, err := o.Now.clock()
	if err != nil {
		return err
	}
	wait, err := tiers.ParseDuration(o.Wait)
	if err != nil || wait < 0 {
		return usagef("--wait: %q is not a duration; write it as in 30s", o.Wait)
	}
	cfg, err := g.load()
	if err != nil {
		return err
	}
	p, err := o.pass(cfg.Tiers, now)
	if err != nil {
		return err
	}
	if p.Tier == "" {
		if o.DryRun {
			return printRecords(g.out, p, nil, o.JSON.on)
		}
		return printReport(g.out, backlog.Report{Started: now, Complete: true}, o.JSON.on, nil)
	}
	log := newLog(cfg.Log, g.err)
	ctx, stop := stopOnSignal(ctx)
	defer stop.close()
	if o.DryRun {
		return dryRun(ctx, g, cfg, log, p, o.JSON.on)
	}
	surviveReaders()
	obs := newObserver(log)
	report, err := g.passOnce(ctx, cfg, log, p, wait, func(a *app) *backlog.Engine {
		return a.engine(clock, stop.hard, newProgress(g.err, a.table, obs.Observe))
	})
	if ctx.Err() != nil && report.Started.IsZero() && isEnd(err) { // ended before it began
		if errors.Is(err, backlog.ErrAway) && !o.JSON.on {
			g.printf("%s: no record selected: stopped by signal while it waited for the database\n", shown(p.Tier))
			return nil
		}
		report, err = backlog.Report{Tier: p.Tier, MaxAge: p.MaxAge, Started: now, Stopped: backlog.StoppedSignal}, nil
	}
	problem := (*table.Problem)(nil)
	switch {
	case errors.Is(err, backlog.ErrLocked) && report.Started.IsZero():
		return o.locked(log, err)
	case report.Started.IsZero() || report.Selected == 0 && errors.As(err, &problem):
		return err // nothing was begun
	}
	if perr := printReport(g.out, report, o.JSON.on, obs.causes(p.Tier)); perr != nil {
		return perr
	}
	switch {
	case err != nil:
		return err
	case report.Refused > 0:
		return fmt.Errorf("outcomes that the database does not take: %d; their records stay as they were and will be handled again; the log says which and why", report.Refused)
	case o.Strict && report.Failed+report.Rejected > 0:
		return errStrict
	}
	return nil
}

// locked returns the error of a pass that another process keeps from its
// beginning. That is normal for one of many ticks, and no reason for cron to send
// a mail: then it is a matter of the log.
func (o *OnceOptions) locked(log *slog.Logger, err error) error {
	if o.Due {
		log.Warn("the tick is dropped: " + err.Error())
		return quietError{err}
	}
	if o.Wait == "0" {
		return fmt.Errorf("%w (--wait 30s waits for it)", err)
	}
	return err
}

// passOnce runs the pass on an app of its own, under the run lock. The report is
// zero if it could not begin.
func (g *globals) passOnce(ctx context.Context, cfg *config.Config, log *slog.Logger, p backlog.Pass, wait time.Duration, engine func(*app) *backlog.Engine) (report backlog.Report, err error) {
	a, err := whenThere(ctx, log, awayPatience, func() (*app, error) { return g.wireApp(ctx, cfg, log, p.Now) })
	if err != nil {
		return report, err
	}
	defer a.close()
	a.introduce(slog.LevelDebug) // of one pass among many there is nothing new to tell
	lock, err := lockWithin(ctx, a.locker(), wait)
	if err != nil {
		return report, err
	}
	defer lock.Unlock()
	e := engine(a)
	defer context.AfterFunc(ctx, func() {
		a.sayStopping()
		e.Finish() // it may have lost the lock before
	})()
	ctx, release := a.whileHeld(ctx, lock)
	report, err = a.runPass(ctx, e, p)
	if lost := release(); lost != nil {
		if report.Stopped == backlog.StoppedLock {
			report.Stopped = backlog.StoppedError
		}
		return report, errors.Join(err, lost)
	}
	return report, err
}

// whileHeld returns a context that ends when the lock is lost; release stops
// looking and returns why it was.
func (a *app) whileHeld(ctx context.Context, lock backlog.Lock) (held context.Context, release func() error) {
	var lost error
	held, stop := backlog.WhileHeld(ctx, lock, time.Now, func(err error) {
		lost = fmt.Errorf("the run lock was lost, another process may have worked on this table meanwhile: %w", err)
		a.log.Error("the run lock is lost, the pass is stopped", "error", err)
	})
	return held, func() error {
		stop()
		return lost
	}
}

// runPass runs the pass from where the tier's last one stopped, and keeps where
// the next one goes on.
func (a *app) runPass(ctx context.Context, e *backlog.Engine, p backlog.Pass) (backlog.Report, error) {
	state := a.state(a.log)
	s, err := state.Load()
	if err != nil {
		a.log.Warn(err.Error())
	}
	p.Resume = s.Resume[p.Tier]
	report, err := e.Pass(ctx, p)
	if err := state.Update(func(s *backlog.State) { s.Note(report) }); err != nil {
		a.log.Warn(err.Error())
	}
	return report, err
}

// pass returns what to run; its Tier is empty if nothing is due.
func (o *OnceOptions) pass(s *tiers.Schedule, now time.Time) (p backlog.Pass, err error) {
	given := 0
	for _, is := range []bool{o.MaxAge != "", o.Tier != "", o.Due} {
		if is {
			given++
		}
	}
	if given != 1 {
		return p, usagef("say which records: one of --max-age AGE, --tier NAME or --due")
	}
	var tier tiers.Tier
	switch {
	case o.Due:
		pick := tiers.Coalesce(s.Due(now.Add(-time.Minute), now), func(tiers.Tier) bool { return true })
		if pick.Start == nil {
			return p, nil
		}
		tier = pick.Start.Tier
	case o.Tier != "":
		t, ok := s.ByName(o.Tier)
		if !ok {
			return p, usagef("--tier: there is no tier %q; the tiers are: %s", o.Tier, tierNames(s))
		}
		tier = t
	default:
		age, err := tiers.ParseDuration(o.MaxAge)
		if err != nil {
			return p, usagef("--max-age: %v", err)
		}
		if age <= 0 {
			return p, usagef("--max-age: %s is no age; write it as in 7d", o.MaxAge)
		}
		t, ok := s.ByMaxAge(age)
		if !ok {
			t = tiers.Tier{Name: o.MaxAge, MaxAge: age}
		}
		tier = t
	}
	return backlog.Pass{Tier: tier.Name, MaxAge: tier.MaxAge, Widest: tier.MaxAge == s.Widest().MaxAge, Now: now}, nil
}

func tierNames(s *tiers.Schedule) string {
	var names string
	for i, t := range s.Tiers() {
		if i > 0 {
			names += ", "
		}
		names += t.Name
	}
	return names
}

// state returns the keeper of the app's state. Not to have a place for it is
// only worth a warning.
func (a *app) state(log *slog.Logger) *stateFile {
	path, err := statePath(a.cfg)
	if err != nil {
		log.Warn(err.Error())
	}
	return &stateFile{path: path}
}

// lockWithin takes the run lock, waiting at most that long for another
// process.
func lockWithin(ctx context.Context, l backlog.Locker, wait time.Duration) (backlog.Lock, error) {
	lock, err := l.TryLock(ctx, backlog.RunLock)
	if errors.Is(err, backlog.ErrLocked) && wait > 0 {
		wctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		lock, err = backlog.WaitLock(wctx, l, backlog.RunLock, nil)
	}
	return lock, err
}

// dryRun shows what a pass would handle. It is a pass whose handler skips
// every record, over a store that can only be read.
func dryRun(ctx context.Context, g *globals, cfg *config.Config, log *slog.Logger, p backlog.Pass, asJSON bool) error {
	a, err := g.wireReader(ctx, cfg, log, p.Now)
	if err != nil {
		return err
	}
	defer a.close()
	if s, err := a.state(log).Load(); err == nil {
		p.Resume = s.Resume[p.Tier]
	}
	obs := newObserver(log)
	return printRecords(g.out, p, func(show func(*backlog.Record) error) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		e := &backlog.Engine{
			Store: struct{ backlog.Store }{a.table}, // none of its other abilities
			Handler: backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
				if err := show(r); err != nil {
					cancel(err)
				}
				return backlog.Skip
			}),
			MaxRecords: cfg.MaxRecords,
			Policy:     policyOf(cfg),
			Observe: func(ev backlog.Event) {
				if ev.Kind == backlog.UnreadableRow {
					obs.Observe(ev)
				}
			},
		}
		if _, err := e.Pass(ctx, p); err != nil {
			return err
		}
		if err := context.Cause(ctx); err != nil && !isEnd(err) {
			return err
		}
		return nil
	}, asJSON)
}

// printRecords prints the records that walk shows, as they come.
func printRecords(w io.Writer, p backlog.Pass, walk func(show func(*backlog.Record) error) error, asJSON bool) error {
	if walk == nil && !asJSON {
		_, err := fmt.Fprintln(w, nothingDue)
		return err
	}
	if walk == nil {
		walk = func(func(*backlog.Record) error) error { return nil }
	}
	if !asJSON {
		n := 0
		err := walk(func(r *backlog.Record) error {
			n++
			_, err := fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", shown(r.Key.String()), shown(r.Status), when(r.Inserted), r.Lane)
			return err
		})
		if err == nil {
			text := "nothing would be handled"
			if n > 0 {
				text = plural(n, "record") + " would be handled, in this order"
			}
			_, err = fmt.Fprintln(w, text)
		}
		return err
	}
	tier, _ := json.Marshal(p.Tier)
	if _, err := fmt.Fprintf(w, `{"tier":%s,"records":[`, tier); err != nil {
		return err
	}
	comma := ""
	err := walk(func(r *backlog.Record) error {
		b, err := json.Marshal(struct {
			ID       backlog.Key `json:"id"`
			Status   string      `json:"status"`
			Inserted stamp       `json:"inserted"`
			Lane     string      `json:"lane"`
		}{r.Key, r.Status, stamp(r.Inserted), r.Lane.String()})
		if err == nil {
			_, err = fmt.Fprintf(w, "%s%s", comma, b)
			comma = ","
		}
		return err
	})
	if _, werr := fmt.Fprintln(w, "]}"); err == nil {
		err = werr
	}
	return err
}

// when is a time as people read it.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05 MST")
}
