package table

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"backlog/backlog"
)

// missingColumns returns the statements that add the policy's columns to a
// table that is there, and then the indexes. Where none of them is missing,
// whatever is wrong with the table stays so.
func missingColumns(ctx context.Context, db *DB, m Mapping, now time.Time, wrong error) ([]string, error) {
	cat, err := db.dialect.describe(ctx, db.read, m.Schema, m.Name)
	if err != nil {
		return nil, db.wrap(ctx, err)
	}
	d := db.dialect
	var steps []string
	for _, c := range retryColumns(d.types(), m, cat) {
		if cat.find(c.name, d.foldsNames()) == nil {
			steps = append(steps, fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", qualified(d, cmp.Or(m.Schema, cat.schema), m.Name), d.quote(c.name), c))
			cat.columns = append(cat.columns, c.column())
		}
	}
	if len(steps) == 0 {
		return nil, wrong
	}
	have, err := d.created(ctx, db.read, m.Name)
	if err != nil {
		return nil, db.wrap(ctx, err)
	}
	indexes, err := indexesOf(ctx, db, m, cat, now, append(have, steps...)...)
	return append(steps, indexes...), err
}

// A retryIndex is an index that the failed lane of a branch is read by.
type retryIndex struct {
	name    string
	classes []retryClass
	conds   []string
	columns []string // quoted
}

// retryIndexes returns those of a branch. Records that wait equally long are a
// range of one index each; those who have failed more often than the curve grows
// are many numbers of failures, and need an index of their own to come in order.
func (t *Table) retryIndexes(i int) []retryIndex {
	b, c := t.branches[i], t.retry
	name := fmt.Sprintf("%s_backlog_%s", t.m.Name, "retry")
	if i > 0 && t.followsPolicy(t.branches[i-1].lane) {
		name = fmt.Sprintf("%s_%d", name, i)
	}
	if c.next != nil {
		return []retryIndex{{name, c.classes, []string{b.cond}, []string{c.next.quoted}}}
	}
	var single, many []retryClass
	for _, x := range c.classes {
		switch {
		case x.odd:
		case x.many:
			many = append(many, x)
		default:
			single = append(single, x)
		}
	}
	var list []retryIndex
	if len(single) > 0 {
		list = append(list, retryIndex{name, single, []string{b.base}, []string{c.count, c.last.quoted}})
	}
	if len(many) > 0 {
		list = append(list, retryIndex{name + "_max", many, []string{b.base, many[0].cond}, []string{c.last.quoted}})
	}
	return list
}

// retryPlans explains how the failed records of a branch are found.
func (t *Table) retryPlans(ctx context.Context, q backlog.Query, i int) (list []Plan, err error) {
	b := t.branches[i]
	for _, x := range t.retryIndexes(i) {
		terms, args := t.retryTerms(q, part{seg: segDated}, i, x.classes, q.Limit)
		p, err := t.plan(ctx, b, t.merged(terms), append(args, q.Limit), func(ctx context.Context) (string, error) {
			return t.createIndex(ctx, x.name, b, x.conds, x.columns...)
		})
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}
