package cmd_test

import (
	"cmp"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"backlog/internal/testkit"
	"backlog/internal/testserver"
)

// A siteKind is a kind of database, and how tests get one of their own.
type siteKind struct {
	name string
	// open makes one. Through db the test looks at it, past all proxies.
	open func(s *site)
	// table are statements that create BACKLOG as init does.
	table []string
	// zone follows a time in UTC.
	zone string
	// sessions is the query for the ids of the program's connections, and end
	// the statement that ends one of them.
	sessions, end string
	// user makes the program one that does not have every right, and limit
	// says how many connections that one may have.
	user  func(s *site)
	limit func(s *site, n int)
	// weigh makes a transaction of the test one that the server does not end
	// in a deadlock, and waits is the query for the number of the program's
	// transactions that wait for a lock.
	weigh, waits string
	// deadlock and locked are what the server's errors have in them for a
	// deadlock, and for a lock that is waited for too long.
	deadlock, locked string
	// takesLock is in the statement by which the program takes a lock.
	takesLock string
}

// A site is a shop with a database of whatever kind.
type site struct {
	*shop
	kind   *siteKind
	db     *sql.DB
	server *url.URL // that of the database; nil: a file
	own    string   // the name of what is the test's own on the server
	prefix string   // of that name; empty: ownSite
}

var onSQLite = &siteKind{
	name: "sqlite",
	open: func(s *site) { s.db = s.open() },
	table: []string{
		"CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT NOT NULL DEFAULT 'NEW', date_inserted TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP)",
		"CREATE INDEX fresh ON BACKLOG (date_inserted, id) WHERE status = 'NEW'",
		"CREATE INDEX failed ON BACKLOG (date_inserted, id) WHERE status = 'ERROR'",
		"PRAGMA journal_mode = WAL",
	},
}

var onPostgres = &siteKind{
	name: "postgres",
	open: func(s *site) {
		s.own, s.server = testserver.Postgres(s.t, cmp.Or(s.prefix, ownSite))
		// The name of the program tells its sessions from those of other tests.
		q := s.server.Query()
		q.Set("search_path", s.own)
		q.Set("application_name", s.own)
		q.Set("sslmode", "disable") // so that a proxy understands what passes
		s.server.RawQuery = q.Encode()
		q.Set("application_name", "the test")
		q.Set("timezone", "UTC")
		s.connect("pgx", (&url.URL{Scheme: "postgres", User: s.server.User, Host: s.server.Host, Path: s.server.Path, RawQuery: q.Encode()}).String())
	},
	// An index made CONCURRENTLY would wait for other tests.
	table: []string{
		`CREATE TABLE "BACKLOG" (id bigint PRIMARY KEY, status text NOT NULL DEFAULT 'NEW', date_inserted timestamptz NOT NULL DEFAULT now())`,
		`CREATE INDEX fresh ON "BACKLOG" (date_inserted, id) WHERE status = 'NEW'`,
		`CREATE INDEX failed ON "BACKLOG" (date_inserted, id) WHERE status = 'ERROR'`,
	},
	zone:     "+00",
	sessions: "SELECT pid FROM pg_stat_activity WHERE application_name = '%s'",
	end:      "SELECT pg_terminate_backend(%s)",
	user: func(s *site) {
		s.mustExec("CREATE ROLE " + s.own + " LOGIN PASSWORD 'open'")
		s.atEnd("DROP OWNED BY " + s.own + "; DROP ROLE " + s.own)
		s.mustExec("GRANT USAGE ON SCHEMA " + s.own + " TO " + s.own)
		s.mustExec(`GRANT SELECT, UPDATE ON "BACKLOG" TO ` + s.own)
		s.server.User = url.UserPassword(s.own, "open")
	},
	limit:    func(s *site, n int) { s.mustExec(fmt.Sprintf("ALTER ROLE %s CONNECTION LIMIT %d", s.own, n)) },
	weigh:    "SET LOCAL deadlock_timeout = '1min'",
	waits:    "SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s' AND wait_event_type = 'Lock'",
	deadlock: "40P01",
	locked:   "55P03",

	takesLock: "pg_try_advisory_lock",
}

var onMySQL = &siteKind{
	name: "mysql",
	open: func(s *site) {
		s.own, s.server = testserver.MySQL(s.t, cmp.Or(s.prefix, ownSite))
		s.connect("mysql", testserver.DSN(s.server, "time_zone=%27%2B00%3A00%27&sql_mode=CONCAT(@@sql_mode,%27,ANSI_QUOTES%27)"))
		s.server.RawQuery = "tls=false" // so that a proxy understands what passes
	},
	table: []string{
		`CREATE TABLE "BACKLOG" (id bigint PRIMARY KEY, status varchar(191) NOT NULL DEFAULT 'NEW', date_inserted datetime(3) NOT NULL DEFAULT (utc_timestamp(3))) ENGINE = InnoDB`,
		`CREATE INDEX pending ON "BACKLOG" (status, date_inserted, id)`,
	},
	sessions: "SELECT id FROM information_schema.PROCESSLIST WHERE db = '%s' AND id <> connection_id()",
	end:      "KILL %s",
	user: func(s *site) {
		s.mustExec("CREATE USER " + s.own + " IDENTIFIED BY 'open'")
		s.atEnd("DROP USER " + s.own)
		s.mustExec("GRANT SELECT, UPDATE ON " + s.own + ".* TO " + s.own)
		s.server.User = url.UserPassword(s.own, "open")
	},
	limit: func(s *site, n int) {
		// None at all would mean no limit.
		s.mustExec(fmt.Sprintf("ALTER USER %s WITH MAX_USER_CONNECTIONS %d", s.own, max(1, n)))
	},
	// The one that has changed less is ended.
	weigh:    `INSERT INTO "BACKLOG" (id, status) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) SELECT 1000000 + i, 'HEAVY' FROM n`,
	waits:    "SELECT count(*) FROM information_schema.INNODB_TRX JOIN information_schema.PROCESSLIST p ON p.id = trx_mysql_thread_id WHERE db = '%s' AND trx_state = 'LOCK WAIT'",
	deadlock: "Deadlock found",
	locked:   "Lock wait timeout",

	takesLock: "GET_LOCK",
}

