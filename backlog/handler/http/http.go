// Package http is the handler that sends each record to a web server: a webhook.
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

// Settings are the handler's part of the configuration file. URL, Headers and Secrets may be
// secret and must not be printed.
type Settings struct {
	// URL is the http or https URL to which records are sent. {column} in it stands for the
	// record's value, escaped; {{ and }} stand for braces. If a column is in the host, or is
	// the whole URL, the host must be one of Allow.
	URL     string            `yaml:"url,env" required:"https://example.com/orders"`
	Method  string            `yaml:"method" words:"POST PUT PATCH DELETE GET HEAD"` // "": POST
	Headers map[string]string `yaml:"headers,env" key:"header"`

	// Secrets sign requests: each is whsec_ and the base64 of 24 to 64 bytes. SecretFiles are
	// files with one secret each, which are read again when they have changed.
	Secrets     []string `yaml:"secret,env" want:"a secret or a list of them"`
	SecretFiles []string `yaml:"secret_file,env" want:"a file or a list of them"`

	Success []Status `yaml:"success" want:"a status such as 204 or 2xx, or a list of them"` // nil: 200 to 299
	Reject  []Status `yaml:"reject" want:"a status such as 204 or 2xx, or a list of them"`  // nil: 410

	// Allow lists the hosts that a record may name: names, *.name for all below one,
	// addresses, or networks such as 192.0.2.0/24, each with or without a port.
	//
	// An address that is not on the public internet is refused, with two exceptions: it is
	// listed itself, or by a network of such addresses; or it is private or loopback, and
	// the host's name cannot be one of the public internet either (localhost, billing,
	// billing.internal).
	Allow []string `yaml:"allow" want:"a host or a list of them"`

	CAFile   string `yaml:"ca_file,env"`     // PEM: only these authorities are trusted; "": the system's
	CertFile string `yaml:"client_cert,env"` // PEM: the client's certificate; read again when it has changed
	KeyFile  string `yaml:"client_key,env"`

	// RetryAfter says what the header Retry-After of a response 429 or 503 asks for: a pause
	// of the pass, or that the record is snoozed. "": pause.
	RetryAfter string        `yaml:"retry_after" words:"pause snooze"`
	MaxPause   time.Duration `yaml:"max_pause" min:"1s"` // the longest pause that Retry-After can ask for
}

// NewSettings returns the defaults.
func NewSettings() *Settings { return &Settings{MaxPause: time.Hour} }

// A Status is a range of HTTP statuses, written 204 or 2xx.
type Status struct{ From, To int }

// UnmarshalText implements [encoding.TextUnmarshaler]: it reads 204 or 2xx.
func (s *Status) UnmarshalText(text []byte) error {
	hundred, isRange := strings.CutSuffix(strings.ToLower(string(text)), "xx")
	n, err := strconv.Atoi(hundred)
	if err != nil && !isRange {
		return errors.New("must be a status such as 204 or 2xx, not text")
	}
	*s = Status{n, n}
	if isRange {
		*s = Status{n * 100, n*100 + 99}
	}
	return nil
}

// contains reports whether a status is in one of the ranges.
func contains(list []Status, status int) bool {
	return slices.ContainsFunc(list, func(s Status) bool { return s.From <= status && status <= s.To })
}

// Check calls fail with each problem of the settings. Its texts show no secret. It opens no
// file.
func (s *Settings) Check(fail func(field, problem string)) { (&client{Settings: s}).configure(fail) }

var methods = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodGet, http.MethodHead}

// configure sets the fields that follow from the settings alone, without files, and calls fail
// with each problem.
func (c *client) configure(fail func(field, problem string)) {
	c.method = cmp.Or(c.Method, http.MethodPost)
	c.bodiless = c.method == http.MethodGet || c.method == http.MethodHead
	if !slices.Contains(methods, c.method) {
		fail("method", fmt.Sprintf("%q is none; write one such as POST or PUT", c.Method))
	}
	for i, text := range c.Secrets {
		key, err := parseSecret(text)
		if err != nil {
			fail(fmt.Sprintf("secret[%d]", i), err.Error())
		}
		c.literalKeys = append(c.literalKeys, key)
	}
	c.configureURL(fail)
	c.configureHeaders(fail)
	c.configureStatuses(fail)
	if c.KeyFile == "" && c.CertFile != "" {
		fail("client_cert", "goes with client_key; add it")
	} else if c.CertFile == "" && c.KeyFile != "" {
		fail("client_key", "goes with client_cert; add it")
	}
}

