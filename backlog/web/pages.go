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
	maxLimit   = 200                 // entries of a page
	maxTicks   = 1000                // that the schedule lists at most
	nextTicks  = 20                  // that its page lists, unless all are asked for
	maxHorizon = 30 * 24 * time.Hour // of the schedule
)

// A band is a line of the front page: the pending records in a range of ages.
type band struct {
	Name, Ages, Often string
	State             bool // Name is a state, not a band
	inspect.Band
	ADay           int     // attempts in a day, at most
	Bar, FailedBar float64 // percent of the longest bar
}

// Bands returns the counts by tier, the narrowest first, then the records that no tier tries.
func (v *visit) Bands() []band {
	var list []band
	c := v.Now.Counts
	if c == nil || len(c.Bands) == 0 {
		return nil
	}
	for _, b := range c.Bands {
		x := band{Name: b.Tier, Ages: b.Ages, Band: b.Band}
		if t, ok := v.Now.Schedule.ByName(b.Tier); ok {
			x.Often = inspect.Often(t)
			x.ADay = (b.Fresh + b.Failed) * ticksADay(t, v.at)
		}
		list = append(list, x)
	}
	list = append(list,
		band{Name: inspect.Beyond, Ages: "older: not tried", Band: c.Beyond},
		band{Name: "exhausted", Ages: "out of retries", State: true, Band: inspect.Band{Failed: c.Exhausted}},
		band{Name: "unreadable", Ages: "no date that can be read", State: true, Band: inspect.Band{Fresh: c.Unreadable}})
	unused := func(b band) bool { // a state that the table does not have
		return b.State && b.Fresh+b.Failed == 0 && !slices.Contains(v.Now.Choices, b.Name)
	}
	list = slices.DeleteFunc(list, unused)
	most := 0
	for _, b := range list {
		most = max(most, b.Fresh+b.Failed)
	}
	for i := range list {
		b := &list[i]
		if all := b.Fresh + b.Failed; all > 0 {
			b.Bar = max(2, 100*math.Log1p(float64(all))/math.Log1p(float64(most)))
			b.FailedBar = b.Bar * float64(b.Failed) / float64(all)
		}
	}
	return list
}

// ticksADay returns how often a tier ticks in the 24 hours after now.
func ticksADay(t tiers.Tier, now time.Time) int {
	if t.Every > 0 {
		return int(24 * time.Hour / t.Every)
	}
	n := 0
	end := now.Add(24 * time.Hour)
	for at := t.Next(now); at.Before(end); at = t.Next(at) {
		n++
	}
	return n
}

// A Sentence says how the process and its table are doing. Kind is good, bad or idle.
type Sentence struct{ Word, Kind, Rest string }

// String returns the whole sentence.
func (s Sentence) String() string { return s.Word + " " + s.Rest }

// Sentence returns the state of the process, the counts of the table and the next tick.
func (v *visit) Sentence() Sentence {
	n := v.Now
	word, kind := v.state()
	s := Sentence{Word: word, Kind: kind, Rest: "Not counted yet."}
	if n.Counts != nil {
		s.Rest = inspect.Thousands(n.Counts.Pending) + " pending."
		if !n.Refresh {
			s.Rest = inspect.Thousands(n.Counts.Pending) + " pending, " + inspect.Thousands(n.Counts.Failed()) + " failed."
		}
	}
	if n.Role == Leader && !n.Stopping && n.Pause == nil {
		for _, t := range v.NextTicks(1) {
			s.Rest += fmt.Sprintf(" Next: %s at %s.", clip(t.Tier), v.Clock(t.At))
		}
	}
	return s
}

// state returns the state of the process, and its kind.
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

// Draining returns the last outage while its backlog is not done; nil: it is.
func (v *visit) Draining() *watch.PastOutage {
	return watch.Draining(v.Now.Picture.Outage(), v.Now.Picture.Outages(), v.at)
}

// TroubleWord says what is wrong, if there is trouble.
func (v *visit) TroubleWord() string {
	switch t := v.Now.Trouble; {
	case t.Passes:
		return "Passes end with an error"
	case t.Temporary:
		return "The database is away"
	}
	return "The table cannot be used"
}

