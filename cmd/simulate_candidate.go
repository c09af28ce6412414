package cmd

import (
	"errors"
	"strings"

	"backlog/backlog"
	"backlog/backlog/config"
	"backlog/backlog/simulate"
	"backlog/tiers"
)

// A candidate is what a workload is simulated with.
type candidate struct {
	name     string
	schedule *tiers.Schedule
	policy   *backlog.Policy
	config   *config.Config // the caps, rate and concurrency
}

// options adds what the candidate is to the others.
func (c *candidate) options(o simulate.Options) simulate.Options {
	o.Schedule, o.Policy = c.schedule, c.policy
	o.MaxRecords, o.AbortAfter, o.Rate, o.Concurrency = c.config.MaxRecords, c.config.AbortAfter, c.config.Rate, c.config.Handler.Concurrency
	o.NewTable = func() simulate.Table { return newSimulatedTable(c.policy) }
	return o
}

// candidates returns what is to be compared: the configured schedule under each
// policy of the list, or the schedule and policy of a file.
func (o *SimulateOptions) candidates(g *globals) (list []candidate, err error) {
	cfg, err := g.load()
	if err != nil {
		return nil, err
	}
	add := func(name string, c *config.Config, p config.Policy) error {
		policy, err := newPolicy(p)
		if err != nil {
			return usagef("%s: %w", name, err)
		}
		list = append(list, candidate{name, c.Tiers, policy, c})
		return nil
	}
	addFile := func(path string) error {
		other, err := config.LoadFile(path, policySpecs()...)
		if err != nil {
			return usageError{err}
		}
		return add(path, other, other.Policy)
	}
	switch {
	case o.Diff != "" && o.Compare != "":
		return nil, usagef("--diff is with one file, --compare with many: ask for one")
	case o.Diff != "":
		p, err := o.policy(g)
		if err == nil {
			err = add("now", cfg, p)
		}
		err = errors.Join(err, addFile(o.Diff))
		return list, err
	case o.Compare == "":
		p, err := o.policy(g)
		if err != nil {
			return nil, err
		}
		err = add(p.Name, cfg, p)
		return list, err
	}
	for _, item := range splitOutside(o.Compare) {
		if strings.HasSuffix(item, ".yaml") || strings.HasSuffix(item, ".yml") {
			if err := addFile(item); err != nil {
				return nil, err
			}
			continue
		}
		p, err := config.ParsePolicy(item, policySpecs()...)
		if err != nil {
			return nil, usagef("--compare: %w", err)
		}
		if err := add(item, cfg, p); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// splitOutside splits at the commas that are in no brackets.
func splitOutside(list string) (items []string) {
	depth, from := 0, 0
	for i, r := range list + "," {
		switch {
		case strings.ContainsRune("[{", r):
			depth++
		case strings.ContainsRune("]}", r):
			depth--
		case r == ',' && depth <= 0:
			items = append(items, strings.TrimSpace(list[from:i]))
			from = i + 1
		}
	}
	if depth > 0 { // a bracket that nothing closes
		items = append(items, strings.TrimSpace(list[from:]))
	}
	return items
}