func (c *client) configureURL(fail func(field, problem string)) {
	for i, entry := range c.Allow {
		a, ok := parseAllowed(entry)
		if !ok {
			fail(fmt.Sprintf("allow[%d]", i), mapping.Show(entry)+" is no host; "+
				"write a name such as example.com or *.example.com, with :port if that is meant, an address, or a network such as 10.0.0.0/8")
		}
		c.allow = append(c.allow, a)
	}
	if c.URL == "" {
		return
	}
	u, err := parseTemplate(c.URL)
	switch {
	case err != nil:
		fail("url", err.Error())
		return
	case u.hostFromRecord && c.Allow == nil:
		fail("url", "a record says which host is called; add allow: [example.com], the hosts it may name")
	case u.hostFromRecord:
	case len(c.allow) > 0 && c.allow.checkURL(u.base) != nil:
		fail("allow", "does not list the host of url, "+u.base.Host+"; add it, or remove allow, which is for hosts that come from the record")
	case u.base.Scheme == "http" && cmp.Or(c.CAFile, c.CertFile, c.KeyFile) != "":
		fail("url", "ca_file, client_cert and client_key are of no use with http://; write https:// or remove them")
	}
	c.url = u
}

// reserved are the headers that the program sets itself or that would break the request. All
// that begin with Webhook- and Backlog- are reserved as well.
var reserved = []string{
	"Accept-Encoding", "Connection", "Content-Length", "Expect", "Host", "Idempotency-Key", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade",
}

func (c *client) configureHeaders(fail func(field, problem string)) {
	c.headers = make(http.Header)
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		field := "headers." + name
		key := textproto.CanonicalMIMEHeaderKey(name)
		value := strings.TrimSpace(c.Headers[name])
		switch {
		case name == "" || strings.Trim(name, lettersAndDigits+"!#$%&'*+-.^_`|~") != "":
			fail("headers", "a key that is no header, not shown as it may be secret; write Name: value")
		case c.headers[key] != nil:
			fail(field, "is there twice, in other capitals; remove one")
		case strings.HasPrefix(key, "Webhook-"), strings.HasPrefix(key, "Backlog-"), slices.Contains(reserved, key):
			fail(field, "is set by the program itself; remove it")
		case strings.ContainsFunc(value, invalidInHeader):
			fail(field, "holds a line break or another character that no header has; remove it")
		}
		c.headers[key] = []string{value}
	}
	defaults := http.Header{"User-Agent": {"backlog/1"}}
	if !c.bodiless {
		defaults.Set("Content-Type", "application/json")
	}
	if c.url != nil && c.url.base.User != nil {
		password, _ := c.url.base.User.Password()
		(&http.Request{Header: defaults}).SetBasicAuth(c.url.base.User.Username(), password)
		if c.headers["Authorization"] != nil {
			fail("url", "has a user, and headers have an Authorization; remove one")
		}
	}
	maps.Copy(defaults, c.headers)
	c.headers = defaults
}

// invalidInHeader reports whether no header may contain r.
func invalidInHeader(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

func (c *client) configureStatuses(fail func(field, problem string)) {
	checkRange := func(field string, list []Status) {
		for i, status := range list {
			if status.From < 200 || status.To > 599 {
				fail(fmt.Sprintf("%s[%d]", field, i), "must be from 200 to 599, or 2xx, 3xx, 4xx or 5xx")
			}
		}
	}
	checkRange("success", c.Success)
	checkRange("reject", c.Reject)
	if c.Success != nil && len(c.Success) == 0 {
		fail("success", "is an empty list; name at least one or remove it")
	}
	c.success = c.Success
	c.reject = c.Reject
	// A default is not to blame for an overlap: the other setting is.
	field := "reject"
	other := "success"
	if c.Success == nil {
		c.success = []Status{{200, 299}}
	}
	if c.Reject == nil {
		c.reject = []Status{{http.StatusGone, http.StatusGone}}
		field = "success"
		other = "reject"
	}
	for n := 200; n <= 599; n++ {
		if contains(c.success, n) && contains(c.reject, n) {
			fail(field, fmt.Sprintf("status %d is in %s too; give both, each its own (default: success 2xx, reject 410)", n, other))
			return
		}
	}
}

// secretPrefix begins every secret of Standard Webhooks.
const secretPrefix = "whsec_"

// parseSecret decodes a secret into the key. Its error shows nothing of the secret.
func parseSecret(text string) ([]byte, error) {
	coded, ok := strings.CutPrefix(strings.TrimSpace(text), secretPrefix)
	key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(coded, "="))
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errors.New("is no secret; it must be whsec_ and the base64 of 24 to 64 bytes, as `echo whsec_$(openssl rand -base64 32)` prints one")
	}
	return key, nil
}

