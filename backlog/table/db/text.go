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
	"backlog/internal/lists"
)

// A Text describes how a kind of database writes SQL and URLs. It does no input or output and
// is never changed. Fields called formats are for fmt.Sprintf.
type Text struct {
	Name    string   // of the kind of database
	Schemes []string // of its URLs
	File    bool     // a URL names a file, which has one schema, and one writer at a time
	Driver  string   // the Go module of the driver

	// Parameters are the parameters of a URL, each with its legal values, which blanks
	// separate; "": every value is legal.
	Parameters       map[string]string
	UnknownParameter string // the hint for an unknown parameter; "": the server judges those
	URLForm          string // the form of a URL, for hints
	NeedsHost        bool   // a URL must have a host
	HostHint         string // the hint if something at the host of the URL does not answer
	CertificateHint  string // the hint if a certificate is not trusted

	Quotes           string // the quotation mark of names
	True             string
	False            string
	Blob             string // the format of a literal, for hexadecimal digits
	Backslashes      bool   // a backslash in a string begins an escape
	Numbered         bool   // the n-th placeholder is $n, not ?, and its type must be known in a CASE
	RowList          string // the format of a list of row values behind IN; "": rows cannot be compared
	Arrays           bool   // an argument can be an array, as text: {"1","2"}
	Raw              string // the format of a column as it is stored
	Unindexed        string // the format of a condition that must not use an index
	LockRow          string // the end of a SELECT that locks its rows
	NoWait           string // the end after LockRow for an error at once if a row is locked; "": none
	NowMicros        string // an expression for the server's clock in microseconds since 1970; "": there is no server
	IndexHint        string // the format of a table name with the index to use; "": the planner needs no hints
	PlaceholderMarks string // the characters that begin the database's own placeholders

	EscapeStrings bool // E'…' has escapes by a backslash, $tag$…$tag$ is a string, comments in /* */ nest
	HashComments  bool // # begins a comment, and -- does so only in front of white space
	Brackets      bool // a name may be written in [ ]
	PlainLimit    bool // LIMIT takes placeholders, but no expressions

	Prepares       bool // statements should be prepared, because the driver does not cache them
	LazyUnion      bool // of an ordered union with a limit the database reads no more than the limit
	PartialIndexes bool
	EqualFirst     bool // an index must begin with the columns that have one value, even if its condition has them
	FoldsNames     bool // the case of column names does not matter
	SortsGroups    bool // GROUP BY without an index sorts all rows, and writes them to a temporary file if they are many

	ReadSchema          string   // a query by which a connection notices changes of the schema; "": planning does
	BeginPlan           string   // begins the transaction in which a writing statement is planned; "": preparing it checks everything
	Trial               []string // the first statements of a transaction that will be rolled back
	CheckConstraintsNow string   // has deferred constraints checked at once; "": there are none
	WarningsQuery       string   // the query for what a rollback could not undo; "": none
	Explain             string   // the prefix that makes a query return its plan
	CreateIndex         string
	NameLength          int  // the maximum length of an index name, in bytes
	GrantsUsage         bool // a schema needs a GRANT too

	Types Types
}

// Types are the column types that the command init uses.
type Types struct {
	Key     string // the definition of a key that numbers itself
	Integer string
	Status  string // a text that an index may contain whole
	Text    string
	Options string // what follows the closing parenthesis of CREATE TABLE

	// Times are the types of times by the setting `as:`. Without that setting it is utc for
	// times in UTC, and native for others. Forms that are not listed are text.
	Times map[string]TimeType
}

// A TimeType is the type of a column, and its default for the current time; "": the database
// has no expression for that.
type TimeType struct {
	Decl    string
	Default string
}

// Quote returns a name as an SQL identifier.
func (t *Text) Quote(name string) string {
	return t.Quotes + strings.ReplaceAll(name, t.Quotes, t.Quotes+t.Quotes) + t.Quotes
}

// Qualified returns the quoted name of a table, with its schema unless that is empty.
func (t *Text) Qualified(schema, name string) string {
	return strings.Join(lists.Map(lists.NonEmpty(schema, name), t.Quote), ".")
}

// A Decimal is a number, as it was written, whose digits a float64 could not all keep.
type Decimal string

