package cmd_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A node is a RabbitMQ of the test's own, which may be broken.
type node struct {
	t    *testing.T
	tmp  string
	port string
}

// newNodes starts so many nodes of Debian's package, which end with the test.
func newNodes(t *testing.T, n int) []*node {
	t.Helper()
	if _, err := os.Stat("/usr/lib/rabbitmq/bin"); err != nil {
		t.Skip("RabbitMQ is not Debian's: ", err)
	}
	list := make([]*node, n)
	var all sync.WaitGroup
	for i := range list {
		tmp, err := os.MkdirTemp("", "backlog-node-") // the broker's user reads it
		if err == nil {
			err = os.Chmod(tmp, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		list[i] = &node{t, tmp, freePorts()}
		t.Cleanup(func() {
			list[i].kill()
			os.RemoveAll(tmp)
		})
		all.Go(list[i].boot)
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return list
}

// freePorts returns a port that is free, as is the one for other nodes of the broker there.
func freePorts() string {
	for {
		port, free := 20_000+rand.IntN(9_000), true
		for _, p := range []int{port, port + 19_000} {
			l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", p))
			if free = free && err == nil; err == nil {
				l.Close()
			}
		}
		if free {
			return strconv.Itoa(port)
		}
	}
}

func (n *node) services(arguments ...string) (string, error) {
	c := exec.Command("../testdata/services.sh", arguments...)
	c.Env = append(os.Environ(), "TMPDIR="+n.tmp, "RABBITMQ_PORT="+n.port)
	out, err := c.CombinedOutput()
	return string(out), err
}

// boot starts the node, with what it had.
func (n *node) boot() {
	if out, err := n.services("node"); err != nil {
		n.t.Errorf("a node does not start: %v\n%s", err, out)
	}
}

func (n *node) ctl(arguments ...string) string {
	n.t.Helper()
	out, err := n.services(append([]string{"rabbitmqctl", "--quiet"}, arguments...)...)
	if err != nil {
		n.t.Fatalf("rabbitmqctl %q: %v\n%s", arguments, err, out)
	}
	return out
}

func (n *node) url() *url.URL {
	return &url.URL{Scheme: "amqp", User: url.UserPassword("guest", "guest"), Host: "127.0.0.1:" + n.port, Path: "/"}
}

func (n *node) name() string { return "backlog-" + n.port + "@localhost" }

func (n *node) kill() {
	text, err := os.ReadFile(filepath.Join(n.tmp, "backlog-services/rabbitmq/pid"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	if err == nil && pid > 0 {
		syscall.Kill(pid, syscall.SIGKILL)
		eventually(func() bool { return syscall.Kill(pid, 0) != nil })
	}
}

// TestBrokerCluster kills the node that leads a quorum queue, of each queue, with kill -9 in
// the middle of a source's work and of dispatched records. Both go on with the two nodes that
// are left, and nothing is lost.
func TestBrokerCluster(t *testing.T) {
	if torture == 1 {
		return // it takes minutes
	}
	t.Parallel()
	nodes := newNodes(t, 3)
	var urls []string
	for i, n := range nodes {
		urls = append(urls, fmt.Sprintf("%q", n.url()))
		if i > 0 {
			n.ctl("stop_app")
			n.ctl("join_cluster", nodes[0].name())
			n.ctl("start_app")
		}
	}
	list := "[" + strings.Join(urls, ", ") + "]"
	m := millOf(t, "messages", "quorum: true, url: "+list, ", queues: quorum")
	m.dial(nodes[0].url().String())
	m.mustRun("init")
	source := m.start("run")
	w := worksOf(t, "rows", list, map[string]string{"worker.yaml": list})
	daemon := w.start("run")
	w.work(2)
	give := func() {
		m.send(10)
		w.insert(10)
	}
	done := func() bool {
		return strings.Count(m.read("work.log"), "done") >= m.sent*9/10 && strings.Count(w.read("work.log"), "done") >= w.records*9/10
	}
	give()
	for i := range max(1, torture/40) {
		for _, queue := range []string{"messages", "messages-backoff-60", "messages-backoff-120", "messages-error", "backlog.rows.work", "backlog.rows.outcomes", "backlog.rows.lost"} {
			if !eventually(done) {
				t.Fatalf("they do not begin\nsource:\n%s\ndaemon:\n%s", source.log, daemon.log)
			}
			victim, other := leader(t, nodes, queue)
			m.dial(other.url().String())
			give()
			time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
			began := time.Now()
			victim.kill()
			w.nodes++
			give()
			if !eventually(done) {
				t.Log(other.ctl("list_queues", "name", "messages_ready", "messages_unacknowledged", "leader", "online"))
				t.Fatalf("they do not go on with two nodes\nsource:\n%s\ndaemon:\n%s\nworkers:\n%s\n%s", source.log, daemon.log, w.workers[0].log, w.workers[1].log)
			}
			t.Logf("round %d: the leader of %s is killed; all is done after %v", i, queue, time.Since(began).Round(time.Millisecond))
			victim.boot()
		}
	}
	// Messages that a queue of delays was moving when its node died are in no queue for up to
	// six minutes; then the broker moves them again.
	const moving = `lists:sum([N || Q <- rabbit_amqqueue:list(), amqqueue:get_type(Q) == rabbit_quorum_queue,
		{messages_dlx, N} <- rabbit_amqqueue:info(Q, [messages_dlx])]).`
	if !eventuallyWithin(15*time.Minute, func() bool { return m.ready("messages-error") >= m.sent/10 && nodes[0].ctl("eval", moving) == "0\n" }) {
		t.Error("messages are not moved from the queues of delays")
	}
	sums := newAccount(t)
	n := m.judge(source)
	// The broker itself moves up to 32 messages at a time out of a queue of delays.
	n.kills, n.most = w.nodes, w.nodes*(1+messagePrefetch+32)
	sums.add(t, "source cluster", n)
	sums.add(t, "rows cluster", w.judge(daemon))
}

// leader returns the node that leads the quorum queue, and another one.
func leader(t *testing.T, nodes []*node, queue string) (leads, other *node) {
	t.Helper()
	for line := range strings.Lines(nodes[0].ctl("list_queues", "--no-table-headers", "name", "leader")) {
		f := strings.Fields(line)
		for i, n := range nodes {
			if f[0] == queue && f[1] == n.name() {
				return n, nodes[(i+1)%len(nodes)]
			}
		}
	}
	t.Fatalf("no node leads %s", queue)
	panic("")
}

// TestBrokerSlowFaults has a broker and the network to it fail in ways that take a minute.
func TestBrokerSlowFaults(t *testing.T) {
	if torture == 1 {
		return // it takes minutes
	}
	t.Parallel()
	n := newNodes(t, 1)[0]
	p := newProxy(t, n.url().Host)
	u := n.url()
	u.Path = "/stage"
	n.ctl("add_vhost", "stage")
	n.ctl("set_permissions", "--vhost", "stage", "guest", ".*", ".*", ".*")
	const unanswered, alarmed, unreached = "the broker has not answered within 10s; it hangs", "the broker takes no messages for now: low on memory; `rabbitmqctl status` shows", "; does RabbitMQ run and listen there?"
	newStage(t, "", u, n.ctl, "", p.addr()).suffers(t, []brokerFault{
		{
			"half-open", func(*stage) { p.stall(true) }, func(*stage) { p.stall(false) },
			unanswered, unanswered, unanswered, false, time.Minute,
		},
		{
			"memory alarm",
			func(s *stage) {
				s.send("bad-alarm", nil)
				s.ctl("set_vm_memory_high_watermark", "0.00001")
				s.insert()
			},
			func(s *stage) { s.ctl("set_vm_memory_high_watermark", "0.4") },
			alarmed, alarmed, alarmed, true, time.Minute,
		},
		{
			"acknowledged too late",
			func(s *stage) {
				s.ctl("eval", "application:set_env(rabbit, consumer_timeout, 1000), application:set_env(rabbit, channel_tick_interval, 1000).")
				s.cut()
				s.send("good-slow", nil)
				const late = "a message was not acknowledged in time" // as long as handlers wait
				s.says(patience, late, "", late)
			},
			func(s *stage) {
				s.ctl("eval", "application:set_env(rabbit, consumer_timeout, 1800000), application:set_env(rabbit, channel_tick_interval, 60000).")
				s.cut()
			},
			"handlers need a shorter timeout, or the broker a longer consumer_timeout", "", "handlers need a shorter timeout, or the broker a longer consumer_timeout", false, 0,
		},
		{
			"vhost limit",
			func(s *stage) { s.ctl("set_vhost_limits", "--vhost", "stage", `{"max-connections": 0}`); s.cut() },
			func(s *stage) { s.ctl("clear_vhost_limits", "--vhost", "stage") },
			"list_vhost_limits` show why", "list_vhost_limits` show why", "list_vhost_limits` show why", true, 0,
		},
		{
			"stopped", func(s *stage) { s.ctl("stop_app"); p.refuse(true) }, func(s *stage) { s.ctl("start_app"); p.refuse(false) },
			unreached, unreached, unreached, true, 0,
		},
		{
			"killed", func(*stage) { n.kill(); p.refuse(true) }, func(*stage) { n.boot(); p.refuse(false) },
			unreached, unreached, unreached, true, 0,
		},
	})
}
