package table

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table/db"
	"backlog/internal/lists"
)

// An attemptWriter writes the outcomes of attempts, under the refresh policy. A group is written
// in one transaction that reads its rows first and keeps them from others.
//
// The mapping's statuses only show what is so: those that are Explicit are written when an attempt
// ends, new and error while the row goes on, success when no further start is planned, dead
// when it is disabled. A start and a skipped attempt write none.
type attemptWriter struct{ *Table }

// refreshing returns the columns of the refresh policy, for what is only about attempts.
func (t *Table) refreshing() (*attemptColumns, error) {
	if t.refresh == nil {
		return nil, problem("set Policy of the mapping to the columns of the refresh policy",
			"table %s is not mapped for the refresh policy", t.m.Name)
	}
	return t.refresh, nil
}

// Overdue implements [backlog.Beginner].
func (t *Table) Overdue(ctx context.Context, now time.Time, after backlog.Cursor, limit int) ([]backlog.Record, error) {
	c, err := t.refreshing()
	if err != nil || !c.runs() {
		return nil, err
	}
	list, err := t.attemptRecords(ctx, t.overdueQuery(now, after, limit))
	return slices.DeleteFunc(list, func(r backlog.Record) bool { return r.Memory.Deadline.After(now) }), err
}

// Running implements [backlog.Beginner].
func (t *Table) Running(ctx context.Context, uids []string) ([]backlog.Record, error) {
	c, err := t.refreshing()
	if err != nil {
		return nil, err
	}
	col := c.quoted(mapping.AttemptUID)
	if len(uids) == 0 || col == "" {
		return nil, ctx.Err()
	}
	where := allOf(c.running) // it has an index
	where.add(col+" IN (?"+strings.Repeat(", ?", len(uids)-1)+")", lists.Map(uids, func(uid string) any { return uid }))
	return t.attemptRecords(ctx, t.recordsQuery(where, t.selected.exprs))
}

// attemptRecords returns the records of the query's rows, with the values for handlers.
func (t *Table) attemptRecords(ctx context.Context, q selectQuery) ([]backlog.Record, error) {
	return db.Get(ctx, t.db, func(ctx context.Context) ([]backlog.Record, error) {
		return t.records(ctx, t.db.Read, q, maxPageBytes)
	})
}

// CountAttempts counts the rows by the words of [inspect.State]. The table is mapped for the refresh policy.
func (t *Table) CountAttempts(ctx context.Context) (map[string]int, error) {
	c, err := t.refreshing()
	if err != nil {
		return nil, err
	}
	return t.countBy(ctx, c.state())
}

// Begin implements [backlog.Beginner].
func (t *Table) Begin(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	if _, err := t.refreshing(); err != nil {
		return nil, err
	}
	lefts := make([]*backlog.Memory, len(group))
	left, err := t.settleGroup(ctx, group, attemptWriter{t}.writing(group, lefts, mayBegin))
	for i := range group {
		if err == nil && lefts[i] != nil {
			group[i].Record.Memory = lefts[i]
		}
	}
	return left, err
}

// begun reports whether a row may start.
func mayBegin(g *backlog.Settlement, now *backlog.Memory) bool {
	read := g.Record.Memory
	return now.UID == read.UID && now.Next.Equal(read.Next) && now.Deadline.Equal(read.Deadline) && !now.Disabled
}

// settling implements [writer].
func (t attemptWriter) settling(group []backlog.Settlement) groupWrite {
	return t.writing(group, make([]*backlog.Memory, len(group)), t.guard.mayEnd)
}

// ended reports whether an attempt may end. A row that was saved during it keeps what was saved:
// a start writes no next one before its deadline. A success ends its failures all the same.
func (guard rowGuard) mayEnd(g *backlog.Settlement, now *backlog.Memory) bool {
	read := g.Record.Memory
	if g.Memory.Deadline.IsZero() && !now.Next.IsZero() && now.Next.Before(now.Deadline) {
		next := *read
		next.UID = ""
		next.Deadline = time.Time{}
		next.Reason = now.Reason
		if g.Target == backlog.RowSuccess {
			next.FailingSince = time.Time{}
		}
		g.Memory = &next
	}
	stopped := now.Deadline.IsZero() && !read.Deadline.IsZero() // by a save that has emptied it
	return !stopped && guard.holds(read, now)
}

