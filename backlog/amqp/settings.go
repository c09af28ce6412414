// Package amqp works with RabbitMQ: a queue as a Store of messages, whose failures wait
// on the broker as the Sneakers backoff handler has them wait.
//
// A [Source] is the Store. What it declares, and what others have declared before, is
// told by [Settings.Topology]; [Redrive] gives back what ended in the error queue.
package amqp

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
)

// Settings are what the configuration says of a queue as the source. URL may hold a
// password and must not be printed.
type Settings struct {
	// URL is amqp://user:password@host:port/vhost, or amqps:// with TLS, whose files
	// stand in its query: cacertfile, certfile and keyfile. Of several, which are the
	// nodes of a cluster, one that answers is taken.
	URL  []string `yaml:"url,env" want:"a URL or a list of them" required:"amqp://user:password@host/vhost"`
	Name string   `yaml:"name"` // of the connection, as the broker shows it

	Queue    string   `yaml:"queue" required:"primary"`
	Quorum   bool     `yaml:"quorum"` // of a queue that is to be created
	Declare  string   `yaml:"declare" words:"missing never all"`
	Exchange Exchange `yaml:"exchange"`
	Prefetch int      `yaml:"prefetch" max:"2000" why:"the broker keeps what is not acknowledged in memory"` // 0: as many as handlers run
	Sneakers Sneakers `yaml:"sneakers"`

	// Arguments are what an existing queue was declared with.
	Arguments map[string]any `yaml:"queue_arguments"`

	// ConsumerTimeout is how long the broker lets a message be unacknowledged.
	ConsumerTimeout time.Duration `yaml:"consumer_timeout" min:"1m"`
}

// An Exchange is where publishers send to. One called "none" is not declared.
type Exchange struct {
	Name        string   `yaml:"name"`
	Type        string   `yaml:"type" words:"direct topic fanout headers"`
	RoutingKeys []string `yaml:"routing_keys" want:"a routing key or a list of them"` // nil: the queue's name
}

// None is the name of the exchange that there is not.
const none = "none"

// Sneakers are the options of the Ruby handler, with its defaults, and two of ours.
type Sneakers struct {
	Base            time.Duration `yaml:"base,seconds"`
	MaxRetries      int           `yaml:"max_retries" max:"50" why:"each has a queue of its own"`
	BackoffExchange string        `yaml:"retry_backoff_exchange"` // "": the queue's name and -backoff
	ErrorExchange   string        `yaml:"retry_error_exchange"`   // -error
	RequeueExchange string        `yaml:"retry_requeue_exchange"` // -retry-requeue
	RoutingKey      string        `yaml:"retry_routing_key"`
	Multiplier      int           `yaml:"multiplier" min:"1"` // milliseconds for a second
	ErrorBody       string        `yaml:"error_body" words:"json original"`
	Queues          string        `yaml:"queues" words:"classic quorum"` // of delays and errors
}

// NewSettings returns the defaults.
func NewSettings() *Settings {
	return &Settings{
		Name: "backlog", Declare: "missing", Exchange: Exchange{Name: "sneakers", Type: "direct"},
		Sneakers:        Sneakers{MaxRetries: 5, RoutingKey: "#", Multiplier: 1000, ErrorBody: "json", Queues: "classic"},
		ConsumerTimeout: 30 * time.Minute,
	}
}

// maxTTL is the longest that a queue may let a message live, in milliseconds.
const maxTTL = 315_360_000_000

// Check reports what is wrong with the settings, and nothing of what is secret.
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

func checkURLs(list []string, fail func(field, problem string)) {
	for _, u := range list {
		if _, err := amqp.ParseURI(u); err != nil {
			fail("url", "is not a URL of AMQP; write amqp://user:password@host/vhost") // the error may show the password
		}
	}
}

// Unacknowledged is how long a message may be handled.
func (s *Settings) Unacknowledged() time.Duration { return s.ConsumerTimeout }

// UnmarshalText reads `exchange: none`.
func (e *Exchange) UnmarshalText(text []byte) error {
	if string(text) != none {
		return errors.New("must be none, or a mapping such as {name: sneakers, type: direct}")
	}
	e.Name = none
	return nil
}

// Policy returns when a message is tried again: (base + 15 s)·2^(n+1) after its n-th
// failure, as the Ruby handler of this name does.
func (s *Settings) Policy() *backlog.Policy {
	return &backlog.Policy{Name: "sneakers", Retries: s.Sneakers.MaxRetries, Wait: func(n int) (least, most time.Duration) {
		wait := min(float64(s.Sneakers.Base+15*time.Second)*math.Exp2(float64(n)+1), float64(backlog.MaxWait))
		return time.Duration(wait), time.Duration(wait)
	}}
}

// delays returns the delay after each failure, from the first to the last, in seconds.
func (s *Settings) delays() (list []int64) {
	for n := range s.Sneakers.MaxRetries {
		list = append(list, s.delay(n+1))
	}
	return list
}

