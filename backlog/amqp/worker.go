package amqp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
)

// WorkerSettings are what the configuration says of a worker's broker.
type WorkerSettings struct {
	URL  []string `yaml:"url,env" want:"a URL or a list of them" required:"amqp://user:password@host/vhost"`
	Name string   `yaml:"name" required:"orders"` // as the daemon calls the work
}

// Check reports what is wrong with the settings, and nothing of what is secret.
func (s *WorkerSettings) Check(fail func(field, problem string)) { checkURLs(s.URL, fail) }

// A Worker is the requests of a [Dispatch] as a [backlog.Store], and the handler of them:
// an engine runs both. An outcome is published before its request is acknowledged, both by
// Handle: Settle has nothing to do. Methods may be called concurrently.
type Worker struct {
	*Source
	Handler backlog.Handler

	name string
}

// NewWorker returns a worker that calls the handler, so many times at a time.
func NewWorker(s WorkerSettings, h backlog.Handler, concurrency int) *Worker {
	settings := Settings{URL: s.URL, Name: "backlog worker " + s.Name, Queue: workQueue(s.Name), Declare: "never", Prefetch: concurrency}
	return &Worker{Handler: h, name: s.Name, Source: &Source{Settings: settings, read: readRequest}}
}

// readRequest reads the request of a delivery, and returns what it asks for as a record. One
// that cannot be read is an error.
func readRequest(h *held) (r backlog.Record, err error) {
	if h.Type != requestType {
		return r, fmt.Errorf("is no request of this version, but of type %q", h.Type)
	}
	q := &h.request
	if err := json.Unmarshal(h.Body, q); err != nil {
		return r, fmt.Errorf("is no request of this version: %w", err)
	}
	var id any
	if err := decodeNumbers(q.ID, &id); err != nil {
		return r, err
	}
	parts, composite := id.([]any)
	if !composite {
		parts = []any{id}
	}
	for i, part := range parts {
		if number, is := part.(json.Number); is {
			parts[i] = number.String()
			if whole, err := number.Int64(); err == nil {
				parts[i] = whole
			}
		}
	}
	r = backlog.Record{Key: backlog.NewKey(parts...), Status: q.Status, Tier: q.Tier}
	if q.Inserted != nil {
		r.Inserted = *q.Inserted
	}
	r.Names, r.Values, err = columnsOf(q.Record)
	return r, err
}

// columnsOf returns the columns of a record, which is good JSON, in their order.
func columnsOf(object json.RawMessage) (names []string, values []any, err error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if begin, _ := d.Token(); begin != json.Delim('{') {
		return nil, nil, errors.New("has no record")
	}
	for d.More() {
		name, _ := d.Token()
		var raw json.RawMessage
		_ = d.Decode(&raw)
		var v any = raw // as it is written: a number may be longer than a float64
		if strings.IndexByte(`"tfn`, raw[0]) >= 0 {
			v = nil
			_ = json.Unmarshal(raw, &v) // as Decode could
		}
		names, values = append(names, name.(string)), append(values, v)
	}
	return names, values, nil
}

// Handle implements [backlog.Handler]: it calls the worker's own, for as long as the
// request says and the session lasts. After a lost session the broker gives the record to
// another worker at once.
func (w *Worker) Handle(ctx context.Context, r *backlog.Record) error {
	h, err := w.take(r)
	if err != nil {
		return err
	}
	if time.Since(h.Timestamp) > patience {
		return errKept
	}
	q := &h.request
	r.AttemptID, r.Tier = q.AttemptID, q.Tier
	began, limit := time.Now(), time.Duration(q.Timeout*float64(time.Second))
	stopped := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.session.ctx, func() { cancel(errSessionLost) })()
	late := fmt.Errorf("timed out after %v", limit)
	ctx, end := context.WithTimeoutCause(ctx, limit, late)
	defer end()
	err = w.Handler.Handle(ctx, r)
	if context.Cause(ctx) == late && errors.Is(err, context.DeadlineExceeded) {
		err = late
	}
	o := outcome{
		AttemptID: q.AttemptID, ID: q.ID, Outcome: backlog.OutcomeOf(err).String(), Worker: program(), Ticket: q.Ticket,
		Duration: time.Since(began).Seconds(),
	}
	if err != nil {
		o.Error = err.Error()
	}
	if wait, asks := backlog.PauseOf(err); asks {
		err = o.err() // the pause is the daemon's: a worker that pauses would keep what it was given
		o.RetryAfter = new(wait.Seconds())
	}
	if err != nil && stopped.Err() != nil && o.Outcome == "error" {
		return err // the stop has ended it: somebody else is to do it
	}
	if failed := w.answer(stopped, h, &o); failed != nil {
		return fmt.Errorf("%w: the outcome %s was not sent: %w", backlog.Skip, o.Outcome, failed)
	}
	return err
}

// answer publishes the outcome until the broker has it, and then acknowledges the request.
// After an error the broker gives the request again.
func (w *Worker) answer(ctx context.Context, h *held, o *outcome) error {
	body, _ := json.Marshal(o) // whose id was in the request
	m := message{"", outcomeQueue(w.name), amqp.Publishing{Body: body, ContentType: "application/json", MessageId: o.AttemptID, Type: outcomeType, Timestamp: time.Now()}}
	for {
		refused, err := h.session.post(ctx, m)
		if err != nil {
			return err
		}
		if refused == nil {
			h.done = true
			return h.Ack(false)
		}
		w.link.tell(w.Log, fmt.Errorf("queue %s: %w", m.key, refused))
		select { // the daemon declares a queue that is missing
		case <-time.After(time.Second):
		case <-h.session.ctx.Done():
		case <-ctx.Done():
			return refused
		}
	}
}

// patience is how long a request may lie in a worker before it is started, as when the
// broker takes no outcomes: half of margin, whose other half is a handler's to end. Later
// the daemon might have given up the attempt.
const patience = margin / 2

var errKept = fmt.Errorf("%w: it has waited too long in this worker, and goes back", backlog.Skip)

// program names this process to whoever reads an outcome.
var program = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return fmt.Sprintf("%s/%d", name, os.Getpid())
})

// Settle implements [backlog.Store]: Handle has sent the outcomes.
func (w *Worker) Settle(_ context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range group {
		w.forget(group[i].Record.Origin)
	}
	return nil, nil
}
