package table

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table/db"
	"backlog/backlog/table/timeform"
)

// attemptColumnCount is the number of columns. Their indexes are the constants of package
// mapping, and ruleColumn.
const attemptColumnCount = len(mapping.RefreshColumns) + 1

// ruleColumn is the index of the column with the recurrence rule of each row.
const ruleColumn = attemptColumnCount - 1

// attemptTimes are the columns that hold times. Disabled may be a column of another type.
var attemptTimes = []int{
	mapping.DeadlineAt, mapping.RefreshAt, mapping.StartedAt, mapping.FailingSince, mapping.Disabled,
}

// attemptColumns are the columns in which the refresh policy keeps what a row remembers of its
// attempts. They read a row's memory, and say which columns change with it. A row is disabled by
// true, by 1 in a column of whole numbers, or by a time in a column of times or texts.
type attemptColumns struct {
	cols   [attemptColumnCount]*column // nil: the table does not have the column
	text   *db.Text
	truths map[bool]any // values of the column disabled, unless it holds times

	disabledByTime bool   // the column disabled holds times
	enabledSQL     string // the value of the column disabled in an enabled row

	selected []string // quoted; the columns that [attemptColumns.read] reads

	// Conditions of rows by state. They are "" if the columns do not show the state.
	running  string // an attempt is running
	waiting  string // an attempt will start
	finished string // no attempt will start
	dated    string // waiting, or finished by an infinite date: what passes read, which come to no such date
	disabled string // no attempt will start until the row is saved

	// form returns the form in which a column of times is written. It is also read in it,
	// unless its own form is known.
	form func(i int) timeform.Form
}

// minUID is the minimum length of an attempt's UID, in characters.
const minUID = 32

// newAttemptColumns returns the attempt columns for the columns of the policy, by index. A
// [*Problem] says which one does not fit.
func newAttemptColumns(text *db.Text, cols [attemptColumnCount]*column) (*attemptColumns, error) {
	c := &attemptColumns{text: text, cols: cols}
	for i, col := range cols {
		if col == nil {
			continue
		}
		if err := checkAttemptColumn(i, col); err != nil {
			return nil, err
		}
		c.selected = append(c.selected, text.Quote(col.Name))
	}
	return c, c.setConditions()
}

// checkAttemptColumn returns a *Problem if the column has the wrong type for its purpose.
func checkAttemptColumn(i int, c *column) error {
	mustBeNull := i != mapping.AttemptNo && i != ruleColumn && (i != mapping.Disabled || isDisabledByTime(c))
	switch {
	case i == mapping.AttemptNo && cannotCount(c):
		return problem("name a column of whole numbers", "policy: column %s is %s, which cannot count attempts", c.Name, c.Decl)
	case i == mapping.AttemptUID && (!isPlainText(c) || c.MaxLength > 0 && c.MaxLength < minUID):
		return problem(fmt.Sprintf("name a column of texts of %d characters or more", minUID),
			"policy: column %s is %s, which cannot hold the token of an attempt", c.Name, c.Decl)
	case mustBeNull && c.NotNull:
		return problem("let it be NULL", "policy: column %s is %s NOT NULL, and NULL is what it has to say", c.Name, c.Decl)
	}
	return nil
}

// cannotCount reports whether the column cannot hold whole numbers.
func cannotCount(c *column) bool {
	return slices.Contains([]db.Class{db.Textual, db.Bytes, db.Boolean}, c.Class)
}

// isDisabledByTime reports whether a time in the column disables a row.
func isDisabledByTime(c *column) bool {
	decl := strings.ToUpper(c.Decl)
	return c.Time != nil || c.Class == db.Textual || strings.Contains(decl, "DATE") || strings.Contains(decl, "TIME")
}

// isPlainText reports whether the column takes any text and returns it unchanged.
func isPlainText(c *column) bool {
	if c.Class != db.Textual || len(c.Labels) > 0 {
		return false
	}
	decl := strings.ToLower(c.Decl)
	return strings.Contains(decl, "char") || strings.Contains(decl, "text") || strings.Contains(decl, "clob")
}

