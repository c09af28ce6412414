// Package memory is a table in memory, for tests, dry runs and simulations. The
// same engine runs on it as on a database, and package storetest holds every
// other store to what it does.
package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"backlog/backlog"
)

// Options say what the statuses of a table mean. The zero value is the table
// of the documentation, with NEW, ERROR and SUCCESS and no dead status.
type Options struct {
	New     []string // records never tried; default NEW
	Error   string   // records that failed; default ERROR
	Success string   // default SUCCESS
	Dead    string   // default: none, records stay in Error

	// ErrorKeep leaves the status as it is after an error, and after a
	// rejection too if there is no Dead. Error is then ignored, and the failed
	// lane is empty unless Policy counts failures.
	ErrorKeep bool

	// Policy decides which failed records are due; nil: all of them. With
	// ErrorKeep, a record has failed if its count of failures is above 0. With a
	// Refresher, Row.Memory says when a row is started, and its status does not
	// matter.
	Policy *backlog.Policy

	// NullDate says when a record without a date is due: "newest" in every
	// pass, as if inserted now; "oldest" in the passes of the widest tier,
	// after all others; "skip", the default, never.
	NullDate string

	// Eligible says that a snooze is kept in Row.Eligible. Otherwise a planned Policy keeps it in
	// Row.Memory for a record that has failed, and no other does.
	Eligible bool

	// Refuses is called with each row that the engine is about to write, and returns why the
	// table refuses it, like a constraint. It must not use the table. Nil: nothing is refused.
	Refuses func(Row) error
}

// A Row is one row of the table.
type Row struct {
	Key      backlog.Key // parts are int64, float64, string or []byte
	Status   string      // empty: NULL
	Inserted time.Time   // zero: no date; dates before 1678 or after 2262 count as those
	NullDate string      // when a row without a date is due; "": as [Options].NullDate says
	Eligible time.Time   // not selected before that; zero: at once
	Expires  time.Time   // not selected after that; zero: never

	// Columns are what handlers are given, in alphabetical order. The table
	// has the columns of all rows ever inserted. A column that a row lacks is
	// NULL. The values must not be changed afterwards.
	Columns map[string]any

	Attempts  int
	LastError string

	Memory  backlog.Memory // what the policy keeps, if it keeps anything
	InRetry bool           // a planned retry is pending
}

// A Store is a table in memory: a [backlog.Store] that can also count, expire
// and be locked. Its methods may be called concurrently. The cost of a page
// grows with its records, not with the table; a page of the widest tier also
// passes those that are too old.
type Store struct {
	o    Options
	rule *backlog.Rule // of the policy

	// lane returns the lane of a row, and whether the row is pending in it. settle writes an
	// outcome into a row, and returns false if the row has changed since it was read. Both
	// depend on the kind of policy.
	lane   func(*entry) (lane backlog.Lane, pending bool)
	settle func(*entry, *backlog.Settlement) bool

	expires bool // rows die by age, or when they are given up

	mu    sync.RWMutex
	rows  map[uint64]*entry // by Key.Hash
	lanes [2]*index         // by backlog.Lane
	names []string          // of all columns, sorted; replaced and never changed, because records share it
	locks map[string]*lock
}

var (
	_ backlog.Beginner  = (*Store)(nil)
	_ backlog.Locker    = (*Store)(nil)
	_ backlog.Pinger    = (*Store)(nil)
	_ backlog.Expirer   = (*Store)(nil)
	_ backlog.Rehearser = (*Store)(nil)
	_ backlog.Verifier  = (*Store)(nil)
	_ backlog.Snoozer   = (*Store)(nil)
)

// New returns an empty table.
func New(o Options) *Store {
	if len(o.New) == 0 {
		o.New = []string{"NEW"}
	}
	o.New = slices.Clone(o.New)
	o.Error = cmp.Or(o.Error, "ERROR")
	o.Success = cmp.Or(o.Success, "SUCCESS")
	o.NullDate = cmp.Or(o.NullDate, "skip")
	s := &Store{o: o, rule: o.Policy.Rule(), rows: make(map[uint64]*entry), locks: make(map[string]*lock)}
	s.lane = s.laneByStatus
	s.settle = s.settleStatus
	s.expires = o.Dead != ""
	if o.Policy.HasDeadlines() {
		s.expires = false
		s.lane = laneByStarts
		s.settle = s.endAttempt
		s.o.NullDate = "start" // ages do not matter
	}
	for lane := range s.lanes {
		s.lanes[lane] = newIndex(s.rule.ByWait(backlog.Lane(lane)))
	}
	return s
}

