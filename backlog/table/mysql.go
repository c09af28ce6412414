package table

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
)

// mysql is the dialect of MySQL and MariaDB.
type mysql struct {
	database string // that of the URL; "" if it names none
	locks    *serverLocks
	hints    *mysqlHints
	names    *mysqlNames
}

// mysqlNames are what the server calls things of which its errors say less.
type mysqlNames struct{ account, schema atomic.Pointer[string] }

// A mysqlError is what the server says. This file alone knows the driver.
type mysqlError = mysqldriver.MySQLError

// isMySQL reports whether the driver is the one that this package knows.
func isMySQL(d driver.Driver) bool { _, ok := d.(*mysqldriver.MySQLDriver); return ok }

var errMySQLNoTLS = mysqldriver.ErrNoTLS

// isNoMySQL reports whether the other side speaks something else. The driver
// has no error of its own for a version of the protocol that is not known.
func isNoMySQL(err error) bool {
	return errors.Is(err, mysqldriver.ErrMalformPkt) || errors.Is(err, mysqldriver.ErrPktSync) || errors.Is(err, mysqldriver.ErrOldProtocol) ||
		strings.Contains(err.Error(), "unsupported protocol version")
}

// isBrokenMySQL reports whether the driver has given the connection up.
func isBrokenMySQL(err error) bool {
	return errors.Is(err, mysqldriver.ErrInvalidConn) || errors.Is(err, mysqldriver.ErrMalformPkt) || errors.Is(err, mysqldriver.ErrPktSync)
}

const (
	// mysqlPatience is how long deadlocks and locks of others are tried anew.
	mysqlPatience = 10 * time.Second
	// mysqlDial is how long a connection may take.
	mysqlDial = 10 * time.Second
)

// openMySQL makes the pool, without using it.
func openMySQL(rawURL string, o Options) (*DB, error) {
	u, err := parseMySQL(rawURL)
	if err != nil {
		return nil, err
	}
	work, err := u.connector(mysqlSession(o))
	if err != nil {
		return nil, err
	}
	locks, err := u.connector(nil)
	if err != nil {
		return nil, err
	}
	db := &DB{dialect: mysql{u.database, &serverLocks{connector: locks}, new(mysqlHints), new(mysqlNames)}, patience: mysqlPatience, read: pool(sql.OpenDB(work), o.besideLocks())}
	if !o.ReadOnly {
		db.write = db.read
	}
	return db, nil
}

// A mysqlURL is what the URL of a database says. Nothing of it but the host,
// the port and the database may be shown.
type mysqlURL struct {
	scheme, host, port, database string // host has the port, too
	user                         *url.Userinfo
	tls, socket                  string
}

var (
	mysqlHost     = pattern(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)
	mysqlDatabase = pattern(`^[A-Za-z0-9_$. -]*$`)
)

// parseMySQL reads mysql://user:password@host:3306/database, with the
// parameters tls and socket. It is strict, since what is misread may be a part
// of the password, and its errors show nothing of the URL.
func parseMySQL(rawURL string) (u mysqlURL, err error) {
	const cure = "write mysql://user:password@host:3306/database, in the password %40 for @, %2F for /, %3A for :, %23 for #, %3F for ? and %25 for %"
	p, err := url.Parse(rawURL)
	if err != nil || p.Opaque != "" || p.Fragment != "" || strings.Count(rawURL, "@") > 1 || strings.Contains(rawURL, "@") && p.User == nil {
		return u, problem(cure, "the database URL cannot be read")
	}
	u = mysqlURL{scheme: p.Scheme, host: p.Host, port: p.Port(), user: p.User, database: strings.TrimPrefix(p.Path, "/")}
	switch {
	case u.host == "":
		return u, problem(cure, "the database URL names no host")
	case !mysqlHost().MatchString(u.host) || !mysqlDatabase().MatchString(u.database):
		return u, problem(cure, "the database URL has a host or a database of a form that is not known")
	}
	params, err := url.ParseQuery(p.RawQuery)
	if err != nil {
		return u, problem(cure, "the parameters of the database URL cannot be read")
	}
	return u, u.parameters(params)
}

func (u *mysqlURL) parameters(params url.Values) error {
	const cure = "tls and socket are the ones there are"
	u.tls = "preferred"
	for name, values := range params {
		value := values[len(values)-1]
		switch {
		case name == "socket" && value != "":
			u.socket = value
		case name == "tls" && (value == "true" || value == "false" || value == "skip-verify" || value == "preferred"):
			u.tls = value
		case name == "tls":
			return problem("write true, false, preferred or skip-verify", "the database URL asks for a tls that is not known")
		case aParameter().MatchString(name):
			return problem(cure, "the database URL has a parameter %s", name)
		default:
			return problem(cure, "the database URL has a parameter that is not known")
		}
	}
	return nil
}

