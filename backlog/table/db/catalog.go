package db

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table/timeform"
	"backlog/internal/lists"
)

// A Kind says what the name of a table stands for.
type Kind int

// The kinds: nothing, a table, a partitioned table, a view.
const (
	Missing Kind = iota
	Relation
	Partitioned
	View
)

// A Catalog is what the database says about a table, about the user, and about itself.
type Catalog struct {
	Kind        Kind
	Name        string // of the table, as the catalog writes it
	Schema      string // of the table: in PostgreSQL always, in MySQL if the mapping names it
	Database    string // the database of the table, in MySQL
	Columns     []Column
	Incomplete  bool       // there may be columns that the user may not see
	Uniques     [][]string // sets of columns without duplicates
	Triggers    []string   // that an UPDATE fires
	Indexes     []Index
	IndexSuffix []string // columns that every index ends with
	Engine      string   // the storage engine if it has no transactions; "": it has
	HasDeferred bool     // some constraints are checked only at the commit
	Unusable    error    // why the table cannot be used; nil: no reason is known
	QuotedUser  string   // as GRANT names it; "": the database has no users
	QuotedName  string   // of the table, as GRANT names it
	SessionZone string   // the time zone of sessions that do not set one; "": UTC, or unknown
	Advice      string   // for the owner of the database; "": none
	// SchemaVersion changes with each change of the database's tables, triggers and constraints. "": the
	// database does not tell.
	SchemaVersion string
}

// A Class says which literals a column can hold.
type Class int

// The classes.
const (
	Any Class = iota // any value, as it was written
	Textual
	Integer
	Real
	Numeric // numbers become numbers, other texts stay texts
	Boolean
	Bytes
)

// A Column is a column of the table.
type Column struct {
	Name        string
	Decl        string // the declared type
	Class       Class
	MaxLength   int // the maximum length of a text, in characters; 0: unlimited
	NotNull     bool
	Generated   bool
	JSON        bool
	OnlyBoolean bool // it holds true and false only: a quoted 'true' is one of them

	MaxBytes      int             // the maximum length of a text, in bytes of UTF-8; 0: unlimited
	Accepts       func(rune) bool // whether a text may contain the character; nil: it may contain all
	ReadExpr      string          // the expression that reads it, as JSON; "": it is read as stored
	Labels        []string        // of an ENUM or a SET, the only legal texts; nil: every text is legal
	Domain        string          // the name of the domain, if its type is one
	Min           int64           // the smallest whole number
	Max           int64           // the largest whole number; 0: any
	MaxCount      int64           // the largest number, if it is so small that a counter may reach it; 0: it is not
	LabelOrder    bool            // it is ordered by label numbers, not by its texts
	Composite     bool            // a value has several parts, so its text does not find the row again
	PrefixIndexed bool            // indexes contain only the beginnings of its texts
	AutoUpdated   bool            // the database sets it whenever the row is written
	Time          *Calendar       // how its type writes times; nil: the type does not say
	ZeroCond      string          // the condition for zero dates, to follow its name, such as [ZeroNumber]; "": it holds none
	ArgumentExpr  string          // an expression that gives the argument at its first ? the column's type; "": none is needed
}

// Argument returns an expression that gives the argument at a placeholder the type of the
// column.
func (c *Column) Argument(place string) string {
	if c.ArgumentExpr == "" {
		return place
	}
	return strings.Replace(c.ArgumentExpr, "?", place, 1)
}

// IsDecimal reports whether the column stores numbers digit by digit.
func (c *Column) IsDecimal() bool {
	decl := strings.ToLower(c.Decl)
	return strings.HasPrefix(decl, "decimal") || strings.HasPrefix(decl, "numeric")
}

// A Calendar is how a type writes dates and times.
type Calendar = timeform.Calendar

// An Index is an index of the table.
type Index struct {
	Name       string
	Columns    []string // "" for an expression
	Descending []bool   // whether each of the columns is in descending order
	Where      string   // the condition of a partial index; "" for others
	Unique     bool
	Sorted     bool // by the whole values of the columns, in the columns' own order
	Unused     bool // the planner does not use it
}

// Find returns the column with the name, or nil. With fold, a column whose name
// differs in case alone will do.
func (c *Catalog) Find(name string, fold bool) *Column {
	var like *Column
	for i := range c.Columns {
		x := &c.Columns[i]
		if x.Name == name {
			return x
		}
		if fold && like == nil && strings.EqualFold(x.Name, name) {
			like = x
		}
	}
	return like
}

