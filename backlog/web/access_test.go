package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"backlog/backlog/web"
	"backlog/internal/testkit"
)

// addresses are all that there are, with the right that each method needs; "": it is not
// taken.
var addresses = []struct {
	path      string
	get, post string
}{
	{"/healthz", "none", ""}, {"/readyz", "none", ""}, {"/metrics", "read", ""},
	{"/login", "none", "none"}, {"/logout", "", "none"}, {"/static/nothing.css", "none", ""},
	{"/", "read", ""}, {"/passes", "read", ""}, {"/passes/1", "read", ""}, {"/causes", "read", ""}, {"/records", "read", ""}, {"/record?id=81700", "read", ""},
	{"/schedule", "read", "read"}, {"/export/crontab", "read", ""}, {"/plot/1", "read", ""}, {"/retry", "", "full"}, {"/pause", "", "full"}, {"/resume", "", "full"},
	{"/api/v1/status", "read", ""}, {"/api/v1/schedule", "read", ""}, {"/api/v1/explain?id=81700", "read", ""}, {"/api/v1/passes", "read", ""},
	{"/api/v1/causes", "read", ""}, {"/api/v1/records", "read", ""}, {"/api/v1/suspects", "read", ""}, {"/api/v1/simulate", "", "read"},
	{"/api/v1/retry", "", "full"}, {"/api/v1/pause", "", "full"}, {"/api/v1/resume", "", "full"}, {"/api/v1/resolve", "", "full"},
	{"/nothing", "read", ""}, {"/api/v1/nothing", "read", ""},
}

// TestClosed sends every request to every address: an answer that shows something is given
// only by the rules, in their order.
func TestClosed(t *testing.T) {
	f := newFake(t, "")
	f.records = f.records[:3]
	site := newSite(t, f, func(s *web.Settings) { s.Actions = true })
	site.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "metrics") })
	const host = "127.0.0.1:8080"
	origins := []struct {
		name, origin, fetch string
		foreign             bool
	}{
		{"no origin", "", "", false}, {"same origin", "http://" + host, "", false}, {"other origin", "http://evil.example", "", false},
		{"user info", "http://evil@" + host, "", true}, {"null", "null", "", true}, {"other port", "http://127.0.0.1:9", "", false},
		{"fetch same-origin", "http://" + host, "same-origin", false}, {"fetch none", "", "none", false},
		{"fetch same-site", "http://" + host, "same-site", true}, {"fetch cross-site", "", "cross-site", true},
		{"fetch same-origin, user info", "http://evil@" + host, "same-origin", true},
	}
	missing := map[string]bool{"/nothing": true, "/api/v1/nothing": true, "/static/nothing.css": true, "/passes/1": true, "/plot/1": true}
	rank := map[string]int{"none": 0, "read": 1, "full": 2}
	n, resumed := 0, 0 // which takes no more than a POST
	for _, a := range addresses {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "OPTIONS"} {
			for holder, token := range map[string]string{"none": "", "read": readToken, "full": fullToken, "wrong": strings.Repeat("x", 40)} {
				for _, name := range []string{host, "localhost", "evil.example", "127.0.0.1.evil.example:8080", ""} {
					for i, o := range origins {
						if i > 2 && method != "POST" || i > 0 && method != "POST" && method != "GET" {
							continue // read with any origin
						}
						n++
						r := httptest.NewRequest(method, "http://127.0.0.1:8080"+a.path, strings.NewReader(""))
						r.Host = name
						for h, value := range map[string]string{"Origin": o.origin, "Sec-Fetch-Site": o.fetch} {
							if value != "" {
								r.Header.Set(h, value)
							}
						}
						if token != "" {
							r.Header.Set("Authorization", "Bearer "+token)
						}
						w := httptest.NewRecorder()
						site.ServeHTTP(w, r)

						need, safe := a.get, method != "POST" && method != "PUT" && method != "DELETE"
						if method == "POST" {
							need = a.post
						} else if method != "GET" && method != "HEAD" {
							need = ""
						}
						probe := a.path == "/healthz" || a.path == "/readyz"
						evil := strings.Contains(name, "evil") || name == ""
						foreign := !safe && (o.foreign || o.origin != "" && o.origin != "http://"+name)
						want := 0
						switch {
						case evil && rank[holder] == 0 && !(probe && need != ""):
							want = http.StatusMisdirectedRequest
						case foreign:
							want = http.StatusForbidden
						case rank[holder] == 0 && need != "none":
							want = http.StatusUnauthorized
						case need == "full" && holder == "read":
							want = http.StatusForbidden
						case need == "" && !strings.HasSuffix(a.path, "/nothing"):
							want = http.StatusMethodNotAllowed
						case missing[a.path]:
							want = http.StatusNotFound
						}
						where := fmt.Sprintf("%s %s as %q, %s token, %s", method, a.path, name, holder, o.name)
						if a.path == "/api/v1/resume" && w.Code == http.StatusOK {
							resumed++
						}
						logsIn := a.path == "/login" && method == "POST" // refused without the token in its form
						switch {
						case want != 0:
							testkit.Equal(t, where, w.Code, want)
						case !logsIn && slices.Contains([]int{401, 403, 404, 405, 421}, w.Code):
							t.Errorf("%s: got %d, want it to be let in", where, w.Code)
						}
						checkHeaders(t, where, w)
						if w.Code >= 400 {
							testkit.NotContains(t, where, w.Body.String(), "12,403")
							if rank[holder] == 0 {
								testkit.NotContains(t, where, w.Body.String(), "db.internal")
							}
						}
					}
				}
			}
		}
	}
	if len(f.retried)+len(f.paused)-resumed+len(f.resolved) > 0 {
		t.Errorf("something was done: %v %v %v", f.retried, f.paused, f.resolved)
	}
	t.Logf("%d requests", n)
}

