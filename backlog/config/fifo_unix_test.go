//go:build unix

package config_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"backlog/backlog/config"
)

// A FIFO that nobody writes to is empty: whoever reads it must not wait for ever.
func TestFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "schedule.yaml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.LoadFile(path, config.Known{}); err == nil || !strings.Contains(err.Error(), "nothing in it") {
		t.Errorf("error %v", err)
	}
}
