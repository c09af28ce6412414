package backlog

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
)

// NotifyDiscarded calls OnDead with a record that a person gives up, as soon as Rate allows. The call
// outlives ctx. An error says that OnDead may not have had it, so that the record must stay as it is.
func (e *Engine) NotifyDiscarded(ctx context.Context, rec *Record) error {
	e.init()
	if e.gate.limiter != nil {
		if err := e.gate.limiter.Wait(ctx); err != nil {
			return err
		}
	}
	dead := *rec
	e.newAttempt(&dead)
	dead.Reason = ReasonDiscarded
	return Call(context.WithoutCancel(ctx), e.OnDead, e.OnDeadTimeout, &dead)
}

// expire gives the dead status to records older than the widest tier.
func (r *run) expire(ctx context.Context) {
	store, ok := r.e.Store.(Expirer)
	if !ok || !r.pass.Widest {
		return
	}
	x := Expiry{
		Now:     r.pass.Now,
		Before:  r.pass.since(),
		Skips:   func(k Key) bool { return r.e.refusedDeaths.Contains(k.Hash()) },
		Died:    r.expired,
		Refused: r.refuseDeath,
	}
	if r.e.OnDead != nil {
		x.BeforeDeath = r.announceExpiry
	}
	err := r.e.persist(ctx, func() error {
		n, err := store.Expire(ctx, x)
		r.count(func(rep *Report) { rep.Expired += n })
		return err
	})
	if err != nil && ctx.Err() == nil {
		r.fail(err)
	}
}

// awaitSettled waits until all outcomes are written, or ctx is done. A rehearsal of deaths
// could meet their locks.
func (r *run) awaitSettled(ctx context.Context) {
	for ctx.Err() == nil {
		if r.isSettled() {
			return
		}
		r.e.settler.flush()
		r.allSettled.take(ctx)
	}
}

// ofAge returns the settlement of a record that dies without an attempt, and why it does.
func (r *run) ofAge(rec *Record) (s Settlement, reason string) {
	rec.Tier = r.pass.Tier
	reason = ReasonExpired
	if r.e.Policy.GivenUp(rec.Memory.Failed()) {
		reason = ReasonRetries
	}
	return Settlement{Record: rec}, reason
}

// announceExpiry calls OnDead for a record that dies without an attempt. goOn is false if the end of
// the work came first: then the record must not die.
func (r *run) announceExpiry(rec *Record) (goOn bool) {
	r.e.newAttempt(rec)
	s, reason := r.ofAge(rec)
	return r.e.notifyDead(r.work, r.pass.Tier, &s, reason)
}

// expired notes that n records have died without an attempt. The list has some or all of them.
func (r *run) expired(list []Record, n int) {
	for i := range list {
		s, reason := r.ofAge(&list[i])
		r.e.forgetNotified(&list[i], nil)
		r.e.emitDeath(r.pass.Tier, &s, reason)
	}
	if n > len(list) {
		r.e.emit(Event{Kind: Expired, Tier: r.pass.Tier, N: n - len(list)})
	}
}

// refuseDeath notes that a row does not take the dead status. It counts once, though the row
// comes up again in each pass of the widest tier.
func (r *run) refuseDeath(rec *Record, why error) {
	hash := rec.Key.Hash()
	if known, _ := r.e.refusedDeaths.ContainsOrAdd(hash, struct{}{}); known {
		return
	}
	_, rec.Reason = r.ofAge(rec)
	r.count(func(rep *Report) {
		rep.Selected++ // the sum of all
		rep.Refused++
	})
	r.e.emit(Event{Kind: Refused, Tier: r.pass.Tier, Record: rec, Outcome: Rejected, Err: why})
}

// A death is how far a settlement that makes its record dead has come.
type death int

const (
	deathAllowed     death = iota // OnDead was called, if there is one
	deathRefused                  // the row does not take it, or it is not known whether it does
	deathInterrupted              // the end of ctx came before the call of OnDead
)

