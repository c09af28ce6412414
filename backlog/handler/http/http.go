// Package http sends records to a web server.
package http

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"backlog/backlog"
	"backlog/backlog/handler/setting"
	"backlog/backlog/mapping"
)

// Handler sends each record to a web server: a webhook.
//
// The body is the JSON object of [backlog.Record.ColumnsJSON]; GET and HEAD send
// none. The headers, beside Headers, are
//
//	Content-Type        application/json, unless Headers has another
//	User-Agent          backlog/1, unless Headers has another
//	webhook-id          the same for every attempt on a record, and for no other record;
//	                    under the refresh policy each attempt has its own
//	Idempotency-Key     the same
//	Backlog-Attempt-Id  unique to this attempt
//	Backlog-Tier        the tier or max age whose pass took the record
//	webhook-timestamp   Unix seconds, if there are secrets
//	webhook-signature   one v1 signature for each of them: Standard Webhooks 1.0
//
// under the refresh policy also Backlog-Attempt-Uid, Backlog-Attempt-No and
// Backlog-Attempt-Deadline, and, where it is told of a dead record
// ([backlog.Engine.OnDead]), Backlog-Reason, Backlog-Error and, under that policy,
// Backlog-Disabled-Reason. Texts in headers are percent-escaped where they are not
// printable ASCII, and 1 KiB at most.
//
// A request is sent once per attempt, but again, the same, where a connection
// that had been used before ends without a byte of an answer. Redirects are not
// followed. Proxies are taken from the environment (HTTPS_PROXY and the like),
// unless the record decides about the host.
//
// Methods may be called concurrently. An Handler must not be copied or changed
// after the first call.
type Handler struct {
	Settings

	Source      string           // part of webhook-id: the name of the table
	Concurrency int              // calls at a time for which connections are kept; 0: 4
	Now         func() time.Time // nil: time.Now
	Log         *slog.Logger     // gets what is sent and received, at DEBUG; nil: none

	mu   sync.Mutex
	made *plan // nil until the configuration has proved good
}

// Prepare reports what is wrong with the configuration and the files that it
// names, with a hint. Unlike Check it touches no network, so that it may be
// asked while the service is down.
func (h *Handler) Prepare() error {
	_, _, err := h.ready()
	return err
}

// ready returns the plan, and the keys to sign with.
func (h *Handler) ready() (p *plan, keys [][]byte, err error) {
	if p, err = h.plan(); err == nil {
		keys, err = p.keys()
	}
	return p, keys, err
}

// Columns returns the names of the columns in the URL.
func (h *Handler) Columns() ([]string, error) {
	names, err := setting.Columns(h.URL)
	if err != nil {
		err = fmt.Errorf("http: url: %w", err)
	}
	return names, err
}

// Handle sends r and waits for the answer.
//
// A status of Success is a success, one of Reject a [backlog.Reject], 429 and
// 503 with a sensible Retry-After a [backlog.RetryAfter], all else an error:
// its text is the status and the beginning of what came with it, about 2 KiB
// at most. Under a refresh policy that keeps UIDs, 202 is [backlog.Accepted]
// unless Success was given and names it. If ctx ended the attempt, the error wraps context.Cause(ctx), and its
// text begins with the cause's. What is wrong with the configuration is
// [backlog.Unstarted]; a host that cannot be reached is not.
//
// No error shows more of the URL than scheme and host, or what Headers and
// secrets hold. Where the server repeats such a thing, it is shown as ***.
func (h *Handler) Handle(ctx context.Context, r *backlog.Record) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p, keys, err := h.ready()
	if err != nil {
		return backlog.Unstarted(err)
	}
	req, body, err := p.request(ctx, r, keys, p.now())
	if err != nil {
		return err
	}
	resp, err := p.transport.RoundTrip(req) // not a Client: no redirects, no cookies
	if err != nil {
		err = p.unanswered(ctx, req, err)
		backlog.LogExchange(ctx, h.Log, r, func() (sent, got string) { return p.showRequest(req, body), err.Error() })
		return err
	}
	text := readAnswer(resp)
	backlog.LogExchange(ctx, h.Log, r, func() (sent, got string) { return p.showRequest(req, body), p.showAnswer(resp, text) })
	return p.outcome(r, resp, text, p.now())
}

// plan returns what the configuration comes to. A bad one is looked at again
// with the next call: its files may have been mended.
func (h *Handler) plan() (*plan, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.made == nil {
		p, err := newPlan(h)
		if err != nil {
			return nil, fmt.Errorf("http: %w", err)
		}
		h.made = p
	}
	return h.made, nil
}

// A plan is what the configuration comes to. It is immutable.
type plan struct {
	*Settings
	url             *urlTemplate
	method          string
	bodiless        bool
	headers         http.Header // the configured ones and those that never change
	source          string
	now             func() time.Time
	success, reject []Status // with defaults

	fixed     [][]byte // keys
	allow     allowList
	transport *http.Transport
	hide      *strings.Replacer // of secrets in what the server says
}

func newPlan(h *Handler) (*plan, error) {
	p := &plan{Settings: &h.Settings, source: h.Source, now: h.Now}
	if p.now == nil {
		p.now = time.Now
	}
	err := mapping.FirstProblem(p.read)
	if h.URL == "" {
		err = errors.New("url: is empty" + exampleURL)
	}
	if err != nil {
		return nil, err
	}
	p.hide = p.hider()
	return p, p.setTransport(h)
}

// keys returns the keys to sign with; files are read as they are now.
func (p *plan) keys() ([][]byte, error) {
	keys := slices.Clip(p.fixed)
	for _, path := range p.SecretFiles {
		text, err := setting.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("http: secret_file: %w; correct the path or the permissions", err)
		}
		key, err := parseSecret(string(text))
		if err != nil {
			return nil, fmt.Errorf("http: secret_file: %s %w", path, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}
