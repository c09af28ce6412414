package handler

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"backlog/backlog"
)

// What [Lines] takes for a window of 0, and how long a worker that has ended is
// not started again: longestRest at most, and shortestRest once it has answered
// something.
const (
	defaultWindow = 64
	shortestRest  = 100 * time.Millisecond
	longestRest   = 30 * time.Second
)

// Lines gives records to programs that live long: workers, which read requests
// from their standard input, a JSON object on a line each, and write replies to
// their standard output, likewise, in any order. docs/lines.md is the protocol.
//
// A worker is started when it is first needed. A record goes to the one with
// the fewest records in flight. A worker that dies, that writes what is no
// reply or answers an attempt that it does not have, or that is late, costs the
// records in flight at it, which fail; what is left of its process group is
// ended as by [Exec], and a new worker takes its place after a pause: 100 ms,
// doubled up to 30 s as long as none of its successors answers anything. One
// that has answered something and ends by itself with status 0 costs only what
// it has read and not answered; another gets the rest.
//
// A worker that ends before it has read anything has failed to start: that is
// [backlog.Unstarted]. (Systems other than Linux do not tell what was read:
// there, before it has answered anything.)
//
// Methods may be called concurrently. A Lines must not be copied, nor its
// exported fields changed after the first call.
type Lines struct {
	Command []string // the program and its arguments, as in [Exec]
	Workers int      // how many of them at most; 0: 1
	Window  int      // records in flight at each at most; 0: 64

	// Timeout is how long a worker that has records in flight may be silent.
	// A record must be answered within Timeout times the number of records
	// in flight, itself included, when the worker was given it. 0: no limit.
	Timeout time.Duration

	// Grace is the time between SIGTERM and SIGKILL, and before that for
	// ending at the end of standard input. 0 means 5 seconds, a negative one
	// none.
	Grace time.Duration

	// Log is told each line that a worker writes to standard error, bounded
	// and valid UTF-8, and at last, unless Close has ended it, how it ended.
	// It may be called concurrently and must return soon: the worker waits.
	// Nil: none.
	Log func(pid int, line string)

	exec    Exec // finds the program
	finding sync.Mutex
	running sync.WaitGroup
	tasks   sync.Pool

	mu      sync.Mutex
	slots   []slot    // of a coprocess each; nil before the first record
	waiting list.List // of *task: those that no worker has room for
	unnamed int       // attempts without an id so far
	closed  bool
	late    []error // what Close returns
}

// A slot is the place of one worker at a time.
type slot struct {
	c     *coprocess  // nil: none runs
	rest  *time.Timer // not nil: none is to be started yet
	fails int         // workers in a row that answered nothing
}

// A task is one attempt on its way to a worker and back.
type task struct {
	attempt string
	line    []byte        // the request
	done    chan answer   // gets one
	reply   []byte        // the line, if keep
	keep    bool          // for people to see
	at      *coprocess    // nil: none has it
	place   *list.Element // in waiting, if none has it
	late    time.Time     // when it should have been answered
	limit   time.Duration // how long that is
	end     int           // of the request, in all that the worker is given
}

// An answer is what became of a task: a worker's own, or the loss of the worker.
type answer struct {
	err  error
	lost *loss
}

var errClosed = errors.New("lines: the handler is closed")

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
// [*os/exec.ExitError], that of one that was late a [context.DeadlineExceeded].
func (l *Lines) Handle(ctx context.Context, r *backlog.Record) error {
	t, _ := l.tasks.Get().(*task)
	if t == nil {
		t = &task{done: make(chan answer, 1)}
	}
	err := l.do(ctx, t, r)
	if cap(t.line) <= 64<<10 {
		*t = task{done: t.done, line: t.line[:0]}
		l.tasks.Put(t)
	}
	return err
}

// Sample is Handle; it writes the request and, if there is one, the reply to w,
// a line each. It needs no more than one worker.
func (l *Lines) Sample(ctx context.Context, r *backlog.Record, w io.Writer) error {
	t := &task{done: make(chan answer, 1), keep: true}
	err := l.do(ctx, t, r)
	for _, s := range []struct{ what, line string }{{"request", string(t.line)}, {"reply", string(t.reply)}} {
		if s.line == "" {
			continue
		}
		if _, werr := fmt.Fprintf(w, "%-9s%s\n", s.what+":", printables(strings.TrimSpace(s.line))); werr != nil && err == nil {
			err = werr
		}
	}
	return err
}

// Check is that of [Exec] for the program of the workers.
func (l *Lines) Check(ctx context.Context) error {
	return inOurName((&Exec{Command: l.Command}).Check(ctx))
}

// inOurName returns an error of Exec as one of Lines.
func inOurName(err error) error {
	if err == nil {
		return nil
	}
	if text, ok := strings.CutPrefix(err.Error(), "exec: "); ok {
		return &failure{"lines: " + text, []error{err}}
	}
	return err
}

