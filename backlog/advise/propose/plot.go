package propose

import (
	"image"
	"io"
	"math"
	"slices"
	"time"

	"github.com/go-analyze/charts/chartdraw/drawing"

	"backlog/backlog/advise"
	"backlog/internal/picture"
	"backlog/tiers"
)

// The measures of a picture in pixels. Its panels are one above the other.
const (
	plotWidth   = 1200
	plotLeft    = 100 // left edge of the curves
	plotRight   = 1170
	panelHeight = 400
	panelTop    = 50 // upper edge of the curves, within the panel
	panelBottom = 340
)

// Plot draws what was learned, the share of the recoverable records that is still broken at an age. With proposals,
// it draws above that the frontier, which is the shortest wait that can be had for so many calls, with the
// schedules on it; and how often they try a record of an age. The format is "svg" or "png".
func (a *Advice) Plot(out io.Writer, format string) error {
	panels := []func(c *picture.Canvas, top int){a.plotStillBroken}
	if len(a.Proposals) > 0 {
		panels = []func(c *picture.Canvas, top int){a.plotFrontier, a.plotIntervals, a.plotStillBroken}
	}
	if a.question.Settings != nil { // the intervals are the policy's
		panels = []func(c *picture.Canvas, top int){a.plotFrontier, a.plotStillBroken}
	}
	canvas, err := picture.New(format, plotWidth, len(panels)*panelHeight)
	if err != nil {
		return err
	}
	for i, draw := range panels {
		draw(canvas, i*panelHeight)
	}
	return canvas.Save(out)
}

// An axis maps the logarithm of values to pixels.
type axis struct {
	least, most float64
	from, to    int // pixels
}

// newAxis returns an axis on which all values have room. Values that are 0 or infinite are left out.
func newAxis(values []float64, from, to int) axis {
	x := axis{least: math.Inf(1), most: 0, from: from, to: to}
	for _, v := range values {
		if v > 0 && !math.IsInf(v, 1) {
			x.least = min(x.least, v)
			x.most = max(x.most, v)
		}
	}
	if x.most == 0 {
		x.least = 1
		x.most = 1
	}
	x.least /= 1.25
	x.most *= 1.25
	return x
}

// at returns the pixel of a value. Values beyond an end are drawn there.
func (x axis) at(v float64) int {
	v = min(max(v, x.least), x.most)
	return x.from + int(math.Round(float64(x.to-x.from)*math.Log(v/x.least)/math.Log(x.most/x.least)))
}

// has reports whether the value is on the axis.
func (x axis) has(v float64) bool { return x.least <= v && v <= x.most }

// roundCounts are the numbers at which an axis of calls has lines.
func roundCounts() []float64 {
	var list []float64
	for power := 1.0; power < 1e12; power *= 10 {
		list = append(list, power, 2*power, 5*power)
	}
	return list
}

// roundWaits are the waits in seconds at which an axis has lines.
func roundWaits() []float64 {
	var list []float64
	for _, d := range []time.Duration{
		time.Second, 10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
		24 * time.Hour, 2 * 24 * time.Hour, 4 * 24 * time.Hour, 8 * 24 * time.Hour, 16 * 24 * time.Hour, 32 * 24 * time.Hour,
	} {
		list = append(list, d.Seconds())
	}
	return list
}

// gridLines draws the lines of both axes with their numbers, and the axes.
func gridLines(c *picture.Canvas, top int, x, y axis, xs, ys []float64, xText, yText func(float64) string) {
	for _, v := range xs {
		if x.has(v) {
			at := x.at(v)
			c.Line(picture.Grid, 1, nil, image.Pt(at, top+panelTop), image.Pt(at, top+panelBottom))
			c.Text(xText(v), at, top+panelBottom+20, picture.AlignMiddle)
		}
	}
	for _, v := range ys {
		if y.has(v) {
			at := y.at(v)
			c.Line(picture.Grid, 1, nil, image.Pt(plotLeft, at), image.Pt(plotRight, at))
			c.Text(yText(v), plotLeft-12, at+5, picture.AlignEnd)
		}
	}
	c.Line(picture.Ink, 1, nil, image.Pt(plotLeft, top+panelTop), image.Pt(plotLeft, top+panelBottom), image.Pt(plotRight, top+panelBottom))
}

