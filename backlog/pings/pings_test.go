package pings_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/pings"
	"backlog/internal/testkit"
	"backlog/tiers"
)

// A service answers as healthchecks does, and remembers what it was sent.
type service struct {
	*httptest.Server

	mu     sync.Mutex
	heard  []string // paths
	bodies []string
	answer func(n int, w http.ResponseWriter, r *http.Request) // n from 1; nil: OK
}

const key = "s3cr3t-ping-key"

func newService(t *testing.T) *service {
	s := new(service)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		path := strings.TrimPrefix(r.RequestURI, "/ping/"+key)
		s.heard, s.bodies = append(s.heard, path), append(s.bodies, string(body))
		n, answer := len(s.heard), s.answer
		s.mu.Unlock()
		w.Header().Set("Ping-Body-Limit", "100000")
		if answer != nil {
			answer(n, w, r)
			return
		}
		fmt.Fprint(w, "OK")
	}))
	t.Cleanup(s.Close)
	return s
}

// A pinger is pings whose log and results the test sees.
type pinger struct {
	*pings.Pings
	t       *testing.T
	mu      sync.Mutex
	log     bytes.Buffer
	results map[string]int
}

func newPinger(t *testing.T) *pinger {
	p := &pinger{t: t, results: make(map[string]int)}
	log := slog.New(slog.NewTextHandler(&p.log, nil))
	p.Pings = pings.New(log, func(result string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.results[result]++
	})
	p.SetPause(time.Millisecond)
	return p
}

// configure tells the service of the tiers 10s, 1d, 7d.
func (p *pinger) configure(address string, change func(*pings.Settings)) {
	p.t.Helper()
	s := pings.NewSettings()
	s.URL = address
	if change != nil {
		change(s)
	}
	if err := s.CheckTiers(schedule(p.t)); err != nil {
		p.t.Fatal(err)
	}
	p.Configure(*s, schedule(p.t))
}

func schedule(t *testing.T) []tiers.Tier {
	return testkit.Schedule(t, tiers.Tier{Name: "10s", MaxAge: time.Hour, Every: 10 * time.Second},
		tiers.Tier{Name: "1d", MaxAge: 24 * time.Hour, Every: 5 * time.Minute}, tiers.Tier{Name: "7d", MaxAge: 7 * 24 * time.Hour, Cron: "0 * * * *"}).Tiers()
}

