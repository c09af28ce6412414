package backlog

import "sync"

// flights knows which records are being worked on, and which were settled
// after a page that is still being handed out was read: such a page is too old
// to say that the record is pending. All methods may be called concurrently.
type flights struct {
	mu      sync.Mutex
	clock   uint64            // counts settlements
	held    map[uint64]uint64 // record -> inFlight, or the clock at its settlement
	settled []landing         // those of held that are settled, oldest first
	pages   map[*pageAge]struct{}
}

const inFlight = 0

type landing struct{ hash, at uint64 }

// A pageAge is the reading of the clock before a page was read.
type pageAge struct{ at uint64 }

func newFlights() *flights {
	return &flights{clock: 1, held: make(map[uint64]uint64), pages: make(map[*pageAge]struct{})}
}

// open notes that a page is about to be read. Every opened page is closed when
// the last of its records has been claimed or dropped.
func (f *flights) open() *pageAge {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &pageAge{f.clock}
	f.pages[p] = struct{}{}
	return p
}

func (f *flights) close(p *pageAge) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pages, p)
	oldest := f.clock
	for q := range f.pages {
		oldest = min(oldest, q.at)
	}
	n := 0
	for ; n < len(f.settled) && f.settled[n].at <= oldest; n++ {
		l := f.settled[n]
		if f.held[l.hash] == l.at { // not claimed again since
			delete(f.held, l.hash)
		}
	}
	if n > 0 {
		f.settled = append(f.settled[:0], f.settled[n:]...)
	}
}

// claim takes a record of the page, unless it is being worked on or the page
// is older than its last settlement.
func (f *flights) claim(hash uint64, p *pageAge) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at, ok := f.held[hash]; ok && (at == inFlight || at > p.at) {
		return false
	}
	f.held[hash] = inFlight
	return true
}

// land ends the flight of records that have been settled.
func (f *flights) land(hashes ...uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clock++
	for _, h := range hashes {
		f.held[h] = f.clock
		f.settled = append(f.settled, landing{h, f.clock})
	}
}

// drop ends the flight of a record whose row was not changed.
func (f *flights) drop(hash uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.held, hash)
}
