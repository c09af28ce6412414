package handler

import (
	"context"
	"net/http"
	"sync"
	"time"

	"backlog/backlog"
)

// HTTP sends each record to a web server: a webhook.
//
// The body is the JSON object of [backlog.Record.ColumnsJSON], but for the
// methods GET and HEAD, which send none. The headers, beside those of Headers,
// are
//
//	Content-Type        application/json, unless Headers has another
//	User-Agent          backlog/1, unless Headers has another
//	webhook-id          the same for every attempt on a record, and for no other record
//	Idempotency-Key     the same
//	Backlog-Attempt-Id  unique to this attempt
//	Backlog-Tier        the tier or max age whose pass took the record
//	webhook-timestamp   Unix seconds, if there are secrets
//	webhook-signature   one v1 signature for each of them: Standard Webhooks 1.0
//
// and, where it is told of a dead record ([backlog.Engine.OnDead]), Backlog-Reason
// and Backlog-Error. Texts in headers are percent-escaped where they are not
// printable ASCII, and 1 KiB at most.
//
// A request is sent once per attempt, but again, the same, where a connection
// that had been used before ends without a byte of an answer. Redirects are not
// followed.
// Proxies are taken from the environment (HTTPS_PROXY and the like), but not
// if the record decides about the host.
//
// Methods may be called concurrently. An HTTP must not be copied or changed
// after the first call.
type HTTP struct {
	// URL is where to: http or https. {column} in it stands for the record's
	// value, escaped; {{ and }} for braces. If a column is in the host, or is
	// the whole URL, the host must be one of Allow.
	URL     string
	Method  string            // "": POST
	Headers map[string]string // sent along; taken for secrets, never shown

	// Secrets are whsec_ and 24 to 64 bytes in base64, SecretFiles files that
	// hold one each. A file is read again when it has changed.
	Secrets, SecretFiles []string

	Success []int // statuses that are a success; nil: 200 to 299
	Reject  []int // those that reject the record; nil: 410

	// Allow are the hosts that a record may lead to: names, *.name for all
	// below one, addresses, networks such as 192.0.2.0/24; with a port or
	// without. An address that is not on the public internet is refused, unless
	// it or a network of such ones is listed, or it is private or loopback and
	// the name is not of the public internet either (localhost, billing,
	// billing.internal).
	Allow []string

	CAFile            string // PEM: only these authorities are trusted; "": the system's
	CertFile, KeyFile string // PEM: the client's certificate; read again when they have changed

	Source      string           // part of webhook-id: the name of the table
	Concurrency int              // calls at a time for which connections are kept; 0: 4
	Now         func() time.Time // nil: time.Now

	mu   sync.Mutex
	made *httpPlan // nil until the configuration has proved good
}

// Prepare reports what is wrong with the configuration and the files that it
// names, with the cure. Unlike Check it touches no network, so that it may be
// asked while the service is down.
func (h *HTTP) Prepare() error {
	p, err := h.plan()
	if err == nil {
		_, err = p.keys()
	}
	return err
}

// Columns returns the names of the columns in the URL, each once.
func (h *HTTP) Columns() ([]string, error) {
	t, err := parseTemplate(h.URL)
	if err != nil {
		return nil, httpError(err)
	}
	return t.columns, nil
}

// Handle sends r and waits for the answer.
//
// A status of Success is a success, one of Reject a [backlog.Reject], 429 and
// 503 with a sensible Retry-After a [backlog.RetryAfter], all else an error:
// its text is the status and the beginning of what came with it, about 2 KiB
// at most. If ctx ended the attempt, the text begins with that of
// context.Cause(ctx), which the error then wraps. What is wrong with the
// configuration is [backlog.Unstarted]; a host that cannot be reached is not.
//
// No error shows more of the URL than scheme and host, or what Headers and
// secrets hold. Where the server repeats such a thing, it is shown as ***.
func (h *HTTP) Handle(ctx context.Context, r *backlog.Record) error {
	return h.attempt(ctx, r, nobody{})
}

// A witness is shown what is sent and received.
type witness interface {
	request(p *httpPlan, req *http.Request, body []byte)
	response(p *httpPlan, resp *http.Response, body []byte)
}

type nobody struct{}

func (nobody) request(*httpPlan, *http.Request, []byte)   {}
func (nobody) response(*httpPlan, *http.Response, []byte) {}

func (h *HTTP) attempt(ctx context.Context, r *backlog.Record, w witness) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p, err := h.plan()
	if err != nil {
		return backlog.Unstarted(err)
	}
	keys, err := p.keys()
	if err != nil {
		return backlog.Unstarted(err)
	}
	req, body, err := p.request(ctx, r, keys, h.now())
	if err != nil {
		return err
	}
	w.request(p, req, body)
	resp, err := p.transport.RoundTrip(req) // not a Client: no redirects, no cookies
	if err != nil {
		return p.unanswered(ctx, req, err)
	}
	text := readAnswer(resp)
	w.response(p, resp, text)
	return p.outcome(req, resp, text, h.now())
}

func (h *HTTP) now() time.Time {
	if h.Now != nil {
		return h.Now()
	}
	return time.Now()
}

// plan returns what the configuration comes to. One that is bad is looked at
// again with the next call: its files may have been mended.
func (h *HTTP) plan() (*httpPlan, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.made == nil {
		p, err := newHTTPPlan(h)
		if err != nil {
			return nil, httpError(err)
		}
		h.made = p
	}
	return h.made, nil
}

// httpError says whose error it is.
func httpError(err error) error { return &failure{"http: " + err.Error(), []error{err}} }
