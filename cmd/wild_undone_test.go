package cmd

import "testing"

// undone is what is said of a table whose trigger t undoes every outcome.
const undone = "statuses.success is undone: a row of table jobs is as it was after it was written, which is the work of a trigger: t; change that: records would be handled again and again"

// What a trigger puts back counts as written to the database; no record is handled
// all the same.
func TestWildTriggersThatPutBack(t *testing.T) {
	const jobs = "CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted timestamp NULL); INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00:00'); "
	rule := wildRule{
		name: "a trigger that puts the status back", cfg: "table: {name: jobs}", warns: []string{"triggers run when a row is updated: t"},
		refused: undone, rows: "SELECT id, status FROM jobs", want: []string{"1|NEW"},
	}
	var rules []wildRule
	for k, trigger := range map[*wildKind]string{
		&inPostgres: "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.status = old.status; RETURN new; END $$; CREATE TRIGGER t BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION f()",
		&inMySQL:    "CREATE TRIGGER t BEFORE UPDATE ON jobs FOR EACH ROW SET new.status = old.status",
		&inSQLite:   "CREATE TRIGGER t AFTER UPDATE OF status ON jobs BEGIN UPDATE jobs SET status = old.status WHERE id = old.id; END",
	} {
		r := rule
		r.on, r.sql = []wildKind{*k}, jobs+trigger
		rules = append(rules, r)
	}
	testWildRules(t, rules)
}

// Values that differ as texts can be the same to the database, which alone
// decides what is pending.
func TestWildValuesThatAreTheSame(t *testing.T) {
	const rows = "; INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00:00')"
	inPlace := func(status string) string {
		return "CREATE TABLE jobs (id int PRIMARY KEY, status " + status + ", date_inserted timestamp NULL)"
	}
	blind := "CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level1', deterministic = false); "
	stays := func(quoted, status string) string {
		return "statuses.success: with " + quoted + " = '" + status + "' a record that succeeded would still be new to the database and be tried for ever; write what does not meet the condition of new"
	}
	const cfg = "table: {name: jobs}\nstatuses: {new: NEW, error: ERR, success: New}"
	all, untouched := "SELECT id, status FROM jobs", []string{"1|NEW"}
	testWildRules(t, []wildRule{
		{
			name:    "no case",
			on:      []wildKind{inSQLite},
			sql:     inPlace("text COLLATE NOCASE") + rows,
			cfg:     cfg,
			refused: stays(`"status"`, "New"),
			rows:    all,
			want:    untouched,
		},
		{
			name:    "no case",
			on:      []wildKind{inPostgres},
			sql:     blind + inPlace("varchar(20) COLLATE blind") + rows,
			cfg:     cfg,
			refused: stays(`"status"`, "New"),
			rows:    all,
			want:    untouched,
		},
		{
			name:    "no case",
			on:      []wildKind{inMySQL},
			sql:     inPlace("varchar(20) COLLATE utf8mb4_general_ci") + rows,
			cfg:     cfg,
			refused: stays("`status`", "New"),
			rows:    all,
			want:    untouched,
		},
		{
			name: "no accents",
			on:   []wildKind{inMySQL},
			sql:  inPlace("varchar(20) COLLATE utf8mb4_general_ci") + rows,
			cfg: `table: {name: jobs}
statuses: {new: NEW, error: ERR, success: NÉW}`,
			refused: stays("`status`", "NÉW"),
			rows:    all,
			want:    untouched,
		},
		{
			name: "no spaces at the end",
			on:   []wildKind{inMySQL},
			sql:  inPlace("varchar(20) COLLATE utf8mb4_bin") + rows,
			cfg: `table: {name: jobs}
statuses: {new: NEW, error: ERR, success: 'NEW '}`,
			refused: stays("`status`", "NEW "),
			rows:    all,
			want:    untouched,
		},
		{
			name: "spaces at the end",
			on:   []wildKind{inSQLite, inPostgres},
			sql:  inPlace("varchar(20)") + rows,
			cfg: `table: {name: jobs}
statuses: {new: NEW, error: ERR, success: 'NEW '}`,
			handled: "1",
			rows:    "SELECT id, length(status) FROM jobs",
			want:    []string{"1|4"},
		},
		{
			name: "dead",
			on:   []wildKind{inMySQL},
			sql:  inPlace("varchar(20) COLLATE utf8mb4_general_ci") + rows,
			cfg: `table: {name: jobs}
statuses: {new: NEW, error: ERR, success: OK, dead: err}`,
			refused: "statuses.dead: with `status` = 'err' a dead record would still be in error to the database and be tried for ever; write what does not meet the condition of error",
			rows:    all,
			want:    untouched,
		},
		{
			name: "signs that have a meaning elsewhere",
			on:   []wildKind{inPostgres, inMySQL},
			sql:  inPlace("varchar(20)") + rows + ", (2, '5%d?', '2026-02-10 10:00:00')",
			cfg: `table: {name: jobs}
statuses: {new: '5%d?', error: '%s', success: "%!?'"}`,
			handled: "2",
			rows:    all + " WHERE id = 2",
			want:    []string{"2|%!?'"},
		},
		{
			name: "values of several columns",
			on:   []wildKind{inPostgres, inMySQL},
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, kind int, done int, date_inserted timestamp NULL);
				INSERT INTO jobs VALUES (1, 2, 0, '2026-02-10 11:00:00')`,
			cfg: `table: {name: jobs}
statuses: {new: {when: {kind: [1, 2], done: 0}}, error: keep, success: {set: {done: 1}}}`,
			handled: "1",
			rows:    "SELECT id, kind, done FROM jobs",
			want:    []string{"1|2|1"},
			warns:   []string{"no error status is written: failed records are not told from new ones, and age alone decides when they are tried"},
		},
		{
			name: "a failed record",
			on:   []wildKind{inMySQL},
			sql:  inPlace("varchar(20) COLLATE utf8mb4_general_ci") + rows,
			cfg: `table: {name: jobs}
statuses: {new: NEW, error: new, success: OK}`,
			handled: "1",
			rows:    all,
			want:    []string{"1|OK"},
			warns:   []string{"statuses.error is one of statuses.new to the database, with `status` = 'new': failed records are not told from new ones, and age alone decides when they are tried"},
		},
	})
}
