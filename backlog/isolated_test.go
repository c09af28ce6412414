package backlog_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// isolated runs f in a bubble of a process of its own, and fails if that does
// not end well: what f is about would end, or hang, this process, and with it
// all other tests.
func isolated(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	const child = "BACKLOG_TEST_CHILD"
	if os.Getenv(child) == t.Name() {
		synctest.Test(t, f)
		return
	}
	// Real time, so that a deadlock is one; far more than it takes.
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var parts []string // a pattern for the test and one for each subtest
	for _, name := range strings.Split(t.Name(), "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(name)+"$")
	}
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run="+strings.Join(parts, "/"))
	// The race detector sleeps for a second at the end.
	cmd.Env = append(os.Environ(), child+"="+t.Name(), "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("want a process that ends well, got %v (%v):\n%.1500s", err, ctx.Err(), out)
	}
}
