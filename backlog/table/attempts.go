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

// An attemptWriter writes the outcomes of attempts, under the refresh policy. It writes a group
// in one transaction, which first reads and locks the rows.
//
// Under this policy the statuses of the mapping are only for display. Those that are Explicit
// are written when an attempt ends: new and error while another start is planned, success when
// none is, dead when the row is disabled. A start and a skipped attempt write no status.
type attemptWriter struct{ *Table }

// refreshing returns the columns of the refresh policy, or a *Problem without that policy.
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
	isInTime := func(r backlog.Record) bool { return r.Memory.Deadline.After(now) } // SQL compares only in the form's step
	return slices.DeleteFunc(list, isInTime), err
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

// CountAttempts counts the rows by the words of [inspect.State]. It needs a mapping for the
// refresh policy.
func (t *Table) CountAttempts(ctx context.Context) (map[string]int, error) {
	c, err := t.refreshing()
	if err != nil {
		return nil, err
	}
	return t.countBy(ctx, c.state(), "")
}

// Begin implements [backlog.Beginner].
func (t *Table) Begin(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	if _, err := t.refreshing(); err != nil {
		return nil, err
	}
	memories := make([]*backlog.Memory, len(group))
	unsettled, err := t.settleGroup(ctx, group, attemptWriter{t}.writing(group, memories, mayBegin))
	for i := range group {
		if err == nil && memories[i] != nil {
			group[i].Record.Memory = memories[i]
		}
	}
	return unsettled, err
}

// mayBegin reports whether an attempt may start: the row is as it was read, and enabled. now is
// what the row remembers now.
func mayBegin(g *backlog.Settlement, now *backlog.Memory) bool {
	read := g.Record.Memory
	isUnchanged := now.UID == read.UID && now.Next.Equal(read.Next) && now.Deadline.Equal(read.Deadline)
	return isUnchanged && !now.Disabled
}

// settling implements [writer].
func (t attemptWriter) settling(group []backlog.Settlement) groupWrite {
	return t.writing(group, make([]*backlog.Memory, len(group)), t.guard.mayEnd)
}

// mayEnd reports whether an attempt may end: it is still running. If the row was saved during the
// attempt, mayEnd changes the settlement so that the row keeps the next start that was saved. A
// save is recognized by a next start before the deadline, which no start writes.
func (guard rowGuard) mayEnd(g *backlog.Settlement, now *backlog.Memory) bool {
	read := g.Record.Memory
	wasSaved := !now.Next.IsZero() && now.Next.Before(now.Deadline)
	if g.Memory.Deadline.IsZero() && wasSaved {
		next := *read
		next.UID = ""
		next.Deadline = time.Time{}
		next.Reason = now.Reason
		if g.Target == backlog.RowSuccess {
			next.FailingSince = time.Time{}
		}
		g.Memory = &next
	}
	wasStopped := now.Deadline.IsZero() && !read.Deadline.IsZero() // a save emptied the deadline
	return !wasStopped && guard.holds(read, now)
}

// alreadyWritten reports whether the row is as after the settlement: a commit that failed before
// succeeded after all, and has started or ended the attempt.
func alreadyWritten(g *backlog.Settlement, now *backlog.Memory) bool {
	isStarted := now.UID != "" && now.UID == g.Memory.UID && now.UID != g.Record.Memory.UID
	if isStarted {
		return true
	}
	wasRunning := g.Record.Memory.UID != ""
	isIdle := now.UID == "" && now.Deadline.IsZero()
	return g.Record.Unsure && wasRunning && isIdle && now.AttemptNo == g.Memory.AttemptNo
}

// writing returns how a group is written. may decides for each row, given what it remembers now.
// memories is filled with what the rows remember afterwards, nil if nothing is written.
func (t attemptWriter) writing(
	group []backlog.Settlement, memories []*backlog.Memory, may func(*backlog.Settlement, *backlog.Memory) bool,
) groupWrite {
	rows := func(ctx context.Context, tx *sql.Tx, from, to int) error {
		locked, err := t.lockRows(ctx, tx, group[from:to], "")
		if err != nil {
			return err
		}
		prepared := make(map[string]*sql.Stmt) // a few texts
		for i := from; i < to; i++ {
			g := group[i]
			now := locked[g.Record.Key.Hash()]
			memories[i] = now
			if now != nil && alreadyWritten(&g, now) {
				continue
			}
			memories[i] = nil
			if now == nil || !may(&g, now) {
				return backlog.ErrConflict
			}
			memories[i], err = t.writeRow(ctx, tx, prepared, &g, now)
			if err != nil {
				return err
			}
		}
		return nil
	}
	return groupWrite{
		rows:     len(group),
		whole:    func(ctx context.Context, tx *sql.Tx) error { return rows(ctx, tx, 0, len(group)) },
		writeRow: func(ctx context.Context, tx *sql.Tx, i int) error { return rows(ctx, tx, i, i+1) },
		text: func(i int) (string, int) {
			w, _ := t.refreshWrite(&group[i], group[i].Record.Memory, group[i].Record.Memory)
			return w.text, len(w.args)
		},
	}
}

