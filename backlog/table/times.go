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

// A timeColumn is a column that holds times, with the form of the times once it is known.
type timeColumn struct {
	column       *column
	name, quoted string
	setting      string // whose long form is about this column; "": no setting names it
	zone         *time.Location
	assumed      bool         // the zone is a default, not from the mapping
	spec         mapping.Time // of the setting; zero without a setting
	onlyWritten  bool         // only written, never read
	role         timeRole
	policyTime   bool // the policy keeps a time in it
	formGiven    bool // the type or the setting says the form: rows cannot change it
	at           int  // index in the columns of a page, if it is read
	form         atomic.Pointer[timeform.Form]
}

// A timeRole is what the times of a column mean. It decides which times are plausible.
type timeRole int

const (
	otherTime     timeRole = iota // any time
	insertionTime                 // when a record was inserted
	expiryTime                    // when a record expires
)

// sampled returns a value for the detection of the form. Decimals arrive as texts, so that no
// digit is lost, and become numbers here.
func (c *timeColumn) sampled(v any) any {
	if s, ok := v.(string); ok && c.column.Class == db.Real {
		if f, ok := db.ParseDecimal(s); ok {
			return f
		}
	}
	return v
}

// missing reports whether the date is missing, NULL or a zero date, and what that means according
// to the mapping: skip, oldest or newest.
func (c *timeColumn) missing(raw any) (means string, missing bool) {
	if raw == nil {
		return c.spec.Null, true
	}
	return c.spec.Zero, timeform.IsZero(raw)
}

// setForm sets the form, limited to what the column can hold. fine means that the column holds
// fractions.
func (c *timeColumn) setForm(f timeform.Form, fine bool) {
	f = f.Limited(c.column.Max, fine)
	c.form.Store(&f)
}

// knownForm returns the form, or nil while it is unknown, since no row has a time in the column.
func (c *timeColumn) knownForm() *timeform.Form { return c.form.Load() }

// parse returns the time of a value. The form must be known.
func (c *timeColumn) parse(raw any) (time.Time, error) {
	at, err := c.knownForm().Parse(raw)
	if err != nil {
		err = fmt.Errorf("column %s: %w", c.name, err)
	}
	return at, err
}

// timeIn returns the time that the row has in the column. It is zero if the time is missing or the
// form is unknown. c may be nil.
func (c *timeColumn) timeIn(row []any) (time.Time, error) {
	if c == nil || c.knownForm() == nil {
		return time.Time{}, nil
	}
	if _, missing := c.missing(row[c.at]); missing {
		return time.Time{}, nil
	}
	return c.parse(row[c.at])
}

// maxAhead is how far in the future a date of insertion may be. Clocks differ by less, wrong zones
// by more.
const maxAhead = time.Hour

// readInsertion returns the date of insertion for a value. The error says why the date is not
// plausible. mayBeFuture says that dates in the future are.
func (c *timeColumn) readInsertion(raw any, now time.Time, mayBeFuture bool) (time.Time, error) {
	at, err := c.parse(raw)
	if err != nil {
		return time.Time{}, err
	}
	if at.Before(timeform.First) || !at.Before(timeform.End) {
		return time.Time{}, fmt.Errorf("column %s: %v read as %v lies in the year %d: is that how it is to be read?", c.name, raw, c.knownForm(), at.UTC().Year())
	}
	if ahead := at.Sub(now); ahead > maxAhead && !mayBeFuture {
		return time.Time{}, fmt.Errorf("column %s: %v read as %v is %s ahead of the clock: is it written in another zone than %v?", c.name, raw, c.knownForm(), timeform.Roughly(ahead), c.zone)
	}
	return at, nil
}

