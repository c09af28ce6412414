package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// An Error is one thing that is wrong with a configuration.
type Error struct {
	File    string // as given to [Load]; "" where none is read
	Line    int    // from 1
	Key     string // path to the value, such as tiers[2].every; "" for the file as a whole
	Problem string // what is wrong and, after a semicolon, what would mend it
}

// Error returns "file:line: key: problem", without what there is not.
func (e *Error) Error() string {
	text := e.Problem
	if e.Key != "" {
		text = e.Key + ": " + text
	}
	if e.File != "" {
		text = fmt.Sprintf("%s:%d: %s", e.File, e.Line, text)
	}
	return text
}

// errorf notes a problem.
func (d *decoder) errorf(line int, path, format string, args ...any) {
	d.errs = append(d.errs, &Error{d.file, line, path, fmt.Sprintf(format, args...)})
}

// failf notes a problem with the value at the path, which need not be in the
// file: the line is then that of what should hold it.
func (d *decoder) failf(path, format string, args ...any) {
	line, ok := 0, false
	for p := path; !ok; {
		if line, ok = d.lines[p]; !ok {
			p = p[:max(0, strings.LastIndexAny(p, ".["))]
		}
	}
	d.errorf(line, path, format, args...)
}

// err returns the problems noted so far, joined, or nil.
func (d *decoder) err() error {
	slices.SortStableFunc(d.errs, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
	joined := make([]error, len(d.errs))
	for i, e := range d.errs {
		joined[i] = e
	}
	return errors.Join(joined...)
}