// setConditions sets the conditions of rows by state, from the columns that the table has.
func (c *attemptColumns) setConditions() error {
	deadline := c.quoted(mapping.DeadlineAt)
	uid := c.quoted(mapping.AttemptUID)
	notRunning := "" // "": the columns show no running attempts
	switch {
	case deadline != "" && uid != "":
		// Another program that saves the row ends the attempt, and may set the UID alone to NULL.
		c.running = deadline + " IS NOT NULL AND " + uid + " IS NOT NULL"
		notRunning = "(" + deadline + " IS NULL OR " + uid + " IS NULL)"
	case deadline != "":
		c.running = deadline + " IS NOT NULL"
		notRunning = deadline + " IS NULL"
	}

	enabled := "" // "": the columns show no disabled rows
	if c.cols[mapping.Disabled] != nil {
		var err error
		enabled, err = c.resolveDisabled()
		if err != nil {
			return err
		}
		c.disabled = "NOT (" + enabled + ")"
	}

	next := c.quoted(mapping.RefreshAt)
	hasDate := next + " IS NOT NULL"
	startsNever := next + " IS NULL"
	isFinite := "" // "": every date is
	date := c.cols[mapping.RefreshAt].Time
	mayBeInfinite := date != nil && date.Compared
	if mayBeInfinite {
		isInfinite := next + " = '" + timeform.Future + "'"
		startsNever = "(" + startsNever + " OR " + isInfinite + ")"
		isFinite = "NOT " + isInfinite
	}
	c.dated = allOf(hasDate, notRunning, enabled).all()
	c.waiting = allOf(hasDate, isFinite, notRunning, enabled).all()
	c.finished = allOf(startsNever, notRunning, enabled).all()
	return nil
}

// resolveDisabled sets how the column disabled enables and disables a row, and returns the condition of
// enabled rows.
func (c *attemptColumns) resolveDisabled() (enabled string, err error) {
	col := c.cols[mapping.Disabled]
	name := c.text.Quote(col.Name)
	isNull := name + " IS NULL"
	c.disabledByTime = isDisabledByTime(col)
	if c.disabledByTime {
		c.enabledSQL = "NULL"
		return isNull, nil
	}
	no, noErr := col.Convert(mapping.Value{Text: "false"})
	yes, yesErr := col.Convert(mapping.Value{Text: "true"})
	if err := cmp.Or(noErr, yesErr); err != nil {
		return "", problem("name a column of booleans, of numbers or of times", "policy: %v", err)
	}
	c.truths = map[bool]any{false: no, true: yes}
	c.enabledSQL = c.text.Literal(no)
	isFalse := name + " = " + c.enabledSQL
	if col.NotNull {
		return isFalse, nil
	}
	return "(" + isNull + " OR " + isFalse + ")", nil
}

// runs reports whether rows show that an attempt is running, and its deadline. c may be nil.
func (c *attemptColumns) runs() bool { return c != nil && c.running != "" }

// quoted returns the quoted name of the column with the index, "" if the table does not have it.
func (c *attemptColumns) quoted(i int) string {
	if c.cols[i] == nil {
		return ""
	}
	return c.text.Quote(c.cols[i].Name)
}

// state returns an SQL expression for the state of a row, in the words of [inspect.State].
func (c *attemptColumns) state() string {
	text := "CASE"
	for _, s := range []attemptState{{"running", c.running}, {"disabled", c.disabled}, {"finished", c.finished}} {
		if s.cond != "" {
			text += " WHEN " + s.cond + " THEN '" + s.word + "'"
		}
	}
	return text + " ELSE 'waiting' END"
}

// An attemptState is the rows in a state of the refresh policy.
type attemptState struct {
	word string // of [inspect.State], or "any"
	cond string // SQL; "": the columns do not show the state
}

// states returns the states that rows can be selected by. c may be nil.
func (c *attemptColumns) states() []attemptState {
	if c == nil {
		return nil
	}
	return []attemptState{
		{"any", always},
		{"waiting", c.waiting},
		{"running", c.running},
		{"disabled", c.state() + " = 'disabled'"},
		{"finished", c.finished},
	}
}

