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

// defaultLimit is the delivery limit of a quorum queue that names none, from RabbitMQ 4.0 on.
const defaultLimit = 20

// limitOf returns a finding if the queue drops a message after so many returns, since
// it has no dead-letter exchange. AMQP tells nothing of policies.
func (p *session) limitOf(ctx context.Context, queue string) []Finding {
	if _, missing, err := p.inspect(ctx, queue); err != nil || missing {
		return nil
	}
	args, err := p.argumentsOf(ctx, queue, nil)
	if err != nil || args["x-queue-type"] != "quorum" || args["x-dead-letter-exchange"] != nil {
		return nil
	}
	limit, given := args["x-delivery-limit"].(int64)
	if !given && p.major >= 4 {
		limit = defaultLimit
	} else if !given || limit < 0 {
		return nil
	}
	problem := fmt.Sprintf("a message that has come back more than %d times is dropped: lost connections and killed processes count, and the queue has no dead-letter exchange"+
		" (unless a policy names one, which AMQP does not tell); give it one: `rabbitmqctl set_policy NAME '^%s$' '{\"dead-letter-exchange\":\"…\"}'`", limit, regexp.QuoteMeta(queue))
	return []Finding{{Name: "delivery limit of queue " + queue, Problem: problem, Warning: true}}
}

// differs finds, in the text of the refusal, an argument that a queue has otherwise: its type
// is named where it is not that of the declaration.
var differs = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`inequivalent arg '([^']*)' .* but current is (?:the value '(.*)' of type '(\w+)'|'(.*)'|none)`)
})

// mostArguments bounds the arguments of a queue that are asked for.
const mostArguments = 30

// argumentsOf returns the arguments of a queue that exists, which may be known already. The
// broker does not list them, but it names the first by which a declaration differs.
func (p *session) argumentsOf(ctx context.Context, queue string, known amqp.Table) (amqp.Table, error) {
	args := make(amqp.Table)
	maps.Copy(args, known)
	for range mostArguments {
		err := p.probe(ctx, func(ch *amqp.Channel) error {
			return errorOf(ch.QueueDeclare(queue, true, false, false, false, args))
		})
		var refusal *amqp.Error
		if !errors.As(err, &refusal) {
			return args, err
		}
		parts := differs().FindStringSubmatch(refusal.Reason)
		if parts == nil {
			return nil, err
		}
		name, value, kind := parts[1], parts[2], parts[3]
		if parts[4] != "" {
			value, kind = parts[4], "number"
			if _, isText := args[name].(string); isText {
				kind = "longstr"
			}
		}
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case kind == "":
			delete(args, name)
		case err == nil && !strings.HasSuffix(kind, "str"):
			args[name] = n
		case kind == "bool":
			args[name] = value == "true"
		default:
			args[name] = value
		}
	}
	return nil, fmt.Errorf("queue %s has more than %d arguments", queue, mostArguments)
}
