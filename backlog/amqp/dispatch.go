package amqp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
)

// DispatchSettings are the part of the configuration file for a [Dispatch]: the handler whose
// work is done by `backlog worker` on other machines. URL and Secret must not be printed.
type DispatchSettings struct {
	URL    []string      `yaml:"url,env" want:"a URL or a list of them" required:"amqp://user:password@host/vhost"`
	Name   string        `yaml:"name" required:"orders"`       // of the work; the queues are backlog.NAME.…
	Lease  time.Duration `yaml:"lease" min:"1s"`               // how long a request waits for a worker
	Secret string        `yaml:"secret,env" required:"${KEY}"` // signs the tickets

	// ConsumerTimeout is the broker's consumer_timeout: how long a worker may have a request.
	ConsumerTimeout time.Duration `yaml:"consumer_timeout"`
}

// NewDispatchSettings returns the defaults.
func NewDispatchSettings() *DispatchSettings {
	return &DispatchSettings{Lease: time.Minute, ConsumerTimeout: 30 * time.Minute}
}

// Unacknowledged returns how long a request may be unacknowledged, and so how long a record may
// be handled.
func (s *DispatchSettings) Unacknowledged() time.Duration { return s.ConsumerTimeout }

// Check calls fail with each problem of the settings. Its texts show no secret.
func (s *DispatchSettings) Check(fail func(field, problem string)) {
	checkURLs(s.URL, fail)
	if s.Secret != "" && len(s.Secret) < 16 {
		fail("secret", "is shorter than 16 characters; `openssl rand -hex 32` makes one")
	}
}

// The names of the queues, by the name of the work. The mark queue exists while requests may be
// with workers, see [marker]. The lock queue belongs to the connection that receives outcomes.
func workQueue(name string) string       { return "backlog." + name + ".work" }
func outcomeQueue(name string) string    { return "backlog." + name + ".outcomes" }
func deadLetterQueue(name string) string { return "backlog." + name + ".lost" }
func markQueue(name string) string       { return "backlog." + name + ".out" }
func lockQueue(name string) string       { return "backlog." + name + ".daemon" }

// deliveryLimit is how often the work queue redelivers a request whose worker has died.
const deliveryLimit = 3

// queues returns the queues that a broker of that major version should have. The work queue is
// the last.
func (s *DispatchSettings) queues(major int) []Queue {
	return []Queue{
		{Name: deadLetterQueue(s.Name), Arguments: unlimitedQuorum(major)},
		{Name: outcomeQueue(s.Name), Arguments: unlimitedQuorum(major)},
		{Name: workQueue(s.Name), Arguments: amqp.Table{
			"x-queue-type": "quorum", "x-message-ttl": s.Lease.Milliseconds(), "x-delivery-limit": int64(deliveryLimit),
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": deadLetterQueue(s.Name), "x-overflow": "reject-publish",
		}},
	}
}

// A request is the JSON that a worker gets: the line of docs/lines.md with two fields more,
// timeout_seconds and ticket.
type request struct {
	AttemptID   string          `json:"attempt_id"`
	ID          json.RawMessage `json:"id"`
	Status      string          `json:"status"`
	Inserted    *time.Time      `json:"inserted"`
	Tier        string          `json:"tier"`
	Traceparent string          `json:"traceparent,omitempty"`
	Record      json.RawMessage `json:"record"`
	Timeout     float64         `json:"timeout_seconds"`
	Ticket      string          `json:"ticket"`
}

// An outcome is the JSON with which a worker answers.
type outcome struct {
	AttemptID  string          `json:"attempt_id"`
	ID         json.RawMessage `json:"id"`
	Outcome    string          `json:"outcome"`
	Error      string          `json:"error,omitempty"`
	RetryAfter *float64        `json:"retry_after,omitempty"` // in seconds
	Snooze     any             `json:"snooze,omitempty"`      // for [backlog.ParseSnooze]; a worker of this program writes seconds
	Worker     string          `json:"worker"`
	Duration   float64         `json:"duration_seconds"`
	Ticket     string          `json:"ticket"`
}

// The AMQP property type of requests and outcomes.
const (
	requestType = "backlog.request.v1"
	outcomeType = "backlog.outcome.v1"
)

