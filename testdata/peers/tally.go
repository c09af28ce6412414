package main

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
)

// A tally notes which of the records 1 to n were handled. Handlers may call it concurrently.
type tally struct {
	handled   []atomic.Bool
	remaining atomic.Int64
	repeated  atomic.Int64
	unknown   atomic.Int64
	done      chan struct{} // closed when each record was handled
}

func newTally(n int) *tally {
	t := &tally{handled: make([]atomic.Bool, n), done: make(chan struct{})}
	t.remaining.Store(int64(n))
	return t
}

// handle is what every handler does.
func (t *tally) handle(number int) {
	if number < 1 || number > len(t.handled) {
		t.unknown.Add(1)
		return
	}
	if t.handled[number-1].Swap(true) {
		t.repeated.Add(1)
		return
	}
	if t.remaining.Add(-1) == 0 {
		close(t.done)
	}
}

// handleText is handle for a record whose number is text.
func (t *tally) handleText(number string) error {
	i, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	t.handle(i)
	return nil
}

// wait returns when each record was handled.
func (t *tally) wait(ctx context.Context) error {
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d records were not handled: %w", t.remaining.Load(), ctx.Err())
	}
}

// check returns an error unless each record was handled exactly once. It is called after the workers
// have stopped, with the number of records that the database holds as done.
func (t *tally) check(done int) error {
	remaining := t.remaining.Load()
	repeated := t.repeated.Load()
	unknown := t.unknown.Load()
	if remaining != 0 || repeated != 0 || unknown != 0 {
		return fmt.Errorf("%d records were not handled, %d were handled again, %d are not known", remaining, repeated, unknown)
	}
	if done != len(t.handled) {
		return fmt.Errorf("%d of %d records are done in the database", done, len(t.handled))
	}
	return nil
}
