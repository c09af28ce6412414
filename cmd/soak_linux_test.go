package cmd_test

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
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

// soakScale is how much of a whole soak is done: `make soak` does all of it, which takes some
// 40 minutes, and the tests next to nothing.
func soakScale() float64 {
	scale, err := strconv.ParseFloat(cmp.Or(os.Getenv("BACKLOG_SOAK"), "0.0002"), 64)
	if err != nil {
		panic("BACKLOG_SOAK is no number")
	}
	return scale
}

// A whole soak, of all daemons together.
var wholeSoak = soakCounts{reloads: 1000, outages: 500, passes: 10_000, pages: 100_000, records: 10_000_000}

type soakCounts struct{ reloads, outages, passes, pages, records int }

// share returns what one of n does of a part of the soak, at least one of each.
func (c soakCounts) share(scale float64, n int) soakCounts {
	of := func(count int) int { return max(1, int(math.Ceil(float64(count)*scale/float64(n)))) }
	return soakCounts{of(c.reloads), of(c.outages), of(c.passes), of(c.pages), of(c.records)}
}

// soakPages are what is read in turn.
var soakPages = []string{"/metrics", "/", "/passes", "/records", "/causes", "/schedule", "/record?id=1", "/api/v1/status", "/api/v1/passes?limit=50", "/readyz"}

// A soaker is a daemon at work for long.
type soaker struct {
	*site
	proxy *proxy
	cmd   *daemon
	log   string // the path of its log, which is rotated
	at    string // the address of its pages
	token string
	http  *http.Client

	done   soakCounts
	bad    map[string]int // pages that were not answered well
	memory []float64      // MiB at the end of each part, as the system sees it
	heap   []float64      // MiB that the last collection of garbage has left
}

// soakState is what is the same whenever a daemon has nothing to do.
type soakState struct {
	Files, Goroutines, Sessions int
	State                       string // the files of the state folder
}

// isLike reports whether both are the same, but for connections that the pool keeps: there are at
// most four, each with a file and up to three goroutines.
func (a soakState) isLike(b soakState) bool {
	more := a.Sessions - b.Sessions
	goroutines := a.Goroutines - b.Goroutines
	if more < 0 {
		more, goroutines = -more, -goroutines
	}
	return a.State == b.State && a.Sessions <= 4 && a.Files-b.Files == a.Sessions-b.Sessions && goroutines >= 0 && goroutines <= 3*more
}

func newSoaker(t *testing.T, kind *siteKind) *soaker {
	t.Helper()
	worker, err := filepath.Abs("../testdata/workers/worker.py")
	if err != nil {
		t.Fatal(err)
	}
	s := &soaker{site: newSite(t, kind, nil), bad: make(map[string]int), http: &http.Client{Transport: new(http.Transport)}}
	s.proxy = newProxy(t, s.server.Host)
	s.write("a.yaml", fmt.Sprintf(`database: %s
state: %s
handler: {lines: [python3, %s], concurrency: 64}
tiers: [{max_age: 1d, every: 1s}]
web: {listen: "127.0.0.1:0"}
`, s.url(s.proxy), s.path("state/a.json"), worker))
	s.log = s.path("daemon.log")
	file, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	s.cmd = s.startLogging(file, "run", "--config", "a.yaml")
	file.Close()
	if !eventually(func() bool {
		at := servedAt.FindStringSubmatch(s.read("daemon.log"))
		if at != nil {
			s.at = strings.TrimSuffix(at[1], "/")
		}
		return at != nil
	}) {
		t.Fatalf("it serves no pages:\n%s", s.read("daemon.log"))
	}
	s.token = strings.TrimSpace(s.mustRun("token", "--config", "a.yaml"))
	s.waits("to lead", func() bool { return s.metric("backlog_leader") == 1 })
	return s
}

// startLogging starts the program, which logs to the file.
func (s *shop) startLogging(file *os.File, args ...string) *daemon {
	s.t.Helper()
	d := &daemon{t: s.t, cmd: s.command(args...), end: make(chan struct{})}
	d.cmd.Stdout, d.cmd.Stderr = file, file
	if err := d.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		d.cmd.Wait()
		close(d.end)
	}()
	s.t.Cleanup(func() {
		d.cmd.Process.Kill()
		<-d.end
	})
	return d
}

// waits waits until it is so.
func (s *soaker) waits(what string, is func() bool) {
	s.t.Helper()
	if !eventuallyWithin(3*time.Minute, is) {
		log := s.read("daemon.log")
		s.t.Fatalf("it does not come %s after %+v:\n%s", what, s.done, log[max(0, len(log)-5000):])
	}
}

// get reads a page.
func (s *soaker) get(path string) (text string) {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodGet, s.at+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	answer, err := s.http.Do(r)
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", path, err, s.read("daemon.log"))
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	s.done.pages++
	if err != nil || answer.StatusCode != http.StatusOK {
		s.bad[fmt.Sprintf("%s: %d", path, answer.StatusCode)]++
	}
	return string(b)
}

