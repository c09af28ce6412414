package simulate

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-analyze/charts/chartdraw"
	"github.com/go-analyze/charts/chartdraw/drawing"

	"backlog/backlog/inspect"
	"backlog/tiers"
)

// The measures of a picture in pixels: a legend of a line for each curve,
// and under it two panels, one below the other.
const (
	plotWidth   = 1200
	plotLeft    = 100 // of where the curves are
	plotRight   = 1170
	panelHeight = 380
	panelTop    = 40 // within the panel
	panelBottom = 320
	legendLine  = 24
	swatch      = 48
)

// Lines of a picture differ in lightness, so that they stay distinct in
// grey and by the colour-blind, and in their dashes where they run together.
var (
	plotColors = []drawing.Color{
		rgb(0, 0, 0), rgb(0, 84, 150), rgb(205, 75, 15), rgb(60, 180, 130), rgb(150, 40, 120), rgb(240, 175, 40), rgb(110, 160, 220),
	}
	plotDashes = [][]float64{nil, {10, 5}, {3, 3}, {12, 4, 3, 4}, {6, 3}, {18, 6}, {3, 6}}
	plotInk    = rgb(51, 51, 51)
	plotGrid   = rgb(225, 225, 225)
	plotShade  = rgb(215, 215, 215)
)

func rgb(r, g, b uint8) drawing.Color { return drawing.Color{R: r, G: g, B: b, A: 255} }

// renderers draw the formats of pictures.
var renderers = map[string]chartdraw.RendererProvider{"svg": chartdraw.SVG, "png": chartdraw.PNG}

// Plot draws attempts and how many records are pending at most, bucket by bucket,
// one line per result, the outages shaded. The format is "svg" or "png". An SVG is the same, byte by
// byte, on any machine: its coordinates are whole numbers.
func Plot(out io.Writer, format string, w *Workload, curves []Result) error {
	if renderers[format] == nil {
		return fmt.Errorf("a picture is svg or png, not %q", format)
	}
	top := 10 + legendLine*(len(curves)+min(1, len(w.Outages)))
	height := top + 2*panelHeight
	s := &sketch{renderers[format](plotWidth, height), format == "svg", merged(w.Outages)}
	s.SetFont(chartdraw.GetDefaultFont())
	s.SetFontColor(plotInk)
	s.SetFontSize(10)
	s.rect(rgb(255, 255, 255), image.Rect(0, 0, plotWidth, height))
	s.legend(curves)
	s.panel(top, w, curves, panel{"calls per " + bucketName(curves), true, func(b Bucket) int { return b.Attempts }})
	s.panel(top+panelHeight, w, curves, panel{"records pending, at most", false, func(b Bucket) int { return b.Most }})
	if !s.svg {
		return s.Save(out)
	}
	var text bytes.Buffer
	if err := s.Save(&text); err != nil {
		return err
	}
	size := fmt.Sprintf(`<svg width="%d" height="%d" `, plotWidth, height) // for those who show it as it is
	_, err := io.WriteString(out, strings.Replace(strings.ReplaceAll(text.String(), "><", ">\n<"), "<svg ", size, 1)+"\n")
	return err
}

// A sketch is a picture that is being drawn.
type sketch struct {
	chartdraw.Renderer
	svg     bool
	outages []Outage
}

func (s *sketch) rect(c drawing.Color, r image.Rectangle) {
	s.path(drawing.ColorTransparent, 0, nil, c, r.Min, image.Pt(r.Max.X, r.Min.Y), r.Max, image.Pt(r.Min.X, r.Max.Y))
	s.Close()
	s.Fill()
}

func (s *sketch) line(c drawing.Color, width float64, dash []float64, points ...image.Point) {
	s.path(c, width, dash, drawing.ColorTransparent, points...)
	s.Stroke()
}

// path leads along the points, in the colours of its line and of what it surrounds.
func (s *sketch) path(line drawing.Color, width float64, dash []float64, fill drawing.Color, points ...image.Point) {
	s.SetStrokeColor(line)
	s.SetStrokeWidth(width)
	s.SetStrokeDashArray(dash)
	s.SetFillColor(fill)
	s.MoveTo(points[0].X, points[0].Y)
	for _, p := range points[1:] {
		s.LineTo(p.X, p.Y)
	}
}

// text writes with the baseline at y, from x on, or with its middle or its end
// there for an align of 1 or 2.
func (s *sketch) text(body string, x, y, align int) {
	x -= s.MeasureText(body).Width() * align / 2
	if s.svg { // the library writes texts as they are
		var safe strings.Builder
		xml.EscapeText(&safe, []byte(body))
		body = safe.String()
	}
	s.Text(body, x, y)
}

// styleOf is how the i-th curve is drawn: no two of the first 49 alike.
func styleOf(i int) (drawing.Color, []float64) {
	return plotColors[i%len(plotColors)], plotDashes[(i+i/len(plotColors))%len(plotDashes)]
}

// legend draws what the lines mean, one below the other. A viewer may lack the
// font that is measured here, so letters are taken to be wide.
func (s *sketch) legend(curves []Result) {
	const letter = 8
	const most = (plotRight - plotLeft - swatch - 8) / letter
	x, y := plotLeft+swatch, 10+legendLine/2
	for i, c := range curves {
		color, dash := styleOf(i)
		s.line(color, 2, dash, image.Pt(plotLeft, y), image.Pt(x, y))
		s.text(inspect.Cut(c.Name, most), x+8, y+5, 0)
		y += legendLine
	}
	if len(s.outages) > 0 {
		s.rect(plotShade, image.Rect(plotLeft, y-7, x, y+7))
		s.text("outage", x+8, y+5, 0)
	}
}

