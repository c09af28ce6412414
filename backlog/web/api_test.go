package web_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/watch"
	"backlog/backlog/web"
	"backlog/internal/testkit"
)

// ask sends a request of a program.
func ask(site http.Handler, token, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://10.1.2.3:8080"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "bearer "+token)
	w := httptest.NewRecorder()
	site.ServeHTTP(w, r)
	return w
}

func TestAPI(t *testing.T) {
	f := newFake(t, "")
	f.records[0].ID = backlog.NewKey(int64(1)<<53 + 1)
	site := newSite(t, f, func(s *web.Settings) { s.Actions = true })
	for path, want := range map[string][]string{
		"status":              {`"pending":12403`, `"role":"leader"`, `"version":"1.4.0"`, `"counted_at":"2026-03-05T11:59:56Z"`, `"outage":null`, `"pause":null`, `"bands":[{"tier":"1d"`},
		"schedule?for=1h":     {`{"ticks":[{"at":"2026-03-05T12:05:00Z","tier":"1d","max_age_seconds":86400,"covers":[]}`, `"tier":"7d","max_age_seconds":604800,"covers":["1d"]`, `"complete":true}`},
		"schedule?for=30d":    {`"complete":false}`},
		"explain?id=81701":    {`{"id":81701,"status":"ERROR"`, `"in_retry":true`, `"seen":[{"at":`, `"ahead":{"tiers":[{"tier":"1d","ticks":260}]`},
		"passes?limit=1":      {`{"passes":[{"n":`, `"causes":[]`},
		"passes?tier=none":    {`{"passes":[]}`},
		"causes":              {`"attempts":14,"causes":[{"error":"550 mailbox # is full","records":11,"first_id":81700,"attempts":11,"share":0.78`, `"rows":{"records":10000,"complete":false,"causes":[{"error":"550 mailbox # is full","records":812,"first_id":81723}]}}`},
		"records?limit=2":     {`{"records":[{"id":"9007199254740993","status":"NEW"`, `"next":"81799"`, `"data":[{"name":"subject","value":"Order 4000"},{"name":"email","value":null}]`},
		"suspects":            {`{"suspects":[]}`},
		"explain?id=nothing":  {`{"error":"There is no record nothing."}`},
		"records?band=sdf":    {`{"error":"band must be`},
		"nothing":             {`{"error":"There is no such page."}`},
		"passes?limit=banana": {`{"error":"limit must be a whole number."}`},
	} {
		w := ask(site, readToken, "GET", "/api/v1/"+path, "")
		for _, text := range want {
			if !strings.Contains(w.Body.String(), text) {
				t.Errorf("%s does not have %s:\n%.700s", path, text, w.Body)
			}
		}
		if w.Header().Get("Content-Type") != "application/json" || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s is no JSON: %s", path, w.Body)
		}
	}
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"simulate", "tiers: [{max_age: 1d, every: 1h}]", 200, `{"columns":["schedule",`},
		{"simulate", "broken", 400, `{"error":"tiers[0].every: broken"}`},
		{"retry", `{"filter":{"lane":"failed","cause":"mailbox"}}`, 200, `{"records":1240,"where":"failed`},
		{"retry", `{"filter":{"lane":"failed"},"expect":1240}`, 200, `{"selected":1240,"reset":1238,"conflicts":2}`},
		{"retry", `{"filter":{"lane":"failed"},"expect":1000}`, 409, `{"error":"There are more`},
		{"retry", `{"filter":{},"expect":100001}`, 400, `{"error":"At most 100,000`},
		{"retry", `{"filter":{},"expect":0}`, 400, `{"error":"At most 100,000`},
		{"retry", `{"filter":{"lan":"failed"},"expect":1240}`, 400, `{"error":"The body is no JSON`},
		{"retry", `{"filter":{"lane":"slow"},"expect":1240}`, 400, `{"error":"lane must be`},
		{"retry", `{"id":null,"expect":1240}`, 400, `{"error":"id is empty`},
		{"retry", `{"id":"","expect":1240}`, 400, `{"error":"id is empty`},
		{"retry", `{"expect":1240}`, 400, `{"error":"Give one`},
		{"retry", `{"id":5,"filter":{}}`, 400, `{"error":"Give one`},
		{"retry", `[]`, 400, `{"error":"The body is no JSON`},
		{"retry", `{"id":"` + strings.Repeat("x", 65<<10) + `"}`, 413, `{"error":"The body is larger`},
		{"pause", `{"until":"2026-03-05T13:00:00+00:00","reason":"because"}`, 200, `{"pause":{"until":"2026-03-05T13:00:00Z","reason":"because","by":"web, `},
		{"pause", `{"until":"2026-03-12T12:00:11Z"}`, 400, `{"error":"A pause ends`},
		{"pause", `{"until":"2026-03-05T12:00:10Z"}`, 400, `{"error":"A pause ends`},
		{"pause", `{}`, 400, `{"error":"until must be a time`},
		{"resume", ``, 200, `{"pause":null}`},
		{"resolve", `{"uid":"a-b","outcome":"success"}`, 200, `{"applied":true,"outcome":"success","uid":"a-b"}`},
		{"resolve", `{"uid":"a-b","outcome":"snooze","snooze":"2h"}`, 200, `{"applied":true,"outcome":"snooze","uid":"a-b"}`},
		{"resolve", `{"uid":"a-b","outcome":"reject"}`, 400, `{"error":"Give uid`},
	} {
		if w := ask(site, fullToken, "POST", "/api/v1/"+c.path, c.body); w.Code != c.status || !strings.HasPrefix(w.Body.String(), c.want) {
			t.Errorf("%s %.100s: %d %.300s, want %d %s", c.path, c.body, w.Code, w.Body, c.status, c.want)
		}
	}
	f.choice = 1
	for body, id := range map[string]string{`{"id":81701}`: "81701", `{"id":"a\u0000b"}`: "a\x00b", `{"id":[1, "x"]}`: `[1,"x"]`, `{"id":9007199254740993}`: "9007199254740993"} {
		f.retried = nil
		if w := ask(site, fullToken, "POST", "/api/v1/retry", body); w.Code != 200 || len(f.retried) != 1 || f.retried[0].ID != id {
			t.Errorf("%s: %d, retried %v", body, w.Code, f.retried)
		}
	}
	f.now.Role = web.Viewer
	for _, path := range []string{"retry", "pause", "resume"} {
		if w := ask(site, fullToken, "POST", "/api/v1/"+path, "{}"); w.Code != 403 {
			t.Errorf("%s of a viewer: %d", path, w.Code)
		}
	}
	off := newSite(t, f, nil)
	for path, want := range map[string]int{"retry": 403, "pause": 403, "resume": 403, "resolve": 400} {
		if w := ask(off, fullToken, "POST", "/api/v1/"+path, "{}"); w.Code != want {
			t.Errorf("%s without actions: %d, want %d", path, w.Code, want)
		}
	}
}

