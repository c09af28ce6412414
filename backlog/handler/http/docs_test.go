//go:build unix

package http_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	handler "backlog/backlog/handler/http"
	"backlog/internal/testkit"
)

// verify reports whether the body was signed with the secret within the last
// five minutes.
func verify(secret string, header http.Header, body []byte) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return false
	}
	timestamp := header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return false
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", header.Get("webhook-id"), timestamp, body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, got := range strings.Fields(header.Get("webhook-signature")) {
		if hmac.Equal([]byte(got), []byte(want)) {
			return true
		}
	}
	return false
}

// block returns the only block of the language in the page.
func block(t *testing.T, language string) string {
	t.Helper()
	all := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(testkit.ReadFile(t, "../../../docs/http.md"), -1)
	if len(all) != 1 {
		t.Fatalf("%d blocks of %s in the page", len(all), language)
	}
	return all[0][1]
}

// Receivers who copy from the page can verify what the handler really sends.
func TestHTTPDocsVerify(t *testing.T) {
	t.Parallel()
	if source := testkit.ReadFile(t, "docs_test.go"); !strings.Contains(source, block(t, "go")) {
		t.Error("the Go of the page is not the one that is tested here")
	}
	const first, second, other = "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u", "whsec_YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4", "whsec_enp6enp6enp6enp6enp6enp6enp6enp6"
	s := newHook(t, nil)
	h := &handler.Handler{Settings: handler.Settings{URL: s.URL, Secrets: []string{first, second}}, Source: "orders"}
	if err := h.Handle(t.Context(), fullRecord()); err != nil {
		t.Fatal(err)
	}
	fresh := s.one(t)
	stale := fresh
	stale.header = fresh.header.Clone()
	stale.header.Set("Webhook-Timestamp", "1767614400")
	changed := fresh
	changed.body += " "

	cases := []struct {
		name, secret string
		r            received
		want         bool
	}{
		{"the first secret", first, fresh, true},
		{"the second secret", second, fresh, true},
		{"another secret", other, fresh, false},
		{"an old request", first, stale, false},
		{"another body", first, changed, false},
	}
	var calls [][]any
	for _, tt := range cases {
		if got := verify(tt.secret, tt.r.header, []byte(tt.r.body)); got != tt.want {
			t.Errorf("Go, %s: %v", tt.name, got)
		}
		header := make(map[string]string)
		for name := range tt.r.header {
			header[strings.ToLower(name)] = tt.r.header.Get(name)
		}
		calls = append(calls, []any{tt.secret, header, tt.r.body})
	}
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	input, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(path, "-c", block(t, "python")+"\nimport json, sys\nprint(json.dumps([verify(s, h, b.encode()) for s, h, b in json.load(sys.stdin)]))\n")
	c.Stdin, c.Stderr = bytes.NewReader(input), os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var python []bool
	if err := json.Unmarshal(out, &python); err != nil || len(python) != len(cases) {
		t.Fatalf("%s: %v", out, err)
	}
	for i, tt := range cases {
		if python[i] != tt.want {
			t.Errorf("Python, %s: %v", tt.name, python[i])
		}
	}
}
