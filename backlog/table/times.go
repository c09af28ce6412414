package table

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table/db"
	"backlog/backlog/table/timeform"
	"backlog/internal/lists"
)

// A timeCol is a column that holds times, and the form in which it holds them
// once that is known.
type timeColumn struct {
	column       *column
	name, quoted string
	setting      string // whose long form says more about it; "" where none does
	zone         *time.Location
	assumed      bool         // nobody has named the zone
	spec         mapping.Time // what the setting says; zero where there is none
	written      bool         // only written, never read
	role         timeRole
	policyTime   bool // the policy keeps a time in it
	formGiven    bool // its type or the setting says the form: rows cannot change it
	at           int  // where it stands among the columns of a page, if it is read
	form         atomic.Pointer[timeform.Form]
}

// A timeRole is what the times of a column say that not every time can say.
type timeRole int

const (
	otherTime     timeRole = iota
	insertionTime          // how old a record is
	expiryTime             // when it is too old
)

// sample returns a value as something to tell a form by: a decimal is kept as
// text so that no digit is lost, but it is no text.
func (c *timeColumn) sampled(v any) any {
	if s, ok := v.(string); ok && c.column.Class == db.Real {
		if f, ok := db.ParseDecimal(s); ok {
			return f
		}
	}
	return v
}

// missing reports whether the value is no date, and what that means: skip, oldest
// or newest.
func (c *timeColumn) missing(raw any) (means string, missing bool) {
	if raw == nil {
		return c.spec.Null, true
	}
	return c.spec.Zero, timeform.IsZero(raw)
}

func (c *timeColumn) setForm(f timeform.Form, fine bool) {
	f = f.Limited(c.column.Max, fine)
	c.form.Store(&f)
}

// known returns the form, or nil while no row has shown it.
func (c *timeColumn) known() *timeform.Form { return c.form.Load() }

// parse returns the time that raw stands for in the known form.
func (c *timeColumn) parse(raw any) (time.Time, error) {
	at, err := c.known().Parse(raw)
	if err != nil {
		err = fmt.Errorf("column %s: %w", c.name, err)
	}
	return at, err
}

// in returns the time that the row has in the column, if there is one; zero: none, or in a
// form that is not known yet, since the row is the first of its kind.
func (c *timeColumn) timeIn(row []any) (time.Time, error) {
	if c == nil || c.known() == nil {
		return time.Time{}, nil
	}
	if _, missing := c.missing(row[c.at]); missing {
		return time.Time{}, nil
	}
	return c.parse(row[c.at])
}

// futureMost is how far ahead a date of insertion may be: clocks differ, and a
// mistaken zone is further off.
const maxAhead = time.Hour

// read returns the time of insertion that raw stands for, or why it cannot be
// one.
func (c *timeColumn) readInsertion(raw any, now time.Time, future bool) (time.Time, error) {
	at, err := c.parse(raw)
	if err != nil {
		return time.Time{}, err
	}
	if at.Before(timeform.First) || !at.Before(timeform.End) {
		return time.Time{}, fmt.Errorf("column %s: %v read as %v lies in the year %d: is that how it is to be read?", c.name, raw, c.known(), at.UTC().Year())
	}
	if ahead := at.Sub(now); ahead > maxAhead && !future {
		return time.Time{}, fmt.Errorf("column %s: %v read as %v is %s ahead of the clock: is it written in another zone than %v?", c.name, raw, c.known(), timeform.Roughly(ahead), c.zone)
	}
	return at, nil
}

// readExpiry returns the time of expiry that raw stands for. One before 1990 is not believed, as [Table.Expire]
// does not, unless the database has a word for it.
func (c *timeColumn) readExpiry(raw any) (time.Time, error) {
	at, err := c.parse(raw)
	if err == nil && at.Before(timeform.First) && raw != timeform.Past {
		err = fmt.Errorf("column %s: %v read as %v lies in the year %d: is that how it is to be read?", c.name, raw, c.known(), at.Year())
	}
	return at, err
}

