package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/amqp"
	"backlog/backlog/checkpoint"
	"backlog/backlog/config"
	"backlog/backlog/logging"
	"backlog/backlog/mapping"
	"backlog/backlog/memory"
	"backlog/backlog/reader"
	"backlog/backlog/retry"
	"backlog/backlog/simulate"
	"backlog/backlog/table"
	"backlog/backlog/table/db"
	"backlog/backlog/table/mysql"
	"backlog/backlog/table/postgres"
	"backlog/backlog/table/sqlite"
	"backlog/internal/lists"
)

// dialects are the databases that the program speaks to.
var dialects = []db.Server{sqlite.Dialect, postgres.Dialect, mysql.Dialect}

// What other commands need to know of databases.
const (
	sqliteDriver = sqlite.Driver
	mostSkew     = db.MaxSkew
)

type (
	urlError        = db.URLError
	dispatch        = amqp.Dispatch
	refreshSettings = retry.Refresh
)

// openDatabase opens the database that the URL names.
func openDatabase(ctx context.Context, url string, o db.Options) (*db.DB, error) {
	dialect, err := serverOf(url)
	if err != nil {
		return nil, err
	}
	return db.Open(ctx, dialect, url, o)
}

// serverOf returns the kind of server that the URL names.
func serverOf(url string) (db.Server, error) { return db.DialectOf(url, dialects...) }

// shownURL returns the URL as it may be shown.
func shownURL(url string) string { return db.RedactURL(url, dialects...) }

// A setup is the program wired for one configuration.
type setup struct {
	cfg      *config.Config
	log      *slog.Logger
	handler  backlog.ConfiguredHandler // nil: none is needed
	onDead   backlog.ConfiguredHandler // nil: none
	onOutage backlog.ConfiguredHandler // likewise
	store    backlog.Store             // what passes work on: the table or the source
	source   *amqp.Source              // instead of a table; nil: none
	db       *table.DB
	table    *table.Table
	view     *reader.View // of the table, for people
	work     backlog.Work // as its locks are marked

	shared bool            // the database is another setup's, too
	hard   <-chan struct{} // closed by the second signal

	samples []string // rows as they are understood
}