// end closes the pings and returns what the service has heard.
func (p *pinger) end(s *service) []string {
	p.t.Helper()
	p.Close(nil)
	if text := p.log.String(); strings.Contains(text, key) {
		p.t.Errorf("want no key in the log, got %s", text)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard
}

var start = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

func started(tier string) backlog.Event {
	return backlog.Event{Kind: backlog.PassStarted, Tier: tier, At: start, Report: &backlog.Report{Tier: tier, Started: start}}
}

// ended is the end of a pass in which so many succeeded and failed.
func ended(tier, stopped string, succeeded, failed int) backlog.Event {
	return backlog.Event{Kind: backlog.PassEnded, Tier: tier, At: start, Err: errors.New("secret of a row"), Report: &backlog.Report{
		Tier: tier, Started: start, Selected: succeeded + failed, Succeeded: succeeded, Failed: failed, Stopped: stopped, Complete: stopped == "",
		Resume: backlog.Resume{FreshLast: backlog.Cursor{Key: backlog.NewKey("secret id")}},
	}}
}

func want(t *testing.T, got []string, list ...string) {
	t.Helper()
	if !slices.Equal(got, list) {
		t.Errorf("want the pings\n%q\ngot\n%q", list, got)
	}
}

func TestPasses(t *testing.T) {
	s, p := newService(t), newPinger(t)
	p.configure(s.URL+"/ping/"+key+"/{tier}", func(s *pings.Settings) { s.FailIf.FailedRatio = 0.5 })
	for _, ev := range []backlog.Event{
		started("1d"), ended("1d", "", 3, 1), // records that fail are normal
		started("7d"), ended("7d", backlog.StoppedMaxRecords, 1, 0),
		started("1d"), ended("1d", backlog.StoppedAbortAfter, 0, 0),
		started("1d"), ended("1d", backlog.StoppedError, 0, 0),
		started("1d"), ended("1d", "", 1, 1), // half of them
		started("1d"), ended("1d", backlog.StoppedSignal, 1, 1),
		started("1d"), ended("1d", backlog.StoppedReload, 0, 9), ended("1d", backlog.StoppedLock, 0, 9), ended("1d", backlog.StoppedPause, 0, 9),
		{Kind: backlog.AttemptEnded, Tier: "1d"}, {Kind: backlog.Woke},
	} {
		p.Observe(ev)
	}
	want(t, p.end(s), "/1d/start", "/1d", "/7d/start", "/7d", "/1d/start", "/1d", "/1d/start", "/1d/fail", "/1d/start", "/1d/fail", "/1d/start", "/1d/log",
		"/1d/start", "/1d/log", "/1d/log", "/1d/log")
	if want := `{"tier":"1d","selected":4,"succeeded":3,"failed":1,`; !strings.HasPrefix(s.bodies[1], want) || s.bodies[0] != "" {
		t.Errorf("want the report %s…, got %q", want, s.bodies[:2])
	}
	if all := strings.Join(s.bodies, ""); strings.Contains(all, "secret") {
		t.Errorf("want neither ids nor errors, got %s", all)
	}
	if want := map[string]int{"success": 16}; !maps.Equal(p.results, want) {
		t.Errorf("want %v, got %v", want, p.results)
	}
}

// A tier whose tick a wider tier's pass covers is told of as that one, also when it goes on
// after a reload.
func TestCovered(t *testing.T) {
	s, p := newService(t), newPinger(t)
	p.configure(s.URL+"/ping/"+key+"/{tier}", nil)
	covered := backlog.Event{Kind: backlog.TierCovered, Tier: "1d", By: "7d"}
	for _, ev := range []backlog.Event{
		covered, started("7d"), covered, ended("7d", backlog.StoppedReload, 1, 0), started("7d"), ended("7d", "", 1, 0), started("7d"), ended("7d", "", 1, 0),
	} {
		p.Observe(ev)
	}
	want(t, p.end(s), "/7d/start", "/1d/start", "/7d/log", "/1d/log", "/7d/start", "/1d/start", "/7d", "/1d", "/7d/start", "/7d")
}

// A tier that ticks every ten seconds: no start, and a result once a minute unless it changes.
func TestOften(t *testing.T) {
	s, p := newService(t), newPinger(t)
	p.configure(s.URL+"/ping/"+key+"/{tier}", nil)
	for i := range 13 { // two minutes
		for _, ev := range []backlog.Event{started("10s"), ended("10s", "", 1, 0)} {
			if i == 8 && ev.Kind == backlog.PassEnded {
				ev.Report.Stopped = backlog.StoppedError
			}
			ev.At = start.Add(time.Duration(i) * 10 * time.Second)
			p.Observe(ev)
		}
		p.configure(s.URL+"/ping/"+key+"/{tier}", nil) // a reload changes nothing
	}
	want(t, p.end(s), "/10s", "/10s", "/10s/fail", "/10s")
}

func TestTiers(t *testing.T) {
	s, p := newService(t), newPinger(t)
	p.configure(s.URL+"/ping/"+key+"?create=1", func(s *pings.Settings) { s.Tiers = []string{"7d"} })
	p.Observe(ended("1d", "", 1, 0))
	p.Observe(started("7d"))
	p.Observe(ended("7d", "", 1, 0))
	bad := *pings.NewSettings()
	bad.Tiers = []string{"7d", "2d"}
	if err := bad.CheckTiers(schedule(t)); err == nil || err.Error() != `pings: tiers: the schedule has no tier "2d"` {
		t.Errorf("want the tier to be refused, got %v", err)
	}
	want(t, p.end(s), "/start?create=1", "?create=1")
}

// A tier's name is no part of a path.
func TestNameIsEscaped(t *testing.T) {
	s, p := newService(t), newPinger(t)
	p.configure(s.URL+"/ping/"+key+"/{tier}/", nil)
	p.Observe(ended("a/b c?d", "", 1, 0))
	want(t, p.end(s), "/a%2Fb%20c%3Fd")
}

func TestTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		answer  func(n int, w http.ResponseWriter, r *http.Request)
		heard   int
		result  string
		logged  string
		another bool // ping, which is taken
	}{
		"busy":    {func(n int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader([]int{503, 429, 200}[n-1]) }, 3, "success", "", false},
		"broken":  {func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, 3, "failure", "500 Internal Server Error", false},
		"unknown": {func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, 1, "failure", "404 Not Found", false},
		"other": {func(_ int, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://evil.example"+r.URL.Path, http.StatusTemporaryRedirect)
		}, 3, "failure", "redirects to another host", false},
		"location": {func(_ int, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://[x"+r.URL.Path)
			w.WriteHeader(302)
		}, 3, "failure", "cannot be read", false},
		"moved": {func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 1 {
				http.Redirect(w, r, r.URL.Path+"/new", http.StatusPermanentRedirect)
			}
		}, 2, "success", "", false},
		"reset": {func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				panic(http.ErrAbortHandler)
			}
		}, 2, "success", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := newService(t), newPinger(t)
			s.answer = c.answer
			p.configure(s.URL+"/ping/"+key+"/{tier}", nil)
			p.Observe(ended("1d", "", 1, 0))
			if heard := p.end(s); len(heard) != c.heard || p.results[c.result] != 1 {
				t.Errorf("want %d tries and a %s, got %q, %v", c.heard, c.result, heard, p.results)
			}
			if text := p.log.String(); !strings.Contains(text, c.logged) || (c.logged == "") != (text == "") {
				t.Errorf("want %q in the log, got %s", c.logged, text)
			}
		})
	}
}