// fromCut returns the condition for values from the cut on, and its arguments.
func (t *layout) fromCut(c *timeColumn, x timeform.Cut) (string, []any) {
	if x.Gap == nil {
		return c.quoted + " >= ?", []any{x.Low}
	}
	filter := t.text.WithoutIndex(c.quoted + " < ? OR " + c.quoted + " >= ?")
	return "(" + c.quoted + " >= ? AND " + filter + ")", []any{x.Low, x.Gap, x.High}
}

// belowCut returns the condition for the other values.
func (t *layout) beforeCut(c *timeColumn, x timeform.Cut) (string, []any) {
	if x.Gap == nil {
		return c.quoted + " < ?", []any{x.Low}
	}
	filter := t.text.WithoutIndex(c.quoted + " < ? OR " + c.quoted + " >= ?")
	return "(" + c.quoted + " < ? AND " + filter + ")", []any{x.High, x.Low, x.Gap}
}

// within returns the condition for values of the ranges that are no zero dates, and its
// arguments.
func (t *layout) inRanges(c *timeColumn, ranges ...timeform.Range) (string, []any) {
	var or conditions
	for _, r := range ranges {
		var and conditions
		if r.From != nil {
			and.add(c.quoted+" >= ?", []any{r.From})
		}
		if r.To != nil {
			and.add(c.quoted+" < ?", []any{r.To})
		}
		or.add(and.all(), and.args)
	}
	if len(or.list) == 0 {
		return never, nil
	}
	return t.withoutZeroDates(c, or)
}

// noZeroDate is the condition that one of several is met, and not by a zero date; "" if there are none.
func (t *layout) withoutZeroDates(c *timeColumn, or conditions) (string, []any) {
	cond, zero := or.any(), t.text.ZeroDate(c.column)
	if cond != "" && zero != "" {
		cond = "(" + cond + " AND NOT " + t.text.WithoutIndex(zero) + ")"
	}
	return cond, or.args
}

// misread returns the condition for values that are none in the column's form, as far as
// patterns and comparisons tell: "" where all are.
func (t *layout) unreadableTimes(c *timeColumn) (cond string, args []any) {
	form := c.known()
	switch {
	case form == nil:
		return "", nil
	case form.Numeric():
		return t.inRanges(c, append(form.RangesBefore(timeform.First), form.RangesAfter(timeform.First)...)...)
	}
	var or conditions
	if c == t.expires { // which has to be believed
		early, bounds := t.inRanges(c, form.RangesBefore(timeform.First)[0])
		if form.HasPast() {
			early = "(" + early + " AND " + c.quoted + " <> " + t.text.Literal(timeform.Past) + ")"
		}
		or.add(early, bounds)
	}
	for _, x := range form.Misfits() {
		var and conditions
		for _, pattern := range x.Like {
			and.add(c.quoted+" LIKE "+t.text.Literal(pattern), nil)
		}
		for _, pattern := range x.Unlike {
			and.add(c.quoted+" NOT LIKE "+t.text.Literal(pattern), nil)
		}
		or.add(and.all(), nil)
	}
	return t.withoutZeroDates(c, or)
}

// past returns the condition for values before the time that can be believed: a zero date,
// or what is no date at all, is not old.
func (t *layout) pastTimes(c *timeColumn, bound time.Time) (string, []any) {
	form := t.writeForm(c)
	var conds conditions
	conds.add(t.beforeCut(c, form.Split(bound)))
	believed, first := t.fromCut(c, form.Split(timeform.First))
	if c == t.expires && form.HasPast() {
		believed = "(" + believed + " OR " + c.quoted + " = " + t.text.Literal(timeform.Past) + ")"
	}
	conds.add(believed, first)
	if other, none := t.unreadableTimes(c); other != "" {
		conds.add("NOT "+other, none)
	}
	return conds.all(), conds.args
}

