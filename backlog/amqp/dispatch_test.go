package amqp

import (
	"context"
	"errors"
	"log/slog"
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

// A works is a daemon's table and queues of the test's own.
type works struct {
	t     *testing.T
	ch    *broker
	name  string
	url   string
	table *memory.Store
	log   testkit.Buffer
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
		for _, name := range []string{workQueue(w.name), outcomeQueue(w.name), deadLetterQueue(w.name), markQueue(w.name)} {
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
	d.Lease = time.Minute // on a machine that is busy
	e := w.engine(d, nil)
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.work(4, func(ctx context.Context, r *backlog.Record) error {
		city, _ := r.Column("city")
		testkit.Equal(t, "city", city, any("Paris"))
		testkit.Equal(t, "tier", r.Tier, "1d")
		testkit.Equal(t, "status", r.Status, "NEW")
		if r.AttemptID == "" {
			t.Errorf("want an ID of the attempt, got none: %+v", r)
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
	r := w.pass(e)
	testkit.Equal(t, "succeeded", r.Succeeded, 10)
	testkit.Equal(t, "failed", r.Failed, 10)
	testkit.Equal(t, "rejected", r.Rejected, 10)
	testkit.Equal(t, "skipped", r.Skipped, 10)
	if took := time.Since(began); took > d.Bound() {
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
	if !w.has(markQueue(w.name)) {
		t.Error("the mark is gone while the daemon runs")
	}
	if c := d.Counts(); c != (Counts{Up: true, Dispatched: 40, Settled: 40}) {
		t.Errorf("%+v", c)
	}
	d.Close()
	if w.has(markQueue(w.name)) {
		t.Error("the mark stays after a clean end")
	}
	for _, q := range []string{workQueue(w.name), outcomeQueue(w.name), deadLetterQueue(w.name)} {
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
	if len(d.inFlight) != 0 {
		t.Errorf("%v", d.inFlight)
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
	for range deliveryLimit + 1 {
		testkit.Eventually(t, "a request", func() bool {
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
	testkit.Eventually(t, "four lines", func() bool { return strings.Count(w.log.String(), "an outcome is dropped") == 4 })
	e.Collect(t.Context())
	if row := w.row(1); row.Status != "NEW" {
		t.Errorf("%+v", row)
	}
	w.answer(outcome{AttemptID: "a", Outcome: "success", Ticket: sign("orders-2", "s1", "another secret of somebody")})
	testkit.Eventually(t, "the end", func() bool { return fatal.Load() == 1 })
	if err := d.Err(); err == nil || !strings.Contains(err.Error(), outcomeQueue(w.name)+" is used for another table") {
		t.Error(err)
	}
	if err := d.Open(t.Context()); err == nil {
		t.Error("it goes on")
	}
	testkit.Eventually(t, "the outcome is given back", func() bool { return w.ch.ready(outcomeQueue(w.name)) == 1 })
	if c := d.Counts(); fatal.Load() != 1 || c != (Counts{Forged: 4}) {
		t.Errorf("twice, or %+v", c)
	}
}

// Of what a worker says about its failure the beginning is kept, however long it is.
func TestDispatchLongError(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 1)
	d := w.daemon()
	e := w.engine(d, nil)
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	go func() {
		q := w.takeRequest()
		w.answer(outcome{AttemptID: q.AttemptID, Outcome: "error", Error: strings.Repeat("x", 1<<20), Ticket: q.Ticket})
	}()
	w.pass(e)
	if row := w.row(1); row.Status != "ERROR" || len(row.LastError) > maxText+len("…") || !strings.HasPrefix(row.LastError, "xxx") {
		t.Errorf("status %s, %d bytes of the error", row.Status, len(row.LastError))
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
	names := []string{workQueue(w.name), outcomeQueue(w.name), deadLetterQueue(w.name)}
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
