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
	"backlog/internal/lists"
)

// A writer writes outcomes to rows. The policy decides which of the two writers a table has.
type writer interface {
	// settling returns how a group is written.
	settling(group []backlog.Settlement) groupWrite

	// trying returns a function that writes the settlement to its row, in a transaction that
	// the caller rolls back. It returns nil if there is nothing to write.
	trying(s backlog.Settlement) func(context.Context, *sql.Tx) error

	// targets returns an update for each state and outcome, without a row.
	targets(now time.Time) []batchUpdate

	// texts returns the statements that read rows before they are written.
	texts() []string
}

// A rowGuard is what must be unchanged in a row since it was read, so that its outcome may be
// written.
type rowGuard int

const (
	statusGuard rowGuard = iota // the status and, except for a success, the number of failures
	startGuard                  // the next start and the number of attempts
	uidGuard                    // the UID of the running attempt; as startGuard if none was running
)

// holds reports whether the row is as it was read. The guard must not be statusGuard.
func (guard rowGuard) holds(read, now *backlog.Memory) bool {
	if now.UID != read.UID {
		return false
	}
	if guard == uidGuard && read.UID != "" {
		return true
	}
	return now.Next.Equal(read.Next) && now.AttemptNo == read.AttemptNo
}

var (
	_ writer = batchWriter{}
	_ writer = attemptWriter{}
)

// A batchWriter writes a group with one statement for each batch. If a row was changed in the
// meantime, or one is refused, it writes row by row.
type batchWriter struct{ *Table }

// Settle implements [backlog.Store]. What the database refuses to a whole group was possible before its handlers
// were called, as a trial has shown: a right, a login or the table was changed since, and may be changed back. The
// error wraps ErrRefusesAll, so that the outcomes are kept until then.
func (t *Table) Settle(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	unsettled, err := t.settleGroup(ctx, group, t.writer.settling(group))
	isRefused := errors.As(err, new(*Problem)) || t.db.IsServerError(err)
	if isRefused && !t.db.IsTransient(err) {
		err = backlog.Worded(err.Error(), backlog.ErrRefusesAll, err)
	}
	return unsettled, err
}

// Rehearse implements [backlog.Rehearser].
func (t *Table) Rehearse(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	w := t.writer.settling(group)
	w.undo = true
	return t.settleGroup(ctx, group, w)
}

// settling implements [writer].
func (t batchWriter) settling(group []backlog.Settlement) groupWrite {
	var writes []batchUpdate
	return groupWrite{
		rows: len(group),
		prepare: func(ctx context.Context) (some bool, err error) {
			writes, err = t.prepareBatches(ctx, t.batches(group))
			return len(writes) > 0, err
		},
		single: func() *batchUpdate {
			if len(writes) == 1 && len(writes[0].rows) == len(group) && t.needsNoTransaction() {
				return &writes[0]
			}
			return nil
		},
		whole:    func(ctx context.Context, tx *sql.Tx) error { return t.writeBatches(ctx, tx, writes) },
		writeRow: func(ctx context.Context, tx *sql.Tx, i int) error { return t.settleRow(ctx, tx, &group[i]) },
		text: func(i int) (string, int) {
			x := t.rowUpdate(&group[i])
			return x.text, len(x.args)
		},
		spares: func(i int) bool { return !group[i].Until.IsZero() }, // the engine remembers a snooze, too
	}
}

// needsNoTransaction reports whether nothing is to be checked after a statement that writes rows,
// and nothing is deferred to the commit.
func (t *layout) needsNoTransaction() bool {
	return len(t.catalog.Triggers) == 0 && !t.catalog.HasDeferred
}

// prepareBatches prepares the statements that write the batches, and returns them. For a batch
// that changes nothing it checks that the rows are as they were read.
func (t *Table) prepareBatches(ctx context.Context, batches []batch) (updates []batchUpdate, err error) {
	for _, b := range batches {
		x := t.batchUpdate(b)
		if x.text == "" {
			if unchanged, err := t.allUnchanged(ctx, b); !unchanged {
				return nil, cmp.Or(err, backlog.ErrConflict)
			}
			continue
		}
		if err := t.db.PrepareWrite(ctx, t.text.Rebind(x.text)); err != nil {
			return nil, err
		}
		updates = append(updates, x)
	}
	return updates, nil
}

