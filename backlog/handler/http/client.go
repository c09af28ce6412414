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
	// connectTime bounds what goes on before a request is sent, for attempts
	// without a timeout and for connections that outlive their attempt.
	connectTime = 30 * time.Second

	// idleTime is how long a connection is kept unused: less than servers
	// commonly do, so that few are found closed.
	idleTime = 55 * time.Second

	// pingTime is how long a connection of HTTP/2 is quiet before it is asked for a
	// sign of life, and how long it has to give one.
	pingTime = 15 * time.Second

	maxAnswerHeader = 64 << 10
)

// setTransport makes what keeps the connections.
func (p *plan) setTransport(h *Handler) error {
	secure, err := tlsConfig(h)
	if err != nil {
		return err
	}
	idle := cmp.Or(max(0, h.Concurrency), 4)
	p.transport = &http.Transport{
		Proxy: proxy, DialContext: (&net.Dialer{Timeout: connectTime}).DialContext,
		TLSClientConfig: secure, TLSHandshakeTimeout: connectTime, MaxResponseHeaderBytes: maxAnswerHeader,
		ForceAttemptHTTP2: true, HTTP2: &http.HTTP2Config{SendPingTimeout: pingTime, PingTimeout: pingTime},
		MaxIdleConns: max(100, idle), MaxIdleConnsPerHost: idle, IdleConnTimeout: idleTime,
		DisableCompression: true, // answers are short, and read in part
	}
	if p.url.free {
		p.transport.Proxy = nil // it would connect in our place, to anywhere
		p.transport.DialContext = p.dialAllowed
	}
	return nil
}

// dialAllowed connects, but to no address that is not allowed. What counts is
// the address at the moment of connecting: names may point elsewhere any time.
func (p *plan) dialAllowed(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, _ := net.SplitHostPort(address)
	d := net.Dialer{Timeout: connectTime, ControlContext: func(_ context.Context, _, at string, _ syscall.RawConn) error {
		addr, _ := netip.ParseAddrPort(at) // one that cannot be read is refused
		return p.allow.dial(host, port, addr.Addr())
	}}
	return d.DialContext(ctx, network, address)
}

// misconfigured is the error of a request for which no record is to blame.
type misconfigured struct{ error }

// proxy is [http.ProxyFromEnvironment], whose error would show the proxy's password.
func proxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if err != nil {
		err = &misconfigured{errors.New("the proxy in the environment (HTTP_PROXY, HTTPS_PROXY) is not a URL; correct the variable")}
	}
	return u, err
}

// tlsConfig returns the settings of the connections. The client's certificate is read
// with each of them, so that one that expires can be replaced under a running program.
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

// checkTime is for all the network does in a Check.
const checkTime = 10 * time.Second

// Check reports what would keep a record from being sent: what Prepare finds,
// a host that does not resolve or takes no connection, a certificate that is
// not trusted. The error ends in a hint. No request is sent, so that it stays open
// whether the server takes a certificate of ours. If the record decides about the
// host, Check cannot know as much, and is content.
func (h *Handler) Check(ctx context.Context) error {
	p, _, err := h.ready()
	if err != nil || p.url.free {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	address := net.JoinHostPort(p.url.base.Hostname(), portOf(p.url.base))
	c, err := p.transport.NewClientConn(ctx, p.url.base.Scheme, address)
	if err == nil {
		c.Close()
		return nil
	}
	text, hint := netInWords(err)
	return backlog.Worded(strings.TrimSuffix(fmt.Sprintf("http: %s: %s; %s", address, text, hint), "; "), err)
}

// checked says what a Check that found nothing has shown.
func (h *Handler) checked() string {
	text := "each record says which host is called, one of: " + strings.Join(h.Allow, ", ")
	if p, err := h.plan(); err == nil && !p.url.free {
		text = p.url.base.Scheme + "://" + p.url.base.Host + " takes connections"
		if p.url.base.Scheme == "https" {
			text = "https://" + p.url.base.Host + " resolves and its certificate is good"
		}
	}
	if n := len(h.Secrets) + len(h.SecretFiles); n > 0 {
		text += fmt.Sprintf("; secrets to sign with: %d", n)
	}
	return text
}

// An allowList says where records may lead.
type allowList []allowed

// allowed is an entry of it: a name, the names below one, or addresses.
type allowed struct {
	name string       // in lower case, with a dot in front for those below it; "" for addresses
	net  netip.Prefix // the addresses
	port string       // "": any
}

// parseAllowed reads an entry such as hooks.example.org, *.example.org,
// 192.0.2.7:8443, [2001:db8::7] or 192.0.2.0/24.
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
	last := name[strings.LastIndexByte(name, '.')+1:]
	return a, last != "" && !strings.ContainsFunc(name, notOfHost) && !strings.ContainsAny(name, ":[]") && (last[0] < '0' || '9' < last[0])
}

