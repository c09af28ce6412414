package table

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table/db"
	"backlog/backlog/table/timeform"
)

// A timeCol is a column that holds times, and the form in which it holds them
// once that is known.
type timeCol struct {
	column       *column
	name, quoted string
	setting      string // whose long form says more about it; "" where none does
	zone         *time.Location
	assumed      bool         // nobody has named the zone
	spec         mapping.Time // what the setting says; zero where there is none
	written      bool         // only written, never read
	policys      bool         // the policy keeps a time in it
	at           int          // where it stands among the columns of a page, if it is read
	form         atomic.Pointer[timeform.Form]
}

// sample returns a value as something to tell a form by: a decimal is kept as
// text so that no digit is lost, but it is no text.
func (c *timeCol) sample(v any) any {
	if s, ok := v.(string); ok && c.column.Class == db.Real {
		if f, ok := db.ParseDecimal(s); ok {
			return f
		}
	}
	return v
}

// missing reports whether the value is no date, and what that means: skip, oldest
// or newest.
func (c *timeCol) missing(raw any) (means string, missing bool) {
	if raw == nil {
		return c.spec.Null, true
	}
	return c.spec.Zero, timeform.IsZero(raw)
}

func (c *timeCol) set(f timeform.Form, fine bool) {
	f = f.Held(c.column.High, fine)
	c.form.Store(&f)
}

// known returns the form, or nil while no row has shown it.
func (c *timeCol) known() *timeform.Form { return c.form.Load() }

// parse returns the time that raw stands for in the known form.
func (c *timeCol) parse(raw any) (time.Time, error) {
	at, err := c.known().Parse(raw)
	if err != nil {
		err = fmt.Errorf("column %s: %w", c.name, err)
	}
	return at, err
}

