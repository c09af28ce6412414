package web

import (
	"fmt"
	"strings"
	"time"

	"backlog/backlog/inspect"
	"backlog/backlog/watch"
)

// A chart shows the spans of a timeline: above, the pending records and how many of them have failed;
// below, the attempts by outcome; behind both, outages.
type chart struct {
	Name  string // of its section
	Title string
	Unit  string // of time, of a span
	Spans []watch.Span
	Sum   watch.Summary
	Since time.Time // from when on anything is known; zero: in all spans

	label func(watch.Span) string
	every int // how many spans a label is for
}

// The picture of a chart has the spans from left to right, and one panel above the other.
const (
	chartLeft   = 46
	chartWidth  = 310
	countTop    = 16
	countHeight = 62
	triesTop    = 100
	triesHeight = 50
	chartFoot   = triesTop + triesHeight
)

// timeline returns the timeline with the last count; nil: nothing is known.
func (v *visit) timeline() *watch.Timeline {
	t := v.backlog.Timeline()
	if c := v.Now.Counts; c != nil {
		t.Count(c.Pending, c.Failed())
	}
	return t
}

// Charts returns the charts of the last day and of the last 30 days, none if nothing is known.
func (v *visit) Charts() []chart {
	t := v.timeline()
	if t == nil {
		return nil
	}
	local := func(layout string) func(watch.Span) string {
		return func(s watch.Span) string { return time.Time(s.Start).In(v.Now.zone()).Format(layout) }
	}
	list := []chart{
		{Name: "day", Title: "The last 24 hours", Unit: "hour", Spans: t.Hours, label: local("15:04"), every: 6},
		{Name: "month", Title: "The last 30 days", Unit: "day", Spans: t.Days, label: local("Jan 2"), every: 7},
	}
	for i := range list {
		c := &list[i]
		c.Sum = watch.Sum(c.Spans)
		if t.Since.After(time.Time(c.Spans[0].Start)) {
			c.Since = t.Since
		}
	}
	return list
}

// Known returns the spans since anything is known, the newest first.
func (c *chart) Known() []watch.Span {
	var list []watch.Span
	for i := len(c.Spans) - 1; i >= 0 && c.Spans[i].End().After(c.Since); i-- {
		list = append(list, c.Spans[i])
	}
	return list
}

// Label returns the time of a span, as the table has it.
func (c *chart) Label(s watch.Span) string { return c.label(s) }

// Besides returns the outcomes of a span that have no column of their own, in words.
func (c *chart) Besides(s watch.Span) string {
	return inspect.OutcomeText(s.Outcomes, "succeeded", "failed")
}

// OutageText returns how long the outages of a span were; "": it had none.
func (c *chart) OutageText(s watch.Span) string { return outageText(s.Outage) }

func outageText(seconds float64) string {
	if seconds <= 0 {
		return ""
	}
	return inspect.Shortly(inSeconds(seconds))
}

// Alt says in a sentence what the picture shows.
func (c *chart) Alt() string {
	text := c.Title + ": "
	if s := c.Sum; s.Pending >= 0 {
		text += fmt.Sprintf("%s pending now, at most %s; %s failed now, at most %s; ",
			inspect.Thousands(s.Pending), inspect.Thousands(s.MostPending), inspect.Thousands(s.Failed), inspect.Thousands(s.MostFailed))
	}
	text += fmt.Sprintf("attempts: %s succeeded, %s failed, %s other",
		inspect.Thousands(c.Sum.Succeeded), inspect.Thousands(c.Sum.Errors), inspect.Thousands(c.Sum.Others))
	if c.Sum.Outage > 0 {
		text += "; outages: " + inspect.Shortly(c.Sum.Outage)
	}
	return text + ". The table below has each " + c.Unit + "."
}

// x returns the x coordinate of the left edge of the i-th span.
func (c *chart) x(i int) float64 { return chartLeft + chartWidth*float64(i)/float64(len(c.Spans)) }

// scaled returns the height of a number in a panel.
func scaled(n, most, height int) float64 { return float64(height) * float64(n) / float64(max(1, most)) }

// area returns the path around the steps of a number of each span. A span without it leaves a gap.
func (c *chart) area(number func(*watch.Span) *int, most int) string {
	var path strings.Builder
	for i := range c.Spans {
		n := number(&c.Spans[i])
		if n == nil {
			continue
		}
		height := scaled(*n, most, countHeight)
		fmt.Fprintf(&path, "M%.1f %dv%.1fH%.1fv%.1fZ", c.x(i), countTop+countHeight, -height, c.x(i+1), height)
	}
	return path.String()
}

// PendingArea returns the path around what was pending.
func (c *chart) PendingArea() string {
	return c.area(func(s *watch.Span) *int { return s.Pending }, c.MostCounted())
}

// FailedArea returns the path around what had failed.
func (c *chart) FailedArea() string {
	return c.area(func(s *watch.Span) *int { return s.Failed }, c.MostCounted())
}

// MostCounted returns the number at the top of the upper panel.
func (c *chart) MostCounted() int { return max(c.Sum.MostPending, c.Sum.MostFailed) }

// A rect is a part of the picture.
type rect struct {
	Class               string
	X, Y, Width, Height float64
}

// Rects returns the outages and the bars of the attempts.
func (c *chart) Rects() []rect {
	var list []rect
	for i := range c.Spans {
		s := &c.Spans[i]
		left := c.x(i)
		width := c.x(i+1) - left
		if s.Outage > 0 {
			list = append(list, rect{"outage", left, countTop, width, chartFoot - countTop}, rect{"mark", left, countTop - 4, width, 4})
		}
		foot := float64(chartFoot)
		for _, part := range []struct {
			class string
			n     int
		}{{"succeeded", s.Succeeded()}, {"failed", s.FailedAttempts()}, {"other", s.Others()}} {
			height := scaled(part.n, c.Sum.MostSelected, triesHeight)
			if height > 0 {
				list = append(list, rect{part.class, left + width/8, foot - height, width * 3 / 4, height})
			}
			foot -= height
		}
	}
	return list
}

// A mark is a time below the picture.
type mark struct {
	X    float64
	Text string
}

// Marks returns the times below the picture.
func (c *chart) Marks() []mark {
	var list []mark
	roomOfLast := c.every / 2
	for i := 0; i+roomOfLast < len(c.Spans); i += c.every {
		list = append(list, mark{c.x(i), c.label(c.Spans[i])})
	}
	return list
}
