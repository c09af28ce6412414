package cmd

import (
	"context"
	"fmt"

	"backlog/backlog"
	"backlog/backlog/config"
	"backlog/backlog/handler"
)

// wireHandler makes the configured handler and checks that it could work.
func wireHandler(ctx context.Context, cfg *config.Config) (backlog.Handler, error) {
	if !cfg.Handler.Given {
		return nil, usagef("the configuration has no handler; say what processes a record, such as handler: {exec: [./deliver.sh]}")
	}
	if cfg.Handler.Exec == nil {
		return nil, usagef("this program can run handlers of the kind exec only")
	}
	h := &handler.Exec{Command: cfg.Handler.Exec.Command, Reject: cfg.Handler.Exec.Reject, Skip: cfg.Handler.Exec.Skip}
	if err := h.Check(ctx); err != nil {
		return nil, fmt.Errorf("handler: %w", err)
	}
	return h, nil
}

// wireOnDead makes what is told of dead records, nil if nothing is, and checks
// that it could work.
func wireOnDead(ctx context.Context, cfg *config.Config) (backlog.Handler, error) {
	if cfg.OnDead.Exec == nil && cfg.OnDead.HTTP == nil {
		return nil, nil
	}
	if cfg.OnDead.Exec == nil {
		return nil, usagef("this program can tell of dead records by exec only")
	}
	tell := &handler.Exec{Command: cfg.OnDead.Exec.Command}
	if err := tell.Check(ctx); err != nil {
		return nil, fmt.Errorf("on_dead: %w", err)
	}
	return tell, nil
}
