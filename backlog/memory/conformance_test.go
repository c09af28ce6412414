package memory_test

import (
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/backlog/storetest"
)

func TestStore(t *testing.T) {
	storetest.RunWhole(t, func(t *testing.T, want storetest.Table) storetest.Harness { return newHarness(want) })
}

// A harness is a storetest.Harness for a table in memory.
type harness struct {
	table *memory.Store
	store backlog.Store // the table, or something that spoils it
}

func newHarness(want storetest.Table) *harness {
	table := memory.New(want.Options())
	return &harness{table: table, store: table}
}

func (h *harness) Store() backlog.Store               { return h.store }
func (h *harness) Open() (backlog.Store, error)       { return h.store, nil }
func (h *harness) Precision() time.Duration           { return time.Microsecond } // as databases have it
func (h *harness) Insert(rows ...storetest.Row) error { return h.table.Insert(rows...) }
func (h *harness) Update(row storetest.Row) error     { replace(h.table, row); return nil }

func (h *harness) Rows() ([]storetest.Row, error) { return h.table.Rows(), nil }

func (h *harness) Row(k backlog.Key) (storetest.Row, bool, error) {
	row, ok := h.table.Row(k)
	return row, ok, nil
}

func (h *harness) Delete(keys ...backlog.Key) error {
	for _, k := range keys {
		h.table.Delete(k)
	}
	return nil
}
