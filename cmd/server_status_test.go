package cmd_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ask sends a request of a program to the pages at an address, and returns the answer.
func (s *shop) ask(method, at, path, body string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequest(method, at+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	return s.send(r)
}

// send sends a request of a program with the token.
func (s *shop) send(r *http.Request) (int, string) {
	s.t.Helper()
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(s.mustRun("token")))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// TestStatusOfAPI compares what `status --json` prints with what the API of a leader, of a
// standby and of a process that only shows the pages answers: after an outage, in a pause.
func TestStatusOfAPI(t *testing.T) {
	t.Parallel()
	onSites(t, siteKinds, func(t *testing.T, kind *siteKind) {
		s := newSite(t, kind, nil)
		s.write("schedule.yaml", "database: "+s.url(nil)+`
state: state.json
handler: {exec: ['false']}
tiers: [{max_age: 1d, every: 192h}, {max_age: 7d, every: 192h}]
web: {listen: "127.0.0.1:0"}
`)
		s.fillNew(12)
		s.mustRun("once", "--max-age", "7d") // all fail
		viewer := s.start("web")
		viewer.says("pages are served")
		compare := func(who string, d *daemon) {
			t.Helper()
			at := servedAt.FindStringSubmatch(d.log.String())[1]
			var want, got map[string]any
			var answer string
			read := func() bool {
				want, got = nil, nil
				_, answer = s.ask("GET", at, "/api/v1/status", "")
				for text, to := range map[string]any{s.mustRun("status", "--json"): &want, answer: &got} {
					if err := json.Unmarshal([]byte(text), to); err != nil {
						t.Fatalf("%s: %v", text, err)
					}
				}
				return got["pending"] != nil || got["role"] == "standby"
			}
			if !eventually(read) {
				t.Errorf("%s never counts: %s", who, answer)
			}
			for name, value := range want {
				is, there := got[name]
				uncounted := got["role"] == "standby" && is == nil && got["counted_at"] == nil
				if !there {
					t.Errorf("%s: %s is missing\n%s", who, name, answer)
				}
				goesOn := name == "history" && is != nil // the outage is longer by now
				mayDiffer := name == "last_wake" || goesOn || uncounted
				if !mayDiffer && !reflect.DeepEqual(is, value) {
					t.Errorf("%s: %s is %v, status --json has %v\n%s", who, name, is, value, answer)
				}
			}
		}
		compare("a viewer without a daemon", viewer)
		leader := s.start("run")
		leader.says(`"msg":"leading"`)
		s.mustRun("pause", "--reason", "a test")
		compare("the leader", leader)
		standby := s.start("run")
		standby.says(`"msg":"standing by`)
		compare("a standby", standby)
		viewer.signal(syscall.SIGTERM)
		viewer.ends()
		viewer = s.start("web")
		viewer.says("pages are served")
		compare("a viewer", viewer)
	})
}

// TestSimulateOfAPI compares the names of `simulate --json` with those of the API, whose numbers
// are those of the page. The page says what its star is, and the plot is in the zone.
func TestSimulateOfAPI(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite, nil)
	s.write("schedule.yaml", "database: "+s.url(nil)+`
state: state.json
timezone: Pacific/Kiritimati
handler: {exec: ['false']}
tiers: [{max_age: 1d, every: 5m}]
web: {listen: "127.0.0.1:0"}
`)
	s.fillNew(12)
	d := s.start("web")
	d.says("pages are served")
	at := servedAt.FindStringSubmatch(d.log.String())[1]
	const other = "tiers: [{max_age: 1d, every: 1h}]"

	var want map[string]any
	if err := json.Unmarshal([]byte(s.mustRun("simulate", "--live", "--json")), &want); err != nil {
		t.Fatal(err)
	}
	delete(want, "ticks")
	var answer struct {
		Columns []string
		Rows    [][]string
		Results []map[string]any
	}
	_, text := s.ask("POST", at, "/api/v1/simulate", other)
	if err := json.Unmarshal([]byte(text), &answer); err != nil || len(answer.Results) != 2 || len(answer.Rows) != 2 {
		t.Fatalf("%v: %s", err, text)
	}
	for i, got := range answer.Results {
		for name := range want {
			if _, there := got[name]; !there {
				t.Errorf("result %d has no %s, which simulate --json prints: %s", i, name, text)
			}
		}
		row := answer.Rows[i]
		if got["policy"] != row[0] || answer.Columns[1] != "CALLS" || fmt.Sprint(got["attempts"]) != strings.Trim(row[1], "*") {
			t.Errorf("the row %v is %v as numbers", row, got["attempts"])
		}
	}

	r, err := http.NewRequest("POST", at+"/schedule", strings.NewReader(url.Values{"tiers": {other}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	_, page := s.send(r)
	if !strings.Contains(page, "* the best of the column") {
		t.Errorf("the page does not say what the star is: %s", page)
	}
	plot := regexp.MustCompile(`/plot/\w+`).FindString(page)
	_, svg := s.ask("GET", at, plot, "")
	if today := time.Now().UTC().Add(14 * time.Hour).Format(time.DateOnly); !strings.Contains(svg, "hours since "+today) || !strings.Contains(svg, " +14<") {
		t.Errorf("the plot is not in the zone, where it is %s: %s", today, svg)
	}
}
