package recur_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"backlog/backlog/retry/recur"
)

// expand prints the occurrences of rules in two years, at most so many of each. Its
// calendar ends in 2040: dateutil looks until then for what never occurs again.
const expand = `
import datetime, itertools, json, sys
from dateutil.rrule import rrulestr
datetime.MAXYEAR = 2040
def times(text, start, most):
    rule = rrulestr(text.replace(" ", "\n"))
    start = datetime.datetime.fromtimestamp(start, datetime.timezone.utc)
    end = start + datetime.timedelta(days=730)
    it = itertools.takewhile(lambda t: t < end, itertools.dropwhile(lambda t: t < start, rule))
    return [int(t.timestamp()) for t in itertools.islice(it, most)]
print(json.dumps([times(*r) for r in json.load(sys.stdin)]))
`

var pythons = []string{"python3", "/usr/bin/python3"}

// mostTimes is how many occurrences of a rule are compared.
const mostTimes = 200

// dateutil returns the occurrences of each rule in the two years from an instant
// on, as dateutil finds them.
func dateutil(t *testing.T, rules []string, from []time.Time) (all [][]int64) {
	t.Helper()
	// A machine may have a Python beside the one that packages are installed for.
	i := slices.IndexFunc(pythons, func(path string) bool { return exec.Command(path, "-c", "import dateutil.rrule").Run() == nil })
	if i < 0 {
		t.Skip("no python3 has dateutil; install python3-dateutil")
	}
	var calls [][]any
	for n, r := range rules {
		calls = append(calls, []any{r, from[n].Unix(), mostTimes})
	}
	input, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(pythons[i], "-c", expand)
	c.Stdin, c.Stderr = strings.NewReader(string(input)), os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &all); err != nil || len(all) != len(rules) {
		t.Fatalf("%d of %d rules: %v", len(all), len(rules), err)
	}
	return all
}

// found returns the occurrences of the rule in the two years from an instant on.
func found(r *recur.Rule, from time.Time) (list []int64) {
	end := from.Add(730 * 24 * time.Hour)
	at, ok := r.First(from)
	for ok && at.Before(end) && len(list) < mostTimes {
		list = append(list, at.Unix())
		at, ok = r.Next(at)
	}
	return list
}

func read(list []int64) (text string) {
	for _, sec := range list[:min(len(list), 12)] {
		text += time.Unix(sec, 0).UTC().Format(" 2006-01-02T15:04:05")
	}
	return text
}

// What the HOURLY or MINUTELY rule says is compared with the DAILY rule that is
// proposed instead.
func TestDateutilAgrees(t *testing.T) {
	choose := chooser(rand.New(rand.NewPCG(5545, 1)).IntN)
	var rules []string
	var from []time.Time
	var ours [][]int64
	proposed := 0
	for len(rules) < 5000 {
		start := time.Unix(1577836800+int64(choose(8*365*86400)), 0).UTC()
		text := "DTSTART:" + start.Format("20060102T150405Z") + " RRULE:"
		parse := text
		if choose(10) == 0 {
			by := fmt.Sprintf("FREQ=%s;INTERVAL=%d;BYHOUR=%s;BYMINUTE=%s", []string{"HOURLY", "MINUTELY"}[choose(2)], 1+choose(6),
				choose.numbers(8, 0, 23, false), choose.numbers(20, 0, 59, false))
			_, err := recur.Parse(text+by, nil)
			if err == nil {
				t.Fatalf("%s is read", by)
			}
			_, daily, ok := strings.Cut(err.Error(), "this says the same: ")
			if !ok {
				continue
			}
			text, parse = text+by, parse+daily
			proposed++
		} else {
			text += choose.rule(start)
			parse = text
		}
		r, err := recur.Parse(parse, nil)
		if err != nil {
			if !strings.Contains(err.Error(), "has no occurrence") {
				t.Fatalf("%s: %v", parse, err)
			}
			continue
		}
		at := start
		if text == parse {
			at = start.AddDate(0, choose(36)-6, 0)
		}
		rules, from, ours = append(rules, text), append(from, at), append(ours, found(r, at))
	}
	if proposed < 100 {
		t.Errorf("only %d DAILY rules were proposed", proposed)
	}
	for i, theirs := range dateutil(t, rules, from) {
		if !slices.Equal(theirs, ours[i]) {
			t.Errorf("%s from %v\ngot %s\nwant%s", rules[i], from[i], read(ours[i]), read(theirs))
		}
	}
}

// Where Parse and dateutil differ, RFC 5545, 3.3.10, has the last word.
func TestDateutilDiffers(t *testing.T) {
	tests := []struct {
		rule, ours, theirs string // what is found from DTSTART on; ours is none if the rule is refused
		rfc                string
	}{
		{"DTSTART:20260107T060000Z RRULE:FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=1;COUNT=2",
			" 2026-01-12T06:00:00 2026-01-19T06:00:00", " 2026-01-07T06:00:00 2026-01-12T06:00:00",
			"A set of recurrence instances starts at the beginning of the interval defined by the FREQ rule part"},
		{"DTSTART:20260101T060000Z RRULE:FREQ=MONTHLY;BYDAY=MO,1TU;COUNT=2", "", "",
			"If an integer modifier is not present, it means all days of this type within the specified frequency"},
	}
	var rules []string
	var from []time.Time
	for _, tt := range tests {
		start, err := time.Parse("20060102T150405Z", tt.rule[len("DTSTART:"):strings.Index(tt.rule, " ")])
		if err != nil {
			t.Fatal(err)
		}
		rules, from = append(rules, tt.rule), append(from, start)
	}
	theirs := dateutil(t, rules, from)
	for i, tt := range tests {
		ours := ""
		if r, err := recur.Parse(tt.rule, nil); err == nil {
			ours = read(found(r, from[i]))
		}
		if ours != tt.ours || read(theirs[i]) != tt.theirs {
			t.Errorf("%s\ngot%s, want%s\ndateutil%s, want%s\nRFC 5545: %s", tt.rule, ours, tt.ours, read(theirs[i]), tt.theirs, tt.rfc)
		}
	}
}
