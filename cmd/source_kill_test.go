package cmd_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"backlog/internal/testserver"
)

// A handler of messages. Those that end in 0 fail, those that end in 1 do so at first.
const messageHandler = `#!/bin/sh
body=$(cat)
case $body in
*0) exit 1 ;;
*1) [ -e "seen.$body" ] || { : >"seen.$body"; exit 1; } ;;
esac
echo "done $body" >>work.log
`

const messagePrefetch = 8

// A mill is a shop whose records are the messages of a queue.
type mill struct {
	*shop
	queue string
	ch    *amqp091.Channel
	sent  int
}

func newMill(t *testing.T, broker, via, queue string) *mill {
	t.Helper()
	m := millOf(t, queue, fmt.Sprintf("url: %q", via), "")
	m.dial(broker)
	m.mustRun("init")
	return m
}

// millOf returns a mill with settings more of source and retries, which is not open yet.
func millOf(t *testing.T, queue, source, sneakers string) *mill {
	m := &mill{shop: newShop(t, map[string]string{"handler.sh": messageHandler}), queue: queue}
	m.write("schedule.yaml", fmt.Sprintf(`source:
  amqp: {%s, queue: %s, prefetch: %d, exchange: {name: none}, sneakers: {max_retries: 2, multiplier: 1%s}}
handler: {exec: [./handler.sh], concurrency: 4}
`, source, queue, messagePrefetch, sneakers))
	return m
}

// dial makes the test's own connection, to that broker from now on.
func (m *mill) dial(broker string) {
	m.t.Helper()
	c, err := amqp091.Dial(broker)
	m.check(err)
	m.t.Cleanup(func() { c.Close() })
	m.ch, err = c.Channel()
	if err == nil {
		err = m.ch.Confirm(false)
	}
	m.check(err)
}

func (m *mill) check(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// send sends so many messages, whose bodies are numbers.
func (m *mill) send(n int) {
	m.t.Helper()
	for range n {
		m.sent++
		c, err := m.ch.PublishWithDeferredConfirm("", m.queue, true, false, amqp091.Publishing{Body: fmt.Append(nil, m.sent), DeliveryMode: amqp091.Persistent})
		m.check(err)
		if !c.Wait() {
			m.t.Fatal("the broker has refused it")
		}
	}
}

func (m *mill) ready(queue string) int {
	m.t.Helper()
	q, err := m.ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	m.check(err)
	return q.Messages
}

// drain takes all that is in the queue and returns the bodies.
func (m *mill) drain(queue string) (bodies []string) {
	m.t.Helper()
	for {
		d, ok, err := m.ch.Get(queue, true)
		m.check(err)
		if !ok {
			return bodies
		}
		var failure struct{ Payload string }
		if json.Unmarshal(d.Body, &failure) == nil {
			body, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(failure.Payload, "\n", ""))
			m.check(err)
			d.Body = body
		}
		bodies = append(bodies, string(d.Body))
	}
}

// judge waits until all is done, and accounts for each message: where it is, and how often.
func (m *mill) judge(d *daemon) (n tally) {
	m.t.Helper()
	fail := m.sent / 10
	eventually(func() bool {
		return m.ready(m.queue) == 0 && m.ready(m.queue+"-backoff-60") == 0 && m.ready(m.queue+"-backoff-120") == 0 &&
			m.ready(m.queue+"-error") >= fail && strings.Count(m.read("work.log"), "done") >= m.sent-fail
	})
	d.signal(syscall.SIGTERM)
	d.ends()
	eventually(func() bool { return m.ready(m.queue+"-backoff-60") == 0 && m.ready(m.queue+"-backoff-120") == 0 }) // it is in the queue again
	places, succeeded := make(map[string]int), make(map[string]int)
	for line := range strings.Lines(m.read("work.log")) {
		succeeded[strings.Fields(line)[1]]++
	}
	for _, body := range append(m.drain(m.queue), m.drain(m.queue+"-error")...) {
		places[body]++
	}
	n.all = m.sent
	for i := range m.sent {
		body := fmt.Sprint(i + 1)
		switch {
		case succeeded[body] > 0:
			n.succeeded++
		case places[body] > 0:
			n.waiting++
		default:
			n.lost++
			m.t.Errorf("message %s is lost:\n%s", body, d.log)
		}
		n.copies += max(0, succeeded[body]+places[body]-1)
		if (i+1)%10 == 0 && succeeded[body] > 0 {
			n.wrong++
		}
	}
	return n
}

// TestSourceKilled kills a source at each arrow. Each message is in at least one place
// afterwards: it was handled to its success, or is in a queue. Copies are as many as
// were on their way.
func TestSourceKilled(t *testing.T) {
	t.Parallel()
	u, _ := testserver.RabbitMQVhost(t)
	sums := newAccount(t)
	for _, a := range arrows {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			s := newSnare(t, u.Host)
			via := *u
			via.Host = s.addr()
			m := newMill(t, u.String(), via.String(), a.name)
			for range torture {
				m.send(10)
				d := s.kill(a, rand.IntN(3), func() *daemon { return m.start("run") })
				for began := time.Now(); !d.hasEnded(); time.Sleep(20 * time.Millisecond) {
					if time.Since(began) > patience {
						t.Fatalf("it is not killed:\n%s", d.log)
					}
					if m.ready(m.queue) == 0 {
						m.send(1)
					}
				}
			}
			n := m.judge(m.start("run"))
			n.kills, n.most = torture, torture*(1+messagePrefetch)
			sums.add(t, "source "+a.name, n)
		})
	}
}