// isWritten reports whether a commit that seemed to be lost has started the attempt, or
// ended it. What somebody has saved since then stays.
func alreadyWritten(g *backlog.Settlement, now *backlog.Memory) bool {
	if now.UID != "" && now.UID == g.Memory.UID && now.UID != g.Record.Memory.UID {
		return true
	}
	return g.Record.Unsure && g.Record.Memory.UID != "" && now.UID == "" && now.Deadline.IsZero() && now.AttemptNo == g.Memory.AttemptNo
}

// writing is how a group is written, by what the rows have now. lefts becomes what the rows
// have then, nil where nothing is written.
func (t attemptWriter) writing(
	group []backlog.Settlement, lefts []*backlog.Memory, may func(*backlog.Settlement, *backlog.Memory) bool,
) groupWrite {
	rows := func(ctx context.Context, tx *sql.Tx, from, to int) error {
		states, err := t.lockStates(ctx, tx, group[from:to], "")
		if err != nil {
			return err
		}
		prepared := make(map[string]*sql.Stmt) // which are few
		for i := from; i < to; i++ {
			g := group[i]
			now := states[g.Record.Key.Hash()]
			lefts[i] = now
			if now != nil && alreadyWritten(&g, now) {
				continue
			}
			lefts[i] = nil
			if now == nil || !may(&g, now) {
				return backlog.ErrConflict
			}
			if lefts[i], err = t.writeRow(ctx, tx, prepared, &g, now); err != nil {
				return err
			}
		}
		return nil
	}
	return groupWrite{
		rows:  len(group),
		whole: func(ctx context.Context, tx *sql.Tx) error { return rows(ctx, tx, 0, len(group)) },
		one:   func(ctx context.Context, tx *sql.Tx, i int) error { return rows(ctx, tx, i, i+1) },
		text: func(i int) (string, int) {
			w, _ := t.refreshWrite(&group[i], group[i].Record.Memory, group[i].Record.Memory)
			return w.text, len(w.args)
		},
	}
}

// writeRow writes to a row, and returns what it has then.
func (t attemptWriter) writeRow(
	ctx context.Context, tx *sql.Tx, prepared map[string]*sql.Stmt, g *backlog.Settlement, now *backlog.Memory,
) (*backlog.Memory, error) {
	w, left := t.refreshWrite(g, g.Record.Memory, now)
	if w.text == "" {
		return &left, nil
	}
	stmt := prepared[w.text]
	if stmt == nil {
		var err error
		if stmt, err = tx.PrepareContext(ctx, t.text.Rebind(w.text)); err != nil {
			return nil, err
		}
		prepared[w.text] = stmt
	}
	n, err := db.Affected(stmt.ExecContext(ctx, w.args...))
	if err == nil && n == 0 && !t.db.CountsChangedOnly { // though the row is locked
		err = t.writeUndone("policy.refresh")
	}
	if err == nil && len(t.catalog.Triggers) > 0 {
		err = t.checkState(ctx, tx, g, &left)
	}
	if err != nil {
		return nil, err
	}
	return &left, nil
}

// keptState returns an error if a trigger has left the row, which has just been written, another
// state than that.
func (t attemptWriter) checkState(ctx context.Context, tx *sql.Tx, g *backlog.Settlement, state *backlog.Memory) error {
	rows, err := t.lockStates(ctx, tx, []backlog.Settlement{*g}, "")
	if err != nil {
		return err
	}
	now := rows[g.Record.Key.Hash()]
	if now == nil || !t.refresh.same(now, state) {
		return t.writeUndone("policy.refresh")
	}
	return nil
}

// trying implements [writer]. A start, whose state has a deadline, is written to its row; an
// end is written behind a start. Both are read again, since a trigger, or a column that holds
// less, may have made something else of them.
func (t attemptWriter) trying(g backlog.Settlement) func(context.Context, *sql.Tx) error {
	from, _ := allAttemptColumns()
	steps := []backlog.Settlement{g}
	began := *g.Memory
	if !began.Deadline.IsZero() {
		began.UID = from.UID // as long as one
		steps[0].Memory = &began
	} else {
		began = *g.Record.Memory
		began.UID = from.UID
		began.Deadline = g.At.Add(time.Hour)
		began.Next = began.Deadline
		began.AttemptNo++
		began.Started = g.At
		steps = []backlog.Settlement{{Record: g.Record, At: g.At, Memory: &began}, g}
	}
	return func(ctx context.Context, tx *sql.Tx) error { return t.trySteps(ctx, tx, steps) }
}

