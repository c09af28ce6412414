// Package plan decides what a pass takes next, when failures end it, and where the tier's next
// pass goes on. It is pure: it knows records only by number and place, and neither a clock nor
// a store.
package plan

import (
	"math"

	"backlog/backlog/key"
)

// A Lane is one of the two queues a pass walks: first the records never
// tried, then those that failed, so that a new record waits behind no failed
// one.
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
	freshShare  stage = iota // fresh records, but for what is reserved
	failedShare              // failed records
	freshRest                // fresh records, by what the failed ones have left of the cap
	noStage
)

// lane returns the lane that the stage takes records from.
func (s stage) lane() Lane {
	if s == failedShare {
		return Failed
	}
	return Fresh
}

// An End is how the attempt at a record has ended.
type End int

const (
	Succeeded  End = iota
	HasFailed      // and may be tried again
	Stayed         // the record keeps its place in its lane: it was skipped, or its outcome is refused
	NoEvidence     // of a failing service: rejected, handed over, or changed by others
)

// A Place is that of a record among those that a pass has looked at.
type Place struct {
	Lane    Lane
	Section int // of the lane
	Seq     int // counts the records of the lane, from 1
	At      key.Cursor
}

// A Plan is of one pass. The exported fields are set before the first call. It must not be
// called concurrently.
type Plan struct {
	MaxRecords int     // how many records may be claimed; 0 or less: any number
	AbortAfter int     // how many failures in a row end the pass; 0 or less: none
	ByWait     [2]bool // the lanes in which a record that was tried goes to the end, or leaves
	From       Resume  // from the tier's last pass

	stage  stage
	lanes  [2]lane
	streak int // failures since the last success
}

// A lane is what the plan has heard of one.
type lane struct {
	claimed   int
	returned  int
	section   int        // which is being walked
	exhausted bool       // it has no more records
	closed    bool       // nothing more of it is to be dispatched
	stays     bool       // a record that was dispatched keeps its place
	top       key.Cursor // before the first record of the first section
	last      Place      // the furthest that was dispatched
}

// ended reports whether every record of the lane was looked at, and none was returned.
func (l *lane) ended() bool { return l.exhausted && l.returned == 0 }

// Next returns the lane to go on with, and how many of its records may be claimed; 0 if
// nothing more is to be claimed.
//
// Fresh records come first. However many there are, a tenth of the cap, rounded up, is
// reserved for failed ones. What the failed lane does not need goes back to the fresh one.
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

// room returns what is left of the cap in the present stage.
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

// reserve returns what the failed lane keeps of the cap. A cap of one is each lane's in turn.
func (p *Plan) reserve() int {
	if p.MaxRecords == 1 && !p.From.TurnFailed {
		return 0
	}
	return (p.MaxRecords + 9) / 10
}

// Claimed takes so many records of the lane out of the cap.
func (p *Plan) Claimed(l Lane, n int) { p.lanes[l].claimed += n }

// Returned says that a claimed record was not dispatched: it is left for the next pass.
func (p *Plan) Returned(l Lane) { p.lanes[l].returned++ }

// Exhausted says that the lane has no more records.
func (p *Plan) Exhausted(l Lane) { p.lanes[l].exhausted = true }

// Close has nothing more of the lane claimed, though it has more records.
func (p *Plan) Close(l Lane) { p.lanes[l].closed = true }

// Enter says which section of the lane is walked from now on, and where its next record is;
// zero: its next page has none.
func (p *Plan) Enter(l Lane, section int, at key.Cursor) {
	lane := &p.lanes[l]
	lane.section = section
	if section == 0 && lane.top.IsZero() && !at.IsZero() {
		lane.top = at
		lane.top.Before = true
	}
}

// Dispatched says that the record at the place was given to a handler, or is passed over for
// good by this pass. Records may be dispatched in another order than they were claimed.
func (p *Plan) Dispatched(at Place) {
	l := &p.lanes[at.Lane]
	if at.Seq > l.last.Seq {
		l.last = at
	}
}

// Ended takes the end of an attempt and reports whether it ends the pass, because so many
// have failed in a row. Attempts count in the order in which they end.
func (p *Plan) Ended(l Lane, end End) (abort bool) {
	switch end {
	case Succeeded:
		p.streak = 0
	case HasFailed:
		p.streak++
		return p.AbortAfter > 0 && p.streak >= p.AbortAfter
	case Stayed:
		p.lanes[l].stays = true
	}
	return false
}

// Complete reports whether every record of the pass was looked at.
func (p *Plan) Complete() bool { return p.lanes[Fresh].ended() && p.lanes[Failed].ended() }
