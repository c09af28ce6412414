package cmd_test

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"backlog/internal/history"
)

// A killsPlan is one table and what happens to the programs that work on it.
type killsPlan struct {
	number  int
	seed    uint64
	kind    *siteKind
	program string // its path
	driver  string // of SQLite, in the program
	policy  *killsPolicy
	shape   *killsShape
	lines   bool // the handler is a worker
	strikes int
	only    []string // what is done; nil: what the shape says

	// patience is how long a daemon may take for what the strikes have left behind; 0: long.
	patience time.Duration
	planted  bool // the program has a fault, which is to be found
}

// String says how the plan differs from others.
func (p *killsPlan) String() string {
	handler := "exec"
	if p.lines {
		handler = "lines"
	}
	return fmt.Sprintf("%d-%s-%s-%s-%s", p.number, p.database(), p.policy.name, p.shape.name, handler)
}

// database returns the name of the database, with the driver if there are two.
func (p *killsPlan) database() string {
	if p.driver == "" {
		return p.kind.name
	}
	return p.kind.name + "/" + p.driver
}

// A killsShape is a way to work, in which some strikes make sense.
type killsShape struct {
	name    string
	strikes int      // of one plan
	kinds   []string // each as often as it is drawn
	long    string   // how long the calls of some rows take, which ignore SIGTERM
	fast    bool     // calls take no time, and a kill finds many outcomes unwritten
	servers bool     // only a server has sessions
	apart   bool     // the standby has a state folder of its own, as on another machine
}

var (
	plainKills = &killsShape{name: "plain", strikes: 16, kinds: []string{
		"daemon", "daemon", "daemon", "daemon", "daemon", "daemon", "once", "once", "once", "due", "due", "due",
		"handler", "handler", "handler", "stop", "stop", "pause",
	}}
	fastKills     = &killsShape{name: "fast", strikes: 8, fast: true, kinds: []string{"daemon", "daemon", "once", "due"}}
	handoverKills = &killsShape{name: "handover", strikes: 3, long: "6s", kinds: []string{"takeover", "takeover", "handover", "session", "prompt", "beside"}}
	frozenKills   = &killsShape{name: "frozen", strikes: 2, long: "2s", kinds: []string{"freeze"}, servers: true}
	apartKills    = &killsShape{name: "apart", strikes: 3, long: "6s", kinds: []string{"takeover", "session", "prompt", "prompt"}, servers: true, apart: true}
)

// A killsWorld is a plan that is being carried out.
type killsWorld struct {
	*site
	plan *killsPlan
	rand *rand.Rand

	rows     int
	inserted map[string]time.Time
	strikes  []history.Strike
	faults   []history.Violation
	counts   map[string]int // strikes by kind
	started  time.Time      // of the first program
	daemon   *daemon        // the one that leads; nil: none runs
	standby  *daemon

	notes   io.ReadSeekCloser
	rest    string
	running map[string]history.Call // calls that have not ended, by attempt
	called  map[string]time.Time    // when the last call of a row began
	calls   int
}

const (
	killsConcurrency = 4
	longConcurrency  = 12
	fastConcurrency  = 400
	fastRows         = 2500
	longRows         = 53 // of so many one takes long
	killsNarrow      = time.Hour
	killsWide        = 30 * 24 * time.Hour
	killsWideEvery   = 10 * time.Minute
)

// runKills carries out a plan, and returns what was done and what must not have happened.
func runKills(t *testing.T, p *killsPlan, noter string) (counts map[string]int, found []history.Violation) {
	t.Helper()
	w := newKillsWorld(t, p, noter)
	for range p.strikes {
		kinds := p.only
		if kinds == nil {
			kinds = p.shape.kinds
		}
		w.insert(w.batch())
		w.strike(kinds[w.rand.IntN(len(kinds))])
	}
	h := w.history(w.settle())
	found = append(w.faults, history.Check(h, w.rules())...)
	if len(found) > 0 && !p.planted {
		w.show(h, found)
	}
	return w.counts, found
}

