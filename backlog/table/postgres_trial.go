package table

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// mayWrite proves that the server takes writes at all. What this role may write
// is proved for each statement.
func (d postgres) mayWrite(ctx context.Context, db *sql.DB) error {
	var readOnly, standby bool
	if err := db.QueryRowContext(ctx, "SELECT current_setting('transaction_read_only')::bool, pg_is_in_recovery()").Scan(&readOnly, &standby); err != nil {
		return err
	}
	switch {
	case standby:
		return problem("name the first server in the database URL, or several of them with target_session_attrs=read-write", "the PostgreSQL server at %s is a standby, which can only be read", d.host)
	case readOnly:
		return problem("ALTER ROLE … SET default_transaction_read_only = off", "the sessions of the user %s are read only", d.config.User)
	}
	return nil
}

// try asks the server to plan each statement, which takes the rights that its
// run would take and the values that it would write, and evaluates on a few rows
// the constraints that it would be held against. No lock is taken that keeps
// anybody from writing, and no trigger runs.
func (d postgres) try(ctx context.Context, db *sql.DB, t *Table, writes []trialWrite) error {
	checks, err := d.constraints(ctx, db, t)
	if err != nil {
		return err
	}
	domains, err := d.domains(ctx, db, t)
	if err != nil {
		return err
	}
	for _, w := range writes {
		if err := d.tryPlan(ctx, db, t, w); err != nil {
			return err
		}
		if err := d.tryDomains(ctx, db, t, w, domains); err != nil {
			return err
		}
		if err := t.tryPending(ctx, db, w); err != nil {
			return err
		}
		for _, c := range checks {
			if err := d.tryConstraint(ctx, db, t, w, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d postgres) tryPlan(ctx context.Context, db *sql.DB, t *Table, w trialWrite) error {
	text, n := numbered(w.text)
	args := append(make([]any, 0, n), w.args...)[:n] // those of the key are NULL
	rows, err := db.QueryContext(ctx, "EXPLAIN "+text, args...)
	if err == nil {
		for rows.Next() {
		}
		err = rows.Err()
		rows.Close()
	}
	e, ok := sqlState(err)
	switch {
	case ok && e.Code == "42501":
		return d.noRights(ctx, db, t, w)
	case d.classify(err) == classRefused:
		return problem("change it to one that the table takes", "%s: table %s does not take %s: %s", w.setting, t.m.Name, w.set, e.Message)
	}
	return err
}

// domains returns those of the table's columns by their quoted names.
func (d postgres) domains(ctx context.Context, db *sql.DB, t *Table) (map[string]string, error) {
	rows, err := db.QueryContext(ctx, `SELECT a.attname::text, format_type(a.atttypid, NULL) FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid
		WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND y.typtype = 'd'`, t.name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := make(map[string]string)
	for rows.Next() {
		var name, domain string
		if err := rows.Scan(&name, &domain); err != nil {
			return nil, err
		}
		list[d.quote(name)] = domain
	}
	return list, rows.Err()
}

// tryDomains makes values of the domains of what the write sets.
func (d postgres) tryDomains(ctx context.Context, db *sql.DB, t *Table, w trialWrite, domains map[string]string) error {
	arg := 0
	for _, a := range w.assigns {
		expr, args := a.expr, []any(nil)
		if a.time != nil || a.expr == "?" {
			expr, args = "?", w.args[arg:arg+1]
			arg++
		}
		domain, ok := domains[a.col]
		if !ok || strings.Contains(expr, a.col) {
			continue
		}
		var made any
		err := db.QueryRowContext(ctx, d.place("SELECT CAST("+expr+" AS "+domain+")"), args...).Scan(&made)
		if e, _ := sqlState(err); d.classify(err) == classRefused {
			return problem("change it to one that the table takes", "%s: table %s does not take %s: %s", w.setting, t.m.Name, w.set, e.Message)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// noRights names what is to be granted: all that passes take, lest the next
// statement lacks something else.
func (d postgres) noRights(ctx context.Context, db *sql.DB, t *Table, w trialWrite) error {
	var role string
	if err := db.QueryRowContext(ctx, "SELECT current_user::text").Scan(&role); err != nil {
		return err
	}
	cols := make([]string, len(w.assigns))
	for i, a := range w.assigns {
		cols[i] = a.col
	}
	return problem(fmt.Sprintf("GRANT SELECT%s, UPDATE (%s) ON %s TO %s", t.readColumns(), strings.Join(t.writtenColumns(), ", "), t.name, d.quote(role)),
		"%s: the role %s may not set %s in table %s", w.setting, role, strings.Join(cols, ", "), t.m.Name)
}

// A postgresConstraint is a CHECK, or a foreign key over one column.
type postgresConstraint struct {
	name     string
	columns  []string
	check    string // the expression
	ref, key string // of a foreign key: what it refers to, quoted
}

func (d postgres) constraints(ctx context.Context, db *sql.DB, t *Table) (list []postgresConstraint, err error) {
	rows, err := db.QueryContext(ctx, `SELECT c.conname::text,
			(SELECT string_agg(a.attname, chr(1)) FROM pg_attribute a WHERE a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey)),
			coalesce(pg_get_expr(c.conbin, c.conrelid), ''), coalesce(f.oid::regclass::text, ''),
			coalesce((SELECT quote_ident(a.attname) FROM pg_attribute a WHERE a.attrelid = c.confrelid AND a.attnum = c.confkey[1]), '')
		FROM pg_constraint c LEFT JOIN pg_class f ON f.oid = c.confrelid
		WHERE c.conrelid = to_regclass($1) AND (c.contype = 'c' OR c.contype = 'f' AND cardinality(c.conkey) = 1) AND c.conkey IS NOT NULL
			AND coalesce((to_jsonb(c) ->> 'conenforced')::bool, true) ORDER BY 1`, t.name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var c postgresConstraint
		var columns string
		if err := rows.Scan(&c.name, &columns, &c.check, &c.ref, &c.key); err != nil {
			return nil, err
		}
		c.columns = strings.Split(columns, "\x01")
		list = append(list, c)
	}
	return list, rows.Err()
}

// tryConstraint is a *Problem if the constraint refuses the write for every row,
// and notes it if it does so for some.
func (d postgres) tryConstraint(ctx context.Context, db *sql.DB, t *Table, w trialWrite, c postgresConstraint) error {
	sets := func(col string) bool {
		return slices.ContainsFunc(w.assigns, func(a assign) bool { return a.col == d.quote(col) })
	}
	if !slices.ContainsFunc(c.columns, sets) {
		return nil
	}
	if c.ref != "" {
		return d.tryReference(ctx, db, t, w, c)
	}
	froms := []string{t.name + " WHERE " + w.cond, t.name}
	if !slices.ContainsFunc(c.columns, func(col string) bool { return !sets(col) }) {
		froms = append(froms, "") // no other column has a say
	}
	for _, from := range froms {
		n, refused, err := d.evaluate(ctx, db, t, w, c.check, from)
		switch {
		case d.classify(err) == classAway, err != nil && ctx.Err() != nil:
			return err
		case err != nil:
			t.note("whether the constraint %s takes %s could not be tried: %v", c.name, w.set, err)
			return nil
		case n > 0 && refused == n:
			return problem("change it to one that the table takes", "%s: table %s does not take %s: the constraint %s is CHECK %s", w.setting, t.m.Name, w.set, c.name, c.check)
		case refused > 0:
			t.note("%s: some rows of %s do not take %s: the constraint %s is CHECK %s", w.setting, t.m.Name, w.set, c.name, c.check)
		}
		if n > 0 {
			return nil
		}
	}
	return nil
}

// evaluate holds the expression against a few rows as they would be after the
// write, or against a row of nothing but what it sets where from is empty.
func (d postgres) evaluate(ctx context.Context, db *sql.DB, t *Table, w trialWrite, check, from string) (n, refused int, err error) {
	var cols []string
	var args []any
	for i := range t.catalog.columns {
		c := &t.catalog.columns[i]
		expr, name := "NULL", d.quote(c.name)
		if from != "" {
			expr = name
		}
		arg := 0
		for _, a := range w.assigns {
			bound := a.time != nil || a.expr == "?"
			if a.col == name {
				expr = a.expr
				if bound {
					expr, args = "?", append(args, w.args[arg])
				}
			}
			if bound {
				arg++
			}
		}
		cols = append(cols, "CAST("+expr+" AS "+c.decl+") AS "+name)
	}
	if from != "" {
		from = fmt.Sprintf(" FROM %s LIMIT %d", from, trialRows)
	}
	text := fmt.Sprintf("SELECT count(*), count(*) FILTER (WHERE (%s) IS FALSE) FROM (SELECT %s%s) AS %s", check, strings.Join(cols, ", "), from, d.quote(t.m.Name))
	err = db.QueryRowContext(ctx, d.place(text), args...).Scan(&n, &refused)
	return n, refused, err
}

// tryReference looks for what the write would refer to.
func (d postgres) tryReference(ctx context.Context, db *sql.DB, t *Table, w trialWrite, c postgresConstraint) error {
	i := slices.IndexFunc(w.assigns, func(a assign) bool { return a.col == d.quote(c.columns[0]) })
	a := w.assigns[i]
	if a.time != nil || a.expr == "?" || a.expr == a.col {
		return nil
	}
	return t.tryReference(ctx, db, w, a.expr, reference{c.name, c.ref, c.key}, func(err error) bool { return d.classify(err) == classAway })
}