// A panel shows one value of the buckets over time.
type panel struct {
	title string
	sum   bool // so that it is less in a shorter bucket
	value func(Bucket) int
}

func (s *sketch) panel(top int, w *Workload, curves []Result, p panel) {
	most := 1
	for _, c := range curves {
		most = max(most, greatest(c.Series, p.value))
	}
	values := ticks(most, 8, nil)
	if last := values[len(values)-1]; last < most {
		values = append(values, last+values[1])
	}
	greatest := values[len(values)-1]
	length := w.To.Sub(w.From)
	at := func(t time.Time) int {
		// A hundred years in milliseconds can be multiplied so, in nanoseconds not.
		return plotLeft + int(t.Sub(w.From).Milliseconds()*(plotRight-plotLeft)/length.Milliseconds())
	}
	up := func(v int) int { return top + panelBottom - int(int64(v)*(panelBottom-panelTop)/int64(greatest)) }

	for _, o := range s.outages {
		if o.From.Before(w.To) {
			from, to := at(o.From), min(at(o.To), plotRight)
			s.rect(plotShade, image.Rect(from, top+panelTop, max(to, from+2), top+panelBottom))
		}
	}
	for _, v := range values {
		y := up(v)
		s.line(plotGrid, 1, nil, image.Pt(plotLeft, y), image.Pt(plotRight, y))
		s.text(inspect.Thousands(v), plotLeft-12, y+5, 2)
	}
	unit, name, steps := axisUnit(length)
	for _, v := range ticks(int(length/unit), 16, steps) {
		x := at(w.From.Add(time.Duration(v) * unit))
		s.line(plotGrid, 1, nil, image.Pt(x, top+panelTop), image.Pt(x, top+panelBottom))
		s.line(plotInk, 1, nil, image.Pt(x, top+panelBottom), image.Pt(x, top+panelBottom+5))
		s.text(inspect.Thousands(v), x, top+panelBottom+20, 1)
	}
	s.line(plotInk, 1, nil, image.Pt(plotLeft, top+panelTop), image.Pt(plotLeft, top+panelBottom), image.Pt(plotRight, top+panelBottom))
	s.text(p.title, plotLeft-70, top+panelTop-14, 0)
	s.text(name+" since "+w.From.In(cmp.Or(w.Zone, time.UTC)).Format("2006-01-02 15:04 MST"), (plotLeft+plotRight)/2, top+panelBottom+42, 1)
	for i, c := range curves {
		color, dash := styleOf(i)
		s.line(color, 2, dash, points(c.Series, w.To, p, at, up)...)
	}
}

// points returns a line along the buckets. It leaves out the last of sums if that
// bucket is shorter than the others: the line would seem to fall.
func points(series []Bucket, to time.Time, p panel, x func(time.Time) int, y func(int) int) (list []image.Point) {
	if n := len(series); p.sum && n > 1 && to.Sub(series[n-1].At) < series[1].At.Sub(series[0].At) {
		series, to = series[:n-1], series[n-1].At
	}
	for i, b := range series {
		end := endOf(series, i, to)
		height := y(p.value(b))
		list = append(list, image.Pt(x(b.At), height), image.Pt(x(end), height))
	}
	return slices.Compact(list)
}

// axisUnit returns the unit of the time axis, its name and the steps by which
// people count it, if not by round numbers.
func axisUnit(length time.Duration) (time.Duration, string, []int) {
	switch {
	case length > 4*24*time.Hour:
		return 24 * time.Hour, "days", nil
	case length > 4*time.Hour:
		return time.Hour, "hours", []int{1, 2, 3, 6, 12}
	}
	return time.Minute, "minutes", []int{1, 2, 5, 10, 15, 30}
}

// bucketName is what a bucket is called.
func bucketName(curves []Result) string {
	s := curves[0].Series
	if len(s) < 2 {
		return "period"
	}
	width := s[1].At.Sub(s[0].At)
	names := map[time.Duration]string{time.Minute: "minute", time.Hour: "hour", 24 * time.Hour: "day"}
	return cmp.Or(names[width], tiers.FormatDuration(width))
}

// ticks are multiples from 0 to the greatest: of the first step, else of the first
// round number, by which there are at most about as many.
func ticks(greatest, most int, steps []int) (list []int) {
	step := 1
	for f := 0; greatest/step > most; f++ {
		step = []int{step * 2, step / 2 * 5, step * 2}[f%3] // 1 2 5 10 20 50 …
	}
	if i := slices.IndexFunc(steps, func(s int) bool { return greatest/s <= most }); i >= 0 {
		step = steps[i]
	}
	for v := 0; v <= greatest; v += step {
		list = append(list, v)
	}
	return list
}

// PictureFormat returns the format of a picture of that name.
func PictureFormat(name string) (string, error) {
	format := strings.ToLower(strings.TrimPrefix(filepath.Ext(name), "."))
	if renderers[format] == nil {
		return "", fmt.Errorf("%q does not end in .svg or .png", name)
	}
	return format, nil
}

// DrawPicture draws the results into the file in place of what was in it.
func DrawPicture(name string, w *Workload, all []Result) error {
	format, _ := PictureFormat(name) // Plot refuses none
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(Plot(f, format, w, all), f.Close())
}
