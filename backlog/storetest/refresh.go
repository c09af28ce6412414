package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"backlog/backlog"
)

// uid returns the UID of the n-th attempt.
func uid(n int) string { return fmt.Sprintf("%032x", n+1) }

// timeout is how long attempts may take.
const timeout = time.Hour

// ended is when attempts end.
var ended = now.Add(time.Minute)

// due inserts rows that are due, the n-th since n minutes, and returns their records. Users
// have emptied the UIDs of some, and kept their deadlines.
func (f *fixture) due(n int) []backlog.Record {
	f.Helper()
	f.insert(numbered(n, func(i int) Row {
		r := f.row(i, Other, 0)
		r.Memory.Next = now.Add(-time.Duration(i)*time.Minute - f.h.Precision()) // which shows the step
		if i%3 == 1 {
			r.Memory.Deadline = now.Add(day - f.h.Precision())
		}
		return r
	})...)
	return f.pending()
}

// start returns the settlement that starts an attempt at the time.
func start(r *backlog.Record, n int, at time.Time) backlog.Settlement {
	s := *r.Memory
	s.UID, s.Started, s.Deadline, s.AttemptNo = uid(n), at, at.Add(timeout), s.AttemptNo+1
	s.Next = s.Deadline
	return backlog.Settlement{Record: r, Memory: &s, At: at}
}

// An attempt says what happens to a row that is read, started and settled, and that a user
// changes in between.
type attempt struct {
	what   string
	early  bool                  // the user changes it before the start, else before the end
	user   func(*backlog.Memory) // changes the row; nil: the row stays
	gone   bool                  // the user deletes it
	failed bool                  // the row has failed before
	target backlog.RowState
	end    func(*backlog.Memory) // changes the state to the one that is settled
}

func over(s *backlog.Memory) { s.UID, s.Deadline = "", time.Time{} }

func succeeds(s *backlog.Memory) {
	over(s)
	s.Next, s.AttemptNo, s.FailingSince = s.Started.Add(2*time.Hour), 0, time.Time{}
}

func dies(s *backlog.Memory) {
	over(s)
	s.Next, s.FailingSince, s.Disabled, s.Reason = time.Time{}, ended, true, "no: “été”"
}

func released(s *backlog.Memory) {
	over(s)
	s.Next, s.AttemptNo = now.Add(-time.Minute), 0
}

// saved is a user's save during the attempt: the next start is before the deadline.
func saved(s *backlog.Memory) { s.Next, s.AttemptNo = ended, 0 }

var failure = attempt{what: "failure", target: backlog.RowError, end: func(s *backlog.Memory) {
	over(s)
	s.Next, s.FailingSince = s.Started.Add(2*time.Hour), ended
}}

// attempts are a few of each kind, for all kinds of keys and times. refreshPromises has every kind.
var attempts = []attempt{
	failure,
	{what: "success", target: backlog.RowSuccess, end: succeeds},
	{what: "last success", target: backlog.RowSuccess, end: func(s *backlog.Memory) { succeeds(s); s.Next = time.Time{} }},
	{what: "final failure", target: backlog.RowDead, end: dies},
	{what: "release", target: backlog.RowOther, end: released},
	{what: "snooze", target: backlog.RowOther, end: func(s *backlog.Memory) { released(s); s.Next = now.Add(3 * time.Hour) }},
	{what: "snooze of a saved row", user: saved, target: backlog.RowOther, end: func(s *backlog.Memory) { released(s); s.Next = now.Add(3 * time.Hour) }},
	{what: "text for the customer", target: backlog.RowOther, end: func(s *backlog.Memory) { s.Reason = "half of it is done" }},
	{what: "success of a saved row", user: saved, target: backlog.RowSuccess, end: succeeds},
	{what: "success of a row that has failed", failed: true, target: backlog.RowSuccess, end: succeeds},
	{what: "failure of a saved row that has failed", failed: true, user: saved, target: backlog.RowError, end: func(s *backlog.Memory) {
		over(s)
		s.Next = s.Started.Add(2 * time.Hour)
	}},
	{what: "success by an old token", user: func(s *backlog.Memory) { s.UID = uid(9998) }, target: backlog.RowSuccess, end: succeeds},
	{what: "start of a row that is planned anew", early: true, user: func(s *backlog.Memory) { s.Next = now.Add(-day) }},
	{what: "start of a deleted row", early: true, gone: true},
}

// users has the users change their rows.
func (f *fixture) users(early bool, list []attempt) {
	f.Helper()
	for i, a := range list {
		switch {
		case a.early != early:
		case a.gone:
			f.delete(f.key(i))
		case a.user != nil:
			f.update(f.key(i), func(r *Row) { a.user(&r.Memory) })
		}
	}
}

// wantAttempts checks the rows, the lanes, and which of n attempts run.
func (f *fixture) wantAttempts(after string, n int) []backlog.Record {
	f.Helper()
	f.same(after)
	for _, lane := range bothLanes {
		for _, wait := range []time.Duration{0, 2*time.Hour + 5*time.Minute, day} {
			q := query(lane)
			q.Now = now.Add(wait)
			f.wantLane(q, 100)
		}
	}
	running := alike(f, "Running after "+after, func(s backlog.Beginner) ([]backlog.Record, error) {
		return s.Running(f.Context(), numbered(n, uid))
	}, f.unordered)
	if f.Failed() {
		f.FailNow()
	}
	return running
}