// parseAddress reads an address. An IPv4 one has the same form however it is
// written.
func parseAddress(text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(text)
	return plain(addr), err == nil
}

func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// A refusal is the error for a place that is not allowed.
type refusal struct{ error }

// target returns an error unless the URL's host is in the list. What
// addresses a name has is left to dial.
func (list allowList) target(u *url.URL) error {
	host, port := hostOf(u.Hostname()), portOf(u)
	addr, isAddr := parseAddress(host)
	for _, a := range list {
		if a.takes(port) && (isAddr && a.name == "" && a.net.Contains(addr) || !isAddr && a.matches(host)) {
			return nil
		}
	}
	return &refusal{fmt.Errorf("%.300s is not in allow; add it if it may be called", net.JoinHostPort(host, port))}
}

// dial returns an error if a connection to the host, which target has found to
// be allowed, would lead to an address that no partner on the internet has,
// and that is not meant. It is meant if the list has the address, or a network
// of such addresses. A name is enough only for private addresses of a host that
// cannot have others: the owner of a public one decides where it points to.
func (list allowList) dial(host, port string, addr netip.Addr) error {
	addr = plain(addr)
	if !special(addr) {
		return nil
	}
	host = hostOf(host)
	byName := isLocalName(host) && (addr.IsLoopback() || addr.IsPrivate())
	for _, a := range list {
		if a.takes(port) && (a.name == "" && a.net.Contains(addr) && allSpecial(a.net) || byName && a.matches(host)) {
			return nil
		}
	}
	return &refusal{fmt.Errorf("%s is at %s, which is not on the public internet; add the address to allow if that is meant", host, addr)}
}

func (a allowed) takes(port string) bool { return a.port == "" || a.port == port }

func (a allowed) matches(host string) bool {
	return a.name != "" && (a.name == host || a.name[0] == '.' && strings.HasSuffix(host, a.name))
}

// hostOf returns the host as it is compared.
func hostOf(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }

// isLocalName reports whether the name cannot be one of the public internet:
// it has no dot, or a last label that is reserved for private use.
func isLocalName(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	return slices.Contains([]string{host, "localhost", "local", "internal", "test"}, last) || strings.HasSuffix(host, ".home.arpa")
}

// guard refuses addresses that no partner has: IANA's registries of special
// addresses, and the one at which a provider keeps the secrets of a machine.
var (
	guard       = ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(provider))
	provider    = netip.MustParsePrefix("168.63.129.16/32")
	specialNets = slices.Concat([]netip.Prefix{provider}, ssrf.IPv4DeniedPrefixes, ssrf.IPv6DeniedPrefixes)
)

// special reports whether an address is not one of the public internet.
func special(addr netip.Addr) bool {
	if ssrf.IPv6NAT64Prefix.Contains(addr) { // stands for an IPv4 address
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	return !addr.IsValid() || guard.SafeAddr(addr) != nil
}

// allSpecial reports whether the network has none but special addresses.
func allSpecial(p netip.Prefix) bool {
	if p.Addr().Is6() && !ssrf.IPv6GlobalUnicast.Overlaps(p) {
		return true
	}
	return slices.ContainsFunc(specialNets, func(s netip.Prefix) bool { return s.Bits() <= p.Bits() && s.Contains(p.Addr()) })
}

const (
	maxAnswer  = 64 << 10        // how much of an answer is read
	answerTime = 2 * time.Second // how long: its status has been heard by then
)

// readAnswer reads what came with a response, or the beginning of it, so that
// the connection can be used again.
func readAnswer(resp *http.Response) string {
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols || resp.ContentLength == 0 || resp.Body == http.NoBody {
		return "" // what follows a switch is not HTTP
	}
	defer time.AfterFunc(answerTime, func() { resp.Body.Close() }).Stop() // which ends a Read
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return string(unpacked(resp.Header.Get("Content-Encoding"), b))
}

// unpacked returns the beginning of what the body says. No request asks for an encoding, but
// some servers and proxies pack all the same, some without a word in the header. What cannot
// be unpacked is as it came, or named where its bytes are no text.
func unpacked(encoding string, body []byte) []byte {
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
		if err != nil { // some leave the wrapping out
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
	text, err := io.ReadAll(io.LimitReader(from, maxAnswer))
	if err != nil && len(text) == 0 { // it may have been cut behind something that can be read
		return body
	}
	return text
}

// outcome returns the error that stands for a response.
func (p *plan) outcome(r *backlog.Record, resp *http.Response, text string, now time.Time) error {
	status := resp.StatusCode
	if status == http.StatusAccepted && !has(p.Success, status) && r.Memory != nil && r.Memory.UID != "" {
		return backlog.Accepted // the outcome follows
	}
	if has(p.success, status) {
		return nil
	}
	err := errors.New(p.inWords(resp, text))
	switch {
	case has(p.reject, status):
		return backlog.Reject(err)
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		if wait := parseRetryAfter(resp.Header.Get("Retry-After"), now); wait > 0 {
			return backlog.RetryAfter(wait, err)
		}
	}
	return err
}

// inWords says what a response means that is no success.
func (p *plan) inWords(resp *http.Response, text string) string {
	words := statusLine(resp.StatusCode)
	if to, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
		return words + ": points to " + p.printable(to.Host) + "; redirects are not followed: correct the url"
	}
	if said := p.printable(text); said != "" {
		words += ": " + said
	}
	return words
}

func statusLine(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

// maxText is the most of a text that errors and the log hold, in bytes.
const maxText = 2 << 10

// printable returns the beginning of what a server said as text for people:
// without secrets, and without what would move a terminal's cursor or hide in
// it. Line breaks and tabs stay.
func (p *plan) printable(text string) string {
	s := strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return -1
		case r == '\n', r == '\t', unicode.IsPrint(r):
			return r
		}
		return '\uFFFD'
	}, p.hide.Replace(text))
	return backlog.Beginning(strings.TrimSpace(s), maxText)
}

