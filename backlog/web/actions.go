package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"backlog/backlog/inspect"
	"backlog/backlog/watch"
	"backlog/tiers"
)

const (
	maxRetry  = 100_000
	retryFor  = 5 * time.Minute // that a retry may take
	maxPause  = 7 * 24 * time.Hour
	untilForm = "2006-01-02T15:04" // of a field for date and time
)

// An order is what somebody wants done: JSON, or a form, whose filter is in the address.
type order struct {
	ID        json.RawMessage `json:"id"`
	Filter    *Filter         `json:"filter"`
	Expect    *int            `json:"expect"`
	Until     string          `json:"until"`
	Reason    string          `json:"reason"`
	UID       string          `json:"uid"`
	Outcome   string          `json:"outcome"`
	Confirmed bool            `json:"-"` // the second step of a form; a program needs no first
}

func (v *visit) order() (o order, err error) {
	if !v.api() {
		err := v.form()
		f, err2 := v.filter()
		f.After, f.Limit = "", 0
		o = order{Filter: &f, Until: v.r.PostFormValue("until"), Reason: clip(v.r.PostFormValue("reason")), Confirmed: v.r.PostFormValue("confirm") != ""}
		if n, err := strconv.Atoi(v.r.PostFormValue("expect")); err == nil {
			o.Expect = &n
		}
		return o, errors.Join(err, err2)
	}
	d := json.NewDecoder(v.r.Body)
	d.DisallowUnknownFields() // a filter with a typo would mean everything
	if err = d.Decode(&o); err == nil && d.More() {
		err = errors.New("there is more behind it")
	}
	if err != nil {
		err = errors.Join(err, &Problem{http.StatusBadRequest, "The body is no JSON of this request: " + clip(err.Error()) + "."})
	}
	o.Confirmed, o.Reason = true, clip(o.Reason)
	return o, err
}

// meant returns the records that an order is about, in words that n knows.
func (o *order) meant(n Now) (Filter, error) {
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
	Notice  string        `json:"-"` // why it is asked again
	Action  string        `json:"-"`
	Confirm string        `json:"-"` // what the button says; empty: it cannot be done
	Ends    inspect.Stamp `json:"-"` // of the pause
	order   `json:"-"`
	Choice
}

// did writes the line that each action leaves.
func (v *visit) did(what string, err error, args ...any) error {
	outcome := "done"
	if err != nil {
		outcome = err.Error()
	}
	v.log.Info("somebody acted", append([]any{"what", what, "by", v.right.String(), "address", v.r.RemoteAddr, "outcome", outcome}, args...)...)
	return err
}

// retry is both steps: without the number that the first one has shown it is the first.
func (v *visit) retry() (any, error) {
	o, err := v.order()
	if err != nil {
		return nil, err
	}
	f, err := o.meant(v.Now)
	if err != nil {
		return nil, err
	}
	c := confirmation{Action: f.On("/retry"), order: order{Filter: &f}}
	if o.Expect != nil {
		r, err := v.putBack(f, *o.Expect)
		p, ok := errors.AsType[*Problem](err)
		if !ok || p.Status != http.StatusConflict || v.api() {
			return done{r, f.On("/records", r.query()...)}, err
		}
		c.Notice = p.Text // there are more by now
		v.code = p.Status
	}
	c.Choice, err = ask(v, askFor, func(ctx context.Context) (Choice, error) { return v.backlog.Choose(ctx, f) })
	if c.Records > 0 && c.Records <= maxRetry {
		c.Confirm = "Retry"
	}
	return c, err
}

// putBack retries what the filter means.
func (v *visit) putBack(f Filter, expect int) (r Retried, err error) {
	if expect < 1 || expect > maxRetry {
		return r, &Problem{http.StatusBadRequest, "At most 100,000 records are retried at once, and at least one; narrow the filter."}
	}
	http.NewResponseController(v.w).SetWriteDeadline(time.Time{}) // none: this may take longer than an answer
	r, err = ask(v, retryFor, func(ctx context.Context) (Retried, error) { return v.backlog.Retry(ctx, f, expect) })
	return r, v.did("retry", err, "filter", strings.TrimPrefix(f.On(""), "?"), "expected", expect, "reset", r.Reset, "conflicts", r.Conflicts, "refused", r.Refused)
}

// query is what the page that comes next shows of it.
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

// done is an action's outcome: what a program is told, and where people go then.
type done struct {
	answer any
	path   string
}

func (v *visit) pause() (any, error) {
	o, err := v.order()
	if err != nil {
		return nil, err
	}
	t, err := time.Parse(time.RFC3339, o.Until)
	if err != nil {
		t, err = time.ParseInLocation(untilForm, o.Until, v.Now.zone())
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

// resume needs no body.
func (v *visit) resume() (any, error) {
	if !v.api() && v.r.PostFormValue("confirm") == "" {
		return confirmation{Action: "/resume", Confirm: "Resume"}, nil
	}
	return v.setPause("resume", nil)
}

func (v *visit) setPause(what string, p *watch.Pause) (any, error) {
	err := v.did(what, v.backlog.Pause(p), "pause", p)
	return done{map[string]any{"pause": v.backlog.Now().Pause}, "/"}, err
}

// resolve is for programs alone.
func (v *visit) resolve() (any, error) {
	o, err := v.order()
	if err == nil && (o.Outcome != "success" && o.Outcome != "error" || o.UID == "") {
		err = &Problem{http.StatusBadRequest, "Give uid, and outcome: success or error."}
	}
	if err != nil {
		return nil, err
	}
	_, err = ask(v, askFor, func(ctx context.Context) (any, error) { return nil, v.backlog.Resolve(ctx, o.UID, o.Outcome, o.Reason) })
	err = v.did("resolve", err, "uid", clip(o.UID), "as", o.Outcome)
	return map[string]any{"uid": o.UID, "outcome": o.Outcome, "applied": true}, err
}
