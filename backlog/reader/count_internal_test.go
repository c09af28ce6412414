package reader

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"backlog/backlog/checkpoint"
	"backlog/internal/testkit"
)

// A leading daemon keeps a count of each hour, with and without pages; a standby and a viewer keep none.
func TestCountsAreKept(t *testing.T) {
	r, file := readerOf(t, twoTiers, row(1, "NEW", time.Minute, ""), row(2, "ERROR", time.Minute, "no route"))
	r.State = &checkpoint.File{Path: filepath.Join(t.TempDir(), "state.json"), Table: "t"}
	now := time.Now()
	r.Clock = func() time.Time { return now }
	d := daemonOf(t, r, file)
	kept := func() string {
		timeline := r.Timeline()
		if timeline == nil {
			return "nothing"
		}
		last := timeline.Hours[23]
		if last.Pending == nil {
			return "none this hour"
		}
		return fmt.Sprint(*last.Pending, " ", *last.Failed)
	}
	count := func(leads bool, served bool) {
		t.Helper()
		r.SetDaemon(d, leads)
		err := r.countForHour(t.Context())
		if served {
			err = r.probe(t.Context(), d.view, now, true)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	count(false, false)
	count(false, true)
	testkit.Equal(t, "of a standby", kept(), "nothing")
	count(true, false)
	testkit.Equal(t, "without pages", kept(), "2 1")
	now = now.Add(time.Hour)
	testkit.Equal(t, "of the next hour", kept(), "none this hour")
	count(true, true)
	testkit.Equal(t, "with pages", kept(), "2 1")

	now = now.Add(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.countForHour(ctx); err == nil {
		t.Error("a count that fails is no error")
	}
	testkit.Equal(t, "after a failed count", kept(), "none this hour")
}
