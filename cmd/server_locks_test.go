package cmd_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// slowHandler notes its record at the start and at the end, and takes a while
// in between.
const slowHandler = `#!/bin/sh
trap 'echo "fail $BACKLOG_ID $BACKLOG_ATTEMPT_ID $BACKLOG_TIER" >>handled.log; exit 1' TERM
echo "start $BACKLOG_ID $BACKLOG_ATTEMPT_ID $BACKLOG_TIER" >>handled.log
sleep 0.2
echo "done $BACKLOG_ID $BACKLOG_ATTEMPT_ID $BACKLOG_TIER" >>handled.log
`

// configure writes the configuration of one of several daemons: its own way to
// the database, and its own state, as on machines of their own.
func (s *site) configure(name string, via *proxy, more string) {
	s.t.Helper()
	s.write(name+".yaml", fmt.Sprintf("database: %s\nstate: %s\nlog: {format: json}\n%s\n", s.url(via), s.path(name+".json"), more))
}

// handling is what the daemons of a test do.
const handling = "handler: {exec: [./handler.sh], concurrency: 4}\ntiers: [{max_age: 1d, every: 1s}]"

// pair starts two daemons, a that leads and has begun with n records, and b that
// stands by, each on a way of its own to the database; nil: straight.
func (s *site) pair(viaA, viaB *proxy, n int) (a, b *daemon) {
	s.t.Helper()
	s.configure("a", viaA, handling)
	s.configure("b", viaB, handling)
	a = s.start("run", "--config", "a.yaml")
	a.says(`"msg":"leading"`)
	b = s.start("run", "--config", "b.yaml")
	b.says(`"msg":"standing by: another daemon leads"`)
	s.fillNew(n)
	if !eventually(func() bool { return s.count("SUCCESS") > 3 }) {
		s.t.Fatalf("the leader does nothing:\n%s", a.log)
	}
	return a, b
}

// Who is killed while it leads is followed by whoever stands by; nothing is
// lost, and a pass by hand waits for its turn.
func TestTakeover(t *testing.T) {
	t.Parallel()
	onSites(t, siteKinds, func(t *testing.T, kind *siteKind) {
		s := newSite(t, kind, map[string]string{"handler.sh": slowHandler})
		a, b := s.pair(nil, nil, 100)

		// Who comes to a table that is worked on, and does not wait.
		if status, out, log := s.run("once", "--config", "b.yaml", "--max-age", "1d"); status != 75 || out != "" {
			t.Errorf("a pass beside the leader's: exit status %d\n%s%s", status, out, log)
		}
		a.signal(syscall.SIGKILL)
		killed := time.Now()
		b.says(`"msg":"leading"`)
		if took := time.Since(killed); took > 10*time.Second {
			t.Errorf("the standby leads after %v", took)
		}
		if strings.Contains(b.log.String(), `"level":"ERROR"`) {
			t.Errorf("the standby has an error:\n%s", b.log)
		}
		// Who waits gets a turn.
		if status, out, log := s.run("once", "--config", "a.yaml", "--max-age", "1d", "--wait", "1m"); status != 0 {
			t.Errorf("a pass that waits: exit status %d\n%s%s", status, out, log)
		}
		if !eventually(func() bool { return s.count("SUCCESS") == 100 }) {
			t.Fatalf("not all is done:\n%s", b.log)
		}
		b.signal(syscall.SIGTERM)
		b.ends()
		s.judge(100)
	})
}

// A leader whose connections fail stops before the standby begins: no record
// is in the hands of both, whether the leader is told or not. When the network
// is whole again, all goes on.
func TestLeaderIsCutOff(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name    string
		cut, on func(*proxy)
		// silent: the server, too, hears nothing of the end of the leader.
		silent bool
	}{
		{"reset", (*proxy).cut, func(*proxy) {}, false},
		{"gone", func(p *proxy) { p.refuse(true); p.cut() }, func(p *proxy) { p.refuse(false) }, false},
		{"half open", func(p *proxy) { p.stall(true); p.cutServer() }, func(p *proxy) { p.cut(); p.stall(false) }, false},
		{"silent", func(p *proxy) { p.stall(true) }, func(p *proxy) { p.stall(false) }, true},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			onSites(t, serverKinds, func(t *testing.T, kind *siteKind) {
				s := newSite(t, kind, map[string]string{"handler.sh": strings.Replace(slowHandler, "0.2", "0.9", 1)})
				pa, pb := s.proxy(), s.proxy()
				a, b := s.pair(pa, pb, 40)
				way.cut(pa)
				if way.silent {
					a.signal(syscall.SIGHUP) // it must not be busy with that when it loses the lock
				}
				a.says(`"msg":"the leader lock is lost: passes are stopped until it is taken again"`)
				if way.silent {
					if strings.Contains(a.log.String(), "reload") {
						t.Errorf("it reloads before it looks at the lock:\n%s", a.log)
					}
					pa.cutServer() // as its keepalive does in the end
				}
				// Whoever gets the lock now: with a mere reset it may be the
				// old one.
				if way.name != "reset" {
					b.says(`"msg":"leading"`)
					before := s.count("SUCCESS")
					if !eventually(func() bool { return s.count("SUCCESS") > before }) {
						t.Fatalf("the new leader does nothing:\n%s", b.log)
					}
				}
				way.on(pa)
				if !eventually(func() bool { return s.count("SUCCESS") == 40 }) {
					t.Fatalf("not all is done:\n%s\n%s", a.log, b.log)
				}
				for _, d := range []*daemon{a, b} {
					d.signal(syscall.SIGTERM)
					d.ends()
				}
				s.judge(40)
			})
		})
	}
}

