package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// BenchmarkOnce is the whole process of once with nothing due, against a
// program that opens the same database and selects 1, both built as make build
// does. Limit: at most 2 times.
func BenchmarkOnce(b *testing.B) {
	dir := b.TempDir()
	for out, pkg := range map[string]string{"backlog": "backlog", "minimal": "../testdata/minimal"} {
		installed := filepath.Join(dir, out)
		linked := installed + ".linked"
		build := exec.Command("go", "build", "-trimpath", "-o", linked, pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := build.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, text)
		}
		// A program starts faster or slower, by chance, by the pieces in which it lies in the
		// cache of files. It lies there here as one does that was installed before the last
		// start of the machine: read from the disk, which only GNU's dd knows to ask for.
		const install = `cp "$0" "$1" && if dd of="$1" oflag=nocache conv=notrunc,fdatasync count=0; then cat "$1" >/dev/null; fi`
		if text, err := exec.Command("sh", "-c", install, linked, installed).CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, text)
		}
	}
	config := "database: sqlite:bench.db\nhandler: {exec: [/bin/true]}\nstate: none\ntiers: [{max_age: 1d, every: 5m}]\n"
	if err := os.WriteFile(filepath.Join(dir, "schedule.yaml"), []byte(config), 0o644); err != nil {
		b.Fatal(err)
	}
	run := func(name string, args ...string) float64 {
		c := exec.Command(filepath.Join(dir, name), args...)
		c.Dir = dir
		start := time.Now()
		if text, err := c.CombinedOutput(); err != nil {
			b.Fatalf("%s: %v\n%s", name, err, text)
		}
		return time.Since(start).Seconds() * 1000
	}
	run("backlog", "init", "--create-table")
	var ours, minimal, ratio []float64
	for b.Loop() {
		for range 51 {
			x, y := run("backlog", "once", "--max-age", "1d"), run("minimal", "bench.db")
			ours, minimal, ratio = append(ours, x), append(minimal, y), append(ratio, x/y)
		}
	}
	for name, list := range map[string][]float64{"once-ms": ours, "minimal-ms": minimal, "once/minimal": ratio} {
		slices.Sort(list)
		b.ReportMetric(list[len(list)/2], name)
	}
}
