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

// A Refresher plans the starts of records that are processed again and again. With it a
// [Policy] has deadlines. It is pure, its methods may be called concurrently, and they change
// no argument; package backlog/backlog/retry has one.
type Refresher interface {
	// Start returns what the row remembers after the start of an attempt at the time now. An
	// error says that the row's rule cannot be read: the record is not started.
	Start(s Memory, now time.Time, uid string) (Memory, error)
	// End returns what the row remembers after the end of an attempt at the time now, and
	// whether the record is disabled or finished then. before is what the row remembered before
	// the start, which a Skipped attempt restores; nil: it is not known. text is the error's.
	// An attempt during which the row was saved, so that its Next is before its Deadline, is
	// never final.
	End(s Memory, o Outcome, now time.Time, text string, before *Memory) (next Memory, final bool)
}

// A Beginner is a [Store] whose rows the refresh policy starts. Its Pending returns records
// that are due, with Memory.Next at or before Query.Now, in both lanes by (Next, key). The
// fresh lane has the records without a start since their last success. Rows that are
// disabled, or whose attempt runs, are in no lane. An attempt runs while the row has a
// deadline and, if the table has a column for it, a UID: a save may empty either.
//
// Its Settle writes Settlement.Memory if the row still has the attempt of
// Settlement.Record.Memory: the same UID, or without that column the same Next and AttemptNo,
// and a deadline if the record had one. It writes only what the outcome changes:
//
//   - The Reason of a row that was disabled during the attempt stays.
//   - A row that was saved during the attempt, so that its Next is before its Deadline, keeps
//     its Next and its AttemptNo; a success empties its FailingSince.
//   - A success and a death write their Reason, even if a worker has written another since the
//     start. Other outcomes keep the worker's.
//
// Times are rounded up to what the columns hold. All methods may be called concurrently, and
// their errors are as in Store.
type Beginner interface {
	Store
	// Begin writes the starts of a group in one transaction, each only if its row
	// still has the UID and the Next that were read, and is not disabled.
	// Settlement.Memory is what to write. It sets the Memory of each record that it started
	// to what the row has then.
	Begin(ctx context.Context, group []Settlement) ([]Unsettled, error)
	// Overdue returns records whose deadline is at or before now, the earliest
	// first, after the cursor and at most limit.
	Overdue(ctx context.Context, now time.Time, after Cursor, limit int) ([]Record, error)
	// Running returns the records of the running attempts with the UIDs, in any
	// order. A UID that no row has is left out.
	Running(ctx context.Context, uids []string) ([]Record, error)
}

// Accepted is returned by a Handler that has handed the record over to a service, whose answer
// comes to [Engine.Resolve]. Without an answer by the deadline the attempt has failed. It
// requires the refresh policy and a table with a column for UIDs; elsewhere it is an error.
//
//lint:ignore ST1012 it reads as the answer it is: return backlog.Accepted
var Accepted = errors.New("accepted")

// An Answer is the outcome of an attempt that was handed over, or its status.
type Answer struct {
	UID     string
	Outcome Outcome    // Skipped: the attempt goes on, and Text is its status
	Text    string     // the error's; of a status the row's Reason, for the customer
	Snooze  SnoozeTime // of a Snoozed outcome
}

// errSuperseded is the cause for which a handler's context ends when its row has another
// attempt, or none.
var errSuperseded = errors.New("superseded: the row has another attempt, or was saved")

// supersedeEvery is how often the rows of running attempts are looked at.
const supersedeEvery = time.Second

// Collect asks a [Collector] or a [LateCollector] for outcomes and settles them. A [Loop] calls
// it every second, and every pass at its beginning. It does nothing during another call.
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
		return h.CollectLate(ctx, e.settleLate)
	}
	return nil
}

// errAtWork says why an outcome cannot be settled yet.
var errAtWork = fmt.Errorf("%w: another attempt of the record is under way", ErrUnavailable)

// settleLate settles outcomes that no handler call waits for. It claims their records as if
// a page with them was read now: a record that is being worked on is not settled, and no older
// page dispatches one afterwards.
func (e *Engine) settleLate(ctx context.Context, records []Record, answers []Answer) ([]error, error) {
	page := e.flights.Open()
	defer e.flights.Close(page)
	for i := range records {
		records[i].Exact = true // an earlier process may have written the outcome
		e.nameAttempt(&records[i], records[i].AttemptID)
	}
	list := endingsOf("late", records, answers, e.Now())
	err := e.settleIdle(ctx, page, list)
	reasons := make([]error, len(list))
	for i, x := range list {
		reasons[i] = x.reason
	}
	return reasons, err
}

