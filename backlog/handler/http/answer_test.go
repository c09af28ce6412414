package http

import (
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"backlog/internal/handlertest"
)

// A status is an answer, however slowly the rest comes.
func TestAnswerComesSlowly(t *testing.T) {
	for status, text := range map[int]string{200: "", 500: "500 Internal Server Error: so far"} {
		synctest.Test(t, func(t *testing.T) {
			p, err := newClient(&Handler{Settings: Settings{URL: "http://example.com"}})
			if err != nil {
				t.Fatal(err)
			}
			body, server := io.Pipe()
			go io.WriteString(server, "so far") // and nothing more
			began, got := time.Now(), ""
			resp := &http.Response{StatusCode: status, ContentLength: -1, Body: body}
			if err := p.outcome(nil, resp, readBody(resp), began); err != nil {
				got = err.Error()
			}
			if took := time.Since(began); got != text || took != bodyTimeout {
				t.Errorf("%d: error %q after %v, want %q after %v", status, got, took, text, bodyTimeout)
			}
		})
	}
}

// An answer that is packed though nobody asked is quoted as what it says.
func TestPackedAnswer(t *testing.T) {
	const said = "no such customer: 42"
	pack := func(to func(io.Writer) io.WriteCloser, text string) string {
		var b strings.Builder
		w := to(&b)
		io.WriteString(w, text)
		w.Close()
		return b.String()
	}
	gz := func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
	zl := func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }
	raw := func(w io.Writer) io.WriteCloser { f, _ := flate.NewWriter(w, 9); return f }
	whole := pack(gz, said+strings.Repeat("!", 1<<30>>10))
	random := make([]byte, 200<<10)
	rand.NewChaCha8([32]byte{}).Read(random)
	for _, x := range []struct{ name, encoding, body, want string }{
		{"gzip", "gzip", pack(gz, said), said},
		{"gzip without a word", "", pack(gz, said), said},
		{"x-gzip", " X-GZIP", pack(gz, said), said},
		{"deflate", "deflate", pack(zl, said), said},
		{"deflate without its wrapping", "deflate", pack(raw, said), said},
		{"not packed", "gzip", said, said},
		{"not packed, deflate", "deflate", said, said},
		{"cut short", "gzip", whole[:len(whole)-30], said},
		{"a large one", "gzip", pack(gz, said+base64.StdEncoding.EncodeToString(random)), said},
		{"zeros without end", "gzip", pack(gz, said+strings.Repeat("\x00", 64<<20)), said},
		{"brotli", "br", "\x0b\x02\x80", "(a body in the encoding br, which was not asked for)"},
		{"nothing", "gzip", "", ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Accept-Encoding") != "" {
					t.Errorf("asked for %s", r.Header)
				}
				if x.encoding != "" {
					w.Header().Set("Content-Encoding", x.encoding)
				}
				w.Header().Set("Content-Type", "text/plain")
				w.WriteHeader(422)
				io.WriteString(w, x.body)
			}))
			defer server.Close()
			err := (&Handler{Settings: Settings{URL: server.URL}}).Handle(t.Context(), handlertest.NewRecord())
			want := strings.TrimSuffix("422 Unprocessable Entity: "+x.want, ": ")
			if err == nil || !strings.HasPrefix(err.Error(), want) || len(err.Error()) > 4<<10 {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                               0,
		"0":                              0,
		"120":                            2 * time.Minute,
		" 7 ":                            7 * time.Second,
		"-5":                             0,
		"+5":                             0,
		"1.5":                            0,
		"soon":                           0,
		"31622400":                       maxRetryAfter,
		"31622401":                       0,
		"99999999999999999999":           0,
		"Mon, 05 Jan 2026 12:01:00 GMT":  time.Minute,
		"Monday, 05-Jan-26 12:01:00 GMT": time.Minute,
		"Mon Jan  5 12:01:00 2026":       time.Minute,
		"Mon, 05 Jan 2026 11:59:59 GMT":  0,
		"Fri, 31 Dec 9999 23:59:59 GMT":  0,
		"2026-01-05T12:01:00Z":           0,
	} {
		if got := parseRetryAfter(value, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "120", "-1", "99999999999", "Mon, 05 Jan 2026 12:01:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		f.Add(s, int64(1_767_614_400))
	}
	f.Fuzz(func(t *testing.T, value string, unix int64) {
		now := time.Unix(unix, 0)
		wait := parseRetryAfter(value, now)
		if wait < 0 || wait > maxRetryAfter {
			t.Fatalf("%q: %v", value, wait)
		}
		if at, err := http.ParseTime(value); err == nil && wait > 0 && !now.Add(wait).Equal(at) {
			t.Fatalf("%q: %v from %v on", value, wait, now)
		}
	})
}

// Literal secrets are hidden, the longest first, and short words are not.
func TestHider(t *testing.T) {
	t.Parallel()
	const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u"
	p, err := newClient(&Handler{Settings: Settings{
		URL: "https://shop:hunter22@example.com/T0/0123456789abcdef/x?token=query%2Fsecret", Secrets: []string{secret},
		Headers: map[string]string{"X-Key": "abcdef", "X-Longer": "Token abcdefgh", "X-Pin": "12345", "Content-Type": "text/csv"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for said, want := range map[string]string{
		"":                              "",
		"abcdeabcdef abcdefghi abcdefg": "abcde*** ***i ***g",
		"Token abcdefgh but Token":      "*** but Token",
		secret + ", " + secret[6:]:      "***, ***",
		"0123456789abcdefghijklmn":      "***", // the key that is signed with
		"hunter22 by c2hvcDpodW50ZXIyMg==, that is Basic c2hvcDpodW50ZXIyMg==": "*** by ***, that is ***",
		"/T0/0123456789abcdef/x":             "/T0/***/x",
		"token=query%2Fsecret, query/secret": "token=***, ***",
		"12345 of text/csv":                  "12345 of text/csv",
	} {
		if got := p.printable(said); got != want {
			t.Errorf("%q became %q, want %q", said, got, want)
		}
	}
}
