// Package mysql speaks to MySQL and MariaDB.
package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"backlog/backlog/table/db"
)

// Dialect is the dialect of MySQL and MariaDB.
var Dialect db.Server = &server{}

// A server is MySQL or MariaDB, connected or not.
type server struct{ *db.SessionLocks }

// Open implements db.Server.
func (*server) Open(ctx context.Context, url string, o db.Options) (*db.DB, error) {
	if o.Existing != nil {
		return adopt(ctx, o.Existing)
	}
	c, err := connect(url, session(o))
	if err != nil {
		return nil, err
	}
	locks := sessionLocks()
	// The session statements are left out: a session with a lock has its own wait_timeout, see Prepare.
	locks.Connector = connector{Connector: c.Connector, addr: c.addr}
	// This is below wait_timeout: the pool replaces a connection before the server closes it.
	const maxConnLifetime = time.Minute
	return o.Connect(ctx, &server{locks}, c, maxConnLifetime)
}

// adopt returns a database that uses a pool of the calling program.
func adopt(ctx context.Context, pool *sql.DB) (*db.DB, error) {
	locks := sessionLocks()
	locks.Pool = pool
	d := &db.DB{Server: &server{locks}, Read: pool, Write: pool, CountsChangedOnly: true}
	acceptDriver := func(any) error { return nil } // any driver will do whose sessions have the settings
	return d.Adopt(ctx, requiredSettings, acceptDriver)
}

// requiredSettings are the settings that a pool of the calling program must have.
var requiredSettings = []db.RequiredSetting{
	{Name: "time_zone", Query: "@@time_zone", Want: "+00:00", Hint: "add time_zone=%27%2B00%3A00%27 to its DSN"},
	{Name: "sql_mode", Query: "IF(@@sql_mode LIKE '%STRICT_ALL_TABLES%' AND @@sql_mode NOT LIKE '%NO_BACKSLASH_ESCAPES%', 'STRICT_ALL_TABLES', @@sql_mode)",
		Want: "STRICT_ALL_TABLES", Hint: "add sql_mode=%27STRICT_ALL_TABLES%27 to its DSN"},
	{Name: "dates (parseTime)", Query: "DATE '2000-01-01'", Want: "2000-01-01", Hint: "leave parseTime out of its DSN, since a zero date is no time of Go's"},
	{Name: "autocommit", Query: "@@autocommit", Want: "1", Hint: "leave it out of its DSN"},
}

// connect returns a connector that runs the session statements on each new connection.
func connect(rawURL string, session []string) (c connector, err error) {
	u, params, err := text.ParseURL(rawURL)
	if err != nil {
		return c, err
	}
	config := mysqldriver.NewConfig()
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	config.DBName = strings.TrimPrefix(u.Path, "/")
	config.Net = "tcp"
	config.Addr = u.Host
	config.TLSConfig = cmp.Or(params["tls"], "preferred")
	if u.Port() == "" {
		config.Addr += ":3306"
	}
	if params["socket"] != "" {
		config.Net = "unix"
		config.Addr = params["socket"]
		config.TLSConfig = "false"
	}
	config.ClientFoundRows = true
	config.Timeout = db.DialTimeout
	config.DialFunc = db.Dial
	config.Logger = &mysqldriver.NopLogger{} // the driver also returns the errors that it would log
	if err := config.Apply(mysqldriver.Charset("utf8mb4", "")); err != nil {
		return c, err
	}
	inner, err := mysqldriver.NewConnector(config)
	if err != nil { // its message contains parts of the URL
		return c, db.URLProblemf("look at its parameters", "the database URL cannot be used")
	}
	return connector{inner, session, config.Addr}, nil
}

// A connector sets up the session of each connection.
type connector struct {
	driver.Connector
	session []string
	addr    string
}

// Connect implements driver.Connector. It limits the handshake, for which the driver has no time
// limit, and turns a panic of the driver into an error: the driver panics at some bytes that no
// MySQL server would send.
func (c connector) Connect(ctx context.Context) (conn driver.Conn, err error) {
	lctx, cancel := context.WithTimeout(ctx, db.DialTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = mysqldriver.ErrMalformPkt
		}
		if err != nil && lctx.Err() != nil {
			err = lctx.Err()
		}
		if err != nil {
			conn = nil
			err = explainConnectError(ctx, c.addr, err)
		}
	}()
	conn, err = c.Connector.Connect(lctx)
	if err != nil {
		return nil, err
	}
	for _, text := range c.session {
		if _, err := conn.(driver.ExecerContext).ExecContext(lctx, text, nil); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

// session returns the statements that give all sessions the same settings. MySQL alone executes
// comments that begin with !, MariaDB those with M!. The timeouts keep a transaction whose program
// has vanished from holding its locks for hours.
func session(o db.Options) []string {
	access := "READ WRITE"
	seconds := int(db.StatementTimeout.Seconds())
	mode := "REPLACE(@@sql_mode, 'NO_BACKSLASH_ESCAPES', '')"
	if o.ReadOnly {
		access = "READ ONLY"
	}
	if o.Create { // these modes would refuse any ALTER of a table that has a zero date as a default
		seconds = 0
		mode = "REPLACE(REPLACE(" + mode + ", 'NO_ZERO_DATE', ''), 'NO_ZERO_IN_DATE', '')"
	}
	return []string{
		fmt.Sprintf(`SET time_zone = '+00:00', sql_mode = CONCAT(%s, ',STRICT_ALL_TABLES'),
			autocommit = 1, completion_type = 0, sql_safe_updates = 0, sql_select_limit = 18446744073709551615,
			/*!80000 max_execution_time = %d, */ /*M!100100 max_statement_time = %d, */
			/*M!100300 idle_transaction_timeout = 60, in_predicate_conversion_threshold = 0, */
			innodb_lock_wait_timeout = 5, lock_wait_timeout = 10, wait_timeout = 120`, mode, 1000*seconds, seconds),
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, " + access,
	}
}

// Begin implements db.Server. An UPDATE locks only the rows that it writes.
func (s *server) Begin(ctx context.Context, conn *sql.Conn) (*sql.Tx, error) {
	if s.Pool != nil { // a pool of the calling program, whose sessions may have another isolation level
		return conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	}
	return conn.BeginTx(ctx, nil)
}

// WholeUpdate implements db.Server. An UPDATE cannot fail by the number of its rows.
func (*server) WholeUpdate(string) string { return "" }

// MayWrite implements db.Server. It begins a transaction that may write, which a read-only server
// refuses.
func (s *server) MayWrite(ctx context.Context, conn *sql.Conn) error {
	for _, text := range []string{"START TRANSACTION READ WRITE", "ROLLBACK"} {
		if _, err := conn.ExecContext(ctx, text); s.Classify(err).What == db.ReadOnly {
			return db.Problemf("name the server that may be written to", "the database server is read-only: %v", err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// Value implements db.Server. The driver returns []byte for everything but numbers.
func (*server) Value(c *db.Column, v any) any {
	switch v := v.(type) {
	case []byte:
		switch {
		case c == nil:
		case is(c.Decl, "bit"):
			return unsigned(new(big.Int).SetBytes(v).Uint64())
		case c.Class == db.Bytes:
			return v
		case c.Class == db.Integer || c.IsDecimal(): // possibly a whole number
			if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
				return n
			}
		}
		return string(v)
	case uint64:
		return unsigned(v)
	case float32:
		return float64(v)
	}
	return v
}

// unsigned returns the number as an int64, or as text if it is too large for that.
func unsigned(n uint64) any {
	if int64(n) >= 0 {
		return int64(n)
	}
	return strconv.FormatUint(n, 10)
}
