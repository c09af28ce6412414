package table

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"backlog/backlog"
)

// classify knows the errors by their numbers, and the kinds of which there are
// many by the standard's SQLSTATE:
// https://mariadb.com/kb/en/mariadb-error-code-reference/ and
// https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html
func (d mysql) classify(err error) errorClass {
	e := (*mysqlError)(nil)
	if !errors.As(err, &e) {
		return mysqlConnectionClass(err)
	}
	switch e.Number {
	case 1176: // KEY_DOES_NOT_EXISTS
		if d.hints.vanished() {
			return classBusy
		}
	case 1205, 1213, 1020, 1614, 3572: // LOCK_WAIT_TIMEOUT LOCK_DEADLOCK CHECKREAD XA_RBDEADLOCK LOCK_NOWAIT
		return classBusy
	case 1040, 1203, 1226, 1461, 1637, // too many connections, statements or transactions
		1053, 1927, 1077, 1079, 1080, 4031, // server shutdown, connection killed or idle for too long
		1317, 1969, 3024, // query killed, or for too long
		1290, 1836, 3100, // read-only, as while another server takes over
		1021, 1114, 1037, 1038, 1041, 1135, // disk or memory full
		1047, 1158, 1159, 1160, 1161, 1184, 1152, 1189, 1190: // cluster not ready, network
		return classAway
	case 1048, 1062, 1264, 1265, 1292, 1364, 1366, 1406, 1411, 1441, 1451, 1452, 1526, 1644, 1690, 1748, 3140, 3156, 3819, 4025:
		return classRefused
	}
	switch state := string(e.SQLState[:2]); {
	case string(e.SQLState[:]) == "40001":
		return classBusy
	case state == "08" && e.Number != 1043 && e.Number != 1251:
		return classAway
	case state == "22" || state == "23" || state == "45":
		return classRefused
	}
	return classOther
}

// mysqlConnectionClass is classify for what the server has not said.
func mysqlConnectionClass(err error) errorClass {
	network, certificate := (net.Error)(nil), (*tls.CertificateVerificationError)(nil)
	switch {
	case errors.Is(err, backlog.ErrAway), errors.Is(err, sql.ErrConnDone):
		return classAway
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.As(err, &certificate):
		return classOther
	case isBrokenMySQL(err), errors.Is(err, driver.ErrBadConn), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &network):
		return classAway
	}
	return classOther
}

// hinders implements dialect.
func (mysql) hinders(err error) (what, said, look string) {
	e := (*mysqlError)(nil)
	if !errors.As(err, &e) {
		return "", "", ""
	}
	said, _, _ = strings.Cut(e.Message, ";") // it may give advice that is none here
	switch e.Number {
	case 1205, 3572:
		return lockedByOther, said, "SHOW FULL PROCESSLIST and SHOW ENGINE INNODB STATUS tell by whom"
	case 1213, 1020, 1614:
		return crossesOther, said, "SHOW ENGINE INNODB STATUS tells of whom"
	case 1317:
		return cancelledThere, said, ""
	case 1969, 3024:
		return tooSlow, said, lookAtIndexes
	case 1927, 4031:
		return endedThere, said, ""
	case 1040, 1203, 1226, 1461, 1637:
		return fullThere, said, "let its administrator raise the limit, or end sessions that SHOW PROCESSLIST shows"
	case 1021, 1114, 1037, 1038, 1041, 1135:
		return outOfSpace, said, "make room there"
	case 1836:
		return readOnlyThere, said, mysqlReadOnly
	case 1290:
		if strings.Contains(said, "read-only") || strings.Contains(said, "read_only") {
			return readOnlyThere, said, mysqlReadOnly
		}
	}
	return "", "", ""
}

const mysqlReadOnly = "name the server in the database URL that takes them, or let its administrator SET GLOBAL read_only = 0"

