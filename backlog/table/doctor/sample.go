package doctor

import (
	"context"
	"errors"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
)

// A Sample is one record that is handed to the handler for people to look at.
type Sample struct {
	ID         backlog.Key   `json:"id"`
	Status     string        `json:"status"`
	State      string        `json:"state"` // as explain has it
	Tier       string        `json:"tier"`  // whose pass would take it next; "": none
	Outcome    string        `json:"outcome"`
	Error      string        `json:"error"` // the handler's
	Duration   float64       `json:"duration_seconds"`
	PauseUntil inspect.Stamp `json:"pause_until"` // zero: the handler asks for no pause
	Transcript string        `json:"transcript"`
}

// Take makes the attempt: a pass of the engine over the one record that the store has. Nothing is settled. The
// error says that the handler could not be called. It changes the engine, whose Now is required.
func (s *Sample) Attempt(ctx context.Context, e *backlog.Engine, one backlog.Store, now time.Time) error {
	handler := e.Handler
	e.Store = discardingStore{one}
	e.Policy = nil
	e.OnDead = nil
	e.Observe = func(ev backlog.Event) {
		switch ev.Kind {
		case backlog.AttemptEnded:
			s.Outcome = ev.Outcome.String()
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

// A forgetful store takes outcomes, and writes none.
type discardingStore struct{ backlog.Store }

// Settle implements backlog.Store.
func (discardingStore) Settle(context.Context, []backlog.Settlement) ([]backlog.Unsettled, error) {
	return nil, nil
}
