package amqp

import (
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// check names a queue that drops what comes back too often, and no other one.
func TestLimitOf(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	c := NewInspector(*s)
	defer c.Close()
	sess, err := c.open(t.Context())
	b.check(err)
	quorum := func(more ...any) amqp.Table {
		args := amqp.Table{"x-queue-type": "quorum"}
		for i := 0; i < len(more); i += 2 {
			args[more[i].(string)] = more[i+1]
		}
		return args
	}
	for _, test := range []struct {
		args  amqp.Table
		major int
		limit int // 0: it is not named
	}{
		{nil, 3, 0},
		{nil, 4, 0},
		{quorum("x-delivery-limit", int32(5)), 3, 5},
		{quorum("x-delivery-limit", int32(5), "x-max-length", int64(9), "x-overflow", "reject-publish"), 4, 5},
		{quorum("x-delivery-limit", int32(5), "x-dead-letter-exchange", ""), 3, 0},
		{quorum(), 3, 0},
		{quorum(), 4, 20},
		{quorum("x-dead-letter-exchange", "dead"), 4, 0},
	} {
		_, err := b.QueueDeclare(s.Queue, true, false, false, false, test.args)
		b.check(err)
		sess.major = test.major
		found := sess.inspectDeliveryLimit(t.Context(), s.Queue)
		if (len(found) == 0) != (test.limit == 0) || test.limit > 0 && !strings.Contains(found[0].Problem, fmt.Sprintf("more than %d times", test.limit)) {
			t.Errorf("%v on %d: %+v", test.args, test.major, found)
		}
		got, err := sess.queueArguments(t.Context(), s.Queue, nil)
		if err != nil || len(got) != len(test.args) {
			t.Errorf("%v: %v %v", test.args, got, err)
		}
		_, err = b.QueueDelete(s.Queue, false, false, false)
		b.check(err)
	}
}