// Who takes a lock that another may have had until then waits until the handlers of that
// one are dead, though it has never seen the other: it could not ask for the lock, or has
// lost the lead before. The other's session ends in the moment in which it comes back.
func TestLockIsTakenAfterAnAbsence(t *testing.T) {
	t.Parallel()
	half := func(p *proxy) {
		p.stall(true) // the other is not told
		p.cutServer()
	}
	whole := func(p *proxy) {
		p.cut()
		p.stall(false)
	}
	for _, way := range []struct {
		name string
		run  func(s *site, pa, pb *proxy) (daemons []*daemon)
	}{
		{"started while the database was away", func(s *site, pa, pb *proxy) []*daemon {
			a := s.start("run", "--config", "a.yaml")
			a.says(`"msg":"leading"`)
			pb.refuse(true)
			b := s.start("run", "--config", "b.yaml")
			b.says(`"msg":"waiting for the database"`)
			s.fillNew(24)
			s.works(a, 3)
			half(pa)
			pb.refuse(false)
			b.says(`"msg":"leading"`)
			whole(pa)
			return []*daemon{a, b}
		}},
		{"lost the lead", func(s *site, pa, pb *proxy) []*daemon {
			a, b := s.pair(pa, pb, 24)
			pa.refuse(true)
			pa.cut()
			b.says(`"msg":"leading"`)
			a.says(`"msg":"the leader lock cannot be requested, waiting"`)
			s.works(b, s.count("SUCCESS")+3)
			half(pb)
			pa.refuse(false)
			if !eventually(func() bool { return strings.Count(a.log.String(), `"msg":"leading"`) == 2 }) {
				s.t.Fatalf("it does not lead again:\n%s", a.log)
			}
			whole(pb)
			return []*daemon{a, b}
		}},
		{"once after an absence", func(s *site, pa, pb *proxy) []*daemon {
			a := s.start("run", "--config", "a.yaml")
			a.says(`"msg":"leading"`)
			pb.refuse(true)
			once := s.start("once", "--config", "b.yaml", "--max-age", "1d")
			once.says(`"msg":"waiting for the database"`)
			s.fillNew(24)
			s.works(a, 3)
			half(pa)
			pb.refuse(false)
			once.ends()
			whole(pa)
			return []*daemon{a}
		}},
		{"once --wait", func(s *site, pa, pb *proxy) []*daemon {
			a := s.start("run", "--config", "a.yaml")
			a.says(`"msg":"leading"`)
			s.fillNew(24)
			s.works(a, 3)
			asked := s.asks(pb)
			once := s.start("once", "--config", "b.yaml", "--max-age", "1d", "--wait", "1m")
			if !eventually(asked) {
				s.t.Fatalf("it does not ask for the lock:\n%s", once.log)
			}
			half(pa)
			once.ends()
			whole(pa)
			return []*daemon{a}
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			onSites(t, serverKinds, func(t *testing.T, kind *siteKind) {
				s := newSite(t, kind, map[string]string{"handler.sh": strings.Replace(slowHandler, "0.2", "2.5", 1)})
				pa, pb := s.proxy(), s.proxy()
				s.configure("a", pa, handling)
				s.configure("b", pb, handling)
				daemons := way.run(s, pa, pb)
				if !eventually(func() bool { return s.count("SUCCESS") == s.count("SUCCESS")+s.count("NEW")+s.count("ERROR") }) {
					t.Fatalf("not all is done:\n%s", daemons[0].log)
				}
				for _, d := range daemons {
					d.signal(syscall.SIGTERM)
					d.ends()
				}
				s.judge(s.count("SUCCESS"))
			})
		})
	}
}

// works waits until so many records are done.
func (s *site) works(d *daemon, n int) {
	s.t.Helper()
	if !eventually(func() bool { return s.count("SUCCESS") >= n }) {
		s.t.Fatalf("it does nothing:\n%s", d.log)
	}
}

// asks returns what reports whether the lock of a pass has been asked for by way of the
// proxy, and then once more.
func (s *site) asks(p *proxy) func() bool {
	var asked atomic.Int32
	p.set(func(_ *link, text []byte) fate {
		if bytes.Contains(text, []byte(s.kind.takesLock)) {
			asked.Add(1)
		}
		return goesOn
	})
	return func() bool { return asked.Load() >= 2 }
}

// judge asserts what is promised of n records when all of them are to be
// handled with success: that all of them are, truly, and that never two
// handlers had the same one at a time, in whatever process.
// It returns how many were done more than once.
func (s *site) judge(n int) (again int) {
	s.t.Helper()
	if got := s.count("SUCCESS"); got != n {
		s.t.Errorf("%d of %d records are SUCCESS", got, n)
	}
	deeds := s.deeds("handled.log")
	ends := make(map[string]bool) // by attempt; who is killed with the program does not
	for _, d := range deeds {
		ends[d.attempt] = ends[d.attempt] || d.what != "start"
	}
	under := make(map[string]deed) // way, by record
	done := make(map[string]int)
	for _, d := range deeds {
		switch {
		case d.what == "start":
			if other, ok := under[d.id]; ok && ends[other.attempt] {
				s.t.Errorf("record %s: %s began with it while %s had not ended", d.id, d.attempt, other.attempt)
			}
			under[d.id] = d
		case d.what == "done":
			if done[d.id]++; done[d.id] > 1 {
				again++
			}
		}
		if d.what != "start" && under[d.id].attempt == d.attempt {
			delete(under, d.id)
		}
	}
	for id := range strings.FieldsSeq(s.rows(`SELECT id FROM "BACKLOG" WHERE status = 'SUCCESS'`)) {
		if done[id] == 0 {
			s.t.Errorf("record %s is SUCCESS and was never handled to the end", id)
		}
	}
	s.t.Logf("%d of %d records were done more than once", again, n)
	return again
}
