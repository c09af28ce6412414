package table

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"backlog/backlog"
	"backlog/backlog/mapping"
	"backlog/backlog/table/db"
	"backlog/internal/lists"
)

// An untaken is a write that the database refuses to a row, before it is known whether it
// would refuse it to every row.
type refusedWrite struct {
	write batchUpdate
	place string // in the file, that says what is set
	said  string
	judge db.GuardKind
	name  string // see [db.Fault]
	error        // for a person, as if it refused every row
}

func (u *refusedWrite) Unwrap() error { return u.error }

// untaken is the error of a write that the database refused: what is set, and the place
// in the file that says so. What may pass is returned as it is.
func (t *Table) refusedWrite(place string, w batchUpdate, err error) error {
	class, shown := t.db.Class(err), w.shown(t.text)
	u := &refusedWrite{write: w, place: place}
	u.said, _, _ = strings.Cut(strings.TrimPrefix(err.Error(), "ERROR: "), " (SQLSTATE ")
	u.judge, u.name = t.db.GuardOf(err)
	switch {
	case t.db.IsTransient(err):
		return err
	case class == db.Denied:
		return &backlog.Refusal{Reach: backlog.EveryRow, Err: t.db.AsProblem(err)}
	case class == db.Refused:
		u.error = problem("change it to one that the table takes", "%s: table %s does not take %s: %s", place, t.m.Name, shown, u.said)
		return u
	}
	return everyRow("look at the table's triggers and constraints", "%s: %s cannot be set in table %s: %s", place, shown, t.m.Name, u.said)
}

// revoked is the error of a write after which the row is not as it was written, in the
// words of err, which blame a trigger.
func (t *Table) undoneWrite(place string, w batchUpdate, err error) error {
	return &refusedWrite{write: w, place: place, said: err.Error(), judge: db.Trigger, error: err}
}

// everyRow is a *Problem of the values that are written, whatever the row.
func everyRow(hint, format string, args ...any) error {
	return &backlog.Refusal{Reach: backlog.EveryRow, Err: problem(hint, format, args...)}
}

// judged returns what is known of the refusal's reach: by what the guard that has refused
// the row looks at.
func (t *Table) refusalOf(ctx context.Context, u *refusedWrite) error {
	r := &backlog.Refusal{Reach: backlog.OneRow, Err: u.error}
	var because []string
	guards := t.guardsOf(ctx, u)
	switch {
	case u.judge == db.Unique:
	case len(guards) > 0:
		r.Reach, because = t.reach(u.write, guards)
		if u.judge == db.ForeignKey && r.Reach == backlog.HandlerDecides {
			r.Reach = backlog.OneRow
		}
	case u.judge == db.NotNull, u.judge == db.Type:
		r.Reach, because = t.reach(u.write, []db.Guard{{Columns: []string{u.name}}})
	case u.judge == db.Overflow && !u.write.counts():
		r.Reach = backlog.EveryRow
	}
	shown := u.write.shown(t.text)
	starts := u.write.target == backlog.RowOther || u.write.target == backlog.RowNew // before the handler is called
	switch {
	case starts && r.Reach == backlog.HandlerDecides:
		r.Reach = backlog.OneRow
	case r.Reach == backlog.HandlerDecides:
		r.Err = problem("see that the handler writes what is asked for before it ends",
			"%s: table %s takes %s only by what the row has in %s, which the handler may write: %s", u.place, t.m.Name, shown, strings.Join(because, ", "), u.said)
	}
	if r.Reach == backlog.OneRow {
		r.Err = problem("look at the row, and at what the table asks of it", "%s: this row does not take %s: %s", u.place, shown, u.said)
	}
	return r
}

// anyColumn stands for the columns that a guard does not name, since it has the row as a whole.
const anyColumn = "the row as a whole"

// reach says whose trouble a refusal by one of the guards is, and which columns the handler
// may write, by what they name: what we write is the same in every row, the key and what
// selects the row are its own, and all else may be the handler's.
func (t *layout) reach(w batchUpdate, guards []db.Guard) (r backlog.Reach, because []string) {
	r = backlog.EveryRow
	for i := range guards {
		if guards[i].ReadsWholeRow() {
			because = append(because, anyColumn)
		}
		for _, name := range guards[i].Mentions(t.catalog.ColumnNames()) {
			quoted := t.text.Quote(name)
			switch {
			case guards[i].Kind == db.Check && t.varies(w, quoted):
				r = backlog.OneRow
			case w.fixes(quoted), quoted == t.status:
			case guards[i].Kind == db.Trigger && slices.Contains(t.key, quoted): // by which it finds the row
			case w.sets(quoted), t.selects(quoted):
				r = backlog.OneRow
			default:
				because = append(because, name)
			}
		}
	}
	if because != nil {
		return backlog.HandlerDecides, lists.Distinct(because)
	}
	return r, nil
}

