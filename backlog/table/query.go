package table

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"backlog/backlog/table/db"
	"backlog/internal/lists"
)

// conditions belong to a WHERE clause. Their arguments are in the order of their
// placeholders.
type conditions struct {
	list []string
	args []any
}

// allOf returns the conditions that are not "". They have no arguments.
func allOf(list ...string) conditions {
	return conditions{list: lists.NonEmpty(list...)}
}

// add adds a condition and its arguments, unless it is "".
func (c *conditions) add(cond string, args []any) {
	if cond != "" {
		c.list = append(c.list, cond)
		c.args = append(c.args, args...)
	}
}

// all joins the conditions by AND. It returns "" if there are none.
func (c conditions) all() string { return strings.Join(c.list, " AND ") }

// any joins the conditions by OR, in brackets. It returns "" if there are none.
func (c conditions) any() string {
	if len(c.list) == 0 {
		return ""
	}
	return "(" + strings.Join(c.list, " OR ") + ")"
}

// clone returns conditions to add to.
func (c conditions) clone() conditions {
	return conditions{list: slices.Clone(c.list), args: slices.Clone(c.args)}
}

// unsearched returns the conditions as one that no index is searched by.
func (t *layout) unsearched(c conditions) conditions {
	return conditions{list: []string{t.text.WithoutIndex(c.all())}, args: c.args}
}

// always and never are conditions that every row meets, and none.
const (
	always = "1 = 1"
	never  = "1 = 0"
)

// A selectQuery is a SELECT from one table. Clauses whose fields are zero are left out.
type selectQuery struct {
	columns         []string // expressions
	columnArgs      []any    // of the expressions
	from            string   // the quoted table
	where           conditions
	grouped         bool // by the first expression
	orderBy         []string
	descending      bool   // all of orderBy
	limit           int    // 0: no limit
	limitAsArgument bool   // the limit is an argument, so that one prepared statement serves every limit
	lock            string // the clause that locks the rows
}

// sql returns the text of the query, with ? as the placeholder, and its arguments.
func (q selectQuery) sql() (text string, args []any) {
	text = "SELECT " + strings.Join(q.columns, ", ") + " FROM " + q.from + db.Prefixed(" WHERE ", q.where.all())
	args = slices.Concat(q.columnArgs, q.where.args)
	if q.grouped {
		text += " GROUP BY 1"
	}
	text += q.orderClause(q.orderBy)
	if q.limit > 0 && q.limitAsArgument {
		text += " LIMIT ?"
		args = append(args, q.limit)
	} else if q.limit > 0 {
		text += " LIMIT " + strconv.Itoa(q.limit)
	}
	return text + q.lock, args
}

// orderClause returns the ORDER BY clause for the columns in the direction of the query.
func (q selectQuery) orderClause(columns []string) string {
	if len(columns) == 0 {
		return ""
	}
	direction := ""
	if q.descending {
		direction = " DESC"
	}
	return " ORDER BY " + strings.Join(columns, direction+", ") + direction
}

// union returns the query for the rows of all queries. They have the order and the limit
// in common, and bind the limit. Of several queries each row ends with the columns of the
// order.
func (t *layout) union(queries []selectQuery) (text string, args []any) {
	first := queries[0]
	if len(queries) == 1 {
		return first.sql()
	}
	// The order columns are selected as they are: a planner does not follow an index
	// by an expression.
	var names, orderColumns []string
	for i, column := range first.orderBy {
		name := aliasPrefix + "o" + strconv.Itoa(i)
		names = append(names, name)
		orderColumns = append(orderColumns, column+" AS "+name)
	}
	texts := make([]string, len(queries))
	for i, q := range queries {
		q.columns = slices.Concat(q.columns, orderColumns)
		if t.text.LazyUnion {
			q.orderBy = nil
			q.limit = 0
		}
		one, oneArgs := q.sql()
		if !t.text.LazyUnion { // the database would read all rows of each query
			one = fmt.Sprintf("SELECT * FROM (%s) AS %sb%d", one, aliasPrefix, i)
		}
		texts[i] = one
		args = append(args, oneArgs...)
	}
	text = strings.Join(texts, " UNION ALL ") + first.orderClause(names) + " LIMIT ?"
	return text, append(args, first.limit)
}

// aliasPrefix begins the names of expressions, which must not be the names of columns.
const aliasPrefix = "backlog_"

// aliased returns the expressions with names. Without them ORDER BY could mean an
// expression by the name of its column.
func aliased(exprs []string) []string {
	list := make([]string, len(exprs))
	for i, expr := range exprs {
		list[i] = expr + " AS " + aliasPrefix + strconv.Itoa(i)
	}
	return list
}

// updateSQL returns the text of an UPDATE of the rows that meet the condition.
func (t *layout) updateSQL(set []setClause, cond string) string {
	return "UPDATE " + t.name + " SET " + setSQL(set) + " WHERE " + cond
}
