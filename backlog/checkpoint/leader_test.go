package checkpoint_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/checkpoint"
	"backlog/backlog/inspect"
	"backlog/backlog/watch"
)

// TestLeads has a file that a process has the lock of, with what it says of its life.
func TestLeads(t *testing.T) {
	now := time.Date(2026, 7, 14, 12, 0, 0, 0, time.UTC)
	began := func(ago time.Duration) *watch.Daemon {
		return &watch.Daemon{PID: 1, Since: inspect.Stamp(now.Add(-ago))}
	}
	tests := []struct {
		what   string
		daemon *watch.Daemon
		awake  time.Duration // this long ago
		locked bool
		leads  bool
	}{
		{"awake", began(time.Hour), time.Second, true, true},
		{"just begun, after another's life", began(time.Second), time.Hour, true, true},
		{"asleep for long", began(time.Hour), 2 * time.Minute, true, false},
		{"killed", began(time.Hour), time.Second, false, false},
		{"stopped", nil, time.Second, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			f := &checkpoint.File{Path: filepath.Join(t.TempDir(), "state.json")}
			stop := f.MarkLeader()
			defer func() { stop() }()
			if !tt.locked {
				stop()
			}
			s := checkpoint.State{Daemon: tt.daemon}
			s.LastWake = now.Add(-tt.awake)
			if leads := f.HasLeader(s, now); leads != tt.leads {
				t.Errorf("leads: %v, want %v", leads, tt.leads)
			}
		})
	}
}

// A state that has been returned is the caller's: other passes go on changing the one in memory.
func TestStateIsTheCallers(t *testing.T) {
	f := new(checkpoint.File)
	update := func(change func(*backlog.Checkpoint)) {
		if err := f.Update(change); err != nil {
			t.Fatal(err)
		}
	}
	resume := backlog.Resume{TurnFailed: true}
	update(func(c *backlog.Checkpoint) {
		c.Owe("1d", "2d")
		c.Note(backlog.Report{Tier: "1d", Resume: resume})
	})
	kept, err := f.Load()
	if err != nil {
		t.Fatal(err)
	}
	update(func(c *backlog.Checkpoint) {
		c.Taken(map[string]bool{"1d": true})
		c.Note(backlog.Report{Tier: "2d", Resume: resume})
	})
	if len(kept.Resume) != 1 || !slices.Equal(kept.Unfinished, []string{"1d", "2d"}) {
		t.Errorf("it has become %+v", kept)
	}
}
