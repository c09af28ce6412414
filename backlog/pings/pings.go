// Package pings tells a service such as healthchecks by HTTP that passes start and end, so
// that somebody hears when they do not.
package pings

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"backlog/backlog"
	"backlog/tiers"
)

const (
	waiting = 100              // pings that wait to be sent; more are dropped
	timeout = 10 * time.Second // of one try
	tries   = 3

	patience = 3 * time.Second // with what is queued at the end
	seldom   = time.Minute     // no result of a tier that ticks more often is repeated sooner
)

// Pings tells of passes. All methods may be called concurrently; none waits for the network
// but Close.
type Pings struct {
	log    *slog.Logger
	sent   func(result string) // success, failure or dropped
	client *http.Client
	pause  time.Duration // before the second try; twice as long before the third
	stop   context.CancelFunc
	queue  chan ping
	done   chan struct{} // closed when the queue is at its end
	failed bool          // the last ping, which is logged

	mu       sync.Mutex // guards what follows
	closed   bool
	settings Settings
	last     map[string]told     // by tier; one that ticks seldom has none
	covered  map[string][]string // tiers whose ticks a pass of the tier covers
}

// told is what was sent last for a tier that ticks often.
type told struct {
	how string
	at  time.Time
}

// A ping is one request.
type ping struct {
	tier, url string
	body      []byte
}

// New returns pings that nobody is told of until Configure. sent is called with what has
// become of each: success, failure or dropped.
func New(log *slog.Logger, sent func(result string)) *Pings {
	ctx, stop := context.WithCancel(context.Background())
	p := &Pings{
		log: log, sent: sent, pause: time.Second, stop: stop,
		queue: make(chan ping, waiting), done: make(chan struct{}), covered: make(map[string][]string),
		client: &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone(), Timeout: timeout, CheckRedirect: sameHost},
	}
	go p.run(ctx)
	return p
}

// sameHost refuses redirects by which somebody else would learn the key.
func sameHost(r *http.Request, via []*http.Request) error {
	from := via[len(via)-1].URL
	if r.URL.Host != from.Host || from.Scheme == "https" && r.URL.Scheme != "https" || len(via) > 3 {
		return errors.New("it redirects to another host")
	}
	return nil
}

// Configure tells of passes from now on as the settings say: without a URL, of none.
func (p *Pings) Configure(s Settings, list []tiers.Tier) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := make(map[string]told)
	for _, t := range list {
		if t.Every > 0 && t.Every < seldom {
			last[t.Name] = p.last[t.Name]
		}
	}
	p.settings, p.last = s, last
}

// Observe takes one event.
func (p *Pings) Observe(ev backlog.Event) {
	if ev.Kind != backlog.TierCovered && ev.Kind != backlog.PassStarted && ev.Kind != backlog.PassEnded {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if ev.Kind == backlog.TierCovered {
		if !slices.Contains(p.covered[ev.By], ev.Tier) {
			p.covered[ev.By] = append(p.covered[ev.By], ev.Tier)
		}
		return
	}
	list := append([]string{ev.Tier}, p.covered[ev.Tier]...)
	how := "/start"
	var body []byte
	if ev.Kind == backlog.PassEnded {
		how = p.result(ev.Report)
		body, _ = json.Marshal(ev.Report) // numbers and words of ours alone
		if how != "/log" {                // else the rest of the pass comes
			delete(p.covered, ev.Tier)
		}
	}
	for _, tier := range list {
		p.tell(tier, how, body, ev.At)
	}
}

// result is what the end of a pass is, as the end of the URL.
func (p *Pings) result(r *backlog.Report) string {
	switch r.Stopped {
	case backlog.StoppedError:
		return "/fail"
	case backlog.StoppedSignal, backlog.StoppedReload, backlog.StoppedLock, backlog.StoppedPause:
		return "/log"
	}
	n, most := r.Succeeded+r.Failed+r.Rejected, p.settings.FailIf.FailedRatio
	if n > 0 && most > 0 && float64(r.Failed) >= most*float64(n) {
		return "/fail"
	}
	return ""
}

// tell queues a ping, if the tier's are wanted. The caller holds the lock.
func (p *Pings) tell(tier, how string, body []byte, now time.Time) {
	s := &p.settings
	if p.closed || s.URL == "" || !slices.Contains(s.Tiers, all) && !slices.Contains(s.Tiers, tier) {
		return
	}
	if last, often := p.last[tier]; often {
		if since := now.Sub(last.at); how == "/start" || how == last.how && since >= 0 && since < seldom {
			return
		}
		p.last[tier] = told{how, now}
	}
	base, query, asks := strings.Cut(strings.ReplaceAll(s.URL, "{tier}", url.PathEscape(tier)), "?")
	address := strings.TrimSuffix(base, "/") + how
	if asks {
		address += "?" + query
	}
	select {
	case p.queue <- ping{tier, address, body}:
	default:
		p.sent("dropped")
	}
}

// Close sends what is queued, for three seconds or until hard is closed; the rest is dropped.
func (p *Pings) Close(hard <-chan struct{}) {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.queue)
	}
	p.mu.Unlock()
	select {
	case <-p.done:
	case <-hard:
	case <-time.After(patience):
	}
	p.stop()
	<-p.done
	p.client.CloseIdleConnections()
}