// announce calls OnDead, if there is one, for the attempts that make their record dead, once
// it is known that their rows take the dead status. It sets the death of each, and the reason
// of those that are refused.
func (e *Engine) announce(ctx context.Context, list []*ending) {
	if e.OnDead == nil {
		return
	}
	var deaths []*ending
	var group []Settlement
	for _, x := range list {
		if x.deathReason != "" {
			deaths = append(deaths, x)
			group = append(group, x.Settlement)
		}
	}
	for i, err := range e.rehearse(ctx, group) {
		x := deaths[i]
		switch {
		case err != nil && ctx.Err() != nil:
			x.death = deathInterrupted
		case err != nil:
			x.death = deathRefused
			x.reason = err
		case !e.notifyDead(ctx, x.tier, &x.Settlement, x.deathReason):
			x.death = deathInterrupted
			e.rehearsed.remove(x.Record.Key)
		}
	}
}

// rehearsed are the deaths that have passed their rehearsal and are not written yet. They are
// rehearsed again before the next one: a row may refuse, as under UNIQUE, after another death
// what it takes alone.
type rehearsed struct {
	rehearsing sync.Mutex // held during a rehearsal

	mu   sync.Mutex // guards what follows
	list []Settlement
}

// latest returns the deaths to rehearse before n more, as many as fit in a group.
func (d *rehearsed) latest(n int) []Settlement {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.list[max(0, len(d.list)-MaxGroup+n):])
}

func (d *rehearsed) add(s Settlement) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, s)
}

func (d *rehearsed) remove(k Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = slices.DeleteFunc(d.list, func(s Settlement) bool { return s.Record.Key.Compare(k) == 0 })
}

// rehearse returns for each of the settlements, which make their records dead, why it cannot
// be written, as far as the store can tell.
func (e *Engine) rehearse(ctx context.Context, group []Settlement) []error {
	errs := make([]error, len(group))
	store, ok := e.Store.(Rehearser)
	if !ok || len(group) == 0 {
		return errs
	}
	e.rehearsed.rehearsing.Lock()
	defer e.rehearsed.rehearsing.Unlock()
	list := e.rehearsed.latest(len(group))
	first := len(list)
	for _, s := range group {
		s.Record = new(*s.Record) // the settler may be at work on the record during the next rehearsal
		list = append(list, s)
	}
	unsettled, err := ask(ctx, e, func() ([]Unsettled, error) { return store.Rehearse(ctx, list) })
	for i := range errs {
		if err != nil {
			errs[i] = unwritten{err}
		}
	}
	for _, u := range unsettled {
		if u.Index >= first {
			errs[u.Index-first] = u.Err
		}
	}
	for i := range errs {
		if errs[i] == nil {
			e.rehearsed.add(list[first+i])
		}
	}
	return errs
}

// notifyDead calls OnDead, if there is one, before a settlement that makes its record dead is
// written, unless it was called for that before. It returns false if the end of ctx came
// first: then OnDead may not have had it, and the row must stay as it is, as after a crash.
func (e *Engine) notifyDead(ctx context.Context, tier string, s *Settlement, reason string) bool {
	hash := s.Record.Key.Hash()
	if e.OnDead == nil || e.notified.Contains(hash) {
		return true
	}
	err := Call(ctx, e.OnDead, e.OnDeadTimeout, s.deadRecord(reason))
	if err != nil && ctx.Err() != nil {
		return false
	}
	e.notified.Add(hash, struct{}{})
	if err != nil {
		e.emit(Event{Kind: OnDeadFailed, Tier: tier, Record: s.Record, Err: err})
	}
	return true
}

// forgetNotified is called when a record's outcome is accounted for; err is why it was not
// written. If it was, or others have changed the row, the next death of the record is another.
func (e *Engine) forgetNotified(rec *Record, err error) {
	e.rehearsed.remove(rec.Key)
	if e.notified.Len() > 0 && (err == nil || errors.Is(err, ErrConflict)) {
		e.notified.Remove(rec.Key.Hash())
	}
}

// emitDeath emits that a settlement that makes its record dead is written.
func (e *Engine) emitDeath(tier string, s *Settlement, reason string) {
	e.emit(Event{Kind: Died, Tier: tier, Record: s.deadRecord(reason)})
}

// deadRecord returns the record as OnDead is given it. The settlement's own stays as it was
// handled.
func (s *Settlement) deadRecord(reason string) *Record {
	rec := *s.Record
	rec.Reason = reason
	rec.Error = s.Error
	rec.Memory = cmp.Or(s.Memory, rec.Memory)
	return &rec
}
