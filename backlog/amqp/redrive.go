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

// A Redriven is what Redrive has done.
type Redriven struct {
	Matched    int `json:"matched"` // published to the main exchange again, or to be
	Unmatched  int `json:"unmatched"`
	Unreadable int `json:"unreadable"` // in neither form
	Refused    int `json:"refused"`    // that the broker does not take
}

// Redrive looks at each message of the error queue once and gives those back to the
// main exchange whose error has the text, as if they had never failed. Where dry is set
// it only counts. What it leaves keeps its place, but for the mark that it was delivered
// before.
func (c *Source) Redrive(ctx context.Context, match string, dry bool) (n Redriven, err error) {
	p, err := c.open(ctx)
	if err != nil {
		return n, err
	}
	queue := c.errorExchange()
	defer c.Close() // what is not acknowledged goes back to its place
	ready, missing, err := p.inspect(ctx, queue)
	if err != nil || missing {
		return n, err
	}
	var refused []error
	for i := range ready.Messages { // held to the end: else get would meet them again
		d, ok, err := p.get(ctx, queue)
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
		exchange, key := c.mainKey(firstKey(&d))
		one, err := c.redriveOne(ctx, p, &d, message{exchange, key, m})
		if err != nil {
			return n, fmt.Errorf("exchange %s, routing key %s: %w", exchange, key, err)
		}
		if one != nil {
			n.Matched--
			n.Refused++
			refused = append(refused, fmt.Errorf("message %s: %w", cmp.Or(m.MessageId, fmt.Sprint("number ", i+1)), one))
		}
	}
	return n, refusals(refused)
}

// redriveOne publishes the message and acknowledges what it was. refused says that the broker
// does not take this one, err that it takes none.
func (c *Source) redriveOne(ctx context.Context, p *session, d *amqp.Delivery, m message) (refused, err error) {
	if err := p.foresee(&m, 0); err != nil {
		return err, nil
	}
	if int64(len(m.Body)) > p.taken.Load() {
		if err := c.tryAlone(ctx, p, m); isTooLarge(err) {
			return err, nil
		} else if err != nil {
			return nil, err
		}
	} else if refused, err := p.post(ctx, m); cmp.Or(err, refused) != nil {
		return nil, cmp.Or(err, refused)
	}
	return nil, d.Ack(false)
}

// mostNamed is how many messages an error names.
const mostNamed = 20

// refusals returns an error that names the messages, nil if there are none.
func refusals(list []error) error {
	if len(list) == 0 {
		return nil
	}
	named := errors.Join(list[:min(len(list), mostNamed)]...)
	return fmt.Errorf("messages that the broker does not take, which stay in the error queue: %d\n%w", len(list), named)
}

// decode returns the message that ended in the error queue as it was published first, and
// the text of its error.
func decode(d *amqp.Delivery) (m amqp.Publishing, text string, ok bool) {
	m = again(d)
	if info, is := d.Headers[retryInfo].(string); is { // Kicks: the body as it was
		list := reasonsOf(info)
		delete(m.Headers, retryInfo)
		for _, r := range slices.Backward(list) { // the oldest are the publisher's
			if was := propertiesOf(r.Properties); len(was) > 0 {
				restore(&m, was)
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

// A recorded is what Kicks writes of an attempt.
type recorded struct {
	Error      string          `json:"error"`
	Message    string          `json:"error_message"`
	Properties json.RawMessage `json:"properties"`
}

// reasonsOf returns the attempts of a header retry_info, which is an object or, after the
// second, a list with the newest first.
func reasonsOf(info string) (list []recorded) {
	if json.Unmarshal([]byte(info), &list) == nil {
		return list
	}
	list = nil
	_ = json.Unmarshal([]byte("["+info+"]"), &list)
	return list
}

// restore gives the message the properties and headers that it had. Headers that it still
// has are as they were, with the types that JSON does not know.
func restore(m *amqp.Publishing, was map[string]any) {
	text := func(name string) string {
		s, _ := was[name].(string)
		return s
	}
	m.ContentType = text("content_type")
	m.ContentEncoding = text("content_encoding")
	for name, field := range map[string]*string{"correlation_id": &m.CorrelationId, "reply_to": &m.ReplyTo, "message_id": &m.MessageId, "type": &m.Type, "app_id": &m.AppId} {
		*field = cmp.Or(text(name), *field)
	}
	if n, is := was["priority"].(int64); is && n > 0 && n <= math.MaxUint8 {
		m.Priority = uint8(n)
	}
	if at, is := timestampOf(was["timestamp"]); is {
		m.Timestamp = at
	}
	headers, _ := was["headers"].(amqp.Table)
	maps.Copy(m.Headers, ownHeaders(headers))
	for name, v := range headers {
		if _, has := m.Headers[name]; !has && !ofOthers(name) {
			m.Headers[name] = v
		}
	}
}

// timestampOf reads a timestamp as we, Rails, Ruby and others write it.
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

func decode64(text string) ([]byte, error) {
	return base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
}

// propertiesOf reads a JSON object, or a JSON string with the text of a Ruby hash.
func propertiesOf(raw []byte) map[string]any {
	var v any
	if decodeNumbers(raw, &v) != nil {
		return nil
	}
	if text, is := v.(string); is {
		v = rubyValue(text)
	}
	object, _ := mapField(v, number).(amqp.Table)
	return object
}

// decodeNumbers decodes the first value of raw. Numbers stay as they are written.
func decodeNumbers(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(v)
}

// number returns a number of JSON as headers have it.
func number(v any) any {
	text, is := v.(json.Number)
	if !is {
		return v
	}
	if n, err := text.Int64(); err == nil {
		return n
	}
	f, _ := text.Float64()
	return f
}
