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
	"time"

	"backlog/backlog"
	"backlog/backlog/table/db"
)

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
