package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"backlog/backlog/watch"
	"backlog/tiers"
)

const (
	maxRetry  = 100_000
	retryFor  = 5 * time.Minute // that a retry may take
	maxPause  = 7 * 24 * time.Hour
	untilForm = "2006-01-02T15:04" // of a field for date and time
)

// A confirmation is the first step of an action: what would be done.
type confirmation struct {
	Notice   string // why it is asked again
	Text     string
	Where    string
	Examples []string
	Action   string
	Fields   [][2]string
	Button   string // empty: it cannot be done
	Back     string
}

// did writes the line that each action leaves.
func (v *visit) did(what string, err error, args ...any) {
	outcome := "done"
	if err != nil {
		outcome = err.Error()
	}
	v.log.Info("somebody acted", append([]any{"what", what, "by", v.Who(), "address", v.r.RemoteAddr, "outcome", outcome}, args...)...)
}

// choose counts what a retry would mean.
func (v *visit) choose(f Filter) (c Choice, err error) {
	err = v.ask(askFor, func(ctx context.Context) error {
		c, err = v.backlog.Choose(ctx, f)
		return err
	})
	return c, err
}

// putBack retries what the filter means.
func (v *visit) putBack(f Filter, expect int) (r Retried, err error) {
	if expect < 1 || expect > maxRetry {
		return r, &Problem{http.StatusBadRequest, "At most 100,000 records are retried at once, and at least one; narrow the filter."}
	}
	rc := http.NewResponseController(v.w)
	rc.SetWriteDeadline(v.at.Add(2 * retryFor)) //nolint:errcheck // a test has none
	err = v.ask(retryFor, func(ctx context.Context) error {
		r, err = v.backlog.Retry(ctx, f, expect)
		return err
	})
	v.did("retry", err, "filter", strings.TrimPrefix(f.address(""), "?"), "expected", expect, "reset", r.Reset, "conflicts", r.Conflicts)
	return r, err
}

// retry is both steps: without the number that the first one has shown it is the first.
func (v *visit) retry() error {
	f, err := v.filter()
	if err == nil {
		err = v.form()
	}
	if err != nil {
		return err
	}
	f.After = ""
	status, notice := http.StatusOK, ""
	if text := v.r.PostFormValue("expect"); text != "" {
		expect, _ := strconv.Atoi(text)
		r, err := v.putBack(f, expect)
		if p, ok := err.(*Problem); ok && p.Status == http.StatusConflict {
			status, notice = p.Status, p.Text
		} else if err != nil {
			return err
		} else {
			v.redirect(f.address("/records", "retried", strconv.Itoa(r.Reset), "conflicts", strconv.Itoa(r.Conflicts)))
			return nil
		}
	}
	c, err := v.choose(f)
	if err != nil {
		return err
	}
	data := confirmation{
		Notice: notice, Where: c.Where, Action: f.address("/retry"), Fields: [][2]string{{"expect", strconv.Itoa(c.Records)}}, Back: f.address("/records"),
		Text: thousands(c.Records) + " records would be retried.", Button: "Retry " + thousands(c.Records) + " records",
	}
	switch {
	case c.Records == 0:
		data.Text, data.Button = "There is nothing to retry.", ""
	case c.Records == 1:
		data.Text, data.Button = "1 record would be retried.", "Retry 1 record"
	case c.Records > maxRetry:
		data.Text, data.Button = thousands(c.Records)+" records: that is more than 100,000, which are retried at most at once. Narrow the filter.", ""
	}
	for _, k := range first(c.Examples, 3) {
		data.Examples = append(data.Examples, k.String())
	}
	v.render(status, page{Name: "confirm", Title: "Retry", Data: data})
	return nil
}

// until reads the end of a pause.
func (v *visit) until(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t, err = time.ParseInLocation(untilForm, text, v.backlog.Now().zone())
	}
	switch {
	case err != nil:
		return t, &Problem{http.StatusBadRequest, "until must be a time such as 2026-01-31T09:00:00Z."}
	case !t.After(v.at) || t.Sub(v.at) > maxPause:
		return t, &Problem{http.StatusBadRequest, "A pause ends in the future, within " + tiers.FormatDuration(maxPause) + "."}
	}
	return t, nil
}

// stop begins a pause.
func (v *visit) stop(until time.Time, reason string) error {
	until = until.UTC()
	err := v.backlog.Pause(&watch.Pause{Until: &until, Reason: clip(reason), By: "web, " + v.r.RemoteAddr})
	v.did("pause", err, "until", until, "reason", clip(reason))
	return err
}

func (v *visit) goOn() error {
	err := v.backlog.Pause(nil)
	v.did("resume", err)
	return err
}

func (v *visit) pause() error {
	if err := v.form(); err != nil {
		return err
	}
	until, err := v.until(v.r.PostFormValue("until"))
	reason := v.r.PostFormValue("reason")
	switch {
	case err != nil:
		return err
	case v.r.PostFormValue("confirm") == "":
		v.render(http.StatusOK, page{Name: "confirm", Title: "Pause", Data: confirmation{
			Text: fmt.Sprintf("Nothing would be started until %s. What runs then ends.", until.In(v.backlog.Now().zone()).Format("2006-01-02 15:04 MST")), Where: reason,
			Action: "/pause", Fields: [][2]string{{"until", until.UTC().Format(time.RFC3339)}, {"reason", reason}, {"confirm", "yes"}}, Button: "Pause", Back: "/",
		}})
		return nil
	}
	if err := v.stop(until, reason); err != nil {
		return err
	}
	v.redirect("/")
	return nil
}

func (v *visit) resume() error {
	if err := v.form(); err != nil {
		return err
	}
	if v.r.PostFormValue("confirm") == "" {
		v.render(http.StatusOK, page{Name: "confirm", Title: "Resume", Data: confirmation{
			Text: "The pause would end now.", Action: "/resume", Fields: [][2]string{{"confirm", "yes"}}, Button: "Resume", Back: "/",
		}})
		return nil
	}
	if err := v.goOn(); err != nil {
		return err
	}
	v.redirect("/")
	return nil
}
