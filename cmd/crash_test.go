package cmd_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"backlog/internal/testkit"
)

const crashConcurrency = 8

// A server's disk is slower than what this is about, and the program is the
// same: fewer kills do there.
var crashes = map[*siteKind]struct{ records, kills int }{
	onSQLite:   {2000, 32},
	onPostgres: {600, 8},
	onMySQL:    {600, 8},
}

// The handler of the crash test: it notes in the log, with one write each, that
// it starts and how it ends. Ids that end in 0 always fail, and of the others'
// attempts one in 32 does. It takes a millisecond or so.
//
// Handlers are in process groups of their own and outlive a kill of the
// program's. They are left alone: what one of them still does after the kill is
// what it might have done a moment before it. One that is just being started
// has the locks of its parent for that moment; hence --wait.
const crashHandler = `#!/bin/sh
echo "start $BACKLOG_ID $BACKLOG_ATTEMPT_ID $BACKLOG_TIER" >>crash.log
case $BACKLOG_ID/$BACKLOG_ATTEMPT_ID in
*0/* | */*q)
	echo "fail $BACKLOG_ID $BACKLOG_ATTEMPT_ID $BACKLOG_TIER" >>crash.log
	exit 1
	;;
esac
echo "done $BACKLOG_ID $BACKLOG_ATTEMPT_ID $BACKLOG_TIER" >>crash.log
`

// TestCrash kills the program at random moments, over and over, and then looks
// at what is left. To repeat a run, set CRASH_SEED to the seed it prints.
func TestCrash(t *testing.T) {
	t.Parallel()
	onSites(t, siteKinds, testCrash)
}

func testCrash(t *testing.T, kind *siteKind) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("CRASH_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d", seed)
	c := &crasher{
		site: newSite(t, kind, map[string]string{"handler.sh": crashHandler}),
		rand: rand.New(rand.NewPCG(seed, 0)), records: crashes[kind].records, kills: crashes[kind].kills,
	}
	c.write("schedule.yaml", fmt.Sprintf("database: %s\nhandler: {exec: [./handler.sh], concurrency: %d}\nlog: {level: error}\ntiers: [{max_age: 7d, every: 1s}]\n", c.url(nil), crashConcurrency))
	// Of all ages up to six days, and every fifth has failed before.
	c.fill(c.records, func(i int) string {
		if i%5 == 0 {
			return "ERROR"
		}
		return "NEW"
	}, func(i int) time.Duration { return time.Duration(i*7919%518400) * time.Second })

	began := time.Now()
	kills := 0
	for lives := 1; kills < c.kills; lives++ {
		if lives > 10*c.kills {
			t.Fatalf("only %d of %d lives were long enough to be killed", kills, lives)
		}
		if c.live() {
			kills++
		}
	}
	t.Logf("%d kills in %v", kills, time.Since(began).Round(time.Millisecond))
	c.mustRun("once", "--wait", "30s", "--max-age", "7d")
	c.judge()
}

type crasher struct {
	*site
	rand           *rand.Rand
	records, kills int
}

// live starts the program, as the daemon or for one pass, and kills its whole
// group at some moment. It reports whether it came to that: a pass may end
// before.
func (c *crasher) live() (killed bool) {
	c.t.Helper()
	args := []string{"run"}
	if c.rand.IntN(2) == 0 {
		args = []string{"once", "--wait", "30s", "--max-age", "167h"} // no tier's: its attempts can be told apart
	}
	p := c.command(args...)
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var log testkit.Buffer
	p.Stderr = &log
	before := c.logSize()
	if err := p.Start(); err != nil {
		c.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		p.Wait()
		close(ended)
	}()
	// Most lives are ended while records are worked on, some at any moment.
	if c.rand.IntN(4) > 0 {
		eventually(func() bool {
			select {
			case <-ended:
				return true
			default:
				return c.logSize() > before
			}
		})
	}
	select {
	case <-ended:
	case <-time.After(time.Duration(c.rand.IntN(150_000)) * time.Microsecond):
		syscall.Kill(-p.Process.Pid, syscall.SIGKILL)
		<-ended
	}
	status := p.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Signaled() && status.ExitStatus() != 0 {
		c.t.Fatalf("backlog %s: exit status %d\n%s", args[0], status.ExitStatus(), &log)
	}
	return status.Signaled()
}

func (c *crasher) logSize() int64 {
	info, err := os.Stat(c.path("crash.log"))
	if err != nil {
		return 0
	}
	return info.Size()
}

// judge asserts what the program promises, whatever happens to it.
func (c *crasher) judge() {
	t, kills := c.t, c.kills
	if c.kind == onSQLite {
		if got := c.rows("PRAGMA integrity_check"); got != "ok\n" {
			t.Errorf("integrity_check: %s", got)
		}
	}
	log := c.readLog()
	again, worst := 0, 0
	for _, n := range log.succeeded {
		if n > 1 {
			again++
		}
	}
	for _, n := range log.lost {
		worst = max(worst, n)
	}
	t.Logf("%d attempts; %d of %d records succeeded more than once; a kill lost the success of %d at most", log.attempts, again, c.records, worst)
	const limit = crashConcurrency + 500
	if again > kills*limit {
		t.Errorf("more than %d records were handled again after they had succeeded", kills*limit)
	}
	if worst > limit {
		t.Errorf("one kill lost the success of more than %d records", limit)
	}
	rows := strings.Fields(c.rows(`SELECT id, status FROM "BACKLOG" ORDER BY id`))
	if len(rows) != 2*c.records {
		t.Fatalf("%d rows are left", len(rows)/2)
	}
	for i := 0; i < len(rows); i += 2 {
		id, status := rows[i], rows[i+1]
		switch {
		case status == "SUCCESS" && log.succeeded[id] == 0:
			t.Errorf("record %s is SUCCESS, and its handler never succeeded", id)
		case status != "SUCCESS" && status != "ERROR":
			t.Errorf("record %s is %s after a whole pass", id, status)
		}
	}
}

// A crashLog sums up what the handlers have noted.
type crashLog struct {
	attempts  int
	succeeded map[string]int // how often, by record
	lost      map[string]int // successes that came again in a later life, by the life they were first in
}

// readLog fails the test if a process had two handlers for one record at a
// time, or a pass two attempts.
func (c *crasher) readLog() crashLog {
	log := crashLog{succeeded: make(map[string]int), lost: make(map[string]int)}
	type inLife struct{ life, id string }
	last := make(map[string]string)   // the life in which a record succeeded
	atWork := make(map[inLife]string) // the attempt under way
	tried := make(map[inLife]bool)    // in a pass by itself
	for _, d := range c.deeds("crash.log") {
		what, id, attempt, tier, life := d.what, d.id, d.attempt, d.tier, d.life
		key := inLife{life, id}
		if what == "start" {
			log.attempts++
			if other := atWork[key]; other != "" {
				c.t.Errorf("record %s: attempt %s began while %s was under way", id, attempt, other)
			}
			atWork[key] = attempt
			if tier == "167h" && tried[key] {
				c.t.Errorf("record %s was tried twice in one pass", id)
			}
			tried[key] = true
			continue
		}
		if atWork[key] != attempt {
			c.t.Errorf("record %s: attempt %s ended, and under way was %q", id, attempt, atWork[key])
		}
		delete(atWork, key)
		if what == "done" {
			log.succeeded[id]++
			if before := last[id]; before != "" {
				log.lost[before]++
			}
			last[id] = life
		}
	}
	return log
}
