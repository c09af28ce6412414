package reader

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"backlog/backlog"
	"backlog/backlog/checkpoint"
	"backlog/backlog/inspect"
	"backlog/backlog/retry"
	"backlog/backlog/simulate"
	"backlog/backlog/table"
	"backlog/backlog/watch"
	"backlog/backlog/web"
	"backlog/internal/lists"
)

const (
	maxTiers        = 50              // of a schedule that is tried out
	maxRetried      = 100_000         // records by one request
	maxShownColumns = 3 << 10         // width of a shown value, in columns of a terminal
	leaderTimeout   = 5 * time.Second // how long a visitor waits to learn where the leader is
)

// A leaderCache holds where the leading daemon was when a viewer last asked for it.
type leaderCache struct {
	mu    sync.Mutex
	where string
	asked time.Time
}

// LookBack implements web.Backlog. It reads the state folder, as the command status does, and adds the passes of this
// process.
func (r *Reader) LookBack(ctx context.Context) watch.LookBack {
	leader := func(saved checkpoint.State) (string, error) { return r.findLeader(ctx, saved) }
	return r.State.LookBack(r.currentState().Name, r.Clock(), r.Picture.Passes(), r.Log, leader)
}

// Timeline implements web.Backlog.
func (r *Reader) Timeline() *watch.Timeline {
	zone := cmp.Or(r.currentState().Zone, time.UTC)
	return r.State.Timeline(r.Clock(), zone)
}

// findLeader returns where the leading daemon is; "": that is not known. A viewer asks the database with
// [View.Leader], at most every 10 seconds.
func (r *Reader) findLeader(ctx context.Context, saved checkpoint.State) (string, error) {
	c := r.currentState()
	switch {
	case c.role == web.Leader || r.State.HasLeader(saved, r.Clock()):
		return watch.Here, nil
	case c.role == web.Standby && (c.daemon == nil || r.Now().Trouble != nil):
		return "", nil
	case c.role == web.Standby:
		return watch.Elsewhere, nil
	}
	l := &r.leader
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Clock().Sub(l.asked) < probeEvery {
		return l.where, nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaderTimeout)
	defer cancel()
	where, err := withView(ctx, r, func(v *View, now time.Time) (string, error) {
		return v.Leader(ctx, r.State, saved, now)
	})
	l.where = where
	l.asked = r.Clock()
	return where, err
}

// Records implements web.Backlog.
func (r *Reader) Records(ctx context.Context, f web.Filter, zone *time.Location) (web.Records, error) {
	return withView(ctx, r, func(v *View, now time.Time) (web.Records, error) {
		if f.ID != "" {
			return r.listOne(ctx, v, f.ID, now, zone)
		}
		after, err := ParsePlace(f.After)
		if err != nil {
			return web.Records{}, &Invalid{Err: err}
		}
		filter, err := filterOf(ctx, v, f, inspect.Listed, now)
		if err != nil {
			return web.Records{}, err
		}
		page, err := v.Table.List(ctx, filter, now, after, f.Limit)
		entries := lists.Map(page.Rows, func(row inspect.Row) web.Entry { return r.entry(v, row, now, zone) })
		return web.Records{Records: entries, Next: PlaceOf(page.Next)}, err
	})
}

// listOne returns the list of the record with the key. It is empty if the table has no such record.
func (r *Reader) listOne(
	ctx context.Context, v *View, id string, now time.Time, zone *time.Location,
) (list web.Records, err error) {
	row, err := v.Row(ctx, id, now)
	switch {
	case err == nil:
		list.Records = []web.Entry{r.entry(v, row, now, zone)}
	case errors.As(err, new(notFound)):
		err = nil
	}
	return list, err
}

// filterOf returns the table's filter for the filter of a page.
func filterOf(ctx context.Context, v *View, f web.Filter, p inspect.Purpose, now time.Time) (table.Filter, error) {
	if f.State != "" && f.Lane != "" {
		return table.Filter{}, invalid("", "lane and state exclude each other")
	}
	s := Selection{State: cmp.Or(f.State, f.Lane), Tier: f.Band, Cause: f.Cause}
	if f.ID != "" {
		s.IDs = []string{f.ID}
	}
	filter, err := v.Choose(ctx, s, p, now)
	filter.WithValues = true
	return filter, err
}

// entry returns what a list of records shows of a row.
func (r *Reader) entry(v *View, row inspect.Row, now time.Time, zone *time.Location) web.Entry {
	row.Zone = zone
	row.Snoozed = r.snoozedUntil(row.Key)
	e := v.Entry(row, now)
	return web.Entry{Entry: e, Retrying: inRetry(v, row, e), Data: r.data(v, row)}
}

