package storetest

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
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

var bothLanes = []backlog.Lane{backlog.Fresh, backlog.Failed}

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

// row returns a row with the n-th key.
func (f *fixture) row(n int, s Status, age time.Duration) Row {
	return Row{Key: f.key(n), Status: s, Inserted: now.Add(-age)}
}

// rows returns count rows of one status, row i i minutes old.
func (f *fixture) rows(count int, s Status) []Row {
	rows := make([]Row, count)
	for i := range rows {
		rows[i] = f.row(i, s, time.Duration(i)*time.Minute)
	}
	return rows
}

// failed returns a row that has failed, most lately at the given time, and is
// an hour old. Under a planned policy it is tried again when it would be under
// a counted one.
func (f *fixture) failed(n, failures int, last time.Time) Row {
	r := f.row(n, Failed, time.Hour)
	if f.table.ErrorKeep {
		r.Status = Fresh
	}
	p := f.table.Policy
	if p == nil {
		return r
	}
	r.Failures = backlog.Failures{Count: failures, Last: last}
	if p.Planned && !last.IsZero() && !p.GivenUp(failures) {
		r.Failures.Next, r.InRetry = last.Add(p.Draw(failures, 0)), true
	}
	return r
}

// dueAt returns a row that has failed so often and is due at the time.
func (f *fixture) dueAt(n, failures int, at time.Time) Row {
	return f.failed(n, failures, at.Add(-f.table.Policy.Draw(failures, 0)))
}

// numbers returns numbers of failures with which a record is not given up, some
// of them beyond the last that the policy tells apart.
func (f *fixture) numbers() []int {
	if p := f.table.Policy; p == nil || p.Retries >= 0 {
		return []int{1, 2, 3}
	}
	return []int{1, 2, 3, 4, 5, 1000, 2_000_000}
}

// edge is the age at which the cases cut.
const edge = 36 * time.Hour

// specimens inserts rows in which everything that decides about a record comes
// together by chance: the limits themselves, a step before and a step behind.
func (f *fixture) specimens(n int, seed uint64) []Row {
	f.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	step, p := f.precision(), f.table.Policy
	statuses := []Status{Fresh, Fresh, Success, Other, Null}
	if !f.table.ErrorKeep {
		statuses = append(statuses, Failed, Failed)
	}
	if f.table.TwoFresh {
		statuses = append(statuses, AlsoFresh)
	}
	if f.table.Dead {
		statuses = append(statuses, Dead)
	}
	ages := []time.Duration{time.Minute, time.Hour, edge - step, edge, edge + step, 9 * day}
	if f.table.NoDate != Newest { // where stores differ about what is ahead of our clock
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
		case chance == 0 || age == time.Minute: // a run of them, so that a page may be empty
			r.Eligible = near(now.Add(step))
		case chance == 1:
			r.Expires = near(now)
		}
		r.Amount = pick[any](random, nil, int64(0), int64(42), int64(1<<53+1), int64(math.MinInt64))
		r.Note = pick[any](random, nil, "", "plain", "Grüße,\n\"100%\" 'π'")
		r.Payload = pick[any](random, nil, []byte("0"), []byte{0, 1, 0xff, '\''})
		r.Attempts, r.LastError = pick(random, 0, 1, 41), pick(random, "", "of last time")
		if p != nil {
			r.Failures.Count = pick(random, append(f.numbers(), 0, -3, 4, 5)...)
			due := now.Add(-p.Draw(r.Failures.Count, 0))
			r.Failures.Last = pick(random, time.Time{}, near(due), near(due))
		}
		if p != nil && p.Planned {
			_, pending := f.table.lane(r)
			r.Failures.Next = pick(random, time.Time{}, near(now), near(now))
			r.InRetry = pending && pick(random, false, true)
		}
		rows = append(rows, r)
	}
	f.insert(rows...)
	return rows
}

func pick[T any](random *rand.Rand, list ...T) T { return list[random.IntN(len(list))] }

// harness ends the case if the harness fails at something.
func (f *fixture) harness(err error, what string, args ...any) {
	f.Helper()
	if err != nil {
		f.Fatalf("harness: %s: %v", fmt.Sprintf(what, args...), err)
	}
}

func (f *fixture) insert(rows ...Row) {
	f.Helper()
	f.harness(f.h.Insert(rows...), "insert")
}

func (f *fixture) setStatus(k backlog.Key, s Status) {
	f.Helper()
	f.harness(f.h.SetStatus(k, s), "set record %v to %v", k, s)
}

func (f *fixture) delete(keys ...backlog.Key) {
	f.Helper()
	f.harness(f.h.Delete(keys...), "delete")
}

func (f *fixture) read(k backlog.Key) Row {
	f.Helper()
	row, ok, err := f.h.Row(k)
	f.harness(err, "read record %v", k)
	if !ok {
		f.Fatalf("record %v: want it still in the table, got no such row", k)
	}
	return row
}

// another returns the table as opened by another process.
func (f *fixture) another() backlog.Store {
	f.Helper()
	opener, ok := f.h.(Opener)
	if !ok {
		f.Skip("the harness cannot open its table twice")
	}
	other, err := opener.Open()
	f.harness(err, "open the table again")
	return other
}

// query returns a query for the whole of a lane in one page.
func query(lane backlog.Lane) backlog.Query {
	return backlog.Query{Lane: lane, Now: now, Since: now.Add(-10 * day), Limit: 1000}
}

// walk returns the records of the query, page after page from q.After to the
// end, with something done to the cursor between the pages.
func (f *fixture) walk(q backlog.Query, between ...func(backlog.Cursor) backlog.Cursor) []backlog.Record {
	f.Helper()
	return f.walkIn(f.h.Store(), q, between...)
}

