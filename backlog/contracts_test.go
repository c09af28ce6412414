package backlog_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/internal/testkit"
)

// These stores and handlers are written from the documentation of the interfaces alone. The
// compiler checks that each is what it says, the tests that the engine calls each method.

// visits are the names of methods that were called.
type visits struct{ sync.Map }

func (v *visits) note(method string) { v.Store(method, true) }

func (v *visits) want(t *testing.T, methods ...string) {
	t.Helper()
	for _, m := range methods {
		if _, ok := v.Load(m); !ok {
			t.Errorf("%s was not called", m)
		}
	}
}

// A postOffice is a mailbox that does all that a store may do: take what you need.
type postOffice struct {
	mailbox
	visits visits
}

var (
	_ backlog.Store       = (*postOffice)(nil)
	_ backlog.Pinger      = (*postOffice)(nil)
	_ backlog.Prober      = (*postOffice)(nil)
	_ backlog.Trier       = (*postOffice)(nil)
	_ backlog.StrayFinder = (*postOffice)(nil)
	_ backlog.Expirer     = (*postOffice)(nil)
	_ backlog.Rehearser   = (*postOffice)(nil)
	_ backlog.Verifier    = (*postOffice)(nil)
	_ backlog.Finisher    = (*postOffice)(nil)
)

// settle gives letters the states of their outcomes, or only looks whether it could.
func (o *postOffice) settle(group []backlog.Settlement, trial bool) (unsettled []backlog.Unsettled) {
	states := map[backlog.RowState]string{backlog.RowSuccess: "sent", backlog.RowError: "failed", backlog.RowDead: "dead"}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, s := range group {
		l := &o.letters[s.Record.Key.Part(0).(int64)]
		if l.state != s.Record.Status {
			unsettled = append(unsettled, backlog.Unsettled{Index: i, Err: backlog.ErrConflict})
		} else if !trial {
			l.state = states[s.Target]
		}
	}
	return unsettled
}

func (o *postOffice) Settle(_ context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	o.visits.note("Settle")
	return o.settle(group, false), nil
}

func (o *postOffice) Ping(context.Context) error {
	o.visits.note("Ping")
	return nil
}

func (o *postOffice) Probe(context.Context) error {
	o.visits.note("Probe")
	return nil
}

func (o *postOffice) Try(_ context.Context, s backlog.Settlement) error {
	o.visits.note("Try")
	for _, u := range o.settle([]backlog.Settlement{s}, true) {
		return u.Err
	}
	return nil
}

func (o *postOffice) Rehearse(_ context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	o.visits.note("Rehearse")
	return o.settle(group, true), nil
}

// Strays finds letters without a postmark, which are in no page.
func (o *postOffice) Strays(_ context.Context, q backlog.Query) (list []backlog.Unreadable, err error) {
	o.visits.note("Strays")
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, l := range o.letters {
		if l.came.IsZero() && l.state == "waiting" && q.Lane == backlog.Fresh && len(list) < 1000 {
			list = append(list, backlog.Unreadable{Key: backlog.NewKey(int64(i)), Err: errors.New("no postmark")})
		}
	}
	return list, nil
}

func (o *postOffice) Expire(ctx context.Context, x backlog.Expiry) (n int, err error) {
	o.visits.note("Expire")
	for _, r := range o.olderThan(x.Before) {
		if x.Skips(r.Key) {
			continue
		}
		if ctx.Err() != nil || x.BeforeDeath != nil && !x.BeforeDeath(&r) {
			break
		}
		if len(o.settle([]backlog.Settlement{{Record: &r, Target: backlog.RowDead}}, false)) == 0 {
			x.Died([]backlog.Record{r}, 1)
			n++
		}
	}
	return n, ctx.Err()
}

// olderThan returns letters that wait for too long. Nothing is locked while OnDead is called.
func (o *postOffice) olderThan(t time.Time) (list []backlog.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, l := range o.letters {
		pending := l.state == "waiting" || l.state == "failed"
		if pending && !l.came.IsZero() && l.came.Before(t) {
			list = append(list, backlog.Record{Key: backlog.NewKey(int64(i)), Status: l.state, Inserted: l.came})
		}
	}
	return list
}

