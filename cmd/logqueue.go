package cmd

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
)

const (
	// maxLogLines and maxLogBytes bound what waits for a slow reader.
	maxLogLines = 1024
	maxLogBytes = 1 << 20
	// logPatience is how long the log is waited for before a report or the
	// end of the program.
	logPatience = time.Second
)

// A logQueue is a writer that never blocks. A goroutine passes on what is written;
// where the reader stands still and the queue is full, lines are dropped and
// counted. A full pipe must cost neither a record nor a lock nor a stop.
type logQueue struct {
	to      io.Writer
	dropped atomic.Int64

	mu      sync.Mutex
	changed *sync.Cond
	lines   [][]byte // those being written included
	bytes   int
	stalled bool // the last flush was in vain
	closed  bool
	notice  func(dropped int64)
}

func newLogQueue(to io.Writer) *logQueue {
	q := &logQueue{to: to}
	q.changed = sync.NewCond(&q.mu)
	q.notice = func(n int64) { fmt.Fprintf(to, "backlog: log lines dropped that nobody read: %d\n", n) }
	go q.run()
	return q
}

// onDropped sets what tells the reader, once that is back.
func (q *logQueue) onDropped(notice func(dropped int64)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.notice = notice
}

// Write implements io.Writer.
func (q *logQueue) Write(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.lines); n >= maxLogLines || n > 0 && q.bytes+len(b) > maxLogBytes {
		q.dropped.Add(1)
		return len(b), nil
	}
	q.lines = append(q.lines, slices.Clone(b))
	q.bytes += len(b)
	q.changed.Broadcast()
	return len(b), nil
}

// run passes on what is written, several lines at a time.
func (q *logQueue) run() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for len(q.lines) == 0 {
			if q.closed {
				return
			}
			q.changed.Wait()
		}
		n := min(len(q.lines), 64)
		text, notice := slices.Concat(q.lines[:n]...), q.notice
		q.mu.Unlock()
		q.to.Write(text) // a log that nobody can read is no error of the program's work
		if lost := q.dropped.Swap(0); lost > 0 {
			notice(lost)
		}
		q.mu.Lock()
		q.lines, q.bytes, q.stalled = slices.Delete(q.lines, 0, n), q.bytes-len(text), false
		q.changed.Broadcast()
	}
}

// flush waits until all is written: at most logPatience, and not at all if that was
// in vain before and nothing has moved since.
func (q *logQueue) flush() {
	q.mu.Lock()
	defer q.mu.Unlock()
	late := false
	t := time.AfterFunc(logPatience, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		late = true
		q.changed.Broadcast()
	})
	defer t.Stop()
	for len(q.lines) > 0 && !q.stalled {
		q.stalled = late
		if !late {
			q.changed.Wait()
		}
	}
}

// close is the last flush.
func (q *logQueue) close() {
	q.flush()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
}

// An afterLog writes to w once the log so far is written, so that a terminal shows
// both in their order.
type afterLog struct {
	log *logQueue
	w   io.Writer
}

func (a afterLog) Write(b []byte) (int, error) {
	a.log.flush()
	return a.w.Write(b)
}

// A screen is a terminal on whose last line there may be a bar. The bar makes
// way for whatever else is written, of whomever it comes.
type screen struct {
	w *logQueue

	mu  sync.Mutex
	bar *progressbar.ProgressBar // nil: none
}

// onScreen returns the queue as a screen if it leads to a terminal.
func onScreen(q *logQueue) io.Writer {
	if !isTerminal(q.to) {
		return q
	}
	return &screen{w: q}
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar != nil {
		s.bar.Clear()
	}
	return s.w.Write(b)
}
