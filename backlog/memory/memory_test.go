package memory_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

var now = time.Date(2026, 2, 10, 12, 0, 0, 0, time.UTC)

func key(n int64) backlog.Key { return backlog.NewKey(n) }

// insert adds rows that the test cannot do without.
func insert(t testing.TB, s *memory.Store, rows ...memory.Row) {
	t.Helper()
	if err := s.Insert(rows...); err != nil {
		t.Fatalf("Insert: %v", err)
	}
}

func pending(t testing.TB, s *memory.Store, q backlog.Query) backlog.Page {
	t.Helper()
	page, err := s.Pending(t.Context(), q)
	if err != nil {
		t.Fatalf("Pending: %v", err)
	}
	return page
}

func query(lane backlog.Lane) backlog.Query {
	return backlog.Query{Lane: lane, Now: now, Since: now.Add(-time.Hour), Limit: 100}
}

func TestInsertRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		row  memory.Row
		want string
	}{
		{"the same key", memory.Row{Key: key(1)}, "row 1: the key is there already"},
		{"the zero key", memory.Row{}, "row null: the key is empty"},
		{"a part of a Go type", memory.Row{Key: backlog.NewKey(1)}, "row 1: key part of type int, not int64, float64, string or []byte"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := memory.New(memory.Options{})
			insert(t, s, memory.Row{Key: key(1), Status: "NEW", Inserted: now})
			err := s.Insert(memory.Row{Key: key(7), Status: "NEW", Inserted: now}, c.row)
			if err == nil || err.Error() != c.want {
				t.Errorf("want error %q, got %v", c.want, err)
			}
			if rows := s.Rows(); len(rows) != 1 {
				t.Errorf("want only the first row in the table, got %v", rows)
			}
			if page := pending(t, s, query(backlog.Fresh)); len(page.Records) != 1 {
				t.Errorf("want only the first row pending, got %v", page.Records)
			}
		})
	}
}

func TestRowsInKeyOrder(t *testing.T) {
	want := []backlog.Key{
		key(-1), key(2), key(10), backlog.NewKey(1.5), backlog.NewKey("10"), backlog.NewKey("2"),
		backlog.NewKey("2", int64(1)), backlog.NewKey("2", int64(2)), backlog.NewKey([]byte("1")), backlog.NewKey([]byte("10")),
	}
	s := memory.New(memory.Options{})
	for _, k := range slices.Backward(want) {
		insert(t, s, memory.Row{Key: k})
	}
	var got []backlog.Key
	for _, r := range s.Rows() {
		got = append(got, r.Key)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("want the keys %v, got %v", want, got)
	}
}

func TestColumns(t *testing.T) {
	s := memory.New(memory.Options{})
	columns := map[string]any{"to": "a@example.org"}
	insert(t, s, memory.Row{Key: key(1), Status: "NEW", Inserted: now, Columns: columns})
	columns["to"] = "changed"
	first := pending(t, s, query(backlog.Fresh))
	insert(t, s, memory.Row{Key: key(2), Status: "NEW", Inserted: now, Columns: map[string]any{"body": "hello"}})
	second := pending(t, s, query(backlog.Fresh))

	for _, c := range []struct {
		record backlog.Record
		names  []string
		values []any
	}{
		{first.Records[0], []string{"to"}, []any{"a@example.org"}},
		{second.Records[0], []string{"body", "to"}, []any{"hello", nil}},
		{second.Records[1], []string{"body", "to"}, []any{nil, "a@example.org"}},
	} {
		if !slices.Equal(c.record.Names, c.names) || !slices.Equal(c.record.Values, c.values) {
			t.Errorf("record %v: want columns %v = %v, got %v = %v",
				c.record.Key, c.names, c.values, c.record.Names, c.record.Values)
		}
	}
}

