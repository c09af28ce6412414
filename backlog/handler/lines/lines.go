// Package lines gives records to programs that live long and take a record by a
// line each.
package lines

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"backlog/backlog"
	"backlog/backlog/handler/proc"
)

// Settings are what the configuration says of such programs.
type Settings struct {
	Command []string `yaml:"lines" command:"./worker"`
	Workers int      `yaml:"workers" min:"1" max:"1000"` // how many such programs; >= 1
	Window  int      `yaml:"window" min:"1" max:"1000"`  // records in flight at each; >= 1

	// MaxPause is the longest pause that a worker can ask for; > 0.
	MaxPause time.Duration `yaml:"max_pause" min:"1s"`
}

const usualWindow = 64

// NewSettings returns the defaults.
func NewSettings() *Settings {
	return &Settings{Workers: 1, Window: usualWindow, MaxPause: time.Hour}
}

// InFlight returns how many records the workers take at a time: as many as any handler
// is given.
func (s *Settings) InFlight() int { return min(s.Workers*s.Window, 100_000) }

// How long a worker that has ended is not started again: longestRest at most, and
// shortestRest once it has answered something.
const (
	shortestRest = 100 * time.Millisecond
	longestRest  = 30 * time.Second
)

// A Handler gives records to programs that live long: workers, which read requests
// from their standard input, a JSON object on a line each, and write replies to
// their standard output, likewise, in any order. docs/lines.md is the protocol.
//
// A worker is started when it is first needed. A record goes to the one with
// the fewest records in flight. A worker that dies, that writes what is no
// reply or answers an attempt that it does not have, or that is silent for
// Timeout, costs the records in flight at it, which fail; what is left of its
// process group is ended, and a new worker takes its place after a pause: 100 ms,
// doubled up to 30 s until a new one answers something.
//
// A worker that ends before it has read anything has failed to start: that is
// [backlog.Unstarted]. (Systems other than Linux do not tell what was read:
// there, before it has answered anything.)
//
// Methods may be called concurrently. A Handler must not be copied, nor its
// exported fields changed after the first call.
type Handler struct {
	Settings // Workers 0 is 1, Window 0 is 64

	// Timeout is how long a worker that has records in flight may be silent.
	// 0: no limit.
	Timeout time.Duration

	// Grace is the time between SIGTERM and SIGKILL, and before that for
	// ending at the end of standard input. 0 means 5 seconds, a negative one
	// none.
	Grace time.Duration

	// Hard, when closed, kills the workers that Close waits for. Nil: never.
	Hard <-chan struct{}

	// Log is told each line that a worker writes to standard error, bounded
	// and valid UTF-8, at last, unless Close has ended it, how it ended, and at
	// DEBUG each request and reply. Nil: none.
	Log *slog.Logger

	running sync.WaitGroup

	mu      sync.Mutex
	workers []*worker // those that have not ended
	resting bool      // none is to be started yet
	fails   int       // workers in a row that answered nothing
	waiting []*task   // no worker has room for them
	closed  bool
	late    []error // what Close returns

	unnamed atomic.Int64 // attempts without an id so far
}

var (
	_ backlog.ConfiguredHandler = (*Handler)(nil)
	_ io.Closer                 = (*Handler)(nil)
)

// A task is one attempt on its way to a worker and back.
type task struct {
	attempt string
	line    []byte     // the request
	done    chan error // gets one: a reply or a loss
	at      *worker    // nil: none has it
	reply   string     // the beginning of it
}

var (
	errClosed = errors.New("lines: the handler is closed")
	atClose   = &loss{why: errClosed, unstarted: true} // of attempts that have no worker then
)

func (h *Handler) program() proc.Program { return proc.Program{Kind: "lines", Command: h.Command} }

// Prepare reports what would keep a worker from being started, see
// [proc.Program.Check].
func (h *Handler) Prepare() error { return h.program().Check() }

// Check is Prepare: the network has nothing to add.
func (h *Handler) Check(context.Context) error { return h.Prepare() }

// Describe implements [backlog.ConfiguredHandler].
func (h *Handler) Describe() backlog.Description {
	return backlog.Description{
		MaxPause: h.MaxPause,
		Checked:  fmt.Sprintf("%s can be run: at most %d at a time, %d records in flight at each", h.Command[0], h.Workers, h.Window),
		Notes:    h.program().Notes(),
	}
}

