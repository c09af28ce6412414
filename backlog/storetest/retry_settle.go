package storetest

import (
	"fmt"
	"slices"
	"time"

	"backlog/backlog"
)

// settlementAt returns the settlement of a record under the table's policy, as the
// engine makes it.
func (f *fixture) settlementAt(r *backlog.Record, o backlog.Outcome, at time.Time) backlog.Settlement {
	s := settlement(r, o)
	s.At = at
	if o != backlog.Succeeded {
		s.Retry, s.GivenUp = f.table.Policy.After(r.Retry, at, 0.5)
	}
	return s
}

// left returns what the settlement leaves of the row.
func (f *fixture) left(r Row, s backlog.Settlement) Row {
	r.Attempts++
	r.State = f.settled(r.State, s.Outcome)
	if s.Outcome == backlog.Succeeded {
		r.InRetry = false // and the counters as they were
		return r
	}
	r.LastError = s.Error
	if s.GivenUp && f.table.Dead {
		r.State = Dead
	}
	next := backlog.Retry{Count: max(r.Retry.Count, 0) + 1, Last: s.At}
	r.InRetry = !s.GivenUp && r.State != Dead
	if r.InRetry {
		next.Next = s.Retry.Next
	}
	r.Retry = next
	return r
}

// attempted returns rows of both lanes with all numbers of failures, three of
// each.
func (f *fixture) attempted() []Row {
	var rows []Row
	add := func(r Row) {
		for range 3 {
			r.Key = f.key(len(rows))
			r.Inserted = now.Add(-time.Duration(1+len(rows))*time.Minute - f.precision())
			r.Amount, r.Note, r.Payload = int64(len(rows)), "note", []byte{0, byte(len(rows))}
			if f.table.Times {
				r.Eligible, r.Expires = now.Add(-day), now.Add(day)
			}
			rows = append(rows, r)
		}
	}
	old := now.Add(-2*time.Hour - f.precision()) // which shows how fine the columns are
	for _, count := range []int{0, -3, 2} {
		fresh := f.row(0, Fresh, 0)
		if fresh.Retry = (backlog.Retry{Count: count, Last: old}); f.table.ErrorKeep {
			fresh.Retry.Count = min(count, 0)
		}
		add(fresh)
		if count > 0 || !f.table.ErrorKeep {
			add(f.failed(0, count, time.Time{}))
			add(f.failed(0, count, old))
		}
	}
	for _, count := range f.numbers() {
		add(f.failed(0, count, old))
	}
	return rows
}

// both returns the records of both lanes by row, whatever their order.
func (f *fixture) both(rows []Row) []backlog.Record {
	f.Helper()
	records := slices.Concat(f.walk(query(backlog.Fresh)), f.walk(query(backlog.Failed)))
	slices.SortFunc(records, func(a, b backlog.Record) int { return compareKeys(a.Key, b.Key) })
	want := slices.Clone(rows)
	slices.SortFunc(want, func(a, b Row) int { return compareKeys(a.Key, b.Key) })
	wantRecords(f, "both lanes, by key", want, records)
	if f.Failed() {
		f.FailNow()
	}
	list := make([]backlog.Record, len(rows))
	for i, r := range rows {
		at := slices.IndexFunc(records, func(rec backlog.Record) bool { return compareKeys(rec.Key, r.Key) == 0 })
		list[i] = records[at]
	}
	return list
}

// testRetrySettle settles every outcome from every number of failures, one by
// one.
func testRetrySettle(f *fixture) {
	rows := f.attempted()
	bystander := f.failed(999, 1, now.Add(-day))
	f.insert(append(rows, bystander)...)
	records := f.both(append(rows, bystander))
	for i, row := range rows {
		s := f.settlementAt(&records[i], outcomes[i%len(outcomes)], now.Add(time.Duration(i)*f.precision()))
		group := []backlog.Settlement{s}
		wantConflicts(f, group, f.settle(group...))
		f.wantRow(fmt.Sprintf("%v (given up: %t) of a record that has failed %d times", s.Outcome, s.GivenUp, row.Retry.Count), f.left(row, s))
	}
	f.wantRow("the settling of others", bystander)
	for i := range rows {
		rows[i] = f.read(rows[i].Key)
	}
	q := query(backlog.Failed)
	q.Now = now.Add(time.Hour)
	wantRecords(f, "failed lane an hour later", expected(f.table, append(rows, bystander), q), f.walk(q))
}

