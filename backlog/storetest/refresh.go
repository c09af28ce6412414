package storetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"backlog/backlog"
)

// refreshTimeCases are the cases of the refresh policy in which it matters how columns
// write times, and refreshCases those in which it does not.
func refreshTimeCases() []testCase {
	t := Table{Refresh: true, Dead: true, Notes: true}
	return []testCase{{"RefreshPending", t, testRefreshPending}, {"RefreshAttempts", t, attemptsOf(attempts)}, {"RefreshOverdue", t, testOverdue}, {"RefreshEmptied", t, testEmptied}}
}

func refreshCases() []testCase {
	t := Table{Refresh: true, Dead: true, Notes: true}
	list := []testCase{
		{"RefreshBeginTwice", t, testBeginTwice},
		{fmt.Sprintf("RefreshGroupOf%d", backlog.MaxGroup), t, attemptsOf(slices.Repeat([]attempt{failure}, backlog.MaxGroup))},
	}
	for _, t.Keys = range []Keys{TextKeys, BlobKeys, CompositeKeys} {
		list = append(list, testCase{fmt.Sprintf("Refresh%vKeys", t.Keys), t, attemptsOf(attempts)})
	}
	return list
}

// expectedRefresh are the rows that the query selects under the refresh policy.
func expectedRefresh(rows []Row, q backlog.Query) (want []Row) {
	for _, r := range rows {
		s, lane := r.Refresh, backlog.Fresh
		if s.AttemptNo > 0 {
			lane = backlog.Failed
		}
		if due := !s.At.IsZero() && !s.At.After(q.Now) && !s.Disabled && s.Deadline.IsZero(); due && lane == q.Lane {
			want = append(want, r)
		}
	}
	slices.SortFunc(want, func(a, b Row) int { return cmp.Or(a.Refresh.At.Compare(b.Refresh.At), a.Key.Compare(b.Key)) })
	return want
}

// uid is the n-th token of an attempt.
func uid(n int) string { return fmt.Sprintf("%032x", n+1) }

// timeout is what attempts may take.
const timeout = time.Hour

// ended is when attempts end.
var ended = now.Add(time.Minute)

func (f *fixture) beginner(store backlog.Store) backlog.Beginner {
	f.Helper()
	b, ok := store.(backlog.Beginner)
	if !ok {
		f.Fatalf("want a backlog.Beginner, got a %T", store)
	}
	return b
}

// due inserts rows that are due, the n-th for n minutes, and returns their records.
func (f *fixture) due(n int) (rows []Row, records []backlog.Record) {
	f.Helper()
	for i := range n {
		r := f.row(i, Other, 0)
		r.Refresh.At = now.Add(-time.Duration(i)*time.Minute - f.precision()) // which shows the step
		rows = append(rows, r)
	}
	f.insert(rows...)
	return f.pending(rows)
}

// start returns the start of an attempt at the time.
func start(r *backlog.Record, n int, at time.Time) backlog.Settlement {
	s := *r.Refresh
	s.UID, s.Started, s.Deadline, s.AttemptNo = uid(n), at, at.Add(timeout), s.AttemptNo+1
	s.At = s.Deadline
	return backlog.Settlement{Record: r, Refresh: &s, At: at}
}

// An attempt is what becomes of a row that is read, started and settled, and which a
// user changes meanwhile.
type attempt struct {
	what   string
	early  bool                   // the user comes before the start, which is a conflict then; else before the end
	user   func(*backlog.Refresh) // changes the row; nil: nobody does
	gone   bool                   // the user deletes it
	target backlog.RowState
	end    func(*backlog.Refresh) // makes of the state what is settled, and of the row what it has then
	then   func(*backlog.Refresh) // the latter, where it is something else
	lost   bool                   // the end is a conflict
	status Status                 // that shows the end
}

func over(s *backlog.Refresh) { s.UID, s.Deadline = "", time.Time{} }

func succeeds(s *backlog.Refresh) {
	over(s)
	s.At, s.AttemptNo, s.FailingSince = s.Started.Add(2*time.Hour), 0, time.Time{}
}

func dies(s *backlog.Refresh) {
	over(s)
	s.At, s.FailingSince, s.Disabled, s.Reason = time.Time{}, ended, true, "no: “été”"
}