// readExpiry returns the time of expiry for a value. A time before 1990 is an error, since
// [Table.Expire] does not trust it, unless it is the database's word for the infinite past.
func (c *timeColumn) readExpiry(raw any) (time.Time, error) {
	at, err := c.parse(raw)
	if err == nil && at.Before(timeform.First) && raw != timeform.Past {
		err = fmt.Errorf("column %s: %v read as %v lies in the year %d: is that how it is to be read?", c.name, raw, c.knownForm(), at.Year())
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

// beforeCut returns the condition for values before the cut, and its arguments.
func (t *layout) beforeCut(c *timeColumn, x timeform.Cut) (string, []any) {
	if x.Gap == nil {
		return c.quoted + " < ?", []any{x.Low}
	}
	filter := t.text.WithoutIndex(c.quoted + " < ? OR " + c.quoted + " >= ?")
	return "(" + c.quoted + " < ? AND " + filter + ")", []any{x.High, x.Low, x.Gap}
}

// inRanges returns the condition for values in one of the ranges, and its arguments. It excludes
// zero dates.
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

// withoutZeroDates returns the condition that one of the conditions is met, and that the value is
// not a zero date. It is "" if there are no conditions.
func (t *layout) withoutZeroDates(c *timeColumn, or conditions) (string, []any) {
	cond := or.any()
	zero := t.text.ZeroDate(c.column)
	if cond != "" && zero != "" {
		cond = "(" + cond + " AND NOT " + t.text.WithoutIndex(zero) + ")"
	}
	return cond, or.args
}

// unreadableTimes returns the condition for values that do not have the column's form, as far as
// patterns and comparisons show it. It is "" if every value has the form, or the form is unknown.
func (t *layout) unreadableTimes(c *timeColumn) (cond string, args []any) {
	form := c.knownForm()
	switch {
	case form == nil:
		return "", nil
	case form.Numeric():
		return t.inRanges(c, append(form.RangesBefore(timeform.First), form.RangesAfter(timeform.First)...)...)
	}
	var or conditions
	if c == t.expires { // an implausible time of expiry is an error, too
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

// pastTimes returns the condition for values before the bound, and its arguments. It excludes zero
// dates, implausible dates and unreadable values.
func (t *layout) pastTimes(c *timeColumn, bound time.Time) (string, []any) {
	form := t.writeForm(c)
	var conds conditions
	conds.add(t.beforeCut(c, form.Split(bound)))
	plausible, args := t.fromCut(c, form.Split(timeform.First))
	if c == t.expires && form.HasPast() {
		plausible = "(" + plausible + " OR " + c.quoted + " = " + t.text.Literal(timeform.Past) + ")"
	}
	conds.add(plausible, args)
	if unreadable, args := t.unreadableTimes(c); unreadable != "" {
		conds.add("NOT "+unreadable, args)
	}
	return conds.all(), conds.args
}

// writeForm returns the form in which a time is written to the column: its own form if it is
// known, otherwise the form of formSource or of the date of insertion if that fits.
func (t *layout) writeForm(c *timeColumn) timeform.Form {
	if f := c.knownForm(); f != nil {
		return *f
	}
	// The times of a policy and of a snooze must be precise, and must be readable: a number in a
	// column of texts is not.
	f := cmp.Or(t.formSource, t.inserted).knownForm()
	isNumberInText := f != nil && f.Numeric() && c.column.Class == db.Textual
	mustBePrecise := c.policyTime || c == t.eligible
	if f != nil && !(mustBePrecise && (f.Coarse() || isNumberInText)) {
		return *f
	}
	isNumber := c.column.Class == db.Integer || c.column.Class == db.Real
	if f == nil && isNumber {
		return timeform.Seconds // only for the proof: a settlement has read a row, so the form is known
	}
	return timeform.Standard(c.zone)
}

// longForm returns the long form of the setting about the column, with further settings.
func (c *timeColumn) longForm(rest string) string {
	if c.setting == "" {
		return "`" + rest + "`"
	}
	return c.setting + ": {column: " + mapping.InYAML(c.name) + ", " + rest + "}"
}

// sampleRows is how many rows are read from each end of the table to detect the form of its times.
const sampleRows = 200

// ProveTimes detects the form of every time column whose form was not given, and checks that its
// times can be read. It returns all problems. A table that is only read can be used in spite of
// them.
//
// If the type of a column has no zone, the mapping names none, and the database is in another
// zone than UTC, that is a note. With a dead status it is a *Problem, since new rows could be
// taken for old ones and die.
func (t *Table) ProveTimes(ctx context.Context, now time.Time) error {
	raws, err := t.sampleAll(ctx)
	if err != nil {
		return err
	}
	var all db.Problems
	for i, tc := range t.times {
		err := tc.proveForm(raws[i])
		mostCommon, hasForm := timeform.MostCommon(raws[i], tc.zone)
		var p *Problem
		if tc.onlyWritten && errors.As(err, &p) {
			t.Notef("%s: times that are written there get the form of %s", p.What, t.inserted.name)
		} else if err != nil && !hasForm && t.isFilter(tc) && tc.knownForm() == nil {
			t.Notef("%s: such rows are left alone", errors.Unwrap(err))
		} else if err != nil {
			all.List = append(all.List, err)
			if tc.knownForm() == nil && hasForm && t.db.Write == nil {
				tc.setForm(mostCommon, false) // rows with another form stay unreadable
			}
			continue
		}
		if tc.role != insertionTime || tc.knownForm() == nil {
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

// isFilter reports whether the column only filters the rows of a page, so that pages can be read
// while its form is unknown.
func (t *layout) isFilter(c *timeColumn) bool {
	return (c == t.eligible || c == t.expires) && c != t.inserted && !c.policyTime
}

// sampleAll returns values of the time columns from both ends of the table.
func (t *Table) sampleAll(ctx context.Context) (raws [][]any, err error) {
	raws = make([][]any, len(t.times))
	for _, descending := range []bool{false, true} {
		end := selectQuery{where: allOf(t.where.cond), orderBy: t.key, descending: descending}
		n, err := t.sampleTimes(ctx, t.times, end, raws)
		if err != nil {
			return nil, err
		}
		if n < sampleRows {
			break // these were all of them
		}
	}
	return raws, nil
}

// relearnForms detects the forms anew, as the next start would. Most rows may have another form by
// now.
func (t *Table) relearnForms(ctx context.Context) error {
	raws, err := t.sampleAll(ctx)
	if err != nil {
		return err
	}
	for i, tc := range t.times {
		if tc.formGiven || tc.knownForm() == nil {
			continue
		}
		tc.setDetectedForm(raws[i])
	}
	return nil
}

// setDetectedForm sets the form that most of the raw values have. If no form has enough of them, the
// column keeps its form.
func (c *timeColumn) setDetectedForm(raws []any) {
	f, ok, err := timeform.Detect(raws, c.zone)
	if ok && err == nil {
		c.setForm(f, false)
	}
}

// mayBeFuture reports whether dates of insertion in the future are plausible, since the column says
// when a record should be processed.
func (t *layout) mayBeFuture() bool {
	return t.eligible != nil && t.eligible.name == t.inserted.name || t.inserted.role != insertionTime
}

// sampleTimes appends to raws the values of the columns in the first rows of the query. It returns
// the number of rows.
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

// proveForm detects the form from raw values, or compares them with the known form. Three quarters
// of them must have the form. The other rows are reported when passes read them.
func (c *timeColumn) proveForm(raws []any) error {
	if known := c.knownForm(); known != nil {
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
	if f := c.knownForm(); f != nil && f.Coarse() && c.policyTime {
		return problem("name another under columns: of the policy, which `backlog init` adds",
			"policy: column %s holds times as %s, which does not tell one second from the next: waits would be lost", c.name, f)
	}
	return nil
}

// discoverForm detects an unknown form from pending rows of the lanes, by default of all lanes. col
// may be nil. It is for a table that was empty when it was opened.
func (t *Table) discoverForm(ctx context.Context, col *timeColumn, lanes ...backlog.Lane) error {
	if col == nil || col.knownForm() != nil {
		return nil
	}
	raws := make([][]any, 1)
	for _, state := range t.states {
		if len(lanes) > 0 && !slices.Contains(lanes, state.lane) {
			continue
		}
		conds := t.recordsWith(state.cond)
		conds.add(col.quoted+" IS NOT NULL", nil)
		if _, err := t.sampleTimes(ctx, []*timeColumn{col}, selectQuery{where: conds}, raws); err != nil {
			return err
		}
	}
	err := col.proveForm(raws[0])
	if _, hasForm := timeform.MostCommon(raws[0], col.zone); !hasForm && t.isFilter(col) {
		return nil // such rows are left alone, and reported
	}
	return err
}

// TimeForms returns a line for each time column that says its form.
func (t *layout) TimeForms() []string {
	return lists.Map(t.times, func(tc *timeColumn) string {
		if f := tc.knownForm(); f != nil {
			return tc.name + ": " + f.String()
		}
		return tc.name + ": not known yet: there is no row that shows it"
	})
}

// Moment returns the moment that a value of the named column means, and false if that is unknown. It
// is known for the time columns of the mapping, and for types with a zone.
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

// formOf returns the form of a column's times, nil if it is unknown.
func (t *layout) formOf(name string) *timeform.Form {
	for _, own := range t.times {
		if own.name == name {
			return own.knownForm()
		}
	}
	for _, c := range t.columns {
		if c.Name == name && c.Time != nil && (c.Time.Moment || c.Time.Suffix != "") {
			return new(timeform.Server(*c.Time))
		}
	}
	return nil
}

// proveZone looks for a column whose times are read as UTC by default, while the database is in
// another zone. Programs that write local times one hour west of UTC make a new row one hour old.
// That is a note, or a *Problem if records die of their age.
func (t *Table) proveZone() error {
	zone := t.catalog.SessionZone
	isAssumed := func(c *timeColumn) bool {
		return c.assumed && !c.onlyWritten && c.knownForm() != nil && c.knownForm().Zoneless()
	}
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

// timeColumns resolves the columns of table.inserted, table.eligible and table.expires.
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
		case x.spec.As == "" || tc.knownForm() != nil && x.spec.As == "native":
		case x.spec.As == "native":
			r.refuse("leave it out", "%s: as: column %s is %s, which is no type for times", x.setting, c.Name, c.Decl)
		case tc.knownForm() != nil:
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

// timeOf returns the time column for a column. It adds a new one that is only written, unless a
// setting has named the column.
func (t *layout) timeOf(c *column) *timeColumn {
	if i := slices.IndexFunc(t.times, func(tc *timeColumn) bool { return tc.name == c.Name }); i >= 0 {
		return t.times[i]
	}
	tc := &timeColumn{name: c.Name, quoted: t.text.Quote(c.Name), onlyWritten: true}
	t.setZone(tc, c, t.m.Zone)
	t.times = append(t.times, tc)
	return tc
}

// setZone sets the zone of the column, and its form if the type says it. The zone nil is UTC by
// default.
func (t *layout) setZone(tc *timeColumn, c *column, zone *time.Location) {
	tc.column = c
	tc.zone = cmp.Or(zone, time.UTC)
	tc.assumed = zone == nil
	if c.Time != nil {
		f := *c.Time
		f.Zone = cmp.Or(f.Zone, tc.zone)
		tc.setForm(timeform.Server(f), false)
		tc.formGiven = true
	}
}
