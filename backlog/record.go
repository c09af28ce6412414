package backlog

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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

// A Record is a pending row of the user's table as one pass read it. A
// Handler must not change it.
type Record struct {
	Key      Key
	Status   string    // the status column as text; "new" or "error" if the table has none
	Inserted time.Time // zero where the column is NULL or a zero date
	Lane     Lane

	// Identity distinguishes the record from all others that a receiver gets, of any table.
	// Nil: the table's name and Key do.
	Identity []string

	// Names and Values are the columns that the handler is given, in the
	// order of the configuration. All records of a page share Names.
	// A value is nil, bool, int64, float64, string, []byte or
	// json.RawMessage.
	Names  []string
	Values []any

	Attempts int     // what the row's column of attempts says; -1: it has none, or no number
	Memory   *Memory // what the row remembers; nil: the policy keeps nothing there

	Tier      string // label of the tier or max age whose pass took the record
	AttemptID string // unique to this attempt; the engine sets it

	// Traceparent is the W3C Trace Context header of that name for the handler's calls of other
	// services; the engine sets it. "": none.
	Traceparent string

	// For [Engine.OnDead]: why the record is dead, one of the Reason
	// constants, and the text of its last error, empty where it expired.
	Reason string
	Error  string

	Alert bool // it is not a row: a handler is given its columns alone

	Cursor Cursor // the record's place in its lane
	Origin int    // the store's own: which of its conditions the row met
	Exact  bool   // its outcome may have been written before: Settle compares Attempts and Memory.Failures, too
	Unsure bool   // the store's own: the connection broke at the commit, and the outcome may be written
}

// Why a record is dead.
const (
	ReasonRejected = "rejected"       // its handler said that trying again is useless
	ReasonRetries  = "out of retries" // the policy gave it up
	ReasonExpired  = "expired"        // it is older than every tier, or past its own time of expiry

	ReasonDiscarded = "discarded" // a person gave it up
)

// Column returns the value of the named column, and whether the record has that column.
func (r *Record) Column(name string) (any, bool) {
	if i := slices.Index(r.Names, name); i >= 0 {
		return r.Values[i], true
	}
	return nil, false
}

// Traceparent returns the value of the W3C Trace Context header traceparent, level 1, for an
// attempt. The trace id and the parent id are the first 16 bytes and the next 8 bytes of the
// SHA-256 of the attempt's id, so that the log's attempt_id leads to the trace. All bits of a
// digest look random, as samplers by trace id assume; neither id is ever all zeros in practice.
//
// sampled is the header's flag: services are asked to record the trace.
func Traceparent(attemptID string, sampled bool) string {
	sum := sha256.Sum256([]byte(attemptID))
	flags := 0
	if sampled {
		flags = 1
	}
	return fmt.Sprintf("00-%x-%x-%02x", sum[:16], sum[16:24], flags)
}

// TraceID returns the trace id in Traceparent, "" if the record has none.
func (r *Record) TraceID() string {
	_, rest, _ := strings.Cut(r.Traceparent, "-")
	id, _, _ := strings.Cut(rest, "-")
	return id
}

// HandlerFields returns what handlers are given of a record in addition to its columns, by the
// names that docs/lines.md explains, attempt_id first. A value is a string, an int, the Key or
// nil. Of an alert it returns the columns alone.
func (r *Record) HandlerFields() (names []string, values []any) {
	if r.Alert {
		return r.Names, r.Values
	}
	names = make([]string, 0, 12)
	values = make([]any, 0, 12)
	add := func(name string, value any) {
		names = append(names, name)
		values = append(values, value)
	}
	var inserted any
	if !r.Inserted.IsZero() {
		inserted = TimeText(r.Inserted)
	}
	add("attempt_id", r.AttemptID)
	add("id", r.Key)
	add("status", r.Status)
	add("inserted", inserted)
	add("tier", r.Tier)
	if r.Traceparent != "" {
		add("traceparent", r.Traceparent)
	}
	if r.Memory.hasAttempts() {
		add("attempt_uid", r.AttemptID)
		add("attempt_no", r.Memory.AttemptNo)
		add("deadline", TimeText(r.Memory.Deadline))
	}
	if r.Reason != "" {
		add("reason", r.Reason)
		add("error", r.Error)
		if r.Memory.hasAttempts() {
			add("disabled_reason", r.Memory.Reason)
		}
	}
	return names, values
}

// TimeText returns a time as handlers are given it: RFC 3339 in UTC, empty for the zero time.
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
		quoted, _ := json.Marshal(name) // a string has no error
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

// rowStates are the names of states.
var rowStates = [...]string{
	RowNew:     "new",
	RowError:   "error",
	RowSuccess: "success",
	RowDead:    "dead",
	RowOther:   "other",
}

// String returns the configuration's word: "new", "error", "success", "dead";
// or "other".
func (s RowState) String() string { return rowStates[s] }

// After returns the state whose status a row gets when its attempt has ended with the target s.
// While another start is planned, a success makes the row new again, and no row is dead.
func (s RowState) After(startsAgain bool) RowState {
	switch {
	case s == RowSuccess && startsAgain:
		return RowNew
	case s == RowDead && startsAgain:
		return RowError
	}
	return s
}
