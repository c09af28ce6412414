package table

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"backlog/backlog"
)

// sqlState returns the server's error.
func sqlState(err error) (*pgconn.PgError, bool) {
	e := (*pgconn.PgError)(nil)
	ok := errors.As(err, &e)
	return e, ok
}

// Codes: https://www.postgresql.org/docs/current/errcodes-appendix.html
func (postgres) classify(err error) errorClass {
	if err == nil {
		return classOther
	}
	e, ok := sqlState(err)
	if !ok {
		if lostConnection(err) {
			return classAway
		}
		return classOther
	}
	switch e.Code {
	case "40001", "40P01", "55P03": // serialization failure, deadlock, lock not available
		return classBusy
	case "57014", // query canceled: by the statement timeout, or by somebody
		"25P03", // idle in transaction for too long
		"25006": // read only: a standby, after another server has become the first
		return classAway
	case "P0004": // assert failure
		return classRefused
	case "0A000":
		if e.Routine == "RevalidateCachedQuery" { // the table was altered; the driver forgets the statement
			return classBusy
		}
		return classOther
	case "58P01":
		return classOther
	}
	switch e.Code[:min(2, len(e.Code))] {
	case "08", "53", "57", "58": // connection, resources, intervention, system
		return classAway
	case "09", "21", "22", "23", "27", "2F", "38", "39", "44", "P0": // data, constraints, what triggers do
		return classRefused
	}
	return classOther
}

// hinders implements dialect.
func (postgres) hinders(err error) (what, said, look string) {
	e, ok := sqlState(err)
	if !ok {
		return "", "", ""
	}
	said = e.Message
	switch e.Code {
	case "55P03":
		return lockedByOther, said, "pg_stat_activity tells by whom: look for the oldest xact_start"
	case "40001", "40P01":
		return crossesOther, said, "the server's log tells of whom"
	case "57014":
		if strings.Contains(said, "statement timeout") {
			return tooSlow, said, lookAtIndexes
		}
		return cancelledThere, said, ""
	case "57P01", "57P05", "25P03":
		return endedThere, said, ""
	case "25006":
		return readOnlyThere, said, "name the server in the database URL that takes them, or several with target_session_attrs=read-write"
	case "53300":
		return fullThere, said, "let its administrator raise the limit, or end sessions that pg_stat_activity shows"
	case "53100", "53200":
		return outOfSpace, said, "make room there"
	}
	return "", "", ""
}

// lostConnection reports whether the way to the server has broken.
func lostConnection(err error) bool {
	network := net.Error(nil)
	for _, e := range []error{backlog.ErrAway, sql.ErrConnDone, driver.ErrBadConn, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, pgconn.ErrConnClosed, syscall.ECONNRESET, syscall.EPIPE, syscall.ETIMEDOUT} {
		if errors.Is(err, e) {
			return true
		}
	}
	return errors.As(err, &network)
}

// isClosedPostgres reports whether the driver has given the connection up.
func isClosedPostgres(err error) bool { return errors.Is(err, pgconn.ErrConnClosed) }

// refusesParameters reports whether the other side takes no more parameters
// than PgBouncer does.
func refusesParameters(err error) bool {
	e, ok := sqlState(err)
	return ok && (e.Code == "08P01" && strings.Contains(e.Message, "startup parameter") || e.Code == "42704")
}

// unreached says in plain words why there is no connection. The driver's own
// words have the user and the name of the database in them.
func (s *postgresServer) unreached(ctx context.Context, err error) error {
	p, at := (*Problem)(nil), "the PostgreSQL server at "+s.host
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p):
		return p
	case ctx.Err() != nil:
		return unconnected(ctx, at)
	}
	const another = "name host and port of a PostgreSQL server in the database URL"
	if e, ok := sqlState(err); ok {
		return s.unwelcome(at, e)
	}
	var (
		verify  *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		lookup  *net.DNSError
		op      *net.OpError
	)
	switch {
	case errors.As(err, &verify), errors.As(err, &unknown), errors.As(err, &name):
		return problem("set sslrootcert to the file of its authority's certificate, or a weaker sslmode", "%s: its certificate is not trusted", at)
	case strings.Contains(err.Error(), "received unexpected message"), strings.Contains(err.Error(), "unknown message type"):
		return problem("correct host and port, or write mysql://… for MySQL and MariaDB", "there is no PostgreSQL server at %s, but something else", s.host)
	case strings.Contains(err.Error(), "server refused TLS") && s.wantsTLS():
		return problem("correct host and port, or set sslmode=disable if the way there is safe", "%s does not speak TLS, or is something else", at)
	case errors.As(err, &lookup):
		return fmt.Errorf("%w: %s: its name is not found; %s", backlog.ErrAway, at, correctHost)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %s gives no answer within %v; %s", backlog.ErrAway, at, s.config.ConnectTimeout, another)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("%w: %s cannot be reached: %w; %s", backlog.ErrAway, at, op.Err, correctAddress)
	case lostConnection(err):
		return fmt.Errorf("%w: %s broke the connection off; %s", backlog.ErrAway, at, another)
	case strings.Contains(err.Error(), "authentication"), strings.Contains(err.Error(), "password"):
		return problem(postgresCure, "%s wants to know who we are in another way than the URL and the environment can answer", at)
	}
	return fmt.Errorf("%w: %s: no connection that suits the URL's sslmode and target_session_attrs; correct these, or name a server that suits them", backlog.ErrAway, at)
}

