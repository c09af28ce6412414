package table

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A postgresNode is a step of a plan.
type postgresNode struct {
	Type   string         `json:"Node Type"`
	Table  string         `json:"Relation Name"`
	Index  string         `json:"Index Name"`
	Cond   string         `json:"Index Cond"`
	Filter string         `json:"Filter"`
	Plans  []postgresNode `json:"Plans"`
}

// plan explains a page's query. The index to have serves condition, range and
// order at once; then a page reads just its rows.
//
// For a few rows, or where it has no statistics, the planner may do something
// else though the index is there. So it is asked again, not to.
func (d postgres) plan(ctx context.Context, db *sql.DB, t *Table, b branch, query string, args []any) (x explanation, err error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return x, err
	}
	defer tx.Rollback()
	x, err = d.explained(ctx, tx, t, b, query, args)
	if err == nil && len(x.steps) == 0 { // no partition reaches into the range
		if err := switchOff(ctx, tx, "enable_partition_pruning", "constraint_exclusion"); err != nil {
			return x, err
		}
		x, err = d.explained(ctx, tx, t, b, query, args)
	}
	if err == nil && len(x.steps) == 0 {
		return d.withoutPartitions(ctx, tx, t, b)
	}
	if err != nil || x.bad == "" {
		return x, err
	}
	if err := switchOff(ctx, tx, "enable_seqscan", "enable_bitmapscan", "enable_sort"); err != nil {
		return x, err
	}
	forced, err := d.explained(ctx, tx, t, b, query, args)
	if err != nil || forced.bad != "" {
		return x, err
	}
	// Who has never looked into a large table, or a partition, cannot tell that
	// they are few. Statistics are shown to whom the rows are.
	var blind bool
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE (c.oid = to_regclass($1) OR c.oid IN (SELECT relid FROM pg_partition_tree(to_regclass($1))))
		AND pg_relation_size(c.oid) > 1 << 20 AND has_any_column_privilege(c.oid, 'SELECT')
		AND NOT EXISTS (SELECT FROM pg_stats s WHERE s.schemaname = n.nspname AND s.tablename = c.relname))`, t.name).Scan(&blind)
	if x.indexes = forced.indexes; blind {
		x.bad += ", though the index " + strings.Join(x.indexes, ", ") + " would serve"
		x.analyze = "ANALYZE " + t.name
	} else {
		x.unused, x.bad = true, ""
	}
	return x, err
}

// switchOff has the planner do without, until the transaction ends.
func switchOff(ctx context.Context, tx *sql.Tx, ways ...string) error {
	for _, way := range ways {
		if _, err := tx.ExecContext(ctx, "SET LOCAL "+way+" = off"); err != nil {
			return err
		}
	}
	return nil
}

// withoutPartitions looks for the index itself, that of partitions to come: no
// plan reads a table that has none.
func (d postgres) withoutPartitions(ctx context.Context, tx *sql.Tx, t *Table, b branch) (x explanation, err error) {
	x.steps = []string{"nothing to read: the table has no partition"}
	names, err := texts(ctx, tx, `SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		WHERE i.indrelid = to_regclass($1) ORDER BY 1`, t.name)
	if err != nil {
		return x, err
	}
	for _, name := range names {
		index, err := d.index(ctx, tx, t, name)
		if err != nil {
			return x, err
		}
		ofOthers := index.where != "" && slices.ContainsFunc(quotedValue().FindAllString(b.cond, -1), func(value string) bool { return !strings.Contains(index.where, value) })
		if n := (postgresNode{Index: name, Cond: index.first}); !ofOthers && n.flaw(t, b, index) == "" {
			x.indexes = append(x.indexes, name)
		}
	}
	if len(x.indexes) == 0 {
		x.bad = "partitions to come would have no index for it"
	}
	return x, nil
}

var quotedValue = pattern(`'([^']|'')*'`)

