package cmd_test

import (
	"cmp"
	"net"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/rabbitmq/amqp091-go"
	"github.com/rogpeppe/go-internal/testscript"
)

// brokerURL is that of the RabbitMQ of scripts.
var brokerURL = cmp.Or(os.Getenv("BACKLOG_TEST_RABBITMQ"), "amqp://guest:guest@127.0.0.1:5672/")

// scriptCondition implements [rabbitmq]. In CI there is one.
func scriptCondition(name string) (bool, error) {
	if name != "rabbitmq" {
		return false, nil
	}
	u, err := url.Parse(brokerURL)
	if err != nil || os.Getenv("CI") != "" {
		return true, err
	}
	c, err := net.DialTimeout("tcp", u.Host, 5*time.Second)
	if err != nil {
		return false, nil
	}
	return true, c.Close()
}

// cmdAMQP works on the broker.
func cmdAMQP(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2, "amqp send EXCHANGE KEY BODY...|ready QUEUE N|delete QUEUE")
	c, err := amqp091.Dial(brokerURL)
	ts.Check(err)
	defer c.Close()
	ch, err := c.Channel()
	ts.Check(err)
	ts.Check(ch.Confirm(false))
	switch args[0] {
	case "send":
		for _, body := range args[3:] {
			confirm, err := ch.PublishWithDeferredConfirm(args[1], args[2], false, false, amqp091.Publishing{Body: []byte(body), MessageId: body})
			ts.Check(err)
			confirm.Wait()
		}
	case "ready":
		want, err := strconv.Atoi(args[2])
		ts.Check(err)
		var q amqp091.Queue
		if !eventually(func() bool {
			q, err = ch.QueueDeclarePassive(args[1], true, false, false, false, nil)
			ts.Check(err)
			return q.Messages == want
		}) {
			ts.Fatalf("%s has %d messages in the end", args[1], q.Messages)
		}
	case "delete":
		for _, end := range []string{"", "-error", "-backoff-60", "-backoff-120"} {
			_, err := ch.QueueDelete(args[1]+end, false, false, false)
			ts.Check(err)
		}
		for _, end := range []string{"-main", "-backoff", "-error", "-retry-requeue"} {
			ts.Check(ch.ExchangeDelete(args[1]+end, false, false))
		}
	}
}
