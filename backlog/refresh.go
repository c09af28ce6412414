package backlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"backlog/backlog/flight"
)

// A Refresher plans the starts of such records: it makes a [Policy] one of
// deadlines. It is pure, and its methods may be called concurrently; package
// backlog/backlog/retry has one. Neither method changes what it is given.
type Refresher interface {
	// Start returns what the start of an attempt leaves. An error says that the
	// row's rule cannot be read: the record is not started.
	Start(s Memory, now time.Time, uid string) (Memory, error)
	// End returns what the end of an attempt leaves, and whether it was the last:
	// the record is disabled, or finished. began is the state before its start,
	// which a Skipped attempt restores; nil where nobody knows it. text is the
	// error's. An attempt during which the row was saved, its Next is before its
	// Deadline, is not the last.
	End(s Memory, o Outcome, now time.Time, text string, began *Memory) (next Memory, final bool)
}

// A Beginner is a [Store] whose rows the refresh policy starts. Its Pending returns
// what is due, Memory.Next at or before Query.Now, in both lanes by (Next, key): the
// fresh lane has the records without a start since their last success. Rows that
// are disabled, or whose attempt runs, are in neither. An attempt runs while there are a
// deadline and, where the table has its column, a UID: a save may empty either.
//
// Its Settle writes Settlement.Memory if the row still has the attempt of
// Settlement.Record.Memory: its UID, or without that column its Next and AttemptNo, and a
// deadline if it had one. Only what the outcome changes is written, and the Reason of a row
// that was disabled during the attempt stays. A row that was saved during the attempt, its
// Next is before its Deadline, keeps its Next and its number; a success empties its
// FailingSince. Success and death leave the Reason that they write, whatever a worker has
// said since the start; else what was said stays.
//
// What is written is rounded up to what the columns hold. All methods may be called
// concurrently, and their errors are as Store has them.
type Beginner interface {
	Store
	// Begin writes the starts of a group in one transaction, each only if its row
	// still has the UID and the Next that were read, and is not disabled.
	// Settlement.Memory is what to write; on success the Memory of the record is what the
	// row has then.
	Begin(ctx context.Context, group []Settlement) ([]Unsettled, error)
	// Overdue returns records whose deadline is at or before now, the earliest
	// first, and not those before the cursor.
	Overdue(ctx context.Context, now time.Time, after Cursor, limit int) ([]Record, error)
	// Running returns the records of the running attempts with the UIDs, in any
	// order; those that no row has are left out.
	Running(ctx context.Context, uids []string) ([]Record, error)
}

// Accepted is returned by a Handler that has handed the record over to somebody who
// will tell the outcome by [Engine.Resolve]; what is not told by the deadline has
// failed. Only a refresh policy whose table has a column for UIDs knows it.
//
//lint:ignore ST1012 it reads as the answer it is: return backlog.Accepted
var Accepted = errors.New("accepted")

// An Answer is what somebody tells of a running attempt that was handed over.
type Answer struct {
	UID     string
	Outcome Outcome // Skipped: the attempt goes on, only Text becomes the row's Reason
	Text    string  // the error's, or the sentence for the customer
}

// errSuperseded is the cause for which a handler's context ends when its row has got
// another attempt.
var errSuperseded = errors.New("superseded: the row has another attempt, or was saved")

// supersedeEvery is how often the rows of running attempts are looked at.
const supersedeEvery = time.Second

// Collect asks a handler that hands records over what has become of them. A [Loop]
// does so every second, and every pass at its beginning.
func (e *Engine) Collect(ctx context.Context) error {
	e.init()
	if !e.collecting.TryLock() {
		return nil
	}
	defer e.collecting.Unlock()
	switch h := e.Handler.(type) {
	case Collector:
		return h.Collect(ctx, e.Resolve)
	case LateCollector:
		return h.CollectLate(ctx, e.endLate)
	}
	return nil
}

// errAtWork says why an outcome cannot be settled yet.
var errAtWork = fmt.Errorf("%w: another attempt of the record is under way", ErrUnavailable)

// endLate settles outcomes that nobody waits for. A page that was read before is too old
// to say that their records are pending.
func (e *Engine) endLate(ctx context.Context, records []Record, answers []Answer) ([]error, error) {
	page := e.flights.Open()
	defer e.flights.Close(page)
	for i := range records {
		records[i].Exact = true // the process before may have written it
	}
	list := endingsOf("late", records, answers, e.Now())
	err := e.endIdle(ctx, page, list)
	reasons := make([]error, len(list))
	for i, x := range list {
		reasons[i] = x.reason
	}
	return reasons, err
}

