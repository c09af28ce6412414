// Package work is the handler that does its work in the database of the records.
package work

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"backlog/backlog"
	"backlog/backlog/table"
	"backlog/backlog/table/db"
	"backlog/internal/lists"
)

// A SQLHandler handles records by SQL statements in the database of the records. The statements
// for a record and its settlement are one transaction, so that a success happens exactly once, even
// if the program or the server is killed.
//
// The transaction locks the row first, and verifies that it still has the state that was read. Then
// come the statements, which still see that state, and finally the settlement. A statement may
// itself change the status of the row or delete the row. Then that is how the record is settled.
//
// If a statement fails, or should change rows but finds none, all of it is rolled back, and the
// attempt has failed. It does not count as an attempt if the database is unavailable, or locked by
// another program for too long. If the user lacks a right, the pass ends.
//
// All methods may be called concurrently.
type SQLHandler struct {
	t             *table.Table
	d             *db.DB
	steps         []step
	allowZeroRows bool
	reread        []string // quoted columns whose stored values are read again, because records have them in another form

	Log *slog.Logger // logs the exchange for each record at DEBUG; nil: nothing is logged
}

var (
	_ backlog.ConfiguredHandler = (*SQLHandler)(nil)
	_ backlog.SettlingHandler   = (*SQLHandler)(nil)
	_ backlog.TrialHandler      = (*SQLHandler)(nil)
)

// Settings are the configuration of a SQLHandler.
type Settings struct {
	Statements    []string `yaml:"sql,repeat" want:"an SQL statement or a list of them"` // with :column for a value of the record
	AllowZeroRows bool     `yaml:"allow_zero_rows"`                                      // a statement that changes no row has succeeded
}

// A step is one of the handler's statements.
type step struct {
	source  string  // as it was written
	text    string  // with placeholders
	verb    string  // what it does, in capitals: INSERT, also after WITH
	from    []param // the parameters, in order
	changes bool    // it should change rows
}

// A param is the origin of a parameter's value.
type param struct {
	name        string
	keyPart     int // index of a part of the key; -1: not part of the key
	columnIndex int // index among the columns that handlers get; -1: not one of them
	rereadIndex int // index among the columns that are read again; -1: not one of them
}

// New returns a handler that runs the statements, in order, for each record of the table.
//
// In a statement :column, or :"any column", is a parameter for the record's value in a column of the
// key or a column that handlers get. The value is bound as it is stored and with the type of the
// column; it never becomes a part of the text. The statements may select, insert, update and delete.
// Those that should change rows but change none are errors, unless allowZeroRows is set.
//
// An invalid statement is a [*db.Problem]. New does not ask the database.
func New(t *table.Table, statements []string, allowZeroRows bool) (*SQLHandler, error) {
	w := &SQLHandler{t: t, d: t.DB(), allowZeroRows: allowZeroRows}
	for _, text := range statements {
		one, err := w.newStep(text, len(w.steps)+1)
		if err != nil {
			return nil, err
		}
		w.steps = append(w.steps, one)
	}
	if len(w.steps) == 0 {
		return nil, db.Problemf("write what is to be done, such as INSERT INTO …", "handler.sql: there is no statement")
	}
	return w, nil
}

var (
	changing = []string{"INSERT", "UPDATE", "DELETE", "REPLACE", "MERGE"}
	reading  = []string{"SELECT", "VALUES", "WITH"}
	ending   = []string{"BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE"}
)

// newStep parses the n-th statement. It accepts only statements about rows. Others, such as PRAGMA,
// ATTACH or VACUUM, end the transaction or cannot be rolled back in one database or another.
func (w *SQLHandler) newStep(source string, n int) (step, error) {
	text := w.d.Text()
	var from []param
	out, err := parseSQL(source, n, text, func(name string, bare bool) (string, error) {
		p, c, err := w.param(name, n)
		if err != nil {
			return "", err
		}
		from = append(from, p)
		if bare {
			return text.Placeholder(len(from)), nil
		}
		return c.Argument(text.Placeholder(len(from))), nil
	})
	if err != nil {
		return step{}, err
	}
	out.from = from
	out.changes = slices.Contains(changing, out.verb)
	switch {
	case out.changes || slices.Contains(reading, out.verb):
		return out, nil
	case slices.Contains(ending, out.verb):
		return step{}, db.Problemf("remove it", "handler.sql: statement %d is %s: all statements and the record's settlement are one transaction, which begins and ends by itself", n, out.verb)
	}
	return step{}, db.Problemf("write one that begins with "+strings.Join(changing, ", ")+", SELECT or WITH", "handler.sql: statement %d, %s, does not work on rows", n, beginning(out.source))
}

