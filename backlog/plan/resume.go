package plan

import "backlog/backlog/key"

// A Resume is where the next pass of a tier goes on after one that ended
// early. The zero Resume starts from the beginning.
type Resume struct {
	// Fresh: records before FreshTop are new since. After them comes what is
	// behind FreshLast, then all else.
	FreshTop  key.Cursor `json:"fresh_top"`
	FreshLast key.Cursor `json:"fresh_last"`
	// Failed: records after FailedLast first, then those before it.
	FailedLast key.Cursor `json:"failed_last"`
	// TurnFailed says that under a cap of one the next turn is the failed
	// lane's.
	TurnFailed bool `json:"turn_failed,omitempty"`
}

// IsZero reports whether a pass with r starts from the beginning.
func (r Resume) IsZero() bool {
	return r.FreshLast.IsZero() && r.FailedLast.IsZero() && !r.TurnFailed
}

// Resume returns where the tier's next pass goes on.
func (p *Plan) Resume() Resume {
	var next Resume
	fresh := &p.lanes[Fresh]
	failed := &p.lanes[Failed]
	if p.Complete() {
		return next
	}
	next.TurnFailed = p.MaxRecords == 1 && fresh.last.Seq > 0
	if !failed.ended() && p.keepsPlace(Failed) {
		next.FailedLast = lastOf(failed, p.From.FailedLast)
	}
	switch {
	case fresh.ended() || !p.keepsPlace(Fresh):
	case p.ByWait[Fresh]:
		next.FreshLast = lastOf(fresh, p.From.FreshLast)
	default:
		next.FreshTop, next.FreshLast = p.freshPlaces()
	}
	return next
}

// keepsPlace reports whether the next pass goes on behind the records of this one, which are
// looked at again in the end. In a lane that is ordered by waiting time that is needed only
// where a record stays where it was: all others are at the end of the lane by then, or gone.
func (p *Plan) keepsPlace(l Lane) bool { return !p.ByWait[l] || p.lanes[l].stays }

// lastOf returns the place of the furthest record that was dispatched, or where the last pass
// stopped if there is none.
func lastOf(l *lane, before key.Cursor) key.Cursor {
	if l.last.Seq == 0 {
		return before
	}
	return l.last.At
}

// freshPlaces returns FreshTop and FreshLast where the lane is ordered by age. A pass that
// comes through what is new, and no further, leaves the place where the last one stopped, so
// that a burst of new records does not have the old ones begin again.
func (p *Plan) freshPlaces() (top, last key.Cursor) {
	fresh := &p.lanes[Fresh]
	top = p.From.FreshTop
	last = lastOf(fresh, p.From.FreshLast)
	if fresh.last.Seq > 0 && !fresh.top.IsZero() {
		top = fresh.top
	}
	onlyNew := fresh.last.Section == 0 && fresh.section > 0
	if onlyNew && !p.From.FreshLast.IsZero() {
		last = p.From.FreshLast
	}
	return top, last
}

// A Section is a part of a lane: the records between two places.
type Section struct{ After, Until key.Cursor }

// Sections returns those of a lane, in the order in which they are walked. What is new since
// the last pass waits behind nothing. Then comes what is behind the place where that pass
// stopped, and in the end what it has reached and left pending.
func (r Resume) Sections(l Lane) []Section {
	top := r.FreshTop
	last := r.FreshLast
	if l == Failed {
		top = key.Cursor{}
		last = r.FailedLast
	}
	switch {
	case last.IsZero():
		return []Section{{}}
	case top.IsZero():
		return []Section{{After: last}, {Until: last}}
	}
	return []Section{{Until: top}, {After: last}, {After: top, Until: last}}
}