func checkHeaders(t *testing.T, where string, w *httptest.ResponseRecorder) {
	t.Helper()
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if got := w.Header().Get(name); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s: %q, want %q", where, name, got, want)
		}
	}
}

// visit sends a request of a browser with the cookies.
func visit(site http.Handler, method, address string, form url.Values, cookies ...*http.Cookie) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:8080"+address, strings.NewReader(form.Encode()))
	r.Header.Set("Accept", "text/html,*/*")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://"+r.Host)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	site.ServeHTTP(w, r)
	return w
}

func logIn(t *testing.T, site http.Handler, token string) *http.Cookie {
	t.Helper()
	w := visit(site, "POST", "/login", url.Values{"token": {token}, "next": {"/records?band=1d"}})
	if w.Code != http.StatusSeeOther || len(w.Result().Cookies()) != 1 {
		t.Fatalf("login: %d %s", w.Code, w.Body)
	}
	return w.Result().Cookies()[0]
}

func TestLogin(t *testing.T) {
	f := newFake(t, "")
	site := newSite(t, f, nil)
	if w := visit(site, "GET", "/?refresh=30", nil); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/login?next=%2F%3Frefresh%3D30" {
		t.Errorf("a browser without session: %d %s", w.Code, w.Header())
	}
	if w := visit(site, "POST", "/login", url.Values{"token": {"wrong"}}); w.Code != http.StatusUnauthorized || len(w.Result().Cookies()) > 0 {
		t.Errorf("the wrong token: %d", w.Code)
	}
	c := logIn(t, site, fullToken)
	testkit.Equal(t, "the cookie is HttpOnly", c.HttpOnly, true)
	testkit.Equal(t, "the cookie's SameSite", c.SameSite, http.SameSiteStrictMode)
	testkit.Equal(t, "the cookie's path", c.Path, "/")
	testkit.Equal(t, "the cookie is Secure", c.Secure, false)
	testkit.NotContains(t, "the cookie", c.Value, fullToken)
	testkit.Equal(t, "the cookie's length", len(c.Value), 32)
	for next, want := range map[string]string{
		"/records?band=1d": "/records?band=1d", "//evil.example/": "/", "/%2Fevil.example/": "/", "/%5Cevil.example/": "/", "https://evil.example/": "/", `/\evil.example`: "/", "javascript:alert(1)": "/", "": "/", "x": "/",
		"/\t/evil.example": "/", "/%2Fevil.example": "/", "/%5Cevil.example": "/", "/a//b": "/a//b",
	} {
		if w := visit(site, "POST", "/login", url.Values{"token": {readToken}, "next": {next}}); w.Header().Get("Location") != want {
			t.Errorf("next %q leads to %q", next, w.Header().Get("Location"))
		}
	}
	if w := visit(site, "GET", "/", nil, c); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "12,403") {
		t.Errorf("with a session: %d %s", w.Code, w.Body)
	}
	if w := visit(site, "GET", "/login", nil, c); w.Code != http.StatusSeeOther {
		t.Errorf("login with a session: %d", w.Code)
	}
	if w := visit(site, "POST", "/logout", nil, c); w.Code != http.StatusSeeOther || w.Result().Cookies()[0].MaxAge >= 0 {
		t.Errorf("logout: %d", w.Code)
	}
	if w := visit(site, "GET", "/", nil, c); w.Code != http.StatusSeeOther {
		t.Errorf("after the logout: %d", w.Code)
	}
}

