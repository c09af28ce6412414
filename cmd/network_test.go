package cmd_test

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"backlog/internal/testserver"
)

// networkDraws returns how many draws are run on each kind of server, and the seed of the first:
// `make network N=1000 SEED=1`. By default they are few, and the same in each gate.
func networkDraws() (n int, seed uint64) {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("BACKLOG_NETWORK"), "2"))
	if err != nil {
		panic("BACKLOG_NETWORK is no number")
	}
	seed, err = strconv.ParseUint(cmp.Or(os.Getenv("BACKLOG_NETWORK_SEED"), "20"), 10, 64)
	if err != nil {
		panic("BACKLOG_NETWORK_SEED is no number")
	}
	return n, seed
}

// isLongNetwork reports whether there is time for blows that last for a minute.
func isLongNetwork() bool { return os.Getenv("BACKLOG_NETWORK") != "" }

// drawBlows draws what happens to the network, at messages of those kinds.
func drawBlows(r *rand.Rand, kinds []string, whats ...string) []blow {
	list := make([]blow, 1+r.IntN(2))
	for i := range list {
		b := blow{
			What:    whats[r.IntN(len(whats))],
			Kind:    kinds[r.IntN(len(kinds))],
			Answers: r.IntN(2) == 0,
			After:   r.IntN(4),
			Part:    []float64{0, r.Float64(), 1}[r.IntN(3)],
			All:     r.IntN(2) == 0,
			Lasts:   time.Duration(100+r.IntN(2900)) * time.Millisecond,
		}
		isMinute := r.IntN(20) == 0 && isLongNetwork() // drawn in any case, so that a seed is the same case
		if b.What == blowReset || b.What == blowTrickle {
			b.Lasts = 0
		} else if isMinute {
			b.Lasts = 65 * time.Second // longer than a statement may take
		}
		list[i] = b
	}
	return list
}

// speeches are how the servers speak, and databaseKinds the kinds of their messages.
var speeches = map[*siteKind]speech{onPostgres: speaksPostgres{}, onMySQL: speaksMySQL{}}

var databaseKinds = []string{"login", "prepare", "lock", "read", "begin", "write", "write", "commit", "commit", "any"}

// A networkCase is what happens to the network between the program and a database.
type networkCase struct {
	name    string
	command string // once or run
	blows   []blow
	split   bool // each new connection leads to one of both servers; the second has the table as it was at first
	seed    uint64
}

// Every case ends with the same judgement. These are the ones that have a name.
var networkCases = []networkCase{
	{name: "once, reset in the middle of the answer to COMMIT", command: "once", blows: []blow{{What: blowReset, Kind: "commit", Answers: true, Part: 0.5}}},
	{name: "once, reset in the middle of COMMIT", command: "once", blows: []blow{{What: blowReset, Kind: "commit", Part: 0.5}}},
	{name: "once, reset in the middle of a write", command: "once", blows: []blow{{What: blowReset, Kind: "write", Part: 0.5}}},
	{name: "run, reset in the middle of COMMIT", command: "run", blows: []blow{{What: blowReset, Kind: "commit", Part: 0.5}, {What: blowReset, Kind: "commit", Answers: true, Part: 0.5}}},
	{name: "once, half open at a write", command: "once", blows: []blow{{What: blowHalf, Kind: "write", Part: 1, All: true, Lasts: 2 * time.Second}}},
	{name: "run, trickle", command: "run", blows: []blow{{What: blowTrickle, Kind: "read", All: true}}},
	{name: "run, second server with old data", command: "run", blows: []blow{
		{What: blowCopy, Kind: "write", Answers: true}, {What: blowPromote, Kind: "write", After: 2, Part: 1, All: true},
	}},
	{name: "once, second server with old data", command: "once", blows: []blow{
		{What: blowCopy, Kind: "read", Answers: true}, {What: blowPromote, Kind: "write", Answers: true, Part: 1, All: true},
	}},
	{name: "run, two servers at a time", command: "run", split: true, blows: []blow{{What: blowReset, Kind: "read", After: 1, All: true}}},
}

