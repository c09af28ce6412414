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

// WorkerSettings are the part of a worker's configuration file about its broker. URL may hold a
// password and must not be printed.
type WorkerSettings struct {
	URL  []string `yaml:"url,env" want:"a URL or a list of them" required:"amqp://user:password@host/vhost"`
	Name string   `yaml:"name" required:"orders"` // of the work, as in the daemon's file
}

// Check calls fail with each problem of the settings. Its texts show no secret.
func (s *WorkerSettings) Check(fail func(field, problem string)) { checkURLs(s.URL, fail) }

// A Worker receives the requests of a [Dispatch]. An engine runs it both as the [backlog.Store],
// whose records are the requests, and as their [backlog.Handler]. Handle publishes the outcome
// and acknowledges the request itself, so that nothing is left to Settle.
//
// Methods may be called concurrently.
type Worker struct {
	*Source
	Handler backlog.Handler

	name string
}

// NewWorker returns a worker that calls the handler h for at most concurrency requests at a time.
func NewWorker(s WorkerSettings, h backlog.Handler, concurrency int) *Worker {
	settings := Settings{URL: s.URL, Name: "backlog worker " + s.Name, Queue: workQueue(s.Name), Declare: "never", Prefetch: concurrency}
	return &Worker{Handler: h, name: s.Name, Source: &Source{Settings: settings, decodeRequest: readRequest}}
}

// readRequest sets u.request to the request of a delivery, and returns the request's record. Its errors
// continue a sentence about the message.
func readRequest(u *unacked) (r backlog.Record, err error) {
	if u.Type != requestType {
		return r, fmt.Errorf("is no request of this version, but of type %q", u.Type)
	}
	if err := json.Unmarshal(u.Body, &u.request); err != nil {
		return r, fmt.Errorf("is no request of this version: %w", err)
	}
	q := u.request
	key, err := decodeKey(q.ID)
	if err != nil {
		return r, err
	}
	r = backlog.Record{Key: key, Status: q.Status, Tier: q.Tier}
	if q.Inserted != nil {
		r.Inserted = *q.Inserted
	}
	r.Names, r.Values, err = columnsOf(q.Record)
	return r, err
}

// decodeKey returns the key of a record from the id of a request: a JSON value, or an array of the parts
// of a composite key.
func decodeKey(id json.RawMessage) (backlog.Key, error) {
	var v any
	if err := decodeNumbers(id, &v); err != nil {
		return backlog.Key{}, err
	}
	values, isComposite := v.([]any)
	if !isComposite {
		values = []any{v}
	}
	parts := make([]any, len(values))
	for i, value := range values {
		parts[i] = keyPart(value)
	}
	return backlog.NewKey(parts...), nil
}

// keyPart returns a decoded JSON value as a part of a key: a whole number as int64, any other number as
// the text that it is written as, and everything else as it is.
func keyPart(v any) any {
	number, ok := v.(json.Number)
	if !ok {
		return v
	}
	if whole, err := number.Int64(); err == nil {
		return whole
	}
	return number.String()
}

// columnsOf returns the columns of a record, a valid JSON object, in their order.
func columnsOf(object json.RawMessage) (names []string, values []any, err error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if begin, _ := d.Token(); begin != json.Delim('{') {
		return nil, nil, errors.New("has no record")
	}
	for d.More() {
		name, _ := d.Token()
		var raw json.RawMessage
		_ = d.Decode(&raw)
		var v any = raw // numbers stay as they are written: a float64 may be too short for them
		isTextBoolOrNull := strings.IndexByte(`"tfn`, raw[0]) >= 0
		if isTextBoolOrNull {
			v = nil
			_ = json.Unmarshal(raw, &v) // valid, since Decode could read it
		}
		names = append(names, name.(string))
		values = append(values, v)
	}
	return names, values, nil
}

