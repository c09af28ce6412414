package cmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"backlog/backlog"
	"backlog/backlog/causes"
	"backlog/backlog/checkpoint"
	"backlog/backlog/config"
	"backlog/backlog/inspect"
	"backlog/backlog/logging"
	"backlog/backlog/table"
	"backlog/backlog/table/doctor"
	"backlog/backlog/watch"
	"backlog/tiers"
)

// OnceOptions are the flags of once.
type OnceOptions struct {
	dataFlags
	MaxAge string
	Tier   string
	Due    bool
	ID     string
	DryRun bool
	Strict bool
	Wait   time.Duration

	MaxRecords int
}

func newOnce(g *globalOptions) *cobra.Command {
	var o OnceOptions
	c := &cobra.Command{
		Use:         "once {--max-age DURATION | --tier NAME | --due | --id ID}",
		Short:       "Run one pass, for example from a crontab",
		Annotations: map[string]string{"0": "done; failed records are normal", "3": "--strict, and some record failed", "75": "another process is working on this table"},
		RunE:        func(c *cobra.Command, _ []string) error { return runOnce(c.Context(), o, g) },
	}
	f := c.Flags()
	f.StringVar(&o.MaxAge, "max-age", "", "process records up to `DURATION` old, such as 7d")
	f.StringVar(&o.Tier, "tier", "", "process records up to the maximum age of the tier `NAME`")
	f.BoolVar(&o.Due, "due", false, "run the widest tier that has ticked since the last start, if any")
	f.StringVar(&o.ID, "id", "", "process the record with this `ID` now, even if it is not due")
	f.IntVar(&o.MaxRecords, "max-records", 0, "process at most `N` records (0: max_records of the configuration)")
	f.BoolVar(&o.DryRun, "dry-run", false, "print the records in the order in which they would be handled, and handle none")
	f.BoolVar(&o.Strict, "strict", false, "exit with 3 if a record failed")
	f.BoolVar(&g.replace, "replace", false, "with --due: "+replaceUsage)
	f.Var(&parsedFlag[time.Duration]{target: &o.Wait, parse: durationBetween(0, math.MaxInt64, "a duration; write it as in 30s")}, "wait", "wait up to `DURATION` while another process works on the table")
	o.dataFlags.AddFlags(f)
	return c
}

func runOnce(ctx context.Context, o OnceOptions, g *globalOptions) error {
	clock, now := o.clock()
	ctx, signals := onTermOrHangup(ctx) // registers for signals while the configuration is loaded
	defer signals.stop()
	g.signals = signals
	cfg, err := g.loadAny()
	if err != nil {
		return err
	}
	if sourceOf(cfg) != nil {
		return onceSource(ctx, g, cfg, o)
	}
	if o.MaxRecords < 0 {
		return usagef("--max-records: must not be negative")
	}
	if g.replace && !o.Due {
		return usagef("--replace goes with --due: without the memory of ticks there is nothing to replace")
	}
	cfg.MaxRecords = cmp.Or(o.MaxRecords, cfg.MaxRecords)
	p, err := o.pass(cfg.Tiers, now)
	if err != nil {
		return err
	}
	log := newLog(cfg.Log, g.err)
	state := stateOf(cfg, log)
	if o.Due {
		p, err = o.duePass(g, log, state, cfg, now)
		if p.Tier == "" || err != nil {
			return err
		}
	}
	if o.DryRun {
		return o.dryRun(ctx, g, cfg, log, p)
	}
	ignoreSIGPIPE()
	run := &onceRun{OnceOptions: &o, g: g, cfg: cfg, log: log, state: state, pass: p, clock: clock}
	report, list, err := run.run(ctx)
	stoppedBefore := ctx.Err() != nil && report.Started.IsZero() && errors.Is(err, context.Canceled)
	if stoppedBefore {
		report = backlog.Report{Tier: p.Tier, MaxAge: p.MaxAge, Started: now, Stopped: backlog.StoppedSignal}
		err = nil
	}
	if report.Started.IsZero() {
		return o.notStarted(g, log, now, err)
	}
	if report.Selected == 0 && errors.As(err, new(*table.Problem)) {
		return err // the table is wrong, and no record was handled
	}
	signals.stop() // a signal may end the program while it prints the report
	return o.printEnd(g, cmp.Or(o.ID, p.Tier), report, list, err)
}

