package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"backlog/backlog"
	"backlog/backlog/config"
	"backlog/backlog/memory"
	"backlog/backlog/retry"
	"backlog/backlog/simulate"
	"backlog/backlog/table"
)

// An app is the program wired for one configuration.
type app struct {
	cfg     *config.Config
	log     *slog.Logger
	handler tool // nil: none is needed
	onDead  tool // nil: none
	db      *table.DB
	table   *table.Table
	store   *provenStore // the table, for passes

	samples []string // rows as they are understood

	passes atomic.Int64 // under way, of its engine

	// Of an app that a reload has replaced: whether it had none at the last
	// look, and whether its handlers have been closed.
	idle, closed bool
}

// wireApp builds what a pass needs and proves that it can work, touching no
// record: the handler, the table's columns and times. That the table
// takes the statuses is proved by a.store before the first record is touched;
// callers that want to know at once call a.table.ProveWrites.
func (g *globals) wireApp(ctx context.Context, cfg *config.Config, log *slog.Logger, now time.Time) (*app, error) {
	h, err := newHandler(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	onDead, err := newOnDead(ctx, cfg)
	if err != nil {
		return nil, err
	}
	a, err := g.wireTable(ctx, cfg, log, table.Options{})
	if err != nil {
		return nil, err
	}
	if err := a.wireHandlers(ctx, h, onDead); err != nil {
		a.close()
		return nil, err
	}
	a.store = newProvenStore(a, now)
	if err := a.table.ProveTimes(ctx, now); err != nil {
		a.close()
		return nil, fmt.Errorf("table %s: %w", cfg.Table.Name, err)
	}
	if a.samples, err = a.table.Samples(ctx, now); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// introduce logs at the level how the table is understood, once all is wired:
// wiring may take several tries.
func (a *app) introduce(level slog.Level) {
	for _, s := range a.samples {
		a.log.Log(context.Background(), level, "as understood: "+s)
	}
	a.store.sayNotes()
	if !hasDead(a.cfg) {
		a.log.Log(context.Background(), level, noDead)
	}
}

// compareClocks warns of a clock by which records are taken to be older, or
// younger, than the server has them.
func (a *app) compareClocks(ctx context.Context) {
	if ahead, err := a.db.Skew(ctx, time.Now); err == nil && ahead.Abs() > table.MostSkew {
		a.log.Warn(apart(ahead))
	}
}

// apart says how far this machine's clock is ahead of the server's.
func apart(ahead time.Duration) string {
	how := "ahead of"
	if ahead < 0 {
		how = "behind"
	}
	return fmt.Sprintf("the clock of this machine is %v %s the database server's", ahead.Abs().Round(time.Second), how)
}

const noDead = "no dead status is configured: a rejected record is an error like any other"

func hasDead(cfg *config.Config) bool {
	return len(cfg.Statuses.Dead.Values)+len(cfg.Statuses.Dead.Set) > 0
}

// reader is wireReader for a command that only shows what the table is like at a
// time, which it returns too.
func (g *globals) reader(ctx context.Context, at nowFlag) (*app, time.Time, error) {
	_, now, err := at.clock()
	if err != nil {
		return nil, now, err
	}
	cfg, err := g.load()
	if err != nil {
		return nil, now, err
	}
	a, err := g.wireReader(ctx, cfg, newLog(cfg.Log, g.err), now)
	return a, now, err
}

// find returns the row of which people have written the key.
func (a *app) find(ctx context.Context, id string, now time.Time) (backlog.Row, error) {
	key, err := a.table.ParseKey(id)
	if err != nil {
		return backlog.Row{}, usageError{err}
	}
	row, ok, err := a.table.Find(ctx, key, now)
	if err == nil && !ok {
		err = fmt.Errorf("table %s has no record %s", a.cfg.Table.Name, shown(key.String()))
	}
	return row, err
}

// wireReader opens the table to be looked at only.
func (g *globals) wireReader(ctx context.Context, cfg *config.Config, log *slog.Logger, now time.Time) (*app, error) {
	a, err := g.wireTable(ctx, cfg, log, table.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	if err := a.table.ProveTimes(ctx, now); err != nil {
		a.close()
		return nil, fmt.Errorf("table %s: %w", cfg.Table.Name, err)
	}
	return a, nil
}

func (g *globals) wireTable(ctx context.Context, cfg *config.Config, log *slog.Logger, o table.Options) (*app, error) {
	db, err := table.Open(ctx, cfg.Database, o)
	if err != nil {
		return nil, err
	}
	t, err := table.New(ctx, db, mapping(cfg))
	if err != nil {
		db.Close()
		return nil, err
	}
	return &app{cfg: cfg, log: log, db: db, table: t}, nil
}

func (a *app) close() {
	a.closeHandlers()
	a.db.Close()
}

// engine returns an engine over the app's table and handler.
func (a *app) engine(now func() time.Time, hard <-chan struct{}, observe func(backlog.Event)) *backlog.Engine {
	e := &backlog.Engine{
		Store:           a.store,
		Handler:         a.handler,
		Concurrency:     a.cfg.Handler.Concurrency,
		Timeout:         a.cfg.Handler.Timeout,
		MaxRecords:      a.cfg.MaxRecords,
		AbortAfter:      a.cfg.AbortAfter,
		Rate:            a.cfg.Rate,
		Policy:          policyOf(a.cfg),
		OnDead:          a.onDead,
		OnDeadTimeout:   a.cfg.OnDead.Timeout,
		ShutdownTimeout: max(a.cfg.ShutdownTimeout, 1), // zero would be the default
		Hard:            hard,
		Now:             now,
		Observe: func(ev backlog.Event) {
			switch ev.Kind {
			case backlog.PassStarted:
				a.passes.Add(1)
			case backlog.PassEnded:
				a.passes.Add(-1)
			}
			if observe != nil {
				observe(ev)
			}
		},
	}
	if a.cfg.Handler.Lines != nil {
		e.Timeout = 0 // a worker keeps to it, who may have other records to answer first
	}
	if w, ok := a.handler.(interface{ Hands() int }); ok {
		e.Concurrency = min(e.Concurrency, w.Hands())
	}
	e.MaxPause = maxPause(a.cfg.Handler)
	return e
}

// mapping translates the configuration of the table. The two packages do not
// know each other.
func mapping(c *config.Config) table.Mapping {
	t := c.Table
	var zone *time.Location // nil: UTC, unless the database is in another
	if c.TimezoneGiven {
		zone = c.Timezone
	}
	return table.Mapping{
		Schema: t.Schema, Name: t.Name, ID: t.ID, Status: t.Status,
		Inserted: table.Time(t.Inserted),
		Eligible: (*table.Time)(t.Eligible), Expires: (*table.Time)(t.Expires),
		Where: conditions(t.Where), Touch: assignments(t.Touch),
		Attempts: t.Attempts, LastError: t.LastError, Columns: t.Columns,
		New: state(c.Statuses.New), Error: state(c.Statuses.Error),
		Success: state(c.Statuses.Success), Dead: state(c.Statuses.Dead),
		Retry: retryOf(c),
		Zone:  zone,
	}
}

func state(s config.State) table.State {
	return table.State{Values: values(s.Values), When: conditions(s.When), Set: assignments(s.Set), Keep: s.Keep, Given: s.Given}
}

func conditions(list []config.Condition) []table.Condition {
	return each(list, func(c config.Condition) table.Condition {
		return table.Condition{Column: c.Column, Values: values(c.Values)}
	})
}

func assignments(list []config.Assignment) []table.Assignment {
	return each(list, func(a config.Assignment) table.Assignment {
		return table.Assignment{Column: a.Column, Value: table.Value(a.Value)}
	})
}

func values(list []config.Value) []table.Value {
	return each(list, func(v config.Value) table.Value { return table.Value(v) })
}

func each[From, To any](list []From, f func(From) To) []To {
	if list == nil {
		return nil
	}
	out := make([]To, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}

// isEnd reports whether the error is just that of an ended context.
func isEnd(err error) bool { return errors.Is(err, context.Canceled) }

var kinds = map[retry.Kind]config.Kind{
	retry.Duration: config.Duration, retry.Seconds: config.Seconds, retry.Factor: config.Number,
	retry.Count: config.Count, retry.Durations: config.Durations,
}

// policySpecs tells the configuration which policies there are. The two packages
// do not know each other.
func policySpecs() []config.PolicySpec {
	return each(retry.Specs(), func(s retry.Spec) config.PolicySpec {
		return config.PolicySpec{
			Name: s.Name, Columns: s.Columns, Once: s.Once(),
			Settings: each(s.Settings, func(x retry.Setting) config.PolicySetting {
				return config.PolicySetting{Name: x.Name, Kind: kinds[x.Kind], Check: x.Check}
			}),
		}
	})
}

// newPolicy makes the configured policy: nil if age alone decides.
func newPolicy(p config.Policy) (*backlog.Policy, error) { return retry.New(p.Name, p.Settings) }

// policyOf is newPolicy for a configuration that load has returned.
func policyOf(cfg *config.Config) *backlog.Policy {
	p, err := newPolicy(cfg.Policy)
	if err != nil {
		panic(err) // load has made it before
	}
	return p
}

// retryOf translates the policy for the table, nil if it keeps nothing there.
func retryOf(cfg *config.Config) *table.Retry {
	columns, p := policyColumns(cfg.Policy), policyOf(cfg)
	if len(columns) == 0 {
		return nil
	}
	r := &table.Retry{Count: columns[0], Last: columns[1], Retries: p.Retries}
	if p.Planned {
		r.Next, r.InRetry = columns[2], columns[3]
	} else {
		r.Waits = p.Waits()
	}
	return r
}

// policyColumns returns the columns of the configured policy: of the count, of
// the time of the last failure and, if it is planned, of the time of the next
// attempt and of the flag that one is planned; none if it keeps no state.
func policyColumns(p config.Policy) []string {
	for _, s := range retry.Specs() {
		if s.Name == p.Name {
			return each(s.Columns, p.Column)
		}
	}
	return nil
}

// A simulatedTable is a table in memory for the records of a simulation.
type simulatedTable struct{ *memory.Store }

func newSimulatedTable(p *backlog.Policy) simulatedTable {
	return simulatedTable{memory.New(memory.Options{Policy: p})}
}

// Add implements simulate.Table.
func (t simulatedTable) Add(place int, r *simulate.Record) error {
	row := memory.Row{Key: backlog.NewKey(int64(place)), Status: "NEW", Inserted: r.Inserted, Eligible: r.Eligible, Expires: r.Expires, Retry: r.Retry}
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
