package http

import (
	"bytes"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"code.dny.dev/ssrf"

	"backlog/backlog"
	"backlog/backlog/handler/setting"
)

const (
	// connectTimeout bounds connecting and the TLS handshake. Attempts may have no timeout,
	// and a connection may be dialled for longer than the attempt that asked for it.
	connectTimeout = 30 * time.Second

	// idleTimeout is how long an unused connection is kept: less than servers commonly
	// keep one, so that few turn out to be closed.
	idleTimeout = 55 * time.Second

	// pingTimeout is how long an HTTP/2 connection is silent before it gets a ping, and how
	// long it has to answer that.
	pingTimeout = 15 * time.Second

	maxResponseHeader = 64 << 10
)

// setTransport makes the transport, which keeps the connections.
func (c *client) setTransport(h *Handler) error {
	secure, err := tlsConfig(h)
	if err != nil {
		return err
	}
	idle := cmp.Or(max(0, h.Concurrency), 4)
	c.transport = &http.Transport{
		Proxy:                  proxy,
		DialContext:            (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSClientConfig:        secure,
		TLSHandshakeTimeout:    connectTimeout,
		MaxResponseHeaderBytes: maxResponseHeader,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingTimeout, PingTimeout: pingTimeout},
		MaxIdleConns:           max(100, idle),
		MaxIdleConnsPerHost:    idle,
		IdleConnTimeout:        idleTimeout,
		DisableCompression:     true, // answers are short, and only their beginning is read
	}
	if c.url.hostFromRecord {
		c.transport.Proxy = nil // a proxy would connect to any address
		c.transport.DialContext = c.dialAllowed
	}
	return nil
}

// dialAllowed connects to a host, but only to an address that is allowed. It checks the
// address at the moment of connecting: the name may point elsewhere at any time.
func (c *client) dialAllowed(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, _ := net.SplitHostPort(address)
	check := func(_ context.Context, _, at string, _ syscall.RawConn) error {
		addr, _ := netip.ParseAddrPort(at) // an unreadable address is the zero one, which is refused
		return c.allow.checkAddress(host, port, addr.Addr())
	}
	d := net.Dialer{Timeout: connectTimeout, ControlContext: check}
	return d.DialContext(ctx, network, address)
}

// misconfigured is an error that is not the record's fault.
type misconfigured struct{ error }

// proxy is [http.ProxyFromEnvironment] with another error, since the original shows the
// proxy's password.
func proxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if err != nil {
		err = &misconfigured{errors.New("the proxy in the environment (HTTP_PROXY, HTTPS_PROXY) is not a URL; correct the variable")}
	}
	return u, err
}

// tlsConfig returns the TLS configuration. The client's certificate is read for each
// connection, so that it can be replaced while the program runs.
func tlsConfig(h *Handler) (*tls.Config, error) {
	authorities, err := setting.Authorities(h.CAFile)
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities}
	if err != nil || h.CertFile == "" {
		return c, err
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(h.CertFile, h.KeyFile)
		if err != nil {
			err = &misconfigured{fmt.Errorf("client_cert %s and client_key %s do not make a certificate: %w", h.CertFile, h.KeyFile, err)}
		}
		return &pair, err
	}
	_, err = c.GetClientCertificate(nil)
	return c, err
}

// checkTimeout bounds Check's use of the network.
const checkTimeout = 10 * time.Second

