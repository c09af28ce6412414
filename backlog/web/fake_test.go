package web_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/advise"
	"backlog/backlog/inspect"
	"backlog/backlog/watch"
	"backlog/backlog/web"
	"backlog/internal/testkit"
	"backlog/tiers"
)

// noon is when the tests are.
var noon = time.Date(2026, 3, 5, 12, 0, 10, 0, time.UTC)

const (
	fullToken = "full-0123456789abcdef0123456789abcdef"
	readToken = "read-0123456789abcdef0123456789abcdef"
)

// A fake is a backlog with fixed data.
type fake struct {
	mu       sync.Mutex
	now      web.Now
	records  []web.Entry
	retried  []web.Filter
	refused  []web.Refusal // by a retry
	resolved []string
	paused   []*watch.Pause
	asked    []web.Filter
	choice   int
	err      error
	begun    time.Time     // of the history
	block    chan struct{} // Records waits for it
}

func schedule(t testing.TB) *tiers.Schedule {
	t.Helper()
	return testkit.Schedule(t,
		tiers.Tier{MaxAge: 24 * time.Hour, Every: 5 * time.Minute}, tiers.Tier{MaxAge: 7 * 24 * time.Hour, Every: time.Hour},
		tiers.Tier{Name: "year", MaxAge: 365 * 24 * time.Hour, Cron: "30 3 * * *"})
}

func text(s string) *string { return &s }

// newFake returns a daemon with something of everything; odd, if not empty, is every text.
func newFake(t testing.TB, odd string) *fake {
	t.Helper()
	or := func(s string) string {
		if odd != "" {
			return odd
		}
		return s
	}
	s, short := schedule(t), odd[:min(len(odd), 200)] // what a file or a key has
	if odd != "" {
		var err error
		if s, err = tiers.New(tiers.Tier{Name: short, MaxAge: 24 * time.Hour, Every: 5 * time.Minute}, tiers.Tier{Name: short + "2", MaxAge: 48 * time.Hour, Every: 5 * time.Minute}); err != nil {
			t.Fatal(err)
		}
	}
	old := inspect.Stamp(noon.Add(-30 * time.Hour))
	counts := inspect.Counts{ByStatus: map[string]int{or("NEW"): 12363, or("ERROR"): 40}, Exhausted: 7, Unreadable: 2,
		Bands:  []inspect.Band{{Fresh: 12001, Failed: 31, Oldest: inspect.Stamp(noon.Add(-23 * time.Hour))}, {Fresh: 312, Failed: 8, Oldest: old}, {Fresh: 45, Failed: 1, Oldest: old}}[:len(s.Tiers())],
		Beyond: inspect.Band{Fresh: 3, Oldest: inspect.Stamp(noon.Add(-400 * 24 * time.Hour))}}
	f := &fake{choice: 1240, now: web.Now{
		Role: web.Leader, Version: "1.4.0", Database: or("postgres://backlog@db.internal/shop"), Table: or("orders"),
		Loaded: noon.Add(-26 * time.Hour), Woke: noon.Add(-10 * time.Second),
		LastErrors: true, Choices: []string{"fresh", "failed", "dead", "exhausted", "unreadable"}, Zone: time.UTC, Schedule: s, Counts: inspect.NewStatus(counts, s, noon), Counted: noon.Add(-14 * time.Second), Took: 212 * time.Millisecond,
		Pausing: true, Rows: &web.Rows{Records: 10_000, Causes: []watch.Cause{{Error: or("550 mailbox # is full"), Records: 812, First: json.RawMessage(`81723`)}}},
		Picture: new(watch.Picture), Timer: inspect.Timer{Program: "/usr/bin/backlog", Folder: "/etc/backlog"},
	}}
	f.now.Learned = &web.Learned{Days: 30, Records: 60_000, Recoveries: 7_120, FirstFailures: 0.2, BrokenForGood: 0.05, Sentence: or("Keep what you have."), Points: []web.LearnedPoint{
		{Age: 20 * time.Minute, Share: 0.85, Low: 0.83, High: 0.87}, {Age: 3 * time.Hour, Share: 0.22, Low: 0.2, High: 0.25}, {Age: 24 * time.Hour},
	}}
	wide, narrow := s.Widest().Name, s.Tiers()[0].Name
	f.pass(noon.Add(-70*time.Minute), narrow, 12, 0, "")
	f.pass(noon.Add(-65*time.Minute), wide, 48, 3, or("dial tcp 10.0.0.7:443: connect: connection refused"))
	f.pass(noon.Add(-10*time.Minute), narrow, 230, 11, or("550 mailbox 81723 is full"))
	f.pass(noon.Add(-5*time.Minute), narrow, 0, 0, "")
	f.now.Picture.Observe(backlog.Event{Kind: backlog.PassStarted, At: noon, Tier: narrow, Report: &backlog.Report{Tier: narrow, MaxAge: 24 * time.Hour, Started: noon.Add(-10 * time.Second)}})
	for i := range 230 {
		age := float64(300 * (i + 1))
		e := web.Entry{Entry: inspect.Entry{ID: backlog.NewKey(int64(81700 + i)), Status: or("NEW"), Inserted: inspect.Stamp(noon.Add(-time.Duration(age) * time.Second)), Age: &age,
			Due: true, Reason: "it is new", Next: inspect.Stamp(noon.Add(290 * time.Second)), Tier: text(narrow), State: "new"},
			Data: []web.Cell{{Name: or("subject"), Value: text(or(fmt.Sprintf("Order %d", 4000+i)))}, {Name: or("email"), Value: nil}}}
		if i%3 == 1 {
			e.Status, e.State, e.Retrying, e.Tried, e.LastError = or("ERROR"), "error", true, new(int), text(or("550 mailbox is full\nand more"))
		}
		f.records = append(f.records, e)
	}
	if odd != "" {
		f.records[0].ID = backlog.NewKey(short, "..")
	}
	return f
}

