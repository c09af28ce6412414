package table

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
)

// A Selection says which dead and failed records are meant. The conditions
// that are given hold together; the zero Selection means all.
type Selection struct {
	Keys   []backlog.Key
	Status string    // the status as text, or "error" or "dead" where the table has no status column
	Before time.Time // inserted before; zero: at any time
}

// reset resolves what puts a record back to new.
func (r *resolver) reset() error {
	t, s := r.t, r.m.New
	if len(s.Values) == 0 && len(s.Set) == 0 {
		for _, c := range s.When {
			s.Set = append(s.Set, Assignment{Column: c.Column, Value: c.Values[0]})
		}
	}
	set, _, err := r.assigns("statuses.new", s)
	if err != nil {
		return nil // what cannot be written is only in the way of retry
	}
	also, err := r.touched(r.m.Touch)
	if err != nil {
		return err
	}
	t.resetSet = append(set, also...)
	if c := t.retry; c != nil {
		t.resetSet = append(t.resetSet, assign{col: c.count, expr: "0"})
		if c.next != nil {
			t.resetSet = append(append(t.resetSet, assign{col: c.next.quoted, expr: "NULL"}), c.done...)
		}
	}
	t.resetSet = onceEach(t.resetSet) // what new sets itself counts
	return nil
}

// CountReset returns how many records Reset would put back to new.
func (t *Table) CountReset(ctx context.Context, sel Selection) (n int, err error) {
	conds, args, err := t.resettable(sel)
	if err != nil {
		return 0, err
	}
	err = t.within(ctx, func(ctx context.Context) error {
		return t.db.read.QueryRowContext(ctx, t.d.place("SELECT count(*) FROM "+t.name+" WHERE "+strings.Join(conds, " AND ")), args...).Scan(&n)
	})
	return n, err
}

// Reset puts the dead and failed records of the selection back to new, as if
// they had never been tried, and returns how many. It writes them in groups:
// after an error some are done. A pass that works on one of them meanwhile
// finds it changed and leaves it so.
func (t *Table) Reset(ctx context.Context, sel Selection, now time.Time) (total int, err error) {
	conds, args, err := t.resettable(sel)
	if err != nil {
		return 0, err
	}
	var set []any
	for _, a := range t.resetSet {
		if a.time != nil {
			set = append(set, t.writeForm(a.time).write(now))
		}
	}
	var last backlog.Key
	for {
		var keys []backlog.Key
		var n int64
		err := t.within(ctx, func(ctx context.Context) (err error) {
			rows, err := t.rowsByKey(ctx, conds, args, last)
			keys = keys[:0]
			for _, row := range rows {
				keys = append(keys, t.keyOf(row))
			}
			if err != nil || len(keys) == 0 {
				return err
			}
			return t.inTx(ctx, func(tx *sql.Tx) error {
				all := slices.Concat(set, args)
				for _, k := range keys {
					all = bind(all, k)
				}
				res, err := tx.ExecContext(ctx, t.d.place("UPDATE "+t.name+" SET "+setText(t.resetSet)+" WHERE "+
					t.d.guard(strings.Join(conds, " AND "))+" AND "+t.d.keyIn(t.key, len(keys))), all...)
				if err != nil {
					return err
				}
				n, err = res.RowsAffected()
				return err
			})
		})
		if err != nil || len(keys) == 0 {
			return total, err
		}
		total += int(n)
		last = keys[len(keys)-1]
	}
}

// resettable returns the conditions for the dead and failed records of the
// selection.
func (t *Table) resettable(sel Selection) (conds []string, args []any, err error) {
	if len(t.resetSet) == 0 {
		return nil, nil, problem("say what a new record has, such as new: {when: …, set: …}", "statuses.new says no way back to new")
	}
	var or []string
	for _, b := range t.branches {
		if b.lane == backlog.Failed && (sel.Status == "" || t.status != "" || sel.Status == "error") {
			or = append(or, nonEmpty(b.cond, b.exhausted)...)
		}
	}
	if t.dead != "" && (sel.Status == "" || t.status != "" || sel.Status == "dead") {
		or = append(or, t.dead)
	}
	if len(or) == 0 {
		return nil, nil, problem("", "no record is dead, or failed and told from new ones, in table %s", t.m.Name)
	}
	conds = nonEmpty("(("+strings.Join(or, ") OR (")+"))", t.where)
	if sel.Status != "" && t.status != "" {
		v, err := t.catalog.find(t.m.Status, true).typed(Value{Text: sel.Status})
		if err != nil {
			return nil, nil, err
		}
		conds = append(conds, t.status+" = "+t.d.literal(v))
	}
	if !sel.Before.IsZero() {
		form := t.inserted.known()
		if form == nil {
			return []string{never}, nil, nil // no row has a date
		}
		conds, args = append(conds, t.inserted.quoted+" < ?", t.inserted.quoted+" >= ?"), append(args, form.exact(sel.Before), t.inserted.earliest())
	}
	if len(sel.Keys) > 0 {
		conds = append(conds, t.d.keyIn(t.key, len(sel.Keys)))
		for _, k := range sel.Keys {
			args = bind(args, k)
		}
	}
	return conds, args, nil
}
