package cmd_test

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"backlog/internal/testserver"
)

// A handler that notes in the log that it starts and how it ends, and whose it is. Ids that
// end in 0 fail. It begins nothing where there is a file `wait`, until that has gone.
const workHandler = `#!/bin/sh
trap 'echo "fail $BACKLOG_ID $PPID" >>work.log; exit 1' TERM
echo "start $BACKLOG_ID $PPID" >>work.log
while [ -e wait ]; do sleep 0.1; done
sleep 0.05
case $BACKLOG_ID in *0) echo "fail $BACKLOG_ID $PPID" >>work.log; exit 1 ;; esac
echo "done $BACKLOG_ID $PPID" >>work.log
`

// A works is a shop whose records are handled by two workers.
type works struct {
	*shop
	snare   *snare // killed programs go by way of it
	workers []*daemon
	killed  map[string]bool // workers, by process id
	dead    int             // workers that were killed, which may share an id
	daemons int             // which were killed
	nodes   int             // of the broker, likewise
	records int
}

func newWorks(t *testing.T, broker, name string, records int) *works {
	t.Helper()
	u, err := url.Parse(broker)
	if err != nil {
		t.Fatal(err)
	}
	snare := newSnare(t, u.Host)
	t.Cleanup(func() { deleteWork(t, broker, name) })
	u.Host = snare.addr()
	w := worksOf(t, name, fmt.Sprintf("%q", u), map[string]string{"worker.yaml": fmt.Sprintf("%q", broker), "victim.yaml": fmt.Sprintf("%q", u)})
	w.snare = snare
	w.insert(records)
	return w
}

// worksOf returns works whose daemon, and whose workers with that configuration, have URLs,
// or lists of them.
func worksOf(t *testing.T, name, daemon string, workers map[string]string) *works {
	t.Helper()
	w := &works{shop: newShop(t, map[string]string{"handler.sh": workHandler}), killed: make(map[string]bool)}
	w.write("schedule.yaml", fmt.Sprintf(`database: sqlite:backlog.db
handler: {amqp: {url: %s, name: %s, lease: 1s, secret: 0123456789abcdef}, timeout: 2s, concurrency: 12}
tiers: [{max_age: 7d, every: 1s}]
`, daemon, name))
	for file, url := range workers {
		w.write(file, fmt.Sprintf(`worker:
  concurrency: %d
  amqp: {url: %s, name: %s}
  handler: {exec: [./handler.sh]}
`, workConcurrency, url, name))
	}
	w.mustRun("init", "--create-table")
	return w
}

const workConcurrency = 3

