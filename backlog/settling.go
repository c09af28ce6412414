package backlog

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// settling is a SettlingHandler as the engine calls a Handler.
type settling struct {
	SettlingHandler
	now func() time.Time
}

func (s settling) Handle(ctx context.Context, r *Record) error {
	return s.HandleAndSettle(ctx, r, s.now)
}

// settling returns what is called with records, and whether that has written
// the successes it reports.
func (e *Engine) settling() (Handler, bool) {
	if h, ok := e.Handler.(SettlingHandler); ok {
		return settling{h, e.Now}, true
	}
	return e.Handler, false
}

// awayTries is how often a record is given to a handler that finds the
// database away. It is not for ever: what one record asks of the database may
// be more than it will ever do.
const awayTries = 3

// handle runs the handler on a record. One that settles works in the database:
// while that is away no other record is handed out, and this one is tried
// again when it is back.
func (r *run) handle(j job) error {
	for tries := 1; ; tries++ {
		err := r.e.call(r.work, r.handler, r.e.Timeout, j.rec)
		if !r.settling || !isAway(err) || errors.Is(err, ErrConflict) || r.work.Err() != nil {
			return err
		}
		if !r.e.outlast(r.stop, err) || tries == awayTries {
			return fmt.Errorf("%w: %w", errNoAttempt, err)
		}
		// A database can answer and still take nothing, as one that is full.
		if tries > 1 && !sleep(r.stop, time.Duration(tries)*time.Second) {
			return fmt.Errorf("%w: %w", errNoAttempt, err)
		}
	}
}

// errNoAttempt says why a row is left as it was.
var errNoAttempt = fmt.Errorf("%w: no attempt was made", Skip)

// outlast returns when the store answers, which err has said it does not, or
// false when ctx is done.
func (e *Engine) outlast(ctx context.Context, err error) bool {
	pinger, canPing := e.Store.(Pinger)
	return e.persist(ctx, func() error {
		switch {
		case err != nil:
			away := err
			err = nil
			return away
		case canPing:
			return ping(ctx, pinger)
		}
		return nil
	}) == nil
}

// settled takes an attempt whose handler has written the success itself or has
// found, err, that somebody else has changed the row.
func (r *run) settled(j job, err error, now time.Time) {
	e := r.e
	var left []Unsettled
	outcome := Succeeded
	if err == nil {
		r.mu.Lock()
		r.streak = 0
		r.mu.Unlock()
	} else {
		left, outcome = []Unsettled{{Err: err}}, Skipped // the work is undone
	}
	e.storeAnswered()
	e.emit(Event{Kind: AttemptEnded, At: now, Tier: r.pass.Tier, Record: j.rec, Outcome: outcome, Err: err})
	r.account([]Settlement{{Record: j.rec, At: now}}, []uint64{j.hash}, left)
	e.flights.land(j.hash)
	e.unsettle.release(1)
}
