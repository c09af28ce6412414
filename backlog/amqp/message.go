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

// columns are what a handler is given of a message. A body that is no UTF-8 is
// body_base64.
var (
	columns       = []string{"id", "attempt", "routing_key", "redelivered", "properties", "headers", "body"}
	binaryColumns = append(columns[:6:6], "body_base64")
)

// recordOf returns the message as a record. Its Status goes by the Ruby handler's
// counting: new, or error where it has failed before. Its id is the publisher's, which may
// be that of another message, too: what receivers are sent has the queue and the identity.
func (s *Settings) recordOf(d *amqp.Delivery, i identity) backlog.Record {
	n := failures(d.Headers)
	id := cmp.Or(d.MessageId, i.String())
	rec := backlog.Record{
		Key: backlog.NewKey(id), Status: backlog.RowNew.String(), Inserted: d.Timestamp, Memory: &backlog.Memory{Failures: n},
		Identity: []string{s.Queue, i.String()},
		Names:    columns,
		Values:   []any{id, int64(n) + 1, firstKey(d), d.Redelivered, asJSON(properties(d)), asJSON(jsonField(d.Headers)), string(d.Body)},
	}
	if d.MessageId != "" {
		rec.Identity = []string{s.Queue, d.MessageId, i.String()}
	}
	if n > 0 {
		rec.Status = backlog.RowError.String()
	}
	if !utf8.Valid(d.Body) {
		rec.Names, rec.Values[6] = binaryColumns, d.Body
	}
	return rec
}

// Body returns the body of the message that the record is, as it came.
func Body(r *backlog.Record) []byte {
	switch body := r.Values[len(r.Values)-1].(type) {
	case string:
		return []byte(body)
	case []byte:
		return body
	}
	return nil
}

func asJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		b, _ = json.Marshal(fmt.Sprint(v))
	}
	return b
}

// jsonField returns a field of headers as JSON can have it, which knows only finite numbers.
func jsonField(v any) any { return mapField(v, finite) }

// finite returns a number that JSON does not know as a text.
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

// mapField returns a field in which f has replaced each value that is no table and no list, at
// every depth.
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

// properties returns the message's properties by their names in AMQP, without headers.
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

// integer returns a number of a header as int64, which the broker does not tell from
// others; nil for what is none.
func integer(v any) any {
	switch n := reflect.ValueOf(v); {
	case n.CanInt():
		return n.Int()
	case n.CanUint():
		return int64(n.Uint())
	}
	return nil
}

// failures returns how often the message has failed. A publisher's own header `count`
// is none of ours: both sides write `backoff` beside it.
func failures(headers amqp.Table) int {
	n, counted := integer(headers["count"]).(int64)
	if _, ours := integer(headers["backoff"]).(int64); ours && counted && n > 0 {
		return int(min(n, 1_000_000))
	}
	return 0
}

// notAgain are the headers that [again] leaves out, as [ofOthers] says.
var notAgain = append([]string{"CC", "BCC", "x-death", "x-delivery-count", "x-acquired-count"}, retryNames...)

// again returns the message as it is published anew: with its properties and headers,
// but for what would send it elsewhere, end it early, or belongs to the broker.
func again(d *amqp.Delivery) amqp.Publishing {
	headers := make(amqp.Table)
	maps.Copy(headers, d.Headers)
	maps.DeleteFunc(headers, func(name string, _ any) bool { return ofOthers(name) && name != retryInfo })
	maps.Copy(headers, ownHeaders(d.Headers))
	return amqp.Publishing{
		Headers: headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, Priority: d.Priority,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, MessageId: d.MessageId, Timestamp: d.Timestamp,
		Type: d.Type, AppId: d.AppId, Body: d.Body,
	}
}

// back returns the message as it is published to come back to its queue. Where it comes
// back by another routing key it keeps its first one, and what a retry writes over it keeps, too.
func (s *Settings) back(d *amqp.Delivery) amqp.Publishing {
	p := again(d)
	if own := ownHeaders(d.Headers); len(own) > 0 {
		p.Headers[ownKey] = own
	}
	if key := firstKey(d); s.backKey(key) != key {
		p.Headers[keptKey] = key
	}
	return p
}

// A failure is the form in which the Ruby handler writes to the error queue.
type failure struct {
	reason
	Payload    string `json:"payload"`    // base64 with newlines, as Ruby's encode64 writes it
	Properties string `json:"properties"` // likewise, of JSON
}

// retryInfo is the header in which Kicks writes reasons.
const retryInfo = "retry_info"

// A reason is what Kicks writes of an attempt, in a list beside the original body.
type reason struct {
	Error    string `json:"error"`
	Attempts int    `json:"num_attempts"`
	FailedAt string `json:"failed_at"`
	Message  string `json:"error_message,omitempty"`
}

// failed returns what goes to the error queue for a message whose attempts are over.
func (s *Settings) failed(d *amqp.Delivery, outcome backlog.Settlement) amqp.Publishing {
	p := again(d)
	why := reason{outcome.Error, outcome.Memory.Failed(), outcome.At.Format(time.RFC3339), ""}
	switch {
	case outcome.Memory.Failed() <= s.Sneakers.MaxRetries:
		why.Error, why.Message = "reject", outcome.Error
	case strings.HasPrefix(outcome.Error, "timed out"):
		why.Error = "timeout"
	}
	if s.Sneakers.ErrorBody == "original" {
		p.Headers[retryInfo] = string(asJSON([]reason{why}))
		return p
	}
	all := properties(d)
	if len(d.Headers) > 0 {
		all["headers"] = jsonField(d.Headers) // among them, as Bunny gives them
	}
	p.Body = asJSON(failure{why, encode64(d.Body), encode64(asJSON(all))})
	p.ContentType = "application/json"
	p.ContentEncoding = ""
	return p
}

// encode64 is base64 as Ruby writes it: a newline after every 60 characters and at the
// end.
func encode64(b []byte) string {
	var lines []byte
	for line := range slices.Chunk(base64.StdEncoding.AppendEncode(nil, b), 60) {
		lines = append(append(lines, line...), '\n')
	}
	return string(lines)
}

// A ticket is what an outcome needs to be settled by whoever leads then: the row as it was
// read. It is signed, so that a worker can settle no other row.
type ticket struct {
	Table     string         `json:"table"`  // that the attempt is of
	States    string         `json:"states"` // what Origin is of; other settings read rows otherwise
	Row       backlog.Cursor `json:"row"`    // its key, with the types of its parts
	Status    string         `json:"status"`
	Failures  int            `json:"failures"`
	Attempts  *int           `json:"attempts"` // nil: the row does not count them
	Lane      backlog.Lane   `json:"lane"`
	Origin    int            `json:"origin"`
	Tier      string         `json:"tier"`
	AttemptID string         `json:"attempt_id"`
}

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

// record returns the record as far as a settlement needs it.
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

func signature(text, secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// sign returns the ticket as text.
func (t *ticket) sign(secret string) string {
	b, _ := json.Marshal(t) // texts and numbers
	text := base64.RawURLEncoding.EncodeToString(b)
	return text + "." + signature(text, secret)
}

var (
	errNoTicket   = errors.New("it has no ticket that can be read")
	errForged     = errors.New("its ticket is signed with another secret")
	errOtherTable = errors.New("its ticket is of another table")
)

// readTicket returns what sign wrote. With errOtherTable the signature is not looked at:
// that table's daemon may have another secret.
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