// snoozedUntil returns until when the record is snoozed, as the engine of this process remembers it.
func (r *Reader) snoozedUntil(k backlog.Key) (none time.Time) {
	if e := r.engine.Load(); e != nil {
		return e.SnoozedUntil(k)
	}
	return none
}

// inRetry reports whether the record has failed and is tried again, now or later.
func inRetry(v *View, row inspect.Row, e inspect.Entry) bool {
	planned := !time.Time(e.Next).IsZero()
	if s := row.Memory; s != nil && v.Refreshes() {
		running := !s.Deadline.IsZero()
		return running && s.AttemptNo > 1 || !running && s.AttemptNo > 0 && planned
	}
	return row.State == backlog.RowError && planned
}

// data returns the columns that pages show. Times are in the zone of the row.
func (r *Reader) data(v *View, row inspect.Row) (cells []web.Cell) {
	for _, name := range r.currentState().Web.Show {
		c := web.Cell{Name: name}
		value, _ := row.Column(name)
		at, isMoment := v.Table.Moment(name, value)
		switch {
		case value == nil:
		case isMoment && row.Zone != nil:
			c.Value = new(inspect.FormatTime(at, row.Zone))
		default:
			c.Value = new(inspect.Elide(valueText(value), maxShownColumns))
		}
		cells = append(cells, c)
	}
	return cells
}

// valueText returns the value of a column as a page shows it.
func valueText(v any) string {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case json.RawMessage:
		return string(v)
	}
	return fmt.Sprint(v)
}

// Record implements web.Backlog.
func (r *Reader) Record(ctx context.Context, id string, zone *time.Location) (web.Record, error) {
	return withView(ctx, r, func(v *View, now time.Time) (web.Record, error) {
		row, err := v.Row(ctx, id, now)
		if err != nil {
			return web.Record{}, err
		}
		row.Zone = zone
		row.Snoozed = r.snoozedUntil(row.Key)
		sheet := v.Sheet(row, now)
		return web.Record{
			Sheet: sheet, Retrying: inRetry(v, row, sheet.Entry), Data: r.data(v, row),
			Attempts: r.Picture.Attempts(row.Key), Ahead: v.ahead(ctx, row, now),
		}, nil
	})
}

// Choose implements web.Backlog.
func (r *Reader) Choose(ctx context.Context, f web.Filter) (web.Choice, error) {
	return withView(ctx, r, func(v *View, now time.Time) (web.Choice, error) {
		_, c, err := requeued(ctx, v, f, now)
		return c, err
	})
}

// requeued returns the records that Retry puts back to new.
func requeued(ctx context.Context, v *View, f web.Filter, now time.Time) (table.Filter, web.Choice, error) {
	if f.ID == "" && f.Lane != "failed" && f.State == "" {
		const text = "say which records are to be retried: lane=failed, a state, or one record"
		return table.Filter{}, web.Choice{}, &web.Problem{Status: http.StatusBadRequest, Text: text}
	}
	c := web.Choice{Where: f.String()}
	filter, err := filterOf(ctx, v, f, inspect.Requeued, now)
	if err != nil {
		return filter, c, err
	}
	c.Examples = filter.Keys
	c.Records, _, err = v.Table.CountSelected(ctx, filter, inspect.Requeued, now, time.Time{})
	if err != nil || len(filter.Keys) > 0 {
		return filter, c, err
	}
	page, err := v.Table.List(ctx, filter, now, backlog.Cursor{}, 3)
	c.Examples = lists.Map(page.Rows, func(row inspect.Row) backlog.Key { return row.Key })
	return filter, c, err
}

// Retry implements web.Backlog.
func (r *Reader) Retry(ctx context.Context, f web.Filter, expect int) (done web.Retried, err error) {
	daemon := r.currentState().daemon
	if daemon == nil {
		_, err := r.Choose(ctx, f)
		if err == nil {
			err = &web.Problem{Status: http.StatusForbidden, Text: "nothing can be changed here: this process only shows"}
		}
		return done, err
	}
	v := daemon.View()
	now := r.Clock()
	filter, c, err := requeued(ctx, v, f, now)
	if err != nil {
		return done, problemOf(err)
	}
	if c.Records > expect+max(10, expect/100) {
		return done, &web.Problem{Status: http.StatusConflict, Text: fmt.Sprintf("there are %d of them by now, not %d", c.Records, expect)}
	}
	filter.Limit = maxRetried
	done.Selected = min(c.Records, maxRetried)
	var refused Refusals
	done.Reset, err = v.Table.Requeue(ctx, filter, now, refused.Add)
	done.Refused = refused.Refused
	done.Refusals = refused.Refusals
	done.Conflicts = max(0, done.Selected-done.Reset-done.Refused)
	return done, problemOf(err)
}

