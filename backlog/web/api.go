package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"backlog/backlog/inspect"
	"backlog/backlog/watch"
)

// A status is the table as `backlog status` has it, and the process.
type status struct {
	*inspect.Status
	Role    string        `json:"role"`
	Version string        `json:"version"`
	Counted inspect.Stamp `json:"counted_at"`
	Away    inspect.Stamp `json:"unavailable_since"`
	Outage  *watch.Outage `json:"outage"`
	Pause   *watch.Pause  `json:"pause"`
}

func (v *visit) apiStatus() error {
	n := v.backlog.Now()
	return v.json(http.StatusOK, status{n.Counts, n.Role, n.Version, inspect.Stamp(n.Counted), inspect.Stamp(n.Away), n.Picture.Outage(), n.Pause})
}

func (v *visit) apiSchedule() error {
	ticks, _, more, err := v.coming(v.backlog.Now())
	if err != nil {
		return err
	}
	return v.json(http.StatusOK, map[string]any{"ticks": ticks, "complete": !more})
}

func (v *visit) apiExplain() error {
	r, err := v.one()
	if err != nil {
		return err
	}
	return v.json(http.StatusOK, r)
}

func (v *visit) apiPasses() error {
	list, _, err := v.somePasses(v.backlog.Now())
	if err != nil {
		return err
	}
	return v.json(http.StatusOK, map[string]any{"passes": list})
}

func (v *visit) apiCauses() error {
	f := v.backlog.Now().Picture.Failures()
	return v.json(http.StatusOK, map[string]any{"causes": orEmpty(f.Causes), "since": inspect.Stamp(f.Since), "attempts": f.Attempts})
}

func (v *visit) apiSuspects() error {
	return v.json(http.StatusOK, map[string]any{"suspects": orEmpty(v.backlog.Now().Picture.Suspects())})
}

// orEmpty is a list in JSON even if there is nothing.
func orEmpty[T any](list []T) []T { return append([]T{}, list...) }

func (v *visit) apiRecords() error {
	_, r, err := v.some()
	if err != nil {
		return err
	}
	return v.json(http.StatusOK, r)
}

// body reads the request's JSON. A key that is none is refused: a filter with a typo would
// mean everything.
func (v *visit) body(x any) error {
	d := json.NewDecoder(v.r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(x)
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return err
	} else if err != nil {
		return &Problem{http.StatusBadRequest, "The body is no JSON of this request: " + clip(err.Error()) + "."}
	}
	return nil
}

// id is a key as JSON has it: text, or the text of anything else.
func id(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var b bytes.Buffer
	json.Compact(&b, raw) //nolint:errcheck // it was decoded
	return b.String()
}

// apiRetry counts what the filter means if no number is expected.
func (v *visit) apiRetry() error {
	var x struct {
		ID     json.RawMessage `json:"id"`
		Filter *struct {
			Band  string          `json:"band"`
			Lane  string          `json:"lane"`
			State string          `json:"state"`
			Cause string          `json:"cause"`
			Q     json.RawMessage `json:"q"`
		} `json:"filter"`
		Expect *int `json:"expect"`
	}
	if err := v.body(&x); err != nil {
		return err
	}
	if (x.ID == nil) == (x.Filter == nil) {
		return &Problem{http.StatusBadRequest, "Give one of id and filter."}
	}
	f := Filter{}
	if x.ID != nil {
		one := 1
		if f.ID = id(x.ID); x.Expect == nil {
			x.Expect = &one
		}
	} else {
		f = Filter{Band: x.Filter.Band, Lane: x.Filter.Lane, State: x.Filter.State, Cause: x.Filter.Cause, ID: id(x.Filter.Q)}
	}
	if x.ID != nil && f.ID == "" {
		return &Problem{http.StatusBadRequest, "id is empty, which would mean every record."}
	}
	if err := f.check(v.backlog.Now()); err != nil {
		return err
	}
	if x.Expect == nil {
		c, err := v.choose(f)
		if err != nil {
			return err
		}
		return v.json(http.StatusOK, c)
	}
	r, err := v.putBack(f, *x.Expect)
	if err != nil {
		return err
	}
	return v.json(http.StatusOK, r)
}

func (v *visit) apiPause() error {
	var x struct {
		Until  string `json:"until"`
		Reason string `json:"reason"`
	}
	err := v.body(&x)
	if err != nil {
		return err
	}
	until, err := v.until(x.Until)
	if err == nil {
		err = v.stop(until, x.Reason)
	}
	if err != nil {
		return err
	}
	return v.json(http.StatusOK, map[string]any{"pause": v.backlog.Now().Pause})
}

func (v *visit) apiResume() error {
	if err := v.goOn(); err != nil {
		return err
	}
	return v.json(http.StatusOK, map[string]any{"pause": v.backlog.Now().Pause})
}

func (v *visit) apiResolve() error {
	var x struct {
		UID     string `json:"uid"`
		Outcome string `json:"outcome"`
		Reason  string `json:"reason"`
	}
	if err := v.body(&x); err != nil {
		return err
	}
	if x.Outcome != "success" && x.Outcome != "error" || x.UID == "" {
		return &Problem{http.StatusBadRequest, "Give uid, and outcome: success or error."}
	}
	err := v.ask(askFor, func(ctx context.Context) error { return v.backlog.Resolve(ctx, x.UID, x.Outcome, clip(x.Reason)) })
	v.did("resolve", err, "uid", clip(x.UID), "as", x.Outcome)
	if err != nil {
		return err
	}
	return v.json(http.StatusOK, map[string]any{"uid": x.UID, "outcome": x.Outcome, "applied": true})
}

func (v *visit) apiSimulate() error {
	yaml, err := io.ReadAll(v.r.Body)
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(yaml)) == "" {
		return &Problem{http.StatusBadRequest, "The body is the schedule: YAML or JSON with the key tiers."}
	}
	result, err := v.simulate(string(yaml))
	if err != nil {
		return err
	}
	return v.json(http.StatusOK, result)
}
