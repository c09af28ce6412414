package backlog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/memory"
)

const day = 24 * time.Hour

var errBroken = errors.New("the service is broken")

func key(n int) backlog.Key { return backlog.NewKey(int64(n)) }

// id is the number that key was made of.
func id(r *backlog.Record) int { return int(r.Key.Part(0).(int64)) }

// A bench is an engine at work on a table in memory, with a pencil beside it
// for every handler call and every event. Tests change the engine's fields
// before the first pass.
type bench struct {
	*backlog.Engine
	table  *memory.Store
	calls  *journal
	events *recorder
}

// newBench returns a bench whose handler does what do does.
func newBench(t testing.TB, o memory.Options, do backlog.HandlerFunc) *bench {
	b := &bench{table: memory.New(o), calls: &journal{t: t, do: do}, events: new(recorder)}
	b.Engine = &backlog.Engine{Store: b.table, Handler: b.calls, Observe: b.events.observe}
	return b
}

// succeed is a handler that always does.
func succeed(context.Context, *backlog.Record) error { return nil }

// fail is a handler that always does.
func fail(context.Context, *backlog.Record) error { return errBroken }

// slowly returns a handler that takes some time, or less when it is ended.
func slowly(d time.Duration, do backlog.HandlerFunc) backlog.HandlerFunc {
	return func(ctx context.Context, r *backlog.Record) error {
		if !wait(ctx, d) {
			return ctx.Err()
		}
		return do(ctx, r)
	}
}

// wait reports whether d went by before ctx was done.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		// No timer: under the race detector those of a bubble that have
		// expired when they are made may crash the Go 1.26 runtime.
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// add inserts the records first, first+1, … first+n-1, each a second older
// than the one before, the first of the given age now.
func (b *bench) add(t testing.TB, status string, first, n int, age time.Duration) {
	t.Helper()
	for i := range n {
		at := time.Now().Add(-age - time.Duration(i)*time.Second)
		if err := b.table.Insert(memory.Row{Key: key(first + i), Status: status, Inserted: at}); err != nil {
			t.Fatalf("Insert: %v", err)
		}
	}
}

// pass runs a pass over records up to a day old that must not fail.
func (b *bench) pass(t testing.TB) backlog.Report {
	t.Helper()
	return b.passOf(t, backlog.Pass{Tier: "1d", MaxAge: day})
}

func (b *bench) passOf(t testing.TB, p backlog.Pass) backlog.Report {
	t.Helper()
	rep, err := b.Pass(t.Context(), p)
	if err != nil {
		t.Fatalf("Pass: %v", err)
	}
	checkSum(t, rep)
	return rep
}

// status returns the record's status.
func (b *bench) status(t testing.TB, n int) string { return b.row(t, n).Status }

func (b *bench) row(t testing.TB, n int) memory.Row {
	t.Helper()
	r, ok := b.table.Row(key(n))
	if !ok {
		t.Fatalf("record %d is gone", n)
	}
	return r
}

// statuses counts the rows by status.
func (b *bench) statuses() map[string]int {
	n := make(map[string]int)
	for _, r := range b.table.Rows() {
		n[r.Status]++
	}
	return n
}

// A tier runs passes one after the other, each going on where the one before
// stopped. Between them the resume point goes through JSON, as it does between
// two lives of the daemon.
type tier struct {
	*bench
	backlog.Pass
}

func (b *bench) tier() *tier { return &tier{b, backlog.Pass{Tier: "1d", MaxAge: day}} }

// pass runs the next pass and returns what it handed out, in order.
func (tr *tier) pass(t testing.TB) ([]int, backlog.Report) {
	t.Helper()
	before := len(tr.calls.ids())
	rep := tr.passOf(t, tr.Pass)
	tr.Resume = throughJSON(t, rep.Resume)
	return tr.calls.ids()[before:], rep
}

func throughJSON[T any](t testing.TB, v T) (again T) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("Marshal: %v", err)
	}
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatalf("Unmarshal %s: %v", text, err)
	}
	return again
}

// checkSum demands of every report that it accounts for each record.
func checkSum(t testing.TB, r backlog.Report) {
	t.Helper()
	sum := r.Succeeded + r.Failed + r.Rejected + r.Skipped + r.Snoozed + r.Accepted + r.Conflicts + r.Refused + r.Interrupted + r.Unwritten
	if r.Selected != sum {
		t.Errorf("want Selected to be the sum of what became of the records, got %d selected and a sum of %d: %+v", r.Selected, sum, r)
	}
}

