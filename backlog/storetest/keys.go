package storetest

import (
	"math"
	"time"

	"backlog/backlog"
)

// testKeys walks and settles records whose order is decided by their keys, and records
// with keys that a careless store mistakes for others.
func testKeys(f *fixture) {
	for i := range 30 {
		f.insert(f.row(i*11%30, []string{Fresh, Fresh, Fresh, Failed, Failed}[i%5], time.Duration(i%3)*time.Minute))
	}
	for _, lane := range bothLanes {
		f.wantWalks(query(lane))
	}
	f.settleEvery(3)
	for _, row := range f.memory.Rows() {
		f.delete(row.Key)
	}
	for i, k := range oddKeys[f.table.Keys] {
		f.insert(rowOf(k, Fresh, time.Duration(i)*time.Minute))
	}
	f.wantWalks(query(backlog.Fresh))
	f.settleEvery(2)
}

// settleEvery settles every n-th pending record; the first two are conflicts. The records
// between must stay: a condition on each part of a composite key by itself writes more
// rows than the group has.
func (f *fixture) settleEvery(n int) {
	f.Helper()
	records := f.pending()
	var group []backlog.Settlement
	for i := 0; i < len(records); i += n {
		group = append(group, f.settlement(&records[i], backlog.Succeeded))
	}
	f.delete(records[0].Key)
	f.update(records[n].Key, func(r *Row) { r.Status = Other })
	f.settle(group...)
	f.same("the settling of some")
	f.wantLane(query(backlog.Fresh))
}

// oddKeys are keys that a careless store mistakes for others, mostly for the one behind.
var oddKeys = map[Keys][]backlog.Key{
	IntKeys: {
		backlog.NewKey(int64(-1)), backlog.NewKey(int64(1)), backlog.NewKey(int64(0x80000000)), backlog.NewKey(int64(-0x80000001)),
		backlog.NewKey(int64(1<<53 + 1)), backlog.NewKey(int64(1 << 53)), backlog.NewKey(int64(math.MaxInt64)), backlog.NewKey(int64(math.MaxInt64 - 1)),
	},
	TextKeys: {
		backlog.NewKey("null"), backlog.NewKey("1e3"), backlog.NewKey(`a "b"`), backlog.NewKey("two\nlines"), backlog.NewKey("123"),
		backlog.NewKey("0123"), backlog.NewKey("it's"), backlog.NewKey("50%_?$1"), backlog.NewKey(`back\slash`), backlog.NewKey("ключ"),
	},
	BlobKeys: {
		backlog.NewKey([]byte("text")), backlog.NewKey([]byte(`'\x00`)), backlog.NewKey([]byte("te")), backlog.NewKey([]byte("t")),
		backlog.NewKey([]byte{0}), backlog.NewKey([]byte{0, 0}), backlog.NewKey([]byte{0xff, 0xfe}), backlog.NewKey([]byte{0xff}),
	},
	CompositeKeys: {
		backlog.NewKey("a,1", int64(1)), backlog.NewKey("1", int64(1)), backlog.NewKey("a", int64(2)), backlog.NewKey("b", int64(1)),
		backlog.NewKey("it's", int64(1<<53+1)), backlog.NewKey("it's", int64(1<<53)), backlog.NewKey("a", int64(1)), backlog.NewKey("a", int64(-1)),
	},
}
