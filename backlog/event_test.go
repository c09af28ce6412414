package backlog_test

import (
	"strings"
	"testing"

	"backlog/backlog"
)

// Every kind has words of its own, also one that is added.
func TestEventKindString(t *testing.T) {
	known := make(map[string]backlog.EventKind)
	for k := backlog.PassStarted; k <= backlog.Woke; k++ {
		words := k.String()
		if other, taken := known[words]; taken || words == "" || strings.HasPrefix(words, "EventKind") {
			t.Errorf("kind %d is called %q (as is %d: %v)", int(k), words, int(other), taken)
		}
		known[words] = k
	}
	for k, want := range map[backlog.EventKind]string{
		backlog.PassEnded: "pass ended", backlog.LockLost: "lock lost",
		-1: "EventKind(-1)", backlog.Woke + 1: "EventKind(21)",
	} {
		if got := k.String(); got != want {
			t.Errorf("kind %d is called %q, want %q", int(k), got, want)
		}
	}
}
