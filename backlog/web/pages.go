package web

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"backlog/backlog/inspect"
	"backlog/tiers"
)

// A band is a line of the front page: the pending records in a range of ages.
type band struct {
	Name, Ages, Often string // Name: of the filter
	State             bool   // Name is a state, and not a band
	Fresh, Failed     int
	Oldest            inspect.Stamp
	ADay              int64   // attempts, at most
	Bar, FailedBar    float64 // of 100
}

// bands are the counts by tier, narrowest first, then what no tier reaches.
func (n Now) bands(now time.Time) (list []band) {
	if n.Counts == nil || len(n.Counts.Bands) == 0 {
		return nil
	}
	from := time.Duration(0)
	for _, b := range n.Counts.Bands {
		to := time.Duration(b.MaxAge * float64(time.Second))
		x := band{Name: b.Tier, Ages: inspect.Ages(from, to), Fresh: b.Fresh, Failed: b.Failed, Oldest: b.Oldest}
		if t, ok := n.Schedule.ByName(b.Tier); ok {
			x.Often, x.ADay = inspect.Often(t), int64(b.Fresh+b.Failed)*ticksADay(t, now)
		}
		list, from = append(list, x), to
	}
	list = append(list,
		band{Name: inspect.Beyond, Ages: "older: never tried", Fresh: n.Counts.Beyond.Fresh, Failed: n.Counts.Beyond.Failed, Oldest: n.Counts.Beyond.Oldest},
		band{Name: "exhausted", Ages: "out of retries", State: true, Failed: n.Counts.Exhausted},
		band{Name: "unreadable", Ages: "no date that can be read", State: true, Fresh: n.Counts.Unreadable})
	most := slices.MaxFunc(list, func(a, b band) int { return cmp.Compare(a.Fresh+a.Failed, b.Fresh+b.Failed) })
	for i := range list {
		b := &list[i]
		if all := b.Fresh + b.Failed; all > 0 {
			b.Bar = max(2, 100*math.Log1p(float64(all))/math.Log1p(float64(most.Fresh+most.Failed)))
			b.FailedBar = b.Bar * float64(b.Failed) / float64(all)
		}
	}
	return list
}

// ticksADay returns how often a tier ticks within a day from now on.
func ticksADay(t tiers.Tier, now time.Time) (n int64) {
	if t.Every > 0 {
		return int64(24 * time.Hour / t.Every)
	}
	end := now.Add(24 * time.Hour)
	for at := t.Next(now); !at.IsZero() && at.Before(end); at = t.Next(at) {
		n++
	}
	return n
}

// A Sentence says how it stands.
type Sentence struct{ Word, Kind, Rest string }

// Sentence is the state of the process and its table in a sentence or two.
func (p page) Sentence() Sentence {
	n, s := p.Now, Sentence{"Working.", "good", ""}
	running := n.Role == Leader && !n.Stopping && n.Pause == nil
	switch {
	case n.Stopping:
		s.Word, s.Kind = "Stopping.", "idle"
	case !n.Away.IsZero():
		s.Word, s.Kind = "The database is away since "+p.Clock(inspect.Stamp(n.Away))+".", "bad"
	case n.Pause != nil:
		s.Word, s.Kind = "Paused.", "idle"
	case n.Picture != nil && n.Picture.Outage() != nil:
		s.Word, s.Kind = "Outage: every attempt fails.", "bad"
	case n.Role == Standby:
		s.Word, s.Kind = "Standing by.", "idle"
	case n.Role == Viewer:
		s.Word, s.Kind = "Viewing.", "idle"
	}
	if n.Counts == nil {
		s.Rest = "Not counted yet."
	} else {
		failed := n.Counts.Beyond.Failed
		for _, b := range n.Counts.Bands {
			failed += b.Failed
		}
		s.Rest = inspect.Thousands(n.Counts.Pending) + " pending"
		if !n.Refresh {
			s.Rest += ", " + inspect.Thousands(failed) + " failed"
		}
		s.Rest += "."
	}
	for t := range inspect.Ticks(n.Schedule, p.at, time.Time{}, 1) {
		if running {
			s.Rest += fmt.Sprintf(" Next: %s at %s.", clip(t.Tier), p.Clock(t.At))
		}
	}
	return s
}

func (s Sentence) String() string { return strings.TrimSpace(s.Word + " " + s.Rest) }

// A front is what the first page shows.
type front struct {
	Bands  []band
	States []state
	Ticks  []inspect.Tick
}

// A state is how many rows are in it, with the policy refresh.
type state struct {
	Name string
	Rows int
}

func (v *visit) front() error {
	n := v.backlog.Now()
	f := front{Bands: n.bands(v.at)}
	if n.Counts != nil && n.Refresh {
		for _, name := range inspect.States {
			f.States = append(f.States, state{name, n.Counts.Counts[name]})
		}
	}
	f.Ticks = slices.Collect(inspect.Ticks(n.Schedule, v.at, time.Time{}, 10))
	v.render(http.StatusOK, page{Name: "front", Title: "Overview", Live: true, Data: f})
	return nil
}