// deleteWork deletes the queues of the work: thousands would keep the broker busy.
func deleteWork(t *testing.T, broker, name string) {
	t.Helper()
	c, err := amqp091.Dial(broker)
	if err != nil {
		return // its login is refused, or it has ended
	}
	defer c.Close()
	ch, err := c.Channel()
	for _, queue := range []string{"work", "outcomes", "lost", "out"} {
		if err == nil {
			_, err = ch.QueueDelete("backlog."+name+"."+queue, false, false, false)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// insert inserts so many records.
func (w *works) insert(n int) {
	w.t.Helper()
	list := make([]string, n)
	for i := range list {
		w.records++
		list[i] = fmt.Sprintf("INSERT INTO BACKLOG (id, date_inserted) VALUES (%d, datetime('now', '-1 hour'))", w.records)
	}
	w.sql(list...)
}

func (w *works) work(n int) {
	for range n {
		w.workers = append(w.workers, w.start("worker", "--config", "worker.yaml"))
	}
}

func (w *works) kill(d *daemon) {
	w.t.Helper()
	d.signal(syscall.SIGKILL)
	w.waits(d)
}

// waits waits until it is killed.
func (w *works) waits(d *daemon) {
	w.t.Helper()
	if !eventually(d.hasEnded) {
		w.t.Fatalf("it is not killed:\n%s", d.log)
	}
	if slices.Contains(d.cmd.Args, "run") {
		w.daemons++
	} else {
		w.dead, w.killed[fmt.Sprint(d.cmd.Process.Pid)] = w.dead+1, true
	}
}

// sees waits until the log of the handlers has so many lines of that kind.
func (w *works) sees(kind string, n int) {
	w.t.Helper()
	if !eventually(func() bool { return strings.Count(w.read("work.log"), kind) >= n }) {
		w.t.Fatalf("there are no %d times %q:\n%s", n, kind, w.read("work.log"))
	}
}

// judge waits until all is done, and accounts for each row. It is SUCCESS if and only if a
// handler has succeeded, and no two handlers of it have run at a time, but for what a
// killed worker left behind, and what one has ended that has lost a node of the broker.
func (w *works) judge(d *daemon) (n tally) {
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
	running := make(map[string]map[string]bool) // workers by record
	succeeded, again := make(map[string]int), make(map[string]bool)
	for line := range strings.Lines(w.read("work.log")) {
		var kind, id, worker string
		fmt.Sscan(line, &kind, &id, &worker)
		if kind != "start" {
			delete(running[id], worker)
			again[id] = again[id] || w.killed[worker] // its outcome may be known while it is handled again
			if kind == "done" {
				succeeded[id]++
				n.copies += min(1, succeeded[id]-1)
			}
			continue
		}
		if running[id] == nil {
			running[id] = make(map[string]bool)
		}
		for other := range running[id] {
			if !w.killed[other] && !again[id] && w.nodes == 0 {
				w.t.Errorf("record %s runs twice at a time", id)
			}
		}
		running[id][worker] = true
	}
	for line := range strings.Lines(w.rows("SELECT id, status FROM BACKLOG")) {
		f := strings.Fields(line)
		n.all++
		switch done := f[1] == "SUCCESS"; {
		case done != (succeeded[f[0]] > 0):
			n.wrong++
			w.t.Errorf("row %s is %s, and its handler has succeeded %d times", f[0], f[1], succeeded[f[0]])
		case done:
			n.succeeded++
		default:
			n.waiting++
		}
	}
	if w.t.Failed() {
		w.t.Logf("%s\n%s", d.log, w.read("work.log"))
	}
	// A daemon that is killed has nothing handled again.
	n.kills = w.daemons + w.dead + w.nodes
	n.most = (w.dead + w.nodes*len(w.workers)) * (1 + workConcurrency)
	return n
}

// TestWorkers kills a daemon and workers at each step of a record's way.
func TestWorkers(t *testing.T) {
	t.Parallel()
	u, _ := testserver.RabbitMQVhost(t)
	sums := newAccount(t)
	type way struct {
		name  string
		do    func(w *works, d *daemon) *daemon // returns the daemon that leads then
		arrow *arrow                            // at which the first is killed
	}
	ways := []way{
		{"nothing", func(w *works, d *daemon) *daemon { return d }, nil},
		{"daemon-dispatched", func(w *works, d *daemon) *daemon {
			w.sees("start", 1)
			w.kill(d)
			return w.heldBack()
		}, nil},
		{"daemon-handled", func(w *works, d *daemon) *daemon {
			w.write("wait", "")
			w.sees("start", 6)
			w.kill(d)
			w.remove("wait") // its outcomes come when nobody leads
			return w.heldBack()
		}, nil},
		{"daemon-done", func(w *works, d *daemon) *daemon {
			w.sees("done", 1)
			w.kill(d)
			return w.heldBack()
		}, nil},
		{"daemon-stopped", func(w *works, d *daemon) *daemon {
			w.sees("done", 1)
			d.signal(syscall.SIGTERM)
			d.ends()
			began := time.Now()
			d = w.start("run")
			w.sees("start", strings.Count(w.read("work.log"), "start")+1)
			if strings.Contains(d.log.String(), "did not end cleanly") {
				w.t.Errorf("after a clean end it holds back for %v", time.Since(began))
			}
			return d
		}, nil},
		{"worker-started", func(w *works, d *daemon) *daemon {
			w.sees("start", 1)
			w.kill(w.workers[0])
			w.work(1)
			return d
		}, nil},
		{"worker-done", func(w *works, d *daemon) *daemon {
			w.sees("done", 1)
			w.kill(w.workers[0])
			w.kill(w.workers[1])
			w.work(2)
			return d
		}, nil},
		{"worker-stopped", func(w *works, d *daemon) *daemon {
			w.sees("start", 3)
			w.workers[0].signal(syscall.SIGTERM)
			w.workers[0].ends()
			return d
		}, nil},
		{"other-table", func(w *works, d *daemon) *daemon {
			w.write("wait", "")
			w.sees("start", 3)
			w.kill(d)
			w.remove("wait")
			w.sees("done", 3)
			staging := newShop(w.t, map[string]string{"schedule.yaml": w.read("schedule.yaml")})
			staging.mustRun("init", "--create-table")
			if status, _, log := staging.run("run"); status != 1 || !strings.Contains(log, "outcomes is used for another table") {
				w.t.Errorf("exit status %d: %s", status, log)
			}
			return w.heldBack()
		}, nil},
	}
	for _, a := range arrows {
		ways = append(ways, way{"daemon-" + a.name, func(w *works, d *daemon) *daemon {
			w.waits(d)
			return w.heldBack()
		}, &a})
	}
	for _, c := range ways {
		times := torture
		if c.name == "nothing" || strings.HasSuffix(c.name, "-stopped") {
			times = 1 // nobody is killed
		}
		for i := range times {
			name := fmt.Sprintf("%s-%d", c.name, i)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newWorks(t, u.String(), name, 25)
				w.work(2)
				w.workers[0].says("there is no queue backlog." + name + ".work yet")
				start := func() *daemon { return w.start("run") }
				var d *daemon
				if c.arrow != nil {
					d = w.snare.kill(*c.arrow, rand.IntN(4), start)
				} else {
					d = start()
				}
				sums.add(t, c.name, w.judge(c.do(w, d)))
			})
		}
	}
	for _, a := range arrows {
		t.Run("worker-"+a.name, func(t *testing.T) {
			t.Parallel()
			w := newWorks(t, u.String(), a.name, 0)
			d := w.start("run")
			d.says(`"msg":"leading"`)
			w.work(1)
			for range torture {
				k := w.snare.kill(a, rand.IntN(3), func() *daemon { return w.start("worker", "--config", "victim.yaml") })
				for range 100 { // some are the other worker's
					w.insert(4)
					if eventuallyWithin(time.Second, k.hasEnded) {
						break
					}
				}
				w.waits(k)
			}
			sums.add(t, "worker "+a.name, w.judge(d))
		})
	}
}

func (w *works) heldBack() *daemon {
	d := w.start("run")
	d.says("did not end cleanly")
	return d
}

// A refused login ends both at once.
func TestWorkersLogin(t *testing.T) {
	t.Parallel()
	u := testserver.RabbitMQURL(t)
	w := newWorks(t, strings.Replace(u.String(), "guest:guest", "guest:wrong-word", 1), "login", 1)
	for _, args := range [][]string{{"run"}, {"once", "--max-age", "7d"}, {"check"}, {"worker", "--config", "worker.yaml"}} {
		status, out, log := w.run(args...)
		if status != 1 || !strings.Contains(out+log, "refuses the user or the password") || strings.Contains(out+log, "wrong-word") {
			t.Errorf("%v: exit status %d: %s%s", args, status, out, log)
		}
	}
}

// Every command that connects names a vhost that there is not.
func TestBrokerVhost(t *testing.T) {
	t.Parallel()
	u := testserver.RabbitMQURL(t)
	u.Path = "/there-is-none"
	w := newWorks(t, u.String(), "vhost", 1)
	w.write("source.yaml", fmt.Sprintf("source: {amqp: {url: %q, queue: q}}\nhandler: {exec: [./handler.sh], timeout: 30s}\n", u))
	for _, args := range [][]string{
		{"run"},
		{"once", "--max-age", "7d"},
		{"check"},
		{"worker", "--config", "worker.yaml"},
		{"run", "--config", "source.yaml"},
		{"once", "--max-records", "1", "--config", "source.yaml"},
		{"check", "--config", "source.yaml"},
		{"init", "--config", "source.yaml"},
		{"status", "--config", "source.yaml"},
		{"retry", "--errors", "--yes", "--config", "source.yaml"},
	} {
		status, out, log := w.run(args...)
		if status != 1 || !strings.Contains(out+log, `no vhost "there-is-none", or the user may not use it`) {
			t.Errorf("%v: exit status %d: %s%s", args, status, out, log)
		}
	}
}

// A file without a worker is another command's, whatever else is missing.
func TestWorkerOfAnotherFile(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]string{"schedule.yaml": `database: sqlite:backlog.db
handler: {amqp: {url: amqp://broker.example/, name: orders, secret: "${NOT_SET}"}, timeout: 2s}
tiers: [{max_age: 7d, every: 1s}]
`})
	status, out, log := s.run("worker")
	if status != 2 || !strings.Contains(log, "schedule.yaml:1: has no worker; say where requests come from") || strings.Contains(log, "NOT_SET") {
		t.Errorf("exit status %d: %s%s", status, out, log)
	}
}

func (w *works) remove(name string) {
	w.t.Helper()
	if err := os.Remove(w.path(name)); err != nil {
		w.t.Fatal(err)
	}
}
