package config_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"backlog/backlog/config"
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
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := config.Load(bytes.NewReader(text), "f", lookup, known...)
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
			if !errors.As(err, &e) || e.Line < 1 || e.Line > len(text)+1 || e.Problem == "" || strings.Contains(e.Error(), "\n") {
				t.Errorf("no good error: %q", err)
			}
		}
	})
}

// usable notes what no configuration that is accepted may lack.
func usable(t *testing.T, c *config.Config) {
	told := c.OnDead.Exec != nil || c.OnDead.HTTP != nil
	switch {
	case c.Tiers == nil || len(c.Tiers.Tiers()) == 0:
		t.Error("no tiers")
	case c.Timezone == nil || c.Database == "" || c.Policy.Name == "":
		t.Errorf("incomplete: %+v", c)
	case c.Table.Name == "" || len(c.Table.ID) == 0 || c.Table.Inserted.Column == "":
		t.Errorf("incomplete: %+v", c.Table)
	case c.Handler.Given != (kindsOf(c.Handler) == 1) || c.Handler.Timeout <= 0 || c.Handler.Concurrency < 1:
		t.Errorf("incomplete: %+v", c.Handler)
	case len(c.Statuses.New.Values)+len(c.Statuses.New.When) == 0,
		len(c.Statuses.Success.Values)+len(c.Statuses.Success.Set) == 0:
		t.Errorf("incomplete: %+v", c.Statuses)
	case kindsOf(config.Handler{Exec: c.OnDead.Exec, HTTP: c.OnDead.HTTP}) > 1, told != (c.OnDead.Timeout > 0), told && !c.Statuses.Dead.Given:
		t.Errorf("incomplete: %+v", c.OnDead)
	case c.Rate < 0 || c.MaxRecords < 0 || c.AbortAfter < 0 || c.ShutdownTimeout < 0:
		t.Errorf("negative: %+v", c)
	}
}

// kindsOf returns how many kinds of handler h is of, counting only complete
// ones.
func kindsOf(h config.Handler) (n int) {
	for _, complete := range []bool{
		h.Exec != nil && len(h.Exec.Command) > 0,
		h.Lines != nil && len(h.Lines.Command) > 0 && h.Lines.Workers > 0 && h.Lines.Window > 0 && h.Concurrency <= h.Lines.Workers*h.Lines.Window,
		h.HTTP != nil && h.HTTP.URL != "" && (h.HTTP.CertFile == "") == (h.HTTP.KeyFile == ""),
		h.SQL != nil && len(h.SQL.Statements) > 0,
	} {
		if complete {
			n++
		}
	}
	return n
}