// endIdle is end for those of the page's records that are not being worked on; the
// reason of the others is errAtWork.
func (e *Engine) endIdle(ctx context.Context, page *flight.Page, list []*ending) error {
	var idle []*ending
	var flights []*flight.Flight
	for _, x := range list {
		f := e.flights.Claim(page, x.Record.Key.Hash())[0]
		if f == nil {
			x.reason = errAtWork
			continue
		}
		idle = append(idle, x)
		flights = append(flights, f)
	}
	if len(idle) == 0 {
		return nil
	}
	err := e.endUnchanged(ctx, idle)
	e.flights.Land(flights...)
	return err
}

// endUnchanged is end for those of the records whose rows are as they were read. Of the others
// no attempt is counted, and OnDead is not called.
func (e *Engine) endUnchanged(ctx context.Context, list []*ending) error {
	store, can := e.Store.(Verifier)
	if !can || !list[0].Record.Exact {
		return e.end(ctx, list)
	}
	records := make([]Record, len(list))
	for i, x := range list {
		records[i] = *x.Record
	}
	unchanged, err := ask(ctx, e, func() ([]bool, error) { return store.AsRead(ctx, records) })
	if err != nil {
		return err
	}
	var rest []*ending
	for i, x := range list {
		if unchanged[i] {
			rest = append(rest, x)
			continue
		}
		x.reason = ErrConflict
		e.observe(x)
	}
	if len(rest) == 0 {
		return nil
	}
	return e.end(ctx, rest)
}

// begin writes the start of an attempt, now that there is a slot for it, and reports
// whether the handler is to be called.
func (r *run) begin(j *job) bool {
	e, rec := r.e, j.rec
	if !e.Policy.HasDeadlines() {
		return true
	}
	// A handler that may be unable to take any record is asked first, so that no
	// attempt is lost to that.
	if h, ok := r.handler.(ReadyChecker); ok {
		if err := h.Ready(r.work); err != nil {
			r.fail(handlerFault{fmt.Errorf("nothing was started: %w", err)})
			r.drop(j)
			return false
		}
	}
	// What waited for no slot starts at the pass's own time.
	now := e.Now()
	if now.Sub(r.pass.Now) < time.Second {
		now = r.pass.Now
	}
	began := rec.Memory
	next, err := e.Policy.Start(began, now, rec.AttemptID)
	var left []Unsettled
	if err == nil {
		start := []Settlement{{Record: rec, Memory: next, At: now}}
		left, err = ask(r.stop, e, func() ([]Unsettled, error) { return e.Store.(Beginner).Begin(r.work, start) })
	}
	switch {
	case err != nil:
		r.failUnlessStopped(err)
		r.drop(j)
		return false
	case len(left) > 0:
		r.lose(j, now, left[0].Err)
		return false
	}
	j.began = began
	return true
}

// lose accounts for a record that is not this process's to handle, or to settle.
func (r *run) lose(j *job, at time.Time, err error) {
	x := ending{Settlement: Settlement{Record: j.rec, At: at}, tier: r.pass.Tier, outcome: Skipped, reason: err}
	r.over(attempt{ending: x, job: j, run: r})
}

// attend returns the context of the handler of an attempt, which ends when the
// attempt is superseded.
func (r *run) attend(j *job) (ctx context.Context, end func()) {
	if j.began == nil || j.rec.Memory.UID == "" {
		return r.work, func() {}
	}
	ctx, cancel := context.WithCancelCause(r.work)
	r.attempts.Store(j.rec.Memory.UID, cancel)
	return ctx, func() {
		r.attempts.Delete(j.rec.Memory.UID)
		cancel(nil)
	}
}

// supersede ends the contexts of handlers whose row has another attempt.
func (r *run) supersede(over context.Context) {
	for Sleep(over, supersedeEvery) {
		cancels := make(map[string]context.CancelCauseFunc)
		for uid, cancel := range r.attempts.Range {
			cancels[uid.(string)] = cancel.(context.CancelCauseFunc)
		}
		for uids := range slices.Chunk(slices.Collect(maps.Keys(cancels)), MaxGroup) {
			records, err := r.e.Store.(Beginner).Running(r.work, uids)
			if err != nil {
				break // the next look will do
			}
			for _, uid := range uids {
				if !slices.ContainsFunc(records, func(rec Record) bool { return rec.Memory.UID == uid }) {
					cancels[uid](errSuperseded)
				}
			}
		}
	}
}

