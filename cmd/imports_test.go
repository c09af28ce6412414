package cmd_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A source is one Go file of the module.
type source struct {
	path    string // slash-separated, from the top of the module
	folder  string // "." for main
	test    bool
	imports map[string]string // path -> name in the file
	file    *ast.File
	fset    *token.FileSet
}

// sources are the files of the module. What lies under testdata is no part of it.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("only %d files were found", len(all))
	}
	return all
}

// parsed parses the module, once for all tests, which only read what it returns.
var parsed = sync.OnceValues(func() (all []source, err error) {
	err = filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			if base == "testdata" || base != ".." && (base[0] == '.' || base[0] == '_') {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") {
			return nil
		}
		s := source{fset: token.NewFileSet(), imports: make(map[string]string)}
		if s.file, err = parser.ParseFile(s.fset, name, nil, parser.SkipObjectResolution); err != nil {
			return err
		}
		s.path = strings.TrimPrefix(filepath.ToSlash(name), "../")
		s.folder, s.test = path.Dir(s.path), strings.HasSuffix(base, "_test.go")
		for _, i := range s.file.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			s.imports[p] = path.Base(p)
			if i.Name != nil {
				s.imports[p] = i.Name.Name
			}
		}
		all = append(all, s)
		return nil
	})
	return all, err
})

// mayImport reports whether a file in a folder may import a package of the
// module: main -> cmd -> everything; backlog/* -> backlog -> tiers. Siblings
// under backlog/ do not know each other, but daemon, which keeps a checkpoint, and reader,
// which reads what people are shown from several of them. In table: doctor, work -> table ->
// db, timeform; sqlite, postgres, mysql -> db. Only tests there know several of these;
// tests run the suite of storetest; tests of the core need a store, and take
// memory. What tests of several packages share is in testkit, which imports tiers alone, so
// that tests inside a package may use it, too. Tests that need a server take it from
// testserver, tests of handlers what they share about records and programs from
// handlertest, tests of advice what is true from worlds, tests that kill the judge of what
// happened from history: none of the five is in a program.
func mayImport(s source, imported string) bool {
	switch {
	case imported == "internal/testkit":
		return s.test || strings.HasPrefix(s.folder, "internal/")
	case s.folder == "internal/testkit":
		return imported == "tiers" || imported == s.folder && s.test
	case imported == "internal/testserver":
		return s.test
	case imported == "internal/handlertest":
		return s.test && path.Dir(s.folder) == "backlog/handler"
	case s.folder == "internal/handlertest":
		return imported == "backlog" || imported == "backlog/memory"
	case imported == "internal/picture":
		return slices.Contains([]string{"cmd", "backlog/simulate", "backlog/advise/propose"}, s.folder) || s.folder == imported && s.test
	case s.folder == "internal/picture":
		return false // a leaf
	case imported == "internal/worlds":
		return s.test
	case s.folder == "internal/worlds":
		return imported == "backlog/advise"
	case imported == "internal/history":
		return s.test
	case s.folder == "internal/history":
		return false // a leaf: it knows nothing of the program that it judges
	case imported == "internal/lists":
		return s.folder != "tiers" && s.folder != "." // a leaf
	case imported == "backlog/mapping" || imported == "backlog/pattern":
		return s.folder != "tiers" && s.folder != "." && s.folder != "backlog/pattern" // leaves
	case imported == "backlog/inspect":
		return s.folder != "tiers" && s.folder != "." && s.folder != "backlog" // what commands are shown
	case imported == "backlog/logqueue" && s.folder == "backlog/logging":
		return true // where the log goes
	case imported == "backlog/watch" || imported == "backlog/causes": // what passes leave behind, told, kept and shown
		return s.folder == "backlog/simulate" && s.test || slices.Contains([]string{"cmd", "backlog/watch", "backlog/logging", "backlog/checkpoint", "backlog/web", "backlog/reader"}, s.folder)
	case imported == "backlog/advise": // attempts by age, in passes and in their file
		return slices.Contains([]string{"backlog/advise", "backlog/advise/propose", "backlog/watch", "backlog/checkpoint", "backlog/reader", "cmd"}, s.folder) || (s.folder == "backlog/simulate" || s.folder == "backlog/web") && s.test
	case imported == "backlog/advise/propose":
		return s.folder == "backlog/reader" || s.folder == "cmd" || s.folder == imported && s.test
	case s.folder == "backlog/advise/propose":
		return slices.Contains([]string{"tiers", "backlog", "backlog/retry", "backlog/inspect", "internal/picture"}, imported) || s.test && imported != "cmd"
	case s.folder == "backlog/inspect" && s.test:
		return imported != "cmd"
	case s.folder == "backlog/mapping" || s.folder == "backlog/pattern":
		return false
	case imported == s.folder:
		return s.test // its own external test
	case s.folder == "." || s.folder == "packaging/man":
		return imported == "cmd"
	case s.folder == "cmd":
		return imported != "."
	case s.folder == "tiers":
		return false
	case s.folder == "backlog/plan":
		return imported == "backlog/key" // a leaf
	case s.folder == "backlog":
		return imported == "tiers" || imported == "backlog/key" || imported == "backlog/plan" || imported == "backlog/flight" || s.test && imported == "backlog/memory"
	case s.folder == "backlog/simulate" && s.test:
		return imported != "cmd" // to be held against the daemon with all its parts
	case s.folder == "backlog/simulate" && (imported == "backlog/plan" || imported == "backlog/flight"):
		return true // whose decisions it asks for
	case s.folder == "backlog/daemon" && imported != "tiers":
		return imported == "backlog" || imported == "backlog/checkpoint" || s.test && imported == "backlog/memory"
	case imported == "backlog/retry/recur":
		return s.folder == "backlog/retry"
	case s.folder == "backlog/retry/recur":
		return false // a leaf
	case path.Dir(s.folder) == "backlog/handler":
		switch imported {
		case "backlog/handler/proc":
			return s.folder == "backlog/handler/exec" || s.folder == "backlog/handler/lines"
		case "backlog/handler/setting":
			return slices.Contains([]string{"backlog/handler/http", "backlog/handler/mail", "backlog/handler/redis"}, s.folder)
		}
		return imported == "backlog"
	case s.folder == "backlog/reader":
		return s.test && imported != "cmd" || slices.Contains(readFrom, imported)
	case imported == "backlog/table/timeform":
		return slices.Contains([]string{"backlog/table", "backlog/table/db", "backlog/table/doctor"}, s.folder)
	case imported == "backlog/table/db":
		return strings.HasPrefix(s.folder, "backlog/table")
	case slices.Contains(besideTable, imported):
		return s.test && (strings.HasPrefix(s.folder, "backlog/table") || s.folder == "backlog/config") // which decodes into what others declare
	case path.Dir(s.folder) == "backlog/table":
		return imported == "backlog" || imported == "backlog/table" && slices.Contains([]string{"backlog/table/doctor", "backlog/table/work"}, s.folder)
	case s.folder == "backlog/config" && s.test:
		return imported != "cmd" // it decodes into what others declare
	case (s.folder == "backlog/storetest" || s.folder == "backlog/amqp" && s.test) && imported == "backlog/memory":
		return true // by which it measures other stores; whose rows it dispatches
	case s.folder == "backlog/advise" && s.test && imported == "backlog/memory":
		return true // on which an engine plays the passes that it learns from
	case path.Dir(s.folder) == "backlog":
		return imported == "backlog" || imported == "tiers" || s.test && imported == "backlog/storetest"
	}
	return false
}

