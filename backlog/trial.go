package backlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// A Reach says whose trouble it is that an outcome is not taken.
type Reach int

const (
	// EveryRow: by what is written, such as a status that the column does not take.
	EveryRow Reach = iota
	// OneRow: by what this row is, or the rows that there are. Another may take the outcome.
	OneRow
	// HandlerDecides: it depends on what the handler may write before it ends.
	HandlerDecides
)

// A Refusal is an error of a trial with what the store knows of its reach. Any other error
// is of EveryRow.
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

// Trials returns the settlements that the record can come to under the policy.
func Trials(r *Record, p *Policy, at time.Time) (list []Settlement) {
	const text = "the text of an error"
	started, err := p.Start(r.Memory, at, "trial")
	if err != nil {
		return nil // a rule that cannot be read comes to nothing
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
	// mostTried is how many rows of a state must refuse what no row takes before its lane ends.
	mostTried = 3
	// mostRefused is how many rows of a state may be refused by a pass before its lane ends:
	// the next pass goes on behind them.
	mostRefused = 1000
	// mostTrying is how long that may take.
	mostTrying = 5 * time.Second
)

// trials are the states whose rows are known to take their outcomes.
type trials struct {
	broken atomic.Bool   // no row took its outcomes the last time: none is to blame
	taken  atomic.Uint64 // a bit for each by what origin returns, the first 64; 0 after the database has refused an outcome
	unsure atomic.Uint64 // likewise: it was said that the handler decides
	open   atomic.Uint64 // likewise: it decides about success
	proven atomic.Uint64 // likewise: a success was written
}

// isProven reports whether nothing speaks against a success of records like this one.
func (t *trials) isProven(r *Record) bool {
	return t.open.Load()&^t.proven.Load()&(1<<origin(r)) == 0
}

// prove notes that a success of the record was written.
func (t *trials) prove(r *Record) {
	if !t.isProven(r) {
		t.proven.Or(1 << origin(r))
	}
}

// origin is the state that the record was read from, as one small number.
func origin(r *Record) int { return 2*r.Origin + int(r.Lane) }

// A verdict is what the trial of a state's rows says of a page.
type verdict int

const (
	goOn    verdict = iota // dispatch them, but for those that the engine spares
	endLane                // dispatch none of them
	endPass
)

// A probe is the trial of one state's rows on a page.
type probe struct {
	r       *run
	records []Record
	state   int
	store   Trier

	tried   []bool  // by the places of records: nothing more is to be learnt of it
	suspect []Event // of rows that refuse what, it seems, no row takes
	locked  int
	taken   bool
	last    error // the last row's own trouble
	over    bool  // enough rows were refused
}

// try tells whether records of the state of the first may be dispatched. Where that is not
// known, it is tried on one after the other until one takes its outcomes, or only the
// handler decides whether it does. A row that refuses them for a reason of its own is
// refused, and the next one is tried. Where three refuse what no row takes, which the last
// and the middle one confirm, the lane ends.
func (r *run) try(records []Record) verdict {
	e, state := r.e, origin(&records[0])
	store, ok := e.Store.(Trier)
	if !ok || e.trials.taken.Load()&(1<<state) != 0 {
		return goOn
	}
	p := &probe{r: r, records: records, state: state, store: store, tried: make([]bool, len(records))}
	err := e.persist(r.stop, p.run)
	switch {
	case r.stop.Err() != nil:
		return endPass
	case err != nil && (len(p.suspect) == 0 || isUnavailable(err)): // it is away for longer than the engine's patience
		r.fail(err)
		return endPass
	case err != nil:
		r.whole = cmp.Or(r.whole, err)
		return endLane
	case p.taken:
		r.rounds++
		e.trials.broken.Store(false)
		e.trials.taken.Or(1 << state)
	}
	for _, ev := range p.suspect { // others take what these refuse
		r.refuse(ev)
	}
	if p.over {
		r.count(func(*Report) {
			r.sick = cmp.Or(r.sick, fmt.Errorf("%d rows of a state refuse their outcomes, the next pass goes on behind them; the last one: %w", r.refusals[state].n, p.last))
		})
		return endLane
	}
	return goOn
}

// run tries rows until the state's are known to be taken, or not to be. It is called again
// where the store was unavailable.
func (p *probe) run() error {
	r := p.r
	p.locked = 0
	for at := p.next(); at >= 0 && !p.over; at = p.next() {
		p.tried[at] = true
		if err := p.one(&p.records[at]); err != nil {
			p.tried[at] = false
			return err
		}
		if p.taken || len(p.suspect) == mostTried {
			break
		}
	}
	switch {
	case p.taken || r.stop.Err() != nil:
		return r.stop.Err()
	case len(p.suspect) > 0:
		return p.suspect[0].Err
	case p.locked > 0 && !p.over:
		clear(p.tried) // the refused ones are spared
		return fmt.Errorf("%w: others have locked the rows that are to be handled", ErrUnavailable)
	}
	return nil // all of them are gone, or refused
}

// next returns the place of the next row to try, -1 if there is none. A refusal that would
// be every row's is confirmed far from it, since rows with the same trouble come together.
func (p *probe) next() int {
	places := [mostTried]int{0, len(p.records) - 1, len(p.records) / 2}
	if n := len(p.suspect); n > 0 && n < mostTried && p.fit(places[n]) {
		return places[n]
	}
	for i := range p.records {
		if p.fit(i) {
			return i
		}
	}
	return -1
}

// fit reports whether the row at the place is one to try.
func (p *probe) fit(at int) bool {
	rec := &p.records[at]
	return !p.tried[at] && origin(rec) == p.state && !p.r.spares(rec.Key.Hash())
}

// one tries a row. It returns an error where nothing is learnt of it.
func (p *probe) one(rec *Record) error {
	r, e := p.r, p.r.e
	began := e.Now()
	outcome, err := TryRecord(r.stop, p.store, rec, e.Policy, began)
	if err == nil {
		p.taken = true
		return nil
	}
	ev := Event{Tier: r.pass.Tier, Record: rec, Outcome: outcome, Err: err}
	reach := ReachOf(err)
	switch {
	case isUnavailable(err) || r.stop.Err() != nil:
		return err
	case errors.Is(err, ErrLocked):
		p.locked++
	case errors.Is(err, ErrConflict): // gone
		r.count(func(*Report) { r.tried[rec.Key.Hash()] = struct{}{} })
	case reach == HandlerDecides:
		p.decided(ev)
	case reach == OneRow:
		p.last = err
		r.refuse(ev)
		p.over = r.spend(p.state, e.Now().Sub(began))
	default:
		p.suspect = append(p.suspect, ev)
	}
	return nil
}

// decided notes that only the handler decides about an outcome, and says so once for each
// state.
func (p *probe) decided(ev Event) {
	t := &p.r.e.trials
	bit := uint64(1) << p.state
	p.taken = true
	if ev.Outcome == Succeeded {
		t.open.Or(bit)
	}
	if t.unsure.Or(bit)&bit == 0 {
		ev.Kind = Uncertain
		p.r.e.emit(ev)
	}
}

// refuse counts a record whose row does not take an outcome, and has this process leave it
// alone. Another pass that tries the row at the same time may have done so.
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

// An effort is what a pass has spent on rows of a state that were refused.
type effort struct {
	n    int
	took time.Duration
}

// spend notes a row that was refused, and reports whether these are enough for a pass.
func (r *run) spend(state int, took time.Duration) bool {
	if r.refusals == nil {
		r.refusals = make(map[int]effort)
	}
	x := r.refusals[state]
	x.n++
	x.took += took
	r.refusals[state] = x
	return x.n >= mostRefused || x.took >= mostTrying
}

// concludeTrials says what has come of rows that refuse what no row takes. Where no other
// takes it either, none of them is to blame.
func (r *run) concludeTrials() {
	e := r.e
	switch {
	case r.whole == nil:
	case e.trials.taken.Load() != 0:
		r.count(func(*Report) {
			r.sick = cmp.Or(r.sick, fmt.Errorf("no row of a state takes its outcomes, while those of another do: %w", r.whole))
		})
	default:
		e.trials.broken.Store(true)
		e.refused.Purge() // they are tried again
		r.fail(r.whole)
	}
}

// TryRecord tries all that the record can come to. It returns the outcome that its
// row does not take, and why. That only the handler decides it is returned where nothing
// worse is found.
func TryRecord(ctx context.Context, store Trier, rec *Record, p *Policy, at time.Time) (unsure Outcome, why error) {
	for _, s := range Trials(rec, p, at) {
		err := store.Try(ctx, s)
		if err == nil {
			continue
		}
		outcome := outcomesTo[s.Target]
		if ReachOf(err) != HandlerDecides {
			return outcome, err
		}
		if why == nil {
			unsure = outcome
			why = err
		}
	}
	return unsure, why
}

// outcomesTo are the outcomes that lead to the states of settlements.
var outcomesTo = [...]Outcome{
	RowNew:     Succeeded,
	RowError:   Errored,
	RowSuccess: Succeeded,
	RowDead:    Rejected,
	RowOther:   Succeeded,
}
