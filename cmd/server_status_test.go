package cmd_test

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

// ask sends a request of a program to the pages at an address, and returns the answer.
func (s *shop) ask(method, at, path, body string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequest(method, at+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
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
		s.run("once", "7d") // all fail
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
				if !there || name != "last_wake" && !uncounted && !reflect.DeepEqual(is, value) {
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
