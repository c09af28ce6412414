package web

import (
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/semaphore"
)

// A Site serves the pages, the API and the health probes. Its methods may be called concurrently.
type Site struct {
	// Metrics, if not nil, answers /metrics for visitors with a token. It is set before the first
	// request.
	Metrics http.Handler
	// Now is the clock.
	Now func() time.Time

	backlog     Backlog
	log         *slog.Logger
	setup       atomic.Pointer[setup]
	crossOrigin *http.CrossOriginProtection

	requests   *semaphore.Weighted // bounds the requests with a token that are answered at a time
	strangers  *semaphore.Weighted // bounds those without one: they can delay logins, and no other page
	database   *semaphore.Weighted // held by the one request that asks the database
	simulating sync.Mutex          // held by the one request that simulates
	answers    [6]atomic.Int64     // by the first digit of the status

	mu       sync.Mutex
	sessions *simplelru.LRU[string, session]
	plots    *simplelru.LRU[string, []byte] // of the last simulations
}

// A setup is what a reload replaces.
type setup struct {
	Settings
	prefix string // of all paths, without a slash at its end
	tokens Tokens
	tls    *tls.Config // nil: no TLS
}

// New returns a site that shows b. Paths in the settings are relative to dir.
func New(s Settings, dir string, t Tokens, b Backlog, log *slog.Logger) (*Site, error) {
	parseTemplates()
	site := &Site{
		Now:         time.Now,
		backlog:     b,
		log:         log,
		crossOrigin: http.NewCrossOriginProtection(),
		requests:    semaphore.NewWeighted(maxRequests),
		strangers:   semaphore.NewWeighted(maxRequests),
		database:    semaphore.NewWeighted(1),
	}
	site.sessions, _ = simplelru.NewLRU[string, session](maxSessions, nil) // no error: the size is more than 0
	site.plots, _ = simplelru.NewLRU[string, []byte](maxPlots, nil)
	return site, site.Reload(s, dir, t)
}

// Reload replaces the settings, all but the address, and the tokens. If it fails, nothing changes.
// Sessions continue if their token still exists.
func (s *Site) Reload(set Settings, dir string, t Tokens) error {
	next := &setup{Settings: set, prefix: strings.TrimSuffix(set.PathPrefix, "/"), tokens: t}
	if set.TLS.Cert != "" {
		cert, err := tls.LoadX509KeyPair(inDir(dir, set.TLS.Cert), inDir(dir, set.TLS.Key))
		if err != nil {
			return fmt.Errorf("web.tls: %w", err)
		}
		next.tls = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	}
	s.setup.Store(next)
	return nil
}

// Answers returns how many requests were answered with a status of each class; the index is its first
// digit.
func (s *Site) Answers() (n [6]int64) {
	for i := range n {
		n[i] = s.answers[i].Load()
	}
	return n
}

