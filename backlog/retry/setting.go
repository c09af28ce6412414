package retry

import (
	"errors"
	"fmt"
	"math"
	"time"

	"backlog/backlog"
)

// A Kind is what values a setting takes.
type Kind int

const (
	Duration  Kind = iota // a time.Duration of more than 0
	Seconds               // a time.Duration of at least 0, for people a number of seconds as well
	Factor                // a finite float64 of at least 1
	Count                 // an int of at least 0
	Durations             // a []time.Duration, 1 to 100 of at least 0
)

// maxIntervals bounds what is asked of a database, which looks for the records
// behind each interval apart.
const maxIntervals = 100

// A Setting is one thing that can be said about a policy.
type Setting struct {
	Name    string
	Kind    Kind
	Default any // of the kind's type
}

// Check returns what is wrong with a value for the setting.
func (s Setting) Check(value any) error {
	var wrong error
	ok := false
	switch s.Kind {
	case Duration:
		var d time.Duration
		if d, ok = value.(time.Duration); d <= 0 {
			wrong = errors.New("must be more than 0")
		}
	case Seconds:
		var d time.Duration
		if d, ok = value.(time.Duration); d < 0 {
			wrong = errors.New("must be at least 0")
		}
	case Factor:
		var f float64
		if f, ok = value.(float64); !(f >= 1) { // not a number is neither more nor less
			wrong = fmt.Errorf("must be at least 1, not %v", f)
		} else if math.IsInf(f, 0) {
			wrong = errors.New("must be finite")
		}
	case Count:
		var n int
		if n, ok = value.(int); n < 0 {
			wrong = fmt.Errorf("must be at least 0, not %d", n)
		}
	case Durations:
		var list []time.Duration
		list, ok = value.([]time.Duration)
		wrong = checkIntervals(list)
	}
	if !ok {
		return fmt.Errorf("cannot be a %T", value)
	}
	return wrong
}

func checkIntervals(list []time.Duration) error {
	switch {
	case len(list) == 0:
		return errors.New("is an empty list; name at least one interval")
	case len(list) > maxIntervals:
		return fmt.Errorf("has %d intervals; %d are the most", len(list), maxIntervals)
	}
	for i, d := range list {
		if d < 0 {
			return fmt.Errorf("interval %d must be at least 0", i+1)
		}
	}
	return nil
}

// values are the settings of a policy, checked and complete, by name.
type values map[string]any

// duration returns a duration as far as it matters: no wait is longer than
// MaxWait, and two of these can be added. A policy without the setting waits
// for nothing.
func (v values) duration(name string) time.Duration {
	d, _ := v[name].(time.Duration)
	return min(d, backlog.MaxWait)
}

// scaled returns d times factor, which is not negative and may be infinite, as
// far as it matters.
func scaled(d time.Duration, factor float64) time.Duration {
	product := float64(d) * factor
	if product >= float64(backlog.MaxWait) {
		return backlog.MaxWait
	}
	return time.Duration(product)
}
