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

// statuses finds rows that no pass takes for their status. Where none of the
// table's has one that the configuration knows, or one only capitals away from
// it, passes would find nothing and say nothing; what else there is is left
// alone as it should be, and told.
func (k *checker) statuses(c backlog.Counts) {
	s := k.cfg.Statuses
	configured := statusValues(k.cfg, s.New, s.Error, s.Success, s.Dead)
	if len(configured) == 0 || len(c.ByStatus) == 0 {
		return
	}
	known := func(text string) bool { return slices.Contains(configured, text) }
	has := slices.SortedFunc(maps.Keys(c.ByStatus), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.ByStatus[b], c.ByStatus[a]), cmp.Compare(a, b))
	})
	if c.Pending()+c.Exhausted == 0 && !slices.ContainsFunc(has, known) {
		k.warn("statuses", "write under statuses: what the table has; capitals count", "no row has a status of the configuration, which names %s; the table has %s",
			strings.Join(each(configured, shown), ", "), countedList(has, c.ByStatus))
		return
	}
	pending, taken := statusValues(k.cfg, s.New, s.Error), 0
	for _, text := range pending {
		taken += c.ByStatus[text]
	}
	if taken != c.Pending()+c.Exhausted {
		return // the database has its own idea of which texts are equal
	}
	var others []string
	for _, text := range has {
		like := func(value string) bool { return strings.EqualFold(strings.TrimSpace(text), value) }
		if i := slices.IndexFunc(pending, like); i >= 0 && !known(text) {
			k.warn("statuses", "write under statuses: what the table has, or mend the rows", "%s with the status %q, which differs from %s in capitals or spaces only: never tried",
				plural(c.ByStatus[text], "row"), text, shown(pending[i]))
		} else if !slices.ContainsFunc(configured, like) {
			others = append(others, text)
		}
	}
	for _, text := range statusValues(k.cfg, s.New) {
		if near := config.Near(text, others); near != "" && c.ByStatus[text] == 0 {
			k.warn("statuses", "write under statuses: what the table has", "statuses.new: no row has %s; the table has %s: is that meant?", shown(text), countedList([]string{near}, c.ByStatus))
		}
	}
	if len(others) > 0 {
		k.leftAlone = "; left alone: " + countedList(others, c.ByStatus)
	}
}

// countedList shows the first of the statuses, with their counts.
func countedList(list []string, counts map[string]int) string {
	const most = 5
	more := ""
	if len(list) > most {
		list, more = list[:most], fmt.Sprintf(" and %d more", len(list)-most)
	}
	counted := func(s string) string { return fmt.Sprintf("%s (%d)", shown(s), counts[s]) }
	return strings.Join(each(list, counted), ", ") + more
}

// statusValues returns the values of the status column that tell the states;
// none if something else tells one of them apart too.
func statusValues(cfg *config.Config, states ...config.State) (list []string) {
	for _, x := range states {
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
