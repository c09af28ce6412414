package cmd_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"backlog/internal/testserver"
)

// A handler that notes in the log that it starts and how it ends, and whose it is. Ids that
// end in 0 fail. It begins nothing where there is a file `wait`, until that has gone.
const workHandler = `#!/bin/sh
echo "start $BACKLOG_ID $PPID" >>work.log
while [ -e wait ]; do sleep 0.02; done
sleep 0.05
case $BACKLOG_ID in *0) echo "fail $BACKLOG_ID $PPID" >>work.log; exit 1 ;; esac
echo "done $BACKLOG_ID $PPID" >>work.log
`

// A works is a shop whose records are handled by two workers.
type works struct {
	*shop
	workers []*daemon
	killed  map[string]bool // workers, by process id
}

func newWorks(t *testing.T, program, url, name string, records int) *works {
	t.Helper()
	w := &works{newShop(t, program, map[string]string{"handler.sh": workHandler}), nil, make(map[string]bool)}
	w.write("schedule.yaml", fmt.Sprintf(`database: sqlite:backlog.db
handler: {amqp: {url: "%s", name: %s, lease: 1s, secret: 0123456789abcdef}, timeout: 2s, concurrency: 12}
tiers: [{max_age: 7d, every: 1s}]
`, url, name))
	w.write("worker.yaml", fmt.Sprintf(`worker:
  concurrency: 3
  amqp: {url: "%s", name: %s}
  handler: {exec: [./handler.sh]}
`, url, name))
	w.mustRun("init")
	for i := range records {
		w.sql(fmt.Sprintf("INSERT INTO BACKLOG (id, date_inserted) VALUES (%d, datetime('now', '-1 hour'))", i+1))
	}
	return w
}

func (w *works) work(n int) {
	for range n {
		w.workers = append(w.workers, w.start("worker", "--config", "worker.yaml"))
	}
}

func (w *works) kill(d *daemon) {
	w.t.Helper()
	w.killed[fmt.Sprint(d.cmd.Process.Pid)] = true
	d.signal(syscall.SIGKILL)
	<-d.end
}

// sees waits until the log of the handlers has so many lines of that kind.
func (w *works) sees(kind string, n int) {
	w.t.Helper()
	if !eventually(func() bool { return strings.Count(w.read("work.log"), kind) >= n }) {
		w.t.Fatalf("there are no %d times %q:\n%s", n, kind, w.read("work.log"))
	}
}

// judge waits until all is done. A row is SUCCESS if and only if a handler has succeeded,
// and no two handlers of a row have run at a time, but for what a killed worker left behind.
func (w *works) judge(d *daemon) {
	w.t.Helper()
	want := w.rows("SELECT count(*) FROM BACKLOG WHERE id % 10 <> 0")
	if !eventually(func() bool { return w.rows("SELECT count(*) FROM BACKLOG WHERE status = 'SUCCESS'") == want }) {
		w.t.Errorf("not all are done: %s\n%s", w.rows("SELECT status, count(*) FROM BACKLOG GROUP BY status"), d.log)
	}
	d.signal(syscall.SIGTERM)
	d.ends()
	for _, k := range w.workers {
		if !k.hasEnded() {
			k.signal(syscall.SIGTERM)
			k.ends()
		}
	}
	if n := w.rows("SELECT count(*) FROM BACKLOG WHERE status = 'SUCCESS' AND id % 10 = 0"); strings.TrimSpace(n) != "0" {
		w.t.Errorf("%s are SUCCESS that have failed", n)
	}
	running := make(map[string]map[string]bool) // workers by record
	succeeded, again := make(map[string]int), 0
	for line := range strings.Lines(w.read("work.log")) {
		var kind, id, worker string
		fmt.Sscan(line, &kind, &id, &worker)
		if kind != "start" {
			delete(running[id], worker)
			if kind == "done" {
				succeeded[id]++
				again += min(1, succeeded[id]-1)
			}
			continue
		}
		if running[id] == nil {
			running[id] = make(map[string]bool)
		}
		for other := range running[id] {
			if !w.killed[other] {
				w.t.Errorf("record %s runs twice at a time", id)
			}
		}
		running[id][worker] = true
	}
	w.t.Logf("handled again after a success: %d", again)
	if strings.TrimSpace(want) != fmt.Sprint(len(succeeded)) {
		w.t.Errorf("%d records have succeeded, and %s rows say so", len(succeeded), want)
	}
}