// in returns the time that the row has in the column, if there is one; zero: none, or in a
// form that is not known yet, since the row is the first of its kind.
func (c *timeCol) in(row []any) (time.Time, error) {
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
const futureMost = time.Hour

// read returns the time of insertion that raw stands for, or why it cannot be
// one.
func (c *timeCol) read(raw any, now time.Time, future bool) (time.Time, error) {
	at, err := c.parse(raw)
	if err != nil {
		return time.Time{}, err
	}
	if at.Before(timeform.First) || !at.Before(timeform.End) {
		return time.Time{}, fmt.Errorf("column %s: %v read as %v lies in the year %d: is that how it is to be read?", c.name, raw, c.known(), at.UTC().Year())
	}
	if ahead := at.Sub(now); ahead > futureMost && !future {
		return time.Time{}, fmt.Errorf("column %s: %v read as %v is %s ahead of the clock: is it written in another zone than %v?", c.name, raw, c.known(), timeform.Roughly(ahead), c.zone)
	}
	return at, nil
}

// earliest is the bound below which no date is believed: a zero date, or what
// is no date at all, is not old.
func (c *timeCol) earliest() any { return c.known().Lower(timeform.First) }

// writeForm returns the form in which a time is written to the column: its
// own, as its rows show it, else the form of the column of insertion if it suits.
func (t *layout) writeForm(c *timeCol) timeform.Form {
	if f := c.known(); f != nil {
		return *f
	}
	from := t.inserted
	if t.refresh != nil {
		from = t.retry.next
	}
	// What a policy keeps must be as fine as its waits, and be read again: what a column
	// of text makes of a number is in no form.
	f := from.known()
	if f != nil && !(c.policys && (f.Coarse() || c.column.Class == db.Textual && f.Numeric())) {
		return *f
	}
	if f == nil && slices.Contains([]db.Class{db.Integer, db.Real}, c.column.Class) {
		return timeform.Seconds // for the proof: rows come before settlements
	}
	return timeform.Standard(c.zone)
}

// long returns the long form of the setting about the column, with what else is
// to stand there.
func (c *timeCol) long(rest string) string {
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
	raws := make([][]any, len(t.times))
	for _, dir := range []string{" ASC", " DESC"} {
		rest := fmt.Sprint(db.Prefixed(" WHERE ", t.where.cond), " ORDER BY ", strings.Join(t.key, dir+", "), dir, " LIMIT ", sampleRows)
		n, err := t.sampleTimes(ctx, t.times, rest, raws)
		if err != nil {
			return err
		}
		if n < sampleRows {
			break // these were all of them
		}
	}
	var all db.Problems
	for i, tc := range t.times {
		err := tc.prove(raws[i])
		if p := (*Problem)(nil); tc.written && errors.As(err, &p) {
			t.Notef("%s: times that are written there get the form of %s", p.What, t.inserted.name)
		} else if err != nil {
			if all.List = append(all.List, err); tc.known() == nil && t.db.Write == nil {
				tc.prove(raws[i][:1]) // the others cannot be read
			}
			continue
		}
		if tc != t.inserted || tc.known() == nil {
			continue
		}
		var wrong []error
		for _, raw := range raws[i] {
			if _, err := tc.read(raw, now, t.mayBeFuture()); err != nil {
				wrong = append(wrong, err)
			}
		}
		if len(wrong)*2 > len(raws[i]) {
			all.List = append(all.List, problem("say with "+tc.long("as: …, zone: …")+" how it is to be read",
				"%d of %d rows looked at have no date that can be right: %v", len(wrong), len(raws[i]), wrong[0]))
		}
	}
	if all.List == nil {
		return t.proveZone()
	}
	return &all
}

// mayBeFuture reports whether dates of insertion in the future are normal: the
// column says when a record is to be processed.
func (t *layout) mayBeFuture() bool {
	return t.eligible != nil && t.eligible.name == t.inserted.name || t.refresh != nil
}

// sampleTimes adds to raws what the columns hold in the rows that rest selects, and
// returns how many rows there were.
func (t *Table) sampleTimes(ctx context.Context, cols []*timeCol, rest string, raws [][]any) (int, error) {
	exprs := db.Mapped(cols, func(tc *timeCol) string { return t.text.AsStored(tc.quoted) })
	rows, err := db.Values(ctx, t.db, "SELECT "+strings.Join(exprs, ", ")+" FROM "+t.name+rest, nil, len(cols))
	for _, row := range rows {
		for i, v := range row {
			if v = cols[i].sample(t.d.Value(cols[i].column, v)); v != nil && !timeform.IsZero(v) {
				raws[i] = append(raws[i], v)
			}
		}
	}
	return len(rows), err
}

// prove learns the form from raw values, if they show one. A few that are no times
// at all are not counted: their rows are reported when they are met.
func (c *timeCol) prove(raws []any) error {
	known := c.known()
	isBad := func(raw any) bool {
		_, _, err := timeform.Detect([]any{raw}, c.zone)
		if known != nil {
			_, err = known.Parse(raw)
		}
		return err != nil
	}
	good := slices.DeleteFunc(slices.Clone(raws), isBad)
	bad := slices.DeleteFunc(slices.Clone(raws), func(raw any) bool { return !isBad(raw) })
	wrong := len(bad) > len(good)
	if wrong {
		good = bad
	}
	if known == nil {
		f, ok, err := timeform.Detect(good, c.zone)
		if err != nil {
			return problem("say which it is with "+c.long("as: …")+", or mend the rows", "column %s: %v", c.name, err)
		}
		if ok {
			c.set(f, false)
		}
	} else if wrong {
		_, err := known.Parse(bad[0])
		return problem("mend `as:`", "column %s is not as configured: %v", c.name, err)
	}
	if f := c.known(); f != nil && f.Coarse() && c.policys {
		return problem("name another under columns: of the policy, which `backlog init` adds",
			"policy: column %s holds times as %s, which does not tell one second from the next: waits would be lost", c.name, f)
	}
	return nil
}

// discover finds out the form of the column from pending rows of the lanes, none named: of
// all, for a table that was empty before.
func (t *Table) discover(ctx context.Context, col *timeCol, lanes ...backlog.Lane) error {
	if col.known() != nil {
		return nil
	}
	raws := make([][]any, 1)
	for _, b := range t.branches {
		if len(lanes) > 0 && !slices.Contains(lanes, b.lane) {
			continue
		}
		conds := append(t.pending(b), col.quoted+" IS NOT NULL")
		if _, err := t.sampleTimes(ctx, []*timeCol{col}, fmt.Sprint(" WHERE ", strings.Join(conds, " AND "), " LIMIT ", sampleRows), raws); err != nil {
			return err
		}
	}
	return col.prove(raws[0])
}

// TimeForms says in which form each time column is held.
func (t *layout) TimeForms() []string {
	return db.Mapped(t.times, func(tc *timeCol) string {
		if f := tc.known(); f != nil {
			return tc.name + ": " + f.String()
		}
		return tc.name + ": not known yet: there is no row that shows it"
	})
}

// proveZone looks for a column whose times are read in a zone that nobody has
// named, while others who write there are in another one: an hour west of it
// makes a new row an hour old. That is a note, or a *Problem where a row becomes
// dead for its age.
func (t *Table) proveZone() error {
	zone, isAssumed := t.catalog.Zone, func(c *timeCol) bool { return c.assumed && !c.written && c.known() != nil && c.known().Zoneless() }
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
		spec    *mapping.Time
		to      **timeCol
	}{
		{"table.inserted", &r.t.m.Inserted, &r.t.inserted},
		{"table.eligible", r.t.m.Eligible, &r.t.eligible},
		{"table.expires", r.t.m.Expires, &r.t.expires},
	} {
		if x.spec == nil {
			continue
		}
		c := r.column(x.setting, x.spec.Column)
		tc := &timeCol{name: c.Name, quoted: r.t.text.Quote(c.Name), setting: x.setting, spec: *x.spec}
		r.t.readIn(tc, c, cmp.Or(x.spec.Zone, r.t.m.Zone))
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
			tc.set(f, c.Class == db.Real)
		}
		*x.to = tc
		r.t.times = append(r.t.times, tc)
	}
}

