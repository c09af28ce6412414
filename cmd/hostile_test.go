package cmd_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestHostileTables draws a table, with what refuses some of its rows some statuses, and a
// run of commands, kills and other writers, and holds what the program does against what its
// documentation promises: no row is lost, or handled while it is being handled, no success
// without a handler's, no healthy row waits for a sick one, on_dead is called once for each
// death, counts add up, and each row that the database refuses is named.
//
// The number of draws for each database is BACKLOG_HOSTILE: `make hostile N=1000`.
func TestHostileTables(t *testing.T) {
	const shards = 3 // at a time, for each database: daemons wait for ticks
	flag.Set("rapid.checks", strconv.Itoa((hostileDraws()+shards-1)/shards))
	for _, kind := range hostileDatabases {
		for shard := range shards {
			t.Run(fmt.Sprintf("%s-%d", kind.name, shard), func(t *testing.T) {
				t.Parallel()
				hostileOn(t, &kind)
			})
		}
	}
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		hostileInMemory(t)
	})
}

// hostileDraws is how many draws are run on each database.
func hostileDraws() int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("BACKLOG_HOSTILE"), "100"))
	if err != nil {
		panic("BACKLOG_HOSTILE is no number")
	}
	return n
}

// A hostileSide is what a draw is run on: the program on a real database, or the engine in
// memory. Its methods end the draw where they cannot do what they are for. Statuses are those
// with which a command ends, counts the numbers that it prints.
type hostileSide interface {
	setup(now time.Time) // makes the table and its rows
	read() []hostileState
	add(row int, now time.Time)
	hold(row int) error // as another program does
	fill(row int) error // as a handler does

	pass(age string, now time.Time) (status int, counts map[string]int)
	retry(now time.Time) (status int, counts map[string]int)
	discard(state string, now time.Time) (status int, counts map[string]int)
	killed(now time.Time, n int) // a pass that is killed at its n-th call
	two(now time.Time)           // two passes that begin at once
	daemon()                     // three passes of a daemon, with a reload between them
	takeOver(n int)              // a daemon that is killed at its n-th call, and one that goes on

	said() string // by the last command
}

// A hostileWorld is a draw that is being run.
type hostileWorld struct {
	*rapid.T
	draw     *hostileDraw
	receiver *receiver
	side     hostileSide

	now   time.Time      // what the program takes for the time
	rows  []hostileState // as they were before the step
	trace []string       // what was done so far
}

// A hostileState is what a row has in the table.
type hostileState struct {
	Status   string // empty: there is no such row any more
	Failures int
	Tries    int
	Payload  string
}

func (w *hostileWorld) run() {
	w.Helper()
	w.now = time.Now().UTC().Truncate(time.Second).Add(-time.Hour)
	w.receiver.begin(w.draw, w.side.fill)
	w.side.setup(w.now)
	for i, step := range w.draw.Steps {
		w.rows = w.side.read()
		w.now = w.now.Add(time.Minute)
		w.trace = append(w.trace, fmt.Sprintf("step %d: %s %d", i, step.Do, step.N))
		w.step(step)
		if _, _, faults := w.receiver.taken(); len(faults) > 0 {
			w.fail("%s", strings.Join(faults, "\n"))
		}
	}
}

// fail ends the draw, with all that is needed to see why.
func (w *hostileWorld) fail(format string, args ...any) {
	w.Helper()
	w.Fatalf("%s\n%s\n%vthe program said:\n%s", fmt.Sprintf(format, args...), strings.Join(w.trace, "\n"), w.draw, w.side.said())
}

