package storetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
)

// now is what every case takes for the present. It is far from the changes of
// summer time, so that a column in local time tells all times apart.
var now = time.Date(2026, 2, 10, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// maxPages ends the walk of a store that says More for ever.
const maxPages = 5000

// tb is what *testing.T and *rapid.T have in common.
type tb interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// A fixture is a running case: its table and the steps that cases are made
// of, which end the case when the harness or the store fails.
type fixture struct {
	*testing.T
	h     Harness
	table Table
}

func (f *fixture) precision() time.Duration {
	if p, ok := f.h.(Precise); ok {
		return p.Precision()
	}
	return time.Second
}

// key returns the n-th key, 0 <= n < 9999, of the table's kind. Composite
// keys are ordered by neither part alone.
func (f *fixture) key(n int) backlog.Key {
	switch f.table.Keys {
	case TextKeys:
		return backlog.NewKey(fmt.Sprintf("k%04d", n))
	case BlobKeys:
		return backlog.NewKey([]byte{0xfe, byte(n >> 8), byte(n), 0})
	case CompositeKeys:
		return backlog.NewKey(fmt.Sprintf("tenant%d", n%3), int64(n/2))
	}
	return backlog.NewKey(int64(n + 1)) // a 0 asks MySQL for the next number
}

// number returns the n of an integer key.
func (f *fixture) number(k backlog.Key) int {
	n, _ := k.Part(0).(int64)
	return int(n) - 1
}

// row returns a row with the n-th key.
func (f *fixture) row(n int, s State, age time.Duration) Row {
	return Row{Key: f.key(n), State: s, Inserted: now.Add(-age)}
}

// rows returns count rows of one state, row i i minutes old.
func (f *fixture) rows(count int, s State) []Row {
	rows := make([]Row, count)
	for i := range rows {
		rows[i] = f.row(i, s, time.Duration(i)*time.Minute)
	}
	return rows
}

func (f *fixture) insert(rows ...Row) {
	f.Helper()
	if err := f.h.Insert(rows...); err != nil {
		f.Fatalf("harness: insert: %v", err)
	}
}

func (f *fixture) setState(k backlog.Key, s State) {
	f.Helper()
	if err := f.h.SetState(k, s); err != nil {
		f.Fatalf("harness: set record %v to %v: %v", k, s, err)
	}
}

func (f *fixture) delete(keys ...backlog.Key) {
	f.Helper()
	if err := f.h.Delete(keys...); err != nil {
		f.Fatalf("harness: delete: %v", err)
	}
}

func (f *fixture) read(k backlog.Key) Row {
	f.Helper()
	row, ok, err := f.h.Row(k)
	if err != nil {
		f.Fatalf("harness: read record %v: %v", k, err)
	}
	if !ok {
		f.Fatalf("record %v: want it still in the table, got no such row", k)
	}
	return row
}

// query returns a query for the whole of a lane in one page.
func query(lane backlog.Lane) backlog.Query {
	return backlog.Query{Lane: lane, Now: now, MaxAge: 10 * day, Limit: 1000}
}

// pages returns a query for a lane in pages of the given size.
func pages(lane backlog.Lane, size int) backlog.Query {
	q := query(lane)
	q.Limit = size
	return q
}

// walk returns the records of the query, page after page from q.After to the
// end.
func (f *fixture) walk(q backlog.Query) []backlog.Record {
	f.Helper()
	return walk(f.Context(), f.T, f.h.Store(), q, func(c backlog.Cursor) backlog.Cursor { return c })
}

// walkJSON is walk with every cursor sent through JSON.
func (f *fixture) walkJSON(q backlog.Query) []backlog.Record {
	f.Helper()
	return walk(f.Context(), f.T, f.h.Store(), q, func(c backlog.Cursor) backlog.Cursor { return throughJSON(f.T, c) })
}

// walk returns the records of the query, with something done to the cursor
// between the pages.
func walk(ctx context.Context, t tb, store backlog.Store, q backlog.Query, between func(backlog.Cursor) backlog.Cursor) []backlog.Record {
	t.Helper()
	var records []backlog.Record
	for range maxPages {
		page, err := store.Pending(ctx, q)
		if err != nil {
			t.Fatalf("%v lane: Pending: want a page, got error: %v", q.Lane, err)
		}
		if len(page.Records) > q.Limit {
			t.Fatalf("%v lane: want at most %d records on a page, got %d", q.Lane, q.Limit, len(page.Records))
		}
		for _, u := range page.Unreadable {
			t.Errorf("%v lane: want every row readable, got key %v: %v", q.Lane, u.Key, u.Err)
		}
		records = append(records, page.Records...)
		if !page.More {
			return records
		}
		if page.Next.IsZero() {
			t.Fatalf("%v lane: want a place to go on from when there is more, got the zero Cursor", q.Lane)
		}
		q.After = between(page.Next)
	}
	t.Fatalf("%v lane, pages of %d: want More to become false, got it %d times in a row", q.Lane, q.Limit, maxPages)
	return nil
}

// throughJSON returns the cursor that comes back from the state file.
func throughJSON(t tb, c backlog.Cursor) backlog.Cursor {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatalf("cursor %+v: want it written as JSON, got error: %v", c, err)
	}
	var back backlog.Cursor
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatalf("cursor %s: want it read back, got error: %v", text, err)
	}
	return back
}

