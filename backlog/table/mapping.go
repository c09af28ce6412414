package table

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Mapping says how a table is to be understood: which columns mean what, and
// which conditions and assignments stand for the states of a record.
type Mapping struct {
	Schema, Name string
	ID           []string // the key's columns
	Status       string   // the column that the Values of the states belong to
	Inserted     Time
	Eligible     *Time // not before; NULL: at once
	Expires      *Time // not after; NULL: never
	Where        []Condition
	Touch        []Assignment // written whenever a record is
	Attempts     string       // counted up at an attempt; empty: none
	LastError    string       // the error's text; empty: none
	Columns      []string     // what the handler is given; nil: every column

	New, Error, Success, Dead State

	Retry *Retry // what a policy keeps in the row; nil: nothing

	Zone *time.Location // of time columns without one; nil: UTC, as far as that is no guess, see [Table.ProveTimes]
}

// A Time is a column that holds a point in time.
type Time struct {
	Column string
	As     string         // native, unix_s, unix_ms, unix_us, julian or text:<layout>; empty: found out from the rows
	Zone   *time.Location // nil: the mapping's
	Null   string         // what NULL means: skip, oldest or newest; empty: skip, for Eligible at once and for Expires never
	Zero   string         // what a zero date means, likewise
	Keep   bool           // write the column back unchanged at settlement, against ON UPDATE
}

// A Retry names the columns of a policy and says what is due by them.
type Retry struct {
	Count, Last string
	// Of a planned policy, which is due by Next alone; empty: a counted one.
	Next, InRetry string

	// Waits are those of a counted policy by the number of failures, from 0
	// on; the last is that of more.
	Waits   []time.Duration
	Retries int // records that have failed more often are never due; negative: no end
}

// A Value is a scalar as its author wrote it; the column's type decides what
// it becomes.
type Value struct {
	Text   string
	Null   bool
	Quoted bool // a quoted now or +1 is text
}

// A Condition holds when the column equals one of the values; Null is IS NULL.
type Condition struct {
	Column string
	Values []Value
}

// An Assignment sets a column to a value, to the time of the settlement (now)
// or to one more than it was (+1).
type Assignment struct {
	Column string
	Value  Value
}

// A State is a condition and an assignment. Values are the shorthand: the
// status column equals one of them, and is set to the first.
type State struct {
	Values []Value
	When   []Condition
	Set    []Assignment
	Keep   bool // the row keeps the state it has
	Given  bool // the author named the state; a default that the table cannot hold is said to be one
}

func (s State) isZero() bool {
	return len(s.Values) == 0 && len(s.When) == 0 && len(s.Set) == 0 && !s.Keep
}

// A Problem is why a table cannot be worked as it is, and what to do.
type Problem struct {
	What string
	Cure string // may be empty
}

func (p *Problem) Error() string {
	if p.Cure == "" {
		return p.What
	}
	return p.What + "; " + p.Cure
}

func problem(cure, format string, args ...any) error {
	return &Problem{What: fmt.Sprintf(format, args...), Cure: cure}
}

// A class is what a column can hold, as far as literals are concerned.
type class int

const (
	classAny class = iota // any value, as it was written
	classText
	classInteger
	classReal
	classNumeric // numbers become numbers, other text stays
	classBoolean
	classBlob
)

// A column is one of the catalogue's.
type column struct {
	name      string
	decl      string // the type as declared
	class     class
	length    int // of text, in characters; 0: no limit
	notNull   bool
	generated bool
	json      bool

	octets int             // of text, in bytes of UTF-8 at most; 0: no limit
	holds  func(rune) bool // of text: whether it takes the character; nil: it takes all

	element  string   // of an array: the type of its elements; "" for other types
	labels   []string // of an ENUM: no other text is legal; nil: any is
	unsigned bool     // no number below 0 is legal
	bits     int      // of a whole number, where the database takes no larger one; 0: 64
	most     int64    // the largest whole number, where somebody may count that far; 0: a larger one
	updated  bool     // the database sets it itself when the row is written
}

