package table

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"backlog/backlog"
)

// A Work is a handler that does its work in the database of the records, by SQL
// statements: each record's in one transaction with its settlement, so that a
// success happens exactly once, whatever is killed and when.
//
// The transaction begins with a look at the row, which must still have the state
// that was read and stays so for others until the end; then come the statements,
// which see it as it was, and at last the settlement. Statements may change the
// row's status themselves, or delete the row: then that is how it is settled.
//
// A statement that fails, or that is to change rows and finds none, undoes all
// of it: the record is an error. That is no attempt where the database is
// away, or locked by another program for too long; and where the user lacks a
// right, the pass ends.
//
// All methods may be called concurrently.
type Work struct {
	t             *Table
	steps         []step
	locks         []string // the row's, by the state that was read
	settlements   []string // of a success, likewise; "": nothing to write
	allowZeroRows bool

	prepared atomic.Pointer[[]*statement] // nil until the first work; of the steps, the locks, the settlements
}

// A step is one of the statements.
type step struct {
	sqlText
	from    []param // what is bound, in order
	changes bool    // it is there to change rows
}

// A param is where a statement's parameter comes from.
type param struct {
	name    string
	element string // of a column of arrays
	key     int    // part of the key; -1: none
	at      int    // among the handler's columns; -1: none
}

var (
	_ backlog.SettlingHandler = (*Work)(nil)
	_ backlog.Checker         = (*Work)(nil)
	_ backlog.Sampler         = (*Work)(nil)
)

// NewWork returns the handler that runs the statements, in order, for each of
// the table's records. A text may hold several, with semicolons between.
//
// :column, or :"any column", stands for the value that the record has in the
// column, one of the key or of those that the handler is given. It is bound as
// it is stored, never made a part of the text. The statements select, insert,
// update and delete; those that are to change rows and change none are errors
// unless allowZeroRows. What is wrong with them is a [*Problem]; NewWork does
// not ask the database.
func NewWork(t *Table, statements []string, allowZeroRows bool) (*Work, error) {
	w := &Work{t: t, allowZeroRows: allowZeroRows}
	for _, text := range statements {
		list, err := parseSQL(text, len(w.steps)+1, t.d.syntax())
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			one, err := t.step(s, len(w.steps)+1)
			if err != nil {
				return nil, err
			}
			w.steps = append(w.steps, one)
		}
	}
	if len(w.steps) == 0 {
		return nil, problem("write what is to be done, such as INSERT INTO …", "handler.sql: there is no statement")
	}
	for state := range t.branches {
		w.locks = append(w.locks, t.lockText(batch{state: state, outcome: backlog.Succeeded}))
		text, _ := t.updateText(batch{state: state, outcome: backlog.Succeeded}, 1)
		w.settlements = append(w.settlements, text)
	}
	return w, nil
}

var (
	changing = []string{"INSERT", "UPDATE", "DELETE", "REPLACE", "MERGE"}
	reading  = []string{"SELECT", "VALUES", "WITH"}
	ending   = []string{"BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE"}
)

// step is the n-th statement. Only what works on rows is let through: what else
// there is, such as PRAGMA, ATTACH or VACUUM, cannot be undone or ends the
// transaction on one database or another.
func (t *Table) step(s sqlText, n int) (step, error) {
	out := step{sqlText: s, changes: slices.Contains(changing, s.verb)}
	switch {
	case out.changes || slices.Contains(reading, s.verb):
	case slices.Contains(ending, s.verb):
		return step{}, problem("remove it", "handler.sql: statement %d is %s: all statements and the record's settlement are one transaction, which begins and ends by itself", n, s.verb)
	default:
		return step{}, problem("write one that begins with "+strings.Join(changing, ", ")+", SELECT or WITH", "handler.sql: statement %d, %s, does not work on rows", n, beginning(s.source))
	}
	for _, name := range s.params {
		p, err := t.param(name, n)
		if err != nil {
			return step{}, err
		}
		out.from = append(out.from, p)
	}
	return out, nil
}

// param finds a parameter of the n-th statement in the record.
func (t *Table) param(name string, n int) (param, error) {
	c := t.catalog.find(name, t.d.foldsNames())
	if c == nil {
		return param{}, problem("the columns are: "+t.catalog.names(), "handler.sql: statement %d: table %s has no column %q for the parameter", n, t.m.Name, name)
	}
	p := param{
		name: c.name, element: c.element,
		key: slices.Index(t.key, t.d.quote(c.name)),
		at:  slices.Index(t.sel.names, c.name),
	}
	if p.key < 0 && p.at < 0 {
		return param{}, problem("add it to table.columns", "handler.sql: statement %d: the handler is not given the column %s", n, c.name)
	}
	return p, nil
}

// value returns the parameter's value as it is stored.
func (p param) value(r *backlog.Record) any {
	if p.key >= 0 {
		return r.Key.Part(p.key)
	}
	switch v := r.Values[p.at].(type) {
	case json.RawMessage:
		if text, ok := arrayText(v, p.element); ok && p.element != "" {
			return text
		}
		return string(v) // else it would be bound as a BLOB
	default:
		return v
	}
}

func (s *step) args(r *backlog.Record) []any {
	args := make([]any, len(s.from))
	for i, p := range s.from {
		args[i] = p.value(r)
	}
	return args
}

