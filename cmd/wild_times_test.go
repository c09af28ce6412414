package cmd

import "testing"

// TestWildTimes: what stands in a column of times, in whatever zone and form,
// and what the database itself would write there.
func TestWildTimes(t *testing.T) {
	only := func(k wildKind) []wildKind { return []wildKind{k} }
	const zeros = "CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted datetime NOT NULL DEFAULT '0000-00-00 00:00:00'); " +
		"INSERT INTO jobs VALUES (1, 'NEW', '0000-00-00 00:00:00'), (2, 'NEW', '2026-02-10 11:00:00'), (3, 'NEW', '2026-02-03 11:59:59'), (4, 'NEW', '2026-02-10 11:30:00'), " +
		"(5, 'ERROR', '0000-00-00 00:00:00')"
	testWildRules(t, []wildRule{
		{
			name: "zero dates, never taken and never dead",
			on:   only(inMySQL),
			sql:  zeros,
			cfg: `table: {name: jobs}
statuses: {dead: DEAD}`,
			handled: "4 2",
			rows:    "SELECT id, status FROM jobs",
			want:    []string{"1|NEW", "2|SUCCESS", "3|DEAD", "4|SUCCESS", "5|ERROR"},
		},
		{
			name: "zero dates, as old as the widest tier",
			on:   only(inMySQL),
			sql:  zeros,
			cfg: `table: {name: jobs, inserted: {column: date_inserted, zero: oldest}}
statuses: {dead: DEAD}`,
			handled: "4 2 1 5",
			rows:    "SELECT id, status FROM jobs",
			want:    []string{"1|SUCCESS", "2|SUCCESS", "3|DEAD", "4|SUCCESS", "5|SUCCESS"},
		},
		{
			name: "zero dates, as if inserted now",
			on:   only(inMySQL),
			sql:  zeros,
			cfg: `table: {name: jobs, inserted: {column: date_inserted, zero: newest}}
statuses: {dead: DEAD}`,
			handled: "1 4 2 5",
			rows:    "SELECT id, status FROM jobs",
			want:    []string{"1|SUCCESS", "2|SUCCESS", "3|DEAD", "4|SUCCESS", "5|SUCCESS"},
		},
		{
			name: "a zero date to be sent after, and one to expire",
			on:   only(inMySQL),
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted datetime, a datetime, b timestamp);
				INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00:00', '0000-00-00 00:00:00', '0000-00-00 00:00:00'), (2, 'NEW', '2026-02-10 11:00:00', '2026-02-10 12:00:01', NULL), (3, 'NEW', '2026-02-10 11:00:00', NULL, '2026-02-10 11:59:59')`,
			cfg: `table: {name: jobs, eligible: a, expires: b}
statuses: {dead: DEAD}`,
			handled: "1",
			rows:    "SELECT id, status FROM jobs",
			want:    []string{"1|SUCCESS", "2|NEW", "3|DEAD"},
		},
		{
			name: "a column that the database sets itself",
			on:   only(inMySQL),
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted timestamp NOT NULL DEFAULT current_timestamp() ON UPDATE current_timestamp());
				INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00:00')`,
			cfg:     "table: {name: jobs, inserted: {column: date_inserted, keep: true}}",
			handled: "1",
			rows:    "SELECT id, status, date_inserted FROM jobs",
			want:    []string{"1|SUCCESS|2026-02-10 11:00:00"},
		},
		{
			name: "a column that the database sets itself, and is not kept",
			on:   only(inMySQL),
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted timestamp NOT NULL DEFAULT current_timestamp() ON UPDATE current_timestamp());
				INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00:00')`,
			cfg:     "table: {name: jobs}",
			warns:   []string{"column date_inserted is set by the database whenever a row is written; `keep: true` in its long form keeps it"},
			handled: "1",
			rows:    "SELECT id, status, date_inserted > '2026-02-10 11:00:00' FROM jobs",
			want:    []string{"1|SUCCESS|1"},
		},
		{
			name: "naive times of a session that is in Kolkata",
			on:   only(inPostgres),
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, status text, date_inserted timestamp, send_after timestamptz, sent_at timestamp, seen_at timestamptz);
				SET timezone = 'Asia/Kolkata';
				INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 17:29:59.999999', '2026-02-10 17:30:00'), (2, 'NEW', '2026-02-10 17:00:00', '2026-02-10 17:30:00.000001'), (3, 'NEW', '2026-02-03 17:30:00', NULL), (4, 'NEW', '2026-02-03 17:29:59.999999', NULL);
				SET timezone = 'UTC'`,
			as: `
				ALTER ROLE THEROLE SET timezone = 'Asia/Kolkata';
				ALTER ROLE THEROLE SET datestyle = 'German';
				ALTER ROLE THEROLE SET intervalstyle = 'sql_standard';
				ALTER ROLE THEROLE SET standard_conforming_strings = off;
				ALTER ROLE THEROLE SET extra_float_digits = 0;
				ALTER ROLE THEROLE SET bytea_output = 'escape';
				GRANT SELECT, UPDATE ON jobs TO THEROLE`,
			cfg: `table: {name: jobs, inserted: {column: date_inserted, zone: Asia/Kolkata}, eligible: send_after, touch: {sent_at: now, seen_at: now}}
