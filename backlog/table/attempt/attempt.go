// Package attempt knows the columns in which the refresh policy keeps what a row
// remembers of its attempts: which there are, what a row says there, and what is to be
// written. It asks the database nothing.
package attempt

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table/db"
	"backlog/backlog/table/timeform"
)

// count is the number of the columns, which have the numbers of package mapping.
const count = len(mapping.RefreshColumns)

// Times are the columns that hold times.
var Times = []int{mapping.DeadlineAt, mapping.RefreshAt, mapping.StartedAt, mapping.FailingSince}

// Columns are those of a table. A row is disabled by true, by 1 in a column of whole
// numbers, or by a time in a column of times or texts.
type Columns struct {
	cols [count]*db.Column // nil: the table has none
	rule *db.Column        // of each row; nil: there is none
	text *db.Text

	byTime       bool   // a row is disabled by a time
	enabled      string // the condition for rows that are not disabled; "" without the column
	truth, falsy string // SQL for a row that is disabled, "" for the present time, and for others

	// Form is the form in which a column of times is written and, unless another one is
	// known, read.
	Form func(i int) timeform.Form
}

// minUID is how many characters the token of an attempt has at least.
const minUID = 32

// Find finds the columns in the catalogue. What does not fit is a [*db.Problem].
func Find(cat *db.Catalog, text *db.Text, m *mapping.PolicyColumns) (*Columns, error) {
	c := &Columns{text: text}
	for i := range c.cols {
		name, named := m.RefreshColumn(i)
		col := cat.Find(name, text.FoldsNames)
		if col == nil && !named && i > mapping.AttemptNo {
			continue
		}
		if err := usable(cat, name, i, col); err != nil {
			return nil, err
		}
		c.cols[i] = col
	}
	if m.Rule != "" {
		if c.rule = cat.Find(m.Rule, text.FoldsNames); c.rule == nil {
			return nil, db.Problemf("the columns are: "+cat.Names(), "policy.refresh.rrule: table %s has no column %q", cat.Name, m.Rule)
		}
	}
	if col := c.cols[mapping.Disabled]; col != nil {
		return c, c.findDisabled(col)
	}
	return c, nil
}

// usable is a *db.Problem if the column is none for its purpose.
func usable(cat *db.Catalog, name string, i int, c *db.Column) error {
	switch {
	case c == nil:
		return db.Problemf("`backlog init` adds it, or name another under columns: of the policy; the columns are: "+cat.Names(),
			"policy: table %s has no column %q", cat.Name, name)
	case c.Generated:
		return db.Problemf("name another", "policy: column %s is computed by the database and cannot be written", c.Name)
	case i == mapping.AttemptNo && slices.Contains([]db.Class{db.Textual, db.Bytes, db.Boolean}, c.Class):
		return db.Problemf("name a column of whole numbers", "policy: column %s is %s, which cannot count attempts", c.Name, c.Decl)
	case i == mapping.AttemptUID && (c.Class != db.Textual || c.Time != nil || c.Length > 0 && c.Length < minUID):
		return db.Problemf(fmt.Sprintf("name a column of texts of %d characters or more", minUID),
			"policy: column %s is %s, which cannot hold the token of an attempt", c.Name, c.Decl)
	case i != mapping.AttemptNo && c.NotNull && (i != mapping.Disabled || isTime(c)):
		return db.Problemf("let it be NULL", "policy: column %s is %s NOT NULL, and NULL is what it has to say", c.Name, c.Decl)
	}
	return nil
}

// isTime reports whether the column says by a time that a row is disabled.
func isTime(c *db.Column) bool {
	decl := strings.ToUpper(c.Decl)
	return c.Time != nil || c.Class == db.Textual || strings.Contains(decl, "DATE") || strings.Contains(decl, "TIME")
}

