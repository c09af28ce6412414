package cmd_test

import (
	"strings"
	"syscall"
	"testing"
)

// A leader that stands still, as on a machine that is suspended, is given up by
// the server in time, and followed. When it wakes up it knows before it does
// anything more.
func TestFrozenLeader(t *testing.T) {
	t.Parallel()
	onSites(t, serverKinds, func(t *testing.T, kind *siteKind) {
		s := newSite(t, kind, map[string]string{"handler.sh": slowHandler})
		a, b := s.pair(nil, nil, 100)
		a.signal(syscall.SIGSTOP)
		b.says(`"msg":"leading"`)
		a.signal(syscall.SIGCONT)
		a.says(`"msg":"the leader lock is lost`)
		if !eventually(func() bool { return s.count("SUCCESS") == 100 }) {
			t.Fatalf("not all is done:\n%s\n%s", a.log, b.log)
		}
		for _, d := range []*daemon{a, b} {
			d.signal(syscall.SIGTERM)
			d.ends()
		}
		s.judge(100)
	})
}

// A daemon whose sessions the server ends has handlers at work for some seconds
// more. A pass by hand that gets the lock meanwhile waits for them.
func TestOnceAfterALostLock(t *testing.T) {
	t.Parallel()
	onSites(t, serverKinds, func(t *testing.T, kind *siteKind) {
		s := newSite(t, kind, map[string]string{"handler.sh": strings.Replace(slowHandler, "0.2", "3", 1)})
		s.configure("a", nil, handling)
		a := s.start("run", "--config", "a.yaml")
		a.says(`"msg":"leading"`)
		s.fillNew(8)
		if !eventually(func() bool { return len(s.deeds("handled.log")) > 0 }) {
			t.Fatalf("the leader does nothing:\n%s", a.log)
		}
		s.endSessions()
		if status, _, log := s.run("once", "--config", "a.yaml", "--max-age", "1d"); status != 0 && status != 75 {
			t.Errorf("a pass by hand: exit status %d\n%s", status, log)
		}
		if !eventually(func() bool { return s.count("SUCCESS") == 8 }) {
			t.Fatalf("not all is done:\n%s", a.log)
		}
		a.signal(syscall.SIGTERM)
		a.ends()
		s.judge(8)
	})
}
