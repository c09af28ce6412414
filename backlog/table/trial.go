package table

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"backlog/backlog"
)

// trialWrites are the writes that a settlement of each state can make.
func (t *Table) trialWrites(now time.Time) []trialWrite {
	var list []trialWrite
	for i := range t.branches {
		for _, o := range slices.Sorted(maps.Keys(settings)) {
			list = append(list, t.trialWrite(i, o, false, now)...)
		}
		if t.retry != nil && t.retry.retries >= 0 {
			list = append(list, t.trialWrite(i, backlog.Errored, true, now)...)
		}
	}
	return list
}

// trialWrite is that of one outcome, none if there is nothing to write.
func (t *Table) trialWrite(state int, o backlog.Outcome, givenUp bool, now time.Time) []trialWrite {
	s := backlog.Settlement{
		Record: &backlog.Record{State: state}, Outcome: o, Error: "the text of an error", At: now,
		Retry: backlog.Retry{Count: 1, Next: now}, GivenUp: givenUp,
	}
	w := work{batch: t.batchOf(&s), rows: []*backlog.Settlement{&s}}
	text, set := t.updateText(w.batch, 1)
	if text == "" {
		return nil
	}
	return []trialWrite{{
		setting: settings[o], batch: w.batch, text: text, set: setText(set), assigns: set,
		cond: strings.Join(append([]string{t.branches[state].cond}, nonEmpty(t.where)...), " AND "),
		args: t.setArgs(w, now),
	}}
}

// settings name the place in the file from which an outcome's status comes.
var settings = map[backlog.Outcome]string{
	backlog.Succeeded: "statuses.success",
	backlog.Errored:   "statuses.error",
	backlog.Rejected:  "statuses.dead",
}

// A trialWrite is an update that is tried on a copy of rows.
type trialWrite struct {
	setting string // where it comes from
	batch   batch
	inState bool   // the row that it is tried on is one that it is for
	text    string // the statement
	cond    string // which rows it is for
	set     string
	assigns []assign // that it is made of
	args    []any    // of set
}

// A reference is a foreign key over one column: its name, and the table and the
// key, both quoted, in which its values must be.
type reference struct{ name, to, key string }

// tryReference is a *Problem if the value that the expression sets is not where
// the foreign key looks for it. It returns those errors of the database that tell
// nothing about that; others are noted.
func (t *Table) tryReference(ctx context.Context, db *sql.DB, w trialWrite, expr string, r reference, tellsNothing func(error) bool) error {
	var has bool
	err := db.QueryRowContext(ctx, fmt.Sprintf("SELECT (%s) IS NULL OR EXISTS (SELECT 1 FROM %s WHERE %s = %s)", expr, r.to, r.key, expr)).Scan(&has)
	switch {
	case err != nil && (ctx.Err() != nil || tellsNothing(err)):
		return err
	case err != nil:
		t.note("whether %s is in %s, to which the constraint %s refers, could not be seen: %v", expr, r.to, r.name, err)
	case !has:
		return problem("insert it there, or change it", "%s: table %s does not take %s: %s has no such %s, to which the constraint %s refers", w.setting, t.m.Name, w.set, r.to, r.key, r.name)
	}
	return nil
}
