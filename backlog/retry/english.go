package retry

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"backlog/backlog/pattern"
	"backlog/tiers"
)

// A sentence is one that [Refresh.Expr] may have.
type sentence struct {
	form    string                          // for people, in the list of forms
	pattern func() *regexp.Regexp           // what matches it
	says    string                          // what it settles, which is said once; "": nothing
	read    func(e *english, said []string) // nil: that it is said is all
}

// What sentences settle.
const (
	start  = "when to start"
	limit  = "how long an attempt may take"
	lastly = "what the last failure does"
	end    = "that there is an end"
	giveUp = "when to give up"
)

// sentences are tried in this order.
var sentences = []sentence{
	{"Refresh WHAT once|twice|3 times per day at 6 AM, 1 PM and 4 PM", whole(`refresh .+? (\S+?)(?: times?)? per day at (.+)`), start,
		(*english).daily},
	{"Refresh WHAT every 2 hours", whole(`refresh .+ (every .+)`), start,
		func(e *english, said []string) { e.Every = e.duration(said[0]) }},
	{"Send a request to WHAT", whole(`send a request to .+`), start,
		func(e *english, _ []string) { e.Schedule = "none" }},
	{"Allow 1 hour [for a response|to complete]", whole(`allow (.+?)(?: for a response| to complete)?`), limit,
		func(e *english, said []string) { e.Timeout = e.duration(said[0]) }},
	{"On the first|second|… failure, retry immediately|after 5 minutes", whole(`on the (\S+) failure, retry (?:after (.+)|immediately)`), "",
		(*english).retry},
	{`On the fourth failure, mark WHAT with "TEXT"`, whole(`on the (\S+) failure, mark .+ with ["“]([^"”]+)["”]`), lastly,
		func(e *english, said []string) { e.next(said[0]); e.Reason = strings.TrimSuffix(said[1], ".") }},
	{"On the seventh failure: + Reset attempt_no + Wait until [the] next scheduled refresh",
		whole(`on the (\S+) failure\nreset attempt_no\nwait until (?:the )?next scheduled refresh`), lastly,
		func(e *english, said []string) { e.next(said[0]); e.AfterLast = "wait" }},
	{"Panic | Give up after the final unsuccessful retry", whole(`panic|give up after the final unsuccessful retry`), end,
		nil},
	{"Give up after 1 week of unsuccessful [refresh] attempts", whole(`give up after (.+) of unsuccessful (?:refresh )?attempts`), giveUp,
		func(e *english, said []string) { e.GiveUpAfter = e.duration(said[0]) }},
	{"Disable auto-refresh", whole(`disable auto-refresh`), "",
		nil},
	{"Email the customer that … | Send the customer an email …", whole(`(?:email the customer that|send the customer an email) .+`), "",
		func(e *english, _ []string) { e.Emails = true }},
}

// whole matches a sentence from end to end, in any case.
func whole(expression string) func() *regexp.Regexp {
	return pattern.Lazily(`(?i)^(?:` + expression + `)$`)
}

// An english is what the sentences so far have said. Readers go on after an error,
// and the first one counts.
type english struct {
	*Refresh
	said map[string]int // where something was said
	err  error          // the first
}

func (e *english) fail(format string, args ...any) {
	e.err = cmp.Or(e.err, fmt.Errorf(format, args...))
}

// parseEnglish returns the settings that the sentences say, one on a line, in the
// words of [sentences]. An error names the line.
func parseEnglish(text string) (*Refresh, error) {
	e := &english{Refresh: newRefresh(), said: make(map[string]int)}
	e.Intervals = nil
	for i, line := range sentenceLines(text) {
		if line != "" {
			e.sentence(line, i+1)
		}
		if e.err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, e.err)
		}
	}
	switch {
	case e.said[start] == 0:
		return nil, errors.New("no line says when to start; add one such as: Refresh the model every 2 hours")
	case e.said[limit] == 0:
		return nil, errors.New("no line says how long an attempt may take; add one such as: Allow 1 hour to complete")
	case len(e.Intervals) == 0:
		return nil, errors.New("no line says when to retry; add one such as: On the first failure, retry immediately")
	case e.said[end] > 0 && e.AfterLast == "wait":
		return nil, fmt.Errorf("line %d: there is no final retry, since the last failure waits until the next scheduled refresh; remove one of them", e.said[end])
	}
	return e.Refresh, nil
}

