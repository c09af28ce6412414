package table

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"backlog/backlog"
)

// A mute server keeps quiet once it is connected to.
type mute struct{}

func (mute) Driver() driver.Driver { return nil }

func (mute) Connect(ctx context.Context) (driver.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Who finds a server mute does not wait for it as long as for a statement, and
// is told which it is; who no longer wants to know does not wait at all.
func TestMySQLMute(t *testing.T) {
	for _, tt := range []struct {
		stop time.Duration
		want string
	}{
		{time.Hour, "the database is away: the MySQL server at db:3306 gives no answer within 10s; name host and port of a MySQL or MariaDB server in the database URL"},
		{time.Second, "the database is away: no connection to the MySQL server at db:3306 so far"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(tt.stop, cancel)
			began := time.Now()
			_, err := mysqlConnector{Connector: mute{}, addr: "db:3306"}.Connect(ctx)
			if took := time.Since(began); err == nil || err.Error() != tt.want || !errors.Is(err, backlog.ErrAway) || took != min(tt.stop, mysqlDial) {
				t.Errorf("after %v: %v\nwant %s", took, err, tt.want)
			}
			time.Sleep(tt.stop)
		})
	}
}

// What is no server of the kind that the URL names is not waited for where that
// is certain, and may be none where it is not.
func TestStrangersAtThePort(t *testing.T) {
	const packet = "\x05\x00\x00\x00" // of MySQL, five bytes long
	for _, tt := range []struct {
		kind, says, want string
		away             bool
	}{
		{"mysql", "SSH-2.0-OpenSSH_9.9\r\n", "the MySQL server at ADDR broke the connection off; name host and port of a MySQL or MariaDB server in the database URL", true},
		{"mysql", packet + "\x0a5.\x00\x01", "there is no MySQL server at ADDR, but something else; correct host and port, or write postgres://… for PostgreSQL", false},
		{"mysql", packet + "\x095.\x00\x01", "there is no MySQL server at ADDR, but something else; correct host and port, or write postgres://… for PostgreSQL", false},
		{"postgres", packet + "\x0a5.5.5-10.11.6-MariaDB\x00", "there is no PostgreSQL server at ADDR, but something else; correct host and port, or write mysql://… for MySQL and MariaDB", false},
		{"postgres", "", "the PostgreSQL server at ADDR broke the connection off; name host and port of a PostgreSQL server in the database URL", true},
	} {
		addr := stranger(t, tt.says)
		_, err := Open(t.Context(), tt.kind+"://u:s3cret@"+addr+"/x", Options{})
		if want := strings.ReplaceAll(tt.want, "ADDR", addr); err == nil || strings.TrimPrefix(err.Error(), "the database is away: ") != want || errors.Is(err, backlog.ErrAway) != tt.away {
			t.Errorf("%s, %q:\n got %v\nwant %s", tt.kind, tt.says, err, want)
		}
	}
}

// stranger returns the address of a server that says the same to everybody.
func stranger(t *testing.T, says string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Write([]byte(says))
			c.(*net.TCPConn).CloseWrite()
			t.Cleanup(func() { c.Close() })
		}
	}()
	return l.Addr().String()
}

// What keeps a statement from being run though the database is there is said in
// its own words, with where to look; that it may pass is said by the error's kind.
func TestHindrances(t *testing.T) {
	for _, tt := range []struct {
		d    dialect
		err  error
		want string
	}{
		{mysql{}, &mysqlError{Number: 1205, Message: "Lock wait timeout exceeded; try restarting transaction"},
			"locked by another session: Lock wait timeout exceeded; SHOW FULL PROCESSLIST and SHOW ENGINE INNODB STATUS tell by whom"},
		{mysql{}, &mysqlError{Number: 1040, Message: "Too many connections"},
			"the database has no connection left: Too many connections; let its administrator raise the limit, or end sessions that SHOW PROCESSLIST shows"},
		{mysql{}, &mysqlError{Number: 1290, Message: "The MariaDB server is running with the --read-only option so it cannot execute this statement"},
			"the database takes no writes: The MariaDB server is running with the --read-only option so it cannot execute this statement; name the server in the database URL that takes them, or let its administrator SET GLOBAL read_only = 0"},
		{mysql{}, &mysqlError{Number: 1317, Message: "Query execution was interrupted"}, "the statement was cancelled: Query execution was interrupted"},
		{mysql{}, &mysqlError{Number: 1969, Message: "Query execution was interrupted (max_statement_time exceeded)"},
			"a statement takes longer than its time limit: Query execution was interrupted (max_statement_time exceeded); " + lookAtIndexes},
		{mysql{}, driver.ErrBadConn, "the database is away: the connection broke off; the server's log tells why"},
		{postgres{}, &pgconn.PgError{Code: "55P03", Message: "canceling statement due to lock timeout"},
			"locked by another session: canceling statement due to lock timeout; pg_stat_activity tells by whom: look for the oldest xact_start"},
		{postgres{}, &pgconn.PgError{Code: "57014", Message: "canceling statement due to user request"}, "the statement was cancelled: canceling statement due to user request"},
		{postgres{}, &pgconn.PgError{Code: "57014", Message: "canceling statement due to statement timeout"},
			"a statement takes longer than its time limit: canceling statement due to statement timeout; " + lookAtIndexes},
		{postgres{}, &pgconn.PgError{Code: "53300", Message: "remaining connection slots are reserved"},
			"the database has no connection left: remaining connection slots are reserved; let its administrator raise the limit, or end sessions that pg_stat_activity shows"},
		{postgres{}, sql.ErrConnDone, "the database is away: the connection broke off; the server's log tells why"},
	} {
		err := (&DB{dialect: tt.d}).wrap(t.Context(), tt.err)
		if err == nil || err.Error() != tt.want || !errors.Is(err, backlog.ErrAway) || !errors.Is(err, tt.err) && !isWordless(tt.err) {
			t.Errorf("got %v\nwant %s", err, tt.want)
		}
	}
}

// What has ended a call is said once, and how long it was waited for is the limit
// that was there.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		db := &DB{dialect: mysql{}}
		if err := db.wrap(t.Context(), limited(t.Context(), 2*time.Second, hangs)); err == nil || err.Error() != "the database is away: no answer within 2s" {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := db.wrap(ctx, limited(ctx, 2*time.Second, hangs)); err == nil || err.Error() != "context canceled" {
			t.Errorf("got %v", err)
		}
	})
}
