package amqp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// defaultDeliveryLimit is the delivery limit that RabbitMQ 4.0 and later give a quorum queue
// that sets none.
const defaultDeliveryLimit = 20

// inspectDeliveryLimit returns a finding if the queue has a delivery limit and no dead-letter
// exchange: it drops a message that is redelivered more often. A policy of the broker may name
// that exchange, but AMQP does not show policies.
func (sess *session) inspectDeliveryLimit(ctx context.Context, queue string) []Finding {
	if _, missing, err := sess.inspect(ctx, queue); err != nil || missing {
		return nil
	}
	args, err := sess.queueArguments(ctx, queue, nil)
	if err != nil || args["x-queue-type"] != "quorum" || args["x-dead-letter-exchange"] != nil {
		return nil
	}
	limit, given := args["x-delivery-limit"].(int64)
	if !given && sess.major >= 4 {
		limit = defaultDeliveryLimit
	} else if !given || limit < 0 {
		return nil
	}
	problem := fmt.Sprintf("a message that has come back more than %d times is dropped: lost connections and killed processes count, and the queue has no dead-letter exchange"+
		" (unless a policy names one, which AMQP does not tell); give it one: `rabbitmqctl set_policy NAME '^%s$' '{\"dead-letter-exchange\":\"…\"}'`", limit, regexp.QuoteMeta(queue))
	return []Finding{{Name: "delivery limit of queue " + queue, Problem: problem, Warning: true}}
}

// inequivalentArg matches the broker's error for a declaration that differs in one argument. Its
// groups are the argument's name, the actual value with its type if the declaration has
// another type, and the actual value without it.
var inequivalentArg = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`inequivalent arg '([^']*)' .* but current is (?:the value '(.*)' of type '(\w+)'|'(.*)'|none)`)
})

// maxArguments bounds how many arguments of a queue are found out.
const maxArguments = 30

// queueArguments returns the arguments of an existing queue. AMQP does not list them, but the
// broker refuses a declaration that differs, and names the first argument that does and its
// actual value. So the queue is declared until the broker accepts the arguments, beginning
// with known, which are those expected.
func (sess *session) queueArguments(ctx context.Context, queue string, known amqp.Table) (amqp.Table, error) {
	args := make(amqp.Table)
	maps.Copy(args, known)
	for range maxArguments {
		err := sess.withChannel(ctx, func(ch *amqp.Channel) error {
			return onlyError(ch.QueueDeclare(queue, true, false, false, false, args))
		})
		var refusal *amqp.Error
		if !errors.As(err, &refusal) {
			return args, err
		}
		parts := inequivalentArg().FindStringSubmatch(refusal.Reason)
		if parts == nil {
			return nil, err
		}
		name := parts[1]
		value := parts[2]
		kind := parts[3]
		if parts[4] != "" {
			value = parts[4]
			kind = "number"
			if _, isText := args[name].(string); isText {
				kind = "longstr"
			}
		}
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case kind == "": // the queue does not have it
			delete(args, name)
		case err == nil && !strings.HasSuffix(kind, "str"):
			args[name] = n
		case kind == "bool":
			args[name] = value == "true"
		default:
			args[name] = value
		}
	}
	return nil, fmt.Errorf("queue %s has more than %d arguments", queue, maxArguments)
}
