package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	maxRetry     = 100_000         // records at once
	retryTimeout = 5 * time.Minute // of a retry
	maxPause     = 7 * 24 * time.Hour
	untilLayout  = "2006-01-02T15:04" // of an input of type datetime-local
)

// An order is an action that a visitor asks for: the JSON of the API, or a form with its filter in the
// address.
type order struct {
	ID        json.RawMessage `json:"id"`
	Filter    *Filter         `json:"filter"`
	Expect    *int            `json:"expect"`
	Until     string          `json:"until"`
	Reason    string          `json:"reason"`
	UID       string          `json:"uid"`
	Outcome   string          `json:"outcome"`
	Snooze    any             `json:"snooze"`
	Confirmed bool            `json:"-"` // the second step of a form; the API has no first one
}

// order reads the order of the request.
func (v *visit) order() (o order, err error) {
	if !v.api() {
		err := v.form()
		f, err2 := v.filter()
		f.After = ""
		f.Limit = 0
		o = order{
			Filter:    &f,
			Until:     v.r.PostFormValue("until"),
			Reason:    clip(v.r.PostFormValue("reason")),
			Confirmed: v.r.PostFormValue("confirm") != "",
		}
		if n, err := strconv.Atoi(v.r.PostFormValue("expect")); err == nil {
			o.Expect = &n
		}
		return o, errors.Join(err, err2)
	}
	d := json.NewDecoder(v.r.Body)
	d.DisallowUnknownFields() // a filter with a typo would match everything
	err = d.Decode(&o)
	if err == nil && d.More() {
		err = errors.New("there is more behind it")
	}
	if err != nil {
		err = errors.Join(err, &Problem{http.StatusBadRequest, "The body is no JSON of this request: " + clip(err.Error()) + "."})
	}
	o.Confirmed = true
	o.Reason = clip(o.Reason)
	return o, err
}

// filter returns which records the order is about. It checks the words of the filter by n.
func (o *order) filter(n Now) (Filter, error) {
	if (o.ID == nil) == (o.Filter == nil) {
		return Filter{}, &Problem{http.StatusBadRequest, "Give one of id and filter."}
	}
	if o.Filter != nil {
		return *o.Filter, o.Filter.check(n)
	}
	f := Filter{ID: keyText(o.ID)}
	o.Expect = cmp.Or(o.Expect, new(1))
	if f.ID == "" {
		return f, &Problem{http.StatusBadRequest, "id is empty, which would mean every record."}
	}
	return f, nil
}

// A confirmation is the first step of an action: what would be done.
type confirmation struct {
	Notice  string        `json:"-"` // why a confirmation is needed again
	Action  string        `json:"-"` // the path of the form
	Confirm string        `json:"-"` // the label of the button; "": the action is not possible
	Ends    inspect.Stamp `json:"-"` // the end of the pause
	order   `json:"-"`
	Choice
}

// logAction logs an action and returns its error.
func (v *visit) logAction(what string, err error, args ...any) error {
	outcome := "done"
	if err != nil {
		outcome = err.Error()
	}
	who := []any{"what", what, "by", v.right.String(), "address", v.r.RemoteAddr, "outcome", outcome}
	v.log.Info("action taken", append(who, args...)...)
	return err
}

// retry answers both steps of a retry. The second one has the number of records that the first one
// has shown.
func (v *visit) retry() (any, error) {
	o, err := v.order()
	if err != nil {
		return nil, err
	}
	f, err := o.filter(v.Now)
	if err != nil {
		return nil, err
	}
	c := confirmation{Action: f.On("/retry"), order: order{Filter: &f}}
	if o.Expect != nil {
		r, err := v.reset(f, *o.Expect)
		p, ok := errors.AsType[*Problem](err)
		conflict := ok && p.Status == http.StatusConflict // there are many more by now
		if !conflict || v.api() {
			return actionResult{answer: r, next: f.On("/records", r.query()...)}, err
		}
		c.Notice = p.Text
		v.code = p.Status
	}
	c.Choice, err = ask(v, askTimeout, func(ctx context.Context) (Choice, error) { return v.backlog.Choose(ctx, f) })
	if c.Records > 0 && c.Records <= maxRetry {
		c.Confirm = "Retry"
	}
	return c, err
}

