package cmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"backlog/internal/testserver"
)

// TestRedisLists hands rows over to the worker of the page through a Redis, and
// hears of them again.
func TestRedisLists(t *testing.T) {
	url := testserver.RedisURL(t)
	python := "/usr/bin/python3"
	if exec.Command(python, "-c", "import redis").Run() != nil {
		t.Skip("Debian's python3-redis is not there")
	}
	dir, input, output := t.TempDir(), testserver.Name("in-"), testserver.Name("out-")
	config := `policy: {refresh: {every: 2h, timeout: 1h, intervals: [1h], align: false}}
table: {name: sites}
handler: {redis: {url: "` + url + `", input: ` + input + `, output: ` + output + `, columns: [city]}}
database: sqlite:sites.db
state: none
tiers: [{every: 1m}]
`
	for name, text := range map[string]string{"schedule.yaml": config, "away.yaml": strings.Replace(config, url, "redis://:hidden@127.0.0.1:1", 1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sites := func(statement string) string {
		t.Helper()
		out, err := runSQL(filepath.Join(dir, "sites.db"), statement)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	run := func(command, wants string) {
		t.Helper()
		out, err := runDoc(dir, command)
		if !strings.Contains(out, wants) || strings.Contains(out, "hidden") {
			t.Fatalf("%s: %v\n%s\nwant: %s", command, err, out, wants)
		}
	}
	sites("CREATE TABLE sites (id INTEGER PRIMARY KEY, city TEXT, refresh_at TEXT, attempt_no INTEGER NOT NULL DEFAULT 0, deadline_at TEXT)")
	sites("INSERT INTO sites (city, refresh_at) VALUES ('Rome', '2026-01-05 10:00:00'), ('Nowhere', '2026-01-05 10:00:00'), ('Oslo', '2999-01-05 10:00:00')")
	run("backlog once", `has no column "attempt_uid"`)
	sites("ALTER TABLE sites ADD COLUMN attempt_uid TEXT")

	run("backlog once --config away.yaml", "nothing was started: the Redis at 127.0.0.1:1: ")
	run("backlog check --config away.yaml", "the Redis at 127.0.0.1:1: ")
	if got := sites("SELECT count(*) FROM sites WHERE attempt_no > 0 OR attempt_uid IS NOT NULL"); got != "0\n" {
		t.Errorf("%s attempts were begun without a Redis", got)
	}

	run("backlog check", "requests go to "+input+", answers come from "+output)
	run("backlog once", "2 records selected")
	if got := sites("SELECT count(DISTINCT attempt_uid), sum(attempt_no) FROM sites"); got != "2|2\n" {
		t.Errorf("begun: %s", got)
	}
	worker := exec.Command(python, "../testdata/workers/redis_worker.py", input, output)
	worker.Env = append(os.Environ(), "REDIS_URL="+url)
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = worker.Process.Kill()
		_ = worker.Wait()
	}()
	for deadline := time.Now().Add(30 * time.Second); sites("SELECT count(attempt_uid) FROM sites") != "0\n"; {
		run("backlog once", "")
		if time.Now().After(deadline) {
			t.Fatal("the answers do not come in")
		}
	}
	if got := sites("SELECT attempt_no, refresh_at > '2026-01-06', deadline_at IS NULL FROM sites ORDER BY id"); got != "0|1|1\n1|1|1\n0|1|1\n" {
		t.Errorf("ended: %s", got)
	}
}
