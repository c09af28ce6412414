package db

import (
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/pattern"
)

// A Text is how a kind of database writes SQL. It does no input or output and has
// no state.
type Text struct {
	Name    string   // of the kind
	Schemes []string // of its URLs
	File    bool     // a URL names a file, which has one schema, and one writer at a time
	Driver  string   // the module that speaks to it

	// Parameters are what a URL may set, with the values, divided by blanks; "" is for
	// any value.
	Parameters map[string]string
	NoOther    string // what is said of other parameters; "": the server judges them
	Form       string // how a URL is written
	NeedsHost  bool   // a URL has a host
	NameServer string // what to do where something at the URL's host gives no answer
	Distrust   string // what to do about a certificate that is not trusted

	Quotes      string // the character around names
	True, False string
	Blob        string // of hexadecimal digits, as a format
	Backslashes bool   // strings have escapes by a backslash
	Numbered    bool   // the n-th argument is $n, not ?, and its type has to be said in a CASE
	Rows        string // a list of row values behind IN, as a format; "": rows are not compared
	Raw         string // a column as it is stored, as a format
	Guard       string // a condition that no index is searched by, as a format
	LockRow     string // ends a SELECT that keeps others from its rows
	NoWait      string // behind that: a row that others have is an error at once; "": it is waited for
	Present     string // the server's time in microseconds since 1970; "": there is no server
	Hint        string // the table's name with an index to use, as a format; "": planners need none
	Own         string // characters that begin the database's own parameters

	EscapeStrings bool // E'…' has escapes by a backslash, $tag$…$tag$ is a string, comments in /* */ nest
	HashComments  bool // # begins a comment, and -- one only in front of a blank
	Brackets      bool // a name may stand in [ ]
	PlainLimit    bool // LIMIT takes arguments, and no expressions

	Prepares       bool // the driver does not prepare by itself what comes again
	LazyUnion      bool // an ordered union is read no further than its limit
	PartialIndexes bool
	SearchedFirst  bool // an index begins with the columns that have one value, else its condition says them
	FoldsNames     bool // column names do not differ by case alone

	ReadSchema  string   // has a connection notice that another one has changed the schema; "": a plan does
	BeginPlan   string   // begins a transaction in which what writes is planned, wherever; "": whatever can be prepared may be run
	Trial       []string // a transaction that will be rolled back begins with it
	Immediate   string   // has deferred constraints speak up at once
	Warnings    string   // the query for what a rollback has left
	Explain     string   // in front of a query: its plan
	CreateIndex string
	NameLength  int  // of an index's name, in bytes
	GrantsUsage bool // a schema has rights of its own

	Types Types
}

// Types are the column types that init uses.
type Types struct {
	Key     string // of a key that numbers itself, all of its definition
	Integer string
	Status  string // of a text that an index may be over
	Text    string
	Options string // what follows the table's closing bracket

	// Times by the setting `as:`, with the default that writes the present; utc is
	// for none, in UTC, and text for any other.
	Times map[string]TimeType
}

// A TimeType is a column's type and its default, "" if the database cannot write
// the present so.
type TimeType struct{ Decl, Present string }

// Quote returns the name as an identifier.
func (t *Text) Quote(name string) string {
	return t.Quotes + strings.ReplaceAll(name, t.Quotes, t.Quotes+t.Quotes) + t.Quotes
}

// Qualified returns the quoted name of the table, with its schema unless that is
// empty.
func (t *Text) Qualified(schema, name string) string {
	return strings.Join(Mapped(NonEmpty(schema, name), t.Quote), ".")
}

// A Decimal is a number with more digits than a float64 keeps apart from others,
// as it was written.
type Decimal string

// Literal returns the value (nil, bool, int64, float64, Decimal, []byte, string) as
// SQL. What a backslash stands for in quotes depends on the session, so a text with
// one is written in hexadecimal digits.
func (t *Text) Literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case bool:
		return map[bool]string{true: t.True, false: t.False}[v]
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'e', -1, 64)
	case Decimal:
		if t.Backslashes { // in quotes it would be compared as a float
			return string(v)
		}
	case []byte:
		return fmt.Sprintf(t.Blob, hex.EncodeToString(v))
	}
	s := fmt.Sprint(v)
	if t.Backslashes && strings.Contains(s, `\`) {
		return "_utf8mb4 x'" + hex.EncodeToString([]byte(s)) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// Arg is the n-th argument of a statement, from 1 on.
func (t *Text) Arg(n int) string {
	if t.Numbered {
		return "$" + strconv.Itoa(n)
	}
	return "?"
}

// Place returns the statement, in which ? marks the places of arguments, as the
// database marks them.
func (t *Text) Place(text string) string {
	if !t.Numbered || !strings.Contains(text, "?") {
		return text
	}
	b := make([]byte, 0, len(text)+2*strings.Count(text, "?"))
	var quote byte // the one that is open
	var n int
	for _, c := range []byte(text) {
		switch {
		case quote == c:
			quote = 0 // a doubled one opens the next
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == 0 && c == '?':
			n++
			b = append(b, t.Arg(n)...)
			continue
		}
		b = append(b, c)
	}
	return string(b)
}

// Cast is the place of an argument for the column where nothing else tells the
// type, without its length, by which a cast would cut.
func (t *Text) Cast(c *Column) string {
	if !t.Numbered {
		return "?"
	}
	return "CAST(? AS " + WithoutLength(c.Decl) + ")"
}

// WithoutLength returns the type without the bracket that may be behind its name,
// or within: timestamp(3) without time zone.
func WithoutLength(decl string) string {
	from := strings.IndexByte(decl, '(')
	if from < 0 || strings.HasPrefix(decl, `"`) {
		return decl
	}
	return decl[:from] + decl[from+strings.IndexByte(decl[from:], ')')+1:]
}

