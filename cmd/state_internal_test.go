package cmd

import (
	"path/filepath"
	"strconv"
	"sync"
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
			s := &stateFile{path: path, patience: time.Minute}
			for u := range updates {
				err := s.Update(func(s *backlog.State) { s.Unfinished = append(s.Unfinished, strconv.Itoa(p*updates+u)) })
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	s, err := (&stateFile{path: path}).Load()
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
	s := &stateFile{path: path}
	if err := s.Update(func(s *backlog.State) { s.LastWake = began }); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < lockPatience {
		t.Errorf("the lock was waited for only %v", took)
	}
	if s, err := s.Load(); err != nil || !s.LastWake.Equal(began) {
		t.Errorf("kept is %v, %v", s, err)
	}
}
