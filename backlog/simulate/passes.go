package simulate

import (
	"context"
	"errors"
	"time"

	"backlog/backlog"
	"backlog/tiers"
)

// A Table is a store that records can be put into.
type Table interface {
	backlog.Store
	// Add puts in a record under its place among those of the workload, from
	// 0, which is its key as an int64.
	Add(place int, r *Record) error
}

// errDown is what the simulated service answers.
var errDown = errors.New("down")

// passes goes through the workload pass by pass, with the engine of the daemon
// on the table: what a cap or an abort leaves for the next pass is known only
// so. A pass takes no time.
func (x *run) passes(ctx context.Context, records []Record) error {
	var now time.Time
	var luck float64 // of the attempt that is under way: there is one at a time
	tries := make([]int, len(records))
	down := make([]time.Time, len(records)) // the end of an outage that it has been tried in
	over := make([]bool, len(records))
	e := &backlog.Engine{
		Store: x.Table, Policy: x.Policy, MaxRecords: x.MaxRecords, AbortAfter: x.AbortAfter,
		Now: func() time.Time { return now }, Random: func() float64 { return luck },
		Handler: backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
			i := place(r)
			tries[i]++
			luck = luckOf(records[i].Seed, 2*tries[i]+1)
			outage, out := x.service.outage(now)
			if out {
				down[i] = outage.To
			}
			success := !out && !records[i].Poison && luckOf(records[i].Seed, 2*tries[i]) < x.service.success
			x.one(now, i, success)
			if !success {
				return errDown
			}
			over[i] = true
			x.succeeds(now, down[i])
			return nil
		}),
		Observe: func(ev backlog.Event) {
			if ev.Kind == backlog.AttemptEnded && ev.GivenUp {
				over[place(ev.Record)] = true
				x.dies(now)
			}
		},
	}
	resume := make(map[string]backlog.Resume)
	added := 0
	for at := x.Schedule.Next(x.w.From); !at.After(x.w.To) && ctx.Err() == nil; at = x.Schedule.Next(at) {
		for ; added < len(records) && (records[added].Inserted.IsZero() || records[added].Inserted.Before(at)); added++ {
			if err := x.Table.Add(added, &records[added]); err != nil {
				return err
			}
		}
		now = at
		pick := tiers.Coalesce(x.Schedule.Due(at.Add(-1), at), func(tiers.Tier) bool { return true })
		t := pick.Start.Tier
		report, err := e.Pass(ctx, backlog.Pass{Tier: t.Name, MaxAge: t.MaxAge, Widest: t.MaxAge == x.widest, Now: at, Resume: resume[t.Name]})
		if err != nil {
			return err
		}
		resume[t.Name] = report.Resume
	}
	for i := range records {
		if gone := x.gone(&records[i], time.Time{}); !over[i] && !gone.IsZero() && !gone.After(x.w.To) {
			x.dies(gone)
		}
	}
	return nil
}

func place(r *backlog.Record) int { return int(r.Key.Part(0).(int64)) }
