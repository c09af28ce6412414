package handler

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"backlog/backlog"
)

// Sample sends r for real, as Handle does, and writes request and response to
// w. What stands for a secret is shown as ***: the signature, every header of
// Headers, credentials, cookies, the URL's own values in its query.
func (h *HTTP) Sample(ctx context.Context, r *backlog.Record, w io.Writer) error {
	return h.attempt(ctx, r, exchange{w})
}

// An exchange writes what is sent and received, for people.
type exchange struct{ w io.Writer }

// maxShown is how much of a record is shown.
const maxShown = 64 << 10

func (e exchange) request(p *httpPlan, req *http.Request, body []byte) {
	shown := req.Header.Clone()
	if req.Host != "" {
		shown["Host"] = []string{req.Host}
	}
	fmt.Fprintf(e.w, "%s %s\n", req.Method, p.hide.Replace(p.url.show(req.URL)))
	e.headers(p, shown)
	rest := ""
	if len(body) > maxShown {
		body, rest = body[:maxShown], "…"
	}
	if len(body) > 0 {
		fmt.Fprintf(e.w, "\n%s%s\n", printables(strings.ToValidUTF8(string(body), "\uFFFD")), rest)
	}
}

func (e exchange) response(p *httpPlan, resp *http.Response, body []byte) {
	fmt.Fprintf(e.w, "\n%s\n", statusLine(resp.StatusCode))
	e.headers(p, resp.Header)
	if said := p.printable(body); said != "" {
		fmt.Fprintf(e.w, "\n%s\n", said)
	}
}

func (e exchange) headers(p *httpPlan, h http.Header) {
	for _, name := range slices.SortedFunc(maps.Keys(h), func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }) {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		for _, value := range h[name] {
			if canonical == "Set-Cookie" || slices.Contains(p.secret, canonical) {
				value = "***"
			}
			fmt.Fprintf(e.w, "%s: %s\n", canonical, p.printable([]byte(value)))
		}
	}
}
