package cmd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// powerPoints is how often the power is lost in each journal mode: few times, unless
// `make power` says more.
var powerPoints = func() int {
	n, _ := strconv.Atoi(os.Getenv("BACKLOG_POWER"))
	if n > 0 {
		return n
	}
	return 30
}()

// A powerWitness is the service that the program sends the records to. It notes what it has
// answered, and when, before the program can know.
type powerWitness struct {
	server *httptest.Server
	delay  time.Duration

	mu       sync.Mutex
	answers  []powerAnswer
	attempts map[int]int // how many there are of each record
}

// A powerAnswer is what the witness has answered to an attempt.
type powerAnswer struct {
	id      int
	attempt string
	success bool
	at      time.Time
}

func newPowerWitness(t *testing.T) *powerWitness {
	w := &powerWitness{attempts: make(map[int]int)}
	w.server = httptest.NewServer(w)
	t.Cleanup(w.server.Close)
	return w
}

// ServeHTTP implements http.Handler. A third of the records succeed at the first attempt, a sixth at the
// second, a third at the third, and a sixth never.
func (w *powerWitness) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	var record struct{ ID int }
	if err := json.NewDecoder(r.Body).Decode(&record); err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest) // the program has ended
		return
	}
	w.mu.Lock()
	delay := w.delay
	w.mu.Unlock()
	time.Sleep(delay)
	w.mu.Lock()
	before := w.attempts[record.ID]
	needs := []int{0, 1, 2, 0, 1 << 30, 2}[record.ID%6]
	a := powerAnswer{record.ID, r.Header.Get("Backlog-Attempt-Id"), before >= needs, time.Now()}
	w.add(a)
	w.mu.Unlock()
	if !a.success {
		out.WriteHeader(http.StatusInternalServerError)
	}
}

// add notes an answer.
func (w *powerWitness) add(a powerAnswer) {
	w.answers = append(w.answers, a)
	w.attempts[a.id]++
}

// rewind forgets the answers after a time. all are those of the recording.
func (w *powerWitness) rewind(all []powerAnswer, until time.Time) (left int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers = nil
	clear(w.attempts)
	for _, a := range all {
		if !a.at.After(until) {
			w.add(a)
		}
	}
	return len(w.answers)
}

// successes returns how often each record has succeeded until a time.
func (w *powerWitness) successes(until time.Time) map[int]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make(map[int]int)
	for _, a := range w.answers {
		if a.success && !a.at.After(until) {
			list[a.id]++
		}
	}
	return list
}

// tried returns which records had an attempt until a time.
func (w *powerWitness) tried(until time.Time) map[int]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make(map[int]bool)
	for _, a := range w.answers {
		if !a.at.After(until) {
			list[a.id] = true
		}
	}
	return list
}

// handledAgain returns how many records were handled again that had succeeded among the first n answers.
func (w *powerWitness) handledAgain(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	done := make(map[int]bool)
	for _, a := range w.answers[:n] {
		if a.success {
			done[a.id] = true
		}
	}
	again := make(map[int]bool)
	for _, a := range w.answers[n:] {
		if done[a.id] {
			again[a.id] = true
		}
	}
	return len(again)
}

// A powerRun is one start of the program, as strace has seen it.
type powerRun struct {
	next    time.Time // what the next start takes for now: no tick lies between this run and that
	steps   []traceStep
	started time.Time
	ended   time.Time
}

// A powerShop is a shop whose power is lost.
type powerShop struct {
	*shop
	witness *powerWitness
	runs    []powerRun
	start   *disk // before the first run
	records int
	answers []powerAnswer
}

// TestPowerLoss records the system calls of a few passes once. Then it cuts the power after
// many of them, builds the files as such a loss may leave them, starts the program there, and
// looks at what it does. To repeat the draws on another recording, set BACKLOG_POWER_SEED to
// the seed that it prints.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	needStrace(t)
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("BACKLOG_POWER_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	test := func(name, mode string, records, concurrency, points int, delay time.Duration) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newPowerShop(t, mode, records, concurrency)
			s.witness.mu.Lock()
			s.witness.delay = delay
			s.witness.mu.Unlock()
			s.record()
			s.replay(seed, points)
		})
	}
	// A handler that takes a while makes several groups of a pass; many records make full groups.
	for _, mode := range []string{"delete", "wal"} {
		test(mode, mode, 100, 4, powerPoints, 6*time.Millisecond)
		if powerPoints >= 200 {
			test(mode+" of many", mode, 1500, 16, powerPoints/20, 0)
		}
	}
}

