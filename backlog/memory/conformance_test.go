package memory_test

import (
	"fmt"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/backlog/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, want storetest.Table) storetest.Harness {
		return newHarness(want)
	})
}

// statuses are the texts of storetest's statuses.
var statuses = map[storetest.Status]string{
	storetest.Fresh:     "NEW",
	storetest.AlsoFresh: "REQUEUED",
	storetest.Failed:    "ERROR",
	storetest.Success:   "SUCCESS",
	storetest.Dead:      "DEAD",
	storetest.Other:     "ON HOLD",
	storetest.Null:      "",
}

// A harness is a storetest.Harness for a table in memory.
type harness struct {
	table *memory.Store
	store backlog.Store // the table, or something that spoils it
}

func newHarness(want storetest.Table) *harness {
	table := memory.New(options(want))
	return &harness{table: table, store: table}
}

func options(want storetest.Table) memory.Options {
	o := memory.Options{ErrorKeep: want.ErrorKeep, NullDate: string(want.NoDate), Policy: want.Policy}
	if want.Refresh {
		o.Policy = &backlog.Policy{Refresher: struct{ backlog.Refresher }{}} // the suite plans the starts
	}
	if want.TwoFresh {
		o.New = []string{statuses[storetest.Fresh], statuses[storetest.AlsoFresh]}
	}
	if want.Dead {
		o.Dead = statuses[storetest.Dead]
	}
	return o
}

func (h *harness) Store() backlog.Store           { return h.store }
func (h *harness) Open() (backlog.Store, error)   { return h.store, nil }
func (h *harness) Precision() time.Duration       { return time.Microsecond } // as databases have it
func (h *harness) Text(s storetest.Status) string { return statuses[s] }

func (h *harness) Insert(rows ...storetest.Row) error {
	var list []memory.Row
	for _, r := range rows {
		list = append(list, memory.Row{
			Key:       r.Key,
			Status:    statuses[r.Status],
			Inserted:  r.Inserted,
			Eligible:  r.Eligible,
			Expires:   r.Expires,
			Columns:   map[string]any{"amount": r.Amount, "note": r.Note, "payload": r.Payload},
			Attempts:  r.Attempts,
			LastError: r.LastError,
			Failures:  r.Failures,
			InRetry:   r.InRetry,
			Refresh:   r.Refresh,
		})
	}
	return h.table.Insert(list...)
}

func (h *harness) Row(k backlog.Key) (storetest.Row, bool, error) {
	r, ok := h.table.Row(k)
	if !ok {
		return storetest.Row{}, false, nil
	}
	row := storetest.Row{
		Key:       r.Key,
		Inserted:  r.Inserted,
		Eligible:  r.Eligible,
		Expires:   r.Expires,
		Amount:    r.Columns["amount"],
		Note:      r.Columns["note"],
		Payload:   r.Columns["payload"],
		Attempts:  r.Attempts,
		LastError: r.LastError,
		Failures:  r.Failures,
		InRetry:   r.InRetry,
		Refresh:   r.Refresh,
	}
	for status, text := range statuses {
		if text == r.Status {
			row.Status = status
			return row, true, nil
		}
	}
	return row, true, fmt.Errorf("row %v has the unknown status %q", k, r.Status)
}

// SetRefresh implements storetest.Refreshing.
func (h *harness) SetRefresh(k backlog.Key, to backlog.Refresh) error {
	if !h.table.SetRefresh(k, to) {
		return fmt.Errorf("no row %v", k)
	}
	return nil
}

func (h *harness) SetStatus(k backlog.Key, s storetest.Status) error {
	if !h.table.SetStatus(k, statuses[s]) {
		return fmt.Errorf("no row %v", k)
	}
	return nil
}

func (h *harness) Delete(keys ...backlog.Key) error {
	for _, k := range keys {
		h.table.Delete(k)
	}
	return nil
}
