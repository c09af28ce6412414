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

// request returns the request for an attempt on r, and its body. An error is the record's
// fault.
func (c *client) request(ctx context.Context, r *backlog.Record, keys [][]byte, now time.Time) (*http.Request, []byte, error) {
	u, err := c.url.expand(r)
	if err != nil {
		return nil, nil, err
	}
	if c.url.hostFromRecord {
		if err := c.allow.checkURL(u); err != nil {
			return nil, nil, fmt.Errorf("url: %w", err)
		}
	}
	var body []byte
	if !c.bodiless {
		if body, err = r.ColumnsJSON(); err != nil {
			return nil, nil, err
		}
	}
	req, _ := http.NewRequestWithContext(ctx, c.method, "", bytes.NewReader(body)) // fails only for an invalid method
	req.URL = u
	req.Header = c.header(r, keys, body, now)
	return req, body, nil
}

// header returns the headers of a request: the constant ones and what describes this attempt.
func (c *client) header(r *backlog.Record, keys [][]byte, body []byte, now time.Time) http.Header {
	h := maps.Clone(c.headers)
	id := recordID(c.source, r)
	// This header, in this spelling, allows net/http to send the request again if a
	// connection that was used before ends without a byte of an answer: most often the
	// server had closed it before the request arrived.
	h["Idempotency-Key"] = []string{id}
	h["Webhook-Id"] = []string{id}
	names, values := r.HandlerFields()
	for i, name := range names {
		switch name {
		case "id", "status", "inserted": // these are columns, which the body may have
			continue
		case "traceparent": // which tracers look for by this name
			delete(h, "Tracestate") // of another trace
		case "deadline":
			name = "backlog-attempt-deadline"
		default:
			name = "backlog-" + strings.ReplaceAll(name, "_", "-")
		}
		if text := headerText(fmt.Sprint(values[i])); text != "" {
			h[textproto.CanonicalMIMEHeaderKey(name)] = []string{text}
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

// maxID is the longest id that is not replaced by its hash.
const maxID = 128

// recordID returns an id that no other record of any source has: source and key, escaped to
// letters, digits and -_/%~, or their hash if that is too long. The notification about a dead
// record has an id of its own: a receiver must not take it for an attempt on the record.
func recordID(source string, r *backlog.Record) string {
	id := identityOf(source, r)
	if f := r.Memory; f != nil && f.UID != "" {
		id += "~" + escapeID(f.UID) // each attempt is to be processed
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

// identityOf returns the record's own identity, or else the source and its key.
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
		id += "/" + keyPartID(r.Key.Part(i))
	}
	return id
}

// keyPartID returns a part of a key as a part of an id. A text that looks like a number gets
// a prefix, and so does everything that is neither text nor number: different keys have
// different ids.
func keyPartID(part any) string {
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

// escapeID percent-escapes all bytes but letters, digits, - and _.
func escapeID(s string) string {
	return escape(s, func(c byte) bool { return strings.IndexByte(lettersAndDigits+"-_", c) >= 0 })
}

// escape percent-escapes the bytes for which keep returns false.
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

// maxHeader is how much of a text is put into a header, in bytes.
const maxHeader = 1 << 10

// headerText returns a text as a header can hold it: everything but printable ASCII, and the
// percent sign, is percent-escaped. A long text is cut between two characters.
func headerText(s string) string {
	s = strings.TrimSpace(s)
	var b strings.Builder
	for _, r := range s { // U+FFFD for what is not UTF-8
		t := escape(string(r), isPlainInHeader)
		if b.Len()+len(t) > maxHeader {
			break
		}
		b.WriteString(t)
	}
	return strings.TrimRight(b.String(), " ")
}

// isPlainInHeader reports whether a byte of a header needs no escape.
func isPlainInHeader(c byte) bool { return c >= ' ' && c < 0x7f && c != '%' }

// A urlTemplate is a URL in which {column} stands for a record's value, and {{
// and }} for braces. It is immutable.
type urlTemplate struct {
	text           string
	columns        []string // in the order of the text
	base           *url.URL // with placeholder in place of each column
	isColumn       bool     // it is nothing but one {column}, whose value is the whole URL
	hostFromRecord bool     // isColumn, or a column is in the host or the port
}

// placeholder is valid everywhere in a URL, as a host and as a port too.
const placeholder = "0"

const exampleURL = "; write one such as https://example.com/orders"

// parseTemplate parses a template. Of the URL, which may hold a password, its errors show only
// the names of columns.
func parseTemplate(text string) (*urlTemplate, error) {
	t := &urlTemplate{text: text}
	example, err := setting.Fill(text, func(name, before string) (string, error) {
		t.columns = append(t.columns, name)
		t.hostFromRecord = t.hostFromRecord || partAfter(before) == inAuthority
		t.isColumn = text == "{"+name+"}"
		switch {
		case t.isColumn:
			return "https://" + placeholder, nil
		case before == "":
			return "", errors.New("begins with a {column}, which must be the whole url or stand behind https://" + exampleURL)
		case strings.Contains(before[max(0, len(before)-2):], "%"):
			return "", fmt.Errorf("has a %% right before {%s}, which would complete an escape; write %%25 for the character itself", name)
		}
		return placeholder, nil
	})
	switch {
	case err != nil:
		return nil, err
	case strings.Contains(example, "#"):
		return nil, errors.New("has a part behind #, which no service is sent; remove it")
	}
	t.base, err = parseURL(example)
	if err == nil && t.hostFromRecord && t.base.User != nil {
		err = errors.New("has a user and a host from the record, which anybody's server could be; give credentials in headers, if every host may see them")
	}
	if err == nil && len(t.columns) > 0 && hasDotStep(t.base) {
		err = errors.New("has a step . or .. in its path; write the path to which it leads")
	}
	return t, err
}

// A urlPart is a part of a URL, which decides how a value in it is escaped.
type urlPart byte

const (
	inAuthority urlPart = iota // host and port; also a value that is the whole URL
	inPath
	inQuery
)

// partAfter returns the part of the URL to which a value after the text before belongs.
func partAfter(before string) urlPart {
	_, rest, _ := strings.Cut(before, "://")
	switch {
	case strings.Contains(rest, "?"):
		return inQuery
	case strings.Contains(rest, "/"):
		return inPath
	}
	return inAuthority
}

// parseURL parses a complete http or https URL. Its errors show nothing of it, and continue a sentence
// about it, such as "is no URL".
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil: // its text would show the URL
		return nil, errors.New("is no URL" + exampleURL)
	case defaultPorts[u.Scheme] == "" || u.Hostname() == "":
		return nil, errors.New("must begin with http:// or https:// and a host" + exampleURL)
	case strings.ContainsFunc(u.Host, func(r rune) bool { return r >= 0x80 }):
		return nil, errors.New("has a host with letters beyond ASCII; write its xn-- form")
	}
	port := portOf(u)
	if _, err := strconv.ParseUint(port, 10, 16); err != nil || len(port) > len("65535") {
		return nil, errors.New("has a port beyond 65535; correct it")
	}
	u.Fragment = ""
	u.RawFragment = ""
	// url.Parse accepts characters that are not allowed where they are. One in the path would have the
	// whole path escaped anew, and a %2F in it would become a step.
	u.RawPath = escape(u.RawPath, func(c byte) bool { return strings.IndexByte(lettersAndDigits+"-_.~$&+,/:;=@!'()*[]%", c) >= 0 })
	u.RawQuery = escape(u.RawQuery, func(c byte) bool { return c > ' ' && c < 0x7f && strings.IndexByte(`"<>`, c) < 0 })
	return u, nil
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

// portOf returns the port of an http or https URL, the default one if it names none.
func portOf(u *url.URL) string {
	return cmp.Or(u.Port(), defaultPorts[u.Scheme])
}

// expand returns the URL for r, which the caller must not change. An error is the record's
// fault.
func (t *urlTemplate) expand(r *backlog.Record) (*url.URL, error) {
	if len(t.columns) == 0 {
		return t.base, nil
	}
	text, err := setting.Fill(t.text, func(column, before string) (string, error) {
		value, null, err := setting.Text(r, column)
		switch {
		case err != nil:
			return "", err
		case null:
			return "", fmt.Errorf("column %s is NULL", column)
		case t.isColumn:
			return value, nil
		}
		return escapedValue(column, value, before)
	})
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	u, err := parseURL(text)
	if err != nil {
		return nil, fmt.Errorf("the url from the record %w", err)
	}
	if t.isColumn && u.User != nil {
		return nil, errors.New("the url from the record has a user in it, which is not allowed")
	}
	// Escaped values cannot change the host: this is a second line of defence.
	hostDiffers := u.Scheme != t.base.Scheme || u.Host != t.base.Host
	if hostDiffers && !t.hostFromRecord {
		return nil, errors.New("the url from the record leads to another host")
	}
	if !t.isColumn && hasDotStep(u) {
		return nil, errors.New("the url from the record has a step . or .. in its path, and would lead elsewhere")
	}
	return u, nil
}

// escapedValue returns the value of a column as it is put into a URL after the text before. It returns
// an error for a value that cannot stay within its part of the URL.
func escapedValue(column, value, before string) (string, error) {
	switch partAfter(before) {
	case inPath:
		if value == "" && strings.HasSuffix(before, "/") {
			return "", fmt.Errorf("column %s is empty, which would make it another path", column)
		}
		return url.PathEscape(value), nil
	case inQuery:
		return url.QueryEscape(value), nil
	case inAuthority:
		if value == "" || strings.ContainsFunc(value, invalidInHost) {
			return "", fmt.Errorf("column %s holds what no host can be named", column)
		}
	}
	return value, nil
}

// hasDotStep reports whether a step of the path is one or two dots, which servers take away. Escaping does not
// help: they take %2E%2E for two dots, and some take ..%2F and ..%5C for a step up.
func hasDotStep(u *url.URL) bool {
	for step := range strings.FieldsFuncSeq(u.Path, func(r rune) bool { return r == '/' || r == '\\' }) {
		name, _, _ := strings.Cut(step, ";") // without parameters
		if name == "." || name == ".." {
			return true
		}
	}
	return false
}

// invalidInHost reports whether r may not be in a host with or without a port: names have
// letters, digits and -_. only, addresses also :[].
func invalidInHost(r rune) bool { return !strings.ContainsRune(lettersAndDigits+"-_.:[]", r) }