// wantsTLS reports whether there is no other way than with TLS.
func (s *postgresServer) wantsTLS() bool {
	return s.config.TLSConfig != nil && !slices.ContainsFunc(s.config.Fallbacks, func(c *pgconn.FallbackConfig) bool { return c.TLSConfig == nil })
}

// unwelcome is the server's own refusal.
func (s *postgresServer) unwelcome(at string, e *pgconn.PgError) error {
	switch {
	case e.Code == "08P01" && refusesParameters(e):
		return problem("remove it from the URL (a schema can be named by table.schema), or let the pooler pass it on",
			"%s is a pooler that refuses a parameter of the URL: %s", s.host, e.Message)
	case e.Code == "28P01" && s.config.Password == "":
		return problem("set PGPASSWORD, or add the password to the URL or to ~/.pgpass", "%s asks the user %s for a password", at, s.config.User)
	case e.Code == "28P01":
		return problem("correct the password, or the user", "%s does not accept the password of the user %s", at, s.config.User)
	case strings.HasPrefix(e.Code, "28"):
		return problem("name another user or database, set sslmode=require if it lets in only those who encrypt, or change its pg_hba.conf", "%s does not let us in: %s", at, e.Message)
	case e.Code == "3D000":
		return problem("name another, or create it with CREATE DATABASE", "%s has no database %s", at, s.config.Database)
	case e.Code == "42501":
		return problem("GRANT CONNECT ON DATABASE … TO the user", "%s does not let the user %s into the database: %s", at, s.config.User, e.Message)
	case postgres{}.classify(e) == classAway:
		if what, said, look := (postgres{}).hinders(e); what != "" {
			return &hindrance{at + ": " + what + ": " + strings.Join(nonEmpty(said, look), "; "), e}
		}
		return fmt.Errorf("%w: %s: %s", backlog.ErrAway, at, e.Message)
	case e.Code == "22023", e.Code == "42704", e.Code == "22P02":
		return problem("remove the parameter from the URL, or correct it", "%s does not take a parameter of the URL: %s", at, e.Message)
	}
	return fmt.Errorf("%s: %w", at, e)
}

// explain makes a *Problem of what only the owner of the database can mend.
func (d postgres) explain(err error) error {
	e, ok := sqlState(err)
	if !ok {
		return err
	}
	switch e.Code {
	case "42501":
		if strings.HasPrefix(e.Message, "must be owner of") {
			return problem("let the owner run what `backlog init --print` prints", "the user %s has not enough rights: %s", d.config.User, e.Message)
		}
		return problem("let its owner grant this, such as by GRANT SELECT, UPDATE ON … TO the user; `backlog check --sql` prints what is needed", "the user %s has not enough rights: %s", d.config.User, e.Message)
	case "26000", "42P05", "08P01":
		return problem("add default_query_exec_mode=exec to the database URL", "what is between here and the PostgreSQL server gives each transaction another session, where statements prepared before are unknown: %s", e.Message)
	case "22P02", "22003", "22007", "22008": // of a condition: what is written has been tried
		return problem("give statuses and table.where values of the columns' types", "a condition compares a column with what it cannot hold: %s", e.Message)
	case "42P01", "42703", "3F000", "42804", "42883":
		return problem("correct the mapping, or restart after the table was changed", "the table is not as it was: %s", e.Message)
	}
	return err
}