// TestWorkers kills a daemon and workers at each step of a record's way.
func TestWorkers(t *testing.T) {
	t.Parallel()
	program := build(t)
	u, _ := testserver.RabbitMQVhost(t)
	for _, c := range []struct {
		name string
		do   func(w *works, d *daemon) *daemon // returns the daemon that leads then
	}{
		{"nothing", func(w *works, d *daemon) *daemon { return d }},
		{"daemon-dispatched", func(w *works, d *daemon) *daemon {
			w.sees("start", 1)
			w.kill(d)
			return w.heldBack()
		}},
		{"daemon-handled", func(w *works, d *daemon) *daemon {
			w.write("wait", "")
			w.sees("start", 6)
			w.kill(d)
			w.remove("wait") // its outcomes come when nobody leads
			return w.heldBack()
		}},
		{"daemon-done", func(w *works, d *daemon) *daemon {
			w.sees("done", 1)
			w.kill(d)
			return w.heldBack()
		}},
		{"daemon-stopped", func(w *works, d *daemon) *daemon {
			w.sees("done", 1)
			d.signal(syscall.SIGTERM)
			d.ends()
			began := time.Now()
			d = w.start("run")
			w.sees("start", strings.Count(w.read("work.log"), "start")+1)
			if strings.Contains(d.log.String(), "did not end in peace") {
				w.t.Errorf("after a clean end it holds back for %v", time.Since(began))
			}
			return d
		}},
		{"worker-started", func(w *works, d *daemon) *daemon {
			w.sees("start", 1)
			w.kill(w.workers[0])
			w.work(1)
			return d
		}},
		{"worker-done", func(w *works, d *daemon) *daemon {
			w.sees("done", 1)
			w.kill(w.workers[0])
			w.kill(w.workers[1])
			w.work(2)
			return d
		}},
		{"worker-stopped", func(w *works, d *daemon) *daemon {
			w.sees("start", 3)
			w.workers[0].signal(syscall.SIGTERM)
			w.workers[0].ends()
			return d
		}},
		{"other-table", func(w *works, d *daemon) *daemon {
			w.write("wait", "")
			w.sees("start", 3)
			w.kill(d)
			w.remove("wait")
			w.sees("done", 3)
			staging := newShop(w.t, program, map[string]string{"schedule.yaml": w.read("schedule.yaml")})
			staging.mustRun("init")
			if status, _, log := staging.run("run"); status != 1 || !strings.Contains(log, "outcomes is used for another table") {
				w.t.Errorf("exit status %d: %s", status, log)
			}
			return w.heldBack()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorks(t, program, u.String(), c.name, 25)
			w.work(2)
			w.workers[0].says("there is no queue backlog." + c.name + ".work yet")
			w.judge(c.do(w, w.start("run")))
		})
	}
}

func (w *works) heldBack() *daemon {
	d := w.start("run")
	d.says("did not end in peace")
	return d
}

// A refused login ends both at once.
func TestWorkersLogin(t *testing.T) {
	t.Parallel()
	program := build(t)
	u := testserver.RabbitMQURL(t)
	w := newWorks(t, program, strings.Replace(u.String(), "guest:guest", "guest:wrong-word", 1), "login", 1)
	for _, args := range [][]string{{"run"}, {"once", "--max-age", "7d"}, {"check"}, {"worker", "--config", "worker.yaml"}} {
		status, out, log := w.run(args...)
		if status != 1 || !strings.Contains(out+log, "refuses the user or the password") || strings.Contains(out+log, "wrong-word") {
			t.Errorf("%v: exit status %d: %s%s", args, status, out, log)
		}
	}
}

func (w *works) remove(name string) {
	w.t.Helper()
	if err := os.Remove(w.path(name)); err != nil {
		w.t.Fatal(err)
	}
}
