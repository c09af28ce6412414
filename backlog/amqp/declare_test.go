package amqp

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
	"backlog/internal/testkit"
	"backlog/internal/testserver"
)

// open reports the error of a source's start, which must have the texts, or be nil
// without any.
func open(t *testing.T, s *Settings, want ...string) {
	t.Helper()
	c := &Source{Settings: *s}
	defer c.Close()
	err := c.Open(t.Context())
	if (err == nil) != (len(want) == 0) {
		t.Errorf("%s: %v", s.Declare, err)
		return
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v\nhas no %q", s.Declare, err, text)
		}
	}
}

// What declare does where nothing is there, where all of it is, and where the queue was
// declared otherwise, as for Maxretry.
func TestDeclare(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	as := func(declare string) *Settings {
		s.Declare = declare
		return s
	}
	open(t, as("never"), "exchange "+s.Queue+"-backoff: NOT_FOUND", "`backlog init` declares it")
	open(t, as("missing"))
	open(t, as("never"))
	open(t, as("all"))
	_, err := b.QueueDelete(s.Queue, false, false, false)
	b.check(err)
	open(t, as("never"), "queue "+s.Queue+": NOT_FOUND")

	dead := amqp.Table{"x-dead-letter-exchange": s.Queue + "-retry"}
	_, err = b.QueueDeclare(s.Queue, true, false, false, false, dead)
	b.check(err)
	open(t, as("all"), "queue "+s.Queue+": it is there and was declared otherwise", "'x-dead-letter-exchange'", "queue_arguments")
	open(t, as("missing"))
	s.Arguments = map[string]any{"x-dead-letter-exchange": s.Queue + "-retry"}
	open(t, as("all"))
	s.Arguments["x-max-priority"] = 5
	open(t, as("all"), "inequivalent arg 'x-max-priority'")
}

// What is asked for is declared even where passes may declare nothing.
func TestDeclareAll(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	s.Declare = "never"
	c := NewInspector(*s)
	defer c.Close()
	b.check(c.DeclareAll(t.Context()))
	open(t, s)
}

// Maxretry's queue is used as it is, also when something of ours has to be declared again.
func TestReturned(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	s.Sneakers.Multiplier = 1000
	_, err := b.QueueDeclare(s.Queue, true, false, false, false, amqp.Table{"x-dead-letter-exchange": s.Queue + "-retry"})
	b.check(err)
	c := source(t, s)
	_, err = b.QueueDelete(s.Queue+"-backoff-60", false, false, false)
	b.check(err)
	b.check(b.QueueUnbind(s.Queue+"-error", "#", s.Queue+"-error", nil))
	stop, seen := serve(t, c, func(_ context.Context, r *backlog.Record) error {
		if string(Body(r)) == "reject" {
			return backlog.Reject(errBoom)
		}
		return errBoom
	})
	b.send(amqp.Publishing{Body: []byte("fail")})
	b.send(amqp.Publishing{Body: []byte("reject")})
	b.waitReady(s.Queue+"-backoff-60", 1)
	b.receive(s.Queue + "-error")
	r := stop()
	testkit.Equal(t, "failed", r.Failed, 1)
	testkit.Equal(t, "rejected", r.Rejected, 1)
	testkit.Equal(t, "unwritten", r.Unwritten, 0)
	testkit.Equal(t, "the broker was lost", seen.has(backlog.StoreUnavailable, ""), false)
}

// Where nothing may be declared, a message without a way waits for one.
func TestReturnedForGood(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	s.Sneakers.Multiplier = 1000
	open(t, s)
	s.Declare = "never"
	b.check(b.QueueUnbind(s.Queue+"-backoff-60", "", s.Queue+"-backoff", amqp.Table{"backoff": int64(60)}))
	c := source(t, s)
	stop, seen := serve(t, c, fails)
	b.send(amqp.Publishing{})
	testkit.Eventually(t, "the log says why", func() bool {
		return seen.has(backlog.Refused, "exchange "+s.Queue+"-backoff, routing key "+s.Queue+": no queue is bound for it")
	})
	b.check(b.QueueBind(s.Queue+"-backoff-60", "", s.Queue+"-backoff", false, amqp.Table{"backoff": int64(60)}))
	b.waitReady(s.Queue+"-backoff-60", 1)
	if r := stop(); r.Refused != 1 || r.Unwritten != 0 {
		t.Errorf("%+v", r)
	}
}

// Two queues share the exchanges; a message that is tried again comes back to its own.
func TestSharedExchanges(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	other, _ := newBroker(t)
	for _, x := range []*Settings{s, other} {
		x.Sneakers.BackoffExchange, x.Sneakers.RequeueExchange, x.Sneakers.ErrorExchange = s.Queue+"-shared-backoff", s.Queue+"-shared-requeue", s.Queue+"-shared-error"
		x.Sneakers.RoutingKey, x.Sneakers.MaxRetries = x.Queue, 2
	}
	stop, _ := serve(t, source(t, s), fails)
	stopOther, _ := serve(t, source(t, other), func(context.Context, *backlog.Record) error { return nil })
	b.send(amqp.Publishing{Body: []byte("mine")})
	b.receive(s.Queue + "-shared-error")
	if mine, others := stop(), stopOther(); mine.Failed != 3 || others.Selected != 0 {
		t.Errorf("%+v %+v", mine, others)
	}
}

