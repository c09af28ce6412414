package amqp

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
)

// columns are the columns of a message's record. A body that is not valid UTF-8 is in the column
// body_base64.
var (
	columns       = []string{"id", "attempt", "routing_key", "redelivered", "properties", "headers", "body"}
	binaryColumns = append(columns[:6:6], "body_base64")
)

// recordOf returns the message as a record. Its Status is "new", or "error" if the message has
// failed before, by the headers that the Ruby handler counts with. Its key is the publisher's
// message_id, which another message may have as well; its Identity is unique.
func (s *Settings) recordOf(d *amqp.Delivery, i identity) backlog.Record {
	n := failureCount(d.Headers)
	id := cmp.Or(d.MessageId, i.String())
	rec := backlog.Record{
		Key:      backlog.NewKey(id),
		Status:   backlog.RowNew.String(),
		Inserted: d.Timestamp,
		Memory:   &backlog.Memory{Failures: n},
		Identity: []string{s.Queue, i.String()},
		Names:    columns,
		Values:   []any{id, int64(n) + 1, originalKey(d), d.Redelivered, asJSON(properties(d)), asJSON(jsonField(d.Headers)), string(d.Body)},
	}
	if d.MessageId != "" {
		rec.Identity = []string{s.Queue, d.MessageId, i.String()}
	}
	if n > 0 {
		rec.Status = backlog.RowError.String()
	}
	if !utf8.Valid(d.Body) {
		rec.Names = binaryColumns
		rec.Values[6] = d.Body
	}
	return rec
}

// Body returns the unchanged body of the message that became the record r.
func Body(r *backlog.Record) []byte {
	switch body := r.Values[len(r.Values)-1].(type) {
	case string:
		return []byte(body)
	case []byte:
		return body
	}
	return nil
}

// asJSON encodes a value, or else its text.
func asJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		b, _ = json.Marshal(fmt.Sprint(v))
	}
	return b
}

// jsonField returns a field of the headers with every number that JSON does not have as a text.
func jsonField(v any) any { return mapField(v, finite) }

// finite returns NaN and the infinities as texts, and every other value as it is.
func finite(v any) any {
	switch v := v.(type) {
	case float32:
		return finite(float64(v))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprint(v)
		}
	}
	return v
}

// mapField returns a field of the headers in which f has replaced each value at every depth that
// is neither a table nor a list.
func mapField(v any, f func(any) any) any {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i, field := range v {
			list[i] = mapField(field, f)
		}
		return list
	case map[string]any:
		return mapField(amqp.Table(v), f)
	case amqp.Table:
		if v == nil {
			return nil
		}
		t := make(amqp.Table, len(v))
		for name, field := range v {
			t[name] = mapField(field, f)
		}
		return t
	}
	return f(v)
}

// properties returns the message's properties by their names in AMQP, without the headers and
// without zero values.
func properties(d *amqp.Delivery) map[string]any {
	all := map[string]any{
		"content_type": d.ContentType, "content_encoding": d.ContentEncoding, "correlation_id": d.CorrelationId, "reply_to": d.ReplyTo,
		"expiration": d.Expiration, "message_id": d.MessageId, "type": d.Type, "user_id": d.UserId, "app_id": d.AppId,
		"priority": d.Priority, "delivery_mode": d.DeliveryMode,
	}
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == "" || v == uint8(0) })
	if !d.Timestamp.IsZero() {
		all["timestamp"] = d.Timestamp.UTC().Format(time.RFC3339)
	}
	return all
}

// asInteger returns an integer of a header as int64, since brokers and clients change its width. It
// returns nil for other values.
func asInteger(v any) any {
	switch n := reflect.ValueOf(v); {
	case n.CanInt():
		return n.Int()
	case n.CanUint():
		return int64(n.Uint())
	}
	return nil
}

// failureCount returns how often the message has failed, by the header count. Without an integer
// backoff, which the Ruby handler and this one write together with it, count is a header of the
// publisher.
func failureCount(headers amqp.Table) int {
	n, counted := asInteger(headers["count"]).(int64)
	_, isRetry := asInteger(headers["backoff"]).(int64)
	if isRetry && counted && n > 0 {
		return int(min(n, 1_000_000))
	}
	return 0
}

// droppedHeaders are headers that [copyMessage] leaves out; [isAddedHeader] knows more.
var droppedHeaders = append([]string{"CC", "BCC", "x-death", "x-delivery-count", "x-acquired-count"}, retryHeaderNames...)

// copyMessage returns the message as it is published again, with its properties and headers. It
// leaves out what would route the copy elsewhere or expire it, and what the broker or a retry
// has added.
func copyMessage(d *amqp.Delivery) amqp.Publishing {
	headers := make(amqp.Table)
	maps.Copy(headers, d.Headers)
	maps.DeleteFunc(headers, func(name string, _ any) bool { return isAddedHeader(name) && name != retryInfo })
	maps.Copy(headers, publisherHeaders(d.Headers))
	return amqp.Publishing{
		Headers: headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, Priority: d.Priority,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, MessageId: d.MessageId, Timestamp: d.Timestamp,
		Type: d.Type, AppId: d.AppId, Body: d.Body,
	}
}

