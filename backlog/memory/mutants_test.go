package memory_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"backlog/backlog"
	"backlog/backlog/memory"
	"backlog/backlog/storetest"
)

// runMutants tells TestMutants that its failures are wanted.
const runMutants = "BACKLOG_TEST_RUN_MUTANTS"

// A mutant is a store with one defect, and the case of storetest that must
// catch it.
type mutant struct {
	name  string
	catch string
	spoil func(*memory.Store) backlog.Store
}

// TestSuiteCatchesMutants runs the conformance suite on stores that are known
// to be wrong, in a process of its own, since every case is to fail there.
func TestSuiteCatchesMutants(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe,
		"-test.run=^TestMutants$", "-test.v")
	cmd.Env = append(os.Environ(), runMutants+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("want the run on the mutants to fail, it passed")
	}
	if _, trace, ok := strings.Cut(string(out), "panic: "); ok {
		t.Errorf("want the cases to fail in words, got a panic: %s", trace)
	}
	for _, m := range mutants() {
		if !strings.Contains(string(out), "--- FAIL: TestMutants/"+m.name+"/"+m.catch+" (") {
			t.Errorf("mutant %s: want case %s to catch it, it passed", m.name, m.catch)
		}
	}
}

// TestMutants fails, once for each mutant. TestSuiteCatchesMutants runs it.
func TestMutants(t *testing.T) {
	if os.Getenv(runMutants) == "" {
		return // its failures are wanted by TestSuiteCatchesMutants alone
	}
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T, want storetest.Table) storetest.Harness {
				if !strings.HasSuffix(t.Name(), "/"+m.catch) {
					t.SkipNow()
				}
				if change := policyChange(m.name); change != nil {
					p := *want.Policy
					change(&p)
					want.Policy = &p
				}
				h := newHarness(want)
				h.store = m.spoil(h.table)
				return h
			})
		})
	}
}

func mutants() []mutant {
	list := slices.Concat(pendingMutants, settleMutants, extraMutants, retryMutants, refreshMutants)
	for _, p := range policyMutants {
		list = append(list, mutant{p.name, p.catch, func(s *memory.Store) backlog.Store { return s }})
	}
	return list
}

// policyChange returns what the mutant does to its policy, nil if nothing.
func policyChange(name string) func(*backlog.Policy) {
	for _, p := range policyMutants {
		if p.name == name {
			return p.change
		}
	}
	return nil
}