// plotFrontier draws the waits that can be had, by calls, from top on.
func (a *Advice) plotFrontier(c *picture.Canvas, top int) {
	frontier := a.question.frontier(a.inputs)
	var calls, waits []float64
	for _, p := range frontier {
		calls = append(calls, p.CallsPerDay)
		waits = append(waits, p.WaitP95)
	}
	for _, p := range a.Proposals {
		calls = append(calls, p.Figures.CallsPerDay.Value)
		waits = append(waits, p.Figures.Wait.P95.Value)
	}
	x := newAxis(calls, plotLeft, plotRight)
	y := newAxis(waits, top+panelBottom, top+panelTop)
	gridLines(c, top, x, y, roundCounts(), roundWaits(), thousands, roughly)
	c.Text("95 % of the records that recover wait at most so long for their next attempt, by the calls a day", plotLeft-70, top+panelTop-20, picture.AlignStart)
	c.Text("calls a day", (plotLeft+plotRight)/2, top+panelBottom+42, picture.AlignMiddle)
	var line []image.Point
	for _, p := range frontier {
		line = append(line, image.Pt(x.at(p.CallsPerDay), y.at(p.WaitP95)))
	}
	if len(line) > 1 {
		c.Line(picture.Colors[1], 2, nil, line...)
	}
	for i, p := range a.Proposals {
		at := image.Pt(x.at(p.Figures.CallsPerDay.Value), y.at(p.Figures.Wait.P95.Value))
		c.Dot(colorOf(i), 5, at)
		name := p.Name
		if math.IsInf(p.Figures.Wait.P95.Value, 1) {
			name += " (never)"
		}
		c.Text(name, at.X+10, at.Y-8, picture.AlignStart)
	}
}

// colorOf returns the colour of the i-th schedule. Curves have the colour between.
func colorOf(i int) drawing.Color {
	if i > 0 {
		i++
	}
	return picture.Colors[i%len(picture.Colors)]
}

// plotIntervals draws how often the schedules try a record of an age, from top on, and beside the proposed one
// the best interval if any were possible at any age and as many calls were made.
func (a *Advice) plotIntervals(c *picture.Canvas, top int) {
	c.Text("How often a record is tried, by its age (dashed: the best if ticks could be at any time, for the calls of the second schedule)", plotLeft-70, top+panelTop-20, picture.AlignStart)
	var ages, intervals []float64
	for _, p := range a.Proposals {
		for _, t := range p.Tiers {
			ages = append(ages, t.MaxAge.Seconds())
			intervals = append(intervals, meanInterval(t))
		}
	}
	ages = append(ages, slices.Min(intervals))
	best := a.bestIntervals()
	for _, p := range best {
		intervals = append(intervals, p.every)
	}
	x := newAxis(ages, plotLeft, plotRight)
	y := newAxis(intervals, top+panelBottom, top+panelTop)
	gridLines(c, top, x, y, ageMarks(), roundWaits(), roughly, roughly)
	c.Text("age", (plotLeft+plotRight)/2, top+panelBottom+42, picture.AlignMiddle)
	var line []image.Point
	for _, p := range best {
		if x.has(p.upto) {
			line = append(line, image.Pt(x.at(p.upto), y.at(p.every)))
		}
	}
	if len(line) > 1 {
		c.Line(picture.Colors[1], 2, picture.Dashes[1], line...)
	}
	for i, p := range a.Proposals {
		c.Line(colorOf(i), 2, nil, stairs(p.Tiers, x, y)...)
		last := p.Tiers[len(p.Tiers)-1]
		c.Text(p.Name, x.at(last.MaxAge.Seconds())-6, y.at(meanInterval(last))-6, picture.AlignEnd)
	}
}

// stairs returns the line of the intervals of tiers.
func stairs(list []tiers.Tier, x, y axis) []image.Point {
	var line []image.Point
	from := x.from
	for _, t := range list {
		to := x.at(t.MaxAge.Seconds())
		height := y.at(meanInterval(t))
		line = append(line, image.Pt(from, height), image.Pt(to, height))
		from = to
	}
	return line
}

