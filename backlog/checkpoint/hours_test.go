package checkpoint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"backlog/backlog/advise"
	"backlog/backlog/checkpoint"
	"backlog/backlog/inspect"
	"backlog/backlog/watch"
	"backlog/internal/testkit"
)

var noon = time.Date(2026, 1, 20, 12, 30, 0, 0, time.UTC)

// lastHours returns the last hours of the timeline as passes, successes, pending records and seconds of outage.
func lastHours(t *testing.T, f *checkpoint.File, now time.Time, n int) (list []string) {
	t.Helper()
	timeline := f.Timeline(now, time.UTC)
	if timeline == nil {
		return []string{"nothing"}
	}
	for _, s := range timeline.Hours[len(timeline.Hours)-n:] {
		pending := "-"
		if s.Pending != nil {
			pending = fmt.Sprint(*s.Pending)
		}
		list = append(list, fmt.Sprint(s.Passes, " ", s.Succeeded(), " ", pending, " ", s.Outage))
	}
	return list
}

// startedPass returns a pass of a table with successes.
func startedPass(table string, at time.Time, succeeded int) watch.Pass {
	p := aPass(succeeded)
	p.MaxAge = 60
	p.Table = table
	p.Started = inspect.Stamp(at)
	p.Succeeded = succeeded
	return p
}

// Passes, counts and outages of a table are seen by the process that has written them and by others, also after the
// file was folded or removed.
func TestTimeline(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	f := &checkpoint.File{Path: path, Table: "t-1"}
	other := &checkpoint.File{Path: path, Table: "t-2"}
	check := func(what string, want ...string) {
		t.Helper()
		testkit.Equal(t, what, fmt.Sprint(lastHours(t, f, noon, 2)), fmt.Sprint(want))
		testkit.Equal(t, what+", in another process", fmt.Sprint(lastHours(t, &checkpoint.File{Path: path, Table: "t-1"}, noon, 2)), fmt.Sprint(want))
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check("nothing", "nothing")
	must(f.AddPass(startedPass("t-1", noon.Add(-time.Hour), 2)))
	must(f.AddCount(noon.Add(-time.Hour), advise.Counted{Pending: 7}))
	must(f.AddCount(noon.Add(-59*time.Minute), advise.Counted{Pending: 8})) // the hour has one
	must(f.AddOutage(watch.Outage{Since: noon.Add(-time.Hour)}, noon.Add(-50*time.Minute)))
	check("an hour ago", "1 2 7 600", "0 0 - 0")
	must(f.AddPass(startedPass("t-1", noon, 3)))
	must(other.AddPass(startedPass("t-2", noon, 100)))
	must(other.AddCount(noon, advise.Counted{Pending: 100}))
	check("now", "1 2 7 600", "1 3 - 0")
	must(f.Change(func(s *checkpoint.State) { s.Outage = &watch.Outage{Since: noon.Add(-time.Minute)} }))
	check("in an outage", "1 2 7 600", "1 3 - 60")

	passes := filepath.Join(filepath.Dir(path), "state-passes.jsonl")
	must(os.Truncate(passes, 40<<20)) // the rest is one long line without an end
	must(f.AddPass(startedPass("t-1", noon, 4)))
	check("folded", "1 2 7 600", "2 7 - 60")
	must(os.Remove(passes))
	check("removed", "0 0 - 0", "0 0 - 60")
}

// A line that is still being written, or was cut by kill -9, is not seen, and those after it are.
func TestTimelineIsCut(t *testing.T) {
	f := &checkpoint.File{Path: filepath.Join(t.TempDir(), "state.json"), Table: "t-1"}
	path := filepath.Join(filepath.Dir(f.Path), "state-passes.jsonl")
	if err := f.AddPass(startedPass("t-1", noon, 2)); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) {
		if err := os.WriteFile(path, append(whole, whole[:cut]...), 0o644); err != nil {
			t.Fatal(err)
		}
		testkit.Equal(t, fmt.Sprintf("cut at %d", cut), lastHours(t, f, noon, 1)[0], "1 2 - 0")
		if err := f.AddPass(startedPass("t-1", noon, 5)); err != nil {
			t.Fatal(err)
		}
		want := "2 7 - 0"
		if cut == len(whole)-1 { // only the newline was missing
			want = "3 9 - 0"
		}
		testkit.Equal(t, fmt.Sprintf("cut at %d, then one added", cut), lastHours(t, f, noon, 1)[0], want)
	}
}

// A process that has begun under a clock that was ahead sees all hours once the clock is right.
func TestTimelineAfterClockSetBack(t *testing.T) {
	f := &checkpoint.File{Path: filepath.Join(t.TempDir(), "state.json"), Table: "t-1"}
	if err := f.AddPass(startedPass("t-1", noon, 2)); err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "a year ahead", lastHours(t, f, noon.AddDate(1, 0, 0), 1)[0], "nothing")
	testkit.Equal(t, "set back", lastHours(t, f, noon, 1)[0], "1 2 - 0")
}