func (s *Settings) delay(n int) int64 {
	wait, _ := s.Policy().Wait(n)
	return int64(wait / time.Second)
}

// ttl returns the delay as the broker keeps it, in milliseconds.
func (s *Settings) ttl(delay int64) int64 { return delay * int64(s.Sneakers.Multiplier) }

// Delays says how long messages wait after each failure.
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

// Shared returns the names of retry exchanges that do not begin with the queue's own.
func (s *Settings) Shared() []string {
	return slices.DeleteFunc([]string{s.backoffExchange(), s.requeueExchange(), s.errorExchange()}, func(name string) bool {
		return strings.HasPrefix(name, s.Queue+"-")
	})
}

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

// arguments returns the arguments of the worker queue.
func (s *Settings) arguments(major int) amqp.Table {
	t := make(amqp.Table)
	for name, v := range s.Arguments {
		if n, ok := v.(int); ok {
			v = int64(n) // int is sent as 32 bits
		}
		t[name] = v
	}
	if s.Quorum {
		maps.Copy(t, endless(major)) // a skip would count
	}
	return t
}

// endless returns the arguments of a quorum queue that gives a message as often as need be.
func endless(major int) amqp.Table {
	t := amqp.Table{"x-queue-type": "quorum"}
	if major >= 4 { // before there is no limit, and -1 drops a message
		t["x-delivery-limit"] = int64(-1)
	}
	return t
}

// matches reports whether a routing key matches the pattern of a topic exchange.
func matches(pattern, key string) bool {
	return matchWords(strings.Split(pattern, "."), strings.Split(key, "."))
}

func matchWords(pattern, key []string) bool {
	switch {
	case len(pattern) == 0:
		return len(key) == 0
	case pattern[0] == "#":
		return matchWords(pattern[1:], key) || len(key) > 0 && matchWords(pattern, key[1:])
	}
	return len(key) > 0 && (pattern[0] == "*" || pattern[0] == key[0]) && matchWords(pattern[1:], key[1:])
}

// backKey returns the routing key by which a message comes back that came with key: the
// same if it does, else one that [Settings.Check] has seen to.
func (s *Settings) backKey(key string) string {
	pattern := s.Sneakers.RoutingKey
	switch {
	case matches(pattern, key):
		return key
	case !strings.ContainsAny(pattern, "*#"):
		return pattern
	}
	return s.routingKeys()[0]
}

// mainKey returns the exchange and the routing key with which a message that once came
// with key is published as a new one.
func (s *Settings) mainKey(key string) (exchange, main string) {
	keys := s.routingKeys()
	switch {
	case s.Exchange.Name == none:
		return "", s.Queue // of the broker's default exchange
	case slices.ContainsFunc(keys, func(k string) bool { return matches(k, key) }):
		return s.Exchange.Name, key
	}
	return s.Exchange.Name, keys[0]
}

// A Queue is one that the broker should have, durable as all of it is.
type Queue struct {
	Name      string
	Arguments amqp.Table // never nil
}

// A Binding binds a queue to an exchange.
type Binding struct {
	Exchange, Queue, Key string
	Arguments            amqp.Table // never nil
}

// A Topology is what the broker should have, in the order in which it is declared.
type Topology struct {
	Exchanges [][2]string // name and type
	Queues    []Queue
	Bindings  []Binding
}

// Topology returns what the settings ask for, from a broker of that major version.
func (s *Settings) Topology(major int) (t Topology) {
	backoff, requeue, failed := s.backoffExchange(), s.requeueExchange(), s.errorExchange()
	t.Exchanges = [][2]string{{backoff, "headers"}, {requeue, "topic"}, {failed, "topic"}}
	t.Queues = []Queue{{Name: s.Queue, Arguments: s.arguments(major)}, {Name: failed, Arguments: amqp.Table{}}}
	if s.Sneakers.Queues == "quorum" {
		t.Queues[1].Arguments = endless(major)
	}
	t.Bindings = []Binding{{requeue, s.Queue, s.Sneakers.RoutingKey, amqp.Table{}}, {failed, failed, "#", amqp.Table{}}}
	if s.Exchange.Name != none {
		t.Exchanges = append(t.Exchanges, [2]string{s.Exchange.Name, s.Exchange.Type})
		for _, key := range s.routingKeys() {
			t.Bindings = append(t.Bindings, Binding{s.Exchange.Name, s.Queue, key, amqp.Table{}})
		}
	}
	for _, d := range s.delays() {
		name := backoff + "-" + strconv.FormatInt(d, 10)
		args := amqp.Table{"x-dead-letter-exchange": requeue, "x-message-ttl": s.ttl(d)}
		if s.Sneakers.Queues == "quorum" {
			maps.Copy(args, amqp.Table{"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"})
		}
		t.Queues = append(t.Queues, Queue{Name: name, Arguments: args})
		t.Bindings = append(t.Bindings, Binding{backoff, name, "", amqp.Table{"backoff": d}})
	}
	return t
}
