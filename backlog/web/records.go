package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"backlog/backlog/inspect"
)

// askFor is the time that the database has for a page.
const askFor = 5 * time.Second

// ask has one request at a time ask the database. The next waits for 2 s.
func ask[T any](v *visit, limit time.Duration, f func(ctx context.Context) (T, error)) (answer T, err error) {
	visitor := v.r.Context()
	waiting, stop := context.WithTimeout(visitor, 2*time.Second)
	defer stop()
	if v.database.Acquire(waiting, 1) != nil {
		err = &Problem{http.StatusServiceUnavailable, "Another page is asking the database; try again."}
		return answer, cmp.Or(visitor.Err(), err)
	}
	defer v.database.Release(1)
	ctx, cancel := context.WithTimeout(visitor, limit)
	defer cancel()
	answer, err = f(ctx)
	if err != nil && ctx.Err() != nil && visitor.Err() == nil && !errors.As(err, new(*Problem)) {
		err = &Problem{http.StatusServiceUnavailable, fmt.Sprintf("The database took more than %v for this.", limit)}
	}
	return answer, err
}

// filter reads one from the query.
func (v *visit) filter() (f Filter, err error) {
	f = Filter{Band: v.Query("band"), Lane: v.Query("lane"), State: v.Query("state"), Cause: v.Query("cause"), ID: v.Query("q"), After: v.Query("after")}
	if f.Limit, err = v.number("limit", 100, maxLimit); err == nil {
		err = f.check(v.Now)
	}
	return f, err
}

func (f Filter) check(n Now) error {
	_, tier := n.Schedule.ByName(f.Band)
	switch {
	case f.Band != "" && !tier && f.Band != inspect.Beyond:
		return &Problem{http.StatusBadRequest, "band must be the name of a tier, or beyond."}
	case f.Lane != "" && !isLane(f.Lane):
		return &Problem{http.StatusBadRequest, "lane must be fresh or failed."}
	case f.State != "" && !slices.Contains(n.knownStates(), f.State):
		return &Problem{http.StatusBadRequest, "state must be one of " + strings.Join(n.knownStates(), ", ") + "."}
	}
	return nil
}

// On is a path with the filter as its query, but for place and limit.
func (f Filter) On(path string, more ...string) string {
	return address(path, append([]string{"band", f.Band, "lane", f.Lane, "state", f.State, "cause", f.Cause, "q", f.ID}, more...)...)
}

// textZone is the zone of dates within texts: programs get them in UTC, as by --json.
func (v *visit) textZone() *time.Location {
	if v.api() {
		return nil
	}
	return v.Now.zone()
}

// shorten cuts the texts of a record: a table may have an error of megabytes.
func shorten(e *inspect.Entry, data []Cell) {
	e.LastError = short(e.LastError)
	for i := range data {
		data[i].Value = short(data[i].Value)
	}
}

func short(text *string) *string {
	if text == nil {
		return nil
	}
	return new(clip(text))
}

// records are those that the query means.
func (v *visit) records() (any, error) {
	data := struct {
		Records
		Filter              `json:"-"`
		Columns             []Cell `json:"-"`
		Attempts, LastError bool   `json:"-"` // one has them
	}{}
	f, err := v.filter()
	if err != nil {
		return nil, err
	}
	data.Filter = f
	data.Records, err = ask(v, askFor, func(ctx context.Context) (Records, error) { return v.backlog.Records(ctx, f, v.textZone()) })
	v.Now = v.backlog.Now() // which knows what the table has, once it has been read
	data.Records.Records = append([]Entry{}, data.Records.Records...)
	for i := range data.Records.Records {
		e := &data.Records.Records[i]
		shorten(&e.Entry, e.Data)
		data.Columns = e.Data
		data.Attempts, data.LastError = data.Attempts || e.Tried != nil, data.LastError || e.LastError != nil
	}
	return data, err
}

// record is the one that the query means.
func (v *visit) record() (any, error) {
	if !v.r.URL.Query().Has("id") {
		return nil, &Problem{http.StatusBadRequest, "Name a record: ?id=…"}
	}
	r, err := ask(v, askFor, func(ctx context.Context) (Record, error) { return v.backlog.Record(ctx, v.Query("id"), v.textZone()) })
	if r.Sheet != nil {
		shorten(&r.Entry, r.Data)
	}
	return r, err
}

// Facts are the lines of a record for people, but for those that stand elsewhere.
func (r Record) Facts() (facts [][2]string) {
	for _, l := range r.Lines {
		if name, text, _ := strings.Cut(l, "\t"); !slices.Contains([]string{"record", "last error", "due", "next attempt"}, name) {
			facts = append(facts, [2]string{name, clip(text)})
		}
	}
	return facts
}

// A trial is a schedule that is tried out.
type trial struct {
	YAML    string      `json:"-"`
	Problem string      `json:"-"`
	Result  *Simulation `json:"-"`
	Plot    string      `json:"-"` // its address
}

// try simulates a schedule, one at a time, and keeps its pictures for a while.
func (v *visit) try(yaml string) (t trial, err error) {
	if t.YAML = yaml; !v.simulating.TryLock() {
		return t, &Problem{http.StatusConflict, "Another simulation runs; try again when it has ended."}
	}
	defer v.simulating.Unlock()
	result, err := ask(v, askFor, func(ctx context.Context) (Simulation, error) { return v.backlog.Simulate(ctx, yaml) })
	if p := new(Problem); errors.As(err, &p) && p.Status == http.StatusBadRequest && !v.api() {
		t.Problem = p.Text
		return t, nil
	}
	t.Result = &result
	v.mu.Lock()
	defer v.mu.Unlock()
	if id := random(); err == nil {
		v.plots.Add(id, result.Plot)
		t.Plot = "/plot/" + id
	}
	return t, err
}

// maxPlots is how many pictures are kept for the browsers that are about to fetch them.
const maxPlots = 16

func (v *visit) plot() error {
	v.mu.Lock()
	svg, ok := v.plots.Peek(v.last)
	v.mu.Unlock()
	if !ok {
		return &Problem{http.StatusNotFound, "This picture is no longer kept; simulate again."}
	}
	v.w.Header().Set("Content-Security-Policy", plotPolicy)
	v.write(http.StatusOK, "image/svg+xml", svg)
	return nil
}

// simulate takes the schedule as its body.
func (v *visit) simulate() (any, error) {
	yaml, err := io.ReadAll(v.r.Body)
	if err != nil {
		return nil, errors.Join(err, &Problem{http.StatusBadRequest, "The body ends early, or cannot be read."})
	}
	t, err := v.try(string(yaml))
	return t.Result, err
}