func released(s *backlog.Refresh) {
	over(s)
	s.At, s.AttemptNo = now.Add(-time.Minute), 0
}

// saved is what a user makes of a row in the middle of its attempt: the next start comes
// before the deadline.
func saved(s *backlog.Refresh) { s.At, s.AttemptNo = ended, 0 }

var failure = attempt{what: "failure", target: backlog.RowError, status: Failed, end: func(s *backlog.Refresh) {
	over(s)
	s.At, s.FailingSince = s.Started.Add(2*time.Hour), ended
}}

var attempts = []attempt{
	failure,
	{what: "success", target: backlog.RowSuccess, status: Fresh, end: succeeds},
	{what: "last success", target: backlog.RowSuccess, status: Success, end: func(s *backlog.Refresh) { succeeds(s); s.At = time.Time{} }},
	{what: "final failure", target: backlog.RowDead, status: Dead, end: dies},
	{what: "release", target: backlog.RowOther, status: Other, end: released},
	{what: "text for the customer", target: backlog.RowOther, status: Other, end: func(s *backlog.Refresh) { s.Reason = "half of it is done" }},
	{what: "success of a saved row", user: saved, target: backlog.RowSuccess, status: Fresh, end: succeeds, then: over},
	{what: "final failure of a saved row", user: saved, target: backlog.RowDead, status: Failed, end: dies, then: over},
	{what: "release of a saved row", user: saved, target: backlog.RowOther, status: Other, end: released, then: over},
	{what: "success of a disabled row", user: func(s *backlog.Refresh) { s.Disabled, s.Reason = true, "stop it" },
		target: backlog.RowSuccess, status: Fresh, end: succeeds}, // which changes neither
	{what: "success by an old token", user: func(s *backlog.Refresh) { s.UID = uid(9998) }, target: backlog.RowSuccess, end: succeeds, lost: true},
	{what: "success of a deleted row", gone: true, target: backlog.RowSuccess, end: succeeds, lost: true},
	{what: "start of a row that is planned anew", early: true, user: func(s *backlog.Refresh) { s.At = now.Add(-day) }},
	{what: "start of a row that is planned no more", early: true, user: func(s *backlog.Refresh) { s.At, s.Started = time.Time{}, now }},
	{what: "start of a disabled row", early: true, user: func(s *backlog.Refresh) { s.Disabled, s.Reason = true, "by hand" }},
	{what: "start of a running row", early: true, user: func(s *backlog.Refresh) { s.UID, s.Deadline, s.At = uid(9999), ended, ended }},
	{what: "start of a deleted row", early: true, gone: true},
}

// users has the users change the rows. The state of a deleted one is zero.
func (f *fixture) users(early bool, list []attempt, rows []Row) {
	f.Helper()
	for i, a := range list {
		switch s := &rows[i].Refresh; {
		case a.early != early:
		case a.gone:
			*s = backlog.Refresh{}
			f.delete(rows[i].Key)
		case a.user != nil:
			a.user(s)
			f.harness(f.h.(Refreshing).SetRefresh(rows[i].Key, *s), "set the state of record %v", rows[i].Key)
		}
	}
}

// wantAttempts checks the rows, the lanes, and which of the attempts run.
func (f *fixture) wantAttempts(after string, list []attempt, rows []Row) (running []backlog.Record) {
	f.Helper()
	var run []Row
	tokens := make([]string, len(list))
	for i, a := range list {
		if rows[i].Refresh != (backlog.Refresh{}) {
			f.wantRow(after+": "+a.what, rows[i])
		}
		if tokens[i] = uid(i); rows[i].Refresh.UID == tokens[i] {
			run = append(run, rows[i])
		}
	}
	for _, lane := range bothLanes {
		for _, wait := range []time.Duration{0, 2*time.Hour + 5*time.Minute, day} {
			q := query(lane)
			q.Now = now.Add(wait)
			f.wantLane(q, rows, 100)
		}
	}
	running, err := f.beginner(f.h.Store()).Running(f.Context(), tokens)
	if err != nil {
		f.Fatalf("Running: want records, got error: %v", err)
	}
	slices.SortFunc(running, func(a, b backlog.Record) int { return cmp.Compare(a.Refresh.UID, b.Refresh.UID) })
	if wantRecords(f.T, "running after "+after, run, running); f.Failed() {
		f.FailNow()
	}
	for i := range running {
		f.wantRecord(&running[i], run[i])
	}
	return running
}

