//go:build unix

package exec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"backlog/backlog"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// script writes a shell script and returns its path.
func script(t testing.TB, body string) string {
	t.Helper()
	return file(t, t.TempDir(), "script.sh", "#!/bin/sh\n"+body, 0o755)
}

// file writes a file and returns its path.
func file(t testing.TB, dir, name, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// read returns the content of a file.
func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// newRecord returns a record with the key 7.
func newRecord() *backlog.Record {
	return &backlog.Record{
		Key: backlog.NewKey(int64(7)), Status: "NEW",
		Names: []string{"id"}, Values: []any{int64(7)},
	}
}

// wantError fails unless err has the text and stands for the outcome.
func wantError(t testing.TB, err error, text string, outcome backlog.Outcome) {
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

// eventually fails the test unless cond becomes true.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// exist reports whether all the files are in the folder.
func exist(dir string, names ...string) bool {
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// log returns a logger for a handler, and a function that returns the last
// exchange that was logged.
func log(level slog.Level) (log *slog.Logger, exchange func() (sent, got string)) {
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

// killPass runs a pass over one record, kills its handlers as a second signal does
// once ready says so, and fails the test unless the pass then ends.
func killPass(t testing.TB, h backlog.Handler, ready func() bool) {
	t.Helper()
	hard, ended := make(chan struct{}), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	e := &backlog.Engine{Store: new(oneRecord), Handler: h, Hard: hard}
	go func() {
		_, err := e.Pass(ctx, backlog.Pass{Tier: "1d", MaxAge: time.Hour})
		ended <- err
	}()
	eventually(t, "the handler has begun", ready)
	stop()
	close(hard)
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the pass hangs")
	}
}

// oneRecord is a store that has one record, once.
type oneRecord struct{ given atomic.Bool }

func (o *oneRecord) Pending(_ context.Context, q backlog.Query) (p backlog.Page, err error) {
	if q.Lane == backlog.Fresh && o.given.CompareAndSwap(false, true) {
		p.Records = []backlog.Record{*newRecord()}
	}
	return p, nil
}

func (o *oneRecord) Settle(context.Context, []backlog.Settlement) ([]backlog.Unsettled, error) {
	return nil, nil
}

// pidIn returns the number in a file.
func pidIn(t testing.TB, path string) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(read(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// gone reports whether the process has ended; it may be waiting to be reaped.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err == nil && strings.HasPrefix(state, "Z")
}

// ignoring is a program that writes its number to the file $name and then
// lives on whatever it is told.
func ignoring(name string) string {
	return fmt.Sprintf(`sh -c 'trap "" TERM; echo $$ >tmp-%[1]s; mv tmp-%[1]s %[1]s; exec sleep 1000'`, name)
}

// openFiles returns how many files this process has open.
func openFiles(t testing.TB) int {
	t.Helper()
	files, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}
