package table

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table/attempt"
	"backlog/backlog/table/db"
	"backlog/backlog/table/timeform"
)

// refresh finds the columns of the refresh policy, before others are given their times.
func (r *resolver) refresh() {
	policy := r.t.m.Policy
	if policy == nil || policy.Refresh == nil {
		return
	}
	var cols [len(mapping.RefreshColumns)]*column
	var rule *column
	for i := range cols {
		name, named := policy.RefreshColumn(i)
		if named || i <= mapping.AttemptNo || r.t.catalog.Find(name, r.t.text.FoldsNames) != nil {
			cols[i] = r.policyColumn(name)
		}
	}
	if policy.Rule != "" {
		rule = r.column("policy.refresh.rrule", policy.Rule)
	}
	if r.err == nil {
		r.t.refresh, r.err = attempt.New(r.t.text, cols, rule)
	}
}

// refreshLanes makes the lanes of the policy: both go by the next start, and the number
// of attempts tells them apart. Statuses do not matter to it.
func (r *resolver) refreshLanes() {
	t, c := r.t, r.t.refresh
	forms := make(map[int]*timeCol)
	for _, i := range append(slices.Clone(attempt.Times), mapping.Disabled) {
		if col := c.Column(i); col != nil && (i != mapping.Disabled || c.DisabledAt) {
			forms[i] = t.timeOf(col)
			forms[i].refresh = i != mapping.Disabled
			if forms[i].written { // no setting says more about it
				t.readIn(forms[i], col, t.inserted.zone)
				forms[i].written = i == mapping.Disabled
			}
		}
	}
	c.Form = func(i int) timeform.Form { return t.writeForm(forms[i]) }
	count, next := c.Column(mapping.AttemptNo), forms[mapping.RefreshAt]
	t.retry = &retryCols{count: r.t.text.Quote(count.Name), column: count, next: next, retries: -1}
	t.retry.ended = []assign{{col: next.quoted, expr: "?", time: next}} // of a row that is saved again
	for _, i := range []int{mapping.DeadlineAt, mapping.AttemptUID, mapping.DisabledReason, mapping.FailingSince, mapping.Disabled} {
		if c.Column(i) != nil {
			t.retry.ended = append(t.retry.ended, assign{col: c.Quoted(i), expr: map[bool]string{false: "NULL", true: c.Enabled}[i == mapping.Disabled]})
		}
	}
	t.branches = []branch{{lane: backlog.Fresh, label: "new", filter: filter{cond: c.Waiting}}}
	r.retryLanes()
	t.branches[1].label = "error"
	t.success, t.dead.cond = c.Finished, c.Disabled
}

// remember reads what the policy keeps in the row.
func (t *layout) remember(rec *backlog.Record, row []any) (err error) {
	switch {
	case t.refresh != nil:
		values := make([]any, len(t.sel.refresh))
		for i, at := range t.sel.refresh {
			values[i] = row[at]
		}
		rec.Refresh = new(backlog.Refresh)
		*rec.Refresh, err = t.refresh.Read(values)
	case t.retry != nil:
		rec.Failures, err = t.retry.read(row)
	}
	return err
}

// Refresh is where the refresh policy keeps what rows remember; nil: another policy.
func (t *layout) Refresh() *attempt.Columns { return t.refresh }

