package cmd_test

import (
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A systemd is the receiver of a daemon's notifications.
type systemd struct {
	t    *testing.T
	said chan string
	dogs int // how often it heard of the watchdog while waiting for something else
}

func newSystemd(t *testing.T, path string) *systemd {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s := &systemd{t: t, said: make(chan string, 1000)}
	go func() {
		defer close(s.said)
		b := make([]byte, 4096)
		for {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			s.said <- string(b[:n])
		}
	}()
	return s
}

// next returns the next notification.
func (s *systemd) next() string {
	s.t.Helper()
	select {
	case got := <-s.said:
		return got
	case <-time.After(patience):
		s.t.Fatal("systemd is told nothing")
		return ""
	}
}

// hears waits for a notification. Until then it may hear of the watchdog, and
// of nothing else.
func (s *systemd) hears(want string) {
	s.t.Helper()
	got := s.next()
	for ; got != want && got == "WATCHDOG=1"; got = s.next() {
		s.dogs++
	}
	if got != want {
		s.t.Fatalf("systemd is told %q, want %q", got, want)
	}
}

const waiting = `#!/bin/sh
echo "start $BACKLOG_ID" >>handled.log
n=0
until [ -e go ] || [ $((n += 1)) -gt 600 ]; do sleep 0.05; done
echo "done $BACKLOG_ID" >>handled.log
`

// Under systemd with Type=notify and a watchdog.
func TestNotify(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]string{
		"schedule.yaml": "handler: {exec: [./handler.sh]}\nstate: none\ntiers: [{max_age: 1d, every: 1s}]\n",
		"handler.sh":    waiting,
	})
	s.mustRun("init", "--create-table")
	s.sql("INSERT INTO BACKLOG (id) VALUES (1)")
	leader := newSystemd(t, s.path("leader"))
	s.env = []string{"NOTIFY_SOCKET=" + s.path("leader"), "WATCHDOG_USEC=100000"}
	d := s.start("run")
	leader.hears("READY=1")
	leader.hears("STATUS=leading")
	leader.hears("WATCHDOG=1")
	leader.hears("WATCHDOG=1")

	other := newSystemd(t, s.path("standby"))
	s.env = []string{"NOTIFY_SOCKET=" + s.path("standby"), "WATCHDOG_USEC=100000"}
	standby := s.start("run")
	other.hears("READY=1")
	other.hears("STATUS=standing by")
	other.hears("WATCHDOG=1")
	standby.signal(syscall.SIGTERM)
	other.hears("STOPPING=1")
	standby.ends()

	d.signal(syscall.SIGHUP)
	leader.hears("RELOADING=1")
	leader.hears("READY=1")
	s.write("schedule.yaml", "tiers: nonsense\n")
	d.signal(syscall.SIGHUP)
	leader.hears("RELOADING=1")
	leader.hears("READY=1") // with the old configuration

	// Until the last handler has ended the watchdog must not bite.
	if !eventually(func() bool { return strings.Contains(s.read("handled.log"), "start 1\n") }) {
		t.Fatal("no handler is started")
	}
	d.signal(syscall.SIGTERM)
	leader.hears("STOPPING=1")
	leader.hears("WATCHDOG=1")
	leader.hears("WATCHDOG=1")
	s.write("go", "")
	d.ends()
	if got := s.rows("SELECT status FROM BACKLOG"); got != "SUCCESS\n" {
		t.Errorf("the row is %q", got)
	}
}

// A watchdog meant for another process is not ours.
func TestNotifyWatchdogOfAnother(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]string{
		"schedule.yaml": "handler: {exec: ['true']}\nstate: none\ntiers: [{max_age: 1d, every: 1s}]\n",
	})
	s.mustRun("init", "--create-table")
	boss := newSystemd(t, s.path("boss"))
	s.env = []string{"NOTIFY_SOCKET=" + s.path("boss"), "WATCHDOG_USEC=1000", "WATCHDOG_PID=1"}
	d := s.start("run")
	boss.hears("READY=1")
	boss.hears("STATUS=leading")
	d.signal(syscall.SIGTERM)
	boss.hears("STOPPING=1")
	d.ends()
	if boss.dogs > 0 {
		t.Errorf("it served a watchdog that is not its own, %d times", boss.dogs)
	}
}

// A database that others keep locked for longer than SQLite itself waits is
// away: no record is handed out, and the pass goes on when they let go.
func TestLockedDatabase(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]string{
		"schedule.yaml": "handler: {exec: [./handler.sh]}\nstate: none\ntiers: [{max_age: 1d, every: 1h}]\n",
		"handler.sh":    "#!/bin/sh\necho $BACKLOG_ID >>handled.log\n",
	})
	s.mustRun("init", "--create-table")
	s.sql("INSERT INTO BACKLOG (id) VALUES (1), (2)")
	db := s.open()
	defer db.Close()
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	d := s.start("once", "--max-age", "1d")
	d.says("no record is dispatched until the database answers again")
	if handled := s.read("handled.log"); handled != "" || d.hasEnded() {
		t.Errorf("records handed out: %q, and the program has ended: %v", handled, d.hasEnded())
	}
	if _, err := db.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	d.ends()
	d.says("the database answers again")
	d.says("1d: 2 records selected, 2 succeeded in ")
	if got := s.rows("SELECT status FROM BACKLOG"); got != "SUCCESS\nSUCCESS\n" {
		t.Errorf("the rows are %q", got)
	}
}
