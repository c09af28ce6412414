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

// Inspect compares each queue of the work with what it should be. It changes nothing and
// receives no outcomes.
func (d *Dispatch) Inspect(ctx context.Context) (list []Finding, err error) {
	err = d.withInspection(ctx, func(sess *session) error {
		for _, q := range d.queues(sess.major) {
			list = append(list, d.inspectQueue(ctx, sess, q))
		}
		for _, name := range []string{outcomeQueue(d.Name), deadLetterQueue(d.Name)} {
			list = append(list, sess.inspectDeliveryLimit(ctx, name)...)
		}
		return nil
	})
	return list, err
}

// Check returns why no record could be dispatched. It changes nothing.
func (d *Dispatch) Check(ctx context.Context) error {
	return d.withInspection(ctx, func(sess *session) error { return d.checkWork(ctx, sess) })
}

// Ready implements [backlog.ReadyChecker]. It returns nil if the broker is unavailable, since
// Handle waits for it.
func (d *Dispatch) Ready(ctx context.Context) error {
	err := d.Check(ctx)
	if errors.Is(err, backlog.ErrUnavailable) {
		return nil
	}
	return err
}

// withInspection calls inspect with a session that receives no outcomes.
func (d *Dispatch) withInspection(ctx context.Context, inspect func(*session) error) error {
	sess, err := dial(ctx, d.broker(), "publish", "consume")
	if err != nil {
		return err
	}
	defer sess.end(errClosed)
	if err := sess.err(); err != nil {
		return err
	}
	return inspect(sess)
}

// checkWork returns an error if the work queue exists with other arguments: Bound relies on its
// lease. The other queues are used as they are.
func (d *Dispatch) checkWork(ctx context.Context, sess *session) error {
	queues := d.queues(sess.major)
	f := d.inspectQueue(ctx, sess, queues[len(queues)-1])
	if f.unavailable != nil {
		return f.unavailable
	}
	if f.Problem == "" || f.Warning {
		return nil
	}
	return errors.New(f.Name + ": " + f.Problem + strings.TrimSuffix("; "+f.Cure, "; "))
}

// inspectQueue compares one queue with what it should be.
func (d *Dispatch) inspectQueue(ctx context.Context, sess *session, q Queue) Finding {
	f := Finding{Name: "queue " + q.Name, Detail: "is there as it should be"}
	_, missing, err := sess.inspect(ctx, q.Name)
	if missing {
		f.Detail = "is not there yet; the daemon makes it when it starts to dispatch"
		return f
	}
	var differences []string
	if err == nil {
		differences, err = sess.differences(ctx, q)
	}
	declaredAs := strings.Join(differences, ", ")
	switch {
	case errors.Is(err, backlog.ErrUnavailable):
		f.Problem = err.Error()
		f.unavailable = err
	case err != nil:
		f.Problem = strings.TrimPrefix(err.Error(), f.Name+": ")
	case len(differences) == 0:
	case q.Name == workQueue(d.Name):
		f.Problem = "it was declared otherwise: " + declaredAs
		f.Cure = d.workCure(differences)
	default:
		f.Problem = "it was declared otherwise, and is used as it is: " + declaredAs
		f.Warning = true
		f.Cure = "for one as it should be give daemon and workers another `name:`, when the workers have ended and the daemon has emptied this queue"
	}
	return f
}

// workCure says what to do about a work queue with other arguments.
func (d *Dispatch) workCure(differences []string) string {
	var vhostFlag string
	if vhost := d.broker().vhost(); vhost != "/" {
		vhostFlag = " -p " + vhost
	}
	recreate := fmt.Sprintf("end workers and daemon, and delete it with `rabbitmqctl delete_queue%s %s`: it has requests alone, whose records stay pending", vhostFlag, workQueue(d.Name))
	if len(differences) > 1 {
		return recreate
	}
	var ttl int64
	if _, err := fmt.Sscanf(differences[0], "x-message-ttl is %d ", &ttl); err != nil || ttl < time.Second.Milliseconds() {
		return recreate
	}
	return fmt.Sprintf("write the lease that it has, `lease: %v`, or %s", time.Duration(ttl)*time.Millisecond, recreate)
}

// differences describes each argument of an existing queue that is not as it should be.
func (sess *session) differences(ctx context.Context, q Queue) (list []string, err error) {
	actual, err := sess.queueArguments(ctx, q.Name, q.Arguments)
	if err != nil {
		return nil, explain(err)
	}
	all := maps.Clone(actual)
	maps.Copy(all, q.Arguments)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		is, exists := actual[name]
		should, wanted := q.Arguments[name]
		switch {
		case !exists:
			list = append(list, fmt.Sprintf("%s is missing, which should be %s", name, argument(should)))
		case !wanted:
			list = append(list, fmt.Sprintf("%s is %s, which should be missing", name, argument(is)))
		case is != should:
			list = append(list, fmt.Sprintf("%s is %s instead of %s", name, argument(is), argument(should)))
		}
	}
	return list, nil
}

// argument returns the value of an argument for people. An empty text, the name of the default
// exchange, is shown in quotes.
func argument(v any) string {
	if v == "" {
		return `""`
	}
	return fmt.Sprint(v)
}

// explainWorkQueue returns what is wrong with the work queue if err says that it exists with
// other arguments, otherwise err.
func (d *Dispatch) explainWorkQueue(ctx context.Context, sess *session, err error) error {
	if !hasCode(err, amqp.PreconditionFailed) {
		return err
	}
	return cmp.Or(d.checkWork(ctx, sess), err)
}
