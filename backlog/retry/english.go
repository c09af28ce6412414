package retry

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"backlog/tiers"
)

// A sentence is one that [Refresh.Expr] may have.
type sentence struct {
	form    string // for people, in the list of forms; "": it belongs to the one above
	pattern string // what matches it whole, in any case
	says    string // what it settles, which is said once; "": nothing
	read    func(e *english, said []string) error
}

// sentences are tried in this order.
var sentences = []sentence{
	{"Refresh WHAT once|twice|3 times per day at 6 AM, 1 PM and 4 PM", `refresh .+? (\S+?)(?: times?)? per day at (.+)`, "when to start", (*english).daily},
	{"Refresh WHAT every 2 hours", `refresh .+ every (.+)`, "when to start", func(e *english, said []string) (err error) {
		e.Every, err = spoken("every " + said[0])
		return err
	}},
	{"Send a request to WHAT", `send a request to .+`, "when to start", func(e *english, _ []string) error {
		e.Schedule = "none"
		return nil
	}},
	{"Allow 1 hour [for a response|to complete]", `allow (.+?)(?: for a response| to complete)?`, "how long an attempt may take", func(e *english, said []string) (err error) {
		e.Timeout, err = spoken(said[0])
		return err
	}},
	{"On the first|second|… failure, retry immediately|after 5 minutes", `on the (\S+) failure, retry (?:after (.+)|immediately)`, "", (*english).retry},
	{`On the fourth failure, mark WHAT with "TEXT"`, `on the (\S+) failure, mark .+ with ["“]([^"”]+)["”]`, "what the last failure does", func(e *english, said []string) error {
		e.Reason = strings.TrimSuffix(said[1], ".")
		return e.last(said[0])
	}},
	{"On the seventh failure: + Reset attempt_no + Wait until [the] next scheduled refresh", `on the (\S+) failure`, "what the last failure does", func(e *english, said []string) error {
		e.AfterLast, e.rest = "wait", []string{resets, waits}
		return e.last(said[0])
	}},
	{"", resets, "", (*english).waiting},
	{"", waits, "", (*english).waiting},
	{"Panic | Give up after the final unsuccessful retry", `panic|give up after the final unsuccessful retry`, "that there is an end", func(e *english, _ []string) error {
		e.ends = true
		return nil
	}},
	{"Give up after 1 week of unsuccessful [refresh] attempts", `give up after (.+) of unsuccessful (?:refresh )?attempts`, "when to give up", func(e *english, said []string) (err error) {
		e.GiveUpAfter, err = spoken(said[0])
		return err
	}},
	{"Disable auto-refresh", `disable auto-refresh`, "", func(*english, []string) error { return nil }},
	{"Email the customer that … | Send the customer an email …", `(?:email the customer that|send the customer an email) .+`, "", func(e *english, _ []string) error {
		e.Emails = true
		return nil
	}},
}

// These two follow on the failure that has no retry of its own.
const (
	resets = `reset attempt_no`
	waits  = `wait until (?:the )?next scheduled refresh`
)

// patterns are compiled when they are needed: not at every start of the program.
var patterns = sync.OnceValue(func() (list []*regexp.Regexp) {
	for _, s := range sentences {
		list = append(list, regexp.MustCompile(`(?i)^(?:`+s.pattern+`)$`))
	}
	return list
})

// Around a sentence there may be marks of a list, and it may be a heading.
var (
	listMark = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:[-*•]|\d+[.)])\s+`) })
	clock    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)^(1[0-2]|[1-9])(?::([0-5]\d))? ?([ap])m$`) })
	commas   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i),? and |, ?`) })
)

// An english is what the sentences so far have said.
type english struct {
	*Refresh
	said  map[string]int // where something was said
	rest  []string       // of resets and waits: what must come next
	ended bool           // no retry can follow
	ends  bool           // there is a final failure
}

// parseEnglish returns the settings that the sentences say, one on a line, in the
// words of [sentences]. An error names the line.
func parseEnglish(text string) (*Refresh, error) {
	e := &english{Refresh: newRefresh(), said: make(map[string]int)}
	e.Intervals = nil
	last := 0
	for i, line := range strings.Split(text, "\n") {
		line = listMark().ReplaceAllString(strings.TrimSpace(line), "")
		line = strings.Join(strings.Fields(strings.ReplaceAll(line, "`", "")), " ")
		if line = strings.TrimRight(line, ".: "); line == "" || line[0] == '#' || strings.EqualFold(line, "Retry policy") {
			continue
		}
		last = i + 1
		if err := e.sentence(line, last); err != nil {
			return nil, fmt.Errorf("line %d: %w", last, err)
		}
	}
	if len(e.rest) > 0 {
		return nil, fmt.Errorf("line %d: %w", last, e.incomplete())
	}
	switch {
	case e.said["when to start"] == 0:
		return nil, errors.New("no line says when to start; add one such as: Refresh the model every 2 hours")
	case e.Timeout == 0:
		return nil, errors.New("no line says how long an attempt may take; add one such as: Allow 1 hour to complete")
	case len(e.Intervals) == 0:
		return nil, errors.New("no line says when to retry; add one such as: On the first failure, retry immediately")
	case e.ends && e.AfterLast == "wait":
		return nil, fmt.Errorf("line %d: there is no final retry, since the last failure waits until the next scheduled refresh; remove one of them", e.said["that there is an end"])
	}
	return e.Refresh, nil
}

