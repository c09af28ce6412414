package table

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

func (mysql) quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
func (mysql) foldsNames() bool         { return true }
func (mysql) raw(col string) string    { return col }
func (mysql) place(text string) string { return text }
func (mysql) cast(*column) string      { return "?" }
func (mysql) prepares() bool           { return true }
func (mysql) lazyUnion() bool          { return false }
func (mysql) partialIndexes() bool     { return false }
func (mysql) leads(bool) bool          { return true }

func (mysql) syntax() syntax {
	return syntax{placeholder: func(int) string { return "?" }, own: "?", backticks: true, backslashes: true, hashes: true}
}

// literal writes text with a backslash in hexadecimal digits: what one stands
// for in quotes depends on the session, and what is printed is run in others.
func (mysql) literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case bool:
		if v {
			return "1"
		}
		return "0"
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'e', -1, 64)
	case decimal: // in quotes it would be compared as a float
		return string(v)
	case []byte:
		return "x'" + hex.EncodeToString(v) + "'"
	}
	s := fmt.Sprint(v)
	if strings.Contains(s, `\`) {
		return "_utf8mb4 x'" + hex.EncodeToString([]byte(s)) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// value makes text of the bytes that the driver gives for all but numbers.
func (mysql) value(c *column, v any) any {
	switch v := v.(type) {
	case []byte:
		switch {
		case c == nil:
			return string(v)
		case mysqlIs(c, "bit"):
			var n uint64
			for _, b := range v {
				n = n<<8 | uint64(b)
			}
			return mysqlUnsigned(n)
		case c.class == classBlob:
			return v
		case c.class == classInteger || c.isDecimal(): // a whole number, perhaps
			if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
				return n
			}
		}
		return string(v)
	case uint64:
		return mysqlUnsigned(v)
	case float32:
		return float64(v)
	}
	return v
}

// mysqlUnsigned returns a number that may be too large for an int64, as text
// then.
func mysqlUnsigned(n uint64) any {
	if int64(n) >= 0 {
		return int64(n)
	}
	return strconv.FormatUint(n, 10)
}

// mysqlIs reports whether the column is of one of the types, whatever the
// length.
func mysqlIs(c *column, types ...string) bool {
	name, _, _ := strings.Cut(c.decl, "(")
	name, _, _ = strings.Cut(name, " ")
	for _, t := range types {
		if strings.EqualFold(name, t) {
			return true
		}
	}
	return false
}

// timeForm returns the form of dates as the server writes and reads them. A
// TIMESTAMP is in the zone of the session, which is UTC.
func (mysql) timeForm(c *column, zone *time.Location) timeCodec {
	form := timeCalendar{head: "2006-01-02 15:04:05", class: timeText, zone: zone, decl: c.decl}
	switch {
	case mysqlIs(c, "date"):
		form.head = "2006-01-02"
		return form
	case mysqlIs(c, "timestamp"):
		form.zone, form.moment = time.UTC, true
	case !mysqlIs(c, "datetime"):
		return nil
	}
	var digits int
	if _, err := fmt.Sscanf(c.decl[strings.IndexByte(c.decl+"(", '('):], "(%d)", &digits); err == nil && digits > 0 {
		form.frac = "." + strings.Repeat("0", digits)
	}
	return form
}

// zeroDate has the ways in which programs store a zero date. Text is not
// compared with numbers: every word would be 0.
func (d mysql) zeroDate(c *column) string {
	switch {
	case c.class == classBlob || mysqlIs(c, "time", "json"):
		return ""
	case c.class == classText && !mysqlIs(c, "date", "datetime", "timestamp"):
		return d.quote(c.name) + " IN " + mysqlZeroTexts()
	}
	return d.quote(c.name) + " = 0"
}

var mysqlZeroTexts = sync.OnceValue(func() string {
	return "('0', " + strings.TrimPrefix(zeroDates(), "(0, ")
})

// keyIn compares no rows, (a, b) IN ((?, ?), …), though it would be faster: where
// a date is a part of the key of a table in partitions, MySQL 9.7 takes for it
// whatever stands in its memory when it prepares the statement.
func (mysql) keyIn(cols []string, n int) string {
	if len(cols) == 1 {
		return cols[0] + " IN (?" + strings.Repeat(",?", n-1) + ")"
	}
	one := strings.Join(cols, " = ? AND ") + " = ?"
	return "(" + one + strings.Repeat(" OR "+one, n-1) + ")"
}

func (mysql) guard(cond string) string { return "IF(" + cond + ", 1, 0)" }

func (d mysql) createIndex(t *Table, name, rest string) string {
	return "CREATE INDEX " + d.quote(name) + " ON " + t.name + " (" + d.prefixes(t, rest)
}

// prefixes gives columns that have no length of their own one in an index.
func (d mysql) prefixes(t *Table, rest string) string {
	for i := range t.catalog.columns {
		if c := &t.catalog.columns[i]; mysqlIsLong(c) {
			rest = strings.ReplaceAll(rest, d.quote(c.name), d.quote(c.name)+"(100)")
		}
	}
	return rest
}

func (mysql) lockRow() string { return " FOR UPDATE" }

// writers leaves a connection for those who read and settle.
func (mysql) writers(pool *sql.DB) int { return max(1, pool.Stats().MaxOpenConnections-1) }

func (mysql) driver() string { return "github.com/go-sql-driver/mysql" }

// mysqlIsLong reports whether an index can have no more of the column than the
// beginnings.
func mysqlIsLong(c *column) bool {
	return mysqlIs(c, "tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob")
}

func (d mysql) grantee(ctx context.Context, db *sql.DB, t *Table) (on, to string, err error) {
	var schema sql.NullString
	err = db.QueryRowContext(ctx, "SELECT database(), "+mysqlAccount).Scan(&schema, &to)
	if on = t.name; t.m.Schema == "" {
		on = d.quote(schema.String) + "." + on
	}
	return on, to, err
}

func (mysql) schemaRights() bool { return false }

func (mysql) present() string { return "CAST(unix_timestamp(now(6)) * 1000000 AS SIGNED)" }

// home is the zone of the server, or of its machine: the session's own is UTC.
func (mysql) home(ctx context.Context, db *sql.DB) (zone string, utc bool, err error) {
	const shown = "CONVERT_TZ(utc_timestamp()%s, '+00:00', @@global.time_zone) = utc_timestamp()%[1]s"
	err = db.QueryRowContext(ctx, "SELECT IF(@@global.time_zone = 'SYSTEM', @@system_time_zone, @@global.time_zone), "+
		fmt.Sprintf(shown, "")+" AND "+fmt.Sprintf(shown, " + INTERVAL 6 MONTH")).Scan(&zone, &utc)
	return zone, utc, err
}
