// Package http sends records to a web server.
package http

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"backlog/backlog"
	"backlog/backlog/handler/setting"
	"backlog/backlog/mapping"
)

// Settings are what the configuration says of a service that is called for each
// record. URL, Headers and Secrets may be secret and must not be printed.
type Settings struct {
	// URL is where to: http or https. {column} in it stands for the record's
	// value, escaped; {{ and }} for braces. If a column is in the host, or is
	// the whole URL, the host must be one of Allow.
	URL     string            `yaml:"url,env" required:"https://example.com/orders"`
	Method  string            `yaml:"method" words:"POST PUT PATCH DELETE GET HEAD"` // "": POST
	Headers map[string]string `yaml:"headers,env" key:"header"`

	// Secrets are whsec_ and 24 to 64 bytes in base64, SecretFiles files that
	// hold one each. A file is read again when it has changed.
	Secrets     []string `yaml:"secret,env" want:"a secret or a list of them"`
	SecretFiles []string `yaml:"secret_file,env" want:"a file or a list of them"`

	Success []Status `yaml:"success" want:"a status such as 204 or 2xx, or a list of them"` // nil: 200 to 299
	Reject  []Status `yaml:"reject" want:"a status such as 204 or 2xx, or a list of them"`  // nil: 410

	// Allow are the hosts that a record may lead to: names, *.name for all
	// below one, addresses, networks such as 192.0.2.0/24; with a port or
	// without. An address that is not on the public internet is refused, unless
	// it or a network of such ones is listed, or it is private or loopback and
	// the name is not of the public internet either (localhost, billing,
	// billing.internal).
	Allow []string `yaml:"allow" want:"a host or a list of them"`

	CAFile   string `yaml:"ca_file,env"`     // PEM: only these authorities are trusted; "": the system's
	CertFile string `yaml:"client_cert,env"` // PEM: the client's certificate; read again when it has changed
	KeyFile  string `yaml:"client_key,env"`

	MaxPause time.Duration `yaml:"max_pause" min:"1s"` // the longest pause that Retry-After can ask for
}

// NewSettings returns the defaults.
func NewSettings() *Settings { return &Settings{MaxPause: time.Hour} }

// A Status is a range of statuses, written 204 or 2xx.
type Status struct{ From, To int }

// UnmarshalText reads a number or a word such as 2xx.
func (s *Status) UnmarshalText(text []byte) error {
	hundred, many := strings.CutSuffix(strings.ToLower(string(text)), "xx")
	n, err := strconv.Atoi(hundred)
	if err != nil && !many {
		return errors.New("must be a status such as 204 or 2xx, not text")
	}
	*s = Status{n, n}
	if many {
		*s = Status{n * 100, n*100 + 99}
	}
	return nil
}

func has(list []Status, status int) bool {
	return slices.ContainsFunc(list, func(s Status) bool { return s.From <= status && status <= s.To })
}

// Check reports what is wrong with the settings themselves. It opens no file.
// Nothing secret is in what it says.
func (s *Settings) Check(fail func(field, problem string)) { (&plan{Settings: s}).read(fail) }

var methods = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodGet, http.MethodHead}

// read takes the settings over, all but files, and reports what is wrong with them.
func (p *plan) read(fail func(field, problem string)) {
	p.method = cmp.Or(p.Method, http.MethodPost)
	p.bodiless = p.method == http.MethodGet || p.method == http.MethodHead
	if !slices.Contains(methods, p.method) {
		fail("method", fmt.Sprintf("%q is none; write one such as POST or PUT", p.Method))
	}
	for i, text := range p.Secrets {
		key, err := parseSecret(text)
		if err != nil {
			fail(fmt.Sprintf("secret[%d]", i), err.Error())
		}
		p.fixed = append(p.fixed, key)
	}
	p.readURL(fail)
	p.readHeaders(fail)
	p.readStatuses(fail)
	if p.KeyFile == "" && p.CertFile != "" {
		fail("client_cert", "goes with client_key; add it")
	} else if p.CertFile == "" && p.KeyFile != "" {
		fail("client_key", "goes with client_cert; add it")
	}
}