// Check returns why no record could be sent now: what Prepare finds, a host that does not
// resolve or takes no connection, a certificate that is not trusted. The error ends with a
// hint. Check sends no request, so it does not find out whether the server accepts the
// client's certificate. If the host comes from the record, there is no host to check.
func (h *Handler) Check(ctx context.Context) error {
	c, _, err := h.ready()
	if err != nil || c.url.hostFromRecord {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	address := net.JoinHostPort(c.url.base.Hostname(), portOf(c.url.base))
	conn, err := c.transport.NewClientConn(ctx, c.url.base.Scheme, address)
	if err == nil {
		conn.Close()
		return nil
	}
	text, hint := describeNetError(err)
	return backlog.Worded(strings.TrimSuffix(fmt.Sprintf("http: %s: %s; %s", address, text, hint), "; "), err)
}

// checked describes what a successful Check has shown.
func (h *Handler) checked() string {
	text := "each record says which host is called, one of: " + strings.Join(h.Allow, ", ")
	if c, err := h.client(); err == nil && !c.url.hostFromRecord {
		text = c.url.base.Scheme + "://" + c.url.base.Host + " takes connections"
		if c.url.base.Scheme == "https" {
			text = "https://" + c.url.base.Host + " resolves and its certificate is good"
		}
	}
	if n := len(h.Secrets) + len(h.SecretFiles); n > 0 {
		text += fmt.Sprintf("; secrets to sign with: %d", n)
	}
	return text
}

// An allowList says which hosts a record may name.
type allowList []allowed

// allowed is an entry of it: a name, all names below one, or a network of addresses.
type allowed struct {
	name string       // in lower case; with a leading dot for all names below it; "": addresses
	net  netip.Prefix // the addresses
	port string       // "": any
}

// parseAllowed parses an entry such as hooks.example.org, *.example.org, 192.0.2.7:8443,
// [2001:db8::7] or 192.0.2.0/24.
func parseAllowed(text string) (a allowed, ok bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	if p, err := netip.ParsePrefix(text); err == nil {
		return allowed{net: p.Masked()}, !p.Addr().Is4In6()
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil { // no port
		host = strings.Trim(text, "[]")
	} else if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return a, false
	}
	a.port = port
	if addr, isAddr := parseAddress(host); isAddr {
		a.net = netip.PrefixFrom(addr, addr.BitLen())
		return a, true
	}
	name, below := strings.CutPrefix(strings.TrimSuffix(host, "."), "*.")
	a.name = name
	if below {
		a.name = "." + name
	}
	if strings.ContainsFunc(name, invalidInHost) || strings.ContainsAny(name, ":[]") {
		return a, false
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	return a, last != "" && (last[0] < '0' || '9' < last[0]) // no top-level domain begins with a digit
}

// parseAddress parses an address. An IPv4 address has the same form however it is written.
func parseAddress(text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(text)
	return normalize(addr), err == nil
}

// normalize returns an IPv4 address in IPv6 form as IPv4, and drops the zone.
func normalize(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// A refusal is the error for a host or an address that is not allowed.
type refusal struct{ error }

// checkURL returns an error unless the URL's host and port are in the list. The addresses of
// a name are checked later, by checkAddress.
func (list allowList) checkURL(u *url.URL) error {
	host := normalizeHost(u.Hostname())
	port := portOf(u)
	addr, isAddr := parseAddress(host)
	for _, a := range list {
		if !a.matchesPort(port) {
			continue
		}
		if isAddr && a.matchesAddress(addr) || !isAddr && a.matchesName(host) {
			return nil
		}
	}
	return &refusal{fmt.Errorf("%.300s is not in allow; add it if it may be called", net.JoinHostPort(host, port))}
}

// checkAddress returns an error if the address of a host, which checkURL has allowed, is not
// on the public internet, unless the list allows that address. It does so by an entry for the
// address itself or for a network of such addresses only. The host's name is enough only for
// a private or loopback address of a name that is not of the public internet: the owner of a
// public name decides where it points.
func (list allowList) checkAddress(host, port string, addr netip.Addr) error {
	addr = normalize(addr)
	if !isSpecial(addr) {
		return nil
	}
	host = normalizeHost(host)
	nameIsEnough := isLocalName(host) && (addr.IsLoopback() || addr.IsPrivate())
	for _, a := range list {
		if !a.matchesPort(port) {
			continue
		}
		if a.matchesAddress(addr) && allSpecial(a.net) || nameIsEnough && a.matchesName(host) {
			return nil
		}
	}
	return &refusal{fmt.Errorf("%s is at %s, which is not on the public internet; add the address to allow if that is meant", host, addr)}
}

func (a allowed) matchesPort(port string) bool { return a.port == "" || a.port == port }

func (a allowed) matchesAddress(addr netip.Addr) bool { return a.name == "" && a.net.Contains(addr) }

func (a allowed) matchesName(host string) bool {
	return a.name != "" && (a.name == host || a.name[0] == '.' && strings.HasSuffix(host, a.name))
}

// normalizeHost returns the host in the form in which hosts are compared.
func normalizeHost(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }

// isLocalName reports whether the name cannot be one of the public internet: it has no dot,
// or its last label is reserved for private use.
func isLocalName(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	return slices.Contains([]string{host, "localhost", "local", "internal", "test"}, last) || strings.HasSuffix(host, ".home.arpa")
}

var (
	// publicGuard refuses the special addresses of IANA's registries and metadataNet.
	publicGuard = ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(metadataNet))

	// metadataNet is where Azure serves a machine's secrets; IANA does not list it.
	metadataNet = netip.MustParsePrefix("168.63.129.16/32")

	specialNets = slices.Concat([]netip.Prefix{metadataNet}, ssrf.IPv4DeniedPrefixes, ssrf.IPv6DeniedPrefixes)
)

// isSpecial reports whether an address is not on the public internet.
func isSpecial(addr netip.Addr) bool {
	if ssrf.IPv6NAT64Prefix.Contains(addr) { // stands for an IPv4 address
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	return !addr.IsValid() || publicGuard.SafeAddr(addr) != nil
}

// allSpecial reports whether no address of the network is on the public internet.
func allSpecial(network netip.Prefix) bool {
	if network.Addr().Is6() && !ssrf.IPv6GlobalUnicast.Overlaps(network) {
		return true
	}
	return slices.ContainsFunc(specialNets, func(special netip.Prefix) bool {
		return special.Bits() <= network.Bits() && special.Contains(network.Addr())
	})
}

const (
	maxBody     = 64 << 10        // how much of a response's body is read
	bodyTimeout = 2 * time.Second // for reading it; the status has arrived by then
)

// readBody reads the beginning of a response's body as text. If that is all of it, the
// connection can be used again.
func readBody(resp *http.Response) string {
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols || resp.ContentLength == 0 || resp.Body == http.NoBody {
		return "" // after a switch the connection does not speak HTTP
	}
	defer time.AfterFunc(bodyTimeout, func() { resp.Body.Close() }).Stop() // closing ends a Read
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	return string(decompress(resp.Header.Get("Content-Encoding"), b))
}

// decompress returns the beginning of a decompressed body. No request asks for compression,
// but some servers and proxies compress all the same, and some without the header. A body
// that cannot be decompressed is returned as it is; in an encoding that Go does not know its
// name is returned instead.
func decompress(encoding string, body []byte) []byte {
	encoding = strings.ToLower(strings.TrimSpace(encoding))
	var from io.Reader
	var err error
	switch {
	case len(body) == 0:
		return body
	case bytes.HasPrefix(body, []byte{0x1f, 0x8b}):
		from, err = gzip.NewReader(bytes.NewReader(body))
	case encoding == "deflate":
		from, err = zlib.NewReader(bytes.NewReader(body))
		if err != nil { // some servers send deflate without the zlib header
			from = flate.NewReader(bytes.NewReader(body))
			err = nil
		}
	case slices.Contains([]string{"br", "zstd", "compress"}, encoding):
		return fmt.Appendf(nil, "(a body in the encoding %s, which was not asked for)", encoding)
	default:
		return body
	}
	if err != nil {
		return body
	}
	text, err := io.ReadAll(io.LimitReader(from, maxBody))
	if err != nil && len(text) == 0 { // a truncated body may still have a readable beginning
		return body
	}
	return text
}

// outcome returns the error that stands for a response, nil for success. A snooze comes first.
func (c *client) outcome(r *backlog.Record, resp *http.Response, text string, now time.Time) error {
	status := resp.StatusCode
	if header := resp.Header.Values(snoozeHeader); len(header) > 0 {
		return c.snooze(header[0], resp, text)
	}
	if status == http.StatusAccepted && !contains(c.Success, status) && r.Memory != nil && r.Memory.UID != "" {
		return backlog.Accepted // the outcome is reported later
	}
	if contains(c.success, status) {
		return nil
	}
	err := errors.New(c.describe(resp, text))
	switch {
	case contains(c.reject, status):
		return backlog.Reject(err)
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		wait := parseRetryAfter(resp.Header.Get("Retry-After"), now)
		switch {
		case wait <= 0:
		case c.RetryAfter == "snooze":
			return backlog.Snooze(wait, err)
		default:
			return backlog.RetryAfter(wait, err)
		}
	}
	return err
}

// snoozeHeader is the header of a response, of any status, that snoozes the record.
const snoozeHeader = "Backlog-Snooze"

// snooze returns the error that stands for a response with that header. Without a time in it, it is an
// error of the attempt.
func (c *client) snooze(header string, resp *http.Response, text string) error {
	t, err := backlog.ParseSnooze(header)
	if err != nil {
		return fmt.Errorf("%s: its header %s is to say how long: %v", c.describe(resp, text), snoozeHeader, err)
	}
	return t.Snooze(errors.New(c.describe(resp, text)))
}

// describe returns the text of the error for a response that is not a success.
func (c *client) describe(resp *http.Response, text string) string {
	words := statusLine(resp.StatusCode)
	if to, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
		return words + ": points to " + c.printable(to.Host) + "; redirects are not followed: correct the url"
	}
	if said := c.printable(text); said != "" {
		words += ": " + said
	}
	return words
}

func statusLine(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

// maxText is how much of a text is put into errors and the log, in bytes.
const maxText = 2 << 10

// printable returns the beginning of a server's text for people: without secrets, and without
// invisible characters and those that move a terminal's cursor. Line breaks and tabs stay.
func (c *client) printable(text string) string {
	s := strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return -1
		case r == '\n', r == '\t', unicode.IsPrint(r):
			return r
		}
		return '\uFFFD'
	}, c.redact.Replace(text))
	return backlog.Beginning(strings.TrimSpace(s), maxText)
}