func (o *postOffice) AsRead(_ context.Context, records []backlog.Record) ([]bool, error) {
	o.visits.note("AsRead")
	o.mu.Lock()
	defer o.mu.Unlock()
	unchanged := make([]bool, len(records))
	for i, r := range records {
		unchanged[i] = o.letters[r.Key.Part(0).(int64)].state == r.Status
	}
	return unchanged, nil
}

func (o *postOffice) Finished(*backlog.Record, bool) { o.visits.note("Finished") }

// A carrier is a handler that sleeps until it opens, and remembers what the carrier before it
// has delivered without a report.
type carrier struct {
	opens     time.Time
	delivered []backlog.Record
	obsolete  []error
	visits    visits
}

var (
	_ backlog.Handler        = (*carrier)(nil)
	_ backlog.ClosingHandler = (*carrier)(nil)
	_ backlog.LateCollector  = (*carrier)(nil)
	_ backlog.Finisher       = (*carrier)(nil)
)

func (c *carrier) Handle(_ context.Context, r *backlog.Record) error {
	c.visits.note("Handle")
	time.Sleep(1500 * time.Millisecond)
	if to, _ := r.Column("to"); to == "Atlantis" {
		return backlog.Reject(errors.New("sunk"))
	}
	return nil
}

func (c *carrier) Closed(context.Context) (time.Duration, error) {
	c.visits.note("Closed")
	return max(0, time.Until(c.opens)), nil
}

func (c *carrier) CollectLate(ctx context.Context, settle func(context.Context, []backlog.Record, []backlog.Answer) ([]error, error)) error {
	c.visits.note("CollectLate")
	if len(c.delivered) == 0 {
		return nil
	}
	answers := make([]backlog.Answer, len(c.delivered))
	for i := range answers {
		answers[i].Outcome = backlog.Succeeded
	}
	errs, err := settle(ctx, c.delivered, answers)
	if err != nil {
		return err
	}
	var later []backlog.Record
	for i, err := range errs {
		if errors.Is(err, backlog.ErrUnavailable) {
			later = append(later, c.delivered[i])
		} else if err != nil {
			c.obsolete = append(c.obsolete, err)
		}
	}
	c.delivered = later
	return nil
}

func (c *carrier) Finished(*backlog.Record, bool) { c.visits.note("Finished") }

// newPostOffice returns one with letters that came an hour ago, two hours and so on.
func newPostOffice(to ...string) *postOffice {
	o := new(postOffice)
	for i, town := range to {
		o.letters = append(o.letters, letter{town, time.Now().Add(-time.Duration(len(to)-i) * time.Hour), "waiting"})
	}
	return o
}

// wantStates fails unless the letters are in the states.
func (o *postOffice) wantStates(t *testing.T, want ...string) {
	t.Helper()
	for i, l := range o.letters {
		if l.state != want[i] {
			t.Errorf("the letter to %s is %s, want %s", l.to, l.state, want[i])
		}
	}
}

func TestStoreAndHandlerWithAllTheyMayHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		office := newPostOffice("Troy", "Delphi", "Ghent", "Bruges", "Atlantis", "Delft")
		office.letters[0].came = time.Now().Add(-30 * 24 * time.Hour)
		office.letters[1].came = time.Time{}
		man := &carrier{opens: time.Now().Add(time.Second)}
		man.delivered = []backlog.Record{
			{Key: backlog.NewKey(int64(2)), Status: "waiting"},
			{Key: backlog.NewKey(int64(3)), Status: "failed"}, // it waits again
		}
		var died []string
		onDead := func(_ context.Context, r *backlog.Record) error {
			died = append(died, r.Key.String()+" "+r.Reason)
			return nil
		}
		engine := &backlog.Engine{Store: office, Handler: man, OnDead: backlog.HandlerFunc(onDead)}
		report, err := engine.Pass(t.Context(), backlog.Pass{MaxAge: 24 * time.Hour, Widest: true})
		if err != nil {
			t.Errorf("the pass: %v", err)
		}
		testkit.Equal(t, "succeeded", report.Succeeded, 2)
		testkit.Equal(t, "unreadable", report.Unreadable, 1)
		testkit.Equal(t, "expired", report.Expired, 1)
		if err := engine.Probe(t.Context()); err != nil {
			t.Error(err)
		}
		office.wantStates(t, "dead", "waiting", "sent", "sent", "dead", "sent")
		if !slices.Equal(died, []string{"4 rejected", "0 expired"}) {
			t.Errorf("OnDead was called for %q", died)
		}
		if len(man.obsolete) != 1 || !errors.Is(man.obsolete[0], backlog.ErrConflict) {
			t.Errorf("late outcomes are obsolete: %v", man.obsolete)
		}
		office.visits.want(t, "Settle", "Ping", "Probe", "Try", "Strays", "Expire", "Rehearse", "AsRead", "Finished")
		man.visits.want(t, "Handle", "Closed", "CollectLate", "Finished")
	})
}

