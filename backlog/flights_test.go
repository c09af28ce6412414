package backlog

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"
)

func TestFlightsClaim(t *testing.T) {
	const record, other = 1, 2
	for _, c := range []struct {
		name string
		do   func(f *flights) *pageAge // returns the page to claim from
		want bool
	}{
		{"never seen", func(f *flights) *pageAge { return f.open() }, true},
		{"in flight", func(f *flights) *pageAge {
			p := f.open()
			f.claim(record, p)
			return p
		}, false},
		{"in flight, newer page", func(f *flights) *pageAge {
			f.claim(record, f.open())
			return f.open()
		}, false},
		{"another in flight", func(f *flights) *pageAge {
			p := f.open()
			f.claim(other, p)
			return p
		}, true},
		{"dropped", func(f *flights) *pageAge {
			p := f.open()
			f.claim(record, p)
			f.drop(record)
			return p
		}, true},
		{"settled after the page was read", func(f *flights) *pageAge {
			p := f.open()
			f.claim(record, p)
			f.land(record)
			return p
		}, false},
		{"settled before the page was read", func(f *flights) *pageAge {
			f.claim(record, f.open())
			f.land(record)
			return f.open()
		}, true},
		{"settled between two pages, the older one closed", func(f *flights) *pageAge {
			old := f.open()
			f.claim(record, old)
			p := f.open()
			f.land(other, record)
			f.close(old)
			return p
		}, false},
		{"settled twice, the page read in between", func(f *flights) *pageAge {
			f.claim(record, f.open())
			f.land(record)
			p := f.open()
			f.claim(record, p)
			f.land(record)
			return p
		}, false},
		{"settled, then claimed and dropped by way of a newer page", func(f *flights) *pageAge {
			p := f.open()
			f.claim(record, p)
			f.land(record)
			f.claim(record, f.open())
			f.drop(record)
			return p
		}, false},
		{"settled, claimed and dropped, and the page read after that", func(f *flights) *pageAge {
			f.claim(record, f.open())
			f.land(record)
			f.claim(record, f.open())
			f.drop(record)
			return f.open()
		}, true},
		{"settled, and the newer page closed", func(f *flights) *pageAge {
			p := f.open()
			f.claim(record, p)
			f.land(record)
			f.close(f.open())
			return p
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlights()
			if got := f.claim(record, c.do(f)); got != c.want {
				t.Errorf("want claim to be %t, got %t", c.want, got)
			}
		})
	}
}

// TestFlightsAgainstAModel plays at random and compares with one that forgets
// nothing.
func TestFlightsAgainstAModel(t *testing.T) {
	for seed := range uint64(200) {
		play(t, seed)
		if t.Failed() {
			return
		}
	}
}

func play(t *testing.T, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 0))
	f := newFlights()
	type page struct {
		age *pageAge
		at  int
	}
	var (
		now     int
		pages   []page
		flying  []uint64
		inAir   = make(map[uint64]bool)
		settled = make(map[uint64]int) // when last
	)
	for range 300 {
		now++
		hash := dice.Uint64N(6)
		switch n := dice.IntN(10); {
		case n < 2 || len(pages) == 0:
			pages = append(pages, page{f.open(), now})
		case n < 3:
			i := dice.IntN(len(pages))
			f.close(pages[i].age)
			pages = append(pages[:i], pages[i+1:]...)
		case n < 7:
			p := pages[dice.IntN(len(pages))]
			want := !inAir[hash] && settled[hash] < p.at
			if got := f.claim(hash, p.age); got != want {
				t.Errorf("seed %d, step %d: want claim of record %d to be %t, got %t: in flight %t, settled at %d, page read at %d",
					seed, now, hash, want, got, inAir[hash], settled[hash], p.at)
				return
			}
			if want {
				inAir[hash] = true
				flying = append(flying, hash)
			}
		case len(flying) > 0:
			i := dice.IntN(len(flying))
			hash = flying[i]
			flying = append(flying[:i], flying[i+1:]...)
			delete(inAir, hash)
			if n == 9 {
				f.drop(hash)
			} else {
				f.land(hash)
				settled[hash] = now
			}
		}
	}
}

// What is settled is forgotten when no page is left that is older.
func TestFlightsForget(t *testing.T) {
	f := newFlights()
	old := f.open()
	for h := range uint64(1000) {
		p := f.open()
		f.claim(h, p)
		f.land(h)
		f.close(p)
	}
	if len(f.held) != 1000 {
		t.Errorf("want 1,000 settled records remembered for the sake of an older page, got %d", len(f.held))
	}
	f.close(old)
	f.close(f.open())
	if len(f.held) > 1 || len(f.pages) != 0 {
		t.Errorf("want all of them forgotten without it, got %d, %d pages", len(f.held), len(f.pages))
	}
}

// An endless table has n records in each lane, in order.
type endlessTable struct{ n int }

func (e endlessTable) Pending(_ context.Context, q Query) (page Page, err error) {
	from := 0
	if !q.After.IsZero() {
		from = int(q.After.Key.Part(0).(int64))%e.n + 1
	}
	for i := from; i < min(from+q.Limit, e.n); i++ {
		k := NewKey(int64(int(q.Lane)*e.n + i))
		page.Records = append(page.Records, Record{Key: k, Lane: q.Lane, Cursor: Cursor{Key: k}})
		page.Next = Cursor{Key: k}
	}
	page.More = from+q.Limit < e.n
	return page, nil
}

func (e endlessTable) Settle(context.Context, []Settlement) ([]Unsettled, error) { return nil, nil }

// A pass remembers of records that succeeded only those of the pages that are
// in use: it may come by millions.
func TestFlightsOfALongPass(t *testing.T) {
	const n = 10_000
	e := &Engine{Store: endlessTable{n}, Concurrency: 4}
	most, calls := 0, 0
	e.Handler = HandlerFunc(func(context.Context, *Record) error {
		e.flights.mu.Lock()
		defer e.flights.mu.Unlock()
		most = max(most, len(e.flights.held))
		calls++
		return nil
	})
	rep, err := e.Pass(context.Background(), Pass{MaxAge: time.Hour})
	if err != nil || calls != 2*n || rep.Succeeded != 2*n {
		t.Fatalf("want %d records done, got %d calls, %+v, error %v", 2*n, calls, rep, err)
	}
	if limit := 4*maxPage + 2*MaxGroup; most > limit {
		t.Errorf("want at most %d records remembered at a time, got %d", limit, most)
	}
	if len(e.flights.pages) != 0 {
		t.Errorf("want every page closed, got %d open", len(e.flights.pages))
	}
}

func TestNextLimit(t *testing.T) {
	for _, c := range []struct {
		n    int
		took time.Duration
		want int
	}{
		{10, time.Second, 10},
		{10, 10 * time.Second, 10},           // at least ten
		{10, 500 * time.Millisecond, 20},     // a second's worth
		{10, 100 * time.Millisecond, 40},     // not more than four times as many
		{1000, time.Second, 1000},            // the speed is right
		{1000, 100 * time.Millisecond, 1000}, // at most a thousand
		{1000, 2 * time.Second, 500},
		{1000, time.Hour, 10},
		{300, 1500 * time.Millisecond, 200},
		{1, time.Millisecond, 10},
		{1000, 0, 1000},
		{100, 0, 400},
		{1000, -time.Hour, 1000}, // the clock was set back
		{1000, 1, 1000},
		{1, 1<<63 - 1, 10},
	} {
		if got := nextLimit(c.n, c.took); got != c.want {
			t.Errorf("want a page of %d after %d records in %v, got %d", c.want, c.n, c.took, got)
		}
	}
}
