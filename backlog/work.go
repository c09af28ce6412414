package backlog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// A Work is what the passes of a configuration do on a table. Each has locks of its own.
type Work struct {
	Name string // tells several works on one table apart; "": the only one

	// Marks say by which configuration, so that another one is found out: they stay
	// with a lock while it is held. nil: that does not matter.
	Marks []Mark
}

// A Mark is a digest of a part of a configuration.
type Mark struct {
	What   string `json:"what"`
	Digest string `json:"digest"`
}

// NewMark returns the mark of a part, by its JSON.
func NewMark(what string, part any) Mark {
	text, _ := json.Marshal(part)
	sum := sha256.Sum256(text)
	return Mark{What: what, Digest: hex.EncodeToString(sum[:8])}
}

// The marks of a file, beside those of what it says.
const (
	MarkFile = "file" // where it is
	MarkText = "text" // how it is written, variables not expanded
)

// A Rival is an ErrLocked: who holds the lock works by another configuration.
type Rival struct {
	Differs  []string // what differs, such as where
	SameFile bool     // the other is an earlier or a later version of the same file
}

func (r *Rival) Error() string {
	return "another configuration of this table is at work, with another " + strings.Join(r.Differs, ", ")
}

// Unwrap makes it an ErrLocked.
func (r *Rival) Unwrap() error { return ErrLocked }

// Rival compares the work with another one, of which has reports the marks. It is nil
// if both do the same.
func (w Work) Rival(has func(Mark) bool) *Rival {
	var r Rival
	moved, rewritten := false, false
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

// A Marker is a Lock whose holder may go on by another configuration.
type Marker interface {
	Lock
	// Mark replaces the marks of the lock.
	Mark(ctx context.Context, w Work) error
}