func newKillsWorld(t *testing.T, p *killsPlan, noter string) *killsWorld {
	t.Helper()
	w := &killsWorld{
		site: newKillsSite(t, p.kind, p.policy), plan: p, rand: rand.New(rand.NewPCG(p.seed, uint64(p.number))),
		inserted: make(map[string]time.Time), counts: make(map[string]int), running: make(map[string]history.Call), called: make(map[string]time.Time),
	}
	w.program = p.program
	if p.shape.fast {
		w.env = append(w.env, "KILLS_FAST=1")
	}
	if p.shape.long != "" && !p.policy.deadlines {
		w.env = append(w.env, "KILLS_LONG="+p.shape.long)
	}
	atOnce := killsConcurrency
	if p.shape.long != "" {
		atOnce = longConcurrency
	}
	handler := fmt.Sprintf("{exec: [%q, exec, notes.log], concurrency: %d, timeout: %s}", noter, atOnce, w.timeout())
	switch {
	case p.shape.fast:
		handler = fmt.Sprintf("{lines: [%q, lines, notes.log], workers: 2, window: %d, timeout: %s}", noter, fastConcurrency/2, w.timeout())
	case p.lines:
		handler = fmt.Sprintf("{lines: [%q, lines, notes.log], workers: %d, window: 3, timeout: %s}", noter, atOnce, w.timeout())
	}
	tiers := fmt.Sprintf("{name: narrow, max_age: %v, every: 1s}, {name: wide, max_age: %v, every: %v}", killsNarrow, killsWide, killsWideEvery)
	if p.policy.deadlines {
		tiers = "{name: narrow, every: 1s}"
	}
	rest := fmt.Sprintf("database: %q\ntable: {name: BACKLOG, status: status}\nstatuses: {success: SUCCESS, dead: DEAD}\npolicy: %s\nhandler: %s\non_dead: {exec: [%q, exec, notes.log]}\ntiers: [%s]\n",
		w.url(nil), p.policy.setting, handler, noter, tiers)
	w.write("schedule.yaml", "state: state.json\n"+rest)
	w.write(apartConfig, "state: apart/state.json\n"+rest)
	w.write("notes.log", "")
	f, err := os.Open(w.path("notes.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	w.notes = f

	n := 80
	switch {
	case p.shape.fast:
		n = fastRows
	case p.shape.long != "":
		n = longRows
	}
	w.insert(n)
	if !p.policy.deadlines {
		w.insertAged(n/2, 2*time.Hour, 20*24*time.Hour)
	}
	w.started = time.Now()
	w.write("state.json", fmt.Sprintf(`{"last_wake": %q}`, w.started.Add(-killsWideEvery-time.Minute).UTC().Format(time.RFC3339)))
	return w
}

// timeout returns the timeout of a call, which may not be longer than the policy's.
func (w *killsWorld) timeout() string {
	if w.plan.policy.deadlines {
		return "5s"
	}
	return "1m"
}

// batch is how many rows are inserted before a strike.
func (w *killsWorld) batch() int {
	switch {
	case w.plan.shape.fast:
		return fastRows / 2
	case w.plan.shape.long != "":
		return longRows
	}
	return 12
}

func (w *killsWorld) insert(n int) { w.insertAged(n, time.Second, killsNarrow/2) }

// insertAged inserts fresh rows whose ages are between the two.
func (w *killsWorld) insertAged(n int, least, most time.Duration) {
	w.t.Helper()
	now := time.Now().UTC().Truncate(time.Second)
	column, more := "", ""
	if w.plan.policy.deadlines {
		column, more = ", refresh_at", fmt.Sprintf(", '2026-01-05 10:00:00%s'", w.kind.zone)
	}
	for n > 0 {
		values := make([]string, min(n, 500))
		for i := range values {
			w.rows++
			at := now.Add(-least - time.Duration(w.rand.Int64N(int64(most-least)))).Truncate(time.Second)
			if w.rows%longRows == 0 {
				at = now.Add(-least) // a pass begins with the newest ones
			}
			w.inserted[fmt.Sprint(w.rows)] = at
			values[i] = fmt.Sprintf("(%d, 'NEW', '%s%s'%s)", w.rows, at.Format(time.DateTime), w.kind.zone, more)
		}
		w.mustExec(fmt.Sprintf(`INSERT INTO "BACKLOG" (id, status, date_inserted%s) VALUES %s`, column, strings.Join(values, ", ")))
		n -= len(values)
	}
}

// look reads what handlers have written since the last call.
func (w *killsWorld) look() {
	w.t.Helper()
	text, err := io.ReadAll(w.notes)
	if err != nil {
		w.t.Fatal(err)
	}
	all := w.rest + string(text)
	end := strings.LastIndexByte(all, '\n') + 1
	w.rest = all[end:]
	for line := range strings.Lines(all[:end]) {
		f := strings.Fields(line)
		switch {
		case f[0] == "began" && len(f) == 7:
			calls, _ := history.ReadNotes(line)
			w.running[f[2]] = calls[0]
			w.called[calls[0].Key] = calls[0].Began
			w.calls++
		case f[0] == "ended":
			delete(w.running, f[2])
		}
	}
}

// until waits until cond is true of what handlers have written, or the program has ended. It
// reports whether cond became true.
func (w *killsWorld) until(d *daemon, most time.Duration, cond func() bool) bool {
	w.t.Helper()
	for deadline := time.Now().Add(most); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		w.look()
		if cond() {
			return true
		}
		if d.hasEnded() {
			return false
		}
	}
	return false
}

// moment waits for a random moment in the life of the program, most often while rows are
// handled.
func (w *killsWorld) moment(d *daemon) {
	w.t.Helper()
	if w.rand.IntN(4) > 0 {
		w.look()
		before := w.calls
		w.until(d, 3*time.Second, func() bool { return w.calls > before })
	}
	if w.rand.IntN(3) == 0 {
		w.hold()
	}
	most := 150_000
	if w.plan.shape.fast {
		most = 60_000
	}
	select {
	case <-d.end:
	case <-time.After(time.Duration(w.rand.IntN(most)) * time.Microsecond):
	}
}

// hold changes a row that is being handled, as another program does.
func (w *killsWorld) hold() {
	w.t.Helper()
	w.look()
	attempts := slices.Sorted(maps.Keys(w.running))
	if len(attempts) == 0 || w.plan.policy.deadlines {
		return
	}
	call := w.running[attempts[w.rand.IntN(len(attempts))]]
	w.mustExec(fmt.Sprintf(`UPDATE "BACKLOG" SET status = 'HELD' WHERE id = %s AND status IN ('NEW', 'ERROR')`, call.Key))
}

// lead starts a daemon unless one runs.
func (w *killsWorld) lead() *daemon {
	w.t.Helper()
	if w.daemon != nil && w.daemon.hasEnded() {
		w.fault("a daemon has ended by itself, with exit status %d:\n%s", w.daemon.cmd.ProcessState.ExitCode(), w.daemon.log)
		w.daemon = nil
	}
	if w.daemon == nil {
		w.daemon = w.start("run")
	}
	return w.daemon
}

func (w *killsWorld) fault(format string, args ...any) {
	w.faults = append(w.faults, history.Violation{Rule: "a program ends well", Text: fmt.Sprintf(format, args...)})
}

// struck notes what was done to a process.
func (w *killsWorld) struck(what string, pid int, at time.Time) {
	w.strikes = append(w.strikes, history.Strike{What: what, PID: pid, At: at, Until: time.Now()})
	for attempt, call := range w.running {
		if call.Program == pid || call.PID == pid {
			delete(w.running, attempt)
		}
	}
}

// kill kills a program, which may have ended before, and reports whether it had not.
func (w *killsWorld) kill(d *daemon) bool {
	w.t.Helper()
	at := time.Now()
	d.cmd.Process.Kill()
	<-d.end
	status := d.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Signaled() {
		if status.ExitStatus() != 0 {
			w.fault("%v has ended with exit status %d:\n%s", d.cmd.Args[1:], status.ExitStatus(), d.log)
		}
		return false
	}
	w.look()
	w.struck("kill", d.cmd.Process.Pid, at)
	return true
}

// stop ends a program by SIGTERM, and waits for its end.
func (w *killsWorld) stop(d *daemon) {
	w.t.Helper()
	at := time.Now()
	d.cmd.Process.Signal(syscall.SIGTERM)
	if !eventually(d.hasEnded) {
		w.t.Fatalf("it does not end:\n%s", d.log)
	}
	status := d.cmd.ProcessState.Sys().(syscall.WaitStatus)
	hadBegun := d.log.String() != "" // else SIGTERM may have come before the program was ready for it
	if status.ExitStatus() != 0 && (hadBegun || !status.Signaled()) {
		w.fault("%v has ended with exit status %d after SIGTERM:\n%s", d.cmd.Args[1:], status.ExitStatus(), d.log)
	}
	w.struck(history.Term, d.cmd.Process.Pid, at)
}

// strike strikes once.
func (w *killsWorld) strike(kind string) {
	w.t.Helper()
	done := true
	switch kind {
	case "daemon":
		d := w.lead()
		w.moment(d)
		done = w.kill(d)
		w.daemon = nil
	case "once":
		done = w.killOnce("once", "--wait", "30s", "--max-age", "59m")
	case "due":
		done = w.killOnce("once", "--due", "--wait", "30s")
	case "beside":
		done = w.killBeside()
	case "handler":
		done = w.killHandler()
	case "stop":
		d := w.lead()
		w.moment(d)
		w.stop(d)
		w.daemon = nil
	case "pause":
		d := w.lead()
		w.moment(d)
		d.cmd.Process.Signal(syscall.SIGSTOP)
		time.Sleep(time.Duration(w.rand.IntN(600)) * time.Millisecond)
		d.cmd.Process.Signal(syscall.SIGCONT)
	case "takeover", "handover", "session", "prompt", "freeze":
		done = w.takeOver(kind)
	default:
		w.t.Fatalf("there is no strike %q", kind)
	}
	if done {
		w.counts[kind]++
	}
}

// killOnce kills a program that makes one pass. A daemon is stopped first: they would wait for
// one another.
func (w *killsWorld) killOnce(args ...string) bool {
	w.t.Helper()
	if w.daemon != nil {
		w.stop(w.daemon)
		w.daemon = nil
	}
	if w.plan.policy.deadlines {
		args = slices.DeleteFunc(args, func(arg string) bool { return arg == "--max-age" || arg == "59m" })
	}
	d := w.start(args...)
	w.moment(d)
	return w.kill(d)
}

// killBeside kills a pass by hand that has waited for its turn beside a daemon.
func (w *killsWorld) killBeside() bool {
	w.t.Helper()
	w.lead().says(`"msg":"leading"`)
	args := []string{"once", "--wait", "30s", "--max-age", "59m"}
	if w.plan.policy.deadlines {
		args = args[:3]
	}
	d := w.start(args...)
	w.until(d, 15*time.Second, func() bool { return w.hasCallOf(d.cmd.Process.Pid) })
	w.moment(d)
	return w.kill(d)
}

func (w *killsWorld) hasCallOf(program int) bool {
	for _, call := range w.running {
		if call.Program == program {
			return true
		}
	}
	return false
}

// killHandler kills a handler at work.
func (w *killsWorld) killHandler() bool {
	w.t.Helper()
	d := w.lead()
	if !w.until(d, 3*time.Second, func() bool { return w.hasCallOf(d.cmd.Process.Pid) }) {
		return false
	}
	for _, attempt := range slices.Sorted(maps.Keys(w.running)) {
		call := w.running[attempt]
		if call.Program != d.cmd.Process.Pid || !isCommandOf(call.PID, w.handlerMark()) {
			continue
		}
		at := time.Now()
		if syscall.Kill(call.PID, syscall.SIGKILL) == nil {
			eventually(func() bool { return !isCommandOf(call.PID, w.handlerMark()) })
			w.struck(history.KillHandler, call.PID, at)
			return true
		}
	}
	return false
}

// handlerMark is in the command line of handlers.
func (w *killsWorld) handlerMark() string { return "notes.log" }

// takeOver lets a standby take over from a leader that is killed, stopped, cut off by the
// server, or frozen and cut off. A prompt standby asks for the lock as soon as the leader is cut off,
// which has probed the lock just before: handlers that ignore SIGTERM then live for longest.
func (w *killsWorld) takeOver(kind string) bool {
	w.t.Helper()
	a := w.lead()
	a.says(`"msg":"leading"`)
	if w.standby == nil {
		w.standby = w.startStandby(a)
		w.standby.says(`"msg":"standing by: another daemon leads"`)
	}
	b := w.standby
	isPrompt := kind == "prompt"
	if isPrompt {
		b.cmd.Process.Signal(syscall.SIGSTOP)
		time.Sleep(standbyAsks)
	} else {
		w.shift(b)
	}
	w.insert(longRows)
	w.until(a, 4*time.Second, func() bool { return w.hasLongCall(a) })
	if !isPrompt { // else the pass has just begun, and probed its lock
		time.Sleep(time.Duration(w.rand.IntN(2000)) * time.Millisecond)
	}
	pid := a.cmd.Process.Pid
	at := time.Now()
	ledBefore := leads(a)
	switch kind {
	case "takeover":
		w.kill(a)
		a = nil
	case "handover":
		w.stop(a)
		a = nil
	case "session":
		w.endSessionsOf(pid)
	case "prompt":
		w.endSessionsOf(pid)
		time.Sleep(50 * time.Millisecond) // until the server has released the lock
		b.cmd.Process.Signal(syscall.SIGCONT)
	case "freeze":
		a.cmd.Process.Signal(syscall.SIGSTOP)
		if w.rand.IntN(4) > 0 { // else the server itself ends them, as those of a machine that is suspended
			w.endSessionsOf(pid)
		}
	}
	ledB := leads(b)
	isCut := kind == "session" || isPrompt
	hasLeader := func() bool { return leads(b) > ledB || isCut && leads(a) > ledBefore }
	if !eventually(hasLeader) {
		w.t.Fatalf("nobody takes over:\n%s", b.log)
	}
	if kind == "freeze" {
		w.until(b, 2*time.Second, func() bool { return w.hasCallOf(b.cmd.Process.Pid) })
		a.cmd.Process.Signal(syscall.SIGCONT)
		a.says(`"msg":"the leader lock is lost`)
	}
	if isCut || kind == "freeze" {
		w.struck(kind, pid, at)
	}
	if leads(b) > ledB {
		w.daemon, w.standby = b, a
	}
	return true
}

// apartConfig is a configuration like schedule.yaml with another state folder. The folder has a lock
// file, too, for which the next process of the same machine waits.
const apartConfig = "apart.yaml"

func (w *killsWorld) startStandby(leader *daemon) *daemon {
	if w.plan.shape.apart && !slices.Contains(leader.cmd.Args, apartConfig) {
		return w.start("run", "--config", apartConfig)
	}
	return w.start("run")
}

// standbyAsks is how often a standby asks for the lock. One that was stopped for so long asks as soon
// as it goes on.
const standbyAsks = 2 * time.Second

// shift lets the standby ask for the lock at other instants than before. Both ask the server every
// two seconds, and a standby that has led before does so just after the leader.
func (w *killsWorld) shift(standby *daemon) {
	standby.cmd.Process.Signal(syscall.SIGSTOP)
	time.Sleep(time.Duration(w.rand.Int64N(int64(standbyAsks))))
	standby.cmd.Process.Signal(syscall.SIGCONT)
}

// leads returns how often the daemon has become the leader.
func leads(d *daemon) int { return strings.Count(d.log.String(), `"msg":"leading"`) }

// hasLongCall reports whether the daemon has begun a call that takes long.
func (w *killsWorld) hasLongCall(d *daemon) bool {
	for _, call := range w.running {
		took := time.Since(call.Began)
		isLong := call.Program == d.cmd.Process.Pid && took > 100*time.Millisecond && took < time.Second
		if isLong {
			return true
		}
	}
	return false
}

// endSessionsOf has the server end the connections of one process.
func (w *killsWorld) endSessionsOf(pid int) {
	w.t.Helper()
	ports := portsOf(pid)
	for line := range strings.Lines(w.site.rows(fmt.Sprintf(killsDialects[w.kind].ports, w.own))) {
		f := strings.Fields(line)
		if len(f) == 2 && ports[f[1]] {
			w.db.Exec(fmt.Sprintf(w.kind.end, f[0])) // it may be gone by itself
		}
	}
}
