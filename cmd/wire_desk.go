package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"backlog/backlog"
	"backlog/backlog/causes"
	"backlog/backlog/checkpoint"
	"backlog/backlog/config"
	"backlog/backlog/inspect"
	"backlog/backlog/simulate"
	"backlog/backlog/table"
	"backlog/backlog/table/db"
	"backlog/backlog/watch"
	"backlog/backlog/web"
)

const (
	// How often the records are counted for pages and metrics, how often at most of the
	// time that it takes, and how long it may.
	countEvery   = time.Minute
	countShare   = 10
	countTimeout = 30 * time.Second
	answersEvery = 10 * time.Second // the database is asked whether it is there
	maxSilent    = 30 * time.Second // of a database that is there
	mostGrouped  = 10_000           // failed records, by cause
	mostTiers    = 50               // of a schedule that is tried out
	mostRetried  = 100_000          // by one click
)

// A desk is what pages show of a table and of who works it off, and what they do to it: it
// implements [web.Backlog]. It reads the table by a connection of its own.
type desk struct {
	g        *globals
	log      *slog.Logger
	state    *checkpoint.File
	picture  *watch.Picture
	site     *web.Site // nil: there are no pages
	ctx      context.Context
	end      context.CancelFunc
	serving  sync.WaitGroup
	wake     chan struct{} // says that what is counted has changed
	opening  sync.Mutex
	stopping atomic.Bool  // the end has begun
	reading  sync.RWMutex // while the reader is used; taken before mu

	mu       sync.Mutex
	cfg      *config.Config
	loaded   time.Time
	show     []string
	timer    inspect.Timer
	daemon   *process // nil: there is none, or none yet
	role     string
	reader   *app // nil: not opened yet, or for another configuration
	answered time.Time
	recount  bool         // at once
	pause    *watch.Pause // that was looked at last
	failed   int          // counts
	counted

	lead leading
	audience
}

// counted is what the last count of the records has come to.
type counted struct {
	status *inspect.Status // nil: there is none
	rows   *web.Rows       // nil: there is none, or no column has last errors
	at     time.Time
	took   time.Duration
	err    string // of the last one, which may have failed
}

// configure goes on with a configuration.
func (d *desk) configure(cfg *config.Config) {
	d.reading.Lock()
	defer d.reading.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cfg, d.loaded, d.show = cfg, time.Now(), watching[web.Settings](cfg, "web").Show
	d.timer = d.g.timer(cfg.ShutdownTimeout)
	d.forget()
}

// forget closes the reader. The caller holds both locks.
func (d *desk) forget() {
	if d.reader != nil {
		d.reader.close()
		d.reader = nil
	}
}

// serves says that the desk is a daemon's, nil where it is still waiting for its database,
// and whether that leads.
func (d *desk) serves(s *process, leads bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.daemon, d.role = s, web.Leader; !leads {
		d.role, d.counted = web.Standby, counted{}
	}
	d.recount = true
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// present returns the configuration that is in force, the daemon, nil if there is none
// yet, and what it is.
func (d *desk) present() (*config.Config, *process, string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cfg, d.daemon, d.role
}

// Now implements web.Backlog.
func (d *desk) Now() web.Now {
	kept, _ := d.state.State() // the log says what is wrong with it
	d.mu.Lock()
	defer d.mu.Unlock()
	n := web.Now{
		Role: d.role, Version: version(), Database: shownURL(d.cfg.Database), Table: d.cfg.Table.Name, Name: d.cfg.Name,
		Loaded: d.loaded, Zone: d.cfg.Timezone, Schedule: d.cfg.Tiers, Refresh: refreshOf(d.cfg) != nil, LastErrors: d.cfg.Table.LastError != "",
		Counts: d.status, Counted: d.at, Took: d.took.Round(time.Millisecond), CountErr: d.err, Rows: d.rows,
		Trouble: d.trouble(time.Now()), Pause: kept.Current(time.Now()), Pausing: d.role == web.Leader && d.state.Path != "", Picture: d.picture,
		Woke: time.Now(), Stopping: d.stopping.Load(), Timer: d.timer,
	}
	switch {
	case d.daemon != nil:
		n.Choices = d.daemon.app().table.States()
	case d.reader != nil:
		n.Choices = d.reader.table.States()
	}
	if d.daemon != nil && d.daemon.leads() && !d.daemon.lastWake().IsZero() {
		n.Woke = d.daemon.lastWake()
	}
	return n
}

// trouble is what is wrong, for pages, probes and metrics alike. The caller holds mu.
func (d *desk) trouble(now time.Time) *watch.Trouble {
	silent := func(since time.Time, text string) *watch.Trouble {
		return &watch.Trouble{Since: inspect.Stamp(since), Error: text, Away: true}
	}
	switch {
	case d.queue != nil && d.queue.Up():
		return nil
	case d.queue != nil:
		return silent(now, "the broker is away")
	case d.role == web.Viewer:
		return d.picture.Trouble(time.Time{})
	case d.daemon == nil:
		return silent(d.loaded, "the start waits for it; the log says why")
	}
	passes := d.loaded // those before it were another configuration's, or another process's
	if d.role != web.Leader {
		passes = now
	}
	if t := d.picture.Trouble(passes); t != nil {
		return t
	}
	if now.Sub(d.answered) > maxSilent {
		return silent(d.answered, "it has not answered since")
	}
	return nil
}

// answers notes that the database has just done so.
func (d *desk) answers() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answered = time.Now()
}

