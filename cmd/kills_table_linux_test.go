package cmd_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"backlog/internal/history"
	"backlog/internal/testserver"
)

// A killsPolicy is a policy of the program, with short delays, and what the table has for it.
type killsPolicy struct {
	name    string
	setting string
	columns []killsColumn
	// once: a failed row is never tried again.
	once bool
	// eachTick: a failed row is tried by each tick of its age.
	eachTick bool
	// deadlines: a row that was started waits for its deadline if its attempt is lost.
	deadlines bool
}

// A killsColumn is a column of a policy. Its type is count, time, flag or text.
type killsColumn struct{ name, kind string }

var (
	twoColumns  = []killsColumn{{"failures", "count"}, {"last_failure", "time"}}
	fourColumns = []killsColumn{{"attempt_count", "count"}, {"last_attempt_time", "time"}, {"next_attempt_time", "time"}, {"in_retry", "flag"}}
)

// killsPolicies are all policies of the program.
var killsPolicies = []killsPolicy{
	{name: "progressive", setting: "progressive", eachTick: true},
	{name: "list", setting: "{list: {intervals: [0, 1s, 1s]}}", columns: twoColumns},
	{name: "refresh", setting: "{refresh: {schedule: none, timeout: 5s, intervals: [0, 0, 0]}}", deadlines: true, columns: []killsColumn{
		{"refresh_at", "time"}, {"attempt_no", "count"}, {"deadline_at", "time"}, {"attempt_uid", "text"},
		{"started_at", "time"}, {"disabled", "flag"}, {"disabled_reason", "text"}, {"failing_since", "time"},
	}},
	{name: "fibonacci", setting: "{fibonacci: {unit: 1s}}", columns: twoColumns},
	{name: "linear", setting: "{linear: {interval: 1s, max_retries: 3}}", columns: fourColumns},
	{name: "none", setting: "none", once: true},
	{name: "arctan", setting: "{arctan: {max: 1h}}", columns: []killsColumn{{"attempts", "count"}, {"updated_at", "time"}}},
	{name: "exponential", setting: "{exponential: {interval: 1s, base: 2, max_retries: 3}}", columns: fourColumns},
	{name: "sneakers", setting: "{sneakers: {base: 0, max_retries: 5}}", columns: twoColumns},
}

// A killsDialect is how a kind of database declares columns, and writes down changes.
type killsDialect struct {
	types   map[string]string
	changes []string // the table of changes, and its triggers
	ports   string   // the query for the program's sessions and the ports of their clients
}

var killsDialects = map[*siteKind]killsDialect{
	onSQLite: {
		types: map[string]string{"count": "INTEGER NOT NULL DEFAULT 0", "time": "TEXT", "flag": "INTEGER NOT NULL DEFAULT 0", "text": "TEXT"},
		changes: []string{
			"CREATE TABLE changes (no INTEGER PRIMARY KEY, id INTEGER, was TEXT, is_now TEXT, at INTEGER)",
			`CREATE TRIGGER updates AFTER UPDATE ON "BACKLOG" WHEN old.status <> new.status BEGIN
				INSERT INTO changes (id, was, is_now, at) VALUES (new.id, old.status, new.status, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000);
			END`,
			`CREATE TRIGGER inserts AFTER INSERT ON "BACKLOG" BEGIN
				INSERT INTO changes (id, was, is_now, at) VALUES (new.id, '', new.status, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000);
			END`,
		},
	},
	onPostgres: {
		types: map[string]string{"count": "integer NOT NULL DEFAULT 0", "time": "timestamptz", "flag": "boolean NOT NULL DEFAULT false", "text": "text"},
		changes: []string{
			"CREATE TABLE changes (no bigserial PRIMARY KEY, id bigint, was text, is_now text, at bigint)",
			`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				IF TG_OP = 'INSERT' THEN
					INSERT INTO changes (id, was, is_now, at) VALUES (new.id, '', new.status, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
				ELSIF old.status <> new.status THEN
					INSERT INTO changes (id, was, is_now, at) VALUES (new.id, old.status, new.status, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
				END IF;
				RETURN NULL;
			END $$`,
			`CREATE TRIGGER notes AFTER INSERT OR UPDATE ON "BACKLOG" FOR EACH ROW EXECUTE FUNCTION note()`,
		},
		ports: "SELECT pid, client_port FROM pg_stat_activity WHERE application_name = '%s'",
	},
	onMySQL: {
		types: map[string]string{"count": "int NOT NULL DEFAULT 0", "time": "datetime(3) NULL", "flag": "int NOT NULL DEFAULT 0", "text": "varchar(191) NULL"},
		changes: []string{
			"CREATE TABLE changes (no bigint AUTO_INCREMENT PRIMARY KEY, id bigint, was varchar(191), is_now varchar(191), at bigint) ENGINE = InnoDB",
			`CREATE TRIGGER updates AFTER UPDATE ON "BACKLOG" FOR EACH ROW
				INSERT INTO changes (id, was, is_now, at) SELECT new.id, old.status, new.status, CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED) FROM (SELECT 1) one WHERE old.status <> new.status`,
			`CREATE TRIGGER inserts AFTER INSERT ON "BACKLOG" FOR EACH ROW
				INSERT INTO changes (id, was, is_now, at) VALUES (new.id, '', new.status, CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED))`,
		},
		ports: "SELECT id, SUBSTRING_INDEX(host, ':', -1) FROM information_schema.PROCESSLIST WHERE db = '%s'",
	},
}

