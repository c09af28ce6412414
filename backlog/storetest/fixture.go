package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

// now is the present of every case. It is far from the changes of summer time,
// so that no time is ambiguous in a column of local times.
var now = time.Date(2026, 2, 10, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// maxPages ends the walk of a store that always says More.
const maxPages = 5000

var bothLanes = []backlog.Lane{backlog.Fresh, backlog.Failed}

// A fixture is a running case: its table, the same table in memory, and the steps of a
// case. A step does the same to both tables, and their answers must be equal. It ends
// the case when the harness or the store fails.
type fixture struct {
	*testing.T
	h      Harness
	table  Table
	memory *memory.Store
	walks  int // of a random case
}

// numbered returns the results of one for the numbers from 0 to n-1.
func numbered[T any](n int, one func(i int) T) []T {
	list := make([]T, n)
	for i := range list {
		list[i] = one(i)
	}
	return list
}

// key returns the n-th key, 0 <= n < 9999, of the table's kind. The order of
// composite keys depends on both parts.
func (f *fixture) key(n int) backlog.Key {
	switch f.table.Keys {
	case TextKeys:
		return backlog.NewKey(fmt.Sprintf("k%04d", n))
	case BlobKeys:
		return backlog.NewKey([]byte{0xfe, byte(n >> 8), byte(n), 0})
	case CompositeKeys:
		return backlog.NewKey(fmt.Sprintf("tenant%d", n%3), int64(n/2))
	}
	return backlog.NewKey(int64(n + 1)) // MySQL replaces a 0 by the next number
}

// row returns a row with the n-th key.
func (f *fixture) row(n int, status string, age time.Duration) Row {
	return rowOf(f.key(n), status, age)
}

func rowOf(k backlog.Key, status string, age time.Duration) Row {
	return Row{Key: k, Status: status, Inserted: now.Add(-age), Columns: map[string]any{"amount": nil, "note": nil, "payload": nil}}
}

// failed returns a row that is an hour old and has failed, for the last time at
// the given time. A planned policy and a counted one with the same waits make it due
// at the same time.
func (f *fixture) failed(n, failures int, last time.Time) Row {
	r := f.row(n, Failed, time.Hour)
	if f.table.ErrorKeep {
		r.Status = Fresh
	}
	p := f.table.Policy
	if p == nil {
		return r
	}
	r.Memory = backlog.Memory{Failures: failures, LastFailure: last}
	if p.Planned && !p.GivenUp(failures) {
		r.Memory.Next, r.InRetry = last.Add(p.Draw(failures, 0)), true
	}
	return r
}

// dueAt returns a row that has failed that often and is due at the time.
func (f *fixture) dueAt(n, failures int, at time.Time) Row {
	return f.failed(n, failures, at.Add(-f.table.Policy.Draw(failures, 0)))
}

// numbers returns numbers of failures at which a record is not given up, some of
// them beyond the last that has another wait.
func (f *fixture) numbers() []int {
	if p := f.table.Policy; p == nil || p.Retries >= 0 {
		return []int{1, 2, 3}
	}
	return []int{1, 2, 3, 4, 5, 1000, 2_000_000}
}

// statuses returns the statuses that a row of the table may have.
func (f *fixture) statuses() []string {
	list := []string{Fresh, Success, Other, Null}
	if !f.table.ErrorKeep { // else a failed record is a fresh one with a count
		list = append(list, Failed)
	}
	if f.table.TwoFresh {
		list = append(list, AlsoFresh)
	}
	if f.table.Dead {
		list = append(list, Dead)
	}
	return list
}

// edge is the age that is the limit of most queries.
const edge = 36 * time.Hour

// specimens inserts rows with random values of everything that decides about a
// record: exactly at a limit, a step before it and a step behind it.
func (f *fixture) specimens(n int, seed uint64) {
	f.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	step, p := f.h.Precision(), f.table.Policy
	statuses := append(f.statuses(), Fresh)
	if !f.table.ErrorKeep {
		statuses = append(statuses, Failed, Failed)
	}
	ages := []time.Duration{time.Minute, time.Hour, edge - step, edge, edge + step, 9 * day}
	if f.table.NoDate != "newest" { // stores differ about dates in the future
		ages = append(ages, -30*time.Minute, -step)
	}
	near := func(at time.Time) time.Time {
		return at.Add(pick(random, -day, -time.Minute, -step, 0, step, time.Hour))
	}
	var rows []Row
	for _, i := range random.Perm(n) {
		age := pick(random, ages...)
		r := f.row(i, pick(random, statuses...), age)
		if random.IntN(4) == 0 {
			r.Inserted = time.Time{}
		}
		switch chance := random.IntN(5); {
		case !f.table.Times:
		case chance == 0 || age == time.Minute: // several in a row, so that a page may be empty
			r.Eligible = near(now.Add(step))
		case chance == 1:
			r.Expires = near(now)
		}
		r.Columns["amount"] = pick[any](random, nil, int64(0), int64(42), int64(1<<53+1), int64(math.MinInt64))
		r.Columns["note"] = pick[any](random, nil, "", "plain", "Grüße,\n\"100%\" 'π'")
		r.Columns["payload"] = pick[any](random, nil, []byte("0"), []byte{0, 1, 0xff, '\''})
		r.Attempts, r.LastError = pick(random, 0, 1, 41), pick(random, "", "of last time")
		if p != nil {
			r.Memory.Failures = pick(random, append(f.numbers(), 0, -3, 4, 5)...)
			due := now.Add(-p.Draw(r.Memory.Failures, 0))
			r.Memory.LastFailure = pick(random, time.Time{}, near(due), near(due))
		}
		if p != nil && p.Planned {
			r.Memory.Next = pick(random, time.Time{}, near(now), near(now))
			r.InRetry = r.Status != Dead && !p.GivenUp(r.Memory.Failures) && pick(random, false, true)
		}
		rows = append(rows, r)
	}
	f.insert(rows...)
}

func pick[T any](random *rand.Rand, list ...T) T { return list[random.IntN(len(list))] }

// harness ends the case if the harness, or memory, fails at something.
func (f *fixture) harness(err error, what string, args ...any) {
	f.Helper()
	if err != nil {
		f.Fatalf("harness: %s: %v", fmt.Sprintf(what, args...), err)
	}
}

func (f *fixture) insert(rows ...Row) {
	f.Helper()
	f.harness(errors.Join(f.memory.Insert(rows...), f.h.Insert(rows...)), "insert")
}

// update changes a row's status or its Memory.
func (f *fixture) update(k backlog.Key, change func(*Row)) {
	f.Helper()
	f.memory.Update(k, change)
	row, _ := f.memory.Row(k)
	f.harness(f.h.Update(row), "change record %v", k)
}

func (f *fixture) delete(keys ...backlog.Key) {
	f.Helper()
	for _, k := range keys {
		f.memory.Delete(k)
	}
	f.harness(f.h.Delete(keys...), "delete")
}

// another returns the table as opened by another process.
func (f *fixture) another() backlog.Store {
	f.Helper()
	other, err := f.h.Open()
	f.harness(err, "open the table again")
	return other
}

// query returns a query for a whole lane in one page.
func query(lane backlog.Lane) backlog.Query {
	return backlog.Query{Lane: lane, Now: now, Since: now.Add(-10 * day), Limit: 1000}
}

// walk returns the records of the query, page after page from q.After to the
// end, with something done to the cursor between the pages.
func (f *fixture) walk(store backlog.Store, q backlog.Query, between ...func(backlog.Cursor) backlog.Cursor) []backlog.Record {
	f.Helper()
	var records []backlog.Record
	for range maxPages {
		page, err := store.Pending(f.Context(), q)
		if err != nil {
			f.Fatalf("%v lane: Pending: want a page, got error: %v", q.Lane, err)
		}
		if len(page.Records) > q.Limit {
			f.Fatalf("%v lane: want at most %d records on a page, got %d", q.Lane, q.Limit, len(page.Records))
		}
		for _, u := range page.Unreadable {
			f.Errorf("%v lane: want every row readable, got key %v: %v", q.Lane, u.Key, u.Err)
		}
		records = append(records, page.Records...)
		if !page.More {
			return records
		}
		if page.Next.IsZero() {
			f.Fatalf("%v lane: want a place to go on from when there is more, got the zero Cursor", q.Lane)
		}
		q.After = page.Next
		for _, change := range between {
			q.After = change(q.After)
		}
	}
	f.Fatalf("%v lane, pages of %d: want More to become false, got it %d times in a row", q.Lane, q.Limit, maxPages)
	return nil
}

// throughJSON returns the cursor after it was written to a state file and read again.
func (f *fixture) throughJSON(c backlog.Cursor) (back backlog.Cursor) {
	f.Helper()
	text, err := json.Marshal(c)
	if err == nil {
		err = json.Unmarshal(text, &back)
	}
	if err != nil {
		f.Fatalf("cursor %+v: want it written as JSON and read back, got %s and the error: %v", c, text, err)
	}
	return back
}

// A walked lane is what memory and the store returned for it, in the same order.
type walked struct {
	q         backlog.Query
	want, got []backlog.Record
}

// wantLane checks all records of the query, in pages of these sizes, by default 3 and
// 1000.
func (f *fixture) wantLane(q backlog.Query, sizes ...int) (w walked) {
	f.Helper()
	if len(sizes) == 0 {
		sizes = []int{3, 1000}
	}
	w.want = f.walk(f.memory, q)
	for _, q.Limit = range sizes {
		what := fmt.Sprintf("%v lane at %v since %v, widest %t, in pages of %d", q.Lane, q.Now, q.Since, q.Widest, q.Limit)
		w.q, w.got = q, f.walk(f.h.Store(), q, f.throughJSON)
		f.wantTexts(what, f.texts(w.want), f.texts(w.got))
	}
	if f.Failed() {
		f.FailNow()
	}
	return w
}

// wantPart checks the records between two places of the lane, in pages of 3 or in three
// pages. A place is behind a record, or before it if the parameter says so, and means the
// same to every store on the table. -1 is no place.
func (f *fixture) wantPart(w walked, store backlog.Store, after, until int, before bool) {
	f.Helper()
	ask := func(list []backlog.Record, limit int) backlog.Query {
		q := w.q
		if q.Limit = limit; after >= 0 {
			q.After = list[after].Cursor
			q.After.Before = before
		}
		if until >= 0 {
			q.Until = list[until].Cursor
			q.Until.Before = before
		}
		return q
	}
	want := f.walk(f.memory, ask(w.want, 1000))
	q := ask(w.got, max(3, (len(want)+2)/3))
	q.After, q.Until = f.throughJSON(q.After), f.throughJSON(q.Until)
	f.wantTexts(fmt.Sprintf("%v lane after record %d until record %d of %d, before these %t", q.Lane, after+1, until+1, len(w.got), before),
		f.texts(want), f.texts(f.walk(store, q)))
}

// wantWalks is wantLane, and also checks the parts after and until records. Of many
// records it takes half a dozen.
func (f *fixture) wantWalks(q backlog.Query) {
	f.Helper()
	w := f.wantLane(q, 2, 7, 1000)
	for i := 0; i < len(w.got); i += 1 + len(w.got)/6 {
		f.wantPart(w, f.h.Store(), i, -1, false)
		f.wantPart(w, f.h.Store(), -1, i, false)
	}
}

// pending returns the records of both lanes.
func (f *fixture) pending() (records []backlog.Record) {
	f.Helper()
	for _, lane := range bothLanes {
		q := query(lane)
		q.Widest = true
		records = append(records, f.wantLane(q, 1000).got...)
	}
	return records
}

// same checks that the table has the same rows as memory.
func (f *fixture) same(after string) {
	f.Helper()
	list, err := f.h.Rows()
	f.harness(err, "read all records")
	rows := make(map[string]Row, len(list))
	for _, r := range list {
		rows[keyText(r.Key)] = r
	}
	wants := f.memory.Rows()
	for _, want := range wants {
		got, ok := rows[keyText(want.Key)]
		f.wantSame(after, want, got, ok)
	}
	if len(list) != len(wants) {
		f.Errorf("after %s: want %d records, got %d", after, len(wants), len(list))
	}
}

func (f *fixture) wantSame(after string, want, got Row, ok bool) {
	f.Helper()
	if g, w := f.rowText(got), f.rowText(want); !ok || g != w {
		f.Errorf("record %v after %s: want\n%s\ngot (there is one: %t)\n%s", want.Key, after, w, ok, g)
	}
}

// rowText writes all fields that the table has.
func (f *fixture) rowText(r Row) string {
	if !f.table.Notes {
		r.Attempts, r.LastError = 0, ""
	}
	r.InRetry = r.InRetry && f.table.Policy != nil && f.table.Policy.Planned
	columns := columnsText(func(name string) (any, bool) { v, ok := r.Columns[name]; return v, ok })
	r.Memory, r.Columns = f.remembered(&r.Memory), nil
	return fmt.Sprintf("%+v; %s", r, columns)
}

// remembered returns the part of a row's Memory that the table has columns for.
func (f *fixture) remembered(m *backlog.Memory) backlog.Memory {
	switch {
	case m == nil:
		return backlog.Memory{}
	case f.table.Refresh:
		return *m
	case !f.table.Policy.Keeps():
		return backlog.Memory{}
	}
	x := *m
	if f.table.Policy.Rule().Waits != nil {
		x.Next = time.Time{}
	}
	return x
}

// columnsText writes the columns that handlers are given, with their types.
func columnsText(column func(string) (any, bool)) string {
	var list []string
	for _, name := range []string{"amount", "note", "payload"} {
		v, ok := column(name)
		list = append(list, fmt.Sprintf("%s %t %T(%[3]v)", name, ok, v))
	}
	return strings.Join(list, ", ")
}

// alike has the store do something, and then memory, and checks that the results are equal,
// as text writes them. It returns the store's.
func alike[S, T any](f *fixture, what string, do func(S) (T, error), text func(T) []string) T {
	f.Helper()
	store, ok := f.h.Store().(S)
	if !ok {
		f.Skipf("the store has no method for: %s", what)
	}
	got, err := do(store)
	if err != nil {
		f.Fatalf("%s: want it done, got error: %v", what, err)
	}
	want, err := do(any(f.memory).(S))
	f.harness(err, "%s in memory", what)
	f.wantTexts(what, text(want), text(got))
	return got
}

// wantTexts compares two lists, and shows the first few texts from where they differ.
func (f *fixture) wantTexts(what string, want, got []string) {
	f.Helper()
	n := 0
	for n < min(len(want), len(got)) && want[n] == got[n] {
		n++
	}
	if n < max(len(want), len(got)) {
		show := func(list []string) string { return strings.Join(list[n:min(n+5, len(list))], "\n") }
		f.Errorf("%s: want %d, got %d; from number %d on want\n%s\ngot\n%s", what, len(want), len(got), n+1, show(want), show(got))
	}
}

// texts writes records with all fields that the table has.
func (f *fixture) texts(list []backlog.Record) (texts []string) {
	for _, r := range list {
		texts = append(texts, fmt.Sprintf("key %s, status %q, %v lane, inserted %v, %+v; %s",
			keyText(r.Key), r.Status, r.Lane, r.Inserted.UTC(), f.remembered(r.Memory), columnsText(r.Column)))
	}
	return texts
}

// unordered is texts for records that have no order.
func (f *fixture) unordered(list []backlog.Record) []string {
	return slices.Sorted(slices.Values(f.texts(list)))
}

// keyText writes a key with the types of its parts.
func keyText(k backlog.Key) string {
	return strings.Join(numbered(k.Len(), func(i int) string { return fmt.Sprintf("%T(%[1]v)", k.Part(i)) }), "/")
}
