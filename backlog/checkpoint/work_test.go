package checkpoint_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/checkpoint"
	"backlog/internal/testkit"
	"backlog/tiers"
)

// The ticks of a state are another configuration's while that one works, and no longer
// than it takes to see that it does not.
func TestRivalry(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "mail.yaml")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	work := func(where, file, text string) checkpoint.Work {
		return checkpoint.Work{Config: file, Used: now, Marks: []backlog.Mark{{What: "where", Digest: where}, {What: backlog.MarkFile, Digest: file}, {What: backlog.MarkText, Digest: text}}}
	}
	mine := work("sms", filepath.Join(dir, "sms.yaml"), "v1")
	daemon := work("mail", there, "v1")
	daemon.Daemon = true
	cron := work("mail", there, "v1")
	cron.Until = now.Add(time.Minute)
	ended := work("mail", there, "v1")
	ended.Until = now.Add(-time.Second)
	gone := work("mail", filepath.Join(dir, "gone.yaml"), "v1")
	gone.Until = cron.Until
	edited := work("mail", mine.Config, "v0")
	edited.Until = cron.Until
	variable := work("mail", mine.Config, "v1")
	variable.Until = cron.Until
	alike := work("sms", there, "v2")
	alike.Until = cron.Until
	if err := os.WriteFile(mine.Config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		other *checkpoint.Work
		leads bool
		want  string // "": no rivalry
	}{
		{"none yet", nil, false, ""},
		{"a daemon that leads", &daemon, true, "mail.yaml, which differs in: where; its daemon is running"},
		{"a daemon that has ended", &daemon, false, ""},
		{"started again and again", &cron, false, "mail.yaml, which differs in: where; it last started at 2026-03-01 12:00:00 UTC, and the ticks are its own until 2026-03-01 12:01:00 UTC"},
		{"not started any more", &ended, false, ""},
		{"its file is gone", &gone, false, ""},
		{"the same file, edited", &edited, false, ""},
		{"the same file with another variable", &variable, false, "sms.yaml, which"},
		{"the same work in another file", &alike, false, ""},
	} {
		s := checkpoint.State{Work: c.other}
		r := s.Rivalry(mine, c.leads, now)
		switch {
		case r == nil && c.want == "":
		case r == nil || c.want == "" || !strings.Contains(r.String(), c.want) || !strings.Contains(r.String(), "differs in: where"):
			t.Errorf("%s: got %v, want %q", c.name, r, c.want)
		}
	}
}

// A work is waited for until it has missed a tick, and for ten minutes at least.
func TestReturn(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 1, 0, time.UTC)
	for every, want := range map[time.Duration]time.Time{
		2 * time.Second: now.Add(10 * time.Minute),
		time.Hour:       now.Truncate(time.Hour).Add(2 * time.Hour),
	} {
		s := testkit.Schedule(t, tiers.Tier{Name: "1d", MaxAge: 24 * time.Hour, Every: every})
		if got := checkpoint.RestartBy(s, now); !got.Equal(want) {
			t.Errorf("every %v: %v, want %v", every, got, want)
		}
	}
}

// Each name has a state of its own, and no table's is another's.
func TestNameOfAWork(t *testing.T) {
	seen := make(map[string]bool)
	for _, x := range [][2]string{{"job", ""}, {"job", "mail"}, {"job", "sms"}, {"job-mail", ""}, {"job-mail", "sms"}, {"job", "mail-sms"}} {
		name := checkpoint.Name("sqlite:shop.db", "", x[0], x[1])
		if seen[name] {
			t.Errorf("%v: %s is another's, too", x, name)
		}
		seen[name] = true
	}
}

// Ticks are taken from no other configuration, unless it is to be replaced.
func TestTakeTicks(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	work := func(where string) checkpoint.Work {
		file := filepath.Join(dir, where+".yaml")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		marks := []backlog.Mark{backlog.NewMark("where", where), backlog.NewMark(backlog.MarkFile, file)}
		return checkpoint.Work{Config: file, Marks: marks, Used: now, Until: now.Add(time.Hour)}
	}
	f := &checkpoint.File{Path: filepath.Join(dir, "state.json")}
	mail, sms := work("mail"), work("sms")
	was, rivalry, err := f.ClaimTicks(mail, false, now)
	if was != nil || rivalry != nil || err != nil {
		t.Errorf("of nothing: got %+v, rivalry %v, error %v, want none of them", was, rivalry, err)
	}
	if differs := was.Differs(mail); differs != nil {
		t.Errorf("nothing differs from mail in %q", differs)
	}
	was, rivalry, err = f.ClaimTicks(mail, false, now)
	if rivalry != nil || err != nil {
		t.Errorf("again: got rivalry %v, error %v, want neither", rivalry, err)
	}
	if was == nil {
		t.Fatal("again: the state is without what it was kept for")
	}
	if differs := was.Differs(mail); differs != nil {
		t.Errorf("again: what was kept differs in %q", differs)
	}
	_, rivalry, err = f.ClaimTicks(sms, false, now)
	if kept, _ := f.State(); rivalry == nil || err != nil || kept.Work.Config != mail.Config {
		t.Errorf("another's: %v, %v, kept for %+v", rivalry, err, kept.Work)
	}
	was, rivalry, err = f.ClaimTicks(sms, true, now)
	if rivalry != nil || err != nil {
		t.Errorf("replaced: got rivalry %v, error %v, want neither", rivalry, err)
	}
	kept, _ := f.State()
	testkit.Equal(t, "replaced: it is kept for", kept.Work.Config, sms.Config)
	if differs := was.Differs(sms); !slices.Contains(differs, "where") {
		t.Errorf("replaced: what was kept before differs in %q, want where among them", differs)
	}
}
