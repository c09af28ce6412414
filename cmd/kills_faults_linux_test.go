package cmd_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"backlog/internal/history"
	"backlog/internal/testkit"
)

// A plantedFault is a mistake that the harness must find in the program.
type plantedFault struct {
	name  string
	edits []faultEdit
	rule  string // which must be found broken

	kind    *siteKind
	policy  string
	shape   killsShape
	only    []string
	lines   bool
	strikes int // of one plan
	plans   int // at most
}

// A faultEdit replaces a text that is once in a file.
type faultEdit struct{ file, old, new string }

// stubbornKills have handlers that take long and ignore SIGTERM.
var stubbornKills = killsShape{name: "stubborn", long: "9s"}

var plantedFaults = []plantedFault{
	{
		name: "guard-dropped",
		edits: []faultEdit{{"backlog/table/settle.go",
			"where := t.unchangedConditions(b)\n\treturn batchUpdate{b,",
			"var where conditions\n" +
				"\trows := lists.Map(b.padded(), func(s *backlog.Settlement) backlog.Key { return s.Record.Key })\n" +
				"\twhere.add(t.keyIn(rows...))\n" +
				"\treturn batchUpdate{b,"}},
		rule: history.Overwrite, kind: onSQLite, policy: "progressive", shape: *plainKills, only: []string{"daemon", "pause"}, strikes: 12, plans: 4,
	},
	{
		name:  "state-written-before-the-pass",
		edits: []faultEdit{{"backlog/loop.go", "s.Owe(pass.tickTiers...)", "_ = pass.tickTiers"}},
		rule:  history.Missed, kind: onSQLite, policy: "progressive", shape: *plainKills, only: []string{"daemon"}, strikes: 3, plans: 5,
	},
	{
		name: "killed-handler-has-succeeded",
		edits: []faultEdit{{"backlog/handler/exec/exec.go",
			"if state.Success() {", "if state.Success() || state.ExitCode() < 0 && !terminated {"}},
		rule: history.Unearned, kind: onSQLite, policy: "progressive", shape: *plainKills, only: []string{"handler"}, strikes: 5, plans: 4,
	},
	{
		name: "outcomes-pile-up",
		edits: []faultEdit{
			{"backlog/settler.go", "const groupDelay = 100 * time.Millisecond", "const groupDelay = 5 * time.Second"},
			{"backlog/settler.go", "const fullGroup = MaxGroup / 2", "const fullGroup = MaxGroup * 10"},
			{"backlog/gate.go", "records := max(MaxGroup, int64(concurrency))", "records := max(MaxGroup*10, int64(concurrency))"},
		},
		rule: history.TooMany, kind: onSQLite, policy: "progressive", shape: *fastKills, only: []string{"daemon"}, lines: true, strikes: 4, plans: 6,
	},
	{
		name:  "programs-outlive-a-kill",
		edits: []faultEdit{{"backlog/handler/proc/proc_linux.go", "ownGroup.Pdeathsig = unix.SIGKILL", "_ = unix.SIGKILL"}},
		rule:  history.Overlap, kind: onSQLite, policy: "progressive", shape: stubbornKills, only: []string{"daemon"}, strikes: 3, plans: 4,
	},
	{
		name:  "passes-take-no-lock",
		edits: []faultEdit{{"backlog/loop.go", "if l.Locker != nil {", "if l.Locker != nil && tier == \"\" {"}},
		rule:  history.Overlap, kind: onSQLite, policy: "progressive", shape: stubbornKills, only: []string{"beside"}, strikes: 2, plans: 5,
	},
	{
		name:  "record-passed-over",
		edits: []faultEdit{{"backlog/walk.go", "if f == nil {", "if f == nil || i == 3 {"}},
		rule:  history.Untried, kind: onSQLite, policy: "progressive", shape: *fastKills, only: []string{"once"}, lines: true, strikes: 2, plans: 4,
	},
	{
		name: "outcomes-lost-at-a-stop",
		edits: []faultEdit{{"backlog/run.go",
			"timeout = time.After(max(untilShutdown, untilLate))", "timeout = time.After(0 * max(untilShutdown, untilLate))"}},
		rule: history.Repeat, kind: onPostgres, policy: "progressive", shape: *plainKills, only: []string{"stop"}, strikes: 6, plans: 5,
	},
	{
		name:  "two-passes-one-record",
		edits: []faultEdit{{"backlog/flight/flight.go", "if inFlight || settledSince {", "if !inFlight && settledSince {"}},
		rule:  history.Overlap, kind: onSQLite, policy: "progressive", shape: stubbornKills, only: []string{"pause"}, strikes: 3, plans: 4,
	},
	{
		name: "ended-handler-has-failed",
		edits: []faultEdit{{"backlog/attempt.go",
			"interrupted := x.outcome == Errored && r.work.Err() != nil", "interrupted := x.outcome == Errored && r.work.Err() != nil && x.tier == \"\""}},
		rule: history.Unfailed, kind: onPostgres, policy: "progressive", shape: *handoverKills, only: []string{"session"}, strikes: 2, plans: 6,
	},
	{
		name:  "wait-halved",
		edits: []faultEdit{{"backlog/lock.go", "TakeOverAfter = LockGrace + time.Second", "TakeOverAfter = (LockGrace + time.Second) / 2"}},
		rule:  history.Overlap, kind: onPostgres, policy: "progressive", shape: *apartKills, only: []string{"prompt"}, strikes: 3, plans: 8,
	},
	{
		name:  "handlers-outlive-the-lock",
		edits: []faultEdit{{"backlog/lock.go", "deadline.Reset(LockGrace - time.Since(sent))", "_ = sent\n\t\tdeadline.Stop()"}},
		rule:  history.Overlap, kind: onPostgres, policy: "progressive", shape: *apartKills, only: []string{"prompt"}, strikes: 3, plans: 8,
	},
}

