package backlog

import "context"

// expire gives the dead status to what is older than the widest tier. each is called with every one before.
func (r *run) expire(ctx context.Context, each func(*Record) bool) {
	x, ok := r.e.Store.(expirer)
	if !ok || !r.pass.Widest {
		return
	}
	err := r.e.persist(ctx, func() error {
		n, err := x.Expire(ctx, r.pass.Now, r.pass.since(), each)
		r.count(func(rep *Report) { rep.Expired += n })
		return err
	})
	if err != nil && ctx.Err() == nil {
		r.fail(err)
	}
}

// tellExpired tells of a record that dies without an attempt, and reports
// whether it may die.
func (r *run) tellExpired(rec *Record) bool {
	rec.Tier, rec.AttemptID = r.pass.Tier, r.e.attemptID()
	if !r.try([]Record{*rec}) {
		return false
	}
	reason := ReasonExpired
	if r.e.Policy.GivenUp(rec.Failures.Count) {
		reason = ReasonRetries
	}
	return r.tellDead(rec, reason, "")
}

// tellDead calls OnDead if there is one. It returns false if the stop has ended
// that: nobody has been told, and the row must stay as it is, as after a crash.
func (r *run) tellDead(rec *Record, reason, text string) bool {
	if r.e.OnDead == nil {
		return true
	}
	told := *rec // what has been handled is told about elsewhere as it was
	told.Reason, told.Error = reason, text
	err := r.e.call(r.work, r.e.OnDead, r.e.OnDeadTimeout, &told)
	if err != nil && r.work.Err() != nil {
		return false
	}
	if err != nil {
		r.e.emit(Event{Kind: OnDeadFailed, Tier: r.pass.Tier, Record: rec, Err: err})
	}
	return true
}
