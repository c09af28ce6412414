package reader

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
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

// A state folder that cannot be written is logged, also if a count is the first to find it so.
func TestCountThatCannotBeKept(t *testing.T) {
	r, file := readerOf(t, twoTiers, row(1, "NEW", time.Minute, ""))
	folder := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.State = &checkpoint.File{Path: filepath.Join(folder, "state.json"), Table: "t"}
	var log bytes.Buffer
	r.Log = slog.New(slog.NewTextHandler(&log, nil))
	r.SetDaemon(daemonOf(t, r, file), true)
	for range 2 {
		if err := r.countForHour(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "the count cannot be kept"); n != 1 {
		t.Errorf("logged %d times, want once: %s", n, log.String())
	}
}