// RefreshWrite returns what the settlement writes to the row that has the state now, what
// differs from the state from, and what the row has then. An end writes a status: success where no further start is
// planned, dead where the row is disabled. RowNew and RowOther end no attempt.
func (t *layout) RefreshWrite(s *backlog.Settlement, from, now *backlog.Refresh) (w Write, left backlog.Refresh) {
	if says := s.Target == backlog.RowSuccess || s.Target == backlog.RowDead; says && !now.Disabled {
		was := *from // as far as the customer's text goes, which a worker may have changed meanwhile
		was.Reason, from = now.Reason, &was
	}
	w.work = work{batch: batch{target: s.Target}, rows: []*backlog.Settlement{s}, at: s.At}
	columns, values, left := t.refresh.Changes(from, s.Refresh, now, s.At)
	for i, v := range values {
		w.set = append(w.set, assign{col: columns[i], of: func(*backlog.Settlement) any { return v }})
	}
	a, shown := t.actions[s.Target%backlog.RowOther], s.Target
	if goesOn := !left.At.IsZero(); goesOn && shown == backlog.RowSuccess {
		shown = backlog.RowNew
	} else if goesOn && shown == backlog.RowDead {
		shown = backlog.RowError
	}
	if s.Target != backlog.RowNew && s.Target != backlog.RowOther {
		w.set = append(w.set, t.actions[shown].status...)
	}
	if len(w.set) == 0 {
		return w, left
	}
	w.set, w.Args = t.bound(onceEach(append(w.set, a.also...)), w.work)
	w.Text = "UPDATE " + t.name + " SET " + setText(w.set) + " WHERE " + t.text.KeyIn(t.key, 1)
	w.Args = db.Bind(w.Args, s.Record.Key)
	return w, left
}

// refreshTargets are all that is written to rows, for statements that need no row.
func (t *layout) refreshTargets(now time.Time) (list []Write) {
	from, to := attempt.All()
	goesOn := to
	goesOn.At = from.At.Add(time.Hour)
	for _, s := range []backlog.Settlement{
		{Target: backlog.RowNew, Refresh: &to}, {Target: backlog.RowError, Refresh: &to}, {Target: backlog.RowDead, Refresh: &to},
		{Target: backlog.RowSuccess, Refresh: &to}, {Target: backlog.RowSuccess, Refresh: &goesOn},
	} {
		s.At, s.Record = now, new(backlog.Record) // without a key
		w, _ := t.RefreshWrite(&s, &from, &from)
		list = append(list, w)
	}
	return list
}

// overdueReading is the query for attempts past their deadlines.
func (t *layout) overdueReading(now time.Time) Reading {
	running := t.refresh.Running
	deadline := branch{filter: filter{cond: running}}
	r := t.reading(deadline, []string{running}, []string{t.refresh.Quoted(mapping.DeadlineAt)})
	r.What = "running attempts, " + running
	cond, tail, args := t.Overdue(now, backlog.Cursor{}, 1000)
	r.Query, r.Args = t.recordsText(cond, tail, true), args
	return r
}

// Overdue returns the condition and the order of rows whose deadline is at or before now,
// behind the cursor. The table must have that column.
func (t *layout) Overdue(now time.Time, after backlog.Cursor, limit int) (cond, tail string, args []any) {
	tc := t.timeOf(t.refresh.Column(mapping.DeadlineAt))
	cols := db.Distinct(append([]string{tc.quoted}, t.key...))
	cond, args = t.refresh.Running+" AND "+tc.quoted+" < ?", []any{t.writeForm(tc).Beyond(now)}
	if !after.IsZero() {
		beyond, place := db.KeyRange(">"+orEqual[after.Before], cols, after.Key, after.Order)
		cond, args = cond+" AND "+beyond, append(args, place...)
	}
	return cond, " ORDER BY " + strings.Join(cols, ", ") + fmt.Sprint(" LIMIT ", limit), args
}

// recordsText is the query for the records of the rows that meet the condition.
func (t *layout) recordsText(cond, tail string, given bool) string {
	exprs := t.sel.needed
	if given {
		exprs = t.sel.exprs
	}
	conds := append([]string{cond}, t.keyed()...)
	if t.where.cond != "" {
		conds = append(conds, t.text.Unsearched(t.where.cond))
	}
	return "SELECT " + db.Named(exprs) + " FROM " + t.name + " WHERE " + strings.Join(conds, " AND ") + tail
}

