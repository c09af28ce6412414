//go:build linux

package handler_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"backlog/backlog"
	"backlog/backlog/handler"
)

// A worker that ends well has not tried what it has not read: another does.
func TestLinesSpares(t *testing.T) {
	t.Parallel()
	const lost = "the worker ended before it answered (exit status %d)"
	for _, tt := range []struct {
		name  string
		first string // what the first worker does once it has the first of three records
		size  int    // of a record
		want  [3]string
	}{
		{"answers what it has read", `reply "$success"; exit 0`, 1, [3]string{}},
		{"large ones", `reply "$success"; exit 0`, 200 << 10, [3]string{}},
		{"has read a piece of the next", `reply "$success"; head -c 20 >piece; exit 0`, 1, [3]string{}},
		{"closes its input before", `exec <&-; reply "$success"; sleep 0.1; exit 0`, 1, [3]string{}},
		{"has read one more", `reply "$success"; IFS= read -r more; exit 0`, 1, [3]string{1: fmt.Sprintf(lost, 0)}},
		{"has answered nothing", `exit 0`, 1, [3]string{fmt.Sprintf(lost, 0), fmt.Sprintf(lost, 0), fmt.Sprintf(lost, 0)}},
		{"fails", `reply "$success"; exit 3`, 1, [3]string{1: fmt.Sprintf(lost, 3), 2: fmt.Sprintf(lost, 3)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			command := worker(t, "", `if ! [ -e go ]; then : >ready; wait_for go; `+tt.first+`; fi
	reply "$success"`)
			l := newLines(t, &handler.Lines{Command: command})
			var answers [3]<-chan error
			for i := range answers {
				r := attempt(fmt.Sprint(i))
				r.Names, r.Values = []string{"s"}, []any{strings.Repeat("x", tt.size)}
				answers[i] = handleAsync(t.Context(), l, r)
				eventually(t, "a record", func() bool { return l.InFlight() == i+1 && exist(command[1], "ready") })
			}
			file(t, command[1], "go", "", 0o644)
			for i, done := range answers {
				outcome := backlog.Succeeded
				if tt.want[i] != "" {
					outcome = backlog.Errored
				}
				wantError(t, get(t, done), tt.want[i], outcome)
			}
		})
	}
}

// Workers may end after a few records each.
func TestLinesRecycled(t *testing.T) {
	t.Parallel()
	l := newLines(t, &handler.Lines{Command: worker(t, "n=0", `reply "$success"; n=$((n+1)); [ $n -lt 5 ] || exit 0`), Workers: 2, Window: 8})
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() { wantError(t, l.Handle(t.Context(), attempt(fmt.Sprint(i))), "", backlog.Succeeded) })
	}
	wg.Wait()
}

// If there is no other worker, what was not read was no attempt.
func TestLinesSparedForNobody(t *testing.T) {
	t.Parallel()
	command := worker(t, `if [ -e go ]; then echo 'no memory left' >&2; exit 3; fi`, `: >ready; wait_for go; reply "$success"; exit 0`)
	l := newLines(t, &handler.Lines{Command: command})
	first := handleAsync(t.Context(), l, attempt("1"))
	eventually(t, "the first", func() bool { return exist(command[1], "ready") })
	second := handleAsync(t.Context(), l, attempt("2"))
	eventually(t, "the second", func() bool { return l.InFlight() == 2 })
	file(t, command[1], "go", "", 0o644)
	wantError(t, get(t, first), "", backlog.Succeeded)
	wantError(t, get(t, second), command[0]+" ended before it read anything (exit status 3): no memory left", backlog.Skipped)
}