// notStarted returns what the program ends with if the pass could not start because of err or, with
// --due and without an error, because another process has run the ticks.
func (o *OnceOptions) notStarted(g *globalOptions, log *slog.Logger, now time.Time, err error) error {
	locked := errors.Is(err, backlog.ErrLocked)
	switch {
	case locked && o.Due: // normal at one of many ticks: cron has nothing to mail
		log.Warn("the tick is left to the next start", "error", err)
		return quietError{err}
	case locked && o.Wait == 0:
		return fmt.Errorf("%w (--wait 30s waits for it)", err)
	case o.Due && err == nil:
		return o.printNothing(g, now, "no tier is due: another process has run its pass")
	}
	return err
}

// printEnd prints the report of a pass and returns what the program ends with.
func (o *OnceOptions) printEnd(g *globalOptions, name string, report backlog.Report, list []causes.Cause, err error) error {
	err = cmp.Or(printReport(g.out, name, report, o.JSON, list), err)
	switch {
	case err != nil:
		return err
	case report.Refused > 0:
		return fmt.Errorf("outcomes that the database does not take: %d; their rows stay as they were, and the next start tries them again; the log says which and why", report.Refused)
	case o.Strict && report.Failed+report.Rejected > 0:
		return errStrict
	}
	return nil
}

// A onceRun is one pass of once over a table.
type onceRun struct {
	*OnceOptions
	g     *globalOptions
	cfg   *config.Config
	log   *slog.Logger
	state *checkpoint.File
	pass  backlog.Pass
	clock func() time.Time
}

// run runs the pass under the run lock or, with an ID, handles that record alone. The report is zero
// if the pass could not start. The causes say why records failed.
func (r *onceRun) run(ctx context.Context) (report backlog.Report, list []causes.Cause, err error) {
	a, waited, err := retryOpen(ctx, r.log, "database", openPatience, func() (*setup, error) {
		return r.g.wirePass(ctx, wiring{cfg: r.cfg, log: r.log, now: r.pass.Now})
	})
	if err != nil {
		return report, nil, err
	}
	defer a.close()
	if r.log.Enabled(ctx, slog.LevelDebug) { // at each of many passes the samples are the same
		a.samples, err = doctor.Samples(ctx, a.table, r.pass.Now)
		if err != nil {
			return report, list, err
		}
	}
	a.logFindings(slog.LevelDebug, slog.LevelInfo) // not as warnings, which cron would mail at every tick; check prints them
	lock, err := r.lock(ctx, a, waited)
	if err != nil {
		return report, list, err
	}
	defer lock.Unlock()
	if err := a.withDispatch(func(d *dispatch) error { return d.Open(ctx) }); err != nil {
		return report, list, err
	}
	h := a.newHistory(r.state, new(watch.Picture))
	h.single = r.ID != ""
	h.Single = true
	defer h.end()
	e := a.engine(r.clock, logging.ShowPasses(r.g.err, a.table.Count, h.Observe))
	e.Patience = openPatience
	trialOf := a.trialDigest()
	saved, _ := r.state.State() // if it cannot be read, rows are tried
	skipped := saved.Trial.Passed(trialOf, r.pass.Now)
	e.SkipTrials(skipped)
	var taken map[string]bool
	if r.Due { // another process may have run the ticks before this one got the lock
		d, due := r.stillDue(h, saved)
		if !due {
			return report, list, nil
		}
		r.pass = d.Pass
		taken = d.Tiers
		e.Paused = r.state.PausedBy(r.clock, r.log)
	}
	defer context.AfterFunc(ctx, a.logStopping)()
	var lost error
	r.pass.Lock = backlog.WhileHeld(ctx, lock, time.Now, func(err error) {
		lost = fmt.Errorf("the run lock was lost, another process may have worked on this table in the meantime: %w", err)
		a.log.Error("the run lock is lost, the pass is stopped", "error", err)
	})
	held := r.pass.Lock.Context()
	if r.ID == "" {
		report, err = r.state.RunPass(held, e, r.pass, taken, h.warnOnce)
	} else {
		report, err = a.handleOne(held, e, r.pass, r.ID)
	}
	list = h.Picture.Causes(report.Tier)
	e.Flush(ctx) // outcomes that a lost lock kept from being written
	err = errors.Join(err, a.withDispatch((*dispatch).Err))
	if trialOf != "" && r.ID == "" && (err != nil || e.TrialsPassed() != skipped) {
		r.keepTrial(trialOf, e.TrialsPassed(), err)
	}
	r.pass.Lock.Release()
	if lost != nil && report.Stopped == backlog.StoppedLock {
		report.Stopped = backlog.StoppedError
	}
	return report, list, errors.Join(err, lost)
}

