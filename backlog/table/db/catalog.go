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
)

// A Kind is what a name stands for.
type Kind int

const (
	Missing Kind = iota
	Relation
	Partitioned
	View
)

// A Catalog is what the database says about a table, about the user, and about
// itself.
type Catalog struct {
	Kind        Kind
	Name        string // of the table, as the catalogue writes it
	Schema      string // in which it is, where somebody else may find another of its name
	In          string // in which it is, where Schema does not say it
	Columns     []Column
	Partial     bool       // there may be columns that this user may not see
	Uniques     [][]string // sets of columns without duplicates
	Triggers    []string   // that run at updates
	Indexes     []Index
	Implied     []string // columns that every index has at its end
	Engine      string   // that stores the rows, where it has no transactions
	Deferred    bool     // constraints would speak up at the commit
	Wrong       error    // why the table cannot be worked; nil: nothing is known
	User, Grant string   // the user as GRANT names it, "" for none, and the table
	Zone        string   // of a session whose program asks for none; "": it is UTC, or says nothing
	Advice      string   // for the owner of the database; "": none
}

// A Class is what a column can hold, as far as literals are concerned.
type Class int

const (
	Any Class = iota // any value, as it was written
	Textual
	Integer
	Real
	Numeric // numbers become numbers, other text stays
	Boolean
	Bytes
)

// A Column is one of the table's.
type Column struct {
	Name      string
	Decl      string // the type as declared
	Class     Class
	Length    int // of text, in characters; 0: no limit
	NotNull   bool
	Generated bool
	JSON      bool
	Truth     bool // it holds true and false alone, no text

	Octets  int             // of text, in bytes of UTF-8 at most; 0: no limit
	Holds   func(rune) bool // of text: whether it takes the character; nil: it takes all
	Expr    string          // by which it is read, as JSON; "": as it is stored
	Labels  []string        // of an ENUM or a SET: no other text is legal; nil: any is
	Domain  string          // the type as the database has it where it is a domain
	Low     int64           // the smallest whole number
	High    int64           // the largest; 0: any
	Most    int64           // the largest, where somebody may count that far; 0: a larger one
	Ordinal bool            // its order is not the order of its texts
	Several bool            // a value is made of several: no row is found again by it as text
	Long    bool            // of text: an index has only its beginnings
	Updated bool            // the database sets it itself when the row is written
	Time    *Calendar       // the form of its times, where its type says it; without a zone: in any
	Zero    string          // behind its name: the condition for zero dates, such as [ZeroNumber]; "": it holds none
	As      string          // an expression of the column's type for the argument at its first ?; "": the argument alone is one
}

// Argument is the place of an argument, as the database marks it, as an expression
// that means what the column means where it stands.
func (c *Column) Argument(place string) string {
	if c.As == "" {
		return place
	}
	return strings.Replace(c.As, "?", place, 1)
}

// IsDecimal reports whether the column keeps the digits of numbers, however many
// they are.
func (c *Column) IsDecimal() bool {
	decl := strings.ToLower(c.Decl)
	return strings.HasPrefix(decl, "decimal") || strings.HasPrefix(decl, "numeric")
}

// A Calendar is how a type writes dates and times.
type Calendar = timeform.Calendar

// An Index is one of the table's.
type Index struct {
	Name    string
	Columns []string // "" for an expression
	Down    []bool   // which of the columns are in descending order
	Where   string   // the condition of a partial index; "" for others
	Unique  bool
	Sorted  bool // its order is the order of the columns' whole values
	Hidden  bool // the planner does not use it
}

// Find returns the column of that name; with fold it may be written in another
// case.
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

// Names lists the columns.
func (c *Catalog) Names() string {
	list := strings.Join(c.ColumnNames(), ", ")
	if c.Partial {
		list += ", and such as this user may not read"
	}
	return list
}

// ColumnNames returns the names of the columns.
func (c *Catalog) ColumnNames() []string {
	return Mapped(c.Columns, func(x Column) string { return x.Name })
}

// NoColumn returns the problem of a setting's column that is not there.
func (c *Catalog) NoColumn(setting, table, name string) error {
	return Problemf(mapping.DidYouMean(name, c.ColumnNames(), "the columns are: "+c.Names()), "%s: table %s has no column %q", setting, table, name)
}

