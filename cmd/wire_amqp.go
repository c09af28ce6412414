package cmd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"syscall"

	"backlog/backlog/amqp"
	"backlog/backlog/checkpoint"
	"backlog/backlog/config"
)

// newDispatch returns the handler that gives records to workers. A table that is not its
// own ends the process.
func newDispatch(ctx context.Context, cfg *config.Config, s *amqp.DispatchSettings, log *slog.Logger) *amqp.Dispatch {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	states, _ := json.Marshal(mappingOf(cfg))
	sum := sha256.Sum256(states)
	return &amqp.Dispatch{
		DispatchSettings: *s, Timeout: cfg.Handler.Timeout, Log: log,
		Table: checkpoint.Name(cfg.Database, cfg.Table.Schema, cfg.Table.Name), States: hex.EncodeToString(sum[:4]),
		Stop:  ctx.Done(),
		Fatal: func() { _ = syscall.Kill(os.Getpid(), syscall.SIGTERM) },
	}
}

// openDispatch connects, and checkDispatch only returns what no time heals. dispatchError
// returns why the queues are not this table's, if they are not.
func (a *app) openDispatch(ctx context.Context) error {
	return a.dispatching(func(d *amqp.Dispatch) error { return d.Open(ctx) })
}

func (a *app) checkDispatch(ctx context.Context) error {
	return a.dispatching(func(d *amqp.Dispatch) error { return d.Ready(ctx) })
}

func (a *app) dispatchError() error { return a.dispatching((*amqp.Dispatch).Err) }
func (a *app) endDispatch() error   { return a.dispatching((*amqp.Dispatch).Close) }

// dispatching does something with the handler if it gives records to workers.
func (a *app) dispatching(do func(*amqp.Dispatch) error) error {
	d, ok := a.handler.(*amqp.Dispatch)
	if !ok {
		return nil
	}
	if err := do(d); err != nil {
		return fmt.Errorf("handler: amqp: %w", err)
	}
	return nil
}
