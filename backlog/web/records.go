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

// askTimeout is how long the database may take for a page.
const askTimeout = 5 * time.Second

// ask calls f, which asks the database, for one request at a time. Another request waits for 2 s and
// then fails.
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
	timedOut := ctx.Err() != nil && visitor.Err() == nil
	if err != nil && timedOut && !errors.As(err, new(*Problem)) {
		err = &Problem{http.StatusServiceUnavailable, fmt.Sprintf("The database took more than %v for this.", limit)}
	}
	return answer, err
}

// filter reads the filter of the query.
func (v *visit) filter() (Filter, error) {
	limit, err := v.number("limit", 100, maxLimit)
	f := Filter{
		Band:  v.Query("band"),
		Lane:  v.Query("lane"),
		State: v.Query("state"),
		Cause: v.Query("cause"),
		ID:    v.Query("q"),
		After: v.Query("after"),
		Limit: limit,
	}
	if err == nil {
		err = f.check(v.Now)
	}
	return f, err
}

// check returns a [*Problem] if n does not know a word of the filter.
func (f Filter) check(n Now) error {
	_, isTier := n.Schedule.ByName(f.Band)
	switch {
	case f.Band != "" && !isTier && f.Band != inspect.Beyond:
		return &Problem{http.StatusBadRequest, "band must be the name of a tier, or beyond."}
	case f.Lane != "" && !isLane(f.Lane):
		return &Problem{http.StatusBadRequest, "lane must be fresh or failed."}
	case f.State != "" && !slices.Contains(n.knownStates(), f.State):
		return &Problem{http.StatusBadRequest, "state must be one of " + strings.Join(n.knownStates(), ", ") + "."}
	}
	return nil
}

// On returns a path with the filter as its query, without After and Limit. more are further names and
// values.
func (f Filter) On(path string, more ...string) string {
	return address(path, append([]string{"band", f.Band, "lane", f.Lane, "state", f.State, "cause", f.Cause, "q", f.ID}, more...)...)
}

// textZone returns the zone of dates within texts. In the API it is UTC, as with --json.
func (v *visit) textZone() *time.Location {
	if v.api() {
		return nil
	}
	return v.Now.zone()
}

// shorten clips the texts of a record, because a table may have an error of megabytes.
func shorten(e *inspect.Entry, data []Cell) {
	e.LastError = clipped(e.LastError)
	for i := range data {
		data[i].Value = clipped(data[i].Value)
	}
}

// clipped returns a copy of the text from [clip]; nil stays nil.
func clipped(text *string) *string {
	if text == nil {
		return nil
	}
	return new(clip(text))
}

// records answers with a page of the records that match the query.
func (v *visit) records() (any, error) {
	data := struct {
		Records
		Filter    `json:"-"`
		Columns   []Cell `json:"-"`
		Attempts  bool   `json:"-"` // a record has a number of attempts
		LastError bool   `json:"-"` // a record has a last error
	}{}
	f, err := v.filter()
	if err != nil {
		return nil, err
	}
	data.Filter = f
	data.Records, err = ask(v, askTimeout, func(ctx context.Context) (Records, error) { return v.backlog.Records(ctx, f, v.textZone()) })
	v.Now = v.backlog.Now() // now it knows Choices, because the table was read
	data.Records.Records = append([]Entry{}, data.Records.Records...)
	for i := range data.Records.Records {
		e := &data.Records.Records[i]
		shorten(&e.Entry, e.Data)
		data.Columns = e.Data
		data.Attempts = data.Attempts || e.Tried != nil
		data.LastError = data.LastError || e.LastError != nil
	}
	return data, err
}

// record answers with the record of the query.
func (v *visit) record() (any, error) {
	if !v.r.URL.Query().Has("id") {
		return nil, &Problem{http.StatusBadRequest, "Name a record: ?id=…"}
	}
	r, err := ask(v, askTimeout, func(ctx context.Context) (Record, error) { return v.backlog.Record(ctx, v.Query("id"), v.textZone()) })
	if r.Sheet != nil {
		shorten(&r.Entry, r.Data)
	}
	return r, err
}

// Facts returns the names and texts of the record's lines, without those that the page shows in
// another place.
func (r Record) Facts() [][2]string {
	var facts [][2]string
	elsewhere := []string{"record", "last error", "due", "next attempt"}
	for _, l := range r.Lines {
		name, text, _ := strings.Cut(l, "\t")
		if !slices.Contains(elsewhere, name) {
			facts = append(facts, [2]string{name, clip(text)})
		}
	}
	return facts
}

// A trial is a schedule that a visitor tries out, and what came of it.
type trial struct {
	YAML    string      `json:"-"`
	Problem string      `json:"-"`
	Result  *Simulation `json:"-"`
	Plot    string      `json:"-"` // the path of the picture
}

// try simulates a schedule, one at a time, and keeps the picture for a while.
func (v *visit) try(yaml string) (trial, error) {
	t := trial{YAML: yaml}
	if !v.simulating.TryLock() {
		return t, &Problem{http.StatusConflict, "Another simulation runs; try again when it has ended."}
	}
	defer v.simulating.Unlock()
	result, err := ask(v, askTimeout, func(ctx context.Context) (Simulation, error) { return v.backlog.Simulate(ctx, yaml) })
	if p := new(Problem); errors.As(err, &p) && p.Status == http.StatusBadRequest && !v.api() {
		t.Problem = p.Text
		return t, nil
	}
	t.Result = &result
	if err != nil {
		return t, err
	}
	id := random()
	t.Plot = "/plot/" + id
	v.mu.Lock()
	defer v.mu.Unlock()
	v.plots.Add(id, result.Plot)
	return t, nil
}

// maxPlots is how many pictures are kept for browsers, which fetch them after the page.
const maxPlots = 16

// plot answers with the picture of a simulation.
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

// simulate simulates the schedule in the body of the request.
func (v *visit) simulate() (any, error) {
	yaml, err := io.ReadAll(v.r.Body)
	if err != nil {
		return nil, errors.Join(err, &Problem{http.StatusBadRequest, "The body ends early, or cannot be read."})
	}
	t, err := v.try(string(yaml))
	return t.Result, err
}
