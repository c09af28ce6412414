package table

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// mysqlFewRows is how many rows a page may read beyond its own: the planner
// rightly prefers to read and sort all of a table of so few.
const mysqlFewRows = 5000

// plan explains a page's query. Where the planner does not use an index that
// would serve, it is because the rows are few, or are thought to be.
func (d mysql) plan(ctx context.Context, db *sql.DB, t *Table, b branch, query string, args []any) (x explanation, err error) {
	indexes, err := d.indexes(ctx, db, cmp.Or(t.m.Schema, d.database), t.m.Name)
	if err != nil {
		return x, err
	}
	p, err := d.explained(ctx, db, query, args)
	if err != nil {
		return x, err
	}
	if len(p) == 0 {
		return d.planOfNothing(t, b, query, indexes), nil
	}
	x.steps, x.bad = p.steps(), p.flaw(t, b, indexes)
	if x.bad == "" {
		x.indexes = p.indexes()
		return x, nil
	}
	for _, i := range indexes {
		if i.hidden {
			continue
		}
		forced := strings.ReplaceAll(query, " FROM "+t.name+" WHERE ", " FROM "+t.name+" FORCE INDEX ("+d.quote(i.name)+") WHERE ")
		f, err := d.explained(ctx, db, forced, args)
		if err != nil {
			return x, err
		}
		if f.flaw(t, b, indexes) != "" {
			continue
		}
		// Of what is sorted in any case all may as well be read.
		if p.rows() <= mysqlFewRows || !i.whole {
			x.indexes, x.unused, x.bad = []string{i.name}, true, ""
			return x, nil
		}
		x.bad += ", though the index " + i.name + " would serve"
		x.analyze = "ANALYZE TABLE " + t.name
		return x, nil
	}
	return x, nil
}

// planOfNothing is for a query that the server answers without a look at the
// table, as where no partition has rows of such an age: there may be some soon.
func (d mysql) planOfNothing(t *Table, b branch, query string, indexes []mysqlIndex) explanation {
	x := explanation{steps: []string{"no partition can have such rows now"}}
	lead := distinct(slices.Concat(t.lead, b.lead))
	_, order, _ := strings.Cut(query, " ORDER BY ")
	for _, i := range indexes {
		if i.hidden || !i.whole || len(i.columns) <= len(lead) || !strings.HasPrefix(order, d.quote(i.columns[len(lead)])) {
			continue
		}
		begins := i.columns[:len(lead)]
		if !slices.ContainsFunc(begins, func(c string) bool { return !slices.Contains(lead, d.quote(c)) }) {
			x.indexes = []string{i.name}
			return x
		}
	}
	x.bad = "every page will read the whole of a partition"
	return x
}

// A mysqlStep is a line of a plan about the table itself, not about what was
// read of it.
type mysqlStep struct {
	access, key string
	rows        int64
	extra       string
}

type mysqlPlan []mysqlStep

func (d mysql) explained(ctx context.Context, db *sql.DB, query string, args []any) (p mysqlPlan, err error) {
	rows, err := mysqlRows(ctx, db, "EXPLAIN FORMAT=TRADITIONAL "+query, args...)
	for _, row := range rows {
		if table := row["table"]; table == "" || table[0] == '<' {
			continue
		}
		s := mysqlStep{access: row["type"], key: row["key"], extra: row["extra"]}
		s.rows, _ = strconv.ParseInt(row["rows"], 10, 64)
		p = append(p, s)
	}
	return p, err
}

func (p mysqlPlan) steps() (list []string) {
	for _, s := range p {
		text := fmt.Sprintf("%s %s, about %d rows", s.access, cmp.Or(s.key, "of the whole table"), s.rows)
		if s.extra != "" {
			text += ", " + s.extra
		}
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}

func (p mysqlPlan) indexes() (list []string) {
	for _, s := range p {
		if !slices.Contains(list, s.key) {
			list = append(list, s.key)
		}
	}
	return list
}

func (p mysqlPlan) rows() (n int64) {
	for _, s := range p {
		n = max(n, s.rows)
	}
	return n
}

// flaw says how the plan reads more than the branch's rows in their order: the
// index must begin with each column of which there is one value.
func (p mysqlPlan) flaw(t *Table, b branch, indexes []mysqlIndex) (bad string) {
	for _, s := range p {
		i := slices.IndexFunc(indexes, func(x mysqlIndex) bool { return x.name == s.key })
		switch {
		case i < 0:
			return "every page reads the whole table"
		case strings.Contains(s.extra, "Using filesort") && indexes[i].whole: // else it cannot be mended
			bad = cmp.Or(bad, "every page sorts all that is pending")
			continue
		}
		begins := indexes[i].columns[:min(len(t.lead)+len(b.lead), len(indexes[i].columns))]
		tells := func(quoted string) bool {
			return slices.ContainsFunc(begins, func(c string) bool { return t.d.quote(c) == quoted })
		}
		for _, col := range b.lead {
			if !tells(col) {
				bad = cmp.Or(bad, "every page reads rows of every status")
			}
		}
		for _, col := range t.lead {
			if !tells(col) {
				bad = cmp.Or(bad, "every page reads rows that table.where leaves out by "+strings.Trim(col, "`"))
			}
		}
	}
	return bad
}

// indexName names the index by what it has: two states, or two configurations,
// may need the very same, and then it is there already.
func (d mysql) indexName(_ context.Context, _ *sql.DB, wanted string, create func(string) string) (string, error) {
	sum := sha256.Sum256([]byte(create("")))
	hash := fmt.Sprintf("_%x", sum[:4])
	table, _, _ := strings.Cut(wanted, "_backlog_")
	for len(table) > 64-len("_backlog")-len(hash) {
		table = strings.ToValidUTF8(table[:len(table)-1], "")
	}
	return table + "_backlog" + hash, nil
}
