// Package retry holds the policies by which a record that failed is tried
// again. Each is a row of the table specs and a pure function, its curve: how
// long the record waits after its n-th failure.
//
// A further policy is such a function and such a row. Where the columns are, how
// they are compared and who asks when is known elsewhere.
package retry

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"backlog/backlog"
)

// A Mechanism is what a policy keeps in the row.
type Mechanism int

const (
	Stateless Mechanism = iota // nothing
	Counted                    // the number of failures and the time of the last
	Planned                    // these, the time of the next attempt, and whether one is planned
)

// A Spec describes a policy by its name.
type Spec struct {
	Name      string
	Mechanism Mechanism

	// Columns are the names that its columns have by default: of the count, of
	// the time of the last failure and, if it is planned, of the time of the
	// next attempt and of the flag that one is planned.
	Columns []string

	Settings []Setting

	curve curve // nil: age alone decides
}

// A curve returns the bounds of the wait after the n-th failure, n >= 1: equal
// where nothing is drawn. They need not be kept to any limit.
type curve func(n int, v values) (least, most time.Duration)

var (
	counted  = []string{"failures", "last_failure"}
	attempts = []string{"attempts", "updated_at"}
	planned  = []string{"attempt_count", "last_attempt_time", "next_attempt_time", "in_retry"}

	// maxDelay is a setting of every policy that waits.
	maxDelay = Setting{"max_delay", Duration, backlog.MaxWait}
)

var specs = []Spec{
	{"progressive", Stateless, nil, nil, nil},
	{"none", Stateless, nil, nil, never},
	{"fibonacci", Counted, counted, []Setting{{"unit", Duration, time.Minute}, maxDelay}, fibonacci},
	{"arctan", Counted, attempts, []Setting{{"max", Duration, 24 * time.Hour}, maxDelay}, arctan},
	{"list", Counted, counted, []Setting{{"intervals", Durations, usualIntervals}, maxDelay}, list},
	{"sneakers", Counted, counted, []Setting{{"base", Seconds, time.Duration(0)}, {"max_retries", Count, 5}, maxDelay}, sneakers},
	{"linear", Planned, planned, []Setting{{"interval", Duration, 35 * time.Second}, {"max_retries", Count, 3}, maxDelay}, linear},
	{"exponential", Planned, planned, []Setting{{"interval", Duration, 35 * time.Second}, {"base", Factor, 2.0}, {"max_retries", Count, 3}, maxDelay}, exponential},
}

// Specs returns all policies. The caller must not change what they refer to.
func Specs() []Spec { return slices.Clone(specs) }

// Once reports whether no record is tried a second time, although the policy
// keeps no state.
func (s Spec) Once() bool { return s.Mechanism == Stateless && s.curve != nil }

// New returns the policy with the name and the settings, of types as [Kind]
// says; those that are missing have their default. The policy progressive is
// nil. An error about a setting begins with its name.
func New(name string, settings map[string]any) (*backlog.Policy, error) {
	i := slices.IndexFunc(specs, func(s Spec) bool { return s.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("unknown policy %q", name)
	}
	spec := specs[i]
	v, err := spec.complete(settings)
	if err != nil || spec.curve == nil {
		return nil, err
	}
	return &backlog.Policy{
		Name:    name,
		Retries: spec.retries(v),
		Planned: spec.Mechanism == Planned,
		Never:   spec.Once(),
		Wait: func(n int) (least, most time.Duration) {
			least, most = spec.curve(n, v)
			limit := v.duration("max_delay")
			return min(least, limit), min(most, limit)
		},
	}, nil
}

// complete checks the settings and adds those that are missing.
func (s *Spec) complete(settings map[string]any) (values, error) {
	v := make(values, len(s.Settings))
	for _, setting := range s.Settings {
		value, ok := settings[setting.Name]
		if !ok {
			value = setting.Default
		}
		if err := setting.Check(value); err != nil {
			return nil, fmt.Errorf("%s: %w", setting.Name, err)
		}
		v[setting.Name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if _, known := v[name]; !known {
			return nil, fmt.Errorf("%s: the policy %s has no such setting", name, s.Name)
		}
	}
	return v, nil
}

// retries returns how often a record is tried again: as often as its settings
// count or list, else without end.
func (s *Spec) retries(v values) int {
	if s.Mechanism == Stateless {
		return 0
	}
	if n, ok := v["max_retries"].(int); ok {
		return n
	}
	if intervals, ok := v["intervals"].([]time.Duration); ok {
		return len(intervals)
	}
	return -1
}
