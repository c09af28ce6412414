package backlog

import "context"

// expire gives the dead status to what is older than the widest tier. each is called with every one before.
func (r *run) expire(ctx context.Context, each func(*Record)) {
	x, ok := r.e.Store.(Expirer)
	if !ok || !r.pass.Widest {
		return
	}
	err := r.e.persist(ctx, func() error {
		n, err := x.Expire(ctx, r.pass.Now, r.pass.Now.Add(-r.pass.MaxAge), each)
		r.count(func(rep *Report) { rep.Expired += n })
		return err
	})
	if err != nil && ctx.Err() == nil {
		r.fail(err)
	}
}

// tellExpired tells of a record that dies without an attempt.
func (r *run) tellExpired(rec *Record) {
	rec.Tier, rec.AttemptID = r.pass.Tier, r.e.attemptID()
	reason := ReasonExpired
	if r.e.Policy.GivenUp(rec.Retry.Count) {
		reason = ReasonRetries
	}
	r.tellDead(rec, reason, "")
}

// tellDead calls OnDead if there is one.
func (r *run) tellDead(rec *Record, reason, text string) {
	if r.e.OnDead == nil {
		return
	}
	told := *rec // what has been handled is told about elsewhere as it was
	told.Reason, told.Error = reason, text
	if err := r.e.call(r.work, r.e.OnDead, r.e.OnDeadTimeout, &told); err != nil {
		r.e.emit(Event{Kind: OnDeadFailed, Tier: r.pass.Tier, Record: rec, Err: err})
	}
}