// Shorter texts than minSecret, and shorter segments of the URL's path than minPathSecret, are
// not redacted: ordinary words would be replaced everywhere.
const (
	minSecret     = 6
	minPathSecret = 16
)

// newRedactor returns a replacer of secrets in what a server says: of the literal secrets as
// given, without whsec_ and decoded; of each header's value and its last word; of the URL's
// password, and of what may be secret in its path and query.
func (c *client) newRedactor() *strings.Replacer {
	var texts []string
	for i, s := range c.Secrets {
		texts = append(texts, s, strings.TrimPrefix(s, secretPrefix), string(c.literalKeys[i]))
	}
	for name, values := range c.headers {
		if words := strings.Fields(values[0]); len(words) > 0 && !hasNoSecret(name) {
			texts = append(texts, values[0], words[len(words)-1])
		}
	}
	password, _ := c.url.base.User.Password()
	texts = append(texts, password)
	for pair := range strings.SplitSeq(c.url.base.RawQuery, "&") {
		_, text, _ := strings.Cut(pair, "=")
		decoded, _ := url.QueryUnescape(text)
		texts = append(texts, text, decoded)
	}
	for segment := range strings.SplitSeq(c.url.base.EscapedPath(), "/") {
		if len(segment) >= minPathSecret {
			texts = append(texts, segment)
		}
	}
	texts = slices.DeleteFunc(texts, func(s string) bool { return len(s) < minSecret })
	slices.SortFunc(texts, func(a, b string) int { return len(b) - len(a) }) // the replacer tries the longer of two first
	var pairs []string
	for _, s := range texts {
		pairs = append(pairs, s, "***")
	}
	return strings.NewReplacer(pairs...)
}

