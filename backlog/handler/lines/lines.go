// Package lines is the handler that gives records to long-running worker programs: it writes a
// request as one line of JSON to a worker's standard input, and reads the reply as one line of
// JSON from its standard output. docs/lines.md is the protocol.
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

// Settings are the handler's part of the configuration file.
type Settings struct {
	Command []string `yaml:"lines" command:"./worker"`
	Workers int      `yaml:"workers" min:"1" max:"1000"` // how many processes are started; >= 1
	Window  int      `yaml:"window" min:"1" max:"1000"`  // records in flight at each; >= 1

	// MaxPause is the longest pause that a worker can ask for; > 0.
	MaxPause time.Duration `yaml:"max_pause" min:"1s"`
}

const defaultWindow = 64

// NewSettings returns the defaults.
func NewSettings() *Settings {
	return &Settings{Workers: 1, Window: defaultWindow, MaxPause: time.Hour}
}

// InFlight returns how many records the workers take at a time, at most 100,000: no handler
// is given more.
func (s *Settings) InFlight() int { return min(s.Workers*s.Window, 100_000) }

// After a worker has ended no worker is started for minBackoff, doubled for each one in a row
// that has answered nothing, up to maxBackoff.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// A Handler gives records to workers: long-running programs that read requests from standard
// input and write replies, in any order, to standard output, one JSON object on each line.
//
// A worker is started when it is first needed. A record goes to the worker with the fewest
// records in flight. A worker fails if it dies, if it is silent for Timeout, if it writes
// something that is not a reply, or if it replies to an attempt that it does not have. Then
// its records in flight fail, its process group is terminated, and a new worker is started
// after a pause: 100 ms, doubled up to 30 s until a new worker answers something.
//
// A worker that ends before it has read anything has failed to start, which is
// [backlog.Unstarted]. Only Linux says what was read: on other systems it is a worker that
// ends before it has answered anything.
//
// Methods may be called concurrently. A Handler must not be copied, and its exported fields
// must not be changed after the first call.
type Handler struct {
	Settings // Workers 0 is 1, Window 0 is 64

	// Timeout is how long a worker that has records in flight may be silent. 0: no limit.
	Timeout time.Duration

	// Grace is the time between the end of standard input and SIGTERM, and again between
	// SIGTERM and SIGKILL. 0 means 5 seconds, a negative value no time at all.
	Grace time.Duration

	// Hard, when closed, kills the workers for which Close waits. Nil: never.
	Hard <-chan struct{}

	// Log logs each line that a worker writes to standard error, bounded and valid UTF-8,
	// and how the worker ended unless Close has ended it. At DEBUG it logs each request and
	// reply. Nil: no log.
	Log *slog.Logger

	running sync.WaitGroup

	mu             sync.Mutex
	workers        []*worker // those that have not ended
	backingOff     bool      // no worker is started now
	failedWorkers  int       // workers in a row that have answered nothing
	waiting        []*task   // attempts that no worker has room for
	closed         bool
	shutdownErrors []error // what Close returns

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
	done    chan error // gets one value: the outcome, or a *workerEnd
	worker  *worker    // that has it; nil: none
	reply   string     // the beginning of it, for the log
}

var (
	errClosed = errors.New("lines: the handler is closed")
	atClose   = &workerEnd{reason: errClosed, unstarted: true} // for attempts that have no worker at Close
)

func (h *Handler) program() proc.Program { return proc.Program{Kind: "lines", Command: h.Command} }

// Prepare returns why a worker could not be started, see [proc.Program.Check].
func (h *Handler) Prepare() error { return h.program().Check() }

// Check is the same as Prepare: there is no network to ask.
func (h *Handler) Check(context.Context) error { return h.Prepare() }

// Describe implements [backlog.ConfiguredHandler].
func (h *Handler) Describe() backlog.Description {
	return backlog.Description{
		MaxPause: h.MaxPause,
		Checked:  fmt.Sprintf("%s can be run: at most %d at a time, %d records in flight at each", h.Command[0], h.Workers, h.Window),
		Notes:    h.program().Notes(),
	}
}

// Handle gives r to a worker and returns what the worker replies: nil for success, a
// [backlog.Reject], an error that wraps [backlog.Skip], or any other error. A reply that asks
// for a pause is a [backlog.RetryAfter]. Handle waits while all workers have as many records
// as they may have, or none may be started yet. A record without an AttemptID gets one that
// is unique in this process.
//
// A worker cannot be asked to give up one record. So when ctx is done, the worker that has r is
// terminated with all its records, and Handle returns when its process group has ended, at
// most Grace and a moment later. A reply that comes until then decides. Without one the error
// wraps context.Cause(ctx).
//
// A worker that cannot be started, or ends before it has read anything, is
// [backlog.Unstarted]. The error for a worker that has ended wraps an [*os/exec.ExitError],
// the error for a silent one a [context.DeadlineExceeded].
func (h *Handler) Handle(ctx context.Context, r *backlog.Record) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t := &task{attempt: r.AttemptID, done: make(chan error, 1)}
	if t.attempt == "" {
		t.attempt = fmt.Sprint("attempt-", h.unnamed.Add(1))
	}
	line, err := request(t.attempt, r)
	if err != nil {
		return err
	}
	t.line = line
	h.dispatch(t)
	err = h.wait(ctx, t)
	backlog.LogExchange(ctx, h.Log, r, func() (sent, got string) { return beginning(t.line), t.reply })
	if end, ok := err.(*workerEnd); ok {
		return end.forAttempt(ctx)
	}
	return err
}