// param returns the origin of a parameter of the n-th statement, and its column.
func (w *SQLHandler) param(name string, n int) (param, *db.Column, error) {
	cat := w.t.Catalog()
	fold := w.d.Text().FoldsNames
	m := w.t.Mapping()
	c := cat.Find(name, fold)
	if c == nil {
		return param{}, nil, cat.MissingColumn(fmt.Sprintf("handler.sql: statement %d: parameter", n), m.Name, name)
	}
	isColumn := func(id string) bool { return cat.Find(id, fold) == c }
	p := param{name: c.Name, keyPart: slices.IndexFunc(m.ID, isColumn), columnIndex: slices.Index(w.t.HandlerColumns(), c.Name), rereadIndex: -1}
	if p.keyPart < 0 && p.columnIndex < 0 {
		return param{}, nil, db.Problemf("add it to table.columns", "handler.sql: statement %d: the handler is not given the column %s", n, c.Name)
	}
	if c.ReadExpr != "" && p.keyPart < 0 {
		quoted := w.d.Text().Quote(c.Name)
		if !slices.Contains(w.reread, quoted) {
			w.reread = append(w.reread, quoted)
		}
		p.rereadIndex = slices.Index(w.reread, quoted)
	}
	return p, c, nil
}

// value returns the value of the parameter as it is stored. reread are the values of the columns that
// were read again.
func (p param) value(r *backlog.Record, reread []any) any {
	switch {
	case p.keyPart >= 0:
		return r.Key.Part(p.keyPart)
	case p.rereadIndex >= 0:
		return reread[p.rereadIndex]
	}
	if v, ok := r.Values[p.columnIndex].(json.RawMessage); ok {
		return string(v) // the driver would bind a RawMessage as a BLOB
	}
	return r.Values[p.columnIndex]
}

// readAgain returns the stored values of the columns that records have in another form, such as
// arrays, which they have as JSON.
func (w *SQLHandler) readAgain(ctx context.Context, tx *sql.Tx, r *backlog.Record) ([]any, error) {
	if len(w.reread) == 0 {
		return nil, nil
	}
	return w.t.Stored(ctx, tx, r.Key, w.reread)
}

// Steps returns the number of statements and the columns of their parameters, each once.
func (w *SQLHandler) Steps() (n int, parameters []string) {
	for _, s := range w.steps {
		parameters = append(parameters, lists.Map(s.from, func(p param) string { return p.name })...)
	}
	return len(w.steps), lists.Distinct(parameters)
}

// Prepare does nothing: [New] has read the statements, and everything else only the database knows.
func (w *SQLHandler) Prepare() error { return nil }

// Check verifies that the database understands the statements and that the user may run them, as far as
// the database says so in advance. It changes nothing. It returns a [*db.Problem] if not.
func (w *SQLHandler) Check(ctx context.Context) error {
	return w.d.Do(ctx, func(ctx context.Context) error {
		for i, s := range w.steps {
			if err := w.d.Plan(ctx, s.text, len(s.from)); err != nil {
				return w.refused(i+1, err)
			}
		}
		return nil
	})
}

// refused returns a *db.Problem for the error with which the database refused to prepare the n-th
// statement. A transient error is returned unchanged.
func (w *SQLHandler) refused(n int, err error) error {
	switch {
	case w.d.IsTransient(err):
		return err
	case w.d.Class(err) != db.Denied:
		cure := "correct it, or create what it names"
		if !w.d.Text().File && len(w.steps[n-1].from) > 0 {
			cure += "; a parameter has the type of its column: where another is needed, cast it, such as CAST(:" + w.steps[n-1].from[0].name + " AS …)"
		}
		return db.Problemf(cure, "handler.sql: statement %d is not understood by the database: %v", n, err)
	}
	what := err.Error()
	if p, ok := errors.AsType[*db.Problem](w.d.AsProblem(err)); ok {
		what = p.What
	}
	return db.Deniedf("let the owner of what it names grant the right to it", "handler.sql: statement %d: %s", n, what)
}

// HandleAndSettle implements [backlog.SettlingHandler].
func (w *SQLHandler) HandleAndSettle(ctx context.Context, r *backlog.Record, now func() time.Time) error {
	return w.transact(ctx, func(ctx context.Context, work func(*sql.Tx) error) error {
		return w.t.SettleWith(ctx, r, now, work)
	}, r)
}

// Handle runs the statements without settling the record, so that they may run again for it. The
// engine calls HandleAndSettle instead.
func (w *SQLHandler) Handle(ctx context.Context, r *backlog.Record) error {
	return w.transact(ctx, w.t.InTx, r)
}

