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
	return []testCase{
		{"RefreshPending", t, testRefreshPending},
		{"RefreshBegin", t, testBegin},
		{"RefreshSettle", t, testRefreshSettle},
		{"RefreshSaved", t, testSaved},
		{"RefreshOverdue", t, testOverdue},
	}
}

func refreshCases() []testCase {
	t := Table{Refresh: true, Dead: true, Notes: true}
	list := []testCase{
		{"RefreshBeginGuard", t, testBeginGuard},
		{"RefreshBeginTwice", t, testBeginTwice},
		{"RefreshSettleGuard", t, testRefreshSettleGuard},
		{"RefreshMerged", t, testMerged},
		{"RefreshRunning", t, testRunning},
	}
	for _, k := range []Keys{TextKeys, BlobKeys, CompositeKeys} {
		list = append(list, testCase{fmt.Sprintf("Refresh%vKeys", k), Table{Refresh: true, Keys: k}, refreshGroupOf(40)})
	}
	return append(list, testCase{fmt.Sprintf("RefreshGroupOf%d", backlog.MaxGroup), t, refreshGroupOf(backlog.MaxGroup)})
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

func (f *fixture) beginner() backlog.Beginner {
	f.Helper()
	b, ok := f.h.Store().(backlog.Beginner)
	if !ok {
		f.Fatalf("want a backlog.Beginner, got a %T", f.h.Store())
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

// end returns the end of the attempt that the record tells of.
func end(r *backlog.Record, target backlog.RowState, next time.Time) backlog.Settlement {
	s := *r.Refresh
	s.UID, s.Deadline, s.At = "", time.Time{}, next
	at := now.Add(time.Minute)
	switch target {
	case backlog.RowSuccess:
		s.AttemptNo, s.FailingSince, s.Reason = 0, time.Time{}, ""
	case backlog.RowError:
		s.FailingSince = at
	case backlog.RowDead:
		s.FailingSince, s.At, s.Disabled, s.Reason = at, time.Time{}, true, "no: “été”"
	}
	g := backlog.Settlement{Record: r, Target: target, Refresh: &s, At: at}
	if target == backlog.RowError || target == backlog.RowDead {
		g.Error = "it failed"
	}
	return g
}

// begin begins a group, and checks which are conflicts.
func (f *fixture) begin(conflicts []int, group ...backlog.Settlement) {
	f.Helper()
	unsettled, err := f.beginner().Begin(f.Context(), group)
	if err != nil {
		f.Fatalf("Begin of %d attempts: want them written, got error: %v", len(group), err)
	}
	wantConflicts(f.T, group, unsettled, conflicts)
}

// started begins an attempt on each record at the suite's present, the n-th with the
// n-th token, and brings the rows up to it.
func (f *fixture) started(rows []Row, records []backlog.Record) {
	f.Helper()
	var group []backlog.Settlement
	for i := range records {
		group = append(group, start(&records[i], i, now))
	}
	f.begin(nil, group...)
	for i := range rows {
		rows[i].Refresh = *records[i].Refresh
	}
}

func (f *fixture) setRefresh(row *Row, s backlog.Refresh) {
	f.Helper()
	row.Refresh = s
	f.harness(f.h.(Refreshing).SetRefresh(row.Key, s), "set the state of record %v", row.Key)
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

// testBegin starts attempts at times between the steps of the columns: what is written
// is rounded up, and the record has it.
func testBegin(f *fixture) {
	rows, records := f.due(3)
	at := now.Add(1234567 * time.Nanosecond)
	var group []backlog.Settlement
	for i := range records {
		group = append(group, start(&records[i], i, at))
	}
	f.begin(nil, group...)
	for i, row := range rows {
		got := f.read(row.Key).Refresh
		if late := got.Deadline.Sub(at.Add(timeout)); late < 0 || late >= f.precision() || got.At.Before(got.Deadline) {
			f.Errorf("deadline of a start at %v: want an hour later, rounded up to the column's step %v, and the next start no earlier; got %v and %v",
				at, f.precision(), got.Deadline, got.At)
		}
		if got.AttemptNo != 1 || got.UID != uid(i) {
			f.Errorf("after a start: want attempt 1 with UID %s, got %d, %s", uid(i), got.AttemptNo, got.UID)
		}
		row.Refresh = *records[i].Refresh
		f.wantRow("a start of which the record tells", row)
	}
	for _, lane := range bothLanes {
		q := query(lane)
		q.Now = now.Add(day)
		wantRecords(f.T, "running records", nil, f.walk(q))
	}
}

// testBeginGuard changes rows between reading and starting.
func testBeginGuard(f *fixture) {
	rows, records := f.due(6)
	changes := []func(*backlog.Refresh){
		func(s *backlog.Refresh) { s.At = now.Add(-day) },
		func(s *backlog.Refresh) { s.At = time.Time{} },
		func(s *backlog.Refresh) { s.Disabled, s.Reason = true, "by hand" },
		func(s *backlog.Refresh) {
			s.UID, s.Deadline, s.At = uid(99), now.Add(timeout), now.Add(timeout)
		},
	}
	for i, change := range changes {
		s := rows[i].Refresh
		change(&s)
		f.setRefresh(&rows[i], s)
	}
	f.delete(rows[4].Key)
	var group []backlog.Settlement
	for i := range records {
		group = append(group, start(&records[i], i, now))
	}
	f.begin([]int{0, 1, 2, 3, 4}, group...)
	rows[5].Refresh = *records[5].Refresh
	for _, row := range append(rows[:4], rows[5]) {
		f.wantRow("a start of rows that were changed", row)
	}
}

// testBeginTwice starts one record from both sides: one wins.
func testBeginTwice(f *fixture) {
	rows, records := f.due(20)
	other, ok := f.another().(backlog.Beginner)
	if !ok {
		f.Fatal("want the same store again")
	}
	won := make([][]int, len(records))
	var mu sync.Mutex
	var both sync.WaitGroup
	for side, store := range []backlog.Beginner{f.beginner(), other} {
		both.Go(func() {
			for i := range records {
				rec := records[i]
				left, err := store.Begin(f.Context(), []backlog.Settlement{start(&rec, 100*side+i, now)})
				if err != nil {
					f.Errorf("Begin: want no error, got %v", err)
				}
				if len(left) == 0 {
					mu.Lock()
					won[i] = append(won[i], 100*side+i)
					mu.Unlock()
				}
			}
		})
	}
	both.Wait()
	for i, sides := range won {
		if got := f.read(rows[i].Key).Refresh.UID; len(sides) != 1 || got != uid(sides[0]) {
			f.Errorf("record %v: want one of two starts written, got %v of them and the UID %s", rows[i].Key, sides, got)
		}
	}
}

// testRefreshSettle ends attempts in every way: what the row has then, and what its
// status shows.
func testRefreshSettle(f *fixture) {
	rows, records := f.due(6)
	f.started(rows, records)
	for _, row := range rows {
		f.wantRow("a start, which writes no status and counts no attempt", row)
	}
	next, began := now.Add(2*time.Hour), now.Add(-time.Minute)
	ends := []backlog.Settlement{
		end(&records[0], backlog.RowSuccess, next), end(&records[1], backlog.RowSuccess, time.Time{}),
		end(&records[2], backlog.RowError, next),
		end(&records[3], backlog.RowDead, time.Time{}), end(&records[4], backlog.RowOther, began), end(&records[5], backlog.RowOther, now),
	}
	ends[4].Refresh.AttemptNo = 0 // released
	goesOn := *records[5].Refresh // a sentence for the customer
	goesOn.Reason = "half of it is done"
	ends[5].Refresh = &goesOn
	f.settle(nil, ends...)
	for i, status := range []Status{Fresh, Success, Failed, Dead, Other, Other} {
		rows[i].Status, rows[i].Refresh, rows[i].LastError = status, *ends[i].Refresh, ends[i].Error
		if i < 4 {
			rows[i].Attempts++
		}
		f.wantRow(fmt.Sprintf("end %d", i), rows[i])
	}
	q := query(backlog.Failed)
	f.wantLane(q, rows)
	q.Now = next
	f.wantLane(q, rows)
}

// testRefreshSettleGuard settles by old tokens, and twice.
func testRefreshSettleGuard(f *fixture) {
	rows, records := f.due(3)
	f.started(rows, records)
	first := end(&records[0], backlog.RowError, now.Add(time.Hour))
	f.settle(nil, first)
	f.settle([]int{0}, first)
	s := records[1].Refresh
	f.setRefresh(&rows[1], backlog.Refresh{At: s.At, AttemptNo: s.AttemptNo, Deadline: s.Deadline, UID: uid(50), Started: s.Started})
	f.delete(rows[2].Key)
	f.settle([]int{0, 1}, end(&records[1], backlog.RowSuccess, now), end(&records[2], backlog.RowSuccess, now))
	rows[0].Status, rows[0].Refresh, rows[0].Attempts, rows[0].LastError = Failed, *first.Refresh, 1, first.Error
	f.wantRow("an end that came twice", rows[0])
	f.wantRow("an end by an old token", rows[1])
}

// testSaved has a user save rows during their attempts.
func testSaved(f *fixture) {
	rows, records := f.due(3)
	f.started(rows, records)
	group := []backlog.Settlement{
		end(&records[0], backlog.RowSuccess, now.Add(9*time.Hour)),
		end(&records[1], backlog.RowDead, time.Time{}),
		end(&records[2], backlog.RowOther, now.Add(-day)),
	}
	for i := range rows {
		s := rows[i].Refresh
		s.At, s.AttemptNo = now.Add(time.Minute), 0
		f.setRefresh(&rows[i], s)
	}
	f.settle(nil, group...)
	for _, row := range rows {
		got := f.read(row.Key).Refresh
		want := row.Refresh
		want.UID, want.Deadline = "", time.Time{}
		saved, kept := row, row
		saved.Refresh, kept.Refresh = got, want
		if saved.text() != kept.text() {
			f.Errorf("record %v, saved during its attempt: want\n%s\ngot\n%s", row.Key, kept.text(), saved.text())
		}
	}
}

// testMerged has a user change what the end of an attempt has nothing to do with.
func testMerged(f *fixture) {
	rows, records := f.due(1)
	f.started(rows, records)
	s := rows[0].Refresh
	s.Disabled, s.Reason = true, "stop it"
	f.setRefresh(&rows[0], s)
	success := end(&records[0], backlog.RowSuccess, now.Add(2*time.Hour))
	f.settle(nil, success)
	rows[0].Status, rows[0].Attempts, rows[0].Refresh = Fresh, 1, *success.Refresh
	rows[0].Refresh.Disabled, rows[0].Refresh.Reason = true, "stop it"
	f.wantRow("a success of a row that was disabled meanwhile", rows[0])
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
				list, err := f.beginner().Overdue(f.Context(), at, after, limit)
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

// testRunning finds attempts by their tokens, with what handlers are given, and ends
// them.
func testRunning(f *fixture) {
	rows, records := f.due(4)
	f.started(rows, records)
	f.settle(nil, end(&records[3], backlog.RowSuccess, now))
	list, err := f.beginner().Running(f.Context(), []string{uid(3), uid(2), uid(77), uid(0)})
	if err != nil {
		f.Fatalf("Running: want records, got error: %v", err)
	}
	slices.SortFunc(list, func(a, b backlog.Record) int { return cmp.Compare(a.Refresh.UID, b.Refresh.UID) })
	wantRecords(f.T, "the running ones of four tokens", []Row{rows[0], rows[2]}, list)
	if f.Failed() {
		return
	}
	f.wantRecord(&list[0], rows[0])
	f.settle(nil, end(&list[0], backlog.RowSuccess, now), end(&list[1], backlog.RowSuccess, now))
	if none, err := f.beginner().Running(f.Context(), nil); len(none) > 0 || err != nil {
		f.Errorf("Running without tokens: want none, got %d, %v", len(none), err)
	}
}

// refreshGroupOf returns a case that starts and ends n attempts, each its own way.
func refreshGroupOf(n int) func(*fixture) {
	return func(f *fixture) {
		rows, records := f.due(n)
		f.started(rows, records)
		var group []backlog.Settlement
		for i := range records {
			group = append(group, end(&records[i], backlog.RowError, now.Add(time.Duration(i)*time.Second)))
		}
		f.settle(nil, group...)
		for i := range rows {
			rows[i].Status, rows[i].Attempts, rows[i].LastError, rows[i].Refresh = Failed, 1, "it failed", *group[i].Refresh
			f.wantRow("a group", rows[i])
		}
	}
}
