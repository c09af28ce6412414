package amqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
)

// Inspect compares each queue of the work with what it should be. It changes nothing.
func (d *Dispatch) Inspect(ctx context.Context) (list []Finding, err error) {
	err = d.looking(ctx, func(p *session) error {
		for _, q := range d.queues(p.major) {
			list = append(list, d.inspectQueue(ctx, p, q))
		}
		for _, name := range []string{outcomeQueue(d.Name), lostQueue(d.Name)} {
			list = append(list, p.limitOf(ctx, name)...)
		}
		return nil
	})
	return list, err
}

// Check reports what would keep records from being dispatched.
func (d *Dispatch) Check(ctx context.Context) error {
	return d.looking(ctx, func(p *session) error { return d.checkWork(ctx, p) })
}

// Ready implements [backlog.ReadyChecker]. It reports only what no time heals: a broker that is
// away is waited for.
func (d *Dispatch) Ready(ctx context.Context) error {
	err := d.Check(ctx)
	if errors.Is(err, backlog.ErrUnavailable) {
		return nil
	}
	return err
}

// looking calls look with a session that hears of no outcomes.
func (d *Dispatch) looking(ctx context.Context, look func(*session) error) error {
	p, err := dial(ctx, d.broker(), "publish", "consume")
	if err != nil {
		return err
	}
	defer p.end(errClosed)
	if err := p.err(); err != nil {
		return err
	}
	return look(p)
}

// checkWork returns an error if the work queue is there and has other arguments: Bound relies
// on its lease. The other queues are used as they are.
func (d *Dispatch) checkWork(ctx context.Context, p *session) error {
	queues := d.queues(p.major)
	f := d.inspectQueue(ctx, p, queues[len(queues)-1])
	if f.Problem == "" || f.Warning {
		return f.away
	}
	return errors.New(f.Name + ": " + f.Problem + strings.TrimSuffix("; "+f.Cure, "; "))
}

// inspectQueue compares one queue with what it should be.
func (d *Dispatch) inspectQueue(ctx context.Context, p *session, q Queue) Finding {
	f := Finding{Name: "queue " + q.Name, Detail: "is there as it should be"}
	_, missing, err := p.inspect(ctx, q.Name)
	if missing {
		f.Detail = "is not there yet; the daemon makes it when it starts to dispatch"
		return f
	}
	var odd []string
	if err == nil {
		odd, err = p.oddities(ctx, q)
	}
	switch {
	case errors.Is(err, backlog.ErrUnavailable):
		f.Problem, f.away = err.Error(), err
	case err != nil:
		f.Problem = strings.TrimPrefix(err.Error(), f.Name+": ")
	case len(odd) == 0:
	case q.Name == workQueue(d.Name):
		f.Problem, f.Cure = "it was declared otherwise: "+strings.Join(odd, ", "), d.workCure(odd)
	default:
		f.Problem, f.Warning = "it was declared otherwise, and is used as it is: "+strings.Join(odd, ", "), true
		f.Cure = "for one as it should be give daemon and workers another `name:`, when the workers have ended and the daemon has emptied this queue"
	}
	return f
}

// workCure says what to do about a work queue with other arguments.
func (d *Dispatch) workCure(odd []string) string {
	var of string
	if vhost := d.broker().vhost(); vhost != "/" {
		of = " -p " + vhost
	}
	anew := fmt.Sprintf("end workers and daemon, and delete it with `rabbitmqctl delete_queue%s %s`: it has requests alone, whose records stay pending", of, workQueue(d.Name))
	if len(odd) > 1 {
		return anew
	}
	var ttl int64
	if _, err := fmt.Sscanf(odd[0], "x-message-ttl is %d ", &ttl); err != nil || ttl < time.Second.Milliseconds() {
		return anew
	}
	return fmt.Sprintf("write the lease that it has, `lease: %v`, or %s", time.Duration(ttl)*time.Millisecond, anew)
}

// oddities says which arguments of a queue that exists are not those that it should have.
func (p *session) oddities(ctx context.Context, q Queue) (list []string, err error) {
	has, err := p.argumentsOf(ctx, q.Name, q.Arguments)
	if err != nil {
		return nil, worded(err)
	}
	both := maps.Clone(has)
	maps.Copy(both, q.Arguments)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		is, isThere := has[name]
		should, wanted := q.Arguments[name]
		switch {
		case !isThere:
			list = append(list, fmt.Sprintf("%s is missing, which should be %s", name, argument(should)))
		case !wanted:
			list = append(list, fmt.Sprintf("%s is %s, which should be missing", name, argument(is)))
		case is != should:
			list = append(list, fmt.Sprintf("%s is %s instead of %s", name, argument(is), argument(should)))
		}
	}
	return list, nil
}

// argument shows the value of an argument; "" is the name of the default exchange.
func argument(v any) string {
	if v == "" {
		return `""`
	}
	return fmt.Sprint(v)
}

// otherwise says what is wrong with the work queue where err is that it was declared otherwise.
func (d *Dispatch) otherwise(ctx context.Context, p *session, err error) error {
	if !hasCode(err, amqp.PreconditionFailed) {
		return err
	}
	return cmp.Or(d.checkWork(ctx, p), err)
}
