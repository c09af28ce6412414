package table

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

func (postgres) quote(name string) string                   { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
func (postgres) foldsNames() bool                           { return false }
func (postgres) raw(col string) string                      { return col }
func (postgres) from(t *Table, _ []string, _ string) string { return t.name }

func (postgres) prepares() bool       { return false }
func (postgres) lazyUnion() bool      { return false }
func (postgres) partialIndexes() bool { return true }

// leads: what the condition of a partial index says already is no condition to
// search it by. Behind such a column the others bound nothing: each page would
// read the index from its beginning.
func (postgres) leads(bool) bool          { return false }
func (postgres) guard(cond string) string { return "(" + cond + ") IS TRUE" }

// cast is of the type without its length, by which a cast would cut.
func (postgres) cast(c *column) string { return "CAST(? AS " + withoutLength(c.decl) + ")" }

// withoutLength returns the type without the bracket that may be behind its
// name, or within: timestamp(3) without time zone.
func withoutLength(decl string) string {
	from := strings.IndexByte(decl, '(')
	if from < 0 || strings.HasPrefix(decl, `"`) {
		return decl
	}
	return decl[:from] + decl[from+strings.IndexByte(decl[from:], ')')+1:]
}

func (postgres) place(text string) string {
	text, _ = numbered(text)
	return text
}

// numbered returns the text with the question marks numbered that are in no
// quotes, and how many there are.
func numbered(text string) (_ string, n int) {
	if !strings.Contains(text, "?") {
		return text, 0
	}
	var b strings.Builder
	b.Grow(len(text) + 2*strings.Count(text, "?"))
	quote := byte(0)
	for i := range len(text) {
		switch c := text[i]; {
		case quote != 0:
			if c == quote {
				quote = 0 // a doubled one opens the next
			}
			b.WriteByte(c)
		case c == '?':
			n++
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(n))
		default:
			if c == '\'' || c == '"' {
				quote = c
			}
			b.WriteByte(c)
		}
	}
	return b.String(), n
}

func (postgres) literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case bool:
		return strings.ToUpper(strconv.FormatBool(v))
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'e', -1, 64)
	case []byte:
		return `'\x` + hex.EncodeToString(v) + "'"
	}
	return "'" + strings.ReplaceAll(fmt.Sprint(v), "'", "''") + "'"
}

func (postgres) keyIn(cols []string, n int) string {
	if len(cols) == 1 {
		return cols[0] + " IN (?" + strings.Repeat(",?", n-1) + ")"
	}
	row := ",(?" + strings.Repeat(",?", len(cols)-1) + ")"
	return "(" + strings.Join(cols, ", ") + ") IN (" + strings.Repeat(row, n)[1:] + ")"
}

func (postgres) syntax() syntax {
	return syntax{placeholder: func(n int) string { return "$" + strconv.Itoa(n) }, nested: true, dollars: true, escapes: true}
}

// postgresTimes are the types that hold points in time, as a form of text.
var postgresTimes = map[string]timeCalendar{
	"timestamp with time zone":    {head: "2006-01-02 15:04:05", class: timeText, frac: ".999999", sparse: true, native: true, suffix: "+00"},
	"timestamptz":                 {head: "2006-01-02 15:04:05", class: timeText, frac: ".999999", sparse: true, native: true, suffix: "+00"},
	"timestamp without time zone": {head: "2006-01-02 15:04:05", class: timeText, frac: ".999999", sparse: true, native: true},
	"timestamp":                   {head: "2006-01-02 15:04:05", class: timeText, frac: ".999999", sparse: true, native: true},
	"date":                        {head: "2006-01-02", class: timeText, native: true},
}

