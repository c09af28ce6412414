package web

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Learned is what past passes tell of how long records stay broken.
type Learned struct {
	Days       float64 // of the passes
	Records    int
	Recoveries int

	FirstFailures float64 // the share of the records that fail at first
	BrokenForGood float64 // the share of these that has not recovered by the age of the last point
	Points        []LearnedPoint

	Sentence string // of the advice on the schedule; "": not known
}

// A LearnedPoint is the share of the records that recover at all which are still broken at an age.
type LearnedPoint struct {
	Age              time.Duration
	Share, Low, High float64
}

// The picture of the points has the ages from left to right, on a logarithmic scale, and the share from bottom to top.
const (
	curveLeft   = 40
	curveWidth  = 560
	curveTop    = 10
	curveHeight = 150
)

// X returns the x coordinate of an age.
func (l *Learned) X(age time.Duration) float64 {
	first := math.Log(l.Points[0].Age.Seconds())
	last := math.Log(l.Oldest().Seconds())
	if last <= first {
		return curveLeft
	}
	return curveLeft + curveWidth*(math.Log(age.Seconds())-first)/(last-first)
}

// Y returns the y coordinate of a share.
func (l *Learned) Y(share float64) float64 { return curveTop + curveHeight*(1-share) }

// Oldest returns the age of the last point.
func (l *Learned) Oldest() time.Duration { return l.Points[len(l.Points)-1].Age }

// Curve returns the path of the shares.
func (l *Learned) Curve() string {
	var path strings.Builder
	for i, p := range l.Points {
		fmt.Fprintf(&path, "%s%.1f %.1f", pathCommand(i), l.X(p.Age), l.Y(p.Share))
	}
	return path.String()
}

// Band returns the path around the intervals of the shares.
func (l *Learned) Band() string {
	var path strings.Builder
	for i, p := range l.Points {
		fmt.Fprintf(&path, "%s%.1f %.1f", pathCommand(i), l.X(p.Age), l.Y(p.High))
	}
	for i := len(l.Points) - 1; i >= 0; i-- {
		fmt.Fprintf(&path, "L%.1f %.1f", l.X(l.Points[i].Age), l.Y(l.Points[i].Low))
	}
	return path.String() + "Z"
}

// pathCommand returns the command of the i-th point of a path.
func pathCommand(i int) string {
	if i == 0 {
		return "M"
	}
	return "L"
}

// curveMarks are the ages that are written below the picture, as far as they are in it.
var curveMarks = []time.Duration{
	time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 240 * 24 * time.Hour,
}

// Marks returns the ages that are written below the picture.
func (l *Learned) Marks() []time.Duration {
	var list []time.Duration
	for _, age := range curveMarks {
		if l.Points[0].Age <= age && age <= l.Oldest() {
			list = append(list, age)
		}
	}
	return list
}
