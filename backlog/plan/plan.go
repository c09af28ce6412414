// Package plan decides which records a pass takes next, when failures end the pass, and where
// the tier's next pass goes on. It knows records only by number and place.
//
// A [Plan] counts what becomes of the records of one pass. A [Walk] is how far the pass has come
// in a lane, and a [Reading] says which page to read next. A [Resume] connects a pass with the
// tier's next one. All of them are pure: they use no clock and no store. The engine drives them
// with goroutines, and package simulate with a virtual clock.
package plan

import (
	"math"

	"backlog/backlog/key"
)

// A Lane is one of the two queues of a pass. It takes the fresh records first,
// so that no new record waits behind a failed one.
type Lane int

const (
	Fresh  Lane = iota // pending, never tried
	Failed             // pending, tried and failed
)

// String returns "fresh" or "failed".
func (l Lane) String() string {
	if l == Failed {
		return "failed"
	}
	return "fresh"
}

// A stage is what the cap of a pass is spent on.
type stage int

const (
	freshShare  stage = iota // fresh records, except what is reserved for failed ones
	failedShare              // failed records
	freshRest                // fresh records again, if failed ones have not used up the cap
	noStage
)

// lane returns the lane that the stage takes records from.
func (s stage) lane() Lane {
	if s == failedShare {
		return Failed
	}
	return Fresh
}

// An End is how an attempt has ended.
type End int

const (
	EndSuccess   End = iota
	EndFailure       // the record may be tried again
	EndKeptPlace     // the record keeps its place in its lane: it was skipped, or its outcome is refused
	EndNeutral       // says nothing about the service: it was rejected, handed over, or changed by another program
)

// A Place is where a pass has found a record.
type Place struct {
	Lane    Lane
	Section int // of the lane
	Seq     int // counts the records of the lane that the pass has passed, from 1
	At      key.Cursor
}

// A Plan decides for one pass. The exported fields are set before the first call of a method.
// It must not be used concurrently.
type Plan struct {
	MaxRecords int     // how many records may be claimed; 0 or less: any number
	AbortAfter int     // how many failures in a row end the pass; 0 or less: none
	ByWait     [2]bool // the lanes in which a record that was tried moves to the end, or leaves the lane
	From       Resume  // where the tier's last pass stopped

	stage         stage
	lanes         [2]lane
	failuresInRow int // failures since the last success
}

// A lane is what the plan knows of one.
type lane struct {
	claimed   int
	returned  int
	section   int        // the current one
	exhausted bool       // it has no more records
	closed    bool       // nothing more of it is to be dispatched
	keptPlace bool       // a record that was dispatched has kept its place
	top       key.Cursor // the place before the first record of the first section; zero: that has no records
	furthest  Place      // of the records that were dispatched; zero: none was
}

// hasDispatched reports whether a record of the lane was dispatched.
func (l *lane) hasDispatched() bool { return l.furthest.Seq > 0 }

// complete reports whether every record of the lane was passed, and none returned.
func (l *lane) complete() bool { return l.exhausted && l.returned == 0 }

// Next returns the lane to go on with, and how many of its records may be claimed, 0 if
// nothing more is to be claimed.
//
// Fresh records come first. However many there are, a tenth of the cap, rounded up, is
// reserved for failed ones. What the failed lane does not need goes back to the fresh lane.
func (p *Plan) Next() (l Lane, room int) {
	for ; p.stage < noStage; p.stage++ {
		l = p.stage.lane()
		room = p.room()
		if room > 0 && !p.lanes[l].exhausted && !p.lanes[l].closed {
			return l, room
		}
	}
	return Fresh, 0
}

// room returns how much of the cap the current stage may still use.
func (p *Plan) room() int {
	if p.MaxRecords <= 0 {
		return math.MaxInt
	}
	room := p.MaxRecords - p.lanes[Fresh].claimed - p.lanes[Failed].claimed
	if p.stage == freshShare {
		room -= p.reserve()
	}
	return room
}

// reserve returns how much of the cap is reserved for the failed lane. A cap of one goes to
// the lanes in turn, pass by pass.
func (p *Plan) reserve() int {
	if p.MaxRecords == 1 && !p.From.TurnFailed {
		return 0
	}
	return (p.MaxRecords + 9) / 10
}

// Claimed takes n records of the lane out of the cap.
func (p *Plan) Claimed(l Lane, n int) { p.lanes[l].claimed += n }

// Returned says that a claimed record was not dispatched, so that the next pass takes it.
func (p *Plan) Returned(l Lane) { p.lanes[l].returned++ }

// Exhausted says that the lane has no more records.
func (p *Plan) Exhausted(l Lane) { p.lanes[l].exhausted = true }

// Close says that nothing more of the lane is to be claimed, though it has more records.
func (p *Plan) Close(l Lane) { p.lanes[l].closed = true }

// Enter says that the next page of the lane is of the section, and where its first record is;
// zero: the page has none.
func (p *Plan) Enter(l Lane, section int, at key.Cursor) {
	lane := &p.lanes[l]
	lane.section = section
	if section == 0 && lane.top.IsZero() && !at.IsZero() {
		lane.top = at
		lane.top.Before = true
	}
}

// Dispatched says that the record at the place was given to a handler, or that this pass does
// not take it. Records may be dispatched in another order than they were claimed.
func (p *Plan) Dispatched(at Place) {
	l := &p.lanes[at.Lane]
	if at.Seq > l.furthest.Seq {
		l.furthest = at
	}
}

// CountEnd counts the end of an attempt, and reports whether the pass is to be aborted because
// AbortAfter attempts have failed in a row, in the order of the calls.
func (p *Plan) CountEnd(l Lane, end End) (abort bool) {
	switch end {
	case EndSuccess:
		p.failuresInRow = 0
	case EndFailure:
		p.failuresInRow++
		return p.AbortAfter > 0 && p.failuresInRow >= p.AbortAfter
	case EndKeptPlace:
		p.lanes[l].keptPlace = true
	case EndNeutral:
	}
	return false
}

// Complete reports whether every record of the pass was passed, and none returned.
func (p *Plan) Complete() bool { return p.lanes[Fresh].complete() && p.lanes[Failed].complete() }
