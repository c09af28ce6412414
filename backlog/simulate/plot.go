package simulate

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A Curve is one of those in a picture.
type Curve struct {
	Name   string
	Report *Report
}

// The picture is 1200 by 800 pixels at 96 to the inch.
const (
	plotWidth  = 12.5 * vg.Inch
	plotHeight = 8.33 * vg.Inch
	plotDPI    = 96
)

// Colours of Okabe and Ito, which the colour-blind tell apart, in the order of
// their lightness; in grey the dashes do.
var (
	plotColors = []color.RGBA{{0, 0, 0, 255}, {0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {86, 180, 233, 255}, {230, 159, 0, 255}}
	plotDashes = [][]vg.Length{nil, {8, 4}, {2, 3}, {10, 3, 2, 3}, {5, 2}, {14, 4}, {1, 2}}
)

// Plot draws attempts and what is pending over time, one line per curve, the
// outages shaded. The format is "svg" or "png".
func Plot(out io.Writer, format string, w *Workload, curves []Curve) error {
	unit, name := axisUnit(w.To.Sub(w.From))
	above, err := panel("calls per "+bucketName(curves), w, unit, curves, plotter.PreStep, func(b Bucket) int { return b.Attempts })
	if err != nil {
		return err
	}
	below, err := panel("records pending", w, unit, curves, plotter.NoStep, func(b Bucket) int { return b.Pending })
	if err != nil {
		return err
	}
	above.Legend.Top = true
	below.X.Label.Text = name + " since " + w.From.Format("2006-01-02 15:04 MST")
	below.Legend = plot.NewLegend()

	var canvas vg.CanvasSizer
	var to io.WriterTo
	switch format {
	case "svg":
		c := vgsvg.New(plotWidth, plotHeight)
		canvas, to = c, c
	case "png":
		c := vgimg.NewWith(vgimg.UseWH(plotWidth, plotHeight), vgimg.UseDPI(plotDPI))
		canvas, to = c, vgimg.PngCanvas{Canvas: c}
	default:
		return fmt.Errorf("a picture is svg or png, not %q", format)
	}
	tiles := draw.Tiles{Rows: 2, Cols: 1, PadTop: 8, PadBottom: 8, PadLeft: 8, PadRight: 20, PadY: 10}
	grid := plot.Align([][]*plot.Plot{{above}, {below}}, tiles, draw.New(canvas))
	above.Draw(grid[0][0])
	below.Draw(grid[1][0])
	_, err = to.WriteTo(out)
	return err
}

// axisUnit returns the unit of the time axis and its name.
func axisUnit(length time.Duration) (time.Duration, string) {
	switch {
	case length > 4*24*time.Hour:
		return 24 * time.Hour, "days"
	case length > 4*time.Hour:
		return time.Hour, "hours"
	}
	return time.Minute, "minutes"
}

// bucketName is what a bucket is called.
func bucketName(curves []Curve) string {
	s := curves[0].Report.Series
	if len(s) < 2 {
		return "period"
	}
	switch d := s[1].At.Sub(s[0].At); {
	case d == 24*time.Hour:
		return "day"
	case d == time.Hour:
		return "hour"
	case d == time.Minute:
		return "minute"
	case d%(24*time.Hour) == 0:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d%time.Hour == 0:
		return fmt.Sprintf("%d hours", d/time.Hour)
	default:
		return fmt.Sprintf("%d minutes", d/time.Minute)
	}
}

func panel(label string, w *Workload, unit time.Duration, curves []Curve, step plotter.StepKind, value func(Bucket) int) (*plot.Plot, error) {
	p := plot.New()
	p.Y.Label.Text = label
	p.Y.Min, p.X.Min, p.X.Max = 0, 0, float64(w.To.Sub(w.From))/float64(unit)
	p.Y.Tick.Marker, p.X.Tick.Marker = wholeTicks{8}, wholeTicks{16}
	p.Legend.Padding, p.Legend.XOffs, p.Legend.YOffs = 4, -10, -4
	p.Add(plotter.NewGrid())
	most := 1.0
	for _, c := range curves {
		for _, b := range c.Report.Series {
			most = math.Max(most, float64(value(b)))
		}
	}
	p.Y.Max = most * 1.25 // room for the legend
	for i, o := range w.service().outages {
		from, to := float64(o.From.Sub(w.From))/float64(unit), float64(o.To.Sub(w.From))/float64(unit)
		shade, err := plotter.NewPolygon(plotter.XYs{{X: from, Y: 0}, {X: to, Y: 0}, {X: to, Y: p.Y.Max}, {X: from, Y: p.Y.Max}})
		if err != nil {
			return nil, err
		}
		shade.Color, shade.LineStyle.Width = color.Gray{220}, 0
		p.Add(shade)
		if i == 0 {
			p.Legend.Add("outage", shade)
		}
	}
	for i, c := range curves {
		line, err := plotter.NewLine(points(c.Report.Series, w, unit, value))
		if err != nil {
			return nil, err
		}
		line.StepStyle = step
		line.Width, line.Color, line.Dashes = 1.6, plotColors[i%len(plotColors)], plotDashes[i%len(plotDashes)]
		p.Add(line)
		p.Legend.Add(c.Name, line)
	}
	return p, nil
}

// points are the ends of the buckets, after a first one at the beginning.
func points(series []Bucket, w *Workload, unit time.Duration, value func(Bucket) int) plotter.XYs {
	xys := make(plotter.XYs, 0, len(series)+1)
	for i, b := range series {
		end := w.To
		if i+1 < len(series) {
			end = series[i+1].At
		}
		if i == 0 {
			xys = append(xys, plotter.XY{X: 0, Y: float64(value(b))})
		}
		xys = append(xys, plotter.XY{X: float64(end.Sub(w.From)) / float64(unit), Y: float64(value(b))})
	}
	return xys
}

// wholeTicks are ticks at round whole numbers, about as many as that.
type wholeTicks struct{ most int }

// Ticks implements plot.Ticker.
func (t wholeTicks) Ticks(least, most float64) (ticks []plot.Tick) {
	step := 1.0
	for f := 0; (most-least)/step > float64(t.most); f++ {
		step *= []float64{2, 2.5, 2}[f%3] // 1 2 5 10 20 50 …
	}
	for v := math.Ceil(least/step) * step; v <= most; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.0f", v)})
	}
	return ticks
}
