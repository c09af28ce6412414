// Package exec runs a program for each record.
package exec

import (
	"fmt"
	"slices"
)

// Settings are what the configuration says of a program that is run for each
// record.
type Settings struct {
	// Command is the program and its arguments, which no shell and no
	// expansion touches. It is not empty.
	Command []string `yaml:"exec" command:"./deliver.sh"`

	// Reject and Skip are the exit statuses with these meanings. No status is
	// in both.
	Reject []int `yaml:"reject" want:"an exit status or a list of them" min:"1" max:"255"`
	Skip   []int `yaml:"skip" want:"an exit status or a list of them" min:"1" max:"255"`

	// Input is what the program reads of a message: its body as it came, unless it is
	// json. A row is always JSON.
	Input string `yaml:"input" words:"body json"`
}

// Telling is a program that is told of each dead record.
type Telling struct {
	Command []string `yaml:"exec" command:"./tell.sh"`
}

const (
	usualReject = 65 // EX_DATAERR of sysexits.h
	usualSkip   = 75 // EX_TEMPFAIL
)

// NewSettings returns the defaults.
func NewSettings() *Settings {
	return &Settings{Reject: []int{usualReject}, Skip: []int{usualSkip}}
}

// Check reports what contradicts itself.
func (s *Settings) Check(fail func(field, problem string)) {
	for _, status := range s.Skip {
		if slices.Contains(s.Reject, status) {
			fail("skip", fmt.Sprintf("exit status %d is in reject too; give both, each its own (default: reject 65, skip 75)", status))
		}
	}
}
