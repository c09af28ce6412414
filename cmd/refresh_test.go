package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"backlog/internal/testkit"
)

// A refreshSite is a table of one row that the program, as it is built, processes again
// and again, step by step with --now. Its service accepts what it is given and answers
// later, by resolve.
type refreshSite struct {
	t       *testing.T
	dir, at string // at is the time of the last step

	mu    sync.Mutex
	begun []string // the UIDs of the attempts so far
}

// newRefreshSite returns a site with the policy and a tier that ticks so often.
func newRefreshSite(t *testing.T, kind wildKind, policy, tick string) *refreshSite {
	t.Helper()
	return openRefreshSite(t, kind, "banners", fmt.Sprintf(
		"database: DATABASE\ntable: {name: banners}\npolicy: {refresh: {%s}}\nhandler: {http: {url: SERVICE}}\ntiers: [{every: %s}]\n", policy, tick))
}

// openRefreshSite returns a site with the configuration, in which DATABASE and SERVICE
// stand for URLs.
func openRefreshSite(t *testing.T, kind wildKind, table, config string) *refreshSite {
	t.Helper()
	s := &refreshSite{t: t, dir: t.TempDir()}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.begun = append(s.begun, r.Header.Get("Backlog-Attempt-Uid"))
		s.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(service.Close)
	db, url := kind.make(t)
	mustExec(t, db, "CREATE TABLE "+table+" (id integer PRIMARY KEY, url varchar(200), email varchar(200))")
	s.write("schedule.yaml", strings.NewReplacer("DATABASE", strconv.Quote(url), "SERVICE", service.URL).Replace(config)+"state: none\nlog: {level: error}\n")
	s.mustRun("init", "--create-table")
	mustExec(t, db, "INSERT INTO "+table+" (id, url, email, refresh_at, attempt_no) VALUES (7, 'https://example.com/a.png', 'kim@example.com', '2026-01-01 00:00:00', 0)")
	return s
}

// uids returns the UIDs of the attempts so far.
func (s *refreshSite) uids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.begun)
}

func (s *refreshSite) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o700); err != nil {
		s.t.Fatal(err)
	}
}

func (s *refreshSite) run(args ...string) (out string, err error) {
	c := exec.Command("backlog", args...)
	c.Dir = s.dir
	var text, wrong bytes.Buffer
	c.Stdout, c.Stderr = &text, &wrong
	if err = c.Run(); err != nil {
		err = fmt.Errorf("%v: %w\n%s", args, err, wrong.String())
	}
	return text.String(), err
}

func (s *refreshSite) mustRun(args ...string) string {
	s.t.Helper()
	out, err := s.run(args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// A refreshRow is what explain says of the row.
type refreshRow struct {
	State    string     `json:"state"`
	At       *time.Time `json:"refresh_at"`
	No       int        `json:"attempt_no"`
	Deadline *time.Time `json:"deadline_at"`
	Reason   string     `json:"disabled_reason"`
}

func (s *refreshSite) row(now string) (r refreshRow) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.mustRun("explain", "7", "--json", "--now", now)), &r); err != nil {
		s.t.Fatal(err)
	}
	return r
}

// moment returns a time of Monday, 5 January 2026, or of a day given, as RFC 3339.
func moment(text string) string {
	if !strings.Contains(text, "T") {
		text = "2026-01-05T" + text
	}
	for _, layout := range []string{"2006-01-02T15:04:05Z", "2006-01-02T15:04:05", "2006-01-02T15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.Format(time.RFC3339)
		}
	}
	panic(text)
}

