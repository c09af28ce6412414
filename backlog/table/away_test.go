package table_test

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"strings"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"backlog/backlog"
	"backlog/backlog/table"
	"backlog/backlog/table/db"
	"backlog/backlog/table/mysql"
	"backlog/backlog/table/postgres"
	"backlog/internal/testkit"
)

// What is no server of the kind that the URL names is not waited for where that
// is certain, and may be none where it is not.
func TestStrangersAtThePort(t *testing.T) {
	const packet = "\x05\x00\x00\x00" // of MySQL, five bytes long
	for _, tt := range []struct {
		kind, says, want string
		away             bool
	}{
		{
			kind: "mysql",
			says: "SSH-2.0-OpenSSH_9.9\r\n",
			want: "the MySQL server at ADDR broke the connection off; name host and port of a MySQL or MariaDB server in the database URL",
			away: true,
		},
		{
			kind: "mysql",
			says: packet + "\x0a5.\x00\x01",
			want: "there is no MySQL server at ADDR, but something else; correct host and port, or write postgres://… for PostgreSQL",
		},
		{
			kind: "mysql",
			says: packet + "\x095.\x00\x01",
			want: "there is no MySQL server at ADDR, but something else; correct host and port, or write postgres://… for PostgreSQL",
		},
		{
			kind: "postgres",
			says: packet + "\x0a5.5.5-10.11.6-MariaDB\x00",
			want: "there is no PostgreSQL server at ADDR, but something else; correct host and port, or write mysql://… for MySQL and MariaDB",
		},
		{
			kind: "postgres",
			want: "the PostgreSQL server at ADDR broke the connection off; name host and port of a PostgreSQL server in the database URL",
			away: true,
		},
	} {
		addr := speaker(t, tt.says)
		_, err := openDB(t.Context(), tt.kind+"://u:s3cret@"+addr+"/x", table.Options{})
		if want := strings.ReplaceAll(tt.want, "ADDR", addr); err == nil || strings.TrimPrefix(err.Error(), "the database is away: ") != want || errors.Is(err, backlog.ErrUnavailable) != tt.away {
			t.Errorf("%s, %q:\n got %v\nwant %s", tt.kind, tt.says, err, want)
		}
	}
}

// speaker returns the address of a server that says the same to everybody.
func speaker(t *testing.T, says string) string {
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
		d    db.Server
		err  error
		want string
	}{
		{
			d:    mysql.Dialect,
			err:  &mysqldriver.MySQLError{Number: 1205, Message: "Lock wait timeout exceeded; try restarting transaction"},
			want: "locked by another session: Lock wait timeout exceeded; SHOW FULL PROCESSLIST and SHOW ENGINE INNODB STATUS tell by whom",
		},
		{
			d:    mysql.Dialect,
			err:  &mysqldriver.MySQLError{Number: 1040, Message: "Too many connections"},
			want: "the database has no connection left: Too many connections; let its administrator raise the limit, or end sessions that SHOW PROCESSLIST shows",
		},
		{
			d:    mysql.Dialect,
			err:  &mysqldriver.MySQLError{Number: 1290, Message: "The MariaDB server is running with the --read-only option so it cannot execute this statement"},
			want: "the database takes no writes: The MariaDB server is running with the --read-only option so it cannot execute this statement; name the server in the database URL that takes them, or let its administrator SET GLOBAL read_only = 0",
		},
		{
			d:    mysql.Dialect,
			err:  &mysqldriver.MySQLError{Number: 1317, Message: "Query execution was interrupted"},
			want: "the statement was cancelled: Query execution was interrupted",
		},
		{
			d:    mysql.Dialect,
			err:  &mysqldriver.MySQLError{Number: 1969, Message: "Query execution was interrupted (max_statement_time exceeded)"},
			want: "a statement takes longer than its time limit: Query execution was interrupted (max_statement_time exceeded); " + db.LookAtIndexes,
		},
		{d: mysql.Dialect, err: driver.ErrBadConn, want: "the database is away: the connection broke off; the server's log tells why"},
		{
			d:    postgres.Dialect,
			err:  &pgconn.PgError{Code: "55P03", Message: "canceling statement due to lock timeout"},
			want: "locked by another session: canceling statement due to lock timeout; pg_stat_activity tells by whom: look for the oldest xact_start",
		},
		{
			d:    postgres.Dialect,
			err:  &pgconn.PgError{Code: "57014", Message: "canceling statement due to user request"},
			want: "the statement was cancelled: canceling statement due to user request",
		},
		{
			d:    postgres.Dialect,
			err:  &pgconn.PgError{Code: "57014", Message: "canceling statement due to statement timeout"},
			want: "a statement takes longer than its time limit: canceling statement due to statement timeout; " + db.LookAtIndexes,
		},
		{
			d:    postgres.Dialect,
			err:  &pgconn.PgError{Code: "53300", Message: "remaining connection slots are reserved"},
			want: "the database has no connection left: remaining connection slots are reserved; let its administrator raise the limit, or end sessions that pg_stat_activity shows",
		},
		{d: postgres.Dialect, err: sql.ErrConnDone, want: "the database is away: the connection broke off; the server's log tells why"},
	} {
		err := (&db.DB{Server: tt.d}).Wrap(t.Context(), tt.err)
		if err == nil {
			t.Errorf("got no error, want %s", tt.want)
			continue
		}
		testkit.Equal(t, "error", err.Error(), tt.want)
		if !errors.Is(err, backlog.ErrUnavailable) {
			t.Errorf("%s: want it to say that the database is unavailable", tt.want)
		}
		broken := tt.err == driver.ErrBadConn || tt.err == sql.ErrConnDone // it is not handed on: it would be tried again
		if !broken && !errors.Is(err, tt.err) {
			t.Errorf("%s: want it to be a %T", tt.want, tt.err)
		}
	}
}
