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

// DispatchSettings are what the configuration says of a handler whose work is done by
// `backlog worker` on other machines.
type DispatchSettings struct {
	URL    []string      `yaml:"url,env" want:"a URL or a list of them" required:"amqp://user:password@host/vhost"`
	Name   string        `yaml:"name" required:"orders"`       // of the work: its queues are backlog.NAME.…
	Lease  time.Duration `yaml:"lease" min:"1s"`               // how long a request waits for a worker
	Secret string        `yaml:"secret,env" required:"${KEY}"` // signs the tickets

	// ConsumerTimeout is how long the broker lets a worker have a request.
	ConsumerTimeout time.Duration `yaml:"consumer_timeout"`
}

// NewDispatchSettings returns the defaults.
func NewDispatchSettings() *DispatchSettings {
	return &DispatchSettings{Lease: time.Minute, ConsumerTimeout: 30 * time.Minute}
}

// Unacknowledged is how long a record may be handled.
func (s *DispatchSettings) Unacknowledged() time.Duration { return s.ConsumerTimeout }

// Check reports what is wrong with the settings, and nothing of what is secret.
func (s *DispatchSettings) Check(fail func(field, problem string)) {
	checkURLs(s.URL, fail)
	if s.Secret != "" && len(s.Secret) < 16 {
		fail("secret", "is shorter than 16 characters; `openssl rand -hex 32` makes one")
	}
}

// The queues of the work with a name.
func workQueue(name string) string    { return "backlog." + name + ".work" }
func outcomeQueue(name string) string { return "backlog." + name + ".outcomes" }
func lostQueue(name string) string    { return "backlog." + name + ".lost" }
func outQueue(name string) string     { return "backlog." + name + ".out" }    // something may be out
func lockQueue(name string) string    { return "backlog." + name + ".daemon" } // of the connection that hears outcomes

// mostDeliveries is how often a request may come back from workers that died.
const mostDeliveries = 3

// queues returns what the broker of that version should have.
func (s *DispatchSettings) queues(major int) []Queue {
	return []Queue{
		{Name: lostQueue(s.Name), Arguments: endless(major)},
		{Name: outcomeQueue(s.Name), Arguments: endless(major)},
		{Name: workQueue(s.Name), Arguments: amqp.Table{
			"x-queue-type": "quorum", "x-message-ttl": s.Lease.Milliseconds(), "x-delivery-limit": int64(mostDeliveries),
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": lostQueue(s.Name), "x-overflow": "reject-publish",
		}},
	}
}

// A request is what a worker is given: the line of docs/lines.md, and two fields.
type request struct {
	AttemptID string          `json:"attempt_id"`
	ID        json.RawMessage `json:"id"`
	Status    string          `json:"status"`
	Inserted  *time.Time      `json:"inserted"`
	Tier      string          `json:"tier"`
	Record    json.RawMessage `json:"record"`
	Timeout   float64         `json:"timeout_seconds"`
	Ticket    string          `json:"ticket"`
}

// An outcome is what a worker answers.
type outcome struct {
	AttemptID  string          `json:"attempt_id"`
	ID         json.RawMessage `json:"id"`
	Outcome    string          `json:"outcome"`
	Error      string          `json:"error,omitempty"`
	RetryAfter *float64        `json:"retry_after,omitempty"` // in seconds
	Worker     string          `json:"worker"`
	Duration   float64         `json:"duration_seconds"`
	Ticket     string          `json:"ticket"`
}

// The types of messages.
const (
	requestType = "backlog.request.v1"
	outcomeType = "backlog.outcome.v1"
)

