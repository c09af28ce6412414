package config_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"backlog/backlog/config"
	"backlog/backlog/handler/exec"
	"backlog/backlog/handler/http"
	"backlog/backlog/handler/lines"
	"backlog/backlog/handler/mail"
	"backlog/backlog/handler/redis"
	"backlog/backlog/mapping"
	"backlog/backlog/table/work"
	"backlog/internal/testkit"
)

const secret = "whsec_aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMg=="

func TestHandlers(t *testing.T) {
	for name, want := range map[string]config.Handler{
		"ok-lines": {
			Kind: "lines", Settings: &lines.Settings{Command: []string{"./worker.py", "--fast"}, Workers: 4, Window: 64, MaxPause: 10 * time.Minute},
			Timeout: 5 * time.Second, Concurrency: 4 * 64,
		},
		"ok-lines-few": {
			Kind: "lines", Settings: &lines.Settings{Command: []string{"./worker.py"}, Workers: 2, Window: 8, MaxPause: time.Hour},
			Concurrency: 10,
		},
		"ok-lines-many": {
			Kind: "lines", Settings: &lines.Settings{Command: []string{"./worker.py"}, Workers: 1, Window: 8, MaxPause: time.Hour},
			Concurrency: 8, // more does not fit
		},
		"ok-trace": {Kind: "exec", Settings: &exec.Settings{Command: []string{"./deliver.sh"}, Reject: []int{65}, Skip: []int{75}}, Trace: "unsampled"},
		"ok-http": {
			Kind: "http", Settings: &http.Settings{
				URL: "https://{region}.example.com/orders/{id}?q={{x}}", Method: "PUT",
				Headers: map[string]string{"authorization": "Bearer hunter2", "X-Note": "a, b"},
				Secrets: []string{secret, environment["SECRET"]}, SecretFiles: []string{"/var/lib/secret"},
				Success: []http.Status{{From: 200, To: 200}, {From: 204, To: 204}}, Reject: []http.Status{{From: 400, To: 499}},
				Allow:  []string{"*.example.com", "us.example.com:8443", "10.0.0.0/8", "::1", "[::1]:443", "192.168.0.1"},
				CAFile: "ca.pem", CertFile: "client.pem", KeyFile: "client.key",
				MaxPause: 10 * time.Minute,
			},
			Concurrency: 16,
		},
		"ok-http-short": {Kind: "http", Settings: &http.Settings{URL: "http://127.0.0.1:8080/{id}", MaxPause: time.Hour}},
		"ok-sql": {Kind: "sql", Settings: &work.Settings{
			Statements:    []string{"INSERT INTO shipped VALUES (:id)", "UPDATE stock SET n = n - 1 WHERE id = :item"},
			AllowZeroRows: true,
		}},
		"ok-sql-short": {Kind: "sql", Settings: &work.Settings{Statements: []string{"INSERT INTO shipped VALUES (:id)"}}},
		"ok-redis": {
			Kind: "redis", Settings: &redis.Settings{
				URL: "redis://:hunter2@127.0.0.1:6379/3", Input: "bigtables-input", Output: "bigtables-output", Columns: []string{"input_url"},
				Fields: mapping.Names{
					{"big_table_uid", "id"}, {"refresh_attempt_uid", "attempt_in"}, {"request_attempt_uid", "attempt_out"}, {"attempt_no", "attempt_no"}, {"deadline", "deadline"}, {"traceparent", "traceparent"},
				},
			},
			Timeout: time.Hour,
		},
	} {
		if want.Timeout == 0 {
			want.Timeout = 30 * time.Second
		}
		if want.Concurrency == 0 {
			want.Concurrency = 4
		}
		got := mustLoad(t, name+".yaml").Handler
		testkit.Equal(t, name, got.Settings, want.Settings)
		testkit.Equal(t, name, got, want)
	}
}

func TestOnDeadHTTP(t *testing.T) {
	testkit.Equal(t, "on_dead", mustLoad(t, "ok-on-dead-http.yaml").OnDead, config.OnDead{
		Kind: "http", Settings: &http.Settings{URL: "https://example.com/dead", Success: []http.Status{{From: 200, To: 299}}, Reject: []http.Status{}},
		Timeout: 5 * time.Second,
	})
}

func TestOnDeadMail(t *testing.T) {
	testkit.Equal(t, "on_dead", mustLoad(t, "ok-on-dead-mail.yaml").OnDead, config.OnDead{
		Kind: "mail", Settings: &mail.Settings{
			SMTP: "smtp://user:hunter2@mail.example.com:587", From: "Tables <tables@example.com>", To: "{customer_email}",
			Subject: "Refreshing your table was disabled", Text: "{reason}\n",
		},
		Timeout: time.Minute,
	})
}

// A template that chooses no host needs no list of those allowed.
func TestTemplateBesideHost(t *testing.T) {
	for url, needs := range map[string]bool{
		"https://example.com/{id}":          false,
		"https://example.com?id={id}":       false,
		"https://example.com/{a}/{b}?c={d}": false,
		"https://example.com/{{id}}":        false,
		"http://[::1]:80/{id}":              false,
		"https://example.com/@{id}":         false,
		"{callback}":                        true,
		"https://{host}":                    true,
		"https://{host}/x":                  true,
		"https://a.{host}:443?x":            true,
		"https://example.com:{port}/x":      true,
		"https://example.com{id}":           true,
	} {
		list := "\ntiers: [{max_age: 1d, every: 5m}]\n"
		_, err := config.Load(strings.NewReader("handler: {http: {url: '"+url+"'}}"+list), "s.yaml", lookup, all)
		if got := err != nil && strings.Contains(err.Error(), "add allow"); got != needs || !needs && err != nil {
			t.Errorf("%s: %v", url, err)
		}
		if _, err := config.Load(strings.NewReader("handler: {http: {url: '"+url+"', allow: [example.com, '::1']}}"+list), "s.yaml", lookup, all); err != nil {
			t.Errorf("%s, with allow: %v", url, err)
		}
	}
}

