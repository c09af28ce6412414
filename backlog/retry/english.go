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

// A sentence is a form of sentence that [Refresh.Expr] may contain.
type sentence struct {
	form    string                         // for people, in the list of forms
	pattern func() *regexp.Regexp          // its groups are the values
	topic   string                         // what it settles, at most one sentence per topic; "": any number
	apply   func(p *parser, vals []string) // nil: that the sentence is there is all
}

// The topics, as errors name them.
const (
	topicStart       = "when to start"
	topicTimeout     = "how long an attempt may take"
	topicLastFailure = "what the last failure does"
	topicEnd         = "that there is an end"
	topicGiveUp      = "when to give up"
)

// sentences are tried in this order.
var sentences = []sentence{
	{"Refresh WHAT once|twice|3 times per day at 6 AM, 1 PM and 4 PM",
		whole(`refresh .+? (\S+?)(?: times?)? per day at (.+)`), topicStart,
		(*parser).daily},
	{"Refresh WHAT every 2 hours",
		whole(`refresh .+ (every .+)`), topicStart,
		func(p *parser, vals []string) { p.Every = p.duration(vals[0]) }},
	{"Send a request to WHAT",
		whole(`send a request to .+`), topicStart,
		func(p *parser, _ []string) { p.Schedule = "none" }},
	{"Allow 1 hour [for a response|to complete]",
		whole(`allow (.+?)(?: for a response| to complete)?`), topicTimeout,
		func(p *parser, vals []string) { p.Timeout = p.duration(vals[0]) }},
	{"On the first|second|… failure, retry immediately|after 5 minutes",
		whole(`on the (\S+) failure, retry (?:after (.+)|immediately)`), "",
		(*parser).retry},
	{`On the fourth failure, mark WHAT with "TEXT"`,
		whole(`on the (\S+) failure, mark .+ with ["“]([^"”]+)["”]`), topicLastFailure,
		(*parser).markAfterLast},
	{"On the seventh failure: + Reset attempt_no + Wait until [the] next scheduled refresh",
		whole(`on the (\S+) failure\nreset attempt_no\nwait until (?:the )?next scheduled refresh`), topicLastFailure,
		(*parser).waitAfterLast},
	{"Panic | Give up after the final unsuccessful retry",
		whole(`panic|give up after the final unsuccessful retry`), topicEnd,
		nil},
	{"Give up after 1 week of unsuccessful [refresh] attempts",
		whole(`give up after (.+) of unsuccessful (?:refresh )?attempts`), topicGiveUp,
		func(p *parser, vals []string) { p.GiveUpAfter = p.duration(vals[0]) }},
	{"Disable auto-refresh",
		whole(`disable auto-refresh`), "",
		nil},
	{"Email the customer that … | Send the customer an email …",
		whole(`(?:email the customer that|send the customer an email) .+`), "",
		func(p *parser, _ []string) { p.EmailsCustomer = true }},
}

// whole returns a pattern that matches a sentence from end to end, in upper or lower case.
func whole(expression string) func() *regexp.Regexp {
	return pattern.Lazily(`(?i)^(?:` + expression + `)$`)
}

// A parser has the settings of the sentences so far. It goes on after an error; the first one
// counts.
type parser struct {
	*Refresh
	lines map[string]int // by topic, the number of the line that settles it
	err   error          // the first
}

func (p *parser) fail(format string, args ...any) {
	p.err = cmp.Or(p.err, fmt.Errorf(format, args...))
}

// parseEnglish returns the settings that a text describes by [sentences], one on a line. An error
// names the line.
func parseEnglish(text string) (*Refresh, error) {
	p := &parser{Refresh: newRefresh(), lines: make(map[string]int)}
	p.Intervals = nil
	for i, line := range sentenceLines(text) {
		if line != "" {
			p.sentence(line, i+1)
		}
		if p.err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, p.err)
		}
	}
	switch {
	case p.lines[topicStart] == 0:
		return nil, errors.New("no line says when to start; add one such as: Refresh the model every 2 hours")
	case p.lines[topicTimeout] == 0:
		return nil, errors.New("no line says how long an attempt may take; add one such as: Allow 1 hour to complete")
	case len(p.Intervals) == 0:
		return nil, errors.New("no line says when to retry; add one such as: On the first failure, retry immediately")
	case p.lines[topicEnd] > 0 && p.AfterLast == "wait":
		return nil, fmt.Errorf("line %d: there is no final retry, since the last failure waits until the next scheduled refresh; remove one of them", p.lines[topicEnd])
	}
	return p.Refresh, nil
}

// sentenceLines returns the lines of a text without list marks and final punctuation. A heading is
// "". The lines "reset …" and "wait …" are joined by "\n" to the line of the failure they belong
// to. Only one pattern has a "\n", so these lines can neither stand alone nor be left out.
func sentenceLines(text string) []string {
	lines := strings.Split(text, "\n")
	last := 0 // index of the last sentence
	for i, line := range lines {
		line = strings.TrimLeft(strings.ReplaceAll(line, "`", ""), "-*•0123456789.) \t")
		line = strings.Join(strings.Fields(strings.TrimRight(line, ".: \t\r")), " ")
		lines[i] = ""
		switch lower := strings.ToLower(line); {
		case line == "" || line[0] == '#' || lower == "retry policy":
		case strings.HasPrefix(lower, "reset ") || strings.HasPrefix(lower, "wait "):
			lines[last] += "\n" + line
		default:
			lines[i] = line
			last = i
		}
	}
	return lines
}