// metric returns the sum of the metric's values.
func (s *soaker) metric(name string) (sum float64) {
	s.t.Helper()
	for line := range strings.Lines(s.get("/metrics")) {
		rest, found := strings.CutPrefix(line, name)
		if !found || !strings.HasPrefix(rest, " ") && !strings.HasPrefix(rest, "{") {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		if err != nil {
			s.t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// part does a part of the soak: rounds, each with a pass.
func (s *soaker) part(want soakCounts) {
	s.t.Helper()
	began := s.done
	for round := 1; round <= want.passes; round++ {
		due := func(count int) int { return (count*round + want.passes - 1) / want.passes }
		s.insert(began.records + due(want.records) - s.done.records)
		for s.done.pages < began.pages+due(want.pages) {
			s.get(soakPages[s.done.pages%len(soakPages)])
		}
		for s.done.reloads < began.reloads+due(want.reloads) {
			s.reload()
		}
		for s.done.outages < began.outages+due(want.outages) {
			s.outage()
		}
		s.waits("to the end of a pass", func() bool {
			time.Sleep(200 * time.Millisecond)
			n := int(s.metric("backlog_passes_total"))
			passed := n > s.done.passes
			s.done.passes = max(n, s.done.passes)
			return passed
		})
		if round%10 == 0 || round == want.passes {
			s.rotate()
		}
	}
	s.waits("to the end of its records", func() bool { return s.count("NEW")+s.count("ERROR") == 0 })
	s.http.CloseIdleConnections()
}

func (s *soaker) insert(n int) {
	s.t.Helper()
	for n > 0 {
		some := min(n, 5000)
		s.mustExec(fmt.Sprintf(`INSERT INTO "BACKLOG" (id) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT %d + i FROM n`, some, s.done.records))
		s.done.records += some
		n -= some
	}
}

// reload has the configuration read again, with another number of workers.
func (s *soaker) reload() {
	s.t.Helper()
	before := s.metric("backlog_config_reloads_total")
	text := s.read("a.yaml")
	if s.done.reloads%2 == 0 {
		text = strings.Replace(text, "concurrency: 64", "concurrency: 48", 1)
	} else {
		text = strings.Replace(text, "concurrency: 48", "concurrency: 64", 1)
	}
	s.write("a.yaml", text)
	s.cmd.signal(syscall.SIGHUP)
	s.waits("to a reload", func() bool { return s.metric("backlog_config_reloads_total") > before })
	s.done.reloads++
}

// outage takes the database away for a moment.
func (s *soaker) outage() {
	s.t.Helper()
	s.proxy.refuse(true)
	s.proxy.cut()
	s.waits("to lose the lock", func() bool { return s.metric("backlog_leader") == 0 })
	s.proxy.refuse(false)
	s.waits("to lead again", func() bool { return s.metric("backlog_leader") == 1 })
	s.done.outages++
}

// rotate empties the log, and removes what is done from the table.
func (s *soaker) rotate() {
	s.t.Helper()
	if log := s.read("daemon.log"); strings.Contains(log, "panic") || strings.Contains(log, "goroutine ") {
		s.t.Errorf("it panics:\n%s", log)
	}
	if err := os.Truncate(s.log, 0); err != nil {
		s.t.Fatal(err)
	}
	s.mustExec(`DELETE FROM "BACKLOG" WHERE status = 'SUCCESS'`)
	if s.kind == onPostgres {
		s.mustExec(`VACUUM ANALYZE "BACKLOG"`)
	} else {
		s.rows(`OPTIMIZE TABLE "BACKLOG"`)
	}
}

// state returns what the daemon has now.
func (s *soaker) state() (a soakState) {
	s.t.Helper()
	a.Goroutines = int(s.metric("go_goroutines"))
	s.http.CloseIdleConnections()
	files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.cmd.Process.Pid))
	a.Files = len(files)
	a.Sessions = len(strings.Fields(s.rows(fmt.Sprintf(s.kind.sessions, s.own))))
	names, _ := filepath.Glob(s.path("state/*"))
	a.State = strings.Join(names, " ")
	return a
}

// resident returns the daemon's memory in MiB, without the pages of its program: the system maps more of
// these as more of the program runs, and takes them back at any time.
func (s *soaker) resident() float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.cmd.Process.Pid))
	_, after, _ := strings.Cut(string(text), "RssAnon:")
	var kib float64
	fmt.Sscan(after, &kib)
	return kib / 1024
}

// live returns how much memory the daemon holds, in MiB. Go collects garbage when the heap has twice
// what the last collection has left.
func (s *soaker) live() float64 { return s.metric("go_memstats_next_gc_bytes") / (2 << 20) }

