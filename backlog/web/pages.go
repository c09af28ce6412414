package web

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"backlog/backlog/inspect"
	"backlog/backlog/watch"
	"backlog/tiers"
)

const (
	maxLimit   = 200
	maxTicks   = 1000
	maxHorizon = 30 * 24 * time.Hour
)

// A band is a line of the front page: the pending records in a range of ages.
type band struct {
	Name, Ages, Often string
	State             bool // Name is a state, and not a band
	inspect.Band
	ADay           int     // attempts, at most
	Bar, FailedBar float64 // of 100
}

// Bands are the counts by tier, narrowest first, then what no tier reaches.
func (v *visit) Bands() (list []band) {
	c := v.Now.Counts
	if c == nil || len(c.Bands) == 0 {
		return nil
	}
	for _, b := range c.Bands {
		x := band{Name: b.Tier, Ages: b.Ages, Band: b.Band}
		if t, ok := v.Now.Schedule.ByName(b.Tier); ok {
			x.Often, x.ADay = inspect.Often(t), (b.Fresh+b.Failed)*ticksADay(t, v.at)
		}
		list = append(list, x)
	}
	list = append(list, band{Name: inspect.Beyond, Ages: "older: never tried", Band: c.Beyond},
		band{Name: "exhausted", Ages: "out of retries", State: true, Band: inspect.Band{Failed: c.Exhausted}},
		band{Name: "unreadable", Ages: "no date that can be read", State: true, Band: inspect.Band{Fresh: c.Unreadable}})
	list = slices.DeleteFunc(list, func(b band) bool {
		return b.State && b.Fresh+b.Failed == 0 && !slices.Contains(v.Now.Choices, b.Name)
	})
	most := 0
	for _, b := range list {
		most = max(most, b.Fresh+b.Failed)
	}
	for i := range list {
		if all := list[i].Fresh + list[i].Failed; all > 0 {
			list[i].Bar = max(2, 100*math.Log1p(float64(all))/math.Log1p(float64(most)))
			list[i].FailedBar = list[i].Bar * float64(list[i].Failed) / float64(all)
		}
	}
	return list
}

// ticksADay returns how often a tier ticks within a day from now on.
func ticksADay(t tiers.Tier, now time.Time) (n int) {
	if t.Every > 0 {
		return int(24 * time.Hour / t.Every)
	}
	end := now.Add(24 * time.Hour)
	for at := t.Next(now); at.Before(end); at = t.Next(at) {
		n++
	}
	return n
}

// A Sentence says how it stands.
type Sentence struct{ Word, Kind, Rest string }

func (s Sentence) String() string { return s.Word + " " + s.Rest }

// Sentence is the state of the process and its table in a sentence or two.
func (v *visit) Sentence() Sentence {
	n := v.Now
	word, kind := v.state()
	s := Sentence{word, kind, "Not counted yet."}
	if n.Counts != nil {
		s.Rest = inspect.Thousands(n.Counts.Pending) + " pending."
		failed := n.Counts.Beyond.Failed
		for _, b := range n.Counts.Bands {
			failed += b.Failed
		}
		if !n.Refresh {
			s.Rest = inspect.Thousands(n.Counts.Pending) + " pending, " + inspect.Thousands(failed) + " failed."
		}
	}
	if n.Role == Leader && !n.Stopping && n.Pause == nil {
		for _, t := range v.NextTicks(1) {
			s.Rest += fmt.Sprintf(" Next: %s at %s.", clip(t.Tier), v.Clock(t.At))
		}
	}
	return s
}

// state is the state of the process, and whether that is good, bad or idle.
func (v *visit) state() (word, kind string) {
	switch n := v.Now; {
	case n.Stopping:
		return "Stopping.", "idle"
	case n.Trouble != nil:
		return v.TroubleWord() + " since " + v.Clock(n.Trouble.Since) + ".", "bad"
	case n.Pause != nil:
		return "Paused.", "idle"
	case n.Picture.Outage() != nil:
		return "Outage: every attempt fails.", "bad"
	case n.Role == Standby:
		return "Standing by.", "idle"
	case n.Role == Viewer:
		return "Viewing.", "idle"
	}
	return "Working.", "good"
}

// TroubleWord says what is wrong.
func (v *visit) TroubleWord() string {
	switch t := v.Now.Trouble; {
	case t.Passes:
		return "Passes end with an error"
	case t.Temporary:
		return "The database is away"
	}
	return "The table cannot be used"
}

