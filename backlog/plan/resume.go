package plan

import "backlog/backlog/key"

// A Resume is where the next pass of a tier goes on after one that ended
// early. The zero Resume is the beginning.
type Resume struct {
	// FreshTop is the place of the first fresh record that the last pass found: records
	// before it are new. FreshLast is where that pass stopped.
	FreshTop  key.Cursor `json:"fresh_top"`
	FreshLast key.Cursor `json:"fresh_last"`
	// FailedLast is where the last pass stopped in the failed lane.
	FailedLast key.Cursor `json:"failed_last"`
	// TurnFailed says that under a cap of one the next record is a failed one.
	TurnFailed bool `json:"turn_failed,omitempty"`
}

// IsZero reports whether a pass with r starts at the beginning.
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
	next.TurnFailed = p.MaxRecords == 1 && fresh.hasDispatched()
	if !failed.complete() && p.keepsPlace(Failed) {
		next.FailedLast = failed.reached(p.From.FailedLast)
	}
	switch {
	case fresh.complete() || !p.keepsPlace(Fresh):
	case p.ByWait[Fresh]:
		next.FreshLast = fresh.reached(p.From.FreshLast)
	default:
		next.FreshTop, next.FreshLast = p.freshPlaces()
	}
	return next
}

// keepsPlace reports whether the next pass goes on behind the records of this one, and takes
// these last. A lane that is ordered by waiting time needs that only if a record has kept its
// place: all others have moved to the end of the lane or left it.
func (p *Plan) keepsPlace(l Lane) bool { return !p.ByWait[l] || p.lanes[l].keptPlace }

// reached returns the place of the furthest record that was dispatched or, if none was, where
// the last pass stopped.
func (l *lane) reached(lastPass key.Cursor) key.Cursor {
	if l.hasDispatched() {
		return l.furthest.At
	}
	return lastPass
}

// freshPlaces returns FreshTop and FreshLast if the lane is ordered by age. The first section
// then has the records that are newer than those of the last pass, see [Resume.Sections].
func (p *Plan) freshPlaces() (top, last key.Cursor) {
	fresh := &p.lanes[Fresh]
	if !fresh.hasDispatched() {
		return p.From.FreshTop, p.From.FreshLast
	}
	top = fresh.top
	if top.IsZero() { // nothing is newer
		top = p.From.FreshTop
	}
	reachedOnlyNew := fresh.furthest.Section == 0
	hasReadAllNew := fresh.section > 0
	if reachedOnlyNew && hasReadAllNew {
		// The old records stay where the last pass stopped. Otherwise each burst of new ones
		// would send the next pass back to the first of the old ones.
		return top, p.From.FreshLast
	}
	return top, fresh.furthest.At
}

// A Section is a part of a lane: the records between two places.
type Section struct{ After, Until key.Cursor }

// Sections returns the sections of a lane in the order of the pass. First comes what is newer
// than the last pass (before top), then what that pass did not reach (after last), then what it
// reached and left pending.
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
