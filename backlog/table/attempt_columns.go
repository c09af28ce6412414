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

// attemptColumnCount is the number of the columns, which have the numbers of package mapping.
const attemptColumnCount = len(mapping.RefreshColumns) + 1

// ruleColumn is one more: the column of each row's own recurrence rule.
const ruleColumn = attemptColumnCount - 1

// attemptTimes are the columns that hold times; the last one need not.
var attemptTimes = []int{mapping.DeadlineAt, mapping.RefreshAt, mapping.StartedAt, mapping.FailingSince, mapping.Disabled}

// attemptColumns are the columns in which the refresh policy keeps what a row remembers of its
// attempts: which there are, what a row says there, and what is to be written. A row is
// disabled by true, by 1 in a column of whole numbers, or by a time in a column of times or
// texts.
type attemptColumns struct {
	cols   [attemptColumnCount]*column // nil: the table has none
	text   *db.Text
	truths map[bool]any // of the column disabled, where it holds no times

	disabledByTime bool   // a row is disabled by a time
	enabledSQL     string // SQL for what the column disabled has in other rows

	selected []string // the columns that [attemptColumns.read] reads, quoted

	// The conditions of rows with a running attempt, of those that will start, that will
	// not, and that will not until they are saved. "" where nothing tells.
	running, waiting, finished, disabled string

	// planned is waiting without the rows that are said never to start, which are finished.
	planned string

	// form is the form in which a column of times is written and, unless another one is
	// known, read.
	form func(i int) timeform.Form
}

// minUID is how many characters the token of an attempt has at least.
const minUID = 32

// newAttemptColumns returns the columns of the policy by the numbers that package mapping gives
// them, and ruleColumn; nil: the table has none. What does not fit is a [*Problem].
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
	return c, c.conditions()
}

// checkAttemptColumn is a *Problem if the column is none for its purpose.
func checkAttemptColumn(i int, c *column) error {
	switch {
	case i == mapping.AttemptNo && cannotCount(c):
		return problem("name a column of whole numbers", "policy: column %s is %s, which cannot count attempts", c.Name, c.Decl)
	case i == mapping.AttemptUID && (!isPlainText(c) || c.MaxLength > 0 && c.MaxLength < minUID):
		return problem(fmt.Sprintf("name a column of texts of %d characters or more", minUID),
			"policy: column %s is %s, which cannot hold the token of an attempt", c.Name, c.Decl)
	case i != mapping.AttemptNo && i != ruleColumn && c.NotNull && (i != mapping.Disabled || isDisabledByTime(c)):
		return problem("let it be NULL", "policy: column %s is %s NOT NULL, and NULL is what it has to say", c.Name, c.Decl)
	}
	return nil
}

// cannotCount reports whether the column can hold no whole numbers.
func cannotCount(c *column) bool {
	return slices.Contains([]db.Class{db.Textual, db.Bytes, db.Boolean}, c.Class)
}

// isDisabledByTime reports whether the column says by a time that a row is disabled.
func isDisabledByTime(c *column) bool {
	decl := strings.ToUpper(c.Decl)
	return c.Time != nil || c.Class == db.Textual || strings.Contains(decl, "DATE") || strings.Contains(decl, "TIME")
}

// isPlainText reports whether the column holds any text, and gives it back as it was written.
func isPlainText(c *column) bool {
	decl := strings.ToLower(c.Decl)
	return c.Class == db.Textual && len(c.Labels) == 0 && (strings.Contains(decl, "char") || strings.Contains(decl, "text") || strings.Contains(decl, "clob"))
}

// conditions makes the conditions.
func (c *attemptColumns) conditions() error {
	idle := ""
	if deadline := c.quoted(mapping.DeadlineAt); deadline != "" {
		c.running, idle = deadline+" IS NOT NULL", " AND "+deadline+" IS NULL"
		if uid := c.quoted(mapping.AttemptUID); uid != "" { // who saves a row may empty this one alone
			c.running, idle = c.running+" AND "+uid+" IS NOT NULL", " AND ("+deadline+" IS NULL OR "+uid+" IS NULL)"
		}
	}
	if col := c.cols[mapping.Disabled]; col != nil {
		name := c.text.Quote(col.Name)
		enabled := name + " IS NULL"
		if c.disabledByTime, c.enabledSQL = isDisabledByTime(col), "NULL"; !c.disabledByTime {
			no, err := col.Convert(mapping.Value{Text: "false"})
			yes, wrong := col.Convert(mapping.Value{Text: "true"})
			if err = cmp.Or(err, wrong); err != nil {
				return problem("name a column of booleans, of numbers or of times", "policy: %v", err)
			}
			c.truths, c.enabledSQL = map[bool]any{false: no, true: yes}, c.text.Literal(no)
			if is := name + " = " + c.enabledSQL; col.NotNull {
				enabled = is
			} else {
				enabled = "(" + enabled + " OR " + is + ")"
			}
		}
		c.disabled, idle = "NOT ("+enabled+")", idle+" AND "+enabled
	}
	next := c.quoted(mapping.RefreshAt)
	none, some := next+" IS NULL", next+" IS NOT NULL"
	c.waiting = some + idle
	if at := c.cols[mapping.RefreshAt]; at.Time != nil && at.Time.Compared {
		never := next + " = '" + timeform.Future + "'"
		none, some = "("+none+" OR "+never+")", some+" AND NOT "+never
	}
	c.finished = none + idle
	c.planned = some + idle
	return nil
}

