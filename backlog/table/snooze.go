package table

import (
	"slices"
	"strings"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table/db"
)

// KeepsSnooze implements [backlog.Snoozer]. A row keeps a snooze in the column of table.eligible, or
// else, if the record has failed, in the one of the next attempt under a planned policy.
func (t *layout) KeepsSnooze(r *backlog.Record) bool {
	set := t.snoozeSet[r.Lane]
	if len(set) == 0 {
		return false
	}
	isEligible := t.eligible != nil && set[0].column == t.eligible.quoted
	return !isEligible || !t.guessesForm(t.eligible)
}

// guessesForm reports whether a time written to the column of numbers would be a guess. Only a row shows
// what they count: before there is one, a snooze would make the guess the column's form.
func (t *layout) guessesForm(c *timeColumn) bool {
	isNumber := c.column.Class == db.Integer || c.column.Class == db.Real
	return isNumber && c.knownForm() == nil && !t.writeForm(c).Numeric()
}

// snoozeClauses resolves what a snooze writes in each lane.
func (r *resolver) snoozeClauses() {
	t := r.t
	c := t.eligible
	if c != nil && r.takesSnooze(c) {
		for lane := range t.snoozeSet {
			t.snoozeSet[lane] = r.snoozeSet(c, true)
		}
	} else if t.policy.next != nil {
		t.snoozeSet[backlog.Failed] = r.snoozeSet(t.policy.next, false)
	}
}

// takesSnooze reports whether a snooze may be written to the column of table.eligible. It must not
// decide which row it is, or in which state.
func (r *resolver) takesSnooze(c *timeColumn) bool {
	t := r.t
	return !c.column.Generated && !slices.Contains(t.key, c.quoted) && !t.decidesState(c.quoted)
}

// decidesState reports whether the quoted column is in a condition of the mapping.
func (t *layout) decidesState(quoted string) bool {
	conditions := slices.Clone(t.m.Where)
	for _, s := range t.m.States() {
		conditions = append(conditions, s.When...)
	}
	isAboutIt := func(c mapping.Condition) bool { return strings.EqualFold(t.text.Quote(c.Column), quoted) }
	return slices.ContainsFunc(conditions, isAboutIt)
}

// snoozeSet returns what a snooze writes that the time column keeps. shared says that other programs write
// to the column, too: a later time that is there by now is theirs, and stays.
func (r *resolver) snoozeSet(c *timeColumn, shared bool) []setClause {
	until := func(s *backlog.Settlement) any { return r.t.writeForm(c).Exact(s.Until) }
	snooze := setClause{column: c.quoted, valueOf: until}
	if shared {
		snooze.keepsLater = c
	}
	return onceEach(append([]setClause{snooze}, r.otherClauses(false)...))
}

// isLater returns the condition for rows whose time in the column is later than a value of the column's form.
func (t *layout) isLater(c *timeColumn, value string) string {
	form := t.writeForm(c)
	if form.AnyDivider() {
		// Within a day each text with a T is above all with a space.
		return "REPLACE(" + c.quoted + ", 'T', ' ') > REPLACE(" + value + ", 'T', ' ')"
	}
	if form.Numeric() {
		// To SQLite a text, such as an empty one, is above each number.
		return c.quoted + " > " + value + " AND " + c.quoted + " < 1e19"
	}
	return c.quoted + " > " + value
}

// snoozeUpdates returns an update for each state whose records' snoozes rows keep, without a row.
func (t *layout) snoozeUpdates() (list []batchUpdate) {
	for i, state := range t.states {
		r := &backlog.Record{Origin: i, Lane: state.lane}
		if len(t.snoozeSet[state.lane]) > 0 {
			list = append(list, t.rowUpdate(&backlog.Settlement{Record: r, Target: backlog.RowOther}))
		}
	}
	return list
}
