package config

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"backlog/tiers"
)

// A Value is a YAML scalar as it was written: 007 stays 007 and false stays
// false. What it means is for the column's type to say.
type Value struct {
	Text   string // "" for null
	Null   bool
	Quoted bool // the author marked it as text
}

// plain returns v without its quotes, to compare it with others.
func (v Value) plain() Value { return Value{Text: v.Text, Null: v.Null} }

// isNow reports whether v stands for the time of writing.
func (v Value) isNow() bool { return v.Text == "now" && !v.Quoted }

// isIncrement reports whether v stands for one more than before.
func (v Value) isIncrement() bool { return v.Text == "+1" && !v.Quoted }

// show returns v as it goes into an error.
func (v Value) show() string {
	if v.Null {
		return "null"
	}
	return show(v.Text)
}

// scalar returns any scalar. Blank is no way to say null: it looks unfinished.
func (v value) scalar() (Value, bool) {
	switch {
	case !v.isScalar():
		v.mismatch("a single value")
	case v.isBlank():
		v.fail("is empty; write null if NULL is meant")
	case v.isNull():
		return Value{Null: true}, true
	default:
		return Value{Text: v.node.Value, Quoted: v.isQuoted()}, true
	}
	return Value{}, false
}

// text returns a scalar that is text and not empty.
func (v value) text() string {
	switch {
	case v.isText() && v.node.Value != "":
		return v.node.Value
	case v.isText():
		v.fail("is empty; fill it in or remove it")
	case v.isScalar() && !v.isNull():
		v.fail("must be text, not %s; put it in quotes", v.kind())
	default:
		v.mismatch("text")
	}
	return ""
}

// names returns a list of different texts or, from a text, a list of one.
func (v value) names() []string {
	if v.isText() {
		return []string{v.text()}
	}
	var names []string
	seen := make(map[string]bool)
	for _, item := range v.filled("a name or a list of names") {
		name := item.text()
		if seen[name] && name != "" {
			item.fail("%s is listed twice; remove one", show(name))
		}
		seen[name] = true
		names = append(names, name)
	}
	return names
}

// filled returns the items of a list that must have some.
func (v value) filled(want string) []value {
	items := v.list(want)
	if v.isList() && len(items) == 0 {
		v.fail("is an empty list; name at least one or remove it")
	}
	return items
}

// expanded returns a text with its variables replaced. No error shows any of
// it but the names of variables.
func (v value) expanded() string {
	text := v.text()
	if text == "" {
		return ""
	}
	out, problems := expand(text, v.d.lookup)
	for _, p := range problems {
		v.fail("%s", p)
	}
	if out == "" && len(problems) == 0 {
		v.fail("is empty once its variables are replaced; set them or remove it")
	}
	return out
}

// oneOf returns the text if it is among the words; what names it in an error.
func (v value) oneOf(what string, words ...string) string {
	text := v.text()
	for _, w := range words {
		if text == w {
			return w
		}
	}
	if text != "" {
		v.fail("unknown %s %s; %s", what, show(text), suggest(text, "known", words))
	}
	return ""
}

func (v value) boolean() bool {
	if v.isScalar() && v.node.ShortTag() == "!!bool" {
		return strings.EqualFold(v.node.Value, "true")
	}
	v.mismatch("true or false")
	return false
}

var decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// integer returns a whole number that is not less than least.
func (v value) integer(least int) int {
	switch {
	case v.isText() && decimal.MatchString(v.node.Value):
		v.fail("must be a number, not text; remove the quotes")
		return 0
	case v.isScalar() && v.kind() == "a number" && !decimal.MatchString(v.node.Value):
		v.fail("must be a whole number, not %s", show(v.node.Value))
		return 0
	case !v.isScalar() || !decimal.MatchString(v.node.Value):
		v.mismatch("a whole number")
		return 0
	}
	n, err := strconv.Atoi(v.node.Value)
	switch {
	case n < least:
		v.fail("must be at least %d, not %s", least, show(v.node.Value))
	case err != nil:
		v.fail("%s is too large", show(v.node.Value))
	}
	return n
}