func (w *hostileWorld) step(s hostileStep) {
	w.Helper()
	w.receiver.next(0, nil)
	switch s.Do {
	case "once":
		w.quietPass("7d", true)
	case "narrow":
		w.quietPass("1d", false)
	case "rival":
		w.rivalPass(s.N)
	case "retry":
		w.retry()
	case "discard":
		w.discard()
	case "kill":
		w.side.killed(w.now, s.N)
		w.loose(1)
	case "two":
		w.side.two(w.now)
		w.loose(2)
		w.reachedAll()
	case "hold":
		if err := w.side.hold(s.N); err != nil {
			w.fail("%v", err)
		}
	case "insert":
		w.draw.Rows = append(w.draw.Rows, hostileRow{Status: "NEW", Age: "young", Answers: []string{"success"}})
		w.side.add(len(w.draw.Rows)-1, w.now)
	case "daemon":
		w.side.daemon()
		w.afterDaemon(1)
	case "takeover":
		w.side.takeOver(s.N)
		w.afterDaemon(2)
	default:
		w.fail("there is no step %q", s.Do)
	}
}

// A hostileOutcome is what a step may leave of a row.
type hostileOutcome struct {
	state   hostileState
	calls   int
	deaths  int
	refused bool
}

// given returns the number of failures after one more, and whether that was the last.
func (w *hostileWorld) given(failures int) (n int, givenUp bool) {
	if w.draw.Policy == "progressive" {
		return failures, false
	}
	return failures + 1, failures+1 > w.draw.Retries
}

// pending reports whether the row waits for a pass, or did until it was out of retries.
func (w *hostileWorld) pending(row int, s hostileState) (waits, exhausted bool) {
	r := &w.draw.Rows[row]
	if r.Sms || r.Foreign || s.Status != "NEW" && s.Status != "ERROR" {
		return false, false
	}
	if s.Status == "ERROR" && w.draw.Policy != "progressive" && s.Failures > w.draw.Retries {
		return false, true
	}
	return true, false
}

// reached reports whether the age of a row is within the tier.
func (w *hostileWorld) reached(row int, wide bool) bool {
	age := w.draw.Rows[row].Age
	return age == "young" || age == "week" && wide
}

// ended returns the row's state after an outcome, and whether the row is dead then.
func (w *hostileWorld) ended(s hostileState, answer string) hostileState {
	if w.draw.Notes {
		s.Tries++
	}
	if answer == "success" {
		s.Status = "SUCCESS"
		return s
	}
	n, givenUp := w.given(s.Failures)
	s.Failures = n
	switch {
	case w.draw.Dead && (answer == "reject" || givenUp):
		s.Status = "DEAD"
	case !w.draw.ErrorKeep:
		s.Status = "ERROR"
	}
	return s
}

// afterPass returns what a pass may leave of a row that nothing else works on.
func (w *hostileWorld) afterPass(row int, s hostileState, wide bool) []hostileOutcome {
	r := &w.draw.Rows[row]
	stays := hostileOutcome{state: s}
	waits, exhausted := w.pending(row, s)
	if exhausted || waits && r.Age == "old" {
		if !wide || !w.draw.Dead {
			return []hostileOutcome{stays}
		}
		return w.dies(row, s)
	}
	if !waits || !w.reached(row, wide) {
		return []hostileOutcome{stays}
	}
	answer := r.Answers[min(w.receiver.called(row), len(r.Answers)-1)]
	after := hostileOutcome{state: w.ended(s, answer), calls: 1}
	if after.state.Status == "DEAD" {
		after.deaths = 1
	}
	refused := hostileOutcome{state: s, refused: true}
	inVain := hostileOutcome{state: s, calls: 1, refused: true}
	switch {
	case w.draw.refuses(r, after.state.Status) && after.state != s:
		return []hostileOutcome{refused, inVain}
	case r.Sick: // the trial tells of a status that the row does not come to
		return []hostileOutcome{after, refused}
	}
	return []hostileOutcome{after}
}

// dies returns what may be left of a row that is given the dead status.
func (w *hostileWorld) dies(row int, s hostileState) []hostileOutcome {
	if w.draw.refuses(&w.draw.Rows[row], "DEAD") {
		return []hostileOutcome{{state: s, refused: true}}
	}
	after := hostileOutcome{state: s, deaths: 1}
	after.state.Status = "DEAD"
	return []hostileOutcome{after}
}