// writeBatches writes each batch with one statement.
func (t *Table) writeBatches(ctx context.Context, tx *sql.Tx, writes []batchUpdate) error {
	for _, x := range writes {
		n, err := t.db.ExecIn(ctx, tx, t.text.Rebind(x.text), x.args)
		if err != nil || n != int64(len(x.rows)) {
			return cmp.Or(err, backlog.ErrConflict)
		}
		if n, err := t.countStillPending(ctx, tx, x.batch); n > 0 || err != nil {
			return cmp.Or(err, backlog.ErrConflict)
		}
	}
	return nil
}

// settleRow writes one settlement. The error is [backlog.ErrConflict] if the row is not as it
// was read, and a *Problem if the database has undone the write.
func (t *Table) settleRow(ctx context.Context, tx *sql.Tx, s *backlog.Settlement) (err error) {
	x := t.rowUpdate(s)
	found := int64(0)
	if x.text != "" {
		found, err = t.db.ExecIn(ctx, tx, t.text.Rebind(x.text), x.args)
	}
	if err != nil {
		return err
	}
	if found == 0 {
		found, err = t.countUnchanged(ctx, tx, x.batch)
		switch {
		case err != nil:
			return err
		case found == 0:
			return t.conflict(ctx, tx, s)
		case x.text != "" && !t.db.CountsChangedOnly:
			return t.undoneProblem(statusSettings[x.target])
		}
	}
	return t.checkWritten(ctx, tx, x.batch, found)
}

// conflict returns the error for a row that is not as it was read. It is nil if the row is in
// the state of the outcome and an earlier commit of the outcome has failed: that one succeeded
// after all.
func (t *Table) conflict(ctx context.Context, tx *sql.Tx, s *backlog.Settlement) error {
	isSnooze := s.Target == backlog.RowOther // which leaves the state: nothing shows that it was written
	if !s.Record.Unsure || isSnooze {
		return backlog.ErrConflict
	}
	conds := t.withKey(s.Record.Key)
	conds.add(t.where.cond, nil)
	for _, x := range t.updates[s.Target].status {
		cond := x.column + " IS NOT NULL" // a time or a count
		if x.constant && x.value == nil {
			cond = x.column + " IS NULL"
		} else if x.constant {
			cond = x.column + " = " + x.expr
		}
		conds.add(t.text.WithoutIndex(cond), nil)
	}
	n, err := t.countWhere(ctx, tx, conds)
	if err == nil && n == 0 {
		err = backlog.ErrConflict
	}
	return err
}

// undoneProblem returns the *Problem of a row that is as it was, although the database has
// accepted the write. place is the setting that says what is written.
func (t *layout) undoneProblem(place string) error {
	by := "a trigger or a rule of the database"
	if len(t.catalog.Triggers) > 0 {
		by = "a trigger: " + strings.Join(t.catalog.Triggers, ", ")
	}
	return problem("change that: records would be handled again and again",
		"%s is undone: a row of table %s is as it was after it was written, which is the work of %s", place, t.m.Name, by)
}

// checkWritten returns an error if a row that was written is as it was, or if several rows
// have its key. found is the number of rows that the statement wrote.
func (t *Table) checkWritten(ctx context.Context, tx *sql.Tx, b batch, found int64) error {
	if found > 1 {
		return fmt.Errorf("table %s has %d rows with the key %v: nothing was written", t.m.Name, found, b.rows[0].Record.Key)
	}
	n, err := t.countStillPending(ctx, tx, b)
	if err == nil && n > 0 {
		err = t.undoneProblem(statusSettings[b.target])
	}
	return err
}

