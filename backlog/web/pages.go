package web

import (
	"cmp"
	"context"
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
	Bands    []band
	States   []state
	Ticks    []inspect.Tick
	Running  []watch.Pass
	Passes   []watch.Pass
	Failures watch.Failures
	Suspects []watch.Suspect
	Outage   *watch.Outage
	Until    string // of a pause, in its form
}

// A state is how many rows are in it, with the policy refresh.
type state struct {
	Name string
	Rows int
}

func (v *visit) front() error {
	n := v.backlog.Now()
	f := front{
		Bands: n.bands(v.at), Ticks: slices.Collect(inspect.Ticks(n.Schedule, v.at, time.Time{}, 10)),
		Running: n.Picture.Running(), Passes: n.Picture.Passes(), Failures: n.Picture.Failures(), Suspects: n.Picture.Suspects(), Outage: n.Picture.Outage(),
		Until: v.at.Add(time.Hour).In(n.zone()).Format(untilForm),
	}
	f.Passes, f.Failures.Causes, f.Suspects = first(f.Passes, 10), first(f.Failures.Causes, 5), first(f.Suspects, 10)
	if n.Counts != nil && n.Refresh {
		for _, name := range inspect.States {
			f.States = append(f.States, state{name, n.Counts.Counts[name]})
		}
	}
	v.render(http.StatusOK, page{Name: "front", Title: "Overview", Live: true, Data: f})
	return nil
}

func first[T any](list []T, n int) []T { return list[:min(n, len(list))] }

const (
	maxLimit   = 200
	maxTicks   = 1000
	maxHorizon = 30 * 24 * time.Hour
)

// number returns a number of the query between 1 and most, or what is usual.
func (v *visit) number(name string, usual, most int) (int, error) {
	text := v.r.URL.Query().Get(name)
	if text == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, &Problem{http.StatusBadRequest, name + " must be a whole number."}
	}
	return min(max(n, 1), most), nil
}

// somePasses returns those that the query means, the newest first: of a tier, before one.
func (v *visit) somePasses(n Now) (list []watch.Pass, next int64, err error) {
	tier, limit, before := v.r.URL.Query().Get("tier"), 0, 0
	if limit, err = v.number("limit", 100, maxLimit); err != nil {
		return nil, 0, err
	}
	if before, err = v.number("after", math.MaxInt, math.MaxInt); err != nil {
		return nil, 0, err
	}
	list = []watch.Pass{}
	for _, p := range n.Picture.Passes() {
		if tier != "" && p.Tier != tier || p.N >= int64(before) {
			continue
		}
		if len(list) == limit {
			return list, list[limit-1].N, nil
		}
		list = append(list, p)
	}
	return list, 0, nil
}

func (v *visit) passes() error {
	n := v.backlog.Now()
	list, next, err := v.somePasses(n)
	if err != nil {
		return err
	}
	data := struct {
		Tier, Next      string
		Running, Passes []watch.Pass
		Outages         []watch.PastOutage
	}{Tier: v.r.URL.Query().Get("tier"), Passes: list, Outages: n.Picture.Outages()}
	if data.Running = n.Picture.Running(); data.Tier != "" || v.r.URL.Query().Has("after") {
		data.Running = nil
	}
	if next != 0 {
		data.Next = strconv.FormatInt(next, 10)
	}
	v.render(http.StatusOK, page{Name: "passes", Title: "Passes", Live: true, Data: data})
	return nil
}

func (v *visit) pass() error {
	n := v.backlog.Now()
	for _, p := range append(n.Picture.Running(), n.Picture.Passes()...) {
		if strconv.FormatInt(p.N, 10) == v.last {
			v.render(http.StatusOK, page{Name: "pass", Title: "Pass of " + clip(p.Tier), Data: p})
			return nil
		}
	}
	return &Problem{http.StatusNotFound, "This pass is not, or no longer, remembered."}
}

// Outcomes returns the report's numbers that are not zero, beside the first ones.
func (p page) Outcomes(r watch.Pass) (list []inspect.OutcomeCount) {
	for _, c := range inspect.OutcomeCounts(r.Report) {
		if c.N > 0 && c.Key != "succeeded" && c.Key != "failed" {
			list = append(list, c)
		}
	}
	return list
}

// AllOutcomes returns all numbers of the report.
func (p page) AllOutcomes(r watch.Pass) []inspect.OutcomeCount {
	return inspect.OutcomeCounts(r.Report)
}

func (v *visit) causes() error {
	f, by := v.backlog.Now().Picture.Failures(), cmp.Or(v.r.URL.Query().Get("sort"), "records")
	orders := map[string]func(a, b watch.SeenCause) int{
		"records": func(a, b watch.SeenCause) int { return b.Records - a.Records },
		"first":   func(a, b watch.SeenCause) int { return time.Time(b.FirstSeen).Compare(time.Time(a.FirstSeen)) },
		"last":    func(a, b watch.SeenCause) int { return time.Time(b.LastSeen).Compare(time.Time(a.LastSeen)) },
	}
	if orders[by] == nil {
		return &Problem{http.StatusBadRequest, "sort must be records, first or last."}
	}
	slices.SortStableFunc(f.Causes, orders[by])
	v.render(http.StatusOK, page{Name: "causes", Title: "Causes", Live: true, Data: struct {
		watch.Failures
		By    string
		Sorts [][2]string
	}{f, by, [][2]string{{"records", "Attempts"}, {"first", "First seen"}, {"last", "Last seen"}}}})
	return nil
}