statuses: {dead: 'it''s \dead'}
timezone: Asia/Kolkata`,
			handled: "1 3",
			rows:    "SELECT id, status, sent_at >= '2026-02-10 17:30' AND sent_at < '2026-02-10 17:31', seen_at >= '2026-02-10 12:00Z' AND seen_at < '2026-02-10 12:01Z' FROM jobs",
			want:    []string{"1|SUCCESS|true|true", "2|NEW||", "3|SUCCESS|true|true", `4|it's \dead|true|true`},
		},
		{
			name: "what is set whenever a record changes, too old to be tried",
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted varchar(30), upd varchar(30), version int, attempts int);
				INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00:00', NULL, 7, 0), (2, 'NEW', '2026-02-01 11:00:00', NULL, 7, 0), (3, 'ERROR', '2026-02-01 11:00:00', NULL, NULL, 4), (4, 'DEAD', '2026-02-01 11:00:00', NULL, 7, 4)`,
			cfg: `table: {name: jobs, attempts: attempts, touch: {upd: now, version: +1}}
statuses: {dead: DEAD}`,
			handled: "1",
			rows:    "SELECT id, status, CASE WHEN upd LIKE '2026-02-10 12:0%' THEN 'noon' END, version, attempts FROM jobs",
			want:    []string{"1|SUCCESS|noon|8|1", "2|DEAD|noon|8|0", "3|DEAD|noon|1|4", "4|DEAD||7|4"},
		},
		{
			name: "naive times of which nobody has said the zone",
			on:   only(inPostgres),
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, status text, date_inserted timestamp);
				INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00:00')`,
			as: `
				ALTER ROLE THEROLE SET timezone = 'America/New_York';
				GRANT SELECT, UPDATE ON jobs TO THEROLE`,
			cfg:     "table: {name: jobs}",
			warns:   []string{"column date_inserted: timestamp without time zone has no zone and is read as UTC, but the database is in the zone America/New_York; write `timezone: America/New_York` if its times are written in that one, or `timezone: UTC` if they are in UTC"},
			handled: "1",
			rows:    "SELECT id, status FROM jobs",
			want:    []string{"1|SUCCESS"},
		},
		{
			name: "naive times of which nobody has said the zone, and a dead status",
			on:   only(inPostgres),
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, status text, date_inserted timestamp);
				INSERT INTO jobs VALUES (1, 'NEW', '2026-02-03 11:00:00')`,
			as: `
				ALTER ROLE THEROLE SET timezone = 'Europe/London';
				GRANT SELECT, UPDATE ON jobs TO THEROLE`,
			cfg: `table: {name: jobs}
statuses: {dead: DEAD}`,
			refused: "table jobs: column date_inserted: timestamp without time zone has no zone and is read as UTC, but the database is in the zone Europe/London; write …",
			rows:    "SELECT id, status FROM jobs",
			want:    []string{"1|NEW"},
		},
		{
			name: "naive times that are said to be in UTC, and moments, in a database that is in New York",
			on:   only(inPostgres),
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, status text, date_inserted timestamp, send_after timestamptz);
				INSERT INTO jobs VALUES (1, 'NEW', '2026-02-03 11:00:00', NULL), (2, 'NEW', '2026-02-10 11:00:00', '2026-02-10 12:00Z')`,
			as: `
				ALTER ROLE THEROLE SET timezone = 'America/New_York';
				GRANT SELECT, UPDATE ON jobs TO THEROLE`,
			cfg: `table: {name: jobs, inserted: {column: date_inserted, zone: UTC}, eligible: send_after}
statuses: {dead: DEAD}`,
			handled: "2",
			rows:    "SELECT id, status FROM jobs",
			want:    []string{"1|DEAD", "2|SUCCESS"},
		},
		{
			name: "a DATETIME and a TIMESTAMP that a session in Kolkata has written",
			on:   only(inMySQL),
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted datetime(6), send_after timestamp(6) NULL, sent_at datetime(3), seen_at timestamp NULL);
				SET time_zone = '+05:30';
				INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 17:29:59.999999', '2026-02-10 17:30:00', NULL, NULL), (2, 'NEW', '2026-02-10 17:00:00', '2026-02-10 17:30:00.000001', NULL, NULL), (3, 'NEW', '2026-02-03 17:30:00', NULL, NULL, NULL), (4, 'NEW', '2026-02-03 17:29:59.999999', NULL, NULL, NULL);
				SET time_zone = '+00:00'`,
			cfg: `table: {name: jobs, inserted: {column: date_inserted, zone: Asia/Kolkata}, eligible: send_after, touch: {sent_at: now, seen_at: now}}
