package amqp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// A works is a daemon's table and queues of the test's own.
type works struct {
	t     *testing.T
	ch    *broker
	name  string
	url   string
	table *memory.Store
	log   logged
}

// A logged may be written and read at once.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newWorks(t *testing.T, records int) *works {
	t.Helper()
	s, ch := newBroker(t)
	w := &works{t: t, ch: ch, name: s.Queue, url: s.URL[0], table: memory.New(memory.Options{Dead: "DEAD"})}
	for i := range records {
		if err := w.table.Insert(memory.Row{Key: backlog.NewKey(int64(i + 1)), Status: "NEW", Inserted: time.Now().Add(-time.Minute), Columns: map[string]any{"city": "Paris"}}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, name := range []string{workQueue(w.name), outcomeQueue(w.name), lostQueue(w.name), outQueue(w.name)} {
			ch.QueueDelete(name, false, false, false)
		}
	})
	return w
}

// daemon returns a Dispatch with a bound of 2.5 s.
func (w *works) daemon() *Dispatch {
	d := &Dispatch{
		DispatchSettings: DispatchSettings{URL: []string{w.url}, Name: w.name, Lease: time.Second, Secret: secret},
		Table:            "orders-1", States: "s1", Timeout: time.Second, Log: slog.New(slog.NewTextHandler(&w.log, nil)), Fatal: func() {}, margin: 500 * time.Millisecond,
	}
	w.t.Cleanup(func() { d.Close() })
	return d
}

func (w *works) engine(d *Dispatch, observe func(backlog.Event)) *backlog.Engine {
	return &backlog.Engine{Store: w.table, Handler: d, Concurrency: 20, ShutdownTimeout: 200 * time.Millisecond, Observe: observe}
}

func (w *works) pass(e *backlog.Engine) backlog.Report {
	w.t.Helper()
	r, err := e.Pass(w.t.Context(), backlog.Pass{Tier: "1d", MaxAge: 24 * time.Hour})
	if err != nil {
		w.t.Error(err)
	}
	return r
}

// work runs a worker until the test or what it returns ends it.
func (w *works) work(concurrency int, h backlog.HandlerFunc) (k *Worker, stop func()) {
	w.t.Helper()
	k = NewWorker(WorkerSettings{URL: []string{w.url}, Name: w.name}, h, concurrency)
	k.Log = slog.New(slog.NewTextHandler(&w.log, nil))
	e := &backlog.Engine{Store: k, Handler: k, Concurrency: concurrency, ShutdownTimeout: 5 * time.Second}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			if _, err := e.Pass(ctx, backlog.Pass{Tier: "work", MaxAge: time.Hour}); err != nil {
				w.t.Error(err)
				return
			}
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		k.Stop()
		<-over
		k.Close()
	})
	w.t.Cleanup(stop)
	return k, stop
}

func (w *works) row(id int) memory.Row {
	r, _ := w.table.Row(backlog.NewKey(int64(id)))
	return r
}

func (w *works) has(queue string) bool { return w.ch.ready(queue) >= 0 }

func nothing(context.Context, *backlog.Record) error { return nil }