// trySteps writes the steps, one after the other, to a row that is as it was read.
func (t attemptWriter) trySteps(ctx context.Context, tx *sql.Tx, steps []backlog.Settlement) error {
	key, read := steps[0].Record.Key, steps[0].Record.Memory
	rows, err := t.lockStates(ctx, tx, steps[:1], t.text.NoWait)
	now := rows[key.Hash()]
	switch {
	case t.db.Class(err) == db.Busy && t.text.NoWait != "":
		return fmt.Errorf("%w: row %v", backlog.ErrLocked, key)
	case err != nil:
		return err
	case now == nil || now.UID != read.UID || !now.Next.Equal(read.Next):
		return backlog.ErrConflict
	}
	for _, g := range steps {
		w, left := t.refreshWrite(&g, now, now)
		if w.text != "" {
			if _, err := tx.ExecContext(ctx, t.text.Rebind(w.text), w.args...); err != nil {
				return t.refusedWrite("policy.refresh", w, err)
			}
		}
		if rows, err = t.lockStates(ctx, tx, steps[:1], ""); err != nil {
			return err
		}
		now = rows[key.Hash()]
		if now == nil || !t.refresh.same(now, &left) {
			err := problem("look at the triggers of the table, and at the types of the policy's columns",
				"policy.refresh: with %s a row of table %s is not as it was written", w.shown(t.text), t.m.Name)
			if len(t.catalog.Triggers) > 0 {
				err = t.undoneWrite("policy.refresh", w, err)
			}
			return err
		}
	}
	return nil
}

// refreshWrite returns what the settlement writes to the row that has the state now, what
// differs from the state from, and what the row has then. An end writes a status: success where no further start is
// planned, dead where the row is disabled. RowNew and RowOther end no attempt.
func (t *layout) refreshWrite(s *backlog.Settlement, from, now *backlog.Memory) (w batchUpdate, left backlog.Memory) {
	was := *from // as far as the customer's text goes
	if now.Disabled {
		was.Reason = s.Memory.Reason // the one who disabled it has said why
	} else if s.Target == backlog.RowSuccess || s.Target == backlog.RowDead {
		was.Reason = now.Reason // a worker may have changed it
	}
	w.batch = batch{batchKey: batchKey{target: s.Target}, rows: []*backlog.Settlement{s}, at: s.At}
	columns, values, left := t.refresh.changes(&was, s.Memory, now, s.At)
	for i, v := range values {
		w.set = append(w.set, setClause{column: columns[i], valueOf: func(*backlog.Settlement) any { return v }})
	}
	a, shown := t.updates[s.Target%backlog.RowOther], s.Target
	goesOn := !left.Next.IsZero()
	if goesOn && shown == backlog.RowSuccess {
		shown = backlog.RowNew
	} else if goesOn && shown == backlog.RowDead {
		shown = backlog.RowError
	}
	if s.Target != backlog.RowNew && s.Target != backlog.RowOther {
		w.set = append(w.set, t.updates[shown].status...)
	}
	if len(w.set) == 0 {
		return w, left
	}
	w.set, w.args = t.bound(onceEach(append(w.set, a.others...)), w.batch)
	w.text = t.updateSQL(w.set, t.text.KeyIn(t.key, 1))
	w.args = db.AppendKeys(w.args, s.Record.Key)
	return w, left
}

// targets implements [writer].
func (t attemptWriter) targets(now time.Time) (list []batchUpdate) {
	from, to := allAttemptColumns()
	goesOn := to
	goesOn.Next = from.Next.Add(time.Hour)
	for _, s := range []backlog.Settlement{
		{Target: backlog.RowNew, Memory: &to}, {Target: backlog.RowError, Memory: &to}, {Target: backlog.RowDead, Memory: &to},
		{Target: backlog.RowSuccess, Memory: &to}, {Target: backlog.RowSuccess, Memory: &goesOn},
	} {
		s.At, s.Record = now, new(backlog.Record) // without a key
		w, _ := t.refreshWrite(&s, &from, &from)
		list = append(list, w)
	}
	return list
}