var (
	siteKinds   = []*siteKind{onSQLite, onPostgres, onMySQL}
	serverKinds = []*siteKind{onPostgres, onMySQL}
)

// ownSite is what the names begin with of what is a test's own on a server.
const ownSite = "backlog_site_"

// newSite returns a shop on a database of its own that has an empty table, or
// skips the test where there is no server of the kind.
func newSite(t *testing.T, kind *siteKind, files map[string]string) *site {
	t.Helper()
	s := &site{shop: newShop(t, files), kind: kind}
	s.create()
	return s
}

// create makes the database and its empty table.
func (s *site) create() {
	s.t.Helper()
	s.kind.open(s)
	for _, text := range s.kind.table {
		s.mustExec(text)
	}
}

// onSites runs the test on databases of each of the kinds, side by side.
func onSites(t *testing.T, kinds []*siteKind, test func(*testing.T, *siteKind)) {
	t.Helper()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			test(t, k)
		})
	}
}

// connect makes the pool through which the test looks at the database.
func (s *site) connect(driver, dsn string) {
	s.t.Helper()
	s.db = testkit.OpenPool(s.t, driver, dsn)
}

// atEnd runs the statement when the test has ended, by the connection of now.
func (s *site) atEnd(text string) {
	db := s.db
	s.t.Cleanup(func() {
		if _, err := db.Exec(text); err != nil {
			s.t.Errorf("%s: %v", text, err)
		}
	})
}

func (s *site) mustExec(text string) {
	s.t.Helper()
	if _, err := s.db.Exec(text); err != nil {
		s.t.Fatalf("%s: %v", text, err)
	}
}

// rows returns a query's rows.
func (s *site) rows(text string) string {
	s.t.Helper()
	rows, err := query(s.db, text)
	if err != nil {
		s.t.Fatalf("%s: %v", text, err)
	}
	return rows
}

// url returns that of the database for the program, by way of a proxy if one
// is given.
func (s *site) url(via *proxy) string {
	if s.server == nil {
		return "sqlite:backlog.db"
	}
	u := *s.server
	if via != nil {
		u.Host = via.addr()
	}
	return u.String()
}

// proxy returns one in front of the server.
func (s *site) proxy() *proxy {
	s.t.Helper()
	return newProxy(s.t, s.server.Host)
}

// fill inserts records 1 to n, by whose number state and age are told.
func (s *site) fill(n int, status func(i int) string, age func(i int) time.Duration) {
	s.t.Helper()
	now := time.Now().UTC()
	for i := 1; i <= n; {
		var b strings.Builder
		b.WriteString(`INSERT INTO "BACKLOG" (id, status, date_inserted) VALUES `)
		for end := min(n, i+499); i <= end; i++ {
			fmt.Fprintf(&b, "(%d, '%s', '%s%s')", i, status(i), now.Add(-age(i)).Format(time.DateTime), s.kind.zone)
			if i < end {
				b.WriteByte(',')
			}
		}
		s.mustExec(b.String())
	}
}

// fillNew inserts n fresh records, the first one the youngest.
func (s *site) fillNew(n int) {
	s.t.Helper()
	s.fill(n, func(int) string { return "NEW" }, func(i int) time.Duration { return time.Duration(i) * time.Second })
}

// count returns how many rows have the status.
func (s *site) count(status string) (n int) {
	s.t.Helper()
	if err := s.db.QueryRow(`SELECT count(*) FROM "BACKLOG" WHERE status = '` + status + `'`).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// endSessions ends all of the program's connections, as an administrator does
// or the restart of a server, and returns how many there were.
func (s *site) endSessions() (n int) {
	s.t.Helper()
	for _, id := range strings.Fields(s.rows(fmt.Sprintf(s.kind.sessions, s.own))) {
		if _, err := s.db.Exec(fmt.Sprintf(s.kind.end, id)); err == nil { // it may be gone by itself
			n++
		}
	}
	return n
}

// A deed is what a handler has noted of its record.
type deed struct {
	what    string // start, done, fail
	id      string
	attempt string
	tier    string
	life    string // the process that gave it the record
}

// deeds returns what the handlers have noted, in the order in which they did.
func (s *shop) deeds(name string) (list []deed) {
	s.t.Helper()
	for line := range strings.Lines(s.read(name)) {
		f := strings.Fields(line)
		if len(f) != 4 || !strings.HasSuffix(line, "\n") {
			s.t.Fatalf("a torn line in the log: %q", line)
		}
		life, _, _ := strings.Cut(f[2], "-")
		list = append(list, deed{f[0], f[1], f[2], f[3], life})
	}
	return list
}
