package storetest

import (
	"fmt"
	"slices"
	"time"

	"backlog/backlog"
)

// testDue has, for every number of failures, a record that is due now, one that
// was so a step ago and one that will be a step later.
func testDue(f *fixture) {
	step := f.precision()
	var rows, before, exact, after []Row
	for i, count := range f.numbers() {
		before = append(before, f.dueAt(10*i, count, now.Add(-step)))
		exact = append(exact, f.dueAt(10*i+1, count, now))
		after = append(after, f.dueAt(10*i+2, count, now.Add(step)))
	}
	rows = slices.Concat(after, before, exact)
	f.insert(rows...)
	f.wantDue(now.Add(-step), before...)
	f.wantDue(now, slices.Concat(before, exact)...)
	f.wantDue(now.Add(step), rows...)
	if step > 1 { // a clock that is finer than the column
		f.wantDue(now.Add(-1), before...)
		f.wantDue(now.Add(step/2), slices.Concat(before, exact)...)
	}
	f.wantLane(backlog.Fresh)
	q := query(backlog.Failed)
	q.Now = now.In(time.FixedZone("", -8*3600)).Add(step)
	for _, r := range f.walk(q) {
		i := slices.IndexFunc(rows, func(row Row) bool { return compareKeys(row.Key, r.Key) == 0 })
		f.wantRetry(r, rows[i])
	}
}

// testNeverTried has rows that say that they have failed but not how often, or
// not when: they are due at once.
func testNeverTried(f *fixture) {
	soon := now.Add(f.precision())
	rows := []Row{f.failed(1, 2, time.Time{}), f.failed(2, 1, time.Time{})}
	if f.table.Policy.Planned {
		// The planned time decides alone, whatever the others are.
		last := f.failed(3, 2, time.Time{})
		last.Retry.Last = soon
		none := f.failed(4, 1, time.Time{})
		none.Retry.Next = now
		rows = append(rows, last, none)
	} else if !f.table.ErrorKeep {
		rows = append(rows, f.failed(3, 0, soon), f.failed(4, -7, now.Add(-time.Hour)), f.failed(5, 0, now.Add(-time.Hour)), f.failed(6, -1, soon))
	}
	if !f.table.ErrorKeep {
		rows = append(rows, f.failed(7, 0, time.Time{}), f.failed(8, -1, time.Time{}))
	}
	later := f.dueAt(9, 2, soon)
	f.insert(append(rows, later)...)
	var fresh []Row
	for i, count := range []int{0, -1, 3} {
		r := f.row(20+i, Fresh, time.Duration(i)*time.Minute)
		if r.Retry.Count = count; f.table.ErrorKeep {
			r.Retry.Count = min(count, 0)
		}
		r.Retry.Last = soon // which says nothing of a fresh record
		fresh = append(fresh, r)
	}
	f.insert(fresh...)
	f.wantWalks(query(backlog.Failed), f.table.byWait(rows))
	f.wantWalks(query(backlog.Fresh), fresh)
}

// testGivenUp has records that have failed often, most lately long ago: those
// that are out of retries never come.
func testGivenUp(f *fixture) {
	retries, long := f.table.Policy.Retries, now.Add(-day)
	rows := []Row{f.failed(1, max(retries, 1), long)}
	for i, count := range []int{1, 2, 1000} {
		rows = append(rows, f.failed(2+i, retries+count, long))
	}
	rows[1].Retry.Count = max(rows[1].Retry.Count, 1)
	noTime := f.failed(6, retries+1000, time.Time{})
	rows = append(rows, noTime)
	f.insert(rows...)
	want := rows // an endless policy gives up nothing
	if retries >= 0 {
		want = rows[:1]
	}
	f.wantDue(now, want...)
	q := query(backlog.Failed)
	q.Widest = true
	q.Now, q.MaxAge = now.Add(1000*day), 2000*day
	wantRecords(f, "after years", f.table.byWait(want), f.walk(q))
	f.wantLane(backlog.Fresh)
}

// testRetryOrder has the longest waiting first, whatever the number of
// failures, the date of insertion and the key.
func testRetryOrder(f *fixture) {
	var rows []Row
	numbers := f.numbers()
	for i := range 15 {
		count := numbers[i*5%len(numbers)]
		// Every time comes three times, with other numbers of failures.
		at := now.Add(-time.Duration(30+i*7%5) * time.Minute)
		r := f.failed(i*4%15, count, at)
		if f.table.Policy.Planned {
			r.Retry.Next = at
		}
		r.Inserted = now.Add(-time.Duration(i*7%15) * time.Hour)
		if i%7 == 4 {
			r.Retry.Last, r.Retry.Next = time.Time{}, time.Time{}
		}
		rows = append(rows, r)
	}
	f.insert(rows...)
	f.wantWalks(query(backlog.Failed), f.table.byWait(rows))
}

