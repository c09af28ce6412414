package backlog_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/backlog/plan"
)

// A drawnRun is a few passes of a tier, each going on where the one before stopped.
type drawnRun struct {
	maxRecords, abortAfter, concurrency int
	policy                              *backlog.Policy
	fresh, failed                       int             // records at the beginning
	coming                              []int           // fresh records before each pass
	stops                               []time.Duration // of each pass; 0: none
	outcomes                            []error         // of records, in turn
	length                              time.Duration   // of a call, about
}

func drawRun(t *rapid.T) drawnRun {
	small := rapid.IntRange(0, 12)
	r := drawnRun{
		maxRecords:  rapid.OneOf(rapid.Just(0), rapid.Just(1), rapid.IntRange(2, 40)).Draw(t, "max_records"),
		abortAfter:  rapid.OneOf(rapid.Just(0), rapid.IntRange(1, 5)).Draw(t, "abort_after"),
		concurrency: rapid.IntRange(1, 4).Draw(t, "concurrency"),
		fresh:       rapid.IntRange(0, 60).Draw(t, "fresh"),
		failed:      rapid.IntRange(0, 60).Draw(t, "failed"),
		length:      rapid.SampledFrom([]time.Duration{10 * time.Microsecond, time.Millisecond, 100 * time.Millisecond, 5 * time.Second}).Draw(t, "length"),
	}
	if rapid.Bool().Draw(t, "policy") {
		wait := func(int) (least, most time.Duration) { return time.Minute, time.Minute }
		r.policy = &backlog.Policy{Name: "constant", Wait: wait, Retries: -1}
	}
	for range rapid.IntRange(1, 4).Draw(t, "passes") {
		r.coming = append(r.coming, small.Draw(t, "coming"))
		r.stops = append(r.stops, rapid.OneOf(rapid.Just(time.Duration(0)), rapid.Just(7*r.length)).Draw(t, "stop"))
	}
	r.outcomes = rapid.SliceOfN(rapid.SampledFrom([]error{nil, errBroken, errBroken, backlog.Skip, backlog.Reject(errBroken)}), 1, 7).Draw(t, "outcomes")
	return r
}

// A trace is what one pass has read, dispatched and ended, in the order in which that happened.
type trace struct {
	mu    sync.Mutex
	steps []step
}

type step struct {
	page    *backlog.Page // that was read by query
	query   backlog.Query
	record  *backlog.Record // that was dispatched or, with an outcome, has ended
	outcome backlog.Outcome
	ended   bool
}

func (tr *trace) add(s step) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.steps = append(tr.steps, s)
}

// A tracedStore notes what is read.
type tracedStore struct {
	*memory.Store
	*trace
}

func (s *tracedStore) Pending(ctx context.Context, q backlog.Query) (backlog.Page, error) {
	page, err := s.Store.Pending(ctx, q)
	noted := page
	noted.Records = slices.Clone(page.Records)
	s.add(step{page: &noted, query: q})
	return page, err
}

