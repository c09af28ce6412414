// Package reader reads a table for people: what commands, pages and metrics show of it, and which records
// they select. A [View] is the table with its schedule and policy. A [Reader] is what pages show of a process
// and its table; it implements [web.Backlog]. A [Server] serves a Reader, has metrics and sends pings.
package reader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"backlog/backlog"
	"backlog/backlog/checkpoint"
	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
	"backlog/backlog/retry"
	"backlog/backlog/simulate"
	"backlog/backlog/table"
	"backlog/backlog/watch"
	"backlog/backlog/web"
	"backlog/internal/lists"
	"backlog/tiers"
)

// Rules are the configuration of records. They are not changed while they are in use.
type Rules struct {
	Name       string          // of the work on the table; "": the only one
	Mapping    mapping.Mapping // as configured, without what the table itself adds
	Schedule   *tiers.Schedule
	Policy     *backlog.Policy // nil: age alone decides
	MaxRecords int             // per pass; 0: no cap
}

// A View is a table as people read it. Its methods may be called concurrently.
type View struct {
	Rules
	Table *table.Table
}

// Refreshes reports whether the policy is refresh, under which the table has attempts.
func (v *View) Refreshes() bool { return retry.RefresherOf(v.Policy) != nil }

// notFound is the error of a record that does not exist, or is not in a state that is needed.
type notFound struct{ error }

// Row returns the row with the key, as people write it. It returns an error if the table has no such row.
func (v *View) Row(ctx context.Context, id string, now time.Time) (inspect.Row, error) {
	key, err := v.Table.ParseKey(id)
	if err != nil {
		return inspect.Row{}, &Invalid{Err: err}
	}
	row, ok, err := v.Table.Find(ctx, key, now)
	if err == nil && !ok {
		err = notFound{fmt.Errorf("table %s has no record %s", v.Mapping.Name, inspect.Shown(key.String()))}
	}
	return row, err
}

// PendingRow returns the row with the key, and the narrowest tier for its age or, if the row is older than every
// tier, the zero Tier. It returns an error if passes do not take the row for a reason other than its age or its
// retries.
func (v *View) PendingRow(ctx context.Context, id string, now time.Time) (row inspect.Row, tier tiers.Tier, err error) {
	row, err = v.Row(ctx, id, now)
	if err != nil {
		return row, tier, err
	}
	why := ""
	if p := retry.RefresherOf(v.Policy); p != nil {
		tier = v.Schedule.Widest()
		why = row.NotStarted(refreshing(p, row), v.Schedule, now)
	} else {
		tier = row.Narrowest(v.Schedule, now)
		why = row.Never(now)
	}
	if why != "" {
		err = fmt.Errorf("record %s is not handled: %s", inspect.Shown(row.Key.String()), why)
	}
	return row, tier, err
}

// Status counts the records.
func (v *View) Status(ctx context.Context, now time.Time) (*inspect.Status, error) {
	if v.Refreshes() {
		counts, err := v.Table.CountAttempts(ctx)
		return inspect.NewRefreshStatus(counts, v.Schedule, now), err
	}
	counts, err := v.Table.Count(ctx, now, v.Schedule.MaxAges())
	if err != nil {
		return nil, err
	}
	status := inspect.NewStatus(counts, v.Schedule, now)
	m := &v.Mapping
	status.Configured = m.StatusTexts(m.New, m.Error, m.Success, m.Dead)
	return status, nil
}

// Entry returns what a list shows of a row.
func (v *View) Entry(row inspect.Row, now time.Time) inspect.Entry {
	if p := retry.RefresherOf(v.Policy); p != nil && row.Memory != nil {
		return row.AttemptEntry(v.Schedule, refreshing(p, row), now)
	}
	return row.Entry(v.Schedule, v.Policy, now)
}

// Sheet returns everything that is known about a row.
func (v *View) Sheet(row inspect.Row, now time.Time) *inspect.Sheet {
	if p := retry.RefresherOf(v.Policy); p != nil && row.Memory != nil {
		return row.AttemptSheet(v.Schedule, refreshing(p, row), now)
	}
	return row.Sheet(v.Schedule, v.Policy, v.MaxRecords, now)
}

// refreshing returns the policy refresh with the rule of the row.
func refreshing(p *retry.Refresher, row inspect.Row) inspect.Refreshing {
	rule, bad := p.Rule(*row.Memory)
	return inspect.Refreshing{Refresher: p, Rule: rule.Next, Bad: bad, GiveUpAfter: p.Settings().GiveUpAfter}
}

// ahead returns what happens to a record that keeps failing; nil: that is not known.
func (v *View) ahead(ctx context.Context, row inspect.Row, now time.Time) *web.Ahead {
	life := simulate.RemainingLife(ctx, v.Schedule, v.Policy, row, now)
	if life == nil {
		return nil
	}
	a := &web.Ahead{Until: inspect.Stamp(life.Expires), Then: "it is older than every tier, and not tried any more"}
	switch {
	case life.GivenUp:
		a.Until = inspect.Stamp(life.Last)
		a.Then = "it is out of retries"
	case life.Expires.Equal(row.Expires):
		a.Then = "it expires"
	case v.Table.HasDead():
		a.Then = "it is older than every tier, and gets the dead status"
	}
	a.Tiers = lists.Map(life.ByTier, func(t simulate.TierAttempts) web.RemainingTicks {
		return web.RemainingTicks{Tier: t.Name, Ticks: t.Attempts}
	})
	return a
}

// Leader returns where the leading daemon is: [watch.Here], if it uses this state file, [watch.Elsewhere] or
// [watch.Nobody]. Unless the state file shows the daemon, it takes the leader lock for a moment; a daemon that
// starts just then finds the lock taken.
func (v *View) Leader(
	ctx context.Context, state *checkpoint.File, saved checkpoint.State, now time.Time,
) (string, error) {
	if state.HasLeader(saved, now) {
		return watch.Here, nil
	}
	lock, err := v.Table.Locker(backlog.Work{Name: v.Name}).TryLock(ctx, backlog.LeaderLock)
	switch {
	case err == nil:
		return watch.Nobody, lock.Unlock()
	case errors.Is(err, backlog.ErrLocked):
		return watch.Elsewhere, nil
	}
	return "", err
}