func (f *fixture) walkIn(store backlog.Store, q backlog.Query, between ...func(backlog.Cursor) backlog.Cursor) []backlog.Record {
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

// throughJSON returns the cursor that comes back from the state file.
func (f *fixture) throughJSON(c backlog.Cursor) backlog.Cursor {
	f.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		f.Fatalf("cursor %+v: want it written as JSON, got error: %v", c, err)
	}
	var back backlog.Cursor
	if err := json.Unmarshal(text, &back); err != nil {
		f.Fatalf("cursor %s: want it read back, got error: %v", text, err)
	}
	return back
}

// wantLane checks the whole of the query, in pages of these sizes, by default 3 and
// 1000.
func (f *fixture) wantLane(q backlog.Query, rows []Row, sizes ...int) {
	f.Helper()
	if len(sizes) == 0 {
		sizes = []int{3, 1000}
	}
	want := expected(f.table, rows, q)
	for _, q.Limit = range sizes {
		what := fmt.Sprintf("%v lane at %v since %v, widest %t, in pages of %d", q.Lane, q.Now, q.Since, q.Widest, q.Limit)
		wantRecords(f.T, what, want, f.walk(q, f.throughJSON))
	}
}

// wantWalks is wantLane, and checks what comes after records and until them; of
// many it takes a dozen.
func (f *fixture) wantWalks(q backlog.Query, rows []Row) {
	f.Helper()
	f.wantLane(q, rows, 2, 3, 7, 1000)
	want := expected(f.table, rows, q)
	all := f.walk(q)
	for i := 0; i < min(len(all), len(want)); i += 1 + len(all)/12 {
		q := q
		q.Limit, q.After = 7, all[i].Cursor
		wantRecords(f.T, fmt.Sprintf("%v lane after record %d of %d", q.Lane, i+1, len(want)), want[i+1:], f.walk(q))
		q.After, q.Until, q.Limit = backlog.Cursor{}, f.throughJSON(all[i].Cursor), []int{7, 1000}[i%2]
		wantRecords(f.T, fmt.Sprintf("%v lane until record %d of %d in pages of %d", q.Lane, i+1, len(want), q.Limit), want[:i+1], f.walk(q))
	}
}

// pending returns the rows that are in a lane and their records, lane by lane.
// The two lanes must have these records and no others.
func (f *fixture) pending(rows []Row) (inLane []Row, records []backlog.Record) {
	f.Helper()
	for _, lane := range bothLanes {
		q := query(lane)
		q.Widest = true
		inLane = append(inLane, expected(f.table, rows, q)...)
		records = append(records, f.walk(q)...)
	}
	wantRecords(f.T, "both lanes", inLane, records)
	if f.Failed() {
		f.FailNow()
	}
	return inLane, records
}

// find returns the row of a key, nil if there is none.
func find(rows []Row, k backlog.Key) *Row {
	i := slices.IndexFunc(rows, func(r Row) bool { return r.Key.Hash() == k.Hash() })
	if i < 0 {
		return nil
	}
	return &rows[i]
}

// wantRow checks that the row is as it is expected to be, in every field that
// the table has.
func (f *fixture) wantRow(after string, want Row) {
	f.Helper()
	got := f.read(want.Key)
	if !f.table.Notes {
		got.Attempts, got.LastError = want.Attempts, want.LastError
	}
	if f.table.Policy == nil {
		got.Failures, got.InRetry = want.Failures, want.InRetry
	} else if !f.table.Policy.Planned {
		got.Failures.Next, got.InRetry = want.Failures.Next, want.InRetry
	}
	if !f.table.Refresh {
		got.Refresh = want.Refresh
	}
	if g, w := got.text(), want.text(); g != w {
		f.Errorf("record %v after %s: want\n%s\ngot\n%s", want.Key, after, w, g)
	}
}

// text writes all fields but the key.
func (r Row) text() string {
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
	s := r.Refresh
	refresh := fmt.Sprintf("refresh at %s, attempt %d, deadline %s, UID %q, started %s, disabled %t, reason %q, failing since %s",
		at(s.At), s.AttemptNo, at(s.Deadline), s.UID, at(s.Started), s.Disabled, s.Reason, at(s.FailingSince))
	return fmt.Sprintf("%v, inserted %s, eligible %s, expires %s, amount %T(%[5]v), note %T(%[6]q), payload %T(%[7]v), %d attempts, last error %q, %d failures, last %s, next %s, in retry %t; %s",
		r.Status, at(r.Inserted), at(r.Eligible), at(r.Expires), r.Amount, r.Note, r.Payload, r.Attempts, r.LastError,
		r.Failures.Count, at(r.Failures.Last), at(r.Failures.Next), r.InRetry, refresh)
}

// wantRecords checks that the records are the rows, in that order.
func wantRecords(t *testing.T, what string, want []Row, got []backlog.Record) {
	t.Helper()
	var w, g []string
	for _, r := range want {
		w = append(w, keyText(r.Key))
	}
	for _, r := range got {
		g = append(g, keyText(r.Key))
	}
	i := 0
	for i < min(len(w), len(g)) && w[i] == g[i] {
		i++
	}
	if i < max(len(w), len(g)) {
		t.Errorf("%s: want %d records, got %d; from record %d on want %v, got %v",
			what, len(w), len(g), i+1, w[i:min(i+20, len(w))], g[i:min(i+40, len(g))])
	}
}

// keyText writes a key with the types of its parts.
func keyText(k backlog.Key) string {
	var parts []string
	for i := range k.Len() {
		parts = append(parts, fmt.Sprintf("%T(%[1]v)", k.Part(i)))
	}
	return strings.Join(parts, "/")
}