// compare holds the table against what the step may have left of each row, and returns the
// rows that the database has refused.
func (w *hostileWorld) compare(before []hostileState, want func(row int, s hostileState) []hostileOutcome) (refused []int) {
	w.Helper()
	after := w.side.read()
	answers, deaths, _ := w.receiver.taken()
	for row, s := range before {
		got := hostileOutcome{state: after[row], calls: len(answers[row]), deaths: deaths[row]}
		list := want(row, s)
		i := slices.IndexFunc(list, func(o hostileOutcome) bool {
			return o.state == got.state && o.calls == got.calls && o.deaths == got.deaths
		})
		if i < 0 {
			w.fail("row %d (id %s) was %+v and is %+v; it may be %+v", row, w.draw.id(row), s, got, list)
		}
		if list[i].refused {
			refused = append(refused, row)
		}
	}
	return refused
}

// named fails unless the program has told of each of the rows that they are refused.
func (w *hostileWorld) named(rows []int) {
	w.Helper()
	lines := strings.Split(w.side.said(), "\n")
	for _, row := range rows {
		id := w.draw.id(row)
		number := strconv.Itoa(1000 + row) // a part of each
		tells := func(line string) bool {
			return strings.Contains(line, number) && (strings.Contains(line, "refuse") || strings.Contains(line, "not take"))
		}
		if !slices.ContainsFunc(lines, tells) {
			w.fail("row %d (id %s) is refused, and that is not told", row, id)
		}
	}
}

// exits fails unless the status is that of a command that has met these refused rows.
func (w *hostileWorld) exits(status int, refused []int) {
	w.Helper()
	want := 0
	if len(refused) > 0 {
		want = 1
	}
	if status != want {
		w.fail("exit status %d, not %d, with the refused rows %v", status, want, refused)
	}
}

func (w *hostileWorld) quietPass(age string, wide bool) {
	w.Helper()
	status, counts := w.side.pass(age, w.now)
	w.checkPass(status, counts, func(row int, s hostileState) []hostileOutcome { return w.afterPass(row, s, wide) })
}

// checkPass holds a pass against what it may have left.
func (w *hostileWorld) checkPass(status int, n map[string]int, want func(row int, s hostileState) []hostileOutcome) {
	w.Helper()
	refused := w.compare(w.rows, want)
	w.exits(status, refused)
	w.named(refused)
	sum := 0
	for _, name := range []string{"succeeded", "failed", "rejected", "skipped", "accepted", "conflicts", "refused", "interrupted", "unwritten"} {
		sum += n[name]
	}
	if n["selected"] != sum {
		w.fail("selected is %d, and what became of them is %d", n["selected"], sum)
	}
	if n["refused"] != len(refused) {
		w.fail("refused is %d, not %d: rows %v", n["refused"], len(refused), refused)
	}
}

// rivalPass is a pass at whose n-th call another program changes that call's row.
func (w *hostileWorld) rivalPass(n int) {
	w.Helper()
	rival := -1
	w.receiver.next(n, func(row int) bool {
		if row < len(w.draw.Rows) {
			if err := w.side.hold(row); err != nil {
				w.receiver.fault("the other program: %v", err)
			}
			rival = row
		}
		return true
	})
	status, counts := w.side.pass("7d", w.now)
	w.checkPass(status, counts, func(row int, s hostileState) []hostileOutcome {
		list := w.afterPass(row, s, true)
		if row != rival {
			return list
		}
		for i := range list {
			list[i].state = s
			list[i].state.Status = "HOLD"
			list[i].refused = false
			alive := list[i]
			alive.deaths = 0 // it was seen that the row has changed
			list = append(list, alive)
		}
		return list
	})
}

func (w *hostileWorld) retry() {
	w.Helper()
	if w.draw.ErrorKeep && !w.draw.Dead {
		return // there is nothing that could be put back
	}
	selected := 0
	status, n := w.side.retry(w.now)
	refused := w.compare(w.rows, func(row int, s hostileState) []hostileOutcome {
		r := &w.draw.Rows[row]
		if r.Sms || s.Status != "ERROR" && s.Status != "DEAD" {
			return []hostileOutcome{{state: s}}
		}
		selected++
		if w.draw.refuses(r, "NEW") {
			return []hostileOutcome{{state: s, refused: true}}
		}
		after := s
		after.Status = "NEW"
		after.Failures = 0
		return []hostileOutcome{{state: after}}
	})
	w.exits(status, refused)
	w.named(refused)
	if n["selected"] != selected || n["reset"] != selected-len(refused) {
		w.fail("selected %d, reset %d; not %d, %d", n["selected"], n["reset"], selected, selected-len(refused))
	}
}

