package table

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"backlog/backlog"
	"backlog/backlog/table/db"
	"backlog/internal/lists"
)

// A refusedWrite is the error of a write that the database has refused for one row. Whether it
// would refuse every row is found out by [Table.refusalOf].
type refusedWrite struct {
	write batchUpdate
	place string       // the setting that says what is written
	said  string       // by the database
	rule  db.GuardKind // the kind of rule that refused the write
	name  string       // of the guard or column, see [db.Fault]
	error              // for people, in case it is about every row
}

func (u *refusedWrite) Unwrap() error { return u.error }

// refusedWrite returns an error that says what was written, and which setting says so. It
// returns transient errors unchanged.
func (t *Table) refusedWrite(place string, w batchUpdate, err error) error {
	class := t.db.Class(err)
	shown := w.shown(t.text)
	u := &refusedWrite{write: w, place: place}
	u.said, _, _ = strings.Cut(strings.TrimPrefix(err.Error(), "ERROR: "), " (SQLSTATE ")
	u.rule, u.name = t.db.GuardOf(err)
	cause := t.db.AsProblem(err)
	isKnown := errors.As(cause, new(*db.Problem)) // such as a damaged file: no rule of the table is to blame
	switch {
	case t.db.IsTransient(err):
		return err
	case class == db.Refused:
		u.error = problem("change it to one that the table takes", "%s: table %s does not take %s: %s", place, t.m.Name, shown, u.said)
		return u
	case class == db.Denied, isKnown:
		return &backlog.Refusal{Reach: backlog.EveryRow, Err: cause}
	}
	return everyRow("look at the table's triggers and constraints", "%s: %s cannot be set in table %s: %s", place, shown, t.m.Name, u.said)
}

// refusedByTrigger returns the error of a write that a trigger has undone or changed. err says so for
// people.
func (t *Table) refusedByTrigger(place string, w batchUpdate, err error) error {
	return &refusedWrite{write: w, place: place, said: err.Error(), rule: db.Trigger, error: err}
}

// everyRow returns a refusal that is the same for every row.
func everyRow(hint, format string, args ...any) error {
	return &backlog.Refusal{Reach: backlog.EveryRow, Err: problem(hint, format, args...)}
}

// refusalOf returns a [*backlog.Refusal] that says which rows the database would refuse too. It
// concludes that from the columns that the refusing guard reads.
func (t *Table) refusalOf(ctx context.Context, u *refusedWrite) error {
	reach, because := t.reachOf(ctx, u)
	isBeforeHandler := u.write.target == backlog.RowOther || u.write.target == backlog.RowNew
	if isBeforeHandler && reach == backlog.HandlerDecides { // no handler can change it any more
		reach = backlog.OneRow
	}
	shown := u.write.shown(t.text)
	why := u.error
	switch reach {
	case backlog.HandlerDecides:
		why = problem("see that the handler writes what is asked for before it ends",
			"%s: table %s takes %s only by what the row has in %s, which the handler may write: %s", u.place, t.m.Name, shown, strings.Join(because, ", "), u.said)
	case backlog.OneRow:
		why = problem("look at the row, and at what the table asks of it", "%s: this row does not take %s: %s", u.place, shown, u.said)
	}
	return &backlog.Refusal{Reach: reach, Err: why}
}

// reachOf returns which rows the database would refuse too, and the columns on which that depends
// where the handler decides it.
func (t *Table) reachOf(ctx context.Context, u *refusedWrite) (reach backlog.Reach, because []string) {
	guards := t.guardsOf(ctx, u)
	switch {
	case u.rule == db.Unique:
		return backlog.OneRow, nil
	case len(guards) > 0:
		reach, because = t.reach(u.write, guards)
		if u.rule == db.ForeignKey && reach == backlog.HandlerDecides {
			reach = backlog.OneRow
		}
		return reach, because
	case u.rule == db.NotNull, u.rule == db.Type:
		return t.reach(u.write, []db.Guard{{Columns: []string{u.name}}})
	case u.rule == db.Overflow && !u.write.counts():
		return backlog.EveryRow, nil
	}
	return backlog.OneRow, nil
}

// anyColumn stands for the columns of a guard that reads the row as a whole.
const anyColumn = "the row as a whole"

// reach concludes from the columns that the guards mention which rows they would refuse too.
// Constants that a settlement writes are the same in every row. The key and the columns that
// select a row differ from row to row. Every other column may be written by the handler: those
// are returned as the reason.
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
			case guards[i].Kind == db.Trigger && slices.Contains(t.key, quoted): // the trigger finds the row by it
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

