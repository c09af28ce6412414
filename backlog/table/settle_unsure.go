package table

import (
	"context"
	"database/sql"
	"strings"

	"backlog/backlog"
)

// A commitError is an error of a commit. Where the connection broke, nobody
// knows whether what came before it is written.
type commitError struct{ error }

func (e commitError) Unwrap() error { return e.error }

// noteUnsure notes how the settlement of the group has ended; unsure says that a
// commit of it broke. What is tried again after a commit with an unknown end may
// find rows that are no longer as they were read, and that is not the work of
// others then.
func (t *Table) noteUnsure(group []backlog.Settlement, unsure bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unsure == nil {
		t.unsure = make(map[string]bool)
	}
	for i := range group {
		switch id := group[i].Record.AttemptID; {
		case err != nil && unsure && id != "":
			t.unsure[id] = true
		case err == nil:
			delete(t.unsure, id)
		}
	}
}

// written reports whether a row that is no longer as it was read is so because
// this very outcome has been written before.
func (t *Table) written(ctx context.Context, tx *sql.Tx, s *backlog.Settlement) (bool, error) {
	t.mu.Lock()
	may := t.unsure[s.Record.AttemptID]
	t.mu.Unlock()
	if !may {
		return false, nil
	}
	a := t.actions[t.batchOf(s).outcome]
	conds := []string{t.d.keyIn(t.key, 1)}
	for _, x := range a.status {
		switch v, plain := a.equal[strings.ToLower(t.quotedColumn(x.col).name)]; {
		case plain && v != nil:
			conds = append(conds, t.d.guard(x.col+" = "+t.d.literal(v)))
		case plain:
			conds = append(conds, t.d.guard(x.col+" IS NULL"))
		default:
			conds = append(conds, t.d.guard(x.col+" IS NOT NULL"))
		}
	}
	if t.where != "" {
		conds = append(conds, t.d.guard(t.where))
	}
	text := t.d.place("SELECT count(*) FROM " + t.name + " WHERE " + strings.Join(conds, " AND "))
	var n int
	err := tx.QueryRowContext(ctx, text, bind(nil, s.Record.Key)...).Scan(&n)
	return n == 1, err
}
