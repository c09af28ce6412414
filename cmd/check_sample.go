package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/logging"
)

// A sample is one record that was handed to the handler for people to look at.
type sample struct {
	row inspect.Row

	ID         backlog.Key `json:"id"`
	Status     string      `json:"status"`
	State      string      `json:"state"` // as explain has it
	Tier       string      `json:"tier"`  // whose pass would take it next; "": none
	Outcome    string      `json:"outcome"`
	Error      string      `json:"error"` // the handler's
	Duration   float64     `json:"duration_seconds"`
	PauseUntil stamp       `json:"pause_until"` // zero: the handler asks for no pause
	Transcript string      `json:"transcript"`
}

// runSample hands one record to the handler and shows what it is given and what
// comes back. Nothing is settled. It holds the run lock, so that nobody else
// handles the record meanwhile.
func runSample(ctx context.Context, o CheckOptions, g *globals) error {
	_, now := o.clock()
	cfg, err := g.load()
	if err != nil {
		return err
	}
	var transcript strings.Builder
	if cfg.Handler.Kind == "amqp" {
		return usagef("--sample: a worker's outcome is settled whatever asks for it; take `backlog once --id %s`, or a file with the worker's own handler", o.Sample)
	}
	log := slog.New(logging.ShowExchanges(newLog(cfg.Log, g.err).Handler(), func(text string) {
		transcript.WriteString(text)
		if !o.JSON {
			g.printf("%s", inspect.OnLines(text))
		}
	}))
	ctx, stop := stopOnSignal(ctx)
	defer stop()
	a, err := g.wireApp(ctx, cfg, log, now, nil)
	if err != nil {
		return err
	}
	defer a.close()
	if err := a.handler.Check(ctx); err != nil {
		return fmt.Errorf("handler: %w", err)
	}
	lock, err := lockWithin(ctx, &backlog.Claim{Locker: a.locker(false)}, 0, false)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	row, err := a.view.Row(ctx, o.Sample, now)
	if err != nil {
		return err
	}
	tier := inspect.Explain(row, cfg.Tiers, policyOf(cfg), now).Tier
	s := &sample{row: row, ID: row.Key, Status: row.Status, State: row.State.String(), Tier: tier}
	defer context.AfterFunc(ctx, func() {
		fmt.Fprintln(g.err, "backlog: waiting for the handler; a second signal ends it")
	})()
	if !o.JSON {
		text := row.StatusText()
		if row.Filtered {
			text += ", left out by table.where"
		}
		g.printf("record   %s\nstatus   %s\n\n", shown(row.Key.String()), text)
	}
	if err := s.take(ctx, a, now); err != nil {
		return err
	}
	if o.JSON {
		s.Transcript = transcript.String()
		return printJSON(g.out, s)
	}
	took := time.Duration(s.Duration * float64(time.Second))
	g.printf("\noutcome  %s, after %v", s.Outcome, took.Round(100*time.Microsecond))
	if s.Error != "" {
		g.printf(": %s", escaped(s.Error))
	}
	g.printf("\n")
	if pause := time.Time(s.PauseUntil); !pause.IsZero() {
		g.printf("         asks for a pause until %s\n", when(pause))
	}
	g.printf("         nothing is settled: the row stays as it was\n")
	return nil
}

// take makes the attempt: a pass of an engine over that one record. The error
// says that the handler could not be called.
func (s *sample) take(ctx context.Context, a *app, now time.Time) error {
	e := a.engine(nil, func(ev backlog.Event) {
		switch ev.Kind {
		case backlog.AttemptEnded:
			s.Outcome = ev.Outcome.String()
			if ev.Err != nil {
				s.Error = ev.Err.Error()
			}
		case backlog.Paused:
			s.PauseUntil = stamp(ev.At)
		}
	})
	e.Store, e.Policy, e.OnDead = sampleStore{a.view.Single(s.row.Record)}, nil, nil
	e.Handler = backlog.HandlerFunc(func(ctx context.Context, r *backlog.Record) error {
		began := time.Now()
		defer func() { s.Duration = time.Since(began).Seconds() }()
		if h, ok := a.handler.(backlog.TrialHandler); ok {
			return h.Try(ctx, r)
		}
		return a.handler.Handle(ctx, r)
	})
	report, err := e.Pass(ctx, backlog.Pass{Tier: s.Tier, Now: now})
	if err == nil && (s.Outcome == "" || report.Interrupted > 0) {
		err = errors.New("stopped before the handler answered")
	}
	return err
}

// A sampleStore forgets what becomes of its records.
type sampleStore struct{ backlog.Store }

// Settle implements backlog.Store.
func (sampleStore) Settle(context.Context, []backlog.Settlement) ([]backlog.Unsettled, error) {
	return nil, nil
}
