package backlog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"backlog/backlog"
)

func TestOutcomeOf(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want backlog.Outcome
	}{
		{"nil", nil, backlog.Succeeded},
		{"any error", errBroken, backlog.Errored},
		{"a cancelled context", context.Canceled, backlog.Errored},
		{"a timeout", context.DeadlineExceeded, backlog.Errored},
		{"Skip", backlog.Skip, backlog.Skipped},
		{"Skip, wrapped", fmt.Errorf("not now: %w", backlog.Skip), backlog.Skipped},
		{"Skip, joined", errors.Join(errBroken, backlog.Skip), backlog.Skipped},
		{"another error that reads like Skip", errors.New(backlog.Skip.Error()), backlog.Errored},
		{"Reject", backlog.Reject(errBroken), backlog.Rejected},
		{"Reject without a reason", backlog.Reject(nil), backlog.Rejected},
		{"Reject, wrapped twice", fmt.Errorf("b: %w", fmt.Errorf("a: %w", backlog.Reject(errBroken))), backlog.Rejected},
		{"Reject, joined", errors.Join(errBroken, backlog.Reject(nil)), backlog.Rejected},
		{"RetryAfter", backlog.RetryAfter(time.Second, errBroken), backlog.Errored},
		{"RetryAfter without a reason", backlog.RetryAfter(time.Second, nil), backlog.Errored},
		{"RetryAfter of a rejection", backlog.RetryAfter(time.Second, backlog.Reject(errBroken)), backlog.Rejected},
		{"RetryAfter of a skip", backlog.RetryAfter(time.Second, backlog.Skip), backlog.Skipped},
	} {
		if got := backlog.OutcomeOf(c.err); got != c.want {
			t.Errorf("%s: want %v, got %v", c.name, c.want, got)
		}
	}
}

func TestOutcomeErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		text string
		is   error // what it wraps
	}{
		{backlog.Reject(errBroken), errBroken.Error(), errBroken},
		{backlog.Reject(nil), "rejected", nil},
		{backlog.RetryAfter(time.Minute, errBroken), errBroken.Error(), errBroken},
		{backlog.RetryAfter(time.Minute, nil), "asked to pause for 1m0s", nil},
	} {
		if c.err.Error() != c.text {
			t.Errorf("want the text %q, got %q", c.text, c.err)
		}
		if c.is != nil && !errors.Is(c.err, c.is) {
			t.Errorf("want %q to wrap the handler's own error", c.err)
		}
	}
}

func TestOutcomeString(t *testing.T) {
	for o, want := range map[backlog.Outcome]string{
		backlog.Succeeded: "success", backlog.Errored: "error", backlog.Rejected: "reject", backlog.Skipped: "skip",
	} {
		if got := o.String(); got != want {
			t.Errorf("want outcome %d to be called %q, got %q", int(o), want, got)
		}
	}
}