// countStillPending returns how many rows of the batch are in the state that was read,
// although the batch was just written and its outcome is final. Only a trigger can do that.
func (t *Table) countStillPending(ctx context.Context, tx *sql.Tx, b batch) (int64, error) {
	if len(t.catalog.Triggers) == 0 || !t.isFinal(b.target) || t.hasStatus(b.state, t.updates[b.target]) {
		return 0, nil
	}
	b.target = backlog.RowSuccess // its guard ignores the number of failures
	b.exact = false
	return t.countUnchanged(ctx, tx, b)
}

// isFinal reports whether rows in the target state are not pending.
func (t *layout) isFinal(target backlog.RowState) bool {
	return target == backlog.RowSuccess || target == backlog.RowDead && t.HasDead()
}

// countUnchanged returns how many rows of the batch are as they were read.
func (t *Table) countUnchanged(ctx context.Context, q db.Querier, b batch) (n int64, err error) {
	return t.countWhere(ctx, q, t.unchangedConditions(b))
}

// countWhere returns how many rows meet the conditions.
func (t *Table) countWhere(ctx context.Context, q db.Querier, where conditions) (n int64, err error) {
	text, args := selectQuery{columns: []string{"count(*)"}, from: t.name, where: where}.sql()
	err = db.OneRow(ctx, q, t.text.Rebind(text), args...).Scan(&n)
	return n, err
}

// SettleWith settles the record as a success in the same transaction that calls f. It locks
// the row, calls f, writes the settlement at the time that at returns, and commits. After an
// error everything is rolled back.
//
// The error is [backlog.ErrConflict] if the row is not as it was read. f may put the row into
// another state or delete it: then the settlement is not written. Other errors come from f or
// from the driver.
func (t *Table) SettleWith(
	ctx context.Context, r *backlog.Record, at func() time.Time, f func(tx *sql.Tx) error,
) error {
	return t.settleWith(ctx, r, at, false, f)
}

// TryWith is [Table.SettleWith] with a rollback at the end. If the row is not as it was read,
// it only calls f.
func (t *Table) TryWith(ctx context.Context, r *backlog.Record, at func() time.Time, f func(tx *sql.Tx) error) error {
	err := t.settleWith(ctx, r, at, true, f)
	if !errors.Is(err, backlog.ErrConflict) {
		return err
	}
	return t.inTx(ctx, true, f)
}

// settleWith is SettleWith, which rolls back at the end if undo is set.
func (t *Table) settleWith(
	ctx context.Context, r *backlog.Record, at func() time.Time, undo bool, f func(tx *sql.Tx) error,
) error {
	s := &backlog.Settlement{Record: r, Target: backlog.RowSuccess}
	x := t.rowUpdate(s)
	find, key := t.lockText(x.batch)
	for _, text := range lists.NonEmpty(find, x.text) { // the transaction may have the only connection
		if err := t.db.PrepareWrite(ctx, t.text.Rebind(text)); err != nil {
			return err
		}
	}
	err := t.inTx(ctx, undo, func(tx *sql.Tx) error {
		err := t.db.QueryRowIn(ctx, tx, t.text.Rebind(find), key).Scan(new(int))
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
		err = t.settleRow(ctx, tx, s)
		if err != nil && !errors.Is(err, backlog.ErrConflict) { // a conflict comes from f
			return fmt.Errorf("settlement: %w", err)
		}
		return nil
	})
	if errors.As(err, new(commitError)) {
		r.Unsure = true
	}
	return err
}

// lockText returns the statement that selects the row of the batch if it is as it was read, and
// locks it until the transaction ends.
func (t *layout) lockText(b batch) (string, []any) {
	return selectQuery{columns: []string{"1"}, from: t.name, where: t.unchangedConditions(b), lock: t.text.LockRow}.sql()
}

// A batchKey is what settlements have in common that one statement writes.
type batchKey struct {
	state     int // index of the pending state that was read
	target    backlog.RowState
	remembers bool // the row remembers something of the outcome
	final     bool // the record is not tried again
	failures  int  // failures as they were read, if the policy counts them
	exact     bool // the outcome may have been written already
	attempts  int  // attempts as they were read, if exact; -1: unknown
}

