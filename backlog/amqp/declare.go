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

// An entity is an exchange, a queue or a binding that the broker should have.
type entity struct {
	name           string                    // such as "queue primary"
	queue          string                    // the queue's name; "" for others
	declarePassive func(*amqp.Channel) error // fails if it does not exist; nil: AMQP has no such call
	declare        func(*amqp.Channel) error
}

// entities returns the topology as entities, in the order in which they are declared.
func (t Topology) entities() (list []entity) {
	for _, e := range t.Exchanges {
		name := e[0]
		kind := e[1]
		list = append(list, entity{
			name: "exchange " + name,
			declarePassive: func(ch *amqp.Channel) error {
				return ch.ExchangeDeclarePassive(name, kind, true, false, false, false, nil)
			},
			declare: func(ch *amqp.Channel) error {
				return ch.ExchangeDeclare(name, kind, true, false, false, false, nil)
			},
		})
	}
	for _, q := range t.Queues {
		list = append(list, entity{
			name:  "queue " + q.Name,
			queue: q.Name,
			declarePassive: func(ch *amqp.Channel) error {
				return onlyError(ch.QueueDeclarePassive(q.Name, true, false, false, false, nil))
			},
			declare: func(ch *amqp.Channel) error {
				return onlyError(ch.QueueDeclare(q.Name, true, false, false, false, q.Arguments))
			},
		})
	}
	for _, b := range t.Bindings {
		list = append(list, entity{
			name: "binding of queue " + b.Queue + " to exchange " + b.Exchange,
			declare: func(ch *amqp.Channel) error {
				return ch.QueueBind(b.Queue, b.Key, b.Exchange, false, b.Arguments)
			},
		})
	}
	return list
}

// declare declares the topology, how as [Settings.Declare] says: "all" fails if something exists
// with other arguments, "missing" declares only what does not exist, and "never" fails if
// something does not exist.
func (sess *session) declare(ctx context.Context, t Topology, how string) error {
	for _, e := range t.entities() {
		if err := sess.declareOne(ctx, e, how); err != nil {
			return fmt.Errorf("%s: %w", e.name, explain(err))
		}
	}
	return nil
}

func (sess *session) declareOne(ctx context.Context, e entity, how string) error {
	if how != "all" && e.declarePassive != nil {
		err := sess.withChannel(ctx, e.declarePassive)
		if !isMissing(err) || how == "never" {
			return err
		}
	}
	if how == "never" {
		return nil // AMQP does not show whether a binding exists
	}
	return sess.withChannel(ctx, e.declare)
}

// inspect returns the numbers of ready messages and consumers of a queue, or that it is missing.
func (sess *session) inspect(ctx context.Context, name string) (q amqp.Queue, missing bool, err error) {
	err = sess.withChannel(ctx, func(ch *amqp.Channel) (err error) {
		q, err = ch.QueueDeclarePassive(name, true, false, false, false, nil)
		return err
	})
	if isMissing(err) {
		return q, true, nil
	}
	return q, false, queueError(name, err)
}

// purge deletes the ready messages of a queue.
func (sess *session) purge(ctx context.Context, name string) error {
	const noWait = false
	err := sess.withChannel(ctx, func(ch *amqp.Channel) error { return onlyError(ch.QueuePurge(name, noWait)) })
	return queueError(name, err)
}

// queueError explains an error of the broker and adds the queue's name. Nil stays nil.
func queueError(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("queue %s: %w", name, explain(err))
}

// hasCode reports whether err is an error of the broker with the code.
func hasCode(err error, code int) bool {
	e, ok := errors.AsType[*amqp.Error](err)
	return ok && e.Code == code
}

// isTooLarge reports whether the broker has refused a message for its size.
func isTooLarge(err error) bool {
	return err != nil && strings.Contains(err.Error(), "larger than configured max size")
}

// isMissing reports whether the broker says that a queue or an exchange does not exist.
func isMissing(err error) bool { return hasCode(err, amqp.NotFound) }

// A QueueStatus is the state of a queue. Ready counts the messages that no consumer has.
type QueueStatus struct {
	Name      string `json:"name"`
	Missing   bool   `json:"missing,omitempty"`
	Ready     int    `json:"ready"`
	Consumers int    `json:"consumers"`
}

// Line returns the status as a line of a table, with tabs between the cells.
func (q *QueueStatus) Line() string {
	name := inspect.Shown(q.Name)
	if q.Missing {
		return name + "\tmissing\t"
	}
	return fmt.Sprintf("%s\t%d\t%d", name, q.Ready, q.Consumers)
}