// NoTable says in Wrong that the table is not there; the query lists the tables that
// are where it was looked for.
func (c *Catalog) NoTable(ctx context.Context, q Querier, where, set, query string, args ...any) error {
	have, err := Texts(ctx, q, query, args...)
	list := "there are no tables"
	if len(have) > 0 {
		list = "the tables are: " + strings.Join(have, ", ")
	}
	hint := mapping.DidYouMean(c.Name, have, "set "+set+"; `backlog init --create-table` creates it; "+list)
	if schema, name, dotted := strings.Cut(c.Name, "."); dotted {
		hint = "if that is schema and name, write table: {schema: " + mapping.InYAML(schema) + ", name: " + mapping.InYAML(name) + "}; " + hint
	}
	c.Wrong = Problemf(hint, "table %s does not exist in %s", c.Name, where)
	return err
}

// AddIndexes adds the indexes. Each row tells one column of one index, in order: name,
// cond (of a partial index) and col are text, uniq, sorted, hidden and down say yes or
// no.
func (c *Catalog) AddIndexes(rows []Row) {
	for _, r := range rows {
		if n := len(c.Indexes); n == 0 || c.Indexes[n-1].Name != r["name"] {
			c.Indexes = append(c.Indexes, Index{Name: r["name"], Where: r["cond"], Unique: r.Is("uniq"), Sorted: true, Hidden: r.Is("hidden")})
		}
		x := &c.Indexes[len(c.Indexes)-1]
		x.Columns, x.Down, x.Sorted = append(x.Columns, r["col"]), append(x.Down, r.Is("down")), x.Sorted && r.Is("sorted")
	}
	for _, x := range c.Indexes {
		if x.Unique && x.Where == "" && !slices.Contains(x.Columns, "") {
			c.Uniques = append(c.Uniques, x.Columns)
		}
	}
}

// Unique reports whether no two rows can have the same values in the columns.
func (c *Catalog) Unique(cols []string) bool {
	isOther := func(name string) bool { return !slices.Contains(cols, name) }
	return slices.ContainsFunc(c.Uniques, func(u []string) bool { return !slices.ContainsFunc(u, isOther) })
}

// Serving returns the indexes by which rows with one value in each of the columns
// equal come in the given order. A partial index may leave out some of the former,
// which its condition says.
func (c *Catalog) Serving(equal, order []string) (list []Index) {
	for _, x := range append(slices.Clip(c.Indexes), Index{Columns: c.Implied, Down: make([]bool, len(c.Implied)), Sorted: true}) {
		columns, down := x.Columns, x.Down
		for _, name := range c.Implied {
			if !slices.Contains(columns, name) {
				columns, down = append(slices.Clip(columns), name), append(slices.Clip(down), false)
			}
		}
		var n int // columns at its beginning that have one value
		for n < len(columns) && slices.Contains(equal, columns[n]) {
			n++
		}
		rest := slices.DeleteFunc(slices.Clone(order), func(name string) bool { return slices.Contains(columns[:n], name) })
		if x.Hidden || !x.Sorted || x.Where == "" && n < len(equal) || len(columns) < n+len(rest) {
			continue
		}
		if slices.Equal(columns[n:n+len(rest)], rest) && (len(rest) == 0 || !slices.Contains(down[n:n+len(rest)], !down[n])) {
			list = append(list, x)
		}
	}
	return list
}

// floatDigits are those that every float64 has.
const floatDigits = 15

// Typed returns v as a value of the column: nil, bool, int64, float64, decimal or
// string.
func (c *Column) Typed(v mapping.Value) (any, error) {
	value, err := c.converted(v)
	if err != nil {
		return nil, err
	}
	switch x := value.(type) {
	case string:
		parts := []string{x}
		if strings.HasPrefix(c.Decl, "set(") { // any of its labels
			parts = strings.FieldsFunc(x, func(r rune) bool { return r == ',' })
		}
		for _, part := range parts {
			if c.Labels != nil && !slices.Contains(c.Labels, part) {
				return nil, fmt.Errorf("%q is none of the labels of column %s: %s", part, c.Name, strings.Join(c.Labels, ", "))
			}
		}
	case int64:
		if c.High > 0 && (x < c.Low || x > c.High) {
			return nil, fmt.Errorf("%d is out of the range of column %s, which is %s", x, c.Name, c.Decl)
		}
	}
	return value, nil
}

