package backlog

import (
	"maps"
	"sync"
)

// flights knows which records are being worked on, and which were settled
// after a page that is still being handed out was read: such a page is too old
// to say that the record is pending. All methods may be called concurrently.
type flights struct {
	mu        sync.Mutex
	clock     uint64 // counts settlements
	held      map[uint64]flight
	pages     map[*pageAge]struct{}
	forgotten uint64 // the clock at the last settlement that no page is older than
}

// A flight is what is known of a record.
type flight struct {
	aloft   bool   // it is being worked on
	settled uint64 // the clock at its last settlement; 0: none that a page is older than
}

// A pageAge is the reading of the clock before a page was read.
type pageAge struct{ at uint64 }

func newFlights() *flights {
	return &flights{held: make(map[uint64]flight), pages: make(map[*pageAge]struct{})}
}

// open notes that a page is about to be read. Every opened page is closed when
// the last of its records has been claimed or passed over.
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
	f.forget()
}

// forget lets go of the settlements that no page is older than.
func (f *flights) forget() {
	oldest := f.clock
	for p := range f.pages {
		oldest = min(oldest, p.at)
	}
	if oldest > f.forgotten {
		f.forgotten = oldest
		maps.DeleteFunc(f.held, func(_ uint64, h flight) bool { return !h.aloft && h.settled <= oldest })
	}
}

// claim takes a record of the page, unless it is being worked on or the page
// is older than its last settlement.
func (f *flights) claim(hash uint64, p *pageAge) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.held[hash]
	if h.aloft || h.settled > p.at {
		return false
	}
	h.aloft = true
	f.held[hash] = h
	return true
}

// land ends the flight of records that have been settled.
func (f *flights) land(hashes ...uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clock++
	for _, h := range hashes {
		f.held[h] = flight{settled: f.clock}
	}
	if len(f.pages) == 0 {
		f.forget()
	}
}

// drop ends the flight of a record whose row was not changed.
func (f *flights) drop(hash uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.held[hash]; h.settled > f.forgotten {
		f.held[hash] = flight{settled: h.settled}
	} else {
		delete(f.held, hash)
	}
}
