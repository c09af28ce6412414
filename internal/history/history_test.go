package history

import (
	"slices"
	"strings"
	"testing"
	"time"

	"backlog/internal/testkit"
)

// at returns an instant of the tests' day, so many milliseconds after its beginning.
func at(ms int) time.Time {
	return time.Unix(1_800_000_000, 0).Add(time.Duration(ms) * time.Millisecond)
}

var testRules = Rules{
	Pending: []string{"NEW", "ERROR"}, Due: []string{"NEW"}, Failed: "ERROR", Success: "SUCCESS", Dead: "DEAD",
	Repeats: 1, Slack: 2 * time.Millisecond, Margin: time.Second,
}

// The programs and handlers of the tests.
const (
	first  = 100
	second = 200
)

// call returns a call that has ended, of row 7.
func call(attempt string, program, began, ended int, outcome string) Call {
	return Call{Key: "7", Attempt: attempt, Tier: "narrow", PID: program + 1, Program: program, Began: at(began), Seen: at(began), Ended: at(ended), Outcome: outcome}
}

// lost returns a call that was killed after its last sign of life.
func lost(attempt string, program, began, seen int) Call {
	c := call(attempt, program, began, seen, "")
	c.Seen = at(seen)
	c.Ended = time.Time{}
	return c
}

// dying returns a call of on_dead.
func dying(attempt string, program, began int) Call {
	c := call(attempt, program, began, began+1, "success")
	c.OnDead = true
	return c
}

func change(from, to string, ms int) Change { return Change{"7", from, to, at(ms)} }

func strike(what string, pid, from, until int) Strike { return Strike{what, pid, at(from), at(until)} }

var inserted = change("", "NEW", 0)

