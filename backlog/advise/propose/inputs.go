// Package propose computes what a schedule costs and how long records wait under it, from what
// [advise.Fit] has learned, and searches for the schedule that is best for what an operator
// wants. It does no I/O, and the same inputs always give the same proposals.
package propose

import (
	"time"

	"backlog/backlog/advise"
)

// A Curve returns the share of all records that are broken at an age in seconds. It never rises.
type Curve func(age float64) float64

// Inputs are what the figures of a schedule are computed from. They must not change during a search.
type Inputs struct {
	PerHour float64 // records inserted
	Broken  Curve
	Drawn   []Curve // curves that are about as likely as Broken; from their figures come the intervals

	// Oldest is the age up to which Broken is known. What is still broken then counts as broken for good.
	Oldest time.Duration
	// Slots returns when in a day records of an age in seconds recover. It is asked once for each band of
	// [advise.Edges], about an age in it. nil, also of the function: at any time.
	Slots func(age float64) *advise.Slots

	LongestOutage  time.Duration // 0: there was none
	CallsPerSecond float64       // of a pass under way; 0: it is not known
}

// Figures are what a schedule costs and how long records wait under it. Times are in seconds.
type Figures struct {
	CallsPerDay  advise.Estimate
	InVainPerDay advise.Estimate // calls that fail
	Peak         float64         // the most calls of one tick
	Wait         Waits
	NewWait      float64 // the longest a new record waits for its first attempt
	// Recovery is how long after the longest outage each record that it left behind was tried.
	Recovery    float64
	LostPer1000 advise.Estimate // of the recoverable first failures
}

// Waits are how long recoverable first failures wait although they could succeed. A lost one waits for
// ever, so that a value may be +Inf.
type Waits struct {
	P50 advise.Estimate
	P95 advise.Estimate
}