// timeForm writes no more digits than the column keeps: it would round them up.
func (postgres) timeForm(c *column, zone *time.Location) timeCodec {
	f, ok := postgresTimes[withoutLength(c.decl)]
	if !ok {
		return nil
	}
	if from := strings.IndexByte(c.decl, '('); from >= 0 && f.frac != "" {
		if n, err := strconv.Atoi(c.decl[from+1 : from+strings.IndexByte(c.decl[from:], ')')]); err == nil && n < 6 {
			f.frac = f.frac[:n+1]
		}
		if f.frac == "." {
			f.frac, f.sparse = "", false
		}
	}
	f.zone, f.decl = zone, c.decl
	if f.suffix != "" {
		f.zone = time.UTC
	}
	return f
}

// value makes of times the text that the database itself writes, which it takes
// as an argument, too.
func (postgres) value(c *column, v any) any {
	switch v := v.(type) {
	case []byte:
		switch {
		case c != nil && c.class != classBlob:
			return string(v)
		case v == nil:
			return []byte{}
		}
	case time.Time:
		return postgresTime(c, v)
	case float64:
		switch { // which JSON cannot say
		case math.IsNaN(v):
			return "NaN"
		case math.IsInf(v, 0):
			return strings.Replace("Infinity", "I", map[bool]string{true: "-I", false: "I"}[v < 0], 1)
		case c != nil && c.decl == "real": // as many digits as it was written with
			short, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', -1, 32), 64)
			return short
		}
	case string:
		if c != nil && strings.HasPrefix(c.decl, "numeric") {
			if n, err := strconv.ParseInt(v, 10, 64); err == nil {
				return n
			}
		}
	}
	return v
}

func postgresTime(c *column, t time.Time) string {
	t = t.UTC()
	layout, suffix := "2006-01-02 15:04:05.999999", ""
	if c != nil {
		switch f := postgresTimes[withoutLength(c.decl)]; {
		case f.head == "2006-01-02":
			layout = f.head
		case f.suffix != "":
			suffix = "+00"
		}
	}
	if y := t.Year(); y <= 0 {
		t, suffix = t.AddDate(1-2*y, 0, 0), suffix+" BC"
	}
	return t.Format(layout) + suffix
}

// zeroDate: the database's own types hold none, columns of text and numbers may.
func (d postgres) zeroDate(c *column) string {
	switch {
	case d.timeForm(c, time.UTC) != nil:
	case c.class == classText:
		return d.quote(c.name) + " IN " + strings.Replace(zeroDates(), "(0, ", "(", 1)
	case slices.Contains([]class{classInteger, classReal, classNumeric}, c.class):
		return d.quote(c.name) + " = 0"
	}
	return ""
}

// textPlan lets the driver bind numbers and truths where the database expects
// text, or has no other idea of what it is to expect, as it binds text where
// numbers are expected.
func textPlan(v any) (pgtype.WrappedEncodePlanNextSetter, any, bool) {
	text, ok := asWritten(v)
	if !ok {
		return nil, nil, false
	}
	return &textEncoding{}, text, true
}

func asWritten(v any) (text string, ok bool) {
	switch v := v.(type) {
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// A textEncoding encodes a value as the text that it is written as.
type textEncoding struct{ next pgtype.EncodePlan }

func (e *textEncoding) SetNext(next pgtype.EncodePlan) { e.next = next }

func (e *textEncoding) Encode(value any, buf []byte) ([]byte, error) {
	text, _ := asWritten(value)
	return e.next.Encode(text, buf)
}

func (postgres) lockRow() string { return " FOR UPDATE" }

// writers leaves a connection for those who read and settle.
func (postgres) writers(pool *sql.DB) int { return max(1, pool.Stats().MaxOpenConnections-1) }

func (postgres) driver() string { return "github.com/jackc/pgx/v5" }

func (d postgres) grantee(ctx context.Context, db *sql.DB, t *Table) (on, to string, err error) {
	err = db.QueryRowContext(ctx, "SELECT current_user::text").Scan(&to)
	return t.name, d.quote(to), err
}

func (postgres) schemaRights() bool { return true }

func (postgres) present() string { return "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint" }