// attemptsOf returns a case that starts and ends attempts, all in one group. It checks which are
// conflicts and what the rows have then, also after the same ends are written again.
func attemptsOf(list []attempt) func(*fixture) {
	return func(f *fixture) {
		f.due(len(list))
		for i, a := range list {
			if a.failed {
				f.update(f.key(i), func(r *Row) { r.Memory.FailingSince = now.Add(-day) })
			}
		}
		records := f.pending()
		slices.SortFunc(records, func(a, b backlog.Record) int { return b.Memory.Next.Compare(a.Memory.Next) }) // as in the list
		f.users(true, list)
		group := numbered(len(records), func(i int) backlog.Settlement {
			return start(&records[i], i, now.Add(time.Duration(i)*time.Minute+1234567)) // between the steps of columns
		})
		f.write("Begin", group, func(s backlog.Store, group []backlog.Settlement) ([]backlog.Unsettled, error) {
			return s.(backlog.Beginner).Begin(f.Context(), group)
		})
		for i, g := range group {
			s := records[i].Memory
			f.memory.Update(g.Record.Key, func(r *Row) {
				if r.Memory.UID != uid(i) {
					return // it is not started
				}
				late := s.Deadline.Sub(r.Memory.Deadline)
				if late < 0 || late >= f.h.Precision() || s.Next.Before(s.Deadline) {
					f.Errorf("start: want %+v, rounded up to the column's step %v, and no earlier next start; got %+v", r.Memory, f.h.Precision(), s)
				}
				r.Memory.Next, r.Memory.Deadline, r.Memory.Started = s.Next, s.Deadline, s.Started
			})
		}
		running := f.wantAttempts("start", len(list))
		f.users(false, list)
		group = nil
		for i := range running {
			n, _ := strconv.ParseInt(running[i].Memory.UID, 16, 64)
			a, next := list[n-1], *running[i].Memory
			a.end(&next)
			g := backlog.Settlement{Record: &running[i], Target: a.target, Memory: &next, At: ended}
			if a.target == backlog.RowError || a.target == backlog.RowDead {
				g.Error = "it failed"
			}
			group = append(group, g)
		}
		for _, what := range []string{"end", "end once more"} {
			f.settle(group...)
			f.wantAttempts(what, len(list))
		}
	}
}

// testRefreshPending walks rows in all states of the refresh policy, with statuses that do
// not matter.
func testRefreshPending(f *fixture) {
	random, step := rand.New(rand.NewPCG(7, 0)), f.h.Precision()
	f.insert(numbered(150, func(i int) Row {
		r := f.row(i, pick(random, f.statuses()...), time.Hour)
		near := func() time.Time {
			return now.Add(pick(random, -9999*time.Hour, -time.Hour, -step, -step, 0, 0, step, 5*time.Hour))
		}
		r.Memory = backlog.Memory{Next: near(), AttemptNo: pick(random, 0, 0, 1, 7), Started: near(), FailingSince: near(), Reason: pick(random, "", "why")}
		switch random.IntN(8) {
		case 0:
			r.Memory.Next = time.Time{}
		case 1:
			r.Memory.Disabled = true
		case 2:
			r.Memory.UID, r.Memory.Deadline = uid(i), near()
		case 3:
			r.Memory.Deadline = near() // its user has saved it, and emptied only the UID
		}
		return r
	})...)
	for _, lane := range bothLanes {
		for _, at := range []time.Time{now, now.Add(-step), now.Add(day)} {
			q := query(lane)
			q.Now, q.Since = at, at
			if at.Equal(now) {
				f.wantWalks(q)
			}
			f.wantLane(q)
		}
	}
}

// testBeginTwice starts one record twice at the same time: one start wins.
func testBeginTwice(f *fixture) {
	records := f.due(20)
	var won [2][20]bool
	var both sync.WaitGroup
	for side, store := range []backlog.Store{f.h.Store(), f.another()} {
		both.Go(func() {
			for i, rec := range records {
				left, err := store.(backlog.Beginner).Begin(f.Context(), []backlog.Settlement{start(&rec, 100*side+i, now)})
				if err != nil {
					f.Errorf("Begin: want no error, got %v", err)
				}
				won[side][i] = err == nil && len(left) == 0
			}
		})
	}
	both.Wait()
	for i, rec := range records {
		winner := map[bool]string{true: uid(i), false: uid(100 + i)}[won[0][i]]
		row, _, err := f.h.Row(rec.Key)
		f.harness(err, "read record %v", rec.Key)
		if won[0][i] == won[1][i] || row.Memory.UID != winner {
			f.Errorf("record %v: want one of two starts written, got %t and %t and the UID %s", rec.Key, won[0][i], won[1][i], row.Memory.UID)
		}
	}
}

// testOverdue finds the attempts whose deadline has passed, the earliest first.
func testOverdue(f *fixture) {
	f.insert(numbered(30, func(i int) Row {
		r := f.row(i, Fresh, 0)
		r.Memory = backlog.Memory{Next: now.Add(day), AttemptNo: 1 + i%2}
		if i%5 > 0 {
			r.Memory.UID, r.Memory.Deadline = uid(i), now.Add(time.Duration(i%5-3)*f.h.Precision())
		}
		if i%6 == 5 {
			r.Memory.UID = "" // emptied by a save: no attempt runs
		}
		if i%7 == 0 {
			r.Memory.Next = now.Add(-day) // saved: its attempt is overdue in spite of that
		}
		return r
	})...)
	for _, at := range []time.Time{now.Add(-day), now.Add(-f.h.Precision()), now, now.Add(day)} {
		for _, limit := range []int{3, 100} {
			alike(f, fmt.Sprintf("Overdue at %v, %d at a time", at, limit), func(s backlog.Beginner) (all []backlog.Record, err error) {
				for after := (backlog.Cursor{}); ; after = all[len(all)-1].Cursor {
					list, err := s.Overdue(f.Context(), at, after, limit)
					if all = append(all, list...); len(list) < limit || err != nil {
						return all, err
					}
				}
			}, f.texts)
		}
	}
}