// readFrom are the packages from which pages, commands and metrics are fed: none of them handles a record.
var readFrom = []string{"tiers", "backlog", "backlog/retry", "backlog/simulate", "backlog/checkpoint", "backlog/web", "backlog/metrics", "backlog/pings",
	"backlog/table"}

// besideTable are the packages that table does not know, but its tests.
var besideTable = []string{"backlog/table/sqlite", "backlog/table/postgres", "backlog/table/mysql", "backlog/table/doctor", "backlog/table/work"}

func TestImports(t *testing.T) {
	for _, s := range sources(t) {
		for p := range s.imports {
			imported, ours := strings.CutPrefix(p, "backlog/")
			if (ours || p == "backlog") && !mayImport(s, imported) {
				t.Errorf("%s imports %s", s.path, p)
			}
		}
	}
}

// owners are the only folders whose programs import certain packages, if there
// are any. Tests may.
var owners = map[string][]string{
	"database/sql": {"backlog/table", "backlog/table/db", "backlog/table/sqlite", "backlog/table/postgres", "backlog/table/mysql", "backlog/table/doctor",
		"backlog/table/work", "internal/testserver", "internal/testkit"},
	"github.com/robfig/cron/v3":        {"backlog", "tiers"},
	"github.com/gomodule/redigo/redis": {"backlog/handler/redis"},
	"github.com/rabbitmq/amqp091-go":   {"backlog/amqp"},
	"github.com/spf13/cobra":           {"cmd"},
	"github.com/spf13/cobra/doc":       {"packaging/man"}, // which is not in the program
	"github.com/wneessen/go-mail":      {"backlog/handler/mail"},
	"github.com/spf13/pflag":           {"cmd"},
	"github.com/teambition/rrule-go":   {"backlog/retry/recur"},
	"github.com/tidwall/btree":         {"backlog/memory"},
	"gopkg.in/yaml.v3":                 {"backlog/config"},
	"os/signal":                        {"cmd"},
}