// outcomes returns the numbers of a report that say what became of records.
func outcomes(r backlog.Report) string {
	var words []string
	for _, f := range []struct {
		name string
		n    int
	}{
		{"succeeded", r.Succeeded}, {"failed", r.Failed}, {"rejected", r.Rejected}, {"skipped", r.Skipped}, {"snoozed", r.Snoozed},
		{"conflicts", r.Conflicts}, {"refused", r.Refused}, {"interrupted", r.Interrupted}, {"unwritten", r.Unwritten},
		{"unreadable", r.Unreadable}, {"expired", r.Expired},
	} {
		if f.n > 0 {
			words = append(words, fmt.Sprintf("%d %s", f.n, f.name))
		}
	}
	return strings.Join(words, ", ")
}

// A call is one call of the handler.
type call struct {
	id     int
	rec    backlog.Record
	at     time.Time
	ended  time.Time // zero: not yet
	handed int       // calls that were running when it began
}

// A journal is a Handler that notes each call. It holds the engine to the
// promise that no record is in two calls at a time.
type journal struct {
	t  testing.TB
	do backlog.HandlerFunc

	mu    sync.Mutex
	list  []call
	busy  map[int]bool
	count int // calls running
}

func (j *journal) Handle(ctx context.Context, r *backlog.Record) error {
	n := j.begin(r)
	defer j.end(n)
	return j.do(ctx, r)
}

func (j *journal) begin(r *backlog.Record) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.busy == nil {
		j.busy = make(map[int]bool)
	}
	if j.busy[id(r)] {
		j.t.Errorf("want one handler call at a time on a record, got two on record %d", id(r))
	}
	j.busy[id(r)] = true
	j.list = append(j.list, call{id: id(r), rec: *r, at: time.Now(), handed: j.count})
	j.count++
	return len(j.list) - 1
}

func (j *journal) end(n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list[n].ended = time.Now()
	delete(j.busy, j.list[n].id)
	j.count--
}

// all returns the calls in the order in which they began.
func (j *journal) all() []call {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.list)
}

// ids returns the records in the order in which they were handed out.
func (j *journal) ids() []int {
	var list []int
	for _, c := range j.all() {
		list = append(list, c.id)
	}
	return list
}

// of returns the calls on one record.
func (j *journal) of(id int) []call {
	return slices.DeleteFunc(j.all(), func(c call) bool { return c.id != id })
}

// attempts counts the calls by record.
func (j *journal) attempts() map[int]int {
	n := make(map[int]int)
	for _, c := range j.all() {
		n[c.id]++
	}
	return n
}

// running returns how many calls are under way.
func (j *journal) running() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.count
}

// A recorder keeps events.
type recorder struct {
	mu   sync.Mutex
	list []backlog.Event
}

func (r *recorder) observe(ev backlog.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, ev)
}

// of returns the events of one kind.
func (r *recorder) of(kind backlog.EventKind) []backlog.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []backlog.Event
	for _, ev := range r.list {
		if ev.Kind == kind {
			list = append(list, ev)
		}
	}
	return list
}

// A hooked store is a table whose calls go through hooks; one that is nil is
// not there.
type hooked struct {
	*memory.Store
	pending func(context.Context, backlog.Query) (backlog.Page, error)
	settle  func(context.Context, []backlog.Settlement) ([]backlog.Unsettled, error)
	ping    func(context.Context) error
}

func (h *hooked) Pending(ctx context.Context, q backlog.Query) (backlog.Page, error) {
	if h.pending == nil {
		return h.Store.Pending(ctx, q)
	}
	return h.pending(ctx, q)
}

func (h *hooked) Settle(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	if h.settle == nil {
		return h.Store.Settle(ctx, group)
	}
	return h.settle(ctx, group)
}

func (h *hooked) Ping(ctx context.Context) error {
	if h.ping == nil {
		return h.Store.Ping(ctx)
	}
	return h.ping(ctx)
}

// hook makes the engine's calls go through hooks.
func (b *bench) hook() *hooked {
	h := &hooked{Store: b.table}
	b.Store = h
	return h
}

// refuse makes the table refuse every outcome of one record, as a database
// does with a value that a trigger or a constraint forbids.
func (h *hooked) refuse(n int, reason error) {
	h.settle = func(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
		var taken []backlog.Settlement
		var index []int // of taken in group
		var left []backlog.Unsettled
		for i, s := range group {
			if id(s.Record) == n {
				left = append(left, backlog.Unsettled{Index: i, Err: reason})
				continue
			}
			taken, index = append(taken, s), append(index, i)
		}
		unsettled, err := h.Store.Settle(ctx, taken)
		for _, u := range unsettled {
			left = append(left, backlog.Unsettled{Index: index[u.Index], Err: u.Err})
		}
		return left, err
	}
}

// numbers returns the integers from first to last, downwards if last is less.
func numbers(first, last int) []int {
	step := 1
	if last < first {
		step = -1
	}
	list := []int{first}
	for n := first; n != last; {
		n += step
		list = append(list, n)
	}
	return list
}