// ask has one request at a time ask the database. The next waits for 2 s.
func (v *visit) ask(limit time.Duration, f func(ctx context.Context) error) error {
	select {
	case v.database <- struct{}{}:
		defer func() { <-v.database }()
	case <-time.After(2 * time.Second):
		return &Problem{http.StatusServiceUnavailable, "Another page is asking the database; try again."}
	case <-v.r.Context().Done():
		return v.r.Context().Err()
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), limit)
	defer cancel()
	err := f(ctx)
	if known := new(Problem); err != nil && ctx.Err() != nil && v.r.Context().Err() == nil && !errors.As(err, &known) {
		return &Problem{http.StatusServiceUnavailable, fmt.Sprintf("The database took more than %v for this.", limit)}
	}
	return err
}

// filter reads one from the query.
func (v *visit) filter() (f Filter, err error) {
	q := v.r.URL.Query()
	f = Filter{Band: q.Get("band"), Lane: q.Get("lane"), State: q.Get("state"), Cause: q.Get("cause"), ID: q.Get("q"), After: q.Get("after")}
	if f.Limit, err = v.number("limit", 100, maxLimit); err != nil {
		return f, err
	}
	return f, f.check(v.backlog.Now())
}

// filterStates are the states that a filter can have.
func filterStates(n Now) []string {
	if n.Refresh {
		return inspect.States
	}
	return []string{"dead", "exhausted", "unreadable"}
}

func (f Filter) check(n Now) error {
	_, tier := n.Schedule.ByName(f.Band)
	switch {
	case f.Band != "" && !tier && f.Band != inspect.Beyond:
		return &Problem{http.StatusBadRequest, "band must be the name of a tier, or beyond."}
	case f.Lane != "" && f.Lane != "fresh" && f.Lane != "failed":
		return &Problem{http.StatusBadRequest, "lane must be fresh or failed."}
	case f.State != "" && !slices.Contains(filterStates(n), f.State):
		return &Problem{http.StatusBadRequest, "state must be one of " + strings.Join(filterStates(n), ", ") + "."}
	}
	return nil
}

// address is a path with the filter as its query, but for place and limit.
func (f Filter) address(path string, more ...string) string {
	return address(path, append([]string{"band", f.Band, "lane", f.Lane, "state", f.State, "cause", f.Cause, "q", f.ID}, more...)...)
}

// some returns a page of the records that the query means.
func (v *visit) some() (f Filter, r Records, err error) {
	if f, err = v.filter(); err != nil {
		return f, r, err
	}
	err = v.ask(askFor, func(ctx context.Context) error {
		r, err = v.backlog.Records(ctx, f)
		return err
	})
	for i := range r.Records {
		shorten(&r.Records[i].Entry, r.Records[i].Data)
	}
	if r.Records == nil {
		r.Records = []Entry{}
	}
	return f, r, err
}

// askFor is the time that the database has for a page.
const askFor = 5 * time.Second

// shorten cuts the texts of a record: a table may have an error of megabytes.
func shorten(e *inspect.Entry, data []Cell) {
	cut := func(text **string) {
		if *text != nil {
			s := clip(*text)
			*text = &s
		}
	}
	cut(&e.LastError)
	for i := range data {
		cut(&data[i].Value)
	}
}

func (v *visit) records() error {
	f, r, err := v.some()
	if err != nil {
		return err
	}
	n, q := v.backlog.Now(), v.r.URL.Query()
	data := struct {
		Filter
		Records              []Entry
		Columns              []Cell
		Bands, States, Lanes []string
		Next, Retry          string
		Retried, Conflicts   int
		Attempts, LastError  bool
	}{Filter: f, Records: r.Records, States: filterStates(n), Lanes: []string{"fresh", "failed"}, Retry: f.address("/retry"), Retried: -1}
	for _, t := range n.Schedule.Tiers() {
		data.Bands = append(data.Bands, t.Name)
	}
	data.Bands = append(data.Bands, inspect.Beyond)
	if r.Next != nil {
		data.Next = f.address("/records", "after", *r.Next, "limit", q.Get("limit"))
	}
	for _, e := range r.Records {
		data.Columns = e.Data
		data.Attempts, data.LastError = data.Attempts || e.Tried != nil, data.LastError || e.LastError != nil
	}
	if q.Has("retried") {
		data.Retried, _ = strconv.Atoi(q.Get("retried"))
		data.Conflicts, _ = strconv.Atoi(q.Get("conflicts"))
	}
	v.render(http.StatusOK, page{Name: "records", Title: "Records", Live: true, Data: data})
	return nil
}

// one returns the record that the query means.
func (v *visit) one() (r Record, err error) {
	if !v.r.URL.Query().Has("id") {
		return r, &Problem{http.StatusBadRequest, "Name a record: ?id=…"}
	}
	err = v.ask(askFor, func(ctx context.Context) error {
		r, err = v.backlog.Record(ctx, v.r.URL.Query().Get("id"))
		return err
	})
	if r.Sheet != nil {
		shorten(&r.Entry, r.Data)
	}
	return r, err
}

func (v *visit) record() error {
	r, err := v.one()
	if err != nil {
		return err
	}
	data := struct {
		Record
		Facts [][2]string
		Retry string
		Since time.Time
	}{Record: r, Since: v.backlog.Now().Picture.Failures().Since, Retry: Filter{ID: r.ID.String()}.address("/retry")}
	for _, line := range r.Lines {
		name, text, _ := strings.Cut(line, "\t")
		if name != "last error" && name != "record" {
			data.Facts = append(data.Facts, [2]string{name, clip(text)})
		}
	}
	v.render(http.StatusOK, page{Name: "record", Title: "Record " + clip(r.ID), Live: true, Data: data})
	return nil
}
