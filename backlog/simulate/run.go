package simulate

import (
	"cmp"
	"context"
	"errors"
	"time"

	"backlog/backlog"
	"backlog/tiers"
)

// Options say under which schedule, policy and limits a workload is simulated.
type Options struct {
	Schedule *tiers.Schedule
	Policy   *backlog.Policy // nil: progressive
	Bucket   time.Duration   // width of a bucket of the series; 0: one that makes about a hundred buckets

	// Under a cap, an abort, a rate, a call time or a downtime, passes depend on each other.
	// Run then simulates the daemon pass by pass, on an empty table of NewTable. Otherwise it
	// simulates each record alone, which is faster.
	MaxRecords int     // as in [backlog.Engine]; 0: no cap
	AbortAfter int     // as in [backlog.Engine]; 0: never
	Rate       float64 // as in [backlog.Engine]; 0: no limit
	NewTable   func() Table

	CallTime    time.Duration // duration of a handler call; 0: no time passes
	Concurrency int           // handler calls at a time, over all passes; 0: 1
	Down        []Outage      // when the daemon does not run

	callTime func(record, try int) time.Duration // duration of each call; nil: CallTime
	running  []Running                           // passes that are under way at the beginning

	Ticks bool // fill in Report.Ticks

	// Observe, if not nil, is called with every attempt: when it begins, the tier of its pass,
	// the record's place in the workload, and whether it succeeds. Only the attempts at one
	// record come in order.
	Observe func(at time.Time, tier string, record int, success bool)

	// Progress, if not nil, is called about a thousand times at most, by the goroutine of Run,
	// with how many records are done and how many there are.
	Progress func(done, of int)
}

// passByPass reports whether the daemon is simulated, not each record alone.
func (o *Options) passByPass() bool {
	return o.MaxRecords > 0 || o.AbortAfter > 0 || o.Rate > 0 || o.CallTime > 0 || len(o.Down) > 0 || len(o.running) > 0
}

// A run is a simulation under way.
type run struct {
	Options
	workload    *Workload
	outages     outages
	tiers       []tiers.Tier
	rule        *backlog.Rule // of the policy
	widest      time.Duration
	report      *Report
	minutes     []minute // since workload.From
	ticks       map[time.Time]Tick
	ctx         context.Context
	currentPass *pass // the pass whose attempt is being counted; nil: records are simulated alone
	reported    int   // the last value given to Progress
}

// Run simulates the workload: a record is tried at each tick at which the schedule and the
// policy make it due. Unless calls take time, every pass of the simulated daemon ends at once.
// When ctx is done, Run returns the report so far with the context's error; any other error is
// the table's.
func Run(ctx context.Context, w *Workload, o Options) (*Report, error) {
	records := w.records(ctx)
	o.Bucket = cmp.Or(o.Bucket, bucketWidth(w.To.Sub(w.From)))
	o.Down = mergeOutages(o.Down)
	buckets := int((w.To.Sub(w.From) + o.Bucket - 1) / o.Bucket)
	r := &run{
		Options:  o,
		workload: w,
		outages:  mergeOutages(w.Outages),
		tiers:    o.Schedule.Tiers(),
		rule:     o.Policy.Rule(),
		widest:   o.Schedule.Widest().MaxAge,
		report:   &Report{Records: len(records), Series: make([]Bucket, buckets)},
		minutes:  make([]minute, int(w.To.Sub(w.From)/time.Minute)+2),
		ticks:    make(map[time.Time]Tick),
		ctx:      ctx,
	}
	var err error
	if o.passByPass() {
		err = r.simulateDaemon(records)
	} else {
		r.simulateRecords(records)
	}
	r.finish()
	err = errors.Join(err, ctx.Err())
	r.report.Complete = err == nil
	return r.report, err
}

