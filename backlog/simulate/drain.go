package simulate

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"backlog/backlog"
)

// A Drain is what is left to do when an outage is over: each record that the outage has kept is to be tried again.
type Drain struct {
	Counted           // all pending records, at the end of the outage
	Options           // of the daemon; a call takes CallTime while all is well
	Since   time.Time // of the outage

	// Running are the passes under way. The outage ended with the first, if its pass is under way.
	Running []Running
}

// Running is a pass that is under way when a simulation begins.
type Running struct {
	Tier    string
	Started time.Time
	Failed  int // records that have failed in it, which it does not try again

	failed []int // their places in the workload
}

// SetEdges sets the ages at which the pending records are to be counted: the ages of [Edges], and the ages of the oldest and
// the youngest record that the outage has kept. At and Since are set before.
func (d *Drain) SetEdges() {
	d.Edges = Edges(d.Schedule)
	widest := d.Edges[len(d.Edges)-1]
	for _, age := range []time.Duration{d.At.Sub(d.oldest()), d.At.Sub(d.end())} {
		if 0 < age && age < widest {
			d.Edges = append(d.Edges, age)
		}
	}
	slices.Sort(d.Edges)
	d.Edges = slices.Compact(d.Edges)
}

// oldest returns since when records were inserted that met the outage at their first attempt.
func (d *Drain) oldest() time.Time { return d.Since.Add(-d.Schedule.MinInterval()) }

// end returns until when records were inserted that the outage has kept.
func (d *Drain) end() time.Time {
	if len(d.Running) > 0 {
		return d.Running[0].Started
	}
	return d.At
}

// drainHorizons are how far ahead the end of a backlog is looked for.
var drainHorizons = []time.Duration{6 * time.Hour, 2 * 24 * time.Hour, 16 * 24 * time.Hour}

// maxArrivals is how many new records are simulated at most.
const maxArrivals = 50_000

// DrainedBy simulates the passes after the outage, and returns when the last record that the outage has kept is
// tried again; zero: that is not known, or passes are too slow for it ever to come.
func (d *Drain) DrainedBy(ctx context.Context) (time.Time, error) {
	if d.Policy != nil && d.Policy.Wait == nil {
		return time.Time{}, nil // what has failed is never tried again, or ages do not matter
	}
	for _, horizon := range drainHorizons {
		done, err := d.within(ctx, horizon)
		if err != nil || !done.IsZero() {
			return done, err
		}
	}
	return time.Time{}, nil
}

// within is DrainedBy for a time that is not more than the horizon after the outage.
func (d *Drain) within(ctx context.Context, horizon time.Duration) (done time.Time, err error) {
	w := &Workload{From: d.At.UTC(), To: d.At.UTC().Add(horizon), Seed: 1, Success: 1, Learned: d.Behavior, outageBegan: d.Since}
	scale := max(divideUp(d.total(), maxPoints), int(d.PerHour*horizon.Hours()/maxArrivals)+1)
	kept := d.addPending(w, scale)
	w.addArrivals(d.PerHour / float64(scale))

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	o := d.Options.scaled(scale, d.Behavior)
	o.CallTime *= time.Duration(scale)
	o.Down = nil
	left := len(kept)
	o.Observe = func(at time.Time, _ string, record int, _ bool) {
		if !kept[record] {
			return
		}
		delete(kept, record)
		left--
		done = latest(done, at.Add(o.CallTime))
		if left == 0 {
			stop()
		}
	}
	if left == 0 {
		return w.From, nil
	}
	o.running = d.underWay(w, scale)
	_, err = Run(ctx, w, o)
	switch {
	case left == 0:
		return done, nil
	case errors.Is(err, context.Canceled), err == nil:
		return time.Time{}, ctx.Err()
	}
	return time.Time{}, err
}

// addPending adds the pending records to the workload, spread evenly over their bands, and returns the indexes of
// those that the outage has kept.
func (d *Drain) addPending(w *Workload, scale int) (kept map[int]bool) {
	kept = make(map[int]bool)
	random := rand.New(rand.NewPCG(w.Seed, 2))
	for i, edge := range slices.Backward(d.Edges) {
		younger := time.Duration(0)
		if i > 0 {
			younger = d.Edges[i-1]
		}
		counts := []int{d.Bands[i].Fresh, d.Bands[i].Failed}
		for lane, n := range counts {
			points := (n + random.IntN(scale)) / scale
			for k := range points {
				age := edge - time.Duration((float64(k)+0.5)/float64(points)*float64(edge-younger))
				w.Records = append(w.Records, Record{
					Inserted: w.From.Add(-age),
					Failed:   backlog.Lane(lane) == backlog.Failed,
					Seed:     random.Uint64(),
				})
			}
		}
	}
	slices.SortStableFunc(w.Records, func(a, b Record) int { return a.Inserted.Compare(b.Inserted) })
	oldest := d.oldest()
	widest := d.Schedule.Widest().MaxAge
	end := d.end()
	for i := range w.Records {
		r := &w.Records[i]
		isKept := !r.Inserted.Before(oldest) && r.Inserted.Before(end)
		if isKept && w.From.Sub(r.Inserted) <= widest {
			kept[i] = true
		}
		if w.Learned != nil {
			r.Poison = w.neverRecovers(r)
		}
		d.remember(r, w.From)
	}
	return kept
}

// remember sets what the row of a failed record remembers, if all attempts at it until now have failed.
func (d *Drain) remember(r *Record, now time.Time) {
	if !r.Failed || d.Policy == nil {
		return
	}
	memory := new(backlog.Memory)
	rule := d.Policy.Rule()
	at := r.Inserted
	for n := 1; ; n++ {
		at = nextTickByAge(d.Schedule.Tiers(), r.Inserted, at)
		if at.IsZero() || at.After(now) {
			break
		}
		next, givenUp := afterFailure(d.Policy, memory, at, delayRoll(r, n))
		if givenUp {
			break
		}
		memory = next
		at = waitUntilDue(rule, memory, at)
	}
	r.Memory = memory
}

// underWay returns the passes that are under way at the end of the outage. The records that have failed in one are the
// youngest ones, which it has tried first.
func (d *Drain) underWay(w *Workload, scale int) []Running {
	var list []Running
	for _, p := range d.Running {
		t, ok := d.Schedule.ByName(p.Tier)
		if !ok { // a reload has removed it
			continue
		}
		p.failed = nil
		failed := divideUp(p.Failed, scale)
		for i := len(w.Records) - 1; i >= 0 && len(p.failed) < failed; i-- {
			r := &w.Records[i]
			if r.Failed && r.Inserted.Before(p.Started) && p.Started.Sub(r.Inserted) <= t.MaxAge {
				p.failed = append(p.failed, i)
			}
		}
		list = append(list, p)
	}
	return list
}