// timeOf returns the time column of that name, a new one if no setting has
// said more about it.
func (t *layout) timeOf(c *column) *timeCol {
	if i := slices.IndexFunc(t.times, func(tc *timeCol) bool { return tc.name == c.Name }); i >= 0 {
		return t.times[i]
	}
	tc := &timeCol{name: c.Name, quoted: t.text.Quote(c.Name), written: true}
	t.readIn(tc, c, t.m.Zone)
	t.times = append(t.times, tc)
	return tc
}

// readIn sets the zone of the column and, if its type says it, the form. A zone
// of nil is that which nobody has named.
func (t *layout) readIn(tc *timeCol, c *column, zone *time.Location) {
	tc.column = c
	tc.zone, tc.assumed = cmp.Or(zone, time.UTC), zone == nil
	if c.Time != nil {
		f := *c.Time
		f.Zone = cmp.Or(f.Zone, tc.zone)
		tc.set(timeform.Server(f), false)
	}
}

// settings name the place in the file from which an outcome's status comes.
var settings = map[backlog.RowState]string{
	backlog.RowNew:     "statuses.new",
	backlog.RowSuccess: "statuses.success",
	backlog.RowError:   "statuses.error",
	backlog.RowDead:    "statuses.dead",
}

// targets are the outcomes of all states, for statements that need no row.
func (t *layout) targets(now time.Time) (list []Write) {
	if t.refresh != nil {
		return t.refreshTargets(now)
	}
	for i := range t.branches {
		failed := backlog.Failures{Count: 1, Last: now}
		again := backlog.Failures{Count: 1, Last: now, Next: now}
		for _, s := range []backlog.Settlement{
			{Target: backlog.RowSuccess}, {Target: backlog.RowError, Failures: again},
			{Target: backlog.RowDead, Failures: again}, {Target: backlog.RowDead, Failures: failed},
		} {
			s.Record, s.At = &backlog.Record{Origin: i}, now
			if x := t.update(t.workOf(&s)); x.Text != "" && !slices.ContainsFunc(list, func(y Write) bool { return y.Text == x.Text }) {
				list = append(list, x)
			}
		}
	}
	return list
}

