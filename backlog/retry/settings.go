// Package retry has the policies that decide when a failed record is tried again.
//
// A policy is a struct of settings: [New] returns it with its defaults, its Check says what is
// wrong with it, and [Policy] makes a [backlog.Policy] of it. Most policies are a curve, a pure
// function that returns how long a record waits after its n-th failure. [Refresh] is different:
// it processes the same records again and again, with deadlines.
//
// To add a policy, write such a struct and a case of [New]. Only tables know the columns in
// which a policy keeps its state, and how to compare them.
package retry

import (
	"fmt"
	"math"
	"slices"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
)

// Settings are the settings of a policy: a pointer to one of the structs below, from [New].
type Settings interface {
	// Keeps returns the policy's name and the columns in which it keeps its state.
	Keeps() mapping.Policy

	// Check calls fail for each thing that is wrong with the settings, with its key. It
	// expects no negative numbers, because the configuration reads none.
	Check(fail func(field, problem string))
}

// A curve is the settings of a policy that counts failures.
type curve interface {
	// wait returns the bounds of the wait after the n-th failure, n >= 1. Both are equal if
	// the wait is not drawn at random. They may exceed limit.
	wait(n int) (least, most time.Duration)

	retries() int         // after the first attempt; negative: no end
	limit() time.Duration // no wait is longer
}

// Waits has the settings that all curves have.
type Waits struct {
	MaxDelay time.Duration `yaml:"max_delay"` // no wait is longer

	// Columns are, in this order, the count of failures and the time of the last one. If the
	// policy writes the next time when an attempt has failed, the time of the next attempt
	// and the flag that one is planned follow.
	Columns mapping.Names `yaml:"columns"`

	name string
}

// Keeps implements [Settings].
func (w *Waits) Keeps() mapping.Policy { return mapping.Policy{Name: w.name, Columns: w.Columns} }

func (w *Waits) retries() int         { return -1 }
func (w *Waits) limit() time.Duration { return min(w.MaxDelay, backlog.MaxWait) }

// check fails if max_delay is 0.
func (w *Waits) check(fail func(field, problem string)) { checkPositive(fail, "max_delay", w.MaxDelay) }

// checkPositive fails if the duration of the field is 0.
func checkPositive(fail func(field, problem string), field string, d time.Duration) {
	if d <= 0 {
		fail(field, "must be more than 0")
	}
}

// Limited has the settings of curves with a number of retries.
type Limited struct {
	Waits
	MaxRetries int `yaml:"max_retries"`
}

func (l *Limited) retries() int { return l.MaxRetries }

// New returns the settings of the named policy with their defaults, nil for an unknown name.
func New(name string) Settings {
	waits := func(columns ...string) Waits {
		w := Waits{MaxDelay: backlog.MaxWait, name: name}
		for _, c := range columns {
			w.Columns = append(w.Columns, [2]string{c, c})
		}
		return w
	}
	planned := waits("attempt_count", "last_attempt_time", "next_attempt_time", "in_retry")
	switch name {
	case "none":
		return &None{}
	case "fibonacci":
		return &Fibonacci{Waits: waits("failures", "last_failure"), Unit: time.Minute}
	case "arctan":
		return &Arctan{Waits: waits("attempts", "updated_at"), Max: 24 * time.Hour}
	case "list":
		return &List{Waits: waits("failures", "last_failure"), Intervals: slices.Clone(defaultIntervals)}
	case "sneakers":
		return &Sneakers{Limited: Limited{Waits: waits("failures", "last_failure"), MaxRetries: 5}}
	case "linear":
		return &Linear{Limited: Limited{Waits: planned, MaxRetries: 3}, Interval: 35 * time.Second}
	case "exponential":
		return &Exponential{Limited: Limited{Waits: planned, MaxRetries: 3}, Interval: 35 * time.Second, Base: 2}
	case "refresh":
		return newRefresh()
	}
	return nil
}

// None never tries a record a second time.
type None struct{}

// Keeps implements [Settings].
func (*None) Keeps() mapping.Policy { return mapping.Policy{Name: "none", Once: true} }

// Check implements [Settings].
func (*None) Check(func(field, problem string)) {}

func (*None) wait(int) (least, most time.Duration) { return 0, 0 }
func (*None) retries() int                         { return 0 }
func (*None) limit() time.Duration                 { return 0 }

// Fibonacci waits fib(n)·unit with fib(1) = fib(2) = 1: 1 1 2 3 5 8 13 … minutes.
type Fibonacci struct {
	Waits
	Unit time.Duration `yaml:"unit"`
}

// Check implements [Settings].
func (f *Fibonacci) Check(fail func(field, problem string)) {
	checkPositive(fail, "unit", f.Unit)
	f.check(fail)
}

func (f *Fibonacci) wait(n int) (least, most time.Duration) {
	wait := time.Duration(0)
	next := min(f.Unit, backlog.MaxWait)
	for ; n > 0 && wait < backlog.MaxWait; n-- {
		wait, next = next, min(wait+next, backlog.MaxWait)
	}
	return wait, wait
}

// Arctan waits max·(2/π)·atan(n³/15), rounded to seconds. With max 24h that is, in hours,
// 1.02 7.49 16.25 20.48 22.18 22.94 23.33 23.55 23.69 23.77 23.83 …
//
// The formula approaches max without reaching it. The database looks a curve up by the number of
// failures, so this one must end: from n = 100 on, where it lacks less than 1/100,000 of max, it
// is max.
type Arctan struct {
	Waits
	Max time.Duration `yaml:"max"`
}