// attemptsOf returns a case that starts and ends attempts, all in one group: who is told
// of a conflict, and what the rows have then.
func attemptsOf(list []attempt) func(*fixture) {
	return func(f *fixture) {
		rows, records := f.due(len(list))
		f.users(true, list, rows)
		var group []backlog.Settlement
		var lost []int
		for i, a := range list {
			group = append(group, start(&records[i], i, now.Add(time.Duration(i)*time.Minute+1234567))) // between the steps of columns
			if a.early {
				lost = append(lost, i)
			}
		}
		unsettled, err := f.beginner(f.h.Store()).Begin(f.Context(), group)
		if err != nil {
			f.Fatalf("Begin of %d attempts: want them written, got error: %v", len(group), err)
		}
		wantConflicts(f.T, group, unsettled, lost)
		for i, a := range list {
			if a.early {
				continue
			}
			s, least := *records[i].Refresh, group[i].At.Add(timeout)
			late := s.Deadline.Sub(least)
			if late < 0 || late >= f.precision() || s.At.Before(s.Deadline) || s.AttemptNo != 1 || s.UID != uid(i) {
				f.Errorf("start: want attempt 1 with UID %s, until %v rounded up to the column's step %v, and no earlier next start; got %+v", uid(i), least, f.precision(), s)
			}
			rows[i].Refresh = s // no status is written, and no attempt counted
		}
		running := f.wantAttempts("start", list, rows)
		f.users(false, list, rows)
		f.attemptsEnd(list, rows, running)
	}
}

// attemptsEnd settles the running ones of the attempts; then again, when all are
// conflicts.
func (f *fixture) attemptsEnd(list []attempt, rows []Row, running []backlog.Record) {
	f.Helper()
	var group, again []backlog.Settlement
	var lost []int
	for i, a := range list {
		if a.early {
			continue
		}
		next := *running[0].Refresh
		a.end(&next)
		g := backlog.Settlement{Record: &running[0], Target: a.target, Refresh: &next, At: ended}
		running = running[1:]
		if a.target == backlog.RowError || a.target == backlog.RowDead {
			g.Error = "it failed"
		}
		if next.UID == "" {
			lost, again = append(lost, len(lost)), append(again, g)
		}
		if a.lost {
			continue
		}
		group = append(group, g)
		if a.then == nil {
			a.then = a.end
		}
		a.then(&rows[i].Refresh)
		if rows[i].Status, rows[i].LastError = a.status, g.Error; a.target != backlog.RowOther {
			rows[i].Attempts++
		}
	}
	f.settle(nil, group...)
	f.wantAttempts("end", list, rows)
	f.settle(lost, again...)
	f.wantAttempts("end once more", list, rows)
}

// testRefreshPending has all states that a row can be in, under statuses that do not
// matter.
func testRefreshPending(f *fixture) {
	random, step := rand.New(rand.NewPCG(7, 0)), f.precision()
	var rows []Row
	for i := range 150 {
		r := f.row(i, pick(random, Fresh, Failed, Success, Dead, Other), time.Hour)
		near := func() time.Time {
			return now.Add(pick(random, -9999*time.Hour, -time.Hour, -step, -step, 0, 0, step, 5*time.Hour))
		}
		r.Refresh = backlog.Refresh{At: near(), AttemptNo: pick(random, 0, 0, 1, 7), Started: near(), FailingSince: near(), Reason: pick(random, "", "why")}
		switch random.IntN(8) {
		case 0:
			r.Refresh.At = time.Time{}
		case 1:
			r.Refresh.Disabled = true
		case 2:
			r.Refresh.UID, r.Refresh.Deadline = uid(i), near()
		}
		rows = append(rows, r)
	}
	f.insert(rows...)
	for _, lane := range bothLanes {
		for _, at := range []time.Time{now, now.Add(-step), now.Add(day)} {
			q := query(lane)
			q.Now, q.Since = at, at
			f.wantWalks(q, rows)
		}
		for _, r := range f.walk(query(lane)) {
			f.wantRecord(&r, *find(rows, r.Key))
		}
	}
}

