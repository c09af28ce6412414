package storetest

import (
	"slices"
	"time"

	"backlog/backlog"
)

// gone stands for a row that was deleted behind the store's back.
const gone State = -1

// meddlings are what happens to the records of one group between being read
// and being settled. Each outcome changes the status, so that every change by
// somebody else is noticed, but for one failed record that nobody touches.
var meddlings = []struct {
	read, changed State
	outcome       backlog.Outcome
}{
	{Fresh, Success, backlog.Succeeded},
	{Fresh, Fresh, backlog.Succeeded},
	{Fresh, Failed, backlog.Errored}, // already what would be written
	{Fresh, Fresh, backlog.Errored},
	{Fresh, Other, backlog.Errored},
	{Fresh, gone, backlog.Succeeded},
	{Fresh, Dead, backlog.Rejected},
	{Fresh, Fresh, backlog.Rejected},
	{Failed, Failed, backlog.Succeeded},
	{Failed, Fresh, backlog.Succeeded},
	{Failed, Null, backlog.Rejected},
	{Failed, Failed, backlog.Rejected},
	{Failed, Failed, backlog.Errored},
	{Failed, gone, backlog.Rejected},
	{Failed, Success, backlog.Succeeded},
}

func testGuard(f *fixture) {
	var rows []Row
	for i, m := range meddlings {
		rows = append(rows, f.row(i, m.read, time.Duration(i)*time.Minute))
	}
	f.insert(rows...)
	records := f.pending(rows...)
	var group []backlog.Settlement
	var conflicts []int
	for i, m := range meddlings {
		group = append(group, settlement(&records[i], m.outcome))
		switch m.changed {
		case m.read:
			continue
		case gone:
			f.delete(rows[i].Key)
		default:
			f.setState(rows[i].Key, m.changed)
		}
		// The group is settled backwards.
		conflicts = append(conflicts, len(meddlings)-1-i)
	}
	slices.Reverse(group)
	slices.Reverse(conflicts)
	wantConflicts(f, group, f.settle(group...), conflicts...)

	for i, m := range meddlings {
		want := rows[i]
		switch m.changed {
		case gone:
			if _, ok, err := f.h.Row(want.Key); ok || err != nil {
				f.Errorf("record %v, deleted before it was settled: want no row, got one (or an error: %v)", want.Key, err)
			}
			continue
		case m.read:
			want.State = f.settled(m.read, m.outcome)
			want.Attempts, want.LastError = 1, settlement(&records[i], m.outcome).Error
			f.wantRow("a group with conflicts", want)
		default:
			want.State = m.changed
			f.wantRow("a conflict with somebody else's change", want)
		}
	}
}

// testGuardOfTwoFresh: from one fresh status to the other is a change too.
func testGuardOfTwoFresh(f *fixture) {
	rows := []Row{f.row(1, Fresh, 1*time.Minute), f.row(2, AlsoFresh, 2*time.Minute), f.row(3, AlsoFresh, 3*time.Minute)}
	f.insert(rows...)
	records := f.pending(rows...)
	f.setState(rows[0].Key, AlsoFresh)
	f.setState(rows[1].Key, Fresh)
	var group []backlog.Settlement
	for i := range records {
		group = append(group, settlement(&records[i], backlog.Errored))
	}
	wantConflicts(f, group, f.settle(group...), 0, 1)
	f.wantState(&records[0], "a change to the other fresh status", AlsoFresh)
	f.wantState(&records[1], "a change to the other fresh status", Fresh)
	f.wantState(&records[2], "error", Failed)
}

// testGuardOfUnchangedStatus fails records that are failed already. Without
// notes there is nothing to write, and a store that writes nothing need not
// notice that somebody else has changed the row.
func testGuardOfUnchangedStatus(f *fixture) {
	rows := []Row{f.row(1, Failed, time.Minute), f.row(2, Failed, 2*time.Minute)}
	f.insert(rows...)
	records := f.pending(rows...)
	f.setState(records[1].Key, Success)
	changed := f.read(records[1].Key)
	group := []backlog.Settlement{settlement(&records[0], backlog.Errored), settlement(&records[1], backlog.Errored)}
	unsettled := f.settle(group...)
	if f.table.Notes || len(unsettled) > 0 {
		wantConflicts(f, group, unsettled, 1)
	}
	want := rows[0]
	want.Attempts, want.LastError = 1, group[0].Error
	f.wantRow("another error", want)
	f.wantRow("an error, when somebody else had settled it", changed)
}