// Try implements [backlog.TrialHandler]. It does what HandleAndSettle does and rolls back. It does not
// settle a record that is not pending. If the settlement writes a time, that is the record's time of
// insertion. Other programs cannot write to an SQLite file during the trial.
func (w *SQLHandler) Try(ctx context.Context, r *backlog.Record) error {
	inserted := func() time.Time { return r.Inserted }
	return w.transact(ctx, func(ctx context.Context, work func(*sql.Tx) error) error {
		return w.t.TryWith(ctx, r, inserted, work)
	}, r)
}

// run runs the statements.
func (w *SQLHandler) run(ctx context.Context, tx *sql.Tx, r *backlog.Record) error {
	var sent, got strings.Builder
	logged := w.Log != nil && w.Log.Enabled(ctx, slog.LevelDebug)
	defer backlog.LogExchange(ctx, w.Log, r, func() (string, string) { return sent.String(), got.String() })
	reread, err := w.readAgain(ctx, tx, r)
	if err != nil {
		return err
	}
	for i, s := range w.steps {
		values := lists.Map(s.from, func(p param) any { return p.value(r, reread) })
		if logged {
			s.show(&sent, i+1, values)
		}
		n, err := w.d.ExecIn(ctx, tx, s.text, values)
		if err == nil && n == 0 && s.changes && !w.allowZeroRows {
			err = errNoRow
		}
		if err != nil {
			err = &stepError{i + 1, err}
			got.WriteString(err.Error())
			return err
		}
		if logged && s.changes {
			fmt.Fprintf(&got, "statement %d: rows affected: %d\n", i+1, n)
		}
	}
	return nil
}

// show writes the statement and the values of its parameters.
func (s *step) show(b *strings.Builder, n int, values []any) {
	fmt.Fprintf(b, "statement %d:\n    %s\n", n, strings.ReplaceAll(s.source, "\n", "\n    "))
	var bound []string
	for i, v := range values {
		bound = append(bound, fmt.Sprintf("  %s = %s\n", s.from[i].name, showValue(v)))
	}
	b.WriteString(strings.Join(lists.Distinct(bound), ""))
}

// showValue returns a value for people. Of a long text it returns the beginning.
func showValue(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case []byte:
		return fmt.Sprintf("a BLOB of %d bytes", len(v))
	case string:
		if short := db.Truncate(v, 200, 0); len(short) < len(v) {
			return strconv.Quote(short) + fmt.Sprintf(" and more, %d bytes", len(v))
		}
		return strconv.Quote(v)
	}
	return fmt.Sprint(v)
}

var errNoRow = errors.New("affected no row")

// A stepError is the error of the n-th statement.
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

// Describe implements [backlog.ConfiguredHandler]. More concurrent calls would only wait for each
// other, while the timeout of their records runs.
func (w *SQLHandler) Describe() backlog.Description {
	if w.d.Text().File || w.d.Write == nil { // nil: it is open for reading only
		return backlog.Description{MaxConcurrency: 1}
	}
	// One connection is needed for reading pages and for settling.
	return backlog.Description{MaxConcurrency: max(1, w.d.Write.Stats().MaxOpenConnections-1)}
}

// transact runs the statements for a record in a transaction. begin begins the transaction, calls work in
// it, and ends it. If the transaction did not begin, the error says that the record was not attempted.
func (w *SQLHandler) transact(ctx context.Context, begin func(ctx context.Context, work func(*sql.Tx) error) error, r *backlog.Record) error {
	if w.d.Write == nil {
		return backlog.Unstarted(db.Problemf("open it to be written to", "the database is open to be read only"))
	}
	var begun bool
	err := w.d.RetryWhileBusy(ctx, func(ctx context.Context) error {
		if err := w.prepare(ctx); err != nil {
			return err
		}
		return begin(ctx, func(tx *sql.Tx) error {
			begun = true
			return w.run(ctx, tx, r)
		})
	})
	s, isStep := errors.AsType[*stepError](err)
	switch {
	case err == nil || errors.Is(err, backlog.ErrConflict) || errors.Is(err, backlog.Skip):
		return err
	case ctx.Err() != nil && !begun:
		return fmt.Errorf("%w: another transaction was not over in time: %w", backlog.ErrUnavailable, context.Cause(ctx))
	case ctx.Err() != nil && isStep: // the driver's error only says that ctx is done
		return &stepError{s.n, context.Cause(ctx)}
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isStep && w.d.Class(s.err) == db.Denied:
		return backlog.Unstarted(w.refused(s.n, s.err))
	}
	return w.d.Wrap(ctx, err)
}

// prepare prepares the statements that are not prepared yet.
func (w *SQLHandler) prepare(ctx context.Context) error {
	for i, s := range w.steps {
		if err := w.d.PrepareWrite(ctx, s.text); err != nil {
			if err = w.refused(i+1, err); errors.As(err, new(*db.Problem)) {
				err = backlog.Unstarted(err)
			}
			return err
		}
	}
	return nil
}