// testRetryGroup settles n records of both lanes with all outcomes at once,
// each of which ended at a time of its own, some at one.
func testRetryGroup(f *fixture, n int) {
	var rows []Row
	numbers := f.numbers()
	for i := range n {
		r := f.failed(i, numbers[i%len(numbers)], now.Add(-5*time.Hour-time.Duration(i+1)*f.precision()))
		if i%4 == 3 {
			r = f.row(i, Fresh, time.Hour)
		}
		rows = append(rows, r)
	}
	f.insert(rows...)
	records := f.both(rows)
	var group []backlog.Settlement
	var want []Row
	for i := range rows {
		j := n - 1 - i
		at := now.Add(time.Duration(j*7%n/2) * f.precision())
		s := f.settlementAt(&records[j], outcomes[j/5%len(outcomes)], at)
		if n <= 2 {
			s = f.settlementAt(&records[j], backlog.Errored, at.Add(time.Duration(j)*time.Second))
		}
		group, want = append(group, s), append(want, f.left(rows[j], s))
	}
	wantConflicts(f, group, f.settle(group...))
	for i, w := range want {
		f.wantRow(fmt.Sprintf("%v in a group of %d", group[i].Outcome, n), w)
	}
}

// testRetrySettleTwice: what is read as fresh is a conflict once it has failed,
// also where the number of failures alone tells.
func testRetrySettleTwice(f *fixture) {
	rows := []Row{f.row(1, Fresh, time.Minute), f.row(2, Fresh, time.Hour)}
	f.insert(rows...)
	records := f.both(rows)
	for i, o := range []backlog.Outcome{backlog.Errored, backlog.Succeeded} {
		s := f.settlementAt(&records[i], o, now)
		group := []backlog.Settlement{s}
		wantConflicts(f, group, f.settle(group...))
		wantConflicts(f, group, f.settle(group...), 0)
		f.wantRow(o.String()+" settled twice", f.left(rows[i], s))
	}
}

// testRetryFailedSince: the state of a failed record that fails again is as it
// was. An outcome that comes late, when the record has failed once more, must not
// set the count and the times back; a success is one all the same.
func testRetryFailedSince(f *fixture) {
	rows := []Row{f.dueAt(1, 1, now), f.dueAt(2, 1, now), f.dueAt(3, 1, now), f.dueAt(4, 1, now)}
	f.insert(rows...)
	records := f.both(rows)
	group := []backlog.Settlement{
		f.settlementAt(&records[0], backlog.Errored, now), f.settlementAt(&records[1], backlog.Errored, now),
		f.settlementAt(&records[2], backlog.Succeeded, now), f.settlementAt(&records[3], backlog.Errored, now),
	}
	var others []backlog.Settlement
	for _, i := range []int{0, 1, 2} {
		others = append(others, f.settlementAt(&records[i], backlog.Errored, now.Add(time.Minute)))
	}
	wantConflicts(f, others, f.settle(others...))
	wantConflicts(f, group, f.settle(group...), 0, 1)
	for i := range others {
		rows[i] = f.left(rows[i], others[i])
	}
	f.wantRow("a failure that came late", rows[0])
	f.wantRow("a failure that came late", rows[1])
	f.wantRow("a success that came late", f.left(rows[2], group[2]))
	f.wantRow("a failure in time", f.left(rows[3], group[3]))
}

// testRetrySettleAgain: when a connection breaks at commit the same call is made
// again. It must not count a failure twice.
func testRetrySettleAgain(f *fixture) {
	row := f.dueAt(1, 1, now)
	f.insert(row)
	record := f.both([]Row{row})[0]
	s := f.settlementAt(&record, backlog.Errored, now)
	for range 2 {
		f.settle(s)
		f.wantRow("a failure settled again", f.left(row, s))
	}
}

// testRetryGuard has somebody else change some rows of a group: nothing of
// those is written, and the others get what is theirs.
func testRetryGuard(f *fixture) {
	rows := f.attempted()
	f.insert(rows...)
	records := f.both(rows)
	var group []backlog.Settlement
	var conflicts []int
	want := slices.Clone(rows)
	for i := range rows {
		s := f.settlementAt(&records[i], outcomes[i%len(outcomes)], now.Add(time.Duration(i)*time.Second))
		group = append(group, s)
		if i%4 != 1 {
			want[i] = f.left(rows[i], s)
			continue
		}
		want[i].State = []State{Success, Other, Dead}[i%3]
		f.setState(rows[i].Key, want[i].State)
		conflicts = append(conflicts, i)
	}
	f.delete(rows[6].Key)
	conflicts = append(conflicts, 6)
	slices.Sort(conflicts)
	wantConflicts(f, group, f.settle(group...), conflicts...)
	for i, w := range want {
		if i != 6 {
			f.wantRow("a group with conflicts", w)
		}
	}
}
