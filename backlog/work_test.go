package backlog_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"backlog/backlog"
)

// Two configurations are rivals by what they do, not by their files. Another version of
// the same file is known as one.
func TestRival(t *testing.T) {
	marks := func(text string) (list []backlog.Mark) {
		for i, digest := range strings.Fields(text) {
			list = append(list, backlog.Mark{What: []string{"where", "handler", backlog.MarkFile, backlog.MarkText}[i], Digest: digest})
		}
		return list
	}
	for _, c := range []struct {
		name, ours, theirs string
		differs            string // "": nothing
		sameFile           bool
	}{
		{"the same", "mail send a.yaml v1", "mail send a.yaml v1", "", false},
		{"the same in another file", "mail send a.yaml v1", "mail send b.yaml v2", "", false},
		{"another where", "mail send a.yaml v1", "sms send b.yaml v2", "where", false},
		{"all is different", "mail send a.yaml v1", "sms push b.yaml v2", "where handler", false},
		{"another version", "mail send a.yaml v1", "sms send a.yaml v2", "where", true},
		{"another variable", "mail send a.yaml v1", "mail push a.yaml v1", "handler", false},
		{"no regular file", "mail send", "sms send a.yaml v1", "where", false},
	} {
		theirs := marks(c.theirs)
		r := backlog.Work{Marks: marks(c.ours)}.Rival(func(m backlog.Mark) bool { return slices.Contains(theirs, m) })
		switch {
		case r == nil && c.differs == "":
		case r == nil || strings.Join(r.Differs, " ") != c.differs || r.SameFile != c.sameFile:
			t.Errorf("%s: got %+v", c.name, r)
		case !errors.Is(r, backlog.ErrLocked):
			t.Errorf("%s: want an ErrLocked", c.name)
		}
	}
}