func stampOf(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// step does what the step says, "06:00 start", "06:01:30 failure" and so on, and
// checks what the row has then: "refresh_at attempt_no deadline_at".
func (s *refreshSite) step(text string) {
	s.t.Helper()
	what, want, _ := strings.Cut(text, ": ")
	at, action, _ := strings.Cut(what, " ")
	s.at = moment(at)
	before := len(s.uids())
	switch action {
	case "start", "pass":
		s.mustRun("once", "--now", s.at)
		if started := len(s.uids()) - before; started != map[string]int{"start": 1}[action] {
			s.t.Fatalf("%s: %d starts", text, started)
		}
	case "retry":
		s.mustRun("retry", "7", "--now", s.at)
	default:
		s.mustRun("resolve", s.uids()[before-1], action, "--now", s.at)
	}
	fields := strings.Fields(want)
	if len(fields) == 0 {
		return
	}
	for _, i := range []int{0, 2} {
		if i < len(fields) && fields[i] != "-" {
			fields[i] = moment(fields[i])
		}
	}
	r := s.row(s.at)
	got := []string{stampOf(r.At), fmt.Sprint(r.No), stampOf(r.Deadline)}[:len(fields)]
	if !slices.Equal(got, fields) {
		s.t.Fatalf("%s: the row has %v; want %v", text, got, fields)
	}
}

// simulated returns the attempts that simulate shows.
func (s *refreshSite) simulated(from, call string, n int) (list []struct {
	No       int        `json:"attempt_no"`
	Start    *time.Time `json:"start"`
	Deadline *time.Time `json:"deadline_at"`
	Planned  *time.Time `json:"refresh_at"`
	End      *time.Time `json:"end"`
	Next     *time.Time `json:"next_refresh_at"`
}) {
	s.t.Helper()
	var all struct {
		Attempts json.RawMessage `json:"attempts"`
	}
	out := s.mustRun("simulate", "--policy", "refresh", "--json", "--from", moment(from), "--call-time", call, "--attempts", fmt.Sprint(n))
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal(all.Attempts, &list); err != nil {
		s.t.Fatal(err)
	}
	return list
}

// A timeline is what a record does that always fails, by the ticks of a tier.
type timeline struct {
	from, call string
	answered   bool   // after call; else never
	starts     string // the first of them
	n          int    // all of them
	ended      string
	reason     string
}

// walk does the first starts that simulate shows, and checks that the row has what
// simulate says, and both what the timeline says. The end is
// checked, too, where it is among them.
func (s *refreshSite) walk(c timeline, first int) {
	s.t.Helper()
	list := s.simulated(c.from, c.call, 1000)
	var starts []string
	for _, a := range list {
		starts = append(starts, a.Start.Format(time.TimeOnly))
	}
	if got := strings.Join(starts, " "); len(list) != c.n || !strings.HasPrefix(got, c.starts) {
		s.t.Fatalf("simulate has %d starts, at %s", len(list), got)
	}
	if got := stampOf(list[c.n-1].End); got != moment(c.ended) {
		s.t.Errorf("simulate ends at %s", got)
	}
	s.step(c.from + " retry") // the row is saved
	if list[0].Start.Format(time.RFC3339) != moment(c.from) {
		// It would start at once, where simulate takes the first occurrence.
		s.step(c.from + " start")
		s.step(c.from + " success")
	}
	for i, a := range list[:min(first, len(list))] {
		s.step(fmt.Sprintf("%s start: %s %d %s", stampOf(a.Start), stampOf(a.Planned), a.No, stampOf(a.Deadline)))
		no := a.No
		if i+1 < len(list) && list[i+1].No == 1 {
			no = 0 // it waits for the next occurrence
		}
		if c.answered {
			s.step(fmt.Sprintf("%s failure: %s %d -", stampOf(a.End), stampOf(a.Next), no))
			continue
		}
		if i+1 < len(list) && list[i+1].Start.Equal(*a.End) {
			continue // the pass that fails it starts it again
		}
		s.step(fmt.Sprintf("%s pass: %s %d -", stampOf(a.End), stampOf(a.Next), no))
	}
	if r := s.row(s.at); first >= c.n {
		testkit.Equal(s.t, "when it ended", s.at, moment(c.ended))
		testkit.Equal(s.t, "state", r.State, "disabled")
		testkit.Equal(s.t, "reason", r.Reason, c.reason)
	}
}

// all is more starts than a timeline has.
const all = 1000

// Records that always fail, by the ticks of a tier: the program does what simulate says,
// and both what the timelines of the contract say.
func TestRefreshTimelines(t *testing.T) {
	t.Parallel()
	const twice = "rrule: 'FREQ=DAILY;BYHOUR=6,16;BYMINUTE=0;BYSECOND=0', timeout: 1h"
	for _, c := range []struct {
		name, policy, tick string
		timeline
		kinds []wildKind
	}{
		{"T1", "schedule: none, timeout: 1m, intervals: [0, 1m, 5m], reason: thumbnail creation failed", "10s", thumbnail, []wildKind{inSQLite}},
		{"T2", twice, "1m", twiceADay, []wildKind{inSQLite, inPostgres, inMySQL}},
		{"T2b", twice, "1m", timeline{"05:00", "24h", false, "06:00:00 07:00:00 08:01:00 09:06:00 10:21:00 11:51:00 13:51:00", 7, "14:51:00", "Cannot refresh after 7 attempts"},
			[]wildKind{inSQLite}},
		{"T3", twice + ", after_last: wait, give_up_after: 7d", "1m", forAWeek, []wildKind{inSQLite}},
		{"T4", "every: 2h, timeout: 1h, intervals: [0, 1m, 5m, 10m, 15m]", "1m",
			timeline{"08:00", "90s", true, "08:00:00 08:02:00 08:05:00 08:12:00 08:24:00 08:41:00", 6, "08:42:30", "Cannot refresh after 6 attempts"}, []wildKind{inSQLite}},
		{"T6", "every: 2h, timeout: 2h", "1m", timeline{"08:00", "1m", true, "08:00:00 10:00:00 12:00:00 14:00:00 16:00:00 18:00:00 20:00:00", 7, "20:01:00",
			"Cannot refresh after 7 attempts"}, []wildKind{inSQLite}},
	} {
		for _, kind := range c.kinds {
			t.Run(c.name+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				newRefreshSite(t, kind, c.policy, c.tick).walk(c.timeline, all)
			})
		}
	}
}