// A service that is not there is said once, and once that it is back.
func TestAway(t *testing.T) {
	s, p := newService(t), newPinger(t)
	gone := httptest.NewServer(nil)
	gone.Close()
	p.configure(gone.URL+"/ping/"+key+"/{tier}", nil)
	p.Observe(ended("1d", "", 1, 0))
	p.Observe(ended("7d", "", 1, 0))
	p.configure(s.URL+"/ping/"+key+"/{tier}", nil)
	p.Observe(ended("1d", "", 1, 0))
	want(t, p.end(s), "/1d")
	if text := p.log.String(); strings.Count(text, "a ping was not accepted") != 1 || strings.Count(text, "pings are accepted again") != 1 || !strings.Contains(text, "refused") {
		t.Errorf("want one line for the series and one for its end, got %s", text)
	}
	if want := map[string]int{"success": 1, "failure": 2}; !maps.Equal(p.results, want) {
		t.Errorf("want %v, got %v", want, p.results)
	}
}

// A service that hangs delays no pass: what does not fit into the queue is dropped, and the
// end does not wait for it.
func TestHangs(t *testing.T) {
	s, p := newService(t), newPinger(t)
	release := make(chan struct{})
	defer close(release)
	s.answer = func(int, http.ResponseWriter, *http.Request) { <-release }
	p.configure(s.URL+"/ping/"+key+"/{tier}", nil)
	began := time.Now()
	for range 500 {
		p.Observe(ended("1d", "", 1, 0))
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("want passes not to wait, they took %v", took)
	}
	hard := make(chan struct{})
	close(hard)
	p.Close(hard)
	p.Observe(ended("1d", "", 1, 0))
	p.Close(nil)
	if n := p.results["dropped"]; n != 500 {
		t.Errorf("want 500 to be dropped, got %v", p.results)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("want the end not to wait, it took %v", took)
	}
}

// Nothing is left running after the end.
func TestEnds(t *testing.T) {
	s := newService(t)
	before := runtime.NumGoroutine()
	for range 3 {
		p := newPinger(t)
		p.configure(s.URL+"/ping/"+key+"/{tier}", nil)
		p.Observe(ended("1d", "", 1, 0))
		p.end(s)
	}
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		s.CloseClientConnections() // the service's side of what is closed
		if time.Now().After(deadline) {
			t.Fatalf("want %d goroutines, got %d", before, runtime.NumGoroutine())
		}
	}
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		url   string
		tiers []string
		ratio float64
		want  string
	}{
		{"https://hc-ping.com/" + key + "/{tier}", []string{"all"}, 0.5, ""},
		{"http://127.0.0.1/" + key, []string{"1d"}, 1, ""},
		{"http://127.0.0.1/" + key, []string{"1d", "7d"}, 0, "url"},
		{"http://127.0.0.1/" + key, []string{"all"}, 0, "url"},
		{"ftp://127.0.0.1/" + key + "/{tier}", []string{"all"}, 0, "url"},
		{"/" + key + "/{tier}", []string{"all"}, 0, "url"},
		{"http://[::1/" + key + "/{tier}", []string{"all"}, 0, "url"},
		{"http://127.0.0.1/{tier}", []string{"all"}, 1.1, "fail_if.failed_ratio"},
		{"http://127.0.0.1/{tier}", []string{"all"}, -0.1, "fail_if.failed_ratio"},
	} {
		refused := ""
		s := pings.Settings{URL: c.url, Tiers: c.tiers, FailIf: pings.FailIf{FailedRatio: c.ratio}}
		s.Check(func(field, problem string) {
			refused = field
			if strings.Contains(problem, key) {
				t.Errorf("want no key in %q", problem)
			}
		})
		if refused != c.want {
			t.Errorf("%v: want %q to be refused, got %q", c, c.want, refused)
		}
	}
}
