package http

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"backlog/backlog"
)

// A urlPlace is a part of a URL, which decides how a value is escaped in it.
type urlPlace int

const (
	inWhole urlPlace = iota // the value is the URL
	inHost                  // the authority: host and port
	inPath
	inQuery
)

// mark stands for a value in the text of a template.
const mark = "\x00"

// A urlTemplate is a URL in which {column} stands for a record's value, and {{
// and }} for braces. It is immutable.
type urlTemplate struct {
	text    string     // with a mark for each column
	columns []string   // in the order of the marks
	places  []urlPlace // likewise

	// base is the URL if it has no columns; otherwise only its scheme, user
	// and host are meant. It is nil if the record decides about the host.
	base *url.URL

	segments []string // of the path, with marks
	last     []string // the last column in each; "": none
	own      []string // values in the query without a column, as they are written
}

const exampleURL = "; write one such as https://example.com/orders"

// They are compiled when they are needed: not at every start of the program.
var (
	braces  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{|\}\}|\{[^{}]+\}|[{}]`) })
	cutting = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`%.?` + mark) }) // an escape that a value would complete
)

// parseTemplate parses a template. Its errors show nothing of the URL but the
// names of columns: there may be a password in it.
func parseTemplate(text string) (*urlTemplate, error) {
	t, alone := new(urlTemplate), false
	t.text = braces().ReplaceAllStringFunc(text, func(s string) string {
		if len(s) > 2 || s == "{}" {
			t.columns = append(t.columns, s[1:len(s)-1])
			return mark
		}
		alone = alone || len(s) == 1
		return s[:1]
	})
	at := cutting().FindStringIndex(t.text)
	switch {
	case strings.Contains(text, mark):
		return nil, errors.New("is no URL" + exampleURL)
	case alone:
		return nil, errors.New("a { or } without the other; write {column} for a column's value, and {{ or }} if the character itself is meant")
	case t.text == mark:
		t.places = []urlPlace{inWhole}
		return t, nil
	case strings.HasPrefix(t.text, mark):
		return nil, errors.New("begins with a {column}, which must be the whole url or stand behind https://" + exampleURL)
	case strings.Contains(t.text, "#"):
		return nil, errors.New("has a part behind #, which no service is sent; remove it")
	case at != nil:
		column := t.columns[strings.Count(t.text[:at[0]], mark)]
		return nil, fmt.Errorf("has a %% right before {%s}, which would complete an escape; write %%25 for the character itself", column)
	}
	u, err := parseURL(strings.ReplaceAll(t.text, mark, "1")) // good as a name, a port and anything else
	if err != nil {
		return nil, err
	}
	if t.divide(); !slices.Contains(t.places, inHost) {
		t.base = u
	} else if u.User != nil {
		return nil, errors.New("has a user and a host from the record, which anybody's server could be; give credentials in headers, if every host may see them")
	}
	return t, nil
}

// divide finds out what stands where in the URL.
func (t *urlTemplate) divide() {
	host, path, query := cutURL(t.text)
	for i, part := range []string{host, path, query} {
		t.places = append(t.places, slices.Repeat([]urlPlace{inHost + urlPlace(i)}, strings.Count(part, mark))...)
	}
	n := strings.Count(host, mark)
	t.segments = strings.Split(path, "/")
	t.last = make([]string, len(t.segments))
	for i, segment := range t.segments {
		if marks := strings.Count(segment, mark); marks > 0 {
			n += marks
			t.last[i] = t.columns[n-1]
		}
	}
	for pair := range strings.SplitSeq(query, "&") {
		if _, value, _ := strings.Cut(pair, "="); value != "" && !strings.Contains(value, mark) {
			t.own = append(t.own, escapeQuery(value))
		}
	}
}

// cutURL cuts a URL into its scheme and host, its path and its query.
func cutURL(text string) (host, path, query string) {
	from := strings.Index(text, "://") + len("://")
	host, query, _ = strings.Cut(text, "?")
	if slash := strings.IndexByte(host[from:], '/'); slash >= 0 {
		host, path = host[:from+slash], host[from+slash:]
	}
	return host, path, query
}

func isHTTP(scheme string) bool {
	return strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")
}

// parseURL parses a complete URL of a web server. Its errors show nothing of
// it.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil: // its text would show the URL
		return nil, errors.New("is no URL" + exampleURL)
	case !isHTTP(u.Scheme) || u.Opaque != "" || u.Hostname() == "":
		return nil, errors.New("must begin with http:// or https:// and a host" + exampleURL)
	case strings.ContainsFunc(u.Host, func(r rune) bool { return r >= 0x80 }):
		return nil, errors.New("has a host with letters beyond ASCII; write its xn-- form")
	}
	if _, err := strconv.ParseUint(portOf(u), 10, 16); err != nil || len(portOf(u)) > len("65535") {
		return nil, errors.New("has a port beyond 65535; correct it")
	}
	u.Fragment, u.RawFragment = "", ""
	u.RawQuery = escapeQuery(u.RawQuery)
	return u, nil
}

var usualPorts = map[string]string{"http": "80", "https": "443"}

// portOf returns the port of a URL of a web server.
func portOf(u *url.URL) string {
	return cmp.Or(u.Port(), usualPorts[u.Scheme])
}

// escapeQuery escapes what may not stand in a query at all; [url.Parse] leaves
// it.
func escapeQuery(query string) string {
	return escape(query, func(c byte) bool { return c > ' ' && c < 0x7f && strings.IndexByte(`"<>`, c) < 0 })
}

