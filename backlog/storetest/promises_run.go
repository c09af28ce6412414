package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"backlog/backlog"
)

// A promise is what the documentation says about a row that other programs change during an
// attempt.
type promise struct {
	says   string     // the sentence in the documentation
	was    func(*Row) // makes the row of a fresh one that is due; nil: it is one
	when   moment     // of the change
	change change     // nil: the row is left alone
	end    ending
	want   standing
}

// A moment is when another program changes the row.
type moment int

const (
	whileItRuns  moment = iota
	beforeStart         // the row was read, and its start is not written yet
	beforeItsEnd        // the attempt was read for its end, which is not written yet
)

// A change is what another program does to a row.
type change func(*fixture, backlog.Key)

// An ending is how the attempt ends.
type ending struct {
	by      source
	outcome backlog.Outcome
}

// A source is where the outcome comes from.
type source int

const (
	handler  source = iota // it returns the outcome
	answer                 // it has handed the row over, and the outcome comes later
	deadline               // it has handed the row over, and the outcome never comes
)

var (
	succeeded    = ending{handler, backlog.Succeeded}
	failed       = ending{handler, backlog.Errored}
	rejected     = ending{handler, backlog.Rejected}
	skipped      = ending{handler, backlog.Skipped}
	handedOver   = ending{handler, backlog.HandedOver}
	laterSuccess = ending{answer, backlog.Succeeded}
	laterFailure = ending{answer, backlog.Errored}
	laterReject  = ending{answer, backlog.Rejected}
	laterText    = ending{answer, backlog.Skipped} // for the customer; the attempt goes on
	timedOut     = ending{deadline, backlog.Errored}
)

// returned is what the handler returns for the ending.
func (e ending) returned() error {
	switch {
	case e.by != handler || e.outcome == backlog.HandedOver:
		return backlog.Accepted
	case e.outcome == backlog.Errored:
		return errors.New(failureText)
	case e.outcome == backlog.Rejected:
		return backlog.Reject(errors.New(failureText))
	case e.outcome == backlog.Skipped:
		return backlog.Skip
	}
	return nil
}

const failureText = "it failed"

// When things happen, and what is planned then.
var (
	atStart    = now
	atSave     = now.Add(10 * time.Minute) // a start that is saved before the deadline
	atAnswer   = now.Add(20 * time.Minute)
	atDeadline = now.Add(timeout)
	atFuture   = now.Add(90 * time.Minute) // a start that is saved behind the deadline
	atNext     = now.Add(2 * time.Hour)    // the occurrence after a success
	atRetry    = now.Add(3 * time.Hour)    // the retry after a failure
	longAgo    = now.Add(-day)
)

// A standing is what the row has in the end, and what was reported about it.
type standing struct {
	gone   bool // the row is deleted
	status string
	tries  int    // counted attempts
	note   string // in the column that only the application knows

	next     time.Time
	starts   int       // since the last success
	runs     attempted // whose attempt has left its UID
	deadline time.Time
	disabled bool
	reason   string
	failing  time.Time // since when

	failures int // counted by a policy without deadlines

	due    time.Time // when the row is taken again; zero: never
	ended  bool      // the change has ended its attempt, and its handler is cancelled
	said   saying    // what was reported about the outcome
	onDead bool      // OnDead was called
	died   bool      // the event Died was emitted
}

