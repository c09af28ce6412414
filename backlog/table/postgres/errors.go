package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"backlog/backlog"
	"backlog/backlog/table/db"
)

const (
	otherServer = "name the server in the database URL that takes them, or several with target_session_attrs=read-write"
	letGrant    = "let its owner grant this, such as by GRANT SELECT, UPDATE ON … TO the user; `backlog check --sql` prints what is needed"
)

// faults are the errors by their SQLSTATE, by its first two characters, or by the words of Classify:
// https://www.postgresql.org/docs/current/errcodes-appendix.html
var faults = []db.Fault{
	{Codes: "55P03", Class: db.Busy, What: db.LockedByOther, Hint: "pg_stat_activity tells by whom: look for the oldest xact_start"},
	{Codes: "40001 40P01", Class: db.Busy, What: db.CrossesOther, Hint: "the server's log tells of whom"},
	{Codes: "altered", Class: db.Busy}, // the driver drops the prepared statement
	{Codes: "timeout", Class: db.Unavailable, What: db.TooSlow, Hint: db.LookAtIndexes},
	{Codes: "57014", Class: db.Unavailable, What: db.Cancelled},
	{Codes: "57P01 57P05 25P03 25P04", Class: db.Unavailable, What: db.Ended},
	{Codes: "25006", Class: db.Unavailable, NoWrites: true, What: db.ReadOnly, Hint: otherServer}, // a standby, possibly after a failover
	{Codes: "53300", Class: db.Unavailable, What: db.Full, Hint: "let its administrator raise the limit, or end sessions that pg_stat_activity shows"},
	{Codes: "53100", Class: db.Unavailable, NoWrites: true, What: db.OutOfSpace, Hint: db.MakeRoom},
	{Codes: "53200", Class: db.Unavailable, What: db.OutOfSpace, Hint: db.MakeRoom},
	{Codes: "pooler", Class: db.Unavailable, What: "the pooler in front of the PostgreSQL server ended the connection", Hint: "its log tells why"},
	{Codes: "login", What: "the pooler at HOST does not let us in", Hint: "correct user, password and database in the database URL, or in its configuration"},
	{Codes: "08P01 26000 42P05", What: "what is between here and the PostgreSQL server gives each transaction another session, where statements prepared before are unknown",
		Hint: "add default_query_exec_mode=exec to the database URL"},
	{Codes: "owner", Class: db.Denied, What: "the user USER has not enough rights", Hint: "let the owner run what `backlog init --print` prints"},
	{Codes: "raised", What: "the user USER has not enough rights", Hint: letGrant}, // a function or a policy refuses the row
	{Codes: "42501", Class: db.Denied, What: "the user USER has not enough rights", Hint: letGrant},
	{Codes: "22P02 22003 22007 22008", Class: db.Refused, What: "a condition compares a column with what it cannot hold",
		Hint: "give statuses and table.where values of the columns' types"}, // the values that are written have been tried already
	{Codes: "function", What: "a function that a trigger of the table calls fails", Hint: "correct the function, create what it needs, or drop the trigger"},
	{Codes: "42P01 42703 3F000 42804 42883", What: db.TableChanged, Hint: db.CorrectMapping},
	{Codes: "3D000", What: "the PostgreSQL server at HOST has no database DATABASE", Hint: "name another, or create it with CREATE DATABASE"},
	{Codes: "28", What: "the PostgreSQL server at HOST does not let us in",
		Hint: "correct user and password in the database URL, PGPASSWORD or ~/.pgpass, set sslmode=require if it lets in only those who encrypt, or change its pg_hba.conf"},
	{Codes: "58P01"},
	{Codes: "08 53 57 58", Class: db.Unavailable},               // connection, resources, intervention, system
	{Codes: "09 21 22 23 27 2F 38 39 44 P0", Class: db.Refused}, // data, constraints, what triggers do
}

