package simulate_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"
	"time"

	"backlog/backlog/simulate"
	"backlog/internal/testkit"
	"backlog/tiers"
)

func TestPlot(t *testing.T) {
	from := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	w := &simulate.Workload{From: from, To: from.Add(2 * day), PerHour: 10, Success: 1, Outages: []simulate.Outage{{From: from.Add(time.Hour), To: from.Add(3 * time.Hour)}}}
	s := testkit.Schedule(t, tiers.Tier{MaxAge: day, Every: 5 * time.Minute})
	var curves []simulate.Result
	for _, name := range []string{"progressive", "a <name> & more"} {
		r, _ := simulate.Run(t.Context(), w, simulate.Options{Schedule: s, Bucket: time.Hour})
		curves = append(curves, simulate.Result{Name: name, Report: r})
	}
	draw := func(format string) []byte {
		var b bytes.Buffer
		if err := simulate.Plot(&b, format, w, curves); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	svg := draw("svg")
	for _, text := range []string{"progressive", "a &lt;name&gt; &amp; more", "outage", "calls per hour", "records pending", "hours since 2026-01-05 00:00 UTC"} {
		if !strings.Contains(string(svg), text) {
			t.Errorf("no %q in the picture", text)
		}
	}
	if !xmlIsWhole(svg) {
		t.Errorf("the picture is no XML:\n%s", svg)
	}
	if !bytes.Equal(svg, draw("svg")) {
		t.Error("the same was drawn differently")
	}
	picture, err := png.Decode(bytes.NewReader(draw("png")))
	if err != nil || picture.Bounds().Dx() != 1200 {
		t.Errorf("a picture of %v, %v; want 1200 pixels wide", picture.Bounds(), err)
	}
	if err := simulate.Plot(&bytes.Buffer{}, "gif", w, curves); err == nil {
		t.Error("a gif was drawn")
	}
}

func xmlIsWhole(text []byte) bool { return xml.Unmarshal(text, new(struct{})) == nil }

// Labels neither run into each other nor out of the picture, however many
// curves there are, however long their names and great their numbers.
func TestPlotLabels(t *testing.T) {
	from := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		length, bucket time.Duration
		curves, most   int
		name           string
	}{
		{time.Minute, time.Minute, 1, 0, "p"},
		{90 * time.Minute, time.Minute, 2, 1, "progressive"},
		{36 * time.Hour, time.Hour, 5, 17, "list: [0, 1m, 5m]"},
		{30 * day, 6 * time.Hour, 12, 123_456, "fibonacci: {unit: 5m, max_delay: 1d}"},
		{365 * day, 7 * day, 30, 1_000_000, strings.Repeat("W", 300) + "\x1b"},
		{100 * 365 * day, 30 * day, 3, 1_999_999_999, ""},
	} {
		w := &simulate.Workload{From: from, To: from.Add(c.length), Outages: []simulate.Outage{{From: from, To: from.Add(c.length * 2)}, {From: from.Add(c.length * 3), To: from.Add(c.length * 4)}}}
		r := new(simulate.Report)
		for at := from; at.Before(w.To); at = at.Add(c.bucket) {
			r.Series = append(r.Series, simulate.Bucket{At: at, Attempts: c.most, Pending: c.most / 2})
		}
		var curves []simulate.Result
		for range c.curves {
			curves = append(curves, simulate.Result{Name: c.name, Report: r})
		}
		var b bytes.Buffer
		if err := simulate.Plot(&b, "svg", w, curves); err != nil {
			t.Fatal(err)
		}
		var picture struct {
			Width  int `xml:"width,attr"`
			Height int `xml:"height,attr"`
			Text   []struct {
				X    int    `xml:"x,attr"`
				Y    int    `xml:"y,attr"`
				Body string `xml:",chardata"`
			} `xml:"text"`
		}
		if err := xml.Unmarshal(b.Bytes(), &picture); err != nil {
			t.Fatalf("%v\n%s", err, &b)
		}
		var boxes []image.Rectangle
		for _, x := range picture.Text {
			box := image.Rect(x.X, x.Y-11, x.X+7*len([]rune(x.Body)), x.Y)
			if !box.In(image.Rect(0, 0, picture.Width, picture.Height)) {
				t.Errorf("%v: %q, at %v, is out of the picture", c.length, x.Body, box)
			}
			for i, other := range boxes {
				if box.Overlaps(other) {
					t.Errorf("%v: %q, at %v, runs into %q, at %v", c.length, x.Body, box, picture.Text[i].Body, other)
				}
			}
			boxes = append(boxes, box)
		}
		if want := c.curves + 2*(2+2+2); len(boxes) < want {
			t.Errorf("%v: %d labels, want %d at least", c.length, len(boxes), want)
		}
	}
}