// sets reports whether the quoted column is written.
func (w *batchUpdate) sets(quoted string) bool {
	return slices.ContainsFunc(w.set, func(a setClause) bool { return a.column == quoted })
}

// fixes reports whether what is written to the column is the same in every row.
func (w *batchUpdate) fixes(quoted string) bool {
	return slices.ContainsFunc(w.set, func(a setClause) bool { return a.column == quoted && !strings.Contains(a.expr, quoted) })
}

// varies reports whether what is written to the column is computed for each row, as a count
// or a time of the policy is.
func (t *layout) varies(w batchUpdate, quoted string) bool {
	isError := t.errorColumn != nil && t.text.Quote(t.errorColumn.Name) == quoted
	return !isError && slices.ContainsFunc(w.set, func(a setClause) bool { return a.column == quoted && a.valueOf != nil })
}

// counts reports whether something is written that depends on what the row has.
func (w *batchUpdate) counts() bool {
	return slices.ContainsFunc(w.set, func(a setClause) bool { return strings.Contains(a.expr, a.column) })
}

// selects reports whether the column belongs to the key, or to what makes a row pending.
func (t *layout) selects(quoted string) bool {
	if slices.Contains(t.key, quoted) {
		return true
	}
	for _, c := range []*timeColumn{t.inserted, t.eligible, t.expires} {
		if c != nil && c.quoted == quoted {
			return true
		}
	}
	conditions := slices.Clone(t.m.Where)
	for _, s := range t.m.States() {
		conditions = append(conditions, s.When...)
	}
	return slices.ContainsFunc(conditions, func(c mapping.Condition) bool { return strings.EqualFold(t.text.Quote(c.Column), quoted) })
}

// guardList are a table's guards as they were at a time.
type guardList struct {
	mu   sync.Mutex
	list []db.Guard
	read time.Time
}

// guardsFor is how long the guards are believed to be what they were: many rows may be
// refused one after the other.
const guardsLifetime = 10 * time.Second

// guardsOf returns the guards of which one has refused the write; none where the user may
// not see it, or where it is not the table's own.
func (t *Table) guardsOf(ctx context.Context, u *refusedWrite) []db.Guard {
	if u.judge == db.Unique || u.judge == db.Overflow {
		return nil
	}
	all, err := t.guards.get(func() ([]db.Guard, error) {
		return db.Get(ctx, t.db, func(ctx context.Context) ([]db.Guard, error) { return t.db.Guards(ctx, t.db.Read, t.catalog) })
	})
	if err != nil {
		return nil
	}
	of := func(judge db.GuardKind, is func(db.Guard) bool) []db.Guard {
		return slices.DeleteFunc(slices.Clone(all), func(g db.Guard) bool { return g.Kind != judge || !is(g) })
	}
	hasName := func(g db.Guard) bool { return g.Name == "" || strings.EqualFold(g.Name, u.name) }
	if u.judge == db.Check || u.judge == db.ForeignKey {
		if found := of(u.judge, hasName); len(found) > 0 {
			return found
		}
	}
	own := u.write.sets(t.text.Quote(u.name)) || u.name == "" // a column
	if u.judge == db.Type && own {
		return nil
	}
	if u.judge == db.NotNull && t.writesNull(u.write, u.name) {
		return nil
	}
	// It is a trigger, or the table that one writes to.
	said := func(g db.Guard) bool {
		return strings.Contains(u.name, g.Name+"(") || u.name != "" && strings.Contains(g.Text, strings.ReplaceAll(u.name, "'", "''"))
	}
	if found := of(db.Trigger, said); len(found) > 0 {
		return found
	}
	return of(db.Trigger, func(db.Guard) bool { return true })
}

// writesNull reports whether the write sets the column to NULL.
func (t *layout) writesNull(w batchUpdate, name string) bool {
	quoted := t.text.Quote(name)
	return slices.ContainsFunc(w.set, func(a setClause) bool { return a.column == quoted && a.constant && a.value == nil })
}

// get returns the guards, which read reads where they are too old.
func (g *guardList) get(read func() ([]db.Guard, error)) ([]db.Guard, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.read.IsZero() && time.Since(g.read) < guardsLifetime {
		return g.list, nil
	}
	list, err := read()
	if err != nil {
		return nil, fmt.Errorf("the constraints of the table: %w", err)
	}
	g.list = list
	g.read = time.Now()
	return list, nil
}
