package http

import (
	"encoding/json"
	"strings"
	"testing"

	"backlog/backlog"
)

func recordOf(pairs ...any) *backlog.Record {
	r := &backlog.Record{Key: backlog.NewKey(int64(7)), Status: "NEW"}
	for i := 0; i < len(pairs); i += 2 {
		r.Names = append(r.Names, pairs[i].(string))
		r.Values = append(r.Values, pairs[i+1])
	}
	return r
}

func TestTemplateExpands(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		template string
		record   *backlog.Record
		want     string
	}{
		{"https://h/hook?a=1", recordOf(), "https://h/hook?a=1"},
		{"https://h", recordOf(), "https://h"},
		{"https://h/{id}", recordOf("id", int64(7)), "https://h/7"},
		{"https://h/{id}/x?n={n}&m={id}", recordOf("id", int64(7), "n", 1.5), "https://h/7/x?n=1.5&m=7"},
		{"https://h/{a}", recordOf("a", "x/../y?z#é %"), ""}, // a step
		{"https://h/{a}", recordOf("a", "x/y?z#é %&+"), "https://h/x%2Fy%3Fz%23%C3%A9%20%25&+"},
		{"https://h/é {{{a}", recordOf("a", "x/y"), "https://h/%C3%A9%20%7Bx%2Fy"}, // what else must be escaped is beside it
		{"https://h/?q={a}", recordOf("a", "x/../y?z#é %&="), "https://h/?q=x%2F..%2Fy%3Fz%23%C3%A9+%25%26%3D"},
		{"https://h?q={a}", recordOf("a", ""), "https://h?q="},
		{"https://h/{{{a}}}", recordOf("a", "v"), "https://h/{v}"},
		{"https://h/{a}", recordOf("a", true), "https://h/true"},
		{"https://h/{a}", recordOf("a", []byte{0xff, 0xff, 0xfe}), "https://h/%2F%2F%2F+"},
		{"https://h/{a}", recordOf("a", json.RawMessage(`"s t"`)), "https://h/s%20t"},
		{"https://h/{a}", recordOf("a", json.RawMessage(`12345678901234567890.5`)), "https://h/12345678901234567890.5"},
		{"https://h/?a={a}", recordOf("a", json.RawMessage(`[1]`)), "https://h/?a=%5B1%5D"},
		{"https://h/{a}.json", recordOf("a", "..."), "https://h/....json"},
		{"https://h/x-{a}/y", recordOf("a", ""), "https://h/x-/y"},
		{"https://h/{weird name}", recordOf("weird name", "x"), "https://h/x"},
		{"https://{t}.example.org:8443/x", recordOf("t", "acme"), "https://acme.example.org:8443/x"},
		{"http://{host}/x", recordOf("host", "[2001:db8::7]:81"), "http://[2001:db8::7]:81/x"},
		{"http://h:{port}", recordOf("port", int64(8080)), "http://h:8080"},
		{"{u}", recordOf("u", "HTTPS://Hooks.example.org/a/../b?c=d e#f"), "https://Hooks.example.org/a/../b?c=d%20e"},
	} {
		tmpl, err := parseTemplate(tt.template)
		if err != nil {
			t.Errorf("%s: %v", tt.template, err)
			continue
		}
		u, err := tmpl.expand(tt.record)
		got := ""
		if err == nil {
			got = u.String()
		}
		if want := strings.NewReplacer("{", "%7B", "}", "%7D").Replace(tt.want); got != want {
			t.Errorf("%s: %q, want %q, error %v", tt.template, got, want, err)
		}
	}
}

