// Package retry holds the policies by which a record that failed is tried
// again. Each is a struct of settings with a pure function, its curve: how long
// the record waits after its n-th failure.
//
// A further policy is such a struct and a line of [New]. Where the columns are,
// how they are compared and who asks when is known elsewhere.
package retry

import (
	"fmt"
	"math"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
)

// Settings are what can be said about a policy: one of the structs below, as
// [New] makes them.
type Settings interface {
	// Keeps says what the policy keeps in the row.
	Keeps() mapping.Policy

	// Check reports what is wrong with the settings, each under its key. Numbers
	// are not negative: the configuration has none.
	Check(fail func(field, problem string))
}

// A curve are the settings of a policy that counts failures.
type curve interface {
	// wait returns the bounds of the wait after the n-th failure, n >= 1: equal
	// where nothing is drawn. They need not be kept to any limit.
	wait(n int) (least, most time.Duration)

	retries() int // negative: no end
	limit() time.Duration
}

// Waits are the settings of all policies that wait.
type Waits struct {
	MaxDelay time.Duration `yaml:"max_delay"` // no wait is longer

	// Columns are: the count, the time of the last failure and, if the policy
	// plans, the time of the next attempt and the flag that one is planned.
	Columns mapping.Names `yaml:"columns"`

	name string
}

func (w *Waits) Keeps() mapping.Policy { return mapping.Policy{Name: w.name, Columns: w.Columns} }
func (w *Waits) retries() int          { return -1 }
func (w *Waits) limit() time.Duration  { return min(w.MaxDelay, backlog.MaxWait) }

// check reports durations that are not more than 0, the given one too.
func (w *Waits) check(fail func(field, problem string), field string, d time.Duration) {
	if d <= 0 {
		fail(field, "must be more than 0")
	}
	if w.MaxDelay <= 0 {
		fail("max_delay", "must be more than 0")
	}
}

// Limited are the settings of policies that give up.
type Limited struct {
	Waits
	MaxRetries int `yaml:"max_retries"`
}

func (l *Limited) retries() int { return l.MaxRetries }

// New returns the settings of the policy with their defaults, nil for a name
// that is not known.
func New(name string) Settings {
	waits := func(columns ...string) Waits {
		w := Waits{MaxDelay: backlog.MaxWait, name: name}
		for _, c := range columns {
			w.Columns = append(w.Columns, [2]string{c, c})
		}
		return w
	}
	planned := Limited{waits("attempt_count", "last_attempt_time", "next_attempt_time", "in_retry"), 3}
	return map[string]Settings{
		"none":        &None{},
		"fibonacci":   &Fibonacci{waits("failures", "last_failure"), time.Minute},
		"arctan":      &Arctan{waits("attempts", "updated_at"), 24 * time.Hour},
		"list":        &List{waits("failures", "last_failure"), []time.Duration{0, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour}},
		"sneakers":    &Sneakers{Limited{waits("failures", "last_failure"), 5}, 0},
		"linear":      &Linear{planned, 35 * time.Second},
		"exponential": &Exponential{planned, 35 * time.Second, 2},
		"refresh":     newRefresh(),
	}[name]
}

// None tries no record a second time.
type None struct{}

func (*None) Keeps() mapping.Policy                { return mapping.Policy{Name: "none", Once: true} }
func (*None) Check(func(field, problem string))    {}
func (*None) wait(int) (least, most time.Duration) { return 0, 0 }
func (*None) retries() int                         { return 0 }
func (*None) limit() time.Duration                 { return 0 }

// Fibonacci waits fib(n)·unit with fib(1) = fib(2) = 1: 1 1 2 3 5 8 13 … minutes.
type Fibonacci struct {
	Waits
	Unit time.Duration `yaml:"unit"`
}

func (f *Fibonacci) Check(fail func(field, problem string)) { f.check(fail, "unit", f.Unit) }

func (f *Fibonacci) wait(n int) (least, most time.Duration) {
	wait, next := time.Duration(0), min(f.Unit, backlog.MaxWait)
	for ; n > 0 && wait < backlog.MaxWait; n-- {
		wait, next = next, min(wait+next, backlog.MaxWait)
	}
	return wait, wait
}

// Arctan waits max·(2/π)·atan(n³/15) in whole seconds. With max 24h that is, in
// hours, 1.02 7.49 16.25 20.48 22.18 22.94 23.33 23.55 23.69 23.77 23.83 …
//
// It would come nearer to max for ever. A curve that has an end is looked up in
// the database count by count, so this one ends where less than 1/100,000 of
// max is missing: 1 - (2/π)·atan(100³/15) < 0.00001.
type Arctan struct {
	Waits
	Max time.Duration `yaml:"max"`
}

func (a *Arctan) Check(fail func(field, problem string)) { a.check(fail, "max", a.Max) }

func (a *Arctan) wait(n int) (least, most time.Duration) {
	wait := min(a.Max, backlog.MaxWait)
	if n < 100 {
		cube := float64(n) * float64(n) * float64(n)
		wait = min(wait, scaled(wait, 2/math.Pi*math.Atan(cube/15)).Round(time.Second)) // max need not be whole seconds
	}
	return wait, wait
}

// List waits the n-th of the intervals; behind the last a record is given up.
type List struct {
	Waits
	Intervals []time.Duration `yaml:"intervals" want:"a list of durations such as [0, 1m, 5m]"`
}

// maxIntervals bounds what is asked of a database, which looks for the records
// behind each interval apart.
const maxIntervals = 100

func (l *List) Check(fail func(field, problem string)) {
	l.check(fail, "", 1)
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

// Sneakers waits (base + 15 s)·2^(n+1): 1 2 4 8 16 minutes, as the retry handler
// of the job runner of this name does.
type Sneakers struct {
	Limited
	Base time.Duration `yaml:"base,seconds"`
}

func (s *Sneakers) Check(fail func(field, problem string)) { s.check(fail, "", 1) }

func (s *Sneakers) wait(n int) (least, most time.Duration) {
	wait := scaled(min(s.Base, backlog.MaxWait)+15*time.Second, math.Exp2(float64(n)+1))
	return wait, wait
}

// Linear always waits the interval.
type Linear struct {
	Limited
	Interval time.Duration `yaml:"interval"`
}

func (l *Linear) Check(fail func(field, problem string)) { l.check(fail, "interval", l.Interval) }

func (l *Linear) wait(int) (least, most time.Duration) { return l.Interval, l.Interval }

// Exponential waits anything from base^(n-1)·interval to base^n·interval: 35–70,
// 70–140, 140–280 … seconds. What failed together is not tried together again.
type Exponential struct {
	Limited
	Interval time.Duration `yaml:"interval"`
	Base     float64       `yaml:"base"`
}

func (e *Exponential) Check(fail func(field, problem string)) {
	e.check(fail, "interval", e.Interval)
	if e.Base < 1 {
		fail("base", fmt.Sprintf("must be at least 1, not %v", e.Base))
	}
}

func (e *Exponential) wait(n int) (least, most time.Duration) {
	return scaled(e.Interval, math.Pow(e.Base, float64(n-1))), scaled(e.Interval, math.Pow(e.Base, float64(n)))
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

// Names returns the names of all policies but progressive, which keeps nothing
// and has no settings.
func Names() []string {
	return []string{"none", "fibonacci", "arctan", "list", "sneakers", "linear", "exponential", "refresh"}
}

// Policy returns the policy with the settings. An error about a setting begins
// with its name.
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

// PolicyColumns returns the columns in which the policy with the settings keeps its state, and what is due by
// them; nil if it keeps none. The settings are those of which [Policy] makes one.
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
