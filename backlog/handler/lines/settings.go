// Package lines gives records to programs that live long and take a record by a
// line each.
package lines

import "time"

// Settings are what the configuration says of such programs.
type Settings struct {
	Command []string `yaml:"lines" command:"./worker"`
	Workers int      `yaml:"workers" min:"1" max:"1000"` // how many such programs; >= 1
	Window  int      `yaml:"window" min:"1" max:"1000"`  // records in flight at each; >= 1

	// MaxPause is the longest pause that a worker can ask for; > 0.
	MaxPause time.Duration `yaml:"max_pause" min:"1s"`
}

const usualWindow = 64

// NewSettings returns the defaults.
func NewSettings() *Settings {
	return &Settings{Workers: 1, Window: usualWindow, MaxPause: time.Hour}
}

// InFlight returns how many records the workers take at a time: as many as any handler
// is given.
func (s *Settings) InFlight() int { return min(s.Workers*s.Window, 100_000) }

// Pauses is the longest pause that the handler can ask for.
func (s *Settings) Pauses() time.Duration { return s.MaxPause }
