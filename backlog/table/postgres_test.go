package table_test

import (
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"backlog/backlog/storetest"
	"backlog/internal/testkit"
	"backlog/internal/testserver"
)

// postgresURL is that of the server to test with; the user must be allowed to
// create schemas and roles.
func postgresURL(tb testing.TB) string {
	tb.Helper()
	return testserver.PostgresURL(tb).String()
}

// openPostgres opens a schema of the test's own, or skips the test where there
// is no server.
func openPostgres(t testing.TB, parameters ...string) (plain *sql.DB, address string) {
	t.Helper()
	_, u := testserver.Postgres(t, "Backlog-test-")
	query := u.Query()
	query.Set("synchronous_commit", "off") // no test ends by a failure of power
	for _, p := range parameters {
		name, value, _ := strings.Cut(p, "=")
		query.Set(name, value)
	}
	u.RawQuery = query.Encode()
	own := *u
	own.RawQuery = url.Values{"search_path": query["search_path"], "synchronous_commit": {"off"}, "timezone": {"UTC"}}.Encode()
	return testkit.OpenPool(t, "pgx", own.String()), u.String()
}

// onPostgres is a schema of the server.
var onPostgres = postgresDatabase()

func postgresDatabase(parameters ...string) testDatabase {
	return testDatabase{
		open:    func(t *testing.T) (*sql.DB, string) { return openPostgres(t, parameters...) },
		sql:     postgresSQL,
		textKey: "text", blobKey: "bytea", blob: "bytea", boolean: "boolean",
	}
}

// postgresSQL makes of the harness's SQL what PostgreSQL understands.
func postgresSQL(text string) string {
	text = strings.NewReplacer("SELECT +", "SELECT ", ", +", ", ", "INTEGER", "bigint", "part INT,", "part bigint,").Replace(text)
	var b strings.Builder
	for i, part := range strings.Split(text, "?") {
		if i > 0 {
			fmt.Fprintf(&b, "$%d", i)
		}
		b.WriteString(part)
	}
	return b.String()
}

// postgresForms are ways in which tables on a server hold times.
var postgresForms = []timeForm{
	{
		name: "timestamptz", decl: "timestamptz", precision: time.Microsecond, zone: kolkata, // which has no say
		write: func(t time.Time) any { return t },
		read:  func(v any) (time.Time, error) { return v.(time.Time), nil },
	},
	{
		name: "timestamp in a zone", decl: "timestamp", precision: time.Microsecond, zone: kolkata,
		write: func(t time.Time) any { return t.In(kolkata).Format("2006-01-02 15:04:05.999999") },
		read: func(v any) (time.Time, error) {
			return time.ParseInLocation(time.DateTime, v.(time.Time).Format("2006-01-02 15:04:05.999999"), kolkata)
		},
	},
	{
		name: "timestamp(3)", decl: "timestamp(3) without time zone", precision: time.Millisecond, zone: time.UTC,
		write: func(t time.Time) any { return t.UTC().Format("2006-01-02 15:04:05.000") },
		read:  func(v any) (time.Time, error) { return v.(time.Time), nil },
	},
	{
		name: "unix milliseconds", decl: "bigint", precision: time.Millisecond, zone: time.UTC,
		write: func(t time.Time) any { return t.UnixMilli() },
		read:  func(v any) (time.Time, error) { return time.UnixMilli(v.(int64)), nil },
	},
	{
		name: "text", decl: "text", precision: time.Millisecond, zone: time.UTC,
		write: func(t time.Time) any { return t.UTC().Format("2006-01-02T15:04:05.000Z") },
		read:  func(v any) (time.Time, error) { return time.Parse(time.RFC3339, v.(string)) },
	},
}

// postgresUser makes a role that may do nothing but find the schema.
func postgresUser(h *harness) (name, address string) {
	u, err := url.Parse(h.url)
	if err != nil {
		h.t.Fatal(err)
	}
	name = "backlog_test_" + strings.ToLower(rand.Text()[:12])
	do := func(list ...string) {
		for _, text := range list {
			if _, err := h.plain.Exec(text); err != nil {
				h.t.Fatalf("%s: %v", text, err)
			}
		}
	}
	do("CREATE ROLE "+name+" LOGIN", "GRANT USAGE ON SCHEMA "+u.Query().Get("search_path")+" TO "+name)
	h.t.Cleanup(func() { do("DROP OWNED BY "+name, "DROP ROLE "+name) })
	u.User = url.User(name)
	return name, u.String()
}

// TestPostgresStore runs the conformance suite for each way in which tables hold
// times. Two are read through connections as a pooler needs them that gives each
// transaction another session: nothing is prepared, and in one of the modes the
// driver itself makes text of the arguments.
func TestPostgresStore(t *testing.T) {
	t.Parallel()
	for i, f := range postgresForms {
		d, run := onPostgres, suite(i)
		if i == 0 { // what is to be granted does not depend on the form
			d.user = postgresUser
		}
		switch f.name {
		case "timestamp(3)":
			d, run = postgresDatabase("default_query_exec_mode=exec"), storetest.Run
		case "text":
			d, run = postgresDatabase("default_query_exec_mode=simple_protocol"), storetest.Run
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel() // most of the time the server is waited for
			d.open(t)    // or skips all: a case cannot skip what it shares
			run(t, shared(t, func(t *testing.T, want storetest.Table) *harness { return newHarness(t, d, f, want) }))
		})
	}
}
