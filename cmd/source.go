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

// sourceOf returns the queue that the configuration has instead of a table; nil: it has a table.
func sourceOf(cfg *config.Config) *amqp.Settings {
	s, _ := cfg.Source.(*amqp.Settings)
	return s
}

// wireSource makes the setup of a queue instead of a table, or of a worker. It does not connect yet. maxMessages
// bounds how many messages are taken; 0: all.
func (g *globalOptions) wireSource(ctx context.Context, cfg *config.Config, maxMessages int) (*setup, error) {
	log := newLog(cfg.Log, g.err)
	h, onDead, err := g.newHandlers(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	a := &setup{cfg: cfg, log: log, handler: h, onDead: onDead, hard: g.signals.hard()}
	if s, ok := cfg.Worker.(*amqp.WorkerSettings); ok {
		w := amqp.NewWorker(*s, h, cfg.Handler.Concurrency)
		w.Log = log
		a.store = w
		a.source = w.Source
		return a, nil
	}
	a.source = &amqp.Source{Settings: *sourceOf(cfg), MaxMessages: maxMessages, Log: log}
	a.source.Prefetch = cmp.Or(a.source.Prefetch, cfg.Handler.Concurrency)
	a.store = a.source
	return a, nil
}

// runSource is the command run over a queue, or the command worker.
func runSource(ctx context.Context, g *globalOptions, cfg *config.Config) error {
	ctx, signals := onTermSignal(ctx)
	defer signals.stop()
	g.signals = signals
	ignoreSIGPIPE()
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP) // otherwise it would end the program while handlers run
	a, err := g.wireSource(ctx, cfg, 0)
	if err != nil {
		return err
	}
	defer a.close()
	go func() {
		for range hup {
			a.log.Warn("the configuration is not reloaded: a source or worker reads it only at its start; restart to change it")
		}
	}()
	return a.serve(ctx, g)
}

// onceSource handles the messages that are ready, at most --max-records.
func onceSource(ctx context.Context, g *globalOptions, cfg *config.Config, o OnceOptions) error {
	switch {
	case o.DryRun:
		return usagef("--dry-run: a queue cannot be looked at without changing it; `backlog status` counts its messages")
	case o.selectors() > 0:
		return usagef("a source has neither ages nor tiers nor IDs: write `backlog once --max-records %d`", cmp.Or(o.MaxRecords, 100))
	case o.MaxRecords <= 0:
		return usagef("say how many messages to take at most: --max-records 100")
	}
	ignoreSIGPIPE()
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
	g.signals.stop()
	if err == nil && report.Refused > 0 {
		err = fmt.Errorf("outcomes that could not be published: %d; their messages go back to the queue and will be handled again; the log says which and why", report.Refused)
	}
	return o.printEnd(g, a.source.Queue, report, obs.Picture.Causes(report.Tier), err)
}

// statusSource counts the messages of each queue.
func statusSource(ctx context.Context, g *globalOptions, cfg *config.Config, asJSON bool) error {
	c := amqp.NewInspector(*sourceOf(cfg))
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

// checkSource compares what the broker has with what the source needs.
func (k *checker) checkSource(ctx context.Context, s *amqp.Settings) {
	k.AddGood("config", "%s: queue %s", k.g.Config, inspect.Shown(s.Queue))
	k.AddGood("delays", "%s", s.Delays())
	if shared := s.Shared(); len(shared) > 0 {
		k.AddGood("shared", "%s: names that other queues may have, too; what is tried again comes back by the key %s", strings.Join(lists.Map(shared, inspect.Shown), ", "), inspect.Shown(s.Sneakers.RoutingKey))
	}
	k.checkHandlers(ctx)
	c := amqp.NewInspector(*s)
	defer c.Close()
	found, err := c.Inspect(ctx)
	k.failed("broker", err)
	amqp.AddFindings(&k.Findings, "broker", found)
}

// initSource declares the exchanges and queues that are missing, or prints all of them for rabbitmqctl.
func initSource(ctx context.Context, g *globalOptions, cfg *config.Config, onlyPrint bool) error {
	s := sourceOf(cfg)
	if onlyPrint {
		return printJSON(g.out, s.Definitions())
	}
	c := amqp.NewInspector(*s)
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

// retrySource moves messages from the error queue back to the queue.
func retrySource(ctx context.Context, g *globalOptions, cfg *config.Config, o RetryOptions) error {
	if !o.Errors || len(o.IDs) > 0 || o.Narrows() || o.Limit != 0 || o.All {
		return usagef("a source has no records: write `backlog retry --errors`, with --match TEXT for some of them")
	}
	ctx, signals := onTermOrHangup(ctx)
	defer signals.stop()
	c := amqp.NewInspector(*sourceOf(cfg))
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
