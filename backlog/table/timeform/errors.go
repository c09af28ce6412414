package timeform

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// An UnknownError is about a value that is no time in a known form.
type UnknownError struct {
	Layout   string // describes the value, as in `as: text:LAYOUT`; "" if none does
	Unsorted bool   // a date that does not begin with the year
	text     string
}

func (e *UnknownError) Error() string { return e.text }

func unknownError(raw any) error {
	shown := show(raw)
	bare := strings.Trim(shown, `"`)
	e := &UnknownError{Layout: layoutOf(bare), Unsorted: unsortedPattern().MatchString(bare), text: shown + " is no time in a known form"}
	n, err := strconv.ParseFloat(bare, 64)
	_, rest, date := cutHead(bare, "20060102")
	switch {
	case e.Unsorted:
		e.text += ": dates that do not begin with the year do not sort by time, so that none can be searched for"
	case e.Layout != "":
		e.text += fmt.Sprintf(", but as: \"text:%s\" describes it", e.Layout)
	case date && rest == "":
		e.text += ": if it is a date, say `as: text:20060102`"
	case err != nil:
		e.text += ": `as: text:<layout>` can describe other texts"
	case n >= firstUnix*1e9 && n < endUnix*1e9:
		e.text += ": nanoseconds are not supported"
	default:
		e.text += ": numbers are taken for times of the years 1990 to 2100, others need `as:`"
	}
	return e
}

// unsortedPattern matches dates such as 21.11.2026 or 11/21/2026, with or
// without a time behind them.
var unsortedPattern = pattern(`^[0-9]{1,2}[-/. ][0-9]{1,2}[-/. ][0-9]{4}([^0-9]|$)`)

// layoutOf returns the layout of a text that sorts by time but is taken for a
// time only if it is named; "" for others.
func layoutOf(text string) string {
	for _, day := range []string{"2006/01/02", "2006.01.02"} {
		for _, clock := range []string{"", " 15:04", " 15:04:05", "T15:04:05"} {
			if _, err := time.Parse(day+clock, text); err == nil {
				return day + clock
			}
		}
	}
	return ""
}

func mixedError(kinds []sample) error {
	shown := make([]string, len(kinds))
	offsets, unknown := true, false
	for i, k := range kinds {
		shown[i] = show(k.raw)
		offsets = offsets && k.shape.zoned && k.shape.form == kinds[0].shape.form
		unknown = unknown || k.shape == shape{}
	}
	last := len(shown) - 1
	list := strings.Join(shown[:last], ", ") + " and " + shown[last]
	switch {
	case offsets:
		return fmt.Errorf("mixed zones: %s: the order of such texts is not the order of time", list)
	case unknown:
		return fmt.Errorf("mixed: %s; `as:` can name the form to go by", list)
	}
	return fmt.Errorf("mixed: %s", list)
}

// show returns a raw value for error messages: bare where it cannot be
// mistaken, quoted otherwise, never longer than a line.
func show(raw any) string {
	switch v := raw.(type) {
	case string:
		const most = 48
		if len(v) > most {
			return strconv.Quote(v[:most]) + "…"
		}
		q := strconv.Quote(v)
		if q[1:len(q)-1] == v && strings.TrimSpace(v) == v && strings.ContainsAny(v, "-:") {
			return v
		}
		return q
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(raw)
}