// Handle implements [backlog.Handler]. It calls the worker's own handler, at most for the timeout
// in the request, and publishes the outcome. It ends the handler when the session ends, since
// the broker then redelivers the request to another worker at once.
func (w *Worker) Handle(ctx context.Context, r *backlog.Record) error {
	u, err := w.lookup(r)
	if err != nil {
		return err
	}
	if time.Since(u.Timestamp) > maxRequestAge {
		return errWaitedTooLong
	}
	q := &u.request
	r.AttemptID = q.AttemptID
	r.Tier = q.Tier
	r.Traceparent = q.Traceparent
	began := time.Now()
	limit := time.Duration(q.Timeout * float64(time.Second))
	stopCtx := ctx // done when the worker is to stop
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(u.session.ctx, func() { cancel(errSessionLost) })()
	timedOut := fmt.Errorf("timed out after %v", limit)
	ctx, end := context.WithTimeoutCause(ctx, limit, timedOut)
	defer end()
	err = w.Handler.Handle(ctx, r)
	if context.Cause(ctx) == timedOut && errors.Is(err, context.DeadlineExceeded) {
		err = timedOut
	}
	o := outcome{
		AttemptID: q.AttemptID, ID: q.ID, Outcome: backlog.OutcomeOf(err).String(), Worker: program(), Ticket: q.Ticket,
		Duration: time.Since(began).Seconds(),
	}
	if err != nil {
		o.Error = err.Error()
	}
	if t, asks := backlog.SnoozeOf(err); asks {
		o.Snooze = t.For.Seconds()
		if !t.Until.IsZero() {
			o.Snooze = backlog.TimeText(t.Until)
		}
	}
	if wait, asks := backlog.PauseOf(err); asks {
		err = o.err() // without the pause: the daemon pauses, while a pausing worker would keep its requests
		o.RetryAfter = new(wait.Seconds())
	}
	if err != nil && stopCtx.Err() != nil && o.Outcome == "error" {
		return err // the stop has interrupted it: the request is requeued for another worker
	}
	if answerErr := w.answer(stopCtx, u, &o); answerErr != nil {
		return fmt.Errorf("%w: the outcome %s was not sent: %w", backlog.Skip, o.Outcome, answerErr)
	}
	return err
}

// answer publishes the outcome, every second until the broker takes it, and then acknowledges the
// request. After an error the broker redelivers the request.
func (w *Worker) answer(ctx context.Context, u *unacked, o *outcome) error {
	body, _ := json.Marshal(o) // never fails: the only raw JSON in it is from the request
	p := amqp.Publishing{Body: body, ContentType: "application/json", MessageId: o.AttemptID, Type: outcomeType, Timestamp: time.Now()}
	m := message{"", outcomeQueue(w.name), p}
	for {
		refused, err := u.session.sendOne(ctx, m)
		if err != nil {
			return err
		}
		if refused == nil {
			u.acked = true
			return u.Ack(false)
		}
		w.sessions.logError(w.Log, fmt.Errorf("queue %s: %w", m.key, refused))
		select { // the daemon declares a missing queue
		case <-time.After(time.Second):
		case <-u.session.ctx.Done():
		case <-ctx.Done():
			return refused
		}
	}
}

// maxRequestAge is how long a request may wait in a worker before it is started, as it does while
// the broker takes no outcomes. It is half of margin; the handler may take the other half to
// end. After that the daemon may have given the attempt up.
const maxRequestAge = margin / 2

var errWaitedTooLong = fmt.Errorf("%w: it has waited too long in this worker, and goes back", backlog.Skip)

// program returns the name of this process in outcomes: host and process id.
var program = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return fmt.Sprintf("%s/%d", name, os.Getpid())
})

// KeepsSnooze implements [backlog.Snoozer]: the daemon that gets the outcome keeps it.
func (w *Worker) KeepsSnooze(*backlog.Record) bool { return true }

// Settle implements [backlog.Store]. Handle has published the outcomes already.
func (w *Worker) Settle(_ context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range group {
		w.forget(group[i].Record.Origin)
	}
	return nil, nil
}
