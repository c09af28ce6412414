// Package amqp works with RabbitMQ, in two ways that share sessions, publish confirms and the
// declaration of queues.
//
// A [Source] is a queue as a [backlog.Store]: its messages are the records. A failed message is
// published to a queue for its delay, whose messages expire into the first queue again, as the
// backoff handler of the Ruby gem Sneakers does it. [Settings.Topology] lists all exchanges and
// queues, [Source.Inspect] compares them with the broker's, and [Source.Redrive] publishes the
// messages of the error queue again.
//
// A [Dispatch] is a [backlog.Handler] that sends the records of a table to workers on other
// machines and waits for their outcomes. A [Worker] is the other side: it receives the requests
// and runs a handler for each.
//
// A message is acknowledged only when what follows from it is safe: the broker has confirmed what
// was published for it, or the row is written. So a lost connection or a crash may duplicate a
// message, and never loses one.
package amqp

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
)

// Settings are the part of the configuration file for a [Source]. URL may hold a password and must
// not be printed.
type Settings struct {
	// URL is amqp://user:password@host:port/vhost, or amqps:// with TLS, whose query names
	// the files: cacertfile, certfile and keyfile. Several URLs are the nodes of a cluster:
	// a session is opened with one that answers.
	URL  []string `yaml:"url,env" want:"a URL or a list of them" required:"amqp://user:password@host/vhost"`
	Name string   `yaml:"name"` // of the connection, as the broker shows it

	Queue    string   `yaml:"queue" required:"primary"`
	Quorum   bool     `yaml:"quorum"` // a queue that is created is a quorum queue
	Declare  string   `yaml:"declare" words:"missing never all"`
	Exchange Exchange `yaml:"exchange"`
	Prefetch int      `yaml:"prefetch" max:"2000" why:"the broker keeps what is not acknowledged in memory"` // 0: the concurrency of the handler
	Sneakers Sneakers `yaml:"sneakers"`

	// Arguments are the arguments with which an existing queue was declared.
	Arguments map[string]any `yaml:"queue_arguments"`

	// ConsumerTimeout is the broker's consumer_timeout: how long a message may be
	// unacknowledged.
	ConsumerTimeout time.Duration `yaml:"consumer_timeout" min:"1m"`
}

// An Exchange is the main exchange, to which publishers send. If its name is "none", there is no
// such exchange: publishers use the default one.
type Exchange struct {
	Name        string   `yaml:"name"`
	Type        string   `yaml:"type" words:"direct topic fanout headers"`
	RoutingKeys []string `yaml:"routing_keys" want:"a routing key or a list of them"` // nil: the queue's name
}

// noExchange is the name that stands for no main exchange.
const noExchange = "none"

// Sneakers are the options of the Ruby handler, under its names and with its defaults. ErrorBody
// and Queues are additions.
type Sneakers struct {
	Base            time.Duration `yaml:"base,seconds"`
	MaxRetries      int           `yaml:"max_retries" max:"50" why:"each has a queue of its own"`
	BackoffExchange string        `yaml:"retry_backoff_exchange"` // "": the name of the queue and -backoff
	ErrorExchange   string        `yaml:"retry_error_exchange"`   // "": … and -error
	RequeueExchange string        `yaml:"retry_requeue_exchange"` // "": … and -retry-requeue
	RoutingKey      string        `yaml:"retry_routing_key"`
	Multiplier      int           `yaml:"multiplier" min:"1"` // how many milliseconds make a second; less in tests
	ErrorBody       string        `yaml:"error_body" words:"json original"`
	Queues          string        `yaml:"queues" words:"classic quorum"` // the kind of the queues for delays and errors
}

// NewSettings returns the defaults.
func NewSettings() *Settings {
	return &Settings{
		Name: "backlog", Declare: "missing", Exchange: Exchange{Name: "sneakers", Type: "direct"},
		Sneakers:        Sneakers{MaxRetries: 5, RoutingKey: "#", Multiplier: 1000, ErrorBody: "json", Queues: "classic"},
		ConsumerTimeout: 30 * time.Minute,
	}
}

// maxTTL is the largest x-message-ttl of a queue, in milliseconds.
const maxTTL = 315_360_000_000

// Check calls fail with each problem of the settings. Its texts show no secret.
func (s *Settings) Check(fail func(field, problem string)) {
	checkURLs(s.URL, fail)
	k := &s.Sneakers
	if last := s.ttl(s.delay(k.MaxRetries)); k.MaxRetries > 0 && last > maxTTL {
		fail("sneakers.max_retries", fmt.Sprintf("the last delay would be %d ms, and the broker takes %d at most", last, int64(maxTTL)))
	}
	if k.RoutingKey == "#" && k.RequeueExchange != "" && k.RequeueExchange != s.Queue+"-retry-requeue" {
		fail("sneakers.retry_routing_key", fmt.Sprintf("with # every queue that shares the exchange %s would get each message that is tried again; write the queue's own key, such as %s", k.RequeueExchange, s.Queue))
	}
	for _, key := range s.routingKeys() {
		if !matches(k.RoutingKey, key) && strings.ContainsAny(k.RoutingKey, "*#") {
			fail("sneakers.retry_routing_key", fmt.Sprintf("%s does not match the routing key %s, so that what is tried again would come back under no key; write one without wildcards", k.RoutingKey, key))
		}
	}
	if s.Quorum && s.Arguments["x-queue-type"] != nil {
		fail("quorum", "queue_arguments has the x-queue-type; remove one of them")
	}
}