// keepTrial saves of which states the next start tries no row. After an error of the pass it tries all.
func (r *onceRun) keepTrial(of string, passed uint64, passErr error) {
	err := r.state.Change(func(s *checkpoint.State) {
		if passErr == nil && passed != 0 {
			s.Trial = s.Trial.With(of, passed, r.pass.Now)
		} else {
			s.Trial = nil
		}
	})
	if err != nil {
		r.log.Warn(stateUnusable, "error", err)
	}
}

// trialDigest returns a digest of what the result of a trial write depends on; "": the database does not tell
// when its schema changes.
func (a *setup) trialDigest() string {
	schema := a.table.SchemaVersion()
	if schema == "" {
		return ""
	}
	return backlog.NewMark("trial", []any{Version, a.cfg.Database, schema, a.cfg.Table, a.cfg.Policy}).Digest
}

// lock takes the run lock. If the database had to be waited for, another process may have held the
// lock until now.
func (r *onceRun) lock(ctx context.Context, a *setup, waited bool) (backlog.Lock, error) {
	if r.Due {
		if err := r.g.checkLocks(ctx, a.table, r.cfg, backlog.LeaderLock); err != nil {
			return nil, err
		}
	}
	claim := backlog.Claim{Locker: a.locker(r.Due)}
	if waited && !a.onFile() {
		claim.Doubt()
	}
	lock, err := claim.LockWithin(ctx, backlog.RunLock, r.Wait, r.g.replace)
	return lock, a.lockError(err, r.g.replace)
}

// stillDue returns the pass that is due by the state as it is now, and observes the ticks that were missed.
func (r *onceRun) stillDue(h *history, saved checkpoint.State) (d checkpoint.DuePass, due bool) {
	d, due = r.state.DuePass(saved, r.cfg.Tiers, r.pass.Now, time.Now())
	if d.Missed > 0 {
		h.Observe(backlog.Event{
			Kind: backlog.TicksMissed, Tier: d.Pass.Tier, At: d.Pass.Now,
			N: d.Missed, AtLeast: d.MissedMore, Since: d.Since,
		})
	}
	return d, due
}

// selectors returns how many of the flags that select records are given.
func (o *OnceOptions) selectors() (n int) {
	for _, given := range []bool{o.MaxAge != "", o.Tier != "", o.Due, o.ID != ""} {
		if given {
			n++
		}
	}
	return n
}