// What the database refuses is named by the API and by the page.
func TestRetryRefused(t *testing.T) {
	f := newFake(t, "")
	f.refused = []web.Refusal{{ID: backlog.NewKey(int64(150)), Error: "UNIQUE <failed>"}, {ID: backlog.NewKey("a", int64(7)), Error: "so it is"}}
	site := newSite(t, f, func(s *web.Settings) { s.Actions = true })
	const want = `{"selected":1240,"reset":1236,"conflicts":2,"refused":2,"refusals":[{"id":150,"error":"UNIQUE \u003cfailed\u003e"},{"id":["a",7],"error":"so it is"}]}`
	if w := ask(site, fullToken, "POST", "/api/v1/retry", `{"filter":{"lane":"failed"},"expect":1240}`); w.Code != 200 || strings.TrimSpace(w.Body.String()) != want {
		t.Errorf("got %d %s, want %s", w.Code, w.Body, want)
	}
	c := logIn(t, site, fullToken)
	w := visit(site, "POST", "/retry?lane=failed", map[string][]string{"expect": {"1240"}}, c)
	page := visit(site, "GET", w.Header().Get("Location"), nil, c).Body.String()
	checkPage(t, "the page after a retry", page)
	for _, want := range []string{"Put back: 1236.", "Refused by the database: 2.", `150, [&#34;a&#34;,7]`, "UNIQUE &lt;failed&gt;"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q: %s", want, page)
		}
	}
}