// settleIdle is settleEnds for the page's records that are not being worked on. The reason of
// the others is errAtWork.
func (e *Engine) settleIdle(ctx context.Context, page *flight.Page, list []*ending) error {
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
	err := e.settleUnchanged(ctx, idle)
	e.flights.Land(flights...)
	return err
}

// settleUnchanged is settleEnds for the records whose rows are as they were read. The others
// are conflicts: no attempt is counted for them, and OnDead is not called.
func (e *Engine) settleUnchanged(ctx context.Context, list []*ending) error {
	store, ok := e.Store.(Verifier)
	if !ok || !list[0].Record.Exact {
		return e.settleEnds(ctx, list)
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
		e.emitSettled(x)
	}
	if len(rest) == 0 {
		return nil
	}
	return e.settleEnds(ctx, rest)
}

// writeStart writes the start of the job's attempt under a policy with deadlines, and reports
// whether the handler is to be called. The job has its slot.
func (r *run) writeStart(j *job) bool {
	e := r.e
	rec := j.rec
	if !e.Policy.HasDeadlines() {
		return true
	}
	// A handler that may be unable to take any record is asked first, so that no
	// attempt is spent on that.
	if h, ok := r.handler.(ReadyChecker); ok {
		if err := h.Ready(r.work); err != nil {
			r.fail(handlerFault{fmt.Errorf("nothing was started: %w", err)})
			r.returnJob(j)
			return false
		}
	}
	// A record that did not wait for its slot starts at the pass's own time.
	now := e.Now()
	if now.Sub(r.pass.Now) < time.Second {
		now = r.pass.Now
	}
	before := rec.Memory
	next, err := e.Policy.Start(before, now, rec.AttemptID)
	var notStarted []Unsettled
	if err == nil {
		start := []Settlement{{Record: rec, Memory: next, At: now}}
		notStarted, err = ask(r.stop, e, func() ([]Unsettled, error) { return e.Store.(Beginner).Begin(r.work, start) })
	}
	switch {
	case err != nil:
		r.failUnlessStopped(err)
		r.returnJob(j)
		return false
	case len(notStarted) > 0:
		r.abandon(j, now, notStarted[0].Err)
		return false
	}
	j.before = before
	return true
}

// abandon accounts for a record that this process must not handle, or whose outcome it must not
// write; err says why.
func (r *run) abandon(j *job, at time.Time, err error) {
	x := ending{Settlement: Settlement{Record: j.rec, At: at}, tier: r.pass.Tier, outcome: Skipped, reason: err}
	r.accountUnsettled(attempt{ending: x, job: j, run: r})
}

// attemptContext returns the context of the handler of an attempt, which ends when the
// attempt is superseded. end is called after the handler.
func (r *run) attemptContext(j *job) (ctx context.Context, end func()) {
	if j.before == nil || j.rec.Memory.UID == "" {
		return r.work, func() {}
	}
	ctx, cancel := context.WithCancelCause(r.work)
	r.attempts.Store(j.rec.Memory.UID, cancel)
	return ctx, func() {
		r.attempts.Delete(j.rec.Memory.UID)
		cancel(nil)
	}
}

// watchSuperseded ends the contexts of handlers whose attempt is no longer its row's. It
// returns when done is.
func (r *run) watchSuperseded(done context.Context) {
	for Sleep(done, supersedeEvery) {
		cancels := make(map[string]context.CancelCauseFunc)
		for uid, cancel := range r.attempts.Range {
			cancels[uid.(string)] = cancel.(context.CancelCauseFunc)
		}
		for uids := range slices.Chunk(slices.Collect(maps.Keys(cancels)), MaxGroup) {
			records, err := r.e.Store.(Beginner).Running(r.work, uids)
			if err != nil {
				break // the rows are looked at again soon
			}
			for _, uid := range uids {
				if !slices.ContainsFunc(records, func(rec Record) bool { return rec.Memory.UID == uid }) {
					cancels[uid](errSuperseded)
				}
			}
		}
	}
}

// failOverdue fails the attempts that were not answered by their deadline. Records that this
// process is still handling are skipped, and their own timeout ends them.
func (r *run) failOverdue() {
	var after Cursor
	more := true
	for more {
		var err error
		after, more, err = r.failNextOverdue(after)
		if err != nil {
			r.failUnlessStopped(err)
			return
		}
	}
}

