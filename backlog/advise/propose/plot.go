package propose

import (
	"image"
	"io"
	"math"
	"time"

	"backlog/backlog/advise"
	"backlog/internal/picture"
	"backlog/tiers"
)

// The measures of a picture in pixels. Two panels are one above the other.
const (
	plotWidth   = 1200
	plotLeft    = 100 // left edge of the curves
	plotRight   = 1170
	panelHeight = 400
	panelTop    = 50 // upper edge of the curves, within the panel
	panelBottom = 340
)

// Plot draws two panels: the frontier, that is the shortest wait that can be had for so many calls, with
// the schedules of the advice on it; and the share of the recoverable records that is still broken at an age,
// within its interval. The format is "svg" or "png".
func (a *Advice) Plot(out io.Writer, format string) error {
	canvas, err := picture.New(format, plotWidth, 2*panelHeight)
	if err != nil {
		return err
	}
	if len(a.Proposals) > 0 {
		a.plotFrontier(canvas)
	}
	a.plotStillBroken(canvas, panelHeight)
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

// plotFrontier draws the upper panel.
func (a *Advice) plotFrontier(c *picture.Canvas) {
	frontier := Frontier(a.inputs, a.question.Schedule, a.question.Wishes)
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
	y := newAxis(waits, panelBottom, panelTop)
	gridLines(c, 0, x, y, roundCounts(), roundWaits(), thousands, roughly)
	c.Text("95 % of the records that recover wait at most so long for their next attempt, by the calls a day", plotLeft-70, panelTop-20, picture.AlignStart)
	c.Text("calls a day", (plotLeft+plotRight)/2, panelBottom+42, picture.AlignMiddle)
	var line []image.Point
	for _, p := range frontier {
		line = append(line, image.Pt(x.at(p.CallsPerDay), y.at(p.WaitP95)))
	}
	if len(line) > 1 {
		c.Line(picture.Colors[1], 2, nil, line...)
	}
	for i, p := range a.Proposals {
		at := image.Pt(x.at(p.Figures.CallsPerDay.Value), y.at(p.Figures.Wait.P95.Value))
		c.Dot(picture.Colors[2*i%len(picture.Colors)], 5, at)
		name := p.Name
		if math.IsInf(p.Figures.Wait.P95.Value, 1) {
			name += " (never)"
		}
		c.Text(name, at.X+10, at.Y-8, picture.AlignStart)
	}
}

// plotStillBroken draws the lower panel, from top on.
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
	for _, e := range advise.Edges {
		if at := x.at(e.Seconds()); x.has(e.Seconds()) && isLabeled(e) {
			c.Line(picture.Grid, 1, nil, image.Pt(at, top+panelTop), image.Pt(at, top+panelBottom))
			c.Text(tiers.FormatDuration(e), at, top+panelBottom+20, picture.AlignMiddle)
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
