package metrics_test

import (
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/metrics"
	"backlog/internal/testkit"
	"backlog/tiers"
)

var update = flag.Bool("update", false, "write the golden files anew")

// A world is metrics with a clock and a state that the test sets.
type world struct {
	*metrics.Metrics
	now   time.Time
	state metrics.State
}

var start = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

func newWorld(o metrics.Options) *world {
	w := &world{now: start, state: metrics.State{Leads: true, StoreUp: true, Concurrency: 4}}
	o.Now, o.State = func() time.Time { return w.now }, func() metrics.State { return w.state }
	o.Version, o.Revision, o.GoVersion = "1.2.3", "abc", "go1.26"
	w.Metrics = metrics.New(o)
	return w
}

// everything is what a daemon counts that uses all there is.
var everything = metrics.Options{Table: true}

func schedule(t testing.TB, list ...tiers.Tier) []tiers.Tier {
	t.Helper()
	return testkit.Schedule(t, list...).Tiers()
}

const day = 24 * time.Hour

func threeTiers(t testing.TB) []tiers.Tier {
	return schedule(t, tiers.Tier{Name: "1d", MaxAge: day, Every: 5 * time.Minute}, tiers.Tier{Name: "7d", MaxAge: 7 * day, Every: time.Hour},
		tiers.Tier{Name: "30d", MaxAge: 30 * day, Cron: "0 3 * * 1-5"})
}

// tell tells of a list of events, each a second after the one before.
func (w *world) tell(events ...backlog.Event) {
	for _, ev := range events {
		w.now = w.now.Add(time.Second)
		if ev.At.IsZero() {
			ev.At = w.now
		}
		w.Observe(ev)
	}
}

// whole returns what there is.
func (w *world) whole(t testing.TB) string {
	t.Helper()
	r := httptest.NewRecorder()
	w.Handler().ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if r.Code != http.StatusOK {
		t.Fatalf("want a scrape, got %d\n%s", r.Code, r.Body)
	}
	return r.Body.String()
}

// scrape returns what there is but of the process itself.
func (w *world) scrape(t testing.TB) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(w.whole(t)) {
		if strings.Contains(line, "backlog_") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// anHour is a list with every event that is counted.
func anHour() []backlog.Event {
	rec := &backlog.Record{Key: backlog.NewKey(int64(1))}
	died := func(reason string) backlog.Event {
		return backlog.Event{Kind: backlog.Died, Tier: "1d", Record: &backlog.Record{Reason: reason}}
	}
	attempt := func(tier string, o backlog.Outcome, took time.Duration) backlog.Event {
		return backlog.Event{Kind: backlog.AttemptEnded, Tier: tier, Record: rec, Outcome: o, Took: took, Err: errors.New("broken")}
	}
	ended := func(tier string, maxAge, took time.Duration, complete bool, stopped string) backlog.Event {
		return backlog.Event{Kind: backlog.PassEnded, Tier: tier, Report: &backlog.Report{Tier: tier, MaxAge: maxAge, Started: start, Duration: took, Complete: complete, Stopped: stopped}}
	}
	event := func(kind backlog.EventKind) backlog.Event {
		return backlog.Event{Kind: kind, Tier: "1d", Record: rec, Err: errors.New("broken")}
	}
	return []backlog.Event{
		{Kind: backlog.Woke}, {Kind: backlog.PassStarted, Tier: "1d"},
		attempt("1d", backlog.Succeeded, 3*time.Millisecond), attempt("1d", backlog.Succeeded, 30*time.Millisecond), attempt("1d", backlog.Errored, 7*time.Second),
		attempt("1d", backlog.Rejected, 700*time.Second), attempt("1d", backlog.Skipped, 1), attempt("1d", backlog.HandedOver, time.Second),
		{Kind: backlog.Settled, Tier: "1d", N: 2}, event(backlog.Conflicted), event(backlog.Refused), event(backlog.Unwritten),
		ended("1d", day, 700*time.Millisecond, true, ""),
		ended("7d", 7*day, time.Minute, false, backlog.StoppedMaxRecords),
		{Kind: backlog.PassEnded, Tier: "30d", Err: errors.New("no lock"), Report: &backlog.Report{Tier: "30d", MaxAge: 30 * day, Stopped: backlog.StoppedError}},
		attempt("", backlog.Succeeded, 0), // told after the pass
		{Kind: backlog.TicksMissed, Tier: "7d", N: 12}, event(backlog.TierSkipped), event(backlog.TierCovered),
		died(backlog.ReasonRejected), died(backlog.ReasonRetries), died(backlog.ReasonExpired), died(backlog.ReasonDiscarded),
		{Kind: backlog.Expired, Tier: "30d", N: 40}, event(backlog.OnDeadFailed), event(backlog.UnreadableRow), event(backlog.Paused),
		event(backlog.StoreUnavailable), {Kind: backlog.StoreBack}, event(backlog.LockLost), event(backlog.ClockSetBack), event(backlog.StateFailed),
		event(backlog.Panicked), event(backlog.NoTick), event(backlog.LockWaiting), {Kind: backlog.Woke},
	}
}

// busy is a state with all that there can be in it.
func busy() metrics.State {
	return metrics.State{
		Leads: true, StoreUp: true, Paused: true, PauseUntil: start.Add(time.Hour), Concurrency: 4, InFlight: 3,
		Counts: &inspect.Status{
			Bands: []inspect.TierBand{
				{Tier: "1d", Band: inspect.Band{Fresh: 12, Failed: 3, Oldest: inspect.Stamp(start.Add(-time.Hour))}},
				{Tier: "7d", Band: inspect.Band{Failed: 1, Oldest: inspect.Stamp(start.Add(-30 * time.Hour))}}, {Tier: "30d"},
			},
			Beyond: inspect.Band{Fresh: 1, Oldest: inspect.Stamp(start.Add(-900 * time.Hour))}, Exhausted: 5, Unreadable: 6,
		},
		Counted: start.Add(-14 * time.Second), Took: 200 * time.Millisecond, CountErrors: 2,
		Answers: [6]int64{2: 2, 4: 1},
		Broker:  &metrics.Broker{Up: true, Dispatched: 10, Settled: 6, Late: 1, Stale: 1, Forged: 1, Lost: 1},
	}
}

func busyWorld(t testing.TB) *world {
	w := newWorld(everything)
	w.SetSchedule(threeTiers(t), true)
	w.state = busy()
	w.tell(anHour()...)
	w.Reloaded(true)
	w.Reloaded(false)
	for _, result := range []string{"success", "failure", "dropped"} {
		w.Pinged(result)
	}
	return w
}

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := "testdata/" + name
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || got != string(want) {
		t.Errorf("%s: want\n%s\ngot\n%s (%v)", name, want, got, err)
	}
}