// sentence takes one in.
func (e *english) sentence(text string, line int) error {
	for i, s := range sentences {
		said := patterns()[i].FindStringSubmatch(text)
		switch {
		case said == nil:
			continue
		case len(e.rest) > 0 && s.pattern != e.rest[0]:
			return e.incomplete()
		case s.says != "" && e.said[s.says] > 0:
			return fmt.Errorf("says again %s, as line %d does; remove one of them", s.says, e.said[s.says])
		case s.says != "":
			e.said[s.says] = line
		}
		return s.read(e, said[1:])
	}
	if len(e.rest) > 0 {
		return e.incomplete()
	}
	var forms []string
	for _, s := range sentences {
		if s.form != "" {
			forms = append(forms, s.form)
		}
	}
	return fmt.Errorf("%s is none of the sentences that are understood; they are: %s", strconv.Quote(shortened(text)), strings.Join(forms, " / "))
}

// shortened returns the beginning of a text.
func shortened(text string) string {
	if r := []rune(text); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return text
}

func (e *english) incomplete() error {
	return errors.New("a failure without a retry must be followed by two lines: Reset attempt_no, and: Wait until next scheduled refresh")
}

// waiting reads the two sentences of such a failure.
func (e *english) waiting([]string) error {
	if len(e.rest) == 0 {
		return errors.New("stands alone; these lines go together: On the seventh failure, Reset attempt_no, Wait until next scheduled refresh")
	}
	e.rest = e.rest[1:]
	return nil
}

// retry reads the interval after a failure.
func (e *english) retry(said []string) (err error) {
	if err = e.next(said[0]); err != nil {
		return err
	}
	wait := time.Duration(0)
	if said[1] != "" {
		wait, err = spoken(said[1])
	}
	e.Intervals = append(e.Intervals, wait)
	return err
}

// last reads the failure after the last interval.
func (e *english) last(ordinal string) error {
	if err := e.next(ordinal); err != nil {
		return err
	}
	e.ended = true
	return nil
}

// ordinals are the words for 1 to 20.
var ordinals = strings.Fields("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth")

// next returns an error unless the ordinal is the one of the next failure.
func (e *english) next(ordinal string) error {
	want := len(e.Intervals) + 1
	n := slices.Index(ordinals, strings.ToLower(ordinal)) + 1
	if digits := strings.TrimRight(strings.ToLower(ordinal), "dhnrst"); n == 0 && digits != "" {
		n, _ = strconv.Atoi(digits)
	}
	switch {
	case n == want && !e.ended:
		return nil
	case e.ended:
		return fmt.Errorf("is about the %s failure, but line %d was about the last; put that line behind all retries", ordinal, e.said["what the last failure does"])
	case want <= len(ordinals):
		return fmt.Errorf("is about the %s failure, but the next one to tell about is the %s; name the failures in their order", ordinal, ordinals[want-1])
	}
	return fmt.Errorf("is about the %s failure, but the next one to tell about is number %d; name the failures in their order", ordinal, want)
}

// numbers are the words for 0 to 12.
var numbers = strings.Fields("zero one two three four five six seven eight nine ten eleven twelve")

// spoken returns a duration whose number may be a word. Only a retry can be at once.
func spoken(text string) (time.Duration, error) {
	words := strings.Fields(strings.ToLower(text))
	for i, w := range words {
		if n := slices.Index(numbers, w); n >= 0 {
			words[i] = strconv.Itoa(n)
		}
	}
	d, err := tiers.ParseDuration(strings.Join(words, " "))
	switch {
	case err != nil:
		return 0, err
	case d <= 0:
		return 0, fmt.Errorf("%s is no time to wait; write one such as 5 minutes", strconv.Quote(text))
	}
	return d, nil
}

// daily reads times of day. A rule has all its minutes in all its hours.
func (e *english) daily(said []string) error {
	list := commas().Split(said[1], -1)
	times := make([]int, len(list)) // minutes since midnight
	for i, text := range list {
		m := clock().FindStringSubmatch(text)
		if m == nil {
			return fmt.Errorf("%s is no time of day; write 6 AM or 4:30 PM", strconv.Quote(shortened(text)))
		}
		hour, _ := strconv.Atoi(m[1])
		minute, _ := strconv.Atoi(m[2]) // "": 0
		if hour %= 12; strings.EqualFold(m[3], "p") {
			hour += 12
		}
		if times[i] = hour*60 + minute; slices.Contains(times[:i], times[i]) {
			return fmt.Errorf("names %s twice; remove one", text)
		}
	}
	word := strings.ToLower(said[0])
	n := slices.Index([]string{"", "once", "twice"}, word)
	if n < 0 {
		n = slices.Index(numbers, word)
	}
	if n < 0 {
		n, _ = strconv.Atoi(word)
	}
	if n != len(times) {
		return fmt.Errorf("says %s per day and names %d times of day; correct one of them", said[0], len(times))
	}
	var hours, minutes []int
	for _, t := range times {
		hours, minutes = append(hours, t/60), append(minutes, t%60)
	}
	slices.Sort(hours)
	slices.Sort(minutes)
	hours, minutes = slices.Compact(hours), slices.Compact(minutes)
	if len(hours)*len(minutes) > len(times) {
		return errors.New("names times that no rule has alone: each minute must be there in each hour, as in 6:30 AM and 4:30 PM")
	}
	e.RRule.Text = "FREQ=DAILY;BYHOUR=" + joined(hours) + ";BYMINUTE=" + joined(minutes) + ";BYSECOND=0"
	return nil
}

func joined(list []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ","), "[]")
}
