package amqp

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"backlog/backlog"
)

// A sessionKeeper keeps a session, and opens a new one when that has ended. Methods may be
// called concurrently.
type sessionKeeper struct {
	dialMu sync.Mutex
	last   atomic.Pointer[session]
	opened bool // a session was opened before: later errors of the configuration are taken as temporary

	logMu         sync.Mutex
	lastLogged    string // the text of the last error in the log
	lastLoggedAt  time.Time
	unavailableAt time.Time // when the broker was unavailable last
}

// logError logs an error of the broker and returns it. The same error is logged at most once a
// minute. That the broker is unavailable is logged by the caller; only when the reason changes
// is the new one logged here, at most every 10 s.
func (k *sessionKeeper) logError(log *slog.Logger, err error) error {
	if log == nil || err == nil {
		return err
	}
	k.logMu.Lock()
	defer k.logMu.Unlock()
	now := time.Now()
	sameText := err.Error() == k.lastLogged
	sinceLast := now.Sub(k.lastLoggedAt)
	if !errors.Is(err, backlog.ErrUnavailable) {
		loggedLately := sameText && sinceLast < time.Minute
		if errors.Is(err, context.Canceled) || loggedLately {
			return err
		}
		k.lastLogged = err.Error()
		k.lastLoggedAt = now
		log.Error("the broker refuses something", "error", err)
		return err
	}
	first := now.Sub(k.unavailableAt) > time.Minute
	k.unavailableAt = now
	tooSoon := !first && sinceLast < answerTimeout
	if errors.Is(err, context.Canceled) || sameText || tooSoon {
		return err
	}
	k.lastLogged = err.Error()
	k.lastLoggedAt = now
	if !first {
		log.Error("the broker is still unavailable, now for another reason", "error", err)
	}
	return err
}

// current returns the last session, nil if there was none.
func (k *sessionKeeper) current() *session { return k.last.Load() }

// up reports whether there is a session.
func (k *sessionKeeper) up() bool {
	sess := k.current()
	return sess != nil && !sess.ended()
}

// open returns the session. If the last has ended it dials a new one and calls prepare with it.
func (k *sessionKeeper) open(ctx context.Context, log *slog.Logger, s *Settings, prepare func(*session) error) (*session, error) {
	if sess := k.current(); sess.usable() {
		return sess, nil // the usual case, without the lock
	}
	k.dialMu.Lock()
	defer k.dialMu.Unlock()
	last := k.current()
	if last.usable() { // another call has opened it
		return last, nil
	}
	if last != nil && last.prepared.Load() && !last.endLogged {
		last.endLogged = true
		k.logError(log, last.reason())
	}
	sess, err := dial(ctx, s, "publish", "consume")
	if err == nil {
		sess.onLateConfirm = func() { k.logLateConfirm(log, sess) }
		k.last.Store(sess)
		err = prepare(sess)
		if err != nil {
			sess.end(err)
		}
	}
	if err == nil {
		sess.prepared.Store(true)
		k.opened = true
		return sess, nil
	}
	if k.opened && !errors.Is(err, backlog.ErrUnavailable) {
		k.logError(log, err)
		err = unavailable(err) // it worked before, so it may be corrected
	}
	return sess, err
}

// logLateConfirm logs why the session is late to confirm a message. The error is logged by its text
// alone: logError leaves a [backlog.ErrUnavailable] to its caller, and no caller is there to log it.
func (k *sessionKeeper) logLateConfirm(log *slog.Logger, sess *session) {
	reason := cmp.Or(sess.err(), errConfirmLate)
	k.logError(log, errors.New(reason.Error()))
}
