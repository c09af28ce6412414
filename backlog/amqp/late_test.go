package amqp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/internal/testkit"
)

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
	testkit.Eventually(t, "two requests", func() bool {
		if d, ok, err := w.ch.Get(workQueue(w.name), false); ok && err == nil {
			out = append(out, d)
		}
		return len(out) == 2
	})
	first.sessions.current().closeSockets() // as kill -9 does
	<-first.sessions.current().closed
	if err := w.ch.PublishWithContext(t.Context(), "", workQueue(w.name), true, false, amqp.Publishing{Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}

	d := w.daemon()
	var handled sync.Map
	e := w.engine(d, nil)
	began := time.Now()
	testkit.Eventually(t, "the session", func() bool { return d.Open(t.Context()) == nil })
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
	testkit.Eventually(t, "the late outcome", func() bool { return w.row(done).Status == "SUCCESS" })
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
	testkit.Eventually(w.t, "a request", func() bool {
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
	d.loseConnection()
	return q
}

// loseConnection ends the session as kill -9, or the network, does.
func (d *Dispatch) loseConnection() {
	sess := d.sessions.current()
	sess.closeSockets()
	<-sess.closed
}

// holdTime returns how long nothing is dispatched.
func (d *Dispatch) holdTime() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Until(d.holdUntil)
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
	testkit.Eventually(t, "it is held back", func() bool { return d.holdTime() > 0 })
	w.answer(outcome{AttemptID: q.AttemptID, Outcome: "success", Ticket: q.Ticket})
	testkit.Eventually(t, "the outcome is settled", func() bool { return w.row(1).Status == "SUCCESS" })
	if d.holdTime() < 20*time.Second || d.dispatched.Load() > 0 {
		t.Errorf("%v are left, %d are dispatched", d.holdTime(), d.dispatched.Load())
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
	testkit.Eventually(t, "the session", func() bool { return d.Open(t.Context()) == nil })
	d.mu.Lock()
	d.holdUntil = time.Now().Add(time.Hour)
	d.mu.Unlock()
	w.answer(outcome{AttemptID: q.AttemptID, Outcome: "success", Ticket: q.Ticket})
	err := d.Handle(t.Context(), &backlog.Record{Key: backlog.NewKey(int64(1)), Status: "NEW", AttemptID: "again"})
	if !errors.Is(err, errInFlight) {
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
		d.loseConnection()
		testkit.Eventually(t, "the session", func() bool { return d.Open(t.Context()) == nil })
	}
	handle(d, "second")
	if q := w.takeRequest(); q.AttemptID != "second" || d.holdTime() > 0 {
		t.Errorf("%+v; it waits %v", q, d.holdTime())
	}
	d.loseConnection()
	once := w.daemon()
	testkit.Eventually(t, "another process", func() bool { return once.Open(t.Context()) == nil })
	once.mu.Lock()
	once.holdUntil = time.Time{}
	once.mu.Unlock()
	handle(once, "of once")
	w.takeRequest()
	once.loseConnection()
	testkit.Eventually(t, "the session", func() bool { return d.Open(t.Context()) == nil })
	if d.holdTime() < 59*time.Minute {
		t.Errorf("it waits %v", d.holdTime())
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
		testkit.Eventually(t, "a request", func() bool {
			m, ok, _ := w.ch.Get(workQueue(w.name), true) // and dies
			return ok && json.Unmarshal(m.Body, &q[i]) == nil
		})
	}
	rec := &backlog.Record{Key: backlog.NewKey(int64(1)), Status: "NEW", AttemptID: "another"}
	if err := d.Handle(t.Context(), rec); !errors.Is(err, errInFlight) {
		t.Errorf("a second attempt beside one that is out: %v", err)
	}
	testkit.Eventually(t, "both are lost", func() bool {
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
	testkit.Eventually(t, "the late outcome", func() bool { e.Collect(t.Context()); return w.row(first).Status == "ERROR" })
	testkit.Eventually(t, "the log of both", func() bool {
		e.Collect(t.Context())
		return strings.Count(w.log.String(), "an outcome came late") == 2
	})
	if row := w.row(first); row.Status != "ERROR" || row.LastError != "late" {
		t.Errorf("the guard has let the second one pass: %+v", row)
	}
	if !strings.Contains(w.log.String(), "result=settled") || len(d.inFlight) != 0 {
		t.Errorf("%v\n%s", d.inFlight, w.log.String())
	}
	if c := d.Counts(); c != (Counts{Up: true, Dispatched: 2, Lost: 2, Late: 1, Stale: 1}) {
		t.Errorf("%+v", c)
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
				testkit.Eventually(t, "the log of the others", func() bool {
					e.Collect(t.Context())
					return strings.Count(w.log.String(), "an outcome came late") == n
				})
			}
			dropped(e, 4)
			d.loseConnection() // with nothing out: it is not held back
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
	testkit.Eventually(t, "the log of all", func() bool {
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
	testkit.Eventually(t, "the queues", func() bool { return w.has(outcomeQueue(w.name)) })
	w.work(1, nothing)
	<-s.asked
	d.sessions.current().closeSockets() // the daemon dies here
	<-d.sessions.current().closed
	testkit.Eventually(t, "the outcome is given back", func() bool { return w.ch.ready(outcomeQueue(w.name)) == 1 })
	close(s.go_)
	testkit.Eventually(t, "it comes again, and is late", func() bool {
		e.Collect(t.Context())
		return strings.Contains(w.log.String(), "an outcome came late")
	})
	if row := w.row(1); row.Status != "SUCCESS" || row.Attempts > 1 {
		t.Errorf("%+v", row)
	}
}