// wait waits for the outcome of t. When ctx is done, a task that still waits for a worker is
// withdrawn; otherwise the worker that has it is terminated.
func (h *Handler) wait(ctx context.Context, t *task) error {
	select {
	case err := <-t.done:
		return err
	case <-ctx.Done():
	}
	h.mu.Lock()
	w := t.worker
	if i := slices.Index(h.waiting, t); i >= 0 {
		h.waiting = slices.Delete(h.waiting, i, i+1)
		t.done <- context.Cause(ctx)
	} else if w != nil {
		w.terminate(fmt.Errorf("the worker was ended when one of its records was given up: %w", context.Cause(ctx)))
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

// Close closes the workers' standard inputs, waits for the workers to end, at most Grace, and
// then terminates the process groups of the others. It returns when all workers have ended. It
// returns an error if a worker had to be terminated or ended with a status other than 0. Calls
// of Handle that wait for a worker fail, and so do later ones; a record in flight gets its
// reply if that comes in time. A second Close does nothing.
func (h *Handler) Close() error {
	h.mu.Lock()
	h.closed = true
	h.failWaiting(atClose)
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
			w.terminate(errors.New("the worker was killed: the stop was asked for twice"))
			w.kill()
		}
		<-ended
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	err := errors.Join(h.shutdownErrors...)
	h.shutdownErrors = nil
	return err
}

// dispatch gives t to a worker, or lets it wait for one.
func (h *Handler) dispatch(t *task) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting = append(h.waiting, t)
	if h.closed {
		h.failWaiting(atClose)
	}
	h.distribute()
}

// distribute gives the waiting attempts to workers that have room, and starts workers as
// needed. h.mu must be held.
func (h *Handler) distribute() {
	for len(h.waiting) > 0 {
		w := h.pickWorker()
		if w == nil {
			return
		}
		w.assign(h.waiting[0])
		h.waiting = slices.Delete(h.waiting, 0, 1)
	}
}

// pickWorker returns the worker with the fewest records in flight. It starts a new worker if
// every other has records and one more may be started. It returns nil if none has room and none
// may be started. h.mu must be held.
func (h *Handler) pickWorker() *worker {
	var best *worker // of those that have room
	for _, w := range h.workers {
		isEnding := w.terminateCtx.Err() != nil
		isFull := len(w.inFlight) >= h.window()
		if isEnding || isFull {
			continue
		}
		if best == nil || len(w.inFlight) < len(best.inFlight) {
			best = w
		}
	}
	isIdle := best != nil && len(best.inFlight) == 0
	mayStart := !h.backingOff && len(h.workers) < max(1, h.Workers)
	if isIdle || !mayStart {
		return best
	}
	return h.startWorker()
}

// startWorker starts a worker. h.mu must be held.
func (h *Handler) startWorker() *worker {
	w := newWorker(h)
	h.workers = append(h.workers, w)
	h.running.Go(w.run)
	return w
}

// window returns how many records may be in flight at each worker.
func (h *Handler) window() int {
	if h.Window <= 0 {
		return defaultWindow
	}
	return h.Window
}

func (h *Handler) grace() time.Duration { return cmp.Or(h.Grace, proc.DefaultGrace) }

// workerEnded fails the attempts that a worker had when it ended. The waiting ones go to the
// next worker.
func (h *Handler) workerEnded(w *worker, end *workerEnd) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range w.inFlight {
		t.done <- end
	}
	clear(w.inFlight)
	h.workers = slices.DeleteFunc(h.workers, func(x *worker) bool { return x == w })
	if h.closed {
		if end.terminated || end.exit != nil && !end.exit.Success() {
			h.shutdownErrors = append(h.shutdownErrors, fmt.Errorf("lines: process %d: %w", w.pid, end.forAttempt(context.Background())))
		}
		return
	}
	if end.unstarted && len(h.workers) == 0 {
		h.failWaiting(end)
	}
	if !h.backingOff {
		h.backingOff = true
		time.AfterFunc(min(minBackoff<<min(h.failedWorkers, 20), maxBackoff), h.endBackoff)
		h.failedWorkers++
	}
	h.distribute()
}

// endBackoff lets workers be started again.
func (h *Handler) endBackoff() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.backingOff = false
	h.distribute()
}

// failWaiting fails the waiting attempts. h.mu must be held.
func (h *Handler) failWaiting(end *workerEnd) {
	for _, t := range h.waiting {
		t.done <- end
	}
	h.waiting = nil
}