// A Handler sends each record to a web server.
//
// The body is the JSON object of [backlog.Record.ColumnsJSON]; GET and HEAD have none. The
// request has Settings.Headers and
//
//	Content-Type        application/json, unless Settings.Headers has another
//	User-Agent          backlog/1, unless Settings.Headers has another
//	webhook-id          the same for every attempt on a record, and different for every
//	                    other record; under the refresh policy different for every attempt
//	Idempotency-Key     the same as webhook-id
//	Backlog-Attempt-Id  unique to this attempt
//	Backlog-Tier        the tier or max age of the pass
//	traceparent         [backlog.Record.Traceparent], if there is one; it takes the place of
//	                    one in Settings.Headers
//	webhook-timestamp   Unix seconds, if there are secrets
//	webhook-signature   one v1 signature for each secret: Standard Webhooks 1.0
//
// under the refresh policy also Backlog-Attempt-Uid, Backlog-Attempt-No and
// Backlog-Attempt-Deadline, and for a dead record ([backlog.Engine.OnDead]) also
// Backlog-Reason, Backlog-Error and, under that policy, Backlog-Disabled-Reason. Texts in
// headers are percent-escaped where they are not printable ASCII, and 1 KiB at most.
//
// A request is sent once for each attempt. Only if a connection that was used before ends
// without a byte of an answer is the same request sent again. Redirects are not followed.
// Proxies are taken from the environment (HTTPS_PROXY and the like), unless the host comes
// from the record.
//
// Methods may be called concurrently. A Handler must not be copied or changed after the first
// call.
type Handler struct {
	Settings

	Source      string           // the name of the table, a part of webhook-id
	Concurrency int              // how many idle connections are kept; 0: 4
	Now         func() time.Time // nil: time.Now
	Log         *slog.Logger     // logs requests and answers at DEBUG, without secrets; nil: no log

	mu     sync.Mutex
	cached *client // nil until the configuration is valid
}

var _ backlog.ConfiguredHandler = (*Handler)(nil)

// Prepare returns what is wrong with the configuration and the files that it names, with a
// hint. Unlike Check it uses no network, so that it works while the service is down.
func (h *Handler) Prepare() error {
	_, _, err := h.ready()
	return err
}

// ready returns the client and the keys that sign requests.
func (h *Handler) ready() (c *client, keys [][]byte, err error) {
	c, err = h.client()
	if err == nil {
		keys, err = c.keys()
	}
	return c, keys, err
}

// Describe implements [backlog.ConfiguredHandler]. Its Columns are those in the URL.
func (h *Handler) Describe() backlog.Description {
	columns, _ := setting.Columns(h.URL) // Prepare has returned the error
	return backlog.Description{MaxPause: h.MaxPause, Columns: columns, Checked: h.checked()}
}

// Handle sends r and waits for the answer.
//
// A status of Success is a success, one of Reject a [backlog.Reject], 429 and 503 with a valid
// Retry-After a [backlog.RetryAfter]. Under a refresh policy that keeps UIDs, 202 is
// [backlog.Accepted] unless Success was given and names it. Every other status is an error,
// whose text is the status and the beginning of the body, about 2 KiB at most.
//
// If ctx ended the attempt, the error wraps context.Cause(ctx), and its text begins with the
// text of the cause. A wrong configuration is [backlog.Unstarted]; a host that cannot be reached
// is not.
//
// Of the URL an error shows at most scheme and host, of headers and secrets nothing. Where the
// server's answer repeats such a text, the error has *** instead.
func (h *Handler) Handle(ctx context.Context, r *backlog.Record) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c, keys, err := h.ready()
	if err != nil {
		return backlog.Unstarted(err)
	}
	req, body, err := c.request(ctx, r, keys, c.now())
	if err != nil {
		return err
	}
	resp, err := c.transport.RoundTrip(req) // an http.Client would follow redirects
	if err != nil {
		err = c.noResponse(ctx, req, err)
		backlog.LogExchange(ctx, h.Log, r, func() (sent, got string) { return c.showRequest(req, body), err.Error() })
		return err
	}
	text := readBody(resp)
	backlog.LogExchange(ctx, h.Log, r, func() (sent, got string) { return c.showRequest(req, body), c.showResponse(resp, text) })
	return c.outcome(r, resp, text, c.now())
}

// client returns the client for the configuration. After an error the next call makes it
// anew, since a wrong file may have been corrected.
func (h *Handler) client() (*client, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cached == nil {
		c, err := newClient(h)
		if err != nil {
			return nil, fmt.Errorf("http: %w", err)
		}
		h.cached = c
	}
	return h.cached, nil
}

// A client is everything that follows from the configuration. It is immutable.
type client struct {
	*Settings
	url             *urlTemplate
	method          string
	bodiless        bool        // the method has no body
	headers         http.Header // those that are the same in every request
	source          string
	now             func() time.Time
	success, reject []Status // with defaults

	literalKeys [][]byte // the keys of Secrets
	allow       allowList
	transport   *http.Transport
	redact      *strings.Replacer // replaces secrets in what the server says
}

func newClient(h *Handler) (*client, error) {
	c := &client{Settings: &h.Settings, source: h.Source, now: h.Now}
	if c.now == nil {
		c.now = time.Now
	}
	err := mapping.FirstProblem(c.configure)
	if h.URL == "" {
		err = errors.New("url: is empty" + exampleURL)
	}
	if err != nil {
		return nil, err
	}
	c.redact = c.newRedactor()
	return c, c.setTransport(h)
}

// keys returns the keys that sign requests. It reads the secret files anew.
func (c *client) keys() ([][]byte, error) {
	keys := slices.Clip(c.literalKeys)
	for _, path := range c.SecretFiles {
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
