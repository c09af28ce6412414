package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/inspect"
	"backlog/tiers"
)

// A Work identifies the configuration whose ticks are in a state file.
type Work struct {
	Config string         `json:"config"` // path of its file
	Marks  []backlog.Mark `json:"marks"`
	Daemon bool           `json:"daemon,omitempty"` // a daemon works by it; false: a crontab starts it again and again
	Used   time.Time      `json:"used"`             // when it last started
	Until  time.Time      `json:"until,omitzero"`   // when a crontab must have started it again; later it counts as ended
}

// minRestart is the least time that a crontab has to start a work again.
const minRestart = 10 * time.Minute

// RestartBy returns when a crontab that starts a work now, and at each tick, must have started
// it again, even if it misses one tick.
func RestartBy(s *tiers.Schedule, now time.Time) time.Time {
	until := now.Add(minRestart)
	second := s.Next(s.Next(now))
	if second.After(until) {
		return second
	}
	return until
}

// A Rivalry says that the ticks of a state file belong to another configuration.
type Rivalry struct {
	Other   Work
	Differs []string // the marks that differ, such as where
}

// Rivalry returns how mine differs from the work whose ticks are in the state. It returns nil if
// that is the same work, another version of the same file, or a work that has ended: its file is
// gone, its daemon does not lead, or its crontab has not started it in time. leads says whether a
// daemon leads that uses the state file.
func (s *State) Rivalry(mine Work, leads bool, now time.Time) *Rivalry {
	other := s.Work
	r := other.rival(mine)
	if r == nil || r.SameFile {
		return nil
	}
	ended := now.After(other.Until)
	if other.Daemon {
		ended = !leads
	}
	if ended {
		return nil
	}
	if _, err := os.Stat(other.Config); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &Rivalry{*other, r.Differs}
}

// rival compares mine with the work; nil: they are the same. A nil Work is the same as any other.
func (w *Work) rival(mine Work) *backlog.Rival {
	if w == nil {
		return nil
	}
	return backlog.Work{Marks: mine.Marks}.Rival(func(m backlog.Mark) bool { return slices.Contains(w.Marks, m) })
}

// Differs returns the marks by which mine differs; nil: there are none. A nil Work is the same as any other.
func (w *Work) Differs(mine Work) []string {
	if r := w.rival(mine); r != nil {
		return r.Differs
	}
	return nil
}

// ClaimTicks notes in the file that its ticks are mine, and returns whose they were; nil: no work's. If they belong
// to another configuration and replace is false, it changes nothing and returns the rivalry. An error says that the
// file cannot be read or written. The caller may go on, but missed ticks may be forgotten.
func (f *File) ClaimTicks(mine Work, replace bool, now time.Time) (was *Work, rivalry *Rivalry, err error) {
	_, unreadable := f.State()
	err = f.Change(func(s *State) {
		rivalry = s.Rivalry(mine, f.HasLeader(*s, now), mine.Used)
		if replace {
			rivalry = nil
		}
		if rivalry == nil {
			was = s.Work
			s.Work = &mine
		}
	})
	return was, rivalry, cmp.Or(err, unreadable)
}

// String describes the other configuration, and says when the rivalry ends.
func (r *Rivalry) String() string {
	when := "its daemon is running"
	if !r.Other.Daemon {
		when = fmt.Sprintf("it last started at %s, and the ticks are its own until %s", inspect.When(r.Other.Used), inspect.When(r.Other.Until))
	}
	return fmt.Sprintf("another configuration works on it, %s, which differs in: %s; %s", r.Other.Config, strings.Join(r.Differs, ", "), when)
}