// The calls of a last, shorter bucket are no fall; what is pending goes on.
func TestPlotLastBucket(t *testing.T) {
	from := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		length time.Duration
		lowest int // of the lines' ends: y of the calls
		calls  []int
	}{{4 * time.Hour, 284, []int{4, 4, 4, 1}}, {3*time.Hour + 15*time.Minute, 74, []int{4, 4, 4, 1}}, {time.Hour + 15*time.Minute, 74, []int{4, 1}}} {
		w := &simulate.Workload{From: from, To: from.Add(c.length)}
		r := new(simulate.Report)
		for i, n := range c.calls {
			r.Series = append(r.Series, simulate.Bucket{At: from.Add(time.Duration(i) * time.Hour), Attempts: n, MaxPending: 4})
		}
		var b bytes.Buffer
		if err := simulate.Plot(&b, "svg", w, []simulate.Result{{Name: "p", Report: r}}); err != nil {
			t.Fatal(err)
		}
		calls, pending := linesOf(b.String())
		if got := calls[len(calls)-1].Y; got != c.lowest {
			t.Errorf("%v: the calls end at %v, want a y of %d", c.length, calls, c.lowest)
		}
		if want := image.Pt(1170, 454); pending[len(pending)-1] != want {
			t.Errorf("%v: what is pending ends at %v, want %v", c.length, pending, want)
		}
	}
}

// The axis ends at the greatest value, or at the next line above it if that has none.
func TestPlotScale(t *testing.T) {
	from := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	const lower, upper = 354, 74 // edges of the panel
	for most, want := range map[int]int{0: lower, 1: upper, 8: upper, 9: lower - (lower-upper)*9/10, 10: upper} {
		w := &simulate.Workload{From: from, To: from.Add(time.Hour)}
		r := &simulate.Report{Series: []simulate.Bucket{{At: from, Attempts: most}}}
		var b bytes.Buffer
		if err := simulate.Plot(&b, "svg", w, []simulate.Result{{Name: "p", Report: r}}); err != nil {
			t.Fatal(err)
		}
		if calls, _ := linesOf(b.String()); calls[0].Y != want {
			t.Errorf("%d calls are drawn at %v, want a y of %d", most, calls[0], want)
		}
	}
}

// A unit goes on up to four of the next one.
func TestPlotUnits(t *testing.T) {
	from := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	for length, want := range map[time.Duration]string{
		4 * time.Hour: "minutes since", 4*time.Hour + time.Minute: "hours since", 4 * day: "hours since", 4*day + time.Hour: "days since",
	} {
		w := &simulate.Workload{From: from, To: from.Add(length)}
		r := &simulate.Report{Series: []simulate.Bucket{{At: from}, {At: from.Add(length / 2)}}}
		var b bytes.Buffer
		if err := simulate.Plot(&b, "svg", w, []simulate.Result{{Name: "p", Report: r}}); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{want, "calls per " + tiers.FormatDuration(length/2)} {
			if !strings.Contains(b.String(), text) {
				t.Errorf("%v: no %q in the picture", length, text)
			}
		}
	}
}

// linesOf returns the points of the two curves of a picture with one.
func linesOf(svg string) (calls, pending []image.Point) {
	var lines [][]image.Point
	for _, path := range strings.Split(svg, "<path")[1:] {
		if !strings.Contains(path, "stroke-width:2;") {
			continue
		}
		var points []image.Point
		d, _, _ := strings.Cut(strings.TrimPrefix(path, ` d="`), `"`)
		for _, step := range strings.Split(d, "\n") {
			var p image.Point
			fmt.Sscanf(step[1:], "%d %d", &p.X, &p.Y)
			points = append(points, p)
		}
		lines = append(lines, points)
	}
	return lines[1], lines[2] // after that of the legend
}
