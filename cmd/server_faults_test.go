package cmd_test

import (
	"database/sql"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"backlog/internal/testkit"
)

// faulty is how many records a daemon has to work off while something fails.
const faulty = 48

// A fault is something that happens to a daemon at work.
type fault struct {
	name   string
	kinds  []*siteKind // nil: serverKinds
	before func(*site) // the daemon is started; nil: nothing
	first  string      // the first answer that has it in it is lost
	strike func(*faultTest)
	long   bool // only where there is time
	quiet  bool // nothing is said of it: it is a normal event of the database
}

// A faultTest is a daemon at work.
type faultTest struct {
	*site
	proxy  *proxy
	daemon *daemon
}

// outage is how long a server takes to be there again.
const outage = 3 * time.Second

// The longest comes first, and lasts as long as all others together.
var faults = []fault{
	{name: "long stall", long: true, strike: func(f *faultTest) { stalls(f, 62*time.Second) }},
	{name: "locked row", quiet: true, strike: holds},
	{name: "reset at anything", strike: func(f *faultTest) {
		for n := range 12 { // selects, pings, looks at the lock
			left := n
			springs(func(*link, []byte) fate {
				if left--; left >= 0 {
					return goesOn
				}
				return []fate{isLost, isHeard}[n%2]
			})(f)
		}
	}},
	{name: "deadlock", quiet: true, strike: crosses},
	{name: "short stall", strike: func(f *faultTest) { stalls(f, 8*time.Second) }},
	{name: "reset at select", before: func(s *site) {
		s.mustExec(`ALTER TABLE "BACKLOG" ADD payload varchar(20) DEFAULT 'what is read'`)
	}, first: "what is read", strike: func(f *faultTest) { f.sprung(0) }},
	{name: "reset at begin", strike: springs(func(_ *link, text []byte) fate {
		return lostIf(sends(text, "BEGIN") || sends(text, "START TRANSACTION"))
	})},
	{name: "reset at settle", strike: func(f *faultTest) {
		var begun *link
		springs(func(l *link, text []byte) fate {
			if begun == nil && (sends(text, "BEGIN") || sends(text, "START TRANSACTION")) {
				begun = l
				return goesOn
			}
			return lostIf(begun == l)
		})(f)
	}},
	{name: "reset at commit", before: sendsTexts, strike: springs(func(_ *link, text []byte) fate { return lostIf(commits(text)) })},
	{name: "reset after commit", before: sendsTexts, strike: springs(func(_ *link, text []byte) fate {
		if commits(text) {
			return isHeard
		}
		return goesOn
	})},
	{name: "reset of all", strike: func(f *faultTest) { f.proxy.cut() }},
	{name: "refused", strike: func(f *faultTest) {
		f.proxy.refuse(true)
		f.proxy.cut()
		time.Sleep(outage)
		f.proxy.refuse(false)
	}},
	{name: "restart", strike: func(f *faultTest) {
		f.proxy.refuse(true)
		if f.endSessions() == 0 {
			f.t.Error("no session of the program was found")
		}
		time.Sleep(outage)
		f.proxy.refuse(false)
	}},
	{name: "sessions ended", strike: func(f *faultTest) { f.endSessions() }},
	{name: "too many connections", before: func(s *site) { s.kind.user(s) }, strike: func(f *faultTest) {
		f.kind.limit(f.site, 0)
		f.endSessions()
		time.Sleep(outage)
		f.kind.limit(f.site, 100)
	}},
	// On MySQL a deadlock is all that is called so.
	{name: "serialization", kinds: []*siteKind{onPostgres}, quiet: true, before: serializable, strike: func(f *faultTest) {
		f.proxy.counts("40001")
		f.mustExec("CREATE SEQUENCE failures")
		f.mustExec(`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('failures') <= 3 THEN RAISE EXCEPTION 'could not serialize access' USING ERRCODE = '40001'; END IF; RETURN NEW; END $$`)
		f.mustExec(`CREATE TRIGGER fail BEFORE UPDATE ON "BACKLOG" FOR EACH ROW EXECUTE FUNCTION fail()`)
		if !eventually(func() bool { return f.proxy.seen() >= 3 }) {
			f.t.Error("no outcome has met the failure")
		}
	}},
}

// commits reports whether what the program sends ends a transaction that writes outcomes: a
// COMMIT, or the statement by which it writes a group on PostgreSQL.
func commits(text []byte) bool { return sends(text, "COMMIT") || sends(text, "WITH WRITTEN") }

// sendsTexts has the driver of PostgreSQL send a statement with its text and its arguments at
// once, each time.
func sendsTexts(s *site) {
	if s.kind == onPostgres {
		q := s.server.Query()
		q.Set("default_query_exec_mode", "exec")
		s.server.RawQuery = q.Encode()
	}
}

func lostIf(yes bool) fate {
	if yes {
		return isLost
	}
	return goesOn
}

// springs returns a fault that sets the trap and waits until it is sprung.
func springs(trap func(*link, []byte) fate) func(*faultTest) {
	return func(f *faultTest) {
		f.t.Helper()
		before := f.proxy.traps()
		f.proxy.set(trap)
		f.sprung(before)
	}
}

// sprung waits until more traps have been than before.
func (f *faultTest) sprung(before int) {
	f.t.Helper()
	if !eventually(func() bool { return f.proxy.traps() > before }) {
		f.t.Fatalf("the trap was not sprung:\n%s", f.daemon.log)
	}
}