// What check finds.
func TestInspect(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	s.Sneakers.MaxRetries = 1
	look := func() (problems, warnings string) {
		t.Helper()
		c := NewInspector(*s)
		defer c.Close()
		list, err := c.Inspect(t.Context())
		b.check(err)
		for _, f := range list {
			switch text := strings.ReplaceAll(f.Name+": "+f.Problem, s.Queue, "Q") + "\n"; {
			case f.Problem == "":
			case f.Warning:
				warnings += text
			default:
				problems += text
			}
		}
		return problems, warnings
	}
	missing := ""
	for _, name := range []string{"exchange Q-backoff", "exchange Q-retry-requeue", "exchange Q-error", "exchange Q-main", "queue Q", "queue Q-error", "queue Q-backoff-60"} {
		missing += name + ": is missing; `backlog init` declares it\n"
	}
	if problems, warnings := look(); problems != "" || warnings != missing {
		t.Errorf("%s / %s", problems, warnings)
	}
	s.Declare = "never"
	if problems, warnings := look(); problems != missing || warnings != "" {
		t.Errorf("%s / %s", problems, warnings)
	}
	b.check(b.ExchangeDeclare(s.Queue+"-backoff", "direct", true, false, false, false, nil))
	b.check(b.ExchangeDeclare(s.Queue+"-main", "direct", false, false, false, false, nil))
	_, err := b.QueueDeclare(s.Queue, true, false, false, false, amqp.Table{"x-max-length": int32(5)})
	b.check(err)
	s.Declare = "missing"
	open(t, s)
	problems, warnings := look()
	if !strings.Contains(problems, "exchange Q-backoff: it is there and was declared otherwise") || strings.Count(problems, "\n") != 1 {
		t.Error(problems)
	}
	if !strings.Contains(warnings, "exchange Q-main: ") || !strings.Contains(warnings, "queue Q: ") || strings.Count(warnings, "\n") != 2 {
		t.Error(warnings)
	}
	s.Declare = "all" // with which all must be as declared
	if problems, warnings := look(); strings.Count(problems, "\n") != 3 || warnings != "" {
		t.Errorf("%s / %s", problems, warnings)
	}
}

// What is wrong with the login is said at once, without the password; a broker that is
// away may come back.
func TestLogin(t *testing.T) {
	t.Parallel()
	s, b := newBroker(t)
	u, err := url.Parse(s.URL[0])
	b.check(err)
	for _, test := range []struct {
		change func(*url.URL)
		want   string
		waits  bool
	}{
		{func(u *url.URL) { u.User = url.UserPassword("guest", "hidden") }, "the broker refuses the user or the password of the URL", false},
		{func(u *url.URL) { u.User, u.Path = url.UserPassword("guest", "guest"), "/nowhere" }, `the broker has no vhost "nowhere", or the user may not use it`, false},
		{func(u *url.URL) { u.User, u.Host = url.UserPassword("guest", "hidden"), "127.0.0.1:1" }, "127.0.0.1:1: ", true},
		{func(u *url.URL) { u.User, u.Host = url.UserPassword("guest", "hidden"), "nowhere.invalid:5672" }, "nowhere.invalid", true},
	} {
		changed := *u
		test.change(&changed)
		wrong := *s
		wrong.URL = []string{changed.String()}
		began := time.Now()
		err := (&Source{Settings: wrong}).Open(t.Context())
		if err == nil {
			t.Errorf("got no error, want %s", test.want)
			continue
		}
		testkit.Contains(t, "error", err.Error(), test.want)
		testkit.NotContains(t, "error", err.Error(), "hidden")
		testkit.Equal(t, test.want+": the broker is waited for", errors.Is(err, backlog.ErrUnavailable), test.waits)
		if took := time.Since(began); took > 10*time.Second { // two logins, which RabbitMQ refuses after 3 s each
			t.Errorf("that took %v", took)
		}
		wrong.URL = append(wrong.URL, s.URL[0])
		open(t, &wrong) // of several nodes one is enough
	}
}

func TestRights(t *testing.T) {
	s := NewSettings()
	s.Queue, s.Sneakers.MaxRetries = "a.b", 1
	names := `a\.b|a\.b-backoff|a\.b-backoff-60|a\.b-error|a\.b-retry-requeue`
	if got, write, read := s.Rights(); got != "^("+names+"|sneakers)$" || write != got || read != got {
		t.Error(got, write, read)
	}
	s.Exchange.Name, s.Arguments = noExchange, map[string]any{"x-dead-letter-exchange": "a.b-retry"}
	if got, _, _ := s.Rights(); got != `^(a\.b|a\.b-backoff|a\.b-backoff-60|a\.b-error|a\.b-retry|a\.b-retry-requeue|amq\.default)$` {
		t.Error(got)
	}
}

// What init --print prints can be imported, and then nothing is missing.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	u, ctl := testserver.RabbitMQVhost(t)
	s, b := brokerAt(t, u.String())
	s.Arguments = map[string]any{"x-max-priority": 5}
	text, err := json.Marshal(s.Definitions())
	b.check(err)
	f, err := os.CreateTemp("", "definitions-*.json") // which the broker's user reads
	b.check(err)
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	b.check(errors.Join(err, f.Chmod(0o644), f.Close()))
	ctl("import_definitions", f.Name())
	s.Declare = "never"
	open(t, s)
	s.Declare = "all"
	open(t, s)
	stop, _ := serve(t, source(t, s), fails)
	b.send(amqp.Publishing{Body: []byte("it is bound")})
	b.receive(s.Queue + "-error")
	stop()
}
