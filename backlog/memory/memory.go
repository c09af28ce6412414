// Package memory holds records in memory. It serves tests, dry runs and
// simulations: the same engine runs on it as on a database.
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
// of the documentation: NEW, ERROR and SUCCESS, and none for dead records.
type Options struct {
	New     []string // records never tried; default NEW
	Error   string   // records that failed; default ERROR
	Success string   // default SUCCESS
	Dead    string   // default: none, records stay in Error

	// ErrorKeep leaves the status as it is on an error, and on a rejection
	// too where there is no Dead. Error then means nothing and the failed
	// lane is empty.
	ErrorKeep bool

	// Policy decides which failed records are due; nil: all of them. With
	// ErrorKeep, who has failed is told by its count. With a Refresher, rows are
	// started by their Refresh, and a status only shows what is so.
	Policy *backlog.Policy

	// NullDate says when a record without a date is due: "newest" in every
	// pass, as if inserted now; "oldest" in the passes of the widest tier,
	// after all others; "skip", the default, never.
	NullDate string

	// Refuses is given each row as it would be written by the engine, and returns why the table
	// refuses that, as a constraint does. It must not use the table. Nil: it takes all.
	Refuses func(Row) error
}

// A Row is one row of the table.
type Row struct {
	Key      backlog.Key // parts are int64, float64, string or []byte
	Status   string      // empty: NULL
	Inserted time.Time   // zero: no date; else it counts as one between 1678 and 2262
	NullDate string      // without a date: when it is due, as [Options].NullDate, which is the default
	Eligible time.Time   // not selected before; zero: at once
	Expires  time.Time   // not selected after; zero: never

	// Columns are what handlers are given, in alphabetical order. The table
	// has the columns of all rows ever inserted; one that a row lacks is
	// NULL. The values must not be changed afterwards.
	Columns map[string]any

	Attempts  int
	LastError string

	Memory  backlog.Memory // what a policy keeps; only with one that does
	InRetry bool           // a planned retry is pending
}

// A Store is a table in memory: a [backlog.Store] that can also count, expire
// and be locked. Its methods may be called concurrently. A page costs about
// as much as it has records, however many the table has; one of the widest tier
// also looks at those that are too old.
type Store struct {
	o    Options
	rule *backlog.Rule // of the policy

	// By what the policy keeps of a row: the lane that it is in, and what an outcome makes of it.
	lane   func(*entry) (lane backlog.Lane, pending bool)
	settle func(*entry, *backlog.Settlement) bool

	expires bool // rows die of age, or when they are given up

	mu    sync.RWMutex
	rows  map[uint64]*entry // by Key.Hash
	lanes [2]*index         // by backlog.Lane
	names []string          // of all columns, sorted; replaced, never changed, since records share it
	locks map[string]*lock
}

var (
	_ backlog.Beginner  = (*Store)(nil)
	_ backlog.Locker    = (*Store)(nil)
	_ backlog.Pinger    = (*Store)(nil)
	_ backlog.Expirer   = (*Store)(nil)
	_ backlog.Rehearser = (*Store)(nil)
	_ backlog.Verifier  = (*Store)(nil)
)

// New returns an empty table.
func New(o Options) *Store {
	if len(o.New) == 0 {
		o.New = []string{"NEW"}
	}
	o.Error, o.Success, o.NullDate = cmp.Or(o.Error, "ERROR"), cmp.Or(o.Success, "SUCCESS"), cmp.Or(o.NullDate, "skip")
	o.New = slices.Clone(o.New)
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

// Insert adds rows, all of them or, with an error, none. It is an error if a
// key is there already or has a part of a type that no database gives.
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
	for i := range r.Key.Len() { // an int, say, would come out of a cursor's trip through JSON as another type
		switch part := r.Key.Part(i).(type) {
		case int64, float64, string, []byte:
		default:
			return fmt.Errorf("key part of type %T, not int64, float64, string or []byte", part)
		}
	}
	if s.rows[r.Key.Hash()] != nil {
		return errors.New("the key is there already")
	}
	if !r.Inserted.IsZero() { // as read from a database: no monotonic clock, no zone
		r.Inserted = r.Inserted.Round(0).UTC()
	}
	r.Columns = maps.Clone(r.Columns)
	e := &entry{Row: r}
	s.rows[r.Key.Hash()] = e
	s.enter(e)
	return nil
}