// NextTicks returns the next n ticks.
func (v *visit) NextTicks(n int) []inspect.Tick {
	return slices.Collect(inspect.Ticks(v.Now.Schedule, v.at, time.Time{}, n))
}

// knownStates returns the words that State of a [Filter] may have.
func (n Now) knownStates() []string {
	if n.Refresh {
		return inspect.States
	}
	return []string{"dead", "exhausted", "unreadable"}
}

func isLane(word string) bool { return word == "fresh" || word == "failed" }

// Lanes returns the lanes that the table has, nil if it has only one.
func (n Now) Lanes() []string {
	if slices.Contains(n.Choices, "fresh") && slices.Contains(n.Choices, "failed") {
		return []string{"fresh", "failed"}
	}
	return nil
}

// States returns the states that the table has, without the lanes.
func (n Now) States() []string { return slices.DeleteFunc(slices.Clone(n.Choices), isLane) }

// number returns a number of the query, moved into the range from 1 to most. If the query does not
// have it, it returns the default.
func (v *visit) number(name string, byDefault, most int) (int, error) {
	text := v.Query(name)
	if text == "" {
		return byDefault, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, &Problem{http.StatusBadRequest, name + " must be a whole number."}
	}
	return min(max(n, 1), most), nil
}

// passes answers with the passes that match the query, the newest first.
func (v *visit) passes() (any, error) {
	limit, err := v.number("limit", 100, maxLimit)
	before, err2 := v.number("after", math.MaxInt, math.MaxInt)
	data := struct {
		Passes []watch.Pass `json:"passes"`
		Next   int64        `json:"next,omitempty"` // the value of after for the next page
	}{Passes: []watch.Pass{}}
	if err = errors.Join(err, err2); err != nil {
		return nil, err
	}
	tier := v.Query("tier")
	for _, p := range v.Now.Picture.Passes() {
		otherTier := tier != "" && p.Tier != tier
		if otherTier || p.N >= int64(before) {
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

// pass answers with one pass.
func (v *visit) pass() (any, error) {
	for _, p := range append(v.Now.Picture.Running(), v.Now.Picture.Passes()...) {
		if strconv.FormatInt(p.N, 10) == v.last {
			return p, nil
		}
	}
	return nil, &Problem{http.StatusNotFound, "This pass is not, or no longer, remembered."}
}

// Outcomes returns the counts of the pass's report. Without all, it returns only those that are not
// zero and have no column of their own.
func (v *visit) Outcomes(r watch.Pass, all bool) []inspect.OutcomeCount {
	return slices.DeleteFunc(inspect.OutcomeCounts(r.Report), func(c inspect.OutcomeCount) bool {
		return !all && (c.N == 0 || c.Key == "succeeded" || c.Key == "failed")
	})
}

// causeOrders has the orders of causes by their word in the query.
var causeOrders = map[string]func(a, b watch.SeenCause) int{
	"records": byRecords,
	"first":   byFirst,
	"last":    byLast,
}

func byRecords(a, b watch.SeenCause) int { return b.Records - a.Records }

func byFirst(a, b watch.SeenCause) int {
	return time.Time(b.FirstSeen).Compare(time.Time(a.FirstSeen))
}

func byLast(a, b watch.SeenCause) int {
	return time.Time(b.LastSeen).Compare(time.Time(a.LastSeen))
}

// causes answers with why attempts have failed.
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

// suspects answers with the records that fail again and again while others succeed.
func (v *visit) suspects() (any, error) {
	return map[string]any{"suspects": append([]watch.Suspect{}, v.Now.Picture.Suspects()...)}, nil
}

// A process is the part of the status that is about the process that answers.
type process struct {
	Role             string         `json:"role"`
	Version          string         `json:"version"`
	Counted          inspect.Stamp  `json:"counted_at"`
	UnavailableSince inspect.Stamp  `json:"unavailable_since"`
	Trouble          *watch.Trouble `json:"trouble"`
}

// status answers with what `backlog status --json` prints, and with the process. The next ticks are
// those after the request, not after the count.
func (v *visit) status() (any, error) {
	n := v.Now
	back := v.backlog.LookBack(v.r.Context())
	p := process{
		Role:             n.Role,
		Version:          n.Version,
		Counted:          inspect.Stamp(n.Counted),
		UnavailableSince: n.unavailableSince(),
		Trouble:          n.Trouble,
	}
	next := inspect.Starts(n.Schedule, v.at)
	if n.Counts == nil {
		return struct {
			inspect.Uncounted
			History *watch.Timeline `json:"history"`
			watch.LookBack
			process
		}{inspect.Uncounted{Next: next}, v.timeline(), back, p}, nil
	}
	counted := *n.Counts
	counted.Next = next
	return struct {
		watch.Overview
		process
	}{watch.Overview{Status: &counted, History: v.timeline(), LookBack: back}, p}, nil
}

// unavailableSince returns since when the database is unavailable, zero if it is available.
func (n Now) unavailableSince() inspect.Stamp {
	if n.Trouble == nil || n.Trouble.Passes {
		return inspect.Stamp{}
	}
	return n.Trouble.Since
}

// schedule answers with the ticks within the time that the query names, and tries out another
// schedule if the request has one.
func (v *visit) schedule() (any, error) {
	data := struct {
		Ticks    []inspect.Tick `json:"ticks"`
		Complete bool           `json:"complete"`
		axis
		trial
	}{
		Ticks:    []inspect.Tick{},
		Complete: true,
		axis:     axis{Horizon: 24 * time.Hour, from: v.at},
		trial:    trial{YAML: yamlOf(v.Now.Schedule)},
	}
	if text := v.Query("for"); text != "" {
		d, err := tiers.ParseDuration(text)
		if err != nil {
			return nil, &Problem{http.StatusBadRequest, "for must be a duration such as 24h or 7d."}
		}
		data.Horizon = min(max(d, time.Minute), maxHorizon)
	}
	for t := range inspect.Ticks(v.Now.Schedule, v.at, v.at.Add(data.Horizon), maxTicks+1) {
		data.Complete = len(data.Ticks) < maxTicks
		if data.Complete {
			data.Ticks = append(data.Ticks, t)
		}
	}
	if v.r.Method != http.MethodPost {
		return data, nil
	}
	err := v.form()
	if err == nil {
		yaml := strings.ReplaceAll(v.r.PostFormValue("tiers"), "\r\n", "\n") // browsers send \r\n
		data.trial, err = v.try(yaml)
	}
	return data, err
}

// ListedTicks returns the ticks that the page of the schedule lists.
func (v *visit) ListedTicks(all []inspect.Tick) []inspect.Tick {
	if v.Query("ticks") == "all" {
		return all
	}
	return all[:min(nextTicks, len(all))]
}

// An axis is the time axis of the picture of ticks.
type axis struct {
	Horizon time.Duration `json:"-"`
	from    time.Time
}

// X returns the x coordinate of a time.
func (a axis) X(t inspect.Stamp) int {
	return 110 + int(830*float64(time.Time(t).Sub(a.from))/float64(a.Horizon))
}

// Marks returns the times that are written along the axis.
func (a axis) Marks() []inspect.Stamp {
	var list []inspect.Stamp
	for i := range time.Duration(6) {
		list = append(list, inspect.Stamp(a.from.Add(a.Horizon*i/5)))
	}
	return list
}

// yamlOf returns the schedule as YAML of a configuration.
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

// export answers with a crontab or with systemd units that run the schedule.
func (v *visit) export() error {
	var text string
	switch v.last {
	case "crontab":
		text = v.Now.Timer.Crontab(v.Now.Schedule)
	case "systemd":
		text = v.Now.Timer.Systemd(v.Now.Schedule)
	default:
		return &Problem{http.StatusNotFound, "The schedule is exported for crontab and systemd."}
	}
	v.write(http.StatusOK, "text/plain; charset=utf-8", visible([]byte(text)))
	return nil
}