statuses: {dead: 'it''s \dead'}
timezone: Asia/Kolkata`,
			handled: "1 3",
			rows:    "SELECT id, status, sent_at >= '2026-02-10 17:30' AND sent_at < '2026-02-10 17:31', seen_at >= '2026-02-10 12:00' AND seen_at < '2026-02-10 12:01' FROM jobs",
			want:    []string{"1|SUCCESS|1|1", "2|NEW||", "3|SUCCESS|1|1", `4|it's \dead|1|1`},
		},
		{
			name: "rows as they are understood",
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted varchar(30));
				INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 17:29:00'), (2, 'ERROR', '2026-02-10 14:30:00'), (3, 'NEW', '2026-02-01 00:00:00'), (4, 'NEW', '2026-01-01 00:00:00'), (5, 'SUCCESS', '2026-02-10 17:29:00')`,
			cfg:     "table: {name: jobs, inserted: {column: date_inserted, zone: Asia/Kolkata}}",
			says:    []string{"row 1: 2026-02-10 11:59:00 UTC, 60 s old", "row 3: 2026-01-31 18:30:00 UTC, 9 days old", "row 4: 2025-12-31 18:30:00 UTC, 40 days old"},
			handled: "1 2",
			rows:    "SELECT id, status FROM jobs",
			want:    []string{"1|SUCCESS", "2|SUCCESS", "3|NEW", "4|NEW", "5|SUCCESS"},
		},
		{
			name: "local times taken for UTC",
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted timestamp NULL);
				INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 17:29:00'), (2, 'NEW', '2026-02-10 16:29:00')`,
			cfg: "table: {name: jobs}",
			refused: "table jobs: 2 of 2 rows looked at have no date that can be right: column date_inserted: 2026-02-10 …:29:00 read as … is … h ahead of the clock: is it written in another zone than UTC?; " +
				"say with table.inserted: {column: date_inserted, as: …, zone: …} how it is to be read",
		},
		{
			name: "seconds taken for milliseconds",
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted bigint);
				INSERT INTO jobs VALUES (1, 'NEW', 1770721200)`,
			cfg:     "table: {name: jobs, inserted: {column: date_inserted, as: unix_ms}}",
			refused: "table jobs: column date_inserted is not as configured: 1770721200 read as unix_ms lies in the year 1970: is that how it is to be read?; mend `as:`",
		},
		{
			name: "milliseconds in a number that is no integer",
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted numeric(20), sent numeric(20));
				INSERT INTO jobs VALUES (1, 'NEW', 1770724799999, NULL), (2, 'NEW', 1770119999999, NULL), (3, 'NEW', 1770120000000, NULL)`,
			cfg:     "table: {name: jobs, inserted: {column: date_inserted, as: unix_ms}, touch: {sent: now}}",
			handled: "1 3",
			rows:    "SELECT id FROM jobs WHERE sent BETWEEN 1770724800000 AND 1770724860000",
			want:    []string{"1", "3"},
		},
		{
			name: "milliseconds in a number without a sign",
			on:   only(inMySQL),
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted bigint unsigned, sent bigint unsigned);
				INSERT INTO jobs VALUES (1, 'NEW', 1770724799999, NULL), (2, 'NEW', 1770119999999, NULL), (3, 'NEW', 1770120000000, NULL)`,
			cfg:     "table: {name: jobs, inserted: {column: date_inserted, as: unix_ms}, touch: {sent: now}}",
			handled: "1 3",
			rows:    "SELECT id FROM jobs WHERE sent BETWEEN 1770724800000 AND 1770724860000",
			want:    []string{"1", "3"},
		},
		{
			name: "days",
			on:   []wildKind{inPostgres, inMySQL},
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted date, sent date);
				INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10', NULL), (2, 'NEW', '2026-02-04', NULL), (3, 'NEW', '2026-02-03', NULL)`,
			cfg:     "table: {name: jobs, touch: {sent: now}}",
			handled: "1 2",
			rows:    "SELECT id, status FROM jobs WHERE sent = '2026-02-10'",
			want:    []string{"1|SUCCESS", "2|SUCCESS"},
		},
		{
			name: "times without end",
			on:   only(inPostgres),
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, status text, date_inserted timestamptz, send_after timestamptz, expires date);
				INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00Z', NULL, 'infinity'), (2, 'NEW', '2026-02-10 11:00Z', 'infinity', NULL), (3, 'NEW', '2026-02-10 11:00Z', '2026-02-10 11:00Z', '2026-02-10 11:00Z'), (4, 'SUCCESS', '2026-02-10 11:00Z', '2026-02-10 11:00Z', '2026-02-10 11:00Z'), (5, 'SUCCESS', '2026-02-10 11:00Z', '2026-02-10 11:00Z', '2026-02-10 11:00Z'), (6, 'SUCCESS', '-infinity', '2026-02-10 11:00Z', '2026-02-10 11:00Z')`,
			cfg: `table: {name: jobs, eligible: send_after, expires: expires}
statuses: {dead: DEAD}`,
			handled: "1",
			rows:    "SELECT id, status FROM jobs WHERE id < 4",
			want:    []string{"1|SUCCESS", "2|NEW", "3|DEAD"},
		},
	})
}
