package table

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/table/db"
)

// settings name the place in the file from which an outcome's status comes.
var statusSettings = map[backlog.RowState]string{
	backlog.RowNew:     "statuses.new",
	backlog.RowSuccess: "statuses.success",
	backlog.RowError:   "statuses.error",
	backlog.RowDead:    "statuses.dead",
}

// targets implements [writer].
func (t batchWriter) targets(now time.Time) (list []batchUpdate) {
	for i := range t.states {
		failed := &backlog.Memory{Failures: 1, LastFailure: now}
		again := &backlog.Memory{Failures: 1, LastFailure: now, Next: now}
		for _, s := range []backlog.Settlement{
			{Target: backlog.RowSuccess}, {Target: backlog.RowError, Memory: again},
			{Target: backlog.RowDead, Memory: again}, {Target: backlog.RowDead, Memory: failed},
		} {
			s.Record, s.At = &backlog.Record{Origin: i}, now
			if x := t.rowUpdate(&s); x.text != "" && !slices.ContainsFunc(list, func(y batchUpdate) bool { return y.text == x.text }) {
				list = append(list, x)
			}
		}
	}
	return list
}

// shown says what is set, for people: long values by their beginning.
func (w *batchUpdate) shown(d *db.Text) string {
	const most = 40
	set, args := slices.Clone(w.set), w.args
	for i := range set {
		if a := &set[i]; a.expr == "?" {
			a.expr, args = d.Literal(args[0]), args[1:]
			if len(a.expr) > most {
				a.expr = a.expr[:most] + "…'"
			}
		}
	}
	return setSQL(set)
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
	return t.db.Do(ctx, func(ctx context.Context) error {
		for _, x := range t.writer.targets(now) {
			if err := t.db.Plan(ctx, t.text.Rebind(x.text), len(x.args)+len(t.key)); err != nil {
				return t.refusedWrite(statusSettings[x.target], x, err)
			}
			for _, a := range x.set {
				c := t.quotedColumn(a.column)
				if c.Domain == "" || a.expr == "?" || strings.Contains(a.expr, a.column) {
					continue
				}
				if _, err := db.QueryTexts(ctx, t.db.Read, "SELECT CAST(CAST("+a.expr+" AS "+c.Domain+") AS text)"); err != nil {
					return t.refusedWrite(statusSettings[x.target], x, err)
				}
			}
		}
		return nil
	})
}
