package table

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

func timeMixedError(kinds []timeSample) error {
	shown := make([]string, len(kinds))
	offsets, unknown := true, false
	for i, k := range kinds {
		shown[i] = timeShow(k.raw)
		offsets = offsets && k.shape.zoned && k.shape.form == kinds[0].shape.form
		unknown = unknown || k.shape == timeShape{}
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

func timeUnknownError(raw any) error {
	shown := timeShow(raw)
	bare := strings.Trim(shown, `"`)
	n, err := strconv.ParseFloat(bare, 64)
	cure := "numbers are taken for times of the years 1990 to 2100, others need `as:`"
	if timeUnsorted().MatchString(bare) {
		return timeUnsortedError(shown)
	}
	if _, rest, ok := timeCutHead(bare, "20060102"); ok && rest == "" {
		cure = "if it is a date, say `as: text:20060102`"
	} else if err != nil {
		cure = "`as: text:<layout>` can describe other texts"
	} else if n >= timeFrom*1e9 && n < timeBefore*1e9 {
		cure = "nanoseconds are not supported"
	}
	return fmt.Errorf("%s is no time in a known form: %s", shown, cure)
}

// timeUnsorted matches dates that do not begin with the year, such as 21.11.2026
// or 11/21/2026 in front of a time or not.
var timeUnsorted = pattern(`^[0-9]{1,2}[-/. ][0-9]{1,2}[-/. ][0-9]{4}([^0-9]|$)`)

// A timeUnsortedError is about such a date, as it is shown.
type timeUnsortedError string

func (e timeUnsortedError) Error() string {
	return string(e) + " is no time in a known form: dates that do not begin with the year do not sort by time, so that none can be searched for"
}

// timeCure returns what can be done about an error of detectTimeForm.
func timeCure(err error) string {
	if u := timeUnsortedError(""); errors.As(err, &u) {
		return "name another column, or add a generated one that holds the same date as YYYY-MM-DD, and an index on it"
	}
	return "say which it is with `as:`, or mend the rows"
}

// timeShow returns a raw value as error messages name it: bare where it
// cannot be mistaken, quoted otherwise, never longer than a line.
func timeShow(raw any) string {
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
	case time.Time:
		return v.Format(time.RFC3339Nano)
	}
	return fmt.Sprint(raw)
}
