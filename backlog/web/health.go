package web

import (
	"encoding/json"
	"net/http"
	"time"
)

const (
	maxSleep  = 2 * time.Minute  // of a loop that works
	maxSilent = 30 * time.Second // of a database that is there
)

// healthz says whether the loop works. It does not ask for the database: that one is away
// is no reason to kill the daemon.
func (v *visit) healthz() error {
	n := v.backlog.Now()
	return v.probe(n.Role == Viewer || v.at.Sub(n.Woke) <= maxSleep, map[string]any{"role": n.Role})
}

// readyz says whether the process can do its part.
func (v *visit) readyz() error {
	n := v.backlog.Now()
	answers := v.at.Sub(n.Answered) <= maxSilent
	return v.probe(answers && !n.Stopping, map[string]any{"role": n.Role, "database": answers, "stopping": n.Stopping})
}

func (v *visit) probe(ok bool, facts map[string]any) error {
	status := http.StatusOK
	if facts["ok"] = ok; !ok {
		status = http.StatusServiceUnavailable
	}
	b, err := json.Marshal(facts)
	if err == nil {
		v.write(status, "application/json", append(b, '\n'))
	}
	return err
}

func (v *visit) metrics() error {
	if v.Metrics == nil {
		return &Problem{http.StatusNotFound, "Metrics are not served here."}
	}
	v.Metrics.ServeHTTP(v.w, v.r)
	return nil
}

// probes are what a listener for machines answers.
type probes struct {
	*Site
	metrics http.Handler
	open    func() bool
}

func (p probes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := &visit{Site: p.Site, set: p.setup.Load(), w: w, r: r, at: p.now()}
	v.headers()
	health := map[string]func(*visit) error{"/healthz": (*visit).healthz, "/readyz": (*visit).readyz}[r.URL.Path]
	switch {
	case health == nil && r.URL.Path != "/metrics":
		http.Error(w, "Here are only /metrics, /healthz and /readyz.", http.StatusNotFound)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "This address does not take "+r.Method+".", http.StatusMethodNotAllowed)
	case health != nil:
		_ = health(v) // what it writes is JSON
	case !p.open() && v.set.tokens.Bearer(r) == None:
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "A token is needed, as Authorization: Bearer TOKEN; `backlog token` prints it.", http.StatusUnauthorized)
	default:
		p.metrics.ServeHTTP(w, r)
	}
}
