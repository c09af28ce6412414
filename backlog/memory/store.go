package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
)

// Pending implements [backlog.Store]. A page reads no more than q.Limit rows. It is
// shorter if some of them are not eligible yet, or expired.
func (s *Store) Pending(ctx context.Context, q backlog.Query) (backlog.Page, error) {
	lane := s.lanes[q.Lane]
	after := lane.place(q.After)
	until := lane.place(q.Until)
	if err := ctx.Err(); err != nil {
		return backlog.Page{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	page := backlog.Page{Next: q.After, Records: make([]backlog.Record, 0, min(q.Limit, lane.tree.Len()))}
	read := 0
	for e := range s.window(q, after) {
		if !q.Until.IsZero() {
			c := lane.compare(e, until)
			if c > 0 || c == 0 && q.Until.Before {
				break
			}
		}
		if read == q.Limit {
			page.More = true
			break
		}
		read++
		page.Next = e.cursor()
		if e.selectable(q.Now) {
			page.Records = append(page.Records, s.record(e, q.Lane))
		}
	}
	return page, nil
}

// window yields the entries of the query's lane that come after a place, are of the query's
// ages and, in a lane that is ordered by waiting time, are due.
func (s *Store) window(q backlog.Query, after *entry) iter.Seq[*entry] {
	lane := s.lanes[q.Lane]
	return func(yield func(*entry) bool) {
		for e := range lane.after(after, q.After.Before) {
			skip := false
			last := false // all entries after it are skipped, too
			if s.rule.Aged() && s.tooOld(e, q) {
				skip = true
				last = !lane.byWait && !q.Widest
			} else if lane.byWait {
				m := e.remembered()
				at, ok := s.rule.At(q.Lane, &m)
				skip = !ok || at.After(q.Now)
				last = skip && s.rule.InOrder()
			}
			if last || !skip && !yield(e) {
				return
			}
		}
	}
}

// tooOld reports whether the entry is older than the query's ages.
func (s *Store) tooOld(e *entry, q backlog.Query) bool {
	if e.Inserted.IsZero() {
		return s.nullDate(e) == "oldest" && !q.Widest
	}
	return e.Inserted.Before(q.Since)
}

func (s *Store) record(e *entry, lane backlog.Lane) backlog.Record {
	r := backlog.Record{
		Key:      e.Key,
		Status:   e.Status,
		Inserted: e.Inserted,
		Lane:     lane,
		Attempts: e.Attempts,
		Names:    s.names,
		Cursor:   e.cursor(),
	}
	if s.o.Policy.Keeps() {
		r.Memory = new(e.remembered())
	}
	if len(s.names) > 0 {
		r.Values = make([]any, len(s.names))
		for i, name := range s.names {
			r.Values[i] = e.Columns[name]
		}
	}
	return r
}

func (e *entry) cursor() backlog.Cursor {
	return backlog.Cursor{Order: e.at, Key: e.Key}
}

// place returns the place of a cursor. The zero Cursor is the place before all records.
func (x *index) place(c backlog.Cursor) *entry {
	at, ok := c.Order.(int64)
	switch {
	case ok:
		return &entry{Row: Row{Key: c.Key}, at: at}
	case x.byWait:
		return &entry{at: oldest}
	}
	return &entry{at: newest}
}

// Settle implements [backlog.Store]. The state of a row is its status. A
// group of more than [backlog.MaxGroup] is refused as a whole.
func (s *Store) Settle(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	if len(group) > backlog.MaxGroup {
		return nil, fmt.Errorf("memory: a group of %d outcomes, more than %d", len(group), backlog.MaxGroup)
	}
	return s.write(ctx, group, commit, s.settle)
}

// Rehearse implements [backlog.Rehearser].
func (s *Store) Rehearse(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	return s.write(ctx, group, dryRun, s.settle)
}

// A writeMode says whether a write changes rows or only returns what it would change.
type writeMode int

const (
	commit writeMode = iota
	dryRun
)

// write has settle change the rows of a group, each unless settle returns false. It returns the
// rows that are not changed.
func (s *Store) write(
	ctx context.Context, group []backlog.Settlement, mode writeMode, settle func(*entry, *backlog.Settlement) bool,
) (unsettled []backlog.Unsettled, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range group {
		e := s.rows[group[i].Record.Key.Hash()]
		err := backlog.ErrConflict
		if e != nil {
			err = s.apply(e, mode, func(e *entry) bool { return settle(e, &group[i]) })
		}
		if err != nil {
			unsettled = append(unsettled, backlog.Unsettled{Index: i, Err: err})
		}
	}
	return unsettled, nil
}

// apply has f change a row, unless f returns false or the table refuses the result.
func (s *Store) apply(e *entry, mode writeMode, f func(*entry) bool) error {
	after := *e
	if !f(&after) {
		return backlog.ErrConflict
	}
	if s.o.Refuses != nil {
		if err := s.o.Refuses(after.copy()); err != nil {
			return err
		}
	}
	if mode == commit {
		s.change(e, func() { e.Row = after.Row })
	}
	return nil
}

// unchanged reports whether the row is as it was read, so that the outcome may be written. A
// success may be written though the row has failed again since, unless the record is Exact.
// With ErrorKeep the number of failures alone shows in which lane the row is.
func (s *Store) unchanged(e *entry, g *backlog.Settlement) bool {
	r := g.Record
	attemptsDiffer := r.Attempts >= 0 && e.Attempts != r.Attempts
	failuresDiffer := max(e.Memory.Failures, 0) != max(r.Memory.Failed(), 0)
	if r.Exact && (attemptsDiffer || failuresDiffer) {
		return false
	}
	if failuresDiffer && g.Target != backlog.RowSuccess {
		return false
	}
	lane, _ := s.lane(e)
	return e.Status == r.Status && (!s.o.ErrorKeep || lane == r.Lane)
}

// AsRead implements [backlog.Verifier].
func (s *Store) AsRead(ctx context.Context, records []backlog.Record) ([]bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	unchanged := make([]bool, len(records))
	for i := range records {
		e := s.rows[records[i].Key.Hash()]
		unchanged[i] = e != nil && s.unchanged(e, &backlog.Settlement{Record: &records[i], Target: backlog.RowSuccess})
	}
	return unchanged, ctx.Err()
}

// settleStatus writes an outcome under a policy without deadlines, unless the row has changed.
func (s *Store) settleStatus(e *entry, g *backlog.Settlement) (ok bool) {
	if !s.unchanged(e, g) {
		return false
	}
	if g.Target == backlog.RowOther {
		s.keepSnooze(e, g)
		return true
	}
	e.Attempts++
	e.InRetry = false
	if g.Target == backlog.RowSuccess {
		e.Status = s.o.Success
		return true
	}
	e.LastError = g.Error
	dead := g.Target == backlog.RowDead && s.o.Dead != ""
	switch {
	case dead:
		e.Status = s.o.Dead
	case !s.o.ErrorKeep:
		e.Status = s.o.Error
	}
	if g.Memory == nil {
		return true
	}
	e.Memory = *g.Memory
	if dead {
		e.Memory.Next = time.Time{}
	}
	e.InRetry = !e.Memory.Next.IsZero()
	return true
}

// KeepsSnooze implements [backlog.Snoozer].
func (s *Store) KeepsSnooze(r *backlog.Record) bool {
	plansNext := s.o.Policy != nil && s.o.Policy.Planned
	return s.o.Eligible || plansNext && r.Lane == backlog.Failed
}

// keepSnooze writes until when a record is snoozed.
func (s *Store) keepSnooze(e *entry, g *backlog.Settlement) {
	if s.o.Eligible {
		if g.Until.After(e.Eligible) { // another program may have set a later time
			e.Eligible = g.Until
		}
	} else {
		e.Memory.Next = g.Until
	}
}

// diesOfAge reports whether a record is too old or past its own time of expiry, or the policy has
// given it up.
func (s *Store) diesOfAge(e *entry, x backlog.Expiry) bool {
	lane, pending := s.lane(e)
	if !pending {
		return lane == backlog.Failed
	}
	tooOld := !e.Inserted.IsZero() && e.Inserted.Before(x.Before)
	expired := !e.Expires.IsZero() && e.Expires.Before(x.Now)
	return tooOld || expired
}

// Expire implements [backlog.Expirer]. It holds no mutex while it calls a function of x.
func (s *Store) Expire(ctx context.Context, x backlog.Expiry) (n int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if !s.expires {
		return 0, nil
	}
	records := s.list(func(e *entry) (backlog.Lane, bool) {
		lane, _ := s.lane(e)
		return lane, s.diesOfAge(e, x) && !x.Skips(e.Key)
	})
	slices.SortFunc(records, func(a, b backlog.Record) int { return a.Key.Compare(b.Key) })
	if x.BeforeDeath != nil {
		records, err = s.announceDeaths(ctx, records, x)
	}
	var died []backlog.Record
	for i := range records {
		refusal := s.expire(&records[i], commit)
		switch {
		case refusal == nil:
			died = append(died, records[i])
		case !errors.Is(refusal, backlog.ErrConflict):
			x.Refused(&records[i], refusal)
		}
	}
	if len(died) > 0 {
		x.Died(died, len(died))
	}
	return len(died), err
}

// announceDeaths calls x.BeforeDeath for each record whose row takes the dead status, and x.Refused for
// each whose row does not. It returns the records that may die: those before x.BeforeDeath or the end of
// ctx stops it. The error is ctx.Err().
func (s *Store) announceDeaths(
	ctx context.Context, records []backlog.Record, x backlog.Expiry,
) (announced []backlog.Record, err error) {
	for i := range records {
		if ctx.Err() != nil {
			return announced, ctx.Err()
		}
		r := &records[i]
		refusal := s.expire(r, dryRun)
		hasChanged := errors.Is(refusal, backlog.ErrConflict) // since it was read
		switch {
		case hasChanged:
			continue
		case refusal != nil:
			x.Refused(r, refusal)
			continue
		}
		if goOn := x.BeforeDeath(r); !goOn {
			return announced, ctx.Err()
		}
		announced = append(announced, *r)
	}
	return announced, nil
}

// expire gives the row of a record the dead status, or in a dryRun only finds out whether it can. The
// error says why the row does not take it, and wraps [backlog.ErrConflict] if the row has changed.
func (s *Store) expire(r *backlog.Record, mode writeMode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.rows[r.Key.Hash()]
	if e == nil || e.Status != r.Status {
		return backlog.ErrConflict
	}
	return s.apply(e, mode, func(e *entry) bool {
		e.Status = s.o.Dead
		e.InRetry = false
		e.Memory.Next = time.Time{}
		return true
	})
}

// list returns the records of the rows for which the function returns true, each in the lane
// that it returns. It reads every row.
func (s *Store) list(which func(*entry) (backlog.Lane, bool)) (list []backlog.Record) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, e := range s.rows {
		if lane, ok := which(e); ok {
			list = append(list, s.record(e, lane))
		}
	}
	return list
}

// Ping implements [backlog.Pinger]. Memory is always available.
func (s *Store) Ping(ctx context.Context) error { return ctx.Err() }

// Count counts the rows as [inspect.Counts] describes. A row without a status counts under NULL.
// It reads every row.
func (s *Store) Count(ctx context.Context, now time.Time, edges []time.Duration) (inspect.Counts, error) {
	if err := ctx.Err(); err != nil {
		return inspect.Counts{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	counts := inspect.Counts{ByStatus: make(map[string]int), Bands: make([]inspect.Band, len(edges))}
	for _, e := range s.rows {
		counts.ByStatus[cmp.Or(e.Status, "NULL")]++
		lane, pending := s.lane(e)
		if !pending {
			if lane == backlog.Failed {
				counts.Exhausted++
			}
			continue
		}
		switch {
		case !e.Expires.IsZero() && e.Expires.Before(now):
			counts.Expired++
			continue
		case e.Eligible.After(now):
			counts.Waiting++
			continue
		}
		i, _ := slices.BinarySearch(edges, now.Sub(e.Inserted))
		if e.Inserted.IsZero() {
			nullDate := s.nullDate(e)
			switch {
			case len(edges) == 0 || nullDate == "skip":
				counts.Unreadable++
				continue
			case nullDate == "newest":
				i = 0
			default:
				i = len(edges) - 1
			}
		}
		band := &counts.Beyond
		if i < len(edges) {
			band = &counts.Bands[i]
		}
		band.Add(lane, 1, e.Inserted)
	}
	return counts, nil
}

// remembered returns what the row remembers. Without a running attempt that has no deadline.
func (e *entry) remembered() backlog.Memory {
	m := e.Memory
	if !e.runs() {
		m.Deadline = time.Time{}
	}
	return m
}

// runs reports whether the row has a running attempt. A save may empty either column.
func (e *entry) runs() bool { return !e.Memory.Deadline.IsZero() && e.Memory.UID != "" }

// Begin implements [backlog.Beginner].
func (s *Store) Begin(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	unsettled, err := s.write(ctx, group, commit, func(e *entry, start *backlog.Settlement) bool {
		read := start.Record.Memory
		current := &e.Memory
		if current.UID != read.UID || !current.Next.Equal(read.Next) || current.Disabled {
			return false
		}
		e.Memory = *start.Memory
		return true
	})
	if err != nil {
		return nil, err
	}
	for i, start := range group {
		isUnsettled := func(u backlog.Unsettled) bool { return u.Index == i }
		if !slices.ContainsFunc(unsettled, isUnsettled) {
			written := *start.Memory
			start.Record.Memory = &written
		}
	}
	return unsettled, nil
}

// endAttempt writes the end of an attempt, unless the row no longer has that attempt. A row that
// was saved during the attempt keeps its next start.
func (s *Store) endAttempt(e *entry, g *backlog.Settlement) bool {
	read := g.Record.Memory
	next := g.Memory
	now := &e.Memory
	wasStopped := now.Deadline.IsZero() && !read.Deadline.IsZero() // a save emptied the deadline
	hasOtherUID := now.UID != read.UID
	hasOtherStart := !now.Next.Equal(read.Next) || now.AttemptNo != read.AttemptNo
	if wasStopped || hasOtherUID || read.UID == "" && hasOtherStart {
		return false
	}
	endsAttempt := next.Deadline.IsZero()
	wasSaved := !now.Next.IsZero() && now.Next.Before(now.Deadline) // no start writes such a Next
	if endsAttempt && wasSaved {
		now.UID = ""
		now.Deadline = time.Time{}
		if g.Target == backlog.RowSuccess {
			now.FailingSince = time.Time{}
		}
	} else {
		overwriteReason := g.Target == backlog.RowSuccess || g.Target == backlog.RowDead
		applyChanges(now, read, next, overwriteReason)
	}
	s.recordOutcome(e, g)
	return true
}

// applyChanges changes in the row what differs between the state that was read and the next
// one. What other programs have changed stays, as does the reason of a row that they have
// disabled. overwriteReason says that the outcome's reason replaces one that a worker has
// written.
func applyChanges(row, read, next *backlog.Memory, overwriteReason bool) {
	if !row.Disabled && (overwriteReason || next.Reason != read.Reason) {
		row.Reason = next.Reason
	}
	if next.Disabled != read.Disabled {
		row.Disabled = next.Disabled
	}
	if next.AttemptNo != read.AttemptNo {
		row.AttemptNo = next.AttemptNo
	}
	row.UID = next.UID
	applyTimeChange(&row.Next, read.Next, next.Next)
	applyTimeChange(&row.Deadline, read.Deadline, next.Deadline)
	applyTimeChange(&row.Started, read.Started, next.Started)
	applyTimeChange(&row.FailingSince, read.FailingSince, next.FailingSince)
}

// applyTimeChange sets the row's time to next if that differs from the time that was read.
func applyTimeChange(row *time.Time, read, next time.Time) {
	if !next.Equal(read) {
		*row = next
	}
}

// recordOutcome writes the end of an attempt to what people see of the row: it counts the
// attempt, and sets the status and the last error. Memory already has what the policy plans.
func (s *Store) recordOutcome(e *entry, g *backlog.Settlement) {
	endsAttempt := g.Target != backlog.RowNew && g.Target != backlog.RowOther
	if !endsAttempt {
		return
	}
	e.Attempts++
	startsAgain := !e.Memory.Next.IsZero()
	e.Status = s.statusOf(g.Target.After(startsAgain))
	if g.Target != backlog.RowSuccess {
		e.LastError = g.Error
	}
}

// statusOf returns the status of a row in the state.
func (s *Store) statusOf(state backlog.RowState) string {
	switch state {
	case backlog.RowNew:
		return s.o.New[0]
	case backlog.RowSuccess:
		return s.o.Success
	case backlog.RowDead:
		return cmp.Or(s.o.Dead, s.o.Error)
	}
	return s.o.Error
}

// Overdue implements [backlog.Beginner]. It reads every row.
func (s *Store) Overdue(ctx context.Context, now time.Time, after backlog.Cursor, limit int) ([]backlog.Record, error) {
	list := s.list(func(e *entry) (backlog.Lane, bool) {
		at, _ := after.Order.(int64)
		behind := after.IsZero() || cmp.Or(cmp.Compare(nanos(e.Memory.Deadline), at), e.Key.Compare(after.Key)) > 0
		return e.startedIn(), e.runs() && !e.Memory.Deadline.After(now) && behind
	})
	slices.SortFunc(list, func(a, b backlog.Record) int {
		return cmp.Or(a.Memory.Deadline.Compare(b.Memory.Deadline), a.Key.Compare(b.Key))
	})
	list = list[:min(len(list), limit)]
	for i, r := range list {
		list[i].Cursor = backlog.Cursor{Order: nanos(r.Memory.Deadline), Key: r.Key}
	}
	return list, ctx.Err()
}

// Running implements [backlog.Beginner]. It reads every row.
func (s *Store) Running(ctx context.Context, uids []string) ([]backlog.Record, error) {
	return s.list(func(e *entry) (backlog.Lane, bool) {
		return e.startedIn(), e.runs() && slices.Contains(uids, e.Memory.UID)
	}), ctx.Err()
}

// startedIn returns the lane in which the row was when its running attempt was started.
func (e *entry) startedIn() backlog.Lane {
	if e.Memory.AttemptNo > 1 {
		return backlog.Failed
	}
	return backlog.Fresh
}
