package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"backlog/backlog/inspect"
	"backlog/tiers"
)

// coming returns the ticks within the time that the query names, and whether there are
// more of them than are shown.
func (v *visit) coming(n Now) (ticks []inspect.Tick, horizon time.Duration, more bool, err error) {
	horizon = 24 * time.Hour
	if text := v.r.URL.Query().Get("for"); text != "" {
		if horizon, err = tiers.ParseDuration(text); err != nil {
			return nil, 0, false, &Problem{http.StatusBadRequest, "for must be a duration such as 24h or 7d."}
		}
	}
	horizon, ticks = min(max(horizon, time.Minute), maxHorizon), []inspect.Tick{}
	for t := range inspect.Ticks(n.Schedule, v.at, v.at.Add(horizon), maxTicks+1) {
		if len(ticks) == maxTicks {
			return ticks, horizon, true, nil
		}
		ticks = append(ticks, t)
	}
	return ticks, horizon, false, nil
}

// A timeline draws ticks: a line for each tier, with its starts and, dashed, the ticks that
// a wider one covers.
type timeline struct {
	Height int
	Tiers  []track
	Marks  []mark
}

// A track is one tier's line; its ticks are paths.
type track struct {
	Name         string
	Y            int
	Start, Cover string
}

// A mark is a place on the axis.
type mark struct {
	X     int
	Label string
}

const (
	lineLeft, lineRight, lineHeight = 110, 980, 26
	marks                           = 6
)

func (v *visit) timeline(n Now, ticks []inspect.Tick, horizon time.Duration) (t timeline) {
	list := n.Schedule.Tiers()
	t.Height = lineHeight*len(list) + 30
	x := func(at time.Time) int {
		return lineLeft + int(float64(lineRight-lineLeft)*float64(at.Sub(v.at))/float64(horizon))
	}
	for i, tier := range list {
		tr, y := track{Name: inspect.Cut(tier.Name, 12), Y: lineHeight*i + 20}, strconv.Itoa(lineHeight*i+6)
		drawn := -1
		for _, tick := range ticks {
			at := x(time.Time(tick.At))
			if at == drawn {
				continue
			}
			switch {
			case tick.Tier == tier.Name:
				tr.Start += "M" + strconv.Itoa(at) + " " + y + "v16"
				drawn = at
			default:
				for _, c := range tick.Covers {
					if c == tier.Name {
						tr.Cover += "M" + strconv.Itoa(at) + " " + y + "v16"
						drawn = at
					}
				}
			}
		}
		t.Tiers = append(t.Tiers, tr)
	}
	form := "15:04"
	if horizon > 48*time.Hour {
		form = "2 Jan 15:04"
	}
	for i := range marks {
		at := v.at.Add(horizon * time.Duration(i) / (marks - 1))
		t.Marks = append(t.Marks, mark{x(at), at.In(n.zone()).Format(form)})
	}
	return t
}

// yamlOf writes the schedule as a configuration has it.
func yamlOf(s *tiers.Schedule) string {
	var b strings.Builder
	b.WriteString("tiers:\n")
	for _, t := range s.Tiers() {
		max := tiers.FormatDuration(t.MaxAge)
		if b.WriteString("  - {"); t.Name != max {
			fmt.Fprintf(&b, "name: %q, ", t.Name)
		}
		if fmt.Fprintf(&b, "max_age: %s, ", max); t.Cron != "" {
			fmt.Fprintf(&b, "cron: %q, timezone: %v", t.Cron, t.Location)
		} else if fmt.Fprintf(&b, "every: %s", tiers.FormatDuration(t.Every)); t.Offset > 0 {
			fmt.Fprintf(&b, ", offset: %s", tiers.FormatDuration(t.Offset))
		}
		b.WriteString("}\n")
	}
	return b.String()
}

func (v *visit) schedule() error {
	n := v.backlog.Now()
	data := struct {
		Ticks    []inspect.Tick
		More     bool
		For      string
		Timeline timeline
		Tiers    []tiers.Tier
		YAML     string
		Problem  string
		Result   *Simulation
		Plots    [][2]string // address and name
	}{Tiers: n.Schedule.Tiers(), YAML: yamlOf(n.Schedule)}
	ticks, horizon, more, err := v.coming(n)
	if err != nil {
		return err
	}
	data.Ticks, data.More, data.For, data.Timeline = ticks, more, tiers.FormatDuration(horizon), v.timeline(n, ticks, horizon)
	status := http.StatusOK
	if v.r.Method == http.MethodPost {
		if err := v.form(); err != nil {
			return err
		}
		data.YAML = v.r.PostFormValue("tiers")
		result, err := v.simulate(data.YAML)
		if p, ok := err.(*Problem); ok && p.Status < 500 {
			status, data.Problem = p.Status, p.Text
		} else if err != nil {
			return err
		} else {
			data.Result, data.Plots = &result, v.keep(result.Plots)
		}
	}
	v.render(status, page{Name: "schedule", Title: "Schedule", Data: data})
	return nil
}

// simulate runs one simulation at a time.
func (v *visit) simulate(yaml string) (result Simulation, err error) {
	if !v.simulating.TryLock() {
		return result, &Problem{http.StatusConflict, "Another simulation runs; try again when it has ended."}
	}
	defer v.simulating.Unlock()
	err = v.ask(askFor, func(ctx context.Context) error {
		result, err = v.backlog.Simulate(ctx, yaml)
		return err
	})
	return result, err
}

// maxPlots is how many pictures are kept for the browsers that are about to fetch them.
const maxPlots = 16

// keep keeps pictures for a while and returns their addresses and names.
func (s *Site) keep(plots []Plot) (list [][2]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range plots {
		id := random()
		s.plots[id], s.drawn = p.SVG, append(s.drawn, id)
		list = append(list, [2]string{"/plot/" + id, p.Name})
	}
	for len(s.drawn) > maxPlots {
		delete(s.plots, s.drawn[0])
		s.drawn = s.drawn[1:]
	}
	return list
}

func (v *visit) plot() error {
	v.mu.Lock()
	svg, ok := v.plots[v.last]
	v.mu.Unlock()
	if !ok {
		return &Problem{http.StatusNotFound, "This picture is no longer kept; simulate again."}
	}
	v.w.Header().Set("Content-Security-Policy", plotPolicy)
	v.write(http.StatusOK, "image/svg+xml", svg)
	return nil
}

// export shows what makes a system's own timer run the schedule.
func (v *visit) export() error {
	n := v.backlog.Now()
	forms := map[string]func(*tiers.Schedule) string{"crontab": n.Timer.Crontab, "systemd": n.Timer.Systemd}
	f := forms[v.last]
	if f == nil {
		return &Problem{http.StatusNotFound, "The schedule is exported for crontab and systemd."}
	}
	v.write(http.StatusOK, "text/plain; charset=utf-8", visible([]byte(f(n.Schedule))))
	return nil
}