// A clerk is a handler that works in the office itself, so that work and settlement are one.
// The program could make one from its configuration.
type clerk struct {
	office *postOffice
	visits visits
}

var (
	_ backlog.SettlingHandler   = (*clerk)(nil)
	_ backlog.TrialHandler      = (*clerk)(nil)
	_ backlog.ConfiguredHandler = (*clerk)(nil)
)

func (c *clerk) Handle(context.Context, *backlog.Record) error { return errors.New("settles nothing") }

func (c *clerk) HandleAndSettle(_ context.Context, r *backlog.Record, now func() time.Time) error {
	c.visits.note("HandleAndSettle")
	for _, u := range c.office.settle([]backlog.Settlement{{Record: r, Target: backlog.RowSuccess, At: now()}}, false) {
		return u.Err
	}
	return nil
}

func (c *clerk) Try(ctx context.Context, r *backlog.Record) error {
	return c.office.Try(ctx, backlog.Settlement{Record: r, Target: backlog.RowSuccess})
}

func (c *clerk) Prepare() error                  { return nil }
func (c *clerk) Check(ctx context.Context) error { return c.office.Probe(ctx) }
func (c *clerk) Describe() backlog.Description {
	return backlog.Description{MaxConcurrency: 1, Columns: []string{"to"}, Checked: "the office is open"}
}

func TestSettlingHandlerFromItsDocumentation(t *testing.T) {
	office := newPostOffice("Ghent", "Delft")
	c := &clerk{office: office}
	report, err := (&backlog.Engine{Store: office, Handler: c}).Pass(t.Context(), backlog.Pass{MaxAge: 24 * time.Hour})
	if err != nil || report.Succeeded != 2 {
		t.Errorf("%+v, %v", report, err)
	}
	office.wantStates(t, "sent", "sent")
	c.visits.want(t, "HandleAndSettle")
	if _, ok := office.visits.Load("Settle"); ok {
		t.Error("Settle was called for what the handler has settled")
	}
}

// A conveyor is a queue of parcels.
type conveyor struct {
	mu       sync.Mutex
	waiting  []string
	unsent   int
	whenSent func() // all of them
	visits   visits
}

var _ backlog.Queue = (*conveyor)(nil)

func (c *conveyor) Pending(ctx context.Context, q backlog.Query) (page backlog.Page, err error) {
	if q.Lane != backlog.Fresh {
		return page, nil
	}
	for wait := time.Second; len(page.Records) == 0 && wait > 0 && ctx.Err() == nil; wait -= 10 * time.Millisecond {
		c.mu.Lock()
		n := min(q.Limit, len(c.waiting))
		for _, to := range c.waiting[:n] {
			page.Records = append(page.Records, backlog.Record{Key: backlog.NewKey(to)})
		}
		c.waiting = c.waiting[n:]
		c.mu.Unlock()
		if n == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
	page.More = true
	return page, nil
}

func (c *conveyor) Settle(_ context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unsent -= len(group)
	if c.unsent == 0 {
		c.whenSent()
	}
	return nil, nil
}

func (c *conveyor) Release(r *backlog.Record) {
	c.visits.note("Release")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, r.Key.String())
}

