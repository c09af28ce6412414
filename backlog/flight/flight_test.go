package flight

import (
	"math/rand/v2"
	"testing"
)

func claim(f *Set, hash uint64, p *Page) *Flight { return f.Claim(p, hash)[0] }

func TestFlightsClaim(t *testing.T) {
	const record, other = 1, 2
	for _, c := range []struct {
		name string
		do   func(f *Set) *Page // returns the page to claim from
		want bool
	}{
		{"never seen", func(f *Set) *Page { return f.Open() }, true},
		{"in flight", func(f *Set) *Page {
			p := f.Open()
			claim(f, record, p)
			return p
		}, false},
		{"in flight, newer page", func(f *Set) *Page {
			claim(f, record, f.Open())
			return f.Open()
		}, false},
		{"another in flight", func(f *Set) *Page {
			p := f.Open()
			claim(f, other, p)
			return p
		}, true},
		{"dropped", func(f *Set) *Page {
			p := f.Open()
			f.Drop(claim(f, record, p))
			return p
		}, true},
		{"settled after the page was read", func(f *Set) *Page {
			p := f.Open()
			f.Land(claim(f, record, p))
			return p
		}, false},
		{"settled before the page was read", func(f *Set) *Page {
			f.Land(claim(f, record, f.Open()))
			return f.Open()
		}, true},
		{"settled between two pages, the older one closed", func(f *Set) *Page {
			old := f.Open()
			x, y := claim(f, record, old), claim(f, other, old)
			p := f.Open()
			f.Land(y, x)
			f.Close(old)
			return p
		}, false},
		{"settled twice, the page read in between", func(f *Set) *Page {
			f.Land(claim(f, record, f.Open()))
			p := f.Open()
			f.Land(claim(f, record, p))
			return p
		}, false},
		{"settled, then claimed and dropped by way of a newer page", func(f *Set) *Page {
			p := f.Open()
			f.Land(claim(f, record, p))
			f.Drop(claim(f, record, f.Open()))
			return p
		}, false},
		{"settled, claimed and dropped, and the page read after that", func(f *Set) *Page {
			f.Land(claim(f, record, f.Open()))
			f.Drop(claim(f, record, f.Open()))
			return f.Open()
		}, true},
		{"settled, and the newer page closed", func(f *Set) *Page {
			p := f.Open()
			f.Land(claim(f, record, p))
			f.Close(f.Open())
			return p
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := New()
			if got := claim(f, record, c.do(f)) != nil; got != c.want {
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
	f := New()
	type page struct {
		age *Page
		at  int
	}
	var (
		now     int
		pages   []page
		flying  []*Flight
		inAir   = make(map[uint64]bool)
		settled = make(map[uint64]int) // when last
	)
	for range 300 {
		now++
		hash := dice.Uint64N(6)
		switch n := dice.IntN(10); {
		case n < 2 || len(pages) == 0:
			pages = append(pages, page{f.Open(), now})
		case n < 3:
			i := dice.IntN(len(pages))
			f.Close(pages[i].age)
			pages = append(pages[:i], pages[i+1:]...)
		case n < 7:
			p := pages[dice.IntN(len(pages))]
			want := !inAir[hash] && settled[hash] < p.at
			flight := claim(f, hash, p.age)
			if got := flight != nil; got != want {
				t.Errorf("seed %d, step %d: want claim of record %d to be %t, got %t: in flight %t, settled at %d, page read at %d",
					seed, now, hash, want, got, inAir[hash], settled[hash], p.at)
				return
			}
			if want {
				inAir[hash] = true
				flying = append(flying, flight)
			}
		case len(flying) > 0:
			i := dice.IntN(len(flying))
			flight := flying[i]
			flying = append(flying[:i], flying[i+1:]...)
			delete(inAir, flight.hash)
			if n == 9 {
				f.Drop(flight)
			} else {
				f.Land(flight)
				settled[flight.hash] = now
			}
		}
	}
}

// What is settled is forgotten when no page is left that is older.
func TestFlightsForget(t *testing.T) {
	f := New()
	old := f.Open()
	for h := range uint64(1000) {
		p := f.Open()
		f.Land(claim(f, h, p))
		f.Close(p)
	}
	if len(f.held) != 1000 {
		t.Errorf("want 1,000 settled records remembered for the sake of an older page, got %d", len(f.held))
	}
	f.Close(old)
	f.Close(f.Open())
	if len(f.held) > 1 || len(f.pages) != 0 {
		t.Errorf("want all of them forgotten without it, got %d, %d pages", len(f.held), len(f.pages))
	}
}