// drivers of SQL, and what else has several packages, are imported by the package of their
// database. Tests of table may import them, too.
var drivers = map[string]string{
	"modernc.org/sqlite": "backlog/table/sqlite", "github.com/mattn/go-sqlite3": "backlog/table/sqlite",
	"github.com/jackc/pgx": "backlog/table/postgres", "github.com/go-sql-driver/mysql": "backlog/table/mysql",
	"github.com/prometheus/client_golang": "backlog/metrics", // whose tests it is for
}

func TestImportsOfOthers(t *testing.T) {
	for _, s := range sources(t) {
		for p := range s.imports {
			if list, ok := owners[p]; ok && !s.test && !slices.Contains(list, s.folder) {
				t.Errorf("%s imports %s, which only %v do", s.path, p, list)
			}
			if s.folder == "tiers" && !s.test && slices.Contains([]string{"os", "io", "io/fs", "net", "log", "log/slog", "context"}, p) {
				t.Errorf("%s imports %s, but tiers does no input or output", s.path, p)
			}
			if s.folder == "backlog/daemon" && !s.test && slices.Contains([]string{"os", "net", "net/http", "log", "log/slog", "flag"}, p) {
				t.Errorf("%s imports %s, but a daemon knows no process, log or page", s.path, p)
			}
			for driver, folder := range drivers {
				ofDriver := p == driver || strings.HasPrefix(p, driver+"/")
				testOfTable := s.test && strings.HasPrefix(s.folder, "backlog/table")
				if ofDriver && s.folder != folder && !testOfTable {
					t.Errorf("%s imports the driver %s, which is for %s", s.path, p, folder)
				}
			}
		}
	}
}

// knownToCommands are the packages of this module that every file of cmd may import.
var knownToCommands = []string{
	"backlog/backlog",
	"backlog/backlog/causes",
	"backlog/backlog/checkpoint",
	"backlog/backlog/config",
	"backlog/backlog/daemon",
	"backlog/backlog/inspect",
	"backlog/backlog/logging",
	"backlog/backlog/logqueue",
	"backlog/backlog/mapping",
	"backlog/backlog/reader",
	"backlog/backlog/table",
	"backlog/backlog/table/doctor",
	"backlog/backlog/watch",
	"backlog/internal/lists",
	"backlog/tiers",
}

// ownedImports are the packages that some files of cmd may import as well, by the beginning of
// their path.
var ownedImports = map[string][]string{
	"cmd/advise":     {"backlog/backlog/advise", "backlog/backlog/advise/propose", "backlog/backlog/retry", "backlog/internal/picture"},
	"cmd/health.go":  {"backlog/backlog/web"},
	"cmd/passes.go":  {"backlog/backlog/advise"},
	"cmd/refresh.go": {"backlog/backlog/retry"},
	"cmd/simulate":   {"backlog/backlog/simulate", "backlog/backlog/advise", "backlog/internal/picture"},
	"cmd/source.go":  {"backlog/backlog/amqp"},
	"cmd/web.go":     {"backlog/backlog/web"},
	"cmd/worker.go":  {"backlog/backlog/amqp"},
}

// Only wire.go and wire_*.go know every name: another file of cmd knows the
// configuration and the table, which its command is about, what passes leave behind, and
// simulate what it shows, but neither handlers nor whatever else there is to join.
func TestImportsOfCommands(t *testing.T) {
	for _, s := range sources(t) {
		if s.folder != "cmd" || s.test || strings.HasPrefix(s.path, "cmd/wire") {
			continue
		}
		allowed := slices.Clone(knownToCommands)
		for path, owned := range ownedImports {
			if strings.HasPrefix(s.path, path) {
				allowed = append(allowed, owned...)
			}
		}
		for p := range s.imports {
			if strings.HasPrefix(p, "backlog/") && !slices.Contains(allowed, p) {
				t.Errorf("%s imports %s, which is for wire*.go", s.path, p)
			}
		}
	}
}

