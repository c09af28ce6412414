package cmd_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// everySystemCall says that each system call is tampered with, as `make syscalls` wants it; otherwise a few
// that are drawn.
var everySystemCall = os.Getenv("BACKLOG_SYSCALLS") == "all"

// A tampering is what strace does to a system call of the program.
type tampering struct {
	call  string // strace's names of it
	fault string // a signal before it, or an error instead of it
	burst int    // so many calls in a row; 0: one
	most  int    // the highest number that is drawn: about as many calls a thread has
}

const kill = "signal=SIGKILL"

// fileTamperings are for a database that is a file, and for the state folder.
var fileTamperings = []tampering{
	{"fsync,fdatasync", kill, 0, 12},
	{"pwrite64", kill, 0, 30},
	{"write", kill, 0, 60},
	{"rename,renameat", kill, 0, 6},
	{"unlink,unlinkat", kill, 0, 6},
	{"ftruncate", kill, 0, 4},
	{"open,openat", kill, 0, 25},
	{"mkdirat", kill, 0, 1},
	{"fsync,fdatasync", "error=EIO", 0, 12},
	{"fsync,fdatasync", "error=ENOSPC", 4, 12},
	{"pwrite64", "error=ENOSPC", 0, 30},
	{"pwrite64", "error=ENOSPC", 6, 30},
	{"pwrite64", "error=EIO", 0, 30},
	{"pread64", "error=EIO", 0, 30},
	{"write", "error=ENOSPC", 0, 60},
	{"write", "error=EIO", 0, 60},
	{"rename,renameat", "error=ENOSPC", 0, 6},
	{"rename,renameat", "error=EIO", 3, 6},
	{"unlink,unlinkat", "error=EIO", 0, 6},
	{"ftruncate", "error=EIO", 0, 4},
	{"open,openat", "error=ENOSPC", 0, 25},
	{"open,openat", "error=EIO", 2, 25},
	{"mkdirat", "error=ENOSPC", 0, 1},
}

// serverTamperings are for a database that is a server: to it the program writes, from it it reads.
var serverTamperings = []tampering{
	{"write,sendto", kill, 0, 60},
	{"read,recvfrom", kill, 0, 60},
	{"fsync,fdatasync", kill, 0, 6},
	{"rename,renameat", kill, 0, 4},
	{"connect", kill, 0, 3},
	{"write,sendto", "error=EIO", 0, 60},
	{"read,recvfrom", "error=EIO", 0, 60},
	{"fsync,fdatasync", "error=ENOSPC", 3, 6},
	{"rename,renameat", "error=ENOSPC", 0, 4},
}

// A tamperedSite is a site whose program is killed, or gets errors, at its system calls.
type tamperedSite struct {
	*site
	witness *powerWitness
	start   *disk // the files before each point
	tick    time.Time
	words   map[string]bool // what the program has said of errors
}

const tamperedRecords = 60

// TestSystemCalls kills the program before a system call of a pass, or lets the call fail, again and again, and
// looks at what is left and at what the next start makes of it. To repeat the draws, set BACKLOG_SYSCALLS_SEED.
func TestSystemCalls(t *testing.T) {
	t.Parallel()
	needStrace(t)
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("BACKLOG_SYSCALLS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct {
		name       string
		kind       *siteKind
		mode       string
		tamperings []tampering
	}{
		{"sqlite, delete", onSQLite, "delete", fileTamperings},
		{"sqlite, wal", onSQLite, "wal", fileTamperings},
		{"postgres", onPostgres, "", serverTamperings},
		{"mysql", onMySQL, "", serverTamperings},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			s := newTamperedSite(t, x.kind, x.mode)
			began := time.Now()
			var hits, kills int
			if everySystemCall {
				hits, kills = s.all(x.tamperings)
			} else {
				hits, kills = s.some(x.tamperings, seed)
			}
			t.Logf("seed %d: %d kills and %d errors in %v", seed, kills, hits-kills, time.Since(began).Round(time.Second))
			for _, line := range slices.Sorted(maps.Keys(s.words)) {
				t.Log(line)
			}
		})
	}
}

// some tampers with calls that are drawn.
func (s *tamperedSite) some(list []tampering, seed uint64) (hits, kills int) {
	r := rand.New(rand.NewPCG(seed, 0))
	for range 8 {
		x := list[r.IntN(len(list))]
		if s.tamper(x, 1+r.IntN(x.most), seed) {
			hits++
			if x.fault == kill {
				kills++
			}
		}
	}
	return hits, kills
}

// all tampers with every call of a pass. strace counts the calls of each thread by themselves, and they are not
// in the same thread each time: three numbers in a row that none comes to are the end.
func (s *tamperedSite) all(list []tampering) (hits, kills int) {
	for _, x := range list {
		missed := 0
		for n := 1; missed < 3 && n < 400; n++ {
			if !s.tamper(x, n, 0) {
				missed++
				continue
			}
			missed = 0
			hits++
			if x.fault == kill {
				kills++
			}
		}
	}
	return hits, kills
}