// NextTicks returns so many ticks to come.
func (v *visit) NextTicks(n int) []inspect.Tick {
	return slices.Collect(inspect.Ticks(v.Now.Schedule, v.at, time.Time{}, n))
}

// knownStates are the words of a filter for records that are not, or not all, pending.
func (n Now) knownStates() []string {
	if n.Refresh {
		return inspect.States
	}
	return []string{"dead", "exhausted", "unreadable"}
}

func isLane(word string) bool { return word == "fresh" || word == "failed" }

// Lanes are the words of the lanes that the table has, none where it has but one.
func (n Now) Lanes() []string {
	if slices.Contains(n.Choices, "fresh") && slices.Contains(n.Choices, "failed") {
		return []string{"fresh", "failed"}
	}
	return nil
}

// States are the words of the states that the table has, without the lanes.
func (n Now) States() []string { return slices.DeleteFunc(slices.Clone(n.Choices), isLane) }

// number returns a number of the query between 1 and most, or what is usual.
func (v *visit) number(name string, usual, most int) (int, error) {
	text := v.Query(name)
	if text == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, &Problem{http.StatusBadRequest, name + " must be a whole number."}
	}
	return min(max(n, 1), most), nil
}

// passes are those that the query means, the newest first.
func (v *visit) passes() (any, error) {
	limit, err := v.number("limit", 100, maxLimit)
	before, err2 := v.number("after", math.MaxInt, math.MaxInt)
	data := struct {
		Passes []watch.Pass `json:"passes"`
		Next   int64        `json:"next,omitempty"` // what after is for the page of older ones
	}{Passes: []watch.Pass{}}
	if err = errors.Join(err, err2); err != nil {
		return nil, err
	}
	for _, p := range v.Now.Picture.Passes() {
		if tier := v.Query("tier"); tier != "" && p.Tier != tier || p.N >= int64(before) {
			continue
		}
		if len(data.Passes) == limit {
			data.Next = data.Passes[limit-1].N
			break
		}
		data.Passes = append(data.Passes, p)
	}
	return data, nil
}

func (v *visit) pass() (any, error) {
	for _, p := range append(v.Now.Picture.Running(), v.Now.Picture.Passes()...) {
		if strconv.FormatInt(p.N, 10) == v.last {
			return p, nil
		}
	}
	return nil, &Problem{http.StatusNotFound, "This pass is not, or no longer, remembered."}
}

// Outcomes returns the numbers of the report; without all only what is worth a word beside
// those of success and failure.
func (v *visit) Outcomes(r watch.Pass, all bool) []inspect.OutcomeCount {
	return slices.DeleteFunc(inspect.OutcomeCounts(r.Report), func(c inspect.OutcomeCount) bool {
		return !all && (c.N == 0 || c.Key == "succeeded" || c.Key == "failed")
	})
}

// causeOrders are how causes can be sorted.
var causeOrders = map[string]func(a, b watch.SeenCause) int{"records": byRecords, "first": byFirst, "last": byLast}

func byRecords(a, b watch.SeenCause) int { return b.Records - a.Records }

func byFirst(a, b watch.SeenCause) int {
	return time.Time(b.FirstSeen).Compare(time.Time(a.FirstSeen))
}

func byLast(a, b watch.SeenCause) int {
	return time.Time(b.LastSeen).Compare(time.Time(a.LastSeen))
}

func (v *visit) causes() (any, error) {
	f := v.Now.Picture.Failures()
	by := cmp.Or(v.Query("sort"), "records")
	if causeOrders[by] == nil {
		return nil, &Problem{http.StatusBadRequest, "sort must be records, first or last."}
	}
	slices.SortStableFunc(f.Causes, causeOrders[by])
	return struct {
		Since    inspect.Stamp     `json:"since"`
		Attempts int               `json:"attempts"`
		Causes   []watch.SeenCause `json:"causes"`
		Rows     *Rows             `json:"rows"`
		By       string            `json:"-"`
	}{inspect.Stamp(f.Since), f.Attempts, append([]watch.SeenCause{}, f.Causes...), v.Now.Rows, by}, nil
}

func (v *visit) suspects() (any, error) {
	return map[string]any{"suspects": append([]watch.Suspect{}, v.Now.Picture.Suspects()...)}, nil
}

