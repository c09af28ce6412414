package mysql

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"strconv"
	"strings"

	mysqldriver "github.com/go-sql-driver/mysql"

	"backlog/backlog/pattern"
	"backlog/backlog/table/db"
)

const (
	notIn       = "the database server does not let this user in"
	otherServer = "name the server in the database URL that takes them, or let its administrator SET GLOBAL read_only = 0"
)

// faults are the errors by their numbers, or by SQLSTATE, which stands for many numbers:
// https://mariadb.com/kb/en/mariadb-error-code-reference/ and
// https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html
var faults = []db.Fault{
	{Codes: "1176", Class: db.Stale}, // KEY_DOES_NOT_EXISTS
	{Codes: "1205 3572", Class: db.Busy, What: db.LockedByOther, Hint: "SHOW FULL PROCESSLIST and SHOW ENGINE INNODB STATUS tell by whom"},
	{Codes: "1467", Class: db.Busy, What: db.LockedByOther, Hint: "SHOW ENGINE INNODB STATUS tells who has the AUTO-INC lock of a table, such as one that a trigger writes to"}, // AUTOINC_READ_FAILED
	{Codes: "1213 1020 1614 3101 40001", Class: db.Busy, What: db.CrossesOther, Hint: "SHOW ENGINE INNODB STATUS tells of whom"},
	{Codes: "1412 1615 1689", Class: db.Busy}, // the table is being altered, or has left the server's cache
	{Codes: "1317", Class: db.Unavailable, What: db.Cancelled},
	{Codes: "1969 3024", Class: db.Unavailable, What: db.TooSlow, Hint: db.LookAtIndexes},
	{Codes: "1927 3169 4031", Class: db.Unavailable, What: db.Ended},
	{Codes: "1040 1203 1226 1461 1637", Class: db.Unavailable, What: db.Full, Hint: "let its administrator raise the limit, or end sessions that SHOW PROCESSLIST shows"},
	{Codes: "1021 1114 1878 nospace", Class: db.Unavailable, NoWrites: true, What: db.OutOfSpace, Hint: db.MakeRoom},
	{Codes: "1037 1038 1041 1135 1206", Class: db.Unavailable, What: db.OutOfSpace, Hint: db.MakeRoom},
	{Codes: "1290 1836 3100 1792", Class: db.Unavailable, NoWrites: true, What: db.ReadOnly, Hint: otherServer},       // as while another server takes over
	{Codes: "1053 1077 1079 1080 1047 1158 1159 1160 1161 1184 1152 1180 1189 1190 3032 3168", Class: db.Unavailable}, // shutdown, cluster not ready, network
	{Codes: "2002 2003 2006 2013 9001", Class: db.Unavailable, What: "the proxy in front of the MySQL server does not reach it"},
	{Codes: "1142 1143 1227 1370", Class: db.Denied, Hint: "let its owner grant it; `backlog check --sql` prints what passes take, `backlog init --print` what init runs"},
	{Codes: "1044", Class: db.Denied, Hint: "let its owner grant what `backlog check --sql` prints for a user who may read the table, in MySQL not by a role that is no default role of the user; or name another database"},
	{Codes: "1045 1698 1251 1524", What: notIn, Hint: "correct user and password in the database URL"},
	{Codes: "1820 1862 3118 4151", What: notIn, Hint: "let its administrator renew the account, or name another user in the database URL"}, // expired, locked
	{Codes: "1129 1130", What: "the database server does not let this host in", Hint: "let its administrator allow this host"},
	{Codes: "1049", What: "the database server has no such database", Hint: "create it, or name another in the URL"},
	{Codes: "1054 1146", What: db.TableChanged, Hint: db.CorrectMapping}, // BAD_FIELD NO_SUCH_TABLE
	{Codes: "1665", What: "the database server cannot write to its binary log", Hint: "set its binlog_format to MIXED or ROW"},
	{Codes: "1034 1194 1195", What: "the table is damaged", Hint: "let its owner run REPAIR TABLE"},
	{Codes: "1043"}, // the handshake failed
	{Codes: "08", Class: db.Unavailable},
	{Codes: "1265 1364 1366 1411 1441 1526 1644 1748 3140 3156 3819 4025 22 23 45", Class: db.Refused},
}

