package simulate

import (
	"bytes"
	"fmt"
	"html"
	"image"
	"image/draw"
	"image/png"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/wcharczuk/go-chart/v2"
	"github.com/wcharczuk/go-chart/v2/drawing"
)

// A Curve is one of those in a picture.
type Curve struct {
	Name   string
	Report *Report
}

// A picture has two panels, one above the other, of this size in pixels.
const (
	panelWidth  = 1200
	panelHeight = 400
)

// Colours of Okabe and Ito, which the colour-blind tell apart, in the order of
// their lightness; in grey the dashes do.
var (
	plotColors = []drawing.Color{{R: 0, G: 0, B: 0, A: 255}, {R: 0, G: 114, B: 178, A: 255}, {R: 213, G: 94, B: 0, A: 255}, {R: 0, G: 158, B: 115, A: 255}, {R: 204, G: 121, B: 167, A: 255}, {R: 86, G: 180, B: 233, A: 255}, {R: 230, G: 159, B: 0, A: 255}}
	plotDashes = [][]float64{nil, {8, 4}, {2, 3}, {10, 3, 2, 3}, {5, 2}, {14, 4}, {1, 2}}
	plotGrid   = chart.Style{StrokeColor: drawing.Color{R: 225, G: 225, B: 225, A: 255}, StrokeWidth: 1}
	plotShade  = drawing.Color{R: 205, G: 205, B: 205, A: 255}
)

// Plot draws attempts and what is pending over time, one line per curve, the
// outages shaded. The format is "svg" or "png".
func Plot(out io.Writer, format string, w *Workload, curves []Curve) error {
	if format == "svg" { // the library writes texts as they are
		curves = slices.Clone(curves)
		for i := range curves {
			curves[i].Name = html.EscapeString(curves[i].Name)
		}
	}
	unit, name := axisUnit(w.To.Sub(w.From))
	axis := name + " since " + w.From.Format("2006-01-02 15:04 MST")
	panels := []*chart.Chart{
		panel("calls per "+bucketName(curves), axis, w, unit, curves, true, func(b Bucket) int { return b.Attempts }),
		panel("records pending", axis, w, unit, curves, false, func(b Bucket) int { return b.Pending }),
	}
	switch format {
	case "svg":
		return plotSVG(out, panels)
	case "png":
		return plotPNG(out, panels)
	}
	return fmt.Errorf("a picture is svg or png, not %q", format)
}

// plotSVG puts each panel as a picture into one.
func plotSVG(out io.Writer, panels []*chart.Chart) error {
	var all strings.Builder
	fmt.Fprintf(&all, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %d">`, panelWidth, panelHeight*len(panels), panelHeight*len(panels))
	for i, p := range panels {
		var one bytes.Buffer
		if err := p.Render(chart.SVG, &one); err != nil {
			return err
		}
		place := fmt.Sprintf(`<svg y="%d" width="%d" height="%d" `, i*panelHeight, panelWidth, panelHeight)
		all.WriteString("\n" + strings.Replace(one.String(), "<svg ", place, 1))
	}
	_, err := io.WriteString(out, all.String()+"\n</svg>\n")
	return err
}

func plotPNG(out io.Writer, panels []*chart.Chart) error {
	all := image.NewRGBA(image.Rect(0, 0, panelWidth, panelHeight*len(panels)))
	for i, p := range panels {
		var one bytes.Buffer
		if err := p.Render(chart.PNG, &one); err != nil {
			return err
		}
		picture, err := png.Decode(&one)
		if err != nil {
			return err
		}
		draw.Draw(all, image.Rect(0, i*panelHeight, panelWidth, (i+1)*panelHeight), picture, image.Point{}, draw.Src)
	}
	return png.Encode(out, all)
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

// panel draws one value of the buckets over time; flat: it is that of the whole
// bucket, else that at its end.
func panel(label, axis string, w *Workload, unit time.Duration, curves []Curve, flat bool, value func(Bucket) int) *chart.Chart {
	length, most := float64(w.To.Sub(w.From))/float64(unit), 1.0
	for _, c := range curves {
		for _, b := range c.Report.Series {
			most = math.Max(most, float64(value(b)))
		}
	}
	most *= 1.05
	xTicks, yTicks := wholeTicks(length, 16), wholeTicks(most, 8)
	// The library takes the last tick for the end of the axis.
	if xTicks[len(xTicks)-1].Value < length {
		xTicks = append(xTicks, chart.Tick{Value: length})
	}
	if last := yTicks[len(yTicks)-1].Value; last < most {
		most = last + yTicks[1].Value
		yTicks = append(yTicks, chart.Tick{Value: most, Label: fmt.Sprintf("%.0f", most)})
	}
	c := &chart.Chart{
		Width: panelWidth, Height: panelHeight,
		Background: chart.Style{Padding: chart.Box{Top: 40, Left: 20, Right: 20, Bottom: 10}},
		XAxis:      chart.XAxis{Name: axis, Range: &chart.ContinuousRange{Min: 0, Max: length}, Ticks: xTicks, GridMajorStyle: plotGrid},
		YAxis:      chart.YAxis{Name: label, Range: &chart.ContinuousRange{Min: 0, Max: most}, Ticks: yTicks, GridMajorStyle: plotGrid},
	}
	for i, o := range w.service().outages {
		from, to := float64(o.From.Sub(w.From))/float64(unit), float64(o.To.Sub(w.From))/float64(unit)
		shade := chart.ContinuousSeries{
			XValues: []float64{from, min(to, length)}, YValues: []float64{most, most},
			Style: chart.Style{StrokeWidth: 4, StrokeColor: plotShade, FillColor: plotShade},
		}
		if i == 0 {
			shade.Name = "outage"
		}
		c.Series = append(c.Series, shade)
	}
	for i, curve := range curves {
		line := chart.ContinuousSeries{
			Name:  curve.Name,
			Style: chart.Style{StrokeWidth: 2, StrokeColor: plotColors[i%len(plotColors)], StrokeDashArray: plotDashes[i%len(plotDashes)]},
		}
		line.XValues, line.YValues = points(curve.Report.Series, w, unit, flat, value)
		c.Series = append(c.Series, line)
	}
	c.Elements = []chart.Renderable{chart.LegendThin(c)}
	return c
}

// points are those of a line through the buckets.
func points(series []Bucket, w *Workload, unit time.Duration, flat bool, value func(Bucket) int) (xs, ys []float64) {
	add := func(at time.Time, b Bucket) {
		xs, ys = append(xs, float64(at.Sub(w.From))/float64(unit)), append(ys, float64(value(b)))
	}
	for i, b := range series {
		end := w.To
		if i+1 < len(series) {
			end = series[i+1].At
		}
		if flat || i == 0 {
			add(b.At, b)
		}
		add(end, b)
	}
	return xs, ys
}

// wholeTicks are ticks at round whole numbers, at most about as many as that.
func wholeTicks(greatest float64, most int) (ticks []chart.Tick) {
	step := 1.0
	for f := 0; greatest/step > float64(most); f++ {
		step *= []float64{2, 2.5, 2}[f%3] // 1 2 5 10 20 50 …
	}
	for v := 0.0; v <= greatest; v += step {
		ticks = append(ticks, chart.Tick{Value: v, Label: fmt.Sprintf("%.0f", v)})
	}
	return ticks
}
