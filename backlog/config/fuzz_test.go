package config_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"backlog/backlog/config"
	"backlog/backlog/handler/exec"
	"backlog/backlog/handler/http"
	"backlog/backlog/handler/lines"
	"backlog/backlog/handler/mail"
	"backlog/backlog/handler/redis"
	"backlog/backlog/table/work"
	"backlog/internal/testkit"
)

// FuzzLoad asserts that Load returns, whatever it reads, either a usable
// configuration or errors that each have a place in the file.
func FuzzLoad(f *testing.F) {
	files, err := filepath.Glob(dir + "*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no files: %v", err)
	}
	for _, name := range append(files, "../../schedule.example.yaml") {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("source: {amqp: {url: amqp://localhost, queue: orders}}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := config.Load(bytes.NewReader(text), "f", lookup, all)
		if err == nil {
			usable(t, c)
			return
		}
		if c != nil {
			t.Errorf("a configuration beside the error %v", err)
		}
		joined, ok := err.(interface{ Unwrap() []error })
		if !ok {
			t.Fatalf("not joined: %v", err)
		}
		for _, err := range joined.Unwrap() {
			var e *config.Error
			if !errors.As(err, &e) {
				t.Errorf("got an error %T without a place: %q", err, err)
				continue
			}
			if e.Line < 1 || e.Line > len(text)+1 {
				t.Errorf("got line %d of a file that has at most %d: %q", e.Line, len(text)+1, err)
			}
			if e.Problem == "" {
				t.Errorf("got an error that names no problem: %q", err)
			}
			testkit.NotContains(t, "error", e.Error(), "\n")
		}
	})
}

// usable notes what no configuration that is accepted may lack.
func usable(t *testing.T, c *config.Config) {
	if c.Source != nil || c.Worker != nil { // their messages are no rows, and come without ticks
		if c.Tiers != nil {
			t.Errorf("tiers without a table: %+v", c)
		}
		return
	}
	again := c.Policy.Name == "refresh" // it needs neither ages nor statuses
	switch {
	case c.Tiers == nil || len(c.Tiers.Tiers()) == 0:
		t.Error("no tiers")
	case c.Timezone == nil || c.Database == "" || c.Policy.Name == "":
		t.Errorf("incomplete: %+v", c)
	case c.Table.Name == "" || len(c.Table.ID) == 0 || c.Table.Inserted.Column == "" && !again:
		t.Errorf("incomplete: %+v", c.Table)
	case c.Handler.Kind != "" && !complete(c.Handler) || c.Handler.Timeout <= 0 || c.Handler.Concurrency < 1:
		t.Errorf("incomplete: %+v", c.Handler)
	case !again && len(c.Table.New.Values)+len(c.Table.New.When) == 0,
		!again && len(c.Table.Success.Values)+len(c.Table.Success.Set) == 0:
		t.Errorf("incomplete: %+v", c.Table)
	case c.OnDead.Kind != "" && (!complete(config.Handler{Settings: c.OnDead.Settings}) || c.OnDead.Timeout <= 0 || !c.Table.Dead.Explicit && !again):
		t.Errorf("incomplete: %+v", c.OnDead)
	case c.Rate < 0 || c.MaxRecords < 0 || c.AbortAfter < 0 || c.ShutdownTimeout < 0:
		t.Errorf("negative: %+v", c)
	}
}

// complete reports whether nothing is missing in the settings.
func complete(h config.Handler) bool {
	switch s := h.Settings.(type) {
	case *exec.Settings:
		return len(s.Command) > 0
	case *exec.NotifySettings:
		return len(s.Command) > 0
	case *lines.Settings:
		return len(s.Command) > 0 && s.Workers > 0 && s.Window > 0 && h.Concurrency <= s.InFlight()
	case *http.Settings:
		return s.URL != "" && (s.CertFile == "") == (s.KeyFile == "")
	case *work.Settings:
		return len(s.Statements) > 0
	case *mail.Settings:
		return s.SMTP != "" && s.From != "" && s.To != ""
	case *redis.Settings:
		return s.URL != "" && len(s.Fields) > 0 && s.Input != s.Output
	}
	return false
}
