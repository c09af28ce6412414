package backlog_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
)

// The models in testdata/model have the seconds of the program.
func TestModelConstants(t *testing.T) {
	model, err := os.ReadFile(filepath.FromSlash("../testdata/model/lock.pml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]time.Duration{
		"GRACE":     backlog.LockGrace,
		"TAKE_OVER": backlog.TakeOverAfter,
		"PROBE":     backlog.ProbeEvery,
		"QUERY":     lockTimeout(t),
	} {
		found := regexp.MustCompile(`(?m)^#define `+name+` +(\d+)\b`).FindAllSubmatch(model, -1)
		if len(found) != 1 {
			t.Errorf("want one #define of %s, got %d", name, len(found))
			continue
		}
		seconds, _ := strconv.Atoi(string(found[0][1]))
		if got := time.Duration(seconds) * time.Second; got != want {
			t.Errorf("%s: want %v as the program has it, got %v", name, want, got)
		}
	}
}

// lockTimeout reads the constant of backlog/table/db, which this package must not import.
func lockTimeout(t *testing.T) time.Duration {
	t.Helper()
	source, err := os.ReadFile(filepath.FromSlash("table/db/locks.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\tlockTimeout = (\d+) \* time\.Second$`).FindSubmatch(source)
	if found == nil {
		t.Fatal("want lockTimeout in table/db/locks.go, in seconds")
	}
	seconds, _ := strconv.Atoi(string(found[1]))
	return time.Duration(seconds) * time.Second
}

// The models hold, and a mutant of each fails. The largest checks, and the other mutants, are left to make model.
func TestModels(t *testing.T) {
	for _, command := range []string{"bash", "spin", "cc"} {
		if _, err := exec.LookPath(command); err != nil {
			t.Skipf("there is no %s, which checks the models", command)
		}
	}
	out, err := exec.Command(filepath.FromSlash("../testdata/model.sh"), "short").CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if lines := strings.Count(string(out), "\n"); lines != 6 {
		t.Errorf("want a line for each of 6 checks, got %d:\n%s", lines, out)
	}
}
