// Package handlertest has helpers for the tests of several handlers: scripts, a record, and checks that a
// program has ended.
package handlertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/internal/testkit"
)

// Script writes a shell script and returns its path.
func Script(t testing.TB, body string) string {
	t.Helper()
	return File(t, t.TempDir(), "script.sh", "#!/bin/sh\n"+body, 0o755)
}

// File writes a file and returns its path.
func File(t testing.TB, dir, name, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// Exist reports whether all of the files are in the folder.
func Exist(dir string, names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err != nil
	})
}

// NewRecord returns a record with the key 7.
func NewRecord() *backlog.Record {
	return &backlog.Record{Key: backlog.NewKey(int64(7)), Status: "NEW", Names: []string{"id"}, Values: []any{int64(7)}}
}

// WantError fails the test unless err has the text and is of the outcome.
func WantError(t testing.TB, err error, text string, outcome backlog.Outcome) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != text {
		t.Errorf("error %q, want %q", got, text)
	}
	if o := backlog.OutcomeOf(err); o != outcome {
		t.Errorf("outcome %v, want %v", o, outcome)
	}
}

// Log returns a logger for a handler, and a function that returns the last logged exchange.
func Log(level slog.Level) (log *slog.Logger, exchange func() (sent, got string)) {
	var b bytes.Buffer
	return slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: level})), func() (sent, got string) {
		var line struct{ Msg, Sent, Got string }
		for d := json.NewDecoder(&b); d.Decode(&line) == nil; {
			if line.Msg == "exchange" {
				sent, got = line.Sent, line.Got
			}
		}
		return sent, got
	}
}

// KillPass starts a pass over one record. When ready says so, it kills the handler as a second signal does. The
// test fails unless the pass then ends.
func KillPass(t testing.TB, h backlog.Handler, ready func() bool) {
	t.Helper()
	store := memory.New(memory.Options{NullDate: "newest"})
	if err := store.Insert(memory.Row{Key: backlog.NewKey(int64(7)), Status: "NEW", Columns: map[string]any{"id": int64(7)}}); err != nil {
		t.Fatal(err)
	}
	hard := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		defer close(hard)
		for !ready() {
			time.Sleep(time.Millisecond)
		}
		stop()
	}()
	e := &backlog.Engine{Store: store, Handler: h, Hard: hard}
	if _, err := e.Pass(ctx, backlog.Pass{Tier: "1d", MaxAge: time.Hour}); err != nil {
		t.Error(err)
	}
}

// PidIn returns the number in a file.
func PidIn(t testing.TB, path string) (pid int) {
	t.Helper()
	if _, err := fmt.Sscan(testkit.ReadFile(t, path), &pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

// HasExited reports whether the process has ended. It may still be a zombie.
func HasExited(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil || errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err == nil && strings.HasPrefix(state, "Z")
}

// IgnoringTERM returns a command that writes its process number to the file name and then ignores SIGTERM.
func IgnoringTERM(name string) string {
	return fmt.Sprintf(`sh -c 'trap "" TERM; echo $$ >tmp-%[1]s; mv tmp-%[1]s %[1]s; exec sleep 1000'`, name)
}

// OpenFiles returns how many files this process has open.
func OpenFiles(t testing.TB) int {
	t.Helper()
	if r, w, err := os.Pipe(); err == nil { // the first pipe makes the runtime open files of its own
		r.Close()
		w.Close()
	}
	files, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}