// Each outcome of a worker reaches its row; nothing is left on the broker, and no mark
// that something were out.
func TestDispatch(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 40)
	d := w.daemon()
	e := w.engine(d, nil)
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.work(4, func(ctx context.Context, r *backlog.Record) error {
		if city, _ := r.Column("city"); city != "Paris" || r.Tier != "1d" || r.AttemptID == "" || r.Status != "NEW" {
			t.Errorf("%+v", r)
		}
		switch id := r.Key.Part(0).(int64); id % 4 {
		case 1:
			return errors.New("boom")
		case 2:
			return backlog.Reject(errors.New("never"))
		case 3:
			return backlog.Skip
		}
		return nil
	})
	began := time.Now()
	if r := w.pass(e); r.Succeeded != 10 || r.Failed != 10 || r.Rejected != 10 || r.Skipped != 10 {
		t.Errorf("%+v", r)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("a first start has taken %v: it holds back", took)
	}
	for id, want := range map[int]string{4: "SUCCESS", 1: "ERROR", 2: "DEAD", 3: "NEW"} {
		if row := w.row(id); row.Status != want {
			t.Errorf("row %d: %+v, want %s", id, row, want)
		}
	}
	if row := w.row(1); row.LastError != "boom" {
		t.Errorf("%+v", row)
	}
	if !w.has(outQueue(w.name)) {
		t.Error("the mark is gone while the daemon runs")
	}
	if c := d.Counts(); c != (Counts{Up: true, Dispatched: 40, Settled: 40}) {
		t.Errorf("%+v", c)
	}
	d.Close()
	if w.has(outQueue(w.name)) {
		t.Error("the mark stays after a clean end")
	}
	for _, q := range []string{workQueue(w.name), outcomeQueue(w.name), lostQueue(w.name)} {
		if n := w.ch.ready(q); n != 0 {
			t.Errorf("%s has %d messages", q, n)
		}
	}
}

// A request that nobody takes is no attempt; its slot is free.
func TestDispatchExpired(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 3)
	d := w.daemon()
	r := w.pass(w.engine(d, nil))
	if r.Skipped != 3 || r.Failed != 0 || r.Duration > 2400*time.Millisecond {
		t.Errorf("%+v", r)
	}
	if row := w.row(1); row.Status != "NEW" || row.Attempts != 0 {
		t.Errorf("%+v", row)
	}
	if len(d.out) != 0 {
		t.Errorf("%v", d.out)
	}
}

// After an end in the middle what nobody has taken is purged, nothing is dispatched for
// the bound, and outcomes that come meanwhile are settled: their rows are not handled again.
func TestDispatchUnclean(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 3)
	first := w.daemon()
	if err := first.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	go first.Handle(context.Background(), &backlog.Record{Key: backlog.NewKey(int64(1)), Status: "NEW", AttemptID: "killed-1"})
	go first.Handle(context.Background(), &backlog.Record{Key: backlog.NewKey(int64(2)), Status: "NEW", AttemptID: "killed-2"})
	var out []amqp.Delivery
	eventually(t, "two requests", func() bool {
		if d, ok, err := w.ch.Get(workQueue(w.name), false); ok && err == nil {
			out = append(out, d)
		}
		return len(out) == 2
	})
	first.link.current().cut() // as kill -9 does
	<-first.link.current().gone
	if err := w.ch.PublishWithContext(t.Context(), "", workQueue(w.name), true, false, amqp.Publishing{Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}

	d := w.daemon()
	var handled sync.Map
	e := w.engine(d, nil)
	began := time.Now()
	eventually(t, "the session", func() bool { return d.Open(t.Context()) == nil })
	if n := w.ch.ready(workQueue(w.name)); n != 0 {
		t.Errorf("%d requests are left", n)
	}
	w.work(4, func(_ context.Context, r *backlog.Record) error {
		handled.Store(r.Key.String(), time.Since(began))
		return nil
	})
	go func() { // the loop does so every second
		for t.Context().Err() == nil {
			e.Collect(t.Context())
			time.Sleep(50 * time.Millisecond)
		}
	}()
	var q request
	json.Unmarshal(out[0].Body, &q)
	w.answer(outcome{AttemptID: q.AttemptID, Outcome: "success", Ticket: q.Ticket})
	r := w.pass(e)
	if r.Duration < 2*time.Second {
		t.Errorf("dispatched after %v: %s", r.Duration, w.log.String())
	}
	done, _ := backlogID(q)
	eventually(t, "the late outcome", func() bool { return w.row(done).Status == "SUCCESS" })
	if at, is := handled.Load(fmt.Sprint(done)); is {
		t.Errorf("row %d was handled again at %v", done, at)
	}
	if w.row(3).Status != "SUCCESS" || w.row(3-done).Status != "SUCCESS" {
		t.Errorf("%+v %+v", w.row(3), w.row(3-done))
	}
	for _, x := range out {
		x.Ack(false)
	}
}

