package cmd_test

import (
	"database/sql"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// faulty is how many records a daemon has to work off while something fails.
const faulty = 60

// A fault is something that happens to a daemon at work.
type fault struct {
	name   string
	strike func(*faultTest)
	long   bool // only where there is time; a pass may not live to see its end
}

// A faultTest is a daemon at work.
type faultTest struct {
	*site
	proxy  *proxy
	daemon *daemon
}

// outage is how long a server takes to be there again.
const outage = 3 * time.Second

var faults = []fault{
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
	{name: "reset at commit", strike: springs(func(_ *link, text []byte) fate { return lostIf(sends(text, "COMMIT")) })},
	{name: "reset after commit", strike: springs(func(_ *link, text []byte) fate {
		if sends(text, "COMMIT") {
			return isHeard
		}
		return goesOn
	})},
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
	{name: "short stall", strike: func(f *faultTest) { stalls(f, 8*time.Second) }},
	{name: "long stall", long: true, strike: func(f *faultTest) { stalls(f, 62*time.Second) }},
	{name: "too many connections", strike: func(f *faultTest) {
		f.kind.limit(f.site, 0)
		f.endSessions()
		time.Sleep(outage)
		f.kind.limit(f.site, 100)
	}},
	{name: "deadlocks", strike: func(f *faultTest) {
		met := 0
		for range 8 {
			met += crosses(f)
		}
		f.t.Logf("the other side of %d deadlocks was given up", met)
	}},
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
		if !eventually(func() bool { return f.proxy.traps() > before }) {
			f.t.Fatalf("the trap was not sprung:\n%s", f.daemon.log)
		}
	}
}

func stalls(f *faultTest, d time.Duration) {
	f.proxy.stall(true)
	time.Sleep(d)
	f.proxy.stall(false)
}

// crosses locks rows that the program is about to write, in the other order. It
// returns 1 if the database has ended this for a deadlock.
func crosses(f *faultTest) int {
	f.t.Helper()
	tx, err := f.db.Begin()
	if err != nil {
		f.t.Fatal(err)
	}
	defer tx.Rollback()
	var next sql.NullInt64
	if err := tx.QueryRow(`SELECT min(id) FROM "BACKLOG" WHERE status <> 'SUCCESS'`).Scan(&next); err != nil {
		f.t.Fatal(err)
	}
	for id := next.Int64 + 3; id >= next.Int64; id-- {
		if _, err := tx.Exec(fmt.Sprintf(`UPDATE "BACKLOG" SET date_inserted = date_inserted WHERE id = %d`, id)); err != nil {
			return 1
		}
		time.Sleep(50 * time.Millisecond) // for handlers to end, and settle
	}
	tx.Commit()
	return 0
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
			onSites(t, serverKinds, func(t *testing.T, kind *siteKind) { testFault(t, kind, x) })
		})
	}
}

func testFault(t *testing.T, kind *siteKind, x fault) {
	s := newSite(t, kind, map[string]string{"handler.sh": slowHandler})
	if x.name == "too many connections" {
		kind.user(s)
	}
	f := &faultTest{site: s, proxy: s.proxy()}
	s.configure("a", f.proxy, handling)
	f.daemon = s.start("run", "--config", "a.yaml")
	f.daemon.says(`"msg":"leading"`)
	s.fillNew(faulty)
	if !eventually(func() bool { return s.count("SUCCESS") > 3 }) {
		t.Fatalf("it does nothing:\n%s", f.daemon.log)
	}
	x.strike(f)
	if !eventually(func() bool { return s.count("SUCCESS") == faulty }) {
		t.Fatalf("not all is done:\n%s", f.daemon.log)
	}
	f.daemon.signal(syscall.SIGTERM)
	f.daemon.ends()
	if again := s.judge(faulty); again > 0 {
		t.Errorf("%d records were handled again", again)
	}
	log := f.daemon.log.String()
	said := func(text string) int { return strings.Count(log, `"msg":"`+text) }
	away := said("no record is handed out until the database answers again") + said("the leader lock cannot be asked for")
	if back := said("the database answers again"); !x.long && away != back || back == 0 && away > 0 || away > 2 && x.name != "reset at anything" {
		t.Errorf("it says %d times that the database is away, and %d times that it is back", away, back)
	}
	if lost, leads := said("the leader lock is lost"), said("leading"); leads != lost+1 {
		t.Errorf("it says %d times that it no longer leads, and %d times that it does", lost, leads)
	}
	if said("left alone") > 0 {
		t.Errorf("it takes itself for somebody else")
	}
	if t.Failed() {
		t.Logf("%s", log)
	}
}
