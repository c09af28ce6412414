package backlog

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// An Outcome is what became of one attempt.
type Outcome int

const (
	Succeeded  Outcome = iota // the handler did its work
	Errored                   // it failed; schedule and policy try again
	Rejected                  // it failed and trying again is useless
	Skipped                   // not an attempt; the row stays as it was
	HandedOver                // the outcome follows; refresh policy only
)

// String returns the outcome's word: "success", "error", "reject", "skip" or "accepted".
func (o Outcome) String() string {
	return [...]string{"success", "error", "reject", "skip", "accepted"}[o]
}

// Target returns the state that a settlement of the outcome reaches while the
// policy has not given the record up; RowOther: it ends no attempt.
func (o Outcome) Target() RowState {
	switch o {
	case Succeeded:
		return RowSuccess
	case Rejected:
		return RowDead
	case Skipped, HandedOver:
		return RowOther
	}
	return RowError
}

// Skip is returned by a Handler that made no attempt: the row is left exactly
// as it was. Errors that wrap it count too.
//
//lint:ignore ST1012 it reads as the answer it is: return backlog.Skip
var Skip = errors.New("skipped")

// Reject returns an error that says the record can never succeed. With a dead
// status configured the record gets it, else the error status. It wraps err;
// Reject(nil) is a rejection without a reason.
func Reject(err error) error { return &rejection{cmp.Or(err, errors.New("rejected"))} }

type rejection struct{ error }

func (r *rejection) Unwrap() error { return r.error }

// RetryAfter returns an error by which a handler asks for a pause: no handler
// call of this engine starts before wait has passed (at most
// [Engine.MaxPause]). The record itself is an error. It wraps err.
func RetryAfter(wait time.Duration, err error) error {
	return &pauseRequest{cmp.Or(err, fmt.Errorf("asked to pause for %v", wait)), wait}
}

type pauseRequest struct {
	error
	wait time.Duration
}

func (p *pauseRequest) Unwrap() error { return p.error }

// PauseOf returns the pause that a handler's error asks for, and whether it does.
func PauseOf(err error) (wait time.Duration, asks bool) {
	p := (*pauseRequest)(nil)
	if errors.As(err, &p) {
		return max(0, p.wait), true
	}
	return 0, false
}

// Unstarted returns an error by which a handler says that it could not even
// begin: what is wrong is wrong with the handler, not with the record. The row
// is left as it was, as by [Skip], and the pass ends with the error. It wraps
// err.
func Unstarted(err error) error { return &unstarted{err} }

type unstarted struct{ error }

func (u *unstarted) Unwrap() []error { return []error{u.error, Skip} }

// Worded returns an error with a text for people, and the causes that errors.Is
// and errors.As find behind it.
func Worded(text string, causes ...error) error { return &worded{text, causes} }

type worded struct {
	text   string
	causes []error
}

func (w *worded) Error() string   { return w.text }
func (w *worded) Unwrap() []error { return w.causes }

// OutcomeOf returns the outcome that a handler's error stands for.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Succeeded
	case errors.Is(err, Skip):
		return Skipped
	case errors.Is(err, Accepted):
		return HandedOver
	case errors.As(err, new(*rejection)):
		return Rejected
	}
	return Errored
}