// Sessions outlive a reload unless their token is another one then; at most 100 are kept,
// for 12 hours.
func TestSessions(t *testing.T) {
	f := newFake(t, "")
	site := newSite(t, f, nil)
	first, reader := logIn(t, site, fullToken), logIn(t, site, readToken)
	s := web.NewSettings()
	s.Hosts = []string{"other.example"}
	full := t.TempDir()
	testkit.WriteFile(t, full+"/web.token", fullToken)
	tokens, err := s.ReadTokens(full, full)
	if err != nil {
		t.Fatal(err)
	}
	if err := site.Reload(*s, full, tokens); err != nil {
		t.Fatal(err)
	}
	if w := visit(site, "GET", "/", nil, first); w.Code != http.StatusOK {
		t.Errorf("after the reload: %d", w.Code)
	}
	if w := visit(site, "GET", "/", nil, reader); w.Code != http.StatusSeeOther {
		t.Errorf("with a session of a token that is no more: %d", w.Code)
	}
	for range 100 {
		logIn(t, site, fullToken)
	}
	later := noon
	site.Now = func() time.Time { later = later.Add(time.Second); return later }
	last := logIn(t, site, fullToken)
	if w := visit(site, "GET", "/", nil, last); w.Code != http.StatusOK {
		t.Errorf("the newest of too many: %d", w.Code)
	}
	later = later.Add(12 * time.Hour)
	if w := visit(site, "GET", "/", nil, last); w.Code != http.StatusSeeOther {
		t.Errorf("after 12 hours: %d", w.Code)
	}
}

func TestPrefixAndProxy(t *testing.T) {
	f := newFake(t, "")
	site := newSite(t, f, func(s *web.Settings) { s.PathPrefix, s.BehindProxy, s.Listen = "/backlog", true, "0.0.0.0:8080" })
	w := visit(site, "POST", "/backlog/login", url.Values{"token": {fullToken}, "next": {"/passes"}})
	c := w.Result().Cookies()[0]
	testkit.Equal(t, "where the login leads", w.Header().Get("Location"), "/backlog/passes")
	if !strings.HasPrefix(c.Name, "__Host-") {
		t.Errorf("the cookie is named %s, want __Host-…", c.Name)
	}
	testkit.Equal(t, "the cookie is Secure", c.Secure, true)
	testkit.Equal(t, "the cookie's path", c.Path, "/")
	for path, want := range map[string]int{"/backlog": 200, "/backlog/": 200, "/": 404, "/backlogs": 404, "/healthz": 200, "/backlog/healthz": 200, "/login": 404} {
		if w := visit(site, "GET", path, nil, c); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		} else if want == 200 && strings.Contains(w.Body.String(), `href="/p`) {
			t.Errorf("%s has a link without the prefix", path)
		}
	}
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		change func(*web.Settings)
		want   string
	}{
		{func(s *web.Settings) {}, ""},
		{func(s *web.Settings) { s.Listen = "" }, ""},
		{func(s *web.Settings) { s.Listen = "localhost:0" }, ""},
		{func(s *web.Settings) { s.Listen = "[::1]:80" }, ""},
		{func(s *web.Settings) { s.Listen = "unix:/run/web.sock" }, ""},
		{func(s *web.Settings) { s.Listen = "unix:" }, "listen: must"},
		{func(s *web.Settings) { s.Listen = "8080" }, "listen: must"},
		{func(s *web.Settings) { s.Listen = "127.0.0.1" }, "listen: must"},
		{func(s *web.Settings) { s.Listen = ":8080" }, "listen: is reached"},
		{func(s *web.Settings) { s.Listen = "10.0.0.1:8080" }, "listen: is reached"},
		{func(s *web.Settings) { s.Listen, s.BehindProxy = "10.0.0.1:8080", true }, ""},
		{func(s *web.Settings) { s.Listen, s.TLS = ":443", web.TLS{Cert: "a", Key: "b"} }, ""},
		{func(s *web.Settings) { s.TLS.Cert = "a" }, "tls: needs both"},
		{func(s *web.Settings) { s.Hosts = []string{"ok.example", "http://x"} }, "hosts[1]: must"},
		{func(s *web.Settings) { s.Hosts = []string{"a.example:80"} }, "hosts[0]: must"},
		{func(s *web.Settings) { s.PathPrefix = "/a/b" }, ""},
		{func(s *web.Settings) { s.PathPrefix = "/a/" }, "path_prefix: must"},
		{func(s *web.Settings) { s.PathPrefix = "a" }, "path_prefix: must"},
		{func(s *web.Settings) { s.PathPrefix = "/../a" }, "path_prefix: must"},
	} {
		s, got := web.NewSettings(), ""
		s.Listen = "127.0.0.1:8080"
		c.change(s)
		s.Check(func(field, problem string) { got += field + ": " + problem + "\n" })
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%+v: %q, want %q", s, got, c.want)
		}
	}
}

