package table

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"backlog/backlog"
)

// A batch is the part of a group that one statement settles: the same state
// was read, the same is to be written.
type batch struct {
	state   int
	outcome backlog.Outcome
	text    string // of the error, where a column holds it
	ends    bool   // the record is given up, or rejected for good
	each    bool   // the rows have different values to be written for the policy
	count   int    // of failures as they were read, where one is added to them
}

// A work is a batch with its rows.
type work struct {
	batch
	rows []*backlog.Settlement
}

// Settle implements backlog.Store. The group is written with one statement per
// batch; when those find that a row was changed, or one is refused, all is
// rolled back and written row by row, to tell which.
func (t *Table) Settle(ctx context.Context, group []backlog.Settlement) ([]backlog.Unsettled, error) {
	if len(group) == 0 {
		return nil, ctx.Err()
	}
	if len(group) > backlog.MaxGroup {
		return nil, fmt.Errorf("a group of %d outcomes, more than %d", len(group), backlog.MaxGroup)
	}
	var left []backlog.Unsettled
	unsure := false
	err := t.within(ctx, func(ctx context.Context) error {
		left = nil
		err := t.settleBatches(ctx, t.works(group), group[len(group)-1].At)
		if err == nil {
			t.judge(nil, len(group))
		}
		if errors.Is(err, errRowByRow) {
			left, err = t.settleRows(ctx, group)
		}
		unsure = unsure || errors.As(err, new(commitError)) // before it is put in words
		return err
	})
	t.noteUnsure(group, unsure, err)
	return left, err
}

// works divides the group into batches.
func (t *Table) works(group []backlog.Settlement) []work {
	var list []work
	place := make(map[batch]int)
	for i := range group {
		b := t.batchOf(&group[i])
		at, ok := place[b]
		if !ok {
			at = len(list)
			place[b] = at
			list = append(list, work{batch: b})
		}
		list[at].rows = append(list[at].rows, &group[i])
	}
	for i := range list {
		list[i].each = t.differs(list[i].batch, list[i].rows)
	}
	return list
}

// errRowByRow says that a group cannot be written as a whole.
var errRowByRow = errors.New("row by row")

func (t *Table) inTx(ctx context.Context, f func(*sql.Tx) error) error {
	conn, err := t.db.write.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	tx, err := t.d.begin(ctx, conn)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		tx.Rollback()
		return err
	}
	if err := tx.Commit(); err != nil {
		return commitError{err}
	}
	return nil
}

// settleBatches writes each batch with one statement. The statements are
// prepared before the transaction begins, since it has the only connection.
func (t *Table) settleBatches(ctx context.Context, works []work, at time.Time) error {
	updates := make([]*statement, len(works))
	writes := false
	for i, w := range works {
		text, _ := t.updateText(w.batch, roundUp(len(w.rows)))
		if text == "" {
			continue
		}
		stmt, err := t.prepare(ctx, t.db.write, t.d.place(text))
		if err != nil {
			return err
		}
		updates[i], writes = stmt, true
	}
	if !writes {
		return nil
	}
	return t.inTx(ctx, func(tx *sql.Tx) error {
		for i, w := range works {
			if updates[i] == nil {
				continue
			}
			res, err := updates[i].exec(ctx, tx, t.updateArgs(w, at))
			if err != nil {
				if t.d.classify(err) == classRefused {
					return errRowByRow
				}
				return err
			}
			if n, err := res.RowsAffected(); err != nil {
				return err
			} else if n != int64(len(w.rows)) {
				return errRowByRow
			}
			if stays, err := t.stays(ctx, tx, w); err != nil {
				return err
			} else if stays {
				return errRowByRow
			}
		}
		return nil
	})
}

func (t *Table) settleRows(ctx context.Context, group []backlog.Settlement) (left []backlog.Unsettled, err error) {
	refused, err := t.rowByRow(ctx, len(group), func(tx *sql.Tx, i int) error {
		n, err := t.settleRow(ctx, tx, &group[i])
		if err != nil {
			return err
		}
		return t.confirm(ctx, tx, &group[i], n)
	})
	if err != nil {
		return nil, err
	}
	t.judge(refused, len(group))
	for i, reason := range refused {
		left = append(left, backlog.Unsettled{Index: i, Err: reason})
	}
	return left, nil
}

