package amqp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
)

// hear takes in outcomes, and requests that the broker has given up, from their queue.
func (d *Dispatch) hear(p *session, list <-chan amqp.Delivery, queue string) {
	for m := range list {
		a := &answer{delivery: m}
		if queue == lostQueue(d.Name) {
			a.fromLost(&m)
		} else if json.Unmarshal(m.Body, &a.outcome) != nil {
			d.Log.Error("an outcome cannot be read and is dropped", "body", backlog.Beginning(string(m.Body), 200))
			_ = m.Ack(false)
			continue
		}
		if d.awaited(a) {
			continue
		}
		t, err := d.ticketOf(a)
		switch {
		case errors.Is(err, errOtherTable):
			why := fmt.Errorf("%s is used for another table, or another work on it: an outcome is of %s, and this is %s; give one of them another name under handler.amqp", outcomeQueue(d.Name), t.Table, d.Table)
			if d.foreign.CompareAndSwap(nil, &why) {
				d.Fatal()
			}
			p.end(err)
			return
		case err != nil:
			d.forged.Add(1)
			d.Log.Error("an outcome is dropped", "attempt_id", a.AttemptID, "worker", a.Worker, "error", err)
			_ = m.Ack(false)
		default: // nobody waits for it
			a.hash = t.Row.Key.Hash()
			if a.unheard || a.Outcome == "skip" { // the row is as it was
				d.over(a)
				_ = m.Ack(false)
			} else if !d.cameBefore(a, &t) {
				d.keep(a)
			}
		}
	}
	_ = p.cancelled(queue)
}

// ticketOf returns the ticket of an answer, an error if it is not of this table, of these
// settings and of the attempt.
func (d *Dispatch) ticketOf(a *answer) (ticket, error) {
	t, err := readTicket(a.Ticket, d.Secret, d.Table)
	if err == nil && (t.States != d.States || t.AttemptID != a.AttemptID) {
		err = errors.New("its ticket is of other settings, or of another attempt")
	}
	return t, err
}

// Err returns an error if the queues are another table's.
func (d *Dispatch) Err() error {
	if err := d.foreign.Load(); err != nil {
		return *err
	}
	return nil
}

// fromLost makes the answer of a request that no worker has answered.
func (a *answer) fromLost(m *amqp.Delivery) {
	var r request
	_ = json.Unmarshal(m.Body, &r) // else it has no ticket
	a.AttemptID, a.ID, a.Ticket = r.AttemptID, r.ID, r.Ticket
	if reason, _ := m.Headers["x-first-death-reason"].(string); reason != "delivery_limit" {
		a.unheard = true
	} else {
		a.Outcome = "error"
		a.Error = fmt.Sprintf("its worker died or gave it back %d times", mostDeliveries+1)
	}
}

// awaited hands an answer to whoever waits for it, and reports whether somebody does. The
// ticket is then the one that was sent.
func (d *Dispatch) awaited(a *answer) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.waiting[a.AttemptID]
	if f == nil || f.ticket != a.Ticket {
		return false
	}
	delete(d.waiting, a.AttemptID)
	a.hash = f.hash
	d.settled[a.AttemptID] = a
	if d.out[f.hash] == f {
		delete(d.out, f.hash)
	}
	f.answer <- *a
	return true
}

// cameBefore drops an outcome of an attempt that has had one, and reports whether it has. That
// of an attempt of another process only its row can tell.
func (d *Dispatch) cameBefore(a *answer, t *ticket) bool {
	before := d.ended.Contains(a.AttemptID)
	if before {
		d.endLate(a, t.Row.Key, &d.stale, "dropped: this attempt has had an outcome")
	}
	return before
}

// endLate counts and logs what has become of an outcome that nobody waited for, and
// acknowledges it.
func (d *Dispatch) endLate(a *answer, key backlog.Key, count *atomic.Uint64, result string) {
	d.over(a)
	count.Add(1)
	d.Log.Info("an outcome came late", "id", key.String(), "attempt_id", a.AttemptID, "outcome", a.Outcome, "result", result)
	_ = a.delivery.Ack(false)
}

