package timeform

import (
	"fmt"
	"strconv"
	"strings"
)

// unknownError is about a value that is no time in a known form.
func unknownError(raw any) error {
	return fmt.Errorf("%s is no time in a known form: numbers are taken for times of the years 1990 to 2100, in seconds, milliseconds or microseconds; "+
		"`as: text:<layout>` describes texts that begin with the year, such as 2006/01/02 15:04 or 20060102; others do not sort by time, "+
		"and need a generated column that does", show(raw))
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
