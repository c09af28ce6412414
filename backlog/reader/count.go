package reader

import (
	"context"
	"fmt"
	"time"

	"backlog/backlog"
	"backlog/backlog/causes"
	"backlog/backlog/checkpoint"
	"backlog/backlog/table"
	"backlog/backlog/watch"
	"backlog/backlog/web"
	"backlog/internal/lists"
)

const (
	countEvery   = time.Minute      // the records are counted for pages and metrics
	countShare   = 10               // times as long as a count takes it is waited for the next, at least
	countTimeout = 30 * time.Second // of a count
	probeEvery   = 10 * time.Second // the database is asked whether it answers
	maxSilent    = 30 * time.Second // of a database that answers
	mostGrouped  = 10_000           // failed records, by cause
)

// Count counts the records, and asks whether the database answers, until ctx is done.
func (r *Reader) Count(ctx context.Context) {
	var next time.Time
	for ctx.Err() == nil {
		began := r.Clock()
		c := r.inForce()
		counts := c.role != web.Standby && !began.Before(next)
		kept, err := r.State.State()
		switch {
		case c.daemon != nil && counts:
			err = r.ask(ctx, c.daemon.View(), began, counts)
		case c.role == web.Viewer:
			err = r.askAsViewer(ctx, kept, began, counts)
		}
		if counts {
			next = began.Add(max(countEvery, countShare*r.Clock().Sub(began)))
		}
		r.noteCount(kept.Pause, err, counts)
		select {
		case <-r.wake:
			next = time.Time{}
		case <-ctx.Done():
		case <-time.After(probeEvery):
		}
	}
}

func (r *Reader) noteCount(pause *watch.Pause, err error, counts bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pause = pause
	if err == nil {
		return
	}
	r.err = err.Error()
	if counts {
		r.failed++
	}
}

// ask asks whether the database answers and, if count says so, counts.
func (r *Reader) ask(ctx context.Context, v *View, now time.Time, count bool) error {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	err := v.Table.Ping(ctx)
	if err != nil || !count {
		return err
	}
	status, err := v.Status(ctx, now)
	if err != nil {
		return err
	}
	rows, err := v.lastErrors(ctx, now) // on an error the counts are kept
	c := counted{status: status, rows: rows, at: now, took: r.Clock().Sub(now)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counted = c
	return err
}

// askAsViewer asks by the pages' own connection, and reads again what passes of other processes leave behind.
func (r *Reader) askAsViewer(ctx context.Context, kept checkpoint.State, now time.Time, count bool) error {
	r.restore(kept)
	_, err := read(ctx, r, func(v *View, _ time.Time) (any, error) { return nil, r.ask(ctx, v, now, count) })
	if ctx.Err() == nil {
		r.noteViewed(err)
	}
	return err
}

// noteViewed shows and logs whether the table could be read, where no daemon does.
func (r *Reader) noteViewed(err error) {
	trouble := r.Picture.Trouble(r.Clock())
	switch {
	case err == nil && trouble != nil:
		r.Picture.Observe(backlog.Event{Kind: backlog.StoreBack, At: r.Clock()})
		r.Log.Warn("the table can be used again")
	case err != nil && trouble == nil:
		r.Picture.Observe(backlog.Event{Kind: backlog.StoreUnavailable, At: r.Clock(), Err: err})
		r.Log.Error("the table cannot be used", "error", err)
	}
}

// restore shows what passes of other processes have left behind.
func (r *Reader) restore(kept checkpoint.State) {
	passes, _ := r.State.Passes()
	r.Picture.Restore(passes, kept.Outages, kept.Outage)
}

// WatchStore probes the database by the engine until ctx is done: within seconds it finds out what no pass
// does for hours. It is called after [Reader.SetEngine].
func (r *Reader) WatchStore(ctx context.Context) {
	r.noteAnswer()
	for ctx.Err() == nil {
		if r.engine.Load().Probe(ctx) == nil {
			r.noteAnswer()
		}
		backlog.Sleep(ctx, probeEvery)
	}
}

// noteAnswer notes that the database has just answered.
func (r *Reader) noteAnswer() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered = r.Clock()
}

// lastErrors groups the last errors of the newest failed records; nil: no column has them.
func (v *View) lastErrors(ctx context.Context, now time.Time) (*web.Rows, error) {
	if !v.Table.HasLastError() {
		return nil, nil
	}
	var tally causes.Tally
	var after backlog.Cursor
	rows := new(web.Rows)
	for rows.Records < mostGrouped && !rows.Complete {
		page, err := v.Table.List(ctx, table.Filter{State: "failed"}, now, after, mostGrouped-rows.Records)
		if err != nil {
			return nil, fmt.Errorf("causes of failed records: %w", err)
		}
		for _, row := range page.Rows {
			if row.LastError != nil {
				tally.Add(causes.Fold(*row.LastError), *row.LastError, row.Key)
			}
		}
		rows.Records += len(page.Rows)
		after = page.Next
		rows.Complete = after.IsZero()
	}
	rows.Causes = lists.Map(tally.Causes(), func(c causes.Cause) watch.Cause { return watch.CauseOf(&c) })
	return rows, nil
}
