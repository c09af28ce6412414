package cmd_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"backlog/internal/testserver"
)

// The handler of a stage begins nothing while there is a file `wait`.
const stageHandler = `#!/bin/sh
cat >/dev/null
echo "start $BACKLOG_ID" >>work.log
while [ -e wait ]; do sleep 0.1; done
case $BACKLOG_ID in bad*) exit 1 ;; esac
echo "done $BACKLOG_ID" >>work.log
`

// A stage is a source, a daemon and a worker of one broker that a test has fail.
type stage struct {
	*shop
	ctl                    func(arguments ...string) string
	broker                 *url.URL // of one who may do anything
	user, vhost            string   // the programs' own
	snare                  *snare   // in front of the broker, if there is one
	source, daemon, worker *daemon
	from                   map[*daemon]int // where what they say of a fault begins
	records                int
}

const stageQueue = "stage"

// newStage starts the three. Their URLs are those of hosts, or the broker's.
func newStage(t *testing.T, program string, broker *url.URL, ctl func(...string) string, more string, hosts ...string) *stage {
	t.Helper()
	s := &stage{
		shop: newShop(t, map[string]string{"handler.sh": stageHandler}), ctl: ctl, broker: broker,
		user: testserver.Name("test-"), vhost: broker.Path[1:], from: make(map[*daemon]int),
	}
	s.program = program
	ctl("add_user", s.user, "word")
	t.Cleanup(func() { ctl("delete_user", s.user) })
	ctl("set_permissions", "--vhost", s.vhost, s.user, ".*", ".*", ".*")
	if len(hosts) == 0 {
		hosts = []string{broker.Host}
	}
	for i := range hosts {
		hosts[i] = fmt.Sprintf("%q", fmt.Sprintf("amqp://%s:word@%s/%s", s.user, hosts[i], s.vhost))
	}
	urls := "[" + strings.Join(hosts, ", ") + "]"
	s.write("source.yaml", fmt.Sprintf(`source: {amqp: {url: %s, queue: %s, declare: all, exchange: {name: none}, prefetch: 4, sneakers: {max_retries: 1, multiplier: 1}%s}}
handler: {exec: [./handler.sh], timeout: 10m, concurrency: 4}
`, urls, stageQueue, more))
	s.write("schedule.yaml", fmt.Sprintf(`database: sqlite:backlog.db
handler: {amqp: {url: %s, name: %s, lease: 1s, secret: 0123456789abcdef}, timeout: 3s, concurrency: 4}
tiers: [{max_age: 7d, every: 1s}]
log: {level: warn}
`, urls, stageQueue))
	s.write("worker.yaml", fmt.Sprintf("worker:\n  concurrency: 4\n  amqp: {url: %s, name: %s}\n  handler: {exec: [./handler.sh]}\n", urls, stageQueue))
	s.mustRun("init", "--create-table")
	s.sql("ALTER TABLE BACKLOG ADD COLUMN body TEXT")
	s.source = s.start("run", "--config", "source.yaml")
	s.daemon = s.start("run")
	s.insert()
	s.worker = s.start("worker", "--config", "worker.yaml")
	for _, d := range []*daemon{s.source, s.worker} {
		d.says(`"msg":"taking messages"`)
	}
	s.goesOn()
	return s
}