func (p *Pings) run(ctx context.Context) {
	defer close(p.done)
	for x := range p.queue {
		err := p.send(ctx, x)
		if ctx.Err() != nil {
			p.sent("dropped")
			continue
		}
		if err != nil && !p.failed {
			p.log.Warn("a ping was not taken", "tier", x.tier, "error", shown(err))
		} else if err == nil && p.failed {
			p.log.Info("pings are taken again", "tier", x.tier)
		}
		p.failed = err != nil
		p.sent(map[bool]string{true: "failure", false: "success"}[p.failed])
	}
}

// shown returns an error's text without URLs: ours has a key, a proxy's may have a password.
func shown(err error) string {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		err = e.Err
	}
	if text := err.Error(); !strings.Contains(text, "://") && !strings.Contains(text, "@") {
		return text
	}
	return "a redirect, or the proxy of the environment, has an address that cannot be read"
}

// send sends a ping, again where it may be taken then.
func (p *Pings) send(ctx context.Context, x ping) error {
	for n := 0; ; n++ {
		status, err := p.try(ctx, x)
		passes := err != nil || status >= 500 || status == http.StatusTooManyRequests
		if err == nil && status >= 300 {
			err = fmt.Errorf("the answer was %d %s", status, http.StatusText(status))
		}
		if err == nil || !passes || n == tries-1 {
			return err
		}
		backlog.Sleep(ctx, p.pause<<n)
	}
}

func (p *Pings) try(ctx context.Context, x ping) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, x.url, bytes.NewReader(x.body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("User-Agent", "backlog/1")
	r.Header.Set("Content-Type", "application/json")
	answer, err := p.client.Do(r)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection is used again
	return answer.StatusCode, answer.Body.Close()
}

// Settings are what the configuration says of whoever is told of passes. URL may be secret
// and must not be printed.
type Settings struct {
	URL    string   `yaml:"url,env" required:"https://hc-ping.com/KEY/{tier}"` // {tier} stands for the tier's name, escaped
	Tiers  []string `yaml:"tiers,names" want:"the name of a tier, a list of them, or all"`
	FailIf FailIf   `yaml:"fail_if"`
}

// FailIf says which passes are failures beside those that end with an error.
type FailIf struct {
	FailedRatio float64 `yaml:"failed_ratio"` // at least so many of the attempts failed; 0: never
}

// NewSettings returns the defaults.
func NewSettings() *Settings { return &Settings{Tiers: []string{all}} }

// CheckTiers returns an error if the settings name a tier that the schedule does not have.
func (s *Settings) CheckTiers(list []tiers.Tier) error {
	for _, name := range s.Tiers {
		if name != all && !slices.ContainsFunc(list, func(t tiers.Tier) bool { return t.Name == name }) {
			return fmt.Errorf("pings: tiers: the schedule has no tier %q", name)
		}
	}
	return nil
}

// all is what stands for every tier.
const all = "all"

// Check reports what is wrong with the settings themselves. Nothing secret is in what it says.
func (s *Settings) Check(fail func(field, problem string)) {
	u, err := url.Parse(strings.ReplaceAll(s.URL, "{tier}", "1d"))
	switch {
	case s.URL == "":
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		fail("url", "is no address; write one such as https://hc-ping.com/KEY/{tier}")
	case !strings.Contains(s.URL, "{tier}") && (len(s.Tiers) != 1 || s.Tiers[0] == all):
		fail("url", "has no {tier}: a tier that works would hide one that does not; add it, or name one tier in tiers")
	}
	if r := s.FailIf.FailedRatio; r < 0 || r > 1 {
		fail("fail_if.failed_ratio", "must be from 0 to 1: the share of attempts that failed")
	}
}
