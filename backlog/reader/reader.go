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

// Settings are the configuration of what is shown. They are not changed while they are in use; a reload
// replaces them as a whole.
type Settings struct {
	Rules
	Database   string           // URL without secrets
	Zone       *time.Location   // of schedules that are tried out
	Timer      inspect.Timer    // how cron or systemd runs the program
	Simulation simulate.Options // of the schedule and the policy

	// Open opens a separate connection for the pages, which reads the table with the columns that Web shows.
	// close closes it.
	Open func(ctx context.Context) (v *View, close func(), err error)
	// ParseSchedule parses a schedule as the configuration writes it.
	ParseSchedule func(text string) (*tiers.Schedule, error)

	Folder  string // the folder to which paths in the settings are relative
	Web     *web.Settings
	Metrics *metrics.Settings
	Pings   *pings.Settings
}

// Options describe the process. All but BrokerUp are required.
type Options struct {
	Version  string
	Log      *slog.Logger
	State    *checkpoint.File
	Picture  *watch.Picture
	Clock    func() time.Time
	BrokerUp func() bool // whether the broker answers; nil: the records are a table's, not a queue's
}

// A Daemon is the daemon that a [Reader] shows and through which it changes rows. Its methods may be called
// concurrently, and all but Resolve return at once.
type Daemon interface {
	// View returns the table as passes read and write it. A reload replaces it.
	View() *View
	// Leads reports whether the loop runs under the leader lock.
	Leads() bool
	// LastWake returns when the loop last woke; zero: it has not woken yet.
	LastWake() time.Time
	// Broker returns counts of what was dispatched over RabbitMQ; nil: another handler is configured.
	Broker() *metrics.Broker
	// Resolve is [backlog.Engine.Resolve].
	Resolve(ctx context.Context, answers []backlog.Answer) (reasons []error, err error)
}

// A Reader is what pages show of a table and of the process that works on it, and what they change. It
// reads the table by a connection of its own. Its methods may be called concurrently.
type Reader struct {
	Options
	stopping atomic.Bool
	engine   atomic.Pointer[backlog.Engine] // nil: no pass can run yet
	wake     chan struct{}                  // holds a request to count the records at once
	opening  sync.Mutex                     // held while the view is opened
	reading  sync.RWMutex                   // held for reading while the view is used; locked before mu
	leader   leaderCache
	learned  atomic.Pointer[learned] // nil: not enough was learned yet

	mu       sync.Mutex // guards the fields below
	current  current
	view     *View        // nil: not opened yet with the current settings
	close    func()       // closes view
	answered time.Time    // when the database last answered
	pause    *watch.Pause // as it was last read
	failed   int          // how many counts have failed
	counted
}

var _ web.Backlog = (*Reader)(nil)

// current is the state of a Reader that a reload or a change of role replaces.
type current struct {
	*Settings
	loaded time.Time
	daemon Daemon // nil: none, or it has not started yet
	role   string // Leader, Standby or Viewer of web
}

// counted is the result of the last count of the records.
type counted struct {
	status *inspect.Status // nil: not counted yet
	rows   *web.Rows       // nil: not counted yet, or no column has last errors
	at     time.Time
	took   time.Duration
	err    string // of the last failed count
}

// New returns a Reader of a process without a daemon. [Reader.SetDaemon] gives it one.
func New(o Options, s *Settings) *Reader {
	r := &Reader{Options: o, wake: make(chan struct{}, 1)}
	r.current.role = web.Viewer
	r.Configure(s)
	return r
}

// Configure replaces the settings. It waits until pages that are being read are finished.
func (r *Reader) Configure(s *Settings) {
	r.reading.Lock()
	defer r.reading.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current.Settings = s
	r.current.loaded = r.Clock()
	r.closeView()
}

// closeView closes the view. The caller holds reading and mu.
func (r *Reader) closeView() {
	if r.view != nil {
		r.close()
		r.view = nil
	}
}

// SetDaemon says that the process is a daemon, which leads or stands by. d is nil while the daemon waits for
// its database.
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

// SetEngine sets the engine that runs the passes from now on.
func (r *Reader) SetEngine(e *backlog.Engine) { r.engine.Store(e) }

// SetStopping says that the process is stopping.
func (r *Reader) SetStopping() { r.stopping.Store(true) }

// currentState returns a copy of the current state.
func (r *Reader) currentState() current {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// Now implements web.Backlog.
func (r *Reader) Now() web.Now {
	saved, _ := r.State.State() // errors are logged elsewhere
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
		Pause: saved.Current(now), Pausing: c.role == web.Leader && r.State.Path != "",
		Woke: now, Stopping: r.stopping.Load(), Learned: r.learnedPage(),
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

// trouble returns what is wrong, for pages, probes and metrics; nil: nothing is. The caller holds mu.
func (r *Reader) trouble(now time.Time) *watch.Trouble {
	unavailable := func(since time.Time, text string) *watch.Trouble {
		return &watch.Trouble{Since: inspect.Stamp(since), Error: text, Temporary: true}
	}
	switch {
	case r.BrokerUp != nil && r.BrokerUp():
		return nil
	case r.BrokerUp != nil:
		return unavailable(now, "the broker is away")
	case r.current.role == web.Viewer:
		return r.Picture.Trouble(time.Time{})
	case r.current.daemon == nil:
		return unavailable(r.current.loaded, "the start waits for it; the log says why")
	}
	since := r.current.loaded // earlier passes belong to another configuration or process
	if r.current.role != web.Leader {
		since = now
	}
	if t := r.Picture.Trouble(since); t != nil {
		return t
	}
	if now.Sub(r.answered) > maxSilent {
		return unavailable(r.answered, "it has not answered since")
	}
	return nil
}

// withView calls f with the view of the pages and the time. An error that the visitor has caused, or that is
// temporary, is returned as a [*web.Problem].
func withView[T any](ctx context.Context, r *Reader, f func(v *View, now time.Time) (T, error)) (answer T, err error) {
	r.reading.RLock()
	defer r.reading.RUnlock()
	v, err := r.openView(ctx)
	if err == nil {
		answer, err = f(v, r.Clock())
	}
	return answer, problemOf(err)
}

// openView returns the view of the pages. It opens the view unless it is open.
func (r *Reader) openView(ctx context.Context) (*View, error) {
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

// problemOf turns an error that the visitor has caused, or that is temporary, into a [*web.Problem]. It returns other
// errors as they are.
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