// Literal returns a value (nil, bool, int64, float64, Decimal, []byte, string) as SQL. The
// meaning of a backslash in quotes depends on the session, so a text with one is written in
// hexadecimal digits.
func (t *Text) Literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case bool:
		if v {
			return t.True
		}
		return t.False
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'e', -1, 64)
	case Decimal:
		if t.Backslashes { // in MySQL, where quotes would make a float of it
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

// Placeholder returns the placeholder of the n-th argument of a statement, from 1 on.
func (t *Text) Placeholder(n int) string {
	if t.Numbered {
		return "$" + strconv.Itoa(n)
	}
	return "?"
}

// Rebind returns the statement with the placeholders of the database instead of ?.
func (t *Text) Rebind(text string) string {
	if !t.Numbered || !strings.Contains(text, "?") {
		return text
	}
	b := make([]byte, 0, len(text)+2*strings.Count(text, "?"))
	var quote byte // the quotation mark that is open
	var n int
	for _, c := range []byte(text) {
		switch {
		case quote == c:
			quote = 0 // the second of a doubled one opens it again
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == 0 && c == '?':
			n++
			b = append(b, t.Placeholder(n)...)
			continue
		}
		b = append(b, c)
	}
	return string(b)
}

// Cast returns a placeholder for a value of the column's type, for places that do not
// determine the type.
func (t *Text) Cast(c *Column) string {
	if !t.Numbered {
		return "?"
	}
	return "CAST(? AS " + castName(c) + ")"
}

// WithoutLength returns a type without the parentheses that follow its name, or interrupt it
// as in timestamp(3) without time zone.
func WithoutLength(decl string) string {
	from := strings.IndexByte(decl, '(')
	if from < 0 || strings.HasPrefix(decl, `"`) {
		return decl
	}
	return decl[:from] + decl[from+strings.IndexByte(decl[from:], ')')+1:]
}

// KeyIn returns the condition that the key columns have one of n keys. Its arguments are the
// parts of the first key, then the second key's, and so on, as [AppendKeys] appends them.
func (t *Text) KeyIn(cols []string, n int) string {
	if len(cols) == 1 {
		return cols[0] + " IN (?" + strings.Repeat(",?", n-1) + ")"
	}
	if t.RowList == "" {
		one := strings.Join(cols, " = ? AND ") + " = ?"
		return "(" + one + strings.Repeat(" OR "+one, n-1) + ")"
	}
	row := ",(?" + strings.Repeat(",?", len(cols)-1) + ")"
	return "(" + strings.Join(cols, ", ") + ") IN " + fmt.Sprintf(t.RowList, strings.Repeat(row, n)[1:])
}

// ValueIn returns the condition that the column has one of the values, and its only argument.
// The database must have arrays.
func (t *Text) ValueIn(c *Column, values []any) (cond string, array string) {
	var b strings.Builder
	b.WriteByte('{')
	for i, v := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		appendElement(&b, v)
	}
	b.WriteByte('}')
	return t.Quote(c.Name) + " = ANY(CAST(? AS " + castName(c) + "[]))", b.String()
}

// appendElement writes an element of an array as text.
func appendElement(b *strings.Builder, v any) {
	switch v := v.(type) {
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case []byte:
		b.WriteString(`"\\x` + hex.EncodeToString(v) + `"`)
	default:
		b.WriteByte('"')
		arrayEscapes.WriteString(b, AsText(v))
		b.WriteByte('"')
	}
}

// arrayEscapes escapes a text in the quotes of an array's element.
var arrayEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// castName returns the type of the column for a cast. It has no length, since the cast would
// truncate the value.
func castName(c *Column) string {
	name := WithoutLength(c.Decl)
	if name == "character" { // which alone is one of a single character
		return "bpchar"
	}
	return name
}

// KeyRange returns the condition that the columns are on one side of the key (op is < or >),
// and its arguments. first are the values of columns that come before the key's columns.
func KeyRange(op string, cols []string, key backlog.Key, first ...any) (string, []any) {
	args := AppendKeys(first, key)
	if len(cols) == 1 {
		return cols[0] + " " + op + " ?", args
	}
	placeholders := strings.Repeat(", ?", len(cols))[2:]
	return "(" + strings.Join(cols, ", ") + ") " + op + " (" + placeholders + ")", args
}

// AppendKeys appends the parts of the keys to the arguments of a statement.
func AppendKeys(args []any, keys ...backlog.Key) []any {
	for _, k := range keys {
		for i := range k.Len() {
			args = append(args, k.Part(i))
		}
	}
	return args
}

// AsStored returns an expression for a quoted column as it is stored. Drivers would otherwise
// convert the value according to the declared type.
func (t *Text) AsStored(col string) string { return fmt.Sprintf(t.Raw, col) }

