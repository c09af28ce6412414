package http

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"backlog/backlog"
)

const (
	maxAnswer  = 64 << 10        // how much of an answer is read
	answerTime = 2 * time.Second // how long: its status has been heard by then
)

// readAnswer reads what came with a response, or the beginning of it, so that
// the connection can be used again.
func readAnswer(resp *http.Response) []byte {
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols || resp.ContentLength == 0 || resp.Body == http.NoBody {
		return nil // what follows a switch is not HTTP
	}
	late := time.AfterFunc(answerTime, func() { resp.Body.Close() }) // which ends a Read
	defer late.Stop()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return b
}

// outcome returns the error that stands for a response.
func (p *plan) outcome(r *backlog.Record, resp *http.Response, text []byte, now time.Time) error {
	status := resp.StatusCode
	if status == http.StatusAccepted && !has(p.Success, status) && r.Refresh != nil && r.Refresh.UID != "" {
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
func (p *plan) inWords(resp *http.Response, text []byte) string {
	words := statusLine(resp.StatusCode)
	if to, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
		return words + ": points to " + p.printable([]byte(to.Host)) + "; redirects are not followed: correct the url"
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
func (p *plan) printable(text []byte) string {
	s := strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return -1
		case r == '\n', r == '\t', unicode.IsPrint(r):
			return r
		}
		return '\uFFFD'
	}, p.hide.Replace(string(text)))
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

func (p *plan) showAnswer(resp *http.Response, text []byte) string {
	return statusLine(resp.StatusCode) + "\n" + p.showHeader(resp.Header) + p.printable(text)
}

func (p *plan) showHeader(h http.Header) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			if !harmless(name) {
				value = "***"
			}
			fmt.Fprintf(&b, "%s: %s\n", name, p.printable([]byte(value)))
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
	failed := backlog.Worded(where+": "+p.printable([]byte(text)), err)
	if errors.As(err, new(*misconfigured)) {
		return backlog.Unstarted(failed)
	}
	return failed
}

// netInWords says what went wrong with a connection, without addresses that
// differ from one time to the next, and what may mend it.
func netInWords(err error) (text, hint string) {
	var (
		refused *refusal
		dns     *net.DNSError
		errno   syscall.Errno
		bad     *tls.CertificateVerificationError
		timeout net.Error
		op      *net.OpError
	)
	switch {
	case errors.As(err, &refused):
		return refused.Error(), ""
	case errors.As(err, &dns):
		text, hint = fmt.Sprintf("%s does not resolve: %s", dns.Name, dns.Err), "correct the host in url"
	case errors.As(err, &errno):
		text, hint = errno.Error(), "is the service running, and is the port in url right?"
	case errors.As(err, &bad):
		text = "its certificate is not trusted: " + bad.Err.Error()
		hint = "renew it, correct the host in url, or name the certificate of its authority in ca_file"
	case errors.As(err, new(tls.RecordHeaderError)):
		text, hint = "the server does not speak TLS there", "is http:// meant, or another port?"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		text, hint = "the connection was closed without an answer", "is http:// meant, or another port?"
	case errors.As(err, &timeout) && timeout.Timeout():
		text, hint = "no connection in time", "is the service running, and are scheme and port in url right?"
	default:
		text = err.Error()
	}
	if errors.As(err, &op) && op.Op == "proxyconnect" {
		return "the proxy: " + text, "is the proxy in the environment the right one?"
	}
	return text, hint
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