func TestScrapes(t *testing.T) {
	w := newWorld(everything)
	w.SetSchedule(threeTiers(t), true)
	golden(t, "start.txt", w.scrape(t))
	golden(t, "busy.txt", busyWorld(t).scrape(t))
	w = busyWorld(t)
	w.state = metrics.State{StoreUp: true, Concurrency: 4, Broker: new(metrics.Broker)}
	golden(t, "standby.txt", w.scrape(t))
	if text := w.scrape(t); strings.Contains(text, "tier=") || strings.Contains(text, "backlog_counts_timestamp") {
		t.Errorf("want neither tiers nor counts of a standby, got\n%s", text)
	}
	w = newWorld(metrics.Options{})
	w.SetSchedule([]tiers.Tier{{Name: "primary"}}, false)
	w.state.Broker = &metrics.Broker{Up: true}
	w.tell(backlog.Event{Kind: backlog.AttemptEnded, Tier: "primary", Took: time.Second}, backlog.Event{Kind: backlog.Settled, N: 1})
	golden(t, "queue.txt", w.scrape(t))
}

func TestLint(t *testing.T) {
	problems, err := promlint.New(strings.NewReader(busyWorld(t).whole(t))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// value returns the sample of a series, and whether it is there.
func (w *world) value(t testing.TB, series string) string {
	t.Helper()
	for line := range strings.Lines(w.scrape(t)) {
		if v, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func (w *world) want(t testing.TB, series, want string) {
	t.Helper()
	if got := w.value(t, series); got != want {
		t.Errorf("%s: want %s %s, got %s", w.now.Format(time.TimeOnly), series, want, got)
	}
}

// A tier that is no more is not shown, and one that stays goes on counting.
func TestReload(t *testing.T) {
	w := newWorld(everything)
	list := threeTiers(t)
	w.SetSchedule(list, true)
	w.tell(backlog.Event{Kind: backlog.AttemptEnded, Tier: "1d"}, backlog.Event{Kind: backlog.AttemptEnded, Tier: "7d"})
	ended := backlog.Event{Kind: backlog.PassEnded, Tier: "1d", Report: &backlog.Report{MaxAge: day, Started: w.now, Complete: true}}
	w.tell(ended)
	last := w.value(t, `backlog_last_pass_timestamp_seconds{tier="1d"}`)
	w.SetSchedule(schedule(t, tiers.Tier{Name: "1d", MaxAge: day, Every: time.Minute}, tiers.Tier{Name: "8d", MaxAge: 8 * day, Every: time.Hour}), true)
	w.want(t, `backlog_attempts_total{outcome="success",tier="1d"}`, "1")
	w.want(t, `backlog_attempts_total{outcome="success",tier="8d"}`, "0")
	w.want(t, `backlog_tier_interval_seconds{tier="1d"}`, "60")
	w.want(t, `backlog_last_pass_timestamp_seconds{tier="1d"}`, last)
	if text := w.scrape(t); strings.Contains(text, `tier="7d"`) || strings.Contains(text, `tier="30d"`) {
		t.Errorf("want nothing of tiers that are no more, got\n%s", text)
	}
	w.tell(backlog.Event{Kind: backlog.AttemptEnded, Tier: "7d"}) // of the old engine
	w.want(t, `backlog_attempts_total{outcome="success",tier=""}`, "1")
}

// A pass by a wider tier is one of every narrower tier's, and what an earlier process did counts.
func TestLastPass(t *testing.T) {
	w := newWorld(everything)
	w.SetSchedule(threeTiers(t), true)
	const narrow, wide = `backlog_last_complete_pass_timestamp_seconds{tier="1d"}`, `backlog_last_complete_pass_timestamp_seconds{tier="7d"}`
	w.want(t, narrow, "1.7723592e+09") // the start of the process
	w.LastPass(7*day, start.Add(-600*time.Second), true)
	w.LastPass(day, start.Add(-100*time.Second), false)
	w.want(t, narrow, "1.7723586e+09")
	w.want(t, `backlog_last_pass_timestamp_seconds{tier="1d"}`, "1.7723591e+09")
	w.now = start.Add(999 * time.Second)
	w.tell(backlog.Event{Kind: backlog.PassEnded, Tier: "7d", Report: &backlog.Report{MaxAge: 7 * day, Started: w.now, Complete: true}})
	w.want(t, narrow, "1.7723602e+09")
	w.want(t, wide, "1.7723602e+09")
	w.want(t, `backlog_last_complete_pass_timestamp_seconds{tier="30d"}`, "1.7723592e+09")
}

// The next tick is what the loop has planned: without a wake it becomes the past.
func TestNextTick(t *testing.T) {
	w := newWorld(everything)
	w.SetSchedule(threeTiers(t), true)
	const next = `backlog_next_tick_timestamp_seconds{tier="1d"}`
	w.want(t, next, "")
	w.tell(backlog.Event{Kind: backlog.Woke})
	w.want(t, next, "1.7723595e+09")
	w.now = start.Add(time.Hour)
	w.want(t, next, "1.7723595e+09")
	w.tell(backlog.Event{Kind: backlog.Woke})
	w.want(t, next, "1.7723631e+09")
	// 2026-03-01 is a Sunday; from Friday to Monday there are three days.
	w.want(t, `backlog_tier_interval_seconds{tier="30d"}`, "86400")
	w.now = time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	w.tell(backlog.Event{Kind: backlog.Woke})
	w.want(t, `backlog_tier_interval_seconds{tier="30d"}`, "259200")
}

// The time that the database is away grows while it is away.
func TestStoreAway(t *testing.T) {
	w := newWorld(everything)
	w.tell(backlog.Event{Kind: backlog.StoreUnavailable})
	w.now = w.now.Add(30 * time.Second)
	const away = "backlog_store_unavailable_seconds_total"
	w.want(t, away, "30")
	w.tell(backlog.Event{Kind: backlog.StoreBack})
	w.now = w.now.Add(time.Hour)
	w.want(t, away, "31")
	w.tell(backlog.Event{Kind: backlog.StoreUnavailable})
	w.now = w.now.Add(-time.Hour) // the clock is set back
	w.want(t, away, "31")
	w.want(t, "backlog_store_unavailable_total", "2")
}

// Without a dead status nobody dies.
func TestNoDead(t *testing.T) {
	w := newWorld(everything)
	w.SetSchedule(threeTiers(t), false)
	w.tell(backlog.Event{Kind: backlog.Died, Record: &backlog.Record{Reason: backlog.ReasonRejected}})
	w.want(t, `backlog_dead_records_total{reason="rejected"}`, "0")
}

func TestPauseWithoutEnd(t *testing.T) {
	w := newWorld(everything)
	w.want(t, "backlog_pause_until_timestamp_seconds", "0")
	w.state.Paused = true
	w.want(t, "backlog_pause_until_timestamp_seconds", "+Inf")
}

// A tier that is called as a band is costs its series, not the scrape.
func TestTierCalledBeyond(t *testing.T) {
	w := newWorld(everything)
	w.SetSchedule(schedule(t, tiers.Tier{Name: "beyond", MaxAge: day, Every: time.Minute}), true)
	w.state.Counts = &inspect.Status{Bands: []inspect.TierBand{{Tier: "beyond"}}}
	w.want(t, "backlog_concurrency", "4")
}

// A scrape that panics keeps no place of another.
func TestPanic(t *testing.T) {
	broken := true
	m := metrics.New(metrics.Options{Now: time.Now, State: func() (s metrics.State) {
		if broken {
			panic("broken")
		}
		return s
	}})
	handler := m.Handler()
	ask := func() int {
		defer func() { _ = recover() }() // as net/http does
		r := httptest.NewRecorder()
		handler.ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return r.Code
	}
	for range 3 {
		ask()
	}
	broken = false
	if code := ask(); code != http.StatusOK {
		t.Errorf("want a scrape after three that panicked, got %d", code)
	}
}

// Names are written as the format wants them.
func TestEscapes(t *testing.T) {
	w := newWorld(metrics.Options{})
	w.SetSchedule([]tiers.Tier{{Name: "a \"b\" \\ c\nd"}}, true)
	w.want(t, `backlog_attempts_total{outcome="success",tier="a \"b\" \\ c\nd"}`, "0")
}

// Scrapes while passes run and the configuration is loaded again.
func TestConcurrently(t *testing.T) {
	w := newWorld(everything)
	w.SetSchedule(threeTiers(t), true)
	s := busy()
	w.state = s
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 200 {
				for _, ev := range anHour() {
					ev.At = start
					w.Observe(ev)
				}
			}
		})
	}
	all.Go(func() {
		for range 50 {
			w.SetSchedule(threeTiers(t), true)
		}
	})
	server := httptest.NewServer(w.Handler())
	defer server.Close()
	all.Go(func() {
		for range 20 {
			r, err := http.Get(server.URL)
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			r.Body.Close()
		}
	})
	all.Wait()
	w.want(t, `backlog_attempts_total{outcome="success",tier="1d"}`, "1600")
}

func TestObserveAllocatesNothing(t *testing.T) {
	w := newWorld(everything)
	w.SetSchedule(threeTiers(t), true)
	ev := backlog.Event{Kind: backlog.AttemptEnded, At: start, Tier: "7d", Took: time.Millisecond}
	if n := testing.AllocsPerRun(1000, func() { w.Observe(ev) }); n > 0 {
		t.Errorf("want no allocation, got %v", n)
	}
}

// BenchmarkObserve is what an attempt costs.
func BenchmarkObserve(b *testing.B) {
	w := newWorld(everything)
	w.SetSchedule(threeTiers(b), true)
	ev := backlog.Event{Kind: backlog.AttemptEnded, At: start, Tier: "7d", Took: time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		w.Observe(ev)
	}
}

// Every listener's address is one, or the file is refused.
func TestSettings(t *testing.T) {
	for listen, good := range map[string]bool{
		"127.0.0.1:9464": true, ":9464": true, "[::1]:0": true, "unix:/run/metrics": true,
		"9464": false, "localhost": false, "/run/metrics": false,
	} {
		refused := ""
		(&metrics.Settings{Listen: listen}).Check(func(field, problem string) { refused = field + " " + problem })
		if (refused == "") != good {
			t.Errorf("%s: want good %v, got %q", listen, good, refused)
		}
	}
}

// The name of a work is a label of all that is ours, and of nothing else; without one no
// series has it.
func TestName(t *testing.T) {
	named := everything
	named.Name = "mail"
	for _, o := range []metrics.Options{everything, named} {
		w := newWorld(o)
		w.SetSchedule(threeTiers(t), true)
		series := 0
		for line := range strings.Lines(w.whole(t)) {
			if line[0] == '#' {
				continue
			}
			series++
			want := o.Name != "" && strings.HasPrefix(line, "backlog_")
			if got := strings.Contains(line, `name="mail"`); got != want {
				t.Errorf("name %q: %s", o.Name, line)
			}
		}
		if series < 50 {
			t.Errorf("there are %d series", series)
		}
	}
	w := newWorld(named)
	w.SetSchedule(threeTiers(t), true)
	for _, want := range []string{
		`backlog_leader{name="mail"} 1`, `backlog_attempts_total{name="mail",outcome="success",tier="1d"} 0`,
		`backlog_pass_duration_seconds_bucket{name="mail",tier="1d",le="0.1"} 0`, `backlog_attempt_duration_seconds_count{name="mail"} 0`,
		`backlog_build_info{goversion="go1.26",name="mail",revision="abc",version="1.2.3"} 1`,
	} {
		if !strings.Contains(w.whole(t), want+"\n") {
			t.Errorf("there is no %s", want)
		}
	}
}