// writeForm returns the form in which a time is written to the column: its
// own, as its rows show it, else the form of the column of insertion if it suits.
func (t *layout) writeForm(c *timeColumn) timeform.Form {
	if f := c.known(); f != nil {
		return *f
	}
	// What a policy keeps must be as fine as its waits, and be read again: what a column
	// of text makes of a number is in no form.
	f := cmp.Or(t.formSource, t.inserted).known()
	if f != nil && !(c.policyTime && (f.Coarse() || c.column.Class == db.Textual && f.Numeric())) {
		return *f
	}
	if f == nil && slices.Contains([]db.Class{db.Integer, db.Real}, c.column.Class) {
		return timeform.Seconds // for the proof: rows come before settlements
	}
	return timeform.Standard(c.zone)
}

// long returns the long form of the setting about the column, with what else is
// to stand there.
func (c *timeColumn) longForm(rest string) string {
	if c.setting == "" {
		return "`" + rest + "`"
	}
	return c.setting + ": {column: " + mapping.InYAML(c.name) + ", " + rest + "}"
}

// sampleRows is how many rows are read from each end of the table to find out
// the form of its times.
const sampleRows = 200

// ProveTimes finds out the form of every time column whose form was not given
// and makes sure that its rows can be read. Where a type has no zone, the mapping
// says none and the database is in another one than UTC, that is a note; with a
// dead status it is a *Problem, since new rows may be taken for old ones. All that
// is found is returned. A table that is only read can be read in spite of it.
func (t *Table) ProveTimes(ctx context.Context, now time.Time) error {
	raws, err := t.sampleAll(ctx)
	if err != nil {
		return err
	}
	var all db.Problems
	for i, tc := range t.times {
		err := tc.proveForm(raws[i])
		most, some := timeform.MostCommon(raws[i], tc.zone)
		if p := (*Problem)(nil); tc.written && errors.As(err, &p) {
			t.Notef("%s: times that are written there get the form of %s", p.What, t.inserted.name)
		} else if err != nil && !some && t.isFilter(tc) && tc.known() == nil {
			t.Notef("%s: such rows are left alone", errors.Unwrap(err))
		} else if err != nil {
			if all.List = append(all.List, err); tc.known() == nil && some && t.db.Write == nil {
				tc.setForm(most, false) // the others cannot be read
			}
			continue
		}
		if tc.role != insertionTime || tc.known() == nil {
			continue
		}
		var wrong []error
		for _, raw := range raws[i] {
			if _, err := tc.readInsertion(raw, now, t.mayBeFuture()); err != nil {
				wrong = append(wrong, err)
			}
		}
		if len(wrong)*2 > len(raws[i]) {
			all.List = append(all.List, problem("say with "+tc.longForm("as: …, zone: …")+" how it is to be read",
				"%d of %d rows looked at have no date that can be right: %v", len(wrong), len(raws[i]), wrong[0]))
		}
	}
	if all.List == nil {
		return t.proveZone()
	}
	return &all
}

// isFilter reports whether a page has other rows, too, where the form of the column is
// not known.
func (t *layout) isFilter(c *timeColumn) bool {
	return (c == t.eligible || c == t.expires) && c != t.inserted && !c.policyTime
}

// sampleAll returns what the time columns hold at both ends of the table.
func (t *Table) sampleAll(ctx context.Context) (raws [][]any, err error) {
	raws = make([][]any, len(t.times))
	for _, descending := range []bool{false, true} {
		n, err := t.sampleTimes(ctx, t.times, selectQuery{where: allOf(t.where.cond), orderBy: t.key, descending: descending}, raws)
		if err != nil {
			return nil, err
		}
		if n < sampleRows {
			break // these were all of them
		}
	}
	return raws, nil
}

// relearn finds out the forms anew, as the next start would: since then most rows may have
// another one.
func (t *Table) relearnForms(ctx context.Context) error {
	raws, err := t.sampleAll(ctx)
	if err != nil {
		return err
	}
	for i, tc := range t.times {
		if f, ok, err := timeform.Detect(raws[i], tc.zone); ok && err == nil && !tc.formGiven && tc.known() != nil {
			tc.setForm(f, false)
		}
	}
	return nil
}