func testRetryOfAnotherProcess(f *fixture) {
	opener, ok := f.h.(Opener)
	if !ok {
		f.Skip("the harness cannot open its table twice")
	}
	var rows []Row
	for i := range 9 {
		rows = append(rows, f.dueAt(i, f.numbers()[i%3], now.Add(-time.Duration(i/2)*time.Minute)))
	}
	rows = append(rows, f.failed(9, 1, time.Time{}))
	f.insert(rows...)
	rows = f.table.byWait(rows)
	all := f.walk(query(backlog.Failed))
	wantRecords(f, "the failed lane", rows, all)
	other, err := opener.Open()
	if err != nil {
		f.Fatalf("harness: open the table again: %v", err)
	}
	for i, r := range all {
		q := pages(backlog.Failed, 3)
		q.After = throughJSON(f, r.Cursor)
		got := walk(f.Context(), f, other, q, func(c backlog.Cursor) backlog.Cursor { return c })
		wantRecords(f, fmt.Sprintf("another store on the table, After the cursor of record %d", i+1), rows[i+1:], got)
	}
}

// testNotDue has ten records that are due among thousands that are not: they
// are one page.
func testNotDue(f *fixture) {
	const many, few = 3000, 10
	var rows, due []Row
	numbers := f.numbers()
	for i := range many + few {
		count := numbers[i%len(numbers)]
		if i%301 == 150 {
			r := f.dueAt(i, count, now.Add(-time.Duration(i%7)*time.Second))
			due, rows = append(due, r), append(rows, r)
			continue
		}
		rows = append(rows, f.dueAt(i, count, now.Add(time.Duration(1+i%50)*time.Second)))
	}
	if len(due) != few {
		f.Fatalf("%d records are due, not %d", len(due), few)
	}
	f.insert(rows...)
	due = f.table.byWait(due)
	page, err := f.h.Store().Pending(f.Context(), pages(backlog.Failed, few))
	if err != nil {
		f.Fatalf("Pending: want a page, got error: %v", err)
	}
	wantRecords(f, fmt.Sprintf("the first page of %d records of which %d are due", many, few), due, page.Records)
	wantRecords(f, "the whole lane", due, f.walk(pages(backlog.Failed, few)))
}

// testRetryAges: the lane is ordered by the policy and holds only the ages that
// are asked for.
func testRetryAges(f *fixture) {
	const maxAge = 36 * time.Hour
	step := f.precision()
	var rows []Row
	for i, age := range []time.Duration{time.Hour, maxAge, maxAge - step, maxAge + step, 5 * day, 0, 0, 2 * time.Hour} {
		r := f.dueAt(i, f.numbers()[i%3], now.Add(-time.Duration(i*3%8)*time.Minute))
		if r.Inserted = now.Add(-age); age == 0 {
			r.Inserted = time.Time{}
		}
		rows = append(rows, r)
	}
	undated := f.failed(20, 1, time.Time{}) // neither a date nor a failure's time
	undated.Inserted = time.Time{}
	later := f.dueAt(21, 1, now.Add(time.Hour))
	later.Inserted = time.Time{}
	rows = append(rows, undated, later)
	f.insert(rows...)
	for _, widest := range []bool{false, true} {
		q := query(backlog.Failed)
		q.Widest, q.MaxAge = widest, maxAge
		f.wantWalks(q, expected(f.table, rows, q))
		q.MaxAge = 6 * day
		wantRecords(f, "with a wider max age", expected(f.table, rows, q), f.walk(q))
	}
}

// testRetryTimely: a record that is due must be eligible and not expired too.
func testRetryTimely(f *fixture) {
	step := f.precision()
	var rows []Row
	for i, at := range []time.Time{{}, now.Add(-step), now, now.Add(step)} {
		for j, due := range []time.Time{now, now.Add(step)} {
			eligible, expires := f.dueAt(10*i+j, 2, due), f.dueAt(50+10*i+j, 1, due)
			eligible.Eligible, expires.Expires = at, at
			rows = append(rows, eligible, expires)
		}
	}
	f.insert(rows...)
	q := query(backlog.Failed)
	f.wantWalks(q, expected(f.table, rows, q))
}