// checkURLs calls fail with each URL that is invalid.
func checkURLs(list []string, fail func(field, problem string)) {
	for _, text := range list { // the errors may show the password
		parsed, err := url.Parse(text)
		_, parseErr := amqp.ParseURI(text)
		switch {
		case err != nil || parseErr != nil || parsed.Opaque != "":
			fail("url", "is not a URL of AMQP; write amqp://user:password@host/vhost")
		case parsed.Hostname() == "":
			fail("url", "names no host; write amqp://user:password@host/vhost, with localhost for this machine")
		case parsed.Fragment != "":
			fail("url", "has a #, behind which nothing is sent; write %23 if it belongs to the vhost")
		case !isPort(parsed.Port()):
			fail("url", "has a port beyond 65535")
		}
	}
}

// isPort reports whether the text is the number of a port, or empty.
func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && n > 0
}

// Unacknowledged returns how long a message may be unacknowledged, and so how long it may be
// handled.
func (s *Settings) Unacknowledged() time.Duration { return s.ConsumerTimeout }

// UnmarshalText implements [encoding.TextUnmarshaler] for `exchange: none`.
func (e *Exchange) UnmarshalText(text []byte) error {
	if string(text) != noExchange {
		return errors.New("must be none, or a mapping such as {name: sneakers, type: direct}")
	}
	e.Name = noExchange
	return nil
}

// Policy returns the retry policy: a message is tried again (base + 15 s)·2^(n+1) after its n-th
// failure, the formula of the Sneakers backoff handler, https://github.com/jondot/sneakers/pull/278.
func (s *Settings) Policy() *backlog.Policy {
	wait := func(n int) (least, most time.Duration) {
		d := min(float64(s.Sneakers.Base+15*time.Second)*math.Exp2(float64(n)+1), float64(backlog.MaxWait))
		return time.Duration(d), time.Duration(d)
	}
	return &backlog.Policy{Name: "sneakers", Retries: s.Sneakers.MaxRetries, Wait: wait}
}

// delays returns the delay after each failure, from the first to the last, in seconds.
func (s *Settings) delays() (list []int64) {
	for n := range s.Sneakers.MaxRetries {
		list = append(list, s.delay(n+1))
	}
	return list
}

// delay returns the delay after the n-th failure, in seconds.
func (s *Settings) delay(n int) int64 {
	wait, _ := s.Policy().Wait(n)
	return int64(wait / time.Second)
}

// snoozeDelay returns the shortest delay that is at least as long as the wait, or else the longest, in
// seconds. There must be a delay.
func (s *Settings) snoozeDelay(wait time.Duration) int64 {
	list := s.delays()
	for _, d := range list {
		if time.Duration(s.ttl(d))*time.Millisecond >= wait {
			return d
		}
	}
	return list[len(list)-1]
}

// ttl returns the x-message-ttl for a delay in seconds.
func (s *Settings) ttl(delay int64) int64 { return delay * int64(s.Sneakers.Multiplier) }

// Delays describes for people how long messages wait after each failure.
func (s *Settings) Delays() string {
	var list []string
	for _, d := range s.delays() {
		list = append(list, (time.Duration(s.ttl(d)) * time.Millisecond).String())
	}
	if len(list) == 0 {
		return "none: a failure goes to the error queue at once"
	}
	return "after each failure " + strings.Join(list, ", ") + ", then the error queue"
}

// Shared returns the names of the retry exchanges that other queues may share, since they do not
// begin with the queue's name.
func (s *Settings) Shared() []string {
	return slices.DeleteFunc([]string{s.backoffExchange(), s.requeueExchange(), s.errorExchange()}, func(name string) bool {
		return strings.HasPrefix(name, s.Queue+"-")
	})
}

// routingKeys returns the keys that bind the queue to the main exchange.
func (s *Settings) routingKeys() []string {
	if len(s.Exchange.RoutingKeys) > 0 {
		return s.Exchange.RoutingKeys
	}
	return []string{s.Queue}
}

// errorExchange is the name of the error exchange, and of the error queue.
func (s *Settings) errorExchange() string { return cmp.Or(s.Sneakers.ErrorExchange, s.Queue+"-error") }

func (s *Settings) backoffExchange() string {
	return cmp.Or(s.Sneakers.BackoffExchange, s.Queue+"-backoff")
}