// Steps returns how many statements there are and the columns that they have
// for parameters, each once.
func (w *Work) Steps() (n int, parameters []string) {
	for i := range w.steps {
		for _, p := range w.steps[i].from {
			if !slices.Contains(parameters, p.name) {
				parameters = append(parameters, p.name)
			}
		}
	}
	return len(w.steps), parameters
}

// Check proves that the database understands the statements and that the user
// may run them, as far as it says so before it does, changing nothing. It is a
// [*Problem] if not.
func (w *Work) Check(ctx context.Context) error {
	return w.t.within(ctx, func(ctx context.Context) error {
		for i := range w.steps {
			s := &w.steps[i]
			err := w.t.d.understood(ctx, w.t.db.read, s.text)
			if err == nil {
				err = w.t.d.permits(ctx, w.t.db.read, s.text, len(s.from))
			}
			if err != nil {
				return w.misunderstood(ctx, i, err)
			}
		}
		return nil
	})
}

// misunderstood makes a *Problem of the error by which the database refused to
// prepare the statement, unless it is one that passes.
func (w *Work) misunderstood(ctx context.Context, i int, err error) error {
	d := w.t.d
	if c := d.classify(err); c == classAway || c == classBusy || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if p := w.ungranted(ctx, i, err); p != nil {
		return p
	}
	return problem("correct it, or create what it names", "handler.sql: statement %d is not understood by the database: %v", i+1, err)
}

// ungranted makes a *Problem of the error by which the user was refused the
// statement; it is nil of others.
func (w *Work) ungranted(ctx context.Context, i int, err error) error {
	if p := (*Problem)(nil); errors.As(w.t.d.ungranted(ctx, w.t.db.read, w.steps[i].text, err), &p) {
		return problem(p.Cure, "handler.sql: statement %d: %s", i+1, p.What)
	}
	return nil
}

// HandleAndSettle implements backlog.SettlingHandler.
func (w *Work) HandleAndSettle(ctx context.Context, r *backlog.Record, now func() time.Time) error {
	return w.transact(ctx, func(tx *sql.Tx, prepared []*statement) error {
		if err := w.lock(ctx, tx, r, prepared); err != nil {
			return err
		}
		if err := w.run(ctx, tx, r, prepared); err != nil {
			return err
		}
		return w.settle(ctx, tx, r, now(), prepared)
	})
}

// Handle does the work without settling the record: at least once, then. The
// engine calls HandleAndSettle.
func (w *Work) Handle(ctx context.Context, r *backlog.Record) error {
	return w.transact(ctx, func(tx *sql.Tx, prepared []*statement) error { return w.run(ctx, tx, r, prepared) })
}

// lockText returns the statement that finds a row of the batch as it was read,
// and keeps others from changing it until the transaction ends.
func (t *Table) lockText(b batch) string {
	return "SELECT 1 FROM " + t.name + " WHERE " + t.asRead(b, 1) + t.d.lockRow()
}

// lock is backlog.ErrConflict where the row no longer has the state that was
// read.
func (w *Work) lock(ctx context.Context, tx *sql.Tx, r *backlog.Record, prepared []*statement) error {
	var one int
	err := prepared[len(w.steps)+r.State].queryRow(ctx, tx, bind(nil, r.Key)).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return backlog.ErrConflict
	}
	return err
}

// settle writes that the record has succeeded, unless the statements have left
// the row in another state, or not at all.
func (w *Work) settle(ctx context.Context, tx *sql.Tx, r *backlog.Record, at time.Time, prepared []*statement) error {
	stmt := prepared[len(w.steps)+len(w.locks)+r.State]
	if stmt == nil {
		return nil // there is nothing to write
	}
	s := backlog.Settlement{Record: r, Outcome: backlog.Succeeded, At: at}
	one := work{w.t.batchOf(&s), []*backlog.Settlement{&s}}
	n, err := affected(stmt.exec(ctx, tx, w.t.updateArgs(one, at)))
	switch {
	case err != nil:
		return fmt.Errorf("settlement: %w", err)
	case n > 1:
		return fmt.Errorf("table %s has %d rows with the key %v: nothing was written", w.t.m.Name, n, r.Key)
	}
	return w.t.kept(ctx, tx, one, n)
}

// run runs the statements.
func (w *Work) run(ctx context.Context, tx *sql.Tx, r *backlog.Record, prepared []*statement) error {
	for i := range w.steps {
		s := &w.steps[i]
		n, err := affected(prepared[i].exec(ctx, tx, s.args(r)))
		if err == nil && n == 0 && s.changes && !w.allowZeroRows {
			err = errNoRow
		}
		if err != nil {
			return &stepError{i + 1, err}
		}
	}
	return nil
}

var errNoRow = errors.New("affected no row")

// A stepError is that of the n-th statement.
type stepError struct {
	n   int
	err error
}

func (s *stepError) Error() string {
	if s.err == errNoRow {
		return fmt.Sprintf("statement %d %v", s.n, s.err)
	}
	return fmt.Sprintf("statement %d: %v", s.n, s.err)
}

func (s *stepError) Unwrap() error { return s.err }

func affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Hands returns how many calls at a time are of any use: more would only wait
// for each other, in the time that the record has.
func (w *Work) Hands() int { return w.t.d.writers(w.t.db.write) }