// TestPlantedFaultsFit holds that each fault can still be planted.
func TestPlantedFaultsFit(t *testing.T) {
	for _, f := range plantedFaults {
		f.plant(t, t.TempDir())
	}
}

// TestPlantedFaults plants faults in the program, one at a time, and holds that the harness
// finds each of them. It builds the program as often: `make faults`.
func TestPlantedFaults(t *testing.T) {
	if os.Getenv("BACKLOG_FAULTS") == "" {
		t.Log("only the places of the faults are looked at, by TestPlantedFaultsFit: see make faults")
		return
	}
	sweepKills(t)
	noter := buildNoter(t)
	turns := make(chan struct{}, envNumber("BACKLOG_KILLS_PARALLEL", 4))
	for _, f := range plantedFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			turns <- struct{}{}
			defer func() { <-turns }()
			f.find(t, noter)
		})
	}
}

// plant writes the edited files to the folder, and returns the name of the overlay.
func (f *plantedFault) plant(t *testing.T, dir string) (overlay string) {
	t.Helper()
	top, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	texts := make(map[string]string)
	for _, e := range f.edits {
		path := filepath.Join(top, filepath.FromSlash(e.file))
		if texts[path] == "" {
			texts[path] = testkit.ReadFile(t, path)
		}
		if n := strings.Count(texts[path], e.old); n != 1 {
			t.Fatalf("the fault %s cannot be planted any more: %s has %d times, not once, the text %q; adapt plantedFaults", f.name, e.file, n, e.old)
		}
		texts[path] = strings.Replace(texts[path], e.old, e.new, 1)
	}
	replace := make(map[string]string)
	for path, text := range texts {
		replace[path] = filepath.Join(dir, filepath.Base(path))
		testkit.WriteFile(t, replace[path], text)
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay = filepath.Join(dir, "overlay.json")
	testkit.WriteFile(t, overlay, string(list))
	return overlay
}

// find carries out plans until one of them shows the fault.
func (f *plantedFault) find(t *testing.T, noter string) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "backlog")
	goBuild(t, "0", "-overlay", f.plant(t, dir), "-o", program, "backlog")
	began := time.Now()
	strikes := 0
	others := make(map[string]int)
	for n := range f.plans {
		p := &killsPlan{
			number: n, seed: uint64(began.UnixNano()), kind: f.kind, program: program, policy: policyOf(f.policy), shape: &f.shape,
			only: f.only, lines: f.lines, strikes: f.strikes, patience: 12 * time.Second, planted: true,
		}
		counts, found := runKills(t, p, noter)
		for _, count := range counts {
			strikes += count
		}
		for _, v := range found {
			others[v.Rule]++
			if v.Rule == f.rule {
				t.Logf("found after %d strikes in %v: %v", strikes, time.Since(began).Round(time.Second), v)
				return
			}
		}
	}
	t.Errorf("not found after %d strikes in %v; broken were %v", strikes, time.Since(began).Round(time.Second), others)
}

func policyOf(name string) *killsPolicy {
	for i := range killsPolicies {
		if killsPolicies[i].name == name {
			return &killsPolicies[i]
		}
	}
	panic("there is no policy " + name)
}
