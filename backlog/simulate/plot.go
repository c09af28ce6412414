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

// Curves differ in lightness, for the colour-blind and for prints in grey, and in their dashes,
// for curves that cover each other.
var (
	plotColors = []drawing.Color{
		rgb(0, 0, 0), rgb(0, 84, 150), rgb(205, 75, 15), rgb(60, 180, 130), rgb(150, 40, 120), rgb(240, 175, 40), rgb(110, 160, 220),
	}
	plotDashes = [][]float64{nil, {10, 5}, {3, 3}, {12, 4, 3, 4}, {6, 3}, {18, 6}, {3, 6}}
	plotInk    = rgb(51, 51, 51) // of texts and axes
	plotGrid   = rgb(225, 225, 225)
	plotShade  = rgb(215, 215, 215) // of outages
)

func rgb(r, g, b uint8) drawing.Color { return drawing.Color{R: r, G: g, B: b, A: 255} }

// renderers has the formats of pictures.
var renderers = map[string]chartdraw.RendererProvider{"svg": chartdraw.SVG, "png": chartdraw.PNG}

// Plot draws two panels, a curve per result: the attempts per bucket, and how many records are
// pending in it at most. Outages are shaded. The format is "svg" or "png". An SVG is the same to
// the byte on every machine, because its coordinates are whole numbers.
func Plot(out io.Writer, format string, w *Workload, curves []Result) error {
	if renderers[format] == nil {
		return fmt.Errorf("a picture is svg or png, not %q", format)
	}
	top := 10 + legendLine*(len(curves)+min(1, len(w.Outages)))
	height := top + 2*panelHeight
	s := &canvas{Renderer: renderers[format](plotWidth, height), svg: format == "svg", outages: mergeOutages(w.Outages)}
	s.SetFont(chartdraw.GetDefaultFont())
	s.SetFontColor(plotInk)
	s.SetFontSize(10)
	s.rect(rgb(255, 255, 255), image.Rect(0, 0, plotWidth, height))
	s.legend(curves)
	calls := panel{title: "calls per " + bucketName(curves), sum: true, value: func(b Bucket) int { return b.Attempts }}
	pending := panel{title: "records pending, at most", value: func(b Bucket) int { return b.MaxPending }}
	s.panel(top, w, curves, calls)
	s.panel(top+panelHeight, w, curves, pending)
	if !s.svg {
		return s.Save(out)
	}
	var text bytes.Buffer
	if err := s.Save(&text); err != nil {
		return err
	}
	// The library gives the picture no size, and writes it into one line.
	size := fmt.Sprintf(`<svg width="%d" height="%d" `, plotWidth, height)
	svg := strings.ReplaceAll(text.String(), "><", ">\n<")
	svg = strings.Replace(svg, "<svg ", size, 1)
	_, err := io.WriteString(out, svg+"\n")
	return err
}

// A canvas is a picture that is being drawn.
type canvas struct {
	chartdraw.Renderer
	svg     bool
	outages []Outage
}

func (s *canvas) rect(c drawing.Color, r image.Rectangle) {
	s.path(drawing.ColorTransparent, 0, nil, c, r.Min, image.Pt(r.Max.X, r.Min.Y), r.Max, image.Pt(r.Min.X, r.Max.Y))
	s.Close()
	s.Fill()
}

func (s *canvas) line(c drawing.Color, width float64, dash []float64, points ...image.Point) {
	s.path(c, width, dash, drawing.ColorTransparent, points...)
	s.Stroke()
}

// path sets the colours of a line and of the area it encloses, and moves along the points. The
// caller then strokes the line or fills the area.
func (s *canvas) path(line drawing.Color, width float64, dash []float64, fill drawing.Color, points ...image.Point) {
	s.SetStrokeColor(line)
	s.SetStrokeWidth(width)
	s.SetStrokeDashArray(dash)
	s.SetFillColor(fill)
	s.MoveTo(points[0].X, points[0].Y)
	for _, p := range points[1:] {
		s.LineTo(p.X, p.Y)
	}
}

// An alignment says which point of a text its x is.
type alignment int

const (
	alignStart alignment = iota
	alignMiddle
	alignEnd
)

// text writes a text with its baseline at y.
func (s *canvas) text(body string, x, y int, align alignment) {
	x -= s.MeasureText(body).Width() * int(align) / 2
	if s.svg { // the library does not escape texts
		var safe strings.Builder
		xml.EscapeText(&safe, []byte(body))
		body = safe.String()
	}
	s.Text(body, x, y)
}

// styleOf returns the colour and the dashes of the i-th curve. The first 49 curves differ.
func styleOf(i int) (drawing.Color, []float64) {
	dash := i + i/len(plotColors)
	return plotColors[i%len(plotColors)], plotDashes[dash%len(plotDashes)]
}