// Shown says what is set, for people: long values by their beginning.
func (w *Write) Shown(d *db.Text) string {
	const most = 40
	set, args := slices.Clone(w.set), w.Args
	for i := range set {
		if a := &set[i]; a.expr == "?" {
			a.expr, args = d.Literal(args[0]), args[1:]
			if len(a.expr) > most {
				a.expr = a.expr[:most] + "…'"
			}
		}
	}
	return setText(set)
}

// Prove proves, as far as that is possible without writing, that the table can be
// worked: the times can be read, and what would be written is legal. Until it has
// succeeded no record must be handed out.
func (t *Table) Prove(ctx context.Context, now time.Time) error {
	if err := t.ProveTimes(ctx, now); err != nil {
		return fmt.Errorf("table %s: %w", t.m.Name, err)
	}
	if t.db.Write == nil {
		return nil
	}
	if err := t.db.CheckRights(ctx); err != nil {
		return err
	}
	return t.ProveWrites(ctx, now)
}

// ProveWrites proves what can be without writing to a row: the database
// understands the statements with the triggers and constraints that belong to
// them, and the statuses are of their columns' domains. It comes after ProveTimes,
// in whose forms times are written. All else is the trial write's to find out, see
// [Table.Try].
func (t *Table) ProveWrites(ctx context.Context, now time.Time) error {
	return t.db.Within(ctx, func(ctx context.Context) error {
		for _, x := range t.targets(now) {
			if err := t.db.Plan(ctx, t.text.Place(x.Text), len(x.Args)+len(t.key)); err != nil {
				return t.Untaken(settings[x.target], x, err)
			}
			for _, a := range x.set {
				c := t.quotedColumn(a.col)
				if c.Domain == "" || a.expr == "?" || strings.Contains(a.expr, a.col) {
					continue
				}
				if _, err := db.Texts(ctx, t.db.Read, "SELECT CAST(CAST("+a.expr+" AS "+c.Domain+") AS text)"); err != nil {
					return t.Untaken(settings[x.target], x, err)
				}
			}
		}
		return nil
	})
}

// Try is the method that [backlog.Store] names: the settlement is written with its own statement
// and rolled back, so that the database itself judges constraints, triggers,
// rights and what the columns hold. The error's text is as long as its column is.
func (t *Table) Try(ctx context.Context, s backlog.Settlement) error {
	if c := t.errCol; c != nil {
		if n := cmp.Or(c.Length, c.Octets); n > 0 {
			s.Error = strings.Repeat("x", min(n, 64<<10))
		}
	}
	x := t.update(t.workOf(&s))
	if x.Text == "" || t.catalog.Engine != "" { // which has no transactions: nothing could be rolled back
		return nil
	}
	return t.Undone(ctx, func(ctx context.Context, tx *sql.Tx) error { return t.try(ctx, tx, x, s.Record) })
}

// Undone calls f in a transaction that is undone.
func (t *Table) Undone(ctx context.Context, f func(context.Context, *sql.Tx) error) error {
	err := t.db.Within(ctx, func(ctx context.Context) error {
		return t.InTx(ctx, func(tx *sql.Tx) error {
			for _, text := range t.text.Trial {
				if _, err := tx.ExecContext(ctx, text); err != nil {
					return err
				}
			}
			return cmp.Or(f(ctx, tx), ErrUndo)
		})
	})
	if p := (*Problem)(nil); err != nil && t.db.Write != t.db.Read && errors.As(t.db.CheckRights(ctx), &p) {
		return p // it is a file, which cannot be opened to be written to
	}
	return err
}

