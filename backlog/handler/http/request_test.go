package http

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"backlog/backlog"
	"backlog/internal/testkit"
)

// The signatures were computed by OpenSSL:
//
//	printf %s "$id.$timestamp.$body" | openssl dgst -sha256 -mac HMAC -macopt hexkey:$key -binary | base64
func TestSignature(t *testing.T) {
	t.Parallel()
	first, err := parseSecret("whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u")
	if err != nil {
		t.Fatal(err)
	}
	second, err := parseSecret(" whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		keys                [][]byte
		id, timestamp, body string
		want                string
	}{
		{[][]byte{first}, "orders/7", "1767614400", `{"id":7,"name":"Zoë"}`, "v1,39gm0zT7Dad3E6iy6HwU/L5wVfZ24x/YgoXFeP7s/0s="},
		{[][]byte{second, first}, "orders/7", "1767614400", `{"id":7,"name":"Zoë"}`, "v1,1RxCLSZ7OPPersiNYzgl6qYPtqZ8ayHcqYMYqd9XgCs= v1,39gm0zT7Dad3E6iy6HwU/L5wVfZ24x/YgoXFeP7s/0s="},
		{[][]byte{first}, "orders/7", "1767614400", "", "v1,GowqreqVmRLwGLfn9sGOKeC8ImzUdE9rfOx2w6w5Gdw="},
	} {
		if got := signature(tt.keys, tt.id, tt.timestamp, []byte(tt.body)); got != tt.want {
			t.Errorf("signature of %s: %s, want %s", tt.body, got, tt.want)
		}
	}
}

func secretOf(n int, fill byte) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(fill), n)))
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		secretOf(24, 'a'):                         true,
		secretOf(64, 'a'):                         true,
		strings.TrimRight(secretOf(25, 'a'), "="): true,
		"  " + secretOf(32, 'a') + "\r\n":         true,
		secretOf(23, 'a'):                         false,
		secretOf(65, 'a'):                         false,
		"":                                        false,
		"hunter2hunter2hunter2hunter2":            false,
		"whsec_hunter2!":                          false,
	} {
		if _, err := parseSecret(text); (err == nil) != good || err != nil && err.Error() != noSecret {
			t.Errorf("%q: error %v, want %v", text, err, good)
		}
	}
}

const noSecret = "is no secret; it must be whsec_ and the base64 of 24 to 64 bytes, as `echo whsec_$(openssl rand -base64 32)` prints one"

func TestSecretFileIsReadAgainWhenChanged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &client{Settings: &Settings{SecretFiles: []string{path}}}
	want := func(n int, problem string) {
		t.Helper()
		keys, err := p.keys()
		got := ""
		if err != nil {
			got = err.Error()
		}
		testkit.Equal(t, "error", got, problem)
		if n > 0 && (len(keys) != 1 || len(keys[0]) != n) {
			t.Errorf("got the keys %q, want one of %d bytes", keys, n)
		}
	}
	missing := "http: secret_file: open " + path + ": no such file or directory; correct the path or the permissions"
	want(0, missing)
	write(secretOf(24, 'a'))
	want(24, "")
	write(secretOf(32, 'b') + "\n")
	want(32, "")
	write("whsec_half")
	want(0, "http: secret_file: "+path+" "+noSecret)
	write(secretOf(40, 'c'))
	want(40, "")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	want(0, missing)
}

func TestRecordID(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200)
	sum := sha256.Sum256([]byte("orders/" + long))
	for _, tt := range []struct {
		source string
		parts  []any
		want   string
	}{
		{"orders", []any{int64(7)}, "orders/7"},
		{"orders", []any{int64(-7)}, "orders/-7"},
		{"orders", []any{"7"}, "orders/~7"},
		{"orders", []any{"0x1p-2"}, "orders/~0x1p-2"},
		{"orders", []any{1.5}, "orders/1%2E5"},
		{"orders", []any{"a.b"}, "orders/a%2Eb"},
		{"orders", []any{math.Inf(1)}, "orders/%2BInf"},
		{"orders", []any{"+Inf"}, "orders/~%2BInf"},
		{"orders", []any{"01890a5d-ac96-774b-bcce-b302099a8057"}, "orders/01890a5d-ac96-774b-bcce-b302099a8057"},
		{"orders", []any{"a b/ü\r\n~"}, "orders/a%20b%2F%C3%BC%0D%0A%7E"},
		{"orders", []any{[]byte{0, 0xff}}, "orders/~~00ff"},
		{"orders", []any{int64(1), "a", "2"}, "orders/1/a/~2"},
		{"shop.orders", []any{"b/c"}, "shop%2Eorders/b%2Fc"},
		{"", []any{int64(7)}, "/7"},
		{"orders", []any{long}, "~" + hex.EncodeToString(sum[:])},
	} {
		r := &backlog.Record{Key: backlog.NewKey(tt.parts...)}
		if got := recordID(tt.source, r); got != tt.want {
			t.Errorf("%s %q: %s, want %s", tt.source, tt.parts, got, tt.want)
		}
	}
}

// A record that names itself is named so, whatever the source and its key are.
func TestRecordIdentity(t *testing.T) {
	r := &backlog.Record{Key: backlog.NewKey("m/1"), Identity: []string{"orders/eu", "m/1", "0a1b"}}
	if got := recordID("messages", r); got != "orders%2Feu/m%2F1/0a1b" {
		t.Error(got)
	}
	r.Reason = backlog.ReasonRetries
	if got := recordID("messages", r); got != "orders%2Feu/m%2F1/0a1b~dead" {
		t.Error(got)
	}
}

func TestHeaderText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                               "",
		" plain, with: signs\t":          "plain, with: signs",
		"50%":                            "50%25",
		"a\r\nb\x00\x7fü":                "a%0D%0Ab%00%7F%C3%BC",
		"\xff":                           "%EF%BF%BD",
		strings.Repeat("x", 2000):        strings.Repeat("x", 1024),
		strings.Repeat("ü", 2000):        strings.Repeat("%C3%BC", 170), // 1020 bytes
		strings.Repeat("x", 1023) + " y": strings.Repeat("x", 1023),
	} {
		if got := headerText(text); got != want {
			t.Errorf("%.40q: %q, want %q", text, got, want)
		}
	}
}

func FuzzSecret(f *testing.F) {
	for _, s := range []string{secretOf(24, 'a'), "whsec_", "whsec_====", "", " whsec_AA\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := parseSecret(text)
		if err == nil && (len(key) < 24 || len(key) > 64) {
			t.Fatalf("%q is a key of %d bytes", text, len(key))
		}
	})
}

// Ids of different keys differ, and are fit for headers and signatures.
func FuzzRecordID(f *testing.F) {
	f.Add("a", "b", "c", "d")
	f.Add("1", "~1", "a.b", "%")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		id := func(source, part string) string { return recordID(source, &backlog.Record{Key: backlog.NewKey(part)}) }
		first, second := id(a, b), id(c, d)
		if (first == second) != (a == c && b == d) {
			t.Fatalf("%q %q is %s, and %q %q is %s", a, b, first, c, d, second)
		}
		if strings.Contains(first, ".") || first != headerSafe(first) {
			t.Fatalf("%q", first)
		}
	})
}

func headerSafe(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f {
			return -1
		}
		return r
	}, s)
}