// legend draws the name of each curve next to a sample of its line. Names are cut as if every
// letter were wide, because a viewer may lack the font that is measured here.
func (s *canvas) legend(curves []Result) {
	const letter = 8
	const most = (plotRight - plotLeft - swatch - 8) / letter
	x := plotLeft + swatch
	y := 10 + legendLine/2
	for i, c := range curves {
		color, dash := styleOf(i)
		s.line(color, 2, dash, image.Pt(plotLeft, y), image.Pt(x, y))
		s.text(inspect.Elide(c.Name, most), x+8, y+5, alignStart)
		y += legendLine
	}
	if len(s.outages) > 0 {
		s.rect(plotShade, image.Rect(plotLeft, y-7, x, y+7))
		s.text("outage", x+8, y+5, alignStart)
	}
}

// A panel shows one value of the buckets over time.
type panel struct {
	title string
	sum   bool // the value grows with the width of the bucket
	value func(Bucket) int
}

// panel draws a panel whose upper edge is at top.
func (s *canvas) panel(top int, w *Workload, curves []Result, p panel) {
	most := 1
	for _, c := range curves {
		most = max(most, greatest(c.Series, p.value))
	}
	values := axisTicks(most, 8, nil)
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

	for _, o := range s.outages {
		if o.From.Before(w.To) {
			from := xOf(o.From)
			to := min(xOf(o.To), plotRight)
			s.rect(plotShade, image.Rect(from, top+panelTop, max(to, from+2), top+panelBottom))
		}
	}
	for _, v := range values {
		y := yOf(v)
		s.line(plotGrid, 1, nil, image.Pt(plotLeft, y), image.Pt(plotRight, y))
		s.text(inspect.Thousands(v), plotLeft-12, y+5, alignEnd)
	}
	unit, unitName, steps := axisUnit(length)
	for _, v := range axisTicks(int(length/unit), 16, steps) {
		x := xOf(w.From.Add(time.Duration(v) * unit))
		s.line(plotGrid, 1, nil, image.Pt(x, top+panelTop), image.Pt(x, top+panelBottom))
		s.line(plotInk, 1, nil, image.Pt(x, top+panelBottom), image.Pt(x, top+panelBottom+5))
		s.text(inspect.Thousands(v), x, top+panelBottom+20, alignMiddle)
	}
	corner := image.Pt(plotLeft, top+panelBottom)
	s.line(plotInk, 1, nil, image.Pt(plotLeft, top+panelTop), corner, image.Pt(plotRight, top+panelBottom))
	s.text(p.title, plotLeft-70, top+panelTop-14, alignStart)
	begin := w.From.In(cmp.Or(w.Zone, time.UTC)).Format("2006-01-02 15:04 MST")
	s.text(unitName+" since "+begin, (plotLeft+plotRight)/2, top+panelBottom+42, alignMiddle)
	for i, c := range curves {
		color, dash := styleOf(i)
		s.line(color, 2, dash, points(c.Series, w.To, p, xOf, yOf)...)
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

// axisTicks returns the multiples of a step from 0 to the greatest value. The step is the first
// of the steps, or else the first round number, that divides the axis into at most maxSteps.
func axisTicks(greatest, maxSteps int, steps []int) []int {
	step := roundStep(greatest, maxSteps)
	isWideEnough := func(s int) bool { return greatest/s <= maxSteps }
	if i := slices.IndexFunc(steps, isWideEnough); i >= 0 {
		step = steps[i]
	}
	var list []int
	for v := 0; v <= greatest; v += step {
		list = append(list, v)
	}
	return list
}

// roundStep returns the first of 1, 2, 5, 10, 20, 50 and so on that fits into greatest at most
// maxSteps times. maxSteps is not negative.
func roundStep(greatest, maxSteps int) int {
	for power := 1; ; power *= 10 {
		for _, digit := range []int{1, 2, 5} {
			step := digit * power
			if greatest/step <= maxSteps {
				return step
			}
		}
	}
}

// PictureFormat returns the format of a picture by the extension of its file name.
func PictureFormat(name string) (string, error) {
	format := strings.ToLower(strings.TrimPrefix(filepath.Ext(name), "."))
	if renderers[format] == nil {
		return "", fmt.Errorf("%q does not end in .svg or .png", name)
	}
	return format, nil
}

// DrawPicture draws the results into the named file, by [Plot]. It replaces the file.
func DrawPicture(name string, w *Workload, all []Result) error {
	format, _ := PictureFormat(name) // Plot refuses no format
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(Plot(f, format, w, all), f.Close())
}
