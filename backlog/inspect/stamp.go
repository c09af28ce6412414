package inspect

import "time"

// A Stamp is a time in JSON: RFC 3339 in UTC, null for the zero time and for years that
// RFC 3339 does not have.
type Stamp time.Time

// MarshalJSON implements [json.Marshaler].
func (s Stamp) MarshalJSON() ([]byte, error) {
	t := time.Time(s).UTC()
	if t.IsZero() || t.Year() < 0 || t.Year() > 9999 {
		return []byte("null"), nil
	}
	return t.MarshalJSON()
}

// String returns the time as people read it.
func (s Stamp) String() string {
	if time.Time(s).IsZero() {
		return "-"
	}
	return time.Time(s).UTC().Format("2006-01-02 15:04:05 MST")
}
