// Package flight knows which records are being worked on, and which pages of a table
// are too old to say that a record is pending.
package flight

import (
	"maps"
	"sync"
)

// A Set knows which records are being worked on, and which were settled
// after a page that is still being handed out was read: such a page is too old
// to say that the record is pending. All methods may be called concurrently.
type Set struct {
	mu        sync.Mutex
	clock     uint64 // counts settlements
	held      map[uint64]flight
	pages     map[*Page]struct{}
	forgotten uint64 // the clock at the last settlement that no page is older than
}

// A flight is what is known of a record.
type flight struct {
	aloft   bool   // it is being worked on
	settled uint64 // the clock at its last settlement; 0: none that a page is older than
}

// A Page is the reading of the clock before a page was read.
type Page struct{ at uint64 }

// New returns a set that knows nothing.
func New() *Set {
	return &Set{held: make(map[uint64]flight), pages: make(map[*Page]struct{})}
}

// Open notes that a page is about to be read. Every opened page is closed when
// the last of its records has been claimed or passed over.
func (f *Set) Open() *Page {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &Page{f.clock}
	f.pages[p] = struct{}{}
	return p
}

// Close notes that the page is used up.
func (f *Set) Close(p *Page) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pages, p)
	f.forget()
}

// Len returns how many records are remembered, and how many pages are open.
func (f *Set) Len() (records, pages int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.held), len(f.pages)
}

// forget lets go of the settlements that no page is older than.
func (f *Set) forget() {
	oldest := f.clock
	for p := range f.pages {
		oldest = min(oldest, p.at)
	}
	if oldest > f.forgotten {
		f.forgotten = oldest
		maps.DeleteFunc(f.held, func(_ uint64, h flight) bool { return !h.aloft && h.settled <= oldest })
	}
}

// Claim takes a record of the page, unless it is being worked on or the page
// is older than its last settlement. A queue's record, p is nil, may come again at any time.
func (f *Set) Claim(hash uint64, p *Page) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.held[hash]
	if h.aloft || p != nil && h.settled > p.at {
		return false
	}
	h.aloft = true
	f.held[hash] = h
	return true
}

// Land ends the flight of records that have been settled.
func (f *Set) Land(hashes ...uint64) {
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

// Drop ends the flight of a record whose row was not changed.
func (f *Set) Drop(hash uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.held[hash]; h.settled > f.forgotten {
		f.held[hash] = flight{settled: h.settled}
	} else {
		delete(f.held, hash)
	}
}
