package exec_test

import (
	"context"
	"errors"
	"os"
	osexec "os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"backlog/backlog"
	"backlog/backlog/handler/exec"
	"backlog/backlog/handler/proc"
	"backlog/internal/testkit"
)

// handlersOfOrphans is how many handlers TestOrphans runs, unless BACKLOG_ORPHANS says more.
const handlersOfOrphans = 1000

// TestOrphans runs handlers in the first process of a PID namespace, as in a container. Each
// leaves processes behind, which that process becomes the parent of: they must not stay
// zombies, and each handler's exit status must be its own.
func TestOrphans(t *testing.T) {
	if os.Getpid() == 1 {
		runLeavingHandlers(t)
		return
	}
	t.Parallel()
	first := osexec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOrphans$", "-test.v")
	first.SysProcAttr = testkit.FirstProcess(t)
	var out strings.Builder
	first.Stdout = &out
	first.Stderr = &out
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- first.Wait() }()
	most := 0
	for {
		most = max(most, testkit.Zombies(t, first.Process.Pid))
		select {
		case err := <-ended:
			t.Logf("at most %d zombies at a time\n%s", most, &out)
			if err != nil {
				t.Error(err)
			}
			if most > handlersOfOrphans/2 { // all would be there at the end, and more than one of each handler
				t.Errorf("%d zombies at a time, want few", most)
			}
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// orphaning is the script of a handler: it leaves one process behind that ends at once, every
// tenth time another that ends later in a group of its own, and it ends by itself.
const orphaning = `
: &
case $BACKLOG_ID in *0) setsid sleep 0.1 </dev/null >/dev/null 2>&1 & ;; esac
case $BACKLOG_ID in *7) kill -KILL $$ ;; esac
exit $((BACKLOG_ID % 251))`

// runLeavingHandlers runs the handlers in the first process of a PID namespace.
func runLeavingHandlers(t *testing.T) {
	childEnded := make(chan os.Signal, 1)
	signal.Notify(childEnded, unix.SIGCHLD)
	go proc.ReapOrphans(childEnded)
	n := int64(handlersOfOrphans)
	if number := os.Getenv("BACKLOG_ORPHANS"); number != "" {
		var err error
		n, err = strconv.ParseInt(number, 10, 64)
		if err != nil {
			t.Fatalf("BACKLOG_ORPHANS: %v", err)
		}
	}
	h := &exec.Handler{Settings: exec.Settings{Command: []string{"sh", "-c", orphaning}}}
	var last atomic.Int64
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for id := last.Add(1); id <= n; id = last.Add(1) {
				wantStatus(t, h, id)
			}
		})
	}
	workers.Wait()
	// Only the orphans are left. The last of them end within a tenth of a second.
	for deadline := time.Now().Add(20 * time.Second); ; {
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if errors.Is(err, unix.ECHILD) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a process is still there, or a zombie")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// wantStatus runs the handler on a record and expects the exit status that its id asks for.
func wantStatus(t *testing.T, h *exec.Handler, id int64) {
	want := int(id % 251)
	if id%10 == 7 {
		want = -1 // killed
	}
	r := &backlog.Record{Key: backlog.NewKey(id), Status: "NEW", Names: []string{"id"}, Values: []any{id}}
	err := h.Handle(context.Background(), r)
	if err == nil && want == 0 {
		return
	}
	var exit *osexec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != want {
		t.Errorf("handler %d: %v, want exit status %d", id, err, want)
	}
}
