package backlog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// A Work is what the passes of a configuration do on a table. Each work has its own locks.
type Work struct {
	Name string // distinguishes several works on one table; "": the only one

	// Marks identify the configuration. They are stored with a lock while it is held, so that
	// a process finds out that the holder has another configuration. Nil: it does not matter.
	Marks []Mark
}

// A Mark is the digest of a part of a configuration.
type Mark struct {
	What   string `json:"what"`
	Digest string `json:"digest"`
}

// NewMark returns the mark of a part of a configuration, by its JSON.
func NewMark(what string, part any) Mark {
	text, _ := json.Marshal(part)
	sum := sha256.Sum256(text)
	return Mark{What: what, Digest: hex.EncodeToString(sum[:8])}
}

// The marks of the configuration file itself. All others are of settings in it.
const (
	MarkFile = "file" // its path
	MarkText = "text" // its text, variables not expanded
)

// A Rival is an ErrLocked that says that the holder of the lock has another configuration.
type Rival struct {
	Differs  []string // the parts that differ, by Mark.What
	SameFile bool     // the other configuration is an earlier or later version of the same file
}

func (r *Rival) Error() string {
	return "another configuration of this table is at work, with another " + strings.Join(r.Differs, ", ")
}

// Unwrap makes it an ErrLocked.
func (r *Rival) Unwrap() error { return ErrLocked }

// Rival compares the work with another one; has reports which marks that has. It returns nil if
// both do the same.
func (w Work) Rival(has func(Mark) bool) *Rival {
	var r Rival
	var moved, rewritten bool
	for _, m := range w.Marks {
		differs := !has(m)
		switch m.What {
		case MarkFile:
			moved = differs
		case MarkText:
			rewritten = differs
		default:
			if differs {
				r.Differs = append(r.Differs, m.What)
			}
		}
	}
	if len(r.Differs) == 0 {
		return nil
	}
	r.SameFile = !moved && rewritten && slices.ContainsFunc(w.Marks, func(m Mark) bool { return m.What == MarkFile })
	return &r
}

// A Marker is a Lock whose holder may go on with another configuration.
type Marker interface {
	Lock
	// Mark replaces the marks of the lock. Check and Unlock may be called at the same time.
	Mark(ctx context.Context, w Work) error
}