// random returns 128 random bits from a secure generator, in hexadecimal.
func random() string {
	b := make([]byte, 16)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// A visit is one request that is being answered. Templates use its exported fields and methods.
type visit struct {
	*Site
	set     *setup
	w       http.ResponseWriter
	r       *http.Request
	path    string // below the prefix; "": outside of it
	last    string // the last element of the path, where the route has {}
	right   Right
	session string // the value of its cookie; "": the right comes from a bearer token
	at      time.Time
	code    int // the status that the answer shall have; 0: 200
	Now     Now // set if the visitor has a right

	sentStatus int // the status that was sent; 0: the answer has not begun
}

// A route is what a path and a method lead to.
type route struct {
	need  Right
	acts  bool   // it is an action, for which web.actions must be set
	probe bool   // for machines: answered however busy the site is and, without a need, under any host name
	page  string // the template for what show returns; "": the API only
	show  func(*visit) (any, error)
	serve func(*visit) error // writes the answer itself, instead of show
}

// routes returns the routes by path below the prefix and by method. HEAD is treated as GET. The last
// element of a path may be {}, which stands for any.
var routes = sync.OnceValue(func() map[string]map[string]route {
	list := map[string]map[string]route{
		"/healthz":   {http.MethodGet: {probe: true, serve: (*visit).healthz}},
		"/readyz":    {http.MethodGet: {probe: true, serve: (*visit).readyz}},
		"/metrics":   {http.MethodGet: {need: Read, probe: true, serve: (*visit).metrics}},
		"/static/{}": {http.MethodGet: {serve: (*visit).static}},
		"/login":     {http.MethodGet: {serve: (*visit).loginForm}, http.MethodPost: {page: "login", show: (*visit).login}},
		"/logout":    {http.MethodPost: {show: (*visit).logout}},
		"/export/{}": {http.MethodGet: {need: Read, serve: (*visit).export}},
		"/plot/{}":   {http.MethodGet: {need: Read, serve: (*visit).plot}},

		"/":          see("front", func(*visit) (any, error) { return nil, nil }),
		"/passes":    see("passes", (*visit).passes),
		"/passes/{}": see("pass", (*visit).pass),
		"/causes":    see("causes", (*visit).causes),
		"/records":   see("records", (*visit).records),
		"/record":    see("record", (*visit).record),
		"/schedule":  see("schedule", (*visit).schedule),
		"/retry":     act((*visit).retry),
		"/pause":     act((*visit).pause),
		"/resume":    act((*visit).resume),

		"/api/v1/status":   see("", (*visit).status),
		"/api/v1/schedule": see("", (*visit).schedule),
		"/api/v1/explain":  see("", (*visit).record),
		"/api/v1/suspects": see("", (*visit).suspects),
		"/api/v1/simulate": {http.MethodPost: {need: Read, show: (*visit).simulate}},
		"/api/v1/resolve":  {http.MethodPost: {need: Full, show: (*visit).resolve}},
	}
	// These pages are in the API as well.
	for _, name := range []string{"passes", "causes", "records", "retry", "pause", "resume"} {
		list["/api/v1/"+name] = list["/"+name]
	}
	list["/schedule"][http.MethodPost] = list["/schedule"][http.MethodGet]
	return list
})

// see returns the route to a page or, if page is "", to an answer of the API.
func see(page string, show func(*visit) (any, error)) map[string]route {
	return map[string]route{http.MethodGet: {need: Read, page: page, show: show}}
}

// act returns the route to an action. Its page asks for a confirmation.
func act(show func(*visit) (any, error)) map[string]route {
	return map[string]route{http.MethodPost: {need: Full, acts: true, page: "confirm", show: show}}
}

// find returns the routes of a path by method, and the path's last element if the route has {}.
func find(path string) (map[string]route, string) {
	if m, ok := routes()[path]; ok {
		return m, ""
	}
	i := strings.LastIndexByte(path, '/') + 1
	return routes()[path[:i]+"{}"], path[i:]
}

// ServeHTTP implements [http.Handler].
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := &visit{Site: s, set: s.setup.Load(), w: w, r: r, path: r.URL.Path, at: s.Now()}
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("a page panicked", "path", v.path, "panic", fmt.Sprint(p))
			v.fail(&Problem{http.StatusServiceUnavailable, "This page failed; the log says why."})
		}
		s.answers[v.sentStatus/100].Add(1)
	}()
	v.headers()
	v.path = v.set.withoutPrefix(v.path)
	if err := v.answer(); err != nil {
		v.fail(err)
	}
}

// isProbe reports whether a GET of the path is a probe.
func isProbe(path string) bool {
	methods, _ := find(path)
	return methods[http.MethodGet].probe
}

// withoutPrefix returns the path below the prefix. Probes are also found outside of it; for other
// paths there it returns "".
func (s *setup) withoutPrefix(path string) string {
	if path == s.prefix {
		return "/"
	}
	if rest, ok := strings.CutPrefix(path, s.prefix+"/"); ok {
		return "/" + rest
	}
	if isProbe(path) {
		return path
	}
	return ""
}

