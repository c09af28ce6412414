// Package lines gives records to programs that live long and take a record by a
// line each.
package lines

import (
	"fmt"
	"time"
)

// Settings are what the configuration says of such programs.
type Settings struct {
	Command []string `yaml:"lines" command:"./worker"`
	Workers int      `yaml:"workers" min:"1"` // how many such programs; >= 1
	Window  int      `yaml:"window" min:"1"`  // records in flight at each; >= 1

	// MaxPause is the longest pause that a worker can ask for; > 0.
	MaxPause time.Duration `yaml:"max_pause" min:"1s"`
}

const usualWindow = 64

// NewSettings returns the defaults.
func NewSettings() *Settings {
	return &Settings{Workers: 1, Window: usualWindow, MaxPause: time.Hour}
}

// InFlight returns how many records the workers take at a time.
func (s *Settings) InFlight() int { return s.Workers * s.Window }

// mostInFlight is beyond what any handler is given at a time: a slip of the
// keyboard.
const mostInFlight = 100_000

// Check reports more records in flight than make sense.
func (s *Settings) Check(fail func(field, problem string)) {
	if s.Workers <= mostInFlight && s.Window <= mostInFlight && s.InFlight() <= mostInFlight {
		return
	}
	at := "window"
	if s.Window == usualWindow {
		at = "workers"
	}
	fail(at, fmt.Sprintf("workers × window would be more than %d records in flight; lower one of them", mostInFlight))
}
