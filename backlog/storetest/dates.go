package storetest

import (
	"fmt"
	"slices"
	"time"

	"backlog/backlog"
)

// dateless inserts, for each lane, three rows with a date and three without,
// and returns both in the order of the lane.
func (f *fixture) dateless() (dated, dateless [2][]Row) {
	f.Helper()
	for lane, state := range []State{Fresh, Failed} {
		for i := range 3 {
			dated[lane] = append(dated[lane], f.row(100*lane+10*i, state, time.Duration(i+1)*time.Minute))
			dateless[lane] = append(dateless[lane], Row{Key: f.key(100*lane + 10*i + 5), State: state})
		}
		f.insert(dated[lane]...)
		f.insert(dateless[lane]...)
		slices.Reverse(dateless[lane])
	}
	// Rows without a date that are not pending are nobody's business.
	f.insert(Row{Key: f.key(500), State: Success}, Row{Key: f.key(501), State: Dead}, Row{Key: f.key(502), State: Other})
	return dated, dateless
}

// wantWalks checks the query in all pages and from and to all places.
func (f *fixture) wantWalks(q backlog.Query, want []Row) {
	f.Helper()
	for _, size := range pageSizes {
		q := q
		q.Limit = size
		wantRecords(f, fmt.Sprintf("%v lane, max age %v, widest %t, in pages of %d", q.Lane, q.MaxAge, q.Widest, size),
			want, f.walkJSON(q))
	}
	wantEveryAfter(f, q, want)
	wantEveryUntil(f, q, want)
}

func testNoDateSkip(f *fixture) {
	dated, _ := f.dateless()
	for _, lane := range bothLanes {
		q := query(lane)
		f.wantWalks(q, dated[lane])
		q.Widest = true
		f.wantWalks(q, dated[lane])
	}
}

func testNoDateOldest(f *fixture) {
	dated, dateless := f.dateless()
	for _, lane := range bothLanes {
		q := query(lane)
		f.wantWalks(q, dated[lane])
		q.Widest = true
		f.wantWalks(q, slices.Concat(dated[lane], dateless[lane]))
		q.MaxAge = 2 * time.Minute // whatever the widest tier's max age
		f.wantWalks(q, slices.Concat(dated[lane][:2], dateless[lane]))
	}
	f.settleDateless(dateless)
}

func testNoDateNewest(f *fixture) {
	dated, dateless := f.dateless()
	for _, lane := range bothLanes {
		for _, widest := range []bool{false, true} {
			q := query(lane)
			q.Widest = widest
			f.wantWalks(q, slices.Concat(dateless[lane], dated[lane]))
			q.MaxAge = time.Second
			f.wantWalks(q, dateless[lane])
		}
	}
	f.settleDateless(dateless)
}

// settleDateless settles the first row without a date of each lane.
func (f *fixture) settleDateless(dateless [2][]Row) {
	f.Helper()
	for _, lane := range bothLanes {
		q := query(lane)
		q.Widest = true
		records := f.walk(q)
		want := dateless[lane][0]
		i := slices.IndexFunc(records, func(r backlog.Record) bool { return compareKeys(r.Key, want.Key) == 0 })
		if i < 0 {
			f.Fatalf("want record %v, which has no date, got %s", want.Key, keyList(keysOfRecords(records)))
		}
		if !records[i].Inserted.IsZero() {
			f.Errorf("record %v, which has no date: want the zero time, got %v", want.Key, records[i].Inserted)
		}
		group := []backlog.Settlement{settlement(&records[i], backlog.Succeeded)}
		wantConflicts(f, group, f.settle(group...))
		want.State, want.Attempts = Success, 1
		f.wantRow("success", want)
	}
}

func testEligible(f *fixture) {
	step := f.precision()
	for lane, state := range []State{Fresh, Failed} {
		rows := []Row{
			f.row(10*lane, state, 1*time.Minute),
			f.row(10*lane+1, state, 2*time.Minute),
			f.row(10*lane+2, state, 3*time.Minute),
			f.row(10*lane+3, state, 4*time.Minute),
			f.row(10*lane+4, state, 5*time.Minute),
		}
		// rows[0] has none: at once.
		rows[1].Eligible = now.Add(-day)
		rows[2].Eligible = now // not before now: now
		rows[3].Eligible = now.Add(step)
		rows[4].Eligible = now.Add(day)
		f.insert(rows...)
		f.wantLane(backlog.Lane(lane), rows[:3]...)
	}
	q := query(backlog.Fresh)
	q.Now = now.Add(2 * day)
	if got := len(f.walk(q)); got != 5 {
		f.Errorf("when the last of 5 records has become eligible: want all 5, got %d", got)
	}
}

func testExpires(f *fixture) {
	step := f.precision()
	for lane, state := range []State{Fresh, Failed} {
		rows := []Row{
			f.row(10*lane, state, 1*time.Minute),
			f.row(10*lane+1, state, 2*time.Minute),
			f.row(10*lane+2, state, 3*time.Minute),
			f.row(10*lane+3, state, 4*time.Minute),
			f.row(10*lane+4, state, 5*time.Minute),
		}
		// rows[0] has none: never.
		rows[1].Expires = now.Add(day)
		rows[2].Expires = now // not after now: still now
		rows[3].Expires = now.Add(-step)
		rows[4].Expires = now.Add(-day)
		f.insert(rows...)
		f.wantLane(backlog.Lane(lane), rows[:3]...)
	}
}

// testPagesOfIneligible has few records among many rows that may not be
// selected, so that a store may give pages that are short, or empty.
func testPagesOfIneligible(f *fixture) {
	var rows, want []Row
	for i := range 60 {
		r := f.row(i, Fresh, time.Duration(i)*time.Minute)
		switch {
		case i%20 == 13:
			want = append(want, r)
		case i%2 == 0:
			r.Eligible = now.Add(time.Hour)
		default:
			r.Expires = now.Add(-time.Hour)
		}
		rows = append(rows, r)
	}
	f.insert(rows...)
	f.wantWalks(query(backlog.Fresh), want)
}