// retryMessage returns the message as it is published to come back to its queue. Headers keep the
// publisher's headers that a retry overwrites, and the original routing key if the message
// comes back by another one.
func (s *Settings) retryMessage(d *amqp.Delivery) amqp.Publishing {
	p := copyMessage(d)
	if saved := publisherHeaders(d.Headers); len(saved) > 0 {
		p.Headers[savedHeadersHeader] = saved
	}
	if key := originalKey(d); s.retryKey(key) != key {
		p.Headers[originalKeyHeader] = key
	}
	return p
}

// A failure is the body of a message in the error queue, in the form of the Ruby handler.
type failure struct {
	reason
	Payload    string `json:"payload"`    // the original body, by encode64
	Properties string `json:"properties"` // the original properties as JSON, by encode64
}

// retryInfo is the header in which Kicks writes the reasons of failures.
const retryInfo = "retry_info"

// A reason says why an attempt has failed. Kicks writes a list of them as JSON.
type reason struct {
	Error    string `json:"error"`
	Attempts int    `json:"num_attempts"`
	FailedAt string `json:"failed_at"`
	Message  string `json:"error_message,omitempty"`
}

// errorMessage returns what is published to the error queue for a message that is not tried
// again.
func (s *Settings) errorMessage(d *amqp.Delivery, outcome backlog.Settlement) amqp.Publishing {
	p := copyMessage(d)
	why := reason{Error: outcome.Error, Attempts: outcome.Memory.Failed(), FailedAt: outcome.At.Format(time.RFC3339)}
	switch {
	case outcome.Memory.Failed() <= s.Sneakers.MaxRetries: // rejected before the last retry
		why.Error = "reject"
		why.Message = outcome.Error
	case strings.HasPrefix(outcome.Error, "timed out"):
		why.Error = "timeout"
	}
	if s.Sneakers.ErrorBody == "original" {
		p.Headers[retryInfo] = string(asJSON([]reason{why}))
		return p
	}
	all := properties(d)
	if len(d.Headers) > 0 {
		all["headers"] = jsonField(d.Headers) // Bunny, Ruby's client, has them among the properties
	}
	p.Body = asJSON(failure{reason: why, Payload: encode64(d.Body), Properties: encode64(asJSON(all))})
	p.ContentType = "application/json"
	p.ContentEncoding = ""
	return p
}

// encode64 is base64 as Ruby's encode64 writes it: with a newline after every 60 characters and at
// the end.
func encode64(b []byte) string {
	var lines []byte
	for line := range slices.Chunk(base64.StdEncoding.AppendEncode(nil, b), 60) {
		lines = append(append(lines, line...), '\n')
	}
	return string(lines)
}

// A ticket is the row as it was read, which a request carries and its outcome returns. By it any
// daemon can settle the outcome, not only the one that has dispatched the record. It is signed:
// a worker cannot settle another row.
type ticket struct {
	Table     string         `json:"table"`  // as in Dispatch
	States    string         `json:"states"` // as in Dispatch; Origin has a meaning only with it
	Row       backlog.Cursor `json:"row"`    // its key, with the types of its parts
	Status    string         `json:"status"`
	Failures  int            `json:"failures"`
	Attempts  *int           `json:"attempts"` // nil: the row does not count them
	Lane      backlog.Lane   `json:"lane"`
	Origin    int            `json:"origin"`
	Tier      string         `json:"tier"`
	AttemptID string         `json:"attempt_id"`
}

// ticketOf returns the ticket for a record.
func ticketOf(r *backlog.Record, table, states string) ticket {
	t := ticket{
		Table: table, States: states, Row: backlog.Cursor{Key: r.Key}, Status: r.Status, Failures: r.Memory.Failed(),
		Lane: r.Lane, Origin: r.Origin, Tier: r.Tier, AttemptID: r.AttemptID,
	}
	if r.Attempts >= 0 {
		t.Attempts = &r.Attempts
	}
	return t
}

// record returns the record, with the fields that a settlement needs.
func (t *ticket) record() backlog.Record {
	r := backlog.Record{
		Key: t.Row.Key, Status: t.Status, Memory: &backlog.Memory{Failures: t.Failures}, Lane: t.Lane, Origin: t.Origin,
		Tier: t.Tier, AttemptID: t.AttemptID, Attempts: -1,
	}
	if t.Attempts != nil {
		r.Attempts = *t.Attempts
	}
	return r
}

// signature returns the HMAC-SHA256 of a text in base64.
func signature(text, secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// sign returns the ticket as text: its JSON in base64, a dot and the signature.
func (t *ticket) sign(secret string) string {
	b, _ := json.Marshal(t) // never fails
	text := base64.RawURLEncoding.EncodeToString(b)
	return text + "." + signature(text, secret)
}

var (
	errNoTicket   = errors.New("it has no ticket that can be read")
	errForged     = errors.New("its ticket is signed with another secret")
	errOtherTable = errors.New("its ticket is of another table")
)

// readTicket parses and verifies what sign has written. For errOtherTable it does not check the
// signature, since the other table's daemon may have another secret.
func readTicket(text, secret, table string) (t ticket, err error) {
	payload, mac, _ := strings.Cut(text, ".")
	b, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil || json.Unmarshal(b, &t) != nil || t.Row.IsZero() {
		return t, errNoTicket
	}
	switch {
	case t.Table != table:
		return t, errOtherTable
	case !hmac.Equal([]byte(mac), []byte(signature(payload, secret))):
		return t, errForged
	}
	return t, nil
}