// TestHandlerStaysSecret breaks files in ways that touch what is secret of a
// handler.
func TestHandlerStaysSecret(t *testing.T) {
	lookup := func(name string) (string, bool) {
		return map[string]string{"BAD_SECRET": "whsec_hunter2", "BAD_HEADER": "hunter2\nX: y"}[name], true
	}
	for _, http := range []string{
		"{url: 'ftp://u:hunter2@h'}",
		"{url: 'https://u:hunter2@h:port'}",
		"{url: 'https://u:hunter2@{h}/'}",
		"{url: 'https://h/?token=hunter2{'}",
		"{url: 'https://h/#hunter2'}",
		"{url: [https://h/hunter2]}",
		"{url: https://h/?a, hunter2}",
		"{url: https://h, secret: hunter2}",
		"{url: https://h, secret: [hunter2, hunter2]}",
		"{url: https://h, secret: {hunter2: x}}",
		"{url: https://h, secret: [[hunter2]]}",
		"{url: https://h, secret: '${BAD_SECRET}'}",
		"{url: https://h, secret: a, hunter2}",
		"{url: https://h, headers: {Authorization: '${BAD_HEADER}'}}",
		"{url: https://h, headers: {Authorization: [hunter2]}}",
		"{url: https://h, headers: {Authorization: Bearer a, hunter2}}",
		"{url: https://h, headers: {Bearer hunter2: x}}",
		"{url: https://h, headers: hunter2}",
		"{url: https://h, headers: {Authorization: \"hunter2\\0\"}}",
	} {
		_, err := config.Load(strings.NewReader("handler: {http: "+http+"}\ntiers: [{max_age: 1d, every: 5m}]\n"), "s.yaml", lookup, all)
		if err == nil {
			t.Errorf("%q: no error", http)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", http, err)
		}
	}
}

// TestExampleFileHandlers puts the other handlers of the example in the place of
// its own, without and with what is optional in them. But for that the values
// are the defaults.
func TestExampleFileHandlers(t *testing.T) {
	text := readExample(t)
	blocks := regexp.MustCompile(`(?m)^#   handler:\n(?:#    .*\n)+`).FindAllString(text, -1)
	if len(blocks) != 3 {
		t.Fatalf("%d blocks, want lines, http and sql", len(blocks))
	}
	own := regexp.MustCompile(`(?m)^handler:\n(?:  .*\n)+`)
	lookup := func(name string) (string, bool) {
		return map[string]string{"API_TOKEN": "hunter2", "WEBHOOK_SECRET": secret}[name], true
	}
	load := func(block string) config.Handler {
		c, err := config.Load(strings.NewReader(own.ReplaceAllLiteralString(text, block)), "schedule.example.yaml", lookup, all)
		if err != nil {
			t.Fatalf("%v\nwith:\n%s", err, block)
		}
		return c.Handler
	}
	var got []config.Handler
	for _, block := range blocks {
		block = regexp.MustCompile(`(?m)^#   `).ReplaceAllString(block, "")
		got = append(got, load(block))
		got = append(got, load(regexp.MustCompile(`(?m)^( +)# ([a-z_]+:)`).ReplaceAllString(block, "$1$2")))
	}
	short := func(kind string) config.Handler { return load("handler: {" + kind + "}\n") }
	testkit.Equal(t, "lines", got[0], short("lines: [./worker.py]"))
	testkit.Equal(t, "sql", got[4], short("sql: [INSERT INTO shipped (order_id) VALUES (:id), 'UPDATE stock SET amount = amount - 1 WHERE item = :item']"))

	service := *got[2].Settings.(*http.Settings)
	testkit.Equal(t, "statuses", [][]http.Status{service.Success, service.Reject}, [][]http.Status{{{From: 200, To: 299}}, {{From: 410, To: 410}}})
	testkit.Equal(t, "method", service.Method, "POST")
	testkit.Equal(t, "retry_after", service.RetryAfter, "pause")
	service.Success, service.Reject, service.Method, service.RetryAfter = nil, nil, "", ""
	testkit.Equal(t, "http", any(&service), short(`http: {url: "https://api.example.com/orders/{id}", headers: {Authorization: Bearer hunter2}, secret: `+secret+`}`).Settings)
	all := got[3].Settings.(*http.Settings)
	for name, missing := range map[string]bool{
		"secret_files": all.SecretFiles == nil,
		"allow":        all.Allow == nil,
		"ca_file":      all.CAFile == "",
		"cert_file":    all.CertFile == "",
		"key_file":     all.KeyFile == "",
	} {
		if missing {
			t.Errorf("%s is missing: %+v", name, all)
		}
	}
}

// TestExampleFileOnDead reads the lines of the example that tell of dead records.
func TestExampleFileOnDead(t *testing.T) {
	lines := regexp.MustCompile(`(?m)^#   (on_dead: .*)$`).FindAllStringSubmatch(readExample(t), -1)
	if len(lines) != 3 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, m := range lines {
		c := set(t, "statuses: {dead: DEAD}\n"+m[1])
		if c.OnDead.Timeout != 30*time.Second {
			t.Errorf("%s: %+v", m[1], c.OnDead)
		}
	}
}