// A Dispatch is a [backlog.Handler] that publishes a request for each record to a queue from
// which workers consume, and waits for the outcome on another queue. At most one attempt of a
// record is in flight at a time, for as long as Bound says.
//
// Methods may be called concurrently.
type Dispatch struct {
	DispatchSettings
	Table   string        // identifies the table, and the work on it, to which outcomes belong
	States  string        // identifies how rows are read; other settings read them otherwise
	Timeout time.Duration // of an attempt; 0: none
	Log     *slog.Logger
	Stop    <-chan struct{} // closed: nothing more is dispatched; nil: never
	Fatal   func()          // called once if the queues belong to another table, see Err; the process must end then

	sessions    sessionKeeper
	wrongTable  atomic.Pointer[error] // what Err returns
	unavailable atomic.Bool           // records wait, which is logged
	markMu      sync.Mutex            // held while the mark is written

	mu              sync.Mutex                   // guards the following
	holdUntil       time.Time                    // nothing is dispatched before: requests of another process may still be at work
	waiting         map[string]*flight           // attempts for which a call of Handle waits; by attempt
	inFlight        map[uint64]*flight           // attempts that a worker may have, and those whose outcome is not settled; by the hash of the record's key
	toAck           map[string]*received         // outcomes that are acknowledged when they are settled; by attempt
	lateOutcomes    []*received                  // outcomes for which no call waits
	settledAttempts *lru.Cache[string, struct{}] // attempts with a settled outcome, which may be delivered again. It has a lock of its own
	mark            marker
	margin          time.Duration // of Bound; 0: the constant margin; tests set less

	dispatched, settledNow, settledLate, stale, forged, lost atomic.Uint64 // as in Counts
}

var (
	_ backlog.ConfiguredHandler = (*Dispatch)(nil)
	_ backlog.ClosingHandler    = (*Dispatch)(nil)
	_ backlog.ReadyChecker      = (*Dispatch)(nil)
	_ backlog.LateCollector     = (*Dispatch)(nil)
	_ backlog.Finisher          = (*Dispatch)(nil)
	_ io.Closer                 = (*Dispatch)(nil)
)

// maxSettledAttempts bounds settledAttempts. An outcome is delivered again within seconds, after
// a connection or a worker was lost.
const maxSettledAttempts = 100_000

// A flight is an attempt that may be with a worker, until it counts as lost.
type flight struct {
	attempt string
	hash    uint64    // of the record's key
	until   time.Time // then it is lost
	ticket  string    // the one that was sent
	answer  chan received
}

// A received is an outcome that has arrived, or the dead letter of a request. Its ticket has
// been checked.
type received struct {
	outcome
	hash     uint64 // of the record's key
	delivery amqp.Delivery
	expired  bool // no worker has taken the request within the lease
}

// Counts say what has become of dispatched records.
type Counts struct {
	Up         bool   // the broker is connected
	Dispatched uint64 // records
	Settled    uint64 // outcomes for which a call of Handle waited
	Late       uint64 // outcomes that were settled when no call waited any more
	Stale      uint64 // outcomes that were dropped: the row has changed, or the attempt had an outcome already
	Forged     uint64 // outcomes without a valid ticket
	Lost       uint64 // attempts without an outcome within Bound
}

// Counts returns the counts so far. It never blocks.
func (d *Dispatch) Counts() Counts {
	return Counts{
		Up:         d.sessions.up(),
		Dispatched: d.dispatched.Load(),
		Settled:    d.settledNow.Load(),
		Late:       d.settledLate.Load(),
		Stale:      d.stale.Load(),
		Forged:     d.forged.Load(),
		Lost:       d.lost.Load(),
	}
}

// margin is how long a request and its outcome together may be under way.
const margin = 10 * time.Second

// Bound returns for how long a dispatched record is dispatched to no other worker.
func (d *Dispatch) Bound() time.Duration { return d.Lease + d.Timeout + cmp.Or(d.margin, margin) }

// broker returns the settings of the connection.
func (d *Dispatch) broker() *Settings {
	return &Settings{URL: d.URL, Name: "backlog " + d.Name}
}

