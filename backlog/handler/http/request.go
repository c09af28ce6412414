package http

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	"backlog/backlog"
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
			return nil, nil, fmt.Errorf("the record cannot be written as JSON: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, p.method, "", bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.URL, req.Header = u, p.header(r, keys, body, now)
	return req, body, nil
}

func (p *plan) header(r *backlog.Record, keys [][]byte, body []byte, now time.Time) http.Header {
	h := make(http.Header, len(p.headers)+8)
	for name, values := range p.headers {
		h[name] = values
	}
	id := recordID(p.source, r)
	// Spelled so, it is net/http's leave to send the request again where a
	// connection that had been used before ends without a byte of an answer:
	// mostly the server had closed it before the request came.
	h["Idempotency-Key"] = []string{id}
	h["Webhook-Id"] = []string{id}
	names, values := r.Told()
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
	id := escapeID(source)
	for i := range r.Key.Len() {
		id += "/" + idOf(r.Key.Part(i))
	}
	if f := r.Refresh; f != nil && f.UID != "" {
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

var unescaped = strings.NewReplacer("+", "%20", ".", "%2E", "~", "%7E")

// escapeID escapes all but letters, digits, - and _.
func escapeID(s string) string { return unescaped.Replace(url.QueryEscape(s)) }

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
	keep := func(c byte) bool { return c >= ' ' && c < 0x7f && c != '%' }
	var b strings.Builder
	for _, r := range s { // U+FFFD for what is not UTF-8
		t := escape(string(r), keep)
		if b.Len()+len(t) > maxHeader {
			break
		}
		b.WriteString(t)
	}
	return strings.TrimRight(b.String(), " ")
}
