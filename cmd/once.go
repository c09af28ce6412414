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
	f.StringVar(&o.ID, "id", "", "process the record that has this `ID` now, due or not")
	f.IntVar(&o.MaxRecords, "max-records", 0, "process at most `N` records (0: max_records of the configuration)")
	f.BoolVar(&o.DryRun, "dry-run", false, "print the records in the order in which they would be handled, and handle none")
	f.BoolVar(&o.Strict, "strict", false, "exit with 3 if a record failed")
	f.BoolVar(&g.replace, "replace", false, "with --due: "+replaceUsage)
	f.Var(&flagOf[time.Duration]{to: &o.Wait, read: durationFrom(0, math.MaxInt64, "a duration; write it as in 30s")}, "wait", "wait up to `DURATION` while another process works on the table")
	o.dataFlags.AddFlags(f)
	return c
}

func runOnce(ctx context.Context, o OnceOptions, g *globalOptions) error {
	clock, now := o.clock()
	ctx, stop := stopOnSignal(ctx) // beside the loading of the configuration
	defer stop()
	cfg, err := g.loadAny()
	if err != nil {
		return err
	}
	if sourceOf(cfg) != nil {
		return onceSource(ctx, stop, g, cfg, o)
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
		if p, err = o.due(g, log, state, cfg, now); p.Tier == "" || err != nil {
			return err
		}
	}
	if o.DryRun {
		return o.dryRun(ctx, g, cfg, log, p)
	}
	surviveReaders()
	report, list, err := o.passOnce(ctx, g, cfg, log, state, p, clock)
	if ctx.Err() != nil && report.Started.IsZero() && errors.Is(err, context.Canceled) { // ended before it began
		report, err = backlog.Report{Tier: p.Tier, MaxAge: p.MaxAge, Started: now, Stopped: backlog.StoppedSignal}, nil
	}
	switch locked := errors.Is(err, backlog.ErrLocked) && report.Started.IsZero(); {
	case locked && o.Due: // for one of many ticks that is normal: cron has nothing to mail
		log.Warn("the tick is left to the next start", "error", err)
		return quietError{err}
	case locked && o.Wait == 0:
		return fmt.Errorf("%w (--wait 30s waits for it)", err)
	case o.Due && err == nil && report.Started.IsZero():
		return o.nothing(g, now, "nothing is due: another process has run it")
	case report.Started.IsZero() || report.Selected == 0 && errors.As(err, new(*table.Problem)):
		return err // nothing was begun
	}
	stop() // who does not read the report may end it
	return o.end(g, cmp.Or(o.ID, p.Tier), report, list, err)
}

