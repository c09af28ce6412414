package reader

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"backlog/backlog"
	"backlog/backlog/checkpoint"
	"backlog/backlog/inspect"
	"backlog/backlog/metrics"
	"backlog/backlog/pings"
	"backlog/backlog/retry"
	"backlog/backlog/simulate"
	"backlog/backlog/watch"
	"backlog/backlog/web"
	"backlog/tiers"
)

// Settings are what the configuration says of what is shown. They are not changed once they are in use; a
// reload replaces them all.
type Settings struct {
	Rules
	Database   string           // as it may be shown, without password
	Zone       *time.Location   // of schedules that are tried out
	Timer      inspect.Timer    // how a system's own timer runs the program
	Simulation simulate.Options // of the schedule and the policy

	// Open opens a connection of the pages' own, which reads the table and the columns that Web shows.
	// close ends it.
	Open func(ctx context.Context) (v *View, close func(), err error)
	// ParseSchedule reads a schedule as the configuration writes it.
	ParseSchedule func(text string) (*tiers.Schedule, error)

	Folder  string // what relative paths begin at
	Web     *web.Settings
	Metrics *metrics.Settings
	Pings   *pings.Settings
}

// Options are what a process knows of itself. They are all required but for Up.
type Options struct {
	Version string
	Log     *slog.Logger
	State   *checkpoint.File
	Picture *watch.Picture
	Clock   func() time.Time
	Up      func() bool // whether the broker answers; nil: the records are a table's, not a queue's
}

// A Daemon is the daemon that a [Reader] shows, and by which it changes rows. Its methods may be called
// concurrently, and all but Resolve return at once.
type Daemon interface {
	// View returns the table as passes read and write it. A reload brings another one.
	View() *View
	// Leads reports whether the loop runs under the leader lock.
	Leads() bool
	// LastWake returns when the loop has woken last; zero: not yet.
	LastWake() time.Time
	// Broker returns what workers were given over RabbitMQ; nil: the handler is another.
	Broker() *metrics.Broker
	// Resolve is [backlog.Engine.Resolve].
	Resolve(ctx context.Context, answers []backlog.Answer) (reasons []error, err error)
}

// A Reader is what pages show of a table and of the process that works it off, and what they do to it. It
// reads the table by a connection of its own. Its methods may be called concurrently.
type Reader struct {
	Options
	stopping atomic.Bool
	engine   atomic.Pointer[backlog.Engine] // nil: nothing has begun
	wake     chan struct{}                  // says that the records are to be counted at once
	opening  sync.Mutex
	reading  sync.RWMutex // while the view is used; taken before mu
	leader   lastLeader

	mu       sync.Mutex
	current  current
	view     *View // nil: not opened yet, or for another configuration
	close    func()
	answered time.Time    // when the database has last
	pause    *watch.Pause // as it was last looked at
	failed   int          // counts
	counted
}

var _ web.Backlog = (*Reader)(nil)

// A current is what is in force.
type current struct {
	*Settings
	loaded time.Time
	daemon Daemon // nil: no daemon, or not yet
	role   string // Leader, Standby or Viewer of web
}

// counted is the result of the last count of the records.
type counted struct {
	status *inspect.Status // nil: not counted yet
	rows   *web.Rows       // nil: not counted yet, or no column has last errors
	at     time.Time
	took   time.Duration
	err    string // of the last one, which may have failed
}

// New returns a Reader of a process without a daemon: see [Reader.SetDaemon].
func New(o Options, s *Settings) *Reader {
	r := &Reader{Options: o, wake: make(chan struct{}, 1)}
	r.current.role = web.Viewer
	r.Configure(s)
	return r
}

// Configure continues with other settings. It waits for pages that are being read.
func (r *Reader) Configure(s *Settings) {
	r.reading.Lock()
	defer r.reading.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current.Settings = s
	r.current.loaded = r.Clock()
	r.forget()
}

// forget closes the view. The caller holds both locks.
func (r *Reader) forget() {
	if r.view != nil {
		r.close()
		r.view = nil
	}
}

