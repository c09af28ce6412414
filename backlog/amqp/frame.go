package amqp

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// frameSize returns the size of the frame that has the properties and headers of a message.
// AMQP has no way to divide it: where it is larger than the connection allows, the broker
// closes the connection.
func frameSize(p *amqp.Publishing) int {
	size := 8 + 2 + 2 + 8 + 2 // of the frame, class, weight, size of the body, flags
	for _, text := range []string{p.ContentType, p.ContentEncoding, p.CorrelationId, p.ReplyTo, p.Expiration, p.MessageId, p.Type, p.UserId, p.AppId} {
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

func tableSize(t amqp.Table) int {
	size := 4
	for name, v := range t {
		size += 1 + len(name) + fieldSize(v)
	}
	return size
}

// fieldSize returns the size of a field with its kind.
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

// deathSize is the most that the broker adds to the headers of a message that expires in a
// queue: x-death and what it writes of the first and the last death.
func deathSize(queue, exchange, key string) int {
	return 512 + 3*(len(queue)+len(exchange)) + len(key)
}

// mostShort is the most bytes of a property and of the name of a header.
const mostShort = 255

// tooLong names a property or a header that the client refuses to send; "" if there is none.
func tooLong(p *amqp.Publishing) string {
	for name, text := range map[string]string{
		"content_type": p.ContentType, "content_encoding": p.ContentEncoding, "correlation_id": p.CorrelationId, "reply_to": p.ReplyTo,
		"message_id": p.MessageId, "type": p.Type, "app_id": p.AppId,
	} {
		if len(text) > mostShort {
			return name
		}
	}
	if hasLongName(p.Headers) {
		return "header's name"
	}
	return ""
}

func hasLongName(v any) bool {
	switch v := v.(type) {
	case amqp.Table:
		for name, field := range v {
			if len(name) > mostShort || hasLongName(field) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasLongName)
	}
	return false
}

// foresee returns an error for a message that would end the connection. later is what the
// broker adds before the message comes back.
func (p *session) foresee(m *message, later int) error {
	if err := m.Headers.Validate(); err != nil {
		return fmt.Errorf("its headers cannot be published again: %w", err)
	}
	if name := tooLong(&m.Publishing); name != "" {
		return fmt.Errorf("its %s is longer than the %d bytes that AMQP has for it", name, mostShort)
	}
	most := p.conns[0].Config.FrameSize
	size := frameSize(&m.Publishing) + later
	if most == 0 || size <= most {
		return nil
	}
	return fmt.Errorf("its headers and properties would take %d bytes with those of a retry, and the broker's frame_max is %d; its publisher must send less in headers, or the broker allow more", size, most)
}
