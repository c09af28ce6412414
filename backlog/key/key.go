// Package key identifies records: a [Key] has the values of a record's key columns, and a
// [Cursor] is a place in the order of a lane.
package key

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Key identifies one record. It has the values of the table's key columns as the
// database gave them (int64, float64, string or []byte), in the order of the
// configuration. The engine never looks inside. The zero Key identifies
// nothing. The slices that a Key was made of must not be changed afterwards.
type Key struct{ parts []any }

// New returns the key made of the given parts, at least one. It keeps the slice.
func New(parts ...any) Key { return Key{parts} }

// Len returns the number of parts, 0 for the zero Key.
func (k Key) Len() int { return len(k.parts) }

// Part returns part i, 0 <= i < Len.
func (k Key) Part(i int) any { return k.parts[i] }

// IsZero reports whether k identifies nothing.
func (k Key) IsZero() bool { return len(k.parts) == 0 || k.parts[0] == nil }

// String returns the key as people and handlers see it: the bare value of a
// single key (base64 if it is a BLOB), or a JSON array of a composite one.
func (k Key) String() string {
	if k.Len() == 1 {
		switch v := forJSON(k.parts[0]).(type) {
		case string:
			return v
		case []byte:
			return base64.StdEncoding.EncodeToString(v)
		}
	}
	b, err := k.MarshalJSON()
	if err != nil {
		return fmt.Sprint(k.parts...)
	}
	return string(b)
}

// MarshalJSON writes the bare value of a single key, or an array of a composite
// one. BLOBs are base64 strings, infinite numbers are "+Inf" and "-Inf".
func (k Key) MarshalJSON() ([]byte, error) {
	switch k.Len() {
	case 0:
		return []byte("null"), nil
	case 1:
		return json.Marshal(forJSON(k.parts[0]))
	}
	var parts []any
	for _, part := range k.parts {
		parts = append(parts, forJSON(part))
	}
	return json.Marshal(parts)
}

// forJSON returns the part as JSON can represent it: JSON has only finite numbers.
func forJSON(part any) any {
	if f, ok := part.(float64); ok && (math.IsInf(f, 0) || math.IsNaN(f)) {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return part
}

var keySeed = maphash.MakeSeed()

// Hash returns a 64-bit hash of the key, a different one in each process.
func (k Key) Hash() uint64 {
	if len(k.parts) == 1 {
		if n, ok := k.parts[0].(int64); ok {
			return maphash.Comparable(keySeed, n)
		}
	}
	var h maphash.Hash
	h.SetSeed(keySeed)
	for _, part := range k.parts {
		maphash.WriteComparable(&h, toTyped(part)) // 1, "1" and ("1", "") are different keys
	}
	return h.Sum64()
}

// Compare orders keys part by part. A key that is the beginning of another comes before it.
func (k Key) Compare(other Key) int {
	return slices.CompareFunc(k.parts, other.parts, compareParts)
}

// compareParts orders also parts of different types: numbers, text, bytes, as SQLite does.
func compareParts(a, b any) int {
	if c := cmp.Compare(typeRank(a), typeRank(b)); c != 0 {
		return c
	}
	switch a := a.(type) {
	case int64:
		return cmp.Compare(a, b.(int64))
	case float64:
		return cmp.Compare(a, b.(float64))
	case string:
		return strings.Compare(a, b.(string))
	default:
		return bytes.Compare(a.([]byte), b.([]byte))
	}
}

func typeRank(part any) int {
	switch part.(type) {
	case int64:
		return 0
	case float64:
		return 1
	case string:
		return 2
	}
	return 3
}

// A Cursor is a place in a lane's order: just behind the record that it was made
// of, or just before it. Only the store that made it can interpret it. It can be
// stored as JSON, so that a later process goes on from it. The zero Cursor is the
// place before the first record.
type Cursor struct {
	Segment int  // which of the store's successive queries; its meaning is the store's own
	Order   any  // the value that the lane is ordered by, as stored
	Key     Key  // orders records with the same value
	Before  bool // the place is before the record, not behind it
}

// IsZero reports whether c is the place before the first record.
func (c Cursor) IsZero() bool { return c.Key.IsZero() }

// MarshalJSON writes the cursor with the types of its values, because plain
// JSON would lose an integer above 2^53 or a BLOB.
func (c Cursor) MarshalJSON() ([]byte, error) {
	if c.IsZero() {
		return []byte("null"), nil
	}
	w := cursorJSON{Segment: c.Segment, Order: toTyped(c.Order), Before: c.Before}
	for _, part := range c.Key.parts {
		w.Key = append(w.Key, toTyped(part))
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (c *Cursor) UnmarshalJSON(b []byte) error {
	var w cursorJSON
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	if len(w.Key) == 0 { // null, too
		*c = Cursor{}
		return nil
	}
	order, err := w.Order.value()
	if err != nil {
		return err
	}
	var parts []any
	for _, t := range w.Key {
		part, err := t.value()
		if err != nil || part == nil {
			return cmp.Or(err, errors.New("cursor with an empty key part"))
		}
		parts = append(parts, part)
	}
	*c = Cursor{Segment: w.Segment, Order: order, Key: New(parts...), Before: w.Before}
	return nil
}

type cursorJSON struct {
	Segment int     `json:"segment"`
	Order   typed   `json:"order"`
	Key     []typed `json:"key"`
	Before  bool    `json:"before,omitempty"`
}

// typed is a database value with its type's first letter.
type typed struct {
	Type  string `json:"t"`
	Value string `json:"v,omitempty"`
}

func toTyped(v any) typed {
	switch v := v.(type) {
	case nil:
		return typed{Type: "null"}
	case int64:
		return typed{"int", strconv.FormatInt(v, 10)}
	case float64:
		return typed{"real", strconv.FormatFloat(v, 'x', -1, 64)}
	case []byte:
		return typed{"blob", base64.StdEncoding.EncodeToString(v)}
	case string:
		// Base64, because a TEXT column may hold bytes that are not UTF-8.
		return typed{"text", base64.StdEncoding.EncodeToString([]byte(v))}
	default:
		return typed{"text", base64.StdEncoding.EncodeToString(fmt.Append(nil, v))}
	}
}

func (t typed) value() (any, error) {
	switch t.Type {
	case "null":
		return nil, nil
	case "int":
		return strconv.ParseInt(t.Value, 10, 64)
	case "real":
		return strconv.ParseFloat(t.Value, 64)
	case "blob":
		return base64.StdEncoding.DecodeString(t.Value)
	case "text":
		b, err := base64.StdEncoding.DecodeString(t.Value)
		return string(b), err
	}
	return nil, fmt.Errorf("cursor with a value of unknown type %q", t.Type)
}
