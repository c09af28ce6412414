package table

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// postgres is the dialect of PostgreSQL, from version 12 on.
type postgres struct {
	*postgresServer
}

// A postgresServer is the way to one.
type postgresServer struct {
	config   *pgx.ConnConfig
	host     string // as it may be shown, with the port
	ownMode  bool   // the URL says how statements are run
	readOnly bool

	unlimited bool // statements take as long as they take

	// plain is set once something on the way, such as PgBouncer, has refused
	// the parameters that a session can do without. It may well give each
	// transaction another session.
	plain atomic.Bool

	// deferred is set once a table was described that has constraints or
	// triggers which else would speak up at the commit, for the whole group.
	deferred atomic.Bool

	locks *serverLocks
}

// postgresPatience is how long rows that another program has locked are waited
// for. Meanwhile no lock is held for longer than postgresLockTimeout.
const (
	postgresPatience    = 10 * time.Second
	postgresLockTimeout = 2 * time.Second
)

func openPostgres(url string, o Options) (*DB, error) {
	server, err := newPostgresServer(url, o.ReadOnly)
	if err != nil {
		return nil, err
	}
	server.unlimited = o.unlimited
	server.locks = &serverLocks{connector: server.apart()}
	p := pool(sql.OpenDB(server), o.besideLocks())
	// Longer than files need: a new connection is a new process there, which
	// knows no statement yet. But none is kept that is not used.
	p.SetConnMaxLifetime(30 * time.Minute)
	p.SetConnMaxIdleTime(time.Minute)
	db := &DB{dialect: postgres{server}, patience: postgresPatience, read: p}
	if !o.ReadOnly {
		db.write = p
	}
	return db, nil
}

// newPostgresServer reads the URL. What it does not say is taken from the
// environment, as all of PostgreSQL's programs do: PGUSER, PGPASSWORD,
// ~/.pgpass …
func newPostgresServer(url string, readOnly bool) (*postgresServer, error) {
	if err := checkPostgresURL(url); err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(url)
	if err != nil { // its text has parts of the URL
		return nil, problem(postgresCure, "the database URL, or a PG… variable of the environment or a file that it names, cannot be read")
	}
	if config.ConnectTimeout == 0 || config.ConnectTimeout > time.Minute {
		config.ConnectTimeout = 10 * time.Second
	}
	config.DialFunc = postgresDialer.DialContext
	s := &postgresServer{config: config, host: hostOf(config), readOnly: readOnly, ownMode: strings.Contains(url, "default_query_exec_mode=")}
	return s, nil
}

// postgresDialer notices within seconds that the other side is gone without a
// word.
var postgresDialer = &net.Dialer{
	Timeout:         10 * time.Second,
	KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3},
}

// apart returns the way to the same server for sessions that may both read and
// write, whatever the others may.
func (s *postgresServer) apart() *postgresServer {
	return &postgresServer{config: s.config, host: s.host, ownMode: s.ownMode}
}

// Connect implements driver.Connector.
func (s *postgresServer) Connect(ctx context.Context) (driver.Conn, error) {
	plain := s.plain.Load()
	conn, err := s.connector(plain).Connect(ctx)
	if !plain && refusesParameters(err) {
		if conn, err = s.connector(true).Connect(ctx); err == nil {
			s.plain.Store(true)
		}
	}
	return conn, s.unreached(ctx, err)
}

// Driver implements driver.Connector.
func (s *postgresServer) Driver() driver.Driver { return stdlib.GetDefaultDriver() }