func (c *Columns) findDisabled(col *db.Column) error {
	name := c.text.Quote(col.Name)
	if c.byTime = isTime(col); c.byTime {
		c.enabled, c.falsy = name+" IS NULL", "NULL"
		return nil
	}
	for word, to := range map[string]*string{"true": &c.truth, "false": &c.falsy} {
		v, err := col.Typed(mapping.Value{Text: word})
		if err != nil {
			return db.Problemf("name a column of booleans, of numbers or of times", "policy: %v", err)
		}
		*to = c.text.Literal(v)
	}
	c.enabled = name + " = " + c.falsy
	if !col.NotNull {
		c.enabled = "(" + name + " IS NULL OR " + c.enabled + ")"
	}
	return nil
}

// Column returns the i-th column, nil if the table has none.
func (c *Columns) Column(i int) *db.Column { return c.cols[i] }

// Quoted returns its quoted name, "" if the table has none.
func (c *Columns) Quoted(i int) string {
	if c.cols[i] == nil {
		return ""
	}
	return c.text.Quote(c.cols[i].Name)
}

// DisabledAt reports whether a row is disabled by a time.
func (c *Columns) DisabledAt() bool { return c.byTime }

// IsTime reports whether the column of that name holds a time by which something starts
// or ends.
func (c *Columns) IsTime(name string) bool {
	return slices.ContainsFunc(Times, func(i int) bool { return c.cols[i] != nil && c.cols[i].Name == name })
}

// Running is the condition of rows with a running attempt; "" where nothing tells.
func (c *Columns) Running() string {
	if c.cols[mapping.DeadlineAt] == nil {
		return ""
	}
	return c.Quoted(mapping.DeadlineAt) + " IS NOT NULL"
}

// idle is the condition of rows that neither run nor are disabled, and what is said of
// their next start.
func (c *Columns) idle(next string) string {
	list := []string{c.Quoted(mapping.RefreshAt) + next}
	if c.Running() != "" {
		list = append(list, c.Quoted(mapping.DeadlineAt)+" IS NULL")
	}
	if c.enabled != "" {
		list = append(list, c.enabled)
	}
	return strings.Join(list, " AND ")
}

// Waiting is the condition of rows that will start, Finished of those that will not, and
// Disabled of those that will not until they are saved, "" without that column.
func (c *Columns) Waiting() string { return c.idle(" IS NOT NULL") }

func (c *Columns) Finished() string { return c.idle(" IS NULL") }

func (c *Columns) Disabled() string {
	if c.enabled == "" {
		return ""
	}
	return "NOT (" + c.enabled + ")"
}

// State is an expression for the word that [inspect.State] has for a row.
func (c *Columns) State() string {
	text := "CASE"
	for _, x := range [][2]string{{c.Running(), "running"}, {c.Disabled(), "disabled"}, {c.Finished(), "finished"}} {
		if x[0] != "" {
			text += " WHEN " + x[0] + " THEN '" + x[1] + "'"
		}
	}
	return text + " ELSE 'waiting' END"
}

// Told are the names of the columns in the conditions.
func (c *Columns) Told() (names []string) {
	for _, i := range []int{mapping.RefreshAt, mapping.DeadlineAt, mapping.Disabled} {
		if c.cols[i] != nil {
			names = append(names, c.cols[i].Name)
		}
	}
	return names
}

// Selected are the columns that [Columns.Read] reads, quoted.
func (c *Columns) Selected() (quoted []string) {
	for i := range c.cols {
		if c.cols[i] != nil {
			quoted = append(quoted, c.Quoted(i))
		}
	}
	if c.rule != nil {
		quoted = append(quoted, c.text.Quote(c.rule.Name))
	}
	return quoted
}

// Read returns what a row remembers by the values of the selected columns. The error
// names the column that holds something else.
func (c *Columns) Read(values []any) (s backlog.Refresh, err error) {
	times := timesOf(&s)
	for i, col := range c.cols {
		if col == nil {
			continue
		}
		v := values[0]
		values = values[1:]
		switch {
		case times[i] != nil && v != nil && !timeform.IsZero(v):
			*times[i], err = c.Form(i).Parse(v)
		case i == mapping.AttemptNo:
			s.AttemptNo, err = db.AsCount(v)
		case i == mapping.AttemptUID:
			s.UID = strings.TrimRight(db.AsText(v), " ") // of a CHAR
		case i == mapping.DisabledReason:
			s.Reason = db.AsText(v)
		case i == mapping.Disabled:
			s.Disabled = v != nil && (c.byTime || !slices.Contains([]string{"0", "false"}, db.AsText(v)))
		}
		if err != nil {
			return s, fmt.Errorf("column %s: %w", col.Name, err)
		}
	}
	if c.rule != nil {
		s.Rule = db.AsText(values[0])
	}
	return s, nil
}

