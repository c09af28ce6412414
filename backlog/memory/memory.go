// Package memory holds records in memory. It serves tests, dry runs and
// simulations: the same engine runs on it as on a database.
package memory

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

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

	// NullDate says when a record without a date is due: "newest" in every
	// pass, as if inserted now; "oldest" in those of the widest tier, after
	// all others; "skip", the default, never.
	NullDate string
}

// A Row is one row of the table.
type Row struct {
	Key      backlog.Key // parts are int64, float64, string or []byte
	Status   string      // empty: NULL
	Inserted time.Time   // zero: no date; else between 1678 and 2262
	Eligible time.Time   // not selected before; zero: at once
	Expires  time.Time   // not selected after; zero: never

	// Columns are what handlers are given, in alphabetical order. The table
	// has the columns of all rows ever inserted; one that a row lacks is
	// NULL. The values must not be changed afterwards.
	Columns map[string]any

	Attempts  int
	LastError string
}

// A Store is a table in memory: a [backlog.Store] that can also count, expire
// and be locked. Its methods may be called concurrently. A page costs about
// as much as it has records, however many the table has.
type Store struct {
	o Options

	mu       sync.RWMutex
	rows     map[any]*entry // by mapKey
	lanes    [2]index       // by backlog.Lane
	expiring bool           // some row has a time of expiry
	names    []string       // of all columns, sorted; replaced, never changed, since records share it
	locks    map[backlog.LockName]*lock
}

var (
	_ backlog.Store   = (*Store)(nil)
	_ backlog.Counter = (*Store)(nil)
	_ backlog.Expirer = (*Store)(nil)
	_ backlog.Locker  = (*Store)(nil)
	_ backlog.Pinger  = (*Store)(nil)
)

// New returns an empty table. It panics if o.NullDate is no word it knows.
func New(o Options) *Store {
	if len(o.New) == 0 {
		o.New = []string{"NEW"}
	}
	if o.Error == "" {
		o.Error = "ERROR"
	}
	if o.Success == "" {
		o.Success = "SUCCESS"
	}
	if o.NullDate == "" {
		o.NullDate = "skip"
	}
	if !slices.Contains([]string{"skip", "oldest", "newest"}, o.NullDate) {
		panic(fmt.Sprintf("memory: NullDate is %q, not skip, oldest or newest", o.NullDate))
	}
	o.New = slices.Clone(o.New)
	return &Store{
		o:     o,
		rows:  make(map[any]*entry),
		locks: make(map[backlog.LockName]*lock),
	}
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
		s.addNames(r.Columns)
		s.expiring = s.expiring || !r.Expires.IsZero()
	}
	return nil
}

func (s *Store) add(r Row) error {
	if err := checkKey(r.Key); err != nil {
		return err
	}
	id := mapKey(r.Key)
	if s.rows[id] != nil {
		return errors.New("the key is there already")
	}
	at := newest
	switch {
	case !r.Inserted.IsZero():
		if r.Inserted.Before(earliest) || r.Inserted.After(latest) {
			return fmt.Errorf("inserted %v, which is not between 1678 and 2262", r.Inserted)
		}
		// As read from a database: no monotonic clock, no zone.
		r.Inserted = r.Inserted.Round(0).UTC()
		at = nanos(r.Inserted)
	case s.o.NullDate == "oldest":
		at = oldest
	}
	r.Columns = maps.Clone(r.Columns)
	e := &entry{Row: r, at: at}
	s.rows[id] = e
	if x := s.index(e); x != nil {
		x.insert(e)
	}
	return nil
}

func (s *Store) addNames(columns map[string]any) {
	for name := range columns {
		if i, ok := slices.BinarySearch(s.names, name); !ok {
			s.names = slices.Insert(slices.Clone(s.names), i, name)
		}
	}
}

func (s *Store) drop(k backlog.Key) bool {
	id := mapKey(k)
	e := s.rows[id]
	if e == nil {
		return false
	}
	if x := s.index(e); x != nil {
		x.remove(e)
	}
	delete(s.rows, id)
	return true
}

// Row returns the row with the given key and whether there is one.
func (s *Store) Row(k backlog.Key) (Row, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.rows[mapKey(k)]
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
	slices.SortFunc(rows, func(a, b Row) int { return compareKeys(a.Key, b.Key) })
	return rows
}

// SetStatus changes a status as another program would, and reports whether
// the row exists.
func (s *Store) SetStatus(k backlog.Key, status string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.rows[mapKey(k)]
	if e == nil {
		return false
	}
	s.setStatus(e, status)
	return true
}

// Delete removes a row as another program would, and reports whether it
// existed.
func (s *Store) Delete(k backlog.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drop(k)
}

func (s *Store) setStatus(e *entry, status string) {
	from := s.index(e)
	e.Status = status
	to := s.index(e)
	if from == to {
		return
	}
	if from != nil {
		from.remove(e)
	}
	if to != nil {
		to.insert(e)
	}
}

// index returns the index that the entry belongs to, nil if no pass may ever
// take it.
func (s *Store) index(e *entry) *index {
	lane, pending := s.lane(e.Status)
	if !pending || e.Inserted.IsZero() && s.o.NullDate == "skip" {
		return nil
	}
	return &s.lanes[lane]
}

// lane returns the lane that the status means and whether it is a pending
// one. Where Error is also Dead, a failed record is not pending.
func (s *Store) lane(status string) (lane backlog.Lane, pending bool) {
	switch {
	case status == "" || status == s.o.Dead:
		return 0, false
	case slices.Contains(s.o.New, status):
		return backlog.Fresh, true
	case status == s.o.Error && !s.o.ErrorKeep:
		return backlog.Failed, true
	}
	return 0, false
}
