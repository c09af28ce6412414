package table_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"backlog/backlog"
	"backlog/backlog/table"
)

// TestUndone: one row that a trigger leaves as it was is a matter of that row
// where others have kept what was written, until ten in a row have not.
func TestUndone(t *testing.T) {
	f := newFile(t, "CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT)")
	for i := range 14 {
		f.exec(fmt.Sprintf("INSERT INTO BACKLOG VALUES (%d, 'NEW', '2026-02-10 11:00:00')", i+1))
	}
	f.exec("CREATE TRIGGER guard AFTER UPDATE OF status ON BACKLOG WHEN new.id < 13 BEGIN UPDATE BACKLOG SET status = old.status WHERE id = old.id; END")
	settled := func(s *table.Table, r backlog.Record) error {
		left, err := s.Settle(context.Background(), []backlog.Settlement{{Record: &r, At: noon}})
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			return nil
		}
		return left[0].Err
	}
	used := f.store(plainMapping())
	records := lane(t, used, backlog.Fresh)
	wantKeys(t, "fresh lane", records, "14 13 12 11 10 9 8 7 6 5 4 3 2 1")
	for i, r := range records {
		err := settled(used, r)
		if kept := i < 2; kept != (err == nil) || errors.Is(err, backlog.ErrConflict) || table.IsUndone(err) != (i >= 11) {
			t.Errorf("record %v: got %v, undone %v", r.Key, err, table.IsUndone(err))
		}
	}
	if err := settled(f.store(plainMapping()), records[5]); !table.IsUndone(err) {
		t.Errorf("the first row of all: got %v", err)
	}
	f.exec("DROP TRIGGER guard")
	if err := settled(used, records[5]); err != nil {
		t.Error(err)
	}
	f.wantRows("SELECT id FROM BACKLOG WHERE status = 'SUCCESS'", "9", "13", "14")
}