// simulateRecords simulates each record alone. Where age alone decides when a record is tried, and it is known
// from when on attempts succeed, it is counted tick by tick with others rather than followed.
func (r *run) simulateRecords(records []Record) {
	var countable []*Record
	for i := range records {
		if i%1024 == 0 && r.ctx.Err() != nil {
			r.report.Records = i
			break
		}
		r.reportProgress(i - len(countable))
		rec := &records[i]
		r.minute(rec.Inserted).added++
		isKnown := !r.workload.canSucceed(rec) || r.workload.Learned != nil
		ageDecides := r.Policy == nil && !rec.Inserted.IsZero() && rec.Eligible.IsZero() && rec.Expires.IsZero()
		if isKnown && ageDecides && r.Observe == nil {
			countable = append(countable, rec)
			continue
		}
		r.simulateRecord(i, rec)
	}
	r.countTogether(countable)
}

// bucketIndex returns the index of the bucket that holds the time. Times before the workload
// belong to the first bucket.
func (r *run) bucketIndex(at time.Time) int {
	i := int((at.Sub(r.workload.From) - 1) / r.Bucket)
	return min(max(i, 0), len(r.report.Series)-1)
}

// countAttempts counts n attempts that begin at a time.
func (r *run) countAttempts(at time.Time, n, failed int) {
	r.report.Attempts += n
	r.report.Failed += failed
	b := &r.report.Series[r.bucketIndex(at)]
	b.Attempts += n
	b.Failed += failed
	r.minutes[int(at.Sub(r.workload.From)/time.Minute)].calls += uint32(n)
	passStart := at
	if r.currentPass != nil {
		passStart = r.currentPass.now
		r.reportProgressAt(at, r.report.Records)
	}
	if !r.Ticks {
		return
	}
	t := r.ticks[passStart]
	if t.Tier == "" {
		t.Tier = r.tierAt(at)
	}
	t.At = passStart
	t.Attempts += n
	r.ticks[passStart] = t
}

// reportProgressAt reports the progress of a simulation that goes through the last n records
// together, in the order of time, and has come to the given time.
func (r *run) reportProgressAt(at time.Time, n int) {
	share := float64(at.Sub(r.workload.From)) / float64(r.workload.To.Sub(r.workload.From))
	r.reportProgress(r.report.Records - n + int(share*float64(n)))
}

// reportProgress calls Progress if at least a thousandth was done since the last call.
func (r *run) reportProgress(done int) {
	if r.Progress != nil && done-r.reported > r.report.Records/1000 {
		r.reported = done
		r.Progress(done, r.report.Records)
	}
}

// countSuccess counts a record that has succeeded: it is no longer pending.
func (r *run) countSuccess(at time.Time, rec *Record) {
	r.report.Succeeded++
	r.minute(at).removed++
	if end := r.outages.lastEnd(at); end.After(rec.Inserted) {
		r.report.Recovery = append(r.report.Recovery, at.Sub(end))
	}
}

// countDeath counts a record that is never tried again: it is no longer pending.
func (r *run) countDeath(at time.Time, rec *Record) {
	from := r.workload.From
	at = latest(at, from)
	r.report.Dead++
	r.report.Series[r.bucketIndex(at)].Dead++
	r.minute(at).removed++
	if r.workload.canSucceed(rec) && at.After(from) && r.outages.overlap(rec.Inserted, at) {
		r.report.Lost++
	}
}

// nextTick returns the first tick after the time whose pass takes the record, or the
// zero time.
func (r *run) nextTick(rec *Record, after time.Time) time.Time {
	switch {
	case !rec.Inserted.IsZero():
		return nextTickByAge(r.tiers, rec.Inserted, after)
	case rec.Oldest:
		return r.Schedule.Widest().Next(after)
	}
	return r.Schedule.Next(after)
}

// countAttempt counts one attempt and gives it to Observe.
func (r *run) countAttempt(at time.Time, record int, success bool) {
	failed := 1
	if success {
		failed = 0
	}
	r.countAttempts(at, 1, failed)
	if r.Observe != nil {
		r.Observe(at, r.tierAt(at), record, success)
	}
}

