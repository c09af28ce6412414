package cmd_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"backlog/cmd"
)

// exampleConfig is the configuration in whose folder most examples run. ADDRESS is a free one.
const exampleConfig = `database: sqlite:backlog.db
table: {name: orders, id: id, status: state, inserted: created_at, attempts: attempts, last_error: last_error}
statuses: {new: open, error: failed, success: shipped, dead: lost}
handler: {exec: ["true"]}
tiers: [{max_age: 1d, every: 5m}, {max_age: 7d, every: 1h}]
web: {listen: "ADDRESS"}
`

// exampleRows are the records of exampleConfig.
const exampleRows = `INSERT INTO orders (id, state, created_at, attempts, last_error) VALUES
	(2, 'failed', datetime('now', '-2 hours'), 3, 'no such user'),
	(7, 'failed', datetime('now', '-3 hours'), 3, 'connection refused'),
	(8, 'open', datetime('now', '-2 hours'), 0, NULL),
	(9, 'lost', datetime('now', '-8 days'), 9, 'connection refused'),
	(10, 'open', datetime('now', '-9 days'), 0, NULL)`

// examplesOfKeys are the configuration and the record of examples with a key of two columns.
const (
	examplesOfKeys = `database: sqlite:backlog.db
table: {name: letters, id: [kind, number], status: state, inserted: created_at}
statuses: {new: open, error: failed, success: shipped}
handler: {exec: ["true"]}
tiers: [{max_age: 1d, every: 5m}]
`
	exampleKey = `CREATE TABLE letters (kind TEXT, number INTEGER, state TEXT, created_at TEXT, PRIMARY KEY (kind, number));
	INSERT INTO letters (kind, number, state, created_at) VALUES ('mail', 7, 'open', datetime('now', '-2 hours'))`
)

// examplesOfAttempts are the configuration and the record of examples with the UID of an attempt.
const (
	examplesOfAttempts = `database: sqlite:backlog.db
table: {name: reports, id: id}
policy: {refresh: {every: 2h, timeout: 1h}}
handler: {exec: ["true"]}
tiers: [{every: 1m}]
`
	exampleAttempt = `INSERT INTO reports (id, refresh_at, attempt_no, attempt_uid, started_at, deadline_at)
	VALUES (1, '2099-01-05 12:00:00', 1, '5f1c9a0e7b2d4c68-1', '2026-01-05 10:00:00', '2099-01-05 11:00:00')`
)

// exampleWorker has a broker that does not answer.
const exampleWorker = `worker:
  amqp: {url: "amqp://127.0.0.1:1/", name: orders}
  handler: {exec: ["true"]}
`

// serving is what commands that run until they are stopped say once they have started.
var serving = map[string]string{
	"run":    "leading",
	"web":    "pages are served",
	"worker": "waiting for the broker",
}

// Every command has examples in its help, and each of them does what it should with a small table.
func TestExamples(t *testing.T) {
	for _, c := range commandsOf(cmd.ManualCommand()) {
		if c.Example == "" {
			t.Errorf("%s: its help has no example", c.CommandPath())
		}
		for i, line := range strings.Split(c.Example, "\n") {
			line = strings.TrimPrefix(line, "  ")
			if !strings.HasPrefix(line, c.CommandPath()) {
				t.Errorf("%s: the example is another command's: %s", c.CommandPath(), line)
				continue
			}
			t.Run(c.Name()+" "+strconv.Itoa(i+1), func(t *testing.T) { // names a folder, too
				t.Parallel()
				t.Log(line)
				runExample(t, line)
			})
		}
	}
}

// commandsOf returns the command and those below it, without cobra's own.
func commandsOf(c *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.Name() != "help" && sub.Name() != "completion" {
			list = append(list, commandsOf(sub)...)
		}
	}
	return list
}

// runExample runs the line in a folder of its own. A program that serves is stopped once it has started.
func runExample(t *testing.T, line string) {
	address := freeAddress(t)
	name := strings.Fields(line)[1]
	s := exampleShop(t, line, address)
	if name == "health" {
		s.start("run").says("leading")
	}
	s.program = "sh"
	line = strings.NewReplacer("127.0.0.1:8080", address, "127.0.0.1:8081", address).Replace(line)
	if serving[name] == "" {
		want := 0
		if strings.Contains(line, "--fail-if") {
			want = 3 // of these records one is too old
		}
		if status, out, log := s.run("-c", line); status != want {
			t.Errorf("exit status %d, want %d\n%s%s", status, want, out, log)
		}
		return
	}
	d := s.start("-c", "exec "+line)
	d.says(serving[name])
	d.signal(syscall.SIGTERM)
	d.ends()
}

// exampleShop returns a folder with the files that the example names, and a table for it.
func exampleShop(t *testing.T, line, address string) *shop {
	config := strings.ReplaceAll(exampleConfig, "ADDRESS", address)
	rows := exampleRows
	switch {
	case strings.Contains(line, `'["mail", 7]'`):
		config = examplesOfKeys
		rows = exampleKey
	case strings.HasPrefix(line, "backlog attempt"), strings.HasPrefix(line, "backlog resolve"):
		config = examplesOfAttempts
		rows = exampleAttempt
	}
	learns := strings.HasPrefix(line, "backlog advise") || strings.Contains(line, "--learned")
	if learns {
		config += "state: orders.json\n"
	}
	s := newShop(t, map[string]string{
		"schedule.yaml": config,
		"orders.yaml":   config,
		"other.yaml":    strings.ReplaceAll(config, "every: 5m", "every: 10m"),
		"worker.yaml":   exampleWorker,
	})
	if learns {
		for _, name := range []string{"orders-passes.jsonl", "host1.jsonl", "host2.jsonl"} {
			if err := writePasses(filepath.Join(s.dir, name), "shop"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if config == examplesOfKeys {
		s.sql(rows)
		s.mustRun("init")
		return s
	}
	s.mustRun("init", "--create-table")
	s.sql(rows)
	return s
}