// takeRequest takes the next request as a worker that dies would.
func (w *works) takeRequest() (q request) {
	w.t.Helper()
	eventually(w.t, "a request", func() bool {
		m, ok, err := w.ch.Get(workQueue(w.name), true)
		return err == nil && ok && json.Unmarshal(m.Body, &q) == nil
	})
	return q
}

// killed returns the request for the first row, whose daemon is killed then.
func (w *works) killed() request {
	w.t.Helper()
	d := w.daemon()
	if err := d.Open(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	go d.Handle(context.Background(), &backlog.Record{Key: backlog.NewKey(int64(1)), Status: "NEW", AttemptID: "killed"})
	q := w.takeRequest()
	d.lose()
	return q
}

// lose ends the session as kill -9, or the network, does.
func (d *Dispatch) lose() {
	p := d.link.current()
	p.cut()
	<-p.gone
}

// held returns how long nothing is dispatched.
func (d *Dispatch) held() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Until(d.hold)
}

// An outcome that comes while a new daemon holds back is settled then, by the pass that
// waits: no record is at work before something is dispatched.
func TestDispatchHeldBack(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 2)
	q := w.killed()
	d := w.daemon()
	d.Lease = 30 * time.Second // which the wait is longer than
	w.ch.QueueDelete(workQueue(w.name), false, false, false)
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		w.engine(d, nil).Pass(ctx, backlog.Pass{Tier: "1d", MaxAge: time.Hour})
	}()
	eventually(t, "it is held back", func() bool { return d.held() > 0 })
	w.answer(outcome{AttemptID: q.AttemptID, Outcome: "success", Ticket: q.Ticket})
	eventually(t, "the outcome is settled", func() bool { return w.row(1).Status == "SUCCESS" })
	if d.held() < 20*time.Second || d.dispatched.Load() > 0 {
		t.Errorf("%v are left, %d are dispatched", d.held(), d.dispatched.Load())
	}
	stop()
	<-over
}

// A record that waits for the broker in Handle is given back when the outcome of its last
// attempt comes.
func TestDispatchGivesBack(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 1)
	q := w.killed()
	d := w.daemon()
	eventually(t, "the session", func() bool { return d.Open(t.Context()) == nil })
	d.mu.Lock()
	d.hold = time.Now().Add(time.Hour)
	d.mu.Unlock()
	w.answer(outcome{AttemptID: q.AttemptID, Outcome: "success", Ticket: q.Ticket})
	err := d.Handle(t.Context(), &backlog.Record{Key: backlog.NewKey(int64(1)), Status: "NEW", AttemptID: "again"})
	if !errors.Is(err, errOut) {
		t.Error(err)
	}
}

// A daemon that lost its connection goes on at once when no other process has dispatched
// since, and else waits as after any take-over, from the moment at which it is back.
func TestDispatchLostLock(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 0)
	d := w.daemon()
	d.margin = time.Hour // the wait is never over
	handle := func(d *Dispatch, id string) {
		go d.Handle(t.Context(), &backlog.Record{Key: backlog.NewKey(id), Status: "NEW", AttemptID: id})
	}
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	handle(d, "first")
	w.takeRequest()
	for range 2 {
		d.lose()
		eventually(t, "the session", func() bool { return d.Open(t.Context()) == nil })
	}
	handle(d, "second")
	if q := w.takeRequest(); q.AttemptID != "second" || d.held() > 0 {
		t.Errorf("%+v; it waits %v", q, d.held())
	}
	d.lose()
	once := w.daemon()
	eventually(t, "another process", func() bool { return once.Open(t.Context()) == nil })
	once.mu.Lock()
	once.hold = time.Time{}
	once.mu.Unlock()
	handle(once, "of once")
	w.takeRequest()
	once.lose()
	eventually(t, "the session", func() bool { return d.Open(t.Context()) == nil })
	if d.held() < 59*time.Minute {
		t.Errorf("it waits %v", d.held())
	}
}

func backlogID(q request) (id int, err error) { return id, json.Unmarshal(q.ID, &id) }

