package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"backlog/backlog/inspect"
	"backlog/backlog/watch"
	"backlog/backlog/web"
)

var hostile = []string{
	`"><img src=x onerror=alert(1)> ' onmouseover='alert(1) </td></table><form action=//evil.example> --><!-- ]]> &lt;b&gt; {{.Now}} \`,
	`</textarea></title></style></script><svg onload=alert(1)><script>alert(1)</script>`,
	"javascript:alert(1)", "//evil.example/",
	"a\x00b\u202eevil\u2066\u200b\ufeff\u00ad\xff\xfe\x1b[31m\r\n\tx",
	strings.Repeat("<b>", 400_000),
}

// shape returns the elements of a page with their attributes, without values: whatever the
// texts are, it is the template's.
func shape(t *testing.T, body string) (list []string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type == html.CommentNode {
			list = append(list, "<!--")
		}
		if n.Type == html.ElementNode {
			s := n.Data
			for _, a := range n.Attr {
				s += " " + a.Key
				switch a.Key {
				case "href", "src", "action":
					own := strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "//")
					fragment := strings.HasPrefix(a.Val, "#")
					if !own && !fragment && a.Val != "data:," {
						t.Errorf("leads elsewhere: %s %q", a.Key, a.Val)
					}
				}
			}
			list = append(list, s)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Every text is hostile in turn: no page has an element or attribute then that it does not
// have with usual ones, nor a character that cannot be seen.
func TestHostile(t *testing.T) {
	visits := func(odd string) map[string]string {
		f := newFake(t, odd)
		f.records = f.records[:6]
		until := noon.Add(1)
		site := newSite(t, f, func(s *web.Settings) { s.Actions = true })
		c, pages := logIn(t, site, fullToken), make(map[string]string)
		text := url.QueryEscape(odd[:min(len(odd), 3000)])
		for i, path := range append(pagesOf(f), "/records?cause="+text+"&q="+text+"&after="+text, "/login?next="+text, "/records?band="+text, "/passes?tier="+text, "/causes?sort="+text) {
			pages[fmt.Sprint(i, " GET")] = visit(site, "GET", path, nil, c).Body.String()
		}
		pages["login"] = visit(site, "POST", "/login", url.Values{"token": {odd}, "next": {odd}}).Body.String()
		form := url.Values{"until": {"2026-03-05T13:00"}, "reason": {odd}, "tiers": {odd}}
		for _, path := range []string{"/schedule", "/pause", "/resume", "/retry?cause=" + text} {
			pages[path[:3]] = visit(site, "POST", path, form, c).Body.String()
		}
		f.now.Pause, f.now.CountErr, f.now.Trouble, f.now.Role = &watch.Pause{Until: &until, Reason: odd}, odd, &watch.Trouble{Since: inspect.Stamp(noon), Error: odd, Passes: true}, web.Standby
		pages["away"] = visit(site, "GET", "/", nil, c).Body.String()
		return pages
	}
	var usual []string
	for _, body := range visits("usual") {
		usual = append(usual, shape(t, body)...)
	}
	for _, odd := range hostile {
		for name, body := range visits(odd) {
			for _, x := range shape(t, body) {
				if !slices.Contains(usual, x) {
					t.Errorf("%s with %.40q has <%s>", name, odd, x)
				}
			}
			if strings.ContainsAny(body, "\x00\x1b\u202e\u2066\u200b\ufeff\u00ad") || len(body) > 3<<20 {
				t.Errorf("%s with %.40q: %d bytes, or it has characters that cannot be seen", name, odd, len(body))
			}
		}
	}
}

// Whatever the query is, the answer is a page, a redirection or a sentence.
func FuzzQuery(f *testing.F) {
	for _, path := range []string{"/", "/records", "/passes", "/schedule", "/causes", "/record", "/api/v1/records", "/api/v1/schedule", "/api/v1/passes", "/login"} {
		f.Add(path, "limit=9&after=%zz&for=1e9h&tier=\x00&band=beyond&id=%ff&sort=&refresh=99999999999999999999")
	}
	b := newFake(f, "")
	b.records = b.records[:2]
	site := newSite(f, b, nil)
	for _, page := range append(pagesOf(b), "/records?limit=1&after=81799&band=7d&lane=fresh&state=dead&cause=a&q=7", "/passes?after=3", "/schedule?for=30d&ticks=all") {
		path, query, _ := strings.Cut(page, "?")
		f.Add(path, query)
		f.Add("/api/v1"+path, query)
	}
	f.Fuzz(func(t *testing.T, path, query string) {
		r, err := http.NewRequest("GET", "http://127.0.0.1/", nil)
		if err != nil || len(path) > 1000 {
			return
		}
		r.URL.Path, r.URL.RawQuery = path, query
		w := answer(site, r)
		if w.Code >= 500 {
			t.Errorf("%q?%q: %d %s", path, query, w.Code, w.Body)
		}
	})
}
