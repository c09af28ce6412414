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

// statusSettings are the settings in the configuration file that say what each state is.
var statusSettings = map[backlog.RowState]string{
	backlog.RowNew:     "statuses.new",
	backlog.RowSuccess: "statuses.success",
	backlog.RowError:   "statuses.error",
	backlog.RowDead:    "statuses.dead",
	backlog.RowOther:   "a snooze",
}

// targets implements [writer].
func (t batchWriter) targets(now time.Time) (list []batchUpdate) {
	failed := &backlog.Memory{Failures: 1, LastFailure: now}
	planned := &backlog.Memory{Failures: 1, LastFailure: now, Next: now}
	outcomes := []backlog.Settlement{
		{Target: backlog.RowSuccess},
		{Target: backlog.RowError, Memory: planned},
		{Target: backlog.RowDead, Memory: planned},
		{Target: backlog.RowDead, Memory: failed},
	}
	for i := range t.states {
		for _, s := range outcomes {
			s.Record = &backlog.Record{Origin: i}
			s.At = now
			x := t.rowUpdate(&s)
			isListed := func(other batchUpdate) bool { return other.text == x.text }
			if x.text != "" && !slices.ContainsFunc(list, isListed) {
				list = append(list, x)
			}
		}
	}
	return list
}

// shown returns the SET clause with its values, for people. It cuts long values.
func (w *batchUpdate) shown(d *db.Text) string {
	const maxLength = 40
	set := slices.Clone(w.set)
	args := w.args
	for i := range set {
		a := &set[i]
		if a.keepsLater != nil {
			a.expr = "?" // as far as it shows what is written
			args = args[1:]
		}
		if a.expr != "?" {
			continue
		}
		a.expr = d.Literal(args[0])
		args = args[1:]
		if len(a.expr) > maxLength {
			a.expr = a.expr[:maxLength] + "…'"
		}
	}
	return setSQL(set)
}

// Prove checks the table without writing to it: its times can be read, and the database accepts
// the statements that write outcomes. No record may be handed out before Prove has succeeded.
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
	return t.CheckWriteStatements(ctx, now)
}

// CheckWriteStatements checks the statements that write outcomes without running them: the database can
// plan them with their triggers and constraints, and the statuses belong to the domains of
// their columns. Call [Table.ProveTimes] first, since times are written in the forms that it
// finds. What remains only a trial write can find out: see [Table.Try].
func (t *Table) CheckWriteStatements(ctx context.Context, now time.Time) error {
	return t.db.Do(ctx, func(ctx context.Context) error {
		for _, x := range t.writer.targets(now) {
			if err := t.db.Plan(ctx, t.text.Rebind(x.text), len(x.args)+len(t.key)); err != nil {
				return t.refusedWrite(statusSettings[x.target], x, err)
			}
			for _, a := range x.set {
				c := t.quotedColumn(a.column)
				isConstant := a.expr != "?" && !strings.Contains(a.expr, a.column)
				if c.Domain == "" || !isConstant {
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
