package config_test

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"backlog/backlog/amqp"
	"backlog/backlog/config"
	"backlog/backlog/handler/exec"
	"backlog/backlog/handler/http"
	"backlog/backlog/handler/lines"
	"backlog/backlog/handler/mail"
	"backlog/backlog/handler/redis"
	"backlog/backlog/mapping"
	"backlog/backlog/metrics"
	"backlog/backlog/pings"
	"backlog/backlog/table/work"
	"backlog/backlog/web"
	"backlog/internal/testkit"
	"backlog/tiers"
)

// all are the settings that there are, with policies such as there might be.
var all = config.Known{
	Policies: known,
	Handlers: []config.Settings{
		{Name: "exec", New: func() any { return exec.NewSettings() }},
		{Name: "lines", New: func() any { return lines.NewSettings() }},
		{Name: "http", New: func() any { return http.NewSettings() }},
		{Name: "sql", New: func() any { return new(work.Settings) }},
		{Name: "redis", New: func() any { return redis.NewSettings() }},
	},
	Sources: []config.Settings{{Name: "amqp", New: func() any { return amqp.NewSettings() }}},
	OnDead: []config.Settings{
		{Name: "exec", New: func() any { return new(exec.NotifySettings) }},
		{Name: "http", New: func() any { return &http.Settings{Reject: []http.Status{}} }, Without: []string{"reject", "retry_after", "max_pause"}},
		{Name: "mail", New: func() any { return new(mail.Settings) }},
	},
	Observers: []config.Settings{
		{Name: "web", New: func() any { return web.NewSettings() }},
		{Name: "metrics", New: func() any { return new(metrics.Settings) }},
		{Name: "pings", New: func() any { return pings.NewSettings() }},
	},
}

const dir = "../../testdata/config/"

// environment is all that tests see of it.
var environment = map[string]string{
	"ODOO_PASSWORD": "hunter2",
	"SMTP_PASSWORD": "hunter2",
	"PASSWORD":      "p${STATE}w",
	"STATE":         "/var/lib",
	"EMPTY":         "",
	"SECRET":        "whsec_aHVudGVyMiBhbmQgbW9yZSBvZiBodW50ZXIy",
}

func lookup(name string) (string, bool) {
	value, ok := environment[name]
	return value, ok
}