// mayBeFuture reports whether dates of insertion in the future are normal: the
// column says when a record is to be processed.
func (t *layout) mayBeFuture() bool {
	return t.eligible != nil && t.eligible.name == t.inserted.name || t.inserted.role != insertionTime
}

// sampleTimes adds to raws what the columns hold in the first rows of the query, and returns
// how many rows there were.
func (t *Table) sampleTimes(ctx context.Context, cols []*timeColumn, q selectQuery, raws [][]any) (int, error) {
	q.columns = lists.Map(cols, func(tc *timeColumn) string { return t.text.AsStored(tc.quoted) })
	q.from = t.name
	q.limit = sampleRows
	text, args := q.sql()
	rows, err := db.QueryValues(ctx, t.db, text, args, len(cols))
	for _, row := range rows {
		for i, v := range row {
			if v = cols[i].sampled(t.database.Value(cols[i].column, v)); v != nil && !timeform.IsZero(v) {
				raws[i] = append(raws[i], v)
			}
		}
	}
	return len(rows), err
}

// prove learns the form from raw values, if they show one, or compares them with the
// known one: three quarters of them must be of the form. The rows of the others are
// reported when they are met.
func (c *timeColumn) proveForm(raws []any) error {
	if known := c.known(); known != nil {
		bad := slices.DeleteFunc(slices.Clone(raws), func(raw any) bool {
			_, err := known.Parse(raw)
			return err == nil
		})
		if !timeform.IsEnough(len(raws)-len(bad), len(raws)) {
			_, err := known.Parse(bad[0])
			return problem("mend `as:`", "column %s is not as configured: %v", c.name, err)
		}
	} else {
		f, ok, err := timeform.Detect(raws, c.zone)
		if err != nil {
			return problem("say which it is with "+c.longForm("as: …")+", or mend the rows", "column %s: %v", c.name, err)
		}
		if ok {
			c.setForm(f, false)
		}
	}
	if f := c.known(); f != nil && f.Coarse() && c.policyTime {
		return problem("name another under columns: of the policy, which `backlog init` adds",
			"policy: column %s holds times as %s, which does not tell one second from the next: waits would be lost", c.name, f)
	}
	return nil
}

// discover finds out the form of the column, if there is one, from pending rows of the lanes, none named: of
// all, for a table that was empty before.
func (t *Table) discoverForm(ctx context.Context, col *timeColumn, lanes ...backlog.Lane) error {
	if col == nil || col.known() != nil {
		return nil
	}
	raws := make([][]any, 1)
	for _, b := range t.states {
		if len(lanes) > 0 && !slices.Contains(lanes, b.lane) {
			continue
		}
		conds := t.inState(b)
		conds.add(col.quoted+" IS NOT NULL", nil)
		if _, err := t.sampleTimes(ctx, []*timeColumn{col}, selectQuery{where: conds}, raws); err != nil {
			return err
		}
	}
	err := col.proveForm(raws[0])
	if _, some := timeform.MostCommon(raws[0], col.zone); !some && t.isFilter(col) {
		return nil // such rows are left alone
	}
	return err
}

// TimeForms says in which form each time column is held.
func (t *layout) TimeForms() []string {
	return lists.Map(t.times, func(tc *timeColumn) string {
		if f := tc.known(); f != nil {
			return tc.name + ": " + f.String()
		}
		return tc.name + ": not known yet: there is no row that shows it"
	})
}

// Moment returns the moment that a value of a column stands for, false where that is not known:
// the table's own time columns say it, and types that have a zone.
func (t *layout) Moment(name string, value any) (at time.Time, ok bool) {
	text, ok := value.(string)
	if !ok {
		return at, false
	}
	form := t.formOf(name)
	if form == nil {
		return at, false
	}
	at, err := form.Parse(text)
	return at, err == nil
}

// formOf returns the form of a column's times, nil where it is not known.
func (t *layout) formOf(name string) *timeform.Form {
	for _, own := range t.times {
		if own.name == name {
			return own.known()
		}
	}
	for _, c := range t.columns {
		if c.Name == name && c.Time != nil && (c.Time.Moment || c.Time.Suffix != "") {
			return new(timeform.Server(*c.Time))
		}
	}
	return nil
}

