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

// A writer is how a table writes outcomes to its rows. What a policy keeps there decides which
// one it is, once, when the table is opened.
type writer interface {
	// settling returns how a group is written.
	settling(group []backlog.Settlement) groupWrite
	// trying returns what writes the settlement to its row, in a transaction that its caller
	// undoes; nil: nothing is to be written.
	trying(s backlog.Settlement) func(context.Context, *sql.Tx) error
	// targets returns the outcomes of all states, for statements that need no row.
	targets(now time.Time) []update
	// texts returns the statements by which rows are read before they are written.
	texts() []string
}

// A rowGuard is what must be so of a row for its outcome to be written: what is there is still
// what was read.
type rowGuard int

const (
	statusGuard rowGuard = iota // its status and, unless it has succeeded, how often it has failed
	startGuard                  // when it starts next, and how often it was started
	uidGuard                    // which attempt runs or, where none did, as startGuard
)

// holds reports whether the row is as it was read. The guard is none of the status.
func (guard rowGuard) holds(read, now *backlog.Memory) bool {
	if now.UID != read.UID {
		return false
	}
	byUID := guard == uidGuard && read.UID != ""
	return byUID || now.Next.Equal(read.Next) && now.AttemptNo == read.AttemptNo
}

var (
	_ writer = batchWriter{}
	_ writer = attemptWriter{}
)

// A batchWriter writes a group with one statement per batch, unless those find that a row was
// changed, or one is refused.
type batchWriter struct{ *Table }

// Settle implements backlog.Store.
func (t *Table) Settle(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	return t.settleGroup(ctx, group, t.writer.settling(group))
}

// Rehearse implements [backlog.Rehearser].
func (t *Table) Rehearse(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	w := t.writer.settling(group)
	w.undo = true
	return t.settleGroup(ctx, group, w)
}

// settling implements [writer].
func (t batchWriter) settling(group []backlog.Settlement) groupWrite {
	var writes []update
	return groupWrite{
		rows: len(group),
		prepare: func(ctx context.Context) (some bool, err error) {
			writes, err = t.prepareBatches(ctx, t.works(group))
			return len(writes) > 0, err
		},
		whole: func(ctx context.Context, tx *sql.Tx) error { return t.writeBatches(ctx, tx, writes) },
		one:   func(ctx context.Context, tx *sql.Tx, i int) error { return t.settleRow(ctx, tx, &group[i]) },
		text: func(i int) (string, int) {
			x := t.updateOf(&group[i])
			return x.text, len(x.args)
		},
	}
}

// prepareBatches returns the statements that write the batches, prepared. Where there is
// nothing to write it looks whether the rows are as they were read.
func (t *Table) prepareBatches(ctx context.Context, works []work) (writes []update, err error) {
	for _, w := range works {
		x := t.update(w)
		if x.text == "" {
			if same, err := t.areAsBefore(ctx, w); !same {
				return nil, cmp.Or(err, backlog.ErrConflict)
			}
			continue
		}
		if err := t.prepared.Prepare(ctx, t.db.Write, t.text.Rebind(x.text)); err != nil {
			return nil, err
		}
		writes = append(writes, x)
	}
	return writes, nil
}

// writeBatches writes each batch with one statement.
func (t *Table) writeBatches(ctx context.Context, tx *sql.Tx, writes []update) error {
	for _, x := range writes {
		n, err := t.prepared.Exec(ctx, tx, t.text.Rebind(x.text), x.args)
		if err != nil || n != int64(len(x.rows)) {
			return cmp.Or(err, backlog.ErrConflict)
		}
		if n, err := t.still(ctx, tx, x.work); n > 0 || err != nil {
			return cmp.Or(err, backlog.ErrConflict)
		}
	}
	return nil
}

// settleRow writes one settlement, or returns why it is not written.
func (t *Table) settleRow(ctx context.Context, tx *sql.Tx, s *backlog.Settlement) (err error) {
	x := t.updateOf(s)
	found := int64(0)
	if x.text != "" {
		found, err = t.prepared.Exec(ctx, tx, t.text.Rebind(x.text), x.args)
	}
	if err != nil {
		return err
	}
	if found == 0 {
		found, err = t.asBefore(ctx, tx, x.work)
		switch {
		case err != nil:
			return err
		case found == 0:
			return t.conflict(ctx, tx, s)
		case x.text != "" && !t.db.CountsChangedOnly:
			return t.unchanged(settings[x.target])
		}
	}
	return t.kept(ctx, tx, x.work, found)
}

