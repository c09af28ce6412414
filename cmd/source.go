package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"backlog/backlog/amqp"
	"backlog/backlog/config"
	"backlog/backlog/inspect"
	"backlog/backlog/logging"
	"backlog/internal/lists"
)

// sourceOf returns the queue that the configuration names instead of a table, nil if it
// names none.
func sourceOf(cfg *config.Config) *amqp.Settings {
	s, _ := cfg.Source.(*amqp.Settings)
	return s
}

// wireSource makes the setup of a queue instead of a table, or of a worker. It connects to
// nothing.
func (g *globalOptions) wireSource(ctx context.Context, cfg *config.Config, most int) (*setup, error) {
	log := newLog(cfg.Log, g.err)
	h, onDead, err := newHandlers(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	a := &setup{cfg: cfg, log: log, handler: h, onDead: onDead, hard: hardOf(ctx)}
	if s, ok := cfg.Worker.(*amqp.WorkerSettings); ok {
		w := amqp.NewWorker(*s, h, cfg.Handler.Concurrency)
		a.store, a.source = w, w.Source
		w.Log = log
	} else {
		a.source = &amqp.Source{Settings: *sourceOf(cfg), Most: most, Log: log}
		a.store, a.source.Prefetch = a.source, cmp.Or(a.source.Prefetch, cfg.Handler.Concurrency)
	}
	return a, nil
}

// runSource is `run` over a queue, or `worker`.
func runSource(ctx context.Context, g *globalOptions, cfg *config.Config) error {
	ctx, stop := stopAtEnd(ctx)
	defer stop()
	surviveReaders()
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP) // which would end it in the middle of its handlers
	a, err := g.wireSource(ctx, cfg, 0)
	if err != nil {
		return err
	}
	defer a.close()
	go func() {
		for range hup {
			a.log.Warn("nothing is read again: messages are taken as the configuration was at the start; restart for another")
		}
	}()
	return a.serve(ctx, g)
}

// onceSource takes the messages that are ready, at most so many.
func onceSource(ctx context.Context, stop func(), g *globalOptions, cfg *config.Config, o OnceOptions) error {
	switch {
	case o.DryRun:
		return usagef("--dry-run: a queue cannot be looked at without changing it; `backlog status` counts its messages")
	case o.asked() > 0:
		return usagef("a source has neither ages nor tiers nor IDs: write `backlog once --max-records %d`", cmp.Or(o.MaxRecords, 100))
	case o.MaxRecords <= 0:
		return usagef("say how many messages to take at most: --max-records 100")
	}
	surviveReaders()
	a, err := g.wireSource(ctx, cfg, o.MaxRecords)
	if err != nil {
		return err
	}
	defer a.close()
	if err := a.source.Open(ctx); err != nil {
		return err
	}
	obs := logging.New(a.log)
	obs.Server = logging.Broker
	report, err := a.engine(nil, obs.Observe).Pass(ctx, amqp.PassOf(a.source.Queue))
	stop()
	if err == nil && report.Refused > 0 {
		err = fmt.Errorf("outcomes that could not be published: %d; their messages go back to the queue and will be handled again; the log says which and why", report.Refused)
	}
	return o.end(g, a.source.Queue, report, obs.Picture.Causes(report.Tier), err)
}

// statusSource counts the messages of each queue.
func statusSource(ctx context.Context, g *globalOptions, cfg *config.Config, asJSON bool) error {
	c := amqp.Look(*sourceOf(cfg))
	defer c.Close()
	list, err := c.Status(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(g.out, map[string]any{"queues": list})
	}
	rows := []string{"QUEUE\tREADY\tCONSUMERS"}
	for _, q := range list {
		rows = append(rows, q.Line())
	}
	return printTable(g.out, rows)
}

// source compares what the broker has with what the source needs.
func (k *checker) source(ctx context.Context, s *amqp.Settings) {
	k.AddGood("config", "%s: queue %s", k.g.Config, inspect.Shown(s.Queue))
	k.AddGood("delays", "%s", s.Delays())
	if shared := s.Shared(); len(shared) > 0 {
		k.AddGood("shared", "%s: names that other queues may have, too; what is tried again comes back by the key %s", strings.Join(lists.Map(shared, inspect.Shown), ", "), inspect.Shown(s.Sneakers.RoutingKey))
	}
	k.handlers(ctx)
	c := amqp.Look(*s)
	defer c.Close()
	found, err := c.Inspect(ctx)
	k.bad("broker", err)
	amqp.AddFindings(&k.Findings, "broker", found)
}

// initSource declares what is missing, or prints all of it for rabbitmqctl.
func initSource(ctx context.Context, g *globalOptions, cfg *config.Config, onlyPrint bool) error {
	s := sourceOf(cfg)
	if onlyPrint {
		return printJSON(g.out, s.Definitions())
	}
	c := amqp.Look(*s)
	defer c.Close()
	if err := c.DeclareAll(ctx); err != nil {
		return err
	}
	t := s.Topology(0)
	for _, e := range t.Exchanges {
		g.printf("exchange %s is there (%s)\n", e[0], e[1])
	}
	for _, q := range t.Queues {
		g.printf("queue %s is there\n", q.Name)
	}
	return nil
}

// retrySource gives back what ended in the error queue.
func retrySource(ctx context.Context, g *globalOptions, cfg *config.Config, o RetryOptions) error {
	if !o.Errors || len(o.IDs) > 0 || o.Narrows() || o.Limit != 0 || o.All {
		return usagef("a source has no records: write `backlog retry --errors`, with --match TEXT for some of them")
	}
	ctx, stop := stopOnSignal(ctx)
	defer stop()
	c := amqp.Look(*sourceOf(cfg))
	defer c.Close()
	n, err := c.Redrive(ctx, o.Match, !o.Yes || o.DryRun)
	if err == nil && !o.Yes && !o.DryRun && n.Matched > 0 {
		return usagef("that would give back %s; add --yes to do so", inspect.Plural(n.Matched, "message"))
	}
	if o.JSON {
		return errors.Join(err, printJSON(g.out, n))
	}
	var would string
	if o.DryRun || !o.Yes {
		would = "would be "
	}
	g.printf("%s %sgiven back to the queue\n", inspect.Plural(n.Matched, "message"), would)
	if n.Unmatched > 0 {
		g.printf("%d left, with another error\n", n.Unmatched)
	}
	if n.Unreadable > 0 {
		g.printf("%d left, which are in no known form\n", n.Unreadable)
	}
	return err
}
