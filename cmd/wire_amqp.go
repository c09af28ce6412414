package cmd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"

	"backlog/backlog"
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

// dispatchError returns why the handler's queues are not this table's, if they are not.
func (a *app) dispatchError() error {
	if d, ok := a.handler.(*amqp.Dispatch); ok {
		return d.Err()
	}
	return nil
}

// checkDispatch returns why records could never be dispatched. A broker that is away
// is waited for.
func (a *app) checkDispatch(ctx context.Context) error {
	d, ok := a.handler.(*amqp.Dispatch)
	if !ok {
		return nil
	}
	if err := d.Ready(ctx); err != nil && !errors.Is(err, backlog.ErrUnavailable) {
		return fmt.Errorf("handler: amqp: %w", err)
	}
	return nil
}

// openDispatch is checkDispatch for a process that dispatches at once.
func (a *app) openDispatch(ctx context.Context) error {
	if d, ok := a.handler.(*amqp.Dispatch); ok {
		if err := d.Open(ctx); err != nil {
			return fmt.Errorf("handler: amqp: %w", err)
		}
	}
	return nil
}

// rest has a handler that hears from workers leave what they answer to who leads now.
func (a *app) rest() {
	if d, ok := a.handler.(*amqp.Dispatch); ok {
		d.Close()
	}
}