// keep leaves an outcome to CollectLate; until then its row is not dispatched.
func (d *Dispatch) keep(a *answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.late = append(d.late, a)
	if f := d.out[a.hash]; f == nil || f.attempt == a.AttemptID { // anew while it cannot be settled
		d.out[a.hash] = &flight{attempt: a.AttemptID, hash: a.hash, until: time.Now().Add(d.Bound())}
	}
}

// over notes that the attempt is with no worker any more.
func (d *Dispatch) over(a *answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.out[a.hash]; f != nil && f.attempt == a.AttemptID {
		delete(d.out, a.hash)
	}
}

// errOut says that a record cannot be dispatched now.
var errOut = fmt.Errorf("%w: an attempt of it may still be with a worker", backlog.Skip)

// err returns the error that the outcome stands for.
func (o *outcome) err() (err error) {
	text := cmp.Or(o.Error, "the worker said "+o.Outcome)
	switch o.Outcome {
	case "success":
		return nil
	case "reject":
		err = backlog.Reject(errors.New(text))
	case "skip":
		err = backlog.Worded(text, backlog.Skip)
	default:
		err = errors.New(text)
	}
	if o.RetryAfter != nil {
		err = backlog.RetryAfter(time.Duration(*o.RetryAfter*float64(time.Second)), err)
	}
	return err
}

// Finished implements [backlog.Finisher]: the outcome of the record is
// settled, or the row is left as it was. One that could not be written is settled later.
func (d *Dispatch) Finished(r *backlog.Record, written bool) {
	d.mu.Lock()
	a := d.settled[r.AttemptID]
	delete(d.settled, r.AttemptID)
	d.mu.Unlock()
	if a == nil {
		return
	}
	if !written {
		d.keep(a)
		return
	}
	d.ended.Add(r.AttemptID, struct{}{})
	d.settledNow.Add(1)
	_ = a.delivery.Ack(false) // which writes to the socket: nobody is to wait for that
}

// CollectLate implements [backlog.LateCollector]: it settles the outcomes
// that nobody waits for, as after a restart.
func (d *Dispatch) CollectLate(ctx context.Context, settle func(context.Context, []backlog.Record, []backlog.Answer) ([]error, error)) error {
	if _, err := d.open(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	list := d.late
	d.late = nil
	d.mu.Unlock()
	for len(list) > 0 {
		part := list[:min(len(list), backlog.MaxGroup)]
		list = list[len(part):]
		left, err := d.settleLate(ctx, part, settle)
		if err != nil {
			d.mu.Lock()
			d.late = append(append(d.late, left...), list...)
			d.mu.Unlock()
			return err
		}
	}
	return nil
}

// settleLate settles a group. After an error it returns those that are to be tried again.
func (d *Dispatch) settleLate(
	ctx context.Context, group []*answer, settle func(context.Context, []backlog.Record, []backlog.Answer) ([]error, error),
) (list []*answer, err error) {
	var records []backlog.Record
	var answers []backlog.Answer
	for _, a := range group {
		t, _ := d.ticketOf(a) // which is good
		if d.cameBefore(a, &t) {
			continue
		}
		list, records = append(list, a), append(records, t.record())
		answers = append(answers, backlog.Answer{Outcome: backlog.OutcomeOf(a.err()), Text: a.Error})
	}
	reasons, err := settle(ctx, records, answers)
	if err != nil {
		return list, err
	}
	for i, a := range list {
		if errors.Is(reasons[i], backlog.ErrUnavailable) {
			d.keep(a)
			continue
		}
		d.ended.Add(a.AttemptID, struct{}{})
		if reasons[i] != nil {
			d.endLate(a, records[i].Key, &d.stale, reasons[i].Error())
		} else {
			d.endLate(a, records[i].Key, &d.settledLate, "settled")
		}
	}
	return nil, nil
}