// sets reports whether the update writes the quoted column.
func (w *batchUpdate) sets(quoted string) bool {
	return slices.ContainsFunc(w.set, func(a setClause) bool { return a.column == quoted })
}

// fixes reports whether the update writes the same value to the column of every row.
func (w *batchUpdate) fixes(quoted string) bool {
	isFixed := func(a setClause) bool { return a.column == quoted && !strings.Contains(a.expr, quoted) }
	return slices.ContainsFunc(w.set, isFixed)
}

// varies reports whether the update computes the value of the column for each row, such as a
// count or a time of the policy. The text of an error does not count.
func (t *layout) varies(w batchUpdate, quoted string) bool {
	isError := t.errorColumn != nil && t.text.Quote(t.errorColumn.Name) == quoted
	isComputed := func(a setClause) bool { return a.column == quoted && a.valueOf != nil }
	return !isError && slices.ContainsFunc(w.set, isComputed)
}

// counts reports whether the update computes a value from a value of the row.
func (w *batchUpdate) counts() bool {
	return slices.ContainsFunc(w.set, func(a setClause) bool { return strings.Contains(a.expr, a.column) })
}

// selects reports whether the column belongs to the key, or to the conditions of a pending row.
func (t *layout) selects(quoted string) bool {
	if slices.Contains(t.key, quoted) {
		return true
	}
	for _, c := range []*timeColumn{t.inserted, t.eligible, t.expires} {
		if c != nil && c.quoted == quoted {
			return true
		}
	}
	return t.decidesState(quoted)
}

// A guardList caches the guards of the table.
type guardList struct {
	mu     sync.Mutex
	list   []db.Guard
	readAt time.Time
}

// guardsLifetime is how long guards are cached. Many rows may be refused one after the other.
const guardsLifetime = 10 * time.Second

// guardsOf returns the guards that may have refused the write. It returns none if the user is
// not allowed to see them, or if the refusal came from a column type.
func (t *Table) guardsOf(ctx context.Context, u *refusedWrite) []db.Guard {
	if u.rule == db.Unique || u.rule == db.Overflow {
		return nil
	}
	all, err := t.guards.get(func() ([]db.Guard, error) {
		return db.Get(ctx, t.db, func(ctx context.Context) ([]db.Guard, error) {
			return t.db.Guards(ctx, t.db.Read, t.catalog)
		})
	})
	if err != nil {
		return nil
	}
	guardsOf := func(kind db.GuardKind, matches func(db.Guard) bool) []db.Guard {
		return slices.DeleteFunc(slices.Clone(all), func(g db.Guard) bool { return g.Kind != kind || !matches(g) })
	}
	hasName := func(g db.Guard) bool { return g.Name == "" || strings.EqualFold(g.Name, u.name) }
	if u.rule == db.Check || u.rule == db.ForeignKey {
		if found := guardsOf(u.rule, hasName); len(found) > 0 {
			return found
		}
	}
	isOurColumn := u.name == "" || u.write.sets(t.text.Quote(u.name))
	if u.rule == db.Type && isOurColumn {
		return nil
	}
	if u.rule == db.NotNull && t.writesNull(u.write, u.name) {
		return nil
	}
	// What remains is a trigger, or a guard of a table that a trigger writes to.
	raised := strings.ReplaceAll(u.name, "'", "''")
	isNamed := func(g db.Guard) bool {
		return strings.Contains(u.name, g.Name+"(") || raised != "" && strings.Contains(g.Text, raised)
	}
	if found := guardsOf(db.Trigger, isNamed); len(found) > 0 {
		return found
	}
	return guardsOf(db.Trigger, func(db.Guard) bool { return true })
}

// writesNull reports whether the update sets the column to NULL.
func (t *layout) writesNull(w batchUpdate, name string) bool {
	quoted := t.text.Quote(name)
	isNull := func(a setClause) bool { return a.column == quoted && a.constant && a.value == nil }
	return slices.ContainsFunc(w.set, isNull)
}

// get returns the guards. It calls read if they are not cached, or for too long.
func (g *guardList) get(read func() ([]db.Guard, error)) ([]db.Guard, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.readAt.IsZero() && time.Since(g.readAt) < guardsLifetime {
		return g.list, nil
	}
	list, err := read()
	if err != nil {
		return nil, fmt.Errorf("the constraints of the table: %w", err)
	}
	g.list = list
	g.readAt = time.Now()
	return list, nil
}