// rowByRow calls write for each of n rows in one transaction and undoes what
// those have done that the database refuses, or that return ErrConflict. Their
// errors are returned by row; after any other error nothing is written.
func (t *Table) rowByRow(ctx context.Context, n int, write func(tx *sql.Tx, i int) error) (refused map[int]error, err error) {
	refused = make(map[int]error)
	for {
		lost := false
		err := t.inTx(ctx, func(tx *sql.Tx) error {
			for i := range n {
				if refused[i] != nil {
					continue
				}
				if _, err := tx.ExecContext(ctx, "SAVEPOINT one"); err != nil {
					return err
				}
				err := write(tx, i)
				if err != nil && !errors.Is(err, backlog.ErrConflict) && !errors.As(err, new(*undoneError)) && t.d.classify(err) != classRefused {
					return err
				}
				if err != nil {
					refused[i] = err
					if _, err := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT one"); err != nil {
						// A trigger can end the transaction, RAISE(ROLLBACK):
						// the others have to be written anew.
						lost = t.d.classify(err) == classOther
						return err
					}
				}
				if _, err := tx.ExecContext(ctx, "RELEASE SAVEPOINT one"); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil || !lost || ctx.Err() != nil {
			return refused, err
		}
	}
}

func (t *Table) batchOf(s *backlog.Settlement) batch {
	b := batch{state: s.Record.State, outcome: s.Outcome}
	if s.GivenUp {
		b.outcome = backlog.Rejected
	}
	if t.counts(b) {
		b.count = s.Record.Retry.Count
	}
	b.ends = s.GivenUp || b.outcome == backlog.Rejected && t.HasDead()
	if c := t.actions[b.outcome].errCol; c != nil {
		b.text = c.note(s.Error)
	}
	return b
}

// note returns what the column can hold of a text that somebody else has
// worded.
func (c *column) note(s string) string {
	s = cut(s, c.length, c.octets)
	if c.holds == nil {
		return s
	}
	return strings.Map(func(r rune) rune {
		if c.holds(r) {
			return r
		}
		return '?'
	}, s)
}

// cut returns the text as a column can hold it: valid UTF-8 without NULs, of at
// most so many characters and so many bytes; 0: no limit but a sane one.
func cut(s string, characters, octets int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if characters <= 0 {
		characters = 64 << 10
	}
	if octets <= 0 {
		octets = len(s)
	}
	for i, count := 0, 0; i < len(s); count++ {
		_, size := utf8.DecodeRuneInString(s[i:])
		if count == characters || i+size > octets {
			return s[:i]
		}
		i += size
	}
	return s
}

// assignments returns what the settlement of the batch writes but for the
// error and the policy's columns. The status is left alone where the rows have
// it already.
func (t *Table) assignments(b batch) []assign {
	a := t.actions[b.outcome]
	list := a.status
	if t.holds(b.state, a) {
		list = nil
	}
	also, policy := a.also, t.retryAssigns(b, 1)
	if len(policy) > 0 {
		also = slices.DeleteFunc(slices.Clone(also), func(x assign) bool {
			return slices.ContainsFunc(policy, func(y assign) bool { return x.col == y.col })
		})
	}
	return slices.Concat(list, also)
}

// holds reports whether rows in the state have the action's status already.
func (t *Table) holds(state int, a action) bool {
	if len(a.equal) < len(a.status) {
		return false // now, or one more: always a change
	}
	have := t.branches[state].equal
	for col, v := range a.equal {
		if h, ok := have[col]; !ok || h != v {
			return false
		}
	}
	return true
}

// sizes of prepared updates: keys are filled up to the next one, so that a
// group of any size uses one of a few statements.
var sizes = [...]int{1, 10, 50, backlog.MaxGroup / 2, backlog.MaxGroup}

func roundUp(n int) int {
	i, _ := slices.BinarySearch(sizes[:], n)
	return sizes[i]
}

// settleRow writes one settlement and returns how many rows it found.
func (t *Table) settleRow(ctx context.Context, tx *sql.Tx, s *backlog.Settlement) (int64, error) {
	w := work{batch: t.batchOf(s), rows: []*backlog.Settlement{s}}
	text, _ := t.updateText(w.batch, 1)
	if text == "" {
		return 1, nil
	}
	found := int64(-1)
	if t.db.changedOnly {
		var err error
		if found, err = t.lockRows(ctx, tx, w.batch, s.Record); found == 0 || err != nil {
			return 0, err
		}
	}
	res, err := tx.ExecContext(ctx, t.d.place(text), t.updateArgs(w, s.At)...)
	if err != nil {
		return 0, err
	}
	if found > 0 {
		return found, nil
	}
	return res.RowsAffected()
}

// lockRows keeps others from the record's row until the end of the transaction,
// if it still is as it was read, and returns how many there are.
func (t *Table) lockRows(ctx context.Context, tx *sql.Tx, b batch, r *backlog.Record) (n int64, err error) {
	rows, err := tx.QueryContext(ctx, t.d.place(t.lockText(b)), append(bind(nil, r.Key), t.readArgs(b)...)...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		n++
	}
	return n, rows.Err()
}

// updateArgs returns the arguments of the batch's statement for roundUp(len(rows))
// keys; the last key fills the places that are left.
func (t *Table) updateArgs(w work, at time.Time) []any {
	n := roundUp(len(w.rows))
	args := append(make([]any, 0, n*len(t.key)+5), t.setArgs(w, at)...)
	for i := range n {
		args = bind(args, w.rows[min(i, len(w.rows)-1)].Record.Key)
	}
	return append(args, t.readArgs(w.batch)...)
}

// setArgs are those of what is set.
func (t *Table) setArgs(w work, at time.Time) []any {
	var args []any
	for _, a := range t.assignments(w.batch) {
		if a.time != nil {
			args = append(args, t.writeForm(a.time).write(at))
		}
	}
	if t.actions[w.outcome].errCol != nil {
		args = append(args, w.text)
	}
	return append(args, t.retryArgs(w.batch, w.rows, roundUp(len(w.rows)))...)
}

// updateText returns the statement for n keys, "" if there is nothing to
// write, and what it sets.
func (t *Table) updateText(b batch, n int) (string, []assign) {
	set := t.assignments(b)
	if c := t.actions[b.outcome].errCol; c != nil {
		set = append(set, assign{col: t.d.quote(c.name), expr: "?"})
	}
	set = append(set, t.retryAssigns(b, n)...)
	if len(set) == 0 {
		return "", nil
	}
	return "UPDATE " + t.name + " SET " + setText(set) + " WHERE " + t.asRead(b, n), set
}

func nonEmpty(list ...string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}

func setText(set []assign) string {
	list := make([]string, len(set))
	for i, a := range set {
		expr := a.expr
		if a.time != nil {
			expr = "?"
		}
		list[i] = a.col + " = " + expr
	}
	return strings.Join(list, ", ")
}
