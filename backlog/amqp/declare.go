package amqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog/inspect"
)

// A thing is an exchange, a queue or a binding that the broker should have.
type thing struct {
	name    string
	queue   string                    // its name, if it is one
	look    func(*amqp.Channel) error // nil: AMQP does not tell
	declare func(*amqp.Channel) error
}

// things returns the topology in the order in which it is declared.
func (t Topology) things() (list []thing) {
	for _, e := range t.Exchanges {
		list = append(list, thing{
			"exchange " + e[0], "",
			func(ch *amqp.Channel) error {
				return ch.ExchangeDeclarePassive(e[0], e[1], true, false, false, false, nil)
			},
			func(ch *amqp.Channel) error { return ch.ExchangeDeclare(e[0], e[1], true, false, false, false, nil) },
		})
	}
	for _, q := range t.Queues {
		list = append(list, thing{
			"queue " + q.Name, q.Name,
			func(ch *amqp.Channel) error {
				return errorOf(ch.QueueDeclarePassive(q.Name, true, false, false, false, nil))
			},
			func(ch *amqp.Channel) error {
				return errorOf(ch.QueueDeclare(q.Name, true, false, false, false, q.Arguments))
			},
		})
	}
	for _, b := range t.Bindings {
		list = append(list, thing{
			"binding of queue " + b.Queue + " to exchange " + b.Exchange, "", nil,
			func(ch *amqp.Channel) error { return ch.QueueBind(b.Queue, b.Key, b.Exchange, false, b.Arguments) },
		})
	}
	return list
}

// declare declares the topology: "all", where what exists must have been declared alike,
// or what is "missing", or "never", where that is an error.
func (p *session) declare(ctx context.Context, t Topology, how string) error {
	for _, x := range t.things() {
		if err := p.declareOne(ctx, x, how); err != nil {
			return fmt.Errorf("%s: %w", x.name, worded(err))
		}
	}
	return nil
}

func (p *session) declareOne(ctx context.Context, x thing, how string) error {
	if how != "all" && x.look != nil {
		err := p.probe(ctx, x.look)
		if !isMissing(err) || how == "never" {
			return err
		}
	}
	if how == "never" {
		return nil // AMQP does not tell whether a binding is there
	}
	return p.probe(ctx, x.declare)
}

// inspect returns the ready messages and consumers of a queue, if there is one.
func (p *session) inspect(ctx context.Context, name string) (q amqp.Queue, missing bool, err error) {
	err = p.probe(ctx, func(ch *amqp.Channel) (err error) {
		q, err = ch.QueueDeclarePassive(name, true, false, false, false, nil)
		return err
	})
	if isMissing(err) {
		return q, true, nil
	}
	return q, false, ofQueue(name, err)
}

// purge drops the ready messages of a queue.
func (p *session) purge(ctx context.Context, name string) error {
	err := p.probe(ctx, func(ch *amqp.Channel) error { return errorOf(ch.QueuePurge(name, false)) })
	return ofQueue(name, err)
}

// ofQueue words an error of the broker with the queue's name. Nil stays nil.
func ofQueue(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("queue %s: %w", name, worded(err))
}

// hasCode reports whether an error is one of the broker with the code.
func hasCode(err error, code int) bool {
	e, ok := errors.AsType[*amqp.Error](err)
	return ok && e.Code == code
}

// isTooLarge reports whether the broker says that a message is larger than it allows.
func isTooLarge(err error) bool {
	return err != nil && strings.Contains(err.Error(), "larger than configured max size")
}

func isMissing(err error) bool { return hasCode(err, amqp.NotFound) }

// A QueueStatus is what the broker says of a queue.
type QueueStatus struct {
	Name      string `json:"name"`
	Missing   bool   `json:"missing,omitempty"`
	Ready     int    `json:"ready"`
	Consumers int    `json:"consumers"`
}

// Line is the status for people, with tabs between cells.
func (q *QueueStatus) Line() string {
	name := inspect.Shown(q.Name)
	if q.Missing {
		return name + "\tmissing\t"
	}
	return fmt.Sprintf("%s\t%d\t%d", name, q.Ready, q.Consumers)
}

// Look returns a source that only looks: it neither declares nor consumes.
func Look(s Settings) *Source { return &Source{Settings: s, looks: true} }

// Status returns the state of each queue.
func (c *Source) Status(ctx context.Context) (list []QueueStatus, err error) {
	p, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range c.Topology(p.major).Queues {
		got, missing, err := p.inspect(ctx, q.Name)
		if err != nil {
			return nil, err
		}
		list = append(list, QueueStatus{q.Name, missing, got.Messages, got.Consumers})
	}
	return list, nil
}

