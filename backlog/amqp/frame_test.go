package amqp

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/internal/testkit"
)

// A short string has 255 bytes at most, wherever it is.
func TestTooLongProperty(t *testing.T) {
	longest := strings.Repeat("x", 255)
	tooLong := longest + "x"
	for _, c := range []struct {
		name string
		p    amqp.Publishing
		want string
	}{
		{"all as long as can be", amqp.Publishing{MessageId: longest, Type: longest, Headers: amqp.Table{longest: ""}}, ""},
		{"a property", amqp.Publishing{MessageId: tooLong}, "message_id"},
		{"a header", amqp.Publishing{Headers: amqp.Table{tooLong: ""}}, "header's name"},
		{"a header in a table", amqp.Publishing{Headers: amqp.Table{"a": amqp.Table{tooLong: ""}}}, "header's name"},
		{"a header in a list", amqp.Publishing{Headers: amqp.Table{"a": []any{1, amqp.Table{tooLong: ""}}}}, "header's name"},
		{"a value", amqp.Publishing{Headers: amqp.Table{"a": tooLong}}, ""},
	} {
		testkit.Equal(t, c.name, tooLongProperty(&c.p), c.want)
	}
}

// The frame may be filled to the last byte, by what the broker adds, too.
func TestFrameMax(t *testing.T) {
	m := &message{Publishing: amqp.Publishing{Headers: amqp.Table{"a": "b"}}}
	size := frameSize(&m.Publishing)
	for _, c := range []struct {
		frameMax, added int
		want            bool
	}{{size + 10, 10, true}, {size + 10, 11, false}, {size, 0, true}, {size - 1, 0, false}, {0, 1 << 20, true}} {
		sess := &session{conns: []*amqp.Connection{{Config: amqp.Config{FrameSize: c.frameMax}}}}
		err := sess.checkPublishable(m, c.added)
		if (err == nil) != c.want {
			t.Errorf("%d bytes and %d added, of at most %d: %v", size, c.added, c.frameMax, err)
		}
	}
}
