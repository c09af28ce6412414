package config

import (
	"encoding/base64"
	"net"
	"net/netip"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// HTTP is a service that is called for each record. Its variables have been
// replaced. URL, Headers and Secrets may be secret and must not be printed.
type HTTP struct {
	URL     string            // may hold {column}
	Method  string            // "": POST
	Headers map[string]string // by their canonical names; nil: none

	Secrets     []string // each whsec_ and base64
	SecretFiles []string // of such secrets

	Success []int    // statuses that mean it; nil: 200 to 299
	Reject  []int    // likewise; nil: 410
	Allow   []string // hosts, host:port, addresses or networks that a {column} may lead to

	CAFile, CertFile, KeyFile string // "": none; of the last two both or none

	MaxPause time.Duration // what Retry-After can ask for; > 0
}

// defaultMaxPause is the longest that handlers can have all records wait.
const defaultMaxPause = time.Hour

func (v value) http() *HTTP {
	h := &HTTP{MaxPause: defaultMaxPause}
	known := v.httpKeys(h)
	known["reject"] = func(v value) { h.Reject = v.httpStatuses() }
	known["max_pause"] = func(v value) { h.MaxPause = v.durationFrom(time.Second) }
	v.object(known)
	v.checkHTTP(h)
	return h
}

// httpTold is http for on_dead, where nothing is tried again.
func (v value) httpTold() *HTTP {
	h := &HTTP{Reject: []int{}}
	v.object(v.httpKeys(h))
	v.checkHTTP(h)
	return h
}

func (v value) httpKeys(h *HTTP) keys {
	return keys{
		"url":         func(v value) { h.URL = v.expanded() },
		"method":      func(v value) { h.Method = v.oneOf("method", "POST", "PUT", "PATCH", "DELETE", "GET", "HEAD") },
		"headers":     func(v value) { h.Headers = v.headers() },
		"secret":      func(v value) { h.Secrets = v.texts("a secret or a list of them", value.secret) },
		"secret_file": func(v value) { h.SecretFiles = v.texts("a file or a list of them", value.expanded) },
		"success":     func(v value) { h.Success = v.httpStatuses() },
		"allow":       func(v value) { h.Allow = v.texts("a host or a list of them", value.host) },
		"ca_file":     func(v value) { h.CAFile = v.expanded() },
		"client_cert": func(v value) { h.CertFile = v.expanded() },
		"client_key":  func(v value) { h.KeyFile = v.expanded() },
	}
}

// checkHTTP notes what is missing in v, a mapping already decoded, or
// contradicts itself.
func (v value) checkHTTP(h *HTTP) {
	if !v.isMapping() {
		return
	}
	switch {
	case !v.has("url"):
		v.fail("has no url; add url: https://example.com/orders")
	case h.URL != "":
		v.checkURL(h)
	}
	for _, half := range [][2]string{{"client_cert", "client_key"}, {"client_key", "client_cert"}} {
		if v.has(half[0]) && !v.has(half[1]) {
			v.d.failf(join(v.path, half[0]), "goes with %s; add it", half[1])
		}
	}
	if v.has("success") && len(h.Success) == 0 && !v.d.failed(join(v.path, "success")) {
		v.d.failf(join(v.path, "success"), "is an empty list; name at least one or remove it")
	}
	if status, both := h.contradiction(); both && v.has("reject") {
		v.d.failf(join(v.path, "reject"), "status %d is in success too; give both, each its own (default: success 2xx, reject 410)", status)
	} else if both {
		v.d.failf(join(v.path, "success"), "status %d is in reject too; give both, each its own (default: success 2xx, reject 410)", status)
	}
}

// contradiction returns the first status, if there is one, that both is a
// success and rejects a record.
func (h *HTTP) contradiction() (status int, both bool) {
	reject := h.Reject
	if reject == nil {
		reject = []int{410}
	}
	for _, status := range reject {
		if h.Success == nil && status/100 == 2 || slices.Contains(h.Success, status) {
			return status, true
		}
	}
	return 0, false
}

// checkURL notes what is wrong with the URL. No error shows any of it.
func (v value) checkURL(h *HTTP) {
	at := value{v.d, v.node, join(v.path, "url")}
	sample, templates, ok := fillTemplate(h.URL)
	if !ok {
		at.fail("a { or } without the other; write {column} for a column's value, and {{ or }} if the character itself is meant")
		return
	}
	const cure = "write one such as https://example.com/orders"
	needsAllow := len(templates) > 0 && templates[0] == 0
	if needsAllow && sample != "0" {
		at.fail("begins with a {column}, which must be the whole url or stand behind https://; %s", cure)
		return
	}
	if !needsAllow {
		u, err := url.Parse(sample)
		switch {
		case err != nil:
			at.fail("is no URL; %s", cure)
			return
		case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			at.fail("must begin with http:// or https:// and a host; %s", cure)
			return
		case u.Fragment != "":
			at.fail("has a part behind #, which no service is sent; remove it")
			return
		}
		host := strings.Index(sample, "://") + len("://")
		end := len(sample)
		if i := strings.IndexAny(sample[host:], "/?"); i >= 0 {
			end = host + i
		}
		needsAllow = len(templates) > 0 && templates[0] < end
	}
	if needsAllow && !v.has("allow") {
		at.fail("a record says which host is called; add allow: [example.com], the hosts it may name")
	}
}

// fillTemplate returns the URL with a zero for each {column}, and where they
// are. It is not ok if a brace has no partner.
func fillTemplate(text string) (filled string, at []int, ok bool) {
	var b strings.Builder
	for text != "" {
		i := strings.IndexAny(text, "{}")
		if i < 0 {
			i = len(text)
		}
		b.WriteString(text[:i])
		text = text[i:]
		switch {
		case text == "":
		case strings.HasPrefix(text, "{{"), strings.HasPrefix(text, "}}"):
			b.WriteString("%7B")
			text = text[2:]
		default:
			end := strings.IndexByte(text, '}')
			if end < 2 || strings.Contains(text[1:end], "{") { // also one that begins with }
				return "", nil, false
			}
			at = append(at, b.Len())
			b.WriteByte('0')
			text = text[end+1:]
		}
	}
	return b.String(), at, true
}

// texts returns a text or a list of different ones. Each is read by read; no
// error shows it.
func (v value) texts(want string, read func(value) string) []string {
	items := []value{v}
	if !v.isText() {
		items = v.filled(want)
	}
	var list []string
	for _, item := range items {
		text := read(item)
		if text != "" && slices.Contains(list, text) {
			item.fail("is listed twice; remove one")
		}
		list = append(list, text)
	}
	return list
}

// secretPrefix begins the secrets of Standard Webhooks.
const secretPrefix = "whsec_"

// secret returns a text that is one of those secrets.
func (v value) secret() string {
	text := v.expanded()
	key, ok := strings.CutPrefix(text, secretPrefix)
	b, err := base64.StdEncoding.DecodeString(key)
	if text != "" && (!ok || err != nil || len(b) < 24 || len(b) > 64) {
		v.fail("is no secret; it must be whsec_ and the base64 of 24 to 64 bytes, as `echo whsec_$(openssl rand -base64 32)` prints one")
	}
	return text
}

// ownHeaders are set by the program, or would break the request.
var ownHeaders = []string{
	"Idempotency-Key", "Content-Length", "Host", "Connection", "Transfer-Encoding", "Trailer", "Te", "Upgrade",
	"Keep-Alive", "Expect", "Accept-Encoding",
}

// headers returns the headers that are set. No error shows a value.
func (v value) headers() map[string]string {
	all := make(map[string]string)
	for _, f := range v.fields() {
		name := textproto.CanonicalMIMEHeaderKey(f.name)
		_, twice := all[name]
		switch {
		case v.isScrap(f.node) || !isHeader(f.name):
			v.unknownHeader(f)
			continue
		case twice:
			f.fail("is there twice, in other capitals; remove one")
		case strings.HasPrefix(name, "Webhook-"), strings.HasPrefix(name, "Backlog-"), slices.Contains(ownHeaders, name):
			f.fail("is set by the program itself; remove it")
		}
		text := f.expanded()
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			f.fail("holds a line break or another character that no header has; remove it")
		}
		all[name] = text
	}
	return all
}

