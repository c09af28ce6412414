package table_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/internal/testkit"
)

// After a commit whose end is not known, a row that has the outcome is ours; one
// that has another status is somebody else's.
func TestSettleAfterLostCommit(t *testing.T) {
	for status, conflicts := range map[string]int{"NEW": 0, "SUCCESS": 0, "CANCELLED": 1} {
		f := orders(t)
		s := f.store(plainMapping())
		records := lane(t, s, backlog.Fresh)
		r := &records[0]
		r.Unsure = true
		f.exec("UPDATE BACKLOG SET status = '" + status + "'")
		left, err := s.Settle(context.Background(), []backlog.Settlement{{Record: r, Target: backlog.RowSuccess, At: noon}})
		if err != nil || len(left) != conflicts {
			t.Errorf("%s: %v conflict, %v", status, left, err)
		}
	}
}

// A failure that is written again after such a commit is counted once, also in
// the column of the attempts, and not taken for one that somebody else has added.
func TestFailureAfterLostCommit(t *testing.T) {
	for _, was := range []bool{false, true} { // the commit has written it
		f := newFile(t, fmt.Sprintf(usualTable, "INTEGER"))
		f.exec("ALTER TABLE BACKLOG ADD attempts INTEGER DEFAULT 0")
		m := retryMapping(fibonacci())
		m.Attempts = "attempts"
		s := f.store(m)
		form := timeForms[4]
		f.exec("INSERT INTO BACKLOG VALUES (1, 'ERROR', ?, 1, ?, NULL, 0, 1)", form.write(noon.Add(-time.Hour)), form.write(noon.Add(-10*time.Minute)))
		records := lane(t, s, backlog.Failed)
		wantKeys(t, "failed lane", records, "1")
		group := []backlog.Settlement{{Record: &records[0], Target: backlog.RowError, At: noon, Memory: &backlog.Memory{Failures: 2, LastFailure: noon}}}
		settle := func() {
			if left, err := s.Settle(context.Background(), group); err != nil || len(left) > 0 {
				t.Errorf("left are %v, %v", left, err)
			}
		}
		if was {
			settle()
		}
		records[0].Unsure = true
		settle()
		f.wantRows("SELECT failures, attempts FROM BACKLOG", "2 2")
	}
}

// An outcome that writes nothing is a conflict, too, where somebody has changed
// the row since it was read.
func TestOutcomeThatWritesNothing(t *testing.T) {
	for _, status := range []string{"ERROR", "NEW"} {
		f := newFile(t, `CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT);
			INSERT INTO BACKLOG VALUES (1, 'ERROR', '2026-02-10 11:00:00'), (2, 'ERROR', '2026-02-10 10:00:00')`)
		s := f.store(plainMapping())
		var group []backlog.Settlement
		records := lane(t, s, backlog.Failed)
		for i := range records {
			group = append(group, backlog.Settlement{Record: &records[i], Target: backlog.RowError, At: noon})
		}
		f.exec("UPDATE BACKLOG SET status = '" + status + "' WHERE id = 2")
		left, err := s.Settle(context.Background(), group)
		if err != nil {
			t.Errorf("%s: %v", status, err)
		}
		if status == "ERROR" { // as it was
			testkit.Equal(t, "left of unchanged rows", len(left), 0)
			continue
		}
		if len(left) != 1 {
			t.Fatalf("%s: got %v, want one conflict", status, left)
		}
		testkit.Equal(t, "place of the conflict", left[0].Index, 1)
		if !errors.Is(left[0].Err, backlog.ErrConflict) {
			t.Errorf("%s: got %v, want a conflict", status, left[0].Err)
		}
	}
}