// enter puts the entry into the index that it belongs to.
func (s *Store) enter(e *entry) {
	x := s.index(e)
	if x == nil {
		return
	}
	switch {
	case x.byWait:
		e.at = nanos(s.rule.Order(&e.Memory)) // the first of all where it is zero
	case !e.Inserted.IsZero():
		e.at = nanos(e.Inserted)
	case s.dateless(e, "oldest"):
		e.at = oldest
	default:
		e.at = newest
	}
	x.tree.Set(e)
}

// leave takes the entry out of the index that it belongs to.
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

// Row returns the row with the given key and whether there is one.
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

// Update changes a row, but not its key, as another program would, and reports
// whether it exists.
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

// change changes what an entry's place in its lane depends on.
func (s *Store) change(e *entry, f func()) {
	s.leave(e)
	f()
	s.enter(e)
}

// index returns the index that the entry belongs to, nil if no pass may ever
// take it.
func (s *Store) index(e *entry) *index {
	lane, pending := s.lane(e)
	if !pending || s.dateless(e, "skip") {
		return nil
	}
	return s.lanes[lane]
}

// dateless reports whether the entry has no date and is due as the word says.
func (s *Store) dateless(e *entry, word string) bool {
	return e.Inserted.IsZero() && cmp.Or(e.NullDate, s.o.NullDate) == word
}

// laneByStarts returns the lane of a row whose attempts are started, and whether it waits for
// its next start.
func laneByStarts(e *entry) (lane backlog.Lane, pending bool) {
	m := &e.Memory
	return backlog.Lane(min(max(m.AttemptNo, 0), 1)), !m.Next.IsZero() && !e.runs() && !m.Disabled
}

// laneByStatus returns the lane that the status means and whether it is a pending
// one. A failed record that is not pending is one that the policy has given up. Where Error is also Dead, a failed record is not pending.
func (s *Store) laneByStatus(e *entry) (lane backlog.Lane, pending bool) {
	switch {
	case e.Status == "" || e.Status == s.o.Dead:
		return 0, false
	case slices.Contains(s.o.New, e.Status):
		if s.o.ErrorKeep && e.Memory.Failures > 0 {
			return backlog.Failed, !s.o.Policy.GivenUp(e.Memory.Failures)
		}
		return backlog.Fresh, true
	case e.Status == s.o.Error && !s.o.ErrorKeep:
		return backlog.Failed, !s.o.Policy.GivenUp(e.Memory.Failures)
	}
	return 0, false
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

// Unlock implements [backlog.Lock]. Unlocking twice is an error and leaves
// the next holder's lock alone.
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

// Where records without a date stand: before or after all that have one.
const (
	newest int64 = math.MaxInt64
	oldest int64 = math.MinInt64
)

// Times between these can be told from newest and oldest.
var (
	latest   = time.Unix(0, newest-1)
	earliest = time.Unix(0, oldest+1)
)

// nanos returns the time in nanoseconds since 1970, those out of range as the
// nearest that is within.
func nanos(t time.Time) int64 {
	switch {
	case t.Before(earliest):
		return oldest + 1
	case t.After(latest):
		return newest - 1
	}
	return t.UnixNano()
}

// An entry is a row with the time by which it stands in its lane. Without a key it is the
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

// due reports whether the row's own times let it be selected now.
func (e *entry) due(now time.Time) bool {
	return (e.Eligible.IsZero() || !e.Eligible.After(now)) &&
		(e.Expires.IsZero() || !now.After(e.Expires))
}

// An index holds entries in the order of a lane: newest first, then the greatest key, or
// byWait the other way round, the longest waiting first, then the least key.
type index struct {
	tree   *btree.BTreeG[*entry]
	byWait bool
}

func newIndex(byWait bool) *index {
	x := &index{byWait: byWait}
	x.tree = btree.NewBTreeGOptions(func(a, b *entry) bool { return x.compare(a, b) < 0 }, btree.Options{NoLocks: true})
	return x
}

// compare returns -1, 0 or 1 as a stands before, at or after b.
func (x *index) compare(a, b *entry) int {
	if x.byWait {
		a, b = b, a
	}
	switch c := cmp.Compare(b.at, a.at); {
	case c != 0:
		return c
	case !x.byWait && (a.Key.IsZero() || b.Key.IsZero()):
		return cmp.Compare(a.Key.Len(), b.Key.Len())
	}
	return b.Key.Compare(a.Key)
}

// after yields the entries after p, which need not be there, and p too if before is told.
// The index must not change meanwhile.
func (x *index) after(p *entry, before bool) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		x.tree.Ascend(p, func(e *entry) bool {
			return !before && x.compare(e, p) == 0 || yield(e)
		})
	}
}
