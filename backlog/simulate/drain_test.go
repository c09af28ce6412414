package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/memory"
	"backlog/backlog/simulate"
	"backlog/backlog/watch"
	"backlog/internal/testkit"
	"backlog/tiers"
)

// drainSchedules are those under which outages are played.
var drainSchedules = [][]tiers.Tier{
	{{MaxAge: day, Every: 5 * time.Minute}, {MaxAge: 7 * day, Every: time.Hour}, {MaxAge: 14 * day, Every: 12 * time.Hour}, {MaxAge: 30 * day, Every: day}},
	{{MaxAge: time.Hour, Every: time.Minute}, {MaxAge: 4 * time.Hour, Every: 10 * time.Minute}, {MaxAge: 2 * day, Every: time.Hour}},
	{{MaxAge: 2 * time.Hour, Every: 5 * time.Minute}, {MaxAge: day, Every: 30 * time.Minute}, {MaxAge: 30 * day, Every: 6 * time.Hour}},
	{{MaxAge: 3 * day, Every: 15 * time.Minute}},
}

// A played outage is one that an engine meets under load.
type played struct {
	schedule    *tiers.Schedule
	length      time.Duration
	perHour     float64
	callTime    time.Duration // the mean one
	concurrency int
	maxRecords  int
	rate        float64
	abortAfter  int
	broken      float64       // the share of the records that are broken at first
	recover     time.Duration // the mean time until they recover
	seed        uint64

	mu       sync.Mutex
	random   *rand.Rand
	down     bool
	pending  map[int64]time.Time // when each was inserted
	waited   map[int64]bool      // those that were pending at the end of the outage and were not tried again
	picture  watch.Picture
	began    time.Time
	said     time.Time
	ended    time.Time
	drained  time.Time
	backlog  int
	recovers map[int64]time.Time
	failed   map[int64]bool
}

// drawPlayed draws an outage whose load the passes can master.
func drawPlayed(t *testing.T, seed uint64) *played {
	r := rand.New(rand.NewPCG(seed, 0))
	pick := func(list ...int) int { return list[r.IntN(len(list))] }
	o := &played{
		schedule:    testkit.Schedule(t, drainSchedules[r.IntN(len(drainSchedules))]...),
		length:      time.Duration((0.3 + 11.7*r.Float64()*r.Float64()) * float64(time.Hour)),
		perHour:     50 + 350*r.Float64(),
		concurrency: pick(1, 2, 4, 8),
		abortAfter:  pick(0, 20, 20),
		broken:      0.15 * r.Float64(),
		recover:     time.Duration((3 + 40*r.Float64()) * float64(time.Minute)),
		seed:        seed,
		random:      rand.New(rand.NewPCG(seed, 1)),
		pending:     make(map[int64]time.Time),
		recovers:    make(map[int64]time.Time),
		failed:      make(map[int64]bool),
	}
	load := 0.05 + 0.45*r.Float64() // the share of the time that calls of new records take
	o.callTime = time.Duration(load * float64(o.concurrency) / o.perHour * float64(time.Hour))
	o.callTime = min(o.callTime, 20*time.Second)
	every := o.schedule.MinInterval().Hours()
	switch r.IntN(4) {
	case 0:
		o.maxRecords = int(3*o.perHour*every) + 20
	case 1:
		o.rate = 3 * o.perHour / 3600
	}
	return o
}

// handle is the handler.
func (o *played) handle(ctx context.Context, r *backlog.Record) error {
	id := r.Key.Part(0).(int64)
	o.mu.Lock()
	took := time.Duration((0.5 + o.random.Float64()) * float64(o.callTime))
	o.mu.Unlock()
	backlog.Sleep(ctx, took)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down || time.Now().Before(o.recovers[id]) {
		return errors.New("broken")
	}
	return nil
}

// observe takes an event of the engine.
func (o *played) observe(ev backlog.Event) {
	change, outage := o.picture.Observe(ev)
	o.mu.Lock()
	defer o.mu.Unlock()
	switch change {
	case watch.Began:
		if o.began.IsZero() {
			o.began = outage.Since
		}
	case watch.Recovered:
		o.foretell(outage, ev.At)
	}
	if ev.Kind != backlog.AttemptEnded {
		return
	}
	id := ev.Record.Key.Part(0).(int64)
	o.failed[id] = true
	if ev.Outcome == backlog.Succeeded {
		delete(o.pending, id)
	}
	if o.waited[id] {
		delete(o.waited, id)
		o.drained = ev.At
	}
}

