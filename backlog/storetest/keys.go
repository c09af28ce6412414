package storetest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"backlog/backlog"
)

// testKeys walks and settles records whose order is decided by their keys.
func testKeys(f *fixture) {
	var lanes [2][]Row
	for i := range 30 {
		r := f.row(i*11%30, Fresh, time.Duration(i%3)*time.Minute)
		if i%5 > 2 {
			r.State = Failed
			lanes[backlog.Failed] = append(lanes[backlog.Failed], r)
		} else {
			lanes[backlog.Fresh] = append(lanes[backlog.Fresh], r)
		}
	}
	f.insert(slices.Concat(lanes[:]...)...)
	for _, lane := range bothLanes {
		lanes[lane] = inOrder(lanes[lane])
		f.wantWalks(query(lane), lanes[lane])
	}

	rows := slices.Concat(lanes[:]...)
	records := f.pending(rows...)
	var group []backlog.Settlement
	for i := 0; i < len(records); i += 3 {
		group = append(group, settlement(&records[i], backlog.Succeeded))
	}
	f.delete(rows[0].Key)
	f.setState(rows[3].Key, Other)
	wantConflicts(f, group, f.settle(group...), 0, 1)
	for i, want := range rows {
		switch {
		case i == 0:
			continue
		case i == 3:
			want.State = Other
		case i%3 == 0:
			want.State, want.Attempts = Success, 1
		}
		// The others too: a condition on each part of a composite key by
		// itself writes more rows than the group has.
		f.wantRow(fmt.Sprintf("settling every third of %v", keyList(keysOf(rows))), want)
	}
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

// testOddKeys settles such records one by one; every other one stays.
func testOddKeys(f *fixture) {
	var rows []Row
	for i, k := range oddKeys[f.table.Keys] {
		rows = append(rows, Row{Key: k, State: Fresh, Inserted: now.Add(-time.Duration(i) * time.Minute)})
	}
	f.insert(rows...)
	wantRecords(f, "fresh lane, cursors through JSON", rows, f.walkJSON(pages(backlog.Fresh, 1)))
	records := f.pending(rows...)
	var left []Row
	for i := range records {
		if i%2 == 0 {
			left = append(left, rows[i])
			continue
		}
		group := []backlog.Settlement{settlement(&records[i], backlog.Succeeded)}
		wantConflicts(f, group, f.settle(group...))
		f.wantState(&records[i], "success", Success)
	}
	f.wantLane(backlog.Fresh, left...)
}