// watchStore probes the database until ctx is done: what no pass finds out for hours is known
// within seconds.
func (d *desk) watchStore(ctx context.Context) {
	for d.answers(); ; {
		if d.engine.Load().Probe(ctx) == nil {
			d.answers()
		}
		if !sleep(ctx, answersEvery) {
			return
		}
	}
}

// viewed tells the picture, and the log, whether the table could be read where no daemon does.
func (d *desk) viewed(err error) {
	trouble := d.picture.Trouble(time.Now())
	switch {
	case err == nil && trouble != nil:
		d.picture.Observe(backlog.Event{Kind: backlog.StoreBack, At: time.Now()})
		d.log.Warn("the table can be used again")
	case err != nil && trouble == nil:
		d.picture.Observe(backlog.Event{Kind: backlog.StoreUnavailable, At: time.Now(), Err: err})
		d.log.Error("the table cannot be used", "error", err)
	}
}

// restore shows what others' passes have left behind.
func (d *desk) restore(kept checkpoint.State) {
	passes, _ := d.state.Passes()
	d.picture.Restore(passes, kept.Outages, kept.Outage)
}

// count counts the records, and asks whether the database is there, until ctx is done.
func (d *desk) count(ctx context.Context) {
	var next time.Time
	for ctx.Err() == nil {
		d.mu.Lock()
		daemon, role := d.daemon, d.role
		if d.recount {
			next, d.recount = time.Time{}, false
		}
		d.mu.Unlock()
		now := time.Now()
		counts := role != web.Standby && !now.Before(next)
		kept, err := d.state.State()
		switch {
		case daemon != nil && counts:
			err = d.ask(ctx, daemon.app(), now, counts)
		case role == web.Viewer:
			d.restore(kept)
			_, err = read(ctx, d, func(a *app, _ time.Time) (any, error) { return nil, d.ask(ctx, a, now, counts) })
			if ctx.Err() == nil {
				d.viewed(err)
			}
		}
		if counts {
			next = now.Add(max(countEvery, countShare*time.Since(now)))
		}
		d.mu.Lock()
		if d.pause = kept.Pause; err != nil {
			d.err = err.Error()
		}
		if err != nil && counts {
			d.failed++
		}
		d.mu.Unlock()
		select {
		case <-d.wake:
		case <-ctx.Done():
		case <-time.After(answersEvery):
		}
	}
}