// reset resets the records that match the filter, about as many as are expected.
func (v *visit) reset(f Filter, expect int) (Retried, error) {
	if expect < 1 || expect > maxRetry {
		return Retried{}, &Problem{http.StatusBadRequest, "At most 100,000 records are retried at once, and at least one; narrow the filter."}
	}
	http.NewResponseController(v.w).SetWriteDeadline(time.Time{}) // no deadline: a retry may take longer than other answers
	r, err := ask(v, retryTimeout, func(ctx context.Context) (Retried, error) { return v.backlog.Retry(ctx, f, expect) })
	return r, v.logAction("retry", err, "filter", strings.TrimPrefix(f.On(""), "?"),
		"expected", expect, "reset", r.Reset, "conflicts", r.Conflicts, "refused", r.Refused)
}

// query returns the names and values by which the next page shows what was done.
func (r *Retried) query() []string {
	list := []string{"retried", strconv.Itoa(r.Reset), "conflicts", strconv.Itoa(r.Conflicts)}
	if r.Refused == 0 {
		return list
	}
	ids := make([]string, len(r.Refusals))
	for i, x := range r.Refusals {
		ids[i] = clip(x.ID.String())
	}
	first := r.Refusals[0]
	return append(list, "refused", strconv.Itoa(r.Refused), "ids", clip(strings.Join(ids, ", ")), "why", clip(first.Error))
}

// An actionResult is what an action has done: the answer of the API, and the next page of a browser.
type actionResult struct {
	answer any
	next   string // its path
}

// pause answers both steps of a pause.
func (v *visit) pause() (any, error) {
	o, err := v.order()
	if err != nil {
		return nil, err
	}
	t, err := time.Parse(time.RFC3339, o.Until)
	if err != nil {
		t, err = time.ParseInLocation(untilLayout, o.Until, v.Now.zone())
	}
	switch {
	case err != nil:
		return nil, &Problem{http.StatusBadRequest, "until must be a time such as 2026-01-31T09:00:00Z."}
	case !t.After(v.at) || t.Sub(v.at) > maxPause:
		return nil, &Problem{http.StatusBadRequest, "A pause ends in the future, within " + tiers.FormatDuration(maxPause) + "."}
	}
	t = t.UTC()
	if !o.Confirmed {
		o.Until = t.Format(time.RFC3339)
		return confirmation{Action: "/pause", Confirm: "Pause", Ends: inspect.Stamp(t), order: o}, nil
	}
	return v.setPause("pause", &watch.Pause{Until: &t, Reason: o.Reason, By: "web, " + v.r.RemoteAddr})
}

// resume answers both steps of the end of a pause. It needs no body.
func (v *visit) resume() (any, error) {
	if !v.api() && v.r.PostFormValue("confirm") == "" {
		return confirmation{Action: "/resume", Confirm: "Resume"}, nil
	}
	return v.setPause("resume", nil)
}

// setPause begins a pause; nil ends it.
func (v *visit) setPause(what string, p *watch.Pause) (any, error) {
	err := v.logAction(what, v.backlog.Pause(p), "pause", p)
	return actionResult{answer: map[string]any{"pause": v.backlog.Now().Pause}, next: "/"}, err
}

// resolve gives an attempt its outcome. It is in the API only.
func (v *visit) resolve() (any, error) {
	o, err := v.order()
	valid := o.UID != "" && slices.Contains([]string{"success", "error", "snooze"}, o.Outcome)
	if err == nil && !valid {
		err = &Problem{http.StatusBadRequest, "Give uid, and outcome: success, error or snooze."}
	}
	if err != nil {
		return nil, err
	}
	_, err = ask(v, askTimeout, func(ctx context.Context) (any, error) {
		return nil, v.backlog.Resolve(ctx, Resolution{o.UID, o.Outcome, o.Reason, o.Snooze})
	})
	err = v.logAction("resolve", err, "uid", clip(o.UID), "as", o.Outcome)
	return map[string]any{"uid": o.UID, "outcome": o.Outcome, "applied": true}, err
}
