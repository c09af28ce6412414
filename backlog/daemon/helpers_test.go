package daemon_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"backlog/backlog"
	"backlog/backlog/daemon"
	"backlog/backlog/memory"
	"backlog/internal/testkit"
	"backlog/tiers"
)

// A bench is a table on a server, with a list of what daemons do to it.
type bench struct {
	t     *testing.T
	began time.Time
	table *memory.Store

	mu     sync.Mutex
	locks  map[string]*lock
	story  []string
	atWork map[string]string // which daemon has the record
}

func newBench(t *testing.T) *bench {
	return &bench{
		t: t, began: time.Now(), table: memory.New(memory.Options{}),
		locks: make(map[string]*lock), atWork: make(map[string]string),
	}
}

// add inserts so many records, which are three hours old.
func (b *bench) add(first, n int) {
	b.t.Helper()
	for i := range n {
		at := time.Now().Add(-3*time.Hour - time.Duration(i)*time.Second)
		if err := b.table.Insert(memory.Row{Key: backlog.NewKey(int64(first + i)), Status: "NEW", Inserted: at}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// tell adds to the story.
func (b *bench) tell(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.story = append(b.story, time.Since(b.began).String()+" "+fmt.Sprintf(format, args...))
}

// wantStory compares the story with what is wanted.
func (b *bench) wantStory(want ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.story, want) {
		b.t.Errorf("the story is\n\t%q\nwant\n\t%q", b.story, want)
	}
}

func schedule(t *testing.T) *tiers.Schedule {
	t.Helper()
	return testkit.Schedule(t, tiers.Tier{MaxAge: 2 * time.Hour, Every: 10 * time.Minute}, tiers.Tier{MaxAge: 24 * time.Hour, Every: time.Hour})
}

// widest returns a schedule of one tier.
func widest(t *testing.T) *tiers.Schedule {
	t.Helper()
	return testkit.Schedule(t, tiers.Tier{MaxAge: 24 * time.Hour, Every: time.Hour})
}

// daemon returns a daemon on the session, nil for one of its own, whose passes have nothing to do.
func (b *bench) daemon(s *session) *daemon.Daemon {
	s = cmp.Or(s, &session{of: b})
	return &daemon.Daemon{
		Loop:    &backlog.Loop{Schedule: schedule(b.t), Engine: b.engine(s, 0), Locker: s},
		Leaders: s,
	}
}

// worker returns a daemon whose handler takes some time and whose changes and passes are
// told under its name.
func (b *bench) worker(s *session, takes time.Duration) *daemon.Daemon {
	d := b.daemon(s)
	d.Loop.Engine = b.engine(s, takes)
	d.Loop.Observe = func(ev backlog.Event) {
		switch ev.Kind {
		case backlog.LockLost, backlog.StateFailed, backlog.TicksMissed:
			b.tell("%s: %s", s.name, ev.Kind)
		}
	}
	d.Changed = func(c daemon.Change) {
		if c.Role != d.Role() {
			b.t.Errorf("the role is %q, the change says %q", d.Role(), c.Role)
		}
		b.tell("%s: %s", s.name, shown(c, b.began))
	}
	return d
}

// shown shows a change.
func shown(c daemon.Change, began time.Time) string {
	text := string(c.Role)
	if !c.Seen.IsZero() {
		text += " after " + c.Seen.Sub(began).String()
	}
	if c.Rival != nil {
		text += " beside " + c.Rival.Differs[0]
	}
	if c.Err != nil && c.Was == daemon.TakingOver {
		text += ", not taken over"
	}
	return text
}

// engine returns an engine whose handler takes some time. It ends before only when it is killed.
// What two daemons have at a time is an error.
func (b *bench) engine(s *session, takes time.Duration) *backlog.Engine {
	handle := func(ctx context.Context, r *backlog.Record) error {
		b.mu.Lock()
		if other := b.atWork[r.Key.String()]; other != "" {
			b.t.Errorf("after %v %s has record %v, on which %s is at work", time.Since(b.began), s.name, r.Key, other)
		}
		b.atWork[r.Key.String()] = s.name
		b.mu.Unlock()
		defer func() {
			s.thawed()
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.atWork[r.Key.String()] == s.name {
				delete(b.atWork, r.Key.String())
			}
		}()
		select {
		case <-time.After(takes):
			return nil
		case <-backlog.Killed(ctx):
			return context.Canceled
		}
	}
	return &backlog.Engine{Store: b.table, Handler: backlog.HandlerFunc(handle), ShutdownTimeout: time.Hour, Observe: func(ev backlog.Event) {
		switch {
		case ev.Kind == backlog.PassStarted && takes > 0:
			b.tell("%s: pass %s", s.name, ev.Tier)
		case ev.Kind == backlog.PassEnded && takes > 0:
			b.tell("%s: %d done", s.name, ev.Report.Succeeded)
		}
	}}
}

// start runs the daemon until stop is called, which waits for its end.
func (b *bench) start(d *daemon.Daemon) (stop func()) {
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan error)
	go func() { ended <- d.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
	})
}