// The timelines of the page's scenarios.
var (
	thumbnail = timeline{"10:00", "5s", true, "10:00:00 10:00:10 10:01:20 10:06:30", 4, "10:06:35", "thumbnail creation failed"}
	twiceADay = timeline{"05:00", "90s", true, "06:00:00 06:02:00 06:05:00 06:12:00 06:29:00 07:01:00 08:03:00", 7, "08:04:30", "Cannot refresh after 7 attempts"}
	forAWeek  = timeline{"05:00", "90s", true, "06:00:00 06:02:00 06:05:00 06:12:00 06:29:00 07:01:00 08:03:00 16:00:00", 99, "2026-01-12T06:01:30",
		"No success since 2026-01-05T06:01:30Z"}
)

// Each scenario of the page runs as it stands there, and the settings beside it say the
// same as its sentences, which are the ones of the description.
func TestRefreshPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/refresh.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file, table string
		timeline    timeline
		first       int // starts that are done: a week has many, and they repeat
		mails       string
	}{
		{"thumbnail.yaml", "banners", thumbnail, all, ""},
		{"twice.yaml", "big_tables", twiceADay, all, "kim@example.com: Cannot refresh after 7 attempts (failed). Correct https://example.com/a.png and save it, to start again.\n"},
		{"week.yaml", "big_tables", forAWeek, 8, ""},
	} {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			m := regexp.MustCompile("(?s)`" + c.file + "`:\n\n```yaml\n(.*?)```\n\n```yaml\n(.*?)```").FindSubmatch(page)
			if m == nil {
				t.Fatal("the page does not show it, with its settings behind it")
			}
			config := regexp.MustCompile(`sqlite:\w+\.db`).ReplaceAllString(strings.ReplaceAll(string(m[1]), "http://127.0.0.1:8080", "SERVICE"), "DATABASE")
			inbox := newInbox(t)
			config = strings.ReplaceAll(config, "127.0.0.1:25", inbox.addr)
			s := openRefreshSite(t, inSQLite, c.table, config)
			tell := regexp.MustCompile("(?s)`tell.sh`:\n\n```sh\n(.*?)```").FindSubmatch(page)
			s.write("tell.sh", string(tell[1]))
			said := s.policy("schedule.yaml")
			plain := regexp.MustCompile(`(?s)policy:\n.*?\n(\w)`).ReplaceAllString(config, string(m[2])+"$1")
			s.write("plain.yaml", strings.ReplaceAll(plain, "SERVICE", "http://127.0.0.1:8080"))
			if got := s.policy("plain.yaml"); got != said || !strings.Contains(plain, "timeout:") {
				t.Errorf("the sentences say %s, the settings %s:\n%s", said, got, plain)
			}
			s.walk(c.timeline, c.first)
			if got := strings.Join(inbox.all(), ""); got != c.mails {
				t.Errorf("mails: %s", got)
			}
		})
	}
}