// WithoutIndex returns the condition in a form for which no index is used.
func (t *Text) WithoutIndex(cond string) string { return fmt.Sprintf(t.Unindexed, cond) }

// ZeroDate returns the condition that the column is a zero date, "" if it cannot be one.
func (t *Text) ZeroDate(c *Column) string {
	return Prefixed(t.Quote(c.Name), c.ZeroCond)
}

// The conditions for zero dates that are numbers, texts, or either, to follow a column's name.
var (
	ZeroNumber = " = 0"
	ZeroText   = " IN (" + zeroTexts + ")"
	ZeroAny    = " IN (0, " + zeroTexts + ")"
)

// zeroTexts are the texts that programs store as a zero date.
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

// Index returns the statement that creates an index of the table, unless one of that name
// exists. The index has only the beginnings of long texts.
func (t *Text) Index(c *Catalog, table, name string, columns []string, where string) string {
	create := t.CreateIndex
	if c.Kind == Partitioned {
		create = strings.Replace(create, " CONCURRENTLY", "", 1)
	}
	columns = slices.Clone(columns)
	for i := range c.Columns {
		if at := slices.Index(columns, t.Quote(c.Columns[i].Name)); at >= 0 && c.Columns[i].PrefixIndexed {
			columns[at] += "(100)"
		}
	}
	return create + " " + t.Quote(name) + " ON " + table + " (" + strings.Join(columns, ", ") + ")" + Prefixed(" WHERE ", where)
}

// DialectOf returns the one of the dialects that a URL is for.
func DialectOf(rawURL string, dialects ...Server) (Server, error) {
	scheme, _, isURL := strings.Cut(rawURL, ":")
	for _, d := range dialects {
		if isURL && slices.Contains(d.Text().Schemes, strings.ToLower(scheme)) {
			return d, nil
		}
	}
	schemes := slices.Concat(lists.Map(dialects, func(s Server) []string { return s.Text().Schemes })...)
	hint := "write sqlite:PATH, postgres://USER:PASSWORD@HOST:5432/DATABASE or mysql://USER:PASSWORD@HOST:3306/DATABASE"
	return nil, URLProblemf(mapping.DidYouMean(scheme, schemes, hint), "the database is not a URL of a known kind")
}

// RedactURL returns the URL without user, password and parameters. If the rest may contain a
// part of the password, RedactURL returns no more than the scheme.
func RedactURL(rawURL string, dialects ...Server) string {
	server, err := DialectOf(rawURL, dialects...)
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

// userPattern matches the beginning of a URL with a user. The password may contain a slash. A
// single letter and a colon are a drive of Windows.
var userPattern = pattern.Lazily(`(?s)^//([^/]*@|[^/:]{2,}:.*@)`)

// ParseURL parses the URL of a database. It is strict, because a part that is misread may
// belong to the password. Its errors show nothing but the names of known parameters. The URL
// of a file consists of a path and parameters.
func (t *Text) ParseURL(rawURL string) (u *url.URL, params map[string]string, err error) {
	_, rest, _ := strings.Cut(rawURL, ":")
	unreadable := URLProblemf("write "+t.URLForm, "the database URL cannot be read")
	if t.File {
		if strings.HasPrefix(rest, "//") && userPattern().MatchString(rest) { // messages would show it as a file name
			return nil, nil, URLProblemf("a file has no user and host; write "+t.URLForm, "the database URL has a user")
		}
		u = new(url.URL)
		u.Path, u.RawQuery, _ = strings.Cut(strings.TrimPrefix(rest, "//"), "?")
	} else {
		u, err = url.Parse(rawURL)
		if err != nil || !strings.HasPrefix(rest, "//") || u.Host == "" && t.NeedsHost || t.mayMisread(rawURL, u) {
			return nil, nil, unreadable
		}
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
		case !known && t.UnknownParameter != "":
			return nil, nil, URLProblemf(t.UnknownParameter, "the database URL has a parameter that is not known")
		case legal != "" && !slices.Contains(strings.Fields(legal), value):
			return nil, nil, URLProblemf("write one of "+legal, "the database URL has a %s that is not known", name)
		}
	}
	return u, params, nil
}

// mayMisread reports whether the URL contains a character that the user should have escaped in
// the password: an @ or a / that ended it early, or a #.
func (t *Text) mayMisread(rawURL string, u *url.URL) bool {
	return u.Fragment != "" || strings.Count(rawURL, "@") > 1 || strings.Contains(u.Path+u.RawQuery, "@") || strings.Count(u.Path, "/") > 1
}
