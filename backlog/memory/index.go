package memory

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"time"

	"github.com/tidwall/btree"
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

// An entry is a row with the time by which it stands in its lane. Without a key it is the
// place before all rows of its time.
type entry struct {
	Row
	at int64 // nanoseconds since 1970, newest or oldest
}

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

// An index holds entries in the order of a lane: newest first, then the greatest key, or
// byWait the other way round, the longest waiting first, then the least key.
type index struct {
	tree   *btree.BTreeG[*entry]
	byWait bool
}

func newIndex(byWait bool) *index {
	x := &index{byWait: byWait}
	x.tree = btree.NewBTreeGOptions(func(a, b *entry) bool { return x.compare(a, b) < 0 }, btree.Options{NoLocks: true})
	return x
}

// compare returns -1, 0 or 1 as a stands before, at or after b.
func (x *index) compare(a, b *entry) int {
	if x.byWait {
		a, b = b, a
	}
	switch c := cmp.Compare(b.at, a.at); {
	case c != 0:
		return c
	case !x.byWait && (a.Key.IsZero() || b.Key.IsZero()):
		return cmp.Compare(a.Key.Len(), b.Key.Len())
	}
	return b.Key.Compare(a.Key)
}

// first returns the place before all entries.
func (x *index) first() *entry {
	if x.byWait {
		return &entry{at: oldest}
	}
	return &entry{at: newest}
}

// after yields the entries after p, which need not be there, and p too if before is told.
// The index must not change meanwhile.
func (x *index) after(p *entry, before bool) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		x.tree.Ascend(p, func(e *entry) bool {
			return !before && x.compare(e, p) == 0 || yield(e)
		})
	}
}