// pass tells the picture of a pass.
func (f *fake) pass(at time.Time, tier string, good, bad int, problem string) {
	r := &backlog.Report{Tier: tier, MaxAge: 24 * time.Hour, Started: at, Duration: 1834 * time.Millisecond, Selected: good + bad, Succeeded: good, Failed: bad, Complete: true, Conflicts: bad / 4}
	f.now.Picture.Observe(backlog.Event{Kind: backlog.PassStarted, At: at, Tier: tier, Report: r})
	for i := range good + bad {
		ev := backlog.Event{Kind: backlog.AttemptEnded, At: at, Tier: tier, Record: &backlog.Record{Key: backlog.NewKey(int64(81700 + i)), Lane: backlog.Failed}, Outcome: backlog.Succeeded}
		if i < bad {
			ev.Outcome, ev.Err = backlog.Errored, errors.New(strings.Replace(problem, "81723", number(int64(81700+i)), 1))
		}
		f.now.Picture.Observe(ev)
	}
	f.now.Picture.Observe(backlog.Event{Kind: backlog.PassEnded, At: at.Add(time.Second), Tier: tier, Report: r})
}

func (f *fake) Now() web.Now {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Timeline has passes and counts since the history began, or of 40 days, until noon, and an outage of three hours.
func (f *fake) Timeline() *watch.Timeline {
	begun := cmp.Or(f.begun, noon.Add(-40*24*time.Hour))
	if begun.After(noon) {
		return nil
	}
	hours := advise.NewHours("t", noon.Add(-advise.KeptHours))
	for at := begun.Truncate(time.Hour); !at.After(noon); at = at.Add(20 * time.Minute) {
		hour := at.Truncate(time.Hour)
		hours.Add(fmt.Appendf(nil, `{"tier":"1d","max_age_seconds":60,"started":%q,"selected":12,"succeeded":8,"failed":3,"rejected":1}`, at.Format(time.RFC3339)))
		hours.Add(fmt.Appendf(nil, `{"hour":%q,"counted":{"pending":%d,"failed":30}}`, hour.Format(time.RFC3339), 1000+10*at.Hour()))
	}
	ended := noon.Add(-2 * time.Hour)
	return watch.NewTimeline(hours.With([]advise.Interval{{Since: ended.Add(-3 * time.Hour), Ended: ended}}), noon, time.UTC)
}

func (f *fake) LookBack(context.Context) watch.LookBack {
	return watch.LookBack{Last: watch.LastOfEach(f.now.Picture.Passes()), Leader: watch.Here, Outage: f.now.Picture.Outage(), Pause: f.Now().Pause}
}

func (f *fake) Records(ctx context.Context, x web.Filter, _ *time.Location) (web.Records, error) {
	f.mu.Lock()
	f.asked = append(f.asked, x)
	block, list, err := f.block, f.records, f.err
	f.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return web.Records{}, ctx.Err()
		}
	}
	if x.Limit < len(list) {
		return web.Records{Records: list[:x.Limit], Next: text("81799")}, err
	}
	return web.Records{Records: list}, err
}

