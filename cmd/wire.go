package cmd

import (
	"cmp"
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

// What commands need to know about databases.
const (
	sqliteDriver = sqlite.Driver
	mostSkew     = db.MaxSkew
)

type (
	urlError        = db.URLError
	dispatch        = amqp.Dispatch
	refreshSettings = retry.Refresh
)

// openDatabase opens the database at the URL.
func openDatabase(ctx context.Context, url string, o db.Options) (*db.DB, error) {
	dialect, err := serverOf(url)
	if err != nil {
		return nil, err
	}
	return db.Open(ctx, dialect, url, o)
}

// serverOf returns the dialect of the database at the URL.
func serverOf(url string) (db.Server, error) { return db.DialectOf(url, dialects...) }

// redactedURL returns the URL without what is secret in it.
func redactedURL(url string) string { return db.RedactURL(url, dialects...) }

// A setup holds the parts of the program, made for one configuration and joined.
type setup struct {
	cfg      *config.Config
	log      *slog.Logger
	handler  backlog.ConfiguredHandler // nil: the command needs none
	onDead   backlog.ConfiguredHandler // nil: none is configured
	onOutage backlog.ConfiguredHandler // nil: none is configured
	store    backlog.Store             // what passes work on: the table or the source
	source   *amqp.Source              // instead of a table; nil: there is a table
	db       *table.DB
	table    *table.Table
	view     *reader.View // of the table, for people
	work     backlog.Work // identifies the configuration in its locks

	shared bool            // another setup uses the database, too, and closes it
	hard   <-chan struct{} // closed by the second signal

	samples []string // some rows as the program reads them, for the log
}

// A wiring says what a setup is made of.
type wiring struct {
	cfg *config.Config
	log *slog.Logger
	now time.Time
	db  *table.DB // of the setup that the new one replaces; nil: it opens one
}

// wirePass makes the setup of a pass and checks it without touching a record: the handlers, the
// columns, the times and the statements. Whether rows accept the statuses is tried later, before
// the first record is handled.
func (g *globalOptions) wirePass(ctx context.Context, w wiring) (*setup, error) {
	handler, onDead, err := g.newHandlers(ctx, w.cfg, w.log)
	if err != nil {
		return nil, err
	}
	a, err := g.wireTable(ctx, w, table.Options{})
	if err != nil {
		return nil, err
	}
	a.onOutage, err = g.newOnOutage(ctx, w.cfg, w.log)
	if err == nil {
		err = a.wireHandlers(ctx, handler, onDead)
	}
	if err == nil {
		err = a.table.CheckWriteStatements(ctx, w.now)
	}
	return a.closeOnError(err)
}

// closeOnError returns the setup. If there is an error, it closes the setup and returns the error.
func (a *setup) closeOnError(err error) (*setup, error) {
	if err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// logFindings logs how rows are read at one level, and notes about the table at another. It is called
// after the last try to open the database, so that nothing is logged twice.
func (a *setup) logFindings(level, notes slog.Level) {
	for _, s := range a.samples {
		a.log.Log(context.Background(), level, "as understood", "row", s)
	}
	a.table.ObserveNotes(func(n string) { a.log.Log(context.Background(), notes, "found at the table", "note", n) })
	if !a.table.HasDead() && !a.view.Refreshes() {
		a.log.Log(context.Background(), level, noDead)
	}
}

const noDead = "no dead status is configured: a rejected record is an error like any other"

// onTable opens the table for a command that needs no handler, calls do with it and with the time of
// --now, and closes it.
func (g *globalOptions) onTable(ctx context.Context, d dataFlags, o table.Options, do func(a *setup, now time.Time) error) error {
	_, now := d.clock()
	cfg, err := g.load()
	if err != nil {
		return err
	}
	a, err := g.wireTable(ctx, wiring{cfg: cfg, log: newLog(cfg.Log, g.err), now: now}, o)
	if err != nil {
		return err
	}
	defer a.close()
	return asFlagError(do(a, now))
}

// asFlagError puts dashes in front of the flag's name if the error is about a flag.
func asFlagError(err error) error {
	if wrong, ok := errors.AsType[*reader.Invalid](err); ok && wrong.Field != "" {
		return usagef("--%w", wrong)
	}
	return err
}

// wireTable makes the setup of a table without handlers, and checks that the times of its rows can be
// right. If they cannot, a read-only setup logs that and shows the records all the same.
func (g *globalOptions) wireTable(ctx context.Context, w wiring, o table.Options) (*setup, error) {
	a := &setup{cfg: w.cfg, log: w.log, db: w.db, shared: w.db != nil, hard: g.signals.hard(), work: g.workOf(w.cfg)}
	if a.db == nil {
		db, err := openDatabase(ctx, w.cfg.Database, o)
		if err != nil {
			return nil, err
		}
		a.db = db
	}
	t, err := table.New(ctx, a.db, mappingOf(w.cfg))
	if err == nil {
		err = t.ProveTimes(ctx, w.now)
		if err != nil {
			err = fmt.Errorf("table %s: %w", w.cfg.Table.Name, err)
		}
		if o.ReadOnly && errors.As(err, new(*table.Problem)) {
			w.log.Warn("some of the records shown have impossible dates; passes refuse them", "error", err)
			err = nil
		}
	}
	a.table = t
	a.store = t
	a.view = &reader.View{Rules: rulesOf(w.cfg), Table: t}
	return a.closeOnError(err)
}

// rulesOf returns the configuration of records, as [reader.View] needs it.
func rulesOf(cfg *config.Config) reader.Rules {
	return reader.Rules{
		Name: cfg.Name, Mapping: cfg.Table, Schedule: cfg.Tiers, Policy: policyOf(cfg.Policy), MaxRecords: cfg.MaxRecords,
	}
}

// stateFile returns the state file of the configuration. A source uses it for pauses only.
func stateFile(cfg *config.Config) (*checkpoint.File, error) {
	if s := sourceOf(cfg); s != nil {
		return checkpoint.At("", s.URL[0], "", s.Queue, "")
	}
	return checkpoint.At(cfg.State, cfg.Database, cfg.Table.Schema, cfg.Table.Name, cfg.Name)
}

// stateOf is stateFile for a command that also works without a state file: if there is no place for
// the file, it logs a warning.
func stateOf(cfg *config.Config, log *slog.Logger) *checkpoint.File {
	f, err := stateFile(cfg)
	if err != nil {
		log.Warn("the state cannot be kept", "error", err)
	}
	return f
}

// locker returns the locker of passes. Only passes that run ticks put their configuration's marks on
// the lock: others use no memory of ticks, so that their configuration does not matter.
func (a *setup) locker(runsTicks bool) backlog.Locker {
	work := backlog.Work{Name: a.work.Name}
	if runsTicks {
		work = a.work
	}
	locks := a.table.Locker(work)
	state, err := stateFile(a.cfg)
	if err != nil || state.Path == "" || a.onFile() {
		return locks
	}
	return state.RunLocker(locks)
}

// onFile reports whether the table's lock is a file, which a process keeps until it ends.
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

// engine returns an engine over the setup's store and handler.
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
		Traceparent:     traceparentOf(a.cfg),
	}
	if k := a.cfg.Handler.Kind; k == "lines" || k == "amqp" {
		e.Timeout = 0 // the handler enforces it: a worker may have other records to answer first
	}
	if a.handler != nil {
		limits := a.handler.Describe()
		e.MaxPause = limits.MaxPause
		if limits.MaxConcurrency > 0 {
			e.Concurrency = min(e.Concurrency, limits.MaxConcurrency)
		}
	}
	if a.source != nil {
		e.Policy = a.source.Policy()
	}
	return e
}

