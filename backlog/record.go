package backlog

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"backlog/backlog/key"
)

// A Lane is one of the two queues a pass walks: first the records never
// tried, then those that failed, so that a new record waits behind no failed
// one.
type Lane int

const (
	Fresh  Lane = iota // pending, never tried
	Failed             // pending, tried and failed
)

// String returns "fresh" or "failed".
func (l Lane) String() string { return [...]string{"fresh", "failed"}[l] }

// A Key identifies one record, a Cursor is a place in a lane's order.
type (
	Key    = key.Key
	Cursor = key.Cursor
)

// NewKey returns the key made of the given parts, at least one.
func NewKey(parts ...any) Key { return key.New(parts...) }

// A Record is a pending row of the user's table as one pass read it. It
// belongs to the store that made it until it is handed to a Handler, which
// must not change it.
type Record struct {
	Key      Key
	Status   string    // the status column as text; "new" or "error" where the table has none
	Inserted time.Time // zero where the column is NULL or a zero date
	Lane     Lane

	// Names and Values are the columns that the handler is given, in the
	// order of the configuration. Names is shared by all records of a page.
	// A value is nil, bool, int64, float64, string, []byte or
	// json.RawMessage.
	Names  []string
	Values []any

	Failures Failures // what the row remembers, where a policy keeps something there
	Refresh  *Refresh // likewise, under the refresh policy; nil under others

	Tier      string // label of the tier or max age whose pass took the record
	AttemptID string // unique to this attempt; the engine sets it

	// For [Engine.OnDead]: why the record is dead, one of the Reason
	// constants, and the text of its last error, empty where it expired.
	Reason string
	Error  string

	Cursor Cursor // the record's place in its lane
	Origin int    // the store's own: which of its conditions the row met
}

// Why a record is dead.
const (
	ReasonRejected = "rejected"       // its handler said that trying again is useless
	ReasonRetries  = "out of retries" // the policy gave it up
	ReasonExpired  = "expired"        // it is older than every tier, or past its own time
)

// Column returns the value of the named column and whether the record has it.
func (r *Record) Column(name string) (any, bool) {
	if i := slices.Index(r.Names, name); i >= 0 {
		return r.Values[i], true
	}
	return nil, false
}

// ColumnsJSON returns the columns as one JSON object under their own names,
// in the order of the configuration. A []byte is a base64 string.
func (r *Record) ColumnsJSON() ([]byte, error) { return r.AppendColumnsJSON(nil) }

// AppendColumnsJSON appends what ColumnsJSON returns.
func (r *Record) AppendColumnsJSON(b []byte) ([]byte, error) {
	b = append(b, '{')
	for i, name := range r.Names {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendJSON(b, name); err != nil {
			return nil, err
		}
		if b, err = appendJSON(append(b, ':'), r.Values[i]); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// appendJSON appends what json.Marshal returns, quicker for most values: each
// column of each record comes through here.
func appendJSON(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case string:
		if isPlain(v) {
			return append(append(append(b, '"'), v...), '"'), nil
		}
	}
	text, err := json.Marshal(v)
	return append(b, text...), err
}

// isPlain reports whether the text stands in JSON as it is.
func isPlain(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ' || c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

// A RowState is the state that a row is in.
type RowState int

const (
	RowNew RowState = iota
	RowError
	RowSuccess
	RowDead
	RowOther // none of those configured
)

// String returns the configuration's word: "new", "error", "success", "dead";
// or "other".
func (s RowState) String() string {
	return [...]string{"new", "error", "success", "dead", "other"}[s]
}