// mysqlUnreached says in plain words why there is no connection to that address.
// limit is ctx with the time that a connection may take.
func mysqlUnreached(ctx, limit context.Context, addr string, err error) error {
	const another = "name host and port of a MySQL or MariaDB server in the database URL"
	at := "the MySQL server at " + addr
	var (
		lookup *net.DNSError
		op     *net.OpError
	)
	switch {
	case ctx.Err() != nil:
		return unconnected(ctx, at)
	case limit.Err() != nil:
		return fmt.Errorf("%w: %s gives no answer within %v; %s", backlog.ErrAway, at, mysqlDial, another)
	case mysqlNumber(err) != 0:
		return err
	case isNoMySQL(err):
		return problem("correct host and port, or write postgres://… for PostgreSQL", "there is no MySQL server at %s, but something else", addr)
	case errors.As(err, &lookup):
		return fmt.Errorf("%w: %s: its name is not found; %s", backlog.ErrAway, at, correctHost)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("%w: %s cannot be reached: %w; %s", backlog.ErrAway, at, op.Err, correctAddress)
	case mysqlConnectionClass(err) == classAway:
		return fmt.Errorf("%w: %s broke the connection off; %s", backlog.ErrAway, at, another)
	}
	return err
}

// mysqlNumber returns the number of the server's error, 0 if it is none.
func mysqlNumber(err error) uint16 {
	if e := (*mysqlError)(nil); errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// mysqlDenied finds who is denied what in the server's words: MariaDB's quote a
// table as SQL does, with its database, MySQL's put it between apostrophes.
var mysqlDenied = pattern("^([A-Z ,]+) command denied to user ('[^']*'@'[^']*') for (?:table|column '(.*)' in table) (?:(`(?:[^`]|``)+`)(\\.`(?:[^`]|``)+`)?|'(.*)')$")

// explain says what a person can do. The server's messages hold names, never
// passwords.
func (d mysql) explain(err error) error {
	certificate := (*tls.CertificateVerificationError)(nil)
	if errors.As(err, &certificate) {
		return problem("name the host as the certificate does, or write tls=skip-verify in the URL to trust any", "the server's certificate is not trusted: %v", certificate.Err)
	}
	if errors.Is(err, errMySQLNoTLS) {
		return problem("write tls=false in the URL, or set it up there", "the server does not speak TLS")
	}
	e := (*mysqlError)(nil)
	if !errors.As(err, &e) {
		return err
	}
	switch e.Number {
	case 1045, 1698, 1251, 1524:
		return problem("correct user and password in the database URL", "the database server does not let this user in: %s", e.Message)
	case 1820, 1862, 3118, 4151: // password to be changed, or expired; account locked
		return problem("let its administrator renew the account, or name another user in the database URL", "the database server does not let this user in: %s", e.Message)
	case 1044:
		return problem("let its owner grant what `backlog check --sql` prints for a user who may read the table, in MySQL not by a role that is no default role of the user; or name another database", "%s", e.Message)
	case 1049:
		return problem("create it, or name another in the URL", "the database server has no such database: %s", e.Message)
	case 1054, 1146: // BAD_FIELD NO_SUCH_TABLE
		return problem("correct the mapping, or restart after the table was changed", "the table is not as it was: %s", e.Message)
	case 1129, 1130:
		return problem("let its administrator allow this host", "the database server does not let this host in: %s", e.Message)
	case 1142, 1143:
		return problem("let its owner run "+d.grant(e.Message), "%s", e.Message)
	case 1227, 1370:
		return problem("let its owner grant the right", "%s", e.Message)
	case 1665:
		return problem("set its binlog_format to MIXED or ROW", "the database server cannot write to its binary log: %s", e.Message)
	case 1034, 1194, 1195:
		return problem("let its owner run REPAIR TABLE", "the table is damaged: %s", e.Message)
	}
	return err
}

// grant returns the statement that grants what a message says is missing. The
// message names the host that the user has come from, not the one of the
// account that has the rights, and in MySQL no database.
func (d mysql) grant(message string) string {
	m := mysqlDenied().FindStringSubmatch(message)
	if m == nil {
		return "GRANT SELECT, UPDATE on it"
	}
	right, to, column, table := strings.TrimSpace(m[1]), m[2], m[3], m[4]
	if table == "" {
		table = d.quote(m[6])
	}
	prints := ", or what `backlog init --print` prints"
	switch right {
	case "SELECT", "UPDATE":
		prints = ", or what `backlog check --sql` prints"
	case "INSERT", "DELETE": // of a statement of the user's own
		prints = ""
	}
	if column != "" {
		right += " (" + d.quote(column) + ")"
	}
	schema := d.database
	if s := d.names.schema.Load(); s != nil {
		schema = *s
	}
	if m[5] != "" {
		table += m[5]
	} else if schema != "" {
		table = d.quote(schema) + "." + table
	}
	if account := d.names.account.Load(); account != nil {
		to = *account
	}
	return "GRANT " + right + " ON " + table + " TO " + to + prints
}