// A page and the API retry in the same two steps.
func TestTwoSteps(t *testing.T) {
	f := newFake(t, "")
	site := newSite(t, f, func(s *web.Settings) { s.Actions = true })
	c := logIn(t, site, fullToken)
	w := visit(site, "POST", "/retry?band=1d&cause=full", nil, c)
	for _, want := range []string{"1,240 records would be retried", "failed records of the band 1d whose last error has full", `value="1240"`, `action="/retry?band=1d&amp;cause=full"`, "/record?id=81701"} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("the first step does not have %q: %s", want, w.Body)
		}
	}
	checkPage(t, "the first step", w.Body.String())
	if len(f.retried) > 0 {
		t.Fatal("the first step did something")
	}
	f.choice = 1253
	if w = visit(site, "POST", "/retry?band=1d&cause=full", map[string][]string{"expect": {"1240"}}, c); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), `value="1253"`) || len(f.retried) > 0 {
		t.Errorf("after the number has grown: %d %s", w.Code, w.Body)
	}
	f.choice = 1252
	if w = visit(site, "POST", "/retry?band=1d&cause=full", map[string][]string{"expect": {"1240"}}, c); w.Header().Get("Location") != "/records?band=1d&cause=full&conflicts=2&retried=1250" || len(f.retried) != 1 {
		t.Errorf("the second step: %d %v", w.Code, w.Header())
	}
	f.choice = 100_001
	if w = visit(site, "POST", "/retry", nil, c); !strings.Contains(w.Body.String(), "100,001 records would be retried: that is more than 100,000") || strings.Contains(w.Body.String(), `name="expect"`) {
		t.Errorf("too many: %s", w.Body)
	}
	if w = visit(site, "POST", "/pause", map[string][]string{"until": {"2026-03-05T13:00"}, "reason": {"a <b>"}}, c); !strings.Contains(w.Body.String(), "2026-03-05 13:00:00 UTC") || len(f.paused) > 0 {
		t.Errorf("pause, first step: %s", w.Body)
	}
	visit(site, "POST", "/pause", map[string][]string{"until": {"2026-03-05T13:00:00Z"}, "reason": {"a <b>"}, "confirm": {"yes"}}, c)
	if len(f.paused) != 1 || !f.paused[0].Until.Equal(time.Date(2026, 3, 5, 13, 0, 0, 0, time.UTC)) || f.paused[0].Reason != "a <b>" {
		t.Errorf("paused %v", f.paused)
	}
	if w = visit(site, "GET", "/passes", nil, c); !strings.Contains(w.Body.String(), "Paused</strong> until 2026-03-05 13:00:00 UTC (a &lt;b&gt;)") {
		t.Errorf("a page during the pause: %s", w.Body)
	}
	if visit(site, "POST", "/resume", nil, c); len(f.paused) != 1 {
		t.Error("resumed in one step")
	}
	if visit(site, "POST", "/resume", map[string][]string{"confirm": {"yes"}}, c); len(f.paused) != 2 || f.paused[1] != nil {
		t.Error("not resumed")
	}
}

func TestHealth(t *testing.T) {
	f := newFake(t, "")
	site := newSite(t, f, nil)
	for _, c := range []struct {
		change         func(n *web.Now)
		healthy, ready int
	}{
		{func(*web.Now) {}, 200, 200},
		{func(n *web.Now) { n.Role = web.Standby }, 200, 200},
		{func(n *web.Now) { n.Woke = noon.Add(-121 * time.Second) }, 503, 200},
		{func(n *web.Now) { n.Trouble = &watch.Trouble{Error: "no connection to db.internal"} }, 200, 503},
		{func(n *web.Now) { n.Trouble = &watch.Trouble{Passes: true, Error: "no rights on db.internal"} }, 200, 503},
		{func(n *web.Now) { n.Role, n.Trouble = web.Viewer, &watch.Trouble{Passes: true} }, 200, 200},
		{func(n *web.Now) { n.Role, n.Trouble = web.Viewer, new(watch.Trouble) }, 200, 503},
		{func(n *web.Now) { n.Stopping = true }, 200, 503},
		{func(n *web.Now) { n.Role, n.Woke = web.Viewer, time.Time{} }, 200, 200},
	} {
		before := f.now
		c.change(&f.now)
		for path, want := range map[string]int{"/healthz": c.healthy, "/readyz": c.ready} {
			w := visit(site, "GET", path, nil)
			body := w.Body.String()
			testkit.Equal(t, path, w.Code, want)
			testkit.Equal(t, path+": lines", strings.Count(body, "\n"), 1)
			testkit.NotContains(t, path, body, "db.internal")
			if !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s: got %q, want JSON", path, body)
			}
		}
		f.now = before
	}
}

// answer sends a request with the read token.
func answer(site http.Handler, r *http.Request) *httptest.ResponseRecorder {
	r.Header.Set("Authorization", "Bearer "+readToken)
	w := httptest.NewRecorder()
	site.ServeHTTP(w, r)
	return w
}

// Whole numbers that a script would round are texts, in keys of any kind.
func TestExact(t *testing.T) {
	f := newFake(t, "")
	site := newSite(t, f, nil)
	for _, c := range []struct {
		key  backlog.Key
		want string
	}{
		{
			key:  backlog.NewKey(int64(1) << 53),
			want: `9007199254740992`,
		}, {
			key:  backlog.NewKey(int64(-1)<<53 - 1),
			want: `"-9007199254740993"`,
		}, {
			key:  backlog.NewKey("9007199254740993"),
			want: `"9007199254740993"`,
		},
		{
			key:  backlog.NewKey(`a"9007199254740993`),
			want: `"a\"9007199254740993"`,
		}, {
			key:  backlog.NewKey(`\`, int64(9007199254740993)),
			want: `["\\","9007199254740993"]`,
		}, {
			key:  backlog.NewKey(0.1234567890123456789),
			want: `0.12345678901234568`,
		},
	} {
		f.records[0].ID = c.key
		if w := ask(site, readToken, "GET", "/api/v1/records?limit=1", ""); !strings.Contains(w.Body.String(), `{"id":`+c.want+`,`) || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%v: %.100s, want %s", c.key, w.Body, c.want)
		}
	}
}