// Close closes the workers' standard inputs and waits for them to end, at most
// Grace, then ends the process groups of those that have not. It returns when
// all have ended: an error if some had to be ended, or ended with another
// status than 0. Calls of Handle that wait for a worker fail, and later ones
// do; those whose record is in flight get their reply, if it comes. Closing
// again does nothing.
func (l *Lines) Close() error {
	l.mu.Lock()
	l.closed = true
	l.dismiss(&loss{why: errClosed, unstarted: true})
	for i := range l.slots {
		s := &l.slots[i]
		if s.rest != nil {
			s.rest.Stop()
		}
		if s.c != nil {
			s.c.finish()
		}
	}
	l.mu.Unlock()
	l.running.Wait()
	if p := l.exec.found.Swap(nil); p != nil {
		p.null.Close()
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	err := errors.Join(l.late...)
	l.late = nil
	return err
}

func (l *Lines) do(ctx context.Context, t *task, r *backlog.Record) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if t.attempt = r.AttemptID; t.attempt == "" {
		t.attempt = l.nextName()
	}
	var err error
	if t.line, err = appendRequest(t.line, t.attempt, r); err != nil {
		return err
	}
	if !l.hand(t) {
		return backlog.Unstarted(errClosed)
	}
	select {
	case a := <-t.done:
		return a.error(ctx)
	case <-ctx.Done():
	}
	if l.withdraw(t, context.Cause(ctx)) {
		return context.Cause(ctx)
	}
	a := <-t.done
	return a.error(ctx)
}

func (a answer) error(ctx context.Context) error {
	if a.lost != nil {
		return a.lost.error(ctx)
	}
	return a.err
}

// nextName returns an id for an attempt that has none.
func (l *Lines) nextName() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unnamed++
	return "attempt-" + strconv.Itoa(l.unnamed)
}

// hand gives t to a worker, or has it wait for one. It reports false if there
// will be none any more.
func (l *Lines) hand(t *task) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	if l.slots == nil {
		l.slots = make([]slot, max(1, l.Workers))
		l.exec.Command = l.Command
	}
	if l.waiting.Len() == 0 {
		if c := l.room(); c != nil {
			c.take(t)
			return true
		}
	}
	t.place = l.waiting.PushBack(t)
	return true
}

// distribute gives those who wait to workers with room, starting such as are
// needed. l.mu is held.
func (l *Lines) distribute() {
	for l.waiting.Len() > 0 {
		c := l.room()
		if c == nil {
			return
		}
		t := l.waiting.Remove(l.waiting.Front()).(*task)
		t.place = nil
		c.take(t)
	}
}

// room returns the worker with the fewest records in flight, nil if none has
// room. One that is yet to be started has none, but one that runs is better.
func (l *Lines) room() *coprocess {
	var best *coprocess
	free := -1
	for i := range l.slots {
		switch s := &l.slots[i]; {
		case s.c == nil && s.rest == nil:
			free = max(free, i)
		case s.c == nil, s.c.leaving, len(s.c.inFlight) >= l.window():
		case best == nil || len(s.c.inFlight) < len(best.inFlight):
			best = s.c
		}
	}
	if free < 0 || best != nil && len(best.inFlight) == 0 {
		return best
	}
	c := newCoprocess(l, &l.slots[free])
	l.slots[free].c = c
	l.running.Go(c.run)
	return c
}

func (l *Lines) window() int {
	if l.Window <= 0 {
		return defaultWindow
	}
	return l.Window
}

func (l *Lines) grace() time.Duration { return (&Exec{Grace: l.Grace}).grace() }

// withdraw takes t back if no worker has it, and reports that. Else it ends the
// worker, unless t has its answer.
func (l *Lines) withdraw(t *task, cause error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.place != nil {
		l.waiting.Remove(t.place)
		return true
	}
	if t.at != nil {
		t.at.stop(&interruption{cause})
	}
	return false
}

// over takes note that a worker has ended. Those who wait may wait for another.
func (l *Lines) over(c *coprocess, lost *loss) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.leave(nil)
	l.spare(c, lost)
	for _, t := range c.inFlight {
		t.at = nil
		t.done <- answer{lost: lost}
	}
	c.inFlight = nil
	s := c.slot
	s.c = nil
	if l.closed {
		if err := lost.atClose(); err != nil {
			l.late = append(l.late, fmt.Errorf("lines: process %d: %w", c.process.Pid, err))
		}
		return
	}
	if lost.unstarted && l.alone() {
		l.dismiss(lost)
	}
	if c.answered {
		s.fails = 0
	}
	s.rest = time.AfterFunc(min(shortestRest<<min(s.fails, 20), longestRest), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		s.rest = nil
		if !l.closed {
			l.distribute()
		}
	})
	s.fails++
	l.distribute()
}

// alone reports whether no worker runs.
func (l *Lines) alone() bool {
	for _, s := range l.slots {
		if s.c != nil {
			return false
		}
	}
	return true
}

// dismiss sends those away who wait.
func (l *Lines) dismiss(lost *loss) {
	for l.waiting.Len() > 0 {
		t := l.waiting.Remove(l.waiting.Front()).(*task)
		t.place = nil
		t.done <- answer{lost: lost}
	}
}
