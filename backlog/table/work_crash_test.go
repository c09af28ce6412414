package table_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"backlog/backlog"
)

const (
	crashRecords = 6000
	crashKills   = 15
)

// crashWork numbers the records, and fails by chance. It would count a record
// again if it were asked to.
var crashWork = []string{"UPDATE total SET n = n + 1", "INSERT INTO counted SELECT :id, n FROM total WHERE abs(random()) % 8 > 0"}

// TestWorkCrash kills processes that work off a table, over and over, at random
// moments: in the end each record has been worked on exactly once, and at no
// time do the counters disagree with the statuses. To repeat a run, set
// CRASH_SEED to the seed it prints.
func TestWorkCrash(t *testing.T) {
	if path := os.Getenv("WORK_CRASH"); path != "" {
		crashingLife(t, path)
		return
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("CRASH_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d", seed)
	eachJournal(t, crashRecords, func(t *testing.T, f *file, wal bool) {
		records := crashRecords
		if !wal { // each transaction makes a file there
			records = 300
			f.exec("DELETE FROM BACKLOG WHERE id > 300")
		}
		f.exec("CREATE TABLE counted (id INTEGER, nr INTEGER); CREATE TABLE total (n INTEGER); INSERT INTO total VALUES (0)")
		random := rand.New(rand.NewPCG(seed, 0))
		kills, lives := 0, 0
		for ; kills < crashKills && lives < 3*crashKills; lives++ {
			if killedLife(t, f.path, random) {
				kills++
			}
			f.wantExactlyOnce()
		}
		var done int
		if err := f.plain.QueryRow("SELECT count(*) FROM counted").Scan(&done); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d kills in %d lives, after which %d of %d records were done", kills, lives, done, records)
		if kills < crashKills/3 || done == 0 {
			t.Errorf("too few lives were long enough to be killed, or none to do anything")
		}
		s := f.store(plainMapping())
		w := newWork(t, s, crashWork...)
		for range 100 {
			if r := workPass(t, s, w, nil); r.Selected == 0 {
				break
			}
		}
		f.wantExactlyOnce()
		f.wantRows("SELECT status, count(*) FROM BACKLOG GROUP BY 1", fmt.Sprintf("'SUCCESS' %d", records))
		f.wantRows("SELECT * FROM pragma_integrity_check", "'ok'")
	})
}

// wantExactlyOnce checks that what the work has left agrees with the statuses.
func (f *file) wantExactlyOnce() {
	f.Helper()
	f.wantRows("SELECT count(*), count(DISTINCT id), count(DISTINCT nr) FROM counted EXCEPT SELECT n, n, n FROM total")
	f.wantRows("SELECT id FROM BACKLOG WHERE (status = 'SUCCESS') <> (id IN (SELECT id FROM counted))")
}

// crashingLife is the process that is killed.
func crashingLife(t *testing.T, path string) {
	s := (&file{TB: t, path: path}).store(plainMapping())
	first := true
	workPass(t, s, newWork(t, s, crashWork...), func(e *backlog.Engine) {
		e.Observe = func(ev backlog.Event) {
			if ev.Kind == backlog.AttemptEnded && first {
				first = false
				fmt.Println("at work")
			}
		}
	})
}

// killedLife starts a process and kills it at some moment. It reports whether
// it came to that.
func killedLife(t *testing.T, path string, random *rand.Rand) bool {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestWorkCrash$", "-test.v")
	c.Env = append(os.Environ(), "WORK_CRASH="+path)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var said []byte
	lines := bufio.NewScanner(out)
	for random.IntN(8) > 0 && lines.Scan() { // some are killed at any moment
		said = append(append(said, lines.Bytes()...), '\n')
		if lines.Text() == "at work" {
			break
		}
	}
	time.Sleep(time.Duration(random.IntN(20_000)) * time.Microsecond)
	c.Process.Kill()
	for lines.Scan() {
		said = append(append(said, lines.Bytes()...), '\n')
	}
	c.Wait()
	if c.ProcessState.ExitCode() > 0 {
		t.Fatalf("a life ended with %v:\n%s", c.ProcessState, said)
	}
	return !c.ProcessState.Exited()
}