// failNextOverdue is failOverdue for the next group of attempts after the cursor. It returns the
// cursor of the last one if there may be more after it.
func (r *run) failNextOverdue(after Cursor) (last Cursor, more bool, err error) {
	e := r.e
	flightPage := e.flights.Open()
	defer e.flights.Close(flightPage)
	list, err := ask(r.stop, e, func() ([]Record, error) {
		return e.Store.(Beginner).Overdue(r.stop, r.pass.Now, after, MaxGroup)
	})
	if err != nil {
		return Cursor{}, false, err
	}
	more = len(list) == MaxGroup
	if more {
		last = list[len(list)-1].Cursor
	}
	// What the database refuses would be reported again in each pass.
	list = slices.DeleteFunc(list, func(rec Record) bool { return e.refused.Contains(rec.Key.Hash()) })
	timedOut := slices.Repeat([]Answer{{Outcome: Errored, Text: "timed out"}}, len(list))
	ends := endingsOf(r.pass.Tier, list, timedOut, r.pass.Now)
	if err := e.settleIdle(r.stop, flightPage, ends); err != nil {
		return Cursor{}, false, err
	}
	for _, x := range ends {
		r.count(func(rep *Report) { rep.addOverdue(x.reason) })
	}
	return last, more, nil
}

// Resolve writes the outcomes of attempts that were handed over. Several answers to one
// attempt are written in their order, such as a status before the outcome. It returns an error
// for each answer, nil if it is written; one that wraps [ErrConflict] says that no row has a
// running attempt with that UID. The second result says that nothing is known of any answer.
func (e *Engine) Resolve(ctx context.Context, answers []Answer) ([]error, error) {
	e.init()
	reasons := make([]error, len(answers))
	next := 0
	for next < len(answers) {
		at := make(map[string]int) // UID -> index of the next answers, one for each attempt
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
		if err := e.settleEnds(ctx, ends); err != nil {
			return nil, err
		}
		for i := range records {
			reasons[at[list[i].UID]] = ends[i].reason
		}
	}
	return reasons, nil
}

// endingsOf returns the endings of the records' attempts, with an answer for each.
func endingsOf(tier string, records []Record, answers []Answer, now time.Time) []*ending {
	list := make([]*ending, len(records))
	for i := range records {
		s := Settlement{Record: &records[i], At: now, Error: answers[i].Text}
		list[i] = &ending{Settlement: s, tier: tier, outcome: answers[i].Outcome, snooze: answers[i].Snooze}
	}
	return list
}

// settleEnds writes the outcomes of attempts, and sets the reason of each that is not written.
// An error says that nothing is known of any.
func (e *Engine) settleEnds(ctx context.Context, list []*ending) error {
	for _, x := range list {
		e.concludeAnswered(ctx, x)
	}
	e.announce(ctx, list)
	if slices.ContainsFunc(list, func(x *ending) bool { return x.death == deathInterrupted }) {
		return ctx.Err()
	}
	return e.settleConcluded(ctx, list)
}

// concludeAnswered concludes an attempt by its answer, whose text is in Error.
func (e *Engine) concludeAnswered(ctx context.Context, x *ending) {
	rec := x.Record
	if rec.Memory.hasAttempts() {
		rec.Tier = x.tier
		e.nameAttempt(rec, rec.Memory.UID)
	}
	text := x.Error
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
	case Snoozed:
		var why error
		if text != "" {
			why = errors.New(text)
		}
		e.conclude(ctx, x, x.snooze.Snooze(why), 0)
		return
	case Rejected:
		text = cmp.Or(text, "rejected")
	}
	e.conclude(ctx, x, errors.New(cmp.Or(text, "failed")), 0)
}

// settleConcluded writes the outcomes that have no reason against that yet, and emits what
// became of all.
func (e *Engine) settleConcluded(ctx context.Context, list []*ending) error {
	var writable []*ending
	var group []Settlement
	for _, x := range list {
		if x.outcome == Snoozed && !x.writesRow() {
			e.snooze(x.tier, x.Record.Key.Hash(), x.snoozedUntil)
			continue
		}
		if x.reason == nil {
			writable = append(writable, x)
			group = append(group, x.Settlement)
		}
	}
	unsettled, err := ask(ctx, e, func() ([]Unsettled, error) { return e.Store.Settle(ctx, group) })
	if err != nil {
		return err
	}
	for _, u := range unsettled {
		writable[u.Index].reason = u.Err
		e.keepRefused(writable[u.Index])
	}
	settled := 0
	for _, x := range list {
		if x.kind() == Refused {
			e.refused.Add(x.Record.Key.Hash(), struct{}{}) // this process does not try it again
		}
		if e.emitSettled(x) {
			settled++
		}
	}
	if settled > 0 {
		e.emit(Event{Kind: Settled, Tier: list[0].tier, N: settled})
	}
	return nil
}