// load reads a file of testdata.
func load(t *testing.T, name string) (*config.Config, error) {
	t.Helper()
	f, err := os.Open(dir + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return config.Load(f, name, lookup, all)
}

// mustLoad reads a file of testdata that is valid.
func mustLoad(t *testing.T, name string) *config.Config {
	t.Helper()
	c, err := load(t, name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// vals makes values out of plain words.
func vals(words ...string) []mapping.Value {
	values := make([]mapping.Value, len(words))
	for i, w := range words {
		values[i] = mapping.Value{Text: w}
	}
	return values
}

// states are those of a mapping.
type states struct{ New, Error, Success, Dead mapping.State }

func statesOf(c *config.Config) states {
	return states{c.Table.New, c.Table.Error, c.Table.Success, c.Table.Dead}
}

// columnsOf returns the mapping without its states.
func columnsOf(c *config.Config) mapping.Mapping {
	m := c.Table
	m.New, m.Error, m.Success, m.Dead = mapping.State{}, mapping.State{}, mapping.State{}, mapping.State{}
	return m
}

func given(words ...string) mapping.State {
	return mapping.State{Values: vals(words...), Explicit: true}
}

var (
	now  = mapping.Value{Text: "now"}
	null = mapping.Value{Null: true}
)

func TestDefaults(t *testing.T) {
	c := mustLoad(t, "ok-tiers-only.yaml")
	schedule := c.Tiers
	c.Tiers = nil
	testkit.Equal(t, "config", c, &config.Config{
		Database: "sqlite:backlog.db",
		Table: mapping.Mapping{
			Name: "BACKLOG", ID: []string{"id"}, Status: "status",
			Inserted: mapping.Time{Column: "date_inserted"},
			New:      mapping.State{Values: vals("NEW")},
			Error:    mapping.State{Values: vals("ERROR")},
			Success:  mapping.State{Values: vals("SUCCESS")},
		},
		Handler:         config.Handler{Timeout: 30 * time.Second, Concurrency: 4},
		Policy:          config.Policy{Name: "progressive"},
		Timezone:        time.UTC,
		ShutdownTimeout: 30 * time.Second,
		Log:             config.Log{Level: slog.LevelInfo, Format: "auto"},
		Observers:       map[string]any{"web": web.NewSettings(), "metrics": new(metrics.Settings), "pings": pings.NewSettings()},
	})
	want, err := tiers.New(
		tiers.Tier{MaxAge: 24 * time.Hour, Every: 5 * time.Minute},
		tiers.Tier{MaxAge: 7 * 24 * time.Hour, Every: time.Hour},
	)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "tiers", schedule.Tiers(), want.Tiers())
}

func TestEverything(t *testing.T) {
	c := mustLoad(t, "ok-everything.yaml")
	testkit.Equal(t, "database", c.Database, "mysql://u:p${STATE}w@db/${shop}$1")
	testkit.Equal(t, "table", columnsOf(c), mapping.Mapping{
		Schema: "queue", Name: "Out Box", ID: []string{"tenant_id", "id"}, Status: "state",
		Inserted: mapping.Time{
			Column: "created", As: "text:20060102150405", Zone: testkit.Zone(t, "Europe/Berlin"),
			Null: "newest", Zero: "skip", Keep: true,
		},
		Eligible: &mapping.Time{Column: "send_after", As: "julian"},
		Expires:  &mapping.Time{Column: "expires_at"},
		Where: []mapping.Condition{
			{Column: "queue", Values: vals("mail", "sms")}, {Column: "deleted_at", Values: []mapping.Value{null}}, {Column: "shard", Values: vals("007")},
		},
		Touch: []mapping.Assignment{
			{Column: "updated_at", Value: now}, {Column: "touched", Value: mapping.Value{Text: "+1"}},
			{Column: "note", Value: mapping.Value{Text: "+1", Quoted: true}}, {Column: "by", Value: null},
		},
		Attempts: "retries", LastError: "error", Columns: []string{"payload", "to"}, Zone: testkit.Zone(t, "America/New_York"),
	})
	paused := mapping.Condition{Column: "paused", Values: vals("0", "false")}
	testkit.Equal(t, "statuses", statesOf(c), states{
		New: mapping.State{Explicit: true, Values: []mapping.Value{
			{Text: "NEW"}, null, {Text: "null", Quoted: true}, {Text: "false"}, {Text: "0.50"}}},
		Error: mapping.State{Explicit: true,
			When: []mapping.Condition{{Column: "state", Values: vals("ERROR")}, paused},
			Set:  []mapping.Assignment{{Column: "state", Value: vals("ERROR")[0]}, {Column: "paused", Value: vals("0")[0]}}},
		Success: mapping.State{Explicit: true,
			Set: []mapping.Assignment{{Column: "state", Value: vals("DONE")[0]}, {Column: "done_at", Value: now}, {Column: "error", Value: null}}},
		Dead: given("DEAD"),
	})
	testkit.Equal(t, "handler", c.Handler, config.Handler{
		Kind: "exec", Settings: &exec.Settings{
			Command: []string{"./deliver.sh", "--count", "007", "", "true"},
			Reject:  []int{65, 66}, Skip: []int{},
		},
		Timeout: 90 * time.Second, Concurrency: 16,
	})
	testkit.Equal(t, "max_records", c.MaxRecords, 1000)
	testkit.Equal(t, "abort_after", c.AbortAfter, 20)
	testkit.Equal(t, "rate", c.Rate, 1.5)
	testkit.Equal(t, "policy", c.Policy, config.Policy{Name: "progressive"})
	testkit.Equal(t, "timezone", c.Timezone, testkit.Zone(t, "America/New_York"))
	testkit.Equal(t, "state", c.State, "/var/lib/backlog.json")
	testkit.Equal(t, "shutdown_timeout", c.ShutdownTimeout, time.Duration(0))
	testkit.Equal(t, "log", c.Log, config.Log{Level: slog.LevelDebug, Format: "json"})

	list := c.Tiers.Tiers()
	testkit.Equal(t, "name", list[0].Name, "young")
	testkit.Equal(t, "offset", list[0].Offset, 30*time.Second)
	testkit.Equal(t, "cron", list[1].Cron, "0 3 * * *")
	testkit.Equal(t, "the file's timezone", list[1].Location, testkit.Zone(t, "America/New_York"))
	testkit.Equal(t, "the tier's timezone", list[2].Location, testkit.Zone(t, "Asia/Tokyo"))
}

// TestWild reads the mappings of tables of well-known programs.
func TestWild(t *testing.T) {
	t.Run("odoo", func(t *testing.T) {
		c := mustLoad(t, "ok-odoo.yaml")
		testkit.Equal(t, "database", c.Database, "postgres://odoo:hunter2@db/odoo")
		testkit.Equal(t, "inserted", c.Table.Inserted, mapping.Time{Column: "create_date", Zone: time.UTC, Null: "oldest"})
		testkit.Equal(t, "eligible", c.Table.Eligible, &mapping.Time{Column: "scheduled_date", Zone: time.UTC})
		testkit.Equal(t, "last_error", c.Table.LastError, "failure_reason")
		testkit.Equal(t, "touch", c.Table.Touch, []mapping.Assignment{{Column: "write_date", Value: now}})
		testkit.Equal(t, "statuses", statesOf(c), states{given("outgoing"), given("exception"), given("sent"), given("cancel")})
	})
	t.Run("action scheduler", func(t *testing.T) {
		c := mustLoad(t, "ok-action-scheduler.yaml")
		testkit.Equal(t, "id", c.Table.ID, []string{"action_id"})
		testkit.Equal(t, "inserted", c.Table.Inserted, mapping.Time{Column: "scheduled_date_gmt", Zone: time.UTC, Zero: "newest"})
		testkit.Equal(t, "eligible", c.Table.Eligible, &mapping.Time{Column: "scheduled_date_gmt", Zone: time.UTC})
		testkit.Equal(t, "where", c.Table.Where, []mapping.Condition{{Column: "claim_id", Values: vals("0")}, {Column: "hook", Values: vals("my_hook")}})
		testkit.Equal(t, "attempts", c.Table.Attempts, "attempts")
	})
	t.Run("frappe", func(t *testing.T) {
		c := mustLoad(t, "ok-frappe.yaml")
		testkit.Equal(t, "name", c.Table.Name, "tabEmail Queue")
		testkit.Equal(t, "id", c.Table.ID, []string{"name"})
		testkit.Equal(t, "zone", c.Table.Inserted.Zone, testkit.Zone(t, "Asia/Kolkata"))
		testkit.Equal(t, "new", c.Table.New.Values, []mapping.Value{{Text: "Not Sent", Quoted: true}})
	})
	t.Run("post office", func(t *testing.T) {
		c := mustLoad(t, "ok-post-office.yaml")
		testkit.Equal(t, "expires", c.Table.Expires, &mapping.Time{Column: "expires_at"})
		testkit.Equal(t, "statuses", statesOf(c), states{given("2"), given("3"), given("0"), given("1")})
	})
	t.Run("joplin", func(t *testing.T) {
		c := mustLoad(t, "ok-joplin.yaml")
		testkit.Equal(t, "inserted", c.Table.Inserted, mapping.Time{Column: "created_time", As: "unix_ms"})
		testkit.Equal(t, "where", c.Table.Where, []mapping.Condition{{Column: "mime", Values: vals("image/png", "application/pdf")}})
		testkit.Equal(t, "dead", c.Table.Dead, mapping.State{})
	})
	t.Run("spring modulith", func(t *testing.T) {
		c := mustLoad(t, "ok-spring-modulith.yaml")
		testkit.Equal(t, "status", c.Table.Status, "")
		testkit.Equal(t, "statuses", statesOf(c), states{
			New:     mapping.State{When: []mapping.Condition{{Column: "completion_date", Values: []mapping.Value{null}}}, Explicit: true},
			Error:   mapping.State{Keep: true, Explicit: true},
			Success: mapping.State{Set: []mapping.Assignment{{Column: "completion_date", Value: now}}, Explicit: true},
		})
	})
}

// TestDeadToldApart: states that may be told apart, as far as the file tells.
func TestDeadToldApart(t *testing.T) {
	for _, text := range []string{
		"{dead: DEAD, error: DEAD}",
		"{new: {when: {done_at: null}}, error: keep, success: {set: {done_at: now}}, dead: {set: {done_at: now, failed: true}}}",
		"{new: {when: {done_at: null}}, error: keep, success: {set: {done_at: now, ok: 1}}, dead: {set: {done_at: now}}}",
		"{new: {when: {done_at: null}}, error: keep, success: {set: {done_at: now}}, dead: {set: {done_at: '1970-01-01'}}}",
		"{new: {when: {open: 1}}, error: keep, success: {when: {open: 0, ok: 1}, set: {open: 0, ok: 1}}, dead: {set: {open: 0}}}",
		"{new: {when: {open: 1, ok: [0, 1]}}, error: keep, success: {when: {open: 0, ok: 1}, set: {open: 0, ok: 1}}, dead: {set: {open: 0}}}",
		"{new: {when: {open: 1, n: 0}}, error: keep, success: {when: {n: 0}, set: {open: 0}}, dead: {set: {open: 0, n: +1}}}",
	} {
		loadText(t, "statuses: "+text+"\ntiers: [{max_age: 1d, every: 5m}]\n")
	}
}

// TestFlags reads a table with flags and a column called status that is
// another program's.
func TestFlags(t *testing.T) {
	c := mustLoad(t, "ok-flags.yaml")
	testkit.Equal(t, "status", c.Table.Status, "")
	testkit.Equal(t, "where", c.Table.Where, []mapping.Condition{{Column: "status", Values: vals("active")}})
	testkit.Equal(t, "error", c.Table.Error, mapping.State{
		When: []mapping.Condition{{Column: "processed", Values: vals("0")}, {Column: "failed", Values: vals("1")}},
		Set:  []mapping.Assignment{{Column: "failed", Value: vals("1")[0]}}, Explicit: true,
	})
}

func TestEveryOKFileLoads(t *testing.T) {
	files, err := filepath.Glob(dir + "ok-*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d files, error %v", len(files), err)
	}
	for _, f := range files {
		mustLoad(t, filepath.Base(f))
	}
}

func TestLoadFile(t *testing.T) {
	t.Setenv("PASSWORD", "pw")
	path := filepath.Join(t.TempDir(), "schedule.yaml")
	content := "database: postgres://u:${PASSWORD}@h/d\ntiers: [{max_age: 1d, every: 5m}]\n"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.LoadFile(path, all)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "database", c.Database, "postgres://u:pw@h/d")
}

