package table

import (
	"slices"

	"backlog/backlog"
)

func (r *resolver) actions() error {
	m := r.m
	also, err := r.touches()
	if err != nil {
		return err
	}
	dead := m.Dead
	if dead.isZero() {
		dead = m.Error // nothing could remember the difference
	}
	for _, x := range []struct {
		outcome backlog.Outcome
		setting string
		state   State
	}{
		{backlog.Succeeded, "statuses.success", m.Success},
		{backlog.Errored, "statuses.error", m.Error},
		{backlog.Rejected, "statuses.dead", dead},
	} {
		a := action{also: also}
		if x.outcome == backlog.Succeeded && r.t.retry != nil {
			a.also = slices.Concat(also, r.t.retry.done)
		}
		if a.status, a.equal, err = r.assigns(x.setting, x.state); err != nil {
			return err
		}
		if x.outcome == backlog.Succeeded && len(a.status) == 0 {
			return problem("say what a success sets, such as success: {set: {done_at: now}}", "statuses.success writes nothing: a record that succeeded would be tried again")
		}
		if m.LastError != "" && x.outcome != backlog.Succeeded {
			c, err := r.writable("table.last_error", m.LastError)
			if err != nil {
				return err
			}
			a.errCol = c
		}
		r.t.actions[x.outcome] = a
	}
	if m.Dead.isZero() {
		return nil
	}
	touch, err := r.touched(m.Touch) // no attempt is counted
	if err != nil {
		return err
	}
	set := slices.Clone(r.t.actions[backlog.Rejected].status)
	if c := r.t.retry; c != nil && c.next != nil {
		set = slices.Concat(set, c.done, []assign{{col: c.next.quoted, expr: "NULL"}})
	}
	r.t.expireSet = onceEach(append(set, touch...))
	return nil
}

// onceEach leaves out what is said of a column after the first time.
func onceEach(list []assign) []assign {
	seen := make(map[string]bool)
	return slices.DeleteFunc(list, func(a assign) bool {
		twice := seen[a.col]
		seen[a.col] = true
		return twice
	})
}

// touches returns what every settlement writes beside the state.
func (r *resolver) touches() ([]assign, error) {
	list := slices.Clone(r.m.Touch)
	if r.m.Attempts != "" {
		list = append(list, Assignment{Column: r.m.Attempts, Value: Value{Text: "+1"}})
	}
	return r.touched(list)
}

// touched returns what is written beside the state: the list, the first of
// which are those of touch, and the columns to be kept.
func (r *resolver) touched(list []Assignment) ([]assign, error) {
	var also []assign
	for i, a := range list {
		setting := "table.touch"
		if i >= len(r.m.Touch) {
			setting = "table.attempts"
		}
		one, _, _, err := r.assign(setting, a)
		if err != nil {
			return nil, err
		}
		also = append(also, one)
	}
	for _, x := range []struct {
		setting string
		spec    *Time
	}{{"table.inserted", &r.m.Inserted}, {"table.eligible", r.m.Eligible}, {"table.expires", r.m.Expires}} {
		if x.spec == nil || !x.spec.Keep {
			continue
		}
		c, err := r.writable(x.setting, x.spec.Column)
		if err != nil {
			return nil, err
		}
		also = append(also, assign{col: r.d.quote(c.name), expr: r.d.quote(c.name)})
	}
	return also, nil
}