// run runs the daemon until so long after the beginning.
func (b *bench) run(d *daemon.Daemon, after time.Duration) error {
	ctx, cancel := context.WithTimeout(b.t.Context(), after-time.Since(b.began))
	defer cancel()
	return d.Run(ctx)
}

// until sleeps until so long after the beginning.
func (b *bench) until(after time.Duration) {
	time.Sleep(after - time.Since(b.began))
	synctest.Wait()
}

// A session is a connection of a process to the server: a Locker.
type session struct {
	of   *bench
	name string

	cut    bool          // the server cannot be reached; guarded by the bench
	silent bool          // no probe is answered; likewise
	frozen chan struct{} // closed when the stopped process goes on; nil: it is not stopped; likewise
}

type lock struct {
	of   *session
	name string
	work backlog.Work
}

// thawed returns when the process is not stopped.
func (s *session) thawed() {
	s.of.mu.Lock()
	frozen := s.frozen
	s.of.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

// TryLock implements backlog.Locker.
func (s *session) TryLock(_ context.Context, name string) (backlog.Lock, error) {
	s.thawed()
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.cut {
		return nil, backlog.ErrUnavailable
	}
	if s.of.locks[name] != nil {
		return nil, backlog.ErrLocked
	}
	l := &lock{of: s, name: name}
	s.of.locks[name] = l
	return l, nil
}

var errEnded = errors.New("the session has been ended")

// roundTrip is how long an answer takes that comes late.
const roundTrip = 1500 * time.Millisecond

// Check implements backlog.Lock.
func (l *lock) Check(ctx context.Context) error {
	b := l.of.of
	b.mu.Lock()
	cut, silent, frozen := l.of.cut, l.of.silent, l.of.frozen
	b.mu.Unlock()
	switch {
	case silent:
		<-ctx.Done()
	case cut:
		time.Sleep(roundTrip)
	case frozen != nil:
		<-frozen
		time.Sleep(roundTrip)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.locks[l.name] != l {
		return errEnded
	}
	return ctx.Err()
}

// Unlock implements backlog.Lock.
func (l *lock) Unlock() error {
	b := l.of.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.locks[l.name] != l {
		return errEnded
	}
	delete(b.locks, l.name)
	return nil
}

// Mark implements backlog.Marker.
func (l *lock) Mark(_ context.Context, w backlog.Work) error {
	b := l.of.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.locks[l.name] != l {
		return errEnded
	}
	l.work = w
	return nil
}

var _ backlog.Marker = (*lock)(nil)

// end makes the server end the session: its locks are free.
func (s *session) end() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	for name, l := range s.of.locks {
		if l.of == s {
			delete(s.of.locks, name)
		}
	}
}

// cutOff cuts the connection, or mends it. The server ends the session at once.
func (s *session) cutOff(cut bool) {
	s.end()
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.cut = cut
}

// freeze stops the process until thaw is called: its handlers do nothing. The server ends the session at once.
func (s *session) freeze() (thaw func()) {
	s.end()
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	maps.DeleteFunc(s.of.atWork, func(_, name string) bool { return name == s.name })
	frozen := make(chan struct{})
	s.frozen = frozen
	return func() {
		s.of.mu.Lock()
		s.frozen = nil
		s.of.mu.Unlock()
		close(frozen)
	}
}

// A lockerFunc is a backlog.Locker.
type lockerFunc func(ctx context.Context, name string) (backlog.Lock, error)

// TryLock implements backlog.Locker.
func (f lockerFunc) TryLock(ctx context.Context, name string) (backlog.Lock, error) {
	return f(ctx, name)
}

// lockers returns a locker whose lock cannot be taken, and why.
func lockers(why func() error) lockerFunc {
	return func(context.Context, string) (backlog.Lock, error) { return nil, why() }
}

// An awayStore is unavailable now and then.
type awayStore struct {
	*memory.Store
	away atomic.Bool
}

// Settle implements backlog.Store.
func (s *awayStore) Settle(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	if s.away.Load() {
		return nil, backlog.ErrUnavailable
	}
	return s.Store.Settle(ctx, group)
}