// shownMySQL returns the URL without user and password, or no more than its
// kind where it cannot be read.
func shownMySQL(scheme, rawURL string) string {
	u, err := parseMySQL(rawURL)
	if err != nil {
		return scheme + ":…"
	}
	return u.scheme + "://" + u.host + "/" + u.database
}

// connector returns what makes connections on which the statements have been
// run first.
func (u mysqlURL) connector(session []string) (driver.Connector, error) {
	c := mysqldriver.NewConfig()
	c.User = u.user.Username()
	c.Passwd, _ = u.user.Password()
	c.DBName = u.database
	c.Net, c.Addr, c.TLSConfig = "tcp", u.host, u.tls
	if u.port == "" {
		c.Addr += ":3306"
	}
	if u.socket != "" {
		c.Net, c.Addr, c.TLSConfig = "unix", u.socket, "false"
	}
	c.ClientFoundRows = true
	c.Timeout = mysqlDial
	c.Logger = &mysqldriver.NopLogger{} // errors are returned, too
	c.DialFunc = dialServer
	err := c.Apply(mysqldriver.Charset("utf8mb4", ""))
	if err != nil {
		return nil, err
	}
	inner, err := mysqldriver.NewConnector(c)
	if err != nil {
		return nil, problem("look at its parameters", "the database URL cannot be used")
	}
	return mysqlConnector{inner, session, c.Addr}, nil
}

// dialServer connects so that a connection whose other end has vanished is
// noticed within seconds.
func dialServer(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: mysqlDial, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 3 * time.Second, Interval: 2 * time.Second, Count: 3}}
	return d.DialContext(ctx, network, addr)
}

// A mysqlConnector sets up the session of each connection.
type mysqlConnector struct {
	driver.Connector
	session []string
	addr    string
}

// Connect implements driver.Connector. The driver has no limit of its own for
// what comes after the dialling, and panics at what no server says.
func (c mysqlConnector) Connect(ctx context.Context) (conn driver.Conn, err error) {
	lctx, cancel := context.WithTimeout(ctx, mysqlDial)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = mysqldriver.ErrMalformPkt
		}
		if err != nil {
			conn, err = nil, mysqlUnreached(ctx, lctx, c.addr, err)
		}
	}()
	return c.connect(lctx)
}

func (c mysqlConnector) connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, text := range c.session {
		if _, err := conn.(driver.ExecerContext).ExecContext(ctx, text, nil); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

// mysqlSession returns the statements that make all sessions alike. The
// comments hold what only MySQL (!) or MariaDB (M!) has. A transaction whose
// program has vanished is not to keep its locks for hours.
func mysqlSession(o Options) []string {
	access, seconds, mode := "READ WRITE", int(statementTimeout.Seconds()), "REPLACE(@@sql_mode, 'NO_BACKSLASH_ESCAPES', '')"
	if o.ReadOnly {
		access = "READ ONLY"
	}
	if o.unlimited { // a table is not altered in any way while one of its defaults is a zero date
		seconds, mode = 0, "REPLACE(REPLACE("+mode+", 'NO_ZERO_DATE', ''), 'NO_ZERO_IN_DATE', '')"
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

// reach connects for the first time.
func (d mysql) reach(ctx context.Context, db *sql.DB) error {
	var account string
	err := db.QueryRowContext(ctx, "SELECT "+mysqlAccount).Scan(&account)
	if err == nil {
		d.names.account.Store(&account)
	}
	return err
}

// mysqlAccount is the account that the server has found for the user and the
// host, as GRANT names it. The user's name may have an @ in it.
const mysqlAccount = "concat(quote(left(current_user(), char_length(current_user()) - char_length(substring_index(current_user(), '@', -1)) - 1)), " +
	"'@', quote(substring_index(current_user(), '@', -1)))"

// begin begins a transaction; rows are locked as they are written.
func (mysql) begin(ctx context.Context, conn *sql.Conn) (*sql.Tx, error) {
	return conn.BeginTx(ctx, nil)
}

// understood asks in a transaction that may write: in others a statement that
// does so is refused before anything is looked up.
func (mysql) understood(ctx context.Context, db *sql.DB, text string) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "START TRANSACTION READ WRITE"); err != nil {
		return err
	}
	err = preparable(ctx, conn, text)
	_, end := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	return errors.Join(err, end)
}

func (mysql) permits(context.Context, *sql.DB, string, int) error { return nil }

func (d mysql) ungranted(_ context.Context, _ *sql.DB, _ string, err error) error {
	switch mysqlNumber(err) {
	case 1142, 1143, 1370: // of a table, a column, a routine
		return d.explain(err)
	}
	return nil
}

// advice warns of clusters, in which each server has locks of its own.
func (mysql) advice(ctx context.Context, db *sql.DB) string {
	var name, value string
	err := db.QueryRowContext(ctx, "SHOW VARIABLES LIKE 'wsrep_on'").Scan(&name, &value)
	if err != nil || value != "ON" {
		return ""
	}
	return "the server is one of a Galera cluster, whose locks hold on one server only: let all daemons for a table use the same one"
}
