package config

import (
	"slices"
	"time"
)

// A Handler says what processes a record and how many at a time.
type Handler struct {
	// Exec is the program and its arguments, which no shell and no
	// expansion touches. It is empty only if Given is false.
	Exec []string

	Timeout     time.Duration // of one attempt; > 0
	Concurrency int           // >= 1

	// Reject and Skip are the exit statuses from 1 to 255 with these
	// meanings. No status is in both.
	Reject, Skip []int

	Given bool // whether the file has a handler; without one there are only defaults
}

func defaultHandler() Handler {
	return Handler{
		Timeout:     30 * time.Second,
		Concurrency: 4,
		Reject:      []int{65}, // EX_DATAERR of sysexits.h
		Skip:        []int{75}, // EX_TEMPFAIL
	}
}

func (v value) handler() Handler {
	h := defaultHandler()
	h.Given = true
	v.object(keys{
		"exec":        func(v value) { h.Exec = v.command() },
		"timeout":     func(v value) { h.Timeout = v.durationFrom(time.Millisecond) },
		"concurrency": func(v value) { h.Concurrency = v.integer(1) },
		"reject":      func(v value) { h.Reject = v.exitStatuses() },
		"skip":        func(v value) { h.Skip = v.exitStatuses() },
	})
	if v.isMapping() && !v.has("exec") {
		v.fail("nothing to run; add exec: [./deliver.sh]")
	}
	for _, status := range h.Skip {
		if slices.Contains(h.Reject, status) {
			v.d.failf(join(v.path, "skip"), "exit status %d is in reject too; give both, each its own (default: reject 65, skip 75)", status)
		}
	}
	return h
}

// OnDead says what is told of each record that becomes dead.
type OnDead struct {
	Exec    []string      // as in [Handler]
	Timeout time.Duration // > 0
}

func (v value) onDead() OnDead {
	o := OnDead{Timeout: defaultHandler().Timeout}
	v.object(keys{
		"exec":    func(v value) { o.Exec = v.command() },
		"timeout": func(v value) { o.Timeout = v.durationFrom(time.Millisecond) },
	})
	if v.isMapping() && !v.has("exec") {
		v.fail("nothing to run; add exec: [./tell.sh]")
	}
	return o
}

// command decodes a program with its arguments.
func (v value) command() []string {
	if v.isText() {
		v.fail("must be a list, not text: no shell splits it; write one item for the program and one for each argument: [./deliver.sh, --verbose]")
		return nil
	}
	items := v.list("a list: the program and its arguments")
	if v.isList() && len(items) == 0 {
		v.fail("is an empty list; name a program: [./deliver.sh]")
	}
	args := make([]string, len(items))
	for i, item := range items {
		// An argument is text, however much it looks like a number.
		switch arg, ok := item.scalar(); {
		case ok && arg.Null:
			item.fail("must be text, not null; put it in quotes")
		case ok && arg.Text == "" && i == 0:
			item.fail("is empty; name a program")
		default:
			args[i] = arg.Text
		}
	}
	return args
}

// exitStatuses decodes one exit status or a list of them, which may be empty.
func (v value) exitStatuses() []int {
	items := []value{v}
	if !v.isScalar() || v.isNull() {
		items = v.list("an exit status or a list of them")
	}
	statuses := make([]int, 0, len(items))
	for _, item := range items {
		switch status := item.integer(1); {
		case status < 1:
		case status > 255:
			item.fail("must be at most 255, not %d", status)
		case slices.Contains(statuses, status):
			item.fail("%d is listed twice; remove one", status)
		default:
			statuses = append(statuses, status)
		}
	}
	return statuses
}