// try tries the settlement in a transaction that its caller undoes: the row is
// locked as it was read, the outcome written, and the row judged as it stands then.
func (t *Table) try(ctx context.Context, tx *sql.Tx, x Write, r *backlog.Record) error {
	find, key := t.lockText(x.work)
	switch rows, err := db.Texts(ctx, tx, t.text.Place(find+t.text.NoWait), key...); {
	case t.db.Class(err) == db.Busy && t.text.NoWait != "":
		return fmt.Errorf("%w: row %v", backlog.ErrLocked, r.Key)
	case err != nil:
		return t.Untaken(settings[x.target], x, err)
	case len(rows) == 0:
		return backlog.ErrConflict
	}
	n, err := db.Affected(tx.ExecContext(ctx, t.text.Place(x.Text), x.Args...))
	switch {
	case err != nil:
		return t.Untaken(settings[x.target], x, err)
	case n == 0:
		return t.Unchanged(settings[x.target])
	case n > 1:
		return t.kept(ctx, tx, x.work, n)
	}
	return t.stillPending(ctx, tx, x, r.Key)
}

// Untaken is the error of a trial that the database refused: what is set, and the place
// in the file that says so. What may pass is returned as it is.
func (t *Table) Untaken(place string, w Write, err error) error {
	class, shown := t.db.Class(err), w.Shown(t.text)
	said, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "ERROR: "), " (SQLSTATE ")
	switch {
	case t.db.MayPass(err):
		return err
	case class == db.Denied:
		return t.db.Explained(err)
	case class == db.Refused:
		return problem("change it to one that the table takes", "%s: table %s does not take %s: %s", place, t.m.Name, shown, said)
	}
	return problem("look at the table's triggers and constraints", "%s: %s cannot be set in table %s: %s", place, shown, t.m.Name, said)
}

// stillPending judges the row as the write has left it. The texts of two statuses
// can differ and be the same to the database: to a collation that takes 'New' for
// 'NEW', that knows no accents, or no spaces at the end.
func (t *Table) stillPending(ctx context.Context, tx *sql.Tx, x Write, key backlog.Key) error {
	text := "SELECT " + t.standingCase(strconv.Itoa) + " FROM " + t.name + " WHERE " + t.text.KeyIn(t.key, 1) + db.Prefixed(" AND ", t.where.cond)
	standing := len(t.branches) // of a row that the filter leaves out
	err := tx.QueryRowContext(ctx, t.text.Place(text), db.Bind(nil, key)...).Scan(&standing)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if standing >= len(t.branches) {
		return nil
	}
	fresh := t.branches[standing].lane == backlog.Fresh
	state := map[bool]string{true: "new", false: "in error"}[fresh]
	hint := "write what does not meet the condition of " + strings.TrimPrefix(state, "in ")
	record := map[backlog.RowState]string{backlog.RowSuccess: "record that succeeded", backlog.RowDead: "dead record"}[x.target]
	switch ends := x.target == backlog.RowSuccess || x.target == backlog.RowDead && t.HasDead(); {
	case ends && len(t.catalog.Triggers) > 0:
		return t.Unchanged(settings[x.target])
	case ends:
		return problem(hint, "%s: with %s a %s would still be %s to the database and be tried for ever", settings[x.target], x.Shown(t.text), record, state)
	case x.target != backlog.RowError || !fresh || t.OneLane():
	case t.retry != nil:
		return problem(hint, "statuses.error: with %s a failed record would still be new to the database and be tried at once", x.Shown(t.text))
	default:
		t.Notef("statuses.error is one of statuses.new to the database, with %s: failed records are not told from new ones, and age alone decides when they are tried", x.Shown(t.text))
	}
	return nil
}
