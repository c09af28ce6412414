package checkpoint_test

import (
	"path/filepath"
	"testing"
	"time"

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
			stop := f.Lead()
			defer func() { stop() }()
			if !tt.locked {
				stop()
			}
			s := checkpoint.State{Daemon: tt.daemon}
			s.LastWake = now.Add(-tt.awake)
			if leads := f.Leads(s, now); leads != tt.leads {
				t.Errorf("leads: %v, want %v", leads, tt.leads)
			}
		})
	}
}
