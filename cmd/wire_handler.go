package cmd

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"backlog/backlog"
	"backlog/backlog/amqp"
	"backlog/backlog/config"
	"backlog/backlog/handler/exec"
	"backlog/backlog/handler/http"
	"backlog/backlog/handler/lines"
	"backlog/backlog/handler/mail"
	"backlog/backlog/handler/proc"
	"backlog/backlog/handler/redis"
	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
	"backlog/backlog/metrics"
	"backlog/backlog/pings"
	"backlog/backlog/retry"
	"backlog/backlog/table"
	"backlog/backlog/table/doctor"
	"backlog/backlog/table/work"
	"backlog/backlog/web"
	"backlog/internal/lists"
)

type sqlSettings = work.Settings

// reapOrphans reaps what handlers leave behind if this process is the first of a container.
func reapOrphans() {
	if os.Getpid() != 1 {
		return
	}
	childEnded := make(chan os.Signal, 1)
	signal.Notify(childEnded, syscall.SIGCHLD)
	go proc.ReapOrphans(childEnded)
}

// knownSettings returns the settings of all policies and handlers. The package config decodes into them
// without importing their packages.
func knownSettings() config.Known {
	return config.Known{
		Policies: knownPolicies(),
		Handlers: []config.Settings{
			{Name: "exec", New: func() any { return exec.NewSettings() }},
			{Name: "lines", New: func() any { return lines.NewSettings() }},
			{Name: "http", New: func() any { return http.NewSettings() }},
			{Name: "sql", New: func() any { return new(work.Settings) }},
			{Name: "redis", New: func() any { return redis.NewSettings() }},
			{Name: "amqp", New: func() any { return amqp.NewDispatchSettings() }},
		},
		Workers: []config.Settings{{Name: "amqp", New: func() any { return new(amqp.WorkerSettings) }}},
		Sources: []config.Settings{{Name: "amqp", New: func() any { return amqp.NewSettings() }}},
		OnDead: []config.Settings{
			{Name: "exec", New: func() any { return new(exec.NotifySettings) }},
			// A call of on_dead has no outcome: no status rejects, and no answer pauses.
			{Name: "http", New: func() any { return &http.Settings{Reject: []http.Status{}} }, Without: []string{"reject", "retry_after", "max_pause"}},
			{Name: "mail", New: func() any { return new(mail.Settings) }},
		},
		Observers: []config.Settings{
			{Name: "web", New: func() any { return web.NewSettings() }},
			{Name: "metrics", New: func() any { return new(metrics.Settings) }},
			{Name: "pings", New: func() any { return pings.NewSettings() }},
		},
	}
}

// The settings implement interfaces of config, which their packages do not import.
var (
	_ config.Bounded      = (*lines.Settings)(nil)
	_ config.Acknowledger = (*amqp.Settings)(nil)
	_ config.Acknowledger = (*amqp.DispatchSettings)(nil)
	_ config.Keeper       = retry.Settings(nil)
	_ config.Refresher    = (*retry.Refresh)(nil)

	_ = []config.Checker{
		retry.Settings(nil), (*exec.Settings)(nil), (*http.Settings)(nil), (*redis.Settings)(nil), (*mail.Settings)(nil),
		(*amqp.Settings)(nil), (*amqp.DispatchSettings)(nil), (*amqp.WorkerSettings)(nil),
		(*web.Settings)(nil), (*metrics.Settings)(nil), (*pings.Settings)(nil),
	}
)

// newHandler makes the configured handler and checks it without using the network. For the sql handler,
// which works in the table's database, it returns nil: newWork makes that. What a handler exchanges
// with programs and services is logged; log may be nil.
func (g *globalOptions) newHandler(ctx context.Context, cfg *config.Config, log *slog.Logger) (backlog.ConfiguredHandler, error) {
	if cfg.Handler.Settings == nil {
		return nil, usagef("the configuration has no handler; say what processes a record, such as handler: {exec: [./deliver.sh]}")
	}
	return g.configuredHandler(ctx, cfg, "handler", cfg.Handler.Settings, log)
}

// newOnDead makes the handler of on_dead in the same way; nil: none is configured.
func (g *globalOptions) newOnDead(ctx context.Context, cfg *config.Config, log *slog.Logger) (backlog.ConfiguredHandler, error) {
	return g.configuredHandler(ctx, cfg, "on_dead", cfg.OnDead.Settings, log)
}

// outageColumns are the columns of the record that on_outage is called with.
var outageColumns = []string{"outage", "cause", "since", "pending"}

// newOnOutage makes the handler of on_outage in the same way; nil: none is configured.
func (g *globalOptions) newOnOutage(ctx context.Context, cfg *config.Config, log *slog.Logger) (backlog.ConfiguredHandler, error) {
	h, err := g.configuredHandler(ctx, cfg, "on_outage", cfg.OnOutage.Settings, log)
	return h, cmp.Or(err, hasColumns(outageColumns, "on_outage."+cfg.OnOutage.Kind, h))
}

func (g *globalOptions) newHandlers(
	ctx context.Context, cfg *config.Config, log *slog.Logger,
) (h, onDead backlog.ConfiguredHandler, err error) {
	if h, err = g.newHandler(ctx, cfg, log); err == nil {
		onDead, err = g.newOnDead(ctx, cfg, log)
	}
	return h, onDead, err
}

