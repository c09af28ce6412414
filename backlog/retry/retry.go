// Package retry holds the policies by which a record that failed is tried
// again. Each is a struct of settings with a pure function, its curve: how long
// the record waits after its n-th failure.
//
// A further policy is such a struct and a line of [New]. Where the columns are,
// how they are compared and who asks when is known elsewhere.
package retry

import (
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
)

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
