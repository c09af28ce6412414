package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/checkpoint"
	"backlog/backlog/config"
	"backlog/backlog/table"
)

const replaceUsage = "take the place of another configuration that works on the table"

// workOf identifies the configuration in its locks.
func (g *globalOptions) workOf(cfg *config.Config) backlog.Work {
	path, _ := filepath.Abs(g.Config)
	return cfg.Work(path, handlerCall(cfg))
}

// stateName names the table, and the work on it, as the state folder does.
func stateName(cfg *config.Config) string {
	return checkpoint.Name(cfg.Database, cfg.Table.Schema, cfg.Table.Name, cfg.Name)
}

// stateWork identifies the configuration in the state file. Tables may share that file, so that the
// marks include the table.
func (g *globalOptions) stateWork(cfg *config.Config, now time.Time) checkpoint.Work {
	path, _ := filepath.Abs(g.Config)
	name := stateName(cfg)
	marks := append(g.workOf(cfg).Marks, backlog.NewMark("table or name", name))
	return checkpoint.Work{Config: path, Marks: marks, Used: now}
}

// rivalCure is what to do about a rival. Otherwise one of the two would never do anything.
const rivalCure = "both use one lock and one state file: give each a `name:` of its own (docs/tables.md), or start this one with --replace if it takes the place of the other"

// ticksTakenError is the error of a state file whose ticks belong to another configuration.
func ticksTakenError(cfg *config.Config, r *checkpoint.Rivalry) error {
	return fmt.Errorf("table %s: %v; %s", cfg.Table.Name, r, rivalCure)
}

// lockTakenError is the error of a lock that another configuration holds. It does not wrap ErrLocked,
// because waiting for the lock would not help.
func lockTakenError(cfg *config.Config, r *backlog.Rival) error {
	return fmt.Errorf("table %s: another configuration works on it just now, which differs in: %s; %s",
		cfg.Table.Name, strings.Join(r.Differs, ", "), rivalCure)
}

// lockError turns a [backlog.Rival] into a lockTakenError, unless the rival is to be replaced. It returns
// other errors as they are.
func (a *setup) lockError(err error, replace bool) error {
	if r, ok := errors.AsType[*backlog.Rival](err); ok && !replace {
		return lockTakenError(a.cfg, r)
	}
	return err
}

// claimTicks saves in the state file that its ticks belong to this configuration. It returns an error if
// they belong to another one, unless that is to be replaced.
func (g *globalOptions) claimTicks(state *checkpoint.File, cfg *config.Config, log *slog.Logger, mine checkpoint.Work) error {
	was, rivalry, err := state.ClaimTicks(mine, g.replace, time.Now())
	if err != nil {
		log.Warn(stateUnusable, "error", err)
	}
	if rivalry != nil {
		return ticksTakenError(cfg, rivalry)
	}
	if changed := was.Differs(mine); changed != nil {
		log.Info("the configuration is another one than before", "changed", strings.Join(changed, ", "), "was", was.Config)
	}
	return nil
}

// checkTicks is claimTicks without the saving.
func (g *globalOptions) checkTicks(state *checkpoint.File, cfg *config.Config, now time.Time) error {
	saved, _ := state.State()
	r := saved.Rivalry(g.stateWork(cfg, now), state.HasLeader(saved, time.Now()), now)
	if r != nil && !g.replace {
		return ticksTakenError(cfg, r)
	}
	return nil
}

// checkLocks returns an error if another configuration holds one of the locks, unless that is to be
// replaced. A lock that cannot be asked for counts as free.
func (g *globalOptions) checkLocks(ctx context.Context, t *table.Table, cfg *config.Config, locks ...string) error {
	for _, name := range locks {
		if r, err := t.Rival(ctx, name, g.workOf(cfg)); err == nil && r != nil && !g.replace {
			return lockTakenError(cfg, r)
		}
	}
	return nil
}

// A lockerFunc is a backlog.Locker.
type lockerFunc func(ctx context.Context, name string) (backlog.Lock, error)

// TryLock implements backlog.Locker.
func (f lockerFunc) TryLock(ctx context.Context, name string) (backlog.Lock, error) {
	return f(ctx, name)
}

// saveWork saves in the state file that its ticks belong to this daemon's configuration.
func (p *process) saveWork() {
	cfg := p.setup().cfg
	mine := p.g.stateWork(cfg, time.Now())
	mine.Daemon = true
	p.history.warnOnce(p.state.Change(func(s *checkpoint.State) { s.Work = &mine }))
}

// updateMarks marks lock and state of the leader with the reloaded configuration.
func (p *process) updateMarks(ctx context.Context) {
	if !p.Leads() {
		return
	}
	p.saveWork()
	if err := p.daemon.Mark(ctx, p.setup().work); err != nil {
		p.log.Warn("the lock keeps no marks: a second configuration of this table cannot be detected", "error", err)
	}
}