// configuredHandler makes the handler with the settings, and prepares it. It returns nil without settings and for
// the sql handler.
func (g *globalOptions) configuredHandler(
	ctx context.Context, cfg *config.Config, key string, settings any, log *slog.Logger,
) (backlog.ConfiguredHandler, error) {
	var h backlog.ConfiguredHandler
	switch s := settings.(type) {
	case *exec.Settings:
		program := &exec.Handler{Settings: *s, Log: log}
		if sourceOf(cfg) != nil && s.Input != "json" {
			program.Body = amqp.Body
		}
		h = program
	case *exec.NotifySettings:
		h = &exec.Handler{Settings: exec.Settings{Command: s.Command}, Log: log}
	case *lines.Settings:
		h = &lines.Handler{Settings: *s, Timeout: cfg.Handler.Timeout, Hard: g.signals.hard(), Log: log}
	case *http.Settings:
		source := strings.TrimPrefix(cfg.Table.Schema+"."+cfg.Table.Name, ".")
		h = &http.Handler{Settings: *s, Source: source, Concurrency: cfg.Handler.Concurrency, Log: log}
	case *amqp.DispatchSettings:
		h = newDispatch(ctx, cfg, s, log)
	case *redis.Settings:
		h = &redis.Handler{Settings: *s, Log: log, Traced: cfg.Handler.Traced()}
	case *mail.Settings:
		h = &mail.Handler{Settings: *s, Log: log}
	default:
		return nil, nil
	}
	// Prepare does not call the service: if that is down, the program starts, and its records fail as at any
	// other time.
	if err := h.Prepare(); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return h, nil
}

// newWork makes the sql handler and has the database check its statements.
func newWork(ctx context.Context, t *table.Table, cfg *config.Config, log *slog.Logger) (*work.SQLHandler, error) {
	s := cfg.Handler.Settings.(*work.Settings)
	w, err := work.New(t, s.Statements, s.AllowZeroRows)
	if err == nil {
		w.Log = log
		err = w.Check(ctx)
	}
	return w, err
}

// wireHandlers gives the setup its handlers, or returns an error if records lack a column that one of them
// needs. If h is nil, the handler is the sql handler.
func (a *setup) wireHandlers(ctx context.Context, h, onDead backlog.ConfiguredHandler) (err error) {
	if h == nil {
		if h, err = newWork(ctx, a.table, a.cfg, a.log); err != nil {
			return err
		}
	}
	a.handler = h
	a.onDead = onDead
	given := a.table.HandlerColumns()
	return cmp.Or(hasColumns(given, "handler."+a.cfg.Handler.Kind, h), hasColumns(given, "on_dead."+a.cfg.OnDead.Kind, onDead))
}

// hasColumns returns an error if records lack a column that the handler needs. key is the handler's key in
// the configuration.
func hasColumns(columns []string, key string, h backlog.ConfiguredHandler) error {
	if h == nil {
		return nil
	}
	for _, name := range h.Describe().Columns {
		if !slices.Contains(columns, name) {
			return fmt.Errorf("%s: a record has no column %s; %s", key, inspect.Shown(name),
				mapping.DidYouMean(name, columns, "it has: "+strings.Join(lists.Map(columns, inspect.Shown), ", ")))
		}
	}
	return nil
}

// traceparentOf returns what makes the traceparent of an attempt, nil if tracing is off.
func traceparentOf(cfg *config.Config) func(*backlog.Record) string {
	if !cfg.Handler.Traced() {
		return nil
	}
	sampled := cfg.Handler.Trace == "sampled"
	return func(r *backlog.Record) string { return backlog.Traceparent(r.AttemptID, sampled) }
}

// closeHandlers ends the programs and connections of the handlers.
func (a *setup) closeHandlers() {
	for _, h := range []backlog.ConfiguredHandler{a.handler, a.onDead} {
		if c, ok := h.(io.Closer); ok {
			if err := c.Close(); err != nil {
				a.log.Warn("a handler did not shut down cleanly", "error", err)
			}
		}
	}
}

// handlerCall identifies what the handler calls, without secrets.
func handlerCall(cfg *config.Config) any {
	switch s := cfg.Handler.Settings.(type) {
	case *exec.Settings:
		return []any{"exec", s.Command}
	case *lines.Settings:
		return []any{"lines", s.Command}
	case *http.Settings:
		return []any{"http", s.Method, s.URL}
	case *work.Settings:
		return []any{"sql", s.Statements}
	case *redis.Settings:
		return []any{"redis", s.Input, s.Output}
	case *amqp.DispatchSettings:
		return []any{"amqp", s.Name}
	}
	return cfg.Handler.Kind
}

// newDispatch returns the handler that dispatches records to workers. It stops the process if the queue of
// outcomes turns out to belong to another table.
func newDispatch(ctx context.Context, cfg *config.Config, s *amqp.DispatchSettings, log *slog.Logger) *amqp.Dispatch {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	states, _ := json.Marshal(mappingOf(cfg))
	sum := sha256.Sum256(states)
	return &amqp.Dispatch{
		DispatchSettings: *s,
		Timeout:          cfg.Handler.Timeout,
		Log:              log,
		Table:            stateName(cfg),
		States:           hex.EncodeToString(sum[:4]),
		Stop:             ctx.Done(),
		Fatal:            func() { _ = syscall.Kill(os.Getpid(), syscall.SIGTERM) },
	}
}

// checkHandler adds what is wrong with the handler or its network to the findings.
func checkHandler(ctx context.Context, l *inspect.Findings, name string, h backlog.ConfiguredHandler) {
	d, ok := h.(*amqp.Dispatch)
	if !ok {
		doctor.CheckHandler(ctx, l, name, h)
		return
	}
	found, err := d.Inspect(ctx)
	doctor.AddFailure(l, name, err)
	amqp.AddFindings(l, name, found)
}

// withDispatch calls do with the handler if that dispatches records to workers.
func (a *setup) withDispatch(do func(*amqp.Dispatch) error) error {
	if d, ok := a.handler.(*amqp.Dispatch); ok {
		if err := do(d); err != nil {
			return fmt.Errorf("handler: amqp: %w", err)
		}
	}
	return nil
}