// read returns what a row remembers, given the values of the selected columns. The error names
// the column with an invalid value.
func (c *attemptColumns) read(values []any) (s backlog.Memory, err error) {
	times := timesOf(&s)
	for i, col := range c.cols {
		if col == nil {
			continue
		}
		v := values[0]
		values = values[1:]
		switch {
		case i == mapping.RefreshAt && v == timeform.Future: // never
		case times[i] != nil && v != nil && !timeform.IsZero(v):
			*times[i], err = c.form(i).Parse(v)
		case i == mapping.AttemptNo:
			s.AttemptNo, err = db.AsCount(v)
		case i == mapping.AttemptUID:
			s.UID = strings.TrimRight(db.AsText(v), " ") // a CHAR is padded
			if v == nil {
				s.Deadline = time.Time{} // no attempt is running: the row was saved
			}
		case i == mapping.DisabledReason:
			s.Reason = db.AsText(v)
		case i == ruleColumn:
			s.Rule = db.AsText(v)
		case i == mapping.Disabled:
			s.Disabled = v != nil && (c.disabledByTime || !slices.Contains([]string{"0", "false"}, db.AsText(v)))
		}
		if err != nil {
			return s, fmt.Errorf("column %s: %w", col.Name, err)
		}
	}
	return s, nil
}

// timesOf returns pointers to the times of a memory, by the index of their columns.
func timesOf(s *backlog.Memory) [attemptColumnCount]*time.Time {
	return [attemptColumnCount]*time.Time{
		mapping.RefreshAt:    &s.Next,
		mapping.DeadlineAt:   &s.Deadline,
		mapping.StartedAt:    &s.Started,
		mapping.FailingSince: &s.FailingSince,
	}
}

// values returns the values of the selected columns for a memory. Times are rounded up, so that
// nothing starts or times out early. at is the time at which a row gets disabled.
func (c *attemptColumns) values(s *backlog.Memory, at time.Time) []any {
	list := make([]any, 0, len(c.selected))
	times := timesOf(s)
	for i, col := range c.cols {
		var v any
		switch {
		case col == nil:
			continue
		case times[i] != nil && !times[i].IsZero():
			v = c.form(i).Exact(*times[i])
		case i == mapping.AttemptNo:
			v = col.CapCount(s.AttemptNo)
		case i == mapping.AttemptUID && s.UID != "":
			v = col.Fit(s.UID)
		case i == mapping.DisabledReason && s.Reason != "":
			v = col.Fit(s.Reason)
		case i == mapping.Disabled && !c.disabledByTime:
			v = c.truths[s.Disabled]
		case i == mapping.Disabled && s.Disabled:
			v = c.form(i).Exact(at)
		case i == ruleColumn:
			v = s.Rule
		}
		list = append(list, v)
	}
	return list
}

// changes returns the quoted columns that differ between the memories from and to, and their
// values in to.
//
// The row has the memory now, in which another program may have changed other columns. after is
// what the row remembers once the changes are written, as precisely as its columns hold it. at
// is the present time.
func (c *attemptColumns) changes(
	from, to, now *backlog.Memory, at time.Time,
) (columns []string, values []any, after backlog.Memory) {
	next := *to
	next.Rule = from.Rule
	if c.cols[mapping.DeadlineAt] != nil && !to.Deadline.IsZero() && !to.Next.Before(to.Deadline) {
		form := c.form(mapping.DeadlineAt)
		if rounded, _ := form.Parse(form.Exact(to.Deadline)); to.Next.Before(rounded) {
			next.Next = rounded // before the deadline it would look like a save during the attempt
		}
	}
	oldValues := c.values(from, at)
	newValues := c.values(&next, at)
	row := slices.Clone(oldValues)
	if *now != *from {
		row = c.values(now, at)
	}
	for i, column := range c.selected {
		if newValues[i] != oldValues[i] {
			columns = append(columns, column)
			values = append(values, newValues[i])
			row[i] = newValues[i]
		}
	}
	after, _ = c.read(row)
	return columns, values, after
}

// sameColumns reports whether the columns have the same values for both memories.
func (c *attemptColumns) sameColumns(a, b *backlog.Memory) bool {
	return slices.Equal(c.values(a, timeform.First), c.values(b, timeform.First))
}

// allAttemptColumns returns two memories that differ in all columns. The second disables the row.
func allAttemptColumns() (from, to backlog.Memory) {
	uid := strings.Repeat("0", minUID)
	at := timeform.First
	from = backlog.Memory{Next: at, AttemptNo: 1, Deadline: at, UID: uid, Started: at, FailingSince: at}
	return from, backlog.Memory{Disabled: true, Reason: uid}
}