func drawNetworkCase(seed uint64) networkCase {
	r := rand.New(rand.NewPCG(seed, 0))
	c := networkCase{name: fmt.Sprintf("seed %d", seed), command: []string{"once", "run"}[r.IntN(2)], seed: seed}
	c.blows = drawBlows(r, databaseKinds, blowReset, blowReset, blowHalf, blowVanish, blowStall, blowTrickle, blowRefuse)
	switch r.IntN(5) {
	case 0:
		c.blows = []blow{
			{What: blowCopy, Kind: databaseKinds[r.IntN(len(databaseKinds))], Answers: r.IntN(2) == 0, After: r.IntN(3), Part: r.Float64()},
			{What: blowPromote, Kind: databaseKinds[r.IntN(len(databaseKinds))], Answers: r.IntN(2) == 0, After: r.IntN(4), Part: r.Float64(), All: true},
		}
	case 1:
		c.split = true
	}
	return c
}

// networkHandler notes its record at the start and at the end. Every fifth record fails at first.
const networkHandler = `#!/bin/sh
trap 'echo "fail $BACKLOG_ID $BACKLOG_ATTEMPT_ID $BACKLOG_TIER" >>handled.log; exit 1' TERM
echo "start $BACKLOG_ID $BACKLOG_ATTEMPT_ID $BACKLOG_TIER" >>handled.log
sleep 0.05
case $BACKLOG_ID in
*[05]) [ -e "seen.$BACKLOG_ID" ] || { : >"seen.$BACKLOG_ID"; echo "fail $BACKLOG_ID $BACKLOG_ATTEMPT_ID $BACKLOG_TIER" >>handled.log; exit 1; } ;;
esac
echo "done $BACKLOG_ID $BACKLOG_ATTEMPT_ID $BACKLOG_TIER" >>handled.log
`

const networkRows = 24

// TestNetwork has the network between the program and a database fail at a message: in the
// middle of it, before it or after it, on one connection or on all. Work may be done again.
// No row is lost, no two handlers have the same record at a time, a row that says SUCCESS was
// handled to its end before, and when the network is good again `once` does all that is left.
func TestNetwork(t *testing.T) {
	t.Parallel()
	n, seed := networkDraws()
	cases := networkCases
	for i := range uint64(n) {
		cases = append(cases[:len(cases):len(cases)], drawNetworkCase(seed+i))
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			onSites(t, serverKinds, func(t *testing.T, kind *siteKind) { testNetwork(t, kind, c) })
		})
	}
}

// A networkSite is a site with a second server that may have an older table.
type networkSite struct {
	*site
	wire   *wire
	second string // its name
	lag    bool   // the second one has had connections: outcomes that were written may be gone
}

func testNetwork(t *testing.T, kind *siteKind, c networkCase) {
	s := &networkSite{site: newSite(t, kind, map[string]string{"handler.sh": networkHandler})}
	s.wire = newWire(t, s.server.Host, speeches[kind], c.blows...)
	s.fillNew(networkRows)
	s.addSecond(c)
	s.configure("a", s.wire.proxy, strings.Replace(handling, "concurrency: 4", "concurrency: 8", 1))
	began := time.Now()
	var log string
	if c.command == "once" {
		log = s.once(false)
	} else {
		log = s.daemon()
	}
	struck := s.wire.strikes()
	s.wire.calm()
	s.isTrue("after " + c.command)
	for range 2 {
		log += s.once(true) // the second has what fails at first
	}
	s.isTrue("at the end")
	s.judgeAll()
	t.Logf("%v: %d of %d blows in %v: %v", c.command, len(struck), len(c.blows), time.Since(began).Round(time.Millisecond), struck)
	if t.Failed() {
		t.Logf("blows: %v\nmessages: %v\n%s\n%s", c.blows, s.wire.seen(), log, s.read("handled.log"))
	}
}

// addSecond makes the second server: a schema or a database of another name.
func (s *networkSite) addSecond(c networkCase) {
	s.t.Helper()
	last := "a"
	if strings.HasSuffix(s.own, "a") {
		last = "b"
	}
	s.second = s.own[:len(s.own)-1] + last
	s.wire.name = s.own
	s.wire.second = s.second
	s.wire.copies = s.copies
	for _, b := range c.blows {
		s.lag = s.lag || b.What == blowPromote
	}
	if !s.lag && !c.split {
		return
	}
	create, drop := "CREATE SCHEMA "+s.second, "DROP SCHEMA "+s.second+" CASCADE"
	like := `CREATE TABLE ` + s.second + `."BACKLOG" (LIKE "BACKLOG" INCLUDING ALL)`
	if s.kind == onMySQL {
		create, drop = "CREATE DATABASE "+s.second, "DROP DATABASE "+s.second
		like = `CREATE TABLE ` + s.second + `."BACKLOG" LIKE "BACKLOG"`
	}
	s.mustExec(create)
	s.atEnd(drop)
	s.mustExec(like)
	if c.split {
		s.copies()
		r := rand.New(rand.NewPCG(c.seed, 1))
		s.wire.lead(func() bool { return r.IntN(2) == 0 })
	}
}

