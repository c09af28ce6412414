package cmd

import "testing"

// TestWildHosts: what a database does beside holding rows, and what it lets its
// users do.
func TestWildHosts(t *testing.T) {
	only := func(k wildKind) []wildKind { return []wildKind{k} }
	const jobs = "CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted timestamp NULL, tenant varchar(20), error varchar(5)); " +
		"INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00:00', 'ours', NULL), (2, 'NEW', '2026-02-10 10:00:00', 'theirs', NULL); "
	const all = "SELECT id, status FROM jobs"
	untouched := []string{"1|NEW", "2|NEW"}
	testWildRules(t, []wildRule{
		{
			name:    "a view",
			sql:     jobs + "CREATE VIEW v AS SELECT id, status, date_inserted FROM jobs WHERE tenant = 'ours'",
			cfg:     "table: {name: v}",
			refused: "v is a view: outcomes cannot be written to it; name the table behind it",
			rows:    all,
			want:    untouched,
		},
		{
			name: "a view with its rows in it",
			on:   only(inPostgres),
			sql: jobs + `
				CREATE MATERIALIZED VIEW v AS SELECT id, status, date_inserted FROM jobs;
				CREATE UNIQUE INDEX ON v (id)`,
			cfg:     "table: {name: v}",
			refused: "v is a view: outcomes cannot be written to it; name the table behind it",
			rows:    all,
			want:    untouched,
		},
		{
			name: "no transactions",
			on:   only(inMySQL),
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted timestamp NULL) ENGINE = MyISAM;
				INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00:00')`,
			cfg: "table: {name: jobs}",
			warns: []string{"the storage engine of jobs is MyISAM, which has no transactions: a crash, or a row that somebody else changes at the time, can leave a part of a group written, and whether it takes the statuses cannot be tried; " +
				"with InnoDB it would be all or nothing"},
			handled: "1",
			rows:    all,
			want:    []string{"1|SUCCESS"},
		},
		{
			name:    "rows that this user may not see",
			on:      only(inPostgres),
			sql:     jobs + "ALTER TABLE jobs ENABLE ROW LEVEL SECURITY",
			as:      "GRANT SELECT, UPDATE ON jobs TO THEROLE",
			cfg:     "table: {name: jobs}",
			refused: "table jobs: row level security applies to the role OURS: records that it hides would never be processed, without a word; use a role to which it does not apply, such as the table's owner or ALTER ROLE \"OURS\" BYPASSRLS",
			rows:    all,
			want:    untouched,
		},
		{
			name: "some rows that this user may see",
			on:   only(inPostgres),
			sql: jobs + `
				ALTER TABLE jobs ENABLE ROW LEVEL SECURITY;
				CREATE POLICY p ON jobs USING (tenant = 'ours')`,
			as:      "GRANT SELECT, UPDATE ON jobs TO THEROLE",
			cfg:     "table: {name: jobs}",
			refused: "table jobs: row level security applies to the role OURS: records that it hides would never be processed, without a word; use a role to which it does not apply, such as the table's owner or ALTER ROLE \"OURS\" BYPASSRLS",
			rows:    all,
			want:    untouched,
		},
		{
			name:    "rows that not even their owner may see",
			on:      only(inPostgres),
			sql:     jobs + "ALTER TABLE jobs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
			as:      "ALTER TABLE jobs OWNER TO THEROLE",
			cfg:     "table: {name: jobs}",
			refused: "table jobs: row level security applies to the role OURS: …",
			rows:    all,
			want:    untouched,
		},
		{
			name:    "row level security of the owner's own",
			on:      only(inPostgres),
			sql:     jobs + "ALTER TABLE jobs ENABLE ROW LEVEL SECURITY",
			as:      "ALTER TABLE jobs OWNER TO THEROLE",
			cfg:     "table: {name: jobs}",
			handled: "1 2",
			rows:    all,
			want:    []string{"1|SUCCESS", "2|SUCCESS"},
		},
		{
			name:    "a table that remembers what it was",
			on:      only(inMySQL),
			sql:     jobs + "ALTER TABLE jobs /*M! ADD SYSTEM VERSIONING */",
			cfg:     "table: {name: jobs}",
			handled: "1 2",
			rows:    all,
			want:    []string{"1|SUCCESS", "2|SUCCESS"},
		},
		{
			name: "row level security that does not hold for this user",
			on:   only(inPostgres),
			sql: jobs + `
				ALTER TABLE jobs ENABLE ROW LEVEL SECURITY;
				CREATE POLICY p ON jobs USING (tenant = 'ours')`,
			as: `
				GRANT SELECT, UPDATE ON jobs TO THEROLE;
				ALTER ROLE THEROLE BYPASSRLS`,
			cfg:     "table: {name: jobs}",
			handled: "1 2",
			rows:    all,
			want:    []string{"1|SUCCESS", "2|SUCCESS"},
		},
		{
			name:    "a user who may only read",
			on:      []wildKind{inPostgres, inMySQL},
			sql:     jobs,
			as:      "GRANT SELECT ON jobs TO THEROLE",
			cfg:     "table: {name: jobs}",
			refused: "…denied …let its owner grant …`backlog check --sql` …",
			rows:    all,
			want:    untouched,
		},
		{
			name:    "a user who may not write all that is written",
			on:      []wildKind{inPostgres, inMySQL},
			sql:     jobs,
			as:      "GRANT SELECT, UPDATE (status) ON jobs TO THEROLE",
			cfg:     "table: {name: jobs, last_error: error}",
			refused: "…denied …let its owner grant …`backlog check --sql` …",
			rows:    all,
			want:    untouched,
		},
		{
			name:    "a user who may not read the table",
			on:      []wildKind{inPostgres, inMySQL},
			sql:     jobs + "CREATE TABLE other (id int PRIMARY KEY)",
			as:      "GRANT SELECT ON other TO THEROLE",
			cfg:     "table: {name: jobs}",
			refused: "…table jobs…",
			rows:    all,
			want:    untouched,
		},
		{
			name:    "a user who may do what is done, and no more",
			on:      only(inPostgres),
			sql:     jobs,
			as:      "GRANT SELECT (id, status, date_inserted), UPDATE (status, error) ON jobs TO THEROLE",
			fail:    true,
			cfg:     "table: {name: jobs, last_error: error, columns: [status]}",
			handled: "1 2",
			rows:    "SELECT id, status, error FROM jobs",
			want:    []string{"1|ERROR|exit ", "2|ERROR|exit "},
		},
		{
			name:    "a user who may do what is done, and no more",
			on:      only(inMySQL),
			sql:     jobs,
			as:      "GRANT SELECT (id, status, date_inserted), UPDATE (status, error) ON jobs TO THEROLE",
			fail:    true,
			cfg:     "table: {name: jobs, last_error: error, columns: [status]}",
			handled: "1 2",
			rows:    "SELECT id, status, error FROM jobs",
			want:    []string{"1|ERROR|exit ", "2|ERROR|exit "},
		},
		{
			name: "a trigger, which sees the session",
			on:   only(inMySQL),
			sql: jobs + `
				CREATE TABLE seen (what varchar(200));
				CREATE TRIGGER t AFTER UPDATE ON jobs FOR EACH ROW INSERT INTO seen SELECT concat_ws(' ', old.status, new.status, @@time_zone, /*!80000 @@transaction_isolation */ /*M! @@tx_isolation */)`,
			cfg:     "table: {name: jobs}",
			warns:   []string{"triggers run when a row is updated: t"},
			handled: "1 2",
			rows:    "SELECT what FROM seen",
			want:    []string{"NEW SUCCESS +00:00 READ-COMMITTED", "NEW SUCCESS +00:00 READ-COMMITTED"},
		},
		{
			name: "a trigger, which sees the session",
			on:   only(inPostgres),
			sql: jobs + `
				CREATE TABLE seen (what text);
				CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO OURS.seen VALUES (concat_ws(' ', old.status, new.status, current_setting('timezone'), current_setting('row_security'), current_setting('transaction_isolation'))); RETURN new; END $$;
				CREATE TRIGGER t AFTER UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION f()`,
			as: `
				ALTER ROLE THEROLE SET default_transaction_isolation = 'serializable';
				ALTER ROLE THEROLE SET row_security = on;
				ALTER ROLE THEROLE SET timezone = 'Asia/Kolkata';
				GRANT SELECT, UPDATE ON jobs TO THEROLE;
				GRANT INSERT ON seen TO THEROLE`,
			cfg: `table: {name: jobs}
timezone: UTC`,
			warns:   []string{"triggers run when a row is updated: t"},
			handled: "1 2",
			rows:    "SELECT what FROM seen",
			want:    []string{"NEW SUCCESS UTC off read committed", "NEW SUCCESS UTC off read committed"},
		},
		{
			name: "a trigger that undoes what is written",
			on:   only(inPostgres),
			sql: jobs + `
				CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
				CREATE TRIGGER t BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION f()`,
			cfg:     "table: {name: jobs}",
			warns:   []string{"triggers run when a row is updated: t"},
			rows:    all,
			want:    untouched,
			refused: undone,
		},
		{
			name: "a rule that writes elsewhere",
			on:   only(inPostgres),
			sql:  jobs + "CREATE RULE r AS ON UPDATE TO jobs DO INSTEAD NOTHING",
			cfg:  "table: {name: jobs}",
			rows: all,
			want: untouched,
			refused: "table jobs: its rule r does something else instead of an UPDATE: no outcome would be written, and its records would be handled again and again; " +
				`name the table that the rule writes to, if it does what an UPDATE would, or DROP RULE "r" ON "OURS"."jobs"`,
		},
		{
			name:    "a rule that writes elsewhere for some rows",
			on:      only(inPostgres),
			sql:     jobs + "CREATE RULE r AS ON UPDATE TO jobs WHERE new.status = 'SUCCESS' DO INSTEAD NOTHING",
			cfg:     "table: {name: jobs}",
			rows:    all,
			want:    untouched,
			refused: "table jobs: its rule r does something else instead of an UPDATE: …",
		},
		{
			name: "a rule that writes elsewhere as well",
			on:   only(inPostgres),
			sql: jobs + `
				CREATE TABLE log (id int);
				CREATE RULE r AS ON UPDATE TO jobs DO ALSO INSERT INTO log VALUES (old.id)`,
			cfg:     "table: {name: jobs}",
			warns:   []string{"triggers run when a row is updated: r"},
			handled: "1 2",
			rows:    "SELECT count(*) FROM log",
			want:    []string{"2"},
		},
		{
			name: "a rule and a trigger that are off",
			on:   only(inPostgres),
			sql: jobs + `
				CREATE RULE r AS ON UPDATE TO jobs DO INSTEAD NOTHING;
				CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
				CREATE TRIGGER t BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION f();
				ALTER TABLE jobs ENABLE REPLICA RULE r, DISABLE TRIGGER t`,
			cfg:     "table: {name: jobs}",
			handled: "1 2",
			rows:    "SELECT count(*) FROM jobs WHERE status = 'SUCCESS'",
			want:    []string{"2"},
		},
		{
			name: "a view with a trigger that writes",
			on:   only(inPostgres),
			sql: `
				CREATE TABLE inside (id int PRIMARY KEY, status text, date_inserted timestamp);
				INSERT INTO inside VALUES (1, 'NEW', '2026-02-10 11:00:00');
				CREATE VIEW jobs AS SELECT * FROM inside;
				CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE inside SET status = new.status WHERE id = old.id; RETURN new; END $$;
				CREATE TRIGGER t INSTEAD OF UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION f()`,
			cfg:     "table: {name: jobs}",
			refused: "jobs is a view: outcomes cannot be written to it; name the table behind it",
		},
		{
			name: "a count that is as large as it can be",
			on:   []wildKind{inPostgres, inMySQL},
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted timestamp NULL, attempts smallint);
				INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00:00', 32767), (2, 'NEW', '2026-02-10 10:00:00', 32766), (3, 'ERROR', '2026-02-10 10:00:00', 32767)`,
			cfg:     "table: {name: jobs, attempts: attempts}",
			handled: "1 2 3",
			rows:    "SELECT id, status, attempts FROM jobs",
			want:    []string{"1|SUCCESS|32767", "2|SUCCESS|32767", "3|SUCCESS|32767"},
		},
		{
			name: "a count of failures that is as large as it can be",
			on:   only(inMySQL),
			fail: true,
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted timestamp NULL, failures tinyint unsigned, last_failure datetime);
				INSERT INTO jobs VALUES (1, 'ERROR', '2026-02-10 11:00:00', 255, '2026-02-10 11:00:00'), (2, 'ERROR', '2026-02-10 10:00:00', 254, '2026-02-10 11:00:00')`,
			cfg: `table: {name: jobs}
policy: {fibonacci: {max_delay: 1m}}`,
			handled: "1 2",
			rows:    "SELECT id, status, failures, last_failure >= '2026-02-10 12:00:00' FROM jobs",
			want:    []string{"1|ERROR|255|1", "2|ERROR|255|1"},
		},
		{
			name: "a count of failures that never gets as far as the policy counts",
			on:   only(inMySQL),
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted timestamp NULL, failures tinyint, last_failure datetime);
				INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00:00', 0, NULL)`,
			cfg: `table: {name: jobs}
policy: {sneakers: {max_retries: 127, max_delay: 1h}}`,
			refused: "policy: column failures is tinyint…, which cannot count 128 failures; let it give up earlier, or name a column of larger numbers",
			rows:    all,
			want:    []string{"1|NEW"},
		},
		{
			name: "a number that is cut off where nobody is strict", on: only(inMySQL), // as the session that made the table
			sql:     "CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted timestamp NULL, attempts decimal(3)); INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00:00', 1000), (2, 'NEW', '2026-02-10 10:00:00', 1)",
			cfg:     "table: {name: jobs, attempts: attempts}",
			handled: "2", rows: "SELECT id, status, attempts FROM jobs", want: []string{"1|NEW|999", "2|SUCCESS|2"},
			refused: "outcomes that the database does not take: 1; their rows stay as they were, and the next start tries them again; the log says which and why",
		},
		{
			name: "a column that the database computes",
			on:   []wildKind{inPostgres, inMySQL},
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, done int, status varchar(20) GENERATED ALWAYS AS (CASE WHEN done = 1 THEN 'SUCCESS' ELSE 'NEW' END) STORED, date_inserted timestamp NULL);
				INSERT INTO jobs (id, done, date_inserted) VALUES (1, 0, '2026-02-10 11:00:00')`,
			cfg:     "table: {name: jobs}",
			refused: "statuses.success: column status is computed by the database and cannot be written; name another (statuses.success is not given, this is its default)",
		},
	})
}