// mappingOf returns the mapping of the table, with the columns of the policy.
func mappingOf(cfg *config.Config) mapping.Mapping {
	m := cfg.Table
	if s, ok := cfg.Policy.Settings.(retry.Settings); ok {
		m.Policy = retry.PolicyColumns(s)
		m.Once = s.Keeps().Once
	}
	return m
}

// knownPolicies returns the settings of all policies but progressive, which has none.
func knownPolicies() []config.Settings {
	return lists.Map(retry.Names(), func(name string) config.Settings {
		return config.Settings{Name: name, New: func() any { return retry.New(name) }}
	})
}

// policyNames returns the names of all policies.
func policyNames() []string { return append([]string{"progressive"}, retry.Names()...) }

// policyOf returns the configured policy; nil: progressive, where age alone decides.
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

// simulation returns the options of a simulation of the configured schedule under a policy.
func simulation(cfg *config.Config, p *backlog.Policy) simulate.Options {
	return simulate.Options{
		Schedule:    cfg.Tiers,
		Policy:      p,
		MaxRecords:  cfg.MaxRecords,
		AbortAfter:  cfg.AbortAfter,
		Rate:        cfg.Rate,
		Concurrency: cfg.Handler.Concurrency,
		NewTable:    func() simulate.Table { return simulatedTable{memory.New(memory.Options{Policy: p})} },
	}
}