func (w *works) answer(o outcome) {
	w.t.Helper()
	body, _ := json.Marshal(o)
	if err := w.ch.PublishWithContext(w.t.Context(), "", outcomeQueue(w.name), true, false, amqp.Publishing{Body: body, Type: outcomeType}); err != nil {
		w.t.Fatal(err)
	}
}

// An attempt without an outcome is lost after the bound, which is no attempt. Its outcome
// is settled when it comes, unless the row has changed.
func TestDispatchLost(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 2)
	d := w.daemon()
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	e := w.engine(d, nil)
	go w.pass(e)
	var q [2]request
	for i := range q {
		eventually(t, "a request", func() bool {
			m, ok, _ := w.ch.Get(workQueue(w.name), true) // and dies
			return ok && json.Unmarshal(m.Body, &q[i]) == nil
		})
	}
	rec := &backlog.Record{Key: backlog.NewKey(int64(1)), Status: "NEW", AttemptID: "another"}
	if err := d.Handle(t.Context(), rec); !errors.Is(err, errOut) {
		t.Errorf("a second attempt beside one that is out: %v", err)
	}
	eventually(t, "both are lost", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.waiting) == 0
	})
	if row := w.row(1); row.Status != "NEW" || row.Attempts != 0 {
		t.Errorf("%+v", row)
	}
	first, _ := backlogID(q[0])
	w.answer(outcome{AttemptID: q[0].AttemptID, Outcome: "error", Error: "late", Ticket: q[0].Ticket})
	w.answer(outcome{AttemptID: q[0].AttemptID, Outcome: "success", Ticket: q[0].Ticket}) // twice, and other
	eventually(t, "the late outcome", func() bool { e.Collect(t.Context()); return w.row(first).Status == "ERROR" })
	eventually(t, "the log of both", func() bool {
		e.Collect(t.Context())
		return strings.Count(w.log.String(), "an outcome came late") == 2
	})
	if row := w.row(first); row.Status != "ERROR" || row.LastError != "late" {
		t.Errorf("the guard has let the second one pass: %+v", row)
	}
	if !strings.Contains(w.log.String(), "result=settled") || len(d.out) != 0 {
		t.Errorf("%v\n%s", d.out, w.log.String())
	}
	if c := d.Counts(); c != (Counts{Up: true, Dispatched: 2, Lost: 2, Late: 1, Stale: 1}) {
		t.Errorf("%+v", c)
	}
}

// A request that comes back too often is an error.
func TestDispatchDeaths(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 1)
	d := w.daemon()
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	report := make(chan backlog.Report)
	go func() { report <- w.pass(w.engine(d, nil)) }()
	for range mostDeliveries + 1 {
		eventually(t, "a request", func() bool {
			m, ok, err := w.ch.Get(workQueue(w.name), false)
			return err == nil && ok && m.Nack(false, true) == nil
		})
	}
	if r := <-report; r.Failed != 1 {
		t.Errorf("%+v", r)
	}
	if row := w.row(1); row.LastError != "its worker died or gave it back 4 times" {
		t.Errorf("%+v", row)
	}
}

