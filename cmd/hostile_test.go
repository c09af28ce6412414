package cmd_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"regexp"
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
// The number of draws for each database is BACKLOG_HOSTILE: `make hostile N=1000`. By default
// it is small, since a draw runs the program a dozen times, and each gate draws others.
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
	for shard := range 3 * shards { // more, since they cost little
		t.Run(fmt.Sprintf("memory-%d", shard), func(t *testing.T) {
			t.Parallel()
			hostileInMemory(t)
		})
	}
}

// hostileDraws is how many draws are run on each database.
func hostileDraws() int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("BACKLOG_HOSTILE"), "30"))
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

	// daemon makes three passes or more of a daemon, the first of them after now, with a
	// reload between them. It returns the time after them, as takeOver does, which has a
	// daemon that is killed at its n-th call, and one that goes on.
	daemon(now time.Time) time.Time
	takeOver(now time.Time, n int) time.Time

	said() string // by the last command
}

// A hostileWorld is a draw that is being run.
type hostileWorld struct {
	*rapid.T
	draw     *hostileDraw
	receiver *receiver
	side     hostileSide

	now    time.Time      // what the program takes for the time
	rows   []hostileState // as they were before the step
	inVain int            // calls of the step whose outcome was refused
	trace  []string       // what was done so far
}

// A hostileState is what a row has in the table.
type hostileState struct {
	Status   string // empty: there is no such row any more
	Failures int
	Tries    int
	Problem  string // the text of the last error, or what matters of it
	Payload  string
}

func (w *hostileWorld) run() {
	w.Helper()
	w.now = time.Now().UTC().Truncate(time.Second).Add(-time.Hour)
	w.receiver.begin(w.draw, w.side.fill)
	w.side.setup(w.now)
	for i, step := range w.draw.Steps {
		w.rows = w.side.read()
		w.now = w.now.Add(2 * time.Second)
		w.trace = append(w.trace, fmt.Sprintf("step %d: %s %d", i, step.Do, step.N))
		before := w.now
		began := time.Now()
		w.step(step)
		if w.now.Equal(before) { // the clock of the program went on
			w.now = w.now.Add(time.Since(began)).Truncate(time.Second)
		}
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
		w.succeededOnce()
	case "hold":
		if err := w.side.hold(s.N); err != nil {
			w.fail("%v", err)
		}
	case "insert":
		w.draw.Rows = append(w.draw.Rows, hostileRow{Status: "NEW", Age: "young", Answers: []string{"success"}})
		w.side.add(len(w.draw.Rows)-1, w.now)
	case "daemon":
		w.now = w.side.daemon(w.now)
		w.afterDaemon(1)
		w.toldOnce()
		w.succeededOnce()
	case "takeover":
		w.now = w.side.takeOver(w.now, s.N)
		w.afterDaemon(2)
	default:
		w.fail("there is no step %q", s.Do)
	}
}

// A hostileOutcome is what a step may leave of a row.
type hostileOutcome struct {
	state  hostileState
	calls  int
	deaths int    // calls of on_dead
	as     string // the number of the pass's report that counts the row; "": none
}

// given returns the number of failures after one more, and whether that was the last.
func (w *hostileWorld) given(failures int) (n int, givenUp bool) {
	if w.draw.Policy == "progressive" {
		return failures, false
	}
	return failures + 1, w.draw.isLimited() && failures+1 > w.draw.Retries
}

// pending reports whether the row waits for a pass, or did until it was out of retries.
func (w *hostileWorld) pending(row int, s hostileState) (waits, exhausted bool) {
	r := &w.draw.Rows[row]
	if r.Sms || r.Foreign || s.Status != "NEW" && s.Status != "ERROR" {
		return false, false
	}
	if s.Status == "ERROR" && w.draw.isLimited() && s.Failures > w.draw.Retries {
		return false, true
	}
	return true, false
}

// isOver reports whether a row that waits is too old for every tier, or past its time.
func (w *hostileWorld) isOver(row int) bool {
	r := &w.draw.Rows[row]
	return r.Age == "old" || r.Late
}