// hasNoSecret reports whether a header of this name holds no secret.
func hasNoSecret(name string) bool {
	return strings.HasPrefix(name, "Backlog-") || slices.Contains([]string{
		"Content-Length", "Content-Type", "Date", "Idempotency-Key", "Retry-After", "Traceparent", "User-Agent", "Webhook-Id", "Webhook-Timestamp",
	}, name)
}

// showRequest returns a request for the log, without secrets.
func (c *client) showRequest(req *http.Request, body []byte) string {
	u := *req.URL
	u.User = nil
	return req.Method + " " + c.redact.Replace(u.String()) + "\n" + c.showHeader(req.Header) + string(body)
}

// showResponse returns a response for the log, without secrets.
func (c *client) showResponse(resp *http.Response, text string) string {
	return statusLine(resp.StatusCode) + "\n" + c.showHeader(resp.Header) + c.printable(text)
}

// showHeader returns the headers, sorted, with *** for each value that may be secret.
func (c *client) showHeader(h http.Header) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			if !hasNoSecret(name) {
				value = "***"
			}
			fmt.Fprintf(&b, "%s: %s\n", name, c.printable(value))
		}
	}
	return b.String() + "\n"
}

// noResponse returns the error for a request that got no response.
func (c *client) noResponse(ctx context.Context, req *http.Request, err error) error {
	where := req.Method + " " + req.URL.Scheme + "://" + req.URL.Host
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		return backlog.Worded(cause.Error()+": "+where, cause)
	}
	text, _ := describeNetError(err)
	failed := backlog.Worded(where+": "+c.printable(text), err)
	if errors.As(err, new(*misconfigured)) {
		return backlog.Unstarted(failed)
	}
	return failed
}