// KeyIn is a condition for the n keys bound to it, the parts of each in the order
// of the columns.
func (t *Text) KeyIn(cols []string, n int) string {
	if len(cols) == 1 {
		return cols[0] + " IN (?" + strings.Repeat(",?", n-1) + ")"
	}
	if t.Rows == "" {
		one := strings.Join(cols, " = ? AND ") + " = ?"
		return "(" + one + strings.Repeat(" OR "+one, n-1) + ")"
	}
	row := ",(?" + strings.Repeat(",?", len(cols)-1) + ")"
	return "(" + strings.Join(cols, ", ") + ") IN " + fmt.Sprintf(t.Rows, strings.Repeat(row, n)[1:])
}

// KeyRange returns the condition for rows on one side of the key, and its arguments:
// first, for columns that come before the key, then the key.
func KeyRange(op string, cols []string, key backlog.Key, first ...any) (string, []any) {
	args := Bind(first, key)
	if len(cols) == 1 {
		return cols[0] + " " + op + " ?", args
	}
	marks := strings.Repeat(", ?", len(cols))[2:]
	return "(" + strings.Join(cols, ", ") + ") " + op + " (" + marks + ")", args
}

// Bind adds the parts of the keys to the arguments of a statement.
func Bind(args []any, keys ...backlog.Key) []any {
	for _, k := range keys {
		for i := range k.Len() {
			args = append(args, k.Part(i))
		}
	}
	return args
}

// AsStored is the quoted column as it is stored, which drivers would otherwise
// convert by its declared type.
func (t *Text) AsStored(col string) string { return fmt.Sprintf(t.Raw, col) }

// Unsearched is the condition as one that no index is searched by.
func (t *Text) Unsearched(cond string) string { return fmt.Sprintf(t.Guard, cond) }

// ZeroDate is the condition for zero dates in the column, "" if it holds none.
func (t *Text) ZeroDate(c *Column) string {
	return Prefixed(t.Quote(c.Name), c.Zero)
}

// Zero dates that are numbers, texts, or either.
var ZeroNumber, ZeroText, ZeroAny = " = 0", " IN (" + zeroTexts + ")", " IN (0, " + zeroTexts + ")"

// zeroTexts are the ways in which programs store a zero date as text.
var zeroTexts = func() string {
	list := []string{"''", "'0'", "'00000000000000'"}
	for _, date := range []string{"0000-00-00", "0001-01-01"} {
		for _, rest := range []string{"", " 00:00", " 00:00:00", " 00:00:00.000", " 00:00:00.000000", " 00:00:00Z", " 00:00:00+00:00", " 00:00:00 +0000 UTC",
			"T00:00:00", "T00:00:00Z", "T00:00:00.000Z", "T00:00:00+00:00"} {
			list = append(list, "'"+date+rest+"'")
		}
	}
	return strings.Join(list, ", ")
}()

// Index returns the statement that creates an index of the table, if there is
// none of that name. Of long texts an index has the beginnings.
func (t *Text) Index(c *Catalog, table, name string, columns []string, where string) string {
	create := t.CreateIndex
	if c.Kind == Partitioned {
		create = strings.Replace(create, " CONCURRENTLY", "", 1)
	}
	columns = slices.Clone(columns)
	for i := range c.Columns {
		if at := slices.Index(columns, t.Quote(c.Columns[i].Name)); at >= 0 && c.Columns[i].Long {
			columns[at] += "(100)"
		}
	}
	return create + " " + t.Quote(name) + " ON " + table + " (" + strings.Join(columns, ", ") + ")" + Prefixed(" WHERE ", where)
}

