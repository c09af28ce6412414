package amqp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
	"backlog/internal/testkit"
)

// A snoozed message comes back by the shortest delay that is long enough, with the count that it had,
// and none of it is a failure.
func TestSnooze(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	c := source(t, s)
	var mu sync.Mutex
	var seen []string
	waits := []time.Duration{60 * time.Millisecond, 61 * time.Millisecond, time.Hour}
	stop, _ := serve(t, c, func(_ context.Context, r *backlog.Record) error {
		mu.Lock()
		defer mu.Unlock()
		n := len(seen)
		text, _ := r.Column("headers")
		var headers struct{ Count, Backoff int }
		if err := json.Unmarshal(text.(json.RawMessage), &headers); err != nil {
			t.Error(err)
		}
		seen = append(seen, fmt.Sprint(r.Status, headers))
		switch {
		case n == 0:
			return errBoom
		case n <= len(waits):
			return backlog.Snooze(waits[n-1], errors.New("not yet"))
		}
		return nil
	})
	b.send(amqp.Publishing{Body: []byte("hello"), MessageId: "one"})
	testkit.Eventually(t, "it succeeds", func() bool { mu.Lock(); defer mu.Unlock(); return len(seen) == 5 })
	r := stop()
	c.Close()
	testkit.Equal(t, "snoozed", r.Snoozed, 3)
	testkit.Equal(t, "failed", r.Failed, 1)
	testkit.Equal(t, "succeeded", r.Succeeded, 1)
	want := []string{"new{0 0}", "error{1 60}", "error{1 60}", "error{1 120}", "error{1 960}"}
	if !slices.Equal(seen, want) {
		t.Errorf("got\n%q, want\n%q", seen, want)
	}
}

// A worker's snooze reaches the engine of the daemon, and a worker of another language says it as a
// text. A late one is settled, and one that is over leaves the row as it was.
func TestDispatchSnooze(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 4)
	d := w.daemon()
	e := w.engine(d, nil)
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.work(1, func(context.Context, *backlog.Record) error { return backlog.Snooze(2*time.Hour, errors.New("closed")) })
	r := w.pass(e)
	testkit.Equal(t, "snoozed", r.Snoozed, 4)
	testkit.Equal(t, "status", w.row(1).Status, "NEW")
	if left := time.Until(e.SnoozedUntil(backlog.NewKey(int64(1)))); left < 2*time.Hour-time.Minute || left > 2*time.Hour {
		t.Errorf("it is snoozed for %v", left)
	}
	late := func(id int64, value any) {
		rec := backlog.Record{Key: backlog.NewKey(id), Status: "NEW", AttemptID: fmt.Sprint("late-", id)}
		k := ticketOf(&rec, d.Table, d.States)
		w.answer(outcome{AttemptID: rec.AttemptID, Outcome: "snooze", Snooze: value, Ticket: k.sign(secret)})
	}
	late(1, "5h")
	late(2, 0)
	testkit.Eventually(t, "the late one is kept", func() bool {
		_ = e.Collect(t.Context())
		return time.Until(e.SnoozedUntil(backlog.NewKey(int64(1)))) > 4*time.Hour
	})
	if left := time.Until(e.SnoozedUntil(backlog.NewKey(int64(2)))); left > 2*time.Hour {
		t.Errorf("one that is over has changed the snooze to %v", left)
	}
	if err := (&outcome{Outcome: "snooze", Snooze: "soon"}).err(); backlog.OutcomeOf(err) != backlog.Errored {
		t.Errorf("a wrong time is %v", err)
	}
}
