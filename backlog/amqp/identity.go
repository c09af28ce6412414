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

// keptKey is the header that keeps a message's first routing key where it has to come back
// by another one.
const keptKey = "x-backlog-routing-key"

// firstKey returns the routing key by which the message came first.
func firstKey(d *amqp.Delivery) string {
	if key, kept := d.Headers[keptKey].(string); kept {
		return key
	}
	return d.RoutingKey
}

// ofOthers reports whether a header is written by the broker or by a retry, so that it
// says nothing about what the publisher sent.
func ofOthers(name string) bool {
	return slices.Contains(notAgain, name) || name == keptKey || name == ownKey || name == retryInfo ||
		strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
}

// ownKey is the header that keeps the publisher's headers whose names a retry writes over.
const ownKey = "x-backlog-headers"

// retryNames are the headers that a retry writes.
var retryNames = []string{"backoff", "count"}

// ownHeaders returns the publisher's headers with names that a retry writes over.
func ownHeaders(headers amqp.Table) amqp.Table {
	if failures(headers) > 0 {
		own, _ := headers[ownKey].(amqp.Table)
		return own
	}
	return retryHeaders(headers)
}

// retryHeaders returns those of the headers whose names a retry writes.
func retryHeaders(headers amqp.Table) amqp.Table {
	list := make(amqp.Table)
	for _, name := range retryNames {
		if v, is := headers[name]; is {
			list[name] = v
		}
	}
	return list
}

// An identity is a digest of what makes a message of a queue the one it is. It stays the
// same over deliveries, restarts and retries, since it covers only what the broker keeps
// and a retry leaves alone.
type identity [sha256.Size]byte

// String returns as much of the identity as tells messages apart.
func (i identity) String() string { return hex.EncodeToString(i[:16]) }

// identify returns the identity of a message of the queue. The timestamp counts only
// without a message_id: a publisher that sends a message again dates it anew.
func (s *Settings) identify(d *amqp.Delivery) identity {
	w := digest{sha256.New()}
	w.text(s.vhost())
	w.text(s.Queue)
	w.text(d.MessageId)
	if d.MessageId == "" {
		w.value(d.Timestamp)
	}
	for _, part := range []string{firstKey(d), d.ContentType, d.ContentEncoding, d.Type, d.CorrelationId, d.ReplyTo, d.AppId} {
		w.text(part)
	}
	w.number('p', uint64(d.Priority))
	w.table(d.Headers, ofOthers)
	w.table(ownHeaders(d.Headers), func(string) bool { return false })
	w.bytes('b', d.Body)
	return identity(w.Sum(nil))
}

// attempt returns a digest that tells apart also the attempts on a message.
func (i identity) attempt(headers amqp.Table) identity {
	w := digest{sha256.New()}
	w.bytes('i', i[:])
	w.number('n', uint64(failures(headers)))
	return identity(w.Sum(nil))
}

// vhost returns the vhost of the URL, which [Settings.Check] has seen to.
func (s *Settings) vhost() string {
	if len(s.URL) == 0 {
		return "/"
	}
	uri, _ := amqp.ParseURI(s.URL[0])
	return uri.Vhost
}

// A digest takes values in, each with its kind and its length.
type digest struct{ hash.Hash }

func (w digest) number(kind byte, n uint64) {
	w.Write(binary.BigEndian.AppendUint64([]byte{kind}, n))
}

func (w digest) bytes(kind byte, b []byte) {
	w.number(kind, uint64(len(b)))
	w.Write(b)
}

func (w digest) text(s string) { w.bytes('s', []byte(s)) }

// table takes in the fields in the order of their names, without those to leave out.
func (w digest) table(t amqp.Table, leaveOut func(name string) bool) {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(t)), leaveOut)
	w.number('t', uint64(len(names)))
	for _, name := range names {
		w.text(name)
		w.value(t[name])
	}
}

// value takes in a field of a header. Integers count by their value: brokers and clients
// change their width.
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
		n, whole := integer(v).(int64)
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
