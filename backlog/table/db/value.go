package db

import (
	"cmp"
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
)

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
	isTruth = isTruth && !v.Quoted
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
		word, err := string(part), error(nil)
		if len(columns) > 1 && word != "null" {
			json.Unmarshal(part, &word) // a text without its quotes; else it is as it is written
		}
		if values[i], err = columns[i].ParseKey(word); err != nil {
			return backlog.Key{}, err
		}
	}
	return backlog.NewKey(values...), nil
}

// A KeyError says that no row can have the key, whatever the table holds.
type KeyError struct{ text string }

func (e *KeyError) Error() string { return e.text }

// NotAKey is the *KeyError for keys that have a type of the database's own, which it
// alone can read.
func NotAKey(table string, columns []*Column, k backlog.Key) error {
	types := Mapped(columns, func(c *Column) string { return "column " + c.Name + " is " + c.Decl })
	return &KeyError{fmt.Sprintf("%q is not a key of table %s: %s", k, table, strings.Join(types, ", "))}
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