// Names returns the names of the columns for a message.
func (c *Catalog) Names() string {
	list := strings.Join(c.ColumnNames(), ", ")
	if c.Incomplete {
		list += ", and such as this user may not read"
	}
	return list
}

// ColumnNames returns the names of the columns.
func (c *Catalog) ColumnNames() []string {
	return lists.Map(c.Columns, func(x Column) string { return x.Name })
}

// optionalColumns are the settings of columns that a table may be given for this program, with types that every
// database has.
var optionalColumns = map[string]string{"table.attempts": "INTEGER", "table.last_error": "TEXT"}

// MissingColumn returns the [*Problem] that a setting names a column which the table does not have.
func (c *Catalog) MissingColumn(setting, table, name string) error {
	columns := "the columns are: " + c.Names()
	if typeName := optionalColumns[setting]; typeName != "" {
		columns += fmt.Sprintf("; or add it: ALTER TABLE %s ADD COLUMN %s %s", table, name, typeName)
	}
	hint := mapping.DidYouMean(name, c.ColumnNames(), columns)
	return Problemf(hint, "%s: table %s has no column %q", setting, table, name)
}

// A TableSearch says where a dialect has looked for a table.
type TableSearch struct {
	Where   string // for the message: the table does not exist in …
	Setting string // the setting to correct
	Query   string // returns the names of the tables there
	Args    []any  // of Query
}

// SetMissingTable sets Unusable to the [*Problem] that the table does not exist. The error it
// returns comes from the search's query.
func (c *Catalog) SetMissingTable(ctx context.Context, q Querier, s TableSearch) error {
	names, err := QueryTexts(ctx, q, s.Query, s.Args...)
	list := "there are no tables"
	if len(names) > 0 {
		list = "the tables are: " + strings.Join(names, ", ")
	}
	hint := mapping.DidYouMean(c.Name, names, "set "+s.Setting+"; `backlog init --create-table` creates it; "+list)
	if schema, name, dotted := strings.Cut(c.Name, "."); dotted {
		hint = "if that is schema and name, write table: {schema: " + mapping.InYAML(schema) + ", name: " + mapping.InYAML(name) + "}; " + hint
	}
	c.Unusable = Problemf(hint, "table %s does not exist in %s", c.Name, s.Where)
	return err
}

// AddIndexes adds indexes. Each row is one column of one index, and the rows of an index follow
// each other. Their columns are name, cond (of a partial index) and col, which are text, and
// uniq, sorted, hidden and down, which are yes or no.
func (c *Catalog) AddIndexes(rows []Row) {
	for _, r := range rows {
		if n := len(c.Indexes); n == 0 || c.Indexes[n-1].Name != r["name"] {
			c.Indexes = append(c.Indexes, Index{
				Name:   r["name"],
				Where:  r["cond"],
				Unique: r.Is("uniq"),
				Sorted: true,
				Unused: r.Is("hidden"),
			})
		}
		x := &c.Indexes[len(c.Indexes)-1]
		x.Columns = append(x.Columns, r["col"])
		x.Descending = append(x.Descending, r.Is("down"))
		x.Sorted = x.Sorted && r.Is("sorted")
	}
	for _, x := range c.Indexes {
		if x.Unique && x.Where == "" && !slices.Contains(x.Columns, "") {
			c.Uniques = append(c.Uniques, x.Columns)
		}
	}
}

// Unique reports whether no two rows can have the same values in all of the columns.
func (c *Catalog) Unique(cols []string) bool {
	isOther := func(name string) bool { return !slices.Contains(cols, name) }
	return slices.ContainsFunc(c.Uniques, func(u []string) bool { return !slices.ContainsFunc(u, isOther) })
}

// ServingIndexes returns the indexes that a query can read in the given order without sorting,
// if its conditions give each of the equal columns one value. A partial index may lack some of
// the equal columns, because its condition may say the same about them.
func (c *Catalog) ServingIndexes(equal, order []string) (list []Index) {
	key := Index{Columns: c.IndexSuffix, Descending: make([]bool, len(c.IndexSuffix)), Sorted: true}
	for _, x := range append(slices.Clip(c.Indexes), key) {
		if c.serves(x, equal, order) {
			list = append(list, x)
		}
	}
	return list
}