// proveZone looks for a column whose times are read in a zone that nobody has
// named, while others who write there are in another one: an hour west of it
// makes a new row an hour old. That is a note, or a *Problem where a row becomes
// dead for its age.
func (t *Table) proveZone() error {
	zone, isAssumed := t.catalog.SessionZone, func(c *timeColumn) bool { return c.assumed && !c.written && c.known() != nil && c.known().Zoneless() }
	i := slices.IndexFunc(t.times, isAssumed)
	if i < 0 || zone == "" {
		return nil
	}
	yaml := "`timezone: " + zone + "`"
	if !strings.Contains(zone, "/") { // -05:00, EST
		yaml = "`timezone:` and the name of that zone, such as America/New_York,"
	}
	p := &Problem{
		What: fmt.Sprintf("column %s: %s has no zone and is read as %v, but the database is in the zone %s", t.times[i].name, t.times[i].column.Decl, t.times[i].zone, zone),
		Hint: "write " + yaml + " if its times are written in that one, or `timezone: UTC` if they are in UTC",
	}
	if t.HasDead() {
		return p
	}
	t.Notef("%v", p)
	return nil
}

func (r *resolver) timeColumns() {
	for _, x := range []struct {
		setting string
		role    timeRole
		spec    *mapping.Time
		to      **timeColumn
	}{
		{"table.inserted", insertionTime, &r.t.m.Inserted, &r.t.inserted},
		{"table.eligible", otherTime, r.t.m.Eligible, &r.t.eligible},
		{"table.expires", expiryTime, r.t.m.Expires, &r.t.expires},
	} {
		if x.spec == nil {
			continue
		}
		c := r.column(x.setting, x.spec.Column)
		tc := &timeColumn{name: c.Name, quoted: r.t.text.Quote(c.Name), setting: x.setting, role: x.role, spec: *x.spec}
		r.t.setZone(tc, c, cmp.Or(x.spec.Zone, r.t.m.Zone))
		switch {
		case x.spec.As == "" || tc.known() != nil && x.spec.As == "native":
		case x.spec.As == "native":
			r.refuse("leave it out", "%s: as: column %s is %s, which is no type for times", x.setting, c.Name, c.Decl)
		case tc.known() != nil:
			r.refuse("leave it out", "%s: as: column %s is %s, whose times are read as what they are", x.setting, c.Name, c.Decl)
		default:
			f, err := timeform.Parse(x.spec.As, tc.zone)
			if err != nil {
				r.refuse("mend `as:`", "%s: as: %v", x.setting, err)
				return
			}
			if c.Class == db.Textual && f.Numeric() {
				r.refuse("name a column of numbers, such as a generated one", "%s: as: column %s is %s, and texts of numbers do not sort by time", x.setting, c.Name, c.Decl)
			}
			tc.setForm(f, c.Class == db.Real)
			tc.formGiven = true
		}
		*x.to = tc
		r.t.times = append(r.t.times, tc)
	}
}

// timeOf returns the time column of that name, a new one if no setting has
// said more about it.
func (t *layout) timeOf(c *column) *timeColumn {
	if i := slices.IndexFunc(t.times, func(tc *timeColumn) bool { return tc.name == c.Name }); i >= 0 {
		return t.times[i]
	}
	tc := &timeColumn{name: c.Name, quoted: t.text.Quote(c.Name), written: true}
	t.setZone(tc, c, t.m.Zone)
	t.times = append(t.times, tc)
	return tc
}

// readIn sets the zone of the column and, if its type says it, the form. A zone
// of nil is that which nobody has named.
func (t *layout) setZone(tc *timeColumn, c *column, zone *time.Location) {
	tc.column = c
	tc.zone, tc.assumed = cmp.Or(zone, time.UTC), zone == nil
	if c.Time != nil {
		f := *c.Time
		f.Zone = cmp.Or(f.Zone, tc.zone)
		tc.setForm(timeform.Server(f), false)
		tc.formGiven = true
	}
}