func TestQueueFromItsDocumentation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		belt := &conveyor{waiting: []string{"Ghent", "Delft"}, unsent: 2, whenSent: cancel}
		skipped := false
		send := func(_ context.Context, r *backlog.Record) error {
			if r.Key.String() == "Ghent" && !skipped {
				skipped = true
				return backlog.Skip
			}
			return nil
		}
		report, err := (&backlog.Engine{Store: belt, Handler: backlog.HandlerFunc(send)}).Pass(ctx, backlog.Pass{MaxAge: time.Hour})
		if err != nil {
			t.Errorf("the pass: %v", err)
		}
		testkit.Equal(t, "succeeded", report.Succeeded, 2)
		testkit.Equal(t, "skipped", report.Skipped, 1)
		testkit.Equal(t, "stopped by", report.Stopped, backlog.StoppedSignal)
		belt.visits.want(t, "Release")
	})
}

// What a pass has read and not dispatched when it is stopped goes back to the queue: the rest
// of a chunk and of a page, and the page that was read ahead.
func TestQueueGetsBackWhatIsNotDispatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parcels = 5000
		ctx, cancel := context.WithCancel(t.Context())
		belt := &conveyor{unsent: parcels}
		for i := range parcels {
			belt.waiting = append(belt.waiting, strconv.Itoa(i))
		}
		send := func(context.Context, *backlog.Record) error {
			synctest.Wait() // until the next page was read
			cancel()
			return nil
		}
		report, err := (&backlog.Engine{Store: belt, Handler: backlog.HandlerFunc(send)}).Pass(ctx, backlog.Pass{MaxAge: time.Hour})
		if err != nil {
			t.Errorf("the pass: %v", err)
		}
		testkit.Equal(t, "parcels that wait again", len(belt.waiting), parcels-report.Succeeded)
		slices.Sort(belt.waiting)
		testkit.Equal(t, "different ones", len(slices.Compact(belt.waiting)), parcels-report.Succeeded)
	})
}

// A rota is a store of rounds that are made again and again. Nothing but the engine changes
// its rows.
type rota struct {
	mu     sync.Mutex
	rounds []backlog.Memory
	visits visits
}

var _ backlog.Beginner = (*rota)(nil)

// list returns copies of the rounds that is selects, by a time and then by number, behind a
// place.
func (o *rota) list(after backlog.Cursor, limit int, is func(backlog.Memory) bool, by func(backlog.Memory) time.Time) (list []backlog.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	compare := func(a, b backlog.Cursor) int {
		return cmp.Or(cmp.Compare(a.Order.(int64), b.Order.(int64)), a.Key.Compare(b.Key))
	}
	for i, s := range o.rounds {
		r := backlog.Record{Key: backlog.NewKey(int64(i)), Memory: &s, Lane: laneOf(s)}
		r.Cursor = backlog.Cursor{Order: by(s).UnixNano(), Key: r.Key}
		if is(s) && (after.IsZero() || compare(r.Cursor, after) > 0) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b backlog.Record) int { return compare(a.Cursor, b.Cursor) })
	return list[:min(limit, len(list))]
}

// laneOf returns the lane of a round: the fresh have no start since their last success.
func laneOf(s backlog.Memory) backlog.Lane {
	if s.AttemptNo == 0 {
		return backlog.Fresh
	}
	return backlog.Failed
}

func startOf(s backlog.Memory) time.Time    { return s.Next }
func deadlineOf(s backlog.Memory) time.Time { return s.Deadline }

func (o *rota) Pending(_ context.Context, q backlog.Query) (page backlog.Page, err error) {
	page.Records = o.list(q.After, q.Limit, func(s backlog.Memory) bool {
		return laneOf(s) == q.Lane && s.UID == "" && !s.Disabled && !s.Next.IsZero() && !s.Next.After(q.Now)
	}, startOf)
	if n := len(page.Records); n > 0 {
		page.Next = page.Records[n-1].Cursor
		page.More = n == q.Limit
	}
	return page, nil
}