// Insert adds rows, all of them or, with an error, none. It is an error if the
// table has a key already, or if a part of a key has a type that no database gives.
func (s *Store) Insert(rows ...Row) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range rows {
		if err := s.add(r); err != nil {
			for _, added := range rows[:i] {
				s.drop(added.Key)
			}
			return fmt.Errorf("row %v: %w", r.Key, err)
		}
	}
	for _, r := range rows {
		for name := range r.Columns {
			if i, ok := slices.BinarySearch(s.names, name); !ok {
				s.names = slices.Insert(slices.Clone(s.names), i, name)
			}
		}
	}
	return nil
}

func (s *Store) add(r Row) error {
	if r.Key.IsZero() {
		return errors.New("the key is empty")
	}
	for i := range r.Key.Len() { // a cursor stored as JSON would return an int, for example, as another type
		switch part := r.Key.Part(i).(type) {
		case int64, float64, string, []byte:
		default:
			return fmt.Errorf("key part of type %T, not int64, float64, string or []byte", part)
		}
	}
	if s.rows[r.Key.Hash()] != nil {
		return errors.New("the key is there already")
	}
	if !r.Inserted.IsZero() { // a time from a database has no monotonic reading and no zone
		r.Inserted = r.Inserted.Round(0).UTC()
	}
	r.Columns = maps.Clone(r.Columns)
	e := &entry{Row: r}
	s.rows[r.Key.Hash()] = e
	s.enter(e)
	return nil
}

// enter adds the entry to its lane, if it is in one.
func (s *Store) enter(e *entry) {
	x := s.index(e)
	if x == nil {
		return
	}
	e.at = s.sortTime(e, x)
	x.tree.Set(e)
}

// sortTime returns the time by which the index orders the entry, in nanoseconds since 1970.
func (s *Store) sortTime(e *entry, x *index) int64 {
	switch {
	case x.byWait:
		return nanos(s.rule.Order(&e.Memory)) // the zero time is the first of all
	case !e.Inserted.IsZero():
		return nanos(e.Inserted)
	case s.nullDate(e) == "oldest":
		return oldest
	}
	return newest
}

// leave removes the entry from its lane, if it is in one.
func (s *Store) leave(e *entry) {
	if x := s.index(e); x != nil {
		x.tree.Delete(e)
	}
}

func (s *Store) drop(k backlog.Key) bool {
	e := s.rows[k.Hash()]
	if e == nil {
		return false
	}
	s.leave(e)
	delete(s.rows, k.Hash())
	return true
}

// Row returns the row with the key, and whether there is one.
func (s *Store) Row(k backlog.Key) (Row, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.rows[k.Hash()]
	if e == nil {
		return Row{}, false
	}
	return e.copy(), true
}

// Rows returns all rows in the order of their keys.
func (s *Store) Rows() []Row {
	s.mu.RLock()
	defer s.mu.RUnlock()
	rows := make([]Row, 0, len(s.rows))
	for _, e := range s.rows {
		rows = append(rows, e.copy())
	}
	slices.SortFunc(rows, func(a, b Row) int { return a.Key.Compare(b.Key) })
	return rows
}

// Update has f change a row, as another program would, and reports whether the
// row exists. f must not change the key.
func (s *Store) Update(k backlog.Key, f func(*Row)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.rows[k.Hash()]
	if e != nil {
		s.change(e, func() { f(&e.Row) })
	}
	return e != nil
}

// Delete removes a row as another program would, and reports whether it
// existed.
func (s *Store) Delete(k backlog.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drop(k)
}

// change has f change an entry, and moves the entry to its place in its lane.
func (s *Store) change(e *entry, f func()) {
	s.leave(e)
	f()
	s.enter(e)
}

// index returns the lane that the entry is in, nil if no pass may ever take it.
func (s *Store) index(e *entry) *index {
	lane, pending := s.lane(e)
	if !pending || s.nullDate(e) == "skip" {
		return nil
	}
	return s.lanes[lane]
}

// nullDate says when the entry is due if it has no date, see [Options]. It returns "" if the entry
// has a date.
func (s *Store) nullDate(e *entry) string {
	if !e.Inserted.IsZero() {
		return ""
	}
	return cmp.Or(e.NullDate, s.o.NullDate)
}

// laneByStarts returns the lane of a row under a policy with deadlines, and whether it waits
// for its next start.
func laneByStarts(e *entry) (lane backlog.Lane, pending bool) {
	m := &e.Memory
	lane = backlog.Fresh
	if m.AttemptNo > 0 {
		lane = backlog.Failed
	}
	return lane, !m.Next.IsZero() && !e.runs() && !m.Disabled
}