// Forged outcomes change nothing and are dropped; one of another table stays, and ends us.
func TestDispatchForged(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 1)
	d := w.daemon()
	var fatal atomic.Int32
	d.Fatal = func() { fatal.Add(1) }
	e := w.engine(d, nil)
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	sign := func(table, states, key string) string {
		r := backlog.Record{Key: backlog.NewKey(int64(1)), Status: "NEW", AttemptID: "a"}
		k := ticketOf(&r, table, states)
		return k.sign(key)
	}
	for _, k := range []string{"", sign("orders-1", "s1", "another secret of somebody"), sign("orders-1", "s2", secret)} {
		w.answer(outcome{AttemptID: "a", Outcome: "success", Ticket: k})
	}
	w.answer(outcome{AttemptID: "b", Outcome: "success", Ticket: sign("orders-1", "s1", secret)})
	eventually(t, "four lines", func() bool { return strings.Count(w.log.String(), "an outcome is dropped") == 4 })
	e.Collect(t.Context())
	if row := w.row(1); row.Status != "NEW" {
		t.Errorf("%+v", row)
	}
	w.answer(outcome{AttemptID: "a", Outcome: "success", Ticket: sign("orders-2", "s1", "another secret of somebody")})
	eventually(t, "the end", func() bool { return fatal.Load() == 1 })
	if err := d.Err(); err == nil || !strings.Contains(err.Error(), outcomeQueue(w.name)+" is used for another table") {
		t.Error(err)
	}
	if err := d.Open(t.Context()); err == nil {
		t.Error("it goes on")
	}
	eventually(t, "the outcome is given back", func() bool { return w.ch.ready(outcomeQueue(w.name)) == 1 })
	if c := d.Counts(); fatal.Load() != 1 || c != (Counts{Forged: 4}) {
		t.Errorf("twice, or %+v", c)
	}
}

// An outcome that is delivered several times counts once: while its first delivery is settled,
// in one group with it, after it, and after a restart of the daemon, whose row alone tells.
func TestDispatchTwice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ outcome, status, want string }{
		{"error", "ERROR", "ERROR"}, {"reject", "ERROR", "DEAD"}, {"success", "ERROR", "SUCCESS"}, {"error", "NEW", "ERROR"},
	} {
		t.Run(c.outcome+" of "+c.status, func(t *testing.T) {
			t.Parallel()
			w := newWorks(t, 0)
			if err := w.table.Insert(memory.Row{Key: backlog.NewKey(int64(1)), Status: c.status, Inserted: time.Now().Add(-time.Minute), Attempts: 1}); err != nil {
				t.Fatal(err)
			}
			var told, ended atomic.Int32
			observe := func(ev backlog.Event) {
				if ev.Kind == backlog.AttemptEnded {
					ended.Add(1)
				}
			}
			onDead := backlog.HandlerFunc(func(context.Context, *backlog.Record) error { told.Add(1); return nil })
			d := w.daemon()
			d.margin = time.Minute
			if err := d.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			s := slow{w.table, make(chan struct{}, 9), make(chan struct{})}
			e := w.engine(d, observe)
			e.Store, e.OnDead = s, onDead
			report := make(chan backlog.Report)
			go func() { report <- w.pass(e) }()
			q := w.takeRequest()
			again := func(n int) {
				for range n {
					w.answer(outcome{AttemptID: q.AttemptID, Outcome: c.outcome, Error: "boom", Ticket: q.Ticket})
				}
			}
			again(3)
			<-s.asked
			e.Collect(t.Context())
			close(s.go_)
			<-report
			again(2)
			dropped := func(e *backlog.Engine, n int) {
				t.Helper()
				eventually(t, "the log of the others", func() bool {
					e.Collect(t.Context())
					return strings.Count(w.log.String(), "an outcome came late") == n
				})
			}
			dropped(e, 4)
			d.lose() // with nothing out: it is not held back
			d = w.daemon()
			e = w.engine(d, observe)
			e.OnDead = onDead
			again(2)
			dropped(e, 6)
			row := w.row(1)
			if row.Status != c.want || row.Attempts != 2 {
				t.Errorf("%+v", row)
			}
			if dead := c.want == "DEAD"; ended.Load() != 1 || dead != (told.Load() == 1) {
				t.Errorf("%d attempts have ended, of %d deaths it was notified", ended.Load(), told.Load())
			}
		})
	}
}

