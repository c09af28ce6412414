// Package logqueue has a writer for logs that never blocks: a [Queue].
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
	// Patience is how long [Queue.Flush] waits for the reader.
	Patience = time.Second
)

// maxBatch is how many lines are written at a time.
const maxBatch = 64

// A Queue is a writer that never blocks. A goroutine passes on what is written. If the reader does
// not read and the queue is full, lines are dropped and counted, so that a full pipe costs neither
// a record nor a lock nor a stop. All methods may be called concurrently.
type Queue struct {
	dest    io.Writer
	dropped atomic.Int64

	mu      sync.Mutex
	changed *sync.Cond
	lines   [][]byte // with those being written
	bytes   int      // of lines
	stalled bool     // the last Flush timed out, and nothing was written since
	closed  bool
	notice  func(dropped int64)
}

// New returns a Queue that passes on to the writer. Close ends its goroutine.
func New(dest io.Writer) *Queue {
	q := &Queue{dest: dest}
	q.changed = sync.NewCond(&q.mu)
	q.notice = func(n int64) { fmt.Fprintf(dest, "backlog: log lines dropped that nobody read: %d\n", n) }
	go q.run()
	return q
}

// Dest returns the writer that the queue passes on to.
func (q *Queue) Dest() io.Writer { return q.dest }

// OnDropped sets the function that is called with the number of dropped lines when the reader reads
// again. It may write to Dest.
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
		n := min(len(q.lines), maxBatch)
		text := slices.Concat(q.lines[:n]...)
		notice := q.notice
		q.mu.Unlock()
		q.dest.Write(text) // an error of the log does not concern the work
		if lost := q.dropped.Swap(0); lost > 0 {
			notice(lost)
		}
		q.mu.Lock()
		q.lines = slices.Delete(q.lines, 0, n)
		q.bytes -= len(text)
		q.stalled = false
		q.changed.Broadcast()
	}
}

// Flush waits until all lines are written, at most Patience. After a Flush that timed out it does not
// wait again until a line was written.
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

// Close flushes the queue. Its goroutine ends when all lines are written.
func (q *Queue) Close() {
	q.Flush()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
}

// An After is a writer that flushes the log before each write to W, so that a terminal shows both in
// their order.
type After struct {
	Log *Queue
	W   io.Writer
}

// Write implements io.Writer.
func (a After) Write(b []byte) (int, error) {
	a.Log.Flush()
	return a.W.Write(b)
}
