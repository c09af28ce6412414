package amqp

import (
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/internal/testkit"
)

// A message that filled its frame comes again with what the broker adds: it is taken, also
// then, and keeps no other waiting.
func TestLargerThanFrame(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	s.Sneakers.Multiplier, s.Prefetch = 1000, 4
	b.limited(100)
	c := source(t, s)
	var v survey
	stop, _ := serve(t, c, v.sickness)
	for i := range 3 {
		b.send(amqp.Publishing{Body: fmt.Append(nil, "sick ", i), Headers: filled(131_060)})
	}
	testkit.Eventually(t, "all wait", func() bool { n, others := c.refusedCount(); return n == 3 && others == 0 })
	c.loseConnection(t)
	for i := range 9 {
		b.send(amqp.Publishing{Body: fmt.Append(nil, "good ", i)})
	}
	testkit.Eventually(t, "the others are done", func() bool { n, others := c.refusedCount(); return n == 3 && others == 0 && v.count() == 12 })
	stop()
	v.once(t, 12)
	if sess := c.sessions.current(); sess.conns[0].Config.FrameSize != 131_072 || sess.conns[1].Config.FrameSize != 0 {
		t.Errorf("%d %d", sess.conns[0].Config.FrameSize, sess.conns[1].Config.FrameSize)
	}
}