// reached reports whether the age of a row is within the tier.
func (w *hostileWorld) reached(row int, wide bool) bool {
	age := w.draw.Rows[row].Age
	return !w.isOver(row) && (age == "young" || wide)
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
	if w.draw.Notes {
		s.Problem = answer
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
	if exhausted || waits && w.isOver(row) {
		if !wide || !w.draw.Dead {
			return []hostileOutcome{stays}
		}
		return w.dies(row, s)
	}
	if !waits || !w.reached(row, wide) {
		return []hostileOutcome{stays}
	}
	answer := r.Answers[min(w.receiver.called(row), len(r.Answers)-1)]
	as := map[string]string{"success": "succeeded", "error": "failed", "reject": "rejected"}
	after := hostileOutcome{state: w.ended(s, answer), calls: 1, as: as[answer]}
	if after.state.Status == "DEAD" {
		after.deaths = w.draw.deaths()
	}
	refused := hostileOutcome{state: s, as: "refused"}
	inVain := hostileOutcome{state: s, calls: 1, as: "refused"}
	list := []hostileOutcome{after}
	switch {
	case w.draw.refuses(r, after.state.Status) && after.state != s:
		list = append(w.mayTake(after), refused, inVain)
	case r.Sick: // the trial tells of a status that the row does not come to
		list = append(list, refused)
	}
	if w.inVain >= 10 && !w.tells(row) { // only handlers could tell that so many are refused, which ends the lane
		return []hostileOutcome{after, stays}
	}
	return list
}

// dies returns what may be left of a row that is given the dead status.
func (w *hostileWorld) dies(row int, s hostileState) []hostileOutcome {
	after := hostileOutcome{state: s, deaths: w.draw.deaths(), as: "expired"}
	after.state.Status = "DEAD"
	if w.draw.refuses(&w.draw.Rows[row], "DEAD") {
		return append(w.mayTake(after), hostileOutcome{state: s, as: "refused"})
	}
	return []hostileOutcome{after}
}

// mayTake returns the outcome if the table may take it though it refuses it to others.
func (w *hostileWorld) mayTake(after hostileOutcome) []hostileOutcome {
	if w.draw.isSingle() {
		return []hostileOutcome{after}
	}
	return nil
}

// compare holds the table against what the step may have left of each row, and returns the
// rows that the database has refused, and how many rows are to be counted as what.
func (w *hostileWorld) compare(before []hostileState, want func(row int, s hostileState) []hostileOutcome) (refused []int, counts map[string]int) {
	w.Helper()
	after := w.side.read()
	answers, deaths, _ := w.receiver.taken()
	counts = make(map[string]int)
	w.inVain = 0
	for row, s := range before {
		if len(answers[row]) > 0 && after[row] == s {
			w.inVain++
		}
	}
	for row, s := range before {
		got := hostileOutcome{state: after[row], calls: len(answers[row]), deaths: deaths[row]}
		list := want(row, s)
		i := slices.IndexFunc(list, func(o hostileOutcome) bool {
			return o.state == got.state && o.calls == got.calls && o.deaths == got.deaths
		})
		if i < 0 {
			w.fail("row %d (id %s) was %+v and is %+v; it may be %+v", row, w.draw.id(row), s, got, list)
		}
		counts[list[i].as]++
		if list[i].as == "refused" {
			refused = append(refused, row)
		}
	}
	if w.draw.isSingle() && len(refused) > 0 && !w.hasHolder(before, after) {
		w.fail("the rows %v are refused the dead status, which one of them could have", refused)
	}
	return refused, counts
}

// hasHolder reports whether a sick row is dead, or was to be when another program took it.
func (w *hostileWorld) hasHolder(before, after []hostileState) bool {
	for row, s := range after {
		isHeld := s.Status == "HOLD" && before[row].Status != "HOLD"
		if w.draw.Rows[row].Sick && (s.Status == "DEAD" || isHeld) {
			return true
		}
	}
	return false
}

// tells reports whether the last command has told that the row is refused.
func (w *hostileWorld) tells(row int) bool {
	return len(w.linesOf(row, "refuse|not take")) > 0
}

// linesOf returns the lines of the last command that are about the row and match.
func (w *hostileWorld) linesOf(row int, match string) (list []string) {
	is := regexp.MustCompile(match)
	number := regexp.MustCompile(fmt.Sprintf(`\b%d\b`, 1000+row)) // the id, or a part of it
	for _, line := range strings.Split(w.side.said(), "\n") {
		if is.MatchString(line) && number.MatchString(line) {
			list = append(list, line)
		}
	}
	return list
}

// named fails unless the program has told of each of the rows that they are refused, or of
// as many as a command names.
func (w *hostileWorld) named(rows []int) {
	w.Helper()
	const most = 20
	silent := slices.DeleteFunc(slices.Clone(rows), w.tells)
	if told := len(rows) - len(silent); told < min(len(rows), most) {
		w.fail("row %d (id %s) is refused, and that is not told", silent[0], w.draw.id(silent[0]))
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
	refused, counts := w.compare(w.rows, want)
	w.exits(status, refused)
	w.named(refused)
	sum := 0
	for _, name := range []string{"succeeded", "failed", "rejected", "skipped", "accepted", "conflicts", "refused", "interrupted", "unwritten"} {
		if n[name] != counts[name] {
			w.fail("%s is %d, not %d", name, n[name], counts[name])
		}
		sum += n[name]
	}
	if n["selected"] != sum {
		w.fail("selected is %d, and what became of them is %d", n["selected"], sum)
	}
	if n["expired"] != counts["expired"] {
		w.fail("expired is %d, not %d", n["expired"], counts["expired"])
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
			list[i].as = ""
			if list[i].calls > 0 {
				list[i].as = "conflicts"
			}
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
	refused, _ := w.compare(w.rows, func(row int, s hostileState) []hostileOutcome {
		r := &w.draw.Rows[row]
		if r.Sms || s.Status != "ERROR" && s.Status != "DEAD" {
			return []hostileOutcome{{state: s}}
		}
		selected++
		if w.draw.refuses(r, "NEW") {
			return []hostileOutcome{{state: s, as: "refused"}}
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
	refused, _ := w.compare(w.rows, func(row int, s hostileState) []hostileOutcome {
		waits, _ := w.pending(row, s)
		unreadable := w.draw.Rows[row].Foreign && !w.draw.Rows[row].Sms // it may be given up, too
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

// toldOnce fails if the last command, which was one process, has named a refused row twice,
// or has not named one that was handled in vain.
func (w *hostileWorld) toldOnce() {
	w.Helper()
	answers, _, _ := w.receiver.taken()
	var inVain []int
	for row := range w.rows {
		if slices.Contains(answers[row], "success") && w.draw.refuses(&w.draw.Rows[row], "SUCCESS") {
			inVain = append(inVain, row)
		}
		for _, what := range []string{"refuses the outcome", "refuses the dead status"} {
			if n := len(w.linesOf(row, what)); n > 1 {
				w.fail("row %d (id %s): the log says %d times that the database %s", row, w.draw.id(row), n, what)
			}
		}
	}
	w.named(inVain)
}

// succeededOnce fails if a row was handled again after a success that the table takes.
func (w *hostileWorld) succeededOnce() {
	w.Helper()
	answers, _, _ := w.receiver.taken()
	for row, list := range answers {
		i := slices.Index(list, "success")
		if i >= 0 && i < len(list)-1 && !w.draw.refuses(&w.draw.Rows[row], "SUCCESS") {
			w.fail("row %d (id %s) was handled again after its success: %v", row, w.draw.id(row), list)
		}
	}
}

// reachedAll fails unless each healthy row that waited was handled, and each that was to die
// is dead.
func (w *hostileWorld) reachedAll() {
	w.Helper()
	after := w.side.read()
	answers, _, _ := w.receiver.taken()
	for row, s := range w.rows {
		waits, exhausted := w.pending(row, s)
		dies := w.draw.Dead && (exhausted || waits && w.isOver(row))
		if dies && !w.draw.refuses(&w.draw.Rows[row], "DEAD") && after[row].Status != "DEAD" {
			w.fail("row %d (id %s), which is to die, is %+v", row, w.draw.id(row), after[row])
		}
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
		ended := w.isOver(row) || exhausted
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
			if deaths[row] == 0 && w.draw.OnDead {
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
