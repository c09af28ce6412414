package handler

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
)

// An httpPlan is what an HTTP's configuration comes to. But for the files that
// are watched it is immutable.
type httpPlan struct {
	url      *urlTemplate
	method   string
	bodiless bool
	headers  http.Header // the configured ones and those that never change
	secret   []string    // names of headers that are not to be shown
	host     string      // of the Host header; "": the URL's
	source   string

	fixed   [][]byte // keys
	rotated []*watched[[]byte]
	cert    *watched[*tls.Certificate] // nil: none

	success, reject []int // success: nil for 200 to 299
	allow           allowList
	transport       *http.Transport
	hide            *hider // of secrets in what the server says
}

func newHTTPPlan(h *HTTP) (*httpPlan, error) {
	p := &httpPlan{source: h.Source}
	var err error
	if p.url, err = parseTemplate(h.URL); err != nil {
		return nil, err
	}
	if p.allow, err = parseAllow(h.Allow); err != nil {
		return nil, err
	}
	for _, step := range []func(*HTTP) error{p.setTarget, p.setMethod, p.setHeaders, p.setStatuses, p.setSecrets, p.setTransport} {
		if err := step(h); err != nil {
			return nil, err
		}
	}
	p.setHidden(h)
	return p, nil
}

func (p *httpPlan) setTarget(h *HTTP) error {
	switch base := p.url.base; {
	case base == nil && len(p.allow) == 0:
		return errors.New("the record decides about the host of url; say in allow which hosts it may be, such as allow: [hooks.example.org]")
	case base == nil || len(p.allow) == 0:
	case p.allow.target(base) != nil:
		return fmt.Errorf("allow does not list the host of url, %s; add it, or drop allow, which is for hosts that come from the record", base.Host)
	}
	return nil
}

func (p *httpPlan) setMethod(h *HTTP) error {
	if p.method = h.Method; p.method == "" {
		p.method = http.MethodPost
	}
	if !isToken(p.method) || p.method != strings.ToUpper(p.method) || p.method == http.MethodConnect {
		return fmt.Errorf("method %q is none; write one such as POST or PUT", p.method)
	}
	p.bodiless = p.method == http.MethodGet || p.method == http.MethodHead
	return nil
}

// isToken reports whether a text may be the name of a method or a header.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// reserved are the headers that belong to the connection or the attempt; a
// hyphen at the end stands for all that begin so.
var reserved = []string{
	"Connection", "Content-Length", "Expect", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	"Idempotency-Key", "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature", "Backlog-",
}

func (p *httpPlan) setHeaders(h *HTTP) error {
	p.headers = http.Header{"User-Agent": {"backlog/1"}}
	if !p.bodiless {
		p.headers["Content-Type"] = []string{"application/json"}
	}
	p.secret = []string{"Authorization", "Cookie", "Proxy-Authorization", "Webhook-Signature"}
	given := make(map[string]bool)
	for name, value := range h.Headers {
		key := textproto.CanonicalMIMEHeaderKey(name)
		value = strings.TrimSpace(value)
		switch {
		case !isToken(name):
			return fmt.Errorf("headers: %q is no name of a header; write one such as Authorization", name)
		case given[key]:
			return fmt.Errorf("headers: %s is given twice; remove one", key)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			return fmt.Errorf("headers: the value of %s holds a line break or another control character; remove it", key)
		case slices.ContainsFunc(reserved, func(r string) bool { return key == r || r == "Backlog-" && strings.HasPrefix(key, r) }):
			return fmt.Errorf("headers: %s is set with each request; remove it", key)
		}
		given[key] = true
		p.secret = append(p.secret, key)
		if key == "Host" {
			p.host = value
			continue
		}
		p.headers[key] = []string{value}
	}
	if p.url.base == nil || p.url.base.User == nil {
		return nil
	}
	if given["Authorization"] {
		return errors.New("url has a user, and headers have an Authorization; remove one")
	}
	p.headers["Authorization"] = []string{basic(p.url.base.User)}
	return nil
}

func basic(user *url.Userinfo) string {
	password, _ := user.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password))
}

func (p *httpPlan) setStatuses(h *HTTP) error {
	p.success, p.reject = h.Success, h.Reject
	if p.reject == nil {
		p.reject = []int{http.StatusGone}
	}
	if p.success != nil && len(p.success) == 0 {
		return errors.New("success lists no status, so that nothing could succeed; drop it for 200 to 299")
	}
	for _, list := range [][]int{p.success, p.reject} {
		for _, status := range list {
			if status < 200 || status > 599 {
				return fmt.Errorf("%d is no status of an answer; write one from 200 to 599", status)
			}
		}
	}
	for _, status := range h.Reject { // by default a success is none
		if p.isSuccess(status) {
			return fmt.Errorf("status %d is a success and in reject too; give both, each its own (default: success 200 to 299, reject 410)", status)
		}
	}
	return nil
}

func (p *httpPlan) isSuccess(status int) bool {
	if p.success == nil {
		return status >= 200 && status <= 299
	}
	return slices.Contains(p.success, status)
}

func (p *httpPlan) setSecrets(h *HTTP) error {
	for i, text := range h.Secrets {
		key, err := parseSecret(text)
		if err != nil {
			return fmt.Errorf("secret %d of %d %w", i+1, len(h.Secrets), err)
		}
		p.fixed = append(p.fixed, key)
	}
	for _, path := range h.SecretFiles {
		p.rotated = append(p.rotated, secretFile(path))
	}
	return nil
}

// keys returns the keys to sign with, those of files as they are now. It
// reads the client's certificate likewise, to find here what is wrong with it.
func (p *httpPlan) keys() ([][]byte, error) {
	keys := p.fixed
	for _, w := range p.rotated {
		key, err := w.get()
		if err != nil {
			return nil, httpError(fmt.Errorf("secret_file: %w", err))
		}
		keys = append(keys[:len(keys):len(keys)], key)
	}
	if p.cert != nil {
		if _, err := p.cert.get(); err != nil {
			return nil, httpError(err)
		}
	}
	return keys, nil
}
