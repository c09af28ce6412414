package handler

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"backlog/backlog"
)

// secretPrefix says of a text that it is a secret of Standard Webhooks.
const secretPrefix = "whsec_"

// parseSecret returns the key in a secret. Its errors show nothing of it.
func parseSecret(text string) ([]byte, error) {
	text = strings.TrimSpace(text)
	coded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return nil, errors.New("does not begin with whsec_; write whsec_ and 24 to 64 random bytes in base64")
	}
	key, err := base64.StdEncoding.DecodeString(coded)
	if err != nil {
		if key, err = base64.RawStdEncoding.DecodeString(coded); err != nil {
			return nil, errors.New("has something other than base64 behind whsec_; write 24 to 64 random bytes in base64 there")
		}
	}
	if len(key) < 24 || len(key) > 64 {
		return nil, fmt.Errorf("holds %d bytes; take 24 to 64 random ones", len(key))
	}
	return key, nil
}

// secretFile watches a file that holds one secret.
func secretFile(path string) *watched[[]byte] {
	return &watched[[]byte]{paths: []string{path}, parse: func(contents [][]byte) ([]byte, error) {
		key, err := parseSecret(string(contents[0]))
		if err != nil {
			return nil, fmt.Errorf("%s %w", path, err)
		}
		return key, nil
	}}
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

// escapeID escapes all but letters, digits, - and _.
func escapeID(s string) string {
	return escape(s, func(c byte) bool {
		return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
	})
}

// escape percent-escapes the bytes that are not to be kept.
func escape(s string, keep func(byte) bool) string {
	clean := true
	for i := range len(s) {
		clean = clean && keep(s[i])
	}
	if clean {
		return s
	}
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
	whole := escape(strings.ToValidUTF8(s, "\uFFFD"), keep)
	if len(whole) <= maxHeader {
		return whole
	}
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
