package simulate

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
)

// A Workload is a stream of records and of how the service answers.
type Workload struct {
	From, To time.Time // records are inserted and passes run in (From, To]

	PerHour float64 // records inserted; more than 0
	Regular bool    // at even intervals; else at random, as in a Poisson process
	Poison  float64 // share of records that never succeed, 0 to 1
	Success float64 // chance that an attempt at another one succeeds, 0 to 1
	Outages []Outage
	Seed    uint64

	// Records are there instead of those that come in, if not nil.
	Records []Record
}

// An Outage is a time during which no attempt succeeds.
type Outage struct{ From, To time.Time } // From <= t < To

// A Record is one of those that are tried.
type Record struct {
	Inserted time.Time // zero: it has no date, which means what Oldest says
	Oldest   bool      // without a date it is the widest tier's, else every tier's

	Eligible, Expires time.Time // not before, not after; zero: at any time

	Failed   bool // it has been tried and failed, and is due by the policy
	Failures backlog.Failures

	Poison bool   // it never succeeds
	Seed   uint64 // of its luck
}

// records returns the workload's, in the order of insertion, and keeps them in
// Records for the next simulation. The same seed gives the same ones on any machine.
func (w *Workload) records(ctx context.Context) []Record {
	if w.Records != nil {
		return w.Records
	}
	random := rand.New(rand.NewPCG(w.Seed, 0))
	gap := float64(time.Hour) / w.PerHour
	list := make([]Record, 0, int(w.To.Sub(w.From).Hours()*w.PerHour*1.01)+16)
	end := float64(w.To.Sub(w.From))
	for at := 0.0; ; {
		if w.Regular {
			at += gap
		} else {
			at += float64(gap * random.ExpFloat64()) // not fused: the same on every machine
		}
		if at > end {
			w.Records = list
			return list
		}
		if len(list)%4096 == 0 && ctx.Err() != nil {
			return list
		}
		list = append(list, Record{
			Inserted: w.From.Add(time.Duration(at)),
			Poison:   random.Float64() < w.Poison,
			Seed:     random.Uint64(),
		})
	}
}

// ReadRows makes the rows of a table the workload's records and returns how
// many of them no pass takes, for want of a date. read calls add with each row.
func (w *Workload) ReadRows(read func(add func(inspect.Row)) error) (left int, err error) {
	w.Records = []Record{}
	err = read(func(r inspect.Row) {
		if r.Unreadable != nil || r.Inserted.IsZero() && r.NoDate == "skip" {
			left++
			return
		}
		w.Records = append(w.Records, Record{
			Inserted: r.Inserted, Oldest: r.NoDate == "oldest", Eligible: r.Eligible, Expires: r.Expires,
			Failed: r.State == backlog.RowError, Failures: r.Failures, Poison: w.Poison == 1, Seed: seedOf(w.Seed, r.Key),
		})
	})
	slices.SortStableFunc(w.Records, func(a, b Record) int { return a.Inserted.Compare(b.Inserted) })
	return left, err
}

// seedOf makes the luck of a record its own, whatever else is in the table.
func seedOf(seed uint64, k backlog.Key) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %v", seed, k)
	return h.Sum64()
}

// outages are several by their beginning, without overlap.
type outages []Outage

// merged returns the outages by their beginning, those that overlap as one.
func merged(outages []Outage) (list outages) {
	sorted := slices.Clone(outages)
	slices.SortFunc(sorted, func(a, b Outage) int { return a.From.Compare(b.From) })
	for _, o := range sorted {
		if n := len(list); n > 0 && !o.From.After(list[n-1].To) {
			list[n-1].To = latest(list[n-1].To, o.To)
			continue
		}
		list = append(list, o)
	}
	return list
}

func latest(a, b time.Time) time.Time {
	return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare)
}

// isOut reports whether there is an outage at that time.
func (list outages) isOut(at time.Time) bool {
	return slices.ContainsFunc(list, func(o Outage) bool { return !at.Before(o.From) && at.Before(o.To) })
}

// lastEnd returns when the last outage before that time ended, zero if there was
// none.
func (list outages) lastEnd(at time.Time) (end time.Time) {
	for _, o := range list {
		if !o.To.After(at) {
			end = o.To
		}
	}
	return end
}

// meets reports whether there is an outage between two times.
func (list outages) meets(from, to time.Time) bool {
	return slices.ContainsFunc(list, func(o Outage) bool { return o.To.After(from) && !o.From.After(to) })
}

// luckOf returns the n-th random number of a record, uniform in [0, 1). A record
// draws the same whatever others do, so that policies are compared on the same
// luck. The numbers are mixed as in SplitMix64.
func luckOf(seed uint64, n int) float64 {
	z := seed + uint64(n)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}
