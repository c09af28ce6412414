package handler_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"backlog/backlog"
)

// The first process of a container is the parent of all orphans. Those that
// have ended must not be waited for.
func TestExecAsFirstProcess(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	_, err := handleUntil(t, long,
		`sh -c 'trap "sleep 0.1; exit" TERM; : >ready; while :; do :; done'`, "ready")
	wantError(t, err, errTimeout.Error(), backlog.Errored)
}