// typed returns v as a value of the column: nil, bool, int64, float64, decimal or
// string.
func (c *column) typed(v Value) (any, error) {
	value, err := c.converted(v)
	if err != nil {
		return nil, err
	}
	switch x := value.(type) {
	case string:
		if c.labels != nil && !slices.Contains(c.labels, x) {
			return nil, fmt.Errorf("%q is none of the labels of column %s: %s", x, c.name, strings.Join(c.labels, ", "))
		}
	case int64:
		if c.unsigned && x < 0 {
			return nil, fmt.Errorf("%d is below 0, and column %s is %s", x, c.name, c.decl)
		}
	}
	return value, nil
}

// converted is the value in the column's class.
func (c *column) converted(v Value) (any, error) {
	if v.Null {
		return nil, nil
	}
	t := strings.TrimSpace(v.Text)
	truth, isTruth := map[string]int64{"true": 1, "false": 0}[strings.ToLower(t)]
	isTruth = isTruth && !v.Quoted
	switch c.class {
	case classText, classBlob:
		return v.Text, nil
	case classInteger:
		if n, err := strconv.ParseInt(t, 10, 64); err == nil {
			return n, nil
		}
		if isTruth {
			return truth, nil
		}
		return nil, fmt.Errorf("%s is not a whole number, and column %s is %s", v.Text, c.name, c.decl)
	case classReal:
		if f, ok := parseDecimal(t); ok {
			if c.isDecimal() && len(strings.Trim(t, "+-0.")) > floatDigits {
				return decimal(t), nil
			}
			return f, nil
		}
		return nil, fmt.Errorf("%s is not a number, and column %s is %s", v.Text, c.name, c.decl)
	case classBoolean:
		if isTruth || t == "0" || t == "1" {
			return truth == 1 || t == "1", nil
		}
		if n, ok := parseNumber(t); ok {
			return n, nil
		}
		return v.Text, nil
	case classNumeric:
		if isTruth {
			return truth, nil
		}
		if n, ok := parseNumber(t); ok {
			return n, nil
		}
		return v.Text, nil
	default:
		if v.Quoted {
			return v.Text, nil
		}
		if isTruth {
			return truth, nil
		}
		if n, ok := parseNumber(t); ok {
			return n, nil
		}
		return v.Text, nil
	}
}

// A decimal is a number with more digits than a float64 keeps apart from others,
// as it was written.
type decimal string

// floatDigits are those that every float64 has.
const floatDigits = 15

// isDecimal reports whether the column keeps the digits of numbers, however many
// they are.
func (c *column) isDecimal() bool {
	decl := strings.ToLower(c.decl)
	return strings.HasPrefix(decl, "decimal") || strings.HasPrefix(decl, "numeric")
}

// parseNumber returns the int64 or float64 that s is to a database.
func parseNumber(s string) (any, bool) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, true
	}
	if f, ok := parseDecimal(s); ok {
		return f, true
	}
	return nil, false
}

// parseDecimal is strconv.ParseFloat without what is a number to Go alone, such
// as inf, NaN or 0x1p-2: a column may well hold these as words.
func parseDecimal(s string) (float64, bool) {
	if strings.Trim(s, "+-.0123456789eE") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

// A catalog is what the database says about the table.
type catalog struct {
	kind     string // "table" or "view"
	schema   string // in which it is, where somebody else may find another of its name
	columns  []column
	partial  bool         // there may be columns that this user may not see
	uniques  [][]string   // sets of columns without duplicates
	triggers []string     // that run at updates
	indexes  []mysqlIndex // of which its planner has to be told
	wrong    error        // why the table cannot be worked, though it is there; nil: nothing is known
}

// find returns the column of that name. Names are compared as the database
// does, so that the mapping may be written in another case.
func (c *catalog) find(name string, fold bool) *column {
	for i := range c.columns {
		if c.columns[i].name == name {
			return &c.columns[i]
		}
	}
	if fold {
		for i := range c.columns {
			if strings.EqualFold(c.columns[i].name, name) {
				return &c.columns[i]
			}
		}
	}
	return nil
}

func (c *catalog) names() string {
	names := make([]string, len(c.columns))
	for i := range c.columns {
		names[i] = c.columns[i].name
	}
	if c.partial {
		return strings.Join(names, ", ") + ", and such as this user may not read"
	}
	return strings.Join(names, ", ")
}

// unique reports whether no two rows can have the same values in cols.
func (c *catalog) unique(cols []string) bool {
	for _, u := range c.uniques {
		if !slices.ContainsFunc(u, func(name string) bool { return !slices.Contains(cols, name) }) {
			return true
		}
	}
	return false
}
