package table

import (
	"context"
	"database/sql"
	"regexp"
	"strings"
)

var sqliteIndex = regexp.MustCompile(`USING (?:COVERING )?INDEX (\S+)(?: \((.*)\))?`)

// plan explains a page's query. The index to have serves condition, range and
// order at once; then a page reads just its rows.
func (d sqlite) plan(ctx context.Context, db *sql.DB, query string, args []any) (steps []string, bad string, err error) {
	rows, err := db.QueryContext(ctx, "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		return nil, "", err
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			return nil, "", err
		}
		steps = append(steps, detail)
	}
	if err := rows.Err(); err != nil {
		return nil, "", err
	}
	for _, s := range steps {
		index := sqliteIndex.FindStringSubmatch(s)
		switch {
		case strings.Contains(s, "TEMP B-TREE"):
			bad = "every page sorts all that is pending"
		case strings.HasPrefix(s, "SCAN") && index == nil && !strings.Contains(s, "SUBQUERY") && !strings.Contains(s, "MERGE"):
			return steps, "every page reads the whole table", nil
		case index != nil && bad == "":
			bad, err = d.indexFlaw(ctx, db, index[1], index[2])
			if err != nil {
				return nil, "", err
			}
		}
	}
	return steps, bad, nil
}

// indexFlaw says what is missing in an index that is searched with the given
// constraints: it must tell the status, by its condition or its first column.
func (d sqlite) indexFlaw(ctx context.Context, db *sql.DB, index, constraints string) (string, error) {
	if strings.Contains(constraints, "=?") {
		return "", nil
	}
	partial, err := texts(ctx, db, "SELECT name FROM sqlite_master WHERE type = 'index' AND name = ? AND sql LIKE '% WHERE %'", index)
	if err != nil || len(partial) > 0 {
		return "", err
	}
	return "every page reads rows of every status", nil
}