func (w *hostileWorld) discard() {
	w.Helper()
	from := "ERROR"
	state := "failed"
	if w.draw.ErrorKeep {
		from = "NEW"
		state = "fresh"
	}
	selected := 0
	status, n := w.side.discard(state, w.now)
	refused := w.compare(w.rows, func(row int, s hostileState) []hostileOutcome {
		waits, _ := w.pending(row, s)
		unreadable := w.draw.Rows[row].Foreign // it may be given up, too
		if !waits && !unreadable || s.Status != from {
			return []hostileOutcome{{state: s}}
		}
		selected++
		return w.dies(row, s)
	})
	w.exits(status, refused)
	w.named(refused)
	if n["selected"] != selected || n["discarded"] != selected-len(refused) {
		w.fail("selected %d, discarded %d; not %d, %d", n["selected"], n["discarded"], selected, selected-len(refused))
	}
}

// afterDaemon holds the table against what so many processes may have left, each of which
// has made some passes.
func (w *hostileWorld) afterDaemon(processes int) {
	w.Helper()
	w.now = time.Now().UTC().Truncate(time.Second)
	w.loose(1000)
	w.reachedAll()
	answers, deaths, _ := w.receiver.taken()
	for row, list := range answers {
		inVain := 0
		for _, answer := range list {
			if answer == "success" && w.draw.refuses(&w.draw.Rows[row], "SUCCESS") {
				inVain++
			}
		}
		if inVain > processes {
			w.fail("row %d (id %s) was handled in vain %d times", row, w.draw.id(row), inVain)
		}
	}
	for row, n := range deaths {
		if n > processes {
			w.fail("of the death of row %d (id %s) on_dead was told %d times", row, w.draw.id(row), n)
		}
	}
}

// reachedAll fails unless each healthy row that waited was handled.
func (w *hostileWorld) reachedAll() {
	w.Helper()
	answers, _, _ := w.receiver.taken()
	for row, s := range w.rows {
		waits, _ := w.pending(row, s)
		if waits && !w.draw.Rows[row].Sick && w.reached(row, true) && len(answers[row]) == 0 {
			w.fail("row %d (id %s), which is healthy, was not handled", row, w.draw.id(row))
		}
	}
}

// loose holds the table against what is true whatever has happened meanwhile. No row may be
// called more often than that.
func (w *hostileWorld) loose(most int) {
	w.Helper()
	after := w.side.read()
	answers, deaths, _ := w.receiver.taken()
	for row, s := range w.rows {
		got := after[row]
		waits, exhausted := w.pending(row, s)
		bad := func(why string) {
			w.fail("row %d (id %s) was %+v and is %+v, after the answers %v and %d calls of on_dead: %s", row, w.draw.id(row), s, got, answers[row], deaths[row], why)
		}
		if !waits && !exhausted && (got != s || len(answers[row]) > 0) {
			bad("it was not to be touched")
		}
		if len(answers[row]) > most {
			bad("it was called too often")
		}
		if got.Payload != s.Payload {
			bad("its other columns are another program's")
		}
		ended := w.draw.Rows[row].Age == "old" || exhausted
		if got.Status == s.Status {
			continue
		}
		switch got.Status {
		case "SUCCESS":
			if !slices.Contains(answers[row], "success") {
				bad("no handler has succeeded")
			}
		case "ERROR":
			if !slices.Contains(answers[row], "error") {
				bad("no handler has failed")
			}
		case "DEAD":
			if deaths[row] == 0 {
				bad("of its death nothing was told")
			}
			if !ended && !slices.Contains(answers[row], "reject") && !slices.Contains(answers[row], "error") {
				bad("nothing has made it dead")
			}
		default:
			bad("no outcome makes it that")
		}
	}
}
