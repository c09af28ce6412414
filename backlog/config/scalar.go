package config

import (
	"errors"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"backlog/backlog/mapping"
	"backlog/tiers"
)

// scalar returns any scalar. Blank is no way to say null: it looks unfinished.
func (v value) scalar() (mapping.Value, bool) {
	switch {
	case !v.isScalar():
		v.mismatch("a single value")
	case v.isBlank():
		v.fail("is empty; write null if NULL is meant")
	case v.isNull():
		return mapping.Value{Null: true}, true
	default:
		return mapping.Value{Text: v.node.Value, Quoted: v.isQuoted()}, true
	}
	return mapping.Value{}, false
}

// text returns a scalar that is text and not blank.
func (v value) text() string {
	switch {
	case v.isText() && strings.TrimSpace(v.node.Value) != "":
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

// filled returns the items of a list that must have some.
func (v value) filled(want string) []value {
	items := v.list(want)
	if v.isList() && len(items) == 0 {
		v.fail("is an empty list; name at least one or remove it")
	}
	return items
}

var variable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\$\{|\$\{(?:[A-Za-z_][A-Za-z0-9_]*\})?`) })

// expanded returns a text in which each ${NAME} is replaced by the variable's
// value and each $${ by a literal ${. Any other $ stays, and values are not
// expanded again. Errors show names of variables, nothing else of the text and no
// values.
func (v value) expanded() string {
	before := len(v.d.errs)
	text := v.text()
	if text != "" && !strings.Contains(text, "${") {
		return text // the rule, and it needs no pattern
	}
	out := variable().ReplaceAllStringFunc(text, func(m string) string {
		name := strings.Trim(m, "${}")
		switch value, ok := v.d.lookup(name); {
		case m == "$${":
			return "${"
		case name == "":
			v.fail("a ${ that begins no ${NAME}; write $${ if the characters themselves are meant")
		case ok:
			return value
		default:
			v.fail("the environment variable %s is not set; set it, or write $${ if the characters themselves are meant", name)
		}
		return ""
	})
	if out == "" && len(v.d.errs) == before {
		v.fail("is empty once its variables are replaced; set them or remove it")
	}
	return out
}

// oneOf returns the text if it is among the words; what names it in an error.
func (v value) oneOf(what string, words ...string) string {
	text := v.text()
	if slices.Contains(words, text) {
		return text
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

var (
	decimal  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`) })
	fraction = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`) })
)

// numeral returns a number that has the pattern and is not less than least; like
// is what such a number is called.
func numeral[N int | float64](v value, pattern *regexp.Regexp, parse func(string) (N, error), least N, want, like string) N {
	switch is := v.isScalar() && pattern.MatchString(v.node.Value); {
	case is && v.isQuoted():
		v.fail("must be a number, not text; remove the quotes")
	case !is && v.kind() == "a number":
		v.fail("must be %s, not %s", like, show(v.node.Value))
	case !is:
		v.mismatch(want)
	default:
		n, err := parse(v.node.Value)
		if n < least {
			v.fail("must be at least %v, not %s", least, show(v.node.Value))
		} else if err != nil {
			v.fail("%s is too large", show(v.node.Value))
		}
		return n
	}
	return 0
}

// integer returns a whole number that is not less than least.
func (v value) integer(least int) int {
	return numeral(v, decimal(), strconv.Atoi, least, "a whole number", "a whole number")
}

// number returns a number that is not negative.
func (v value) number() float64 {
	parse := func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }
	return numeral(v, fraction(), parse, 0, "a number", "a number such as 2 or 1.5")
}

// seconds returns a duration that is not negative and may be written as a
// number of seconds.
func (v value) seconds() time.Duration {
	if v.kind() != "a number" {
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
	d, err := tiers.ParseDuration(v.node.Value)
	if len(v.node.Value) > 100 {
		err = errors.New(show(v.node.Value) + " is no duration")
	}
	if err != nil {
		v.fail("%v; write one such as 30s, 5m, 12h, 7d or 5 minutes", err)
	}
	return d, err == nil
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

// rate returns a rate such as 10/s in events per second.
func (v value) rate() float64 {
	if !v.isScalar() || v.isNull() {
		v.mismatch("a rate such as 10/s")
		return 0
	}
	n, per, err := tiers.ParseRate(v.node.Value)
	if err != nil {
		v.fail("%s %v, or remove it for no limit", show(v.node.Value), err)
		return 0
	}
	return n / per.Seconds()
}
