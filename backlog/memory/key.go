package memory

import (
	"errors"
	"fmt"

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