// Classify implements db.Server.
func (s *server) Classify(err error) db.Fault {
	var e *pgconn.PgError
	switch {
	case errors.Is(err, pgconn.ErrConnClosed):
		return db.Fault{Class: db.Unavailable}
	case !errors.As(err, &e):
		return db.Fault{}
	}
	code := e.Code
	severity := cmp.Or(e.SeverityUnlocalized, e.Severity) // a pooler sends only one of them
	isFatal := severity == "FATAL"                        // the connection is closed
	switch {
	case code == protocolViolation && isFatal:
		code = poolerFault(e.Message)
	case code == "57014" && strings.Contains(e.Message, "statement timeout"):
		code = "timeout"
	case code == "0A000" && e.Routine == "RevalidateCachedQuery":
		code = "altered"
	case code == "42501" && (e.Routine == "exec_stmt_raise" || e.Routine == "ExecWithCheckOptions"):
		code = "raised"
	case strings.HasPrefix(code, "42") && code != "42501" && e.Routine != "exec_stmt_raise" && strings.Contains(e.Where, "function "):
		code = "function"
	case code == "42501" && strings.HasPrefix(e.Message, "must be owner of"):
		code = "owner"
	}
	f := db.FindFault(faults, e.Message, code, e.Code[:min(2, len(e.Code))])
	if e.Routine == "exec_stmt_raise" && f.Class == db.Other && f.Hint == "" { // RAISE with an SQLSTATE of its own
		f.Class = db.Refused
	}
	isSyntax := strings.HasPrefix(code, "42") // of a parameter of the URL
	if isFatal && f.Class == db.Other && f.Hint == "" && !isSyntax {
		f.Class = db.Unavailable
	}
	f.Guard, f.Name = violatedRule(e)
	f.What = strings.NewReplacer("USER", s.config.User, "DATABASE", s.config.Database, "HOST", s.host).Replace(f.What)
	return f
}

// violatedRule returns the kind and the name of the rule by which the server refused a row. The name of a
// trigger is the context of the error, which names the function.
func violatedRule(e *pgconn.PgError) (kind db.GuardKind, name string) {
	switch {
	case e.Code == "23505", e.Code == "23P01":
		return db.Unique, e.ConstraintName
	case e.Code == "23503":
		return db.ForeignKey, e.ConstraintName
	case strings.Contains(e.Where, "function "):
		return db.Trigger, e.Where
	case e.Code == "22003":
		return db.Overflow, ""
	case e.Code == "23502":
		return db.NotNull, e.ColumnName
	case e.Code == "23514" && e.DataTypeName == "" && e.ConstraintName != "":
		return db.Check, e.ConstraintName
	case e.Code == "23514", strings.HasPrefix(e.Code, "22"): // of a domain or a partition; or a value is invalid
		return db.Type, ""
	}
	return db.UnknownGuard, ""
}

// The SQLSTATE codes with which a server, or a pooler before it, refuses a parameter of the session.
const (
	protocolViolation     = "08P01"
	undefinedObject       = "42704"
	invalidParameterValue = "22023"
	invalidText           = "22P02"
)

// poolerFault returns the code in faults for an error with which a pooler such as PgBouncer closes a connection. It gives
// all of them the same SQLSTATE.
func poolerFault(message string) string {
	says := func(words string) bool { return strings.Contains(message, words) }
	switch {
	case says("prepared statement"):
		return protocolViolation
	case slices.ContainsFunc([]string{"no such", "does not exist", "authentication failed", "login rejected"}, says):
		return "login"
	}
	return "pooler"
}

// isPoolerRefusal reports whether a pooler such as PgBouncer refused a parameter of the session.
func isPoolerRefusal(e *pgconn.PgError) bool {
	return e.Code == protocolViolation && strings.Contains(e.Message, "startup parameter")
}

// refusesParameters reports whether the other side refused parameters of the session, as PgBouncer
// does.
func refusesParameters(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (isPoolerRefusal(e) || e.Code == undefinedObject)
}

// explainConnectError describes why there is no connection. The driver's own message contains the
// user and the name of the database.
func (s *server) explainConnectError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() == nil {
		if explained := s.explainAnswer(err); explained != nil {
			return explained
		}
	}
	if worded := text.ConnectError(ctx, s.host, s.config.ConnectTimeout, err); worded != nil {
		return worded
	}
	return fmt.Errorf("%w: the PostgreSQL server at %s: no connection that suits the URL's password, sslmode and target_session_attrs; correct these, or name a server that suits them", backlog.ErrUnavailable, s.host)
}

// explainAnswer describes an answer that ends a connection before it is ready. It returns nil if the
// error is not about an answer.
func (s *server) explainAnswer(err error) error {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		if speaksOtherProtocol(err) {
			return db.Problemf("correct host and port, or write mysql://… for MySQL and MariaDB", "there is no PostgreSQL server at %s, but something else", s.host)
		}
		return nil
	}
	if isPoolerRefusal(e) {
		return db.Problemf("remove it from the URL (a schema can be named by table.schema), or let the pooler pass it on",
			"%s is a pooler that refuses a parameter of the URL: %s", s.host, e.Message)
	}
	switch e.Code {
	case invalidParameterValue, undefinedObject, invalidText:
		return db.Problemf("remove the parameter from the URL, or correct it", "the PostgreSQL server at %s does not take a parameter of the URL: %s", s.host, e.Message)
	}
	return e
}

// speaksOtherProtocol reports whether what listens at the address is no PostgreSQL server.
func speaksOtherProtocol(err error) bool {
	message := err.Error() // the driver has no error values for these
	return strings.Contains(message, "received unexpected message") || strings.Contains(message, "unknown message type")
}
