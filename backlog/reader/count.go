package reader

import (
	"context"
	"fmt"
	"time"

	"backlog/backlog"
	"backlog/backlog/advise"
	"backlog/backlog/causes"
	"backlog/backlog/checkpoint"
	"backlog/backlog/inspect"
	"backlog/backlog/table"
	"backlog/backlog/watch"
	"backlog/backlog/web"
	"backlog/internal/lists"
)

const (
	countEvery   = time.Minute      // how often records are counted for pages and metrics
	countShare   = 10               // a count starts at the earliest this many durations of the last one after it
	countTimeout = 30 * time.Second // bounds a count
	probeEvery   = 10 * time.Second // how often the database is probed
	maxSilent    = 30 * time.Second // a database that does not answer for longer is unavailable
	maxGrouped   = 10_000           // bounds how many failed records are grouped by cause
)

// Count counts the records and probes the database again and again, until ctx is done.
func (r *Reader) Count(ctx context.Context) {
	var next time.Time
	for ctx.Err() == nil {
		began := r.Clock()
		c := r.currentState()
		counts := c.role != web.Standby && !began.Before(next)
		saved, err := r.State.State()
		switch {
		case c.daemon != nil && counts:
			err = r.probe(ctx, c.daemon.View(), began, counts)
		case c.role == web.Viewer:
			err = r.probeAsViewer(ctx, saved, began, counts)
		}
		if counts {
			next = began.Add(max(countEvery, countShare*r.Clock().Sub(began)))
		}
		r.noteCount(saved.Pause, err, counts)
		select {
		case <-r.wake:
			next = time.Time{}
		case <-ctx.Done():
		case <-time.After(probeEvery):
		}
	}
}

// noteCount saves the pause and, if there was an error, that the count or the probe has failed.
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

// probe probes the database and, if count is set, counts the records.
func (r *Reader) probe(ctx context.Context, v *View, now time.Time, count bool) error {
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
	rows, err := v.lastErrors(ctx, now) // an error does not affect the counts
	c := counted{status: status, rows: rows, at: now, took: r.Clock().Sub(now)}
	if r.currentState().role == web.Leader {
		r.keepCount(status, now)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counted = c
	return err
}

// keepCount keeps a count of the records in the state folder, unless the hour has one. It logs a failure, which is
// not returned again when passes are kept.
func (r *Reader) keepCount(status *inspect.Status, now time.Time) {
	err := r.State.AddCount(now, advise.Counted{Pending: status.Pending, Failed: status.Failed()})
	if err != nil {
		r.Log.Warn("the state file cannot be used, a restart may not know what was missed", "error", err)
	}
}

// KeepCounts counts the records of a leading daemon once an hour, until ctx is done. It is for a process that serves
// nothing, in which [Reader.Count] does not run.
func (r *Reader) KeepCounts(ctx context.Context) {
	wait := countEvery // a start has other things to do
	for {
		backlog.Sleep(ctx, wait)
		if ctx.Err() != nil {
			return
		}
		wait = countEvery
		if err := r.countForHour(ctx); err != nil {
			wait = time.Hour // a table that takes too long is not counted again and again
		}
	}
}

// countForHour keeps a count of this hour, unless it has one or the process does not lead.
func (r *Reader) countForHour(ctx context.Context) error {
	now := r.Clock()
	c := r.currentState()
	leads := c.daemon != nil && c.role == web.Leader
	if !leads || r.State.Path == "" || r.State.HasCount(now) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	status, err := c.daemon.View().Status(ctx, now)
	if err != nil {
		return err
	}
	r.keepCount(status, now)
	return nil
}

// probeAsViewer is probe by the connection of the pages. It first reads what other processes have saved.
func (r *Reader) probeAsViewer(ctx context.Context, saved checkpoint.State, now time.Time, count bool) error {
	r.restore(saved)
	_, err := withView(ctx, r, func(v *View, _ time.Time) (any, error) { return nil, r.probe(ctx, v, now, count) })
	if ctx.Err() == nil {
		r.noteViewed(err)
	}
	return err
}

// noteViewed shows and logs a change in whether a viewer can read the table.
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

// restore loads the passes and outages that other processes have saved.
func (r *Reader) restore(saved checkpoint.State) {
	passes, _ := r.State.Passes()
	r.Picture.Restore(passes, saved.Outages, saved.Outage)
}

// WatchStore probes the database by the engine until ctx is done, so that an outage shows within seconds, and not
// at the next pass. It must be called after [Reader.SetEngine].
func (r *Reader) WatchStore(ctx context.Context) {
	r.noteAnswer()
	for ctx.Err() == nil {
		if r.engine.Load().Probe(ctx) == nil {
			r.noteAnswer()
		}
		backlog.Sleep(ctx, probeEvery)
	}
}

// noteAnswer notes that the database answers now.
func (r *Reader) noteAnswer() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered = r.Clock()
}

// lastErrors groups the last errors of the newest failed records; nil: the table has no column for them.
func (v *View) lastErrors(ctx context.Context, now time.Time) (*web.Rows, error) {
	if !v.Table.HasLastError() {
		return nil, nil
	}
	var tally causes.Tally
	var after backlog.Cursor
	rows := new(web.Rows)
	for rows.Records < maxGrouped && !rows.Complete {
		page, err := v.Table.List(ctx, table.Filter{State: "failed"}, now, after, maxGrouped-rows.Records)
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
