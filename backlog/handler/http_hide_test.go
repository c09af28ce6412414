package handler

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// spellings are the ways in which servers and our own libraries repeat a text.
var spellings = map[string]func(string) string{
	"plain":         func(s string) string { return s },
	"JSON":          inJSON,
	"JSON in JSON":  func(s string) string { return inJSON(inJSON(s)) },
	"JSON of PHP":   func(s string) string { return strings.ReplaceAll(inJSON(s), "/", `\/`) },
	"JSON of .NET":  func(s string) string { return inHex(s, `\u%04X`) },
	"JSON in small": func(s string) string { return inHex(s, `\u%04x`) },
	"bytes":         inBytes,
	"Go's quotes":   strconv.Quote,
	"ASCII quotes":  strconv.QuoteToASCII,
	"HTML":          html.EscapeString,
	"HTML of .NET":  func(s string) string { return inHex(s, "&#x%X;") },
	"query":         url.QueryEscape,
	"path":          url.PathEscape,
}

func inJSON(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// inHex writes all but letters and digits by the format.
func inHex(s, format string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case '0' <= r && r <= '9', 'A' <= r && r <= 'Z', 'a' <= r && r <= 'z':
			b.WriteRune(r)
		case r > 0xFFFF && strings.HasPrefix(format, `\u`):
			r -= 0x10000
			fmt.Fprintf(&b, format+format, 0xD800+r>>10, 0xDC00+r&0x3FF)
		default:
			fmt.Fprintf(&b, format, r)
		}
	}
	return b.String()
}

// inBytes writes all but ASCII as \x and two digits for each byte.
func inBytes(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\\' || c == '\'':
			b.WriteString(`\` + string(c))
		case c >= 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func TestHiderSpellings(t *testing.T) {
	for _, secret := range []string{
		"abcdef", "c2VjcmV0+/8==", `a"b\c'd&e<f>`, `a\\\\\\`, `&amp;%41+\u0041`, "Zoë schläft 🐘", "50%25 off", "tab\tand more", `end\`[:4] + "ing!",
	} {
		h := newHider([]string{secret, "unrelated"})
		for name, spell := range spellings {
			said := "you sent " + spell(secret) + ", and that is all"
			got := h.Replace(said)
			// A quote around it may be part of what is hidden, if the secret begins
			// with what could escape it.
			if !strings.HasPrefix(got, "you sent ") || !strings.HasSuffix(got, ", and that is all") || len(got) > len("you sent ***, and that is all")+8 {
				t.Errorf("%s of %q: %s became %s", name, secret, said, got)
			}
		}
	}
}

func TestHiderLeavesTheRest(t *testing.T) {
	h := newHider([]string{"abcdefgh", "abcdef", "short", `C:\temp\x`})
	for said, want := range map[string]string{
		"":                              "",
		"abcdeabcdef abcdefghi abcdefg": "abcde*** ***i ***g",
		`short ABCDEF abcde\`:           `short ABCDEF abcde\`,
		`%61bcdef &#97;bcdef \u0061bc`:  `*** *** \u0061bc`,
		`100% of A&B; C:\temp C:\\temp\\x C:\temp\x \u00 \x &;`: `100% of A&B; C:\temp *** *** \u00 \x &;`,
		strings.Repeat(`\`, 1<<16):                              strings.Repeat(`\`, 1<<16),
	} {
		if got := h.Replace(said); got != want {
			t.Errorf("%.80q became %.80q, want %.80q", said, got, want)
		}
	}
	if got := newHider(nil).Replace(`\&%+`); got != `\&%+` {
		t.Errorf("nothing to hide: %q", got)
	}
}

func TestHiddenOfHeaders(t *testing.T) {
	basic := base64.StdEncoding.EncodeToString([]byte("shop:hunter22"))
	for _, tt := range []struct{ name, value, said, want string }{
		{"Cookie", "session=abc/def+ghi; lang=en; csrf=\"123456789\"", "abc/def+ghi, abc%2Fdef%2Bghi, 123456789 in en", "***, ***, *** in en"},
		{"Cookie", "session=abcdef==", "session is abcdef==", "session is ***"},
		{"Authorization", "Bearer abcdef", "no Bearer abcdef but Bearer", "no *** but Bearer"},
		{"Authorization", "Basic " + basic, "shop has hunter22, not " + basic, "shop has ***, not ***"},
		{"Authorization", `Token id="key-12345", sig=998877665`, "key-12345 signs 998877665", "*** signs ***"},
		{"X-Pin", "12345", "12345", "12345"},
	} {
		p, err := newHTTPPlan(&HTTP{URL: "https://example.com", Headers: map[string]string{tt.name: tt.value}})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.printable([]byte(tt.said)); got != tt.want {
			t.Errorf("%s: %s: %q became %q, want %q", tt.name, tt.value, tt.said, got, tt.want)
		}
	}
}

// However a secret is spelled and whatever stands around it, it is hidden.
func FuzzHider(f *testing.F) {
	f.Add("sec+ret/==", "you sent ", ".")
	f.Add(`a\"b&c;%d`, `\`, `\\u`)
	f.Add("🐘🐘🐘", "&#", ";")
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		h := newHider([]string{secret})
		if len(h.secrets) == 0 || !utf8.ValidString(secret) || strings.ContainsFunc(secret, func(r rune) bool { return r != '\t' && !unicode.IsPrint(r) }) {
			return
		}
		for name, spell := range spellings {
			if got := h.Replace(before + " " + spell(secret) + " " + after); !strings.Contains(got, "***") {
				t.Errorf("%s of %q: %q", name, secret, got)
			}
		}
	})
}