// pending returns the records of both lanes, fresh ones first, and ends the
// case unless they are those of the rows, in that order.
func (f *fixture) pending(rows ...Row) []backlog.Record {
	f.Helper()
	records := slices.Concat(f.walk(query(backlog.Fresh)), f.walk(query(backlog.Failed)))
	wantRecords(f, "both lanes", rows, records)
	if f.Failed() {
		f.FailNow()
	}
	return records
}

// inOrder returns the rows as a lane orders them, newest first by (inserted,
// key).
func inOrder(rows []Row) []Row {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b Row) int {
		if c := b.Inserted.Compare(a.Inserted); c != 0 {
			return c
		}
		return compareKeys(b.Key, a.Key)
	})
	return rows
}

// compareKeys compares two keys of the same kind.
func compareKeys(a, b backlog.Key) int {
	for i := range a.Len() {
		var c int
		switch part := a.Part(i).(type) {
		case int64:
			c = cmp.Compare(part, b.Part(i).(int64))
		case string:
			c = strings.Compare(part, b.Part(i).(string))
		case []byte:
			c = bytes.Compare(part, b.Part(i).([]byte))
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

func keysOf(rows []Row) []backlog.Key {
	var keys []backlog.Key
	for _, r := range rows {
		keys = append(keys, r.Key)
	}
	return keys
}

func keysOfRecords(records []backlog.Record) []backlog.Key {
	var keys []backlog.Key
	for _, r := range records {
		keys = append(keys, r.Key)
	}
	return keys
}

// wantRecords checks that the records are those of the rows, in that order.
func wantRecords(t tb, what string, want []Row, got []backlog.Record) {
	t.Helper()
	w, g := keysOf(want), keysOfRecords(got)
	if reflect.DeepEqual(w, g) {
		return
	}
	if len(w) <= 20 && len(g) <= 40 {
		t.Errorf("%s: want the records %s in this order, got %s", what, keyList(w), keyList(g))
		return
	}
	i := 0
	for i < min(len(w), len(g)) && reflect.DeepEqual(w[i], g[i]) {
		i++
	}
	t.Errorf("%s: want %d records, got %d; from record %d on want %s, got %s",
		what, len(w), len(g), i, keyList(w[i:min(i+5, len(w))]), keyList(g[i:min(i+5, len(g))]))
}

// keyList writes keys with their types, where these are not plain to see.
func keyList(keys []backlog.Key) string {
	if len(keys) == 0 {
		return "none"
	}
	words := make([]string, len(keys))
	for i, k := range keys {
		words[i] = keyText(k)
	}
	return "[" + strings.Join(words, " ") + "]"
}

func keyText(k backlog.Key) string {
	parts := make([]string, k.Len())
	for i := range parts {
		switch v := k.Part(i).(type) {
		case int64:
			parts[i] = fmt.Sprint(v)
		case string:
			parts[i] = fmt.Sprintf("%q", v)
		default:
			parts[i] = fmt.Sprintf("%T(%v)", v, v)
		}
	}
	return strings.Join(parts, "/")
}
