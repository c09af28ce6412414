package handler

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil // the rest is not HTTP
	}
	if resp.ContentLength == 0 || resp.Body == http.NoBody {
		return nil
	}
	late := time.AfterFunc(answerTime, func() { resp.Body.Close() }) // which ends a Read
	defer late.Stop()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return b
}

// outcome returns the error that stands for a response.
func (p *httpPlan) outcome(req *http.Request, resp *http.Response, text []byte, now time.Time) error {
	status := resp.StatusCode
	if p.isSuccess(status) {
		return nil
	}
	err := errors.New(p.inWords(req, resp, text))
	switch {
	case slices.Contains(p.reject, status):
		return backlog.Reject(err)
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		if wait := parseRetryAfter(resp.Header.Get("Retry-After"), now); wait > 0 {
			return backlog.RetryAfter(wait, err)
		}
	}
	return err
}

// inWords says what a response means that is no success.
func (p *httpPlan) inWords(req *http.Request, resp *http.Response, text []byte) string {
	words := statusLine(resp.StatusCode)
	if to, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
		host := to.Host
		if host == "" || host == req.URL.Host {
			host = "another place on " + req.URL.Host
		}
		return words + ": points to " + p.printable([]byte(host)) + "; redirects are not followed: correct the url"
	}
	if said := p.printable(text); said != "" {
		words += ": " + said
	}
	return words
}

func statusLine(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

// printable returns the beginning of what a server said as text for people,
// without secrets.
func (p *httpPlan) printable(text []byte) string {
	s := strings.ToValidUTF8(p.hide.Replace(string(text)), "\uFFFD")
	return head(strings.TrimSpace(printables(s)))
}

// printables returns the text without what would move a terminal's cursor or
// hide in it, but for line breaks and tabs.
func printables(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return -1
		case r == '\n', r == '\t', unicode.IsPrint(r):
			return r
		}
		return '\uFFFD'
	}, s)
}

// unanswered returns the error for a request that got no response.
func (p *httpPlan) unanswered(ctx context.Context, req *http.Request, err error) error {
	where := req.Method + " " + req.URL.Scheme + "://" + req.URL.Host
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		return &failure{cause.Error() + ": " + where, []error{cause}}
	}
	failed := &failure{where + ": " + p.printable([]byte(netInWords(err))), []error{err}}
	if errors.Is(err, errProxy) {
		return backlog.Unstarted(failed)
	}
	return failed
}

// netInWords says what went wrong with a connection, without addresses that
// differ from one time to the next.
func netInWords(err error) string {
	through := ""
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "proxyconnect" {
		through = "the proxy: "
	}
	var (
		refused *refusal
		dns     *net.DNSError
		errno   syscall.Errno
		bad     *tls.CertificateVerificationError
		noTLS   tls.RecordHeaderError
		timeout net.Error
	)
	switch {
	case errors.As(err, &refused):
		return refused.text
	case errors.As(err, &dns):
		return fmt.Sprintf("%s%s does not resolve: %s", through, dns.Name, dns.Err)
	case errors.As(err, &errno):
		return through + errno.Error()
	case errors.As(err, &bad):
		return through + "its certificate is not trusted: " + bad.Err.Error()
	case errors.As(err, &noTLS):
		return through + "the server does not speak TLS there"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return through + "the connection was closed without an answer"
	case errors.As(err, &timeout) && timeout.Timeout():
		return through + "no connection in time"
	}
	return through + err.Error()
}
