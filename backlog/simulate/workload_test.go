package simulate_test

import (
	"testing"
	"unsafe"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/simulate"
)

// A workload keeps up to 20 million records, and all pending rows of a table.
func TestRecordIsSmall(t *testing.T) {
	const most = 96
	if size := unsafe.Sizeof(simulate.Record{}); size > most {
		t.Errorf("a record takes %d bytes, more than %d", size, most)
	}
}

// Rows without a memory, as without a policy, take no room for one.
func TestRowsWithoutMemory(t *testing.T) {
	var w simulate.Workload
	kept := &backlog.Memory{Failures: 2}
	err := w.ReadRows(func(add func(inspect.Row)) error {
		for _, memory := range []*backlog.Memory{nil, kept} {
			var row inspect.Row
			row.Inserted = w.From.AddDate(2025, 0, 0)
			row.Memory = memory
			add(row)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if w.Records[0].Memory != nil || w.Records[1].Memory != kept {
		t.Errorf("the memories are %v and %v", w.Records[0].Memory, w.Records[1].Memory)
	}
}