// writeRow writes to a row that remembers now, and returns what it remembers afterwards.
func (t attemptWriter) writeRow(
	ctx context.Context, tx *sql.Tx, prepared map[string]*sql.Stmt, g *backlog.Settlement, now *backlog.Memory,
) (*backlog.Memory, error) {
	w, after := t.refreshWrite(g, g.Record.Memory, now)
	if w.text == "" {
		return &after, nil
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
	if err == nil && n == 0 && !t.db.CountsChangedOnly { // although the row is there and locked
		err = t.undoneProblem("policy.refresh")
	}
	if err == nil && len(t.catalog.Triggers) > 0 {
		err = t.checkMemory(ctx, tx, g, &after)
	}
	if err != nil {
		return nil, err
	}
	return &after, nil
}

// checkMemory returns an error if a row that was just written remembers something else than
// expected, because of a trigger.
func (t attemptWriter) checkMemory(
	ctx context.Context, tx *sql.Tx, g *backlog.Settlement, expected *backlog.Memory,
) error {
	rows, err := t.lockRows(ctx, tx, []backlog.Settlement{*g}, "")
	if err != nil {
		return err
	}
	now := rows[g.Record.Key.Hash()]
	if now == nil || !t.refresh.sameColumns(now, expected) {
		return t.undoneProblem("policy.refresh")
	}
	return nil
}

// trying implements [writer]. A settlement with a deadline is a start and is tried alone. An end
// is tried after a start.
func (t attemptWriter) trying(g backlog.Settlement) func(context.Context, *sql.Tx) error {
	from, _ := allAttemptColumns()
	steps := []backlog.Settlement{g}
	isStart := !g.Memory.Deadline.IsZero()
	if isStart {
		began := *g.Memory
		began.UID = from.UID // of the usual length
		steps[0].Memory = &began
	} else {
		began := *g.Record.Memory
		began.UID = from.UID
		began.Deadline = g.At.Add(time.Hour)
		began.Next = began.Deadline
		began.AttemptNo++
		began.Started = g.At
		steps = []backlog.Settlement{{Record: g.Record, At: g.At, Memory: &began}, g}
	}
	return func(ctx context.Context, tx *sql.Tx) error { return t.tryOnRow(ctx, tx, steps) }
}

// tryOnRow writes the settlements, all of one record, one after the other to its row, which must
// be as it was read. It reads the row after each of them, since a trigger or a narrow column may
// have changed what was written. The caller rolls the transaction back.
func (t attemptWriter) tryOnRow(ctx context.Context, tx *sql.Tx, steps []backlog.Settlement) error {
	key := steps[0].Record.Key
	read := steps[0].Record.Memory
	rows, err := t.lockRows(ctx, tx, steps[:1], t.text.NoWait)
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
		w, expected := t.refreshWrite(&g, now, now)
		if w.text != "" {
			if _, err := tx.ExecContext(ctx, t.text.Rebind(w.text), w.args...); err != nil {
				return t.refusedWrite("policy.refresh", w, err)
			}
		}
		rows, err = t.lockRows(ctx, tx, steps[:1], "")
		if err != nil {
			return err
		}
		now = rows[key.Hash()]
		if now != nil && t.refresh.sameColumns(now, &expected) {
			continue
		}
		differs := problem("look at the triggers of the table, and at the types of the policy's columns",
			"policy.refresh: with %s a row of table %s is not as it was written", w.shown(t.text), t.m.Name)
		if len(t.catalog.Triggers) > 0 {
			return t.refusedByTrigger("policy.refresh", w, differs)
		}
		return differs
	}
	return nil
}

