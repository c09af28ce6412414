// Package postgres speaks to PostgreSQL, from version 12 on.
package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"

	"backlog/backlog/table/db"
)

// Dialect is the dialect of PostgreSQL.
var Dialect db.Server = &server{config: new(pgx.ConnConfig)}

// A server is a PostgreSQL server. It is the connector of its connections.
type server struct {
	config  *pgx.ConnConfig
	host    string // for messages: with the port, or the path of the socket
	options db.Options

	// plain is set when something in between, such as PgBouncer, has refused the parameters
	// that a session can do without. Each transaction may then be in another session.
	plain atomic.Bool

	*db.SessionLocks
}

// lockTimeout limits how long a statement waits for a lock, while it may hold others.
const lockTimeout = 2 * time.Second

// Open implements db.Server. As in all programs of PostgreSQL, the environment supplies what the
// URL does not: PGUSER, PGPASSWORD, ~/.pgpass …
func (*server) Open(ctx context.Context, url string, o db.Options) (*db.DB, error) {
	s := &server{config: new(pgx.ConnConfig), host: "the other end of the pool", options: o}
	if o.Existing != nil {
		s.SessionLocks = sessionLocks(s)
		s.SessionLocks.Pool = o.Existing
		return (&db.DB{Server: s, Read: o.Existing, Write: o.Existing}).Adopt(ctx, requiredSettings, s.adopt)
	}
	if err := s.parse(url); err != nil {
		return nil, err
	}
	withoutOptions := &server{config: s.config, host: s.host} // a session with a lock may write
	s.SessionLocks = sessionLocks(withoutOptions)
	// Each new connection costs a process on the server, which has no statement prepared.
	const maxConnLifetime = 30 * time.Minute
	return o.Connect(ctx, s, s, maxConnLifetime)
}

// requiredSettings are the settings that a pool of the calling program must have.
var requiredSettings = []db.RequiredSetting{
	{Name: "TimeZone", Query: "current_setting('TimeZone')", Want: "UTC", Hint: "add timezone=UTC to its URL"},
	{Name: "row_security", Query: "current_setting('row_security')", Want: "off", Hint: "add row_security=off to its URL"},
}

// adopt takes the server's name and address from a connection of the driver.
func (s *server) adopt(conn any) error {
	c, ours := conn.(*stdlib.Conn)
	if !ours {
		return db.Problemf(`open it by sql.Open("pgx", …)`, "the pool's driver is that of %T, not "+text.Driver, conn)
	}
	s.config = c.Conn().Config()
	_, s.host = pgconn.NetworkAddress(s.config.Host, s.config.Port)
	return nil
}

// parse reads the URL.
func (s *server) parse(url string) error {
	if _, _, err := text.ParseURL(url); err != nil {
		return err
	}
	config, err := pgx.ParseConfig(url)
	if err != nil { // its message contains parts of the URL
		return db.URLProblemf("write "+text.URLForm, "the database URL, or a PG… variable of the environment or a file that it names, cannot be read")
	}
	if config.ConnectTimeout == 0 || config.ConnectTimeout > time.Minute {
		config.ConnectTimeout = db.DialTimeout
	}
	config.DialFunc = db.Dial
	s.config = config
	_, s.host = pgconn.NetworkAddress(config.Host, config.Port)
	return nil
}

// Connect implements driver.Connector.
func (s *server) Connect(ctx context.Context) (driver.Conn, error) {
	plain := s.plain.Load()
	conn, err := s.connector(plain).Connect(ctx)
	if !plain && refusesParameters(err) {
		conn, err = s.connector(true).Connect(ctx)
		if err == nil {
			s.plain.Store(true)
		}
	}
	return conn, s.explainConnectError(ctx, err)
}

// Driver implements driver.Connector.
func (s *server) Driver() driver.Driver { return stdlib.GetDefaultDriver() }

