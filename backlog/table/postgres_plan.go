package table

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
)

// A postgresNode is a step of a plan.
type postgresNode struct {
	Type   string         `json:"Node Type"`
	Table  string         `json:"Relation Name"`
	Index  string         `json:"Index Name"`
	Cond   string         `json:"Index Cond"`
	Filter string         `json:"Filter"`
	Rows   float64        `json:"Plan Rows"`
	Plans  []postgresNode `json:"Plans"`
}

// plan explains a page's query. The index to have serves condition, range and
// order at once; then a page reads just its rows.
func (d postgres) plan(ctx context.Context, db *sql.DB, t *Table, b branch, query string, args []any) (steps []string, bad string, err error) {
	var text string
	if err := db.QueryRowContext(ctx, "EXPLAIN (FORMAT JSON) "+d.place(query), args...).Scan(&text); err != nil {
		return nil, "", err
	}
	var list []struct{ Plan postgresNode }
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, "", fmt.Errorf("the plan is in no known form: %w", err)
	}
	conditions := make(map[string]string)
	for _, n := range list {
		n.Plan.walk(func(x postgresNode) {
			if x.Index != "" && conditions[x.Index] == "" && err == nil {
				conditions[x.Index], err = d.indexCondition(ctx, db, t, x.Index)
			}
		})
		if err != nil {
			return nil, "", err
		}
		n.Plan.walk(func(x postgresNode) {
			if s := x.step(); s != "" {
				steps = append(steps, s)
			}
			bad = cmp.Or(bad, x.flaw(b, t.filtered, conditions[x.Index]))
		})
	}
	return steps, bad, nil
}

func (n postgresNode) walk(f func(postgresNode)) {
	f(n)
	for _, p := range n.Plans {
		p.walk(f)
	}
}

// step is a line about the node, "" if it reads and sorts nothing.
func (n postgresNode) step() string {
	switch {
	case n.Index != "":
		return strings.TrimRight(fmt.Sprintf("%s using %s %s", n.Type, n.Index, n.Cond), " ")
	case n.Table != "":
		return n.Type + " on " + n.Table
	case strings.Contains(n.Type, "Sort"):
		return n.Type
	}
	return ""
}

// flaw says why the node reads more than the branch's rows. What it sorts is of
// no account where that is less than a page.
func (n postgresNode) flaw(b branch, filtered []string, condition string) string {
	switch {
	case n.Type == "Seq Scan":
		return "every page reads the whole table"
	case strings.HasPrefix(n.Type, "Bitmap"), n.Type == "Sort", n.Type == "Incremental Sort" && n.Rows > 10_000:
		return "every page sorts all that is pending"
	case n.Index == "":
		return ""
	}
	tells := func(column string) bool {
		return strings.Contains(condition+" "+n.Cond, column)
	}
	for _, column := range b.columns {
		if !tells(column) {
			return "every page reads rows of every status"
		}
	}
	for _, column := range filtered {
		if !tells(column) {
			return fmt.Sprintf("every page reads rows that table.where leaves out by %s", column)
		}
	}
	return ""
}

// indexCondition returns the condition of a partial index, or a blank.
func (postgres) indexCondition(ctx context.Context, db *sql.DB, t *Table, index string) (cond string, err error) {
	err = db.QueryRowContext(ctx, `SELECT coalesce(max(pg_get_expr(i.indpred, i.indrelid)), ' ') FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		WHERE c.relname = $1 AND i.indpred IS NOT NULL`, index).Scan(&cond)
	return cond, err
}

// createIndex keeps nobody from writing meanwhile, except to a table in
// partitions, where that is not to be had.
func (d postgres) createIndex(t *Table, name, rest string) string {
	create := "CREATE INDEX CONCURRENTLY IF NOT EXISTS "
	if t.catalog.kind == "partitioned" {
		create = "CREATE INDEX IF NOT EXISTS "
	}
	return create + d.quote(name) + " ON " + t.name + " (" + rest
}

// postgresNameLength is how many bytes of a name are not cut off.
const postgresNameLength = 63

// indexName numbers the name until it is free. One that was left invalid is
// not: it is of no use.
func (d postgres) indexName(ctx context.Context, db *sql.DB, wanted string, create func(string) string) (string, error) {
	wanted = cutBytes(wanted, postgresNameLength-4)
	for n, name := 2, wanted; ; n++ {
		has, err := texts(ctx, db, "SELECT relname::text FROM pg_class WHERE relname = $1", name)
		if err != nil || len(has) == 0 {
			return name, err
		}
		name = fmt.Sprintf("%s_v%d", wanted, n)
	}
}

// cutBytes returns the longest beginning of whole characters within n bytes.
func cutBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
