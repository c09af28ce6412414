package handler

import (
	"encoding/base64"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

const (
	// minHidden is the least length of a text that is hidden where a server
	// repeats it: shorter ones are words, which would be hidden all over.
	minHidden = 6

	// minToken is the least length of a piece of a path that is taken for a
	// secret.
	minToken = 16
)

// A hider hides secrets in what a server says, however they are escaped there:
// as in JSON or a language's quotes, HTML or a URL. It is immutable.
type hider struct {
	secrets []string // the longest first: of those that begin alike it counts
	begins  [256]bool
}

func newHider(texts []string) *hider {
	h := new(hider)
	for _, s := range texts {
		if len(s) >= minHidden && !slices.Contains(h.secrets, s) {
			h.secrets = append(h.secrets, s)
			h.begins[s[0]] = true
		}
	}
	slices.SortFunc(h.secrets, func(a, b string) int { return len(b) - len(a) })
	for _, c := range []byte(marks) {
		h.begins[c] = len(h.secrets) > 0
	}
	return h
}

// marks begin escapes, in one place or another.
const marks = `\&%+`

// Replace returns the text with *** in the place of each secret.
func (h *hider) Replace(text string) string {
	var b strings.Builder
	done := 0
	for at := 0; at < len(text); at++ {
		if !h.begins[text[at]] {
			continue
		}
		for _, s := range h.secrets {
			if end := spelledUntil(s, text, at); end >= 0 {
				b.WriteString(text[done:at] + "***")
				done, at = end, end-1
				break
			}
		}
	}
	if done == 0 {
		return text
	}
	return b.String() + text[done:]
}

// spelledUntil returns where the secret ends that stands in the text from the
// place at on, -1 if it does not. What a character could mean is tried each way, a
// backslash may be the secret's own or an escape, but no way twice; the longest
// one counts.
func spelledUntil(secret, text string, at int) int {
	type state struct{ at, matched int }
	ways, end := []state{{at, 0}}, -1
	for i := 0; i < len(ways); i++ {
		way := ways[i]
		for way.matched < len(secret) && way.at < len(text) {
			if strings.IndexByte(marks, text[way.at]) >= 0 {
				for _, e := range escapes(text[way.at:]) {
					next := state{way.at + e.length, way.matched + len(e.means)}
					if strings.HasPrefix(secret[way.matched:], e.means) && !slices.Contains(ways, next) {
						ways = append(ways, next)
					}
				}
			}
			if text[way.at] != secret[way.matched] {
				break
			}
			way.at++
			way.matched++
		}
		if way.matched == len(secret) {
			end = max(end, way.at)
		}
	}
	return end
}

// A spelling is the length of an escape and what it means, which is never nothing.
type spelling struct {
	length int
	means  string
}

// maxBackslashes is how many may stand before what they escape: an escape is
// escaped in turn where JSON is a text in JSON.
const maxBackslashes = 8

// escapes returns what the text, which begins with one of the marks, may begin with.
func escapes(text string) (all []spelling) {
	add := func(length int, means string) { all = append(all, spelling{length, means}) }
	switch text[0] {
	case '+':
		add(1, " ")
	case '%':
		if b, ok := unhex(text, 1, 2); ok {
			add(3, string([]byte{byte(b)}))
		}
	case '&':
		if end := strings.IndexByte(text[:min(len(text), 10)], ';'); end > 0 {
			if means := html.UnescapeString(text[:end+1]); means != text[:end+1] {
				add(end+1, means)
			}
		}
	case '\\':
		n := 1
		for n < len(text) && n < maxBackslashes && text[n] == '\\' {
			n++
			add(n, `\`)
		}
		if n == len(text) {
			break
		}
		switch c := text[n]; c {
		case 'u':
			all = append(all, unicodeEscape(text, n)...)
		case 'U':
			if r, ok := unhex(text, n+1, 8); ok {
				add(n+9, string(r))
			}
		case 'x':
			if b, ok := unhex(text, n+1, 2); ok {
				add(n+3, string([]byte{byte(b)})) // of UTF-8, in some languages
				add(n+3, string(b))
			}
		case 't':
			add(n+1, "\t")
		default:
			add(n+1, string([]byte{c}))
		}
	}
	return all
}

// unicodeEscape returns the escape whose u stands at the place n, or with the
// one behind it, where those are two halves.
func unicodeEscape(text string, n int) []spelling {
	r, ok := unhex(text, n+1, 4)
	if !ok {
		return nil
	}
	length := n + 5
	if utf16.IsSurrogate(r) && strings.HasPrefix(text[length:], `\u`) {
		if low, ok := unhex(text, length+2, 4); ok {
			r, length = utf16.DecodeRune(r, low), length+6
		}
	}
	return []spelling{{length, string(r)}}
}

// unhex returns the number that so many hexadecimal digits from the place on are.
func unhex(text string, from, digits int) (rune, bool) {
	if len(text) < from+digits {
		return 0, false
	}
	n, err := strconv.ParseUint(text[from:from+digits], 16, 32)
	return rune(n), err == nil
}

// setHidden finds what may not be shown when a server repeats it.
func (p *httpPlan) setHidden(h *HTTP) {
	var texts []string
	for name, values := range p.headers {
		if slices.Contains(p.secret, name) && name != "Content-Type" && name != "User-Agent" {
			for _, v := range values {
				texts = append(texts, inHeader(v)...)
			}
		}
	}
	for _, text := range p.url.ownQuery() {
		decoded, _ := url.QueryUnescape(text)
		texts = append(texts, text, decoded)
	}
	for _, part := range p.url.parts {
		for s := range strings.SplitSeq(part.text, "/") {
			if part.place == inPath && len(s) >= minToken {
				decoded, _ := url.PathUnescape(s)
				texts = append(texts, s, decoded)
			}
		}
	}
	if base := p.url.base; base != nil && base.User != nil {
		password, _ := base.User.Password()
		texts = append(texts, base.User.String(), password)
	}
	for _, s := range h.Secrets {
		texts = append(texts, s, strings.TrimPrefix(s, secretPrefix))
	}
	p.hide = newHider(texts)
}

// inHeader returns what is secret in the value of a header: all of it, what
// stands behind a word such as Bearer, the password of Basic, and the values of
// pairs such as cookies.
func inHeader(value string) []string {
	scheme, credential, _ := strings.Cut(value, " ")
	credential = strings.TrimSpace(credential)
	texts := []string{value, credential}
	if strings.EqualFold(scheme, "Basic") {
		pair, _ := base64.StdEncoding.DecodeString(credential)
		_, password, _ := strings.Cut(string(pair), ":")
		texts = append(texts, password)
	}
	for piece := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ';' || r == ',' }) {
		_, v, _ := strings.Cut(piece, "=")
		texts = append(texts, strings.TrimSpace(v), strings.Trim(v, "\" \t"))
	}
	return texts
}
