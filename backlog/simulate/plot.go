package simulate

import (
	"cmp"
	"image"
	"io"
	"slices"
	"time"

	"backlog/backlog/inspect"
	"backlog/internal/picture"
	"backlog/tiers"
)

// The measures of a picture in pixels. The legend has a line for each curve. Two panels are
// below it.
const (
	plotWidth   = 1200
	plotLeft    = 100 // left edge of the curves
	plotRight   = 1170
	panelHeight = 380
	panelTop    = 40 // upper edge of the curves, within the panel
	panelBottom = 320
	legendLine  = 24
	swatch      = 48 // width of a sample of a line
)

// Plot draws two panels, a curve per result: the attempts per bucket, and how many records are
// pending in it at most. Outages are shaded. The format is "svg" or "png". An SVG is the same to
// the byte on every machine, because its coordinates are whole numbers.
func Plot(out io.Writer, format string, w *Workload, curves []Result) error {
	top := 10 + legendLine*(len(curves)+min(1, len(w.Outages)))
	canvas, err := picture.New(format, plotWidth, top+2*panelHeight)
	if err != nil {
		return err
	}
	p := &plot{Canvas: canvas, outages: mergeOutages(w.Outages)}
	p.legend(curves)
	calls := panel{title: "calls per " + bucketName(curves), sum: true, value: func(b Bucket) int { return b.Attempts }}
	pending := panel{title: "records pending, at most", value: func(b Bucket) int { return b.MaxPending }}
	p.panel(top, w, curves, calls)
	p.panel(top+panelHeight, w, curves, pending)
	return p.Save(out)
}

// A plot is a picture of results that is being drawn.
type plot struct {
	*picture.Canvas
	outages []Outage
}

// legend draws the name of each curve next to a sample of its line. Names are cut as if every
// letter were wide, because a viewer may lack the font that is measured here.
func (p *plot) legend(curves []Result) {
	const letter = 8
	const most = (plotRight - plotLeft - swatch - 8) / letter
	x := plotLeft + swatch
	y := 10 + legendLine/2
	for i, c := range curves {
		color, dashes := picture.Style(i)
		p.Line(color, 2, dashes, image.Pt(plotLeft, y), image.Pt(x, y))
		p.Text(inspect.Elide(c.Name, most), x+8, y+5, picture.AlignStart)
		y += legendLine
	}
	if len(p.outages) > 0 {
		p.Rect(picture.Shade, image.Rect(plotLeft, y-7, x, y+7))
		p.Text("outage", x+8, y+5, picture.AlignStart)
	}
}

// A panel shows one value of the buckets over time.
type panel struct {
	title string
	sum   bool // the value grows with the width of the bucket
	value func(Bucket) int
}

// panel draws a panel whose upper edge is at top.
func (d *plot) panel(top int, w *Workload, curves []Result, p panel) {
	most := 1
	for _, c := range curves {
		most = max(most, greatest(c.Series, p.value))
	}
	values := picture.AxisTicks(most, 8, nil)
	if last := values[len(values)-1]; last < most {
		values = append(values, last+values[1])
	}
	highest := values[len(values)-1]
	length := w.To.Sub(w.From)
	xOf := func(t time.Time) int {
		// Milliseconds: the product would overflow in nanoseconds.
		return plotLeft + int(t.Sub(w.From).Milliseconds()*(plotRight-plotLeft)/length.Milliseconds())
	}
	yOf := func(v int) int {
		return top + panelBottom - int(int64(v)*(panelBottom-panelTop)/int64(highest))
	}

	for _, o := range d.outages {
		if o.From.Before(w.To) {
			from := xOf(o.From)
			to := min(xOf(o.To), plotRight)
			d.Rect(picture.Shade, image.Rect(from, top+panelTop, max(to, from+2), top+panelBottom))
		}
	}
	for _, v := range values {
		y := yOf(v)
		d.Line(picture.Grid, 1, nil, image.Pt(plotLeft, y), image.Pt(plotRight, y))
		d.Text(inspect.Thousands(v), plotLeft-12, y+5, picture.AlignEnd)
	}
	unit, unitName, steps := axisUnit(length)
	for _, v := range picture.AxisTicks(int(length/unit), 16, steps) {
		x := xOf(w.From.Add(time.Duration(v) * unit))
		d.Line(picture.Grid, 1, nil, image.Pt(x, top+panelTop), image.Pt(x, top+panelBottom))
		d.Line(picture.Ink, 1, nil, image.Pt(x, top+panelBottom), image.Pt(x, top+panelBottom+5))
		d.Text(inspect.Thousands(v), x, top+panelBottom+20, picture.AlignMiddle)
	}
	corner := image.Pt(plotLeft, top+panelBottom)
	d.Line(picture.Ink, 1, nil, image.Pt(plotLeft, top+panelTop), corner, image.Pt(plotRight, top+panelBottom))
	d.Text(p.title, plotLeft-70, top+panelTop-14, picture.AlignStart)
	begin := w.From.In(cmp.Or(w.Zone, time.UTC)).Format("2006-01-02 15:04 MST")
	d.Text(unitName+" since "+begin, (plotLeft+plotRight)/2, top+panelBottom+42, picture.AlignMiddle)
	for i, c := range curves {
		color, dashes := picture.Style(i)
		d.Line(color, 2, dashes, points(c.Series, w.To, p, xOf, yOf)...)
	}
}

// points returns a line along the buckets. It leaves out a last bucket that is shorter than the
// others if the value grows with the width: the line would seem to fall.
func points(series []Bucket, to time.Time, p panel, xOf func(time.Time) int, yOf func(int) int) []image.Point {
	if last := len(series) - 1; p.sum && last > 0 {
		width := series[1].At.Sub(series[0].At)
		if to.Sub(series[last].At) < width {
			to = series[last].At
			series = series[:last]
		}
	}
	var list []image.Point
	for i, b := range series {
		end := endOf(series, i, to)
		y := yOf(p.value(b))
		list = append(list, image.Pt(xOf(b.At), y), image.Pt(xOf(end), y))
	}
	return slices.Compact(list)
}

// axisUnit returns the unit of the time axis, its name, and the steps by which people count it.
// Days are counted by round numbers: steps is nil.
func axisUnit(length time.Duration) (unit time.Duration, name string, steps []int) {
	switch {
	case length > 4*24*time.Hour:
		return 24 * time.Hour, "days", nil
	case length > 4*time.Hour:
		return time.Hour, "hours", []int{1, 2, 3, 6, 12}
	}
	return time.Minute, "minutes", []int{1, 2, 5, 10, 15, 30}
}

// bucketName returns the name of a bucket's width.
func bucketName(curves []Result) string {
	s := curves[0].Series
	if len(s) < 2 {
		return "period"
	}
	switch width := s[1].At.Sub(s[0].At); width {
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case 24 * time.Hour:
		return "day"
	default:
		return tiers.FormatDuration(width)
	}
}

// DrawPicture draws the results into the named file, by [Plot]. It replaces the file.
func DrawPicture(name string, w *Workload, all []Result) error {
	return picture.WriteFile(name, func(out io.Writer, format string) error { return Plot(out, format, w, all) })
}