// serves reports whether one index serves, see [Catalog.ServingIndexes].
func (c *Catalog) serves(x Index, equal, order []string) bool {
	columns := slices.Clone(x.Columns)
	descending := slices.Clone(x.Descending)
	for _, name := range c.IndexSuffix {
		if !slices.Contains(columns, name) {
			columns = append(columns, name)
			descending = append(descending, false)
		}
	}
	var n int // how many of the first columns have one value
	for n < len(columns) && slices.Contains(equal, columns[n]) {
		n++
	}
	hasOneValue := func(name string) bool { return slices.Contains(columns[:n], name) }
	rest := slices.DeleteFunc(slices.Clone(order), hasOneValue)
	end := n + len(rest)
	if x.Unused || !x.Sorted || len(columns) < end || x.Where == "" && n < len(equal) {
		return false
	}
	if len(rest) == 0 {
		return true
	}
	oneDirection := !slices.Contains(descending[n:end], !descending[n])
	return oneDirection && slices.Equal(columns[n:end], rest)
}

// floatDigits is how many decimal digits every float64 keeps.
const floatDigits = 15

// Convert returns v as a value of the column: nil, bool, int64, float64, [Decimal] or string.
func (c *Column) Convert(v mapping.Value) (any, error) {
	value, err := c.toClass(v)
	if err != nil {
		return nil, err
	}
	switch x := value.(type) {
	case string:
		parts := []string{x}
		if strings.HasPrefix(c.Decl, "set(") { // several of its labels
			parts = strings.FieldsFunc(x, func(r rune) bool { return r == ',' })
		}
		for _, part := range parts {
			if c.Labels != nil && !slices.Contains(c.Labels, part) {
				return nil, fmt.Errorf("%q is none of the labels of column %s: %s", part, c.Name, strings.Join(c.Labels, ", "))
			}
		}
	case int64:
		if c.Max > 0 && (x < c.Min || x > c.Max) {
			return nil, fmt.Errorf("%d is out of the range of column %s, which is %s", x, c.Name, c.Decl)
		}
	}
	return value, nil
}

// toClass converts a value to the class of the column.
func (c *Column) toClass(v mapping.Value) (any, error) {
	isText := c.Class == Textual || c.Class == Bytes || c.Class == Any && v.Quoted
	switch {
	case v.Null:
		return nil, nil
	case isText:
		return v.Text, nil
	case c.Class == Real:
		return c.toReal(v.Text)
	}
	t := strings.TrimSpace(v.Text)
	truth, isTruth := parseTruth(t)
	isTruth = isTruth && (!v.Quoted || c.OnlyBoolean)
	switch {
	case c.Class == Boolean && (isTruth || t == "0" || t == "1"):
		return truth == 1 || t == "1", nil
	case isTruth:
		return truth, nil
	}
	if whole, err := strconv.ParseInt(t, 10, 64); err == nil {
		return whole, nil
	}
	if c.Class == Integer {
		return c.toUnsigned(v.Text)
	}
	if number, ok := ParseDecimal(t); ok {
		return number, nil
	}
	return v.Text, nil
}

// toReal converts a text to a float64, or to a [Decimal] if the column keeps digits that a float64 would lose.
func (c *Column) toReal(text string) (any, error) {
	t := strings.TrimSpace(text)
	number, ok := ParseDecimal(t)
	if !ok {
		return nil, fmt.Errorf("%s is not a number, and column %s is %s", text, c.Name, c.Decl)
	}
	if c.IsDecimal() && len(strings.Trim(t, "+-0.")) > floatDigits {
		return Decimal(t), nil
	}
	return number, nil
}

// toUnsigned converts a text that is not an int64 to a [Decimal], if it is a number and the column is unsigned.
func (c *Column) toUnsigned(text string) (any, error) {
	t := strings.TrimSpace(text)
	_, err := strconv.ParseUint(t, 10, 64)
	if c.Max == math.MaxInt64 && err == nil { // the type is unsigned
		return Decimal(t), nil
	}
	return nil, fmt.Errorf("%s is not a whole number, and column %s is %s", text, c.Name, c.Decl)
}

// parseTruth returns 1 for true and 0 for false, in any case.
func parseTruth(text string) (truth int64, ok bool) {
	switch strings.ToLower(text) {
	case "true":
		return 1, true
	case "false":
		return 0, true
	}
	return 0, false
}