// A process is what the status has of the one that answers.
type process struct {
	Role    string         `json:"role"`
	Version string         `json:"version"`
	Counted inspect.Stamp  `json:"counted_at"`
	Away    inspect.Stamp  `json:"unavailable_since"`
	Trouble *watch.Trouble `json:"trouble"`
}

// status is what `backlog status --json` prints, and the process. The ticks to come are those
// after the request, and not after the count.
func (v *visit) status() (any, error) {
	n := v.Now
	back := v.backlog.LookBack(v.r.Context())
	p := process{n.Role, n.Version, inspect.Stamp(n.Counted), n.unavailable(), n.Trouble}
	next := inspect.Starts(n.Schedule, v.at)
	if n.Counts == nil {
		return struct {
			inspect.Uncounted
			watch.LookBack
			process
		}{inspect.Uncounted{Next: next}, back, p}, nil
	}
	counted := *n.Counts
	counted.Next = next
	return struct {
		watch.Overview
		process
	}{watch.Overview{Status: &counted, LookBack: back}, p}, nil
}

// unavailable is since when the database is, zero if it answers.
func (n Now) unavailable() inspect.Stamp {
	if n.Trouble == nil || n.Trouble.Passes {
		return inspect.Stamp{}
	}
	return n.Trouble.Since
}

// schedule has the ticks within the time that the query names.
func (v *visit) schedule() (any, error) {
	data := struct {
		Ticks    []inspect.Tick `json:"ticks"`
		Complete bool           `json:"complete"`
		axis
		trial
	}{Complete: true, Ticks: []inspect.Tick{}, axis: axis{Horizon: 24 * time.Hour, from: v.at}, trial: trial{YAML: yamlOf(v.Now.Schedule)}}
	if text := v.Query("for"); text != "" {
		d, err := tiers.ParseDuration(text)
		if err != nil {
			return nil, &Problem{http.StatusBadRequest, "for must be a duration such as 24h or 7d."}
		}
		data.Horizon = min(max(d, time.Minute), maxHorizon)
	}
	for t := range inspect.Ticks(v.Now.Schedule, v.at, v.at.Add(data.Horizon), maxTicks+1) {
		if data.Complete = len(data.Ticks) < maxTicks; data.Complete {
			data.Ticks = append(data.Ticks, t)
		}
	}
	if v.r.Method != http.MethodPost {
		return data, nil
	}
	err := v.form()
	if err == nil {
		data.trial, err = v.try(strings.ReplaceAll(v.r.PostFormValue("tiers"), "\r\n", "\n")) // as browsers end lines
	}
	return data, err
}

// An axis is that of a picture of ticks.
type axis struct {
	Horizon time.Duration `json:"-"`
	from    time.Time
}

// X is the place of a time on the axis.
func (a axis) X(t inspect.Stamp) int {
	return 110 + int(830*float64(time.Time(t).Sub(a.from))/float64(a.Horizon))
}

// Marks are times along the axis.
func (a axis) Marks() (list []inspect.Stamp) {
	for i := range time.Duration(6) {
		list = append(list, inspect.Stamp(a.from.Add(a.Horizon*i/5)))
	}
	return list
}

// yamlOf writes the schedule as a configuration has it.
func yamlOf(s *tiers.Schedule) string {
	var b strings.Builder
	b.WriteString("tiers:\n")
	for _, t := range s.Tiers() {
		fmt.Fprintf(&b, "  - {name: %q, max_age: %s, ", t.Name, tiers.FormatDuration(t.MaxAge))
		switch {
		case t.Cron != "":
			fmt.Fprintf(&b, "cron: %q, timezone: %v}\n", t.Cron, t.Location)
		case t.Offset > 0:
			fmt.Fprintf(&b, "every: %s, offset: %s}\n", tiers.FormatDuration(t.Every), tiers.FormatDuration(t.Offset))
		default:
			fmt.Fprintf(&b, "every: %s}\n", tiers.FormatDuration(t.Every))
		}
	}
	return b.String()
}

// export shows what makes a system's own timer run the schedule.
func (v *visit) export() error {
	f := map[string]func(*tiers.Schedule) string{"crontab": v.Now.Timer.Crontab, "systemd": v.Now.Timer.Systemd}[v.last]
	if f == nil {
		return &Problem{http.StatusNotFound, "The schedule is exported for crontab and systemd."}
	}
	v.write(http.StatusOK, "text/plain; charset=utf-8", visible([]byte(f(v.Now.Schedule))))
	return nil
}
