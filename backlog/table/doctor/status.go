package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"backlog/backlog/inspect"
	"backlog/backlog/mapping"
)

// Statuses finds rows that no pass takes because of their status. Passes say nothing
// where no row has a configured status, or where one differs in capitals only: that
// is a warning. Other statuses are rightly left alone; it returns what to say of them.
func Statuses(l *inspect.Findings, m mapping.Mapping, c inspect.Counts) (leftAlone string) {
	configured := statusValues(m, m.New, m.Error, m.Success, m.Dead)
	if len(configured) == 0 || len(c.ByStatus) == 0 {
		return ""
	}
	known := func(text string) bool { return slices.Contains(configured, text) }
	has := slices.SortedFunc(maps.Keys(c.ByStatus), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.ByStatus[b], c.ByStatus[a]), cmp.Compare(a, b))
	})
	if c.Pending()+c.Exhausted == 0 && !slices.ContainsFunc(has, known) {
		names := slices.Clone(configured)
		for i, name := range names {
			names[i] = inspect.Shown(name)
		}
		l.AddWarning("statuses", "write under statuses: what the table has; capitals count", "no row has a status of the configuration, which names %s; the table has %s",
			strings.Join(names, ", "), countedList(has, c.ByStatus))
		return ""
	}
	pending, taken := statusValues(m, m.New, m.Error), 0
	for _, text := range pending {
		taken += c.ByStatus[text]
	}
	if taken != c.Pending()+c.Exhausted {
		return "" // the database compares texts in a way of its own
	}
	var others []string
	for _, text := range has {
		like := func(value string) bool { return strings.EqualFold(strings.TrimSpace(text), value) }
		if i := slices.IndexFunc(pending, like); i >= 0 && !known(text) {
			l.AddWarning("statuses", "write under statuses: what the table has, or mend the rows", "%s with the status %q, which differs from %s in capitals or spaces only: never tried",
				inspect.Plural(c.ByStatus[text], "row"), text, inspect.Shown(pending[i]))
		} else if !slices.ContainsFunc(configured, like) {
			others = append(others, text)
		}
	}
	for _, text := range statusValues(m, m.New) {
		if near := mapping.Near(text, others); near != "" && c.ByStatus[text] == 0 {
			l.AddWarning("statuses", "write under statuses: what the table has", "statuses.new: no row has %s; the table has %s: is that meant?", inspect.Shown(text), countedList([]string{near}, c.ByStatus))
		}
	}
	if len(others) == 0 {
		return ""
	}
	return "; left alone: " + countedList(others, c.ByStatus)
}

// countedList shows the first few statuses, with their counts.
func countedList(list []string, counts map[string]int) string {
	const most = 5
	more := ""
	if len(list) > most {
		list, more = list[:most], fmt.Sprintf(" and %d more", len(list)-most)
	}
	var counted []string
	for _, s := range list {
		counted = append(counted, fmt.Sprintf("%s (%d)", inspect.Shown(s), counts[s]))
	}
	return strings.Join(counted, ", ") + more
}

// statusValues returns the status column's values for the states, none if another
// column takes part in a state.
func statusValues(m mapping.Mapping, states ...mapping.State) (list []string) {
	for _, x := range states {
		values, others := m.OfStatus(x)
		if others {
			return nil
		}
		for _, v := range values {
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