// open returns the session, which receives outcomes. It opens a new one if the last has ended.
func (d *Dispatch) open(ctx context.Context) (*session, error) {
	if err := d.Err(); err != nil {
		return nil, err
	}
	return d.sessions.open(ctx, d.Log, d.broker(), func(sess *session) error {
		d.mu.Lock()
		if d.waiting == nil {
			d.waiting = make(map[string]*flight)
			d.inFlight = make(map[uint64]*flight)
			d.toAck = make(map[string]*received)
			d.settledAttempts, _ = lru.New[string, struct{}](maxSettledAttempts) // fails only for a size of 0
		}
		d.lateOutcomes = nil // the broker redelivers them
		d.mu.Unlock()
		return d.prepare(ctx, sess)
	})
}

// Open connects as the first record would. It returns an error if another process receives the
// outcomes.
func (d *Dispatch) Open(ctx context.Context) error { return onlyError(d.open(ctx)) }

// prepare makes a new session ready: it takes the lock, declares the queues, begins to receive
// outcomes, and finds out whether another process has left requests with workers.
func (d *Dispatch) prepare(ctx context.Context, sess *session) error {
	const (
		durable    = false
		autoDelete = true
		exclusive  = true // the broker deletes the queue with the connection
		noWait     = false
	)
	err := sess.withChannel(ctx, func(ch *amqp.Channel) error {
		return onlyError(ch.QueueDeclare(lockQueue(d.Name), durable, autoDelete, exclusive, noWait, amqp.Table{"x-queue-type": "classic"}))
	})
	if hasCode(err, amqp.ResourceLocked) {
		return unavailable(fmt.Errorf("another process hears the outcomes of %s; it is a daemon or `backlog once`, and must end first", d.Name))
	}
	if err != nil {
		return queueError(lockQueue(d.Name), err)
	}
	// The first two queues are used as they are, since their arguments differ between versions of
	// the broker. The work queue must be as declared: Bound relies on its lease.
	queues := d.queues(sess.major)
	if err := sess.declare(ctx, Topology{Queues: queues[:2]}, "missing"); err != nil {
		return err
	}
	err = sess.declare(ctx, Topology{Queues: queues[2:]}, "all")
	if err != nil {
		return d.explainWorkQueue(ctx, sess, err)
	}
	err = sess.withTimeout(ctx, func() error {
		if err := sess.consume.Qos(2000, 0, false); err != nil {
			return err
		}
		for _, name := range []string{outcomeQueue(d.Name), deadLetterQueue(d.Name)} {
			list, err := sess.consume.Consume(name, "", false, false, false, false, nil)
			if err != nil {
				return err
			}
			go d.receiveOutcomes(sess, list, name)
		}
		return nil
	})
	if err != nil {
		return explain(err)
	}
	return d.takeOver(ctx, sess)
}

// Handle implements [backlog.Handler]. It publishes a request for r and returns the worker's
// outcome. It returns a [backlog.Skip] if no worker takes the request within the lease, or no
// outcome comes within Bound.
func (d *Dispatch) Handle(ctx context.Context, r *backlog.Record) error {
	sess, err := d.waitUntilReady(ctx, r.Key.Hash())
	if err != nil {
		return err
	}
	m, ticket, err := d.request(r)
	if err != nil {
		return err
	}
	f := &flight{
		attempt: r.AttemptID,
		hash:    r.Key.Hash(),
		until:   time.Now().Add(d.Bound()),
		ticket:  ticket,
		answer:  make(chan received, 1),
	}
	d.mu.Lock()
	if d.mayBeInFlight(f.hash) {
		d.mu.Unlock()
		return errInFlight
	}
	d.inFlight[f.hash] = f
	d.waiting[f.attempt] = f
	d.mu.Unlock()
	refused, err := sess.sendOne(ctx, m)
	// Only this error says that the broker does not have the request. After any other it may
	// have it, and an outcome may come.
	tooLarge := err != nil && strings.Contains(err.Error(), fmt.Sprintf("message size %d ", len(m.Body)))
	if tooLarge {
		d.endFlight(f)
		return sess.reason()
	}
	if refused != nil {
		d.endFlight(f)
		sess.end(refused) // the next session declares a missing queue
		return fmt.Errorf("%w: %w", backlog.Skip, d.sessions.logError(d.Log, fmt.Errorf("queue %s: %w", m.key, refused)))
	}
	d.dispatched.Add(1)
	d.mu.Lock()
	f.until = time.Now().Add(d.Bound()) // the lease has begun at the latest now
	d.mu.Unlock()
	select {
	case a := <-f.answer:
		if a.expired {
			return fmt.Errorf("%w: no worker has taken it within %v", backlog.Skip, d.Lease)
		}
		return a.err()
	case <-time.After(d.Bound()):
		d.endFlight(f)
		d.lost.Add(1)
		return fmt.Errorf("%w: lost: no outcome within %v", backlog.Skip, d.Bound())
	case <-ctx.Done():
		d.stopWaiting(f)
		return context.Cause(ctx)
	}
}

