package cmd

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/backlog/logging"
	"backlog/backlog/table/doctor"
)

// runSample calls the handler with one record and prints what it is given and what comes back. The
// outcome is not written. It holds the run lock, so that no other process handles the record at the
// same time.
func runSample(ctx context.Context, o CheckOptions, g *globalOptions) error {
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
	ctx, signals := onTermOrHangup(ctx)
	defer signals.stop()
	g.signals = signals
	a, err := g.wirePass(ctx, wiring{cfg: cfg, log: log, now: now})
	if err != nil {
		return err
	}
	defer a.close()
	if err := a.handler.Check(ctx); err != nil {
		return fmt.Errorf("handler: %w", err)
	}
	lock, err := (&backlog.Claim{Locker: a.locker(false)}).LockWithin(ctx, backlog.RunLock, 0, false)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	row, err := a.view.Row(ctx, o.Sample, now)
	if err != nil {
		return err
	}
	tier := inspect.Explain(row, cfg.Tiers, policyOf(cfg.Policy), now).Tier
	s := &doctor.Sample{ID: row.Key, Status: row.Status, State: row.State.String(), Tier: tier}
	defer context.AfterFunc(ctx, func() {
		fmt.Fprintln(g.err, "backlog: waiting for the handler; a second signal ends it")
	})()
	if !o.JSON {
		text := row.StatusText()
		if row.Filtered {
			text += ", left out by table.where"
		}
		g.printf("record   %s\nstatus   %s\n\n", inspect.Shown(row.Key.String()), text)
	}
	if err := s.Attempt(ctx, a.engine(time.Now, nil), a.view.Single(row.Record), now); err != nil {
		return err
	}
	if o.JSON {
		s.Transcript = transcript.String()
		return printJSON(g.out, s)
	}
	took := time.Duration(s.Duration * float64(time.Second))
	g.printf("\noutcome  %s, after %v", s.Outcome, took.Round(100*time.Microsecond))
	if s.Error != "" {
		g.printf(": %s", inspect.Escaped(s.Error))
	}
	g.printf("\n")
	if pause := time.Time(s.PauseUntil); !pause.IsZero() {
		g.printf("         asks for a pause until %s\n", inspect.When(pause))
	}
	if until := time.Time(s.Snoozed); !until.IsZero() {
		g.printf("         is not tried again before %s\n", inspect.When(until))
	}
	g.printf("         nothing is settled: the row stays as it was\n")
	return nil
}