// minHidden is the least length of a text that is hidden where a server repeats
// it, minToken the least length of a piece of the URL's path. Shorter ones are
// words, which would be hidden all over.
const minHidden, minToken = 6, 16

// hider returns what replaces secrets, the literal ones, in what a server says:
// the secrets as given, without whsec_ and decoded, the value of each header and
// its last word, the URL's password and what may be secret in its path and query.
func (p *plan) hider() *strings.Replacer {
	var texts []string
	for i, s := range p.Secrets {
		texts = append(texts, s, strings.TrimPrefix(s, secretPrefix), string(p.fixed[i]))
	}
	for name, values := range p.headers {
		if words := strings.Fields(values[0]); len(words) > 0 && !harmless(name) {
			texts = append(texts, values[0], words[len(words)-1])
		}
	}
	password, _ := p.url.base.User.Password()
	texts = append(texts, password)
	for pair := range strings.SplitSeq(p.url.base.RawQuery, "&") {
		_, text, _ := strings.Cut(pair, "=")
		decoded, _ := url.QueryUnescape(text)
		texts = append(texts, text, decoded)
	}
	for s := range strings.SplitSeq(p.url.base.EscapedPath(), "/") {
		if len(s) >= minToken {
			texts = append(texts, s)
		}
	}
	texts = slices.DeleteFunc(texts, func(s string) bool { return len(s) < minHidden })
	slices.SortFunc(texts, func(a, b string) int { return len(b) - len(a) }) // where two begin alike the longer counts
	var pairs []string
	for _, s := range texts {
		pairs = append(pairs, s, "***")
	}
	return strings.NewReplacer(pairs...)
}

// harmless reports whether a header carries no secret.
func harmless(name string) bool {
	return strings.HasPrefix(name, "Backlog-") || slices.Contains([]string{
		"Content-Length", "Content-Type", "Date", "Idempotency-Key", "Retry-After", "User-Agent", "Webhook-Id", "Webhook-Timestamp",
	}, name)
}

// showRequest and showAnswer return an exchange for the log, without secrets.
func (p *plan) showRequest(req *http.Request, body []byte) string {
	u := *req.URL
	u.User = nil
	return req.Method + " " + p.hide.Replace(u.String()) + "\n" + p.showHeader(req.Header) + string(body)
}

func (p *plan) showAnswer(resp *http.Response, text string) string {
	return statusLine(resp.StatusCode) + "\n" + p.showHeader(resp.Header) + p.printable(text)
}

func (p *plan) showHeader(h http.Header) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			if !harmless(name) {
				value = "***"
			}
			fmt.Fprintf(&b, "%s: %s\n", name, p.printable(value))
		}
	}
	return b.String() + "\n"
}

// unanswered returns the error for a request that got no response.
func (p *plan) unanswered(ctx context.Context, req *http.Request, err error) error {
	where := req.Method + " " + req.URL.Scheme + "://" + req.URL.Host
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		return backlog.Worded(cause.Error()+": "+where, cause)
	}
	text, _ := netInWords(err)
	failed := backlog.Worded(where+": "+p.printable(text), err)
	if errors.As(err, new(*misconfigured)) {
		return backlog.Unstarted(failed)
	}
	return failed
}

// netInWords says what went wrong with a connection, without addresses that
// differ from one time to the next, and what may mend it.
func netInWords(err error) (text, hint string) {
	text, hint = causeInWords(err)
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "proxyconnect" {
		return "the proxy: " + text, "is the proxy in the environment the right one?"
	}
	return text, hint
}

// causeInWords is netInWords where no proxy is in between.
func causeInWords(err error) (text, hint string) {
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

// maxRetryAfter is how long a wait a server is believed to mean.
const maxRetryAfter = 366 * 24 * time.Hour

// parseRetryAfter returns how long the value of a Retry-After header, in
// seconds or a date, asks to wait from now on: 0 if it does not, or if it asks
// for nonsense.
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
