package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"backlog/backlog"
)

var outcomes = []backlog.Outcome{backlog.Succeeded, backlog.Errored, backlog.Rejected}

// settlement returns an outcome of the record under the table's policy, as the
// engine makes it; one that is no success has a text.
func (f *fixture) settlement(r *backlog.Record, o backlog.Outcome) backlog.Settlement {
	return f.settlementAt(r, o, now.Add(time.Second))
}

func (f *fixture) settlementAt(r *backlog.Record, o backlog.Outcome, at time.Time) backlog.Settlement {
	s := backlog.Settlement{Record: r, Target: o.Target(), At: at}
	if o == backlog.Succeeded {
		return s
	}
	s.Error = fmt.Sprintf("%v of %v: ne marche pas: “été”, 'quoted' \"twice\"", o, r.Key)
	givenUp := false
	if s.Failures, givenUp = f.table.Policy.After(r.Failures, at, 0.5); givenUp {
		s.Target = backlog.RowDead
	}
	return s
}

// settle settles one group, and checks that the settlements at these places of
// it, and no others, are reported as conflicts.
func (f *fixture) settle(conflicts []int, group ...backlog.Settlement) {
	f.Helper()
	unsettled, err := f.h.Store().Settle(f.Context(), group)
	if err != nil {
		f.Fatalf("Settle of %d outcomes: want them written, got error: %v", len(group), err)
	}
	wantConflicts(f.T, group, unsettled, conflicts)
}

func wantConflicts(t *testing.T, group []backlog.Settlement, got []backlog.Unsettled, want []int) {
	t.Helper()
	var indexes []int
	for _, u := range got {
		if u.Index < 0 || u.Index >= len(group) {
			t.Errorf("group of %d: want the places of the unsettled in the group, got %d", len(group), u.Index)
			continue
		}
		indexes = append(indexes, u.Index)
		if !errors.Is(u.Err, backlog.ErrConflict) {
			t.Errorf("record %v: want it settled or ErrConflict, got %v", group[u.Index].Record.Key, u.Err)
		}
	}
	slices.Sort(indexes)
	if !slices.Equal(indexes, want) {
		t.Errorf("group of %d: want conflicts at the places %v, got %v", len(group), want, indexes)
	}
}

// testSettle settles every outcome from every lane and number of failures, one by
// one, and nothing at all. Nobody else's row is touched.
func testSettle(f *fixture) {
	all := f.specimens(120, 4)
	f.settle(nil)
	rows, records := f.pending(all)
	for i, row := range rows {
		s := f.settlementAt(&records[i], outcomes[i%len(outcomes)], now.Add(time.Duration(i)*f.precision()))
		f.settle(nil, s)
		*find(all, row.Key) = f.table.left(row, s)
	}
	for _, row := range all {
		f.wantRow("the settling of all that was due", row)
	}
	for _, lane := range bothLanes {
		q := query(lane)
		f.wantLane(q, all)
		q.Now = now.Add(time.Hour)
		f.wantLane(q, all)
	}
}

// groupOf returns a case that settles n records of both lanes with all outcomes
// at once, in no order; most attempts ended at a time of their own.
func groupOf(n int) func(*fixture) {
	return func(f *fixture) {
		var rows []Row
		numbers := f.numbers()
		for i := range n {
			r := f.failed(i, numbers[i%len(numbers)], now.Add(-5*time.Hour-time.Duration(i+1)*f.precision()))
			if i%4 == 3 {
				r = f.row(i, Fresh, time.Hour)
			}
			rows = append(rows, r)
		}
		f.insert(rows...)
		rows, records := f.pending(rows)
		var group []backlog.Settlement
		for i := range records {
			at := now.Add(time.Duration((i+1)*2/3) * f.precision())
			group = append(group, f.settlementAt(&records[i], outcomes[(i+1)%len(outcomes)], at))
		}
		rand.New(rand.NewPCG(uint64(n), 0)).Shuffle(n, func(i, j int) {
			rows[i], rows[j], group[i], group[j] = rows[j], rows[i], group[j], group[i]
		})
		f.settle(nil, group...)
		for i, s := range group {
			f.wantRow(fmt.Sprintf("the state %v in a group of %d", s.Target, n), f.table.left(rows[i], s))
		}
	}
}

// testSettleTwice makes calls again. What is read as fresh is a conflict once it
// has failed, also where the number of failures alone tells. A failure is not
// counted twice: when a connection breaks at commit the same call is made again.
func testSettleTwice(f *fixture) {
	rows := []Row{f.row(0, Fresh, time.Minute), f.row(1, Fresh, time.Hour), f.failed(2, 1, now.Add(-day))}
	f.insert(rows...)
	rows, records := f.pending(rows)
	for i, o := range []backlog.Outcome{backlog.Errored, backlog.Succeeded, backlog.Errored} {
		s := f.settlement(&records[i], o)
		f.settle(nil, s)
		unsettled, err := f.h.Store().Settle(f.Context(), []backlog.Settlement{s})
		if err != nil {
			f.Fatalf("Settle for the second time: want no error, got %v", err)
		}
		if records[i].Lane == backlog.Fresh {
			wantConflicts(f.T, []backlog.Settlement{s}, unsettled, []int{0})
		} else if f.table.Policy == nil { // it was failed before: nothing has changed
			wantConflicts(f.T, []backlog.Settlement{s}, unsettled, nil)
		}
		f.wantRow(o.String()+" settled twice", f.table.left(rows[i], s))
	}
}

