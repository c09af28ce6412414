package handler_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"backlog/backlog/handler"
)

// When this process is killed its program goes too: the next process would start
// the same record beside it.
func TestExecEndsWithItsParent(t *testing.T) {
	if path := os.Getenv("ORPHAN_PID_FILE"); path != "" {
		e := &handler.Exec{Command: []string{"/bin/sh", "-c", "echo $$ >" + path + ".new; mv " + path + ".new " + path + "; exec sleep 60"}}
		e.Handle(context.Background(), newRecord())
		return
	}
	path := filepath.Join(t.TempDir(), "pid")
	parent := exec.Command(os.Args[0], "-test.run=^TestExecEndsWithItsParent$")
	parent.Env = append(os.Environ(), "ORPHAN_PID_FILE="+path)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pid string
	within(t, "the program has begun", func() bool {
		b, err := os.ReadFile(path)
		pid = strings.TrimSpace(string(b))
		return err == nil
	})
	parent.Process.Kill()
	parent.Wait()
	within(t, "the program has ended", func() bool {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		return errors.Is(err, fs.ErrNotExist) || strings.Contains(string(stat), ") Z ")
	})
}

// within waits until it is so.
func within(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 seconds: %s", what)
		}
	}
}
