package memory

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"

	"backlog/backlog"
)

// checkKey returns an error unless a database could have given the key: an
// int, say, would come out of a cursor's trip through JSON as another type.
func checkKey(k backlog.Key) error {
	if k.IsZero() {
		return errors.New("the key is empty")
	}
	for i := range k.Len() {
		switch part := k.Part(i).(type) {
		case int64, float64, string, []byte:
		default:
			return fmt.Errorf("key part of type %T, not int64, float64, string or []byte", part)
		}
	}
	return nil
}

// An encodedKey stands for a key whose parts cannot be a map's key.
type encodedKey string

// mapKey returns what stands for k as a map's key. The common keys stand for
// themselves, which takes no memory.
func mapKey(k backlog.Key) any {
	if k.Len() == 1 {
		switch v := k.Part(0).(type) {
		case int64, float64, string:
			return v
		}
	}
	var b []byte
	for i := range k.Len() {
		b = fmt.Appendf(b, "%T%#v", k.Part(i), k.Part(i))
	}
	return encodedKey(b)
}

// compareKeys compares part by part; a key that begins another comes before
// it.
func compareKeys(a, b backlog.Key) int {
	for i := range min(a.Len(), b.Len()) {
		if c := compareParts(a.Part(i), b.Part(i)); c != 0 {
			return c
		}
	}
	return cmp.Compare(a.Len(), b.Len())
}

// compareParts orders parts of different types too, so that the order is
// total: numbers, text, bytes, as SQLite has them.
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