// wireApp builds what a pass needs and checks it without touching a record: the
// handler, the table's columns and times, the statements. Whether rows take the
// statuses is tried before the first one is handled. db is nil, or the database
// of a setup whose place this one is to take.
func (g *globalOptions) wireApp(ctx context.Context, cfg *config.Config, log *slog.Logger, now time.Time, db *table.DB) (a *setup, err error) {
	h, onDead, err := newHandlers(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	if a, err = g.wireTable(ctx, cfg, log, table.Options{}, now, db); err != nil {
		return nil, err
	}
	if a.onOutage, err = newOnOutage(ctx, cfg, log); err == nil {
		err = a.wireHandlers(ctx, h, onDead)
	}
	if err == nil {
		err = a.table.ProveWrites(ctx, now)
	}
	return a.orClose(err)
}

// orClose returns the setup or, with an error, closes it.
func (a *setup) orClose(err error) (*setup, error) {
	if err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// introduce logs how the table is understood, and notes at their own level. It is called
// once all is wired, which may take several tries.
func (a *setup) introduce(level, notes slog.Level) {
	for _, s := range a.samples {
		a.log.Log(context.Background(), level, "as understood", "row", s)
	}
	a.table.ObserveNotes(func(n string) { a.log.Log(context.Background(), notes, "found at the table", "note", n) })
	if !a.table.HasDead() && !a.view.Refreshes() {
		a.log.Log(context.Background(), level, noDead)
	}
}

const noDead = "no dead status is configured: a rejected record is an error like any other"

// onTable opens the table for a command that needs no handler, has do work on it at the
// time that the command pretends it is, and closes it.
func (g *globalOptions) onTable(ctx context.Context, d dataFlags, o table.Options, do func(a *setup, now time.Time) error) error {
	_, now := d.clock()
	cfg, err := g.load()
	if err != nil {
		return err
	}
	a, err := g.wireTable(ctx, cfg, newLog(cfg.Log, g.err), o, now, nil)
	if err != nil {
		return err
	}
	defer a.close()
	return flagged(do(a, now))
}

// flagged returns the error of a flag with the flag's dashes.
func flagged(err error) error {
	if wrong, ok := errors.AsType[*reader.Invalid](err); ok && wrong.Field != "" {
		return usagef("--%w", wrong)
	}
	return err
}

// wireTable opens the table and checks that its times can be read. What only shows
// records shows them in spite of their times.
func (g *globalOptions) wireTable(
	ctx context.Context, cfg *config.Config, log *slog.Logger, o table.Options, now time.Time, db *table.DB,
) (a *setup, err error) {
	a = &setup{cfg: cfg, log: log, db: db, shared: db != nil, hard: hardOf(ctx), work: g.workOf(cfg)}
	if db == nil {
		if a.db, err = openDatabase(ctx, cfg.Database, o); err != nil {
			return nil, err
		}
	}
	t, err := table.New(ctx, a.db, mappingOf(cfg))
	if err == nil {
		if err = t.ProveTimes(ctx, now); err != nil {
			err = fmt.Errorf("table %s: %w", cfg.Table.Name, err)
		}
		if o.ReadOnly && errors.As(err, new(*table.Problem)) {
			log.Warn("records are shown whose dates cannot be right; passes refuse them", "error", err)
			err = nil
		}
	}
	a.table = t
	a.store = t
	a.view = &reader.View{Rules: rulesOf(cfg), Table: t}
	return a.orClose(err)
}

// rulesOf returns what the configuration says of records.
func rulesOf(cfg *config.Config) reader.Rules {
	return reader.Rules{
		Name: cfg.Name, Mapping: cfg.Table, Schedule: cfg.Tiers, Policy: policyOf(cfg.Policy), MaxRecords: cfg.MaxRecords,
	}
}

// stateFile returns the keeper of the configuration's checkpoint; a source has one for its
// pauses alone.
func stateFile(cfg *config.Config) (*checkpoint.File, error) {
	if s := sourceOf(cfg); s != nil {
		return checkpoint.At("", s.URL[0], "", s.Queue, "")
	}
	return checkpoint.At(cfg.State, cfg.Database, cfg.Table.Schema, cfg.Table.Name, cfg.Name)
}

// stateOf is stateFile for a command that works all the same without a folder for the
// file, so that this is a warning.
func stateOf(cfg *config.Config, log *slog.Logger) *checkpoint.File {
	f, err := stateFile(cfg)
	if err != nil {
		log.Warn("the state cannot be kept", "error", err)
	}
	return f
}

// locker returns what passes that run ticks ask for their lock. Others leave no marks:
// they can do without the memory of ticks, so that it does not matter how they are
// configured.
func (a *setup) locker(ticks bool) backlog.Locker {
	work := backlog.Work{Name: a.work.Name}
	if ticks {
		work = a.work
	}
	locks := a.table.Locker(work)
	state, err := stateFile(a.cfg)
	if err != nil || state.Path == "" || a.onFile() {
		return locks
	}
	return state.RunLocker(locks)
}

// onFile reports whether the table's lock is a file, which is lost with its process
// alone.
func (a *setup) onFile() bool { return strings.HasPrefix(strings.ToLower(a.cfg.Database), "sqlite") }

func (a *setup) close() {
	if a.source != nil {
		a.source.Close()
	}
	a.closeHandlers()
	if a.db != nil && !a.shared {
		a.db.Close()
	}
}

// engine returns an engine over the setup's table and handler.
func (a *setup) engine(now func() time.Time, observe func(backlog.Event)) *backlog.Engine {
	e := &backlog.Engine{
		Store:           a.store,
		Handler:         a.handler,
		Concurrency:     a.cfg.Handler.Concurrency,
		Timeout:         a.cfg.Handler.Timeout,
		MaxRecords:      a.cfg.MaxRecords,
		AbortAfter:      a.cfg.AbortAfter,
		Rate:            a.cfg.Rate,
		Policy:          policyOf(a.cfg.Policy),
		OnDead:          a.onDead,
		OnDeadTimeout:   a.cfg.OnDead.Timeout,
		ShutdownTimeout: max(a.cfg.ShutdownTimeout, 1), // zero would be the default
		Hard:            a.hard,
		Now:             now,
		Observe:         observe,
	}
	if k := a.cfg.Handler.Kind; k == "lines" || k == "amqp" {
		e.Timeout = 0 // a worker may have other records to answer first, and keeps to it itself
	}
	if a.handler != nil {
		said := a.handler.Describe()
		e.MaxPause = said.MaxPause
		if said.MaxConcurrency > 0 {
			e.Concurrency = min(e.Concurrency, said.MaxConcurrency)
		}
	}
	if a.source != nil {
		e.Policy = a.source.Policy()
	}
	return e
}

// mappingOf returns the mapping of the table with the columns of the policy.
func mappingOf(cfg *config.Config) mapping.Mapping {
	m := cfg.Table
	if s, ok := cfg.Policy.Settings.(retry.Settings); ok {
		m.Policy = retry.PolicyColumns(s)
		m.Once = s.Keeps().Once
	}
	return m
}

// knownPolicies tells the configuration which policies there are, beside
// progressive.
func knownPolicies() []config.Settings {
	return lists.Map(retry.Names(), func(name string) config.Settings {
		return config.Settings{Name: name, New: func() any { return retry.New(name) }}
	})
}

// policyNames returns the names of all policies.
func policyNames() []string { return append([]string{"progressive"}, retry.Names()...) }

// policyOf makes the configured policy: nil if age alone decides.
func policyOf(p config.Policy) *backlog.Policy {
	s, ok := p.Settings.(retry.Settings)
	if !ok {
		return nil
	}
	policy, err := retry.Policy(s)
	if err != nil {
		panic(err) // the configuration has checked the settings
	}
	return policy
}

// A simulatedTable is a table in memory for the records of a simulation.
type simulatedTable struct{ *memory.Store }

// simulation returns how the configuration's schedule is simulated under a policy.
func simulation(cfg *config.Config, p *backlog.Policy) simulate.Options {
	return simulate.Options{
		Schedule: cfg.Tiers, Policy: p, MaxRecords: cfg.MaxRecords, AbortAfter: cfg.AbortAfter, Rate: cfg.Rate, Concurrency: cfg.Handler.Concurrency,
		NewTable: func() simulate.Table { return simulatedTable{memory.New(memory.Options{Policy: p})} },
	}
}

// Add implements simulate.Table.
func (t simulatedTable) Add(place int, r *simulate.Record) error {
	row := memory.Row{Key: backlog.NewKey(int64(place)), Status: "NEW", Inserted: r.Inserted, Eligible: r.Eligible, Expires: r.Expires, Memory: r.Memory}
	if r.Failed {
		row.Status = "ERROR"
	}
	if r.Inserted.IsZero() { // what a pass never takes is no record of a simulation
		row.NullDate = "newest"
		if r.Oldest {
			row.NullDate = "oldest"
		}
	}
	return t.Insert(row)
}

const (
	// awayPatience is how long once waits for a database that is away. A
	// daemon waits until it is stopped.
	awayPatience = 2 * time.Minute
	// awayPause is between two tries. A busy database takes seconds by
	// itself to say so.
	awayPause = time.Second
)

// isDenied reports whether a right is missing, which may be granted.
func isDenied(err error) bool {
	p, ok := errors.AsType[*table.Problem](err)
	return ok && p.Denied
}

// whenThere opens the database or the broker, trying again while that is away: for as
// long as patience says, for ever if that is 0, or until ctx is done. Who waits for ever
// waits for a missing right, too. A table or a configuration that is wrong is not waited for,
// nor, with patience, a database that takes no writes: nothing waits to be written yet.
// waited says that a try has failed and that it was waited for.
func whenThere[T any](
	ctx context.Context, log *slog.Logger, what string, patience time.Duration, open func() (T, error),
) (opened T, waited bool, err error) {
	var said time.Time
	var why string
	for began := time.Now(); ; {
		a, err := open()
		denied := patience == 0 && isDenied(err)
		switch {
		case err == nil && why != "":
			log.Warn("the "+what+" is back", "after", time.Since(began).Round(time.Millisecond).String())
			notify(log, "STATUS=")
			return a, true, nil
		case !denied && !errors.Is(err, backlog.ErrUnavailable) || patience > 0 && (time.Since(began) >= patience || errors.Is(err, backlog.ErrNoWrites)):
			return a, why != "", err
		case ctx.Err() == nil && (why == "" || denied && err.Error() != why):
			why, said = err.Error(), time.Now()
			log.Error("waiting for the "+what, "error", err)
		case ctx.Err() == nil && time.Since(said) >= logging.Remind:
			said = time.Now()
			log.Warn("still waiting for the "+what, "since", began.UTC().Format(time.RFC3339), "error", err)
		}
		// Systemd would take a start that lasts for one that hangs.
		notify(log, "STATUS=waiting for the "+what+"\nEXTEND_TIMEOUT_USEC=120000000")
		if !backlog.Sleep(ctx, awayPause) {
			if !errors.Is(err, context.Canceled) {
				err = fmt.Errorf("%w: %w", ctx.Err(), err)
			}
			return a, true, err
		}
	}
}
