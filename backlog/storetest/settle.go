package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"backlog/backlog"
)

var outcomes = []backlog.Outcome{backlog.Succeeded, backlog.Errored, backlog.Rejected}

// settlement returns an outcome of the record; one that is no success has a
// text.
func settlement(r *backlog.Record, o backlog.Outcome) backlog.Settlement {
	s := backlog.Settlement{Record: r, Outcome: o, At: now.Add(time.Second)}
	if o != backlog.Succeeded {
		s.Error = fmt.Sprintf("%v of %v", o, r.Key)
	}
	return s
}

// settle settles one group.
func (f *fixture) settle(group ...backlog.Settlement) []backlog.Unsettled {
	f.Helper()
	unsettled, err := f.h.Store().Settle(f.Context(), group)
	if err != nil {
		f.Fatalf("Settle of %d outcomes: want them written, got error: %v", len(group), err)
	}
	return unsettled
}

// wantConflicts checks that the settlements at these places of the group, and
// no others, were reported as conflicts.
func wantConflicts(t tb, group []backlog.Settlement, got []backlog.Unsettled, want ...int) {
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

// settled returns the state that follows on an outcome.
func (f *fixture) settled(from State, o backlog.Outcome) State {
	switch {
	case o == backlog.Succeeded:
		return Success
	case o == backlog.Rejected && f.table.Dead:
		return Dead
	case f.table.ErrorKeep:
		return from
	}
	return Failed
}

// pendingStates are the states of the two lanes.
func (f *fixture) pendingStates() []State {
	if f.table.ErrorKeep {
		return []State{Fresh}
	}
	return []State{Fresh, Failed}
}

func (f *fixture) wantState(r *backlog.Record, after string, want State) {
	f.Helper()
	if got := f.read(r.Key).State; got != want {
		f.Errorf("record %v, %s, after %s: want state %v, got %v", r.Key, r.Lane, after, want, got)
	}
}

func testSettleNothing(f *fixture) {
	f.insert(f.rows(1, Fresh)...)
	wantConflicts(f, nil, f.settle())
	f.wantLane(backlog.Fresh, f.rows(1, Fresh)...)
}

// testSettleOutcomes settles every outcome from every lane, one by one, as
// the table's configuration has it.
func testSettleOutcomes(f *fixture) {
	var rows []Row
	for _, s := range f.pendingStates() {
		for range outcomes {
			rows = append(rows, f.row(len(rows), s, time.Duration(len(rows))*time.Minute))
		}
	}
	f.insert(rows...)
	records := f.pending(rows...)
	var left [2][]Row
	for i := range records {
		r, o := &records[i], outcomes[i%len(outcomes)]
		group := []backlog.Settlement{settlement(r, o)}
		wantConflicts(f, group, f.settle(group...))
		want := rows[i]
		want.State = f.settled(want.State, o)
		f.wantState(r, o.String(), want.State)
		switch want.State {
		case Fresh:
			left[backlog.Fresh] = append(left[backlog.Fresh], want)
		case Failed:
			left[backlog.Failed] = append(left[backlog.Failed], want)
		}
	}
	for _, lane := range bothLanes {
		f.wantLane(lane, left[lane]...)
	}
}

// testSettleGroup settles n records of both lanes with all outcomes at once,
// in an order that is neither the lane's nor the key's.
func testSettleGroup(f *fixture, n int) {
	var rows []Row
	for i := range n {
		r := f.row(i, Fresh, time.Duration(i)*time.Minute)
		if i%2 == 1 {
			r.State = Failed
		}
		rows = append(rows, r)
	}
	f.insert(rows...)
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(a.State, b.State) })
	records := f.pending(rows...)
	var group []backlog.Settlement
	var want []State
	for i := range records {
		j := (i*7 + 3) % n
		if n%7 == 0 {
			j = n - 1 - i
		}
		o := outcomes[i%len(outcomes)]
		group = append(group, settlement(&records[j], o))
		want = append(want, f.settled(rows[j].State, o))
	}
	wantConflicts(f, group, f.settle(group...))
	for i, g := range group {
		got := f.read(g.Record.Key)
		if got.State != want[i] || got.Attempts != 1 || got.LastError != g.Error {
			f.Errorf("record %v, %v, after %v in a group of %d: want state %v, 1 attempt, last error %q; got %v, %d, %q",
				g.Record.Key, g.Record.Lane, g.Outcome, n, want[i], g.Error, got.State, got.Attempts, got.LastError)
		}
	}
}

func testSettleTouchesNothingElse(f *fixture) {
	var rows []Row
	for i := range outcomes {
		r := f.row(i, Fresh, time.Duration(i+1)*time.Hour)
		r.Eligible, r.Expires = now.Add(-day), now.Add(day)
		r.Amount, r.Note, r.Payload = int64(i), "note", []byte{0, byte(i)}
		rows = append(rows, r)
	}
	bystander := f.row(9, Fresh, 0)
	bystander.Amount = int64(9)
	f.insert(append(rows, bystander)...)
	records := f.pending(append([]Row{bystander}, rows...)...)[1:]
	for i, o := range outcomes {
		s := settlement(&records[i], o)
		f.settle(s)
		want := rows[i]
		want.State, want.Attempts, want.LastError = f.settled(Fresh, o), 1, s.Error
		f.wantRow(o.String(), want)
	}
	f.wantRow("the settling of others", bystander)
}

func testSettleTwice(f *fixture) {
	rows := []Row{f.row(1, Fresh, time.Minute), f.row(2, Fresh, time.Hour), f.row(3, Failed, time.Minute)}
	f.insert(rows...)
	records := f.pending(rows...)
	for i, c := range []struct {
		outcome backlog.Outcome
		want    State
		again   []int // conflicts at the second time
	}{
		{backlog.Succeeded, Success, []int{0}},
		{backlog.Errored, Failed, []int{0}},
		{backlog.Errored, Failed, nil}, // it was failed before: nothing has changed
	} {
		r := &records[i]
		group := []backlog.Settlement{settlement(r, c.outcome)}
		wantConflicts(f, group, f.settle(group...))
		f.wantState(r, c.outcome.String(), c.want)
		wantConflicts(f, group, f.settle(group...), c.again...)
		f.wantState(r, c.outcome.String()+" settled twice", c.want)
	}
}

func testSettleCancelled(f *fixture) {
	rows := f.rows(3, Fresh)
	f.insert(rows...)
	records := f.pending(rows...)
	var group []backlog.Settlement
	for i := range records {
		group = append(group, settlement(&records[i], outcomes[i%len(outcomes)]))
	}
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	start := time.Now()
	_, err := f.h.Store().Settle(ctx, group)
	wantCancelled(f.T, "Settle", err, time.Since(start))
	for _, r := range rows {
		f.wantRow("a Settle on a cancelled context", r)
	}
}
