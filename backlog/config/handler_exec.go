package config

import "slices"

// Exec is a program that is run for each record.
type Exec struct {
	// Command is the program and its arguments, which no shell and no
	// expansion touches. It is not empty.
	Command []string

	// Reject and Skip are the exit statuses from 1 to 255 with these
	// meanings. No status is in both. On_dead has neither.
	Reject, Skip []int
}

func defaultExec() Exec {
	return Exec{
		Reject: []int{65}, // EX_DATAERR of sysexits.h
		Skip:   []int{75}, // EX_TEMPFAIL
	}
}

// checkExec notes what contradicts itself in the handler v.
func (v value) checkExec(e *Exec) {
	for _, status := range e.Skip {
		if slices.Contains(e.Reject, status) {
			v.d.failf(join(v.path, "skip"), "exit status %d is in reject too; give both, each its own (default: reject 65, skip 75)", status)
		}
	}
}

// command decodes a program with its arguments. The example is a program that
// could stand here.
func (v value) command(example string) []string {
	if v.isText() {
		v.fail("must be a list, not text: no shell splits it; write one item for the program and one for each argument: [%s, --verbose]", example)
		return nil
	}
	items := v.list("a list: the program and its arguments")
	if v.isList() && len(items) == 0 {
		v.fail("is an empty list; name a program: [%s]", example)
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
