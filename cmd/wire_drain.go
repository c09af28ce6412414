package cmd

import (
	"context"
	"time"

	"backlog/backlog/simulate"
	"backlog/backlog/watch"
)

// drainTimeout bounds how long the end of a backlog is looked for.
const drainTimeout = 5 * time.Second

// drainedBy returns about when the backlog of an outage that has ended is done, by what passes were like before; zero: that
// is not known.
func (a *setup) drainedBy(ctx context.Context, o watch.Outage, ended time.Time, passes []watch.Pass) time.Time {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	policy := policyOf(a.cfg.Policy)
	if policy != nil && policy.Wait == nil { // a failed record is never tried again, or ages do not matter
		return time.Time{}
	}
	options := simulation(a.cfg, policy)
	pace := watch.PaceOf(passes, o.Since, watch.Limit{Concurrency: options.Concurrency, Rate: options.Rate})
	options.CallTime = pace.CallTime
	d := simulate.Drain{Options: options, Since: o.Since}
	d.At = ended
	d.PerHour = pace.PerHour
	d.Behavior = simulate.Exponential(pace.Failures, pace.Recovering)
	for _, p := range o.Running {
		d.Running = append(d.Running, simulate.Running{Tier: p.Tier, Started: p.Started, Failed: p.Failed})
	}
	d.SetEdges()
	counts, err := a.table.Count(ctx, ended, d.Edges)
	if err != nil {
		return time.Time{}
	}
	d.Counts = counts
	by, err := d.DrainedBy(ctx)
	if err != nil {
		return time.Time{}
	}
	return by.Round(time.Second).UTC()
}