// clocks are the files outside of cmd that may read the clock or ask for a
// random number, and why.
var clocks = map[string]string{
	"backlog/engine.go":                "the default of Now, and ids of attempts",
	"backlog/lock.go":                  "how long ago a probe was sent: time that passes",
	"backlog/run.go":                   "how long a stop has lasted: likewise",
	"backlog/loop.go":                  "the default of Now",
	"backlog/daemon/daemon.go":         "the default of Loop.Now",
	"backlog/health.go":                "how long the store has been unavailable: time that passes",
	"backlog/table/db/db.go":           "how long another program's lock is waited for: time that passes",
	"backlog/handler/http/http.go":     "the default of Now",
	"backlog/handler/exec/exec.go":     "how long the output of a program that has ended is waited for: likewise",
	"backlog/handler/redis/redis.go":   "how long a connection was idle and a write may take: time that passes",
	"backlog/simulate/learned.go":      "random numbers by a seed: likewise",
	"backlog/simulate/workload.go":     "random numbers by a seed: always the same ones",
	"backlog/simulate/drain.go":        "likewise",
	"backlog/advise/estimate.go":       "likewise",
	"backlog/advise/propose/policy.go": "likewise",
	"backlog/amqp/session.go":          "the node to begin with, and how long a close may take: time that passes",
	"backlog/amqp/unacked.go":          "how long an outcome waits for its redelivery: time that passes",
	"backlog/amqp/settle.go":           "since when it waits: likewise",
	"backlog/table/refusal.go":         "how old the list of constraints is: likewise",
	"backlog/amqp/source.go":           "how long a message has been held: likewise",
	"backlog/amqp/outcomes.go":         "how long outcomes may be heard: likewise",
	"backlog/amqp/dispatch.go":         "how long a record may be with a worker: likewise, and when a message is sent",
	"backlog/amqp/marker.go":           "how long other processes may have records: likewise, and a name that no other process has",
	"backlog/amqp/worker.go":           "how long an attempt takes: likewise, and when a message is sent",
	"backlog/logging/screen.go":        "how long a bar has been there: time that passes",
	"backlog/web/site.go":              "the default of Now, and what nobody may guess",
	"backlog/storetest/":               "part of tests",
	"internal/testserver/":             "likewise",
	"internal/testkit/":                "likewise",
	"internal/worlds/":                 "likewise",
}

func TestClockIsAnArgument(t *testing.T) {
	used := make(map[string]bool)
	for _, s := range sources(t) {
		if s.test || s.folder == "cmd" || s.folder == "." {
			continue
		}
		reads := readsClock(s)
		if len(reads) == 0 {
			continue
		}
		allowed := s.path
		if clocks[allowed] == "" {
			allowed = s.folder + "/"
		}
		used[allowed] = true
		if clocks[allowed] == "" {
			for _, r := range reads {
				t.Errorf("%s: make it an argument", r)
			}
		}
	}
	for name := range clocks {
		if !used[name] {
			t.Errorf("%s may read the clock, and does not any more", name)
		}
	}
}

// readsClock returns where a file reads the clock or imports random numbers.
func readsClock(s source) (reads []string) {
	for _, p := range []string{"math/rand", "math/rand/v2", "crypto/rand"} {
		if _, ok := s.imports[p]; ok {
			reads = append(reads, s.path+" imports "+p)
		}
	}
	for _, at := range selected(s, "time", "Now", "Since", "Until") {
		reads = append(reads, at+" reads the clock")
	}
	return reads
}

// selected returns where a file selects one of the names of a package.
func selected(s source, imported string, names ...string) (places []string) {
	name, ok := s.imports[imported]
	if !ok {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == name && slices.Contains(names, sel.Sel.Name) {
			places = append(places, s.fset.Position(sel.Pos()).String())
		}
		return true
	})
	return places
}

// The first process of a container reaps every child but the programs that the package proc
// has started: the exit status of another one could be lost.
func TestProgramsAreStartedByProc(t *testing.T) {
	for _, s := range sources(t) {
		isTool := strings.HasPrefix(s.folder, "internal/") || strings.HasPrefix(s.folder, "packaging/")
		if s.test || isTool || s.folder == "backlog/handler/proc" {
			continue
		}
		places := selected(s, "os/exec", "Command", "CommandContext", "Cmd")
		for _, at := range append(places, selected(s, "os", "StartProcess")...) {
			t.Errorf("%s: start the program by proc.Program", at)
		}
	}
}