// Pause implements web.Backlog.
func (r *Reader) Pause(p *watch.Pause) error {
	switch {
	case r.currentState().role == web.Standby:
		return &web.Problem{Status: http.StatusConflict, Text: "this process stands by; say it where the leader runs"}
	case r.State.Path == "":
		return &web.Problem{Status: http.StatusConflict, Text: "state: none keeps nothing: there is no file for a pause"}
	}
	return r.State.Change(func(s *checkpoint.State) { s.Pause = p })
}

// outcomes are the outcomes that pages can give to an attempt, by their names.
var outcomes = map[string]backlog.Outcome{"success": backlog.Succeeded, "error": backlog.Errored, "snooze": backlog.Snoozed}

// Resolve implements web.Backlog.
func (r *Reader) Resolve(ctx context.Context, o web.Resolution) error {
	c := r.currentState()
	if c.daemon == nil || retry.RefresherOf(c.Policy) == nil {
		return &web.Problem{Status: http.StatusConflict, Text: "there are no attempts with a UID here, which the policy refresh has"}
	}
	meant, ok := outcomes[o.Outcome]
	if !ok {
		return &web.Problem{Status: http.StatusBadRequest, Text: "outcome is success, error or snooze"}
	}
	answer := backlog.Answer{UID: o.UID, Outcome: meant, Text: o.Reason}
	if meant == backlog.Snoozed {
		t, err := backlog.ParseSnooze(o.Snooze)
		if err != nil {
			return &web.Problem{Status: http.StatusBadRequest, Text: "snooze is to say how long: " + err.Error()}
		}
		answer.Snooze = t
	}
	reasons, err := c.daemon.Resolve(ctx, []backlog.Answer{answer})
	if err != nil {
		return problemOf(err)
	}
	why := reasons[0]
	switch {
	case errors.Is(why, backlog.ErrConflict):
		return &web.Problem{Status: http.StatusConflict, Text: "no running attempt has this UID: it has ended, or was superseded"}
	case why != nil && !errors.Is(why, backlog.ErrUnavailable):
		return &web.Problem{Status: http.StatusConflict, Text: "the database refuses this outcome, and the row is as it was: " + why.Error()}
	default:
		return problemOf(why)
	}
}

// Simulate implements web.Backlog.
func (r *Reader) Simulate(ctx context.Context, text string) (web.Simulation, error) {
	c := r.currentState()
	other, err := c.ParseSchedule(text)
	if err != nil {
		return web.Simulation{}, &web.Problem{Status: http.StatusBadRequest, Text: err.Error()}
	}
	if n := len(other.Tiers()); n > maxTiers {
		problem := fmt.Sprintf("%d tiers are too many to be simulated here; %d are the most", n, maxTiers)
		return web.Simulation{}, &web.Problem{Status: http.StatusBadRequest, Text: problem}
	}
	if retry.RefresherOf(c.Policy) != nil {
		return web.Simulation{}, &web.Problem{Status: http.StatusBadRequest, Text: "the policy refresh has one tier, and ages do not matter"}
	}
	running := simulate.Candidate{Name: "running", Options: c.Simulation}
	tried := simulate.Candidate{Name: "this one", Options: c.Simulation}
	tried.Schedule = other
	edges := simulate.Edges(c.Schedule, other)
	return withView(ctx, r, func(v *View, now time.Time) (web.Simulation, error) {
		counts, err := v.Table.Count(ctx, now, edges)
		if err != nil {
			return web.Simulation{}, err
		}
		rows := simulate.Counted{Counts: counts, Edges: edges, At: now, Zone: c.Zone}
		assumed := r.assume(&rows)
		would, err := simulate.WhatIf(ctx, rows, []simulate.Candidate{running, tried})
		if err != nil && ctx.Err() != nil {
			err = &web.Problem{Status: http.StatusBadRequest, Text: "this takes too long to be simulated here; backlog simulate --live takes its time"}
		}
		results := lists.Map(would.Results, func(r simulate.Result) any { return r })
		return web.Simulation{Columns: would.Columns, Rows: would.Rows, Assumed: assumed, Plot: would.SVG, Results: results}, err
	})
}