// ageMarks are the ages that a picture names, in seconds.
func ageMarks() []float64 {
	var list []float64
	for _, e := range advise.Edges {
		if isLabeled(e) {
			list = append(list, e.Seconds())
		}
	}
	return list
}

// bestIntervals returns the best interval by age for as many failing calls as the proposed schedule makes, in
// proportion to 1/sqrt(h) with the hazard h of all that are pending (Barlow, Hunter and Proschan 1963,
// Keller 1974). Where nothing recovers there is no best interval.
func (a *Advice) bestIntervals() []step {
	const perFactorOf2 = 8
	const factor = 1 + 1.0/perFactorOf2
	p := a.Proposals[min(1, len(a.Proposals)-1)]
	list, ok := stepsOf(p.schedule())
	if !ok {
		return nil
	}
	var best []step
	wanted := 0.0 // calls at the ages that have a best interval
	got := 0.0    // calls if the interval is 1/sqrt(h)
	broken := a.inputs.Broken
	for age := list[0].every; age < min(a.inputs.Oldest.Seconds(), list[len(list)-1].upto); age *= factor {
		hazard := math.Log(broken(age)/broken(age*factor)) / (age * (factor - 1))
		if !(hazard > 0) {
			continue
		}
		calls := broken(age) * age * (factor - 1)
		i := slices.IndexFunc(list, func(t step) bool { return age <= t.upto })
		wanted += calls / list[i].every
		got += calls * math.Sqrt(hazard)
		best = append(best, step{upto: age, every: 1 / math.Sqrt(hazard)})
	}
	for i := range best {
		best[i].every *= got / wanted
	}
	return best
}

// schedule returns the tiers as a schedule.
func (p *Proposal) schedule() *tiers.Schedule {
	s := new(tiers.Schedule)
	for _, t := range p.Tiers {
		s.Add(t) // it comes from a schedule
	}
	return s
}

// plotStillBroken draws what was learned, from top on.
func (a *Advice) plotStillBroken(c *picture.Canvas, top int) {
	c.Text("Share of the records that recover which are still broken, by age (grey: 90 % sure)", plotLeft-70, top+panelTop-20, picture.AlignStart)
	var ages []float64
	for _, p := range a.Learned.StillBroken {
		ages = append(ages, p.Age)
	}
	x := newAxis(ages, plotLeft, plotRight)
	y := func(share float64) int { return top + panelBottom - int(math.Round(share*(panelBottom-panelTop))) }
	var low, high, middle []image.Point
	for _, p := range a.Learned.StillBroken {
		at := x.at(p.Age)
		low = append(low, image.Pt(at, y(p.Low)))
		high = append(high, image.Pt(at, y(p.High)))
		middle = append(middle, image.Pt(at, y(p.Share)))
	}
	if len(middle) > 1 {
		band := high
		for i := range low {
			band = append(band, low[len(low)-1-i])
		}
		c.Area(picture.Shade, band...)
	}
	for share := 0; share <= 100; share += 20 {
		at := y(float64(share) / 100)
		c.Line(picture.Grid, 1, nil, image.Pt(plotLeft, at), image.Pt(plotRight, at))
		c.Text(thousands(float64(share))+" %", plotLeft-12, at+5, picture.AlignEnd)
	}
	for _, age := range ageMarks() {
		if x.has(age) {
			at := x.at(age)
			c.Line(picture.Grid, 1, nil, image.Pt(at, top+panelTop), image.Pt(at, top+panelBottom))
			c.Text(roughly(age), at, top+panelBottom+20, picture.AlignMiddle)
		}
	}
	c.Line(picture.Ink, 1, nil, image.Pt(plotLeft, top+panelTop), image.Pt(plotLeft, top+panelBottom), image.Pt(plotRight, top+panelBottom))
	c.Text("age", (plotLeft+plotRight)/2, top+panelBottom+42, picture.AlignMiddle)
	if len(middle) > 1 {
		c.Line(picture.Colors[1], 2, nil, middle...)
	}
}

// isLabeled reports whether the age has a line in the picture. Third hours of a day would be too close.
func isLabeled(age time.Duration) bool {
	return age < 4*time.Hour || age == 6*time.Hour || age == 12*time.Hour || age >= 24*time.Hour
}
