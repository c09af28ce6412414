package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"backlog/backlog/advise"
	"backlog/backlog/config"
	"backlog/backlog/inspect"
	"backlog/backlog/watch"
)

func TestReadPasses(t *testing.T) {
	var g globalOptions
	dir := t.TempDir()
	cfg := &config.Config{State: filepath.Join(dir, "state.json"), Database: "sqlite:none.db"}
	h, err := g.readPasses(cfg, nil)
	if err != nil || len(h.Passes) != 0 {
		t.Errorf("without a file: %v, %v", h, err)
	}

	state, err := stateFile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	pass := watch.Pass{Tier: "day", MaxAge: 86400, Started: inspect.Stamp(time.Now()), Ages: []advise.AgeBand{}}
	if err := state.AddPass(pass); err != nil {
		t.Fatal(err)
	}
	if h, err := g.readPasses(cfg, nil); err != nil || len(h.Passes) != 1 {
		t.Errorf("of the state folder: %v, %v", h, err)
	}

	copied := filepath.Join(dir, "copied.jsonl")
	if err := os.Rename(filepath.Join(dir, "state-passes.jsonl"), copied); err != nil {
		t.Fatal(err)
	}
	if h, err := g.readPasses(cfg, []string{copied, copied}); err != nil || len(h.Passes) != 1 {
		t.Errorf("of the same file twice: %v, %v", h, err)
	}
	for _, name := range []string{filepath.Join(dir, "missing"), dir} {
		if _, err := g.readPasses(cfg, []string{copied, name}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}