// conflict is the error for a row that is not as it was read: nil where a commit of the
// outcome broke before and the row is in the outcome's state.
func (t *Table) conflict(ctx context.Context, tx *sql.Tx, s *backlog.Settlement) error {
	if !s.Record.Unsure {
		return backlog.ErrConflict
	}
	conds := append([]string{t.text.KeyIn(t.key, 1)}, lists.NonEmpty(t.where.cond)...)
	for _, x := range t.actions[s.Target].status {
		cond := x.col + " IS NOT NULL" // a time or a count
		if x.fixed && x.value == nil {
			cond = x.col + " IS NULL"
		} else if x.fixed {
			cond = x.col + " = " + x.expr
		}
		conds = append(conds, t.text.WithoutIndex(cond))
	}
	n, err := t.countWhere(ctx, tx, strings.Join(conds, " AND "), db.AppendKeys(nil, s.Record.Key))
	if err == nil && n == 0 {
		err = backlog.ErrConflict
	}
	return err
}

// unchanged is the *Problem of a row that is as it was, though the database has taken the
// statement that writes to it what the place in the file says.
func (t *layout) unchanged(place string) error {
	by := "a trigger or a rule of the database"
	if len(t.catalog.Triggers) > 0 {
		by = "a trigger: " + strings.Join(t.catalog.Triggers, ", ")
	}
	return problem("change that: records would be handled again and again",
		"%s is undone: a row of table %s is as it was after it was written, which is the work of %s", place, t.m.Name, by)
}

// kept returns an error if the row, found to be written, is as it was, or several have its key.
func (t *Table) kept(ctx context.Context, tx *sql.Tx, w work, found int64) error {
	if found > 1 {
		return fmt.Errorf("table %s has %d rows with the key %v: nothing was written", t.m.Name, found, w.rows[0].Record.Key)
	}
	n, err := t.still(ctx, tx, w)
	if err == nil && n > 0 {
		err = t.unchanged(settings[w.target])
	}
	return err
}

// still returns, where a trigger could see to it, how many rows of a batch that
// has just been written and ends them are in the state that was read.
func (t *Table) still(ctx context.Context, tx *sql.Tx, w work) (int64, error) {
	ends := w.target == backlog.RowSuccess || w.target == backlog.RowDead && t.HasDead()
	if len(t.catalog.Triggers) == 0 || !ends || t.holds(w.state, t.actions[w.target]) {
		return 0, nil
	}
	w.target = backlog.RowSuccess // whose guard asks for no number of failures
	w.exact = false
	return t.asBefore(ctx, tx, w)
}

// asBefore returns how many rows of the batch are as they were read.
func (t *Table) asBefore(ctx context.Context, q db.Querier, w work) (n int64, err error) {
	cond, args := t.asRead(w)
	return t.countWhere(ctx, q, cond, args)
}

// countWhere returns how many rows meet the condition.
func (t *Table) countWhere(ctx context.Context, q db.Querier, cond string, args []any) (n int64, err error) {
	err = q.QueryRowContext(ctx, t.text.Rebind("SELECT count(*) FROM "+t.name+" WHERE "+cond), args...).Scan(&n)
	return n, err
}

// SettleWith calls f in a transaction with the settlement of the record as a success.
// The transaction begins with a look at the row, which must still be as it was read,
// else the error is backlog.ErrConflict, and stays so for others until the end; then
// comes f, and at last the settlement, unless f has left the row in another state or
// deleted it. at is when that is. One commit ends it; after an error nothing of it is
// done. Errors are the driver's.
func (t *Table) SettleWith(ctx context.Context, r *backlog.Record, at func() time.Time, f func(tx *sql.Tx) error) error {
	return t.settleWith(ctx, r, at, false, f)
}

// TryWith does what SettleWith does and undoes it. A record that is not as it was read is not
// settled: then f alone is called.
func (t *Table) TryWith(ctx context.Context, r *backlog.Record, at func() time.Time, f func(tx *sql.Tx) error) error {
	err := t.settleWith(ctx, r, at, true, f)
	if !errors.Is(err, backlog.ErrConflict) {
		return err
	}
	return t.inTx(ctx, true, f)
}