// texts implements [writer].
func (t attemptWriter) texts() []string {
	lock := t.recordsQuery(allOf(t.text.KeyIn(t.key, 1)), t.selected.bareExprs)
	lock.lock = t.text.LockRow
	text, _ := lock.sql()
	if !t.refresh.runs() {
		return []string{text}
	}
	return []string{text, t.overdueReading(time.Time{}).Query}
}

// overdueReading is the query for attempts past their deadlines.
func (t *layout) overdueReading(now time.Time) Reading {
	running := t.refresh.running
	deadline := pendingState{filter: filter{cond: running}, indexCond: running}
	r := t.readingOf(deadline, []string{running}, []string{t.refresh.quoted(mapping.DeadlineAt)})
	r.What = "running attempts, " + running
	r.Query, r.Args = t.overdueQuery(now, backlog.Cursor{}, 1000).sql()
	return r
}

// overdueQuery returns the query for the rows after the cursor whose deadline is at or before
// now, the earliest deadline first. The table must have that column.
func (t *layout) overdueQuery(now time.Time, after backlog.Cursor, limit int) selectQuery {
	tc := t.timeOf(t.refresh.cols[mapping.DeadlineAt])
	cols := t.orderBy(tc)
	where := allOf(t.refresh.running)
	where.add(t.beforeCut(tc, t.writeForm(tc).Until(now)))
	if !after.IsZero() {
		where.add(db.KeyRange(orEqual(">", after.Before), cols, after.Key, after.Order))
	}
	q := t.recordsQuery(where, t.selected.exprs)
	q.orderBy = cols
	q.limit = limit
	return q
}

// recordsQuery returns the query for the rows that meet the conditions and are the table's
// records, whatever their state. exprs are those of a page.
func (t *layout) recordsQuery(where conditions, exprs []string) selectQuery {
	for _, cond := range t.keyNotNull() {
		where.add(cond, nil)
	}
	where.add(t.whereUnsearched, nil)
	return selectQuery{columns: aliased(exprs), from: t.name, where: where}
}

// records returns the records of the rows of a [layout.recordsQuery], until their values have
// more than so many bytes. It leaves out rows whose memory cannot be read. The cursors are for
// [layout.overdueQuery].
func (t *Table) records(ctx context.Context, on db.Querier, q selectQuery, mostBytes int) (list []backlog.Record, err error) {
	text, args := q.sql()
	rows, err := on.QueryContext(ctx, t.text.Rebind(text), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for size := 0; size <= mostBytes && rows.Next(); {
		row, err := t.scan(rows, len(t.selected.exprs))
		if err != nil {
			return nil, err
		}
		rec := backlog.Record{}
		if t.remember(&rec, row) != nil {
			continue
		}
		size += sizeOf(row...)
		rec = t.recordOf(row, min(max(rec.Memory.AttemptNo-1, 0), 1)) // as it was before its start
		if deadline := t.refresh.cols[mapping.DeadlineAt]; deadline != nil {
			rec.Cursor = backlog.Cursor{Segment: datedSegment, Order: row[t.timeOf(deadline).at], Key: rec.Key}
		}
		list = append(list, rec)
	}
	return list, rows.Err()
}

// lockStates returns the states of the group's rows, by the hashes of their keys, and
// keeps the rows from others until the end of the transaction.
func (t *Table) lockStates(ctx context.Context, tx *sql.Tx, group []backlog.Settlement, how string) (map[uint64]*backlog.Memory, error) {
	var where conditions
	keys := lists.Map(group, func(s backlog.Settlement) backlog.Key { return s.Record.Key })
	where.add(t.text.KeyIn(t.key, len(group)), db.AppendKeys(nil, keys...))
	q := t.recordsQuery(where, t.selected.bareExprs)
	q.lock = t.text.LockRow + how
	list, err := t.records(ctx, tx, q, math.MaxInt)
	now := make(map[uint64]*backlog.Memory, len(list))
	for i := range list {
		now[list[i].Key.Hash()] = list[i].Memory
	}
	return now, err
}