// refreshWrite returns the UPDATE that writes the difference between the memory from and the
// settlement's memory to a row, and what the row remembers afterwards. The row remembers now,
// which differs from from if the row was saved in between.
//
// The end of an attempt also writes a status, see [backlog.RowState.After]. The targets RowNew and RowOther
// are not the end of an attempt.
func (t *layout) refreshWrite(s *backlog.Settlement, from, now *backlog.Memory) (w batchUpdate, after backlog.Memory) {
	old := *from
	if now.Disabled {
		old.Reason = s.Memory.Reason // keep the reason of the one who disabled the row
	} else if s.Target == backlog.RowSuccess || s.Target == backlog.RowDead {
		old.Reason = now.Reason // a worker may have changed it
	}
	w.batch = batch{batchKey: batchKey{target: s.Target}, rows: []*backlog.Settlement{s}, at: s.At}
	columns, values, after := t.refresh.changes(&old, s.Memory, now, s.At)
	for i, v := range values {
		w.set = append(w.set, setClause{column: columns[i], valueOf: func(*backlog.Settlement) any { return v }})
	}
	endsAttempt := s.Target != backlog.RowNew && s.Target != backlog.RowOther
	if endsAttempt {
		startsAgain := !after.Next.IsZero()
		w.set = append(w.set, t.updates[s.Target.After(startsAgain)].status...)
	}
	if len(w.set) == 0 {
		return w, after
	}
	counted := s.Target
	if !endsAttempt {
		counted = backlog.RowNew // its clauses count no attempt, and RowOther has none of its own
	}
	w.set, w.args = t.bound(onceEach(append(w.set, t.updates[counted].others...)), w.batch)
	w.text = t.updateSQL(w.set, t.text.KeyIn(t.key, 1))
	w.args = db.AppendKeys(w.args, s.Record.Key)
	return w, after
}

// targets implements [writer].
func (t attemptWriter) targets(now time.Time) (list []batchUpdate) {
	from, to := allAttemptColumns()
	planned := to
	planned.Next = from.Next.Add(time.Hour)
	outcomes := []backlog.Settlement{
		{Target: backlog.RowNew, Memory: &to},
		{Target: backlog.RowError, Memory: &to},
		{Target: backlog.RowDead, Memory: &to},
		{Target: backlog.RowSuccess, Memory: &to},
		{Target: backlog.RowSuccess, Memory: &planned},
	}
	for _, s := range outcomes {
		s.At = now
		s.Record = new(backlog.Record) // without a key
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
	return []string{text, t.overdueIndexedQuery(time.Time{}).Query}
}

// overdueIndexedQuery returns the query for attempts past their deadlines, with its index.
func (t *layout) overdueIndexedQuery(now time.Time) IndexedQuery {
	running := t.refresh.running
	deadline := pendingState{filter: filter{cond: running}, indexCond: running}
	x := t.indexedQuery(deadline, []string{running}, []string{t.refresh.quoted(mapping.DeadlineAt)})
	x.What = "running attempts, " + running
	x.Query, x.Args = t.overdueQuery(now, backlog.Cursor{}, 1000).sql()
	return x
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
// records, whatever their state. exprs are the columns of a page, with or without values.
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
func (t *Table) records(
	ctx context.Context, on db.Querier, q selectQuery, mostBytes int,
) (list []backlog.Record, err error) {
	text, args := q.sql()
	rows, err := on.QueryContext(ctx, t.text.Rebind(text), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	size := 0
	for size <= mostBytes && rows.Next() {
		row, err := t.scan(rows, len(t.selected.exprs))
		if err != nil {
			return nil, err
		}
		remembered := backlog.Record{}
		if t.remember(&remembered, row) != nil {
			continue // its memory cannot be read
		}
		size += sizeOf(row...)
		state := 0 // fresh before this attempt
		if remembered.Memory.AttemptNo > 1 {
			state = 1 // failed before
		}
		rec := t.recordOf(row, state)
		if deadline := t.refresh.cols[mapping.DeadlineAt]; deadline != nil {
			rec.Cursor = backlog.Cursor{Segment: datedSegment, Order: row[t.timeOf(deadline).at], Key: rec.Key}
		}
		list = append(list, rec)
	}
	return list, rows.Err()
}

// lockRows locks the rows of the group until the end of the transaction, and returns what they
// remember, by the hashes of their keys. noWait is "", or the clause by which a locked row is an
// error at once.
func (t *Table) lockRows(
	ctx context.Context, tx *sql.Tx, group []backlog.Settlement, noWait string,
) (map[uint64]*backlog.Memory, error) {
	var where conditions
	keys := lists.Map(group, func(s backlog.Settlement) backlog.Key { return s.Record.Key })
	where.add(t.keyIn(keys...))
	q := t.recordsQuery(where, t.selected.bareExprs)
	q.lock = t.text.LockRow + noWait
	list, err := t.records(ctx, tx, q, math.MaxInt)
	memories := make(map[uint64]*backlog.Memory, len(list))
	for i := range list {
		memories[list[i].Key.Hash()] = list[i].Memory
	}
	return memories, err
}