// killsPrefix begins the names of what the tests that kill have on servers. The hour of the run
// follows, by which what a killed test has left behind is recognized.
const killsPrefix = "backlog_kills_"

// killsLife is how old something on a server must be to be a leftover.
const killsLife = 24 * time.Hour

// sweepKills drops what earlier runs have left behind on the servers.
func sweepKills(t *testing.T) {
	t.Helper()
	sweep := func(s *site, list, drop string) {
		for name := range strings.FieldsSeq(s.rows(list)) {
			var seconds int64
			if _, err := fmt.Sscanf(name, killsPrefix+"%d_", &seconds); err == nil && time.Since(time.Unix(seconds, 0)) > killsLife {
				s.mustExec(fmt.Sprintf(drop, name))
			}
		}
	}
	t.Run("leftovers-postgres", func(t *testing.T) {
		s := &site{shop: &shop{t: t}, kind: onPostgres}
		s.connect("pgx", testserver.PostgresURL(t).String())
		sweep(s, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'backlog\\_kills\\_%'", `DROP SCHEMA IF EXISTS "%s" CASCADE`)
	})
	t.Run("leftovers-mysql", func(t *testing.T) {
		s := &site{shop: &shop{t: t}, kind: onMySQL}
		s.connect("mysql", testserver.DSN(testserver.MySQLURL(t), ""))
		sweep(s, "SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE 'backlog\\_kills\\_%'", "DROP DATABASE IF EXISTS %s")
	})
}

// newKillsSite returns a site whose table has the columns of the policy and writes down its
// changes.
func newKillsSite(t *testing.T, kind *siteKind, p *killsPolicy) *site {
	t.Helper()
	s := &site{shop: newShop(t, nil), kind: kind, prefix: fmt.Sprintf("%s%d_", killsPrefix, time.Now().Unix())}
	s.create()
	if kind == onSQLite {
		db := s.db
		t.Cleanup(func() { db.Close() })
	}
	dialect := killsDialects[kind]
	for _, c := range p.columns {
		s.mustExec(fmt.Sprintf(`ALTER TABLE "BACKLOG" ADD COLUMN %s %s`, c.name, dialect.types[c.kind]))
	}
	for _, text := range dialect.changes {
		s.mustExec(text)
	}
	return s
}

// changes returns the changes of rows.
func (s *site) changes() (list []history.Change) {
	s.t.Helper()
	rows, err := s.db.Query("SELECT id, was, is_now, at FROM changes ORDER BY no")
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var c history.Change
		var microseconds int64
		if err := rows.Scan(&c.Key, &c.From, &c.To, &microseconds); err != nil {
			s.t.Fatal(err)
		}
		c.At = time.UnixMicro(microseconds)
		list = append(list, c)
	}
	if err := rows.Err(); err != nil {
		s.t.Fatal(err)
	}
	return list
}
