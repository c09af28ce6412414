package backlog

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
)

// TellDiscarded calls OnDead with a record that a person gives up, as soon as Rate allows. The call
// outlives ctx. An error says that OnDead may not have been heard, and that the record must stay as it is.
func (e *Engine) TellDiscarded(ctx context.Context, rec *Record) error {
	e.init()
	if e.gate.pace != nil {
		if err := e.gate.pace.Wait(ctx); err != nil {
			return err
		}
	}
	told := *rec
	told.AttemptID, told.Reason = e.attemptID(), ReasonDiscarded
	return Call(context.WithoutCancel(ctx), e.OnDead, e.OnDeadTimeout, &told)
}

// expire gives the dead status to what is older than the widest tier.
func (r *run) expire(ctx context.Context) {
	store, ok := r.e.Store.(Expirer)
	if !ok || !r.pass.Widest {
		return
	}
	x := Expiry{
		Now:     r.pass.Now,
		Before:  r.pass.since(),
		Skips:   func(k Key) bool { return r.e.undying.Contains(k.Hash()) },
		Died:    r.expired,
		Refused: r.refuseDeath,
	}
	if r.e.OnDead != nil {
		x.Dies = r.expires
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

// awaitSettled waits until all outcomes are written, or ctx is done: what an expiry
// rehearses may be in their way.
func (r *run) awaitSettled(ctx context.Context) {
	for ctx.Err() == nil {
		if r.isSettled() {
			return
		}
		r.e.settler.flush()
		select {
		case <-r.settled:
		case <-ctx.Done():
		}
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

// expires tells of a record that dies without an attempt, and reports whether it may.
func (r *run) expires(rec *Record) bool {
	rec.AttemptID = r.e.attemptID()
	s, reason := r.ofAge(rec)
	return r.e.tell(r.work, r.pass.Tier, &s, reason)
}

// expired notes that n records have died without an attempt, those in the list with them.
func (r *run) expired(list []Record, n int) {
	for i := range list {
		s, reason := r.ofAge(&list[i])
		r.e.forgetTold(&list[i], nil)
		r.e.died(r.pass.Tier, &s, reason)
	}
	if n > len(list) {
		r.e.emit(Event{Kind: Expired, Tier: r.pass.Tier, N: n - len(list)})
	}
}

// refuseDeath notes that a row does not take the dead status.
func (r *run) refuseDeath(rec *Record, why error) {
	hash := rec.Key.Hash()
	if known, _ := r.e.undying.ContainsOrAdd(hash, struct{}{}); known {
		return // it is past several of its times
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
	mayDie   death = iota // OnDead was called, if there is one
	mustLive              // the row does not take it, or it is not known whether it does
	cutShort              // the end of ctx has ended it: OnDead was not called
)

// announce calls OnDead, if there is one, for those of the list that have a reason to die,
// once it is known that their rows take the dead status. It sets what became of each, and the
// reasons of those that must live.
func (e *Engine) announce(ctx context.Context, list []*ending) {
	if e.OnDead == nil {
		return
	}
	var dying []*ending
	var group []Settlement
	for _, x := range list {
		if x.dies != "" {
			dying = append(dying, x)
			group = append(group, x.Settlement)
		}
	}
	for i, err := range e.rehearse(ctx, group) {
		x := dying[i]
		switch {
		case err != nil && ctx.Err() != nil:
			x.death = cutShort
		case err != nil:
			x.death = mustLive
			x.reason = err
		case !e.tell(ctx, x.tier, &x.Settlement, x.dies):
			x.death = cutShort
			e.dying.remove(x.Record.Key)
		}
	}
}

// dying are the deaths that have passed their rehearsal and are not written yet. The next
// one is rehearsed behind them: what a row takes alone it may refuse after another is
// written, as under UNIQUE.
type dying struct {
	rehearsing sync.Mutex // held over a rehearsal

	mu   sync.Mutex // guards what follows
	list []Settlement
}

// before returns those that n more are rehearsed behind.
func (d *dying) before(n int) []Settlement {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.list[max(0, len(d.list)-MaxGroup+n):])
}

func (d *dying) add(s Settlement) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, s)
}

func (d *dying) remove(k Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = slices.DeleteFunc(d.list, func(s Settlement) bool { return s.Record.Key.Compare(k) == 0 })
}

// rehearse returns why the settlements, each of which makes its record dead, cannot be
// written, as far as the store can tell.
func (e *Engine) rehearse(ctx context.Context, group []Settlement) []error {
	errs := make([]error, len(group))
	store, ok := e.Store.(Rehearser)
	if !ok || len(group) == 0 {
		return errs
	}
	e.dying.rehearsing.Lock()
	defer e.dying.rehearsing.Unlock()
	list := e.dying.before(len(group))
	first := len(list)
	for _, s := range group {
		s.Record = new(*s.Record) // the settler may be at work on the record when the next death is rehearsed
		list = append(list, s)
	}
	left, err := ask(ctx, e, func() ([]Unsettled, error) { return store.Rehearse(ctx, list) })
	for i := range errs {
		if err != nil {
			errs[i] = unwritten{err}
		}
	}
	for _, u := range left {
		if u.Index >= first {
			errs[u.Index-first] = u.Err
		}
	}
	for i := range errs {
		if errs[i] == nil {
			e.dying.add(list[first+i])
		}
	}
	return errs
}

// tell calls OnDead, if there is one, before a settlement that makes its record dead is
// written, unless it was called for it already. It returns false if the end of ctx has
// ended that: OnDead may not have been heard, and the row must stay as it is, as after a crash.
func (e *Engine) tell(ctx context.Context, tier string, s *Settlement, reason string) bool {
	hash := s.Record.Key.Hash()
	if e.OnDead == nil || e.told.Contains(hash) {
		return true
	}
	told := s.dead(reason)
	err := Call(ctx, e.OnDead, e.OnDeadTimeout, told)
	if err != nil && ctx.Err() != nil {
		return false
	}
	e.told.Add(hash, struct{}{})
	if err != nil {
		e.emit(Event{Kind: OnDeadFailed, Tier: tier, Record: s.Record, Err: err})
	}
	return true
}

// forgetTold notes what has become of a record's outcome: where it is written, or others
// have changed the row, the next death of the record is another one.
func (e *Engine) forgetTold(rec *Record, err error) {
	e.dying.remove(rec.Key)
	if e.told.Len() > 0 && (err == nil || errors.Is(err, ErrConflict)) {
		e.told.Remove(rec.Key.Hash())
	}
}

// died notes that a settlement that makes its record dead is written.
func (e *Engine) died(tier string, s *Settlement, reason string) {
	e.emit(Event{Kind: Died, Tier: tier, Record: s.dead(reason)})
}

// dead returns the record as OnDead is given it. The settlement's own stays as it was
// handled.
func (s *Settlement) dead(reason string) *Record {
	rec := *s.Record
	rec.Reason = reason
	rec.Error = s.Error
	rec.Memory = cmp.Or(s.Memory, rec.Memory)
	return &rec
}