// dial returns a channel of the test's own.
func (s *stage) dial() *amqp091.Channel {
	s.t.Helper()
	c, err := amqp091.Dial(s.broker.String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	ch, err := c.Channel()
	if err != nil {
		s.t.Fatal(err)
	}
	return ch
}

// send sends a message to the source.
func (s *stage) send(id string, body []byte) {
	s.t.Helper()
	ch := s.dial()
	eventually(func() bool { // its source declares the queue
		_, err := ch.QueueDeclarePassive(stageQueue, true, false, false, false, nil)
		if err != nil {
			ch = s.dial()
		}
		return err == nil
	})
	p := amqp091.Publishing{MessageId: id, Body: body, DeliveryMode: amqp091.Persistent}
	err := ch.Confirm(false)
	if err == nil {
		err = ch.PublishWithContext(s.t.Context(), "", stageQueue, true, false, p)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	ch.Close() // what was sent before is there
}

func (s *stage) insert() (id int) {
	s.t.Helper()
	s.records++
	s.sql(fmt.Sprintf("INSERT INTO BACKLOG (id, date_inserted) VALUES (%d, datetime('now', '-1 hour'))", s.records))
	return s.records
}

// give gives all three something to do that succeeds, and returns what the log says then.
func (s *stage) give() (source, row string) {
	s.t.Helper()
	row = fmt.Sprint(s.insert())
	source = "good-" + row
	s.send(source, nil)
	return "done " + source + "\n", "done " + row + "\n"
}

// goesOn waits until all three do what they are given, and begins to read their logs anew.
func (s *stage) goesOn() {
	s.t.Helper()
	source, row := s.give()
	bad := fmt.Sprintf("bad-%d", s.records)
	s.send(bad, nil)
	if !eventually(func() bool {
		log := s.read("work.log")
		return strings.Contains(log, source) && strings.Contains(log, row) && strings.Count(log, "start "+bad+"\n") >= 2 &&
			s.rows(fmt.Sprintf("SELECT status FROM BACKLOG WHERE id = %d", s.records)) == "SUCCESS\n"
	}) {
		s.t.Fatalf("they do not go on:\n%s\nsource:\n%s\ndaemon:\n%s\nworker:\n%s", s.read("work.log"), s.source.log, s.daemon.log, s.worker.log)
	}
	for _, d := range []*daemon{s.source, s.daemon, s.worker} {
		s.from[d] = len(d.log.String())
	}
}

// says waits until each has said of the fault what is expected, if anything is.
func (s *stage) says(within time.Duration, source, daemon, worker string) {
	s.t.Helper()
	s.saysEach(within, source, s.source, "source")
	s.saysEach(within, daemon, s.daemon, "daemon")
	s.saysEach(within, worker, s.worker, "worker")
}

func (s *stage) saysEach(within time.Duration, text string, d *daemon, who string) {
	s.t.Helper()
	if !eventuallyWithin(within, func() bool { return strings.Contains(d.log.String()[s.from[d]:], text) }) {
		s.t.Errorf("the %s does not say %q:\n%s", who, text, d.log.String()[s.from[d]:])
	}
	if strings.Contains(d.log.String(), "word@") {
		s.t.Errorf("the %s shows a password", who)
	}
}

// A brokerFault is what happens to the broker, and what source, daemon and worker say of it.
type brokerFault struct {
	name                   string
	do, mend               func(s *stage)
	source, daemon, worker string
	mute                   bool          // nobody can publish meanwhile
	lasts                  time.Duration // at least
}

// Faults that take seconds. The worker has a record when they begin.
var rightFaults = []brokerFault{
	{
		name:   "wrong password",
		do:     func(s *stage) { s.ctl("change_password", s.user, "other"); s.cut() },
		mend:   func(s *stage) { s.ctl("change_password", s.user, "word") },
		source: "the broker refuses the user or the password of the URL",
		daemon: "the broker refuses the user or the password of the URL",
		worker: "the broker refuses the user or the password of the URL",
		lasts:  0,
	},
	{
		name: "right revoked",
		do: func(s *stage) {
			s.send("bad-right", nil)
			s.ctl("set_permissions", "--vhost", s.vhost, s.user, ".*", "^$", ".*")
			s.cut()
		},
		mend:   func(s *stage) { s.ctl("set_permissions", "--vhost", s.vhost, s.user, ".*", ".*", ".*"); s.cut() },
		source: "the user may not do that: ACCESS_REFUSED",
		daemon: "the user may not do that: ACCESS_REFUSED",
		lasts:  0,
	},
}

var queueFaults = []brokerFault{
	{
		"queue recreated with other arguments",
		func(s *stage) {
			for _, name := range []string{stageQueue, "backlog." + stageQueue + ".work"} {
				s.remake(name, amqp091.Table{"x-queue-type": "quorum", "x-message-ttl": int32(600_000)})
			}
			s.cut()
		},
		func(s *stage) { s.remake(stageQueue, nil); s.remake("backlog."+stageQueue+".work", nil) },
		"was declared otherwise", "queue backlog.stage.work: it was declared otherwise: ", "", false, 0,
	},
	{
		"queue deleted",
		func(s *stage) { s.remake(stageQueue, nil); s.remake("backlog."+stageQueue+".work", nil) },
		func(*stage) {},
		"is the queue stage still there?", "queue backlog.stage.work: no queue is bound for it", "is the queue backlog.stage.work still there?", false, 0,
	},
}

var sizeFaults = []brokerFault{
	{
		"message too large",
		func(s *stage) {
			s.t.Cleanup(s.anySize)
			s.ctl("eval", "application:set_env(rabbit, max_message_size, 12000000).")
			s.cut()
			s.send("bad-large", make([]byte, 10_000_000)) // more in base64
			s.sql("INSERT INTO BACKLOG (id, date_inserted, body) VALUES (0, datetime('now', '-1 hour'), hex(zeroblob(6500000)))")
		},
		func(s *stage) { s.anySize(); s.cut() },
		"the broker needs a larger max_message_size, or a source `error_body: original`", "the broker needs a larger max_message_size", "", false, 0,
	},
}

// anySize has the broker, which other tests have, too, take messages as large as by default.
func (s *stage) anySize() { s.ctl("eval", "application:set_env(rabbit, max_message_size, 134217728).") }

// cut has the broker close the programs' connections.
func (s *stage) cut() { s.ctl("close_all_connections", "--vhost", s.vhost, "for a test") }

// remake deletes the queue, and declares it with the arguments if there are any.
func (s *stage) remake(name string, arguments amqp091.Table) {
	s.t.Helper()
	ch := s.dial()
	_, err := ch.QueueDelete(name, false, false, false)
	if err == nil && arguments != nil {
		_, err = ch.QueueDeclare(name, true, false, false, false, arguments)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// suffers has the stage go through each fault. Each of the three says what is wrong and what
// to do about it, and goes on when that is done.
func (s *stage) suffers(t *testing.T, faults []brokerFault) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			defer func(was *testing.T) { s.t = was }(s.t)
			s.t = t
			s.write("wait", "")
			row := s.insert()
			if !eventually(func() bool { return strings.Contains(s.read("work.log"), fmt.Sprintf("start %d\n", row)) }) {
				t.Fatal("the worker has nothing")
			}
			began := time.Now()
			f.do(s)
			(&works{shop: s.shop}).remove("wait")
			if f.mute {
				s.insert()
			} else {
				s.give()
			}
			s.says(patience, f.source, f.daemon, f.worker)
			t.Logf("said after %v", time.Since(began).Round(time.Millisecond))
			time.Sleep(f.lasts - time.Since(began))
			f.mend(s)
			s.goesOn()
			t.Logf("over after %v", time.Since(began).Round(time.Millisecond))
		})
	}
}