// describeNetError says what went wrong with a connection, without addresses and ports that
// differ each time, and gives a hint, which may be empty.
func describeNetError(err error) (text, hint string) {
	text, hint = describeCause(err)
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "proxyconnect" {
		return "the proxy: " + text, "is the proxy in the environment the right one?"
	}
	return text, hint
}

// describeCause is describeNetError without regard to proxies.
func describeCause(err error) (text, hint string) {
	var (
		refused *refusal
		dns     *net.DNSError
		errno   syscall.Errno
		bad     *tls.CertificateVerificationError
		timeout net.Error
	)
	switch {
	case errors.As(err, &refused):
		return refused.Error(), ""
	case errors.As(err, &dns):
		return fmt.Sprintf("%s does not resolve: %s", dns.Name, dns.Err), "correct the host in url"
	case errors.As(err, &errno):
		return errno.Error(), "is the service running, and is the port in url right?"
	case errors.As(err, &bad):
		return "its certificate is not trusted: " + bad.Err.Error(),
			"renew it, correct the host in url, or name the certificate of its authority in ca_file"
	case errors.As(err, new(tls.RecordHeaderError)):
		return "the server does not speak TLS there", "is http:// meant, or another port?"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed without an answer", "is http:// meant, or another port?"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no connection in time", "is the service running, and are scheme and port in url right?"
	}
	return err.Error(), ""
}

// maxRetryAfter is the longest Retry-After that is taken seriously.
const maxRetryAfter = 366 * 24 * time.Hour

// parseRetryAfter returns how long a Retry-After header, in seconds or as a date, asks to wait
// from now on. It returns 0 for an invalid value, a date in the past and more than
// maxRetryAfter.
func parseRetryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	var wait time.Duration
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = at.Sub(now)
	}
	if wait < 0 || wait > maxRetryAfter {
		return 0
	}
	return wait
}
