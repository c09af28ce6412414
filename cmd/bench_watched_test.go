package cmd_test

import (
	"context"
	"encoding/json"
	"fmt"

	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkWatched is a pass over 1,000,000 records while the page is open in 200 browsers
// that read slowly and ask again every 5 seconds, against one that nobody watches. Limit:
// 1.05 times.
func BenchmarkWatched(b *testing.B) {
	n, rounds := 1_000_000, 3
	if testing.Short() {
		n, rounds = 20_000, 1
	}
	dir := b.TempDir()
	token := strings.Repeat("watched-", 4)
	for name, text := range map[string]string{
		"schedule.yaml": "database: sqlite:bench.db\nhandler: {lines: [sh, worker.sh]}\n" +
			"web: {listen: 'unix:" + dir + "/sock', token_file: token}\ntiers: [{max_age: 1d, every: 1s}]\n",
		"token":     token,
		"worker.sh": `exec awk -F'"' '{print "{\"attempt_id\":\"" $4 "\",\"outcome\":\"success\"}"; fflush()}'`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	run := func(args ...string) *exec.Cmd {
		c := exec.Command("backlog", args...)
		c.Dir, c.Env = dir, append(os.Environ(), "XDG_STATE_HOME="+dir)
		return c
	}
	pass := func(readers int) float64 {
		os.RemoveAll(filepath.Join(dir, "bench.db"))
		os.RemoveAll(filepath.Join(dir, "backlog"))
		if text, err := run("init", "--create-table").CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, text)
		}
		db, err := openDB(filepath.Join(dir, "bench.db"))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := db.Exec(fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO BACKLOG (id) SELECT i FROM n", n)); err != nil {
			b.Fatal(err)
		}
		db.Close()
		daemon := run("run")
		if err := daemon.Start(); err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(b.Context())
		var open sync.WaitGroup
		for range readers {
			open.Go(func() { read(ctx, filepath.Join(dir, "sock"), token) })
		}
		seconds := 0.0
		for seconds == 0 {
			time.Sleep(100 * time.Millisecond)
			files, _ := filepath.Glob(filepath.Join(dir, "backlog", "*-passes.jsonl"))
			for _, f := range files {
				text, err := os.ReadFile(f)
				if err != nil {
					continue
				}
				for line := range strings.Lines(string(text)) {
					var p struct {
						Succeeded int
						Seconds   float64 `json:"duration_seconds"`
					}
					if json.Unmarshal([]byte(line), &p) == nil && p.Succeeded == n { // other lines are counts
						seconds = p.Seconds
					}
				}
			}
		}
		cancel()
		open.Wait()
		daemon.Process.Signal(syscall.SIGTERM)
		if err := daemon.Wait(); err != nil {
			b.Fatal(err)
		}
		return seconds
	}
	for b.Loop() {
		var ratios []float64
		for range rounds {
			ratios = append(ratios, pass(200)/pass(0))
		}
		slices.Sort(ratios)
		b.ReportMetric(ratios[len(ratios)/2], "watched/unwatched")
	}
}

// read is a browser with the front page open: a few bytes at a time, every 5 seconds anew.
func read(ctx context.Context, socket, token string) {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (c net.Conn, err error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	for ctx.Err() == nil {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/", nil)
		if err != nil {
			return
		}
		r.Header.Set("Authorization", "Bearer "+token)
		if answer, err := client.Do(r); err == nil {
			for page := make([]byte, 1000); err == nil && ctx.Err() == nil; _, err = answer.Body.Read(page) {
				time.Sleep(100 * time.Millisecond)
			}
			answer.Body.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second):
		}
	}
}
