package backlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// A Reach says which rows a refusal concerns.
type Reach int

const (
	// EveryRow: the cause is what is written, such as a status that the column does not take.
	EveryRow Reach = iota
	// OneRow: the cause is in this row, or in other rows of the table. Another row may take the
	// outcome.
	OneRow
	// HandlerDecides: it depends on what the handler may write before it ends.
	HandlerDecides
)

// A Refusal is an error of a trial whose reach the store knows. Any other error is of EveryRow.
type Refusal struct {
	Reach Reach
	Err   error
}

func (r *Refusal) Error() string { return r.Err.Error() }
func (r *Refusal) Unwrap() error { return r.Err }

// ReachOf returns the reach of a trial's error.
func ReachOf(err error) Reach {
	var r *Refusal
	if errors.As(err, &r) {
		return r.Reach
	}
	return EveryRow
}

// Trials returns the settlements that the record can come to under the policy, none if the
// policy cannot start it.
func Trials(r *Record, p *Policy, at time.Time) (list []Settlement) {
	const text = "the text of an error"
	started, err := p.Start(r.Memory, at, "trial")
	if err != nil {
		return nil
	}
	if started != r.Memory {
		list = append(list, Settlement{Record: r, At: at, Target: RowOther, Memory: started})
	}
	end := End{At: at, Text: text, Random: func() float64 { return 0 }}
	for _, o := range []Outcome{Succeeded, Errored, Rejected} {
		end.Outcome = o
		next, _ := p.End(started, end)
		list = append(list, Settlement{Record: r, At: at, Target: o.Target(), Memory: next, Error: text})
	}
	if p.Keeps() && p.Retries >= 0 { // out of retries
		last := *list[len(list)-1].Memory
		last.Next = time.Time{}
		list = append(list, Settlement{Record: r, At: at, Target: RowDead, Memory: &last, Error: text})
	}
	return list
}

const (
	// maxSuspects is how many rows of a state must refuse their outcomes for a reason of
	// EveryRow before the lane ends.
	maxSuspects = 3
	// maxRefusedRows is how many rows of a state may be refused in a pass before its lane ends.
	// The next pass goes on behind them.
	maxRefusedRows = 1000
	// maxTrialTime is how long a pass may try rows of a state that are refused.
	maxTrialTime = 5 * time.Second
)

// trials remembers which states have rows that take their outcomes. A set has a bit for each
// of the first 64 states, see origin.
type trials struct {
	broken    atomic.Bool   // no row took its outcomes the last time: the fault is not in the rows
	passed    atomic.Uint64 // the states with a row that took its outcomes; none after a refusal
	uncertain atomic.Uint64 // the states for which an Uncertain was emitted
	undecided atomic.Uint64 // the states for which the handler decides about a success
	proven    atomic.Uint64 // of these: a success was written
}

// isProven reports whether a success of records like this one can be written, as far as is
// known.
func (t *trials) isProven(r *Record) bool {
	unproven := t.undecided.Load() &^ t.proven.Load()
	return unproven&stateBit(origin(r)) == 0
}

// prove notes that a success of the record was written.
func (t *trials) prove(r *Record) {
	if !t.isProven(r) {
		t.proven.Or(stateBit(origin(r)))
	}
}

// TrialsPassed returns the states of which a row has taken its outcomes in a trial, as a set for
// [Engine.SkipTrials]. States for which the handler decides are not among them. The set is empty
// after an outcome that could not be written.
func (e *Engine) TrialsPassed() (states uint64) {
	return e.trials.passed.Load() &^ e.trials.uncertain.Load()
}

// SkipTrials makes the engine try no row of the states, since an engine with the same store and
// policy has done so. It must be called before the first pass. If an outcome cannot be written,
// rows of all states are tried again.
func (e *Engine) SkipTrials(states uint64) { e.trials.passed.Or(states) }

// origin returns the state that the record was read in, as one small number.
func origin(r *Record) int { return 2*r.Origin + int(r.Lane) }

// stateBit returns the state's bit in a set of trials.
func stateBit(state int) uint64 { return uint64(1) << state }