// tierAt returns the tier whose pass makes the attempt at a time. Where records are simulated
// alone, that time is a tick.
func (r *run) tierAt(at time.Time) string {
	if r.currentPass != nil {
		return r.currentPass.tier.Name
	}
	due := r.Schedule.Due(at.Add(-1), at)
	return due[len(due)-1].Tier.Name
}

// simulateRecord simulates the attempts at the i-th record alone.
func (r *run) simulateRecord(i int, rec *Record) {
	memory := rec.Memory
	if memory == nil {
		memory = new(backlog.Memory)
	}
	expiry := r.expiry(rec)
	at := latest(rec.Inserted, r.workload.From)
	if rec.Failed {
		if _, ok := r.rule.At(backlog.Failed, memory); !ok { // it is never due again
			r.countExpiry(rec, r.workload.To)
			return
		}
		at = waitUntilDue(r.rule, memory, at)
	}
	at = latest(at, rec.Eligible.Add(-1))
	for n := 1; ; n++ {
		at = r.nextTick(rec, at)
		if !expiry.IsZero() && (at.IsZero() || at.After(expiry)) {
			r.countExpiry(rec, r.workload.To)
			return
		}
		if at.After(r.workload.To) || n%4096 == 0 && r.ctx.Err() != nil {
			return
		}
		success := r.succeeds(rec, n, at)
		r.countAttempt(at, i, success)
		if success {
			r.countSuccess(at, rec)
			return
		}
		var givenUp bool
		memory, givenUp = afterFailure(r.Policy, memory, at, delayRoll(rec, n))
		if givenUp {
			r.countDeath(at, rec)
			return
		}
		at = waitUntilDue(r.rule, memory, at)
	}
}

// succeeds reports whether the n-th attempt at a record, from 1, succeeds.
func (r *run) succeeds(rec *Record, n int, at time.Time) bool {
	if rec.Poison || r.outages.active(at) {
		return false
	}
	if r.workload.Learned != nil {
		return r.workload.hasRecovered(rec, at)
	}
	return roll(rec.Seed, 2*n) < r.workload.Success
}

// delayRoll returns the random number by which the delay after the n-th attempt is drawn.
func delayRoll(rec *Record, n int) func() float64 {
	return func() float64 { return roll(rec.Seed, 2*n+1) }
}

// countExpiry counts the death of a record that is not tried again, if it dies by its age
// before the given time.
func (r *run) countExpiry(rec *Record, before time.Time) {
	if expiry := r.expiry(rec); !expiry.IsZero() && expiry.Before(before) {
		r.countDeath(expiry.Add(1), rec)
	}
}

// afterFailure returns what a row remembers after an attempt that fails, and whether that was
// the last attempt.
func afterFailure(p *backlog.Policy, m *backlog.Memory, at time.Time, random func() float64) (*backlog.Memory, bool) {
	next, last := p.End(m, backlog.End{Outcome: backlog.Errored, At: at, Random: random})
	return cmp.Or(next, m), last
}

// waitUntilDue returns the time after which the first tick tries a failed record: just before
// it is due, so that a tick at that very moment counts, or the given time if that is later.
func waitUntilDue(rule *backlog.Rule, m *backlog.Memory, after time.Time) time.Time {
	if due, ok := rule.At(backlog.Failed, m); ok && due.After(after) {
		return due.Add(-1)
	}
	return after
}

// expiry returns the last moment at which the record can be tried, zero if there is no such
// limit.
func (r *run) expiry(rec *Record) time.Time {
	if rec.Inserted.IsZero() {
		return rec.Expires
	}
	return earliest(rec.Inserted.Add(r.widest), rec.Expires)
}

// A minute counts the calls that begin in it, and the records that are added to and removed
// from what is pending until its end. Records are added before any is removed, because a tick
// takes those that were inserted before it.
type minute struct {
	calls   uint32
	added   uint32
	removed uint32
}

// minute returns the minute that the time is in or is the end of.
func (r *run) minute(t time.Time) *minute {
	i := int((t.Sub(r.workload.From) + time.Minute - 1) / time.Minute)
	return &r.minutes[min(max(0, i), len(r.minutes)-1)]
}