var fraction = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// number returns a number that is not negative.
func (v value) number() float64 {
	switch {
	case v.isText() && v.isQuoted() && fraction.MatchString(v.node.Value):
		v.fail("must be a number, not text; remove the quotes")
		return 0
	case v.isScalar() && v.kind() == "a number" && !fraction.MatchString(v.node.Value):
		v.fail("must be a number such as 2 or 1.5, not %s", show(v.node.Value))
		return 0
	case !v.isScalar() || !fraction.MatchString(v.node.Value):
		v.mismatch("a number")
		return 0
	}
	n, err := strconv.ParseFloat(v.node.Value, 64)
	switch {
	case n < 0:
		v.fail("must be at least 0, not %s", show(v.node.Value))
	case err != nil:
		v.fail("%s is too large", show(v.node.Value))
	}
	return n
}

// seconds returns a duration that is not negative and may be written as a
// number of seconds.
func (v value) seconds() time.Duration {
	if v.isText() || !v.isScalar() || v.kind() != "a number" {
		return v.durationFrom(0)
	}
	ns := v.number() * float64(time.Second)
	if ns >= math.MaxInt64 {
		v.fail("%s is too large", show(v.node.Value))
		return 0
	}
	return time.Duration(ns)
}

// duration returns a duration of any sign.
func (v value) duration() (time.Duration, bool) {
	if !v.isScalar() || v.isNull() {
		v.mismatch("a duration such as 30s, 5m, 12h or 7d")
		return 0, false
	}
	if len(v.node.Value) > 100 {
		v.fail("%s is no duration; write one such as 30s, 5m, 12h, 7d or 5 minutes", show(v.node.Value))
		return 0, false
	}
	d, err := tiers.ParseDuration(v.node.Value)
	if err != nil {
		v.fail("%v; write one such as 30s, 5m, 12h, 7d or 5 minutes", err)
		return 0, false
	}
	return d, true
}

// durationFrom returns a duration that is not less than least.
func (v value) durationFrom(least time.Duration) time.Duration {
	d, ok := v.duration()
	if ok && d < least {
		v.fail("must be at least %s, not %s", tiers.FormatDuration(least), tiers.FormatDuration(d))
	}
	return d
}

// location returns a time zone, UTC if there is an error.
func (v value) location() *time.Location {
	name := v.text()
	if name == "" {
		return time.UTC
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		v.fail("unknown timezone %s; write a name such as Europe/Berlin, or UTC", show(name))
		return time.UTC
	}
	return loc
}

var ratePattern = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?/ ?([a-z]+)$`)

var ratePeriods = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "second": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hour": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour,
}

// rate returns a rate such as 10/s in events per second.
func (v value) rate() float64 {
	const cure = "write how many per second, minute, hour or day: 10/s, 100/m, 5000/h"
	if !v.isScalar() || v.isNull() {
		v.mismatch("a rate such as 10/s")
		return 0
	}
	text := v.node.Value
	if decimal.MatchString(text) {
		v.fail("%[1]s per what; write %[1]s/s, %[1]s/m or %[1]s/h", show(text))
		return 0
	}
	m := ratePattern.FindStringSubmatch(text)
	if m == nil {
		v.fail("%s is no rate; %s", show(text), cure)
		return 0
	}
	period, ok := ratePeriods[m[2]]
	if !ok {
		v.fail("%s is no rate; %s", show(text), cure)
		return 0
	}
	n, _ := strconv.ParseFloat(m[1], 64)
	perSecond := n / period.Seconds()
	switch {
	case perSecond == 0:
		v.fail("must be more than 0; remove it for no limit")
	case math.IsInf(perSecond, 0):
		v.fail("is too large; remove it for no limit")
	}
	return perSecond
}