// Classify implements db.Server. The server's messages contain names, but never passwords.
func (s *server) Classify(err error) db.Fault {
	var e *mysqldriver.MySQLError
	switch {
	case errors.As(err, &e):
		message, _, _ := strings.Cut(e.Message, ";") // the advice behind it does not apply here
		code := strconv.Itoa(int(e.Number))
		isDiskFull := strings.Contains(e.Message, "errno: 28") || strings.Contains(e.Message, "error 28")
		if (code == "1026" || code == "1030") && isDiskFull {
			code = "nospace" // ERROR_ON_WRITE GET_ERRNO
		}
		f := db.FindFault(faults, message, code, string(e.SQLState[:]), string(e.SQLState[:2]))
		f.Guard, f.Name = violatedRule(e)
		return f
	case errors.Is(err, mysqldriver.ErrInvalidConn), errors.Is(err, mysqldriver.ErrMalformPkt), errors.Is(err, mysqldriver.ErrPktSync):
		return db.Fault{Class: db.Unavailable}
	case err != nil && strings.HasSuffix(err.Error(), "bad connection"): // the driver has no error value for it, if COMMIT cannot be sent
		return db.Fault{Class: db.Unavailable}
	}
	return db.Fault{}
}

// namePattern matches the name of a constraint or a column in a message. It is the last part of the
// first quoted name after that word.
var namePattern = pattern.Lazily("(?i)(?:constraint|column) (?:`[^`]*`\\.)*[`'](?:[^`']*\\.)?([^`'.]+)[`']")

// violatedRule returns the kind and the name of the rule by which the server refused a row. In the messages
// of constraints of a column the name of the table comes first.
func violatedRule(e *mysqldriver.MySQLError) (kind db.GuardKind, name string) {
	if found := namePattern().FindStringSubmatch(e.Message); found != nil {
		name = found[1]
	}
	switch e.Number {
	case 1062, 1586, 1859:
		return db.Unique, name
	case 1216, 1217, 1451, 1452:
		return db.ForeignKey, name
	case 3819, 4025:
		return db.Check, name
	case 1690:
		return db.Overflow, ""
	case 1048, 1263, 1364:
		return db.NotNull, name
	case 1264, 1265, 1292, 1366, 1406, 1411, 1526, 1748, 3140, 3156:
		return db.Type, name
	}
	if e.Number == 1644 || string(e.SQLState[:2]) == "45" {
		return db.Trigger, e.Message
	}
	return db.UnknownGuard, ""
}

// explainConnectError describes why there is no connection to the address.
func explainConnectError(ctx context.Context, addr string, err error) error {
	var e *mysqldriver.MySQLError
	switch {
	case ctx.Err() != nil:
	case errors.As(err, &e):
		return e
	case errors.Is(err, mysqldriver.ErrNoTLS):
		return db.Problemf("write tls=false in the URL, or set it up there", "the server does not speak TLS")
	case errors.Is(err, mysqldriver.ErrMalformPkt), errors.Is(err, mysqldriver.ErrPktSync), errors.Is(err, mysqldriver.ErrOldProtocol),
		strings.Contains(err.Error(), "unsupported protocol version"): // the driver has no error value for it
		return db.Problemf("correct host and port, or write postgres://… for PostgreSQL", "there is no MySQL server at %s, but something else", addr)
	case errors.Is(err, mysqldriver.ErrInvalidConn):
		err = driver.ErrBadConn
	}
	return cmp.Or(text.ConnectError(ctx, addr, db.DialTimeout, err), err)
}
