// Package logqueue has a writer that never blocks.
package logqueue

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxLines and MaxBytes bound what waits for a slow reader.
	MaxLines = 1024
	MaxBytes = 1 << 20
	// Patience is how long the log is waited for before a report or the
	// end of the program.
	Patience = time.Second
)

// A Queue is a writer that never blocks. A goroutine passes on what is written;
// where the reader stands still and the queue is full, lines are dropped and
// counted. A full pipe must cost neither a record nor a lock nor a stop.
type Queue struct {
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

// New returns a queue that passes on to the writer. Close ends its goroutine.
func New(to io.Writer) *Queue {
	q := &Queue{to: to}
	q.changed = sync.NewCond(&q.mu)
	q.notice = func(n int64) { fmt.Fprintf(to, "backlog: log lines dropped that nobody read: %d\n", n) }
	go q.run()
	return q
}

// To returns the writer that it passes on to.
func (q *Queue) To() io.Writer { return q.to }

// OnDropped sets what tells the reader, once that is back.
func (q *Queue) OnDropped(notice func(dropped int64)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.notice = notice
}

// Write implements io.Writer.
func (q *Queue) Write(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.lines); n >= MaxLines || n > 0 && q.bytes+len(b) > MaxBytes {
		q.dropped.Add(1)
		return len(b), nil
	}
	q.lines = append(q.lines, slices.Clone(b))
	q.bytes += len(b)
	q.changed.Broadcast()
	return len(b), nil
}

// run passes on what is written, several lines at a time.
func (q *Queue) run() {
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

// Flush waits until all is written: at most Patience, and not at all if that was
// in vain before and nothing has moved since.
func (q *Queue) Flush() {
	q.mu.Lock()
	defer q.mu.Unlock()
	late := false
	t := time.AfterFunc(Patience, func() {
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

// Close is the last flush.
func (q *Queue) Close() {
	q.Flush()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
}

// An After writes to w once the log so far is written, so that a terminal shows
// both in their order.
type After struct {
	Log *Queue
	W   io.Writer
}

// Write implements io.Writer.
func (a After) Write(b []byte) (int, error) {
	a.Log.Flush()
	return a.W.Write(b)
}
