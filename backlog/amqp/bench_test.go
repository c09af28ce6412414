package amqp

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/internal/testserver"
)

// How many messages are with a consumer, and how many with the dispatching side.
const (
	benchPrefetch = 200
	benchOut      = 400
)

// A benched is a connection's channel of a bare loop, in confirm mode.
type benched struct {
	*amqp.Channel
	b *testing.B
}

func newBenched(b *testing.B, url string) benched {
	c, err := amqp.Dial(url)
	if err != nil {
		b.Fatal(err)
	}
	ch, err := c.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err == nil {
		err = ch.Qos(benchPrefetch, 0, false)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return benched{ch, b}
}

func (c benched) consume(queue string) <-chan amqp.Delivery {
	list, err := c.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		c.b.Fatal(err)
	}
	return list
}

func (c benched) send(queue string, body []byte) *amqp.DeferredConfirmation {
	confirm, err := c.PublishWithDeferredConfirm("", queue, true, false, amqp.Publishing{Body: body, DeliveryMode: amqp.Persistent})
	if err != nil {
		c.b.Fatal(err)
	}
	return confirm
}

func records(b *testing.B) int {
	if testing.Short() {
		return 500
	}
	return 20_000
}

// BenchmarkDispatch compares records that are dispatched to one worker, whose handler does
// nothing, with a bare loop over the same queues: one side publishes and consumes answers,
// the other consumes, publishes an answer and acknowledges when that is confirmed. Both keep
// as many messages on their way.
func BenchmarkDispatch(b *testing.B) {
	url := testserver.RabbitMQURL(b).String()
	for b.Loop() {
		n := records(b)
		bare, body := time.Duration(0), []byte(nil)
		d := &Dispatch{
			DispatchSettings: DispatchSettings{URL: []string{url}, Name: testserver.Name("bench-"), Lease: time.Minute, Secret: secret},
			Table:            "orders-1", States: "s1", Timeout: time.Minute, Log: slog.New(slog.DiscardHandler), Fatal: func() {},
		}
		if err := d.Open(b.Context()); err != nil {
			b.Fatal(err)
		}
		store := memory.New(memory.Options{})
		for i := range n {
			if err := store.Insert(memory.Row{Key: backlog.NewKey(int64(i)), Status: "NEW", Inserted: time.Now(), Columns: map[string]any{"city": "Paris"}}); err != nil {
				b.Fatal(err)
			}
		}
		m, _, err := d.request(&backlog.Record{Key: backlog.NewKey(int64(1)), Status: "NEW", AttemptID: "0123456789abcdef-1f", Names: []string{"city"}, Values: []any{"Paris"}})
		if err != nil {
			b.Fatal(err)
		}
		body = m.Body

		w := NewWorker(WorkerSettings{URL: []string{url}, Name: d.Name}, backlog.HandlerFunc(nothing), benchPrefetch)
		ctx, stop := context.WithCancel(b.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			e := &backlog.Engine{Store: w, Handler: w, Concurrency: benchPrefetch}
			if _, err := e.Pass(ctx, backlog.Pass{Tier: "work", MaxAge: time.Hour}); err != nil {
				b.Error(err)
			}
		}()
		began := time.Now()
		e := &backlog.Engine{Store: store, Handler: d, Concurrency: benchOut}
		report, err := e.Pass(b.Context(), backlog.Pass{Tier: "1d", MaxAge: 24 * time.Hour})
		ours := time.Since(began)
		if err != nil || report.Succeeded != n {
			b.Errorf("%+v %v", report, err)
		}
		stop()
		w.Stop()
		<-over
		w.Close()
		d.Close()
		bare = bareDispatch(b, url, d.Name, body, n)
		c := newBenched(b, url)
		for _, q := range []string{workQueue(d.Name), outcomeQueue(d.Name), deadLetterQueue(d.Name)} {
			c.QueueDelete(q, false, false, false)
		}
		b.ReportMetric(bare.Seconds()/ours.Seconds(), "ratio")
		b.ReportMetric(float64(n)/ours.Seconds(), "records/s")
	}
}

func bareDispatch(b *testing.B, url, name string, body []byte, n int) time.Duration {
	out, answers := newBenched(b, url), newBenched(b, url)
	in, reply := newBenched(b, url), newBenched(b, url)
	requests := in.consume(workQueue(name))
	type answered struct {
		amqp.Delivery
		*amqp.DeferredConfirmation
	}
	sent := make(chan answered, benchPrefetch)
	go func() {
		for r := range requests {
			sent <- answered{r, reply.send(outcomeQueue(name), r.Body)}
		}
	}()
	go func() {
		for s := range sent {
			s.Wait()
			s.Ack(false)
		}
	}()
	began := time.Now()
	slots := make(chan struct{}, benchOut)
	go func() {
		for range n {
			slots <- struct{}{}
			out.send(workQueue(name), body)
		}
	}()
	done := answers.consume(outcomeQueue(name))
	for range n {
		a := <-done
		a.Ack(false)
		<-slots
	}
	return time.Since(began)
}

// BenchmarkSource compares messages that a source takes, whose handler does nothing, with a
// bare loop that consumes and acknowledges.
func BenchmarkSource(b *testing.B) {
	url := testserver.RabbitMQURL(b).String()
	for b.Loop() {
		n := records(b)
		s := NewSettings()
		s.URL, s.Queue, s.Prefetch = []string{url}, testserver.Name("bench-"), benchPrefetch
		s.Exchange.Name = noExchange
		c := newBenched(b, url)
		if _, err := c.QueueDeclare(s.Queue, true, false, false, false, nil); err != nil {
			b.Fatal(err)
		}
		fill := func() {
			var last *amqp.DeferredConfirmation
			for range n {
				last = c.send(s.Queue, []byte(`{"id":4711,"city":"Paris"}`))
			}
			last.Wait()
		}
		fill()
		src := &Source{Settings: *s}
		if err := src.Open(b.Context()); err != nil {
			b.Fatal(err)
		}
		ctx, stop := context.WithCancel(b.Context())
		left := atomic.Int64{}
		left.Store(int64(n))
		e := &backlog.Engine{Store: src, Policy: s.Policy(), Concurrency: benchPrefetch, Handler: backlog.HandlerFunc(func(context.Context, *backlog.Record) error {
			if left.Add(-1) == 0 {
				stop()
			}
			return nil
		})}
		began := time.Now()
		report, err := e.Pass(ctx, backlog.Pass{Tier: "q", MaxAge: 24 * time.Hour})
		ours := time.Since(began)
		if err != nil || report.Succeeded != n {
			b.Errorf("%+v %v", report, err)
		}
		src.Close()
		fill()
		began = time.Now()
		list := c.consume(s.Queue)
		for range n {
			d := <-list
			d.Ack(false)
		}
		bare := time.Since(began)
		for _, q := range s.Topology(0).Queues {
			c.QueueDelete(q.Name, false, false, false)
		}
		for _, x := range s.Topology(0).Exchanges {
			c.ExchangeDelete(x[0], false, false)
		}
		b.ReportMetric(bare.Seconds()/ours.Seconds(), "ratio")
		b.ReportMetric(float64(n)/ours.Seconds(), "messages/s")
	}
}
