package backlog

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"backlog/backlog/key"
	"backlog/backlog/plan"
)

// A Lane is one of the two queues a pass walks, see package backlog/backlog/plan.
type Lane = plan.Lane

const (
	Fresh  = plan.Fresh  // pending, never tried
	Failed = plan.Failed // pending, tried and failed
)

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

	// Identity names the record for receivers, beyond all other records that they are sent;
	// nil: the table's name and Key do.
	Identity []string

	// Names and Values are the columns that the handler is given, in the
	// order of the configuration. Names is shared by all records of a page.
	// A value is nil, bool, int64, float64, string, []byte or
	// json.RawMessage.
	Names  []string
	Values []any

	Attempts int     // that the row counts, where the store has a column for them; -1: it has none, or no number
	Memory   *Memory // what the row remembers; nil where the policy keeps nothing there

	Tier      string // label of the tier or max age whose pass took the record
	AttemptID string // unique to this attempt; the engine sets it

	// For [Engine.OnDead]: why the record is dead, one of the Reason
	// constants, and the text of its last error, empty where it expired.
	Reason string
	Error  string

	Alert bool // no row: a handler is told the columns alone

	Cursor Cursor // the record's place in its lane
	Origin int    // the store's own: which of its conditions the row met
	Exact  bool   // its outcome may have been written before: it counts only where Attempts and Memory.Failures are as they were read, too
	Unsure bool   // the store's own: a commit broke, and nobody knows whether it has written the outcome
}

// Why a record is dead.
const (
	ReasonRejected = "rejected"       // its handler said that trying again is useless
	ReasonRetries  = "out of retries" // the policy gave it up
	ReasonExpired  = "expired"        // it is older than every tier, or past its own time

	ReasonDiscarded = "discarded" // somebody gave it up
)

// Column returns the value of the named column and whether the record has it.
func (r *Record) Column(name string) (any, bool) {
	if i := slices.Index(r.Names, name); i >= 0 {
		return r.Values[i], true
	}
	return nil, false
}

// Told returns what handlers are told of a record beside its columns, by the names that
// docs/lines.md explains, attempt_id first. Values are texts, a number, the Key, or nil.
func (r *Record) Told() (names []string, values []any) {
	if r.Alert {
		return r.Names, r.Values
	}
	names = []string{"attempt_id", "id", "status", "inserted", "tier"}
	values = []any{r.AttemptID, r.Key, r.Status, nil, r.Tier}
	if !r.Inserted.IsZero() {
		values[3] = TimeText(r.Inserted)
	}
	if s := r.Memory; s.tellsOfAttempts() {
		names = append(names, "attempt_uid", "attempt_no", "deadline")
		values = append(values, r.AttemptID, s.AttemptNo, TimeText(s.Deadline))
	}
	if r.Reason != "" {
		names, values = append(names, "reason", "error"), append(values, r.Reason, r.Error)
		if r.Memory.tellsOfAttempts() {
			names, values = append(names, "disabled_reason"), append(values, r.Memory.Reason)
		}
	}
	return names, values
}

// TimeText returns a time as handlers are told it: RFC 3339 in UTC, empty if there is none.
func TimeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
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
		quoted, _ := json.Marshal(name) // as every text can be
		value, err := json.Marshal(r.Values[i])
		if err != nil {
			return nil, fmt.Errorf("the record cannot be written as JSON: %w", err)
		}
		b = append(append(append(b, quoted...), ':'), value...)
	}
	return append(b, '}'), nil
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
