package table

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/table/db"
)

// A target is an outcome as it would be written to a row.
type target struct {
	work
	text  string // the statement; "" if there is nothing to write
	set   []assign
	args  []any  // what is set comes first
	shown string // that, with its values
}

// settings name the place in the file from which an outcome's status comes.
var settings = map[backlog.RowState]string{
	backlog.RowSuccess: "statuses.success",
	backlog.RowError:   "statuses.error",
	backlog.RowDead:    "statuses.dead",
}

func (t *layout) targetOf(s *backlog.Settlement) target {
	x := target{work: t.workOf(s)}
	x.text, x.args, x.set = t.update(x.work)
	x.shown = shownSet(t.text, x.set, x.args)
	return x
}

// targets are the outcomes of all states, for statements that need no row.
func (t *layout) targets(now time.Time) (list []target) {
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
			if x := t.targetOf(&s); x.text != "" && !slices.ContainsFunc(list, func(y target) bool { return y.text == x.text }) {
				list = append(list, x)
			}
		}
	}
	return list
}

// shownSet returns what is set with the values that are bound to it, long ones
// by their beginning.
func shownSet(d *db.Text, set []assign, args []any) string {
	const most = 40
	list := make([]string, len(set))
	for i, a := range set {
		expr := a.expr
		if expr == "?" {
			expr, args = d.Literal(args[0]), args[1:]
			if len(expr) > most {
				expr = expr[:most] + "…'"
			}
		}
		list[i] = a.col + " = " + expr
	}
	return strings.Join(list, ", ")
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
			if err := t.db.Plan(ctx, t.text.Place(x.text), len(x.args)+len(t.key)); err != nil {
				return t.Untaken(settings[x.target], x.shown, err)
			}
			for _, a := range x.set {
				c := t.quotedColumn(a.col)
				if c.Domain == "" || a.expr == "?" || strings.Contains(a.expr, a.col) {
					continue
				}
				if _, err := db.Texts(ctx, t.db.Read, "SELECT CAST(CAST("+a.expr+" AS "+c.Domain+") AS text)"); err != nil {
					return t.Untaken(settings[x.target], x.shown, err)
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
	x := t.targetOf(&s)
	if x.text == "" || t.catalog.Engine != "" { // which has no transactions: nothing could be rolled back
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
func (t *Table) try(ctx context.Context, tx *sql.Tx, x target, r *backlog.Record) error {
	switch n, err := t.lockRows(ctx, tx, x.work); {
	case t.db.Class(err) == db.Busy && t.text.LockRow != "":
		return fmt.Errorf("%w: row %v", backlog.ErrLocked, r.Key)
	case err != nil:
		return t.Untaken(settings[x.target], x.shown, err)
	case n == 0:
		return backlog.ErrConflict
	}
	n, err := db.Affected(tx.ExecContext(ctx, t.text.Place(x.text), x.args...))
	switch {
	case err != nil:
		return t.Untaken(settings[x.target], x.shown, err)
	case n == 0:
		return t.undone(x.batch)
	case n > 1:
		return t.kept(ctx, tx, x.work, n)
	}
	return t.stillPending(ctx, tx, x, r.Key)
}

// Untaken is the error of a trial that the database refused: what is set, and the place
// in the file that says so. What may pass is returned as it is.
func (t *Table) Untaken(place, shown string, err error) error {
	class := t.db.Class(err)
	said, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "ERROR: "), " (SQLSTATE ")
	switch {
	case class == db.Unavailable || class == db.Busy || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
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
func (t *Table) stillPending(ctx context.Context, tx *sql.Tx, x target, key backlog.Key) error {
	text := "SELECT " + t.standingCase() + " FROM " + t.name + " WHERE " + t.text.KeyIn(t.key, 1) + prefixed(" AND ", t.where.cond)
	standing := len(t.branches) // of a row that the filter leaves out
	if err := tx.QueryRowContext(ctx, t.text.Place(text), db.Bind(nil, key)...).Scan(&standing); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	state, still := "in error", standing < len(t.branches)
	fresh := still && t.branches[standing].lane == backlog.Fresh
	if fresh {
		state = "new"
	}
	hint := "write what does not meet the condition of " + strings.TrimPrefix(state, "in ")
	b := x.batch
	dead := b.target == backlog.RowDead && t.HasDead()
	switch {
	case still && (b.target == backlog.RowSuccess || dead) && len(t.catalog.Triggers) > 0:
		return t.undone(b)
	case still && b.target == backlog.RowSuccess:
		return problem(hint, "statuses.success: with %s a record that succeeded would still be %s to the database and be tried for ever", x.shown, state)
	case still && dead:
		return problem(hint, "statuses.dead: with %s a dead record would still be %s to the database and be tried for ever", x.shown, state)
	case b.target != backlog.RowError || !fresh || !t.failedLane:
	case t.retry != nil:
		return problem(hint, "statuses.error: with %s a failed record would still be new to the database and be tried at once", x.shown)
	default:
		t.note("statuses.error is one of statuses.new to the database, with %s: failed records are not told from new ones, and age alone decides when they are tried", x.shown)
	}
	return nil
}