// TestBrokerFaults has the broker refuse source, daemon and worker in each way.
func TestBrokerFaults(t *testing.T) {
	t.Parallel()
	var left func() int
	reset := brokerFault{
		"reset before the confirm",
		func(s *stage) {
			s.send("bad-reset", nil)
			left = s.snare.reset(arrows[3], 4) // some of each of the three
		},
		func(s *stage) {
			for left() > 0 && !s.t.Failed() {
				s.goesOn()
			}
		},
		"", "", "", false, 0,
	}
	for _, x := range []struct {
		name    string
		program string // it chews at what is too large for minutes under the race detector
		faults  []brokerFault
	}{{"rights", "", rightFaults}, {"queues", "", append(queueFaults, reset)}, {"sizes", released, sizeFaults}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			u, ctl := testserver.RabbitMQVhost(t)
			snare := newSnare(t, u.Host)
			s := newStage(t, x.program, u, ctl, "", snare.addr())
			s.snare = snare
			s.suffers(t, x.faults)
		})
	}
}

// TestBrokerLogUnread has a broker away for a moment while nobody reads the logs. The source
// goes on, ends and loses nothing; under make torture daemon and worker, too, which wait for
// what was on its way.
func TestBrokerLogUnread(t *testing.T) {
	t.Parallel()
	u, ctl := testserver.RabbitMQVhost(t)
	sums := newAccount(t)
	cut := func() { ctl("close_all_connections", "--vhost", u.Path[1:], "for a test") }
	m := newMill(t, u.String(), u.String(), "unread")
	m.unread = true
	source := m.start("run")
	m.send(20)
	cut()
	m.dial(u.String())
	m.send(20)
	n := m.judge(source)
	n.most = 1 + messagePrefetch
	sums.add(t, "source unread", n)
	if torture == 1 {
		return
	}
	w := newWorks(t, u.String(), "unread", 20)
	w.unread = true
	daemon := w.start("run")
	w.work(2)
	w.sees("done", 1)
	cut()
	w.nodes++
	w.insert(20)
	sums.add(t, "rows unread", w.judge(daemon))
}
