package storetest

import (
	"reflect"
	"time"

	"backlog/backlog"
)

// count counts at the suite's present, or skips the case.
func (f *fixture) count(edges ...time.Duration) backlog.Counts {
	f.Helper()
	c, ok := f.h.Store().(backlog.Counter)
	if !ok {
		f.Skip("the store is no backlog.Counter")
	}
	counts, err := c.Count(f.Context(), now, edges)
	if err != nil {
		f.Fatalf("Count: want counts, got error: %v", err)
	}
	if len(counts.Bands) != len(edges) {
		f.Fatalf("Count with %d edges: want a band for each, got %d", len(edges), len(counts.Bands))
	}
	return counts
}

func (f *fixture) wantPending(c backlog.Counts, want int) {
	f.Helper()
	if got := c.Pending(); got != want {
		f.Errorf("Counts.Pending: want %d pending records in all, got %d", want, got)
	}
}

func wantBand(t tb, what string, want, got backlog.Band) {
	t.Helper()
	if got.Fresh != want.Fresh || got.Failed != want.Failed {
		t.Errorf("%s: want %d fresh and %d failed records, got %d and %d", what, want.Fresh, want.Failed, got.Fresh, got.Failed)
	}
	if !got.Oldest.Equal(want.Oldest) {
		t.Errorf("%s: want the oldest record inserted %v, got %v", what, want.Oldest, got.Oldest)
	}
}

func testCountByStatus(f *fixture) {
	numbers := map[State]int{Fresh: 1, AlsoFresh: 2, Failed: 3, Success: 4, Dead: 5, Other: 6, Null: 7}
	n := 0
	for s, number := range numbers {
		for range number {
			f.insert(f.row(n, s, time.Duration(n)*time.Hour))
			n++
		}
	}
	counts := f.count(day)
	total := 0
	for _, number := range counts.ByStatus {
		total += number
	}
	if total != n {
		f.Errorf("ByStatus: want all %d rows in it, got %d: %v", n, total, counts.ByStatus)
	}
	delete(numbers, Null) // what NULL is called is the store's affair
	for s, want := range numbers {
		if got := counts.ByStatus[f.h.Status(s)]; got != want {
			f.Errorf("ByStatus[%q], %v: want %d rows, got %d", f.h.Status(s), s, want, got)
		}
	}
	f.wantPending(counts, 1+2+3)
}

func testCountBands(f *fixture) {
	step := f.precision()
	rows := []Row{
		f.row(1, Fresh, -30*time.Minute), // a clock that is ahead of ours
		f.row(2, Fresh, time.Hour),       // the edge belongs to the younger band
		f.row(3, AlsoFresh, time.Hour-step),
		f.row(4, Failed, time.Hour+step),
		f.row(5, Fresh, day),
		f.row(6, Failed, 7*day+step),
		f.row(7, Fresh, 9*day),
		f.row(8, Failed, 8*day),
		f.row(9, Success, 2*time.Hour),
		f.row(10, Dead, 8*day),
		f.row(11, Other, 10*day),
		f.row(12, Null, 0),
	}
	f.insert(rows...)
	counts := f.count(time.Hour, day, 7*day)
	wantBand(f, "the band up to 1 hour", backlog.Band{Fresh: 3, Oldest: now.Add(-time.Hour)}, counts.Bands[0])
	wantBand(f, "the band up to 1 day", backlog.Band{Fresh: 1, Failed: 1, Oldest: now.Add(-day)}, counts.Bands[1])
	wantBand(f, "the band up to 7 days, which is empty", backlog.Band{}, counts.Bands[2])
	wantBand(f, "beyond", backlog.Band{Fresh: 1, Failed: 2, Oldest: now.Add(-9 * day)}, counts.Beyond)
	f.wantPending(counts, 8)

	counts = f.count()
	wantBand(f, "beyond no edge at all", backlog.Band{Fresh: 5, Failed: 3, Oldest: now.Add(-9 * day)}, counts.Beyond)
	f.wantPending(counts, 8)
}

func testCountNoDate(f *fixture) {
	f.insert(
		Row{Key: f.key(1), State: Fresh},
		Row{Key: f.key(2), State: Failed},
		Row{Key: f.key(3), State: Success},
		f.row(4, Fresh, time.Minute),
	)
	// They are counted where a pass takes them: in the first band, in the
	// last, or in none.
	counts := f.count(time.Hour, day)
	first, last := backlog.Band{Fresh: 1, Oldest: now.Add(-time.Minute)}, backlog.Band{}
	unreadable := 0
	switch f.table.NoDate {
	case Newest:
		first.Fresh, first.Failed = 2, 1
	case Oldest:
		last.Fresh, last.Failed = 1, 1
	default:
		unreadable = 2
	}
	if counts.Unreadable != unreadable {
		f.Errorf("Unreadable, where a missing date means %s: want %d rows, got %d", f.table.NoDate, unreadable, counts.Unreadable)
	}
	wantBand(f, "the first band", first, counts.Bands[0])
	wantBand(f, "the last band", last, counts.Bands[1])
	wantBand(f, "beyond", backlog.Band{}, counts.Beyond)
	f.wantPending(counts, 3)
}

func testCountEmpty(f *fixture) {
	counts := f.count(time.Hour, day)
	want := backlog.Counts{Bands: make([]backlog.Band, 2)}
	for status, n := range counts.ByStatus {
		if n != 0 {
			f.Errorf("ByStatus[%q] of an empty table: want 0 rows, got %d", status, n)
		}
	}
	counts.ByStatus = nil
	if !reflect.DeepEqual(counts, want) {
		f.Errorf("counts of an empty table: want zeros, got %+v", counts)
	}
}