func (p *plan) readURL(fail func(field, problem string)) {
	for i, entry := range p.Allow {
		a, ok := parseAllowed(entry)
		if !ok {
			fail(fmt.Sprintf("allow[%d]", i), mapping.Show(entry)+" is no host; "+
				"write a name such as example.com or *.example.com, with :port if that is meant, an address, or a network such as 10.0.0.0/8")
		}
		p.allow = append(p.allow, a)
	}
	if p.URL == "" {
		return
	}
	u, err := parseTemplate(p.URL)
	switch {
	case err != nil:
		fail("url", err.Error())
		return
	case u.free && p.Allow == nil:
		fail("url", "a record says which host is called; add allow: [example.com], the hosts it may name")
	case u.free:
	case len(p.allow) > 0 && p.allow.target(u.base) != nil:
		fail("allow", "does not list the host of url, "+u.base.Host+"; add it, or remove allow, which is for hosts that come from the record")
	case u.base.Scheme == "http" && cmp.Or(p.CAFile, p.CertFile, p.KeyFile) != "":
		fail("url", "ca_file, client_cert and client_key are of no use with http://; write https:// or remove them")
	}
	p.url = u
}

// reserved are the headers that the program sets itself, or that would break
// the request; and all that begin with Webhook- and Backlog-.
var reserved = []string{
	"Accept-Encoding", "Connection", "Content-Length", "Expect", "Host", "Idempotency-Key", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade",
}

func (p *plan) readHeaders(fail func(field, problem string)) {
	p.headers = make(http.Header)
	for _, name := range slices.Sorted(maps.Keys(p.Headers)) {
		field := "headers." + name
		key := textproto.CanonicalMIMEHeaderKey(name)
		value := strings.TrimSpace(p.Headers[name])
		switch {
		case name == "" || strings.Trim(name, lettersAndDigits+"!#$%&'*+-.^_`|~") != "":
			fail("headers", "a key that is no header, not shown as it may be secret; write Name: value")
		case p.headers[key] != nil:
			fail(field, "is there twice, in other capitals; remove one")
		case strings.HasPrefix(key, "Webhook-"), strings.HasPrefix(key, "Backlog-"), slices.Contains(reserved, key):
			fail(field, "is set by the program itself; remove it")
		case strings.ContainsFunc(value, notOfHeader):
			fail(field, "holds a line break or another character that no header has; remove it")
		}
		p.headers[key] = []string{value}
	}
	usual := http.Header{"User-Agent": {"backlog/1"}}
	if !p.bodiless {
		usual.Set("Content-Type", "application/json")
	}
	if p.url != nil && p.url.base.User != nil {
		password, _ := p.url.base.User.Password()
		(&http.Request{Header: usual}).SetBasicAuth(p.url.base.User.Username(), password)
		if p.headers["Authorization"] != nil {
			fail("url", "has a user, and headers have an Authorization; remove one")
		}
	}
	maps.Copy(usual, p.headers)
	p.headers = usual
}

func notOfHeader(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

func (p *plan) readStatuses(fail func(field, problem string)) {
	for at, list := range [][]Status{p.Success, p.Reject} {
		for i, status := range list {
			if status.From < 200 || status.To > 599 {
				fail(fmt.Sprintf("%s[%d]", []string{"success", "reject"}[at], i), "must be from 200 to 599, or 2xx, 3xx, 4xx or 5xx")
			}
		}
	}
	if p.Success != nil && len(p.Success) == 0 {
		fail("success", "is an empty list; name at least one or remove it")
	}
	p.success, p.reject = p.Success, p.Reject
	field, other := "reject", "success"
	if p.Success == nil {
		p.success = []Status{{200, 299}}
	}
	if p.Reject == nil {
		p.reject = []Status{{http.StatusGone, http.StatusGone}}
		field, other = other, field
	}
	for n := 200; n <= 599; n++ {
		if has(p.success, n) && has(p.reject, n) {
			fail(field, fmt.Sprintf("status %d is in %s too; give both, each its own (default: success 2xx, reject 410)", n, other))
			return
		}
	}
}

// secretPrefix says of a text that it is a secret of Standard Webhooks.
const secretPrefix = "whsec_"

// parseSecret returns the key in a secret. Its error shows nothing of it.
func parseSecret(text string) ([]byte, error) {
	coded, ok := strings.CutPrefix(strings.TrimSpace(text), secretPrefix)
	key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(coded, "="))
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errors.New("is no secret; it must be whsec_ and the base64 of 24 to 64 bytes, as `echo whsec_$(openssl rand -base64 32)` prints one")
	}
	return key, nil
}

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

var _ backlog.ConfiguredHandler = (*Handler)(nil)

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

// Describe implements [backlog.ConfiguredHandler]. It asks for the columns in the URL.
func (h *Handler) Describe() backlog.Description {
	columns, _ := setting.Columns(h.URL) // Prepare reports an error
	return backlog.Description{MaxPause: h.MaxPause, Columns: columns, Checked: h.checked()}
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