// A verdict is what the trial of a state's rows means for their page.
type verdict int

const (
	goOn    verdict = iota // dispatch them, but for those that the pass excludes
	endLane                // dispatch none of them
	endPass
)

// A stateTrial is the trial of the rows of one state on a page.
type stateTrial struct {
	r       *run
	records []Record
	state   int
	store   Trier

	tried    []bool  // by the index of records: there is nothing more to learn from it
	suspects []Event // of rows that refuse for a reason of EveryRow
	locked   int     // rows that other programs have locked
	passed   bool    // a row took its outcomes
	last     error   // the last refusal of OneRow
	enough   bool    // the pass tries no more rows of the state
}

// tryState decides about dispatching the records that have the state of the first. Where it is
// not known that rows of that state take their outcomes, rows are tried one after the other
// until one does, or only the handler decides. A row that refuses for a reason of its own is
// counted as refused, and the next one is tried. Where three refuse for a reason of every row,
// among them the last and the middle one, the lane ends.
func (r *run) tryState(records []Record) verdict {
	e := r.e
	state := origin(&records[0])
	store, ok := e.Store.(Trier)
	if !ok || e.trials.passed.Load()&stateBit(state) != 0 {
		return goOn
	}
	t := &stateTrial{r: r, records: records, state: state, store: store, tried: make([]bool, len(records))}
	err := e.persist(r.stop, t.run)
	storeFailed := err != nil && (len(t.suspects) == 0 || isUnavailable(err))
	switch {
	case r.stop.Err() != nil:
		return endPass
	case storeFailed:
		r.fail(err)
		return endPass
	case err != nil:
		r.stateErr = cmp.Or(r.stateErr, err)
		return endLane
	case t.passed:
		r.trialRound++
		e.trials.broken.Store(false)
		e.trials.passed.Or(stateBit(state))
	}
	for _, ev := range t.suspects { // other rows take their outcomes, so the fault is in these
		r.refuse(ev)
	}
	if t.enough {
		r.count(func(*Report) {
			r.laneErr = cmp.Or(r.laneErr, fmt.Errorf("%d rows of a state refuse their outcomes, the next pass goes on behind them; the last one: %w", r.refusals[state].rows, t.last))
		})
		return endLane
	}
	return goOn
}

// run tries rows until it is known whether the state's take their outcomes. It may be called
// again where the store was unavailable.
func (t *stateTrial) run() error {
	r := t.r
	t.locked = 0
	for at := t.next(); at >= 0 && !t.enough; at = t.next() {
		t.tried[at] = true
		if err := t.tryRow(&t.records[at]); err != nil {
			t.tried[at] = false
			return err
		}
		if t.passed || len(t.suspects) == maxSuspects {
			break
		}
	}
	switch {
	case t.passed || r.stop.Err() != nil:
		return r.stop.Err()
	case len(t.suspects) > 0:
		return t.suspects[0].Err
	case t.locked > 0 && !t.enough:
		clear(t.tried) // the refused ones are excluded
		return fmt.Errorf("%w: others have locked the rows that are to be handled", ErrUnavailable)
	}
	return nil // every row is gone or refused
}

// next returns the index of the next row to try, -1 after the last. A refusal of EveryRow is
// confirmed by rows far from it, since rows with the same fault come together.
func (t *stateTrial) next() int {
	confirming := [maxSuspects]int{0, len(t.records) - 1, len(t.records) / 2}
	if n := len(t.suspects); n > 0 && n < maxSuspects && t.canTry(confirming[n]) {
		return confirming[n]
	}
	for i := range t.records {
		if t.canTry(i) {
			return i
		}
	}
	return -1
}

// canTry reports whether the row at the index is one to try.
func (t *stateTrial) canTry(at int) bool {
	rec := &t.records[at]
	return !t.tried[at] && origin(rec) == t.state && !t.r.excludes(rec.Key.Hash())
}

