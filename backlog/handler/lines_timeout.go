package handler

import (
	"context"
	"fmt"
	"math"
	"time"
)

// A watch is what a coprocess knows of its own pace. [Lines.mu] guards it. It
// costs a record two looks at the clock: its one timer is not set anew by each,
// but finds out when it fires what there is to wait for.
type watch struct {
	timer *time.Timer // nil before the first record, and without a timeout
	armed bool
	since time.Time // when it last answered, or was given something to do
}

// given notes that the coprocess is about to be given t.
func (c *coprocess) given(t *task) {
	timeout := c.lines.Timeout
	if timeout <= 0 {
		return
	}
	now := time.Now()
	if len(c.inFlight) == 0 {
		c.watch.since = now
	}
	t.limit = times(timeout, 1+len(c.inFlight))
	t.late = now.Add(t.limit)
	switch {
	case c.watch.timer == nil:
		c.watch.timer = time.AfterFunc(timeout, c.look)
	case !c.watch.armed:
		c.watch.timer.Reset(timeout)
	}
	c.watch.armed = true
}

// spoke notes that the coprocess has answered something.
func (c *coprocess) spoke() {
	if c.lines.Timeout > 0 {
		c.watch.since = time.Now()
	}
}

// look ends the coprocess if it is late, and else looks again when it may be.
func (c *coprocess) look() {
	c.lines.mu.Lock()
	defer c.lines.mu.Unlock()
	if len(c.inFlight) == 0 {
		c.watch.armed = false
		return
	}
	now := time.Now()
	next, late := c.overdue(now)
	if late != nil {
		if c.deafTo != "" {
			late = c.deafTo // that is why
		}
		c.stop(late)
		return
	}
	c.watch.timer.Reset(next.Sub(now))
}

// overdue returns when the coprocess may be late next, and an error if it is
// now. A record that is given meanwhile is not late before that.
func (c *coprocess) overdue(now time.Time) (next time.Time, late error) {
	timeout := c.lines.Timeout
	next = c.watch.since.Add(timeout)
	if !now.Before(next) {
		return next, &lateError{timeout, "the worker answered nothing (does it flush its output?)"}
	}
	for _, t := range c.inFlight {
		if !now.Before(t.late) {
			return next, &lateError{t.limit, fmt.Sprintf("the worker answered others, but not attempt %s", t.attempt)}
		}
		if t.late.Before(next) {
			next = t.late
		}
	}
	return next, nil
}

// times returns n times d, or the longest there is.
func times(d time.Duration, n int) time.Duration {
	if d > math.MaxInt64/time.Duration(n) {
		return math.MaxInt64
	}
	return d * time.Duration(n)
}

// A lateError is a [context.DeadlineExceeded] that says how long was waited.
type lateError struct {
	after time.Duration
	what  string
}

func (l *lateError) Error() string { return fmt.Sprintf("timed out after %v: %s", l.after, l.what) }

func (l *lateError) Is(target error) bool { return target == context.DeadlineExceeded }