// sentenceLines returns the lines without marks of lists, and "" for headings. What
// the last failure does is joined to its line by "\n", which no other pattern takes,
// so that these sentences can neither stand alone nor be left out.
func sentenceLines(text string) []string {
	lines := strings.Split(text, "\n")
	var last int
	for i, line := range lines {
		line = strings.TrimLeft(strings.ReplaceAll(line, "`", ""), "-*•0123456789.) \t")
		line = strings.Join(strings.Fields(strings.TrimRight(line, ".: \t\r")), " ")
		lines[i] = ""
		switch lower := strings.ToLower(line); {
		case line == "" || line[0] == '#' || lower == "retry policy":
		case strings.HasPrefix(lower, "reset ") || strings.HasPrefix(lower, "wait "):
			lines[last] += "\n" + line
		default:
			lines[i], last = line, i
		}
	}
	return lines
}

// sentence takes one in.
func (e *english) sentence(text string, line int) {
	var forms []string
	for _, s := range sentences {
		forms = append(forms, s.form)
		said := s.pattern().FindStringSubmatch(text)
		if said == nil {
			continue
		}
		if s.says != "" && e.said[s.says] > 0 {
			e.fail("says again %s, as line %d does; remove one of them", s.says, e.said[s.says])
		}
		if s.read != nil {
			s.read(e, said[1:])
		}
		e.said[s.says] = line
		return
	}
	e.fail("%.60q is none of the sentences that are understood; they are: %s", text, strings.Join(forms, " / "))
}

// retry reads the interval after a failure.
func (e *english) retry(said []string) {
	e.next(said[0])
	var wait time.Duration
	if said[1] != "" {
		wait = e.duration(said[1])
	}
	e.Intervals = append(e.Intervals, wait)
}

// ordinals are the words for 1 to 20.
var ordinals = strings.Fields("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth")

// next fails unless the ordinal is the one of the next failure.
func (e *english) next(ordinal string) {
	n, word := len(e.Intervals)+1, strings.ToLower(ordinal)
	switch {
	case e.said[lastly] > 0:
		e.fail("is about the %s failure, but line %d was about the last; put that line behind all retries", ordinal, e.said[lastly])
	case slices.Index(ordinals, word) != n-1 && strings.TrimRight(word, "dhnrst") != strconv.Itoa(n):
		e.fail("is about the %s failure, but the next one to tell about is number %d; name the failures in their order", ordinal, n)
	}
}

// digits returns the text in lower case, its numbers up to 12 in digits.
func digits(text string) string {
	numbers := strings.Fields("zero one two three four five six seven eight nine ten eleven twelve")
	words := strings.Fields(strings.ToLower(text))
	for i, w := range words {
		if n := slices.Index(numbers, w); n >= 0 {
			words[i] = strconv.Itoa(n)
		}
	}
	return strings.Join(words, " ")
}

// duration returns what a text says. Only a retry can be at once.
func (e *english) duration(text string) time.Duration {
	d, err := tiers.ParseDuration(digits(text))
	switch {
	case err != nil:
		e.fail("%w", err)
	case d <= 0:
		e.fail("%q is no time to wait; write one such as 5 minutes", text)
	}
	return d
}

// distinct returns each of the numbers once, in ascending order.
func distinct(list []int) []int {
	slices.Sort(list)
	return slices.Compact(list)
}

// daily reads times of day. A rule has all its minutes in all its hours.
func (e *english) daily(said []string) {
	var times []time.Time
	var hours, minutes []int
	for _, text := range regexp.MustCompile(`(?i),? and |, ?`).Split(said[1], -1) {
		short := strings.ToUpper(strings.ReplaceAll(text, " ", ""))
		at, err := time.Parse("3PM", short)
		if err != nil {
			at, err = time.Parse("3:04PM", short)
		}
		switch {
		case err != nil:
			e.fail("%.60q is no time of day; write 6 AM or 4:30 PM", text)
		case slices.Contains(times, at):
			e.fail("names %s twice; remove one", text)
		}
		times, hours, minutes = append(times, at), append(hours, at.Hour()), append(minutes, at.Minute())
	}
	count := strings.NewReplacer("once", "one", "twice", "two").Replace(strings.ToLower(said[0]))
	if digits(count) != strconv.Itoa(len(times)) {
		e.fail("says %s per day and names %d times of day; correct one of them", said[0], len(times))
	}
	hours = distinct(hours)
	minutes = distinct(minutes)
	if len(hours)*len(minutes) > len(times) {
		e.fail("names times that no rule has alone: each minute must be there in each hour, as in 6:30 AM and 4:30 PM")
	}
	// %d writes a list as [6 16].
	rule := fmt.Sprintf("FREQ=DAILY;BYHOUR=%d;BYMINUTE=%d;BYSECOND=0", hours, minutes)
	e.RRule.Text = strings.NewReplacer("[", "", "]", "", " ", ",").Replace(rule)
}
