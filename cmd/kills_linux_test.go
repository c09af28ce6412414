package cmd_test

import (
	"cmp"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// TestCrash kills daemons, passes by hand, handlers and workers at random instants, freezes
// daemons and ends their sessions, under every policy and on every database. Handlers and rows
// write down what happened, and package internal/history judges that.
//
// BACKLOG_KILLS is how often it strikes: `make kills N=10000`. BACKLOG_KILLS_SEED repeats a run,
// and BACKLOG_KILLS_PLAN one plan of it. BACKLOG_KILLS_SHAPE=apart draws only plans of that shape.
func TestCrash(t *testing.T) {
	t.Parallel()
	sweepKills(t)
	noter := buildNoter(t)
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("BACKLOG_KILLS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d", seed)
	plans := drawKills(t, seed, envNumber("BACKLOG_KILLS", gateKills))
	if text := os.Getenv("BACKLOG_KILLS_PLAN"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n >= len(plans) {
			t.Fatalf("there is no plan %q", text)
		}
		plans = plans[n : n+1]
	}
	sum := make(killsAccount)
	violations := 0
	var mu sync.Mutex
	began := time.Now()
	t.Cleanup(func() {
		for _, name := range slices.Sorted(maps.Keys(sum)) {
			t.Logf("account: %-32s %6d", name, sum[name])
		}
		took := time.Since(began)
		t.Logf("account: %d strikes and %d violations in %v, %.2f s a strike", sum["all"], violations, took.Round(time.Second), took.Seconds()/float64(max(1, sum["all"])))
	})
	turns := make(chan struct{}, envNumber("BACKLOG_KILLS_PARALLEL", 4))
	for _, p := range plans {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			turns <- struct{}{}
			defer func() { <-turns }()
			counts, found := runKills(t, p, noter)
			mu.Lock()
			defer mu.Unlock()
			sum.add(p, counts)
			violations += len(found)
			if len(found) > 0 {
				t.Errorf("%d violations", len(found))
			}
		})
	}
}

// gateKills is how often a run of all tests strikes. CI runs it once with each driver of SQLite.
const gateKills = 50

func envNumber(name string, otherwise int) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(otherwise)))
	if err != nil {
		panic(name + " is no number")
	}
	return n
}

// buildNoter builds the handler.
func buildNoter(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kills")
	goBuild(t, "0", "-o", path, "../testdata/kills")
	return path
}

// goBuild builds a program of this module, as the Makefile does.
func goBuild(t *testing.T, cgo string, args ...string) {
	t.Helper()
	build := exec.Command("go", append([]string{"build", "-buildvcs=false", "-trimpath"}, args...)...)
	build.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build %v: %v\n%s", args, err, text)
	}
}

// A killsProgram is a program on a kind of database.
type killsProgram struct {
	kind         *siteKind
	path, driver string // empty: the program that all tests start
}

// killsPrograms are those that are killed: by default the one of all tests, and in a long run
// one with each driver of SQLite.
func killsPrograms(t *testing.T) []killsProgram {
	t.Helper()
	if os.Getenv("BACKLOG_KILLS") == "" {
		return []killsProgram{{kind: onSQLite}, {kind: onPostgres}, {kind: onMySQL}}
	}
	dir := t.TempDir()
	pure := filepath.Join(dir, "backlog")
	goBuild(t, "0", "-o", pure, "backlog")
	list := []killsProgram{{onSQLite, pure, "modernc"}, {onPostgres, pure, ""}, {onMySQL, pure, ""}}
	if _, err := exec.LookPath("cc"); err == nil {
		inC := filepath.Join(dir, "backlog-cgo")
		goBuild(t, "1", "-tags", "cgo_sqlite", "-o", inC, "backlog")
		list = append(list, killsProgram{onSQLite, inC, "mattn"})
	}
	return list
}

// drawKills returns plans with so many strikes in all.
func drawKills(t *testing.T, seed uint64, strikes int) (plans []*killsPlan) {
	t.Helper()
	shapes := []*killsShape{plainKills, fastKills, plainKills, handoverKills, plainKills, plainKills, frozenKills}
	programs := killsPrograms(t)
	if name := os.Getenv("BACKLOG_KILLS_SHAPE"); name != "" {
		all := append(shapes, apartKills)
		i := slices.IndexFunc(all, func(s *killsShape) bool { return s.name == name })
		if i < 0 {
			t.Fatalf("there is no shape %q", name)
		}
		shapes = all[i : i+1]
		programs = slices.DeleteFunc(programs, func(p killsProgram) bool { return shapes[0].servers && p.kind == onSQLite })
	}
	for n := 0; strikes > 0; n++ {
		program := programs[n%len(programs)]
		p := &killsPlan{
			number: n, seed: seed, kind: program.kind, program: program.path, driver: program.driver,
			policy: &killsPolicies[n%len(killsPolicies)], shape: shapes[n%len(shapes)], lines: n/2%3 == 0,
		}
		if len(programs)%3 == 0 { // policies would always meet the same database
			p.policy = &killsPolicies[(n+n/len(killsPolicies))%len(killsPolicies)]
		}
		if p.shape == frozenKills && len(shapes) > 1 && n/len(shapes)%2 == 1 {
			p.shape = apartKills
		}
		if p.shape.servers && p.kind == onSQLite {
			p.shape = plainKills
		}
		p.strikes = min(strikes, p.shape.strikes)
		if os.Getenv("BACKLOG_KILLS") == "" {
			p.strikes = min(p.strikes, (p.shape.strikes+2)/3) // more plans, so that all policies have their turn
		}
		strikes -= p.strikes
		if p.shape == handoverKills && p.kind == onSQLite {
			p.only = []string{"takeover", "handover", "beside"}
		}
		plans = append(plans, p)
	}
	return plans
}
