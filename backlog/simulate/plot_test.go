package simulate_test

import (
	"bytes"
	"image/png"
	"strings"
	"testing"
	"time"

	"backlog/backlog/simulate"
	"backlog/tiers"
)

func TestPlot(t *testing.T) {
	from := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	w := &simulate.Workload{From: from, To: from.Add(2 * day), PerHour: 10, Success: 1, Outages: []simulate.Outage{{From: from.Add(time.Hour), To: from.Add(3 * time.Hour)}}}
	s := schedule(t, tiers.Tier{MaxAge: day, Every: 5 * time.Minute})
	var curves []simulate.Curve
	for _, name := range []string{"progressive", "a <name> & more"} {
		r, _ := simulate.Run(t.Context(), w, simulate.Options{Schedule: s, Bucket: time.Hour})
		curves = append(curves, simulate.Curve{Name: name, Report: r})
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
