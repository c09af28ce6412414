// Package picture draws lines, areas and texts as SVG or PNG. An SVG is the same to the byte on every
// machine, because its coordinates are whole numbers.
package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-analyze/charts/chartdraw"
	"github.com/go-analyze/charts/chartdraw/drawing"
)

// Colors differ in lightness, for the colour-blind and for prints in grey. Dashes tell curves apart that cover
// each other.
var (
	Colors = []drawing.Color{
		RGB(0, 0, 0), RGB(0, 84, 150), RGB(205, 75, 15), RGB(60, 180, 130), RGB(150, 40, 120), RGB(240, 175, 40), RGB(110, 160, 220),
	}
	Dashes = [][]float64{nil, {10, 5}, {3, 3}, {12, 4, 3, 4}, {6, 3}, {18, 6}, {3, 6}}
	Ink    = RGB(51, 51, 51) // of texts and axes
	Grid   = RGB(225, 225, 225)
	Shade  = RGB(215, 215, 215) // of areas behind curves
)

// RGB returns an opaque colour.
func RGB(r, g, b uint8) drawing.Color { return drawing.Color{R: r, G: g, B: b, A: 255} }

// Style returns the colour and the dashes of the i-th curve. The first 49 curves differ.
func Style(i int) (drawing.Color, []float64) {
	dash := i + i/len(Colors)
	return Colors[i%len(Colors)], Dashes[dash%len(Dashes)]
}

// renderers has the formats of pictures.
var renderers = map[string]chartdraw.RendererProvider{"svg": chartdraw.SVG, "png": chartdraw.PNG}

// Format returns the format of a picture, svg or png, by the extension of its file name.
func Format(name string) (string, error) {
	format := strings.ToLower(strings.TrimPrefix(filepath.Ext(name), "."))
	if renderers[format] == nil {
		return "", fmt.Errorf("%q does not end in .svg or .png", name)
	}
	return format, nil
}

// WriteFile replaces the named file by a picture of the format that its name has.
func WriteFile(name string, draw func(out io.Writer, format string) error) error {
	format, err := Format(name)
	if err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(draw(f, format), f.Close())
}

// A Canvas is a picture that is being drawn. Its points are pixels from the upper left corner. It must not
// be used concurrently.
type Canvas struct {
	renderer      chartdraw.Renderer
	isSVG         bool
	width, height int
}

// New returns a white canvas.
func New(format string, width, height int) (*Canvas, error) {
	if renderers[format] == nil {
		return nil, fmt.Errorf("a picture is svg or png, not %q", format)
	}
	c := &Canvas{renderer: renderers[format](width, height), isSVG: format == "svg", width: width, height: height}
	c.renderer.SetFont(chartdraw.GetDefaultFont())
	c.renderer.SetFontColor(Ink)
	c.renderer.SetFontSize(10)
	c.Rect(RGB(255, 255, 255), image.Rect(0, 0, width, height))
	return c, nil
}

// Rect fills a rectangle.
func (c *Canvas) Rect(color drawing.Color, r image.Rectangle) {
	c.Area(color, r.Min, image.Pt(r.Max.X, r.Min.Y), r.Max, image.Pt(r.Min.X, r.Max.Y))
}

// Area fills what a line along the points encloses.
func (c *Canvas) Area(color drawing.Color, points ...image.Point) {
	c.path(drawing.ColorTransparent, 0, nil, color, points)
	c.renderer.Close()
	c.renderer.Fill()
}

// Line draws a line along the points. Without dashes it is solid.
func (c *Canvas) Line(color drawing.Color, width float64, dashes []float64, points ...image.Point) {
	c.path(color, width, dashes, drawing.ColorTransparent, points)
	c.renderer.Stroke()
}

// Dot fills a circle.
func (c *Canvas) Dot(color drawing.Color, radius float64, at image.Point) {
	c.renderer.SetStrokeColor(color)
	c.renderer.SetStrokeWidth(1)
	c.renderer.SetStrokeDashArray(nil)
	c.renderer.SetFillColor(color)
	c.renderer.Circle(radius, at.X, at.Y)
	c.renderer.FillStroke()
}

// path sets the colours of a line and of the area it encloses, and moves along the points. The
// caller then strokes the line or fills the area.
func (c *Canvas) path(line drawing.Color, width float64, dashes []float64, fill drawing.Color, points []image.Point) {
	c.renderer.SetStrokeColor(line)
	c.renderer.SetStrokeWidth(width)
	c.renderer.SetStrokeDashArray(dashes)
	c.renderer.SetFillColor(fill)
	c.renderer.MoveTo(points[0].X, points[0].Y)
	for _, p := range points[1:] {
		c.renderer.LineTo(p.X, p.Y)
	}
}

// An Alignment says which point of a text its x is.
type Alignment int

const (
	AlignStart Alignment = iota
	AlignMiddle
	AlignEnd
)

// Text writes a text with its baseline at y.
func (c *Canvas) Text(body string, x, y int, align Alignment) {
	x -= c.renderer.MeasureText(body).Width() * int(align) / 2
	if c.isSVG { // the library does not escape texts
		var safe strings.Builder
		xml.EscapeText(&safe, []byte(body))
		body = safe.String()
	}
	c.renderer.Text(body, x, y)
}

// Save writes the picture.
func (c *Canvas) Save(out io.Writer) error {
	if !c.isSVG {
		return c.renderer.Save(out)
	}
	var text bytes.Buffer
	if err := c.renderer.Save(&text); err != nil {
		return err
	}
	// The library gives the picture no size, and writes it into one line.
	size := fmt.Sprintf(`<svg width="%d" height="%d" `, c.width, c.height)
	svg := strings.ReplaceAll(text.String(), "><", ">\n<")
	svg = strings.Replace(svg, "<svg ", size, 1)
	_, err := io.WriteString(out, svg+"\n")
	return err
}

// AxisTicks returns the multiples of a step from 0 to the greatest value. The step is the first of the steps, or
// else the first round number, that divides the axis into at most maxSteps.
func AxisTicks(greatest, maxSteps int, steps []int) []int {
	step := roundStep(greatest, maxSteps)
	for _, s := range steps {
		if greatest/s <= maxSteps {
			step = s
			break
		}
	}
	var list []int
	for v := 0; v <= greatest; v += step {
		list = append(list, v)
	}
	return list
}

// roundStep returns the first of 1, 2, 5, 10, 20, 50 and so on that fits into greatest at most maxSteps times.
// maxSteps is not negative.
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