// Check implements [Settings].
func (a *Arctan) Check(fail func(field, problem string)) {
	checkPositive(fail, "max", a.Max)
	a.check(fail)
}

func (a *Arctan) wait(n int) (least, most time.Duration) {
	wait := min(a.Max, backlog.MaxWait)
	if n < 100 {
		cube := float64(n) * float64(n) * float64(n)
		rounded := scaled(wait, 2/math.Pi*math.Atan(cube/15)).Round(time.Second)
		wait = min(wait, rounded) // max need not be whole seconds
	}
	return wait, wait
}

// List waits the n-th of the intervals after the n-th failure. A record that fails once more after
// the last is given up.
type List struct {
	Waits
	Intervals []time.Duration `yaml:"intervals" want:"a list of durations such as [0, 1m, 5m]"`
}

// maxIntervals bounds the queries: the database looks for the records of each interval
// separately.
const maxIntervals = 100

// Check implements [Settings].
func (l *List) Check(fail func(field, problem string)) {
	l.check(fail)
	checkIntervals(l.Intervals, fail)
}

func checkIntervals(list []time.Duration, fail func(field, problem string)) {
	switch n := len(list); {
	case n == 0:
		fail("intervals", "is an empty list; name at least one interval")
	case n > maxIntervals:
		fail("intervals", fmt.Sprintf("has %d intervals; %d are the most", n, maxIntervals))
	}
}

func (l *List) retries() int { return len(l.Intervals) }

func (l *List) wait(n int) (least, most time.Duration) {
	wait := l.Intervals[min(n, len(l.Intervals))-1]
	return wait, wait
}

// Sneakers waits (base + 15 s)·2^(n+1): 1 2 4 8 16 minutes with base 0, like the retry handler of
// the Ruby job runner Sneakers.
type Sneakers struct {
	Limited
	Base time.Duration `yaml:"base,seconds"`
}

// Check implements [Settings].
func (s *Sneakers) Check(fail func(field, problem string)) { s.check(fail) }

func (s *Sneakers) wait(n int) (least, most time.Duration) {
	base := min(s.Base, backlog.MaxWait) + 15*time.Second
	wait := scaled(base, math.Exp2(float64(n)+1))
	return wait, wait
}

// Linear waits the same interval after each failure.
type Linear struct {
	Limited
	Interval time.Duration `yaml:"interval"`
}

// Check implements [Settings].
func (l *Linear) Check(fail func(field, problem string)) {
	checkPositive(fail, "interval", l.Interval)
	l.check(fail)
}

func (l *Linear) wait(int) (least, most time.Duration) { return l.Interval, l.Interval }

// Exponential draws the wait from base^(n-1)·interval to base^n·interval: 35–70, 70–140,
// 140–280 … seconds. So records that failed together are not all tried together again.
type Exponential struct {
	Limited
	Interval time.Duration `yaml:"interval"`
	Base     float64       `yaml:"base"`
}

// Check implements [Settings].
func (e *Exponential) Check(fail func(field, problem string)) {
	checkPositive(fail, "interval", e.Interval)
	e.check(fail)
	if e.Base < 1 {
		fail("base", fmt.Sprintf("must be at least 1, not %v", e.Base))
	}
}

func (e *Exponential) wait(n int) (least, most time.Duration) {
	least = scaled(e.Interval, math.Pow(e.Base, float64(n-1)))
	most = scaled(e.Interval, math.Pow(e.Base, float64(n)))
	return least, most
}

// scaled returns d times factor, at most [backlog.MaxWait]. The factor is not negative and may be
// infinite.
func scaled(d time.Duration, factor float64) time.Duration {
	product := float64(d) * factor
	if product >= float64(backlog.MaxWait) {
		return backlog.MaxWait
	}
	return time.Duration(product)
}

// Names returns the names of all policies but progressive, which has no settings.
func Names() []string {
	return []string{"none", "fibonacci", "arctan", "list", "sneakers", "linear", "exponential", "refresh"}
}

// Policy returns the policy with the settings. An error about a setting begins with its key.
func Policy(s Settings) (*backlog.Policy, error) {
	if err := mapping.FirstProblem(s.Check); err != nil {
		return nil, err
	}
	keeps := s.Keeps()
	if r, ok := s.(*Refresh); ok {
		return &backlog.Policy{Name: keeps.Name, Retries: -1, Refresher: r.refresher()}, nil
	}
	c := s.(curve)
	return &backlog.Policy{
		Name:    keeps.Name,
		Retries: c.retries(),
		Planned: len(keeps.Columns) == 4,
		Never:   keeps.Once,
		Wait: func(n int) (least, most time.Duration) {
			least, most = c.wait(n)
			return min(least, c.limit()), min(most, c.limit())
		},
	}, nil
}

// PolicyColumns returns the columns in which the policy keeps its state, and by which records are
// due. It returns nil if there are none, or if [Policy] refuses the settings.
func PolicyColumns(s Settings) *mapping.PolicyColumns {
	if r, ok := s.(*Refresh); ok {
		return r.PolicyColumns()
	}
	columns := s.Keeps().Columns
	p, err := Policy(s)
	if err != nil || len(columns) == 0 {
		return nil
	}
	c := &mapping.PolicyColumns{Count: columns[0][0], Last: columns[1][0], Retries: p.Retries}
	if p.Planned {
		c.Next = columns[2][0]
		c.InRetry = columns[3][0]
	} else {
		c.Waits = p.Waits()
	}
	return c
}