// settleWith is SettleWith, or TryWith where undo says so.
func (t *Table) settleWith(ctx context.Context, r *backlog.Record, at func() time.Time, undo bool, f func(tx *sql.Tx) error) error {
	s := &backlog.Settlement{Record: r, Target: backlog.RowSuccess}
	x := t.updateOf(s)
	find, key := t.lockText(x.work)
	for _, text := range lists.NonEmpty(find, x.text) { // the transaction may have the only connection
		if err := t.prepared.Prepare(ctx, t.db.Write, t.text.Rebind(text)); err != nil {
			return err
		}
	}
	err := t.inTx(ctx, undo, func(tx *sql.Tx) error {
		err := t.prepared.QueryRow(ctx, tx, t.text.Rebind(find), key).Scan(new(int))
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

// A batch is the part of a group that one statement settles: the same state
// was read, the same is to be reached.
type batch struct {
	state  int
	target backlog.RowState
	leaves bool // something in what the row remembers
	ends   bool // it is not tried again
	count  int  // of failures as they were read, where one is added to them
	exact  bool // the outcome may have been written before
	tries  int  // attempts as they were read, if exact; -1: not known
}

// A work is a batch with its rows, settled at a time.
type work struct {
	batch
	rows []*backlog.Settlement
	at   time.Time
}

// works divides the group into batches.
func (t *layout) works(group []backlog.Settlement) []work {
	var list []work // few: a search is faster than a map
	for i := range group {
		b := t.batchOf(&group[i])
		at := slices.IndexFunc(list, func(w work) bool { return w.batch == b })
		if at < 0 {
			at = len(list)
			list = append(list, work{b, make([]*backlog.Settlement, 0, len(group)-i), group[len(group)-1].At})
		}
		list[at].rows = append(list[at].rows, &group[i])
	}
	return list
}

func (t *layout) batchOf(s *backlog.Settlement) batch {
	b := batch{state: s.Record.Origin, target: s.Target}
	if b.exact = s.Record.Exact || s.Record.Unsure; b.exact {
		b.tries = s.Record.Attempts
	}
	if t.counts(b) {
		b.count = s.Record.Memory.Failed()
	}
	b.leaves = s.Memory != nil
	b.ends = b.leaves && b.target == backlog.RowDead && (t.HasDead() || s.Memory.Next.IsZero())
	return b
}

// workOf is the settlement of a single row.
func (t *layout) workOf(s *backlog.Settlement) work {
	return work{t.batchOf(s), []*backlog.Settlement{s}, s.At}
}

// assignments returns what the settlement of the batch writes. The status is left
// alone where the rows have it already.
func (t *layout) assignments(b batch) []assign {
	a := t.actions[b.target]
	list := a.status
	if t.holds(b.state, a) {
		list = nil
	}
	var kept []assign
	switch {
	case b.ends:
		kept = t.policy.died
	case b.leaves:
		kept = t.policy.failed
	}
	return onceEach(slices.Concat(list, kept, a.also))
}

// holds reports whether rows in the state have the action's status already.
func (t *layout) holds(state int, a action) bool {
	return !slices.ContainsFunc(a.status, func(x assign) bool {
		have, ok := t.branches[state].equal[x.col]
		return !x.fixed || !ok || have != x.value // now, or one more: always a change
	})
}

// sizes of prepared updates: keys are filled up to the next one, so that a
// group of any size uses one of a few statements.
var sizes = [...]int{1, 10, 50, backlog.MaxGroup / 2, backlog.MaxGroup}

// padded returns the rows with the last one again and again, as many as a statement has
// places for.
func (w work) padded() []*backlog.Settlement {
	i, _ := slices.BinarySearch(sizes[:], len(w.rows))
	last := w.rows[len(w.rows)-1:]
	return append(slices.Clip(w.rows), slices.Repeat(last, sizes[i]-len(w.rows))...)
}

// An update is a statement that writes an outcome to its rows.
type update struct {
	work
	text string // "": nothing changes
	args []any  // first of what it sets, then of which rows
	set  []assign
}

// update returns the statement that settles the work.
func (t *layout) update(w work) update {
	set, args := t.bound(t.assignments(w.batch), w)
	if len(set) == 0 {
		return update{work: w}
	}
	cond, keys := t.asRead(w)
	return update{w, "UPDATE " + t.name + " SET " + setText(set) + " WHERE " + cond, append(args, keys...), set}
}

// updateOf returns the statement that settles a single row.
func (t *layout) updateOf(s *backlog.Settlement) update { return t.update(t.workOf(s)) }

// bound returns the assignments to the work's rows, and their arguments.
func (t *layout) bound(list []assign, w work) (set []assign, args []any) {
	for _, a := range list {
		switch {
		case a.time != nil:
			args = append(args, t.writeForm(a.time).Write(w.at))
		case a.of != nil:
			a.expr, args = t.perRow(a, w.padded(), args)
		}
		set = append(set, a)
	}
	return set, args
}

// perRow returns the expression for what is assigned to the rows, and adds its arguments:
// the value that they have in common, or else one that it picks by the key.
func (t *layout) perRow(a assign, rows []*backlog.Settlement, args []any) (string, []any) {
	values := lists.Map(rows, a.of)
	if !slices.ContainsFunc(values, func(v any) bool { return v != values[0] }) {
		return "?", append(args, values[0])
	}
	for i, s := range rows {
		args = append(db.AppendKeys(args, s.Record.Key), values[i])
	}
	when := " WHEN " + strings.Join(t.key, " = ? AND ") + " = ? THEN " + t.text.Cast(t.quotedColumn(a.col))
	return "CASE" + strings.Repeat(when, len(rows)) + " END", args
}

func setText(set []assign) string {
	return strings.Join(lists.Map(set, func(a assign) string { return a.col + " = " + a.expr }), ", ")
}

// asRead is the condition of the rows that are as they were read, with its arguments.
func (t *layout) asRead(w work) (cond string, args []any) {
	rows, b := w.padded(), t.branches[w.state]
	args = make([]any, 0, len(rows)*len(t.key)+1)
	for _, s := range slices.Backward(rows) { // newest first, while SQLite sorts faster what ascends
		args = db.AppendKeys(args, s.Record.Key)
	}
	conds := conditions{args: args}
	conds.add(t.text.KeyIn(t.key, len(rows)), nil)
	conds.add(t.text.WithoutIndex(cmp.Or(b.guard, b.cond)), nil)
	if t.counts(w.batch) {
		cond, n := t.policy.column.CountIs(t.policy.count, w.count)
		conds.add(t.text.WithoutIndex(cond), n)
	}
	if t.attempts != nil && w.exact && w.tries >= 0 {
		cond, n := t.attempts.CountIs(t.text.Quote(t.attempts.Name), w.tries)
		conds.add(t.text.WithoutIndex(cond), n)
	}
	conds.add(t.whereUnsearched, nil)
	return conds.all(), conds.args
}

// counts reports whether the number of failures must be as it was read. The state alone does
// not tell that a row has failed once more since then.
func (t *layout) counts(b batch) bool {
	return t.policy.counts() && (b.target != backlog.RowSuccess || b.exact)
}

// AsRead implements [backlog.Verifier].
func (t *Table) AsRead(ctx context.Context, records []backlog.Record) ([]bool, error) {
	group := make([]backlog.Settlement, len(records))
	place := make(map[*backlog.Record]int, len(records))
	for i := range records {
		group[i] = backlog.Settlement{Record: &records[i], Target: backlog.RowSuccess}
		place[&records[i]] = i
	}
	unchanged := make([]bool, len(records))
	err := t.db.Do(ctx, func(ctx context.Context) error {
		for _, w := range t.works(group) {
			all, err := t.areAsBefore(ctx, w)
			for _, s := range w.rows {
				same := all
				if err == nil && !all && len(w.rows) > 1 {
					same, err = t.areAsBefore(ctx, t.workOf(s))
				}
				unchanged[place[s.Record]] = same
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return unchanged, err
}

// areAsBefore reports whether all rows of the batch are as they were read.
func (t *Table) areAsBefore(ctx context.Context, w work) (bool, error) {
	n, err := t.asBefore(ctx, t.db.Read, w)
	return n == int64(len(w.rows)), err
}
