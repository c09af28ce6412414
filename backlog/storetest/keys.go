package storetest

import (
	"fmt"
	"math"
	"time"

	"backlog/backlog"
)

// testKeys walks and settles records whose order is decided by their keys, then
// records with keys that a careless store mistakes for others.
func testKeys(f *fixture) {
	var rows []Row
	for i := range 30 {
		rows = append(rows, f.row(i*11%30, []Status{Fresh, Fresh, Fresh, Failed, Failed}[i%5], time.Duration(i%3)*time.Minute))
	}
	f.insert(rows...)
	for _, lane := range bothLanes {
		f.wantWalks(query(lane), rows)
	}
	rows, records := f.pending(rows)
	var group []backlog.Settlement
	for i := 0; i < len(records); i += 3 {
		group = append(group, f.settlement(&records[i], backlog.Succeeded))
	}
	f.delete(rows[0].Key)
	f.setStatus(rows[3].Key, Other)
	f.settle([]int{0, 1}, group...)
	for i, want := range rows {
		switch {
		case i == 0:
			continue
		case i == 3:
			want.Status = Other
		case i%3 == 0:
			want = f.table.left(want, group[i/3])
		}
		// The others too: a condition on each part of a composite key by
		// itself writes more rows than the group has.
		f.wantRow("settling every third", want)
		f.delete(want.Key)
	}
	f.settleOdd()
}

// oddKeys are keys that a careless store mistakes for others.
var oddKeys = map[Keys][]backlog.Key{
	IntKeys: {
		backlog.NewKey(int64(math.MaxInt64)), backlog.NewKey(int64(math.MaxInt64 - 1)),
		backlog.NewKey(int64(1<<53 + 1)), backlog.NewKey(int64(1 << 53)), backlog.NewKey(int64(-1)),
	},
	TextKeys: {
		backlog.NewKey("123"), backlog.NewKey("0123"), backlog.NewKey("1e3"), backlog.NewKey("it's"),
		backlog.NewKey(`a "b"`), backlog.NewKey("50%_?$1"), backlog.NewKey(`back\slash`), backlog.NewKey("ключ"),
		backlog.NewKey("two\nlines"), backlog.NewKey("null"),
	},
	BlobKeys: {
		backlog.NewKey([]byte{0}), backlog.NewKey([]byte{0, 0}), backlog.NewKey([]byte{0xff, 0xfe}),
		backlog.NewKey([]byte("text")), backlog.NewKey([]byte(`'\x00`)),
	},
	CompositeKeys: {
		backlog.NewKey("a", int64(1)), backlog.NewKey("a", int64(-1)), backlog.NewKey("a,1", int64(1)),
		backlog.NewKey("it's", int64(1<<53+1)), backlog.NewKey("it's", int64(1<<53)), backlog.NewKey("1", int64(1)),
	},
}

// settleOdd settles such records one by one; every other one stays.
func (f *fixture) settleOdd() {
	var rows []Row
	for i, k := range oddKeys[f.table.Keys] {
		rows = append(rows, Row{Key: k, Status: Fresh, Inserted: now.Add(-time.Duration(i) * time.Minute)})
	}
	f.insert(rows...)
	f.wantLane(query(backlog.Fresh), rows)
	rows, records := f.pending(rows)
	for i := range records {
		if i%2 == 1 {
			s := f.settlement(&records[i], backlog.Succeeded)
			f.settle(nil, s)
			rows[i] = f.table.left(rows[i], s)
		}
		f.wantRow(fmt.Sprintf("settling keys up to %s", keyText(records[i].Key)), rows[i])
	}
	f.wantLane(query(backlog.Fresh), rows)
}
