// Package pings sends pings over HTTP to a monitoring service such as Healthchecks when passes start
// and end, so that the service can raise an alarm when no ping comes.
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
	queueSize = 100              // pings that wait to be sent; more are dropped
	timeout   = 10 * time.Second // of one try
	tries     = 3

	patience = 3 * time.Second // for the queue at the end
	// repeatAfter is how long the same result of a tier that ticks more often is not sent again.
	repeatAfter = time.Minute
)

// Pings sends pings about passes. All methods may be called concurrently. Only Close waits for the
// network.
type Pings struct {
	log    *slog.Logger
	sent   func(result string) // success, failure or dropped
	client *http.Client
	pause  time.Duration // before the second try; doubled before the third
	stop   context.CancelFunc
	queue  chan ping
	done   chan struct{} // closed when the queue has ended
	failed bool          // the last ping

	mu       sync.Mutex // guards what follows
	closed   bool
	settings Settings
	last     map[string]lastPing // by tier, for tiers that tick more often than repeatAfter
	covered  map[string][]string // by tier, the tiers that its next or present pass covers
}

// A lastPing is the result that was sent last for a tier.
type lastPing struct {
	suffix string
	at     time.Time
}

// A ping is one request.
type ping struct {
	tier string
	url  string
	body []byte
}

// New returns Pings that sends nothing until it is configured. It calls sent with the result of each
// ping: success, failure or dropped.
func New(log *slog.Logger, sent func(result string)) *Pings {
	ctx, stop := context.WithCancel(context.Background())
	client := &http.Client{
		Transport:     http.DefaultTransport.(*http.Transport).Clone(),
		Timeout:       timeout,
		CheckRedirect: checkRedirect,
	}
	p := &Pings{
		log:     log,
		sent:    sent,
		client:  client,
		pause:   time.Second,
		stop:    stop,
		queue:   make(chan ping, queueSize),
		done:    make(chan struct{}),
		covered: make(map[string][]string),
	}
	go p.run(ctx)
	return p
}

// checkRedirect refuses redirects that would send the key in the URL to another host, or in the clear.
func checkRedirect(r *http.Request, via []*http.Request) error {
	from := via[len(via)-1].URL
	inTheClear := from.Scheme == "https" && r.URL.Scheme != "https"
	if r.URL.Host != from.Host || inTheClear || len(via) > 3 {
		return errors.New("it redirects to another host")
	}
	return nil
}

// Configure sets which pings are sent from now on. Without a URL, none are.
func (p *Pings) Configure(s Settings, list []tiers.Tier) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := make(map[string]lastPing)
	for _, t := range list {
		if t.Every > 0 && t.Every < repeatAfter {
			last[t.Name] = p.last[t.Name]
		}
	}
	p.settings = s
	p.last = last
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
	suffix := "/start"
	var body []byte
	if ev.Kind == backlog.PassEnded {
		suffix = p.suffix(ev.Report)
		body, _ = json.Marshal(ev.Report) // no error: it has only numbers and words
		if suffix != "/log" {             // after that, another pass does the rest
			delete(p.covered, ev.Tier)
		}
	}
	for _, tier := range list {
		p.enqueue(tier, suffix, body, ev.At)
	}
}

// suffix returns the end of the URL for the result of a pass: "" for a success.
func (p *Pings) suffix(r *backlog.Report) string {
	switch r.Stopped {
	case backlog.StoppedError:
		return "/fail"
	case backlog.StoppedSignal, backlog.StoppedReload, backlog.StoppedLock, backlog.StoppedPause:
		return "/log"
	}
	attempts := r.Succeeded + r.Failed + r.Rejected
	ratio := p.settings.FailIf.FailedRatio
	if attempts > 0 && ratio > 0 && float64(r.Failed) >= ratio*float64(attempts) {
		return "/fail"
	}
	return ""
}

// enqueue queues a ping, unless the settings leave it out. The caller holds the lock.
func (p *Pings) enqueue(tier, suffix string, body []byte, now time.Time) {
	s := &p.settings
	wanted := slices.Contains(s.Tiers, all) || slices.Contains(s.Tiers, tier)
	if p.closed || s.URL == "" || !wanted {
		return
	}
	if last, often := p.last[tier]; often {
		since := now.Sub(last.at)
		repeats := suffix == last.suffix && since >= 0 && since < repeatAfter
		if suffix == "/start" || repeats {
			return
		}
		p.last[tier] = lastPing{suffix, now}
	}
	base, query, hasQuery := strings.Cut(strings.ReplaceAll(s.URL, "{tier}", url.PathEscape(tier)), "?")
	address := strings.TrimSuffix(base, "/") + suffix
	if hasQuery {
		address += "?" + query
	}
	select {
	case p.queue <- ping{tier, address, body}:
	default:
		p.sent("dropped")
	}
}

// Close sends the queued pings for at most three seconds, or until hurry is closed. It drops the rest.
func (p *Pings) Close(hurry <-chan struct{}) {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.queue)
	}
	p.mu.Unlock()
	select {
	case <-p.done:
	case <-hurry:
	case <-time.After(patience):
	}
	p.stop()
	<-p.done
	p.client.CloseIdleConnections()
}

// run sends the pings of the queue, one after the other. It logs when they begin to fail and when they
// succeed again.
func (p *Pings) run(ctx context.Context) {
	defer close(p.done)
	for x := range p.queue {
		err := p.send(ctx, x)
		if ctx.Err() != nil {
			p.sent("dropped")
			continue
		}
		if err != nil && !p.failed {
			p.log.Warn("a ping was not accepted", "tier", x.tier, "error", withoutURL(err))
		} else if err == nil && p.failed {
			p.log.Info("pings are accepted again", "tier", x.tier)
		}
		p.failed = err != nil
		result := "success"
		if p.failed {
			result = "failure"
		}
		p.sent(result)
	}
}

// withoutURL returns an error's text without URLs, because the ping's has a key and a proxy's may have
// a password.
func withoutURL(err error) string {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		err = e.Err
	}
	if text := err.Error(); !strings.Contains(text, "://") && !strings.Contains(text, "@") {
		return text
	}
	return "a redirect, or the proxy of the environment, has an address that cannot be read"
}

// send sends a ping. It tries again after errors that may pass.
func (p *Pings) send(ctx context.Context, x ping) error {
	for n := 0; ; n++ {
		status, err := p.try(ctx, x)
		temporary := err != nil || status >= 500 || status == http.StatusTooManyRequests
		if err == nil && status >= 300 {
			err = fmt.Errorf("the answer was %d %s", status, http.StatusText(status))
		}
		if err == nil || !temporary || n == tries-1 {
			return err
		}
		backlog.Sleep(ctx, p.pause<<n)
	}
}

// try sends a ping once and returns the status of the answer.
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
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection can be reused
	return answer.StatusCode, answer.Body.Close()
}

// Settings are the configuration of pings. URL may have a secret key and must not be printed.
type Settings struct {
	URL    string   `yaml:"url,env" required:"https://hc-ping.com/KEY/{tier}"` // {tier} stands for the tier's name, escaped
	Tiers  []string `yaml:"tiers,names" want:"the name of a tier, a list of them, or all"`
	FailIf FailIf   `yaml:"fail_if"`
}

// FailIf says which passes count as failures besides those that end with an error.
type FailIf struct {
	FailedRatio float64 `yaml:"failed_ratio"` // at least this share of the attempts failed, 0 to 1; 0: never
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

// all stands for every tier.
const all = "all"

// Check calls fail for each thing that is wrong with the settings, with its key. It says nothing
// secret.
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