// Records returns the records of the rows that meet the condition, whatever their state,
// until they are a page's bytes if handlers are given them. Rows whose state cannot be read are none. The cursors are
// for [layout.Overdue]. Without given, there are no values for handlers.
func (t *Table) Records(ctx context.Context, q db.Querier, cond, tail string, args []any, given bool) (list []backlog.Record, err error) {
	rows, err := q.QueryContext(ctx, t.text.Place(t.recordsText(cond, tail, given)), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for size := 0; (size <= maxPageBytes || !given) && rows.Next(); {
		row, err := t.scan(rows, len(t.sel.exprs))
		if err != nil {
			return nil, err
		}
		rec := backlog.Record{}
		if t.remember(&rec, row) != nil {
			continue
		}
		for _, v := range row {
			size += sizeOf(v)
		}
		rec = t.recordOf(row, min(max(rec.Refresh.AttemptNo-1, 0), 1)) // as it was before its start
		if deadline := t.refresh.Column(mapping.DeadlineAt); deadline != nil {
			rec.Cursor = backlog.Cursor{Segment: segDated, Order: row[t.timeOf(deadline).at], Key: rec.Key}
		}
		list = append(list, rec)
	}
	return list, rows.Err()
}

// LockStates returns the states of the group's rows, by the hashes of their keys, and
// keeps the rows from others until the end of the transaction.
func (t *Table) LockStates(ctx context.Context, tx *sql.Tx, group []backlog.Settlement, how string) (map[uint64]*backlog.Refresh, error) {
	var args []any
	for i := range group {
		args = db.Bind(args, group[i].Record.Key)
	}
	list, err := t.Records(ctx, tx, t.text.KeyIn(t.key, len(group)), t.text.LockRow+how, args, false)
	now := make(map[uint64]*backlog.Refresh, len(list))
	for i := range list {
		now[list[i].Key.Hash()] = list[i].Refresh
	}
	return now, err
}

// Attempt calls f in a transaction with the settlement of the record as a success.
// The transaction begins with a look at the row, which must still be as it was read,
// else the error is backlog.ErrConflict, and stays so for others until the end; then
// comes f, and at last the settlement, unless f has left the row in another state or
// deleted it. at is when that is. One commit ends it, or with undo a rollback; after
// an error nothing of it is done. Errors are the driver's.
func (t *Table) Attempt(ctx context.Context, r *backlog.Record, at func() time.Time, undo bool, f func(tx *sql.Tx) error) error {
	s := &backlog.Settlement{Record: r, Target: backlog.RowSuccess}
	find, key := t.lockText(t.workOf(s))
	for _, text := range nonEmpty(find, t.update(t.workOf(s)).Text) { // the transaction may have the only connection
		if err := t.prepared.Prepare(ctx, t.db.Write, t.text.Place(text)); err != nil {
			return err
		}
	}
	err := t.InTx(ctx, func(tx *sql.Tx) error {
		var one int
		err := t.prepared.QueryRow(ctx, tx, t.text.Place(find), key).Scan(&one)
		if errors.Is(err, sql.ErrNoRows) {
			return t.conflict(ctx, tx, s)
		}
		if err == nil {
			err = f(tx)
		}
		if err != nil {
			return err
		}
		s.At = at()
		if err = t.settleRow(ctx, tx, s); err != nil && !errors.Is(err, backlog.ErrConflict) { // by f
			return fmt.Errorf("settlement: %w", err)
		}
		if undo {
			return ErrUndo
		}
		return nil
	})
	if errors.As(err, new(commitError)) {
		r.Unsure = true
	}
	return err
}

// lockText returns the statement that finds the row of the work as it was read, and
// keeps others from changing it until the transaction ends.
func (t *layout) lockText(w work) (string, []any) {
	cond, args := t.asRead(w)
	return "SELECT 1 FROM " + t.name + " WHERE " + cond + t.text.LockRow, args
}
