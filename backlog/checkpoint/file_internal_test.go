package checkpoint

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"backlog/backlog"
)

// Several processes that keep their states in one file do not undo each other's
// updates. Locks of files are between open files, so that values stand for
// processes.
func TestStateFileIsShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "not", "yet", "state.json")
	const processes, updates = 6, 25 // one of them may be unlucky for long
	var all sync.WaitGroup
	for p := range processes {
		all.Go(func() {
			s := &File{Path: path, patience: time.Minute}
			for u := range updates {
				err := s.Update(func(s *backlog.Checkpoint) { s.Unfinished = append(s.Unfinished, strconv.Itoa(p*updates+u)) })
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	s, err := (&File{Path: path}).Load()
	if err != nil {
		t.Fatal(err)
	}
	kept := make(map[string]bool)
	for _, name := range s.Unfinished {
		kept[name] = true
	}
	if len(kept) != processes*updates {
		t.Errorf("%d of %d updates are kept", len(kept), processes*updates)
	}
}

// A lock that is never let go of, or cannot be had, is no reason not to keep
// the state.
func TestStateFileWithoutLock(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	other := flock.New(path + ".lock")
	if ok, err := other.TryLock(); !ok {
		t.Fatal(err)
	}
	defer other.Close()
	began := time.Now()
	s := &File{Path: path}
	if err := s.Update(func(s *backlog.Checkpoint) { s.LastWake = began }); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < lockPatience {
		t.Errorf("the lock was waited for only %v", took)
	}
	if s, err := s.Load(); err != nil || !s.LastWake.Equal(began) {
		t.Errorf("kept is %v, %v", s, err)
	}
}

// Whatever lies in the file's place is not waited for and does not fill memory:
// Load says what is wrong, and the next update puts a file there.
func TestNotAStateFile(t *testing.T) {
	for _, x := range []struct {
		name string
		make func(path string) error
		want string
	}{
		{"endless device", func(path string) error { return os.Symlink("/dev/zero", path) }, "it is not a regular file"},
		{"FIFO that nobody writes to", func(path string) error { return syscall.Mkfifo(path, 0o644) }, "it is not a regular file"},
		{"1 GB", func(path string) error {
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				return err
			}
			return os.Truncate(path, 1<<30)
		}, "it has more than 1048576 bytes"},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := &File{Path: filepath.Join(t.TempDir(), "state.json")}
			if err := x.make(f.Path); err != nil {
				t.Fatal(err)
			}
			want := f.Path + " is not a state file and will be replaced: " + x.want
			if _, err := f.Load(); err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
			woke := time.Now()
			if err := f.Update(func(s *backlog.Checkpoint) { s.LastWake = woke }); err != nil {
				t.Fatal(err)
			}
			if s, err := (&File{Path: f.Path}).Load(); err != nil || !s.LastWake.Equal(woke) {
				t.Errorf("kept is %v, %v", s, err)
			}
		})
	}
}

// A rename is in the folder, which has to be on the disk as well: without that a power loss
// brings an older wake back.
func TestFolderIsSyncedAfterTheRename(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	var synced []string
	whole := syncFolder
	t.Cleanup(func() { syncFolder = whole })
	syncFolder = func(dir string) error {
		content, _ := os.ReadFile(path)
		synced = append(synced, dir+" "+string(content))
		return whole(dir)
	}
	s := &File{Path: path}
	if err := s.Update(func(s *backlog.Checkpoint) { s.Owe("7d") }); err != nil {
		t.Fatal(err)
	}
	if len(synced) != 1 || !strings.HasPrefix(synced[0], filepath.Dir(path)+" ") || !strings.Contains(synced[0], `"7d"`) {
		t.Errorf("want the folder synced with the new file in it, got %q", synced)
	}
	if err := whole(filepath.Dir(path)); err != nil {
		t.Errorf("want a folder that can be synced, got %v", err)
	}
}

// A new state folder is for this account alone. It is in the one above, which has to be on the disk as well.
func TestNewFolderIsSynced(t *testing.T) {
	dir := t.TempDir()
	var synced []string
	whole := syncFolder
	t.Cleanup(func() { syncFolder = whole })
	syncFolder = func(dir string) error {
		synced = append(synced, dir)
		return whole(dir)
	}
	s := &File{Path: filepath.Join(dir, "state", "backlog", "state.json")}
	for range 2 { // the second time there is nothing new
		if err := s.Update(func(s *backlog.Checkpoint) { s.Owe("7d") }); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{filepath.Join(dir, "state"), dir, filepath.Join(dir, "state", "backlog")}
	if !slices.Equal(synced, want) {
		t.Errorf("want the folders %q synced, got %q", want, synced)
	}
	for _, made := range []string{want[0], want[2]} {
		info, err := os.Stat(made)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v, want it closed to other accounts", made, info.Mode(), err)
		}
	}
}