// Of a table that counts no attempts the daemon itself knows which have ended.
func TestDispatchTwiceUncounted(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 0)
	if err := w.table.Insert(memory.Row{Key: backlog.NewKey(int64(1)), Status: "ERROR", Inserted: time.Now().Add(-time.Minute)}); err != nil {
		t.Fatal(err)
	}
	d := w.daemon()
	e := w.engine(d, nil)
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	k := ticket{Table: d.Table, States: d.States, Row: backlog.Cursor{Key: backlog.NewKey(int64(1))}, Status: "ERROR", Lane: backlog.Failed, AttemptID: "a"}
	for range 4 {
		w.answer(outcome{AttemptID: "a", Outcome: "error", Ticket: k.sign(secret)})
	}
	eventually(t, "the log of all", func() bool {
		e.Collect(t.Context())
		return strings.Count(w.log.String(), "an outcome came late") == 4
	})
	if row := w.row(1); row.Attempts != 1 {
		t.Errorf("%+v", row)
	}
	if c := d.Counts(); c != (Counts{Up: true, Late: 1, Stale: 3}) {
		t.Errorf("%+v", c)
	}
}

// A slow is a table whose outcomes cannot be written yet.
type slow struct {
	backlog.Store
	asked, go_ chan struct{}
}

func (s slow) Settle(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	s.asked <- struct{}{}
	<-s.go_
	return s.Store.Settle(ctx, group)
}

// An outcome is acknowledged when it is written and not before.
func TestDispatchAcknowledges(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 1)
	d := w.daemon()
	s := slow{w.table, make(chan struct{}, 9), make(chan struct{})}
	e := w.engine(d, nil)
	e.Store = s
	go w.pass(e)
	eventually(t, "the queues", func() bool { return w.has(outcomeQueue(w.name)) })
	w.work(1, nothing)
	<-s.asked
	d.link.current().cut() // the daemon dies here
	<-d.link.current().gone
	eventually(t, "the outcome is given back", func() bool { return w.ch.ready(outcomeQueue(w.name)) == 1 })
	close(s.go_)
	eventually(t, "it comes again, and is late", func() bool {
		e.Collect(t.Context())
		return strings.Contains(w.log.String(), "an outcome came late")
	})
	if row := w.row(1); row.Status != "SUCCESS" || row.Attempts > 1 {
		t.Errorf("%+v", row)
	}
}

// Only one process hears outcomes.
func TestDispatchAlone(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 0)
	d := w.daemon()
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := w.daemon()
	if err := other.Open(t.Context()); !errors.Is(err, backlog.ErrUnavailable) || !strings.Contains(err.Error(), "another process hears the outcomes of "+w.name) {
		t.Error(err)
	}
	if err := other.Check(t.Context()); err != nil {
		t.Error(err)
	}
	other.Lease = time.Minute
	if err := other.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "queue "+workQueue(w.name)+": it was declared otherwise: x-message-ttl is 1000 instead of 60000; write the lease that it has, `lease: 1s`") {
		t.Error(err)
	}
	d.Close()
	if err := w.daemon().Open(t.Context()); err != nil {
		t.Error(err)
	}
}

// Each queue that is not as it should be is named, with what is odd and a cure that loses no
// outcome. Only the work queue keeps the daemon from its work.
func TestDispatchInspect(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 0)
	d := w.daemon()
	wants := func(what string, failures int, texts ...string) {
		t.Helper()
		list, err := d.Inspect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, f := range list {
			if f.Problem != "" && !f.Warning {
				failures--
			}
			if strings.Contains(f.Cure, "delete") && f.Name != "queue "+workQueue(w.name) {
				t.Errorf("%s: %s: cure %s", what, f.Name, f.Cure)
			}
			text := f.Detail
			if f.Problem != "" {
				text = f.Problem + "; " + f.Cure
			}
			all = append(all, f.Name+": "+text)
		}
		for _, text := range texts {
			if !strings.Contains(strings.Join(all, "\n"), text) {
				t.Errorf("%s: want %q in\n%s", what, text, strings.Join(all, "\n"))
			}
		}
		if failures != 0 {
			t.Errorf("%s: %d failures fewer than wanted:\n%s", what, failures, strings.Join(all, "\n"))
		}
	}
	names := []string{workQueue(w.name), outcomeQueue(w.name), lostQueue(w.name)}
	for _, name := range names {
		wants("nothing", 0, "queue "+name+": is not there yet")
	}
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.Close()
	for _, name := range names {
		wants("all is well", 0, "queue "+name+": is there as it should be")
		w.ch.QueueDelete(name, false, false, false)
	}
	odd := map[string]amqp.Table{
		names[0]: {"x-queue-type": "quorum", "x-max-length": int32(5)},
		names[1]: nil,
		names[2]: {"x-queue-type": "quorum", "x-delivery-limit": int32(3)},
	}
	for name, args := range odd {
		if _, err := w.ch.QueueDeclare(name, true, false, false, false, args); err != nil {
			t.Fatal(err)
		}
	}
	wants("all are odd", 1,
		"x-max-length is 5, which should be missing, x-message-ttl is missing, which should be 1000, x-overflow is missing",
		"queue "+names[1]+": it was declared otherwise, and is used as it is: x-queue-type is missing, which should be quorum; for one as it should be",
		"queue "+names[2]+": it was declared otherwise, and is used as it is: x-delivery-limit is 3",
		"delivery limit of queue "+names[2],
	)
	if err := d.Ready(t.Context()); err == nil {
		t.Error("it starts")
	}
	w.ch.QueueDelete(names[0], false, false, false)
	wants("the others are", 0)
	if err := d.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	if err := d.Open(t.Context()); err != nil {
		t.Error(err)
	}
}