// DeclareAll declares what is missing, also where the settings say never, or all.
func (c *Source) DeclareAll(ctx context.Context) error {
	p, err := c.open(ctx)
	if err != nil {
		return err
	}
	how := c.Declare
	if how == "never" {
		how = "missing"
	}
	return p.declare(ctx, c.Topology(p.major), how)
}

// A Finding is what Inspect has found of one thing.
type Finding struct {
	Name    string // such as "queue primary"
	Problem string // "": none
	Detail  string
	Cure    string
	Warning bool // the source, or the daemon, works all the same

	away error // the broker could not be asked
}

// AddFindings adds what was found at a broker, under a name.
func AddFindings(l *inspect.Findings, name string, found []Finding) {
	for _, f := range found {
		switch {
		case f.Problem == "":
			l.AddGood(name, "%s: %s", f.Name, f.Detail)
		case f.Warning:
			l.AddWarning(name, f.Cure, "%s: %s", f.Name, f.Problem)
		default:
			*l = append(*l, inspect.Finding{Name: name, Detail: f.Name + ": " + f.Problem, Cure: f.Cure})
		}
	}
}

// Inspect compares what the broker has with the topology. It changes nothing. The
// broker tells neither the bindings nor the arguments of what exists, but whether a
// declaration with ours would be the same.
func (c *Source) Inspect(ctx context.Context) (list []Finding, err error) {
	p, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.err(); err != nil {
		list = append(list, Finding{Name: "broker", Problem: err.Error()})
	}
	for _, x := range c.Topology(p.major).things() {
		if x.look == nil {
			continue
		}
		f := Finding{Name: x.name, Detail: "is there as it should be"}
		err := p.probe(ctx, x.look)
		switch {
		case isMissing(err):
			f.Problem, f.Warning = "is missing; `backlog init` declares it", c.Declare != "never"
		case err != nil:
			f.Problem = worded(err).Error()
		default:
			if err := p.probe(ctx, x.declare); err != nil { // what exists is left as it is
				f.Problem = worded(err).Error()
				own := x.queue == c.Queue || x.queue == "" && !strings.Contains(f.Problem, "'type'") // another type routes otherwise
				f.Warning = own && c.Declare != "all"
			}
		}
		list = append(list, f)
	}
	for _, queue := range []string{c.Queue, c.errorExchange()} {
		list = append(list, p.limitOf(ctx, queue)...)
	}
	return append(list, Finding{Name: "bindings", Detail: "AMQP does not list them; `backlog init` makes them, and so does a message that no queue takes"}), nil
}

// defaultExchange is what rights call the exchange whose name is empty.
const defaultExchange = "amq.default"

// Rights returns what a user needs, as the three expressions of `rabbitmqctl
// set_permissions`.
func (s *Settings) Rights() (configure, write, read string) {
	t := s.Topology(0)
	var names []string
	for _, e := range t.Exchanges {
		names = append(names, e[0])
	}
	for _, q := range t.Queues {
		names = append(names, q.Name)
	}
	if dead, ok := s.Arguments["x-dead-letter-exchange"].(string); ok { // to declare a queue with it
		dead = cmp.Or(dead, defaultExchange)
		names = append(names, dead)
	}
	if s.Exchange.Name == none {
		names = append(names, defaultExchange) // to which retry publishes
	}
	for i, name := range names {
		names[i] = regexp.QuoteMeta(name)
	}
	slices.Sort(names)
	all := "^(" + strings.Join(slices.Compact(names), "|") + ")$"
	return all, all, all
}

// Definitions returns the topology as `rabbitmqctl import_definitions` takes it.
func (s *Settings) Definitions() any {
	t := s.Topology(0)
	vhost := s.vhost()
	exchanges, queues, bindings := []any{}, []any{}, []any{}
	for _, e := range t.Exchanges {
		exchanges = append(exchanges, map[string]any{
			"vhost": vhost, "name": e[0], "type": e[1], "durable": true, "auto_delete": false, "internal": false, "arguments": amqp.Table{},
		})
	}
	for _, q := range t.Queues {
		queues = append(queues, map[string]any{
			"vhost": vhost, "name": q.Name, "durable": true, "auto_delete": false, "arguments": q.Arguments,
		})
	}
	for _, b := range t.Bindings {
		bindings = append(bindings, map[string]any{
			"vhost": vhost, "source": b.Exchange, "destination": b.Queue, "destination_type": "queue", "routing_key": b.Key,
			"arguments": b.Arguments,
		})
	}
	return map[string]any{"exchanges": exchanges, "queues": queues, "bindings": bindings}
}
