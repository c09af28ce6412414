package exec_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"backlog/backlog"

	"backlog/backlog/handler/exec"
	"backlog/internal/handlertest"
	"backlog/internal/testkit"
)

// When this process is killed its program goes too: the next process would start
// the same record beside it.
func TestExecEndsWithItsParent(t *testing.T) {
	if path := os.Getenv("ORPHAN_PID_FILE"); path != "" {
		e := &exec.Handler{Settings: exec.Settings{Command: []string{"/bin/sh", "-c", "echo $$ >" + path + ".new; mv " + path + ".new " + path + "; exec sleep 60"}}}
		e.Handle(context.Background(), handlertest.NewRecord())
		return
	}
	path := filepath.Join(t.TempDir(), "pid")
	parent := osexec.Command(os.Args[0], "-test.run=^TestExecEndsWithItsParent$")
	parent.Env = append(os.Environ(), "ORPHAN_PID_FILE="+path)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pid string
	testkit.Eventually(t, "the program has begun", func() bool {
		b, err := os.ReadFile(path)
		pid = strings.TrimSpace(string(b))
		return err == nil
	})
	parent.Process.Kill()
	parent.Wait()
	testkit.Eventually(t, "the program has ended", func() bool {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		return errors.Is(err, fs.ErrNotExist) || strings.Contains(string(stat), ") Z ")
	})
}

// The first process of a container is the parent of all orphans. Those that
// have ended must not be waited for.
func TestExecAsFirstProcess(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	_, err := handleUntil(t, long,
		`sh -c 'trap "sleep 0.1; exit" TERM; : >ready; while :; do :; done'`, "ready")
	handlertest.WantError(t, err, errTimeout.Error(), backlog.Errored)
}
