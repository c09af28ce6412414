package table_test

import (
	"context"
	"testing"

	"backlog/backlog"
)

// After a commit whose end is not known, a row that has the outcome is ours; one
// that has another status is somebody else's.
func TestSettleAfterLostCommit(t *testing.T) {
	for status, conflicts := range map[string]int{"NEW": 0, "SUCCESS": 0, "CANCELLED": 1} {
		f := orders(t)
		s := f.store(plainMapping())
		records := lane(t, s, backlog.Fresh)
		r := &records[0]
		r.AttemptID = "a"
		s.LoseCommit("a")
		f.exec("UPDATE BACKLOG SET status = '" + status + "'")
		left, err := s.Settle(context.Background(), []backlog.Settlement{{Record: r, Outcome: backlog.Succeeded, At: noon}})
		if err != nil || len(left) != conflicts {
			t.Errorf("%s: %v conflict, %v", status, left, err)
		}
	}
}