// Handle gives r to a worker and returns what that answered: nil for success,
// a [backlog.Reject], an error that wraps [backlog.Skip], any other error; one
// that asks for a pause is a [backlog.RetryAfter]. It waits while all workers
// are fully occupied or pause. A record without an AttemptID gets one that is
// unique in this process.
//
// A worker cannot be told to forget one record. When ctx is done the worker
// that has r is ended, with its other records; Handle returns when its process
// group has gone, at most Grace and a moment later. What it answered until then
// decides; if it did not answer r, the error wraps context.Cause(ctx).
//
// A worker that cannot be started, or ends before it has read anything, is
// [backlog.Unstarted]. The error of one that ended wraps an
// [*os/exec.ExitError], the error of one that was silent a [context.DeadlineExceeded].
func (h *Handler) Handle(ctx context.Context, r *backlog.Record) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t := &task{attempt: r.AttemptID, done: make(chan error, 1)}
	if t.attempt == "" {
		t.attempt = fmt.Sprint("attempt-", h.unnamed.Add(1))
	}
	var err error
	if t.line, err = request(t.attempt, r); err != nil {
		return err
	}
	h.dispatch(t)
	err = h.wait(ctx, t)
	backlog.LogExchange(ctx, h.Log, r, func() (sent, got string) { return beginning(t.line), t.reply })
	if lost, ok := err.(*loss); ok {
		return lost.of(ctx)
	}
	return err
}

// wait waits for the answer. When ctx is done it takes the task back, or ends the
// worker that has it.
func (h *Handler) wait(ctx context.Context, t *task) error {
	select {
	case err := <-t.done:
		return err
	case <-ctx.Done():
	}
	h.mu.Lock()
	w := t.at
	if i := slices.Index(h.waiting, t); i >= 0 {
		h.waiting = slices.Delete(h.waiting, i, i+1)
		t.done <- context.Cause(ctx)
	} else if w != nil {
		w.end(fmt.Errorf("the worker was ended when one of its records was given up: %w", context.Cause(ctx)))
	}
	h.mu.Unlock()
	select {
	case err := <-t.done:
		return err
	case <-backlog.Killed(ctx):
		if w != nil {
			w.kill()
		}
		return <-t.done
	}
}

// Close closes the workers' standard inputs and waits for them to end, at most
// Grace, then ends the process groups of those that have not. It returns when
// all have ended: an error if some had to be ended, or ended with another
// status than 0. Calls of Handle that wait for a worker fail, and later ones
// do; those whose record is in flight get their reply, if it comes. Closing
// again does nothing.
func (h *Handler) Close() error {
	h.mu.Lock()
	h.closed = true
	h.dismiss(atClose)
	workers := slices.Clone(h.workers)
	for _, w := range workers {
		w.finish()
	}
	h.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		h.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-h.Hard:
		for _, w := range workers {
			w.end(errors.New("the worker was killed: the stop was asked for twice"))
			w.kill()
		}
		<-ended
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	err := errors.Join(h.late...)
	h.late = nil
	return err
}

// dispatch gives t to a worker, or has it wait for one.
func (h *Handler) dispatch(t *task) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting = append(h.waiting, t)
	if h.closed {
		h.dismiss(atClose)
	}
	h.distribute()
}

// distribute gives the attempts that wait to workers with room and starts workers
// as needed. h.mu is held here and below, but for over and endRest.
func (h *Handler) distribute() {
	for len(h.waiting) > 0 {
		w := h.room()
		if w == nil {
			return
		}
		w.take(h.waiting[0])
		h.waiting = slices.Delete(h.waiting, 0, 1)
	}
}

// room returns the worker with the fewest records in flight, nil if none has
// room. One that is yet to be started has none, but one that runs is better.
func (h *Handler) room() *worker {
	var best *worker
	most := cmp.Or(max(0, h.Window), usualWindow)
	for _, w := range h.workers {
		if n := len(w.inFlight); n < most && w.ctx.Err() == nil {
			best, most = w, n
		}
	}
	if h.resting || len(h.workers) >= max(1, h.Workers) || best != nil && most == 0 {
		return best
	}
	w := newWorker(h)
	h.workers = append(h.workers, w)
	h.running.Go(w.run)
	return w
}

func (h *Handler) grace() time.Duration { return cmp.Or(h.Grace, proc.DefaultGrace) }

// over fails what a worker that has ended still had. The next worker takes the rest.
func (h *Handler) over(w *worker, lost *loss) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range w.inFlight {
		t.done <- lost
	}
	clear(w.inFlight)
	h.workers = slices.DeleteFunc(h.workers, func(x *worker) bool { return x == w })
	if h.closed {
		if lost.cut || lost.how != nil && !lost.how.Success() {
			h.late = append(h.late, fmt.Errorf("lines: process %d: %w", w.pid, lost.of(context.Background())))
		}
		return
	}
	if lost.unstarted && len(h.workers) == 0 {
		h.dismiss(lost)
	}
	if !h.resting {
		h.resting = true
		time.AfterFunc(min(shortestRest<<min(h.fails, 20), longestRest), h.endRest)
		h.fails++
	}
	h.distribute()
}

// endRest lets workers be started again.
func (h *Handler) endRest() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.resting = false
	h.distribute()
}

// dismiss fails the attempts that wait.
func (h *Handler) dismiss(lost *loss) {
	for _, t := range h.waiting {
		t.done <- lost
	}
	h.waiting = nil
}