// write gives rounds their new state if each still has the attempt, and the start, that was
// read.
func (o *rota) write(group []backlog.Settlement, written func(*backlog.Settlement)) (unsettled []backlog.Unsettled) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range group {
		s := &group[i]
		row := &o.rounds[s.Record.Key.Part(0).(int64)]
		if row.UID != s.Record.Memory.UID || !row.Next.Equal(s.Record.Memory.Next) || row.Disabled {
			unsettled = append(unsettled, backlog.Unsettled{Index: i, Err: backlog.ErrConflict})
			continue
		}
		*row = *s.Memory
		written(s)
	}
	return unsettled
}

func (o *rota) Settle(_ context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	o.visits.note("Settle")
	return o.write(group, func(*backlog.Settlement) {}), nil
}

func (o *rota) Begin(_ context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	o.visits.note("Begin")
	return o.write(group, func(s *backlog.Settlement) { s.Record.Memory = new(*s.Memory) }), nil
}

func (o *rota) Overdue(_ context.Context, now time.Time, after backlog.Cursor, limit int) ([]backlog.Record, error) {
	o.visits.note("Overdue")
	return o.list(after, limit, func(s backlog.Memory) bool { return s.UID != "" && !s.Deadline.After(now) }, deadlineOf), nil
}

func (o *rota) Running(_ context.Context, uids []string) ([]backlog.Record, error) {
	o.visits.note("Running")
	return o.list(backlog.Cursor{}, len(uids), func(s backlog.Memory) bool { return s.UID != "" && slices.Contains(uids, s.UID) }, startOf), nil
}

// A dispatcher is a handler that hands rounds over to others, who answer for the first alone.
type dispatcher struct {
	mu      sync.Mutex
	answers []backlog.Answer
	visits  visits
}

var (
	_ backlog.ReadyChecker = (*dispatcher)(nil)
	_ backlog.Collector    = (*dispatcher)(nil)
)

func (d *dispatcher) Ready(context.Context) error {
	d.visits.note("Ready")
	return nil
}

func (d *dispatcher) Handle(_ context.Context, r *backlog.Record) error {
	d.visits.note("Handle")
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Key.String() == "0" {
		d.answers = append(d.answers, backlog.Answer{UID: r.AttemptID, Outcome: backlog.Succeeded})
	}
	return backlog.Accepted
}

func (d *dispatcher) Collect(ctx context.Context, resolve func(context.Context, []backlog.Answer) ([]error, error)) error {
	d.visits.note("Collect")
	d.mu.Lock()
	answers := d.answers
	d.mu.Unlock()
	if _, err := resolve(ctx, answers); err != nil { // an answer with an error of its own came too late
		return err
	}
	d.mu.Lock()
	d.answers = d.answers[len(answers):]
	d.mu.Unlock()
	return nil
}

func TestBeginnerAndCollectorFromTheirDocumentation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := &rota{rounds: []backlog.Memory{{Next: time.Now()}, {Next: time.Now()}}}
		d := new(dispatcher)
		engine := &backlog.Engine{Store: rounds, Handler: d, Policy: &backlog.Policy{Name: "refresh", Retries: -1, Refresher: hourly{}}}
		report, err := engine.Pass(t.Context(), backlog.Pass{MaxAge: time.Hour})
		if err != nil || report.Accepted != 2 {
			t.Errorf("%+v, %v", report, err)
		}
		if err := engine.Collect(t.Context()); err != nil {
			t.Error(err)
		}
		if s := rounds.rounds[0]; s.UID != "" || s.AttemptNo != 0 {
			t.Errorf("want the first round done, got %+v", s)
		}
		time.Sleep(2 * time.Minute) // a round has one
		if report, err = engine.Pass(t.Context(), backlog.Pass{MaxAge: time.Hour}); err != nil || report.Accepted != 1 {
			t.Errorf("%+v, %v", report, err)
		}
		if s := rounds.rounds[1]; s.UID == "" || s.AttemptNo != 2 {
			t.Errorf("want the second round made again, got %+v", s)
		}
		rounds.visits.want(t, "Settle", "Begin", "Overdue", "Running")
		d.visits.want(t, "Ready", "Handle", "Collect")
	})
}
