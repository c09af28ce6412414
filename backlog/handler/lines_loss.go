package handler

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"backlog/backlog"
)

// A loss is why a worker answers nothing more.
type loss struct {
	why       error  // a reason of ours to end it, or how it ended by itself
	tail      string // of its standard error
	how       *exec.ExitError
	unstarted bool   // it has not even begun
	note      string // for the log: how it ended
	well      bool   // it ended by itself, with status 0
	read      int    // if so: how much of what it was given, at most
}

// spare has those wait for another worker whose request c, which has ended well,
// has not read: they were no attempts, and come first. One that has answered
// nothing has the others fail, too, so that none is handed on for ever. l.mu is
// held.
func (l *Lines) spare(c *coprocess, lost *loss) {
	if !lost.well || !c.answered || l.closed {
		return
	}
	var spared []*task
	for id, t := range c.inFlight {
		if brace := t.end - 1; lost.read < brace { // the last byte that means anything
			spared = append(spared, t)
			delete(c.inFlight, id)
		}
	}
	slices.SortFunc(spared, func(a, b *task) int { return b.end - a.end })
	for _, t := range spared {
		t.at = nil
		t.place = l.waiting.PushFront(t)
	}
}

// error returns the loss as the error of one attempt that was in flight.
func (l *loss) error(ctx context.Context) error {
	why := l.why
	if errors.As(why, new(*interruption)) && ctx.Err() != nil {
		why = context.Cause(ctx) // it is its own
	}
	text, causes := why.Error(), []error{why}
	if l.tail != "" && !errors.As(why, new(*nonsense)) {
		text += ": " + l.tail
	}
	if l.how != nil {
		causes = append(causes, l.how)
	}
	if l.unstarted && backlog.OutcomeOf(why) != backlog.Skipped {
		return backlog.Unstarted(&failure{text, causes})
	}
	return &failure{text, causes}
}

// atClose returns the loss as an error of Close, which is to end all workers:
// nil if this one ended as it should.
func (l *loss) atClose() error {
	if l.how == nil || l.how.Success() && !errors.As(l.why, new(lingering)) {
		return nil
	}
	return l.error(context.Background())
}

// An interruption is the end of a worker because the context of one of its
// records was done.
type interruption struct{ cause error }

func (i *interruption) Error() string {
	return fmt.Sprintf("the worker was ended because of another record that it had: %v", i.cause)
}

// noteOf returns the reason to end a worker for the log, which speaks of no
// record in particular. A context that is canceled without a cause of its own
// is a stop.
func noteOf(why error) string {
	i := (*interruption)(nil)
	if !errors.As(why, &i) {
		return why.Error()
	}
	if i.cause == context.Canceled {
		return "the worker was ended by the stop: it had not answered all in time"
	}
	return "the worker was ended before it had answered all: " + i.cause.Error()
}

// A nonsense is the end of a worker because of what it wrote.
type nonsense struct {
	what string
	line []byte
}

// quoted is how much of a line people get to see.
const quoted = 200

func (n *nonsense) Error() string {
	if len(n.line) > quoted {
		return fmt.Sprintf("the worker wrote %s: %q…", n.what, n.line[:quoted])
	}
	return fmt.Sprintf("the worker wrote %s: %q", n.what, n.line)
}

// A deafness is the end of a worker that has closed its standard input or output
// and goes on.
type deafness string

func (d deafness) Error() string { return "the worker closed its standard " + string(d) }

// A lingering is the end of a worker that lives on after the end of its input.
type lingering struct{ grace time.Duration }

func (l lingering) Error() string {
	return fmt.Sprintf("the worker had to be ended: it did not end within %v of the end of its standard input", l.grace)
}