// runs reports whether rows say that an attempt is running, and until when; not where there are no
// columns, c is nil.
func (c *attemptColumns) runs() bool { return c != nil && c.running != "" }

// quoted returns its quoted name, "" if the table has none.
func (c *attemptColumns) quoted(i int) string {
	if c.cols[i] == nil {
		return ""
	}
	return c.text.Quote(c.cols[i].Name)
}

// state is an expression for the word that [inspect.State] has for a row.
func (c *attemptColumns) state() string {
	text := "CASE"
	for _, x := range [][2]string{{c.running, "running"}, {c.disabled, "disabled"}, {c.finished, "finished"}} {
		if x[0] != "" {
			text += " WHEN " + x[0] + " THEN '" + x[1] + "'"
		}
	}
	return text + " ELSE 'waiting' END"
}

// sets are the conditions of rows by the words of [inspect.State]; none where there are no columns, c
// is nil.
func (c *attemptColumns) states() [][2]string {
	if c == nil {
		return nil
	}
	return [][2]string{{"any", always}, {"waiting", c.planned}, {"running", c.running}, {"disabled", c.state() + " = 'disabled'"}, {"finished", c.finished}}
}

// read returns what a row remembers by the values of the selected columns. The error
// names the column that holds something else.
func (c *attemptColumns) read(values []any) (s backlog.Memory, err error) {
	times := timesOf(&s)
	for i, col := range c.cols {
		if col == nil {
			continue
		}
		v := values[0]
		values = values[1:]
		switch {
		case i == mapping.RefreshAt && v == timeform.Future: // it never starts
		case times[i] != nil && v != nil && !timeform.IsZero(v):
			*times[i], err = c.form(i).Parse(v)
		case i == mapping.AttemptNo:
			s.AttemptNo, err = db.AsCount(v)
		case i == mapping.AttemptUID:
			if s.UID = strings.TrimRight(db.AsText(v), " "); v == nil { // of a CHAR
				s.Deadline = time.Time{} // no attempt runs: it was saved
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

// timesOf are the times of the state by the numbers of their columns.
func timesOf(s *backlog.Memory) [attemptColumnCount]*time.Time {
	return [attemptColumnCount]*time.Time{
		mapping.RefreshAt: &s.Next, mapping.DeadlineAt: &s.Deadline, mapping.StartedAt: &s.Started, mapping.FailingSince: &s.FailingSince,
	}
}

// values are what the selected columns hold in a state. Times are rounded up, so that
// nothing starts or times out early; at is the time since when a row is disabled.
func (c *attemptColumns) values(s *backlog.Memory, at time.Time) []any {
	list, times := make([]any, 0, len(c.selected)), timesOf(s)
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

// changes returns the columns, quoted, and their values that make one state of a row
// another, and what a row has then that is in the state now, in which somebody else may
// have changed something: as its columns hold it. at is the present.
func (c *attemptColumns) changes(from, to, now *backlog.Memory, at time.Time) (columns []string, values []any, left backlog.Memory) {
	next := *to
	next.Rule = from.Rule
	if c.cols[mapping.DeadlineAt] != nil && !to.Deadline.IsZero() && !to.Next.Before(to.Deadline) {
		form := c.form(mapping.DeadlineAt)
		if rounded, _ := form.Parse(form.Exact(to.Deadline)); to.Next.Before(rounded) {
			next.Next = rounded // else it would seem to be saved during the attempt
		}
	}
	was, is := c.values(from, at), c.values(&next, at)
	has := was
	if *now != *from {
		has = c.values(now, at)
	}
	for i, column := range c.selected {
		if is[i] != was[i] {
			columns, values, has[i] = append(columns, column), append(values, is[i]), is[i]
		}
	}
	left, _ = c.read(has)
	return columns, values, left
}

// same reports whether the columns hold the same in both states.
func (c *attemptColumns) same(a, b *backlog.Memory) bool {
	return slices.Equal(c.values(a, timeform.First), c.values(b, timeform.First))
}

// allAttemptColumns returns two states that differ in all columns. The second disables the row.
func allAttemptColumns() (from, to backlog.Memory) {
	uid, at := strings.Repeat("0", minUID), timeform.First
	from = backlog.Memory{Next: at, AttemptNo: 1, Deadline: at, UID: uid, Started: at, FailingSince: at}
	return from, backlog.Memory{Disabled: true, Reason: uid}
}
