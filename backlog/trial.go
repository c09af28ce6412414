package backlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// A trier is a Store that can try an outcome on its row. The engine asks before
// the first record of each state is dispatched, so that a table that takes no
// outcome is found out before a handler has worked in vain.
type trier interface {
	// Try writes the settlement as Settle would, and undoes it. It returns
	// ErrConflict where the row is no longer as it was read, ErrLocked where
	// somebody else has it locked, ErrUnavailable as every call does, and
	// else the reason for which the row does not take the outcome.
	Try(ctx context.Context, s Settlement) error
}

// Trials returns the settlements that the record can come to under the policy.
func Trials(r *Record, p *Policy, at time.Time) (list []Settlement) {
	const text = "the text of an error"
	if p != nil && p.Refresher != nil { // a start and each of its ends; a rule that cannot be read comes to nothing
		started, err := p.Refresher.Start(*r.Refresh, at, "trial")
		if err != nil {
			return nil
		}
		list = append(list, Settlement{Record: r, At: at, Target: RowOther, Refresh: &started})
		for _, o := range []Outcome{Succeeded, Errored, Rejected} {
			next, _ := p.Refresher.End(started, o, at, text, nil)
			list = append(list, Settlement{Record: r, At: at, Target: o.Target(), Refresh: &next, Error: text})
		}
		return list
	}
	failed, _ := p.After(r.Failures, at, 0)
	list = []Settlement{{Target: RowSuccess}, {Target: RowError, Failures: failed}, {Target: RowDead, Failures: failed}}
	if p != nil && p.Retries >= 0 {
		failed.Next = time.Time{} // out of retries
		list = append(list, Settlement{Target: RowDead, Failures: failed})
	}
	for i := range list {
		list[i].Record, list[i].At, list[i].Error = r, at, text
	}
	return list
}

// mostTried is how many rows of a state may refuse before the pass ends.
const mostTried = 3

// trials are the states whose rows are known to take their outcomes.
type trials struct {
	broken atomic.Bool   // no row took its outcomes the last time: none is to blame
	taken  atomic.Uint64 // a bit for each by what origin returns, the first 64; 0 after the database has refused an outcome
}

// origin is the state that the record was read from, as one small number.
func origin(r *Record) int { return 2*r.Origin + int(r.Lane) }

// try reports whether records of the state of the first may be dispatched. Where
// that is not known, it is tried on the first of them, then on the last and the
// middle one, since rows with the same trouble often come together, and on others only
// where these are locked or gone. Where three refuse, the pass ends.
func (r *run) try(records []Record) bool {
	e, state := r.e, origin(&records[0])
	store, ok := e.Store.(trier)
	if !ok {
		return true
	}
	if e.trials.taken.Load()&(1<<state) != 0 || r.spares(records[0].Key.Hash()) {
		return true
	}
	var refused []Event
	taken := false
	err := e.persist(r.stop, func() error {
		locked := 0
		for i := range 3 + len(records) {
			rec := &records[max(i-3, 0)]
			if i < 3 {
				rec = &records[[]int{0, len(records) - 1, len(records) / 2}[i]]
			}
			hash := rec.Key.Hash()
			again := slices.ContainsFunc(refused, func(ev Event) bool { return ev.Record == rec })
			if origin(rec) != state || again || r.spares(hash) {
				continue
			}
			switch outcome, err := TryRecord(r.stop, store, rec, e.Policy, e.Now()); {
			case err == nil:
				taken = true
				return nil
			case isUnavailable(err) || r.stop.Err() != nil:
				return err
			case errors.Is(err, ErrLocked):
				locked++
			case errors.Is(err, ErrConflict): // gone
				r.count(func(*Report) { r.tried[hash] = struct{}{} })
			default:
				refused = append(refused, Event{Kind: Refused, Tier: r.pass.Tier, Record: rec, Outcome: outcome, Err: err})
			}
			if len(refused) == mostTried {
				break
			}
		}
		if len(refused) > 0 {
			return refused[0].Err
		}
		if locked > 0 {
			return fmt.Errorf("%w: others have locked the rows that are to be handled", ErrUnavailable)
		}
		return nil // all of them are gone
	})
	switch {
	case r.stop.Err() != nil:
		return false
	case isUnavailable(err): // for longer than the engine's patience
		r.fail(err)
		return false
	case err != nil:
		e.trials.broken.Store(true)
		e.refused.Purge() // no row was taken: they are tried again
		r.fail(err)
		return false
	case taken:
		e.trials.broken.Store(false)
		e.trials.taken.Or(1 << state)
	}
	for _, ev := range refused {
		r.count(func(rep *Report) {
			rep.Selected++ // the sum of all
			rep.Refused++
		})
		e.refused.Add(ev.Record.Key.Hash(), struct{}{})
		e.emit(ev)
	}
	return true
}

// TryRecord tries all that the record can come to. It returns the outcome that its
// row does not take, and why.
func TryRecord(ctx context.Context, store trier, rec *Record, p *Policy, at time.Time) (Outcome, error) {
	for _, s := range Trials(rec, p, at) {
		if err := store.Try(ctx, s); err != nil {
			return map[RowState]Outcome{RowSuccess: Succeeded, RowError: Errored, RowDead: Rejected}[s.Target], err
		}
	}
	return Succeeded, nil
}
