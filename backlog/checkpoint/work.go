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

// A Work is the configuration that the ticks of a state file are for.
type Work struct {
	Config string         `json:"config"` // its file
	Marks  []backlog.Mark `json:"marks"`
	Daemon bool           `json:"daemon,omitempty"` // it works while a daemon leads; else it is started again and again
	Used   time.Time      `json:"used"`
	Until  time.Time      `json:"until,omitzero"` // by when it is started again, if it still is
}

// leastReturn is how long a work that is started again and again is waited for at least.
const leastReturn = 10 * time.Minute

// Return is by when a work that is started now, and by each tick of the schedule, is
// started again, with a tick that is missed.
func Return(s *tiers.Schedule, now time.Time) time.Time {
	until := now.Add(leastReturn)
	second := s.Next(s.Next(now))
	if second.After(until) {
		return second
	}
	return until
}

// A Rivalry says that the ticks of a state file are another configuration's.
type Rivalry struct {
	Other   Work
	Differs []string // such as where
}

// Rivalry compares mine with the work that the state is kept for, and returns nil where
// that is the same one, an earlier form of it, or one that has ended: the same file says
// something else now, the other file is gone, its daemon does not lead, or it has not
// been started for longer than its schedule says.
func (s *State) Rivalry(mine Work, leads bool, now time.Time) *Rivalry {
	other := s.Work
	r := other.rival(mine)
	if r == nil || r.SameFile {
		return nil
	}
	if other.Daemon && !leads || !other.Daemon && now.After(other.Until) {
		return nil
	}
	if _, err := os.Stat(other.Config); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &Rivalry{*other, r.Differs}
}

// rival compares mine with the work; nil: it is the same. A nil Work is like any other.
func (w *Work) rival(mine Work) *backlog.Rival {
	if w == nil {
		return nil
	}
	return backlog.Work{Marks: mine.Marks}.Rival(func(m backlog.Mark) bool { return slices.Contains(w.Marks, m) })
}

// Differs returns what is different about mine, nil if nothing is. A nil Work is like any other.
func (w *Work) Differs(mine Work) []string {
	if r := w.rival(mine); r != nil {
		return r.Differs
	}
	return nil
}

// TakeTicks notes that the ticks of the file are mine from now on, and returns whose they were; nil: those of
// no work. A rivalry says that they are another configuration's and stay so, unless replace is set. An error
// says that the file cannot be read or written, so that what was missed may be forgotten; it is no hindrance.
func (f *File) TakeTicks(mine Work, replace bool, now time.Time) (was *Work, rivalry *Rivalry, err error) {
	_, unreadable := f.State()
	err = f.Change(func(s *State) {
		rivalry = s.Rivalry(mine, f.Leads(*s, now), mine.Used)
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

// String says it in words, and when it is over.
func (r *Rivalry) String() string {
	when := "a daemon works by it"
	if !r.Other.Daemon {
		when = fmt.Sprintf("it was last started at %s, and is waited for until %s", inspect.When(r.Other.Used), inspect.When(r.Other.Until))
	}
	return fmt.Sprintf("another configuration works on it, with another %s: %s (%s)", strings.Join(r.Differs, ", "), r.Other.Config, when)
}