// A batch is settlements of a group that one statement writes.
type batch struct {
	batchKey
	rows []*backlog.Settlement
	at   time.Time
}

// batches divides the group into batches.
func (t *layout) batches(group []backlog.Settlement) []batch {
	var list []batch // so few that a search is faster than a map
	for i := range group {
		key := t.batchKeyOf(&group[i])
		at := slices.IndexFunc(list, func(b batch) bool { return b.batchKey == key })
		if at < 0 {
			at = len(list)
			rows := make([]*backlog.Settlement, 0, len(group)-i)
			list = append(list, batch{key, rows, group[len(group)-1].At})
		}
		list[at].rows = append(list[at].rows, &group[i])
	}
	return list
}

// batchKeyOf returns the batch that the settlement belongs to.
func (t *layout) batchKeyOf(s *backlog.Settlement) batchKey {
	b := batchKey{state: s.Record.Origin, target: s.Target}
	b.exact = s.Record.Exact || s.Record.Unsure
	if b.exact {
		b.attempts = s.Record.Attempts
	}
	if t.checksFailures(b) {
		b.failures = s.Record.Memory.Failed()
	}
	b.remembers = s.Memory != nil
	b.final = b.remembers && b.target == backlog.RowDead && (t.HasDead() || s.Memory.Next.IsZero())
	return b
}

// batchOf returns the batch of a single row.
func (t *layout) batchOf(s *backlog.Settlement) batch {
	return batch{t.batchKeyOf(s), []*backlog.Settlement{s}, s.At}
}

// setClauses returns what the settlement of the batch writes. It omits the status if the rows
// have it already.
func (t *layout) setClauses(b batchKey) []setClause {
	if b.target == backlog.RowOther {
		return t.snoozeSet[t.states[b.state].lane]
	}
	a := t.updates[b.target]
	status := a.status
	if t.hasStatus(b.state, a) {
		status = nil
	}
	var remembered []setClause
	switch {
	case b.final:
		remembered = t.policy.dead
	case b.remembers:
		remembered = t.policy.failed
	}
	return onceEach(slices.Concat(status, remembered, a.others))
}

// hasStatus reports whether rows in the pending state have the status of the update already.
func (t *layout) hasStatus(state int, a stateUpdate) bool {
	changes := func(x setClause) bool {
		old, ok := t.states[state].equal[x.column]
		return !x.constant || !ok || old != x.value
	}
	return !slices.ContainsFunc(a.status, changes)
}

// batchSizes are the numbers of rows for which statements are prepared. A batch is padded to
// the next size, so that batches of any size need only a few statements.
var batchSizes = [...]int{1, 10, 50, backlog.MaxGroup / 2, backlog.MaxGroup}

// padded returns the rows of the batch, with the last one repeated up to the next of
// batchSizes.
func (b batch) padded() []*backlog.Settlement {
	i, _ := slices.BinarySearch(batchSizes[:], len(b.rows))
	last := b.rows[len(b.rows)-1:]
	return append(slices.Clip(b.rows), slices.Repeat(last, batchSizes[i]-len(b.rows))...)
}

// A batchUpdate is the UPDATE that writes a batch.
type batchUpdate struct {
	batch
	text string // "": nothing changes
	args []any  // of SET, then of WHERE
	set  []setClause
}

// batchUpdate returns the statement that writes the batch.
func (t *layout) batchUpdate(b batch) batchUpdate {
	set, args := t.bound(t.setClauses(b.batchKey), b)
	if len(set) == 0 {
		return batchUpdate{batch: b}
	}
	where := t.unchangedConditions(b)
	return batchUpdate{b, t.updateSQL(set, where.all()), append(args, where.args...), set}
}

// rowUpdate returns the statement that writes a single settlement.
func (t *layout) rowUpdate(s *backlog.Settlement) batchUpdate { return t.batchUpdate(t.batchOf(s)) }