func (f *fake) Record(_ context.Context, id string, _ *time.Location) (web.Record, error) {
	for _, e := range f.records {
		if e.ID.String() == id {
			sheet := &inspect.Sheet{Entry: e.Entry, Lines: []string{"record\t" + id, "status\t" + e.Status, "last error\t" + e.Status}}
			return web.Record{Sheet: sheet, Retrying: e.Retrying, Data: e.Data, Attempts: f.now.Picture.Attempts(e.ID), Ahead: &web.Ahead{
				Tiers: []web.RemainingTicks{{Tier: *e.Tier, Ticks: 260}}, Until: inspect.Stamp(noon.Add(300 * 24 * time.Hour)), Then: "it stays where it is: " + e.Status}}, f.err
		}
	}
	return web.Record{}, &web.Problem{Status: 404, Text: "There is no record " + id + "."}
}

func (f *fake) Simulate(_ context.Context, yaml string) (web.Simulation, error) {
	if strings.Contains(yaml, "broken") {
		return web.Simulation{}, &web.Problem{Status: 400, Text: "tiers[0].every: " + yaml}
	}
	const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="400" height="100"><rect width="400" height="100" style="fill:rgb(0,84,150)"/></svg>`
	return web.Simulation{Columns: []string{"schedule", "attempts", "pending after 7 days"}, Rows: [][]string{{"running", "48,123", "9"}, {"this one", "12,004*", "31"}},
		Results: []any{map[string]int{"attempts": 48123}, map[string]int{"attempts": 12004}}, Plot: []byte(svg), Assumed: web.AsLearned}, nil
}

func (f *fake) Choose(_ context.Context, x web.Filter) (web.Choice, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return web.Choice{Records: f.choice, Where: "failed records of the band " + x.Band + " whose last error has " + x.Cause, Examples: []backlog.Key{f.records[0].ID, f.records[1].ID}}, f.err
}

func (f *fake) Retry(_ context.Context, x web.Filter, expect int) (web.Retried, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.choice > expect+max(10, expect/100) {
		return web.Retried{}, &web.Problem{Status: 409, Text: "There are more records now than were shown."}
	}
	f.retried = append(f.retried, x)
	refused := len(f.refused)
	return web.Retried{Selected: f.choice, Reset: f.choice - 2 - refused, Conflicts: 2, Refused: refused, Refusals: f.refused}, f.err
}

func (f *fake) Pause(p *watch.Pause) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paused, f.now.Pause = append(f.paused, p), p
	return f.err
}

func (f *fake) Resolve(_ context.Context, r web.Resolution) error {
	f.resolved = append(f.resolved, r.UID+" "+r.Outcome+" "+r.Reason)
	return f.err
}

// newSite returns a site over the backlog with both tokens.
func newSite(t testing.TB, b web.Backlog, change func(*web.Settings)) *web.Site {
	t.Helper()
	site, err := openSite(t, b, change)
	if err != nil {
		t.Fatal(err)
	}
	return site
}

// newSiteLogging returns one with another log.
func newSiteLogging(t testing.TB, b web.Backlog, log io.Writer) *web.Site {
	t.Helper()
	dir := t.TempDir()
	testkit.WriteFile(t, filepath.Join(dir, "web.token"), readToken)
	s := web.NewSettings()
	tokens, err := s.ReadTokens(dir, dir)
	if err != nil {
		t.Fatal(err)
	}
	site, err := web.New(*s, dir, tokens, b, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return site
}

func openSite(t testing.TB, b web.Backlog, change func(*web.Settings)) (*web.Site, error) {
	t.Helper()
	dir, s := t.TempDir(), web.NewSettings()
	s.Listen, s.ReadTokenFile = "127.0.0.1:8080", "read.token"
	for name, token := range map[string]string{"web.token": fullToken, "read.token": readToken} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if change != nil {
		change(s)
	}
	tokens, err := s.ReadTokens(dir, dir)
	if err != nil {
		return nil, err
	}
	site, err := web.New(*s, dir, tokens, b, slog.New(slog.NewTextHandler(&logged{t: t}, nil)))
	if err == nil {
		site.Now = func() time.Time { return noon }
	}
	return site, err
}

// logged fails the test if the log has a token.
type logged struct{ t testing.TB }

func (l *logged) Write(b []byte) (int, error) {
	if s := string(b); strings.Contains(s, fullToken) || strings.Contains(s, readToken) {
		l.t.Errorf("the log has a token: %s", s)
	} else if strings.Contains(s, "level=ERROR") {
		l.t.Errorf("the log: %s", s)
	}
	return len(b), nil
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