// expand returns the URL for r. What is wrong is wrong with the record. The
// URL must not be changed.
func (t *urlTemplate) expand(r *backlog.Record) (*url.URL, error) {
	if len(t.columns) == 0 {
		return t.base, nil
	}
	var b strings.Builder
	rest := t.text
	for i, column := range t.columns {
		literal, after, _ := strings.Cut(rest, mark)
		value, err := columnText(r, column)
		if err != nil {
			return nil, err
		}
		switch t.places[i] {
		case inHost:
			if strings.ContainsFunc(value, notOfHost) || value == "" {
				return nil, fmt.Errorf("url: column %s holds what no host can be named", column)
			}
		case inPath:
			value = url.PathEscape(value)
		case inQuery:
			value = url.QueryEscape(value)
		}
		b.WriteString(literal + value)
		rest = after
	}
	text := b.String() + rest
	if err := t.stays(text); err != nil {
		return nil, err
	}
	u, err := parseURL(text)
	if err != nil {
		return nil, fmt.Errorf("the url from the record %w", err)
	}
	if t.base == nil && u.User != nil {
		return nil, errors.New("the url from the record has a user in it, which is not allowed")
	}
	if t.base != nil && (u.Scheme != t.base.Scheme || u.Host != t.base.Host) {
		return nil, errors.New("the url from the record leads to another host") // a fence: values are escaped
	}
	return u, nil
}

// stays refuses a URL with a segment in its path that a value has made a step to
// somewhere else. Escaping does not help: servers take %2E%2E for two dots, and
// some of them ..%2F for a step.
func (t *urlTemplate) stays(text string) error {
	if !slices.Contains(t.places, inPath) {
		return nil
	}
	_, path, _ := cutURL(text)
	for i, raw := range strings.Split(path, "/") { // as many as t.segments: a value has no slash left
		column := t.last[i]
		segment, err := url.PathUnescape(raw)
		switch {
		case column == "":
			continue
		case raw == "":
			return fmt.Errorf("url: column %s is empty, which would make it another path", column)
		case err != nil:
			return fmt.Errorf("url: column %s makes a path that cannot be read", column)
		}
		for _, s := range strings.FieldsFunc(segment, func(r rune) bool { return r == '/' || r == '\\' }) {
			if s, _, _ = strings.Cut(s, ";"); s == "." || s == ".." {
				return fmt.Errorf("url: column %s would lead out of the path, by %q", column, s)
			}
		}
	}
	return nil
}

// notOfHost reports whether a value in a host, with its port perhaps, may not
// have r: letters, digits and -_. may be in names, :[] in addresses.
func notOfHost(r rune) bool { return !strings.ContainsRune(lettersAndDigits+"-_.:[]", r) }

// columnText returns a value as text: as in JSON, but without quotes.
func columnText(r *backlog.Record, name string) (string, error) {
	v, ok := r.Column(name)
	if !ok {
		return "", fmt.Errorf("url: the record has no column %s; see table.columns", name)
	}
	if s, ok := v.(string); ok {
		return s, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("url: column %s: %w", name, err)
	}
	var s *string
	switch err := json.Unmarshal(b, &s); {
	case err != nil: // no string
		return string(b), nil
	case s == nil:
		return "", fmt.Errorf("url: column %s is NULL", name)
	}
	return *s, nil
}

// show returns the URL for people: without its user, and with *** for the
// values that the template itself gives in the query, which may be secret.
func (t *urlTemplate) show(u *url.URL) string {
	shown := *u
	shown.User = nil
	pairs := strings.Split(u.RawQuery, "&")
	for i, pair := range pairs {
		if name, value, ok := strings.Cut(pair, "="); ok && slices.Contains(t.own, value) {
			pairs[i] = name + "=***"
		}
	}
	shown.RawQuery = strings.Join(pairs, "&")
	return shown.String()
}
