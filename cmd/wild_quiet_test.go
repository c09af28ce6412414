package cmd

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestCrontabIsQuiet: a pass of a crontab's line says nothing in a good hour, whatever check
// warns of at the table.
func TestCrontabIsQuiet(t *testing.T) {
	const row = "; INSERT INTO jobs (id, status, date_inserted) VALUES (1, 'NEW', '2026-02-10 11:00:00')"
	const columns = "CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted timestamp NULL"
	for _, r := range []struct {
		name string
		on   wildKind
		sql  string
		cfg  string
	}{
		{name: "ON UPDATE", on: inMySQL, sql: columns + ", updated_at timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP)" + row},
		{name: "MyISAM", on: inMySQL, sql: columns + ") ENGINE = MyISAM" + row},
		{
			name: "a log without transactions",
			on:   inMySQL,
			sql: columns + `);
				CREATE TABLE log (id int) ENGINE = MyISAM;
				CREATE TRIGGER t AFTER UPDATE ON jobs FOR EACH ROW INSERT INTO log VALUES (new.id)` + row,
		},
		{
			name: "a trigger",
			on:   inMySQL,
			sql: columns + `, updated_at timestamp NULL);
				CREATE TRIGGER t BEFORE UPDATE ON jobs FOR EACH ROW SET new.updated_at = now()` + row,
		},
		{
			name: "a trigger",
			on:   inPostgres,
			sql: columns + `, updated_at timestamptz);
				CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.updated_at := now(); RETURN new; END $$;
				CREATE TRIGGER t BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION f()` + row,
		},
		{
			name: "a trigger",
			on:   inSQLite,
			sql: columns + `, updated_at text);
				CREATE TRIGGER t AFTER UPDATE ON jobs BEGIN UPDATE jobs SET updated_at = datetime('now') WHERE id = new.id; END` + row,
		},
		{name: "a long status", on: inMySQL, sql: strings.Replace(columns, "varchar(20)", "text", 1) + ")" + row},
		{
			name: "error: keep",
			on:   inMySQL,
			sql:  columns + ")" + row,
			cfg: `table: {name: jobs}
statuses: {error: keep}`,
		},
		{
			name: "error: keep",
			on:   inPostgres,
			sql:  columns + ")" + row,
			cfg: `table: {name: jobs}
statuses: {error: keep}`,
		},
		{
			name: "error: keep",
			on:   inSQLite,
			sql:  columns + ")" + row,
			cfg: `table: {name: jobs}
statuses: {error: keep}`,
		},
		{
			name: "mixed forms",
			on:   inSQLite,
			sql: columns + `, touched text);
				INSERT INTO jobs VALUES (7, 'x', '2026-02-10 11:00:00', '2026-02-10'), (8, 'x', '2026-02-10 11:00:00', '2026-02-10T11:00:00Z')` + row,
			cfg: "table: {name: jobs, touch: {touched: now}}",
		},
	} {
		t.Run(r.name+"/"+r.on.name, func(t *testing.T) {
			t.Parallel()
			db, at := r.on.make(t)
			mustExec(t, db, r.sql)
			cfg := r.cfg
			if cfg == "" {
				cfg = "table: {name: jobs}"
			}
			handled := filepath.Join(t.TempDir(), "handled")
			if _, out, _ := wildRun(t, at, handled, cfg, false, "check"); !strings.Contains(out, "warn  note ") {
				t.Errorf("check warns of nothing:\n%s", out)
			}
			for range 2 {
				status, out, log := wildRun(t, at, handled, cfg, false, "once", "--max-age", "7d", "--log-level", "warn")
				if status != exitDone || log != "" {
					t.Errorf("exit status %d, printed %s, said\n%s", status, out, log)
				}
			}
		})
	}
}
