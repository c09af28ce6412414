package amqp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A RedriveReport counts the messages of the error queue by what Redrive did with them.
type RedriveReport struct {
	Matched    int `json:"matched"`    // published to the main exchange; in a dry run, to be published
	Unmatched  int `json:"unmatched"`  // without the text in their error
	Unreadable int `json:"unreadable"` // in an unknown form
	Refused    int `json:"refused"`    // that the broker does not take
}

// Redrive reads each message of the error queue once. If its error contains match, it publishes
// the original message to the main exchange, as if it had never failed. In a dry run it only
// counts. The other messages keep their place in the queue, and are marked as redelivered.
//
// A message that the broker refuses stays, and is named by the error.
func (c *Source) Redrive(ctx context.Context, match string, dry bool) (n RedriveReport, err error) {
	sess, err := c.open(ctx)
	if err != nil {
		return n, err
	}
	queue := c.errorExchange()
	defer c.Close() // the broker requeues what is not acknowledged, in its place
	ready, missing, err := sess.inspect(ctx, queue)
	if err != nil || missing {
		return n, err
	}
	var refused []error
	for i := range ready.Messages { // unacknowledged until the end: get must not return them again
		d, ok, err := sess.get(ctx, queue)
		if err != nil || !ok {
			return n, err
		}
		m, text, ok := decode(&d)
		switch {
		case !ok:
			n.Unreadable++
			continue
		case !strings.Contains(text, match):
			n.Unmatched++
			continue
		}
		n.Matched++
		if dry {
			continue
		}
		exchange, key := c.mainRoute(originalKey(&d))
		refusal, err := c.redriveOne(ctx, sess, &d, message{exchange, key, m})
		if err != nil {
			return n, fmt.Errorf("exchange %s, routing key %s: %w", exchange, key, err)
		}
		if refusal != nil {
			n.Matched--
			n.Refused++
			refused = append(refused, fmt.Errorf("message %s: %w", cmp.Or(m.MessageId, fmt.Sprint("number ", i+1)), refusal))
		}
	}
	return n, refusals(refused)
}

// redriveOne publishes the message m and acknowledges its delivery d. refused says that the broker
// does not take this message, err that it takes none.
func (c *Source) redriveOne(ctx context.Context, sess *session, d *amqp.Delivery, m message) (refused, err error) {
	if err := sess.checkPublishable(&m, 0); err != nil {
		return err, nil
	}
	if int64(len(m.Body)) > sess.largestAccepted.Load() {
		err = c.publishOnOwnConnection(ctx, sess, m)
		if isTooLarge(err) {
			return err, nil
		}
	} else {
		returned, sendErr := sess.sendOne(ctx, m)
		err = cmp.Or(sendErr, returned)
	}
	if err != nil {
		return nil, err
	}
	return nil, d.Ack(false)
}

// maxNamed is how many messages an error names.
const maxNamed = 20

// refusals returns an error that names the refused messages, nil if there are none.
func refusals(list []error) error {
	if len(list) == 0 {
		return nil
	}
	named := errors.Join(list[:min(len(list), maxNamed)]...)
	return fmt.Errorf("messages that the broker does not take, which stay in the error queue: %d\n%w", len(list), named)
}

// decode returns a message of the error queue as it was first published, and the text of its
// error. ok is false if the message is in an unknown form.
func decode(d *amqp.Delivery) (m amqp.Publishing, text string, ok bool) {
	m = copyMessage(d)
	if info, ok := d.Headers[retryInfo].(string); ok { // of Kicks: the body is unchanged
		list := parseRetryInfo(info)
		delete(m.Headers, retryInfo)
		for _, r := range slices.Backward(list) { // the oldest entry has the properties as published
			if original := propertiesOf(r.Properties); len(original) > 0 {
				restore(&m, original)
				break
			}
		}
		if len(list) == 0 {
			return m, "", true
		}
		return m, list[0].Error + " " + list[0].Message, true
	}
	var f failure
	if json.Unmarshal(d.Body, &f) != nil || f.Payload == "" && f.Attempts == 0 {
		return m, "", false
	}
	body, err := decode64(f.Payload)
	if err != nil {
		return m, "", false
	}
	m.Body = body
	m.ContentType = ""
	m.ContentEncoding = ""
	raw, err := decode64(f.Properties)
	if err == nil {
		restore(&m, propertiesOf(raw))
	}
	return m, f.Error + " " + f.Message, true
}

// A retryInfoEntry is what Kicks writes about one attempt.
type retryInfoEntry struct {
	Error      string          `json:"error"`
	Message    string          `json:"error_message"`
	Properties json.RawMessage `json:"properties"`
}

// parseRetryInfo returns the entries of a header retry_info, the newest first. The header is one
// object, and from the second attempt on a list.
func parseRetryInfo(info string) (list []retryInfoEntry) {
	if json.Unmarshal([]byte(info), &list) == nil {
		return list
	}
	list = nil
	_ = json.Unmarshal([]byte("["+info+"]"), &list)
	return list
}

// restore gives the message the properties and headers that it had when it was published. Headers
// that it still has are left alone: their types are exact, which those from JSON are not.
func restore(m *amqp.Publishing, original map[string]any) {
	text := func(name string) string {
		s, _ := original[name].(string)
		return s
	}
	m.ContentType = text("content_type")
	m.ContentEncoding = text("content_encoding")
	fields := map[string]*string{
		"correlation_id": &m.CorrelationId, "reply_to": &m.ReplyTo, "message_id": &m.MessageId, "type": &m.Type, "app_id": &m.AppId,
	}
	for name, field := range fields {
		*field = cmp.Or(text(name), *field)
	}
	if n, ok := original["priority"].(int64); ok && n > 0 && n <= math.MaxUint8 {
		m.Priority = uint8(n)
	}
	if at, ok := timestampOf(original["timestamp"]); ok {
		m.Timestamp = at
	}
	headers, _ := original["headers"].(amqp.Table)
	maps.Copy(m.Headers, publisherHeaders(headers))
	for name, v := range headers {
		if _, has := m.Headers[name]; !has && !isAddedHeader(name) {
			m.Headers[name] = v
		}
	}
}

// timestampOf parses a timestamp as this program, Rails or Ruby writes it, or as Unix seconds.
func timestampOf(v any) (at time.Time, ok bool) {
	switch v := v.(type) {
	case int64:
		return time.Unix(v, 0), true
	case string:
		for _, form := range []string{time.RFC3339, "2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 MST"} {
			if at, err := time.Parse(form, v); err == nil {
				return at, true
			}
		}
	}
	return at, false
}

// decode64 decodes base64 with or without line breaks.
func decode64(text string) ([]byte, error) {
	return base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
}

// propertiesOf parses a JSON object, or a JSON string with a Ruby hash as inspect shows it. It
// returns nil for anything else.
func propertiesOf(raw []byte) map[string]any {
	var v any
	if decodeNumbers(raw, &v) != nil {
		return nil
	}
	if text, ok := v.(string); ok {
		v = rubyValue(text)
	}
	object, _ := mapField(v, number).(amqp.Table)
	return object
}

// decodeNumbers decodes the first JSON value of raw. Numbers become json.Number.
func decodeNumbers(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(v)
}

// number returns a json.Number as int64 or float64, and every other value as it is.
func number(v any) any {
	text, ok := v.(json.Number)
	if !ok {
		return v
	}
	if n, err := text.Int64(); err == nil {
		return n
	}
	f, _ := text.Float64()
	return f
}