var errStopped = fmt.Errorf("%w: stopped before it was dispatched", backlog.Skip)

// waitUntilReady waits until a record may be dispatched, and returns the session for that. If an
// attempt of the record may be in flight it returns at once: the engine can settle that
// attempt's outcome only when this call has returned.
func (d *Dispatch) waitUntilReady(ctx context.Context, hash uint64) (*session, error) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		d.mu.Lock()
		inFlight := d.mayBeInFlight(hash)
		d.mu.Unlock()
		if inFlight {
			return nil, errInFlight
		}
		sess, wait, err := d.ready(ctx)
		switch {
		case err == nil && wait <= 0:
			return sess, nil
		case err == nil:
			pause = min(wait, time.Second)
		case !errors.Is(err, backlog.ErrUnavailable):
			return nil, backlog.Unstarted(err)
		}
		select {
		case <-time.After(pause):
		case <-d.Stop:
			return nil, errStopped
		case <-ctx.Done():
			return nil, errStopped
		}
	}
}

// stopWaiting ends the wait for an attempt that a worker may still have.
func (d *Dispatch) stopWaiting(f *flight) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waiting, f.attempt)
}

// endFlight ends the wait for an attempt that no worker can have any more.
func (d *Dispatch) endFlight(f *flight) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waiting, f.attempt)
	delete(d.inFlight, f.hash)
}

// request returns the request for a record as a message, and its ticket.
func (d *Dispatch) request(r *backlog.Record) (m message, signed string, err error) {
	t := ticketOf(r, d.Table, d.States)
	q := request{
		AttemptID: r.AttemptID, Status: r.Status, Tier: r.Tier, Traceparent: r.Traceparent, Timeout: d.Timeout.Seconds(), Ticket: t.sign(d.Secret),
	}
	if !r.Inserted.IsZero() {
		q.Inserted = new(r.Inserted.UTC())
	}
	q.ID, _ = json.Marshal(r.Key) // never fails
	q.Record, err = r.ColumnsJSON()
	if err != nil {
		return m, "", err
	}
	body, err := json.Marshal(q)
	p := amqp.Publishing{Body: body, ContentType: "application/json", MessageId: r.AttemptID, Type: requestType, Timestamp: time.Now()}
	if r.Traceparent != "" {
		p.Headers = amqp.Table{"traceparent": r.Traceparent} // for what traces the broker
	}
	return message{"", workQueue(d.Name), p}, q.Ticket, err
}

// Prepare implements [backlog.ConfiguredHandler]. It returns nil: if the broker is unavailable,
// Handle waits for it.
func (d *Dispatch) Prepare() error { return nil }

// Describe implements [backlog.ConfiguredHandler]. It says nothing: commands show what Inspect
// finds.
func (d *Dispatch) Describe() backlog.Description { return backlog.Description{} }

// Close ends the session. If no worker can have a request, it deletes the mark queue first: the next
// process then need not wait for the workers, see [marker].
func (d *Dispatch) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	sess := d.sessions.current()
	if sess == nil {
		return nil
	}
	now := time.Now()
	maps.DeleteFunc(d.inFlight, func(_ uint64, f *flight) bool { return now.After(f.until) })
	workersMayHaveRequests := len(d.inFlight) > 0 || !now.After(d.holdUntil)
	var err error
	if d.mark.exists && !workersMayHaveRequests && !sess.ended() {
		err = sess.deleteMarkQueue(d.Name)
	}
	d.mark = marker{} // a mark that is found later is another process's
	sess.close()
	return err
}