func (s *Settings) requeueExchange() string {
	return cmp.Or(s.Sneakers.RequeueExchange, s.Queue+"-retry-requeue")
}

// arguments returns the arguments of the main queue.
func (s *Settings) arguments(major int) amqp.Table {
	t := make(amqp.Table)
	for name, v := range s.Arguments {
		if n, ok := v.(int); ok {
			v = int64(n) // int is sent as 32 bits
		}
		t[name] = v
	}
	if s.Quorum {
		maps.Copy(t, unlimitedQuorum(major)) // with a limit, skips would count
	}
	return t
}

// unlimitedQuorum returns the arguments of a quorum queue without a delivery limit.
func unlimitedQuorum(major int) amqp.Table {
	t := amqp.Table{"x-queue-type": "quorum"}
	if major >= 4 { // before RabbitMQ 4 there is no limit, and -1 would drop messages
		t["x-delivery-limit"] = int64(-1)
	}
	return t
}

// matches reports whether a routing key matches the pattern of a topic exchange.
func matches(pattern, key string) bool {
	return matchWords(strings.Split(pattern, "."), strings.Split(key, "."))
}

// matchWords matches words: * stands for one word, # for any number of them.
func matchWords(pattern, key []string) bool {
	switch {
	case len(pattern) == 0:
		return len(key) == 0
	case pattern[0] == "#":
		return matchWords(pattern[1:], key) || len(key) > 0 && matchWords(pattern, key[1:])
	}
	return len(key) > 0 && (pattern[0] == "*" || pattern[0] == key[0]) && matchWords(pattern[1:], key[1:])
}

// retryKey returns the routing key with which a message with the key comes back to the queue: the
// same key if retry_routing_key matches it, otherwise one that does, see [Settings.Check].
func (s *Settings) retryKey(key string) string {
	pattern := s.Sneakers.RoutingKey
	switch {
	case matches(pattern, key):
		return key
	case !strings.ContainsAny(pattern, "*#"):
		return pattern
	}
	return s.routingKeys()[0]
}

// mainRoute returns the exchange and the routing key with which a message that had the key is
// published as a new one.
func (s *Settings) mainRoute(key string) (exchange, routingKey string) {
	keys := s.routingKeys()
	switch {
	case s.Exchange.Name == noExchange:
		return "", s.Queue // the default exchange
	case slices.ContainsFunc(keys, func(k string) bool { return matches(k, key) }):
		return s.Exchange.Name, key
	}
	return s.Exchange.Name, keys[0]
}

// A Queue is a durable queue that the broker should have.
type Queue struct {
	Name      string
	Arguments amqp.Table // never nil
}

// A Binding binds a queue to an exchange.
type Binding struct {
	Exchange, Queue, Key string
	Arguments            amqp.Table // never nil
}

// A Topology is what the broker should have. All of it is durable.
type Topology struct {
	Exchanges [][2]string // name and type
	Queues    []Queue
	Bindings  []Binding
}

// Topology returns the exchanges, queues and bindings for the settings, for a broker of that major
// version.
func (s *Settings) Topology(major int) Topology {
	backoff := s.backoffExchange()
	requeue := s.requeueExchange()
	failed := s.errorExchange() // also the name of the error queue
	errorArguments := amqp.Table{}
	if s.Sneakers.Queues == "quorum" {
		errorArguments = unlimitedQuorum(major)
	}
	t := Topology{
		Exchanges: [][2]string{{backoff, "headers"}, {requeue, "topic"}, {failed, "topic"}},
		Queues: []Queue{
			{Name: s.Queue, Arguments: s.arguments(major)},
			{Name: failed, Arguments: errorArguments},
		},
		Bindings: []Binding{
			{Exchange: requeue, Queue: s.Queue, Key: s.Sneakers.RoutingKey, Arguments: amqp.Table{}},
			{Exchange: failed, Queue: failed, Key: "#", Arguments: amqp.Table{}},
		},
	}
	if s.Exchange.Name != noExchange {
		t.Exchanges = append(t.Exchanges, [2]string{s.Exchange.Name, s.Exchange.Type})
		for _, key := range s.routingKeys() {
			t.Bindings = append(t.Bindings, Binding{Exchange: s.Exchange.Name, Queue: s.Queue, Key: key, Arguments: amqp.Table{}})
		}
	}
	for _, d := range s.delays() {
		name := backoff + "-" + strconv.FormatInt(d, 10)
		args := amqp.Table{"x-dead-letter-exchange": requeue, "x-message-ttl": s.ttl(d)}
		if s.Sneakers.Queues == "quorum" {
			maps.Copy(args, amqp.Table{"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"})
		}
		t.Queues = append(t.Queues, Queue{Name: name, Arguments: args})
		t.Bindings = append(t.Bindings, Binding{Exchange: backoff, Queue: name, Arguments: amqp.Table{"backoff": d}})
	}
	return t
}