// unknownHeader notes a key that is no header. It may be a piece of a secret and
// is not shown.
func (v value) unknownHeader(f field) {
	text := "a key that is no header, not shown as it may be secret; write Name: value"
	if v.isScrap(f.node) {
		text = "a key without a value; put a space after its colon, and quotes around a value with a comma in it"
	}
	v.d.errorf(v.d.lines[f.path], v.path, "%s", text)
}

// isHeader reports whether s can be the name of a header.
func isHeader(s string) bool {
	return s != "" && len(s) <= 100 && !strings.ContainsFunc(s, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// httpStatuses decodes one HTTP status or a list of them, which may be empty.
func (v value) httpStatuses() []int {
	items := []value{v}
	if !v.isScalar() || v.isNull() {
		items = v.list("a status such as 204 or 2xx, or a list of them")
	}
	statuses := make([]int, 0, len(items))
	for _, item := range items {
		for _, status := range item.httpStatus() {
			if slices.Contains(statuses, status) {
				item.fail("%d is listed twice; remove one", status)
				break
			}
			statuses = append(statuses, status)
		}
	}
	return statuses
}

// httpStatus returns the status, or all those for which a text such as 2xx
// stands.
func (v value) httpStatus() (all []int) {
	first, width := 0, 1
	if hundred, ok := strings.CutSuffix(strings.ToLower(v.node.Value), "xx"); v.isText() && ok {
		first, _ = strconv.Atoi(hundred)
		first, width = first*100, 100
	} else if v.isText() && !decimal.MatchString(v.node.Value) {
		v.mismatch("a status such as 204 or 2xx")
		return nil
	} else if first = v.integer(1); first < 1 {
		return nil // and said so
	}
	if first < 200 || first > 599 {
		v.fail("must be from 200 to 599, or 2xx, 3xx, 4xx or 5xx")
		return nil
	}
	for i := range width {
		all = append(all, first+i)
	}
	return all
}

// host returns a host, host:port, address or network.
func (v value) host() string {
	text := v.text()
	if text != "" && !isHost(text) {
		v.fail("%s is no host; write a name such as example.com or *.example.com, with :port if that is meant, an address, or a network such as 10.0.0.0/8", show(text))
	}
	return text
}

func isHost(text string) bool {
	if _, err := netip.ParsePrefix(text); err == nil {
		return true
	}
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	if name, port, err := net.SplitHostPort(text); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return false
		}
		text = name
		if _, err := netip.ParseAddr(text); err == nil {
			return true
		}
	}
	odd := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !strings.ContainsRune("-_.", r)
	}
	text = strings.TrimPrefix(text, "*.") // all names below one
	return text != "" && !strings.HasPrefix(text, ".") && !strings.ContainsFunc(text, odd)
}