// copies gives the second server the rows as they are, without waiting for those that are being written.
func (s *networkSite) copies() {
	tx, err := s.db.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err == nil {
		defer tx.Rollback()
		_, err = tx.Exec(`INSERT INTO ` + s.second + `."BACKLOG" SELECT * FROM "BACKLOG"`)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		s.t.Error(err)
	}
}

// tables returns those that have rows: the first server's, and the second's if it may be asked.
func (s *networkSite) tables() []string {
	list := []string{`"BACKLOG"`}
	if s.wire.hasSecond() {
		list = append(list, s.second+`."BACKLOG"`)
	}
	return list
}

// current returns the table of the server that new connections lead to.
func (s *networkSite) current() string {
	if s.lag && s.wire.hasSecond() {
		return s.second + `."BACKLOG"`
	}
	return `"BACKLOG"`
}

// once runs a pass, which is to end well if the network is good. If it says that it has ended
// well, nothing is untried.
func (s *networkSite) once(good bool) (log string) {
	s.t.Helper()
	d := s.start("once", "--config", "a.yaml", "--max-age", "1d", "--wait", "1m", "--json")
	if !eventuallyWithin(4*time.Minute, d.hasEnded) {
		s.t.Fatalf("it does not end:\n%s", d.log)
	}
	status := d.cmd.ProcessState.ExitCode()
	log = d.log.String()
	if status != 0 && (good || status != 1) {
		s.t.Errorf("once: exit status %d", status)
	}
	if s.lag && !good {
		return log // what was written, and confirmed, may be gone
	}
	if s.isSplit() {
		return log // it may have read of one of them and written to the other
	}
	if n := s.counted("NEW"); status == 0 && n > 0 {
		s.t.Errorf("once ends with 0, and %d records are untried", n)
	}
	_, text, _ := strings.Cut(log, `{"tier"`)
	var report struct{ Succeeded int }
	if json.Unmarshal([]byte(`{"tier"`+text), &report) == nil && report.Succeeded > s.counted("SUCCESS") {
		s.t.Errorf("once reports %d successes, and %d rows have it", report.Succeeded, s.counted("SUCCESS"))
	}
	return log
}

// isSplit reports whether connections lead to one of both servers.
func (s *networkSite) isSplit() bool { return s.wire.hasSecond() && !s.lag }