func newPowerShop(t *testing.T, mode string, records, concurrency int) *powerShop {
	s := &powerShop{shop: newShop(t, nil), witness: newPowerWitness(t), records: records}
	// What is outside of the image is lost at once: the folder of the image is one below.
	outside, err := filepath.EvalSymlinks(s.dir) // as strace shows it
	if err != nil {
		t.Fatal(err)
	}
	s.dir = filepath.Join(outside, "image")
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.program = released
	// A folder each: a sync of one says nothing of the other.
	if err := os.Mkdir(s.path("data"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.write("schedule.yaml", fmt.Sprintf("database: sqlite:data/backlog.db\nstate: state/orders.json\n"+
		"handler: {http: {url: %q}, concurrency: %d}\nlog: {level: warn, format: json}\n"+
		"tiers: [{max_age: 1d, every: 1h}, {max_age: 30d, every: 2h}]\n", s.witness.server.URL, concurrency))
	x := &site{shop: s.data(s.dir), kind: onSQLite}
	x.db = x.open()
	defer x.db.Close()
	x.mustExec("PRAGMA journal_mode = " + mode)
	for _, text := range onSQLite.table[:3] {
		x.mustExec(text)
	}
	// A half is young, so that the narrow tier has work.
	x.fill(records, func(int) string { return "NEW" }, func(i int) time.Duration {
		if i%2 == 0 {
			return 8*time.Hour + time.Duration(i%100)*7*time.Minute
		}
		return 30*time.Hour + time.Duration(i%100)*5*time.Hour
	})
	return s
}

// data returns the shop in the folder of the database.
func (s *powerShop) data(dir string) *shop { return &shop{t: s.t, dir: filepath.Join(dir, "data")} }

// record lets three passes of once run, and a daemon that makes up for the ticks since then.
func (s *powerShop) record() {
	s.t.Helper()
	var err error
	if s.start, err = newDisk(s.dir); err != nil {
		s.t.Fatal(err)
	}
	tick := time.Now().UTC().Truncate(2 * time.Hour).Add(-6 * time.Hour)
	for hour := range 3 {
		now := tick.Add(time.Duration(hour) * time.Hour)
		// If the state is lost, a tick counts that is less than a minute old.
		s.recordRun(now.Add(30*time.Second), "once", "--due", "--json", "--now", now.Format(time.RFC3339))
	}
	s.recordRun(time.Time{}, "run")
	s.witness.delay = 0
	s.answers = s.witness.answers
	for i, r := range s.runs {
		if !s.answersAfter(r, r.started) {
			s.t.Fatalf("run %d has handled nothing", i+1)
		}
	}
}

// recordRun records a run. next is zero for one whose time is the clock's.
func (s *powerShop) recordRun(next time.Time, args ...string) {
	s.t.Helper()
	trace := filepath.Join(filepath.Dir(s.dir), fmt.Sprintf("trace-%d", len(s.runs)))
	c := s.command(args...)
	straced(c, trace, diskCalls)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	r := powerRun{next: next, started: time.Now()}
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	if args[0] == "run" {
		if !eventually(func() bool { return strings.Count(s.read("state/orders-passes.jsonl"), "\n") > len(s.runs) }) {
			s.t.Fatalf("the daemon has no pass:\n%s", &out)
		}
		s.stopTraced(c.Process.Pid)
	}
	if err := c.Wait(); err != nil {
		s.t.Fatalf("backlog %s: %v\n%s", strings.Join(args, " "), err, &out)
	}
	r.ended = time.Now()
	if next.IsZero() {
		r.next = r.ended.Add(time.Second) // it is given in whole seconds
	}
	var err error
	if r.steps, err = readTrace(trace); err != nil {
		s.t.Fatal(err)
	}
	s.runs = append(s.runs, r)
}

// stopTraced ends the program that strace runs.
func (s *powerShop) stopTraced(strace int) {
	s.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", strace))
	child, invalid := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || invalid != nil {
		s.t.Fatalf("strace runs no program: %v, %v", err, invalid)
	}
	if err := syscall.Kill(child, syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
}

// A powerPoint is a moment at which the power may be lost: after a step of a run.
type powerPoint struct{ run, step int }

// replay cuts the power n times. If n allows it, it does so first after each call, without and with a loss of
// all that is not synced; then it draws point and loss.
func (s *powerShop) replay(seed uint64, n int) {
	points := s.points()
	began := time.Now()
	account := new(powerAccount)
	for i := range n {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		p := points[r.IntN(len(points))]
		if r.IntN(8) == 0 {
			p = s.ends()[r.IntN(len(s.runs))]
		}
		loss := drawLoss(r)
		if n > 2*len(points) && i < 2*len(points) {
			p = points[i/2]
			loss = powerLosses[i%2]
		}
		problems := s.lose(r, p, loss, account)
		if len(problems) > 0 {
			account.bad++
			s.t.Errorf("seed %d, point %d of %d:\n%s", seed, i+1, n, strings.Join(problems, "\n"))
		}
		if account.bad > 5 {
			s.t.Fatal("and so on")
		}
	}
	s.t.Logf("seed %d: power lost %d times at %d points in %v: at most %d records were handled again after their success, %.1f on the average",
		seed, n, len(points), time.Since(began).Round(time.Second), account.again, float64(account.againAll)/float64(n))
}

// ends returns the points at which the runs have ended.
func (s *powerShop) ends() (list []powerPoint) {
	for i, r := range s.runs {
		list = append(list, powerPoint{i, len(r.steps)})
	}
	return list
}

// A powerAccount sums up the points.
type powerAccount struct{ again, againAll, bad int }

// points returns all steps after which something else may be left.
func (s *powerShop) points() (list []powerPoint) {
	s.t.Helper()
	d := s.start.clone()
	for i, r := range s.runs {
		d.restart()
		for j, step := range r.steps {
			differs, err := d.apply(step)
			if err != nil {
				s.t.Fatal(err)
			}
			if differs {
				list = append(list, powerPoint{i, j})
			}
		}
		list = append(list, powerPoint{i, len(r.steps)}) // it has ended
	}
	return list
}

// answersAfter reports whether a record was handled in the run after a time.
func (s *powerShop) answersAfter(r powerRun, at time.Time) bool {
	return slices.ContainsFunc(s.answers, func(a powerAnswer) bool { return a.at.After(at) && a.at.Before(r.ended) })
}

// A powerCheck collects what is wrong after a loss of power.
type powerCheck struct {
	*powerShop
	problems []string
}

func (c *powerCheck) wrong(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// lose cuts the power at the point and returns what is wrong with what is left, and with what the program
// makes of it.
func (s *powerShop) lose(r *rand.Rand, p powerPoint, loss powerLoss, account *powerAccount) []string {
	s.t.Helper()
	d, at := s.diskAt(p)
	d.lose(r, loss)
	if err := d.rebuild(); err != nil {
		s.t.Fatal(err)
	}
	before := s.witness.rewind(s.answers, at)
	c := &powerCheck{powerShop: s}
	c.judgeImage(p, at)
	c.judgeDue(p, at)
	c.judgeOnce(r)
	again := s.witness.handledAgain(before)
	if again > 500 {
		c.wrong("%d records were handled again after their success", again)
	}
	account.again = max(account.again, again)
	account.againAll += again
	if len(c.problems) > 0 {
		return append(c.problems, s.history(p, loss))
	}
	return nil
}

// diskAt returns the disk after the point, and the time of it.
func (s *powerShop) diskAt(p powerPoint) (d *disk, at time.Time) {
	d = s.start.clone()
	at = s.runs[0].started
	for i := range p.run + 1 {
		d.restart()
		steps := s.runs[i].steps
		if i == p.run {
			steps = steps[:min(p.step+1, len(steps))]
		}
		for _, step := range steps {
			d.apply(step) // points has seen that it can
			at = step.at
		}
		if i < p.run || p.step >= len(s.runs[i].steps) {
			at = s.runs[i].ended
		}
	}
	return d, at
}

// judgeImage asserts what is on the disk before the program sees it. It looks at a copy, because SQLite
// itself mends a file that it opens.
func (c *powerCheck) judgeImage(p powerPoint, at time.Time) {
	c.t.Helper()
	side := &shop{t: c.t, dir: filepath.Join(filepath.Dir(c.dir), "side")}
	if err := os.RemoveAll(side.dir); err != nil {
		c.t.Fatal(err)
	}
	if err := os.CopyFS(side.dir, os.DirFS(c.path("data"))); err != nil {
		c.t.Fatal(err)
	}
	status := c.statuses(side, "after the loss")
	successes := c.witness.successes(at)
	for id, is := range status {
		if is == "SUCCESS" && successes[id] == 0 {
			c.wrong("record %d is SUCCESS, and its handler had not succeeded", id)
		}
	}
	if ended := c.endedBefore(p); ended >= 0 {
		until := c.runs[ended].ended
		var undone []int
		succeeded := c.witness.successes(until)
		for id := range c.witness.tried(until) {
			if status[id] == "NEW" || succeeded[id] > 0 && status[id] != "SUCCESS" {
				undone = append(undone, id)
			}
		}
		if len(undone) > 0 {
			slices.Sort(undone)
			c.wrong("run %d has ended, and its outcomes of %d records are undone: %v", ended+1, len(undone), undone)
		}
	}
	if text := c.read("state/orders.json"); text != "" && !json.Valid([]byte(text)) {
		c.wrong("the state file is torn: %q", text)
	}
}

// endedBefore returns the last run that has ended before the point, -1 if there is none.
func (s *powerShop) endedBefore(p powerPoint) int {
	if p.step >= len(s.runs[p.run].steps) {
		return p.run
	}
	return p.run - 1
}

// statuses returns what the records are, by their ids, after it has asserted that the database is whole.
func (c *powerCheck) statuses(in *shop, when string) map[int]string {
	c.t.Helper()
	list := make(map[int]string)
	db := in.open()
	defer db.Close()
	text, err := query(db, "PRAGMA integrity_check")
	if err != nil || text != "ok\n" {
		c.wrong("%s, integrity_check: %s%v", when, text, err)
		return list
	}
	text, err = query(db, "SELECT id, status FROM BACKLOG")
	if err != nil {
		c.wrong("%s: %v", when, err)
	}
	for line := range strings.Lines(text) {
		var id int
		var status string
		fmt.Sscan(line, &id, &status)
		list[id] = status
	}
	if len(list) != c.records {
		c.wrong("%s, there are %d of %d records", when, len(list), c.records)
	}
	return list
}

// programs runs the program, which is to end well and to have nothing to complain of.
func (c *powerCheck) programs(args ...string) (out string) {
	c.t.Helper()
	status, out, log := c.run(args...)
	complains := strings.Contains(log, `"level":"ERROR"`) || strings.Contains(log, "cannot be read") || strings.Contains(log, "not a state file")
	if status != 0 || complains {
		c.wrong("backlog %s: exit status %d\n%s%s", strings.Join(args, " "), status, out, log)
	}
	return out
}

// judgeDue asserts that a tick whose pass had not ended is run by the next start, and one whose process had
// ended is not run again.
func (c *powerCheck) judgeDue(p powerPoint, at time.Time) {
	c.t.Helper()
	run := c.runs[p.run]
	var report struct{ Tier string }
	out := c.programs("once", "--due", "--json", "--now", run.next.UTC().Format(time.RFC3339))
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		c.wrong("no report: %v: %s", err, out)
	}
	isOver := p.step >= len(run.steps)
	isAmid := !isOver && c.answersAfter(run, at)
	if isOver && !run.started.Truncate(time.Hour).Equal(run.ended.Truncate(time.Hour)) {
		return // a tick may have come to the daemon while it stopped
	}
	if isAmid && report.Tier == "" {
		c.wrong("the tick is forgotten: %s", out)
	}
	if isOver && report.Tier != "" {
		c.wrong("the tick is run again: %s", out)
	}
}

// judgeOnce asserts that a whole pass leaves nothing undone.
func (c *powerCheck) judgeOnce(r *rand.Rand) {
	c.t.Helper()
	c.programs("once", "--max-age", "60d")
	successes := c.witness.successes(time.Now())
	for id, is := range c.statuses(c.data(c.dir), "after a pass") {
		switch {
		case is == "SUCCESS" && successes[id] == 0:
			c.wrong("record %d is SUCCESS, and its handler never succeeded", id)
		case is != "SUCCESS" && is != "ERROR":
			c.wrong("record %d is %s after a whole pass", id, is)
		}
	}
	if r.IntN(4) == 0 {
		c.programs("status", "--json")
	}
}

// history returns the last calls before the point.
func (s *powerShop) history(p powerPoint, loss powerLoss) string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %d, call %d: %s. The last calls:\n", p.run+1, p.step, loss.name)
	d := s.start.clone()
	var calls []string
	for i := range p.run + 1 {
		d.restart()
		for j, step := range s.runs[i].steps {
			if i == p.run && j > p.step {
				break
			}
			if differs, _ := d.apply(step); differs {
				calls = append(calls, fmt.Sprintf("  %d: %v", d.now, step.systemCall))
			}
		}
	}
	b.WriteString(strings.Join(calls[max(0, len(calls)-25):], "\n"))
	return b.String()
}
