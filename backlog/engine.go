package backlog

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

// An Engine runs passes: it selects pending records from a Store, hands them
// to a Handler and settles the outcomes. Store and Handler are required, the
// zero value of every other field is a default. The fields must not be changed
// after the first call of Pass. An Engine may run several passes at once; they
// share its limits, and no record is in two of them at a time.
//
// It guarantees at-least-once processing: Succeeded is written only when the
// handler returned nil, and a crash at any point leaves every record either
// settled or pending. After a crash at most [MaxGroup] records that were
// already handled are handled again.
type Engine struct {
	Store   Store
	Handler Handler

	Concurrency int           // handler calls at a time, over all passes; 0: 1
	Timeout     time.Duration // of one handler call; 0: none
	MaxRecords  int           // per pass; 0: no cap
	AbortAfter  int           // consecutive failures that end a pass; 0: never
	Rate        float64       // handler calls started per second, over all passes; 0: no limit
	MaxPause    time.Duration // bound on the pauses handlers ask for; 0: one hour

	// ShutdownTimeout is how long running handlers may go on after the
	// pass's context is done; 0: 30 s.
	ShutdownTimeout time.Duration
	// Hard, when closed, ends running handlers at once.
	Hard <-chan struct{}

	Now     func() time.Time // nil: time.Now
	Observe func(Event)      // nil: none; may be called concurrently, must return soon

	once     sync.Once
	slots    *semaphore.Weighted // running handlers; first come, first served
	unsettle *semaphore.Weighted // records handed out and not yet settled
	limiter  *rate.Limiter       // nil: no limit
	pause    *atomic.Int64       // unix nanoseconds before which no call starts
	flights  *flights
	health   health
	attempts atomic.Uint64
	prefix   string

	anyRefused atomic.Bool // spares a lock for the rare case

	mu      sync.Mutex
	runs    map[*run]struct{}
	refused map[uint64]struct{} // keys whose outcome the database did not take
}

// maxRefused bounds the memory of rows the database refuses; a table that
// refuses more than this has been failing loudly for long.
const maxRefused = 100_000

func (e *Engine) init() {
	e.once.Do(func() {
		if e.Concurrency <= 0 {
			e.Concurrency = 1
		}
		if e.MaxPause <= 0 {
			e.MaxPause = time.Hour
		}
		if e.ShutdownTimeout <= 0 {
			e.ShutdownTimeout = 30 * time.Second
		}
		if e.Now == nil {
			e.Now = time.Now
		}
		if e.Observe == nil {
			e.Observe = func(Event) {}
		}
		if e.flights == nil { // else another engine's
			e.flights, e.pause = newFlights(), new(atomic.Int64)
		}
		if e.Rate > 0 {
			// Bursts of ten milliseconds' worth: exact at low rates,
			// not bound by timer resolution at high ones.
			e.limiter = rate.NewLimiter(rate.Limit(e.Rate), max(1, int(e.Rate/100)))
		}
		e.slots = semaphore.NewWeighted(int64(e.Concurrency))
		e.unsettle = semaphore.NewWeighted(int64(max(MaxGroup, e.Concurrency)))
		e.runs = make(map[*run]struct{})
		e.refused = make(map[uint64]struct{})
		var b [8]byte
		rand.Read(b[:]) // never fails
		e.prefix = hex.EncodeToString(b[:]) + "-"
	})
}

// Replace makes e take over the records that old is still working on, so that
// none of them is handled by both, and a pause that was asked for. It must be
// called before the first Pass of e; both must work on the same table.
func (e *Engine) Replace(old *Engine) {
	old.init()
	e.flights, e.pause = old.flights, old.pause
}

// A Pass is one process_backlog(MaxAge).
type Pass struct {
	Tier   string        // label in records, reports and events
	MaxAge time.Duration // records inserted at or after Now-MaxAge
	Widest bool          // the widest tier's: expires what is older, takes rows whose missing date counts as oldest
	Now    time.Time     // zero: read from the engine's clock
	Resume Resume        // from the Report of the tier's last pass
}

// Pass selects the pending records of the given age, the fresh before the
// failed, hands each once to the handler and settles the outcomes. When ctx is
// done it selects nothing more, lets running handlers finish for
// ShutdownTimeout and settles what has finished; that is no error. The report
// is valid also when an error is returned: the store failed for good, or the
// outcomes counted in Report.Unwritten could not be written.
func (e *Engine) Pass(ctx context.Context, p Pass) (Report, error) {
	e.init()
	if p.Now.IsZero() {
		p.Now = e.Now()
	}
	began := e.Now()
	r := newRun(ctx, e, p)
	begun := r.report
	e.emit(Event{Kind: PassStarted, Tier: p.Tier, Report: &begun})
	r.do()
	r.report.Duration = max(0, e.Now().Sub(began))
	e.emit(Event{Kind: PassEnded, Tier: p.Tier, Report: &r.report, Err: r.err})
	return r.report, r.err
}

func (e *Engine) emit(ev Event) {
	if ev.At.IsZero() {
		ev.At = e.Now()
	}
	tell(e.Observe, ev)
}

// attemptID returns an id that no other attempt of any process has.
func (e *Engine) attemptID() string {
	return e.prefix + strconv.FormatUint(e.attempts.Add(1), 36)
}

// call runs the handler on one record.
func (e *Engine) call(ctx context.Context, rec *Record) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the handler panicked: %v", p)
		}
	}()
	if e.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, e.Timeout, fmt.Errorf("timed out after %v", e.Timeout))
		defer cancel()
	}
	if err = e.Handler.Handle(ctx, rec); err != nil {
		_ = err.Error() // a nil pointer that is an error panics here
	}
	return err
}

// pauseFor keeps every pass from starting handler calls if err asks for it.
func (e *Engine) pauseFor(err error) {
	p := (*pauseRequest)(nil)
	if !errors.As(err, &p) {
		return
	}
	until := e.Now().Add(min(max(0, p.wait), e.MaxPause))
	for {
		old := e.pause.Load()
		if until.UnixNano() <= old {
			return
		}
		if e.pause.CompareAndSwap(old, until.UnixNano()) {
			e.emit(Event{Kind: Paused, At: until, Err: err})
			return
		}
	}
}

// paused returns how long calls are to be held back.
func (e *Engine) paused() time.Duration {
	until := e.pause.Load()
	if until == 0 {
		return 0
	}
	return max(0, time.Unix(0, until).Sub(e.Now()))
}

// waitRate returns when the rate allows another call, or false when ctx is
// done.
func (e *Engine) waitRate(ctx context.Context) bool {
	if e.limiter == nil {
		return true
	}
	r := e.limiter.Reserve()
	if wait := r.Delay(); wait > 0 && !sleep(ctx, wait) {
		r.Cancel()
		return false
	}
	return true
}

// flushAll makes every pass write what it holds: somebody waits for room.
func (e *Engine) flushAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for r := range e.runs {
		r.flush()
	}
}

func (e *Engine) join(r *run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runs[r] = struct{}{}
}

func (e *Engine) leave(r *run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.runs, r)
}

// refuse remembers a row whose outcome the database does not take, so that
// this process does not repeat the attempt at every tick for ever.
func (e *Engine) refuse(hash uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.refused) < maxRefused {
		e.refused[hash] = struct{}{}
		e.anyRefused.Store(true)
	}
}

func (e *Engine) isRefused(hash uint64) bool {
	if !e.anyRefused.Load() {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.refused[hash]
	return ok
}

// sleep waits for d and reports whether ctx was not done before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