// answer checks host, origin, token and method, in this order, and answers the request.
func (v *visit) answer() error {
	methods, last := find(v.path)
	method := v.r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	rt, known := methods[method]
	if !known {
		rt.need = Read
	}
	v.last = last
	bearer := v.set.tokens.Bearer(v.r)
	if err := v.checkHost(bearer, rt.probe && rt.need == None); err != nil {
		return err
	}
	if err := v.checkOrigin(); err != nil {
		return err
	}
	if err := v.checkRight(bearer, rt.need); err != nil {
		return err
	}
	switch {
	case methods == nil:
		return &Problem{http.StatusNotFound, "There is no such page."}
	case !known:
		for m := range methods {
			v.w.Header().Add("Allow", m)
		}
		return &Problem{http.StatusMethodNotAllowed, "This address does not take " + v.r.Method + "."}
	case rt.acts && v.Now.Role == Viewer:
		return &Problem{http.StatusForbidden, "No daemon runs in this process, and nothing can be changed here."}
	case rt.acts && !v.set.Actions:
		return &Problem{http.StatusForbidden, "Actions are off; web.actions: true in the configuration switches them on."}
	case rt.probe:
		return rt.serve(v)
	}
	requests := v.requests
	if v.right == None {
		requests = v.strangers
	}
	if !requests.TryAcquire(1) {
		v.w.Header().Set("Retry-After", "1")
		return &Problem{http.StatusTooManyRequests, fmt.Sprintf("%d requests are being answered already; try again.", maxRequests)}
	}
	defer requests.Release(1)
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxBody)
	if rt.serve != nil {
		return rt.serve(v)
	}
	data, err := rt.show(v)
	if err != nil {
		return err
	}
	status := cmp.Or(v.code, http.StatusOK)
	result, acted := data.(actionResult)
	switch {
	case acted && v.api():
		return v.json(status, result.answer)
	case acted:
		v.redirect(result.next)
	case v.api():
		return v.json(status, data)
	default:
		live := v.r.Method != http.MethodPost && rt.page != "schedule"
		v.render(status, page{Name: rt.page, Live: live, Data: data})
	}
	return nil
}

// api reports whether the answer is JSON.
func (v *visit) api() bool { return strings.HasPrefix(v.path, "/api/") }

// fail answers with an error. If the body was too large, it says so, whichever problem that has led
// to.
func (v *visit) fail(err error) {
	var p *Problem
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		p = &Problem{http.StatusRequestEntityTooLarge, fmt.Sprintf("The body is larger than %d KiB.", maxBody>>10)}
	} else if !errors.As(err, &p) {
		p = &Problem{http.StatusServiceUnavailable, "This could not be read; the log says why."}
		if v.r.Context().Err() == nil {
			v.log.Warn("a page failed", "path", v.path, "error", err)
		}
	}
	switch {
	case v.sentStatus != 0: // the answer has begun
	case v.api():
		v.json(p.Status, map[string]string{"error": p.Text})
	case p.Status == http.StatusUnauthorized && v.r.Method == http.MethodGet && strings.Contains(v.r.Header.Get("Accept"), "text/html"):
		next := &url.URL{Path: v.path, RawQuery: v.r.URL.RawQuery}
		v.redirect("/login?" + url.Values{"next": {next.String()}}.Encode())
	default:
		v.render(p.Status, page{Name: "error", Data: [2]string{http.StatusText(p.Status), p.Text}})
	}
}

// write sends a whole answer.
func (v *visit) write(status int, kind string, body []byte) {
	v.w.Header().Set("Content-Type", kind)
	v.sentStatus = status
	v.w.WriteHeader(status)
	if v.r.Method != http.MethodHead {
		v.w.Write(body) // an error means that the visitor has gone
	}
}

// redirect sends the browser to a path below the prefix.
func (v *visit) redirect(path string) {
	v.w.Header().Set("Location", v.set.prefix+path)
	v.sentStatus = http.StatusSeeOther
	v.w.WriteHeader(v.sentStatus)
}