func newTamperedSite(t *testing.T, kind *siteKind, mode string) *tamperedSite {
	s := &tamperedSite{witness: newPowerWitness(t), words: make(map[string]bool)}
	outside := newShop(t, nil)
	image := &shop{t: t, dir: outside.path("image"), program: released}
	for _, folder := range []string{image.dir, image.path("data"), outside.path("tmp")} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	image.env = []string{"TMPDIR=" + outside.path("tmp")}
	s.site = &site{shop: image, kind: kind}
	database := "sqlite:data/backlog.db"
	if kind == onSQLite {
		s.db = s.data().open()
		s.mustExec("PRAGMA journal_mode = " + mode)
	} else {
		kind.open(s.site)
		database = s.url(nil)
	}
	tables := kind.table
	if kind == onSQLite {
		tables = tables[:3]
	}
	for _, text := range tables {
		s.mustExec(text)
	}
	s.write("schedule.yaml", fmt.Sprintf("database: %s\nstate: state/orders.json\nhandler: {http: {url: %q}, concurrency: 4}\n"+
		"log: {level: warn, format: json}\ntiers: [{max_age: 1d, every: 1h}, {max_age: 30d, every: 2h}]\n", database, s.witness.server.URL))
	s.tick = time.Now().UTC().Truncate(2 * time.Hour)
	s.renew()
	if kind == onSQLite {
		s.db.Close()
		s.db = nil
	}
	var err error
	if s.start, err = newDisk(s.dir); err != nil {
		t.Fatal(err)
	}
	s.witness.delay = time.Millisecond
	return s
}

// data returns the shop in the folder of the database.
func (s *tamperedSite) data() *shop { return &shop{t: s.t, dir: s.path("data")} }

// renew fills the table as it is before each point.
func (s *tamperedSite) renew() {
	s.t.Helper()
	s.mustExec(`DELETE FROM "BACKLOG"`)
	s.fill(tamperedRecords, func(int) string { return "NEW" }, func(i int) time.Duration { return 3*time.Hour + time.Duration(i)*5*time.Hour })
}

// A tamperedRun is a pass that was tampered with.
type tamperedRun struct {
	hit    *systemCall // nil: none
	killed bool
	status int
	out    string
	log    string
}

// pass runs a pass with strace, which tampers with the n-th call of a thread.
func (s *tamperedSite) pass(x tampering, n int) (r tamperedRun) {
	s.t.Helper()
	trace := filepath.Join(filepath.Dir(s.dir), "trace")
	c := s.command("once", "--due", "--json", "--now", s.tick.Format(time.RFC3339))
	when := strconv.Itoa(n)
	if x.burst > 0 {
		when = fmt.Sprintf("%d..%d", n, n+x.burst)
	}
	straced(c, trace, x.call, "-e", "inject="+x.call+":"+x.fault+":when="+when)
	var out, log bytes.Buffer
	c.Stdout, c.Stderr = &out, &log
	err := c.Run()
	if _, isExit := err.(*exec.ExitError); err != nil && !isExit {
		s.t.Fatal(err)
	}
	r.out, r.log, r.status = out.String(), log.String(), c.ProcessState.ExitCode()
	r.killed = c.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	steps, err := readTrace(trace)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, step := range steps { // a kill is at the last call that has begun
		if r.killed && !step.returned || step.injected && r.hit == nil {
			r.hit = step.systemCall
		}
	}
	return r
}

// tamper tampers with a call and fails the test unless the program does what it promises. It reports whether there
// was such a call.
func (s *tamperedSite) tamper(x tampering, n int, seed uint64) bool {
	s.t.Helper()
	if err := s.start.clone().rebuild(); err != nil {
		s.t.Fatal(err)
	}
	if s.db != nil {
		s.renew()
	}
	s.witness.rewind(nil, time.Time{})
	r := s.pass(x, n)
	s.awaitEnd()
	var problems []string
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }

	// A call of Go itself has failed, or one of the system's loader.
	isRuntime := r.hit != nil && (strings.Contains(r.log, "fatal error: runtime: netpoll") || strings.Contains(r.log, "error while loading shared libraries"))
	status := s.statuses("after it", wrong)
	successes := s.witness.successes(time.Now())
	settled := 0
	for id, is := range status {
		if is == "SUCCESS" {
			settled++
		}
		if is == "SUCCESS" && successes[id] == 0 {
			wrong("record %d is SUCCESS, and its handler has not succeeded", id)
		}
	}
	switch {
	case r.killed, isRuntime:
	case r.status == 0:
		s.note(r)
		var report struct{ Succeeded int }
		if err := json.Unmarshal([]byte(r.out), &report); err == nil && report.Succeeded != settled {
			wrong("it ends with 0 and reports %d successes, and %d are in the table", report.Succeeded, settled)
		}
	case r.hit == nil:
		wrong("exit status %d without an error", r.status)
	default:
		s.judgeWords(r, wrong)
	}
	before := len(s.witness.answers)
	isAmid := len(s.witness.tried(time.Now())) < tamperedRecords
	s.judgeNext(r.killed && isAmid, !r.killed && r.hit == nil, wrong)
	if again := s.witness.handledAgain(before); again > 500 {
		wrong("%d records were handled again", again)
	}
	if len(problems) > 0 {
		s.t.Errorf("seed %d: %s:%s:when=%d+%d hits %v; killed: %t, exit status %d\n%s%s\n%s",
			seed, x.call, x.fault, n, x.burst, r.hit, r.killed, r.status, r.out, r.log, strings.Join(problems, "\n"))
	}
	return r.hit != nil
}

