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

// workOf returns the work of the configuration, with its marks.
func (g *globalOptions) workOf(cfg *config.Config) backlog.Work {
	path, _ := filepath.Abs(g.Config)
	return cfg.Work(path, callOf(cfg))
}

// keptWork returns the work as the state file has it, which may be shared by tables.
func (g *globalOptions) keptWork(cfg *config.Config, now time.Time) checkpoint.Work {
	path, _ := filepath.Abs(g.Config)
	name := checkpoint.Name(cfg.Database, cfg.Table.Schema, cfg.Table.Name, cfg.Name)
	return checkpoint.Work{Config: path, Marks: append(g.workOf(cfg).Marks, backlog.NewMark("table or name", name)), Used: now}
}

// rivalCure is what to do about it. Without it one of the two would do nothing for ever.
const rivalCure = "both have one lock and one memory of ticks: give each a `name:` of its own (docs/tables.md), or start this one with --replace if it takes the place of the other"

// ticksTaken is the error of a state whose ticks are another configuration's.
func ticksTaken(cfg *config.Config, r *checkpoint.Rivalry) error {
	return fmt.Errorf("table %s: %v; %s", cfg.Table.Name, r, rivalCure)
}

// lockTaken is the error of a lock that another configuration holds. That is no reason
// to wait for it, so that it is no ErrLocked.
func lockTaken(cfg *config.Config, r *backlog.Rival) error {
	return fmt.Errorf("table %s: another configuration works on it just now, with another %s; %s",
		cfg.Table.Name, strings.Join(r.Differs, ", "), rivalCure)
}

// lockError returns an error of a lock as the program ends with it.
func (a *setup) lockError(err error, replace bool) error {
	if r, ok := errors.AsType[*backlog.Rival](err); ok && !replace {
		return lockTaken(a.cfg, r)
	}
	return err
}

// useState notes in the state that its ticks are for this configuration. It is an
// error if they are another's, unless that is to be replaced.
func (g *globalOptions) useState(state *checkpoint.File, cfg *config.Config, log *slog.Logger, mine checkpoint.Work) error {
	was, rivalry, err := state.TakeTicks(mine, g.replace, time.Now())
	if err != nil {
		log.Warn(badState, "error", err)
	}
	if rivalry != nil {
		return ticksTaken(cfg, rivalry)
	}
	if changed := was.Differs(mine); changed != nil {
		log.Info("the configuration is another one than before", "changed", strings.Join(changed, ", "), "was", was.Config)
	}
	return nil
}

// lookAtState is useState for what changes nothing.
func (g *globalOptions) lookAtState(state *checkpoint.File, cfg *config.Config, now time.Time) error {
	kept, _ := state.State()
	if r := kept.Rivalry(g.keptWork(cfg, now), state.Leads(kept, time.Now()), now); r != nil && !g.replace {
		return ticksTaken(cfg, r)
	}
	return nil
}

// alone is an error if another configuration holds one of the locks, unless that is to
// be replaced. What cannot be asked is no other one.
func (g *globalOptions) alone(ctx context.Context, t *table.Table, cfg *config.Config, locks ...string) error {
	for _, name := range locks {
		if r, err := t.Rival(ctx, name, g.workOf(cfg)); err == nil && r != nil && !g.replace {
			return lockTaken(cfg, r)
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

// keepWork notes that the ticks of the state are for this daemon's configuration.
func (p *process) keepWork() {
	cfg := p.setup().cfg
	mine := p.g.keptWork(cfg, time.Now())
	mine.Daemon = true
	p.history.keep(p.state.Change(func(s *checkpoint.State) { s.Work = &mine }))
}

// remark makes the leader's marks those of the configuration that has been reloaded.
func (p *process) remark(ctx context.Context) {
	if !p.Leads() {
		return
	}
	p.keepWork()
	if err := p.daemon.Mark(ctx, p.setup().work); err != nil {
		p.log.Warn("the lock keeps no marks: a second configuration of this table is not found out", "error", err)
	}
}
