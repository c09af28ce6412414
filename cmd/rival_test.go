package cmd_test

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The handler of the rival test marks its record as being worked on, finds out
// when somebody else does so too, and always fails: there is always work.
const rivalHandler = `#!/bin/sh
mkdir "at-work-$BACKLOG_ID" || echo "$BACKLOG_ID" >>twice.log
echo "$BACKLOG_TIER" >>handled.log
sleep 0.01
rmdir "at-work-$BACKLOG_ID"
exit 1
`

// TestRivals lets a daemon, a standby and passes by hand loose on one table:
// no record may be in two hands at a time, and everybody gets a turn.
func TestRivals(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]string{
		"schedule.yaml": "handler: {exec: [./handler.sh]}\nlog: {level: warn}\ntiers: [{max_age: 1d, every: 1s}, {max_age: 2d, every: 3s}]\n",
		"handler.sh":    rivalHandler,
	})
	s.mustRun("init", "--create-table")
	s.sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20) INSERT INTO BACKLOG (id) SELECT i FROM n")
	leader, standby := s.start("run"), s.start("run")

	// Two people by hand, one of whom waits for his turn.
	ended := make(map[int]int)
	var mu sync.Mutex
	var people sync.WaitGroup
	began := time.Now()
	for _, wait := range []string{"0", "1m"} {
		people.Go(func() {
			// As long as it takes until all have had their turn.
			for n := 0; n < 5 || !everybody(s) && time.Since(began) < patience; n++ {
				status, out, log := s.run("once", "--max-age", "1w", "--wait", wait)
				if status != 0 && (status != 75 || wait != "0") {
					t.Errorf("exit status %d\n%s%s", status, out, log)
				}
				mu.Lock()
				ended[status]++
				mu.Unlock()
			}
		})
	}
	people.Wait()
	leader.signal(syscall.SIGTERM)
	standby.signal(syscall.SIGTERM)
	leader.ends()
	standby.ends()
	t.Logf("%d attempts in %v; passes by hand by exit status: %v",
		strings.Count(s.read("handled.log"), "\n"), time.Since(began).Round(time.Millisecond), fmt.Sprint(ended))
	if twice := s.read("twice.log"); twice != "" {
		t.Errorf("records in two hands at a time: %s", strings.Fields(twice))
	}
	if !everybody(s) {
		t.Errorf("not everybody had a turn")
	}
}

// everybody reports whether both tiers and a pass by hand have had a turn.
func everybody(s *shop) bool {
	handled := s.read("handled.log")
	return strings.Contains(handled, "1d\n") && strings.Contains(handled, "2d\n") && strings.Contains(handled, "1w\n")
}