// counted returns how many rows of the current table have the status.
func (s *networkSite) counted(status string) (n int) {
	s.t.Helper()
	if err := s.db.QueryRow("SELECT count(*) FROM " + s.current() + " WHERE status = '" + status + "'").Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// daemon runs a daemon until all blows have struck and it has done all, or has nothing more to do.
func (s *networkSite) daemon() (log string) {
	s.t.Helper()
	d := s.start("run", "--config", "a.yaml")
	isDone := func() bool { return s.counted("SUCCESS") == networkRows }
	limit := 3 * time.Minute
	if s.isSplit() {
		limit = 5 * time.Second // what is done on one of them is not on the other
	}
	if !eventuallyWithin(limit, func() bool { return isDone() && !s.wire.isStriking() }) && !s.isSplit() {
		s.t.Errorf("the daemon does not do all:\n%s", d.log)
	}
	s.wire.calm()
	d.signal(syscall.SIGTERM)
	if !eventually(d.hasEnded) {
		s.t.Fatalf("it does not end:\n%s", d.log)
	}
	log = d.log.String()
	if n := reported(log); n > s.counted("SUCCESS") && !s.lag && !s.isSplit() {
		s.t.Errorf("the daemon reports %d successes, and %d rows have it", n, s.counted("SUCCESS"))
	}
	return log
}

// reported returns how many successes the passes of a log have had.
func reported(log string) (n int) {
	for line := range strings.Lines(log) {
		var pass struct {
			Msg       string
			Succeeded int
		}
		if json.Unmarshal([]byte(line), &pass) == nil && pass.Msg == "pass ended" {
			n += pass.Succeeded
		}
	}
	return n
}

// isTrue fails for each row that says SUCCESS before a handler of it has.
func (s *networkSite) isTrue(when string) {
	s.t.Helper()
	rows := make(map[string]string)
	for _, table := range s.tables() {
		rows[table] = s.rows("SELECT id FROM " + table + " WHERE status = 'SUCCESS'")
	}
	done := make(map[string]bool)
	for _, d := range s.deeds("handled.log") {
		done[d.id] = done[d.id] || d.what == "done"
	}
	for table, ids := range rows {
		for id := range strings.FieldsSeq(ids) {
			if !done[id] {
				s.t.Errorf("%s: record %s of %s is SUCCESS and was never handled to the end", when, id, table)
			}
		}
	}
}

// judgeAll fails unless every row of the server that is left is SUCCESS and no two handlers had
// a record at a time.
func (s *networkSite) judgeAll() {
	s.t.Helper()
	if s.isSplit() { // until both have all, a pass may have seen only one of them
		s.wire.lead(nil)
		s.wire.cut()
		s.once(true)
		s.once(true)
	}
	if got := s.counted("SUCCESS"); got != networkRows {
		s.t.Errorf("%d of %d records are SUCCESS", got, networkRows)
	}
	ends := make(map[string]bool) // by attempt; a handler that is killed notes no end
	again := 0
	for _, d := range s.deeds("handled.log") {
		ends[d.attempt] = ends[d.attempt] || d.what != "start"
	}
	under := make(map[string]string) // the attempt that has the record
	done := make(map[string]int)
	for _, d := range s.deeds("handled.log") {
		if d.what == "start" {
			if other := under[d.id]; ends[other] {
				s.t.Errorf("record %s: %s began with it while %s had not ended", d.id, d.attempt, other)
			}
			under[d.id] = d.attempt
			continue
		}
		if d.what == "done" {
			if done[d.id]++; done[d.id] > 1 {
				again++
			}
		}
		if under[d.id] == d.attempt {
			delete(under, d.id)
		}
	}
	s.t.Logf("%d records were done more than once", again)
}

// brokerKinds are the kinds of messages between the program and RabbitMQ.
var brokerKinds = []string{"login", "declare", "publish", "publish", "deliver", "content", "ack", "ack", "any"}

func drawBrokerBlows(seed uint64) (blows []blow, r *rand.Rand) {
	r = rand.New(rand.NewPCG(seed, 2))
	return drawBlows(r, brokerKinds, blowReset, blowReset, blowHalf, blowVanish, blowStall, blowTrickle, blowRefuse), r
}

// TestNetworkOfSource has the network between a source and RabbitMQ fail. Each message was
// handled to its success or is in a queue, and none says that it succeeded that did not.
func TestNetworkOfSource(t *testing.T) {
	t.Parallel()
	u := testserver.RabbitMQURL(t)
	n, seed := networkDraws()
	sums := newAccount(t)
	for after := 1; after <= 2; after++ { // the answers to the password and to the vhost
		t.Run(fmt.Sprintf("login %d", after), func(t *testing.T) {
			t.Parallel()
			w := newWire(t, u.Host, speaksAMQP{}, blow{What: blowReset, Kind: "login", Answers: true, After: after})
			m := newMill(t, u.String(), u.String(), testserver.Name("network-"))
			m.deleteAtEnd()
			m.write("schedule.yaml", strings.Replace(m.read("schedule.yaml"), u.String(), through(u, w), 1))
			m.send(10)
			sums.add(t, "login", m.judge(m.start("run"))) // which is to go on
			if len(w.strikes()) == 0 {
				t.Error("the network has not failed")
			}
		})
	}
	for i := range uint64(n) {
		t.Run(fmt.Sprintf("seed %d", seed+i), func(t *testing.T) {
			t.Parallel()
			blows, r := drawBrokerBlows(seed + i)
			w := newWire(t, u.Host, speaksAMQP{}, blows...)
			m := newMill(t, u.String(), u.String(), testserver.Name("network-"))
			m.deleteAtEnd()
			m.write("schedule.yaml", strings.Replace(m.read("schedule.yaml"), u.String(), through(u, w), 1))
			m.send(20)
			command := []string{"run"}
			if r.IntN(2) == 0 {
				command = []string{"once", "--max-records", "1000"}
			}
			d := m.start(command...)
			if command[0] == "run" {
				eventuallyWithin(20*time.Second, func() bool {
					isDone := m.ready(m.queue+"-error") == m.sent/10 && strings.Count(m.read("work.log"), "done") >= m.sent-m.sent/10
					return (isDone || m.ready(m.queue) == 0 && len(w.strikes()) == len(blows)) && !w.isStriking()
				})
				if d.hasEnded() {
					t.Fatalf("it has ended by itself:\n%s", d.log)
				}
				d.signal(syscall.SIGTERM)
			}
			if !eventuallyWithin(3*time.Minute, d.hasEnded) {
				t.Fatalf("it does not end:\n%s", d.log)
			}
			const early = -1 // the signal came before the program could handle it
			if status := d.cmd.ProcessState.ExitCode(); status != 0 && status != 1 && status != early {
				t.Errorf("exit status %d:\n%s", status, d.log)
			}
			struck := w.strikes()
			w.calm()
			last := m.start("run")
			last.says(`"msg":"taking messages"`)
			n := m.judge(last)
			n.kills, n.most = len(struck), (1+len(struck))*(1+messagePrefetch) // the end of the first process, too
			if command[0] == "once" {
				n.most = m.sent // it has all of them at a time
			}
			sums.add(t, "source", n)
			t.Logf("%s: %d of %d blows: %v", command[0], len(struck), len(blows), struck)
			if t.Failed() {
				t.Logf("%s\n%s\n%s", d.log, last.log, m.read("work.log"))
			}
		})
	}
}

// deleteAtEnd deletes the queues when the test has ended.
func (m *mill) deleteAtEnd() {
	m.t.Cleanup(func() {
		for _, more := range []string{"", "-error", "-backoff-60", "-backoff-120"} {
			if _, err := m.ch.QueueDelete(m.queue+more, false, false, false); err != nil {
				m.t.Error(err)
			}
		}
	})
}

// TestNetworkOfWorkers has the network between RabbitMQ and a daemon, or a worker, fail. A row
// is SUCCESS if and only if a handler of a worker has succeeded.
func TestNetworkOfWorkers(t *testing.T) {
	t.Parallel()
	u := testserver.RabbitMQURL(t)
	n, seed := networkDraws()
	sums := newAccount(t)
	for after := 3; after <= 4; after++ { // while it looks at the queue before it leads
		t.Run(fmt.Sprintf("start %d", after), func(t *testing.T) {
			t.Parallel()
			wire := newWire(t, u.Host, speaksAMQP{}, blow{What: blowReset, Kind: "declare", Answers: true, After: after})
			name := testserver.Name("network-")
			t.Cleanup(func() { deleteWork(t, u.String(), name) })
			w := worksOf(t, name, fmt.Sprintf("%q", through(u, wire)), map[string]string{"worker.yaml": fmt.Sprintf("%q", u)})
			w.insert(5)
			w.work(1)
			d := w.start("run") // which is to go on
			d.says(`"msg":"leading"`)
			sums.add(t, "start", w.judge(d))
			if len(wire.strikes()) == 0 {
				t.Error("the network has not failed")
			}
		})
	}
	for i := range uint64(n) {
		t.Run(fmt.Sprintf("seed %d", seed+i), func(t *testing.T) {
			t.Parallel()
			blows, r := drawBrokerBlows(seed + i)
			wire := newWire(t, u.Host, speaksAMQP{}, blows...)
			name := testserver.Name("network-")
			t.Cleanup(func() { deleteWork(t, u.String(), name) })
			daemonURL, workerURL, who := through(u, wire), u.String(), "daemon"
			if r.IntN(2) == 0 {
				daemonURL, workerURL, who = workerURL, daemonURL, "worker"
			}
			w := worksOf(t, name, fmt.Sprintf("%q", daemonURL), map[string]string{"worker.yaml": fmt.Sprintf("%q", workerURL)})
			w.insert(25)
			w.nodes = len(blows) // a message that is delivered again may be handled twice at a time
			w.work(2)
			if r.IntN(2) == 0 {
				who += " of once"
				d := w.start("once", "--max-age", "7d", "--wait", "1m")
				if !eventuallyWithin(3*time.Minute, d.hasEnded) {
					t.Fatalf("it does not end:\n%s", d.log)
				}
			}
			d := w.start("run")
			d.says(`"msg":"leading"`)
			eventuallyWithin(20*time.Second, func() bool {
				isDone := w.rows("SELECT count(*) FROM BACKLOG WHERE status = 'SUCCESS'") == "23\n" // no more messages, but heartbeats
				return (isDone || len(wire.strikes()) == len(blows)) && !wire.isStriking()
			})
			struck := wire.strikes()
			wire.calm()
			sums.add(t, "workers", w.judge(d))
			t.Logf("%s: %d of %d blows: %v", who, len(struck), len(blows), struck)
			if t.Failed() {
				for _, k := range w.workers {
					t.Logf("worker:\n%s", k.log)
				}
			}
		})
	}
}

// through returns the URL by way of the wire.
func through(u *url.URL, w *wire) string {
	via := *u
	via.Host = w.addr()
	return via.String()
}