func TestTemplateRefusesValues(t *testing.T) {
	t.Parallel()
	const steps = "the url from the record has a step . or .. in its path, and would lead elsewhere"
	for _, tt := range []struct {
		template string
		value    any
		want     string
	}{
		{"https://h/{a}", nil, "url: column a is NULL"},
		{"https://h/{a}", json.RawMessage("null"), "url: column a is NULL"},
		{"https://h/{a}", []byte(nil), "url: column a is NULL"},
		{"https://h/?b={b}", "x", "url: the record has no column b; see table.columns"},
		{"https://h/{a}", "", "url: column a is empty, which would make it another path"},
		{"https://h/{a}/x", "", "url: column a is empty, which would make it another path"},
		{"https://h/{a}/x", "..", steps},
		{"https://h/x/{a}", ".", steps},
		{"https://h/x/{a}?q=/", "..", steps},
		{"https://h/x/{a}{a}", ".", steps},
		{"https://h/x/.{a}/y", ".", steps},
		{"https://h/x/%2e{a}/y", ".", steps},
		{"https://h/x/{a}.", ".", steps},
		{"https://h/x/{a}..", `b\`, steps},
		{"https://h/{a}", "../admin", steps},
		{"https://h/{a}", `x\..\admin`, steps},
		{"https://h/{a}", "x/..;v=1/admin", steps},
		{"https://{a}.example.org/", "evil.org/", "url: column a holds what no host can be named"},
		{"https://{a}.example.org/", "u@evil.org", "url: column a holds what no host can be named"},
		{"https://{a}.example.org/", "evil.org#", "url: column a holds what no host can be named"},
		{"https://{a}.example.org/", "evil.org%2f", "url: column a holds what no host can be named"},
		{"https://{a}.example.org/", `evil.org\`, "url: column a holds what no host can be named"},
		{"https://{a}.example.org/", "", "url: column a holds what no host can be named"},
		{"https://h:{a}/", "x", "the url from the record is no URL; write one such as https://example.com/orders"},
		{"https://h:{a}/", "70000", "the url from the record has a port beyond 65535; correct it"},
		{"https://h:{a}/", strings.Repeat("0", 9) + "443", "the url from the record has a port beyond 65535; correct it"},
		{"{a}", "ftp://h/", "the url from the record must begin with http:// or https:// and a host; write one such as https://example.com/orders"},
		{"{a}", "/etc/passwd", "the url from the record must begin with http:// or https:// and a host; write one such as https://example.com/orders"},
		{"{a}", "http:example.org", "the url from the record must begin with http:// or https:// and a host; write one such as https://example.com/orders"},
		{"{a}", "javascript:alert(1)", "the url from the record must begin with http:// or https:// and a host; write one such as https://example.com/orders"},
		{"{a}", "http://", "the url from the record must begin with http:// or https:// and a host; write one such as https://example.com/orders"},
		{"{a}", "http://:80/", "the url from the record must begin with http:// or https:// and a host; write one such as https://example.com/orders"},
		{"{a}", "http://user:topsecret@h/", "the url from the record has a user in it, which is not allowed"},
		{"{a}", "http://h\n/", "the url from the record is no URL; write one such as https://example.com/orders"},
		{"{a}", "http://exämple.org/", "the url from the record has a host with letters beyond ASCII; write its xn-- form"},
		{"{a}", nil, "url: column a is NULL"},
	} {
		tmpl, err := parseTemplate(tt.template)
		if err != nil {
			t.Errorf("%s: %v", tt.template, err)
			continue
		}
		u, err := tmpl.expand(recordOf("a", tt.value))
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s with %q: %v, error %v\nwant %s", tt.template, tt.value, u, err, tt.want)
		}
	}
}

func TestTemplateErrors(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{
		"":                       "must begin with http:// or https:// and a host; write one such as https://example.com/orders",
		"example.org/hook":       "must begin with http:// or https:// and a host; write one such as https://example.com/orders",
		"ftp://h/":               "must begin with http:// or https:// and a host; write one such as https://example.com/orders",
		"{{x}}":                  "must begin with http:// or https:// and a host; write one such as https://example.com/orders",
		"{scheme}://h/":          "begins with a {column}, which must be the whole url or stand behind https://; write one such as https://example.com/orders",
		"{base}/hook":            "begins with a {column}, which must be the whole url or stand behind https://; write one such as https://example.com/orders",
		"http{s}://h/":           "must begin with http:// or https:// and a host; write one such as https://example.com/orders",
		"https://h/{id":          "has a { or } without the other; write {column} for a column's value, and {{ or }} if the character itself is meant",
		"https://h/{a{b}":        "has a { or } without the other; write {column} for a column's value, and {{ or }} if the character itself is meant",
		"https://h/id}":          "has a { or } without the other; write {column} for a column's value, and {{ or }} if the character itself is meant",
		"https://h/{}":           "has a { or } without the other; write {column} for a column's value, and {{ or }} if the character itself is meant",
		"https://h/%{a}":         "has a % right before {a}, which would complete an escape; write %25 for the character itself",
		"https://h/%2{a}":        "has a % right before {a}, which would complete an escape; write %25 for the character itself",
		"https://h/x#{a}":        "has a part behind #, which no service is sent; remove it",
		"https:///x":             "must begin with http:// or https:// and a host; write one such as https://example.com/orders",
		"https://us:pa#ss@h/x":   "has a part behind #, which no service is sent; remove it",
		"https://us:pa/ss@h/x":   "is no URL; write one such as https://example.com/orders",
		"https://u:pw@{h}/":      "has a user and a host from the record, which anybody's server could be; give credentials in headers, if every host may see them",
		"https://{u}@h/":         "has a user and a host from the record, which anybody's server could be; give credentials in headers, if every host may see them",
		"https://h:99999/":       "has a port beyond 65535; correct it",
		"https://exämple.org/":   "has a host with letters beyond ASCII; write its xn-- form",
		"https://h/{a}/../y":     "has a step . or .. in its path; write the path to which it leads",
		"https://h/\x00":         "is no URL; write one such as https://example.com/orders",
		"https://h/%zz?{a}":      "is no URL; write one such as https://example.com/orders",
		"https://h/{a}#fragment": "has a part behind #, which no service is sent; remove it",
	} {
		if _, err := parseTemplate(template); err == nil || err.Error() != want {
			t.Errorf("%q: error %v\nwant %s", template, err, want)
		}
	}
}

// Whatever the value, a URL with its own host keeps it, and the depth of its
// path.
func FuzzTemplate(f *testing.F) {
	for _, s := range [][2]string{
		{"https://h/a/{x}/b?c={x}", ".."}, {"https://h/{{{x}}}", "é"}, {"{x}", "http://h/"}, {"https://{x}.org/", "a@b"}, {"https://h/%{x}", "2f"},
		{"https://h?{x}/..", "/"}, {"https://u:p@h/%41{x}", "%2e%2e"}, {"https://h/{{{x}", "/"}, {"http://h:{x}", "1"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, template, value string) {
		tmpl, err := parseTemplate(template)
		if err != nil {
			return
		}
		r := recordOf()
		for _, c := range tmpl.columns {
			r.Names, r.Values = append(r.Names, c), append(r.Values, value)
		}
		u, err := tmpl.expand(r)
		if err != nil {
			return
		}
		if defaultPorts[u.Scheme] == "" {
			t.Fatalf("%s: got the scheme %q", u, u.Scheme)
		}
		if u.Hostname() == "" {
			t.Fatalf("%s: it has no host", u)
		}
		if tmpl.isColumn && u.User != nil {
			t.Fatalf("%s: a url that comes from the record has a user", u)
		}
		if tmpl.hostFromRecord {
			return
		}
		if u.Host != tmpl.base.Host || u.Scheme != tmpl.base.Scheme || u.User.String() != tmpl.base.User.String() {
			t.Fatalf("%s became %s", tmpl.base, u)
		}
		if len(tmpl.columns) == 0 {
			return
		}
		if got, want := strings.Count(u.EscapedPath(), "/"), strings.Count(tmpl.base.EscapedPath(), "/"); got != want {
			t.Fatalf("%s became %s, with %d slashes", tmpl.base, u, got)
		}
		if got, want := strings.Count(u.RawQuery, "&"), strings.Count(tmpl.base.RawQuery, "&"); got != want {
			t.Fatalf("%s became %s, with %d ampersands", tmpl.base, u, got)
		}
	})
}