// Kinds returns the dialect for a URL.
func Kinds(rawURL string, known ...Server) (Server, error) {
	scheme, _, ok := strings.Cut(rawURL, ":")
	i := slices.IndexFunc(known, func(s Server) bool { return slices.Contains(s.Text().Schemes, strings.ToLower(scheme)) })
	if !ok || i < 0 {
		words := slices.Concat(Mapped(known, func(s Server) []string { return s.Text().Schemes })...)
		return nil, URLProblemf(mapping.DidYouMean(scheme, words, "write sqlite:PATH, postgres://USER:PASSWORD@HOST:5432/DATABASE or mysql://USER:PASSWORD@HOST:3306/DATABASE"),
			"the database is not a URL of a known kind")
	}
	return known[i], nil
}

// Shown returns the URL without user, password and parameters. Where a part of the
// password may stand in the rest, only the scheme is left.
func Shown(rawURL string, known ...Server) string {
	server, err := Kinds(rawURL, known...)
	if err != nil {
		return "…"
	}
	scheme, _, _ := strings.Cut(rawURL, ":")
	u, _, err := server.Text().ParseURL(rawURL)
	switch {
	case err != nil:
		return scheme + ":…"
	case server.Text().File:
		return rawURL
	}
	return scheme + "://" + u.Host + u.EscapedPath()
}

// userPattern matches the beginning of a URL with a user. A password may have a slash in
// it, but one letter and a colon are a drive.
var userPattern = pattern.Lazily(`(?s)^//([^/]*@|[^/:]{2,}:.*@)`)

// ParseURL reads the URL of a database. It is strict, since what is misread may be a
// part of the password, and its errors show no more than names of known parameters.
// The URL of a file has nothing but a path.
func (t *Text) ParseURL(rawURL string) (u *url.URL, params map[string]string, err error) {
	_, rest, _ := strings.Cut(rawURL, ":")
	unreadable := URLProblemf("write "+t.Form, "the database URL cannot be read")
	if t.File {
		if strings.HasPrefix(rest, "//") && userPattern().MatchString(rest) { // the file's name would be shown
			return nil, nil, URLProblemf("a file has no user and host; write "+t.Form, "the database URL has a user")
		}
		u = new(url.URL)
		u.Path, u.RawQuery, _ = strings.Cut(strings.TrimPrefix(rest, "//"), "?")
	} else if u, err = url.Parse(rawURL); err != nil || !strings.HasPrefix(rest, "//") || u.Fragment != "" || u.Host == "" && t.NeedsHost ||
		strings.Count(rawURL, "@") > 1 || strings.Contains(u.Path+u.RawQuery, "@") || strings.Count(u.Path, "/") > 1 {
		return nil, nil, unreadable
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, nil, unreadable
	}
	params = make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values.Get(name)
		legal, known := t.Parameters[name]
		if legal != "" {
			value = strings.ToLower(value)
		}
		params[name] = value
		switch {
		case !known && t.NoOther != "":
			return nil, nil, URLProblemf(t.NoOther, "the database URL has a parameter that is not known")
		case legal != "" && !slices.Contains(strings.Fields(legal), value):
			return nil, nil, URLProblemf("write one of "+legal, "the database URL has a %s that is not known", name)
		}
	}
	return u, params, nil
}

// prefix begins the names of expressions, which are to be no column's.
const prefix = "backlog_"

// Named returns the expressions as a SELECT has them.
func Named(exprs []string) string {
	var list []string
	for i, e := range exprs {
		list = append(list, e+" AS "+prefix+strconv.Itoa(i))
	}
	return strings.Join(list, ", ")
}

// Union returns the query for the rows of n queries in one order. one is the i-th, with
// the rest of the columns behind its own, which are only to order by.
func (t *Text) Union(n int, cols []string, direction string, limit int, one func(i int, rest string) (string, []any)) (text string, args []any) {
	if n == 1 {
		text, args = one(0, "")
		return text + OrderBy(direction, cols), append(args, limit)
	}
	// The order columns are read as they are: a planner does not follow an index by
	// an expression.
	var rest string
	var names []string
	for i, c := range cols {
		name := prefix + "o" + strconv.Itoa(i)
		names = append(names, name)
		rest += ", " + c + " AS " + name
	}
	list := make([]string, n)
	for i := range list {
		one, a := one(i, rest)
		args = append(args, a...)
		if !t.LazyUnion { // the database would read all of each
			one = fmt.Sprintf("SELECT * FROM (%s) AS %sb%d", one+OrderBy(direction, cols), prefix, i)
			args = append(args, limit)
		}
		list[i] = one
	}
	return strings.Join(list, " UNION ALL ") + OrderBy(direction, names), append(args, limit)
}

// NewestFirst is the direction of descending values.
const NewestFirst = " DESC"

// OrderBy ends a query whose rows come in an order.
func OrderBy(direction string, cols []string) string {
	return " ORDER BY " + strings.Join(cols, direction+", ") + direction + " LIMIT ?"
}
