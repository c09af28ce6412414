package doctor

import (
	"context"
	"errors"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
)

// A Sample is one attempt with a record that a person looks at.
type Sample struct {
	ID         backlog.Key   `json:"id"`
	Status     string        `json:"status"`
	State      string        `json:"state"` // in the words of explain
	Tier       string        `json:"tier"`  // of the pass that would take it next; "": none
	Outcome    string        `json:"outcome"`
	Error      string        `json:"error"` // of the handler
	Duration   float64       `json:"duration_seconds"`
	PauseUntil inspect.Stamp `json:"pause_until"`            // zero: the handler does not ask for a pause
	Snoozed    inspect.Stamp `json:"snoozed_until,omitzero"` // zero: the handler does not snooze it
	Transcript string        `json:"transcript"`
}

// Attempt makes the attempt, by a pass over the only record of the store one. It settles nothing. It
// changes the engine, whose Now must be set. It returns an error if the handler could not be called.
func (s *Sample) Attempt(ctx context.Context, e *backlog.Engine, one backlog.Store, now time.Time) error {
	handler := e.Handler
	e.Store = discardingStore{one}
	e.Policy = nil
	e.OnDead = nil
	e.Observe = func(ev backlog.Event) {
		switch ev.Kind {
		case backlog.AttemptEnded:
			s.Outcome = ev.Outcome.String()
			s.Snoozed = inspect.Stamp(ev.Until)
			if ev.Err != nil {
				s.Error = ev.Err.Error()
			}
		case backlog.Paused:
			s.PauseUntil = inspect.Stamp(ev.At)
		}
	}
	e.Handler = backlog.HandlerFunc(func(ctx context.Context, r *backlog.Record) error {
		began := e.Now()
		defer func() { s.Duration = e.Now().Sub(began).Seconds() }()
		if h, ok := handler.(backlog.TrialHandler); ok {
			return h.Try(ctx, r)
		}
		return handler.Handle(ctx, r)
	})
	report, err := e.Pass(ctx, backlog.Pass{Tier: s.Tier, Now: now})
	if err == nil && (s.Outcome == "" || report.Interrupted > 0) {
		err = errors.New("stopped before the handler answered")
	}
	return err
}

// A discardingStore accepts outcomes without writing them.
type discardingStore struct{ backlog.Store }

// Settle implements backlog.Store.
func (discardingStore) Settle(context.Context, []backlog.Settlement) ([]backlog.Unsettled, error) {
	return nil, nil
}
