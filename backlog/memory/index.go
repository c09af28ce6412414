package memory

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"sort"
	"time"

	"backlog/backlog"
)

// Where records without a date stand: before or after all that have one.
const (
	newest int64 = math.MaxInt64
	oldest int64 = math.MinInt64
)

// Times between these can be told from newest and oldest.
var (
	latest   = time.Unix(0, newest-1)
	earliest = time.Unix(0, oldest+1)
)

// nanos returns the time in nanoseconds since 1970, those out of range as the
// nearest that is within.
func nanos(t time.Time) int64 {
	switch {
	case t.Before(earliest):
		return oldest + 1
	case t.After(latest):
		return newest - 1
	}
	return t.UnixNano()
}

// A place is where a record stands in its lane. With the zero Key it is the
// place before all records of its time.
type place struct {
	at     int64 // nanoseconds since 1970, newest or oldest
	key    backlog.Key
	before bool // just before the record of that key
}

// An entry is a row with the time by which it stands in its lane.
type entry struct {
	Row
	at int64 // as in place
}

func (e *entry) place() place { return place{at: e.at, key: e.Key} }

func (e *entry) copy() Row {
	r := e.Row
	r.Columns = maps.Clone(r.Columns)
	return r
}

// due reports whether the row's own times let it be selected now.
func (e *entry) due(now time.Time) bool {
	return (e.Eligible.IsZero() || !e.Eligible.After(now)) &&
		(e.Expires.IsZero() || !now.After(e.Expires))
}

// chunkSize is half the most entries in a chunk. Inserting moves part of a
// chunk and, once in chunkSize times, part of the list of chunks; with a
// million entries both are a few thousand words.
const chunkSize = 512

// An index holds entries in the order of a lane. The zero index is empty.
//
// It is a sorted list cut into chunks. Records that fail arrive newest first,
// each behind all before it, and those inserted arrive at the other end: no
// one sorted slice would take both cheaply.
type index struct {
	chunks [][]*entry // none is empty
	byWait bool       // the other way round: the longest waiting first, then the least key
}

// compare returns -1, 0 or 1 as the entry stands before, at or after p: newest
// first, then the greatest key, or by wait the other way round.
func (x *index) compare(e *entry, p place) int {
	if x.byWait && p.key.IsZero() {
		return 1 // only asked for the beginning
	}
	c := cmp.Compare(p.at, e.at)
	if c == 0 && !p.key.IsZero() {
		c = p.key.Compare(e.Key)
	} else if c == 0 {
		c = 1
	}
	if x.byWait {
		c = -c
	}
	if c == 0 && p.before {
		c = 1
	}
	return c
}

// search returns the chunk and the place in it of the first entry for which
// past is true, and len(x.chunks), 0 if there is none. Once past is true it
// must stay so to the end.
func (x *index) search(past func(*entry) bool) (chunk, i int) {
	chunk = sort.Search(len(x.chunks), func(c int) bool {
		return past(x.chunks[c][len(x.chunks[c])-1])
	})
	if chunk == len(x.chunks) {
		return chunk, 0
	}
	entries := x.chunks[chunk]
	return chunk, sort.Search(len(entries), func(i int) bool { return past(entries[i]) })
}

// insert adds an entry that is not there yet.
func (x *index) insert(e *entry) {
	c, i := x.search(func(f *entry) bool { return x.compare(f, e.place()) > 0 })
	if c == len(x.chunks) {
		if c == 0 {
			x.chunks = append(x.chunks, nil)
		} else {
			c--
		}
		i = len(x.chunks[c])
	}
	x.chunks[c] = slices.Insert(x.chunks[c], i, e)
	if full := x.chunks[c]; len(full) == 2*chunkSize {
		x.chunks = slices.Insert(x.chunks, c+1, slices.Clone(full[chunkSize:]))
		clear(full[chunkSize:])
		x.chunks[c] = full[:chunkSize]
	}
}

// remove takes out an entry that is there.
func (x *index) remove(e *entry) {
	c, i := x.search(func(f *entry) bool { return x.compare(f, e.place()) >= 0 })
	x.chunks[c] = slices.Delete(x.chunks[c], i, i+1)
	if len(x.chunks[c]) == 0 {
		x.chunks = slices.Delete(x.chunks, c, c+1)
	}
}

// after yields the entries after p, which need not be one's place. The index
// must not change meanwhile.
func (x *index) after(p place) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		c, i := x.search(func(e *entry) bool { return x.compare(e, p) > 0 })
		for ; c < len(x.chunks); c, i = c+1, 0 {
			for _, e := range x.chunks[c][i:] {
				if !yield(e) {
					return
				}
			}
		}
	}
}