// What a handler is given of time is the request's, by the worker's own clock; a pause that
// it asks for is the daemon's.
func TestWorkerTimes(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 2)
	d := w.daemon()
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.work(1, func(ctx context.Context, r *backlog.Record) error {
		if r.Key.Part(0) == int64(1) {
			<-ctx.Done()
			return ctx.Err()
		}
		return backlog.RetryAfter(time.Hour, errors.New("busy"))
	})
	handle := func(id int64) error {
		return d.Handle(t.Context(), &backlog.Record{Key: backlog.NewKey(id), Status: "NEW", AttemptID: fmt.Sprint("t-", id)})
	}
	err := handle(2)
	if wait, asks := backlog.PauseOf(err); !asks || wait != time.Hour || err.Error() != "busy" {
		t.Error(wait, err)
	}
	began := time.Now()
	if err := handle(1); err == nil || err.Error() != "timed out after 1s" { // not held up by the pause
		t.Error(err)
	}
	if took := time.Since(began); took > 1900*time.Millisecond {
		t.Error(took)
	}
}

// A worker whose session is lost ends its handlers. The broker gives their records to others.
func TestWorkerSession(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 1)
	d := w.daemon()
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	began, ended, calls := make(chan struct{}, 9), make(chan error, 9), atomic.Int32{}
	k, _ := w.work(1, func(ctx context.Context, r *backlog.Record) error {
		if calls.Add(1) > 1 {
			return nil
		}
		began <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return ctx.Err()
	})
	done := make(chan error)
	go func() {
		done <- d.Handle(t.Context(), &backlog.Record{Key: backlog.NewKey(int64(1)), Status: "NEW", AttemptID: "s"})
	}()
	<-began
	k.link.current().cut()
	if err := <-ended; !errors.Is(err, errSessionLost) {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A worker that is stopped finishes what it has begun, and takes nothing more.
func TestWorkerStop(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 6)
	d := w.daemon()
	d.Lease, d.Timeout = 5*time.Second, 5*time.Second
	report := make(chan backlog.Report)
	go func() { report <- w.pass(w.engine(d, nil)) }()
	eventually(t, "six requests", func() bool { return w.has(workQueue(w.name)) && w.ch.ready(workQueue(w.name)) == 6 })
	finish, began := make(chan struct{}), make(chan struct{}, 6)
	_, stop := w.work(2, func(context.Context, *backlog.Record) error {
		began <- struct{}{}
		<-finish
		return nil
	})
	<-began
	<-began
	over := make(chan struct{})
	go func() {
		stop()
		close(over)
	}()
	time.AfterFunc(100*time.Millisecond, func() { close(finish) })
	<-over
	if n := w.ch.ready(workQueue(w.name)); n != 4 || len(began) != 0 {
		t.Errorf("%d requests are left, %d more were begun", n, len(began))
	}
	w.work(2, nothing)
	if r := <-report; r.Succeeded != 6 {
		t.Errorf("%+v", r)
	}
}

