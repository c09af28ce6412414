package http

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/handler/setting"
)

// request makes the request for an attempt on r. What is wrong is wrong with
// the record.
func (p *plan) request(ctx context.Context, r *backlog.Record, keys [][]byte, now time.Time) (*http.Request, []byte, error) {
	u, err := p.url.expand(r)
	if err != nil {
		return nil, nil, err
	}
	if p.url.free {
		if err := p.allow.target(u); err != nil {
			return nil, nil, fmt.Errorf("url: %w", err)
		}
	}
	var body []byte
	if !p.bodiless {
		if body, err = r.ColumnsJSON(); err != nil {
			return nil, nil, err
		}
	}
	req, _ := http.NewRequestWithContext(ctx, p.method, "", bytes.NewReader(body)) // with one of our methods
	req.URL, req.Header = u, p.header(r, keys, body, now)
	return req, body, nil
}

func (p *plan) header(r *backlog.Record, keys [][]byte, body []byte, now time.Time) http.Header {
	h := maps.Clone(p.headers)
	id := recordID(p.source, r)
	// Spelled so, it is net/http's leave to send the request again where a
	// connection that had been used before ends without a byte of an answer:
	// mostly the server had closed it before the request came.
	h["Idempotency-Key"] = []string{id}
	h["Webhook-Id"] = []string{id}
	names, values := r.HandlerFields()
	for i, name := range names {
		switch name {
		case "id", "status", "inserted": // the body may have them
			continue
		case "deadline":
			name = "attempt_deadline"
		}
		if text := headerText(fmt.Sprint(values[i])); text != "" {
			h[textproto.CanonicalMIMEHeaderKey("backlog-"+strings.ReplaceAll(name, "_", "-"))] = []string{text}
		}
	}
	if len(keys) > 0 {
		timestamp := strconv.FormatInt(now.Unix(), 10)
		h["Webhook-Timestamp"] = []string{timestamp}
		h["Webhook-Signature"] = []string{signature(keys, id, timestamp, body)}
	}
	return h
}

// signature returns the value of webhook-signature: one signature for each
// key, over the id, the time in Unix seconds and the body.
func signature(keys [][]byte, id, timestamp string, body []byte) string {
	all := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		all[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(all, " ")
}

// maxID is the longest id that is written out.
const maxID = 128

// recordID returns an id of the record that no other record of any source has:
// source and key, escaped to letters, digits and -_/%~; only a hash of them if
// that is long. An id of a dead record says so, since to be told of its death
// is not what its handler was told.
func recordID(source string, r *backlog.Record) string {
	id := identityOf(source, r)
	if f := r.Memory; f != nil && f.UID != "" {
		id += "~" + escapeID(f.UID) // the record is to be processed anew, not once
	}
	if len(id) > maxID {
		sum := sha256.Sum256([]byte(id))
		id = "~" + hex.EncodeToString(sum[:])
	}
	if r.Reason != "" {
		id += "~dead"
	}
	return id
}

// identityOf returns what names the record: the source and its key, or what the record
// says of itself.
func identityOf(source string, r *backlog.Record) string {
	if r.Identity != nil {
		parts := make([]string, len(r.Identity))
		for i, part := range r.Identity {
			parts[i] = escapeID(part)
		}
		return strings.Join(parts, "/")
	}
	id := escapeID(source)
	for i := range r.Key.Len() {
		id += "/" + idOf(r.Key.Part(i))
	}
	return id
}

// idOf returns a part of a key. What is text, but would look like a number, or
// is neither, has a mark.
func idOf(part any) string {
	switch part := part.(type) {
	case int64:
		return strconv.FormatInt(part, 10)
	case float64:
		return escapeID(strconv.FormatFloat(part, 'g', -1, 64))
	case string:
		if _, err := strconv.ParseFloat(part, 64); err == nil {
			return "~" + escapeID(part)
		}
		return escapeID(part)
	case []byte:
		return "~~" + hex.EncodeToString(part)
	}
	return "~~~" + escapeID(fmt.Sprint(part))
}

const lettersAndDigits = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// escapeID escapes all but letters, digits, - and _.
func escapeID(s string) string {
	return escape(s, func(c byte) bool { return strings.IndexByte(lettersAndDigits+"-_", c) >= 0 })
}

// escape percent-escapes the bytes that are not to be kept.
func escape(s string, keep func(byte) bool) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; keep(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// maxHeader is the most bytes of a text in a header.
const maxHeader = 1 << 10

// headerText returns a text as a header can hold it: printable ASCII, all else
// and the percent sign percent-escaped, cut between two letters.
func headerText(s string) string {
	s = strings.TrimSpace(s)
	var b strings.Builder
	for _, r := range s { // U+FFFD for what is not UTF-8
		t := escape(string(r), isPlain)
		if b.Len()+len(t) > maxHeader {
			break
		}
		b.WriteString(t)
	}
	return strings.TrimRight(b.String(), " ")
}

// isPlain reports whether a byte of a header is not escaped.
func isPlain(c byte) bool { return c >= ' ' && c < 0x7f && c != '%' }

// A urlTemplate is a URL in which {column} stands for a record's value, and {{
// and }} for braces. It is immutable.
type urlTemplate struct {
	text    string
	columns []string // in the order of the text
	base    *url.URL // with standIn in place of each column
	free    bool     // the record decides about the host
}

// standIn is good as a name, a port and anything else, and hardly ever a value.
const standIn = "0"

const exampleURL = "; write one such as https://example.com/orders"

// parseTemplate parses a template. Its errors show nothing of the URL but the
// names of columns: there may be a password in it.
func parseTemplate(text string) (*urlTemplate, error) {
	t := &urlTemplate{text: text}
	example, err := setting.Fill(text, func(name, before string) (string, error) {
		t.columns = append(t.columns, name)
		t.free = t.free || placeOf(before) == 0
		switch {
		case text == "{"+name+"}":
			return "https://" + standIn, nil
		case before == "":
			return "", errors.New("begins with a {column}, which must be the whole url or stand behind https://" + exampleURL)
		case isDots(before[strings.LastIndexByte(before, '/')+1:]):
			return "", fmt.Errorf("has dots right before {%s}, which could become a step to somewhere else; write it without them", name)
		case strings.Contains(before[max(0, len(before)-2):], "%"):
			return "", fmt.Errorf("has a %% right before {%s}, which would complete an escape; write %%25 for the character itself", name)
		}
		return standIn, nil
	})
	switch {
	case err != nil:
		return nil, err
	case strings.Contains(example, "#"):
		return nil, errors.New("has a part behind #, which no service is sent; remove it")
	}
	if t.base, err = parseURL(example); err == nil && t.free && t.base.User != nil {
		err = errors.New("has a user and a host from the record, which anybody's server could be; give credentials in headers, if every host may see them")
	}
	return t, err
}

// placeOf returns where a value is that stands behind this part of a URL, which decides
// how it is escaped: '?' in the query, '/' in the path, 0 in the authority, host and port,
// or where it is all of the URL.
func placeOf(before string) byte {
	_, rest, _ := strings.Cut(before, "://")
	for _, c := range []byte("?/") {
		if strings.IndexByte(rest, c) >= 0 {
			return c
		}
	}
	return 0
}

// parseURL parses a complete URL of a web server. Its errors show nothing of
// it.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil: // its text would show the URL
		return nil, errors.New("is no URL" + exampleURL)
	case usualPorts[u.Scheme] == "" || u.Hostname() == "":
		return nil, errors.New("must begin with http:// or https:// and a host" + exampleURL)
	case strings.ContainsFunc(u.Host, func(r rune) bool { return r >= 0x80 }):
		return nil, errors.New("has a host with letters beyond ASCII; write its xn-- form")
	}
	port := portOf(u)
	if _, err := strconv.ParseUint(port, 10, 16); err != nil || len(port) > len("65535") {
		return nil, errors.New("has a port beyond 65535; correct it")
	}
	u.Fragment, u.RawFragment = "", ""
	// url.Parse leaves what may not stand in a query at all.
	u.RawQuery = escape(u.RawQuery, func(c byte) bool { return c > ' ' && c < 0x7f && strings.IndexByte(`"<>`, c) < 0 })
	return u, nil
}