// explained returns no steps, and nothing bad, for a plan that reads nothing.
func (d postgres) explained(ctx context.Context, tx *sql.Tx, t *Table, b branch, query string, args []any) (x explanation, err error) {
	var text string
	if err := tx.QueryRowContext(ctx, "EXPLAIN (FORMAT JSON) "+d.place(query), args...).Scan(&text); err != nil {
		return x, err
	}
	var list []struct{ Plan postgresNode }
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return x, fmt.Errorf("the plan is in no known form: %w", err)
	}
	indexes := make(map[string]postgresIndex)
	for _, n := range list {
		reads := false
		n.Plan.walk(func(n postgresNode) { reads = reads || n.Table != "" || n.Index != "" })
		if !reads {
			continue
		}
		n.Plan.walk(func(n postgresNode) {
			if _, known := indexes[n.Index]; n.Index != "" && !known && err == nil {
				indexes[n.Index], err = d.index(ctx, tx, t, n.Index)
				x.indexes = append(x.indexes, n.Index)
			}
		})
		if err != nil {
			return x, err
		}
		n.Plan.walk(func(n postgresNode) {
			if s := n.step(); s != "" {
				x.steps = append(x.steps, s)
			}
			if flaw := n.flaw(t, b, indexes[n.Index]); x.bad == "" || flaw == wholeTable { // the worst
				x.bad = flaw
			}
		})
	}
	return x, nil
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

const wholeTable = "every page reads the whole table"

// flaw says why the node reads more than the branch's rows.
func (n postgresNode) flaw(t *Table, b branch, index postgresIndex) string {
	switch {
	case n.Type == "Seq Scan":
		return wholeTable
	case strings.HasPrefix(n.Type, "Bitmap"), n.Type == "Sort" && !n.isOfFew(t):
		return "every page sorts all that is pending"
	case n.Index == "":
		return ""
	}
	tells := func(column string) bool {
		return strings.Contains(index.where+" "+n.Cond, column)
	}
	if !strings.Contains(n.Cond, index.first) {
		return "every page reads the whole index " + n.Index
	}
	for _, column := range b.columns {
		if !tells(column) {
			return "every page reads rows of every status"
		}
	}
	for _, column := range t.filtered {
		if !tells(column) {
			return fmt.Sprintf("every page reads rows that table.where leaves out by %s", column)
		}
	}
	return ""
}

// isOfFew reports whether the node sorts no more than a few pages, or only rows
// whose number of failures is NULL: IS NULL is no equality to the planner, which
// sorts them by the rest.
func (n postgresNode) isOfFew(t *Table) bool {
	if len(n.Plans) != 1 {
		return false
	}
	below := n.Plans[0]
	if below.Type == "Append" {
		return !slices.ContainsFunc(below.Plans, func(x postgresNode) bool { return x.Type != "Limit" && x.Type != "Subquery Scan" })
	}
	if t.retry == nil {
		return false
	}
	text := below.Cond + below.Filter // quotes stand there only where they must
	return strings.Contains(text, "("+t.retry.count+" IS NULL)") || strings.Contains(text, "("+strings.Trim(t.retry.count, `"`)+" IS NULL)")
}

// A postgresIndex is an index as a plan uses it.
type postgresIndex struct {
	where string // its condition, "" if it has none
	first string // column, without which nothing is searched in it
}

func (postgres) index(ctx context.Context, tx *sql.Tx, t *Table, name string) (x postgresIndex, err error) {
	err = tx.QueryRowContext(ctx, `SELECT coalesce(pg_get_expr(i.indpred, i.indrelid), ''), trim('"' FROM pg_get_indexdef(i.indexrelid, 1, true))
		FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class r ON r.oid = i.indrelid
		WHERE c.relname = $1 AND (r.oid = to_regclass($2) OR r.relispartition) ORDER BY r.relispartition LIMIT 1`, name, t.name).Scan(&x.where, &x.first)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil // it has just been dropped
	}
	return x, err
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

// indexName numbers the name until it is free in the table's schema, or in all
// of them if there is no table yet. One that was left invalid is not: it is of no
// use.
func (d postgres) indexName(ctx context.Context, db *sql.DB, wanted string, create func(string) string) (string, error) {
	wanted = cutBytes(wanted, postgresNameLength-4)
	_, rest, _ := strings.Cut(create("x"), `"x" ON `)
	table, _, _ := strings.Cut(rest, " (")
	for n, name := 2, wanted; ; n++ {
		has, err := texts(ctx, db, `SELECT relname::text FROM pg_class WHERE relname = $1
			AND relnamespace = coalesce((SELECT t.relnamespace FROM pg_class t WHERE t.oid = to_regclass($2)), relnamespace)`, name, table)
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