// testSettleLate settles outcomes that come late, when the records have failed
// once more: they must not set the count and the times back; a success is one all
// the same.
func testSettleLate(f *fixture) {
	var rows []Row
	for i := range 4 {
		rows = append(rows, f.dueAt(i, 1, now))
	}
	f.insert(rows...)
	rows, records := f.pending(rows)
	var late, others []backlog.Settlement
	for i, o := range []backlog.Outcome{backlog.Errored, backlog.Errored, backlog.Succeeded, backlog.Errored} {
		late = append(late, f.settlementAt(&records[i], o, now))
		others = append(others, f.settlementAt(&records[i], backlog.Errored, now.Add(time.Minute)))
	}
	f.settle(nil, others[:3]...)
	f.settle([]int{0, 1}, late...)
	for i := range rows[:3] {
		rows[i] = f.table.left(rows[i], others[i])
	}
	f.wantRow("a failure that came late", rows[0])
	f.wantRow("a failure that came late", rows[1])
	f.wantRow("a success that came late", f.table.left(rows[2], late[2]))
	f.wantRow("a failure in time", f.table.left(rows[3], late[3]))
}

// gone stands for a row that was deleted behind the store's back.
const gone Status = -1

// testGuard has somebody else change some rows of a group, to every status and for
// every outcome: nothing of those is written, and the others get what is theirs.
func testGuard(f *fixture) {
	read, changed := []Status{Fresh, Failed}, []Status{Fresh, Success, Other, Null, gone}
	if !f.table.ErrorKeep { // else a failed record is a fresh one with a count
		changed = append(changed, Failed)
	}
	if f.table.TwoFresh {
		read, changed = append(read, AlsoFresh), append(changed, AlsoFresh)
	}
	if f.table.Dead {
		changed = append(changed, Dead)
	}
	var rows []Row
	for i := range len(read) * len(changed) * len(outcomes) {
		r := f.failed(i, f.numbers()[i%3], now.Add(-day))
		if s := read[i%len(read)]; s != Failed {
			r = f.row(i, s, 0)
		}
		r.Inserted = now.Add(-time.Duration(i) * time.Minute)
		r.Attempts, r.LastError = i, "of last time"
		rows = append(rows, r)
	}
	f.insert(rows...)
	rows, records := f.pending(rows)
	var group []backlog.Settlement
	var conflicts []int
	seen := make(map[Status]int)
	for i, row := range rows {
		n := seen[row.Status]
		seen[row.Status]++
		group = append(group, f.settlementAt(&records[i], outcomes[n/len(changed)%len(outcomes)], now.Add(time.Duration(i)*time.Second)))
		status := changed[n%len(changed)]
		if status == row.Status {
			rows[i] = f.table.left(row, group[i])
			continue
		}
		conflicts = append(conflicts, i)
		if rows[i].Status = status; status == gone {
			f.delete(row.Key)
		} else {
			f.setStatus(row.Key, status)
		}
	}
	f.settle(conflicts, group...)
	for _, want := range rows {
		if want.Status != gone {
			f.wantRow("a group with conflicts", want)
		} else if _, ok, err := f.h.Row(want.Key); ok || err != nil {
			f.Errorf("record %v, deleted before it was settled: want no row, got one (or an error: %v)", want.Key, err)
		}
	}
}

// testErrors has a text that is longer than most columns, of characters of two
// bytes at odd places, so that a cut by bytes shows, and one that no text column of
// some databases takes. The text may be mended, but it must not stand in the way
// of the status: a record that cannot be settled is tried again and again.
func testErrors(f *fixture) {
	_, records := f.pairs(3)
	long := f.settlement(&records[0], backlog.Errored)
	long.Error = "x" + strings.Repeat("é", 40_000)
	f.settle(nil, long)
	if got := f.read(long.Record.Key); got.Status != Failed || got.LastError == "" || !strings.HasPrefix(long.Error, got.LastError) || !utf8.ValidString(got.LastError) {
		f.Errorf("after an error with a text of %d bytes: want %v and the text, or as many whole characters of its beginning as the column takes; "+
			"got %v and %d bytes, valid UTF-8: %t", len(long.Error), Failed, got.Status, len(got.LastError), utf8.ValidString(got.LastError))
	}
	group := []backlog.Settlement{f.settlement(&records[1], backlog.Errored), f.settlement(&records[2], backlog.Errored)}
	group[0].Error = "NUL \x00 and not UTF-8 \xff\xfe"
	f.settle(nil, group...)
	for _, g := range group {
		if got := f.read(g.Record.Key); got.Status != Failed || got.LastError == "" {
			f.Errorf("record %v after an error with a text that is not UTF-8: want %v and something of it, got %v and %q", g.Record.Key, Failed, got.Status, got.LastError)
		}
	}
}