// tryRow tries a row. It returns an error where nothing is learnt from that.
func (t *stateTrial) tryRow(rec *Record) error {
	r := t.r
	e := r.e
	began := e.Now()
	outcome, err := TryRecord(r.stop, t.store, rec, e.Policy, began)
	if err == nil {
		t.passed = true
		return nil
	}
	ev := Event{Tier: r.pass.Tier, Record: rec, Outcome: outcome, Err: err}
	reach := ReachOf(err)
	switch {
	case isUnavailable(err) || r.stop.Err() != nil:
		return err
	case errors.Is(err, ErrLocked):
		t.locked++
	case errors.Is(err, ErrConflict): // the row is gone, or no longer pending
		r.count(func(*Report) { r.tried[rec.Key.Hash()] = struct{}{} })
	case reach == HandlerDecides:
		t.handlerDecides(ev)
	case reach == OneRow:
		t.last = err
		r.refuse(ev)
		t.enough = r.countRefusal(t.state, e.Now().Sub(began))
	default:
		t.suspects = append(t.suspects, ev)
	}
	return nil
}

// handlerDecides notes that only the handler decides about an outcome, and emits that once for
// each state.
func (t *stateTrial) handlerDecides(ev Event) {
	all := &t.r.e.trials
	bit := stateBit(t.state)
	t.passed = true
	if ev.Outcome == Succeeded {
		all.undecided.Or(bit)
	}
	if all.uncertain.Or(bit)&bit == 0 {
		ev.Kind = Uncertain
		t.r.e.emit(ev)
	}
}

// refuse counts a record whose row does not take an outcome. This process leaves it alone from
// now on. Another pass that tries the row at the same time may have counted it.
func (r *run) refuse(ev Event) {
	known, _ := r.e.refused.ContainsOrAdd(ev.Record.Key.Hash(), struct{}{})
	if known {
		return
	}
	r.count(func(rep *Report) {
		rep.Selected++ // the sum of all
		rep.Refused++
	})
	ev.Kind = Refused
	r.e.emit(ev)
}

// A refusalCount is how many rows of a state a pass has tried that were refused, and how long
// that took.
type refusalCount struct {
	rows int
	took time.Duration
}

// countRefusal counts a row of the state that was refused, and reports whether the pass has now
// tried as many as it may.
func (r *run) countRefusal(state int, took time.Duration) (limitReached bool) {
	if r.refusals == nil {
		r.refusals = make(map[int]refusalCount)
	}
	c := r.refusals[state]
	c.rows++
	c.took += took
	r.refusals[state] = c
	return c.rows >= maxRefusedRows || c.took >= maxTrialTime
}

// concludeTrials decides what it means that the rows of a state refuse their outcomes. If no
// row of another state takes them either, the fault is not in the rows.
func (r *run) concludeTrials() {
	e := r.e
	switch {
	case r.stateErr == nil:
	case e.trials.passed.Load() != 0:
		r.count(func(*Report) {
			r.laneErr = cmp.Or(r.laneErr, fmt.Errorf("no row of a state takes its outcomes, while those of another do: %w", r.stateErr))
		})
	default:
		e.trials.broken.Store(true)
		e.refused.Purge() // the rows are tried again
		r.fail(r.stateErr)
	}
}

// TryRecord tries all settlements that the record can come to. It returns the outcome that its
// row does not take, and why. That the handler decides about an outcome is returned only where
// no other is refused.
func TryRecord(ctx context.Context, store Trier, rec *Record, p *Policy, at time.Time) (outcome Outcome, why error) {
	for _, s := range Trials(rec, p, at) {
		err := store.Try(ctx, s)
		if err == nil {
			continue
		}
		if ReachOf(err) != HandlerDecides {
			return outcomesTo[s.Target], err
		}
		if why == nil {
			outcome = outcomesTo[s.Target]
			why = err
		}
	}
	return outcome, why
}

// outcomesTo are the outcomes that lead to the targets of settlements.
var outcomesTo = [...]Outcome{
	RowNew:     Succeeded,
	RowError:   Errored,
	RowSuccess: Succeeded,
	RowDead:    Rejected,
	RowOther:   Succeeded,
}
