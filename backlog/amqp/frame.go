package amqp

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// frameSize returns the size of the frame with the properties and headers of a message, in
// bytes. AMQP cannot divide this frame: if it is larger than frame_max, the broker closes the
// connection.
func frameSize(p *amqp.Publishing) int {
	size := 8 + 2 + 2 + 8 + 2 // of the frame, class, weight, size of the body, flags
	texts := []string{
		p.ContentType, p.ContentEncoding, p.CorrelationId, p.ReplyTo, p.Expiration, p.MessageId, p.Type, p.UserId, p.AppId,
	}
	for _, text := range texts {
		if text != "" {
			size += 1 + len(text)
		}
	}
	if len(p.Headers) > 0 {
		size += tableSize(p.Headers)
	}
	size++ // the delivery mode
	if p.Priority > 0 {
		size++
	}
	if !p.Timestamp.IsZero() {
		size += 8
	}
	return size
}

// tableSize returns the size of a table of headers.
func tableSize(t amqp.Table) int {
	size := 4
	for name, v := range t {
		size += 1 + len(name) + fieldSize(v)
	}
	return size
}

// fieldSize returns the size of a value in a table, with the byte for its type.
func fieldSize(v any) int {
	switch v := v.(type) {
	case nil:
		return 1
	case int: // is sent as 32 bits
		return 1 + 4
	case time.Time:
		return 1 + 8
	case string:
		return 1 + 4 + len(v)
	case []byte:
		return 1 + 4 + len(v)
	case amqp.Table:
		return 1 + tableSize(v)
	case []any:
		size := 1 + 4
		for _, field := range v {
			size += fieldSize(field)
		}
		return size
	}
	return 1 + binary.Size(v) // a number or a bool
}

// maxDeathSize returns how many bytes the broker adds at most to the headers of a message that
// expires in a queue: x-death, x-first-death-… and x-last-death-….
func maxDeathSize(queue, exchange, key string) int {
	return 512 + 3*(len(queue)+len(exchange)) + len(key)
}

// maxShortString is the longest short string of AMQP, in bytes: a property, or the name of a
// header.
const maxShortString = 255

// tooLongProperty returns the name of a property that is longer than a short string, "header's
// name" if the name of a header is, and "" if all fit.
func tooLongProperty(p *amqp.Publishing) string {
	for name, text := range map[string]string{
		"content_type": p.ContentType, "content_encoding": p.ContentEncoding, "correlation_id": p.CorrelationId, "reply_to": p.ReplyTo,
		"message_id": p.MessageId, "type": p.Type, "app_id": p.AppId,
	} {
		if len(text) > maxShortString {
			return name
		}
	}
	if hasLongName(p.Headers) {
		return "header's name"
	}
	return ""
}

// hasLongName reports whether a value has a name, at any depth, that is too long.
func hasLongName(v any) bool {
	switch v := v.(type) {
	case amqp.Table:
		for name, field := range v {
			if len(name) > maxShortString || hasLongName(field) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasLongName)
	}
	return false
}

// checkPublishable returns an error for a message for which the client or the broker would close
// the connection. added is how many bytes the broker adds to the headers before the message
// comes back.
func (sess *session) checkPublishable(m *message, added int) error {
	if err := m.Headers.Validate(); err != nil {
		return fmt.Errorf("its headers cannot be published again: %w", err)
	}
	if name := tooLongProperty(&m.Publishing); name != "" {
		return fmt.Errorf("its %s is longer than the %d bytes that AMQP has for it", name, maxShortString)
	}
	frameMax := sess.conns[0].Config.FrameSize
	size := frameSize(&m.Publishing) + added
	if frameMax == 0 || size <= frameMax {
		return nil
	}
	return fmt.Errorf("its headers and properties would take %d bytes with those of a retry, and the broker's frame_max is %d; its publisher must send less in headers, or the broker allow more", size, frameMax)
}
