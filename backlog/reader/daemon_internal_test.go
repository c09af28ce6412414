package reader

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/checkpoint"
	"backlog/backlog/inspect"
	"backlog/backlog/metrics"
	"backlog/backlog/table"
	"backlog/backlog/table/db"
	"backlog/backlog/table/sqlite"
	"backlog/backlog/watch"
	"backlog/backlog/web"
	"backlog/internal/testkit"
)

// A fakeDaemon writes to the table of a reader.
type fakeDaemon struct {
	view  *View
	leads bool
	woke  time.Time
}

func (d *fakeDaemon) View() *View             { return d.view }
func (d *fakeDaemon) Leads() bool             { return d.leads }
func (d *fakeDaemon) LastWake() time.Time     { return d.woke }
func (d *fakeDaemon) Broker() *metrics.Broker { return nil }

func (d *fakeDaemon) Resolve(context.Context, []backlog.Answer) ([]error, error) {
	return nil, errors.New("no pass resolves")
}

// daemonOf returns a daemon over the reader's table.
func daemonOf(t *testing.T, r *Reader, file string) *fakeDaemon {
	t.Helper()
	d, err := db.Open(t.Context(), sqlite.Dialect, "sqlite:"+file, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	v := &View{Rules: r.currentState().Rules}
	v.Table, err = table.Open(t.Context(), d, v.Mapping, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &fakeDaemon{view: v, woke: time.Now().Add(-time.Minute)}
}

func status(err error) int {
	if p, ok := errors.AsType[*web.Problem](err); ok {
		return p.Status
	}
	return 0
}

// A viewer shows, a standby changes rows but no pause, a leader both.
func TestReaderRoles(t *testing.T) {
	r, file := readerOf(t, twoTiers, row(1, "DEAD", time.Minute, "no route"), row(2, "DEAD", time.Minute, "no route"))
	r.State = &checkpoint.File{Path: filepath.Join(t.TempDir(), "state.json")}
	dead := web.Filter{State: "dead"}
	if _, err := r.Retry(t.Context(), dead, 2); status(err) != http.StatusForbidden {
		t.Errorf("a viewer: %v", err)
	}
	if n := r.Now(); n.Role != web.Viewer || n.Pausing || n.Trouble != nil {
		t.Errorf("a viewer: %+v", n)
	}

	r.SetDaemon(nil, false)
	if n := r.Now(); n.Role != web.Standby || n.Trouble == nil || !n.Trouble.Temporary {
		t.Errorf("waiting for its database: %+v, %+v", n, n.Trouble)
	}

	d := daemonOf(t, r, file)
	r.noteAnswer()
	r.SetDaemon(d, false)
	n := r.Now()
	testkit.Equal(t, "a standby: role", n.Role, web.Standby)
	testkit.Equal(t, "a standby: it can pause", n.Pausing, false)
	testkit.Equal(t, "a standby: trouble", n.Trouble, nil)
	if len(n.Choices) == 0 {
		t.Errorf("a standby: want choices, got none: %+v", n)
	}
	if n.Woke.Equal(d.woke) {
		t.Errorf("a standby: got the last wake of its own loop, %v", d.woke)
	}
	if back := r.LookBack(t.Context()); back.Leader != watch.Elsewhere {
		t.Errorf("a standby looks back at %+v", back)
	}
	if err := r.Pause(new(watch.Pause)); status(err) != http.StatusConflict {
		t.Errorf("a standby pauses: %v", err)
	}

	d.leads = true
	r.SetDaemon(d, true)
	if n := r.Now(); n.Role != web.Leader || !n.Pausing || !n.Woke.Equal(d.woke) {
		t.Errorf("a leader: %+v", n)
	}
	if back := r.LookBack(t.Context()); back.Leader != watch.Here {
		t.Errorf("a leader looks back at %+v", back)
	}
	if err := r.Pause(&watch.Pause{Reason: "x"}); err != nil || r.Now().Pause == nil {
		t.Errorf("a leader pauses: %v, %+v", err, r.Now().Pause)
	}
	if _, err := r.Retry(t.Context(), web.Filter{State: "dead", Band: "beyond"}, 0); err != nil {
		t.Errorf("a retry of nothing: %v", err)
	}
	done, err := r.Retry(t.Context(), dead, 2)
	if err != nil {
		t.Fatalf("a retry: %v", err)
	}
	testkit.Equal(t, "a retry: selected", done.Selected, 2)
	testkit.Equal(t, "a retry: reset", done.Reset, 2)
	testkit.Equal(t, "a retry: conflicts", done.Conflicts, 0)
}

// A leader shows what is counted, and no more of it once it stands by.
func TestReaderCounts(t *testing.T) {
	r, file := readerOf(t, twoTiers, row(1, "NEW", time.Minute, ""), row(2, "ERROR", time.Minute, "no route"))
	d := daemonOf(t, r, file)
	r.SetDaemon(d, true)
	if len(r.wake) != 1 {
		t.Error("a new role is not counted for once")
	}
	if err := r.probe(t.Context(), d.view, time.Now(), true); err != nil {
		t.Fatal(err)
	}
	n := r.Now()
	if n.Counts == nil || n.Rows == nil {
		t.Fatalf("want counts and causes, got %+v and %+v", n.Counts, n.Rows)
	}
	testkit.Equal(t, "pending records", n.Counts.Pending, 2)
	testkit.Equal(t, "failed records", n.Rows.Records, 1)
	testkit.Equal(t, "the error of the count", n.CountErr, "")
	r.noteCount(nil, errors.New("no answer"), true)
	if n := r.Now(); n.CountErr != "no answer" || n.Counts == nil {
		t.Errorf("after a count that failed: %+v, %q", n.Counts, n.CountErr)
	}
	r.SetDaemon(d, false)
	if n := r.Now(); n.Counts != nil || n.Rows != nil || n.CountErr != "" {
		t.Errorf("a standby shows %+v", n.Counts)
	}
}

// A selection that the table does not have is the caller's mistake, with the name of its flag.
func TestViewFilter(t *testing.T) {
	r, file := readerOf(t, twoTiers, row(1, "NEW", time.Minute, ""))
	v := daemonOf(t, r, file).view
	for _, x := range []struct {
		s     Selection
		field string
	}{
		{Selection{}, ""},
		{Selection{State: "failed", Tier: "1h", Cause: "x", OlderThan: time.Hour}, ""},
		{Selection{Tier: inspect.Beyond}, ""},
		{Selection{Limit: -1}, "limit"},
		{Selection{State: "running"}, "state"},
		{Selection{Tier: "2h"}, "tier"},
	} {
		_, err := v.Filter(x.s, inspect.Listed, time.Now())
		wrong, ok := errors.AsType[*Invalid](err)
		if ok != (x.field != "") || ok && wrong.Field != x.field {
			t.Errorf("%+v: %v", x.s, err)
		}
	}
	for _, id := range []string{"1", "7"} {
		if _, err := v.Choose(t.Context(), Selection{IDs: []string{id}}, inspect.Requeued, time.Now()); !errors.As(err, new(notFound)) {
			t.Errorf("a retry of %s: %v", id, err)
		}
	}
	if f, err := v.Choose(t.Context(), Selection{IDs: []string{"1"}}, inspect.Discarded, time.Now()); err != nil || len(f.Keys) != 1 {
		t.Errorf("a discard of 1: %+v, %v", f, err)
	}
	if _, err := v.Row(t.Context(), "x", time.Now()); !errors.As(err, new(*Invalid)) {
		t.Errorf("no key: %v", err)
	}
	if got := v.RequeuedStatuses(); len(got) != 2 || got[0] != "DEAD" || got[1] != "ERROR" {
		t.Errorf("the statuses are %q", got)
	}
}

// A place in a list is one word, from which the list goes on.
func TestPlaces(t *testing.T) {
	c := backlog.Cursor{Segment: 1, Key: backlog.NewKey(int64(7)), Order: "x"}
	word := PlaceOf(c)
	if word == nil {
		t.Fatal("no word")
	}
	got, err := ParsePlace(*word)
	if err != nil {
		t.Fatalf("%q: %v", *word, err)
	}
	testkit.Equal(t, *word, got, c)
	if none, err := ParsePlace(""); err != nil || !none.IsZero() || PlaceOf(none) != nil {
		t.Errorf("no word is %+v, %v", none, err)
	}
	if _, err := ParsePlace("odd"); err == nil {
		t.Error("odd is a place")
	}
}