// pass returns the pass that the flags ask for. With --due its tier is empty: that depends on the ticks.
func (o *OnceOptions) pass(s *tiers.Schedule, now time.Time) (p backlog.Pass, err error) {
	tier := s.Widest()
	selectors := o.selectors()
	var known bool
	switch {
	case selectors > 1 && o.ID != "":
		return p, usagef("--id is one record, due or not: leave out --max-age, --tier and --due")
	case selectors > 1, selectors == 0 && len(s.Tiers()) > 1:
		return p, usagef("say which records: one of --max-age DURATION, --tier NAME, --due or --id ID")
	case o.ID != "", o.Due:
		return backlog.Pass{Now: now}, nil
	case o.Tier != "":
		if tier, known = s.ByName(o.Tier); !known {
			return p, usagef("--tier: there is no tier %q; the tiers are: %s", o.Tier, strings.Join(s.Names(), ", "))
		}
	case o.MaxAge != "":
		age, err := parseAge(o.MaxAge)
		if err != nil {
			return p, usagef("--max-age: %w", err)
		}
		if tier, known = s.ByMaxAge(age); !known {
			tier = tiers.Tier{Name: o.MaxAge, MaxAge: age}
		}
	}
	p = backlog.TierPass(s, tier)
	p.Now = now
	return p, nil
}