var usualPorts = map[string]string{"http": "80", "https": "443"}

// portOf returns the port of a URL of a web server.
func portOf(u *url.URL) string {
	return cmp.Or(u.Port(), usualPorts[u.Scheme])
}

// expand returns the URL for r. What is wrong is wrong with the record. The
// URL must not be changed.
func (t *urlTemplate) expand(r *backlog.Record) (*url.URL, error) {
	if len(t.columns) == 0 {
		return t.base, nil
	}
	text, err := setting.Fill(t.text, func(name, before string) (string, error) {
		value, null, err := setting.Text(r, name)
		if err != nil || null {
			return "", cmp.Or(err, fmt.Errorf("column %s is NULL", name))
		}
		switch place := placeOf(before); {
		case place == '/':
			value, err = url.PathEscape(value), stays(name, value, before)
		case place == '?':
			value = url.QueryEscape(value)
		case before != "" && (value == "" || strings.ContainsFunc(value, notOfHost)):
			err = fmt.Errorf("column %s holds what no host can be named", name)
		}
		return value, err
	})
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	u, err := parseURL(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the url from the record %w", err)
	case t.text[0] == '{' && u.User != nil:
		return nil, errors.New("the url from the record has a user in it, which is not allowed")
	case !t.free && (u.Scheme != t.base.Scheme || u.Host != t.base.Host):
		return nil, errors.New("the url from the record leads to another host") // a fence: values are escaped
	}
	return u, nil
}

// stays refuses a value that would make a step to somewhere else in a path. Escaping
// does not help: servers take %2E%2E for two dots, and some of them ..%2F for a step.
func stays(column, value, before string) error {
	if value == "" && strings.HasSuffix(before, "/") {
		return fmt.Errorf("column %s is empty, which would make it another path", column)
	}
	for _, s := range strings.FieldsFunc(value, func(r rune) bool { return r == '/' || r == '\\' }) {
		if s, _, _ = strings.Cut(s, ";"); s == "." || s == ".." {
			return fmt.Errorf("column %s would lead out of the path, by %q", column, s)
		}
	}
	return nil
}

// isDots reports whether the beginning of a piece of a path is dots alone.
func isDots(s string) bool {
	plain, _ := url.PathUnescape(s)
	return plain != "" && strings.Trim(plain, ".") == ""
}

// notOfHost reports whether a value in a host, with its port perhaps, may not
// have r: letters, digits and -_. may be in names, :[] in addresses.
func notOfHost(r rune) bool { return !strings.ContainsRune(lettersAndDigits+"-_.:[]", r) }
