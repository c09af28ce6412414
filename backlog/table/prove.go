package table

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"backlog/backlog"
)

// sampleRows is how many rows are read from each end of the table to find out
// the form of its times.
const sampleRows = 200

// Prove reads some rows and proves, as far as that is possible without writing,
// that the table can be worked: the times can be read, and what would be
// written is legal. Until it has succeeded no record must be handed out. It
// returns what it understood of up to three rows.
func (t *Table) Prove(ctx context.Context, now time.Time) (samples []string, err error) {
	if err := t.ProveTimes(ctx, now); err != nil {
		return nil, err
	}
	if t.db.write != nil {
		if err := t.ProveWrites(ctx, now); err != nil {
			return nil, err
		}
	}
	return t.Samples(ctx, now)
}

// ProveTimes finds out the form of every time column whose form was not given
// and makes sure that its rows can be read. Where a type has no zone, the mapping
// says none and the database is in another one than UTC, that is a note; with a
// dead status it is a *Problem, since new rows may be taken for old ones.
func (t *Table) ProveTimes(ctx context.Context, now time.Time) error {
	if err := t.proveForms(ctx, now); err != nil {
		return err
	}
	return t.proveZone(ctx)
}

func (t *Table) proveForms(ctx context.Context, now time.Time) error {
	var raws [][]any
	err := t.within(ctx, func(ctx context.Context) error {
		raws = make([][]any, len(t.times))
		for _, dir := range []string{"ASC", "DESC"} {
			n, err := t.sampleTimes(ctx, dir, raws)
			if err != nil || n < sampleRows {
				return err // these were all of them
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, tc := range t.times {
		err := tc.prove(raws[i])
		if p := (*Problem)(nil); tc.written && errors.As(err, &p) {
			t.note("%s: times that are written there get the form of %s", p.What, t.inserted.name)
		} else if err != nil {
			return err
		}
		if err := t.proveStep(tc); err != nil {
			return err
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
			return problem("say with "+tc.long("as: …, zone: …")+" how it is to be read", "%d of %d rows looked at have no date that can be right: %v", len(wrong), len(raws[i]), wrong[0])
		}
	}
	return nil
}

// mayBeFuture reports whether dates of insertion in the future are normal: the
// column says when a record is to be processed.
func (t *Table) mayBeFuture() bool {
	return t.eligible != nil && t.eligible.name == t.inserted.name
}

// sampleTimes adds the values of the time columns at one end of the key and
// returns how many rows it has read.
func (t *Table) sampleTimes(ctx context.Context, dir string, raws [][]any) (n int, err error) {
	exprs := make([]string, len(t.times))
	for i, tc := range t.times {
		exprs[i] = t.d.raw(tc.quoted)
	}
	where := ""
	if t.where != "" {
		where = " WHERE " + t.where
	}
	rows, err := t.db.read.QueryContext(ctx, fmt.Sprintf("SELECT %s FROM %s%s ORDER BY %s %s LIMIT %d",
		strings.Join(exprs, ", "), t.name, where, strings.Join(t.key, " "+dir+", "), dir, sampleRows))
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for ; rows.Next(); n++ {
		row := make([]any, len(exprs))
		to := make([]any, len(row))
		for i := range row {
			to[i] = &row[i]
		}
		if err := rows.Scan(to...); err != nil {
			return n, err
		}
		for i, v := range row {
			v = t.times[i].sample(t, t.d.value(t.times[i].column(t), v))
			if v != nil && !isZeroDate(v) {
				raws[i] = append(raws[i], v)
			}
		}
	}
	return n, rows.Err()
}

// prove learns the form from raw values. A few that are no times at all are
// not counted: their rows are reported when they are met.
func (c *timeCol) prove(raws []any) error {
	var good, bad []any
	for _, raw := range raws {
		ok := false
		if f := c.known(); f != nil {
			_, err := f.parse(raw)
			ok = err == nil
		} else {
			_, _, err := detectTimeForm([]any{raw}, c.zone)
			ok = err == nil
		}
		if ok {
			good = append(good, raw)
		} else {
			bad = append(bad, raw)
		}
	}
	if len(bad) > len(good) {
		if f := c.known(); f != nil {
			_, err := f.parse(bad[0])
			return problem("mend `as:`", "column %s is not as configured: %v", c.name, err)
		}
		return c.learn(bad)
	}
	return c.learn(good)
}

// discover finds out the form of the column from pending rows, for a table
// that was empty before.
func (t *Table) discover(ctx context.Context, col *timeCol) error {
	var raws []any
	err := t.within(ctx, func(ctx context.Context) error {
		raws = nil
		for _, b := range t.branches {
			if b.lane == backlog.Fresh && t.retry != nil && col == t.retry.order() && col != t.inserted {
				continue // they have none, and to see that would take reading all of them
			}
			rows, err := t.db.read.QueryContext(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE %s AND %s IS NOT NULL LIMIT %d",
				t.d.raw(col.quoted), t.name, strings.Join(t.pending(b), " AND "), col.quoted, sampleRows))
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var raw any
				if err := rows.Scan(&raw); err != nil {
					return err
				}
				if raw = col.sample(t, t.d.value(col.column(t), raw)); !isZeroDate(raw) {
					raws = append(raws, raw)
				}
			}
			if err := rows.Err(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := col.prove(raws); err != nil {
		return err
	}
	return t.proveStep(col)
}

// ProveWrites proves that this user may write to the table, that the database
// understands the statements, with the triggers and constraints that belong to
// them, and that its rows take the states that settlements set.
func (t *Table) ProveWrites(ctx context.Context, now time.Time) error {
	if t.inserted.known() == nil { // times are tried as they will be written
		if err := t.ProveTimes(ctx, now); err != nil {
			return err
		}
	}
	return t.within(ctx, func(ctx context.Context) error {
		if err := t.d.mayWrite(ctx, t.db.write); err != nil {
			return err
		}
		writes := t.trialWrites(now)
		for _, w := range writes {
			if err := t.proveStatement(ctx, w); err != nil {
				return err
			}
		}
		return t.d.try(ctx, t.db.read, t, writes)
	})
}

// proveStatement proves that the statement can be run: a trigger may use what
// is not there, a constraint what only the program has that owns the table.
func (t *Table) proveStatement(ctx context.Context, w trialWrite) error {
	err := t.d.understood(ctx, t.db.write, t.d.place(w.text))
	switch {
	case err == nil || t.d.classify(err) != classOther:
		return err
	}
	if p := (*Problem)(nil); errors.As(t.d.explain(err), &p) {
		return p
	}
	return problem("look at the table's triggers and constraints", "%s: %s cannot be set in table %s: %v", w.setting, w.set, t.m.Name, err)
}

// Samples says how up to three pending rows are understood. It looks at some
// more: rows that cannot be read may come first.
func (t *Table) Samples(ctx context.Context, now time.Time) ([]string, error) {
	const most = 3
	var list []string
	for _, lane := range []backlog.Lane{backlog.Fresh, backlog.Failed} {
		q := backlog.Query{Lane: lane, Now: now, MaxAge: now.Sub(firstDate), Limit: 20}
		for more, pages := true, 0; more && len(list) < most && pages < 50; pages++ {
			p, err := t.Pending(ctx, q)
			if err != nil {
				return nil, err
			}
			for _, r := range p.Records {
				if len(list) < most && !r.Inserted.IsZero() {
					list = append(list, fmt.Sprintf("row %v: %s, %s", r.Key, r.Inserted.UTC().Format("2006-01-02 15:04:05 MST"), age(now.Sub(r.Inserted))))
				}
			}
			more, q.After = p.More, p.Next
		}
	}
	return list, nil
}

// TimeForms says in which form each time column is held.
func (t *Table) TimeForms() []string {
	var list []string
	for _, tc := range t.times {
		form := "not known yet: there is no row that shows it"
		if f := tc.known(); f != nil {
			form = f.String()
		}
		list = append(list, tc.name+": "+form)
	}
	return list
}

func age(d time.Duration) string {
	if d < 0 {
		return roughly(-d) + " ahead of the clock"
	}
	return roughly(d) + " old"
}

// roughly returns a duration as people say it.
func roughly(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d s", int(d.Seconds()))
}