// ParseDecimal is [strconv.ParseFloat] for decimal numbers alone. inf, NaN and 0x1p-2 are
// numbers to Go, but a column may hold them as words.
func ParseDecimal(s string) (float64, bool) {
	if strings.Trim(s, "+-.0123456789eE") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

// ParseKey parses a key as a user writes it: the bare value of a single column, or a JSON
// array for a composite key. The user can correct the error.
func ParseKey(columns []*Column, text string) (backlog.Key, error) {
	parts := []json.RawMessage{[]byte(text)}
	if len(columns) > 1 {
		if err := json.Unmarshal([]byte(text), &parts); err != nil || len(parts) != len(columns) {
			return backlog.Key{}, fmt.Errorf(`%q is not a key of %d columns: write a JSON array, such as '["a", 7]'`, text, len(columns))
		}
	}
	values := make([]any, len(parts))
	for i, part := range parts {
		word := string(part)
		if len(columns) > 1 && word != "null" {
			json.Unmarshal(part, &word) // a string loses its quotes, anything else stays as written
		}
		var err error
		values[i], err = columns[i].ParseKey(word)
		if err != nil {
			return backlog.Key{}, err
		}
	}
	return backlog.NewKey(values...), nil
}

// A KeyError says that no row can have the key.
type KeyError struct{ error }

// NotAKey returns a [*KeyError] for a key that the database could not convert to the types of
// the key columns.
func NotAKey(table string, columns []*Column, k backlog.Key) error {
	types := lists.Map(columns, func(c *Column) string { return "column " + c.Name + " is " + c.Decl })
	return &KeyError{fmt.Errorf("%q is not a key of table %s: %s", k, table, strings.Join(types, ", "))}
}

// ParseKey parses the column's part of a key as a user writes it.
func (c *Column) ParseKey(text string) (any, error) {
	if c.Class == Bytes || strings.Contains(strings.ToUpper(c.Decl), "BLOB") {
		b, err := base64.StdEncoding.DecodeString(text)
		if err == nil {
			return b, nil
		}
		if c.Class == Bytes {
			return nil, fmt.Errorf("%q is not base64, as which the BLOB column %s is written", text, c.Name)
		}
	}
	v, err := c.Convert(mapping.Value{Text: text, Quoted: c.Class != Any})
	if d, ok := v.(Decimal); ok {
		return string(d), nil // keys that are read from the table are strings too
	}
	return v, err
}

// CapCount returns n, or the largest number that the column can hold if n is larger. The
// column stops counting there.
func (c *Column) CapCount(n int) int64 {
	return min(int64(n), cmp.Or(c.MaxCount, math.MaxInt64))
}

// IncrementExpr returns an expression for the column plus one, but never more than the column
// holds: an outcome must not get lost because a counter is full.
func (c *Column) IncrementExpr(quoted string) string {
	expr := "coalesce(" + quoted + ", 0) + 1"
	if c.MaxCount > 0 {
		return fmt.Sprintf("least(%s, %d)", expr, c.MaxCount)
	}
	return expr
}

// CountIs returns the condition that the counter is n, and its arguments. NULL counts as 0.
func (c *Column) CountIs(quoted string, n int) (cond string, args []any) {
	if n > 0 {
		return quoted + " = ?", []any{int64(n)}
	}
	cond = quoted + " <= 0"
	if !c.NotNull {
		cond = "(" + quoted + " IS NULL OR " + cond + ")"
	}
	return cond, nil
}

// Fit cuts and changes a text, such as an error message, so that the column can hold it.
func (c *Column) Fit(s string) string {
	s = Truncate(s, c.MaxLength, c.MaxBytes)
	if c.Accepts == nil {
		return s
	}
	return strings.Map(func(r rune) rune {
		if c.Accepts(r) {
			return r
		}
		return '?'
	}, s)
}

// Truncate returns the text as a column can hold it: valid UTF-8 without NULs, with at most
// so many characters and so many bytes. 0 characters stands for 65,536, 0 bytes for no limit.
func Truncate(s string, characters, bytes int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	remaining := cmp.Or(characters, 64<<10)
	limit := cmp.Or(bytes, len(s))
	for i, r := range s {
		if remaining == 0 || i+utf8.RuneLen(r) > limit {
			return s[:i]
		}
		remaining--
	}
	return s
}

// ForHandler returns the value as handlers get it.
func (c *Column) ForHandler(v any) any {
	switch x := v.(type) {
	case int64:
		if c.Class == Boolean && (x == 0 || x == 1) {
			return x == 1
		}
	case string:
		if c.JSON && json.Valid([]byte(x)) {
			return json.RawMessage(x)
		}
	}
	return v
}
