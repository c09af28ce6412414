package cmd

import "testing"

// TestWildKeys: keys of every kind name one row each, or there is no pass: an
// outcome must not be written to two rows.
func TestWildKeys(t *testing.T) {
	only := func(k wildKind) []wildKind { return []wildKind{k} }
	const cure = "; name the columns of the primary key or of a unique index, or create one: CREATE UNIQUE INDEX …"
	const noKey = "table.id: id does not identify a row of jobs: no primary key or unique index covers it" + cure
	const rest = ", status varchar(20) DEFAULT 'NEW', date_inserted timestamp NULL DEFAULT '2026-02-10 11:00:00'"
	testWildRules(t, []wildRule{
		{
			name: "two columns, of which each has duplicates",
			sql: "CREATE TABLE jobs (tenant varchar(20), n int" + rest + `, PRIMARY KEY (n, tenant));
				INSERT INTO jobs (tenant, n) VALUES ('it''s', 1), ('it''s', 2), ('ours', 1)`,
			cfg:     "table: {name: jobs, id: [tenant, n], where: {tenant: [\"it's\", theirs]}}",
			handled: `["it's",2] ["it's",1]`,
			rows:    "SELECT tenant, n, status FROM jobs",
			want:    []string{"it's|1|SUCCESS", "it's|2|SUCCESS", "ours|1|NEW"},
		},
		{
			name: "a uuid and a number",
			on:   only(inPostgres),
			sql: "CREATE TABLE jobs (tenant uuid, n numeric" + rest + `, PRIMARY KEY (tenant, n));
				INSERT INTO jobs (tenant, n, status) VALUES ('8C3E8EF4-2B0C-4A8E-9D7F-1F1F6A3B5C01', 12345678901234567890123, 'NEW'), ('8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c01', 12345678901234567890124.50, 'HELD')`,
			cfg:     "table: {name: jobs, id: [tenant, n]}",
			handled: `["8c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c01","12345678901234567890123"]`,
			rows:    "SELECT n, status FROM jobs",
			want:    []string{"12345678901234567890123|SUCCESS", "12345678901234567890124.50|HELD"},
		},
		{
			name: "a number that a float cannot hold, in a condition",
			on:   []wildKind{inPostgres, inMySQL},
			sql: "CREATE TABLE jobs (id int PRIMARY KEY, n decimal(30,1)" + rest + `);
				INSERT INTO jobs (id, n) VALUES (1, 12345678901234567890123.1), (2, 12345678901234567890123.2)`,
			cfg:     "table: {name: jobs, where: {n: 12345678901234567890123.1}}",
			handled: "1",
			rows:    "SELECT id, status FROM jobs",
			want:    []string{"1|SUCCESS", "2|NEW"},
		},
		{
			name: "sixteen bytes",
			on:   only(inMySQL),
			sql: "CREATE TABLE jobs (id binary(16) PRIMARY KEY" + rest + `);
				INSERT INTO jobs (id) VALUES (x'00112233445566778899aabbccddeeff'), (x'00112233445566778899aabbccddee00')`,
			cfg:     "table: {name: jobs}",
			handled: "ABEiM0RVZneImaq7zN3u/w== ABEiM0RVZneImaq7zN3uAA==",
			rows:    "SELECT hex(id), status FROM jobs",
			want:    []string{"00112233445566778899AABBCCDDEE00|SUCCESS", "00112233445566778899AABBCCDDEEFF|SUCCESS"},
		},
		{
			name: "bytes",
			on:   only(inPostgres),
			sql: "CREATE TABLE jobs (id bytea PRIMARY KEY" + rest + `);
				INSERT INTO jobs (id) VALUES ('\x0011ff'), ('\x0011'), ('')`,
			cfg:     "table: {name: jobs}",
			handled: "ABH/ ABE=",
			rows:    "SELECT encode(id, 'hex'), status FROM jobs",
			want:    []string{"0011ff|SUCCESS", "0011|SUCCESS", "|SUCCESS"},
		},
		{
			name: "numbers above all signed ones, a rounding apart",
			on:   only(inMySQL),
			sql: "CREATE TABLE jobs (id bigint unsigned PRIMARY KEY" + rest + `);
				INSERT INTO jobs (id, status) VALUES (18446744073709551615, 'NEW'), (18446744073709551614, 'HELD'), (18446744073709551613, 'NEW')`,
			cfg:     "table: {name: jobs}",
			handled: "18446744073709551615 18446744073709551613",
			rows:    "SELECT id, status FROM jobs",
			want:    []string{"18446744073709551613|SUCCESS", "18446744073709551614|HELD", "18446744073709551615|SUCCESS"},
		},
		{
			name: "decimals beyond all integers, a rounding apart",
			on:   []wildKind{inPostgres, inMySQL},
			sql: "CREATE TABLE jobs (id decimal(30,1) PRIMARY KEY" + rest + `);
				INSERT INTO jobs (id, status) VALUES (12345678901234567890123.1, 'NEW'), (12345678901234567890123.2, 'HELD')`,
			cfg:     "table: {name: jobs}",
			handled: "12345678901234567890123.1",
			rows:    "SELECT id, status FROM jobs",
			want:    []string{"12345678901234567890123.1|SUCCESS", "12345678901234567890123.2|HELD"},
		},
		{
			name: "texts that are told apart by less than their letters",
			on:   only(inMySQL),
			sql: "CREATE TABLE jobs (id varchar(20) COLLATE utf8mb4_bin PRIMARY KEY" + rest + `);
				INSERT INTO jobs (id, status) VALUES ('a', 'NEW'), ('A', 'HELD'), ('ä', 'HELD'), ('á', 'NEW'), ('1', 'NEW'), ('01', 'HELD')`,
			cfg:     "table: {name: jobs}",
			handled: "á a 1",
			rows:    "SELECT id FROM jobs WHERE status = 'SUCCESS'",
			want:    []string{"1", "a", "á"},
		},
		{
			name: "a uuid and an address, which are not ordered as their texts are",
			on:   only(inMySQL),
			sql: "CREATE TABLE jobs (id /*M! uuid */ /*!80000 char(36) */, at /*M! inet6 */ /*!80000 varchar(39) */" + rest + `, PRIMARY KEY (id, at));
				INSERT INTO jobs VALUES ('8c3e8ef4-2b0c-1a8e-9d7f-1f1f6a3b5c01', '::1', 'NEW', '2026-02-10 11:40:00'), ('0c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c02', '::1', 'NEW', '2026-02-10 11:30:00'), ('0c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c02', '2001:db8::', 'ERROR', '2026-02-10 11:20:00'), ('0c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c02', '2001:db8::2', 'HELD', '2026-02-10 11:20:00')`,
			cfg:     "table: {name: jobs, id: [id, at]}",
			handled: `["8c3e8ef4-2b0c-1a8e-9d7f-1f1f6a3b5c01","::1"] ["0c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c02","::1"] ["0c3e8ef4-2b0c-4a8e-9d7f-1f1f6a3b5c02","2001:db8::"]`,
			rows:    "SELECT count(*), status FROM jobs GROUP BY status",
			want:    []string{"1|HELD", "3|SUCCESS"},
		},
		{
			name: "none",
			sql: "CREATE TABLE jobs (id int" + rest + `);
				INSERT INTO jobs (id) VALUES (1), (1)`,
			cfg:     "table: {name: jobs}",
			refused: noKey,
		},
		{
			name: "a part of one",
			sql: "CREATE TABLE jobs (id int, n int" + rest + `, PRIMARY KEY (id, n));
				INSERT INTO jobs (id, n) VALUES (1, 1), (1, 2)`,
			cfg:     "table: {name: jobs}",
			refused: "table.id: id does not identify a row of jobs: a key of that table is 2 columns: id, n; write table.id: [id, n]",
		},
		{
			name: "one that holds for some rows",
			on:   []wildKind{inSQLite, inPostgres},
			sql: "CREATE TABLE jobs (id int" + rest + `);
				CREATE UNIQUE INDEX u ON jobs (id) WHERE status = 'NEW';
				INSERT INTO jobs (id) VALUES (1)`,
			cfg:     "table: {name: jobs}",
			refused: noKey,
		},
		{
			name: "one of an expression",
			on:   []wildKind{inSQLite, inPostgres},
			sql: "CREATE TABLE jobs (id int" + rest + `);
				CREATE UNIQUE INDEX u ON jobs (abs(id));
				INSERT INTO jobs (id) VALUES (1)`,
			cfg:     "table: {name: jobs}",
			refused: noKey,
		},
		{
			name: "one that could not be built",
			on:   only(inPostgres),
			sql: "CREATE TABLE jobs (id int" + rest + `);
				CREATE UNIQUE INDEX u ON jobs (id);
				INSERT INTO jobs (id) VALUES (1);
				UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'u'::regclass`,
			cfg:     "table: {name: jobs}",
			refused: noKey,
		},
		{
			name: "one of the parent, which its heirs do not share",
			on:   only(inPostgres),
			sql: "CREATE TABLE jobs (id int PRIMARY KEY" + rest + `);
				CREATE TABLE urgent () INHERITS (jobs);
				INSERT INTO jobs (id) VALUES (1);
				INSERT INTO urgent (id) VALUES (1)`,
			cfg:     "table: {name: jobs}",
			refused: "table jobs: other tables inherit from it: no key identifies a row of all of them; name one of the tables that inherit from it, or partition it",
		},
		{
			name: "one that is unique in each partition only",
			on:   only(inPostgres),
			sql: "CREATE TABLE jobs (id int" + rest + `) PARTITION BY RANGE (date_inserted);
				CREATE TABLE jobs_1 PARTITION OF jobs (PRIMARY KEY (id)) FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
				CREATE TABLE jobs_2 PARTITION OF jobs (PRIMARY KEY (id)) FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
				INSERT INTO jobs (id) VALUES (1)`,
			cfg:     "table: {name: jobs}",
			refused: noKey,
		},
		{
			name: "one of a table in partitions",
			on:   only(inPostgres),
			sql: `
				CREATE TABLE jobs (id int, status text DEFAULT 'NEW', date_inserted timestamp, PRIMARY KEY (id, date_inserted)) PARTITION BY RANGE (date_inserted);
				CREATE TABLE jobs_1 PARTITION OF jobs FOR VALUES FROM ('2026-01-01') TO ('2026-02-10');
				CREATE TABLE jobs_2 PARTITION OF jobs FOR VALUES FROM ('2026-02-10') TO ('2026-03-01');
				INSERT INTO jobs VALUES (1, 'NEW', '2026-02-09 11:00'), (1, 'NEW', '2026-02-10 11:00'), (2, 'SUCCESS', '2026-02-10 11:00')`,
			cfg:     "table: {name: jobs, id: [id, date_inserted]}",
			handled: `[1,"2026-02-10 11:00:00"] [1,"2026-02-09 11:00:00"]`,
			rows:    "SELECT tableoid::regclass, id, status FROM jobs",
			want:    []string{"jobs_1|1|SUCCESS", "jobs_2|1|SUCCESS", "jobs_2|2|SUCCESS"},
		},
		{
			name: "one of a table in partitions",
			on:   only(inMySQL),
			sql: `
				CREATE TABLE jobs (id int, status varchar(20) DEFAULT 'NEW', date_inserted datetime, PRIMARY KEY (id, date_inserted)) PARTITION BY RANGE COLUMNS (date_inserted) (PARTITION p1 VALUES LESS THAN ('2026-02-10'), PARTITION p2 VALUES LESS THAN (MAXVALUE));
				INSERT INTO jobs VALUES (1, 'NEW', '2026-02-09 11:00'), (1, 'NEW', '2026-02-10 11:00'), (2, 'SUCCESS', '2026-02-10 11:00')`,
			cfg:     "table: {name: jobs, id: [id, date_inserted]}",
			handled: `[1,"2026-02-10 11:00:00"] [1,"2026-02-09 11:00:00"]`,
			rows:    "SELECT id, status FROM jobs",
			want:    []string{"1|SUCCESS", "1|SUCCESS", "2|SUCCESS"},
		},
		{
			name: "a part of one of a table in partitions",
			on:   only(inMySQL),
			sql: `
				CREATE TABLE jobs (id int, status varchar(20) DEFAULT 'NEW', date_inserted datetime, PRIMARY KEY (id, date_inserted)) PARTITION BY RANGE COLUMNS (date_inserted) (PARTITION p1 VALUES LESS THAN ('2026-02-10'), PARTITION p2 VALUES LESS THAN (MAXVALUE));
				INSERT INTO jobs VALUES (1, 'NEW', '2026-02-09 11:00'), (1, 'NEW', '2026-02-10 11:00')`,
			cfg:     "table: {name: jobs}",
			refused: "table.id: id does not identify a row of jobs: a key of that table is 2 columns: id, date_inserted; write table.id: [id, date_inserted]",
		},
	})
}