// String writes the fields that are set.
func (s standing) String() string {
	var list []string
	add := func(is bool, format string, args ...any) {
		if is {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	at := func(what string, t time.Time) { add(!t.IsZero(), "%s %s", what, t.Format(time.DateTime)) }
	add(s.gone, "deleted")
	add(!s.gone, "status %q, tried %d times", s.status, s.tries)
	add(s.note != "", "note %q", s.note)
	at("next start", s.next)
	add(s.starts > 0, "%d starts", s.starts)
	add(s.runs != none, "the UID is %s", s.runs)
	at("deadline", s.deadline)
	add(s.disabled, "disabled")
	add(s.reason != "", "because %q", s.reason)
	at("failing since", s.failing)
	add(s.failures > 0, "%d failures", s.failures)
	at("due", s.due)
	add(s.ended, "its attempt has ended before its outcome")
	add(s.said != nothing, "said: %s", s.said)
	add(s.onDead, "on_dead is called")
	add(s.died, "said to be dead")
	return strings.Join(list, ", ")
}

// An attempted says whose attempt a row has.
type attempted string

const (
	none    attempted = ""
	itsOwn  attempted = "its own"
	another attempted = "another's"
)

// A saying is what was reported about an outcome.
type saying string

const (
	nothing  saying = ""
	written  saying = "written"
	conflict saying = "conflict"
	notBegun saying = "conflict at the start" // and no handler is called
)

// A planner is the Refresher of the suite. The fourth attempt is the last one: its failure
// disables the row, and its success finishes it.
type planner struct{}

// Start implements [backlog.Refresher].
func (planner) Start(s backlog.Memory, now time.Time, uid string) (backlog.Memory, error) {
	s.UID, s.Started, s.Deadline, s.AttemptNo = uid, now, now.Add(timeout), s.AttemptNo+1
	s.Next = s.Deadline
	return s, nil
}

// End implements [backlog.Refresher].
func (planner) End(s backlog.Memory, o backlog.Outcome, now time.Time, text string, before *backlog.Memory) (backlog.Memory, bool) {
	last := s.AttemptNo > 3
	saved := !s.Next.IsZero() && s.Next.Before(s.Deadline)
	s.UID, s.Deadline = "", time.Time{}
	if saved {
		if o == backlog.Succeeded {
			s.FailingSince = time.Time{}
		}
		return s, false
	}
	if o == backlog.Skipped {
		s.Next, s.AttemptNo = before.Next, before.AttemptNo
		return s, false
	}
	if o == backlog.Succeeded {
		s.Next, s.AttemptNo, s.FailingSince, s.Reason = atNext, 0, time.Time{}, ""
		if last {
			s.Next = time.Time{}
		}
		return s, last
	}
	if s.FailingSince.IsZero() {
		s.FailingSince = now
	}
	if !last && o == backlog.Errored {
		s.Next = atRetry
		return s, false
	}
	s.Next, s.Disabled, s.Reason = time.Time{}, true, text
	return s, true
}

// A trial is a run of the promises of a table.
type trial struct {
	*fixture
	list   []promise
	engine *backlog.Engine
	keys   map[string]int // key -> index in list

	mu     sync.Mutex
	clock  time.Time
	uids   []string // of the attempts; "": not known
	called []bool
	got    []standing
}

// promisesOf returns a case that checks all promises at once, each with its own row.
func promisesOf(list []promise) func(*fixture) {
	return func(f *fixture) {
		n := len(list)
		x := &trial{
			fixture: f, list: list, keys: make(map[string]int), clock: atStart,
			uids: make([]string, n), called: make([]bool, n), got: make([]standing, n),
		}
		rows := numbered(n, func(i int) Row {
			x.keys[keyText(f.key(i))] = i
			return x.before(i)
		})
		f.harness(f.h.Insert(rows...), "insert")
		x.open()
		x.pass(false)
		x.changeAll()
		x.answer()
		x.clock = atDeadline
		x.pass(true)
		x.report()
	}
}

// before returns the row of a promise.
func (x *trial) before(i int) Row {
	r := x.row(i, Fresh, time.Hour)
	if x.table.Refresh {
		r.Status = Other // it does not matter to the policy
		r.Memory.Next = now.Add(-time.Minute)
	}
	if was := x.list[i].was; was != nil {
		was(&r)
	}
	return r
}

// open makes the engine.
func (x *trial) open() {
	x.engine = &backlog.Engine{
		Store: x.h.Store(), Policy: x.table.Policy,
		Now:     func() time.Time { x.mu.Lock(); defer x.mu.Unlock(); return x.clock },
		Handler: backlog.HandlerFunc(x.handle),
		Observe: x.observe,
		OnDead: backlog.HandlerFunc(func(_ context.Context, r *backlog.Record) error {
			x.note(r, func(s *standing) { s.onDead = true })
			return nil
		}),
	}
	if x.table.Refresh {
		s, ok := x.engine.Store.(beginner)
		if !ok {
			x.Skip("the store is no backlog.Beginner and backlog.Rehearser")
		}
		x.engine.Store = &crowded{beginner: s, trial: x}
		x.engine.Policy = &backlog.Policy{Name: "of the suite", Retries: -1, Refresher: planner{}}
	}
}

// note changes the standing of a record's promise.
func (x *trial) note(r *backlog.Record, f func(*standing)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if i, ok := x.keys[keyText(r.Key)]; ok {
		f(&x.got[i])
	}
}

func (x *trial) observe(e backlog.Event) {
	if e.Record == nil {
		return
	}
	x.note(e.Record, func(s *standing) {
		switch e.Kind {
		case backlog.AttemptEnded:
			if e.Outcome != backlog.HandedOver {
				s.said = written
			}
		case backlog.Conflicted:
			s.said = conflict
		case backlog.Died:
			s.died = true
		case backlog.Refused, backlog.Unwritten, backlog.UnreadableRow, backlog.OnDeadFailed:
			x.Errorf("record %v: want no such event, got %v: %v", e.Record.Key, e.Kind, e.Err)
		}
	})
}

// handle is the handler. Other programs change the row during the call.
func (x *trial) handle(_ context.Context, r *backlog.Record) error {
	i := x.keys[keyText(r.Key)]
	p := x.list[i]
	x.called[i] = true
	if r.Memory != nil {
		x.uids[i] = r.Memory.UID
	}
	if p.end.by == handler && p.when == whileItRuns {
		x.come(i)
	}
	return p.end.returned()
}

// come has another program change the row of a promise, and notes whether its attempt goes on.
func (x *trial) come(i int) {
	if change := x.list[i].change; change != nil {
		change(x.fixture, x.key(i))
	}
	if x.uids[i] == "" {
		return
	}
	list, err := x.h.Store().(backlog.Beginner).Running(x.Context(), []string{x.uids[i]})
	if err != nil {
		x.Errorf("Running: want no error, got %v", err)
	}
	x.got[i].ended = len(list) == 0
}

// pass runs a pass at the clock's time. With shut it only ends attempts past their deadline.
func (x *trial) pass(shut bool) {
	if s, ok := x.engine.Store.(*crowded); ok {
		s.shut = shut
	} else if shut {
		return // there are no deadlines
	}
	if _, err := x.engine.Pass(x.Context(), backlog.Pass{Tier: "of the suite", MaxAge: 10 * day, Now: x.clock}); err != nil {
		x.Fatalf("Pass: want no error, got %v", err)
	}
}

// changeAll has other programs change the rows that were handed over.
func (x *trial) changeAll() {
	for i, p := range x.list {
		if p.end.by != handler && p.when == whileItRuns {
			x.come(i)
		}
	}
}

// answer resolves the attempts that were handed over.
func (x *trial) answer() {
	x.clock = atAnswer
	var answers []backlog.Answer
	var places []int
	for i, p := range x.list {
		if p.end.by == answer && x.uids[i] != "" {
			answers = append(answers, backlog.Answer{UID: x.uids[i], Outcome: p.end.outcome, Text: failureText})
			places = append(places, i)
		}
	}
	if len(answers) == 0 {
		return
	}
	reasons, err := x.engine.Resolve(x.Context(), answers)
	if err != nil {
		x.Fatalf("Resolve: want no error, got %v", err)
	}
	for k, i := range places {
		switch {
		case reasons[k] == nil:
			x.got[i].said = written
		case errors.Is(reasons[k], backlog.ErrConflict):
			x.got[i].said = conflict
		default:
			x.Errorf("Resolve: want nil or ErrConflict, got %v", reasons[k])
		}
	}
}

// A beginner is a store whose rows are started, and that rehearses deaths.
type beginner interface {
	backlog.Beginner
	Rehearse(context.Context, []backlog.Settlement) ([]backlog.Unsettled, error)
}

// A crowded store has other programs change rows between reads and writes.
type crowded struct {
	beginner
	trial *trial
	shut  bool // nothing is due
}

// Pending implements [backlog.Store].
func (s *crowded) Pending(ctx context.Context, q backlog.Query) (backlog.Page, error) {
	if s.shut {
		return backlog.Page{}, nil
	}
	return s.beginner.Pending(ctx, q)
}

// Begin implements [backlog.Beginner].
func (s *crowded) Begin(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	for i := range group {
		s.comeAt(beforeStart, group[i].Record, handler, answer, deadline)
	}
	return s.beginner.Begin(ctx, group)
}

// Running implements [backlog.Beginner].
func (s *crowded) Running(ctx context.Context, uids []string) ([]backlog.Record, error) {
	list, err := s.beginner.Running(ctx, uids)
	for i := range list {
		s.comeAt(beforeItsEnd, &list[i], answer)
	}
	return list, err
}

// Overdue implements [backlog.Beginner].
func (s *crowded) Overdue(ctx context.Context, now time.Time, after backlog.Cursor, limit int) ([]backlog.Record, error) {
	list, err := s.beginner.Overdue(ctx, now, after, limit)
	for i := range list {
		s.comeAt(beforeItsEnd, &list[i], deadline)
	}
	return list, err
}

// comeAt has another program change the record's row if this is the moment of its promise.
func (s *crowded) comeAt(when moment, r *backlog.Record, ends ...source) {
	i := s.trial.keys[keyText(r.Key)]
	p := s.trial.list[i]
	if p.when == when && p.change != nil && slices.Contains(ends, p.end.by) {
		p.change(s.trial.fixture, r.Key)
	}
}

// report compares what the rows have with what was promised.
func (x *trial) report() {
	times := x.times()
	for i, p := range x.list {
		row, ok, err := x.h.Row(x.key(i))
		x.harness(err, "read record %v", x.key(i))
		x.stand(i, &row, ok)
		x.got[i].due = times[keyText(x.key(i))]
		if p.want != x.got[i] {
			x.Errorf("%s\nwant %v\ngot  %v", p.says, p.want, x.got[i])
		}
	}
}

// stand notes what the row of a promise has in the end.
func (x *trial) stand(i int, row *Row, ok bool) {
	s := &x.got[i]
	if s.said == conflict && !x.called[i] {
		s.said = notBegun
	}
	if !ok {
		s.gone = true
		return
	}
	s.status, s.tries, s.failures = row.Status, row.Attempts, x.remembered(&row.Memory).Failures
	s.note, _ = row.Columns["note"].(string)
	if !x.table.Refresh {
		return
	}
	r := &row.Memory
	if x.table.NoDeadline {
		r.Deadline = time.Time{} // the store has no column for it
	}
	s.next, s.starts, s.deadline, s.disabled, s.reason, s.failing = r.Next, r.AttemptNo, r.Deadline, r.Disabled, r.Reason, r.FailingSince
	switch r.UID {
	case "":
	case x.uids[i]:
		s.runs = itsOwn
	default:
		s.runs = another
	}
}

// moments are all times at which something can be due.
var moments = []time.Time{
	atStart, now.Add(time.Minute), atSave, atAnswer, atDeadline, atFuture, atNext, atRetry, now.Add(day),
}

// times returns when each row is due: the first of the moments at which it is in a lane.
func (x *trial) times() map[string]time.Time {
	due := make(map[string]time.Time)
	for _, at := range slices.Backward(moments) {
		for _, lane := range bothLanes {
			q := query(lane)
			q.Now = at
			for _, r := range x.walk(x.h.Store(), q) {
				due[keyText(r.Key)] = at
				if x.table.Refresh && (r.Memory.AttemptNo == 0) != (lane == backlog.Fresh) {
					x.Errorf("record %v: want it in the lane of %d starts, got it in the %v lane", r.Key, r.Memory.AttemptNo, lane)
				}
			}
		}
	}
	return due
}