// dryRun prints what a pass would handle. It runs a pass whose handler prints and skips every
// record, so that nothing is written.
func (o *OnceOptions) dryRun(ctx context.Context, g *globalOptions, cfg *config.Config, log *slog.Logger, p backlog.Pass) error {
	a, err := g.wireTable(ctx, wiring{cfg: cfg, log: log, now: p.Now}, table.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer a.close()
	if o.ID != "" {
		return o.dryRunOne(ctx, g, a, p.Now)
	}
	saved, _ := stateOf(cfg, log).Load() // if it cannot be read, the pass starts at the beginning
	p.Resume = saved.Resume[p.Tier]
	obs := logging.New(log)
	n := 0
	separator := ""
	show := func(_ context.Context, r *backlog.Record) error {
		n++
		if o.JSON {
			b, _ := json.Marshal(recordOf(r))
			g.printf("%s%s", separator, b)
			separator = ","
		} else {
			g.printf("%s\t%s\t%s\t%s\n", inspect.Shown(r.Key.String()), inspect.Shown(r.Status), inspect.When(r.Inserted), r.Lane)
		}
		return backlog.Skip
	}
	if o.JSON { // record by record: there may be more than memory holds
		name, _ := json.Marshal(p.Tier)
		g.printf(`{"tier":%s,"records":[`, name)
	}
	e := &backlog.Engine{
		Store:      struct{ backlog.Store }{a.store}, // without its optional interfaces, by which an engine may write
		Handler:    backlog.HandlerFunc(show),
		MaxRecords: cfg.MaxRecords,
		Observe: func(ev backlog.Event) {
			if ev.Kind == backlog.UnreadableRow {
				obs.Observe(ev)
			}
		},
	}
	if !a.view.Refreshes() { // under that policy an engine would write the start of each attempt
		e.Policy = policyOf(cfg.Policy)
	}
	_, err = e.Pass(ctx, p)
	switch {
	case o.JSON:
		g.printf("]}\n")
	case err != nil:
	case n > 0:
		g.printf("%s would be handled, in this order\n", inspect.Plural(n, "record"))
	default:
		g.printf("nothing would be handled\n")
	}
	return err
}

// recordJSON is a record as --dry-run prints it. Environment and Record are what a program would be
// given. They are printed with --id only.
type recordJSON struct {
	ID          backlog.Key       `json:"id"`
	Status      string            `json:"status"`
	Inserted    stamp             `json:"inserted"`
	Lane        string            `json:"lane"`
	Environment map[string]string `json:"environment,omitempty"`
	Record      json.RawMessage   `json:"record,omitempty"`
}

type recordsJSON struct {
	Tier    string       `json:"tier"`
	Records []recordJSON `json:"records"`
}

func recordOf(r *backlog.Record) recordJSON {
	return recordJSON{ID: r.Key, Status: r.Status, Inserted: stamp(r.Inserted), Lane: r.Lane.String()}
}

// handleOne runs a pass over the one record with the ID.
func (a *setup) handleOne(ctx context.Context, e *backlog.Engine, p backlog.Pass, id string) (backlog.Report, error) {
	row, tier, err := a.view.PendingRow(ctx, id, p.Now)
	if err != nil {
		return backlog.Report{}, err
	}
	p.Tier = tier.Name
	p.MaxAge = tier.MaxAge
	e.Store = a.view.Single(row.Record)
	return e.Pass(ctx, p)
}

// dryRunOne prints what a program would be given for the record with the ID.
func (o *OnceOptions) dryRunOne(ctx context.Context, g *globalOptions, a *setup, now time.Time) error {
	row, tier, err := a.view.PendingRow(ctx, o.ID, now)
	if err != nil {
		return err
	}
	columns, err := row.ColumnsJSON()
	if err != nil {
		return err
	}
	r := recordOf(&row.Record)
	r.Environment = make(map[string]string)
	r.Record = columns
	for _, variable := range []struct{ name, value string }{
		{"BACKLOG_ID", row.Key.String()},
		{"BACKLOG_STATUS", row.Status},
		{"BACKLOG_INSERTED", backlog.TimeText(row.Inserted)},
		{"BACKLOG_TIER", tier.Name},
	} {
		r.Environment[variable.name] = variable.value
		if !o.JSON {
			g.printf("%s=%s\n", variable.name, inspect.Shown(variable.value))
		}
	}
	if o.JSON {
		return printJSON(g.out, recordsJSON{tier.Name, []recordJSON{r}})
	}
	g.printf("%s\nnothing is handled: that is what a program would be given, and a BACKLOG_ATTEMPT_ID of its own\n", columns)
	return nil
}

// duePass returns the pass of the ticks to run. If there are none, or in a pause, it prints that and
// returns a pass without a tier.
func (o *OnceOptions) duePass(
	g *globalOptions, log *slog.Logger, state *checkpoint.File, cfg *config.Config, now time.Time,
) (backlog.Pass, error) {
	err := g.checkTicks(state, cfg, now)
	if !o.DryRun {
		mine := g.stateWork(cfg, now)
		mine.Until = checkpoint.RestartBy(cfg.Tiers, now) // a crontab starts it again
		err = g.claimTicks(state, cfg, log, mine)
	}
	if err != nil {
		return backlog.Pass{}, err
	}
	saved, _ := state.State()
	collectsAnswers := refreshOf(cfg) != nil // in a pause, too
	if pause := saved.Current(now); pause != nil && !o.DryRun && !collectsAnswers {
		return backlog.Pass{}, o.printNothing(g, now, "paused "+inspect.Escaped(pause.String())+": nothing is started")
	}
	if d, due := state.DuePass(saved, cfg.Tiers, now, time.Now()); due {
		return d.Pass, nil
	}
	if back := saved.LastWake.Sub(now); back > time.Second {
		log.Warn("the clock was set back", "error", fmt.Errorf("by %v: ticks may be run again", back.Round(time.Second)))
	}
	if !o.DryRun { // ticks are missed from now on
		if err := state.Update(func(s *backlog.Checkpoint) { s.LastWake = now }); err != nil {
			log.Warn(stateUnusable, "error", err)
		}
	}
	return backlog.Pass{}, o.printNothing(g, now, "no tier is due"+nextTick(cfg.Tiers, now))
}

// nextTick returns a note on the first tick after now, "" if no tier ticks any more.
func nextTick(s *tiers.Schedule, now time.Time) string {
	for t := range inspect.Ticks(s, now, time.Time{}, 1) {
		return fmt.Sprintf("; the next tick is at %v, of the tier %s", t.At, inspect.Shown(t.Tier))
	}
	return ""
}

// printNothing prints why no pass runs, as JSON the report of an empty one.
func (o *OnceOptions) printNothing(g *globalOptions, now time.Time, why string) error {
	switch {
	case o.DryRun && o.JSON:
		return printJSON(g.out, recordsJSON{"", []recordJSON{}})
	case o.JSON:
		return printReport(g.out, "", backlog.Report{Started: now, Complete: true}, true, nil)
	}
	g.printf("%s\n", why)
	return nil
}