// ask asks whether the database is there and, if it is time, counts.
func (d *desk) ask(ctx context.Context, a *app, now time.Time, count bool) error {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	if err := a.table.Ping(ctx); err != nil {
		return err
	}
	var c counted
	var err, why error // the second leaves the counts as they are
	if count {
		if c.status, err = a.status(ctx, now); err == nil {
			c.rows, why = a.rowCauses(ctx, now)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if count && err == nil {
		c.at, c.took = now, time.Since(now)
		d.counted = c
	}
	return cmp.Or(err, why)
}

// rowCauses groups the last errors of the newest failed records.
func (a *app) rowCauses(ctx context.Context, now time.Time) (*web.Rows, error) {
	if !a.table.HasLastError() {
		return nil, nil
	}
	var tally causes.Tally
	rows, after := new(web.Rows), backlog.Cursor{}
	for rows.Records < mostGrouped && !rows.Complete {
		page, err := a.table.List(ctx, table.Filter{State: "failed"}, now, after, mostGrouped-rows.Records)
		if err != nil {
			return nil, fmt.Errorf("causes of failed records: %w", err)
		}
		for _, r := range page.Rows {
			if r.LastError != nil {
				tally.Add(causes.Fold(*r.LastError), *r.LastError, r.Key)
			}
		}
		rows.Records += len(page.Rows)
		after, rows.Complete = page.Next, page.Next.IsZero()
	}
	rows.Causes = each(tally.Causes(), func(c causes.Cause) watch.Cause { return watch.CauseOf(&c) })
	return rows, nil
}

// read returns what f makes of the table as pages read it.
func read[T any](ctx context.Context, d *desk, f func(a *app, now time.Time) (T, error)) (answer T, err error) {
	d.reading.RLock()
	defer d.reading.RUnlock()
	a, err := d.open(ctx)
	if err == nil {
		answer, err = f(a, time.Now())
	}
	return answer, problemOf(err)
}

// open returns the table as pages read it.
func (d *desk) open(ctx context.Context) (*app, error) {
	d.opening.Lock()
	defer d.opening.Unlock()
	d.mu.Lock()
	a, cfg := d.reader, *d.cfg
	if len(d.show) > 0 {
		cfg.Table.Columns = d.show
	}
	d.mu.Unlock()
	if a != nil {
		return a, nil
	}
	a, err := d.g.wireTable(ctx, &cfg, d.log, table.Options{ReadOnly: true, Pool: 1}, time.Now(), nil)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reader = a
	return a, nil
}

// problemOf says what of an error is the visitor's, or will pass.
func problemOf(err error) error {
	switch {
	case errors.As(err, new(usageError)):
		return &web.Problem{Status: http.StatusBadRequest, Text: strings.TrimPrefix(err.Error(), "--")}
	case errors.As(err, new(notThere)):
		return &web.Problem{Status: http.StatusNotFound, Text: err.Error()}
	case errors.Is(err, backlog.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return &web.Problem{Status: http.StatusServiceUnavailable, Text: "the database does not answer in time: " + err.Error()}
	}
	return err
}

// Records implements web.Backlog.
func (d *desk) Records(ctx context.Context, f web.Filter, zone *time.Location) (web.Records, error) {
	return read(ctx, d, func(a *app, now time.Time) (list web.Records, err error) {
		if f.ID != "" {
			row, err := a.find(ctx, f.ID, now)
			if err == nil {
				list.Records = []web.Entry{d.entry(a, row, now, zone)}
			} else if errors.As(err, new(notThere)) {
				err = nil
			}
			return list, err
		}
		after, err := parsePlace(f.After)
		if err != nil {
			return list, usageError{err}
		}
		filter, err := filterOf(ctx, a, f, inspect.Listed, now)
		if err != nil {
			return list, err
		}
		page, err := a.table.List(ctx, filter, now, after, f.Limit)
		return web.Records{Records: each(page.Rows, func(r inspect.Row) web.Entry { return d.entry(a, r, now, zone) }), Next: placeOf(page.Next)}, err
	})
}

// filterOf returns what a page's filter means in the table.
func filterOf(ctx context.Context, a *app, f web.Filter, p inspect.Purpose, now time.Time) (table.Filter, error) {
	if f.State != "" && f.Lane != "" {
		return table.Filter{}, usagef("lane and state exclude each other")
	}
	o := ChangeOptions{FilterOptions: FilterOptions{State: cmp.Or(f.State, f.Lane), Tier: f.Band, Cause: f.Cause}}
	if f.ID != "" {
		o.IDs = []string{f.ID}
	}
	filter, err := o.chosen(ctx, a, p, now, "put back to new", backlog.RowDead, backlog.RowError)
	filter.Given = true
	return filter, err
}

// entry returns what a list of records shows of one.
func (d *desk) entry(a *app, row inspect.Row, now time.Time, zone *time.Location) web.Entry {
	row.Zone = zone
	e := a.listed(row, now)
	return web.Entry{Entry: e, Retrying: inRetry(row, e), Data: d.data(a, row)}
}

// inRetry reports whether the record has failed and will be tried again, or is being so.
func inRetry(row inspect.Row, e inspect.Entry) bool {
	planned := !time.Time(e.Next).IsZero()
	if s := row.Refresh; s != nil {
		running := !s.Deadline.IsZero()
		return running && s.AttemptNo > 1 || !running && s.AttemptNo > 0 && planned
	}
	return row.State == backlog.RowError && planned
}

// data returns the columns that are to be shown, moments in the zone of the row's texts.
func (d *desk) data(a *app, row inspect.Row) (cells []web.Cell) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range d.show {
		c := web.Cell{Name: name}
		v, _ := row.Column(name)
		at, isMoment := a.table.Moment(name, v)
		switch {
		case v == nil:
		case isMoment && row.Zone != nil:
			c.Value = new(inspect.Exactly(at, row.Zone))
		default:
			c.Value = new(inspect.Cut(db.AsText(v), 3<<10))
		}
		cells = append(cells, c)
	}
	return cells
}

// Record implements web.Backlog.
func (d *desk) Record(ctx context.Context, id string, zone *time.Location) (web.Record, error) {
	return read(ctx, d, func(a *app, now time.Time) (web.Record, error) {
		row, err := a.find(ctx, id, now)
		if err != nil {
			return web.Record{}, err
		}
		row.Zone = zone
		sheet := a.sheet(row, now)
		return web.Record{
			Sheet: sheet, Retrying: inRetry(row, sheet.Entry), Data: d.data(a, row),
			Attempts: d.picture.Attempts(row.Key), Ahead: a.ahead(ctx, row, now),
		}, nil
	})
}

// ahead tells what becomes of a record that goes on failing.
func (a *app) ahead(ctx context.Context, row inspect.Row, now time.Time) *web.Ahead {
	life := simulate.Ahead(ctx, a.cfg.Tiers, policyOf(a.cfg), row, now)
	if life == nil {
		return nil
	}
	x := &web.Ahead{Until: inspect.Stamp(life.Expires), Then: "it is older than every tier, and not tried any more"}
	switch {
	case life.GivenUp:
		x.Until, x.Then = inspect.Stamp(life.Last), "it is out of retries"
	case life.Expires.Equal(row.Expires):
		x.Then = "it expires"
	case a.table.HasDead():
		x.Then = "it is older than every tier, and gets the dead status"
	}
	x.Tiers = each(life.ByTier, func(t simulate.TierAttempts) web.Left { return web.Left{Tier: t.Name, Ticks: t.Attempts} })
	return x
}

// Choose implements web.Backlog.
func (d *desk) Choose(ctx context.Context, f web.Filter) (web.Choice, error) {
	return read(ctx, d, func(a *app, now time.Time) (web.Choice, error) {
		_, c, err := chosen(ctx, a, f, now)
		return c, err
	})
}

// chosen returns the records that Retry would put back.
func chosen(ctx context.Context, a *app, f web.Filter, now time.Time) (filter table.Filter, c web.Choice, err error) {
	if f.ID == "" && f.Lane != "failed" && f.State == "" {
		return filter, c, &web.Problem{Status: http.StatusBadRequest, Text: "say which records are to be retried: lane=failed, a state, or one record"}
	}
	c.Where = f.String()
	if filter, err = filterOf(ctx, a, f, inspect.Requeued, now); err == nil {
		c.Records, _, err = a.table.CountChosen(ctx, filter, inspect.Requeued, now, time.Time{})
	}
	if c.Examples = filter.Keys; err == nil && len(filter.Keys) == 0 {
		var page table.Listing
		page, err = a.table.List(ctx, filter, now, backlog.Cursor{}, 3)
		c.Examples = each(page.Rows, func(r inspect.Row) backlog.Key { return r.Key })
	}
	return filter, c, err
}

// Retry implements web.Backlog.
func (d *desk) Retry(ctx context.Context, f web.Filter, expect int) (r web.Retried, err error) {
	_, daemon, _ := d.present()
	if daemon == nil {
		if _, err = d.Choose(ctx, f); err == nil {
			err = &web.Problem{Status: http.StatusForbidden, Text: "nothing can be changed here: this process only shows"}
		}
		return r, err
	}
	a, now := daemon.app(), time.Now()
	filter, c, err := chosen(ctx, a, f, now)
	if err != nil {
		return r, problemOf(err)
	}
	if c.Records > expect+max(10, expect/100) {
		return r, &web.Problem{Status: http.StatusConflict, Text: fmt.Sprintf("there are %d of them by now, not %d", c.Records, expect)}
	}
	filter.Limit = mostRetried
	r.Selected = min(c.Records, mostRetried)
	var refused refusals
	r.Reset, err = a.table.Requeue(ctx, filter, now, refused.add)
	r.Refused = refused.Refused
	r.Refusals = each(refused.Refusals, func(x refusal) web.Refusal { return web.Refusal(x) })
	r.Conflicts = max(0, r.Selected-r.Reset-r.Refused)
	return r, problemOf(err)
}

// Pause implements web.Backlog.
func (d *desk) Pause(p *watch.Pause) error {
	switch _, _, role := d.present(); {
	case role == web.Standby:
		return &web.Problem{Status: http.StatusConflict, Text: "this process stands by; say it where the leader runs"}
	case d.state.Path == "":
		return &web.Problem{Status: http.StatusConflict, Text: "state: none keeps nothing: there is no file for a pause"}
	}
	return d.state.Change(func(s *checkpoint.State) { s.Pause = p })
}

// Resolve implements web.Backlog.
func (d *desk) Resolve(ctx context.Context, uid, outcome, reason string) error {
	known, ok := outcomes[map[string]string{"success": "success", "error": "failure"}[outcome]]
	cfg, daemon, _ := d.present()
	switch {
	case daemon == nil || refreshOf(cfg) == nil:
		return &web.Problem{Status: http.StatusConflict, Text: "there are no attempts with a UID here, which the policy refresh has"}
	case !ok:
		return &web.Problem{Status: http.StatusBadRequest, Text: "outcome is success or error"}
	}
	reasons, err := daemon.app().engine(nil, daemon.observe).Resolve(ctx, []backlog.Answer{{UID: uid, Outcome: known, Text: reason}})
	if err != nil {
		return problemOf(err)
	}
	switch why := reasons[0]; {
	case errors.Is(why, backlog.ErrConflict):
		return &web.Problem{Status: http.StatusConflict, Text: "no running attempt has this UID: it has ended, or was superseded"}
	case why != nil && !errors.Is(why, backlog.ErrUnavailable):
		return &web.Problem{Status: http.StatusConflict, Text: "the database refuses this outcome, and the row is as it was: " + why.Error()}
	default:
		return problemOf(why)
	}
}

// Simulate implements web.Backlog.
func (d *desk) Simulate(ctx context.Context, text string) (s web.Simulation, err error) {
	cfg, _, _ := d.present()
	other, err := config.ParseTiers(text, cfg.Timezone)
	if err != nil {
		return s, &web.Problem{Status: http.StatusBadRequest, Text: err.Error()}
	}
	if n := len(other.Tiers()); n > mostTiers {
		return s, &web.Problem{Status: http.StatusBadRequest, Text: fmt.Sprintf("%d tiers are too many to be simulated here; %d are the most", n, mostTiers)}
	}
	if refreshOf(cfg) != nil {
		return s, &web.Problem{Status: http.StatusBadRequest, Text: "the policy refresh has one tier, and ages do not matter"}
	}
	return read(ctx, d, func(a *app, now time.Time) (web.Simulation, error) {
		edges := simulate.Edges(cfg.Tiers, other)
		counts, err := a.table.Count(ctx, now, edges)
		if err != nil {
			return s, err
		}
		running, tried := simulation(cfg, policyOf(cfg)), simulation(cfg, policyOf(cfg))
		tried.Schedule = other
		list := []simulate.Candidate{{Name: "running", Options: running}, {Name: "this one", Options: tried}}
		c, err := simulate.WhatIf(ctx, simulate.Counted{Counts: counts, Edges: edges, At: now, Zone: cfg.Timezone}, list)
		if err != nil && ctx.Err() != nil {
			err = &web.Problem{Status: http.StatusBadRequest, Text: "this takes too long to be simulated here; backlog simulate --live takes its time"}
		}
		s = web.Simulation{Columns: c.Columns, Rows: c.Rows, Plot: c.SVG, Results: each(c.Results, func(r simulate.Result) any { return r })}
		return s, err
	})
}