// awaitEnd waits until the server has noticed that the program has ended.
func (s *tamperedSite) awaitEnd() {
	s.t.Helper()
	if s.kind != onSQLite && !eventually(func() bool { return s.rows(fmt.Sprintf(s.kind.sessions, s.own)) == "" }) {
		s.t.Fatal("the program's sessions do not end")
	}
}

// errorWords are how an error of a system call is told: by Go, by SQLite, for which a read that fails is a damaged
// file and a journal that cannot be created a database that is read-only, and by the program, of a connection.
var errorWords = regexp.MustCompile(`no space left on device|input/output error|disk I/O error|database or disk is full|` +
	`unable to open database file|database disk image is malformed|attempt to write a readonly database|` +
	`broke the connection off|the connection broke off`)

// errorPlaces are where it has happened. A trial write names the table.
var errorPlaces = regexp.MustCompile(`state/|schedule\.yaml|/dev/std|the database|the disk|lock file|table BACKLOG`)

// judgeWords asserts that the program says which error was where, and ends with the status for it.
func (s *tamperedSite) judgeWords(r tamperedRun, wrong func(string, ...any)) {
	s.note(r)
	isConfig := r.status == 2 && strings.Contains(r.log, "schedule.yaml")
	if r.status != 1 && !isConfig {
		wrong("exit status %d", r.status)
	}
	if !errorWords.MatchString(r.log) || !errorPlaces.MatchString(r.log) {
		wrong("it does not say which error was where")
	}
}

// variable is what differs in each run: times, and the names of new files.
var variable = regexp.MustCompile(`"time":"[^"]*",|"(selected|succeeded|failed|refused|seconds|after)":[^,}]*,|\d{5,}`)

// note remembers for the test's log what the program has said of errors.
func (s *tamperedSite) note(r tamperedRun) {
	for line := range strings.Lines(strings.ReplaceAll(r.log, filepath.Dir(s.dir), "")) {
		if errorWords.MatchString(line) && !strings.Contains(line, `"cause":`) {
			s.words[fmt.Sprintf("exit status %d: %.400s", r.status, variable.ReplaceAllString(strings.TrimSpace(line), ""))] = true
		}
	}
}

// statuses returns what the records are, by their ids.
func (s *tamperedSite) statuses(when string, wrong func(string, ...any)) map[int]string {
	s.t.Helper()
	db := s.db
	if db == nil {
		db = s.data().open()
		defer db.Close()
		if text, err := query(db, "PRAGMA integrity_check"); text != "ok\n" {
			wrong("%s, integrity_check: %s%v", when, text, err)
		}
	}
	text, err := query(db, `SELECT id, status FROM "BACKLOG"`)
	if err != nil {
		wrong("%s: %v", when, err)
	}
	list := make(map[int]string)
	for line := range strings.Lines(text) {
		var id int
		var status string
		fmt.Sscan(line, &id, &status)
		list[id] = status
	}
	if len(list) != tamperedRecords {
		wrong("%s, there are %d of %d records", when, len(list), tamperedRecords)
	}
	return list
}

// judgeNext asserts that the next starts, with which nobody tampers, go on.
func (s *tamperedSite) judgeNext(isOwed, isDone bool, wrong func(string, ...any)) {
	s.t.Helper()
	later := s.tick.Add(30 * time.Second).Format(time.RFC3339)
	for _, args := range [][]string{{"once", "--due", "--json", "--now", later}, {"once", "--max-age", "60d"}, {"status", "--json"}} {
		status, out, log := s.run(args...)
		if status != 0 || strings.Contains(log, `"level":"ERROR"`) {
			wrong("then backlog %s: exit status %d\n%s%s", strings.Join(args, " "), status, out, log)
		}
		var report struct{ Tier string }
		if args[1] != "--due" {
			continue
		}
		err := json.Unmarshal([]byte(out), &report)
		if err != nil || isOwed && report.Tier == "" || isDone && report.Tier != "" {
			wrong("owed: %t, done: %t, and the next start says %s%v", isOwed, isDone, out, err)
		}
	}
	successes := s.witness.successes(time.Now())
	for id, is := range s.statuses("after another pass", wrong) {
		if is == "SUCCESS" && successes[id] == 0 || !slices.Contains([]string{"SUCCESS", "ERROR"}, is) {
			wrong("record %d is %s after another pass, and has succeeded %d times", id, cmp.Or(is, "gone"), successes[id])
		}
	}
}
