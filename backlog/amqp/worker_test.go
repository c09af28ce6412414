package amqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
	"backlog/internal/testkit"
)

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
	k.sessions.current().closeSockets()
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
	testkit.Eventually(t, "six requests", func() bool { return w.has(workQueue(w.name)) && w.ch.ready(workQueue(w.name)) == 6 })
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
		got, err := readRequest(&unacked{Delivery: amqp.Delivery{Body: m.Body, Type: m.Type}})
		if err != nil {
			t.Fatal(err)
		}
		want, _ := r.ColumnsJSON()
		columns, _ := got.ColumnsJSON()
		testkit.Equal(t, "columns", string(columns), string(want))
		if got.Key.Compare(r.Key) != 0 {
			t.Errorf("key: got %v, want %v", got.Key, r.Key)
		}
		testkit.Equal(t, "time of insertion", got.Inserted, r.Inserted)
		testkit.Equal(t, "status", got.Status, r.Status)
		testkit.Equal(t, "tier", got.Tier, r.Tier)
	}
	for _, bad := range []amqp.Delivery{{Type: requestType}, {Body: []byte("{}"), Type: requestType}, {Body: []byte(`{"id":1,"record":{}}`), Type: "else"}} {
		if _, err := readRequest(&unacked{Delivery: bad}); err == nil || strings.Contains(err.Error(), "%!") {
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
	testkit.Eventually(t, "the log says why", func() bool {
		return strings.Contains(w.log.String(), "queue "+outcomeQueue(w.name)+": the broker has refused it, as by a queue that is full")
	})
	w.ch.QueueDelete(outcomeQueue(w.name), false, false, false)
	testkit.Eventually(t, "its row", func() bool { e.Collect(t.Context()); return w.row(1).Status == "SUCCESS" })
}