// bound returns the set clauses for the rows of the batch, and their arguments.
func (t *layout) bound(list []setClause, b batch) (set []setClause, args []any) {
	for _, a := range list {
		switch {
		case a.nowColumn != nil:
			args = append(args, t.writeForm(a.nowColumn).Write(b.at))
		case a.valueOf != nil:
			a.expr, args = t.perRow(a, b.padded(), args)
		}
		if a.keepsLater != nil {
			value := a.expr
			_, args = t.perRow(a, b.padded(), args)
			a.expr = "CASE WHEN " + t.isLater(a.keepsLater, value) + " THEN " + a.column + " ELSE " + value + " END"
		}
		set = append(set, a)
	}
	return set, args
}

// perRow returns an expression for the value of each row, and adds its arguments to args. It is
// a placeholder if all rows get the same value, otherwise a CASE over the keys.
func (t *layout) perRow(a setClause, rows []*backlog.Settlement, args []any) (string, []any) {
	values := lists.Map(rows, a.valueOf)
	differs := func(v any) bool { return v != values[0] }
	if !slices.ContainsFunc(values, differs) {
		return "?", append(args, values[0])
	}
	for i, s := range rows {
		args = append(db.AppendKeys(args, s.Record.Key), values[i])
	}
	when := " WHEN " + strings.Join(t.key, " = ? AND ") + " = ? THEN " + t.text.Cast(t.quotedColumn(a.column))
	return "CASE" + strings.Repeat(when, len(rows)) + " END", args
}

// setSQL returns the text of a SET clause.
func setSQL(set []setClause) string {
	return strings.Join(lists.Map(set, func(a setClause) string { return a.column + " = " + a.expr }), ", ")
}

// unchangedConditions returns the conditions of the rows that are as they were read.
func (t *layout) unchangedConditions(b batch) conditions {
	state := t.states[b.state]
	rows := b.rows
	if !t.bindsKeyArrays() {
		rows = b.padded()
	}
	keys := make([]backlog.Key, 0, len(rows))
	for _, s := range slices.Backward(rows) { // a pass reads the newest first, but SQLite sorts ascending keys faster
		keys = append(keys, s.Record.Key)
	}
	var conds conditions
	conds.add(t.keyIn(keys...))
	conds.add(t.text.WithoutIndex(cmp.Or(state.guardCond, state.cond)), nil)
	if t.checksFailures(b.batchKey) {
		cond, n := t.policy.countColumn.CountIs(t.policy.count, b.failures)
		conds.add(t.text.WithoutIndex(cond), n)
	}
	if t.attemptsColumn != nil && b.exact && b.attempts >= 0 {
		cond, n := t.attemptsColumn.CountIs(t.text.Quote(t.attemptsColumn.Name), b.attempts)
		conds.add(t.text.WithoutIndex(cond), n)
	}
	conds.add(t.whereUnsearched, nil)
	return conds
}

// checksFailures reports whether the number of failures must be as it was read. The state of a
// row does not show that it has failed once more.
func (t *layout) checksFailures(b batchKey) bool {
	return t.policy.counts() && (b.target != backlog.RowSuccess || b.exact)
}

// AsRead implements [backlog.Verifier].
func (t *Table) AsRead(ctx context.Context, records []backlog.Record) ([]bool, error) {
	group := make([]backlog.Settlement, len(records))
	index := make(map[*backlog.Record]int, len(records))
	for i := range records {
		group[i] = backlog.Settlement{Record: &records[i], Target: backlog.RowSuccess}
		index[&records[i]] = i
	}
	unchanged := make([]bool, len(records))
	err := t.db.Do(ctx, func(ctx context.Context) error {
		for _, b := range t.batches(group) {
			all, err := t.allUnchanged(ctx, b)
			for _, s := range b.rows {
				same := all
				if err == nil && !all && len(b.rows) > 1 {
					same, err = t.allUnchanged(ctx, t.batchOf(s))
				}
				unchanged[index[s.Record]] = same
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return unchanged, err
}

// allUnchanged reports whether all rows of the batch are as they were read.
func (t *Table) allUnchanged(ctx context.Context, b batch) (bool, error) {
	n, err := t.countUnchanged(ctx, t.db.Read, b)
	return n == int64(len(b.rows)), err
}