// converted is the value in the column's class.
func (c *Column) converted(v mapping.Value) (any, error) {
	t := strings.TrimSpace(v.Text)
	truth, isTruth := map[string]int64{"true": 1, "false": 0}[strings.ToLower(t)]
	isTruth = isTruth && (!v.Quoted || c.Truth)
	whole, notWhole := strconv.ParseInt(t, 10, 64)
	_, notUnsigned := strconv.ParseUint(t, 10, 64)
	number, isNumber := ParseDecimal(t)
	switch {
	case v.Null:
		return nil, nil
	case c.Class == Textual, c.Class == Bytes, c.Class == Any && v.Quoted:
		return v.Text, nil
	case c.Class == Boolean && (isTruth || t == "0" || t == "1"):
		return truth == 1 || t == "1", nil
	case c.Class != Real && isTruth:
		return truth, nil
	case c.Class != Real && notWhole == nil:
		return whole, nil
	case c.Class == Integer && c.High == math.MaxInt64 && notUnsigned == nil: // the type is unsigned
		return Decimal(t), nil
	case c.Class == Integer:
		return nil, fmt.Errorf("%s is not a whole number, and column %s is %s", v.Text, c.Name, c.Decl)
	case c.Class == Real && !isNumber:
		return nil, fmt.Errorf("%s is not a number, and column %s is %s", v.Text, c.Name, c.Decl)
	case c.Class == Real && c.IsDecimal() && len(strings.Trim(t, "+-0.")) > floatDigits:
		return Decimal(t), nil
	case isNumber:
		return number, nil
	}
	return v.Text, nil
}

// ParseDecimal is strconv.ParseFloat without what is a number to Go alone, such
// as inf, NaN or 0x1p-2: a column may well hold these as words.
func ParseDecimal(s string) (float64, bool) {
	if strings.Trim(s, "+-.0123456789eE") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

// ParseKey returns the key that people write for a row: the bare value of one column, or
// a JSON array of a composite key's. It is an error that the user can mend.
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
			json.Unmarshal(part, &word) // a text without its quotes; else it is as it is written
		}
		var err error
		if values[i], err = columns[i].ParseKey(word); err != nil {
			return backlog.Key{}, err
		}
	}
	return backlog.NewKey(values...), nil
}

// A KeyError says that no row can have the key, whatever the table holds.
type KeyError struct{ error }

// NotAKey is the *KeyError for keys that have a type of the database's own, which it
// alone can read.
func NotAKey(table string, columns []*Column, k backlog.Key) error {
	types := Mapped(columns, func(c *Column) string { return "column " + c.Name + " is " + c.Decl })
	return &KeyError{fmt.Errorf("%q is not a key of table %s: %s", k, table, strings.Join(types, ", "))}
}

// ParseKey returns the value of the column that people write in a key.
func (c *Column) ParseKey(text string) (any, error) {
	if c.Class == Bytes || strings.Contains(strings.ToUpper(c.Decl), "BLOB") {
		if b, err := base64.StdEncoding.DecodeString(text); err == nil {
			return b, nil
		} else if c.Class == Bytes {
			return nil, fmt.Errorf("%q is not base64, as which the BLOB column %s is written", text, c.Name)
		}
	}
	v, err := c.Typed(mapping.Value{Text: text, Quoted: c.Class != Any})
	if d, ok := v.(Decimal); ok {
		return string(d), nil // as the store has it
	}
	return v, err
}

// AtMost is the number as the column can hold it: what waits no longer for a larger one
// need not be told from it.
func (c *Column) AtMost(n int) int64 {
	return min(int64(n), cmp.Or(c.Most, math.MaxInt64))
}

// OneMore is an expression that counts the column one up, but not beyond what it holds:
// an outcome must not fail to be written for a count.
func (c *Column) OneMore(quoted string) string {
	expr := "coalesce(" + quoted + ", 0) + 1"
	if c.Most > 0 {
		return fmt.Sprintf("least(%s, %d)", expr, c.Most)
	}
	return expr
}

// Counted is the condition that the column, which counts up from 0 or NULL, has come to n,
// with its arguments.
func (c *Column) Counted(quoted string, n int) (cond string, args []any) {
	if n > 0 {
		return quoted + " = ?", []any{int64(n)}
	}
	cond = quoted + " <= 0"
	if !c.NotNull {
		cond = "(" + quoted + " IS NULL OR " + cond + ")"
	}
	return cond, nil
}

// Fit returns what the column can hold of a text that somebody else has
// worded.
func (c *Column) Fit(s string) string {
	s = Cut(s, c.Length, c.Octets)
	if c.Holds == nil {
		return s
	}
	return strings.Map(func(r rune) rune {
		if c.Holds(r) {
			return r
		}
		return '?'
	}, s)
}

// Cut returns the text as a column can hold it: valid UTF-8 without NULs, of at
// most so many characters and so many bytes; 0: no limit but a sane one.
func Cut(s string, characters, octets int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	left, octets := cmp.Or(characters, 64<<10), cmp.Or(octets, len(s))
	for i, r := range s {
		if left == 0 || i+utf8.RuneLen(r) > octets {
			return s[:i]
		}
		left--
	}
	return s
}

// ForHandler returns the value as the handler is given it.
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