// An inbox is a mail server that keeps to whom and what is written.
type inbox struct {
	addr  string
	mu    sync.Mutex
	mails []string
}

func (b *inbox) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mails
}

func newInbox(t *testing.T) *inbox {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &inbox{addr: l.Addr().String()}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &delivery{inbox: b}, nil }))
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return b
}

// A delivery is a connection to an inbox.
type delivery struct {
	*inbox
	to string
}

func (*delivery) Mail(string, *smtp.MailOptions) error        { return nil }
func (d *delivery) Rcpt(to string, _ *smtp.RcptOptions) error { d.to = to; return nil }
func (*delivery) Reset()                                      {}
func (*delivery) Logout() error                               { return nil }
func (d *delivery) Data(r io.Reader) error {
	m, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mails = append(d.mails, d.to+": "+strings.TrimSpace(string(text))+"\n")
	return err
}

// policy returns the policy of a configuration, as check prints it.
func (s *refreshSite) policy(file string) string {
	s.t.Helper()
	out, _ := s.run("check", "--json", "--config", file) // what else it finds does not matter
	var all struct {
		Policy json.RawMessage `json:"policy"`
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all.Policy) == 0 {
		s.t.Fatalf("check prints %s", out)
	}
	return string(all.Policy)
}

// Timelines without ticks, and those that end well.
func TestRefreshSteps(t *testing.T) {
	t.Parallel()
	const every2h = "every: 2h, timeout: 1h, intervals: [0, 5m]"
	for _, c := range []struct {
		name, policy string
		steps        []string
	}{
		{"T2c", "rrule: 'FREQ=DAILY;BYHOUR=6,16;BYMINUTE=0;BYSECOND=0', timeout: 1h", []string{
			"06:00 start: 16:00 1 07:00", "06:01:30 failure: 06:01:30 1 -", "06:02 start", "06:03:30 failure: 06:04:30 2 -", "06:04 pass",
			"06:05 start", "06:06:30 success: 16:00 0 -"}},
		{"T5", every2h, []string{
			"08:00 start: 10:00 1 09:00", "08:02 success: 10:00 0 -", "09:59 pass", "10:00 start", "10:05 failure: 10:05 1 -", "10:05 start", "10:06 success: 12:00 0 -",
			"12:00 start", "12:05 failure: 12:05 1 -", "12:05 start", "12:10 failure: 12:15 2 -", "12:14 pass", "12:15 start", "12:17 success: 14:00 0 -"}},
		{"T7", "every: 30m, timeout: 1h", []string{
			"08:00 start: 09:00 1 09:00", "08:10 success: 08:30 0 -", "08:30 start: 09:30 1 09:30", "09:15 success: 09:30 0 -", "10:00 start: 11:00 1 11:00", "10:30 pass",
			"11:00 pass: 11:30 1 -", "11:30 start"}},
		{"T8", "every: 10m, timeout: 5m, intervals: [1m]", []string{
			"08:00 start: 08:10 1 08:05", "08:04 failure: 08:05 1 -", "08:05 start", "08:06 success: 08:10 0 -", "08:10 start", "08:15 pass: 08:20 1 -"}},
		{"T9", "rrule: 'DTSTART;TZID=America/New_York:20260101T023000 RRULE:FREQ=DAILY', timeout: 1h", []string{
			"2026-03-07T07:30 start: 2026-03-08T07:30 1 2026-03-07T08:30", "2026-03-08T07:00 pass: 2026-03-08T07:30 1 -"}},
		{"saved during an attempt", every2h, []string{
			"08:00 start: 10:00 1 09:00", "08:10 retry: 08:10 0 -", "08:10 start: 10:00 1 09:10"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newRefreshSite(t, inSQLite, c.policy, "1m")
			for _, x := range c.steps {
				s.step(x)
			}
		})
	}
}

