package amqp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
)

// receiveOutcomes receives from one queue: outcomes, or the dead letters of requests. It passes
// an outcome to the call of Handle that waits for it, or keeps it for CollectLate.
func (d *Dispatch) receiveOutcomes(sess *session, list <-chan amqp.Delivery, queue string) {
	for m := range list {
		a := &received{delivery: m}
		if queue == deadLetterQueue(d.Name) {
			a.fromDeadLetter(&m)
		} else if json.Unmarshal(m.Body, &a.outcome) != nil {
			d.Log.Error("an outcome cannot be read and is dropped", "body", backlog.Beginning(string(m.Body), 200))
			_ = m.Ack(false)
			continue
		}
		a.bound()
		if d.passToWaiter(a) {
			continue
		}
		t, err := d.ticketOf(a)
		switch {
		case errors.Is(err, errOtherTable):
			why := fmt.Errorf("%s is used for another table, or another work on it: an outcome is of %s, and this is %s; give one of them another name under handler.amqp", outcomeQueue(d.Name), t.Table, d.Table)
			if d.wrongTable.CompareAndSwap(nil, &why) {
				d.Fatal()
			}
			sess.end(err)
			return
		case err != nil:
			d.forged.Add(1)
			d.Log.Error("an outcome is dropped", "attempt_id", a.AttemptID, "worker", a.Worker, "error", err)
			_ = m.Ack(false)
		default: // no call waits for it
			a.hash = t.Row.Key.Hash()
			isSkip := backlog.OutcomeOf(a.err()) == backlog.Skipped
			if a.expired || isSkip { // the row stays as it is
				d.removeInFlight(a)
				_ = m.Ack(false)
			} else if !d.dropRepeated(a, &t) {
				d.leaveToCollectLate(a)
			}
		}
	}
	_ = sess.consumerCancelled(queue)
}

// maxText is how much of a worker's text is kept, in bytes.
const maxText = 2 << 10

// bound keeps of a delivery only what is needed from here on: a worker may send as much as the broker takes, and
// many outcomes may wait for the database.
func (a *received) bound() {
	a.delivery.Body = nil
	a.ID = nil
	a.Error = backlog.Beginning(a.Error, maxText)
	a.Worker = backlog.Beginning(a.Worker, maxText)
}

// ticketOf returns the ticket of an outcome. It returns an error if the ticket is of another
// table, of other settings or of another attempt.
func (d *Dispatch) ticketOf(a *received) (ticket, error) {
	t, err := readTicket(a.Ticket, d.Secret, d.Table)
	if err == nil && (t.States != d.States || t.AttemptID != a.AttemptID) {
		err = errors.New("its ticket is of other settings, or of another attempt")
	}
	return t, err
}

// Err returns an error if the queues belong to another table.
func (d *Dispatch) Err() error {
	if err := d.wrongTable.Load(); err != nil {
		return *err
	}
	return nil
}

// fromDeadLetter sets the outcome for a request that the broker has dead-lettered.
func (a *received) fromDeadLetter(m *amqp.Delivery) {
	var r request
	_ = json.Unmarshal(m.Body, &r) // after an error there is no ticket, and it is dropped
	a.AttemptID = r.AttemptID
	a.Ticket = r.Ticket
	if reason, _ := m.Headers["x-first-death-reason"].(string); reason != "delivery_limit" {
		a.expired = true
	} else {
		a.Outcome = "error"
		a.Error = fmt.Sprintf("its worker died or gave it back %d times", deliveryLimit+1)
	}
}

// passToWaiter passes an outcome to the call of Handle that waits for it, and reports whether
// there is one. The ticket needs no check then: it must be the one that was sent.
func (d *Dispatch) passToWaiter(a *received) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.waiting[a.AttemptID]
	if f == nil || f.ticket != a.Ticket {
		return false
	}
	delete(d.waiting, a.AttemptID)
	a.hash = f.hash
	d.toAck[a.AttemptID] = a
	if d.inFlight[f.hash] == f {
		delete(d.inFlight, f.hash)
	}
	f.answer <- *a
	return true
}

// dropRepeated drops an outcome of an attempt that has had one, and reports whether it did. It
// knows only the attempts of this process; for others the row decides.
func (d *Dispatch) dropRepeated(a *received, t *ticket) bool {
	repeated := d.settledAttempts.Contains(a.AttemptID)
	if repeated {
		d.finishLate(a, t.Row.Key, &d.stale, "dropped: this attempt has had an outcome")
	}
	return repeated
}

// finishLate acknowledges a late outcome, counts it, and logs what has become of it.
func (d *Dispatch) finishLate(a *received, key backlog.Key, count *atomic.Uint64, result string) {
	d.removeInFlight(a)
	count.Add(1)
	d.Log.Info("an outcome came late", "id", key.String(), "attempt_id", a.AttemptID, "outcome", a.Outcome, "result", result)
	_ = a.delivery.Ack(false)
}