func TestLoadFileMissing(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := config.LoadFile(config.DefaultFile, all)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is no fs.ErrNotExist", err)
	}
	dir, derr := os.Getwd()
	if derr != nil {
		t.Fatal(derr)
	}
	testkit.Equal(t, "error", err.Error(), "schedule.yaml: no such file in "+dir+"; write one (schedule.example.yaml shows how) or name another")
	_, err = config.LoadFile(filepath.Join(dir, "lost.yaml"), all)
	testkit.Equal(t, "error", err.Error(), dir+"/lost.yaml: no such file; write one (schedule.example.yaml shows how) or name another")
	_, err = config.LoadFile("sub/lost", all)
	testkit.Equal(t, "error", err.Error(), "sub/lost: no such file in "+dir+"/sub; write one (schedule.example.yaml shows how) or name another")

	if err := os.WriteFile("schedule.yml", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = config.LoadFile(config.DefaultFile, all)
	testkit.Equal(t, "error", err.Error(), "schedule.yaml: no such file in "+dir+"; there is schedule.yml: rename it, or name it")
}

func TestLoadFileUnreadable(t *testing.T) {
	if _, err := config.LoadFile(t.TempDir(), all); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder: %v", err)
	}
}

func TestLoadReadError(t *testing.T) {
	broken := io.MultiReader(strings.NewReader("tiers: []\n"), iotest.ErrReader(io.ErrUnexpectedEOF))
	c, err := config.Load(broken, "s.yaml", lookup, all)
	if c != nil || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("got %v, %v", c, err)
	}
	testkit.Equal(t, "error", err.Error(), "s.yaml: unexpected EOF")
}