// The decisions of a pass are the plan's alone: what the engine has read, dispatched and ended
// has a plan of its own decide the same.
func TestEngineDoesWhatThePlanSays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := drawRun(rt)
		var err error
		synctest.Test(t, func(t *testing.T) { err = r.run(t) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// run runs the passes and replays each.
func (r drawnRun) run(t *testing.T) error {
	store := &tracedStore{memory.New(memory.Options{Policy: r.policy}), new(trace)}
	add := func(status string, first, n int) {
		for i := range n {
			row := memory.Row{Key: key(first + i), Status: status, Inserted: time.Now().Add(-time.Duration(i) * time.Second)}
			if err := store.Insert(row); err != nil {
				t.Fatal(err)
			}
		}
	}
	add("NEW", 0, r.fresh)
	add("ERROR", 1000, r.failed)
	e := &backlog.Engine{
		Store: store, Policy: r.policy, MaxRecords: r.maxRecords, AbortAfter: r.abortAfter, Concurrency: r.concurrency,
		Handler: backlog.HandlerFunc(func(_ context.Context, rec *backlog.Record) error {
			store.add(step{record: rec})
			time.Sleep(r.length + time.Duration(id(rec))) // no two end at once
			return r.outcomes[id(rec)%len(r.outcomes)]
		}),
		Observe: func(ev backlog.Event) {
			if ev.Kind == backlog.AttemptEnded {
				store.add(step{record: ev.Record, outcome: ev.Outcome, ended: true})
			}
		},
	}
	from := backlog.Resume{}
	for i, coming := range r.coming {
		time.Sleep(time.Minute)
		add("NEW", 2000+100*i, coming)
		ctx := t.Context()
		cancel := func() {}
		if r.stops[i] > 0 {
			ctx, cancel = context.WithTimeout(ctx, r.stops[i]+r.length/2)
		}
		store.steps = nil
		report, err := e.Pass(ctx, backlog.Pass{MaxAge: day, Resume: from})
		stopped := ctx.Err() != nil
		cancel()
		if err != nil {
			return err
		}
		if err := r.replay(from, store.steps, report, stopped); err != nil {
			return fmt.Errorf("pass %d from %+v: %w", i+1, from, err)
		}
		from = report.Resume
	}
	return nil
}

// A replay gives what was traced to a plan of its own.
type replay struct {
	plan.Plan
	lanes   [2]replayedLane
	claimed map[int]plan.Place
	tried   map[int]bool
}

type replayedLane struct {
	walk    *plan.Walk
	reading *plan.Reading
	pages   []replayedPage // that were read and not taken yet
	page    replayedPage
}

type replayedPage struct {
	backlog.Page
	section int
	final   bool
}

// replay returns an error where the plan decides otherwise.
func (r drawnRun) replay(from backlog.Resume, steps []step, report backlog.Report, stopped bool) error {
	p := &replay{claimed: make(map[int]plan.Place), tried: make(map[int]bool)}
	p.Plan = plan.Plan{MaxRecords: r.maxRecords, AbortAfter: r.abortAfter, From: from, ByWait: [2]bool{backlog.Failed: r.policy != nil}}
	for l := range p.lanes {
		p.lanes[l].walk = from.Walk(backlog.Lane(l))
		p.lanes[l].reading = p.lanes[l].walk.Reading()
	}
	aborted := false
	for _, s := range steps {
		switch {
		case s.page != nil:
			if err := p.read(s); err != nil {
				return err
			}
			p.look()
		case s.ended:
			place := p.claimed[id(s.record)]
			if s.outcome != backlog.Succeeded {
				p.tried[id(s.record)] = true
			}
			aborted = p.CountEnd(place.Lane, endOf(s.outcome)) || aborted
		case aborted:
			return fmt.Errorf("record %d was dispatched after failures had ended the pass", id(s.record))
		default:
			if err := p.claimUpTo(s.record); err != nil {
				return err
			}
			p.Dispatched(p.claimed[id(s.record)])
			p.look()
		}
	}
	if !aborted && !stopped {
		p.look()
	}
	if p.Complete() != report.Complete {
		return fmt.Errorf("complete is %t, by the plan %t", report.Complete, p.Complete())
	}
	if got := report.Stopped == backlog.StoppedAbortAfter; got != (aborted && !p.Complete()) {
		return fmt.Errorf("stopped is %q, aborted by the plan %t", report.Stopped, aborted)
	}
	if got, want := fmt.Sprintf("%+v", report.Resume), fmt.Sprintf("%+v", p.Resume()); got != want {
		return fmt.Errorf("the next pass goes on at\n%s, by the plan\n%s", got, want)
	}
	return nil
}

func endOf(o backlog.Outcome) plan.End {
	switch o {
	case backlog.Succeeded:
		return plan.EndSuccess
	case backlog.Errored:
		return plan.EndFailure
	case backlog.Skipped:
		return plan.EndKeptPlace
	}
	return plan.EndNeutral
}

// read takes a page that was read. The size of pages is the reading's own business.
func (p *replay) read(s step) error {
	l := &p.lanes[s.query.Lane]
	next := l.reading.Request()
	if got, want := fmt.Sprint(s.query.After, s.query.Until), fmt.Sprint(next.After, next.Until); got != want {
		return fmt.Errorf("the %v lane was read from %s, by the plan from %s", s.query.Lane, got, want)
	}
	final := l.reading.Read(s.page.Next, s.page.More)
	l.pages = append(l.pages, replayedPage{*s.page, next.Section, final})
	return nil
}

// peek returns the lane's next record, nil if there is none. isRead is false where the engine
// has not read so far.
func (p *replay) peek(lane backlog.Lane) (rec *backlog.Record, isRead bool) {
	l := &p.lanes[lane]
	for len(l.page.Records) == 0 {
		if l.page.final || len(l.pages) == 0 {
			return nil, l.page.final
		}
		l.page = l.pages[0]
		l.pages = l.pages[1:]
		l.walk.Enter(l.page.section)
		p.Enter(lane, l.page.section, l.page.First())
	}
	return &l.page.Records[0], true
}

// next is peek for records that the pass has not taken before.
func (p *replay) next(lane backlog.Lane) (rec *backlog.Record, isRead bool) {
	for {
		rec, isRead = p.peek(lane)
		if rec == nil {
			return nil, isRead
		}
		if _, ok := p.claimed[id(rec)]; !ok && !p.tried[id(rec)] {
			return rec, true
		}
		p.pass(lane)
	}
}

// pass goes on behind the lane's next record.
func (p *replay) pass(lane backlog.Lane) {
	l := &p.lanes[lane]
	l.walk.Pass(l.page.Records[0].Cursor)
	l.page.Records = l.page.Records[1:]
}

// claimUpTo claims what the plan says until it comes to a record that was dispatched.
func (p *replay) claimUpTo(rec *backlog.Record) error {
	for {
		if _, ok := p.claimed[id(rec)]; ok {
			return nil
		}
		lane, room := p.Next()
		if room == 0 {
			return fmt.Errorf("record %d was dispatched, and by the plan nothing more was to be", id(rec))
		}
		next, isRead := p.next(lane)
		switch {
		case !isRead:
			return fmt.Errorf("record %d was dispatched, and by the plan the %v lane was to be read on", id(rec), lane)
		case next == nil:
			p.Exhausted(lane)
			continue
		}
		p.pass(lane)
		p.claimed[id(next)] = p.lanes[lane].walk.Place(next.Cursor)
		p.Claimed(lane, 1)
	}
}

// look finds out what is left, as the engine does while handlers run.
func (p *replay) look() {
	for lane, room := p.Next(); room > 0; lane, room = p.Next() {
		next, isRead := p.next(lane)
		if next != nil || !isRead {
			return
		}
		p.Exhausted(lane)
	}
	for _, lane := range []backlog.Lane{backlog.Fresh, backlog.Failed} {
		if next, isRead := p.peek(lane); next == nil && isRead {
			p.Exhausted(lane)
		}
	}
}
