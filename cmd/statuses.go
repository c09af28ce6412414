package cmd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/config"
	"backlog/backlog/table"
)

// statuses finds a table none of whose rows has a status that the configuration
// knows: its passes would find nothing and say nothing.
func (k *checker) statuses(c backlog.Counts) {
	configured := statusValues(k.cfg)
	if len(configured) == 0 || len(c.ByStatus) == 0 || c.Pending()+c.Exhausted > 0 {
		return
	}
	for _, s := range configured {
		if c.ByStatus[s] > 0 {
			return
		}
	}
	has := slices.SortedFunc(maps.Keys(c.ByStatus), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.ByStatus[b], c.ByStatus[a]), cmp.Compare(a, b))
	})
	const most = 5
	more := ""
	if len(has) > most {
		has, more = has[:most], fmt.Sprintf(" and %d more", len(has)-most)
	}
	counted := func(s string) string { return fmt.Sprintf("%s (%d)", shown(s), c.ByStatus[s]) }
	k.warn("statuses", "write under statuses: what the table has; capitals count", "no row has a status of the configuration, which names %s; the table has %s%s",
		strings.Join(each(configured, shown), ", "), strings.Join(each(has, counted), ", "), more)
}

// statusValues returns the values of the status column that the configuration
// names; none if something else tells the states apart too.
func statusValues(cfg *config.Config) (list []string) {
	s := cfg.Statuses
	for _, x := range []config.State{s.New, s.Error, s.Success, s.Dead} {
		all := x.Values
		for _, c := range x.When {
			if !strings.EqualFold(c.Column, cfg.Table.Status) {
				return nil
			}
			all = append(slices.Clone(all), c.Values...)
		}
		for _, v := range all {
			text := v.Text
			if v.Null {
				text = "NULL"
			}
			if !slices.Contains(list, text) {
				list = append(list, text)
			}
		}
	}
	return list
}

// countOf counts the records. Failed ones that the policy never tries again are
// not pending: they are out of retries.
func countOf(ctx context.Context, t *table.Table, cfg *config.Config, now time.Time, edges []time.Duration) (backlog.Counts, error) {
	c, err := t.Count(ctx, now, edges)
	if p := policyOf(cfg); p != nil && p.Never {
		for i := range c.Bands {
			c.Exhausted += c.Bands[i].Failed
			c.Bands[i].Failed = 0
		}
		c.Exhausted += c.Beyond.Failed
		c.Beyond.Failed = 0
	}
	return c, err
}