// A worker waits for its queue. A wrong login is not waited for.
func TestWorkerStart(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 0)
	s := WorkerSettings{URL: []string{w.url}, Name: w.name}
	k := NewWorker(s, backlog.HandlerFunc(nothing), 1)
	if err := k.Open(t.Context()); !errors.Is(err, backlog.ErrUnavailable) || !strings.Contains(err.Error(), "there is no queue "+workQueue(w.name)+" yet") {
		t.Error(err)
	}
	if err := w.daemon().Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := k.Open(t.Context()); err != nil {
		t.Error(err)
	}
	k.Close()
	s.URL = []string{strings.Replace(s.URL[0], "guest:guest", "guest:wrong-word", 1)}
	err := NewWorker(s, backlog.HandlerFunc(nothing), 1).Open(t.Context())
	if err == nil || errors.Is(err, backlog.ErrUnavailable) || strings.Contains(err.Error(), "wrong-word") {
		t.Error(err)
	}
	d := w.daemon()
	d.URL = s.URL
	if err := d.Ready(t.Context()); err == nil || errors.Is(err, backlog.ErrUnavailable) {
		t.Error(err)
	}
}

// A worker's record is the daemon's.
func TestRequest(t *testing.T) {
	at := time.Date(2026, 1, 5, 11, 0, 0, 123, time.UTC)
	d := &Dispatch{DispatchSettings: DispatchSettings{Name: "x", Secret: secret}, Timeout: time.Minute}
	for _, r := range []backlog.Record{
		{Key: backlog.NewKey(int64(1)<<60 + 1), Status: "NEW", Inserted: at, Names: []string{"z", "a", "n", "t"}, Values: []any{int64(1)<<60 + 1, nil, 1.5, "ü\x00"}},
		{Key: backlog.NewKey("a", int64(-2)), Status: "FAILED"},
	} {
		r.Tier, r.AttemptID = "1d", "a-1"
		m, _, err := d.request(&r)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := requestOf(&amqp.Delivery{Body: m.Body, Type: m.Type})
		if err != nil {
			t.Fatal(err)
		}
		want, _ := r.ColumnsJSON()
		columns, _ := got.ColumnsJSON()
		if string(columns) != string(want) || got.Key.Compare(r.Key) != 0 || !got.Inserted.Equal(r.Inserted) || got.Status != r.Status || got.Tier != r.Tier {
			t.Errorf("%+v %s, want %+v %s", got, columns, r, want)
		}
	}
	for _, bad := range []amqp.Delivery{{Type: requestType}, {Body: []byte("{}"), Type: requestType}, {Body: []byte(`{"id":1,"record":{}}`), Type: "else"}} {
		if _, _, err := requestOf(&bad); err == nil || strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: %v", cmp.Or(string(bad.Body), "nothing"), err)
		}
	}
}

// Outcomes that their queue refuses are said to be refused, and are sent when it does not.
func TestWorkerRefused(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 1)
	full := amqp.Table{"x-max-length": int32(0), "x-overflow": "reject-publish"}
	if _, err := w.ch.QueueDeclare(outcomeQueue(w.name), true, false, false, false, full); err != nil {
		t.Fatal(err)
	}
	d := w.daemon()
	d.Timeout = 10 * time.Second
	e := w.engine(d, nil)
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.work(1, nothing)
	go e.Pass(t.Context(), backlog.Pass{Tier: "1d", MaxAge: time.Hour})
	eventually(t, "the log says why", func() bool {
		return strings.Contains(w.log.String(), "queue "+outcomeQueue(w.name)+": the broker has refused it, as by a queue that is full")
	})
	w.ch.QueueDelete(outcomeQueue(w.name), false, false, false)
	eventually(t, "its row", func() bool { e.Collect(t.Context()); return w.row(1).Status == "SUCCESS" })
}