// timesOf are the times of the state by the numbers of their columns.
func timesOf(s *backlog.Refresh) [count]*time.Time {
	return [count]*time.Time{mapping.RefreshAt: &s.At, mapping.DeadlineAt: &s.Deadline, mapping.StartedAt: &s.Started, mapping.FailingSince: &s.FailingSince}
}

// A Change sets a column. Where Expr is ?, Value is bound to it.
type Change struct {
	Column string // quoted
	Expr   string
	Value  any
}

// Changes returns what makes one state of a row another, and what the row has then:
// times are rounded up to what their columns hold, so that nothing starts or times out
// early, and what the table has no column for is zero. at is the present.
func (c *Columns) Changes(from, to *backlog.Refresh, at time.Time) (list []Change, left backlog.Refresh) {
	left = *to
	left.Rule = from.Rule
	was, times := timesOf(from), timesOf(&left)
	bind := func(i int, changed bool, v any) {
		if changed && c.cols[i] != nil {
			list = append(list, Change{c.Quoted(i), "?", v})
		}
	}
	for _, i := range Times {
		var v any
		if i == mapping.RefreshAt && !to.At.Before(to.Deadline) && left.At.Before(left.Deadline) {
			left.At = left.Deadline // else it would seem to be saved during the attempt
		}
		switch {
		case c.cols[i] == nil:
			*times[i] = time.Time{}
		case !times[i].IsZero():
			v = c.Form(i).Exact(*times[i])
			*times[i], _ = c.Form(i).Parse(v)
		}
		bind(i, !times[i].Equal(*was[i]), v)
	}
	if most := c.cols[mapping.AttemptNo].Most; most > 0 {
		left.AttemptNo = int(min(int64(left.AttemptNo), most))
	}
	bind(mapping.AttemptNo, left.AttemptNo != from.AttemptNo, int64(left.AttemptNo))
	left.UID = c.fit(mapping.AttemptUID, left.UID)
	bind(mapping.AttemptUID, left.UID != from.UID, orNull(left.UID))
	left.Reason = c.fit(mapping.DisabledReason, left.Reason)
	bind(mapping.DisabledReason, left.Reason != from.Reason, orNull(left.Reason))
	left.Disabled = left.Disabled && c.cols[mapping.Disabled] != nil
	switch {
	case left.Disabled == from.Disabled:
	case !left.Disabled:
		list = append(list, Change{c.Quoted(mapping.Disabled), c.falsy, nil})
	case c.byTime:
		bind(mapping.Disabled, true, c.Form(mapping.Disabled).Exact(at))
	default:
		list = append(list, Change{c.Quoted(mapping.Disabled), c.truth, nil})
	}
	return list, left
}

// fit returns what the column can hold of the text.
func (c *Columns) fit(i int, s string) string {
	if c.cols[i] == nil {
		return ""
	}
	return c.cols[i].Fit(s)
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// Saved is what makes a row start anew, but for its next start, which is now, and its
// attempts, which are none.
func (c *Columns) Saved() (list []Change) {
	for _, i := range []int{mapping.DeadlineAt, mapping.AttemptUID, mapping.DisabledReason, mapping.FailingSince} {
		if c.cols[i] != nil {
			list = append(list, Change{c.Quoted(i), "NULL", nil})
		}
	}
	if c.cols[mapping.Disabled] != nil {
		list = append(list, Change{c.Quoted(mapping.Disabled), c.falsy, nil})
	}
	return list
}

// All are two states that differ in all columns, the latter of which disables the row.
func All() (from, to backlog.Refresh) {
	uid, at := strings.Repeat("0", minUID), timeform.First
	from = backlog.Refresh{At: at, AttemptNo: 1, Deadline: at, UID: uid, Started: at, FailingSince: at}
	return from, backlog.Refresh{Disabled: true, Reason: uid}
}