func (s *postgresServer) connector(plain bool) driver.Connector {
	config := *s.config
	config.RuntimeParams = s.parameters(plain)
	if plain && !s.ownMode { // another session does not know what was prepared
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	return stdlib.GetConnector(config, stdlib.OptionAfterConnect(postgresReady))
}

// parameters returns those of a session. Times are read and written in UTC,
// text means what it says, and no statement is without an end; the owner of the
// URL may set other limits.
func (s *postgresServer) parameters(plain bool) map[string]string {
	all := maps.Clone(s.config.RuntimeParams)
	may := func(name, value string) {
		if _, set := all[name]; !set {
			all[name] = value
		}
	}
	may("application_name", "backlog")
	all["timezone"], all["datestyle"] = "UTC", "ISO, YMD"
	all["client_encoding"], all["standard_conforming_strings"] = "UTF8", "on"
	if plain {
		return all
	}
	if s.unlimited {
		all["statement_timeout"] = "0"
	}
	may("statement_timeout", milliseconds(statementTimeout))
	may("lock_timeout", milliseconds(postgresLockTimeout))
	may("idle_in_transaction_session_timeout", milliseconds(statementTimeout))
	// A plan for any arguments is made for half of the table: it may sort.
	may("plan_cache_mode", "force_custom_plan")
	may("jit", "off") // takes longer than a page
	// An error instead of rows that are silently left out.
	all["row_security"] = "off"
	if s.readOnly {
		all["default_transaction_read_only"] = "on"
	}
	return all
}

func milliseconds(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

// postgresReady makes sure that the session is as it was asked for, and lets it
// take numbers and truths where text is expected.
func postgresReady(_ context.Context, conn *pgx.Conn) error {
	for name, want := range map[string]string{"TimeZone": "UTC", "standard_conforming_strings": "on"} {
		if has := conn.PgConn().ParameterStatus(name); has != want {
			return problem("let it pass on what is asked for when a connection begins", "what is between here and the PostgreSQL server sets %s to %q, not to %s", name, has, want)
		}
	}
	m := conn.TypeMap()
	m.TryWrapEncodePlanFuncs = append(slices.Clip(m.TryWrapEncodePlanFuncs), textPlan)
	return nil
}

// backendPID returns the number of the server's process, as it was said when the
// connection began.
func backendPID(conn *sql.Conn) (pid int, err error) {
	err = conn.Raw(func(c any) error {
		switch c := c.(type) {
		case *stdlib.Conn:
			pid = int(c.Conn().PgConn().PID())
		case *lentConn:
			pid, err = backendPID(c.conn)
		}
		return err
	})
	return pid, err // 0: the driver is behind another
}

// isPostgres reports whether the driver is the one that this package knows.
func isPostgres(d driver.Driver) bool { _, ok := d.(*stdlib.Driver); return ok }

// postgresOf returns the server at the other end of a connection that somebody
// else has made, as far as it is known.
func postgresOf(conn *sql.Conn) (*postgresServer, error) {
	s := unknownServer()
	err := conn.Raw(func(c any) error {
		if c, ok := c.(*stdlib.Conn); ok {
			s.config = c.Conn().Config()
			s.host = hostOf(s.config)
		}
		return nil
	})
	return s, err
}

func unknownServer() *postgresServer {
	return &postgresServer{config: new(pgx.ConnConfig), host: "the other end of the pool"}
}

// hostOf returns the host with its port, or the folder of its socket.
func hostOf(config *pgx.ConnConfig) string {
	if strings.HasPrefix(config.Host, "/") {
		return config.Host
	}
	return net.JoinHostPort(config.Host, fmt.Sprint(config.Port))
}

// reach uses a connection for the first time.
func (d postgres) reach(ctx context.Context, db *sql.DB) error {
	var version int
	if err := db.QueryRowContext(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		return err
	}
	if version < 120000 {
		return problem("use a newer one", "the PostgreSQL server is older than version 12, which is the first that can be used")
	}
	return nil
}

// begin begins a transaction. What would object only at its end is to say so at
// the statement, which belongs to a row.
func (d postgres) begin(ctx context.Context, conn *sql.Conn) (*sql.Tx, error) {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, err
	}
	var setup []string
	if d.plain.Load() {
		setup = append(setup, "SET LOCAL statement_timeout = "+milliseconds(statementTimeout), "SET LOCAL lock_timeout = "+milliseconds(postgresLockTimeout))
	}
	if d.deferred.Load() {
		setup = append(setup, "SET CONSTRAINTS ALL IMMEDIATE")
	}
	for _, text := range setup {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			tx.Rollback()
			return nil, err
		}
	}
	return tx, nil
}

// advice tells what a pooler keeps from the sessions and their role does not make
// up for.
func (d postgres) advice(ctx context.Context, db *sql.DB) string {
	if !d.plain.Load() {
		return ""
	}
	var role string
	var limited, secured bool
	err := db.QueryRowContext(ctx, "SELECT current_user::text, current_setting('statement_timeout') <> '0' AND current_setting('lock_timeout') <> '0', current_setting('row_security')::bool").
		Scan(&role, &limited, &secured)
	if err != nil || limited && !secured {
		return ""
	}
	alter := "ALTER ROLE " + d.quote(role) + " SET "
	return d.host + " is a pooler that refuses the parameters of a session: statements that only read have no time limit there, and a row level security that is introduced later would hide rows without a word; " +
		alter + "statement_timeout = '60s'; " + alter + "lock_timeout = '2s'; " + alter + "row_security = off; then let the pooler connect anew (RECONNECT in PgBouncer's console)"
}

// understood prepares the statement and lets go of it in one transaction: behind a
// pooler it would else stay in a session that is somebody else's by then.
func (postgres) understood(ctx context.Context, db *sql.DB, text string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	return preparable(ctx, tx, text)
}

// home asks in a session of its own: that of the others has asked for UTC, and
// that is its default then.
func (d postgres) home(ctx context.Context, _ *sql.DB) (zone string, utc bool, err error) {
	config := d.config.Copy()
	maps.DeleteFunc(config.RuntimeParams, func(name, _ string) bool { return strings.EqualFold(name, "timezone") })
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return "", false, d.unreached(ctx, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, postgresHome).Scan(&zone, &utc)
	return zone, utc, err
}

const postgresHome = "SELECT current_setting('TimeZone'), " +
	"extract(timezone FROM now()) = 0 AND extract(timezone FROM now() + interval '6 months') = 0"
