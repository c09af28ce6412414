package table

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// mayWrite begins a transaction that may write, which a server that is
// read-only refuses, and looks at the settings with which all writing fails.
func (d mysql) mayWrite(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "START TRANSACTION READ WRITE"); err != nil {
		if n := mysqlNumber(err); n == 1290 || n == 1836 || n == 3100 {
			return problem("name the server that may be written to", "the database server is read-only: %v", err)
		}
		return err
	}
	if _, err := conn.ExecContext(ctx, "ROLLBACK"); err != nil {
		return err
	}
	settings, err := mysqlSettings(ctx, conn, "log_bin", "binlog_format", "innodb_read_only")
	if err != nil {
		return err
	}
	if settings["innodb_read_only"] == "ON" {
		return problem("name the server that may be written to", "the database server is read-only: innodb_read_only")
	}
	if settings["log_bin"] == "ON" && settings["binlog_format"] == "STATEMENT" {
		return problem("let its administrator set binlog_format to MIXED or ROW", "the database server cannot write READ COMMITTED transactions to its binary log, whose format is STATEMENT")
	}
	return nil
}

// mysqlSettings returns those of the server's variables that it has.
func mysqlSettings(ctx context.Context, conn *sql.Conn, names ...string) (map[string]string, error) {
	rows, err := conn.QueryContext(ctx, "SHOW VARIABLES WHERE Variable_name IN ('"+strings.Join(names, "', '")+"')")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	settings := make(map[string]string)
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		settings[name] = value
	}
	return settings, rows.Err()
}

// try judges by the catalogue, without locking or writing a row, whether rows
// take what settlements would write.
func (d mysql) try(ctx context.Context, db *sql.DB, t *Table, writes []trialWrite) error {
	if err := d.host(ctx, db, t); err != nil {
		return err
	}
	checks, err := d.checks(ctx, db, t.name)
	if err == errMySQLHidden {
		t.note("whether a CHECK of %s refuses a status cannot be known beforehand: this user has SELECT on some of its columns only; GRANT SELECT on the table would tell", t.m.Name)
	} else if err != nil {
		return err
	}
	references, err := d.references(ctx, db, t)
	if err != nil {
		return err
	}
	for _, w := range writes {
		if err := d.tryValues(ctx, db, t, w); err != nil {
			return err
		}
		if err := d.tryReferences(ctx, db, t, w, references); err != nil {
			return err
		}
		if err := t.tryPending(ctx, db, w); err != nil {
			return err
		}
		if len(checks) == 0 {
			continue
		}
		if err := d.tryChecks(ctx, db, t, w, checks); err != nil {
			return err
		}
	}
	return nil
}

// host looks at what can go wrong with any write to the table.
func (d mysql) host(ctx context.Context, db *sql.DB, t *Table) error {
	for i, name := range t.m.ID {
		if c := t.catalog.find(name, true); mysqlIs(c, "enum", "set") {
			return problem("name other columns of a unique key", "table.id: %s is of the type %s, whose order is not that of its texts", t.key[i], c.decl)
		}
	}
	var engine, transactions sql.NullString
	err := db.QueryRowContext(ctx, `SELECT t.engine, e.transactions FROM information_schema.tables t LEFT JOIN information_schema.engines e ON e.engine = t.engine
		WHERE t.table_schema = coalesce(nullif(?, ''), database()) AND t.table_name = ?`, t.m.Schema, t.m.Name).Scan(&engine, &transactions)
	if err != nil && err != sql.ErrNoRows {
		return err
	}
	if transactions.Valid && transactions.String != "YES" {
		t.note("the storage engine of %s is %s, which has no transactions: a crash, or a row that somebody else changes at the time, can leave a part of a group written; "+
			"with InnoDB it would be all or nothing", t.m.Name, engine.String)
	}
	for i := range t.catalog.columns {
		c := &t.catalog.columns[i]
		if q := d.quote(c.name); mysqlIsLong(c) && (q == t.status || q == t.inserted.quoted || slices.Contains(t.lead, q)) {
			t.note("column %s is %s, of which an index has only the beginnings: every page sorts all that is pending; with VARCHAR it would not", c.name, c.decl)
		}
		kept := slices.ContainsFunc(t.actions[0].also, func(a assign) bool { return a.col == d.quote(c.name) })
		if c.updated && !kept {
			hint := ""
			if slices.ContainsFunc(t.times, func(tc *timeCol) bool { return tc.name == c.name && !tc.written }) {
				hint = "; `keep: true` in its long form keeps it"
			}
			t.note("column %s is set by the database whenever a row is written%s", c.name, hint)
		}
	}
	return nil
}

// trialRows of each state, or of another, or one of NULLs, are looked at as
// they would be with the write. It is refused if none of them meets the
// constraints, and noted if some do not.
func (d mysql) tryChecks(ctx context.Context, db *sql.DB, t *Table, w trialWrite, checks []string) error {
	for _, where := range []string{" WHERE " + w.cond, "", "none"} {
		rows, refused, err := d.tryRows(ctx, db, t, w, checks, where)
		switch {
		case err != nil && d.classify(err) == classOther:
			t.note("whether %s takes the statuses could not be tried: %v", t.m.Name, err)
			return nil
		case err != nil:
			return err
		case rows == 0:
			continue
		case len(refused) == 0:
			return nil
		case refused[0].n == rows || len(refused) > 1:
			return problem("change it to one that the table takes", "%s: table %s does not take %s: CHECK (%s)", w.setting, t.m.Name, w.set, refused[0].check)
		}
		t.note("%s: some rows of %s do not take %s: CHECK (%s)", w.setting, t.m.Name, w.set, refused[0].check)
		return nil
	}
	return nil
}

// A mysqlRefusal is a constraint that n rows would not meet.
type mysqlRefusal struct {
	check string
	n     int
}

// tryRows evaluates the constraints on rows as the write would leave them. The
// new value is given the type and the collation of its column.
func (d mysql) tryRows(ctx context.Context, db *sql.DB, t *Table, w trialWrite, checks []string, where string) (rows int, refused []mysqlRefusal, err error) {
	var exprs, olds []string
	set := make(map[string]bool)
	for _, a := range w.assigns {
		expr := a.expr
		if a.time != nil {
			expr = "?"
		}
		exprs = append(exprs, fmt.Sprintf("IF(FALSE, %s, %s) AS %s", a.col, cmp.Or(expr, "?"), a.col))
		set[a.col] = true
	}
	for i := range t.catalog.columns {
		q := d.quote(t.catalog.columns[i].name)
		if olds = append(olds, "NULL AS "+q); !set[q] {
			exprs = append(exprs, q)
		}
	}
	from := t.name + where
	if where == "none" {
		from = "(SELECT " + strings.Join(olds, ", ") + ") AS empty"
	}
	counts := make([]string, len(checks))
	for i, c := range checks {
		counts[i] = "coalesce(sum((" + c + ") IS FALSE), 0)"
	}
	numbers := make([]int, len(checks)+1)
	to := make([]any, len(numbers))
	for i := range to {
		to[i] = &numbers[i]
	}
	err = db.QueryRowContext(ctx, fmt.Sprintf("SELECT %s, count(*) FROM (SELECT %s FROM %s LIMIT %d) AS tried",
		strings.Join(counts, ", "), strings.Join(exprs, ", "), from, trialRows), w.args...).Scan(to...)
	for i, c := range checks {
		if n := numbers[i]; n > 0 {
			refused = append(refused, mysqlRefusal{c, n})
		}
	}
	return numbers[len(checks)], refused, err
}
