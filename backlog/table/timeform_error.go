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
	if layout := timeLayoutOf(bare); layout != "" {
		return &timeLayoutError{shown, layout}
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

// timeLayoutOf returns the layout of a text that is not taken for a time unless
// it is named, though it sorts by time; "" if it is none such.
func timeLayoutOf(text string) string {
	for _, day := range []string{"2006/01/02", "2006.01.02"} {
		for _, clock := range []string{"", " 15:04", " 15:04:05", "T15:04:05"} {
			if _, err := time.Parse(day+clock, text); err == nil {
				return day + clock
			}
		}
	}
	return ""
}

// A timeLayoutError is about such a text, as it is shown.
type timeLayoutError struct{ shown, layout string }

func (e *timeLayoutError) Error() string {
	return fmt.Sprintf("%s is no time in a known form, but as: \"text:%s\" describes it", e.shown, e.layout)
}

// cure returns what can be done about an error of detectTimeForm.
func (c *timeCol) cure(err error) string {
	if u := timeUnsortedError(""); errors.As(err, &u) {
		return "name another column, or add a generated one that holds the same date as YYYY-MM-DD, and an index on it"
	}
	if l := (*timeLayoutError)(nil); errors.As(err, &l) {
		return "say so with " + c.long(fmt.Sprintf("as: %q", "text:"+l.layout))
	}
	return "say which it is with " + c.long("as: …") + ", or mend the rows"
}

// long returns the long form of the setting about the column, with what else is
// to stand there.
func (c *timeCol) long(rest string) string {
	if c.setting == "" {
		return "`" + rest + "`"
	}
	return c.setting + ": {column: " + inYAML([]string{c.name})[0] + ", " + rest + "}"
}

var yamlWord = pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)

// inYAML returns the names as a configuration has them.
func inYAML(names []string) []string {
	list := make([]string, len(names))
	for i, name := range names {
		if list[i] = name; !yamlWord().MatchString(name) {
			list[i] = strconv.Quote(name)
		}
	}
	return list
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