// laneByStatus returns the lane of a row by its status, and whether the row is pending. The
// policy has given up a row that is in the failed lane and not pending. A status that is both
// Error and Dead is a dead one.
func (s *Store) laneByStatus(e *entry) (lane backlog.Lane, pending bool) {
	switch {
	case e.Status == "" || e.Status == s.o.Dead:
		return backlog.Fresh, false
	case slices.Contains(s.o.New, e.Status):
		if s.o.ErrorKeep && e.Memory.Failures > 0 {
			return backlog.Failed, !s.o.Policy.GivenUp(e.Memory.Failures)
		}
		return backlog.Fresh, true
	case e.Status == s.o.Error && !s.o.ErrorKeep:
		return backlog.Failed, !s.o.Policy.GivenUp(e.Memory.Failures)
	}
	return backlog.Fresh, false
}

// TryLock implements [backlog.Locker] between the users of one Store.
func (s *Store) TryLock(ctx context.Context, name string) (backlog.Lock, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.locks[name] != nil {
		return nil, backlog.ErrLockedHere
	}
	l := &lock{store: s, name: name}
	s.locks[name] = l
	return l, nil
}

type lock struct {
	store *Store
	name  string
}

// Check implements [backlog.Lock].
func (l *lock) Check(ctx context.Context) error {
	l.store.mu.RLock()
	defer l.store.mu.RUnlock()
	return cmp.Or(ctx.Err(), l.held())
}

// Unlock implements [backlog.Lock]. A second call is an error, and does not
// unlock the next holder's lock.
func (l *lock) Unlock() error {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	if err := l.held(); err != nil {
		return err
	}
	delete(l.store.locks, l.name)
	return nil
}

func (l *lock) held() error {
	if l.store.locks[l.name] != l {
		return fmt.Errorf("memory: the %s lock is no longer held", l.name)
	}
	return nil
}

// The dates that records without a date have in the order of a lane, newer or
// older than all others.
const (
	newest int64 = math.MaxInt64
	oldest int64 = math.MinInt64
)

// The range of the other dates.
var (
	latest   = time.Unix(0, newest-1)
	earliest = time.Unix(0, oldest+1)
)

// nanos returns the time in nanoseconds since 1970, or the nearest one that is
// within the range.
func nanos(t time.Time) int64 {
	switch {
	case t.Before(earliest):
		return oldest + 1
	case t.After(latest):
		return newest - 1
	}
	return t.UnixNano()
}

// An entry is a row with the time by which its lane is ordered. An entry without a key is the
// place before all rows of its time.
type entry struct {
	Row
	at int64 // nanoseconds since 1970, newest or oldest
}

func (e *entry) copy() Row {
	r := e.Row
	r.Columns = maps.Clone(r.Columns)
	return r
}

// selectable reports whether now is within the row's own times.
func (e *entry) selectable(now time.Time) bool {
	eligible := e.Eligible.IsZero() || !e.Eligible.After(now)
	expired := !e.Expires.IsZero() && now.After(e.Expires)
	return eligible && !expired
}

// An index holds the entries of a lane in its order: the newest first and, of one time, the
// greatest key first. With byWait it is the reverse: the one that has waited longest first,
// then the least key.
type index struct {
	tree   *btree.BTreeG[*entry]
	byWait bool
}

func newIndex(byWait bool) *index {
	x := &index{byWait: byWait}
	x.tree = btree.NewBTreeGOptions(func(a, b *entry) bool { return x.compare(a, b) < 0 }, btree.Options{NoLocks: true})
	return x
}

// compare returns -1 if a comes before b, 0 if both have the same place, and 1 if a comes
// after b.
func (x *index) compare(a, b *entry) int {
	if x.byWait {
		if c := cmp.Compare(a.at, b.at); c != 0 {
			return c
		}
		return a.Key.Compare(b.Key)
	}
	if c := cmp.Compare(b.at, a.at); c != 0 {
		return c
	}
	if a.Key.IsZero() || b.Key.IsZero() { // a place without a key comes before all keys
		return cmp.Compare(a.Key.Len(), b.Key.Len())
	}
	return b.Key.Compare(a.Key)
}

// after yields the entries after p, which need not be in the index, and p too if before is set.
// The index must not change during the iteration.
func (x *index) after(p *entry, before bool) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		x.tree.Ascend(p, func(e *entry) bool {
			return !before && x.compare(e, p) == 0 || yield(e)
		})
	}
}
