package table

import (
	"context"
	"database/sql"
	"slices"
	"strings"
)

// permits has the statement planned for arguments that are NULL: the server asks
// for the rights then.
func (d postgres) permits(ctx context.Context, db *sql.DB, text string, n int) error {
	rows, err := db.QueryContext(ctx, "EXPLAIN "+text, make([]any, n)...)
	if err == nil {
		for rows.Next() {
		}
		err = rows.Err()
		rows.Close()
	}
	if _, ok := sqlState(err); ok && !denied(err) && d.classify(err) != classAway && d.classify(err) != classBusy {
		return nil // what a function says of the arguments
	}
	return err
}

// postgresDenied finds what somebody may not use in the server's words.
var postgresDenied = pattern(`^permission denied for (schema|sequence|table|view|materialized view|foreign table|relation) (.+)$`)

// denied reports whether the server says that the role lacks a right. What
// functions raise, and policies about rows, is a matter of the record.
func denied(err error) bool {
	e, ok := sqlState(err)
	return ok && e.Code == "42501" && e.Routine != "exec_stmt_raise" && e.Routine != "ExecWithCheckOptions"
}

// ungranted implements dialect.
func (d postgres) ungranted(ctx context.Context, db *sql.DB, text string, err error) error {
	if !denied(err) {
		return nil
	}
	e, _ := sqlState(err)
	cure, _ := d.lacking(ctx, db, text, e.Message)
	if cure == "" {
		cure = "let the owner of what it names grant the right to it"
	}
	return problem(cure, "the user %s has not enough rights: %s", d.config.User, e.Message)
}

// lacking returns the GRANT of what the message says is denied to a statement,
// "" if that cannot be told. The message names a relation without its schema.
func (d postgres) lacking(ctx context.Context, db *sql.DB, text, message string) (string, error) {
	m := postgresDenied().FindStringSubmatch(message)
	if m == nil {
		return "", nil
	}
	kind, name := m[1], m[2]
	schema, rights := rightsOn(text, name)
	var role, lacks string
	err := db.QueryRowContext(ctx, "SELECT current_user::text").Scan(&role)
	if err != nil || kind == "schema" {
		return "GRANT USAGE ON SCHEMA " + d.quote(name) + " TO " + d.quote(role), err
	}
	err = db.QueryRowContext(ctx, `SELECT n.nspname::text,
			CASE c.relkind WHEN 'S' THEN 'USAGE' ELSE (SELECT coalesce(string_agg(r, ', '), '') FROM unnest(string_to_array($2, ',')) r WHERE NOT has_table_privilege(c.oid, r)) END
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
		ORDER BY n.nspname = $3 DESC, pg_table_is_visible(c.oid) DESC LIMIT 1`, name, strings.Join(rights, ","), schema).Scan(&schema, &lacks)
	if err != nil || lacks == "" {
		return "", err
	}
	on := d.quote(schema) + "." + d.quote(name)
	if kind == "sequence" {
		on = "SEQUENCE " + on
	}
	return "GRANT " + lacks + " ON " + on + " TO " + d.quote(role), nil
}

// statementTable finds what a statement does to a table, and its name, perhaps
// with a schema before it.
var statementTable = pattern(`(?i)\b(INSERT\s+INTO|UPDATE|DELETE\s+FROM|MERGE\s+INTO)\s+(?:ONLY\s+)?(?:(\w+|"(?:[^"]|"")+")\s*\.\s*)?(\w+|"(?:[^"]|"")+")`)

// rightsOn returns the rights to the table that the statement takes, as far as
// its text tells, and the schema that it names.
func rightsOn(text, table string) (schema string, rights []string) {
	folded := func(name string) string {
		if inner, quoted := strings.CutPrefix(name, `"`); quoted {
			return strings.ReplaceAll(strings.TrimSuffix(inner, `"`), `""`, `"`)
		}
		return strings.ToLower(name)
	}
	for _, m := range statementTable().FindAllStringSubmatch(text, -1) {
		if folded(m[3]) != table {
			continue
		}
		schema = folded(m[2])
		switch verb := strings.ToUpper(strings.Fields(m[1])[0]); verb {
		case "INSERT":
			rights = append(rights, verb)
			if strings.Contains(strings.ToUpper(text), "ON CONFLICT") {
				rights = append(rights, "SELECT", "UPDATE")
			}
		case "MERGE":
			rights = append(rights, "SELECT", "INSERT", "UPDATE", "DELETE")
		default:
			rights = append(rights, "SELECT", verb)
		}
	}
	if len(rights) == 0 {
		rights = []string{"SELECT"}
	}
	slices.Sort(rights)
	return schema, slices.Compact(rights)
}