// overdue fails the attempts that were not answered by their deadline. What a
// handler of this process still has is left to its own timeout.
func (r *run) overdue() {
	e := r.e
	store := e.Store.(Beginner)
	for after, more := (Cursor{}), true; more; {
		page := e.flights.Open()
		list, err := ask(r.stop, e, func() ([]Record, error) { return store.Overdue(r.stop, r.pass.Now, after, MaxGroup) })
		if more = len(list) == MaxGroup; more {
			after = list[len(list)-1].Cursor
		}
		// What the database refuses would be told of again and again.
		list = slices.DeleteFunc(list, func(rec Record) bool { return e.refused.Contains(rec.Key.Hash()) })
		timedOut := slices.Repeat([]Answer{{Outcome: Errored, Text: "timed out"}}, len(list))
		ends := endingsOf(r.pass.Tier, list, timedOut, r.pass.Now)
		if err == nil {
			err = e.endIdle(r.stop, page, ends)
		}
		e.flights.Close(page)
		if err != nil {
			r.failUnlessStopped(err)
			return
		}
		for _, x := range ends {
			r.count(func(rep *Report) { rep.addOverdue(x.reason) })
		}
	}
}

// Resolve writes the outcomes of attempts that were handed over. Several answers to one
// attempt are written in order: it can have a status before its end. It returns an error
// for each answer, nil where it is written; one that wraps [ErrConflict] where no row has
// an attempt of that UID running. The other error says that nothing is known of any.
func (e *Engine) Resolve(ctx context.Context, answers []Answer) ([]error, error) {
	e.init()
	reasons := make([]error, len(answers))
	for next := 0; next < len(answers); {
		at := make(map[string]int) // the next answers, one of each attempt
		for ; next < len(answers) && len(at) < MaxGroup; next++ {
			uid := answers[next].UID
			if _, twice := at[uid]; twice {
				break
			}
			at[uid] = next
			reasons[next] = fmt.Errorf("%w: no running attempt has the UID %s", ErrConflict, uid)
		}
		uids := slices.Sorted(maps.Keys(at)) // the same answers are written in the same order
		records, err := ask(ctx, e, func() ([]Record, error) { return e.Store.(Beginner).Running(ctx, uids) })
		if err != nil {
			return nil, err
		}
		list := make([]Answer, len(records))
		for i := range records {
			list[i] = answers[at[records[i].Memory.UID]]
		}
		ends := endingsOf("", records, list, e.Now())
		if err := e.end(ctx, ends); err != nil {
			return nil, err
		}
		for i := range records {
			reasons[at[list[i].UID]] = ends[i].reason
		}
	}
	return reasons, nil
}

// endingsOf returns the endings of the records' attempts by an answer for each.
func endingsOf(tier string, records []Record, answers []Answer, now time.Time) []*ending {
	list := make([]*ending, len(records))
	for i := range records {
		s := Settlement{Record: &records[i], At: now, Error: answers[i].Text}
		list[i] = &ending{Settlement: s, tier: tier, outcome: answers[i].Outcome}
	}
	return list
}

// end writes what attempts have come to, and sets the reasons of those that are not written.
// After an error nothing is known of any.
func (e *Engine) end(ctx context.Context, list []*ending) error {
	for _, x := range list {
		e.answered(ctx, x)
	}
	e.announce(ctx, list)
	if slices.ContainsFunc(list, func(x *ending) bool { return x.death == cutShort }) {
		return ctx.Err()
	}
	return e.settleEnds(ctx, list)
}

// answered concludes an attempt by its answer, whose text stands for the error.
func (e *Engine) answered(ctx context.Context, x *ending) {
	rec := x.Record
	if rec.Memory.tellsOfAttempts() {
		rec.Tier = x.tier
		rec.AttemptID = rec.Memory.UID
	}
	text := x.Error // which is often empty
	x.Error = ""
	switch x.outcome {
	case Skipped: // the attempt goes on
		next := *rec.Memory
		next.Reason = text
		x.Memory = &next
		x.Target = RowOther
		return
	case Succeeded:
		e.conclude(ctx, x, nil, 0)
		return
	case Rejected:
		text = cmp.Or(text, "rejected")
	}
	e.conclude(ctx, x, errors.New(cmp.Or(text, "failed")), 0)
}

// settleEnds settles those of the list that have no reason against it yet.
func (e *Engine) settleEnds(ctx context.Context, list []*ending) error {
	var open []*ending
	var group []Settlement
	for _, x := range list {
		if x.reason == nil {
			open = append(open, x)
			group = append(group, x.Settlement)
		}
	}
	left, err := ask(ctx, e, func() ([]Unsettled, error) { return e.Store.Settle(ctx, group) })
	if err != nil {
		return err
	}
	for _, u := range left {
		open[u.Index].reason = u.Err
	}
	settled := 0
	for _, x := range list {
		if x.kind() == Refused {
			e.refused.Add(x.Record.Key.Hash(), struct{}{}) // not to be tried again by this process
		}
		if e.observe(x) {
			settled++
		}
	}
	if settled > 0 {
		e.emit(Event{Kind: Settled, Tier: list[0].tier, N: settled})
	}
	return nil
}