// leaveToCollectLate leaves an outcome to the next call of CollectLate. Until then its record counts
// as in flight and is not dispatched.
func (d *Dispatch) leaveToCollectLate(a *received) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lateOutcomes = append(d.lateOutcomes, a)
	// The flight of the same attempt is renewed each time the outcome cannot be settled yet.
	if f := d.inFlight[a.hash]; f == nil || f.attempt == a.AttemptID {
		d.inFlight[a.hash] = &flight{attempt: a.AttemptID, hash: a.hash, until: time.Now().Add(d.Bound())}
	}
}

// removeInFlight notes that no worker has the attempt any more.
func (d *Dispatch) removeInFlight(a *received) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.inFlight[a.hash]; f != nil && f.attempt == a.AttemptID {
		delete(d.inFlight, a.hash)
	}
}

// errInFlight says that a record is not dispatched now.
var errInFlight = fmt.Errorf("%w: an attempt of it may still be with a worker", backlog.Skip)

// err returns the error that the outcome stands for.
func (o *outcome) err() error {
	text := cmp.Or(o.Error, "the worker said "+o.Outcome)
	var err error
	switch o.Outcome {
	case "success":
		return nil
	case "reject":
		err = backlog.Reject(errors.New(text))
	case "skip":
		err = backlog.Worded(text, backlog.Skip)
	case "snooze":
		t, problem := backlog.ParseSnooze(o.Snooze)
		if problem != nil {
			return fmt.Errorf("the worker said snooze, and its field snooze is to say how long: %v", problem)
		}
		err = t.Snooze(errors.New(text))
	default:
		err = errors.New(text)
	}
	if o.RetryAfter != nil {
		const longest = math.MaxInt64 / 2 // more would wrap around, and be no pause at all
		err = backlog.RetryAfter(time.Duration(min(max(0, *o.RetryAfter)*float64(time.Second), longest)), err)
	}
	return err
}

// Finished implements [backlog.Finisher]. It acknowledges the outcome that was settled, or that
// left the row as it was. An outcome that could not be written is left to CollectLate.
func (d *Dispatch) Finished(r *backlog.Record, written bool) {
	d.mu.Lock()
	answer := d.toAck[r.AttemptID]
	delete(d.toAck, r.AttemptID)
	d.mu.Unlock()
	if answer == nil { // no worker has answered
		return
	}
	if !written {
		d.leaveToCollectLate(answer)
		return
	}
	d.settledAttempts.Add(r.AttemptID, struct{}{})
	d.settledNow.Add(1)
	// The lock is not held, since Ack writes to the socket. If Ack fails, the broker delivers the
	// outcome again, and dropRepeated drops it.
	_ = answer.delivery.Ack(false)
}

// CollectLate implements [backlog.LateCollector]. It settles the outcomes for which no call of
// Handle waits, as after a restart.
func (d *Dispatch) CollectLate(ctx context.Context, settle func(context.Context, []backlog.Record, []backlog.Answer) ([]error, error)) error {
	if _, err := d.open(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	list := d.lateOutcomes
	d.lateOutcomes = nil
	d.mu.Unlock()
	for len(list) > 0 {
		group := list[:min(len(list), backlog.MaxGroup)]
		list = list[len(group):]
		unsettled, err := d.settleLate(ctx, group, settle)
		if err != nil {
			d.mu.Lock()
			d.lateOutcomes = append(append(d.lateOutcomes, unsettled...), list...)
			d.mu.Unlock()
			return err
		}
	}
	return nil
}

// A settleFunc is the function that CollectLate is given.
type settleFunc = func(context.Context, []backlog.Record, []backlog.Answer) ([]error, error)

// settleLate settles a group of late outcomes. With an error it returns those to try again.
func (d *Dispatch) settleLate(ctx context.Context, group []*received, settle settleFunc) ([]*received, error) {
	var list []*received
	var records []backlog.Record
	var answers []backlog.Answer
	for _, a := range group {
		t, _ := d.ticketOf(a) // was checked on arrival
		if d.dropRepeated(a, &t) {
			continue
		}
		list = append(list, a)
		records = append(records, t.record())
		err := a.err()
		snooze, _ := backlog.SnoozeOf(err)
		answers = append(answers, backlog.Answer{Outcome: backlog.OutcomeOf(err), Text: a.Error, Snooze: snooze})
	}
	reasons, err := settle(ctx, records, answers)
	if err != nil {
		return list, err
	}
	for i, a := range list {
		if errors.Is(reasons[i], backlog.ErrUnavailable) {
			d.leaveToCollectLate(a)
			continue
		}
		d.settledAttempts.Add(a.AttemptID, struct{}{})
		if reasons[i] != nil {
			d.finishLate(a, records[i].Key, &d.stale, reasons[i].Error())
		} else {
			d.finishLate(a, records[i].Key, &d.settledLate, "settled")
		}
	}
	return nil, nil
}