// end prints what a pass has done and returns what the program ends with.
func (o *OnceOptions) end(g *globalOptions, name string, report backlog.Report, list []causes.Cause, err error) error {
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

// passOnce runs the pass under the run lock or, with an id, handles that record
// alone. The report is zero if the pass could not begin. The causes say why records failed.
func (o *OnceOptions) passOnce(
	ctx context.Context, g *globalOptions, cfg *config.Config, log *slog.Logger, state *checkpoint.File, p backlog.Pass, clock func() time.Time,
) (report backlog.Report, list []causes.Cause, err error) {
	a, waited, err := whenThere(ctx, log, "database", awayPatience, func() (*setup, error) {
		return g.wireApp(ctx, cfg, log, p.Now, nil)
	})
	if err != nil {
		return report, nil, err
	}
	defer a.close()
	if log.Enabled(ctx, slog.LevelDebug) { // of one pass among many there is nothing new to tell
		if a.samples, err = doctor.Samples(ctx, a.table, p.Now); err != nil {
			return report, list, err
		}
	}
	a.introduce(slog.LevelDebug, slog.LevelInfo) // as warnings, cron would mail the notes at every tick; check has them
	if o.Due {
		if err := g.alone(ctx, a.table, cfg, backlog.LeaderLock); err != nil {
			return report, list, err
		}
	}
	run := backlog.Claim{Locker: a.locker(o.Due)}
	if waited && !a.onFile() {
		run.Doubt() // another process may have had the lock until now
	}
	lock, err := run.LockWithin(ctx, backlog.RunLock, o.Wait, g.replace)
	if err != nil {
		return report, list, a.lockError(err, g.replace)
	}
	defer lock.Unlock()
	if err := a.dispatching(func(d *dispatch) error { return d.Open(ctx) }); err != nil {
		return report, list, err
	}
	c := a.newHistory(state, new(watch.Picture))
	c.single = o.ID != ""
	c.Single = true
	defer c.end()
	e := a.engine(clock, logging.ShowPasses(g.err, a.table.Count, c.Observe))
	e.Patience = awayPatience
	var taken map[string]bool
	if o.Due { // another process may have run the ticks meanwhile
		kept, _ := state.State()
		ticks := state.Ticks(kept, cfg.Tiers, p.Now, time.Now())
		if ticks.Pass.Tier == "" {
			return report, list, nil
		}
		p, taken = ticks.Pass, ticks.Tiers
		if ticks.Missed > 0 {
			c.Observe(backlog.Event{
				Kind: backlog.TicksMissed, Tier: p.Tier, At: p.Now,
				N: ticks.Missed, AtLeast: ticks.More, Since: ticks.Since,
			})
		}
		e.Paused = state.PausedBy(clock, log)
	}
	defer context.AfterFunc(ctx, a.sayStopping)()
	var lost error
	held, release := backlog.WhileHeld(ctx, lock, time.Now, func(err error) {
		lost = fmt.Errorf("the run lock was lost, another process may have worked on this table meanwhile: %w", err)
		a.log.Error("the run lock is lost, the pass is stopped", "error", err)
	})
	if o.ID == "" {
		report, err = state.RunPass(held, e, p, taken, c.keep)
	} else {
		report, err = a.handleOne(held, e, p, o.ID)
	}
	list = c.Picture.Causes(report.Tier)
	e.Flush(ctx) // what is left of a lost lock
	err = errors.Join(err, a.dispatching((*dispatch).Err))
	release()
	if lost != nil && report.Stopped == backlog.StoppedLock {
		report.Stopped = backlog.StoppedError
	}
	return report, list, errors.Join(err, lost)
}

// asked returns how many flags say which records are meant.
func (o *OnceOptions) asked() (n int) {
	for _, given := range []bool{o.MaxAge != "", o.Tier != "", o.Due, o.ID != ""} {
		if given {
			n++
		}
	}
	return n
}

// pass returns what to run; its Tier is empty with --due, whose ticks say it.
func (o *OnceOptions) pass(s *tiers.Schedule, now time.Time) (p backlog.Pass, err error) {
	tier := s.Widest()
	asked := o.asked()
	var known bool
	switch {
	case asked > 1 && o.ID != "":
		return p, usagef("--id is one record, due or not: leave out --max-age, --tier and --due")
	case asked > 1, asked == 0 && len(s.Tiers()) > 1:
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

// dryRun shows what a pass would handle: its handler skips every record, and its
// store is only read.
func (o *OnceOptions) dryRun(ctx context.Context, g *globalOptions, cfg *config.Config, log *slog.Logger, p backlog.Pass) error {
	a, err := g.wireTable(ctx, cfg, log, table.Options{ReadOnly: true}, p.Now, nil)
	if err != nil {
		return err
	}
	defer a.close()
	if o.ID != "" {
		return o.dryRunOne(ctx, g, a, p.Now)
	}
	s, _ := stateOf(cfg, log).Load() // without one, from the beginning
	p.Resume = s.Resume[p.Tier]
	obs := logging.New(log)
	var n int
	var before string
	show := func(_ context.Context, r *backlog.Record) error {
		n++
		if o.JSON {
			b, _ := json.Marshal(recordOf(r))
			g.printf("%s%s", before, b)
			before = ","
		} else {
			g.printf("%s\t%s\t%s\t%s\n", inspect.Shown(r.Key.String()), inspect.Shown(r.Status), inspect.When(r.Inserted), r.Lane)
		}
		return backlog.Skip
	}
	if o.JSON { // as they come: there may be more than memory holds
		name, _ := json.Marshal(p.Tier)
		g.printf(`{"tier":%s,"records":[`, name)
	}
	e := &backlog.Engine{
		Store:      struct{ backlog.Store }{a.store}, // none of its other abilities
		Handler:    backlog.HandlerFunc(show),
		MaxRecords: cfg.MaxRecords,
		Observe: func(ev backlog.Event) {
			if ev.Kind == backlog.UnreadableRow {
				obs.Observe(ev)
			}
		},
	}
	if !a.view.Refreshes() { // a start would be written
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

// recordJSON is a record as --dry-run prints it. Environment and Record are there
// with --id: they are what a program would be given.
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

// handleOne handles and settles one record.
func (a *setup) handleOne(ctx context.Context, e *backlog.Engine, p backlog.Pass, id string) (backlog.Report, error) {
	row, tier, err := a.view.PendingRow(ctx, id, p.Now)
	if err != nil {
		return backlog.Report{}, err
	}
	p.Tier, p.MaxAge = tier.Name, tier.MaxAge
	e.Store = a.view.Single(row.Record)
	return e.Pass(ctx, p)
}

// dryRunOne shows what a program would be given of the record.
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
	for _, v := range [][2]string{
		{"BACKLOG_ID", row.Key.String()}, {"BACKLOG_STATUS", row.Status},
		{"BACKLOG_INSERTED", backlog.TimeText(row.Inserted)}, {"BACKLOG_TIER", tier.Name},
	} {
		r.Environment[v[0]] = v[1]
		if !o.JSON {
			g.printf("%s=%s\n", v[0], inspect.Shown(v[1]))
		}
	}
	if o.JSON {
		return printJSON(g.out, recordsJSON{tier.Name, []recordJSON{r}})
	}
	g.printf("%s\nnothing is handled: that is what a program would be given, and a BACKLOG_ATTEMPT_ID of its own\n", columns)
	return nil
}

// due returns the pass of the ticks to run. Where there are none, or in a pause, it prints that.
func (o *OnceOptions) due(g *globalOptions, log *slog.Logger, state *checkpoint.File, cfg *config.Config, now time.Time) (backlog.Pass, error) {
	err := g.lookAtState(state, cfg, now)
	if !o.DryRun {
		mine := g.keptWork(cfg, now)
		mine.Until = checkpoint.Return(cfg.Tiers, now) // a crontab starts it again
		err = g.useState(state, cfg, log, mine)
	}
	if err != nil {
		return backlog.Pass{}, err
	}
	kept, _ := state.State()
	if pause := kept.Current(now); pause != nil && !o.DryRun && refreshOf(cfg) == nil { // whose pass also collects answers
		return backlog.Pass{}, o.nothing(g, now, "paused "+inspect.Escaped(pause.String())+": nothing is started")
	}
	if p := state.Ticks(kept, cfg.Tiers, now, time.Now()).Pass; p.Tier != "" {
		return p, nil
	}
	if back := kept.LastWake.Sub(now); back > time.Second {
		log.Warn("the clock was set back", "error", fmt.Errorf("by %v: ticks may be run again", back.Round(time.Second)))
	}
	if !o.DryRun { // for what will be missed
		if err := state.Update(func(s *backlog.Checkpoint) { s.LastWake = now }); err != nil {
			log.Warn(badState, "error", err)
		}
	}
	return backlog.Pass{}, o.nothing(g, now, "nothing is due")
}

// nothing prints the report of no pass.
func (o *OnceOptions) nothing(g *globalOptions, now time.Time, why string) error {
	switch {
	case o.DryRun && o.JSON:
		return printJSON(g.out, recordsJSON{"", []recordJSON{}})
	case o.JSON:
		return printReport(g.out, "", backlog.Report{Started: now, Complete: true}, true, nil)
	}
	g.printf("%s\n", why)
	return nil
}