// sentence applies one sentence, which is on the line of that number.
func (p *parser) sentence(text string, line int) {
	var forms []string
	for _, s := range sentences {
		forms = append(forms, s.form)
		groups := s.pattern().FindStringSubmatch(text)
		if groups == nil {
			continue
		}
		if s.topic != "" && p.lines[s.topic] > 0 {
			p.fail("says again %s, as line %d does; remove one of them", s.topic, p.lines[s.topic])
		}
		if s.apply != nil {
			s.apply(p, groups[1:])
		}
		p.lines[s.topic] = line
		return
	}
	p.fail("%.60q is none of the sentences that are understood; they are: %s", text, strings.Join(forms, " / "))
}

// retry reads an ordinal and an interval: the wait after that failure, "" for none.
func (p *parser) retry(vals []string) {
	p.expectFailure(vals[0])
	var wait time.Duration
	if vals[1] != "" {
		wait = p.duration(vals[1])
	}
	p.Intervals = append(p.Intervals, wait)
}

// markAfterLast reads an ordinal and the text for a row that is disabled after that failure.
func (p *parser) markAfterLast(vals []string) {
	p.expectFailure(vals[0])
	p.Reason = strings.TrimSuffix(vals[1], ".")
}

// waitAfterLast reads the ordinal of the failure after which the next occurrence is waited for.
func (p *parser) waitAfterLast(vals []string) {
	p.expectFailure(vals[0])
	p.AfterLast = "wait"
}

// ordinals are the words for 1 to 20.
var ordinals = strings.Fields("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth")

// expectFailure fails unless the ordinal names the failure after the last one read.
func (p *parser) expectFailure(ordinal string) {
	n := len(p.Intervals) + 1
	word := strings.ToLower(ordinal)
	isWord := slices.Index(ordinals, word) == n-1
	isNumber := strings.TrimRight(word, "dhnrst") == strconv.Itoa(n) // 1st 2nd 3rd 4th
	switch {
	case p.lines[topicLastFailure] > 0:
		p.fail("is about the %s failure, but line %d was about the last; put that line behind all retries", ordinal, p.lines[topicLastFailure])
	case !isWord && !isNumber:
		p.fail("is about the %s failure, but the next one to tell about is number %d; name the failures in their order", ordinal, n)
	}
}

// numbersToDigits returns the text in lower case, with the words zero to twelve in digits.
func numbersToDigits(text string) string {
	numbers := strings.Fields("zero one two three four five six seven eight nine ten eleven twelve")
	words := strings.Fields(strings.ToLower(text))
	for i, w := range words {
		if n := slices.Index(numbers, w); n >= 0 {
			words[i] = strconv.Itoa(n)
		}
	}
	return strings.Join(words, " ")
}

// duration reads a duration. It fails unless that is more than 0.
func (p *parser) duration(text string) time.Duration {
	d, err := tiers.ParseDuration(numbersToDigits(text))
	switch {
	case err != nil:
		p.fail("%w", err)
	case d <= 0:
		p.fail("%q is no time to wait; write one such as 5 minutes", text)
	}
	return d
}

// distinct returns each of the numbers once, in ascending order.
func distinct(list []int) []int {
	slices.Sort(list)
	return slices.Compact(list)
}

// daily reads a count and so many times of day, and makes a rule of them. A rule has all its
// minutes in all its hours.
func (p *parser) daily(vals []string) {
	var times []time.Time
	var hours, minutes []int
	for _, text := range regexp.MustCompile(`(?i),? and |, ?`).Split(vals[1], -1) {
		short := strings.ToUpper(strings.ReplaceAll(text, " ", ""))
		at, err := time.Parse("3PM", short)
		if err != nil {
			at, err = time.Parse("3:04PM", short)
		}
		switch {
		case err != nil:
			p.fail("%.60q is no time of day; write 6 AM or 4:30 PM", text)
		case slices.Contains(times, at):
			p.fail("names %s twice; remove one", text)
		}
		times = append(times, at)
		hours = append(hours, at.Hour())
		minutes = append(minutes, at.Minute())
	}
	count := strings.NewReplacer("once", "one", "twice", "two").Replace(strings.ToLower(vals[0]))
	if numbersToDigits(count) != strconv.Itoa(len(times)) {
		p.fail("says %s per day and names %d times of day; correct one of them", vals[0], len(times))
	}
	hours = distinct(hours)
	minutes = distinct(minutes)
	if len(hours)*len(minutes) > len(times) {
		p.fail("names times that no rule has alone: each minute must be there in each hour, as in 6:30 AM and 4:30 PM")
	}
	// %d writes a list as [6 16].
	rule := fmt.Sprintf("FREQ=DAILY;BYHOUR=%d;BYMINUTE=%d;BYSECOND=0", hours, minutes)
	p.RRule.Text = strings.NewReplacer("[", "", "]", "", " ", ",").Replace(rule)
}