// NewInspector returns a source that neither consumes nor declares anything by itself. It is for
// [Source.Status], [Source.Inspect], [Source.DeclareAll] and [Source.Redrive].
func NewInspector(s Settings) *Source { return &Source{Settings: s, inspectOnly: true} }

// Status returns the status of each queue of the topology.
func (c *Source) Status(ctx context.Context) (list []QueueStatus, err error) {
	sess, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range c.Topology(sess.major).Queues {
		state, missing, err := sess.inspect(ctx, q.Name)
		if err != nil {
			return nil, err
		}
		list = append(list, QueueStatus{Name: q.Name, Missing: missing, Ready: state.Messages, Consumers: state.Consumers})
	}
	return list, nil
}

// DeclareAll declares the topology. If Declare is "never" it declares what is missing all the
// same.
func (c *Source) DeclareAll(ctx context.Context) error {
	sess, err := c.open(ctx)
	if err != nil {
		return err
	}
	how := c.Declare
	if how == "never" {
		how = "missing"
	}
	return sess.declare(ctx, c.Topology(sess.major), how)
}

// A Finding is what Inspect has found out about one queue, exchange or other thing.
type Finding struct {
	Name    string // such as "queue primary"
	Problem string // "": none
	Detail  string // if there is no problem
	Cure    string
	Warning bool // it works in spite of the problem

	unavailable error // the broker could not be asked
}

// AddFindings adds the findings about a broker to l, under a name.
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

// Inspect compares what the broker has with the topology. It changes nothing. AMQP shows neither
// bindings nor the arguments of a queue, but only whether a declaration would be the same.
func (c *Source) Inspect(ctx context.Context) (list []Finding, err error) {
	sess, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := sess.err(); err != nil {
		list = append(list, Finding{Name: "broker", Problem: err.Error()})
	}
	for _, e := range c.Topology(sess.major).entities() {
		if e.declarePassive == nil {
			continue
		}
		f := Finding{Name: e.name, Detail: "is there as it should be"}
		err := sess.withChannel(ctx, e.declarePassive)
		switch {
		case isMissing(err):
			f.Problem = "is missing; `backlog init` declares it"
			f.Warning = c.Declare != "never"
		case err != nil:
			f.Problem = explain(err).Error()
		default:
			if err := sess.withChannel(ctx, e.declare); err != nil { // a declaration does not change what exists
				f.Problem = explain(err).Error()
				isExchange := e.queue == ""
				otherType := strings.Contains(f.Problem, "'type'") // routes messages otherwise
				usable := e.queue == c.Queue || isExchange && !otherType
				f.Warning = usable && c.Declare != "all"
			}
		}
		list = append(list, f)
	}
	for _, queue := range []string{c.Queue, c.errorExchange()} {
		list = append(list, sess.inspectDeliveryLimit(ctx, queue)...)
	}
	return append(list, Finding{Name: "bindings", Detail: "AMQP does not list them; `backlog init` makes them, and so does a message that no queue takes"}), nil
}

// defaultExchange is the name of the default exchange in permissions.
const defaultExchange = "amq.default"

// Rights returns the permissions that a user needs, as the three regular expressions of
// `rabbitmqctl set_permissions`.
func (s *Settings) Rights() (configure, write, read string) {
	t := s.Topology(0)
	var names []string
	for _, e := range t.Exchanges {
		names = append(names, e[0])
	}
	for _, q := range t.Queues {
		names = append(names, q.Name)
	}
	if dead, ok := s.Arguments["x-dead-letter-exchange"].(string); ok { // needed to declare a queue with this argument
		dead = cmp.Or(dead, defaultExchange)
		names = append(names, dead)
	}
	if s.Exchange.Name == noExchange {
		names = append(names, defaultExchange) // to which `retry --errors` publishes
	}
	for i, name := range names {
		names[i] = regexp.QuoteMeta(name)
	}
	slices.Sort(names)
	all := "^(" + strings.Join(slices.Compact(names), "|") + ")$"
	return all, all, all
}

// Definitions returns the topology as the JSON object of `rabbitmqctl import_definitions`.
func (s *Settings) Definitions() any {
	t := s.Topology(0)
	vhost := s.vhost()
	exchanges := []any{}
	queues := []any{}
	bindings := []any{}
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
