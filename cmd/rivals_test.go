package cmd_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"backlog/internal/testkit"
)

// work writes the configuration of one of several works on the table.
func (s *site) work(file, state, queue, more string) {
	s.t.Helper()
	s.write(file, fmt.Sprintf("database: %s\nstate: %s\ntable: {name: BACKLOG, inserted: date_inserted, where: {queue: %s}}\nlog: {format: json}\n"+
		"handler: {exec: [./handler.sh]}\ntiers: [{max_age: 1d, every: 1s}]\n%s\n", s.url(nil), s.path(state), queue, more))
}

// newQueues returns a table with ten records of each of two queues.
func newQueues(t *testing.T, kind *siteKind) *site {
	t.Helper()
	s := newSite(t, kind, map[string]string{"handler.sh": "#!/bin/sh\nexit 0\n"})
	s.mustExec(`ALTER TABLE "BACKLOG" ADD COLUMN queue varchar(20) DEFAULT 'mail'`)
	s.fillNew(20)
	s.mustExec(`UPDATE "BACKLOG" SET queue = 'sms' WHERE id > 10`)
	return s
}

// refused asserts that the program ends with 1 and says why.
func (s *site) refused(args ...string) {
	s.t.Helper()
	status, out, log := s.run(args...)
	what := "backlog " + strings.Join(args, " ")
	testkit.Equal(s.t, what+": exit status", status, 1)
	testkit.Equal(s.t, what+": output", out, "")
	testkit.Contains(s.t, what, log, "another configuration works on it")
	testkit.Contains(s.t, what, log, "which differs in: where")
}

// Of two configurations of one table that differ in `where` and have no names the second
// daemon ends with an error, whether it has the state of the first one or is on another
// machine; check says it, too. What is the same stands by.
func TestSecondConfigurationIsTold(t *testing.T) {
	t.Parallel()
	onSites(t, siteKinds, func(t *testing.T, kind *siteKind) {
		s := newQueues(t, kind)
		s.work("mail.yaml", "a.json", "mail", "")
		s.work("sms.yaml", "a.json", "sms", "")
		s.work("elsewhere.yaml", "b.json", "sms", "")
		s.work("alike.yaml", "c.json", "mail", "")
		a := s.start("run", "--config", "mail.yaml")
		a.says(`"msg":"leading"`)
		s.refused("run", "--config", "sms.yaml")
		s.refused("run", "--config", "elsewhere.yaml")
		s.refused("once", "--due", "--config", "sms.yaml")
		s.refused("once", "--due", "--wait", "9s", "--config", "elsewhere.yaml", "--now", time.Now().Add(time.Second).Format(time.RFC3339))
		if status, out, _ := s.run("check", "--config", "elsewhere.yaml"); status != 1 || !strings.Contains(out, "FAIL  name ") || !strings.Contains(out, "`name:` of its own") {
			t.Errorf("check: exit status %d\n%s", status, out)
		}
		b := s.start("run", "--config", "alike.yaml")
		b.says(`"msg":"standing by: another daemon leads"`)
		// A reload makes the leader another one: a standby that was the same says so and stays.
		s.work("mail.yaml", "a.json", "sms", "")
		a.signal(syscall.SIGHUP)
		a.says(`"msg":"configuration reloaded"`)
		b.says(`"msg":"standing by with another configuration: only the leader's records are handled"`)
		s.refused("run", "--config", "alike.yaml")
		// One that is to take its place waits for it, and so does another version of its file.
		c := s.start("run", "--config", "alike.yaml", "--replace")
		c.says(`"msg":"standing by with another configuration`)
		s.work("mail.yaml", "d.json", "mail", "")
		d := s.start("run", "--config", "mail.yaml")
		d.says(`"msg":"standing by with another configuration`)
		for _, x := range []*daemon{b, c, a} {
			x.signal(syscall.SIGTERM)
			x.ends()
		}
		d.says(`"msg":"leading"`)
		d.signal(syscall.SIGTERM)
		d.ends()
	})
}