// What a worker does with the UID of an attempt, and what it is told.
func TestAttemptsByUID(t *testing.T) {
	t.Parallel()
	s := newRefreshSite(t, inSQLite, "every: 2h, timeout: 1h", "1m")
	s.step("08:00 start")
	uid := s.uids()[0]
	s.mustRun("attempt", uid)
	s.mustRun("resolve", uid, "status", "--reason", "half of it is done", "--now", moment("08:10"))
	if r := s.row(moment("08:10")); r.State != "running" || r.Reason != "half of it is done" {
		t.Errorf("%+v", r)
	}
	s.mustRun("resolve", uid, "reject", "--reason", "Provided URL is invalid", "--now", moment("08:20"))
	if r := s.row(moment("08:20")); r.State != "disabled" || r.Reason != "Provided URL is invalid" || r.At != nil {
		t.Errorf("%+v", r)
	}
	for _, args := range [][]string{{"attempt", uid}, {"resolve", uid, "success"}, {"resolve", "nobody", "failure"}} {
		out, err := s.run(args...)
		if e := (*exec.ExitError)(nil); !errors.As(err, &e) || e.ExitCode() != 1 {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	s.step("10:00 pass")
	if _, err := s.run("retry", "8"); err == nil || !strings.Contains(err.Error(), "this record cannot be put back to new\n  8: there is no such record") {
		t.Errorf("got %v", err)
	}
	s.step("10:05 retry: 10:05 0 -")
	s.step("10:06 start: 12:00 1 11:06")
}

// check tells of rules that cannot be read, and retry starts disabled rows again.
func TestRefreshRulesOfRows(t *testing.T) {
	t.Parallel()
	s := newRefreshSite(t, inSQLite, "rrule: {column: email}, timeout: 1m", "1m")
	want := `"detail":"1 rule of the 1 looked at cannot be read; the first: kim@example.com: column email: `
	if out := s.mustRun("check", "--json"); !strings.Contains(out, want) {
		t.Errorf("check prints %s, want %s", out, want)
	}
	s = newRefreshSite(t, inSQLite, "every: 2h, timeout: 1m", "1m")
	for _, step := range [][2]string{{"06:00 start", `"selected":0,`}, {"06:00:30 reject: -", `"selected":1,`}} {
		s.step(step[0])
		if out := s.mustRun("retry", "--status", "disabled", "--now", s.at, "--json"); !strings.Contains(out, step[1]) {
			t.Errorf("%s: retry prints %s, want %s", step[0], out, step[1])
		}
	}
	if r := s.row(s.at); r.State != "waiting" {
		t.Errorf("the row is %s, want waiting", r.State)
	}
}
