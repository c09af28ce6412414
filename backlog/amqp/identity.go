package amqp

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// originalKeyHeader is the header that keeps a message's original routing key if the message has
// to come back to its queue by another key.
const originalKeyHeader = "x-backlog-routing-key"

// originalKey returns the routing key with which the message was first published.
func originalKey(d *amqp.Delivery) string {
	if key, ok := d.Headers[originalKeyHeader].(string); ok {
		return key
	}
	return d.RoutingKey
}

// isAddedHeader reports whether a header is written by the broker or by a retry and not by the
// publisher.
func isAddedHeader(name string) bool {
	return slices.Contains(droppedHeaders, name) || name == originalKeyHeader || name == savedHeadersHeader || name == retryInfo ||
		strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
}

// savedHeadersHeader is the header that keeps the publisher's headers whose names a retry
// overwrites.
const savedHeadersHeader = "x-backlog-headers"

// retryNames are the headers that a retry writes.
var retryHeaderNames = []string{"backoff", "count"}

// publisherHeaders returns the publisher's headers whose names a retry overwrites.
func publisherHeaders(headers amqp.Table) amqp.Table {
	if failureCount(headers) > 0 {
		saved, _ := headers[savedHeadersHeader].(amqp.Table)
		return saved
	}
	return retryHeaders(headers)
}

// retryHeaders returns the headers whose names a retry writes.
func retryHeaders(headers amqp.Table) amqp.Table {
	list := make(amqp.Table)
	for _, name := range retryHeaderNames {
		if v, ok := headers[name]; ok {
			list[name] = v
		}
	}
	return list
}

// An identity is a digest that tells the messages of all queues apart. It is the same for each
// delivery, after restarts and after retries, since it covers only what neither the broker nor
// a retry changes.
type identity [sha256.Size]byte

// String returns the first half of the identity in hexadecimal, which is enough to tell messages
// apart.
func (i identity) String() string { return hex.EncodeToString(i[:16]) }

// identify returns the identity of a message of the queue. The timestamp counts only without a
// message_id, since a publisher that repeats a message gives it a new timestamp.
func (s *Settings) identify(d *amqp.Delivery) identity {
	w := digest{sha256.New()}
	w.text(s.vhost())
	w.text(s.Queue)
	w.text(d.MessageId)
	if d.MessageId == "" {
		w.value(d.Timestamp)
	}
	texts := []string{originalKey(d), d.ContentType, d.ContentEncoding, d.Type, d.CorrelationId, d.ReplyTo, d.AppId}
	for _, part := range texts {
		w.text(part)
	}
	w.number('p', uint64(d.Priority))
	w.table(d.Headers, isAddedHeader)
	w.table(publisherHeaders(d.Headers), func(string) bool { return false })
	w.bytes('b', d.Body)
	return identity(w.Sum(nil))
}

// attempt returns a digest that is different for each message and each attempt on it.
func (i identity) attempt(headers amqp.Table) identity {
	w := digest{sha256.New()}
	w.bytes('i', i[:])
	w.number('n', uint64(failureCount(headers)))
	return identity(w.Sum(nil))
}

// vhost returns the vhost of the URL, which [Settings.Check] has found valid.
func (s *Settings) vhost() string {
	if len(s.URL) == 0 {
		return "/"
	}
	uri, _ := amqp.ParseURI(s.URL[0])
	return uri.Vhost
}

// A digest is a hash of values. Each is written with its kind and its length, so that different
// sequences of values never give the same bytes.
type digest struct{ hash.Hash }

func (w digest) number(kind byte, n uint64) {
	w.Write(binary.BigEndian.AppendUint64([]byte{kind}, n))
}

func (w digest) bytes(kind byte, b []byte) {
	w.number(kind, uint64(len(b)))
	w.Write(b)
}

func (w digest) text(s string) { w.bytes('s', []byte(s)) }

// table writes the fields in the order of their names, except those to leave out.
func (w digest) table(t amqp.Table, leaveOut func(name string) bool) {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(t)), leaveOut)
	w.number('t', uint64(len(names)))
	for _, name := range names {
		w.text(name)
		w.value(t[name])
	}
}

// value writes a field of a header. Integers of all widths are written alike, since brokers and
// clients change the width.
func (w digest) value(v any) {
	switch v := v.(type) {
	case string:
		w.text(v)
	case []byte:
		w.bytes('x', v)
	case time.Time:
		if v.IsZero() {
			w.number('0', 0)
		} else {
			w.number('d', uint64(v.Unix()))
		}
	case amqp.Table:
		w.table(v, func(string) bool { return false })
	case []any:
		w.number('a', uint64(len(v)))
		for _, field := range v {
			w.value(field)
		}
	default:
		n, whole := asInteger(v).(int64)
		number := reflect.ValueOf(v)
		switch {
		case whole:
			w.number('n', uint64(n))
		case number.CanFloat():
			w.number('f', math.Float64bits(number.Float()))
		default:
			w.bytes('o', fmt.Appendf(nil, "%T %v", v, v))
		}
	}
}