// Add implements simulate.Table.
func (t simulatedTable) Add(place int, r *simulate.Record) error {
	row := memory.Row{
		Key:      backlog.NewKey(int64(place)),
		Status:   "NEW",
		Inserted: r.Inserted,
		Eligible: r.Eligible,
		Expires:  r.Expires,
		Memory:   *cmp.Or(r.Memory, new(backlog.Memory)),
	}
	if r.Failed {
		row.Status = "ERROR"
	}
	if r.Inserted.IsZero() { // a record without a date that no pass takes is not simulated
		row.NullDate = "newest"
		if r.Oldest {
			row.NullDate = "oldest"
		}
	}
	return t.Insert(row)
}

const (
	// openPatience is how long once waits for an unavailable database. A daemon waits until it is stopped.
	openPatience = 2 * time.Minute
	// openPause is the pause between two tries. A busy database itself takes seconds to refuse one.
	openPause = time.Second
)

// isDenied reports whether the error is a missing right, which may still be granted.
func isDenied(err error) bool {
	p, ok := errors.AsType[*table.Problem](err)
	return ok && p.Denied
}

// retryOpen calls open until it succeeds, while the database or broker, which what names, is
// unavailable. It gives up when patience is over (0: never) or ctx is done. waited reports whether a
// try failed before.
//
// A wrong table or configuration is returned at once. With patience, so is a database that accepts no
// writes, because no outcomes wait to be written yet. Without a limit, a missing right is waited for,
// too.
func retryOpen[T any](
	ctx context.Context, log *slog.Logger, what string, patience time.Duration, open func() (T, error),
) (opened T, waited bool, err error) {
	var logged time.Time
	var cause string // as it was last logged
	began := time.Now()
	for {
		a, err := open()
		denied := patience == 0 && isDenied(err)
		temporary := denied || errors.Is(err, backlog.ErrUnavailable)
		gaveUp := patience > 0 && (time.Since(began) >= patience || errors.Is(err, backlog.ErrNoWrites))
		waited = cause != ""
		switch {
		case err == nil && waited:
			log.Warn("the "+what+" is back", "after", time.Since(began).Round(time.Millisecond).String())
			notifySystemd(log, "STATUS=")
			return a, true, nil
		case !temporary || gaveUp:
			return a, waited, err
		case ctx.Err() != nil: // a stop is not logged
		case !waited || denied && err.Error() != cause:
			cause = err.Error()
			logged = time.Now()
			log.Error("waiting for the "+what, "error", err)
		case time.Since(logged) >= logging.Remind:
			logged = time.Now()
			log.Warn("still waiting for the "+what, "since", began.UTC().Format(time.RFC3339), "error", err)
		}
		// Systemd would take a start that lasts for one that hangs.
		notifySystemd(log, "STATUS=waiting for the "+what+"\nEXTEND_TIMEOUT_USEC=120000000")
		if !backlog.Sleep(ctx, openPause) {
			if !errors.Is(err, context.Canceled) {
				err = fmt.Errorf("%w: %w", ctx.Err(), err)
			}
			return a, true, err
		}
	}
}
