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
	return r.e.tell(r.work, r.pass.Tier, &Settlement{Record: rec}, reason)
}

// tell calls OnDead, if there is one, before a settlement that makes its record dead is
// written. It returns false if the end of ctx has ended that: nobody has been told,
// and the row must stay as it is, as after a crash.
func (e *Engine) tell(ctx context.Context, tier string, s *Settlement, reason string) bool {
	if e.OnDead == nil {
		return true
	}
	told := *s.Record // what has been handled is told about elsewhere as it was
	told.Reason, told.Error, told.Refresh = reason, s.Error, s.Refresh
	err := e.call(ctx, e.OnDead, e.OnDeadTimeout, &told)
	if err != nil && ctx.Err() != nil {
		return false
	}
	if err != nil {
		e.emit(Event{Kind: OnDeadFailed, Tier: tier, Record: s.Record, Err: err})
	}
	return true
}
