package simulate

import (
	"context"
	"slices"
	"time"

	"backlog/backlog"
)

// begin has the engine pick the records of the pass.
func (d *daemon) begin(p *pass) {
	d.running[p.tier.Name] = p
	p.tried, p.passed = make(map[int]bool), make(map[turn]bool)
	p.list, p.after = d.pick(p, onGround{d}, d.MaxRecords, -1)
	p.all = p.list
	if d.MaxRecords > 0 && (d.AbortAfter > 0 || d.CallTime > 0 || d.Rate > 0 || len(d.Down) > 0) {
		p.all, _ = d.pick(p, onGround{d}, 0, -1)
	}
	d.fill(p)
}

// pick runs the engine with the cap on a store with a handler that only looks,
// at no more than so many records, and returns those and where the next pass
// would go on.
func (d *daemon) pick(p *pass, store backlog.Store, limit, most int) (list []backlog.Record, after backlog.Resume) {
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	if most == 0 {
		cancel()
	}
	e := &backlog.Engine{
		Store: store, Policy: d.Policy, MaxRecords: limit,
		Now: func() time.Time { return d.now },
		Handler: backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
			if list = append(list, *r); len(list) == most {
				cancel()
			}
			return backlog.Skip
		}),
	}
	pass := backlog.TierPass(d.Schedule, p.tier)
	pass.Now, pass.Resume = p.now, p.resume
	report, err := e.Pass(ctx, pass)
	d.fail(err)
	after = report.Resume
	if d.Policy != nil {
		after.FailedLast = backlog.Cursor{} // it is for what was skipped, and this was looked at
	}
	return list, after
}

// pickAgain works out where the next pass goes on after this one, which has
// tried so many records, or all, when others have gone on beside it.
func (d *daemon) pickAgain(p *pass, most int) {
	table, added := d.NewTable(), make(map[int]bool)
	for i := range p.all {
		r := &p.all[i]
		at := turn{place(r), r.Lane}
		if p.passed[at] || added[at.place] {
			continue
		}
		added[at.place] = true
		row := *d.fates[at.place].Record
		row.Failed, row.Failures = r.Lane == backlog.Failed, r.Failures
		d.fail(table.Add(at.place, &row))
	}
	_, p.after = d.pick(p, table, d.MaxRecords, most)
	// Those that this pass has tried itself are behind the others, unlooked at.
	rest := slices.IndexFunc(p.all, func(r backlog.Record) bool { return r.Lane == backlog.Failed && place(&r) == p.lastFailed })
	if d.Policy == nil && p.taken == d.MaxRecords && p.after.FailedLast.IsZero() && rest >= 0 && rest < len(p.all)-1 {
		p.after.FailedLast = p.all[rest].Cursor
	}
}

// onGround is the table without the records that are at a handler.
type onGround struct{ *daemon }

func (g onGround) Pending(ctx context.Context, q backlog.Query) (backlog.Page, error) {
	page, err := g.table.Pending(ctx, q)
	page.Records = slices.DeleteFunc(page.Records, func(r backlog.Record) bool { return g.isFlying(place(&r)) })
	return page, err
}

func (g onGround) Settle(context.Context, []backlog.Settlement) ([]backlog.Unsettled, error) {
	return nil, nil // what is looked at is skipped
}

// isFlying reports whether the record has been handed out and not been settled.
func (d *daemon) isFlying(place int) bool {
	f := &d.fates[place]
	return f.flying || f.settled.After(d.now)
}

// lookAgain picks the records of the failed lane anew when that has its turn,
// if this is not the moment at which the pass began: others have gone on since.
func (d *daemon) lookAgain(p *pass) {
	if p.failed || p.at < len(p.list) && p.list[p.at].Lane == backlog.Fresh {
		return
	}
	p.failed = true
	if d.now.Equal(p.now) {
		return
	}
	isFailed := func(r backlog.Record) bool { return r.Lane == backlog.Failed }
	failed, _ := d.pick(p, onGround{d}, 0, -1)
	failed = slices.DeleteFunc(failed, func(r backlog.Record) bool { return !isFailed(r) })
	p.all = append(slices.DeleteFunc(slices.Clone(p.all), isFailed), failed...)
	failed = slices.DeleteFunc(failed, func(r backlog.Record) bool { return p.tried[place(&r)] })
	p.list = slices.Concat(p.list[:p.at], failed, slices.DeleteFunc(slices.Clone(p.list[p.at:]), isFailed))
}
