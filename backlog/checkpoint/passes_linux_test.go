package checkpoint_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"backlog/backlog/checkpoint"
)

// A file that another account has made, such as root at a shell, is replaced: the folder is
// the daemon's.
func TestPassesOfAnotherAccount(t *testing.T) {
	f := &checkpoint.File{Path: filepath.Join(t.TempDir(), "state.json")}
	path := filepath.Join(filepath.Dir(f.Path), "state-passes.jsonl")
	err := errors.Join(f.AddPass(aPass(1)), os.Chmod(path, 0o444))
	if os.Geteuid() == 0 { // who may write whatever the mode says
		const other = 65534
		runtime.LockOSThread() // and ends with this goroutine
		t.Cleanup(func() { _ = syscall.Setfsuid(0) })
		err = errors.Join(err, os.Chown(filepath.Dir(path), other, other), os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755), syscall.Setfsuid(other))
	}
	if err = errors.Join(err, f.AddPass(aPass(2))); err != nil {
		t.Fatal(err)
	}
	if list, err := f.Passes(); err != nil || len(list) != 2 || list[1].Selected != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Passes(); !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), path) {
		t.Errorf("reading what may not be read: %v", err)
	}
	if err := f.AddPass(aPass(3)); !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), path+" was replaced") {
		t.Errorf("what may not be read: %v", err)
	}
	if list, err := f.Passes(); err != nil || len(list) != 1 || list[0].Selected != 3 {
		t.Errorf("%+v, %v", list, err)
	}
}