// connector returns the driver's connector, for sessions with the fewest parameters if plain.
func (s *server) connector(plain bool) driver.Connector {
	config := *s.config
	config.RuntimeParams = s.parameters(plain)
	if plain { // the next statement may run in a session in which it was not prepared
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	return stdlib.GetConnector(config, stdlib.OptionAfterConnect(ready))
}

// parameters returns the settings of a session. Times are in UTC, a backslash in a string is a
// backslash, and statements have time limits, unless the URL sets others.
func (s *server) parameters(plain bool) map[string]string {
	all := map[string]string{"application_name": "backlog"}
	if !plain {
		maps.Copy(all, map[string]string{
			"statement_timeout":                   milliseconds(db.StatementTimeout),
			"lock_timeout":                        milliseconds(lockTimeout),
			"idle_in_transaction_session_timeout": milliseconds(db.StatementTimeout),
			"plan_cache_mode":                     "force_custom_plan", // a generic plan expects half of the table, and may sort it
			"jit":                                 "off",               // compiling takes longer than a page
		})
	}
	maps.Copy(all, s.config.RuntimeParams)
	maps.Copy(all, map[string]string{
		"timezone": "UTC", "datestyle": "ISO, YMD", "client_encoding": "UTF8", "standard_conforming_strings": "on",
	})
	if plain {
		return all
	}
	if s.options.Create {
		all["statement_timeout"] = "0"
	}
	// Fail instead of leaving out rows silently.
	all["row_security"] = "off"
	all["default_transaction_isolation"] = "read committed" // as Begin has it
	if s.options.ReadOnly {
		all["default_transaction_read_only"] = "on"
	}
	return all
}

// milliseconds returns a duration as PostgreSQL's settings have it.
func milliseconds(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

// ready verifies that a new session has the settings that were asked for, and makes the driver
// accept numbers and booleans for text arguments.
//
// A database of encoding SQL_ASCII may hold text that is not UTF-8. If the client asked for UTF-8,
// such a text would fail the whole page. ready therefore asks for the bytes as they are stored, so
// that each row can be judged by itself.
func ready(ctx context.Context, conn *pgx.Conn) error {
	major, _, _ := strings.Cut(conn.PgConn().ParameterStatus("server_version"), ".")
	if n, err := strconv.Atoi(major); err == nil && n < 12 {
		return db.Problemf("use a newer one", "the PostgreSQL server is older than version 12, which is the first that can be used")
	}
	for name, want := range map[string]string{"TimeZone": "UTC", "standard_conforming_strings": "on"} {
		if has := conn.PgConn().ParameterStatus(name); has != want {
			return db.Problemf("let it pass on what is asked for when a connection begins", "what is between here and the PostgreSQL server sets %s to %q, not to %s", name, has, want)
		}
	}
	m := conn.TypeMap()
	m.TryWrapEncodePlanFuncs = append(slices.Clip(m.TryWrapEncodePlanFuncs), textPlan)
	if conn.PgConn().ParameterStatus("server_encoding") != "SQL_ASCII" || conn.Config().DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		return nil
	}
	_, err := conn.Exec(ctx, "SET client_encoding = 'SQL_ASCII'")
	return err
}

// Begin implements db.Server. Behind a pooler it sets the time limits for the transaction.
func (s *server) Begin(ctx context.Context, conn *sql.Conn) (*sql.Tx, error) {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil || !s.plain.Load() {
		return tx, err
	}
	_, err = tx.ExecContext(ctx, "SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true)",
		milliseconds(db.StatementTimeout), milliseconds(lockTimeout))
	if err != nil {
		tx.Rollback()
		return nil, err
	}
	return tx, nil
}

// WholeUpdate implements db.Server. Behind a pooler a write needs the time limits of Begin, and in a
// pool of the calling program its isolation level.
func (s *server) WholeUpdate(update string) string {
	if s.plain.Load() || s.options.Existing != nil {
		return ""
	}
	// The server logs the error, so it explains itself. The count keeps the planner from computing the cast.
	const otherwise = "'backlog: another program has changed rows of this group, so they are written one by one: ' || count(*)"
	return "WITH written AS (" + update + " RETURNING 1) SELECT CASE WHEN count(*) = CAST(? AS bigint) THEN 1 " +
		"ELSE CAST(" + otherwise + " AS integer) END FROM written"
}

// MayWrite implements db.Server.
func (s *server) MayWrite(ctx context.Context, conn *sql.Conn) error {
	var readOnly bool
	err := conn.QueryRowContext(ctx, "SELECT current_setting('transaction_read_only')::bool").Scan(&readOnly)
	if err == nil && readOnly {
		return db.Problemf("if it is a standby, "+otherServer+"; else ALTER ROLE … SET default_transaction_read_only = off",
			"the sessions of the user %s are read only on the PostgreSQL server at %s", s.config.User, s.host)
	}
	return err
}

// defaultZoneQuery returns the zone of the session. It returns "" if the zone has no offset in summer
// or winter, which is UTC by any of its names.
const defaultZoneQuery = `SELECT CASE
	WHEN extract(timezone FROM now()) = 0
	AND extract(timezone FROM now() + interval '6 months') = 0
	THEN ''
	ELSE current_setting('TimeZone')
END`

// defaultZone returns the time zone of a session whose program does not ask for one, "" if that is
// UTC. It needs a connection of its own: the zone that the other sessions ask for is their default too.
func (s *server) defaultZone(ctx context.Context) (zone string, err error) {
	config := s.config.Copy()
	maps.DeleteFunc(config.RuntimeParams, func(name, _ string) bool { return strings.EqualFold(name, "timezone") })
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return "", s.explainConnectError(ctx, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, defaultZoneQuery).Scan(&zone)
	return zone, err
}

// Value implements db.Server. It returns a time as PostgreSQL writes it, which is also valid as an
// argument.
func (*server) Value(c *db.Column, v any) any {
	switch v := v.(type) {
	case []byte:
		switch {
		case c != nil && c.Class != db.Bytes:
			return string(v)
		case v == nil:
			return []byte{}
		}
	case time.Time:
		return timeText(c, v)
	case float64:
		switch { // JSON has no numbers for these
		case math.IsNaN(v):
			return "NaN"
		case math.IsInf(v, 0):
			return strings.TrimPrefix(strconv.FormatFloat(v, 'g', -1, 64), "+") + "inity"
		case c != nil && c.Decl == "real": // only as many digits as a float32 has
			short, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', -1, 32), 64)
			return short
		}
	case string:
		if c != nil && strings.HasPrefix(c.Decl, "numeric") {
			if n, err := strconv.ParseInt(v, 10, 64); err == nil {
				return n
			}
		}
	}
	return v
}

// timeText returns a time in the form of the column.
func timeText(c *db.Column, t time.Time) string {
	t = t.UTC()
	layout := "2006-01-02 15:04:05.999999"
	var suffix string
	if c != nil && c.Time != nil {
		suffix = c.Time.Suffix
		if c.Time.Fraction == "" && suffix == "" {
			layout = c.Time.Head
		}
	}
	if y := t.Year(); y <= 0 {
		t = t.AddDate(1-2*y, 0, 0)
		suffix += " BC"
	}
	return t.Format(layout) + suffix
}

// textPlan makes the driver accept numbers and booleans as arguments of type text, as it accepts
// text for numbers.
func textPlan(v any) (pgtype.WrappedEncodePlanNextSetter, any, bool) {
	switch v.(type) {
	case int64, float64, bool:
		return &textEncoding{}, fmt.Sprint(v), true
	}
	return nil, nil, false
}

// A textEncoding encodes a value as its text.
type textEncoding struct{ next pgtype.EncodePlan }

func (e *textEncoding) SetNext(next pgtype.EncodePlan) { e.next = next }

func (e *textEncoding) Encode(value any, buf []byte) ([]byte, error) {
	return e.next.Encode(fmt.Sprint(value), buf)
}