// A crontab that starts both in turn mails an error of the second one at each start, and
// never says that nothing is due. One that is edited, or is to take the other's place,
// goes on.
func TestSecondConfigurationInACrontab(t *testing.T) {
	t.Parallel()
	s := newQueues(t, onSQLite)
	s.work("mail.yaml", "a.json", "mail", "")
	s.work("sms.yaml", "a.json", "sms", "")
	s.mustRun("once", "--due", "--config", "mail.yaml")
	s.refused("once", "--due", "--config", "sms.yaml")
	s.refused("once", "--due", "--dry-run", "--config", "sms.yaml")
	s.refused("run", "--config", "sms.yaml")
	s.mustRun("once", "--due", "--config", "mail.yaml")
	s.refused("once", "--due", "--config", "sms.yaml")
	if n := s.count("SUCCESS"); n != 10 {
		t.Fatalf("%d records are done, want those of one queue", n)
	}
	// Passes without ticks do not need the memory of them.
	s.mustRun("once", "--max-age", "1d", "--max-records", "5", "--config", "sms.yaml")
	s.mustRun("once", "--due", "--config", "mail.yaml")

	s.work("mail.yaml", "a.json", "sms", "# edited")
	if out := s.mustRun("once", "--due", "--config", "mail.yaml", "--now", time.Now().Add(2*time.Second).Format(time.RFC3339)); !strings.Contains(out, "5 records selected") {
		t.Errorf("the edited one does not go on:\n%s", out)
	}
	s.work("third.yaml", "a.json", "fax", "")
	s.mustRun("once", "--due", "--replace", "--config", "third.yaml")
	s.refused("once", "--due", "--config", "mail.yaml")
	if status, _, log := s.run("once", "--max-age", "1d", "--replace", "--config", "mail.yaml"); status != 2 {
		t.Errorf("--replace without --due: exit status %d\n%s", status, log)
	}
	// The other has not been started for longer than it waits for a tick.
	s.mustRun("once", "--due", "--config", "mail.yaml", "--now", time.Now().Add(11*time.Minute).Format(time.RFC3339))
}

// Works with names are done side by side: each has its lock, its state and its pause.
func TestNamesWorkSideBySide(t *testing.T) {
	t.Parallel()
	onSites(t, siteKinds, func(t *testing.T, kind *siteKind) {
		s := newQueues(t, kind)
		for _, queue := range []string{"mail", "sms"} {
			s.work(queue+".yaml", "", queue, "name: "+queue)
			s.write(queue+".yaml", strings.Replace(s.read(queue+".yaml"), "state: "+s.path("")+"\n", "", 1))
		}
		s.mustRun("pause", "--config", "sms.yaml")
		a := s.start("run", "--config", "mail.yaml")
		a.says(`"msg":"leading"`)
		if !eventually(func() bool { return s.count("SUCCESS") == 10 }) {
			t.Fatalf("mail is not done:\n%s", a.log)
		}
		b := s.start("run", "--config", "sms.yaml")
		b.says(`"msg":"leading"`)
		if got := s.rows(`SELECT count(*) FROM "BACKLOG" WHERE status = 'NEW' AND queue = 'sms'`); strings.TrimSpace(got) != "10" {
			t.Errorf("the pause of sms is not one: %s", got)
		}
		s.mustRun("resume", "--config", "sms.yaml")
		if !eventually(func() bool { return s.count("SUCCESS") == 20 }) {
			t.Fatalf("sms is not done:\n%s", b.log)
		}
		if out := s.mustRun("status", "--config", "sms.yaml"); !strings.Contains(out, fmt.Sprintf("a daemon is running: process %d", b.cmd.Process.Pid)) || !strings.Contains(out, "name: sms") {
			t.Errorf("status of sms:\n%s", out)
		}
		if out := s.mustRun("status", "--config", "mail.yaml", "--json"); !strings.Contains(out, fmt.Sprintf(`"pid":%d`, a.cmd.Process.Pid)) || !strings.Contains(out, `"name":"mail"`) {
			t.Errorf("status of mail:\n%s", out)
		}
		s.write("mail2.yaml", s.read("mail.yaml")+"state: none\n")
		c := s.start("run", "--config", "mail2.yaml")
		c.says(`"msg":"standing by: another daemon leads"`)
		for _, x := range []*daemon{c, a, b} {
			x.signal(syscall.SIGTERM)
			x.ends()
		}
		for _, queue := range []string{"mail", "sms"} {
			s.mustRun("once", "--due", "--config", queue+".yaml")
		}
	})
}

// TestUnreadableStateOfACrontab: a state that cannot be read is replaced, and with it what
// was missed is forgotten, which is said.
func TestUnreadableStateOfACrontab(t *testing.T) {
	t.Parallel()
	s := newQueues(t, onSQLite)
	s.work("mail.yaml", "a.json", "mail", "")
	s.write("a.json", "no state")
	for _, said := range []bool{true, false} {
		status, out, log := s.run("once", "--due", "--config", "mail.yaml", "--log-level", "warn")
		if status != 0 || strings.Contains(log, "a.json is not a state file and will be replaced") != said {
			t.Errorf("said: %t, exit status %d\n%s%s", !said, status, out, log)
		}
	}
}
