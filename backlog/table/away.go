package table

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"backlog/backlog"
)

// A hindrance is an error that wraps [backlog.ErrAway] where the database is
// there: its text says what is in the way, and where to look.
type hindrance struct {
	text string
	err  error
}

func (h *hindrance) Error() string   { return h.text }
func (h *hindrance) Unwrap() []error { return []error{backlog.ErrAway, h.err} }

// What is in the way of a statement, as all dialects call it; what the server
// itself says follows.
const (
	lockedByOther  = "locked by another session"
	crossesOther   = "in the way of another session again and again"
	cancelledThere = "the statement was cancelled"
	tooSlow        = "a statement takes longer than its time limit"
	endedThere     = "the connection was ended there"
	readOnlyThere  = "the database takes no writes"
	fullThere      = "the database has no connection left"
	outOfSpace     = "the database has run out of disk or memory"
)

// What to do where no server answers.
const (
	correctAddress = "start it there, or correct host and port in the database URL"
	correctHost    = "correct the host in the database URL"
)

// lookAtIndexes is where to look for what is tooSlow.
const lookAtIndexes = "probably an index is missing: `backlog check` tells which, `backlog init` creates it"

// inTheWay returns the error of a statement that may succeed later: what is in
// the way, if the database has said so, else that it is away.
func inTheWay(d dialect, err error) error {
	what, said, look := d.hinders(err)
	switch {
	case what != "" && look != "":
		return &hindrance{what + ": " + said + "; " + look, err}
	case what != "":
		return &hindrance{what + ": " + said, err}
	case isWordless(err):
		return fmt.Errorf("%w: the connection broke off; the server's log tells why", backlog.ErrAway)
	}
	return fmt.Errorf("%w: %w", backlog.ErrAway, err)
}

// isWordless reports whether the error says of a connection only that it is no
// more, in words of the driver.
func isWordless(err error) bool {
	for _, e := range []error{driver.ErrBadConn, sql.ErrConnDone, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return isBrokenMySQL(err) || isClosedPostgres(err)
}

// noAnswer says that the database has kept quiet for that long.
func noAnswer(limit time.Duration) error {
	return fmt.Errorf("%w: no answer within %v", backlog.ErrAway, limit)
}

// unconnected says that ctx has ended before there was a connection to the server.
func unconnected(ctx context.Context, at string) error {
	return &hindrance{backlog.ErrAway.Error() + ": no connection to " + at + " so far", ctx.Err()}
}

// limited calls f with a limit to its time, and says so when that has ended it.
func limited(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	lctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := f(lctx)
	if err != nil && lctx.Err() != nil && ctx.Err() == nil && !errors.Is(err, backlog.ErrAway) {
		return noAnswer(limit)
	}
	return err
}

// ended returns the error of a call that the end of the caller's context has cut
// short.
func ended(ctx context.Context, err error) error {
	if errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}