func TestCheck(t *testing.T) {
	tick := Tick{"narrow", at(100), time.Hour, at(900)}
	for _, c := range []struct {
		name string
		h    History
		want []string // the rules that are broken
	}{
		{"nothing", History{}, nil},
		{"a success", History{Calls: []Call{call("a", first, 10, 20, "success")}, Changes: []Change{inserted, change("NEW", "SUCCESS", 25)}}, nil},
		{"a time in the row that is cut off", History{Calls: []Call{call("a", first, 10, 20, "success")}, Changes: []Change{inserted, change("NEW", "SUCCESS", 19)}}, nil},

		{"one after the other", History{Calls: []Call{call("a", first, 10, 20, "error"), call("b", second, 20, 30, "error")}}, nil},
		{"two at a time", History{Calls: []Call{call("a", first, 10, 20, "error"), call("b", second, 19, 30, "error")}}, []string{Overlap}},
		{"one within another", History{Calls: []Call{call("a", first, 10, 90, "error"), call("b", second, 20, 30, "error"), call("c", second, 40, 50, "error")}}, []string{Overlap, Overlap}},
		{"after a killed one", History{Calls: []Call{lost("a", first, 10, 15), call("b", second, 16, 30, "error")}}, nil},
		{"beside a killed one that still lived", History{Calls: []Call{lost("a", first, 10, 60), call("b", second, 16, 30, "error")}}, []string{Overlap}},
		{"on_dead beside the handler", History{Calls: []Call{call("a", first, 10, 20, "reject"), dying("b", first, 15)}}, nil},

		{"no handler's success", History{Calls: []Call{call("a", first, 10, 20, "error")}, Changes: []Change{inserted, change("NEW", "SUCCESS", 25)}}, []string{Unearned}},
		{"a success before the handler's", History{Calls: []Call{call("a", first, 10, 40, "success")}, Changes: []Change{inserted, change("NEW", "SUCCESS", 25)}}, []string{Unearned}},
		{"two successes by one of the handler's", History{Calls: []Call{call("a", first, 10, 20, "success")}, Changes: []Change{inserted, change("NEW", "SUCCESS", 25), change("SUCCESS", "NEW", 30), change("NEW", "SUCCESS", 35)}}, []string{Unearned}},

		{"a failure", History{Calls: []Call{call("a", first, 10, 20, "error")}, Changes: []Change{inserted, change("NEW", "ERROR", 25)}}, nil},
		{"a failure of a killed handler", History{Calls: []Call{lost("a", first, 10, 20)}, Strikes: []Strike{strike(KillHandler, 101, 20, 21)}, Changes: []Change{inserted, change("NEW", "ERROR", 25)}}, nil},
		{"a failure of no handler", History{Calls: []Call{lost("a", first, 10, 20)}, Strikes: []Strike{strike("kill", first, 20, 21)}, Changes: []Change{inserted, change("NEW", "ERROR", 25)}}, []string{Unfailed}},
		{"a failure for the second time of one of the handler's", History{Calls: []Call{call("a", first, 10, 20, "error")}, Changes: []Change{inserted, change("NEW", "ERROR", 25), change("ERROR", "NEW", 30), change("NEW", "ERROR", 35)}}, []string{Unfailed}},

		{"a death", History{Calls: []Call{call("a", first, 10, 20, "reject"), dying("b", first, 21)}, Changes: []Change{inserted, change("NEW", "DEAD", 25)}}, nil},
		{"a death of which nobody is told", History{Calls: []Call{call("a", first, 10, 20, "reject")}, Changes: []Change{inserted, change("NEW", "DEAD", 25)}}, []string{Unnoticed}},
		{"a death that is told too late", History{Calls: []Call{call("a", first, 10, 20, "reject"), dying("b", first, 30)}, Changes: []Change{inserted, change("NEW", "DEAD", 25)}}, []string{Unnoticed}},
		{"a death that is told twice", History{Calls: []Call{call("a", first, 10, 20, "reject"), dying("b", first, 21), dying("c", first, 23)}, Changes: []Change{inserted, change("NEW", "DEAD", 25)}}, []string{Repeat}},
		{"a death that is told again after a kill", History{Calls: []Call{call("a", first, 10, 20, "reject"), dying("b", first, 21), dying("c", second, 30)}, Strikes: []Strike{strike("kill", first, 23, 24)}, Changes: []Change{inserted, change("NEW", "DEAD", 35)}}, nil},

		{"another program's change", History{Calls: []Call{call("a", first, 10, 20, "success")}, Changes: []Change{inserted, change("NEW", "HELD", 15)}}, nil},
		{"another program's change is lost", History{Calls: []Call{call("a", first, 10, 20, "success")}, Changes: []Change{inserted, change("NEW", "HELD", 15), change("HELD", "SUCCESS", 25)}}, []string{Overwrite}},
		{"an outcome over another", History{Calls: []Call{call("a", first, 10, 20, "success"), call("b", second, 30, 40, "error")}, Changes: []Change{inserted, change("NEW", "SUCCESS", 25), change("SUCCESS", "ERROR", 45)}}, []string{Overwrite}},

		{"a repeat after a kill", History{Calls: []Call{call("a", first, 10, 20, "success"), call("b", second, 40, 50, "success")}, Strikes: []Strike{strike("kill", first, 25, 26)}}, nil},
		{"a repeat after the kill of the handler", History{Calls: []Call{call("a", first, 10, 20, "success"), call("b", first, 40, 50, "success")}, Strikes: []Strike{strike(KillHandler, 101, 19, 21)}}, nil},
		{"a repeat without a kill", History{Calls: []Call{call("a", first, 10, 20, "success"), call("b", second, 40, 50, "success")}}, []string{Repeat}},
		{"a repeat after a clean stop", History{Calls: []Call{call("a", first, 10, 20, "success"), call("b", second, 40, 50, "success")}, Strikes: []Strike{strike(Term, first, 25, 30)}}, []string{Repeat}},
		{"a repeat after the kill of another", History{Calls: []Call{call("a", first, 10, 20, "success"), call("b", second, 40, 50, "success")}, Strikes: []Strike{strike("kill", second, 25, 26)}}, []string{Repeat}},
		{"a repeat before the kill", History{Calls: []Call{call("a", first, 10, 20, "success"), call("b", first, 40, 50, "success")}, Strikes: []Strike{strike("kill", first, 45, 46)}}, []string{Repeat}},
		{"a kill excuses one repeat", History{
			Calls:   []Call{call("a", first, 10, 20, "success"), call("b", second, 40, 50, "success"), call("c", second, 60, 70, "success")},
			Strikes: []Strike{strike("kill", first, 25, 26)},
		}, []string{Repeat}},
		{"a row that was put back", History{
			Calls:   []Call{call("a", first, 10, 20, "success"), call("b", first, 40, 50, "success")},
			Changes: []Change{inserted, change("NEW", "SUCCESS", 25), change("SUCCESS", "NEW", 30), change("NEW", "SUCCESS", 55)},
		}, nil},
		{"a kill that costs too much", History{
			Calls: []Call{
				call("a", first, 10, 20, "success"), call("b", second, 40, 50, "success"),
				{Key: "8", Attempt: "c", PID: 102, Program: first, Began: at(10), Ended: at(20), Outcome: "success"},
				{Key: "8", Attempt: "d", PID: 202, Program: second, Began: at(40), Ended: at(50), Outcome: "success"},
			},
			Strikes: []Strike{strike("kill", first, 25, 26)},
		}, []string{TooMany}},

		{"a quiet pass", History{Calls: []Call{call("a", first, 60, 70, "error")}, Final: map[string]string{"7": "ERROR", "8": "SUCCESS"}, Quiet: Span{at(50), at(100)}}, nil},
		{"a quiet pass without a pending row", History{Calls: []Call{call("a", first, 10, 20, "error")}, Final: map[string]string{"7": "ERROR"}, Quiet: Span{at(50), at(100)}}, []string{Untried}},

		{"a tick", History{Ticks: []Tick{tick}, Inserted: map[string]time.Time{"7": at(-60_000)}, Calls: []Call{call("a", first, 110, 120, "success")}, Changes: []Change{inserted}}, nil},
		{"a tick that is lost", History{Ticks: []Tick{tick}, Inserted: map[string]time.Time{"7": at(-60_000)}, Calls: []Call{call("a", first, 50, 60, "success")}, Changes: []Change{inserted}}, []string{Missed}},
		{"a tick that is made up for too late", History{Ticks: []Tick{tick}, Inserted: map[string]time.Time{"7": at(-60_000)}, Calls: []Call{call("a", first, 950, 960, "success")}, Changes: []Change{inserted}}, []string{Missed}},
		{"a tick before the row was there", History{Ticks: []Tick{tick}, Inserted: map[string]time.Time{"7": at(-60_000)}, Changes: []Change{change("", "NEW", 200)}}, nil},
		{"a tick of younger rows", History{Ticks: []Tick{tick}, Inserted: map[string]time.Time{"7": at(-7_200_000)}, Changes: []Change{inserted}}, nil},
		{"a tick whose row another program takes", History{Ticks: []Tick{tick}, Inserted: map[string]time.Time{"7": at(-60_000)}, Changes: []Change{inserted, change("NEW", "HELD", 150)}}, nil},
		{"a tick that finds a row which its policy lets wait", History{Ticks: []Tick{tick}, Inserted: map[string]time.Time{"7": at(-60_000)}, Calls: []Call{call("a", first, 10, 20, "error")}, Changes: []Change{inserted, change("NEW", "ERROR", 25)}}, nil},
		{"a call by a tier of younger rows", History{Ticks: []Tick{tick}, Inserted: map[string]time.Time{"7": at(-7_200_000)}, Calls: []Call{call("a", first, 110, 120, "success")}, Changes: []Change{inserted}}, []string{Misplaced}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, v := range Check(&c.h, testRules) {
				t.Log(v)
				got = append(got, v.Rule)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Without a policy each tick tries what has failed.
func TestTicksOfFailedRows(t *testing.T) {
	rules := testRules
	rules.Due = rules.Pending
	h := History{
		Ticks:    []Tick{{"narrow", at(100), time.Hour, at(900)}},
		Inserted: map[string]time.Time{"7": at(-60_000)},
		Calls:    []Call{call("a", first, 10, 20, "error")},
		Changes:  []Change{inserted, change("NEW", "ERROR", 25)},
	}
	found := Check(&h, rules)
	if len(found) != 1 || found[0].Rule != Missed {
		t.Errorf("a failed row that the tick left untried: got %v", found)
	}
	h.Calls = append(h.Calls, call("b", first, 110, 120, "error"))
	testkit.Equal(t, "violations when it was tried", len(Check(&h, rules)), 0)
}

// Every rule is broken by a case above, or by torn notes.
func TestViolationsAreNamed(t *testing.T) {
	testkit.Equal(t, "with a row", Violation{Overlap, "7", "text"}.String(), "one attempt at a time: row 7: text")
	testkit.Equal(t, "without one", Violation{TooMany, "", "text"}.String(), "few repeats for each kill: text")
}

func TestReadNotes(t *testing.T) {
	calls, torn := ReadNotes(strings.Join([]string{
		"began 1000 a 7 101 100 narrow",
		"began 2000 b 8 102 100 wide",
		"seen 3000 b",
		"ended 4000 a success",
		"dead 5000 c 7 103 100 narrow",
		"",
	}, "\n"))
	testkit.Equal(t, "torn", len(torn), 0)
	testkit.Equal(t, "calls", calls, []Call{
		{Key: "7", Attempt: "a", Tier: "narrow", PID: 101, Program: 100, Began: time.Unix(0, 1000), Seen: time.Unix(0, 1000), Ended: time.Unix(0, 4000), Outcome: "success"},
		{Key: "8", Attempt: "b", Tier: "wide", PID: 102, Program: 100, Began: time.Unix(0, 2000), Seen: time.Unix(0, 3000)},
		{Key: "7", Attempt: "c", Tier: "narrow", OnDead: true, PID: 103, Program: 100, Began: time.Unix(0, 5000), Seen: time.Unix(0, 5000)},
	})
	for _, text := range []string{
		"began 1000\n",
		"began 1000 a 7 101 100 narrow", // without its end
		"began soon a 7 101 100 narrow\n",
		"began 1000 a 7 none 100 narrow\n",
		"began 1000 a 7 101 100 narrow\nbegan 1000 a 7 101 100 narrow\n",
		"ended 1000 a success\n",
		"began 1000 a 7 101 100 narrow\nended 1000 a\n",
	} {
		if _, torn := ReadNotes(text); len(torn) != 1 || torn[0].Rule != Torn {
			t.Errorf("%q: got %v", text, torn)
		}
	}
}