// slope returns by how much the values grow from one to the next, by least squares.
func slope(values []float64) float64 {
	n := float64(len(values))
	var sx, sy, sxy, sxx float64
	for i, y := range values {
		x := float64(i)
		sx += x
		sy += y
		sxy += x * y
		sxx += x * x
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}

// TestSoak keeps daemons at work through reloads, outages, passes, page reads, rotations of the
// log and vacuums. When they have nothing to do they have as many files, goroutines, connections
// and state files as before, but for connections of the pool, and their memory does not grow.
func TestSoak(t *testing.T) {
	t.Parallel()
	scale := soakScale()
	isLong := scale >= 0.01
	daemons, parts := 2, 1
	if isLong {
		daemons, parts = 8, 10
	}
	soakers := make([]*soaker, daemons)
	for i := range soakers {
		soakers[i] = newSoaker(t, serverKinds[i%2])
	}
	want := wholeSoak.share(scale, daemons*parts)
	began := time.Now()
	first := make([]soakState, daemons)
	mean := make([]float64, parts) // memory of a daemon; that of one depends on when it last collected garbage
	live := make([]float64, parts)
	for part := range parts {
		var all sync.WaitGroup
		for _, s := range soakers {
			all.Go(func() { s.part(want) })
		}
		all.Wait()
		if t.Failed() {
			return
		}
		for i, s := range soakers {
			var now soakState
			if part == 0 && isLong {
				time.Sleep(65 * time.Second / time.Duration(daemons)) // connections that the pool needs no more are closed after a minute
			}
			settled := func() bool {
				now = s.state()
				return part == 0 || now.isLike(first[i])
			}
			if !eventuallyWithin(2*time.Minute, settled) {
				t.Errorf("part %d: daemon %d has %+v, and had %+v", part+1, i, now, first[i])
			}
			if part == 0 {
				first[i] = now
			}
			s.memory = append(s.memory, s.resident())
			s.heap = append(s.heap, s.live())
			mean[part] += s.memory[part] / float64(daemons)
			live[part] += s.heap[part] / float64(daemons)
		}
		t.Logf("part %d of %d after %v: each %+v, %.1f MiB, of which %.1f live, %d files, %d goroutines, %d connections", part+1, parts, time.Since(began).Round(time.Second),
			soakers[0].done, mean[part], live[part], first[0].Files, first[0].Goroutines, first[0].Sessions)
	}
	var sum soakCounts
	for i, s := range soakers {
		sum.reloads += s.done.reloads
		sum.outages += s.done.outages
		sum.passes += s.done.passes
		sum.pages += s.done.pages
		sum.records += s.done.records
		if n := int(s.metric("backlog_attempts_total")); n < s.done.records {
			t.Errorf("daemon %d: %d attempts at %d records", i, n, s.done.records)
		}
		if n := s.metric("backlog_panics_total"); n > 0 {
			t.Errorf("daemon %d: %v panics", i, n)
		}
		s.cmd.signal(syscall.SIGTERM)
		if !eventually(s.cmd.hasEnded) || s.cmd.cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("daemon %d does not end well:\n%s", i, s.read("daemon.log"))
		}
		s.fewBad()
		if isLong {
			grows := slope(s.heap[1:])
			t.Logf("daemon %d on %s: %.1f MiB, %+.2f a tenth; live %.1f MiB, %+.2f a tenth", i, s.kind.name, s.memory, slope(s.memory[1:]), s.heap, grows)
			if grows >= 1 {
				t.Errorf("daemon %d: its live memory grows by %.2f MiB a tenth: %.1f", i, grows, s.heap)
			}
		}
	}
	if isLong {
		grows := slope(mean[1:])
		t.Logf("a daemon on average: %.1f MiB, %+.2f a tenth", mean, grows)
		if grows >= 1 {
			t.Errorf("the memory of daemons grows by %.2f MiB a tenth: %.1f", grows, mean)
		}
		// The list of the last passes fills, by some 0.2. Statements that each reload left prepared on MySQL added as much.
		grows = slope(live[1:])
		t.Logf("of which live: %.1f MiB, %+.2f a tenth", live, grows)
		if grows >= 0.3 {
			t.Errorf("the live memory of daemons grows by %.2f MiB a tenth: %.1f", grows, live)
		}
	}
	t.Logf("%+v in %v", sum, time.Since(began).Round(time.Second))
}

// fewBad fails for a page that was not answered well, other than in an outage.
func (s *soaker) fewBad() {
	s.t.Helper()
	for _, what := range slices.Sorted(maps.Keys(s.bad)) {
		s.t.Logf("%s: %d times", what, s.bad[what])
		if !strings.HasSuffix(what, ": 503") && !strings.HasPrefix(what, "/record?") {
			s.t.Errorf("%s: %d times", what, s.bad[what])
		}
	}
}