func TestTokens(t *testing.T) {
	dir := t.TempDir()
	s := web.NewSettings()
	if _, err := s.ReadTokens(dir, ""); err == nil || !strings.Contains(err.Error(), "token_file") {
		t.Errorf("nowhere to keep a token: %v", err)
	}
	if _, err := s.ReadTokens(dir, dir); err != nil {
		t.Fatal(err)
	}
	info, _ := os.Stat(s.TokenPath(dir, dir))
	first, _ := os.ReadFile(s.TokenPath(dir, dir))
	if info.Mode() != 0o600 || len(strings.TrimSpace(string(first))) != 64 {
		t.Errorf("the token's file: %v", info.Mode())
	}
	if _, err := s.ReadTokens(dir, dir); err != nil {
		t.Fatal(err)
	} else if again, _ := os.ReadFile(s.TokenPath(dir, dir)); string(again) != string(first) {
		t.Error("the token was made anew")
	}
	s.TokenFile = "short"
	testkit.WriteFile(t, filepath.Join(dir, "short"), strings.Repeat("x", 31))
	if _, err := s.ReadTokens(dir, dir); err == nil || strings.Contains(err.Error(), "xxx") {
		t.Errorf("a short token: %v", err)
	}
	s.TokenFile, s.ReadTokenFile = "same", "same"
	testkit.WriteFile(t, filepath.Join(dir, "same"), strings.Repeat("x", 32))
	if _, err := s.ReadTokens(dir, dir); err == nil {
		t.Error("both tokens are the same")
	}
}

// What is no token file is refused at once, and waits for nobody.
func TestTokenFiles(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(dir+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.WriteFile(t, dir+"/short", "secret")
	testkit.WriteFile(t, dir+"/long", strings.Repeat("x", 5000))
	testkit.WriteFile(t, dir+"/lines", fullToken+"\n"+fullToken)
	for _, name := range []string{"fifo", "short", "long", "lines", "."} {
		s := web.NewSettings()
		s.TokenFile = name
		if _, err := s.ReadTokens(dir, dir); err == nil || strings.Contains(err.Error(), "secret") || s.CheckFiles(dir, dir) == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := web.NewSettings()
	if err := s.CheckFiles(dir, ""); err == nil {
		t.Error("there is no place for a token")
	}
	if err := s.CheckFiles(dir, dir); err != nil {
		t.Errorf("a token that is still to be made: %v", err)
	}
	if _, err := os.Stat(dir + "/web.token"); err == nil {
		t.Error("the check has made a token")
	}
}