func TestRowIsACopy(t *testing.T) {
	s := memory.New(memory.Options{})
	insert(t, s, memory.Row{Key: key(1), Columns: map[string]any{"n": int64(1)}})
	row, _ := s.Row(key(1))
	row.Columns["n"] = int64(2)
	if row, _ := s.Row(key(1)); row.Columns["n"] != int64(1) {
		t.Errorf("want the table's row unchanged, got %v", row.Columns)
	}
}

func TestErrorIsDead(t *testing.T) {
	s := memory.New(memory.Options{Error: "FAILED", Dead: "FAILED"})
	insert(t, s, memory.Row{Key: key(1), Status: "FAILED", Inserted: now})
	if page := pending(t, s, query(backlog.Failed)); len(page.Records) != 0 {
		t.Errorf("want no failed record where error means dead, got %v", page.Records)
	}
	if n, err := s.Expire(t.Context(), backlog.Expiry{Now: now, Before: now.Add(time.Hour), Skips: func(backlog.Key) bool { return false }}); n != 0 || err != nil {
		t.Errorf("want 0 records expired, got %d, %v", n, err)
	}
}

func TestSettleRefuses(t *testing.T) {
	s := memory.New(memory.Options{})
	insert(t, s, memory.Row{Key: key(1), Status: "NEW", Inserted: now})
	r := pending(t, s, query(backlog.Fresh)).Records[0]
	group := slices.Repeat([]backlog.Settlement{{Record: &r, Target: backlog.RowSuccess}}, 501)
	want := "memory: a group of 501 outcomes, more than 500"
	if _, err := s.Settle(t.Context(), group); err == nil || err.Error() != want {
		t.Errorf("want error %q, got %v", want, err)
	}
	if row, _ := s.Row(key(1)); row.Status != "NEW" {
		t.Errorf("want nothing written, got status %s", row.Status)
	}
}

func TestUnlockTwice(t *testing.T) {
	s := memory.New(memory.Options{})
	first, err := s.TryLock(t.Context(), backlog.RunLock)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	second, err := s.TryLock(t.Context(), backlog.RunLock)
	if err != nil {
		t.Fatal(err)
	}
	if first.Check(t.Context()) == nil {
		t.Error("Check of a lock that was given up: want an error, got nil")
	}
	if first.Unlock() == nil {
		t.Error("second Unlock: want an error, got nil")
	}
	if err := second.Check(t.Context()); err != nil {
		t.Errorf("the next holder's lock: want it held, got %v", err)
	}
}

// What a row says of its missing date goes before what the table does.
func TestNullDateOfARow(t *testing.T) {
	for _, table := range []string{"skip", "oldest", "newest"} {
		for _, c := range []struct {
			row, means string
		}{{"", table}, {"skip", "skip"}, {"oldest", "oldest"}, {"newest", "newest"}} {
			s := memory.New(memory.Options{NullDate: table})
			if err := s.Insert(memory.Row{Key: key(1), Status: "NEW", NullDate: c.row}); err != nil {
				t.Fatal(err)
			}
			counts, err := s.Count(t.Context(), now, []time.Duration{time.Hour, 2 * time.Hour})
			if got, want := []int{counts.Bands[0].Fresh, counts.Bands[1].Fresh, counts.Unreadable}, map[string][]int{"newest": {1, 0, 0}, "oldest": {0, 1, 0}, "skip": {0, 0, 1}}[c.means]; err != nil || !slices.Equal(got, want) {
				t.Errorf("table %s, row %q: counted %v, want %v (%v)", table, c.row, got, want, err)
			}
			narrow, wide := query(backlog.Fresh), query(backlog.Fresh)
			narrow.Widest, wide.Widest = false, true
			for _, q := range []backlog.Query{narrow, wide} {
				want := 0
				if c.means == "newest" || c.means == "oldest" && q.Widest {
					want = 1
				}
				if got := len(pending(t, s, q).Records); got != want {
					t.Errorf("table %s, row %q, widest %v: %d records, want %d", table, c.row, q.Widest, got, want)
				}
			}
		}
	}
}