// foretell says by when the backlog is done.
func (o *played) foretell(outage watch.Outage, at time.Time) {
	if o.down || !o.ended.IsZero() {
		return
	}
	o.ended = at
	pace := watch.PaceOf(o.picture.Passes(), outage.Since, watch.Limit{Concurrency: o.concurrency, Rate: o.rate})
	d := simulate.Drain{
		Counted: simulate.Counted{At: at, PerHour: pace.PerHour, Behavior: simulate.Exponential(pace.Failures, pace.Recovering)},
		Options: simulate.Options{
			Schedule: o.schedule, MaxRecords: o.maxRecords, Rate: o.rate, AbortAfter: o.abortAfter,
			Concurrency: o.concurrency, CallTime: pace.CallTime, NewTable: inMemoryWith(nil),
		},
		Since: outage.Since,
	}
	for _, p := range outage.Running {
		d.Running = append(d.Running, simulate.Running{Tier: p.Tier, Started: p.Started, Failed: p.Failed})
	}
	d.SetEdges()
	d.Bands = make([]inspect.Band, len(d.Edges))
	o.waited = make(map[int64]bool)
	for id, inserted := range o.pending {
		age := at.Sub(inserted)
		if i, _ := slices.BinarySearch(d.Edges, age); i < len(d.Edges) {
			lane := backlog.Fresh
			if o.failed[id] {
				lane = backlog.Failed
			}
			d.Bands[i].Add(lane, 1, time.Time{})
		}
		if inserted.After(outage.Since.Add(-o.schedule.MinInterval())) && inserted.Before(d.Running[0].Started) {
			o.waited[id] = true
		}
	}
	o.backlog = len(o.waited)
	var err error
	o.said, err = d.DrainedBy(context.Background())
	if err != nil {
		panic(err)
	}
}

// play runs the daemon's loop until the backlog is done.
func (o *played) play(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	warmUp := 5*time.Hour + time.Duration(o.random.Float64()*float64(time.Hour))
	store := memory.New(memory.Options{})
	engine := &backlog.Engine{
		Store: store, Concurrency: o.concurrency, MaxRecords: o.maxRecords, Rate: o.rate, AbortAfter: o.abortAfter,
		Handler: backlog.HandlerFunc(o.handle), Observe: o.observe,
	}
	var work sync.WaitGroup
	work.Go(func() {
		if err := (&backlog.Loop{Schedule: o.schedule, Engine: engine, Observe: o.observe}).Run(ctx); err != nil {
			t.Error(err)
		}
	})
	work.Go(func() { o.insert(ctx, t, store) })
	time.Sleep(warmUp)
	o.setDown(true)
	time.Sleep(o.length)
	o.setDown(false)
	for range 48 * 60 {
		time.Sleep(time.Minute)
		o.mu.Lock()
		over := !o.ended.IsZero() && len(o.waited) == 0
		o.mu.Unlock()
		if over {
			break
		}
	}
	stop()
	work.Wait()
}

// insert inserts records at random times.
func (o *played) insert(ctx context.Context, t *testing.T, store *memory.Store) {
	r := rand.New(rand.NewPCG(o.seed, 2))
	for id := int64(0); ; id++ {
		if !backlog.Sleep(ctx, time.Duration(r.ExpFloat64()*float64(time.Hour)/o.perHour)) {
			return
		}
		o.mu.Lock()
		o.pending[id] = time.Now()
		switch luck := r.Float64(); {
		case luck < o.broken:
			o.recovers[id] = time.Now().Add(time.Duration(r.ExpFloat64() * float64(o.recover)))
		case luck > 0.999:
			o.recovers[id] = time.Now().Add(1000 * day)
		}
		o.mu.Unlock()
		if err := store.Insert(memory.Row{Key: backlog.NewKey(id), Status: "NEW", Inserted: time.Now()}); err != nil {
			t.Error(err)
		}
	}
}

func (o *played) setDown(down bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down = down
}

// String describes the outage.
func (o *played) String() string {
	return fmt.Sprintf("tiers from %v, %v, %.0f/h, calls of %v, %d at a time, cap %d, rate %.3f, abort %d, %d records: ended %v, said +%v, was +%v",
		o.schedule.MinInterval(), o.length.Round(time.Minute), o.perHour, o.callTime.Round(time.Millisecond), o.concurrency, o.maxRecords, o.rate, o.abortAfter,
		o.backlog, o.ended.Format(time.TimeOnly), o.said.Sub(o.ended).Round(time.Second), o.drained.Sub(o.ended).Round(time.Second))
}

// tick returns the interval of the narrowest tier that is wide enough for what the outage has kept.
func (o *played) tick() time.Duration {
	for _, t := range o.schedule.Tiers() {
		if o.ended.Sub(o.began) <= t.MaxAge {
			return t.Every
		}
	}
	return 0
}

// Of the outages that an engine meets under load, nine in ten are worked off when it was said that they would be: within
// a tenth of the time, or a tick.
func TestDrainOfPlayedOutages(t *testing.T) {
	const outages = 20
	right := 0
	for seed := range uint64(outages) {
		o := drawPlayed(t, seed)
		synctest.Test(t, o.play)
		off := o.said.Sub(o.drained).Abs()
		switch {
		case o.ended.IsZero() || o.backlog == 0 || len(o.waited) > 0:
			t.Errorf("%d: no outage was worked off: %v, %d wait", seed, o, len(o.waited))
		case off <= max(o.drained.Sub(o.ended)/10, o.tick()):
			right++
		default:
			t.Logf("%d is off by %v: %v", seed, off.Round(time.Second), o)
		}
	}
	t.Logf("%d of %d are right", right, outages)
	if right < outages*9/10 {
		t.Errorf("only %d of %d are right", right, outages)
	}
}
