package checkpoint_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/checkpoint"
)

// A lost is a server that has let go of the lock of whoever had it before.
type lost struct{}

func (lost) TryLock(context.Context, string) (backlog.Lock, error) { return lost{}, nil }
func (lost) Check(context.Context) error                           { return nil }
func (lost) Unlock() error                                         { return nil }

// Who has lost the server's lock keeps the next one waiting on this machine until its
// passes have ended. The leader's lock is the server's alone.
func TestRunLocker(t *testing.T) {
	f := checkpoint.File{Path: filepath.Join(t.TempDir(), "state", "a.json")}
	old, err := f.RunLocker(lost{}).TryLock(t.Context(), backlog.RunLock)
	if err != nil {
		t.Fatal(err)
	}
	next := f.RunLocker(lost{})
	if _, err := next.TryLock(t.Context(), backlog.LeaderLock); err != nil {
		t.Errorf("the leader's lock: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := next.TryLock(ctx, backlog.RunLock); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("beside the old one: %v", err)
	}
	time.AfterFunc(50*time.Millisecond, func() { old.Unlock() })
	start := time.Now()
	lock, err := next.TryLock(t.Context(), backlog.RunLock)
	if took := time.Since(start); err != nil || took < 50*time.Millisecond || took >= backlog.TakeOverAfter {
		t.Fatalf("after the old one: %v, in %v", err, took)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
}
