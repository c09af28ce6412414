// Package cmd_test drives the program from outside, as its user does: every
// command runs in a process of its own.
package cmd_test

import (
	"database/sql"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // as the program has it

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"backlog/backlog/table/sqlite"
	"backlog/cmd"
)

func TestMain(m *testing.M) {
	// Processes with the race detector in them sleep for a second before
	// they exit, unless told otherwise.
	os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
	// Daemons mostly wait, so more tests at once than there are processors
	// are no burden, unless the race detector keeps those busy. The flag's own
	// value, if given, comes after this one.
	parallel := "12"
	if raced() {
		parallel = "6"
	}
	if torture > 1 {
		patience, parallel = 3*time.Minute, "24" // what is killed mostly waits
	}
	flag.Set("test.parallel", parallel)
	testscript.Main(programs{m}, map[string]func(){
		"backlog": func() { os.Exit(cmd.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// programs makes the program before the tests run. Under the race detector there are two:
// one with it, which tests start beside them, and one without it, as make build has it,
// which they run to its end, and which is in PATH. Such runs are thousands, and spent most
// of their time on the detector's own start.
type programs struct{ *testing.M }

var (
	beside, released string          // the paths of the two
	releasedDriver   = sqlite.Driver // that of SQLite in the other
)

func (m programs) Run() int {
	path := func() string {
		name, err := exec.LookPath("backlog")
		if err != nil {
			panic(err)
		}
		return name
	}
	beside = path()
	if raced() {
		dir, err := os.MkdirTemp("", "backlog-bin-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-tags=", "-race=false", "-o", dir, "backlog")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := build.CombinedOutput(); err != nil {
			panic(fmt.Sprintf("%v: %v\n%s", build, err, text))
		}
		os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
		releasedDriver = "modernc.org/sqlite"
	}
	released = path()
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP) // under nohup, too, programs are started that do not ignore it
	return m.M.Run()
}

// patience is how long a test waits for what comes at once unless something is
// broken, on however busy a machine.
var patience = time.Minute

// eventually reports whether cond becomes true.
func eventually(cond func() bool) bool { return eventuallyWithin(patience, cond) }

func eventuallyWithin(d time.Duration, cond func() bool) bool {
	return eventuallyEvery(25*time.Millisecond, d, cond)
}

// eventuallyEvery is for a condition that costs much to find out.
func eventuallyEvery(pace, d time.Duration, cond func() bool) bool {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for deadline := time.Now().Add(d); !cond(); <-tick.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// raced reports whether the race detector is in the test.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// openDB opens an SQLite file, creating it if need be, with the test's own driver.
func openDB(path string) (*sql.DB, error) {
	db, err := sql.Open(sqliteDriver(), "file:"+path)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("PRAGMA busy_timeout = 30000"); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// query returns the statement's rows as lines of tab-separated text. What the
// drivers make a time of is shown as it is stored.
func query(db *sql.DB, text string) (string, error) {
	rows, err := db.Query(text)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for rows.Next() {
		row := make([]any, len(names))
		to := make([]any, len(names))
		for i := range row {
			to[i] = &row[i]
		}
		if err := rows.Scan(to...); err != nil {
			return "", err
		}
		for i, v := range row {
			if i > 0 {
				b.WriteByte('\t')
			}
			switch v := v.(type) {
			case nil:
				b.WriteString("NULL")
			case time.Time:
				return "", fmt.Errorf("column %s comes as a time; write +%[1]s to see what is stored", names[i])
			case []byte:
				b.Write(v)
			default:
				fmt.Fprint(&b, v)
			}
		}
		b.WriteByte('\n')
	}
	return b.String(), rows.Err()
}

// sqliteDriver returns the name of the driver that the test is built with.
func sqliteDriver() string {
	if slices.Contains(sql.Drivers(), "sqlite3") {
		return "sqlite3"
	}
	return "sqlite"
}
