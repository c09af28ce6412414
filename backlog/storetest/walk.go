package storetest

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"backlog/backlog"
)

// testWalk walks both lanes of rows of every kind, inserted in random order, with
// times that are finer than the column and in other zones. Reading writes nothing.
func testWalk(f *fixture) {
	f.specimens(120, 1)
	step, since := f.h.Precision(), now.Add(-edge)
	west, east := time.FixedZone("", -8*3600-1800), time.FixedZone("", 5*3600+1800)
	for _, lane := range bothLanes {
		q := query(lane)
		for _, q.Since = range []time.Time{since.In(west), since.In(east), since.Add(step / 2), since.Add(step - 1), since.Add(1), now.Add(-1000 * day)} {
			f.wantLane(q, 25)
		}
		q.Since, q.Widest = since, true
		f.wantWalks(q)
		for _, q.Now = range []time.Time{now.Add(-step), now.Add(step), now.Add(-1), now.Add(step / 2), now.Add(1000 * day).In(west)} {
			f.wantLane(q, 25)
		}
		q = query(lane)
		q.Widest = true // and a record must be valid longer than its page
		w := f.wantLane(q, 1)
		if other := f.another(); f.table.NoDate == "skip" {
			for i := 0; i < len(w.got); i += 1 + len(w.got)/4 {
				f.wantPart(w, other, i, -1, false)
			}
		}
	}
	f.same("walks through both lanes")
}

// testRandom walks a few random rows, and random parts of a lane, in random pages. Records at the
// ends of a part may be deleted or settled by then, and newer ones inserted.
func testRandom(f *fixture) {
	for seed := range uint64(f.walks) {
		random := rand.New(rand.NewPCG(seed, 1))
		f.specimens(30, seed)
		q := query(pick(random, bothLanes...))
		q.Since, q.Widest = now.Add(-edge), pick(random, false, true)
		w := f.wantLane(q, 1+random.IntN(6))
		part := func() {
			place := func() int { return random.IntN(2*len(w.got)+1) - len(w.got) - 1 } // or none
			f.wantPart(w, f.h.Store(), place(), place(), pick(random, false, true))
		}
		part()
		for i := range w.got {
			switch random.IntN(4) {
			case 0:
				f.delete(w.got[i].Key)
			case 1:
				f.settle(f.settlement(&w.got[i], pick(random, outcomes...), soon))
			case 2:
				f.insert(f.row(100+i, Fresh, 0))
			}
		}
		part()
		part()
		if f.Failed() {
			f.Fatalf("with the rows of seed %d", seed)
		}
		var keys []backlog.Key
		for _, r := range f.memory.Rows() {
			keys = append(keys, r.Key)
		}
		f.delete(keys...)
	}
}

// pairs inserts fresh rows, two of each time, with all digits that the column
// can have.
func (f *fixture) pairs(n int) {
	f.Helper()
	for i := range n {
		f.insert(f.row(i, Fresh, time.Duration(i/2)*(time.Minute+f.h.Precision())))
	}
}

// testCursor walks from every place and to every place, before and behind its record.
func testCursor(f *fixture) {
	for _, lane := range bothLanes {
		f.wantLane(query(lane))
	}
	f.pairs(8)
	w := f.wantLane(query(backlog.Fresh))
	for i := range w.got {
		for j := range w.got {
			f.wantPart(w, f.h.Store(), i, j, false)
			f.wantPart(w, f.h.Store(), i, j, true)
		}
	}
}

// testNotDue has ten records that are due among many that are not. The ten are on one
// page.
func testNotDue(f *fixture) {
	const many, few = 1000, 10
	numbers := f.numbers()
	f.insert(numbered(many, func(i int) Row {
		due := now.Add(time.Duration(1+i%50) * time.Second)
		if i%(many/few) == few/2 {
			due = now.Add(-time.Duration(i%7) * time.Second)
		}
		return f.dueAt(i, numbers[i%len(numbers)], due)
	})...)
	w := f.wantLane(query(backlog.Failed), few)
	page, err := f.h.Store().Pending(f.Context(), w.q)
	if err != nil || len(page.Records) != few || len(w.got) != few {
		f.Errorf("the first page of %d records of which %d are due: want these, got %d of %d, and error %v", many, few, len(page.Records), len(w.got), err)
	}
}

// testCancelled calls each method with a cancelled context: it returns at once, with an
// error that is final, and has done nothing.
func testCancelled(f *fixture) {
	f.pairs(3)
	records := f.pending()
	group := numbered(len(records), func(i int) backlog.Settlement { return f.settlement(&records[i], outcomes[i], soon) })
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	for call, do := range map[string]func() (int, error){
		"Pending": func() (int, error) {
			page, err := f.h.Store().Pending(ctx, query(backlog.Fresh))
			return len(page.Records), err
		},
		"Settle": func() (int, error) {
			_, err := f.h.Store().Settle(ctx, group)
			return 0, err
		},
		"Expire": func() (int, error) {
			return f.expirer().Expire(ctx, expiry(now.Add(day)))
		},
	} {
		start := time.Now()
		n, err := do()
		f.wantCancelled(call, err)
		if took := time.Since(start); n > 0 || took > 5*time.Second {
			f.Errorf("%s on a cancelled context: want it back at once without records, got %d after %v", call, n, took)
		}
	}
	f.same("calls on a cancelled context")
}

// wantCancelled checks the error of a call on a cancelled context.
func (f *fixture) wantCancelled(call string, err error) {
	f.Helper()
	if !errors.Is(err, context.Canceled) || errors.Is(err, backlog.ErrUnavailable) {
		f.Errorf("%s on a cancelled context: want an error that wraps context.Canceled and is final, not ErrUnavailable; got %v", call, err)
	}
}

// testKeys walks and settles records whose order depends on their keys, and records with
// keys that a careless store takes for others.
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
// between them must stay: a store that compares each part of a composite key on its own writes
// more rows than the group has.
func (f *fixture) settleEvery(n int) {
	f.Helper()
	records := f.pending()
	var group []backlog.Settlement
	for i := 0; i < len(records); i += n {
		group = append(group, f.settlement(&records[i], backlog.Succeeded, soon))
	}
	f.delete(records[0].Key)
	f.update(records[n].Key, func(r *Row) { r.Status = Other })
	f.settle(group...)
	f.same("the settling of some")
	f.wantLane(query(backlog.Fresh))
}

// oddKeys are keys that a careless store takes for others, mostly for the next one.
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