// A Dispatch is a [backlog.Handler] that gives each record to one of the workers behind a
// queue and waits for its outcome. At most one attempt of a record is out at a time, for
// as long as Bound says. Methods may be called concurrently.
type Dispatch struct {
	DispatchSettings
	Table   string        // says which table, and which work on it, the outcomes are of
	States  string        // says how its rows are read
	Timeout time.Duration // of an attempt; 0: none
	Log     *slog.Logger
	Stop    <-chan struct{} // closed: nothing more is dispatched; nil: never
	Fatal   func()          // called once when the queues are another table's, as Err then says; the process must end

	link    link
	foreign atomic.Pointer[error]        // what Err returns
	away    atomic.Bool                  // the broker is, which is logged
	marking sync.Mutex                   // held while the mark is made
	mu      sync.Mutex                   // guards what follows
	hold    time.Time                    // nothing is dispatched before: what others have may still run
	waiting map[string]*flight           // those that are waited for; by attempt
	out     map[uint64]*flight           // records out; by the hash of their key
	settled map[string]*answer           // outcomes that are acknowledged when they are settled; by attempt
	late    []*answer                    // outcomes that nobody waits for
	ended   *lru.Cache[string, struct{}] // attempts of which an outcome was settled: it may come again. It has a lock of its own
	mark    mark                         // by which the broker knows that something may be out
	margin  time.Duration                // 0: margin; tests have no time

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

// mostEnded bounds the memory of attempts that have ended: an outcome that comes again comes
// within seconds, with a connection or a worker that was lost.
const mostEnded = 100_000

// A flight is an attempt that may be with a worker, until it is lost.
type flight struct {
	attempt string
	hash    uint64 // of the record's key
	until   time.Time
	ticket  string      // that was sent
	answer  chan answer // gets one
}

// An answer is an outcome that came, or what the broker says instead. Its ticket is good.
type answer struct {
	outcome
	hash     uint64 // of the record's key
	delivery amqp.Delivery
	unheard  bool // nobody has taken the request
}

// Counts are what has become of the records that were dispatched.
type Counts struct {
	Up         bool   // there is a connection
	Dispatched uint64 // records
	Settled    uint64 // outcomes for which somebody waited
	Late       uint64 // outcomes that were settled when nobody waited any more
	Stale      uint64 // outcomes of rows that have changed since
	Forged     uint64 // outcomes without a good ticket
	Lost       uint64 // attempts of which nothing was heard
}

// Counts returns what has happened so far. It waits for nobody.
func (d *Dispatch) Counts() Counts {
	return Counts{
		d.link.up(), d.dispatched.Load(), d.settledNow.Load(), d.settledLate.Load(),
		d.stale.Load(), d.forged.Load(), d.lost.Load(),
	}
}

// margin is what a message and its answer may take on their way.
const margin = 10 * time.Second

// Bound is how long a record that was dispatched is given to nobody else.
func (d *Dispatch) Bound() time.Duration { return d.Lease + d.Timeout + cmp.Or(d.margin, margin) }

func (d *Dispatch) broker() *Settings {
	return &Settings{URL: d.URL, Name: "backlog " + d.Name}
}

// open returns the session, a new one if need be, which hears of outcomes.
func (d *Dispatch) open(ctx context.Context) (*session, error) {
	if err := d.Err(); err != nil {
		return nil, err
	}
	return d.link.open(ctx, d.Log, d.broker(), func(p *session) error {
		d.mu.Lock()
		if d.waiting == nil {
			d.waiting = make(map[string]*flight)
			d.out = make(map[uint64]*flight)
			d.settled = make(map[string]*answer)
			d.ended, _ = lru.New[string, struct{}](mostEnded) // an error is a size of 0
		}
		d.late = nil // they come again
		d.mu.Unlock()
		return d.prepare(ctx, p)
	})
}

// Open connects as the first record would. It is an error if another process hears the
// outcomes.
func (d *Dispatch) Open(ctx context.Context) error { return errorOf(d.open(ctx)) }

// prepare declares the queues, hears of outcomes as the only process, and looks what others
// have left.
func (d *Dispatch) prepare(ctx context.Context, p *session) error {
	err := p.probe(ctx, func(ch *amqp.Channel) error { // goes with the session
		return errorOf(ch.QueueDeclare(lockQueue(d.Name), false, true, true, false, amqp.Table{"x-queue-type": "classic"}))
	})
	if hasCode(err, amqp.ResourceLocked) {
		return unavailable(fmt.Errorf("another process hears the outcomes of %s; it is a daemon or `backlog once`, and must end first", d.Name))
	}
	if err != nil {
		return ofQueue(lockQueue(d.Name), err)
	}
	queues := d.queues(p.major) // the first two are used as they are: what they should be differs between versions
	if err = p.declare(ctx, Topology{Queues: queues[:2]}, "missing"); err == nil {
		err = d.otherwise(ctx, p, p.declare(ctx, Topology{Queues: queues[2:]}, "all")) // its lease must be ours, on which Bound relies
	}
	if err != nil {
		return err
	}
	err = p.within(ctx, func() error {
		if err := p.consume.Qos(2000, 0, false); err != nil {
			return err
		}
		for _, name := range []string{outcomeQueue(d.Name), lostQueue(d.Name)} {
			list, err := p.consume.Consume(name, "", false, false, false, false, nil)
			if err != nil {
				return err
			}
			go d.hear(p, list, name)
		}
		return nil
	})
	if err != nil {
		return worded(err)
	}
	return d.takeOver(ctx, p)
}

// Handle implements [backlog.Handler]. It ends with the outcome, or, when Bound is over,
// as if the record had been skipped.
func (d *Dispatch) Handle(ctx context.Context, r *backlog.Record) error {
	p, err := d.start(ctx, r.Key.Hash())
	if err != nil {
		return err
	}
	m, ticket, err := d.request(r)
	if err != nil {
		return err
	}
	f := &flight{r.AttemptID, r.Key.Hash(), time.Now().Add(d.Bound()), ticket, make(chan answer, 1)}
	d.mu.Lock()
	if d.mayBeOut(f.hash) {
		d.mu.Unlock()
		return errOut
	}
	d.out[f.hash], d.waiting[f.attempt] = f, f
	d.mu.Unlock()
	refused, err := p.post(ctx, m)
	if err != nil && strings.Contains(err.Error(), fmt.Sprintf("message size %d ", len(m.Body))) {
		d.forget(f, true)
		return p.why()
	} // else it is unknown whether the broker has it, and it may
	if refused != nil {
		d.forget(f, true)
		p.end(refused) // a queue that is missing is declared by the next session
		return fmt.Errorf("%w: %w", backlog.Skip, d.link.tell(d.Log, fmt.Errorf("queue %s: %w", m.key, refused)))
	}
	d.dispatched.Add(1)
	d.mu.Lock()
	f.until = time.Now().Add(d.Bound()) // the lease begins now
	d.mu.Unlock()
	select {
	case a := <-f.answer:
		if a.unheard {
			return fmt.Errorf("%w: no worker has taken it within %v", backlog.Skip, d.Lease)
		}
		return a.err()
	case <-time.After(d.Bound()):
		d.forget(f, true)
		d.lost.Add(1)
		return fmt.Errorf("%w: lost: no outcome within %v", backlog.Skip, d.Bound())
	case <-ctx.Done():
		d.forget(f, false)
		return context.Cause(ctx)
	}
}

var errStopped = fmt.Errorf("%w: stopped before it was dispatched", backlog.Skip)

// start waits until the record may be dispatched. It does not wait for a record of which an
// attempt may be out: the outcome of that can be settled only when this one has ended.
func (d *Dispatch) start(ctx context.Context, hash uint64) (*session, error) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		d.mu.Lock()
		out := d.mayBeOut(hash)
		d.mu.Unlock()
		if out {
			return nil, errOut
		}
		p, wait, err := d.ready(ctx)
		switch {
		case err == nil && wait <= 0:
			return p, nil
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

// forget ends the wait for an attempt. over says that it cannot be out any more.
func (d *Dispatch) forget(f *flight, over bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.waiting, f.attempt)
	if over {
		delete(d.out, f.hash)
	}
}

// request returns the message for the record, and its ticket.
func (d *Dispatch) request(r *backlog.Record) (m message, signed string, err error) {
	t := ticketOf(r, d.Table, d.States)
	q := request{AttemptID: r.AttemptID, Status: r.Status, Tier: r.Tier, Timeout: d.Timeout.Seconds(), Ticket: t.sign(d.Secret)}
	if !r.Inserted.IsZero() {
		q.Inserted = new(r.Inserted.UTC())
	}
	q.ID, _ = json.Marshal(r.Key) // which always is JSON
	if q.Record, err = r.ColumnsJSON(); err != nil {
		return m, "", err
	}
	body, err := json.Marshal(q)
	return message{"", workQueue(d.Name), amqp.Publishing{Body: body, ContentType: "application/json", MessageId: r.AttemptID, Type: requestType, Timestamp: time.Now()}}, q.Ticket, err
}

// Prepare reports nothing: a broker that is away is waited for.
func (d *Dispatch) Prepare() error { return nil }

// Describe implements [backlog.ConfiguredHandler]. What Inspect finds is shown instead.
func (d *Dispatch) Describe() backlog.Description { return backlog.Description{} }

// Close ends the session. Where nothing is out, the broker is told so.
func (d *Dispatch) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.link.current()
	if p == nil {
		return nil
	}
	now := time.Now()
	maps.DeleteFunc(d.out, func(_ uint64, f *flight) bool { return now.After(f.until) })
	var err error
	if d.mark.there && len(d.out) == 0 && now.After(d.hold) && !p.over() {
		err = p.probe(context.Background(), func(ch *amqp.Channel) error {
			return errorOf(ch.QueueDelete(outQueue(d.Name), false, false, false))
		})
	}
	d.mark = mark{} // what is found later is another's
	p.close()
	return worded(err)
}