// stalls makes the server silent for a while, in which soon no record is handed
// out any more.
func stalls(f *faultTest, d time.Duration) {
	f.t.Helper()
	const soon = 4 * time.Second // two, and a busy machine
	f.proxy.stall(true)
	time.Sleep(soon)
	before := strings.Count(f.read("handled.log"), "start ")
	time.Sleep(d - soon)
	if more := strings.Count(f.read("handled.log"), "start ") - before; more > 0 {
		f.t.Errorf("%d records were handed out while the server was silent", more)
	}
	f.proxy.stall(false)
}

// serializable makes transactions that do not say what they are as strict as
// the server can.
func serializable(s *site) {
	q := s.server.Query()
	q.Set("default_transaction_isolation", "serializable")
	s.server.RawQuery = q.Encode()
}

// crosses locks rows that the program is about to write, in the other order,
// until that has met a deadlock.
func crosses(f *faultTest) {
	f.t.Helper()
	f.proxy.counts(f.kind.deadlock)
	if !eventually(func() bool {
		f.lockedNext(func(lock func(id int), next int) {
			lock(next + 3)
			f.waits()
			for id := next + 2; id >= next; id-- {
				lock(id)
			}
		})
		return f.proxy.seen() > 0
	}) {
		f.t.Error("the program has not met a deadlock")
	}
}

// holds keeps a row locked until the program has given up waiting for it, as
// it does for a moment, lest it keep others waiting for the rows it has.
func holds(f *faultTest) {
	f.t.Helper()
	f.proxy.counts(f.kind.locked)
	f.lockedNext(func(lock func(id int), next int) {
		lock(next + 3)
		if !eventually(func() bool { return f.proxy.seen() > 0 }) {
			f.t.Error("the program has not met the lock")
		}
	})
}

// lockedNext calls do in a transaction in which it can lock rows; next is the
// record that is settled next, with some of those that follow.
func (f *faultTest) lockedNext(do func(lock func(id int), next int)) {
	f.t.Helper()
	tx, err := f.db.Begin()
	if err != nil {
		f.t.Fatal(err)
	}
	defer tx.Rollback()
	exec := func(text string) {
		if _, err := tx.Exec(text); err != nil {
			f.t.Fatalf("%s: %v", text, err)
		}
	}
	exec(f.kind.weigh)
	var next sql.NullInt64
	if err := tx.QueryRow(`SELECT min(id) FROM "BACKLOG" WHERE status = 'NEW'`).Scan(&next); err != nil {
		f.t.Fatal(err)
	}
	do(func(id int) {
		exec(fmt.Sprintf(`UPDATE "BACKLOG" SET date_inserted = date_inserted WHERE id = %d`, id))
	}, int(next.Int64))
}

// waits returns when the program waits for a lock, or has had time to.
func (f *faultTest) waits() {
	f.t.Helper()
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if strings.TrimSpace(f.rows(fmt.Sprintf(f.kind.waits, f.own))) != "0" {
			return
		}
	}
}

// Whatever happens between a daemon and its server: nothing is lost, what the
// statuses say is true, the daemon goes on by itself, and it says once what has
// happened and once that it is over.
func TestServerFaults(t *testing.T) {
	t.Parallel()
	for _, x := range faults {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			if x.long && testing.Short() {
				t.Skip("it takes a minute")
			}
			kinds := serverKinds
			if x.kinds != nil {
				kinds = x.kinds
			}
			onSites(t, kinds, func(t *testing.T, kind *siteKind) { testFault(t, kind, x) })
		})
	}
}

func testFault(t *testing.T, kind *siteKind, x fault) {
	s := newSite(t, kind, map[string]string{"handler.sh": slowHandler})
	if x.before != nil {
		x.before(s)
	}
	f := &faultTest{site: s, proxy: s.proxy()}
	s.configure("a", f.proxy, handling)
	f.daemon = s.start("run", "--config", "a.yaml")
	f.daemon.says(`"msg":"leading"`)
	f.proxy.take(x.first)
	s.fillNew(faulty)
	if !eventually(func() bool { return s.count("SUCCESS") > 3 }) {
		t.Fatalf("it does nothing:\n%s", f.daemon.log)
	}
	x.strike(f)
	if !eventually(func() bool { return s.count("SUCCESS") == faulty }) {
		t.Fatalf("not all is done:\n%s", f.daemon.log)
	}
	said := func(text string) int { return strings.Count(f.daemon.log.String(), `"msg":"`+text) }
	if !eventually(func() bool { return said("leading") == said("the leader lock is lost")+1 }) {
		t.Error("it does not lead again")
	}
	// The last cut may come after the last record, where a look at the lock meets it.
	away := func() int { return said("no record is dispatched until the database answers again") }
	back := func() int { return said("the database answers again") }
	eventually(func() bool { return back() == away() })
	f.daemon.signal(syscall.SIGTERM)
	f.daemon.ends()
	if again := s.judge(faulty); again > 0 {
		t.Errorf("%d records were handled again", again)
	}
	testkit.Equal(t, "how often the database is back, as often as it was away", back(), away())
	if away() > 2 && x.name != "reset at anything" {
		t.Errorf("the database is away %d times, want at most 2", away())
	}
	lost, leads := said("the leader lock is lost"), said("leading")
	if leads < lost {
		t.Errorf("it leads %d times, and loses the lock %d times", leads, lost)
	}
	if asks := said("the leader lock cannot be requested"); asks > lost {
		t.Errorf("it says %d times that it cannot ask for the lock, want at most %d, as often as it lost it", asks, lost)
	}
	if x.quiet {
		testkit.Equal(t, "how often the database is away", away(), 0)
		testkit.Equal(t, "how often the lock is lost", lost, 0)
	}
	if said("left alone") > 0 {
		t.Errorf("it takes itself for somebody else")
	}
	if t.Failed() {
		t.Logf("%s", f.daemon.log)
	}
}