// SetDaemon makes the process a daemon's, which leads or stands by. d is nil while it waits for its database.
func (r *Reader) SetDaemon(d Daemon, leads bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current.daemon = d
	r.current.role = web.Leader
	if !leads {
		r.current.role = web.Standby
		r.counted = counted{}
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// SetEngine says which engine runs the passes from now on.
func (r *Reader) SetEngine(e *backlog.Engine) { r.engine.Store(e) }

// SetStopping says that the end of the process has begun.
func (r *Reader) SetStopping() { r.stopping.Store(true) }

// inForce returns what is in force at the moment.
func (r *Reader) inForce() current {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// Now implements web.Backlog.
func (r *Reader) Now() web.Now {
	kept, _ := r.State.State() // the log says what is wrong with it
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.current
	now := r.Clock()
	n := web.Now{
		Role: c.role, Version: r.Version, Database: c.Database, Table: c.Mapping.Name, Name: c.Name,
		Loaded: c.loaded, Zone: c.Zone, Schedule: c.Schedule, Timer: c.Timer,
		Refresh: retry.RefresherOf(c.Policy) != nil, LastErrors: c.Mapping.LastError != "",
		Counts: r.status, Counted: r.at, Took: r.took.Round(time.Millisecond), CountErr: r.err, Rows: r.rows,
		Trouble: r.trouble(now), Picture: r.Picture,
		Pause: kept.Current(now), Pausing: c.role == web.Leader && r.State.Path != "",
		Woke: now, Stopping: r.stopping.Load(),
	}
	switch {
	case c.daemon != nil:
		n.Choices = c.daemon.View().Table.States()
	case r.view != nil:
		n.Choices = r.view.Table.States()
	}
	if c.daemon != nil && c.daemon.Leads() && !c.daemon.LastWake().IsZero() {
		n.Woke = c.daemon.LastWake()
	}
	return n
}

// trouble returns what is wrong, for pages, probes and metrics alike. The caller holds mu.
func (r *Reader) trouble(now time.Time) *watch.Trouble {
	silent := func(since time.Time, text string) *watch.Trouble {
		return &watch.Trouble{Since: inspect.Stamp(since), Error: text, Away: true}
	}
	switch {
	case r.Up != nil && r.Up():
		return nil
	case r.Up != nil:
		return silent(now, "the broker is away")
	case r.current.role == web.Viewer:
		return r.Picture.Trouble(time.Time{})
	case r.current.daemon == nil:
		return silent(r.current.loaded, "the start waits for it; the log says why")
	}
	passes := r.current.loaded // earlier ones were another configuration's, or another process's
	if r.current.role != web.Leader {
		passes = now
	}
	if t := r.Picture.Trouble(passes); t != nil {
		return t
	}
	if now.Sub(r.answered) > maxSilent {
		return silent(r.answered, "it has not answered since")
	}
	return nil
}

// read returns what f makes of the table as pages read it. The error is the visitor's [*web.Problem] where the
// visitor has caused it, or where it passes.
func read[T any](ctx context.Context, r *Reader, f func(v *View, now time.Time) (T, error)) (answer T, err error) {
	r.reading.RLock()
	defer r.reading.RUnlock()
	v, err := r.open(ctx)
	if err == nil {
		answer, err = f(v, r.Clock())
	}
	return answer, problemOf(err)
}

// open returns the table as pages read it.
func (r *Reader) open(ctx context.Context) (*View, error) {
	r.opening.Lock()
	defer r.opening.Unlock()
	r.mu.Lock()
	v := r.view
	open := r.current.Open
	r.mu.Unlock()
	if v != nil {
		return v, nil
	}
	v, end, err := open(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.view = v
	r.close = end
	return v, nil
}

// problemOf returns what a visitor is shown of an error that the visitor has caused, or that passes.
func problemOf(err error) error {
	switch {
	case errors.As(err, new(*Invalid)):
		return &web.Problem{Status: http.StatusBadRequest, Text: err.Error()}
	case errors.As(err, new(notFound)):
		return &web.Problem{Status: http.StatusNotFound, Text: err.Error()}
	case errors.Is(err, backlog.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return &web.Problem{Status: http.StatusServiceUnavailable, Text: "the database does not answer in time: " + err.Error()}
	}
	return err
}