// testBeginTwice starts one record from both sides: one wins.
func testBeginTwice(f *fixture) {
	rows, records := f.due(20)
	var won [2][20]bool
	var both sync.WaitGroup
	for side, store := range []backlog.Beginner{f.beginner(f.h.Store()), f.beginner(f.another())} {
		both.Go(func() {
			for i, rec := range records {
				left, err := store.Begin(f.Context(), []backlog.Settlement{start(&rec, 100*side+i, now)})
				if err != nil {
					f.Errorf("Begin: want no error, got %v", err)
				}
				won[side][i] = err == nil && len(left) == 0
			}
		})
	}
	both.Wait()
	for i, row := range rows {
		winner := map[bool]string{true: uid(i), false: uid(100 + i)}[won[0][i]]
		if got := f.read(row.Key).Refresh.UID; won[0][i] == won[1][i] || got != winner {
			f.Errorf("record %v: want one of two starts written, got %t and %t and the UID %s", row.Key, won[0][i], won[1][i], got)
		}
	}
}

// testOverdue finds attempts when their deadline has come, the earliest first.
func testOverdue(f *fixture) {
	var rows []Row
	for i := range 30 {
		r := f.row(i, Fresh, 0)
		r.Refresh = backlog.Refresh{At: now.Add(day), AttemptNo: 1 + i%2}
		if i%5 > 0 {
			r.Refresh.UID, r.Refresh.Deadline = uid(i), now.Add(time.Duration(i%5-3)*f.precision())
		}
		if i%7 == 0 {
			r.Refresh.At = now.Add(-day) // saved: its attempt ends all the same
		}
		rows = append(rows, r)
	}
	f.insert(rows...)
	for _, at := range []time.Time{now.Add(-day), now.Add(-f.precision()), now, now.Add(day)} {
		var want []Row
		for _, r := range rows {
			if !r.Refresh.Deadline.IsZero() && !r.Refresh.Deadline.After(at) {
				want = append(want, r)
			}
		}
		slices.SortFunc(want, func(a, b Row) int {
			return cmp.Or(a.Refresh.Deadline.Compare(b.Refresh.Deadline), a.Key.Compare(b.Key))
		})
		for _, limit := range []int{3, 100} {
			var got []backlog.Record
			for after := (backlog.Cursor{}); ; {
				list, err := f.beginner(f.h.Store()).Overdue(f.Context(), at, after, limit)
				if err != nil {
					f.Fatalf("Overdue: want records, got error: %v", err)
				}
				got = append(got, list...)
				if len(list) < limit {
					break
				}
				after = list[limit-1].Cursor
			}
			wantRecords(f.T, fmt.Sprintf("overdue at %v, %d at a time", at, limit), want, got)
		}
	}
}

// testEmptied are rows whose users have emptied the UID of an attempt, and saved another
// time: their deadline is no failure.
func testEmptied(f *fixture) {
	var rows []Row
	for i, at := range []time.Time{now.Add(day), now.Add(-day), {}} {
		r := f.row(i, Fresh, 0)
		r.Refresh = backlog.Refresh{At: at, AttemptNo: i, Deadline: now}
		rows = append(rows, r)
	}
	f.insert(rows...)
	list, err := f.beginner(f.h.Store()).Overdue(f.Context(), now.Add(-f.precision()), backlog.Cursor{}, 9)
	if len(list) > 0 || err != nil || f.read(rows[0].Key).Refresh.Deadline.IsZero() {
		f.Errorf("before the deadline: %d records, %v; want the row as it was", len(list), err)
	}
	if list, err = f.beginner(f.h.Store()).Overdue(f.Context(), now, backlog.Cursor{}, 9); len(list) > 0 || err != nil {
		f.Errorf("at the deadline: %d records, %v; want none", len(list), err)
	}
	for _, row := range rows {
		got := f.read(row.Key).Refresh
		row.Refresh.Deadline = time.Time{}
		if !got.Deadline.IsZero() || !got.At.Equal(row.Refresh.At) || got.AttemptNo != row.Refresh.AttemptNo {
			f.Errorf("record %v: want %+v, got %+v", row.Key, row.Refresh, got)
		}
	}
}
