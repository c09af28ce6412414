package cmd

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"backlog/backlog"
	"backlog/backlog/amqp"
	"backlog/backlog/logging"
)

func newWorker(g *globalOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "worker",
		Short: "Handle the records that a daemon dispatches over RabbitMQ",
		RunE:  func(c *cobra.Command, _ []string) error { return runWorker(c.Context(), g) },
	}
}

func runWorker(ctx context.Context, g *globalOptions) error {
	known := knownSettings()
	known.OfWorker = true
	cfg, err := g.loadFile(known)
	if err != nil {
		return err
	}
	s := cfg.Worker.(*amqp.WorkerSettings) // the only kind there is
	cfg.Table.Name = s.Name                // for handlers that pass on where a record is from
	return runSource(ctx, g, cfg)
}

// serve handles the messages of a source, or the requests to a worker, until ctx is done.
func (a *setup) serve(ctx context.Context, g *globalOptions) error {
	obs := logging.New(a.log)
	obs.Server = logging.Broker
	defer obs.End()
	e := a.engine(nil, func(ev backlog.Event) {
		if ev.Kind == backlog.Paused {
			a.source.Pause(ev.At) // leaves the messages to other consumers
		}
		obs.Observe(ev)
	})
	name := a.source.Queue // in the log
	if w, ok := a.store.(*amqp.Worker); ok {
		e.Policy = nil
		e.Handler = w
		e.Timeout = 0
		w.Prefetch = e.Concurrency
		name = a.cfg.Table.Name
	} else {
		e.Paused = stateOf(a.cfg, a.log).PausedBy(time.Now, a.log)
	}
	stopMetrics, err := a.serveMetrics(g, name, e)
	defer stopMetrics()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() {
		notifySystemd(a.log, daemon.SdNotifyStopping)
		a.logStopping()
		a.source.Stop()
	})()
	running, end := context.WithCancel(context.Background())
	defer end()
	go keepWatchdog(running, a.log, func() bool { return true })
	_, _, err = retryOpen(ctx, a.log, "broker", 0, func() (any, error) { return nil, a.source.Open(ctx) })
	if err != nil && ctx.Err() == nil {
		return err
	}
	if ctx.Err() == nil {
		a.log.Info("taking messages", "queue", a.source.Queue, "prefetch", a.source.Prefetch)
	}
	notifySystemd(a.log, daemon.SdNotifyReady)
	err = a.source.Serve(ctx, e, name)
	if err != nil {
		return err
	}
	a.log.Info("stopped")
	return nil
}
