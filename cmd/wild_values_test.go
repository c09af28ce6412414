package cmd

import "testing"

// TestWildValues: what a status column may hold is the database's to say, and
// what YAML takes for a truth or a number becomes what the column holds. A
// status that is not legal is refused beforehand: it would fail after the mail
// went out, at every tick.
func TestWildValues(t *testing.T) {
	const jobs = "CREATE TABLE jobs (id int PRIMARY KEY, date_inserted timestamp NULL, "
	const when = "'2026-02-10 11:00:00'"
	only := func(k wildKind) []wildKind { return []wildKind{k} }
	testWildRules(t, []wildRule{
		{
			name: "an ENUM whose labels YAML takes for truths",
			on:   only(inPostgres),
			sql: `
				CREATE TYPE done AS ENUM ('true', 'false', 'no luck');
				` + jobs + `
				status done);
				INSERT INTO jobs VALUES (1, ` + when + ", 'false'), (2, " + when + ", 'true'), (3, " + when + ", 'no luck'), (4, " + when + ", NULL)",
			cfg: `table: {name: jobs}
statuses: {new: [false], error: no luck, success: true}`,
			handled: "1 3",
			rows:    "SELECT id, status FROM jobs",
			want:    []string{"1|true", "2|true", "3|true", "4|"},
		},
		{
			name: "an ENUM whose labels YAML takes for truths",
			on:   only(inMySQL),
			sql: jobs + `
				status ENUM('true', 'false', 'no luck'));
				INSERT INTO jobs VALUES (1, ` + when + ", 'false'), (2, " + when + ", 'true'), (3, " + when + ", 'no luck'), (4, " + when + ", NULL)",
			cfg: `table: {name: jobs}
statuses: {new: [false], error: no luck, success: true}`,
			handled: "1 3",
			rows:    "SELECT id, status FROM jobs",
			want:    []string{"1|true", "2|true", "3|true", "4|"},
		},
		{
			name: "an ENUM without the label",
			on:   only(inPostgres),
			sql: `
				CREATE TYPE done AS ENUM ('NEW', 'OK');
				` + jobs + `
				status done);
				INSERT INTO jobs VALUES (1, ` + when + ", 'NEW')",
			cfg: `table: {name: jobs}
statuses: {new: [NEW], error: NEW, success: SUCCESS}`,
			refused: "statuses.success: \"SUCCESS\" is none of the labels of column status: NEW, OK; give statuses.success a value that the column can hold",
		},
		{
			name: "an ENUM without the label",
			on:   only(inMySQL),
			sql: jobs + `
				status ENUM('NEW', 'OK'));
				INSERT INTO jobs VALUES (1, ` + when + ", 'NEW')",
			cfg: `table: {name: jobs}
statuses: {new: [NEW], error: NEW, success: SUCCESS}`,
			refused: "statuses.success: \"SUCCESS\" is none of the labels of column status: NEW, OK; give statuses.success a value that the column can hold",
		},
		{
			name: "a CHECK that refuses a status",
			sql: jobs + `
				status varchar(20) CHECK (status IN ('NEW', 'SUCCESS')));
				INSERT INTO jobs VALUES (1, ` + when + ", 'NEW')",
			cfg:     "table: {name: jobs}",
			refused: "statuses.error: table jobs does not take …status… = 'ERROR': …; change it to one that the table takes",
		},
		{
			name: "a CHECK on two columns",
			sql:  jobs + "status varchar(20), done_at int, CHECK (status = 'NEW' OR done_at IS NOT NULL)); INSERT INTO jobs VALUES (1, " + when + ", 'NEW', NULL)",
			cfg:  "table: {name: jobs}", handled: "1", // which might have written the other one
			refused: "outcomes that the database does not take: 1; their rows stay as they were, and the next start tries them again; the log says which and why",
		},
		{
			name: "a CHECK that is met by what is written with the status",
			sql: jobs + `
				status varchar(20), done_at timestamp NULL, CHECK ((status = 'SUCCESS') = (done_at IS NOT NULL)));
				INSERT INTO jobs VALUES (1, ` + when + ", 'NEW', NULL)",
			cfg: `table: {name: jobs}
statuses: {new: {when: {status: NEW}}, error: {when: {status: ERROR}, set: {status: ERROR, done_at: null}}, success: {set: {status: SUCCESS, done_at: now}}}`,
			handled: "1",
			rows:    "SELECT id, status FROM jobs WHERE done_at > date_inserted",
			want:    []string{"1|SUCCESS"},
		},
		{
			name: "an unsigned status",
			on:   only(inMySQL),
			sql: jobs + `
				status tinyint unsigned);
				INSERT INTO jobs VALUES (1, ` + when + ", 0)",
			cfg: `table: {name: jobs}
statuses: {new: [0], error: -1, success: 2}`,
			refused: "statuses.error: -1 is out of the range of column status, which is tinyint… unsigned; give statuses.error a value that the column can hold",
		},
		{
			name: "a status above the type's numbers",
			on:   only(inMySQL),
			sql: jobs + `
				status tinyint unsigned);
				INSERT INTO jobs VALUES (1, ` + when + ", 0)",
			cfg: `table: {name: jobs}
statuses: {new: [0], error: 1, success: 256}`,
			refused: "statuses.success: 256 is out of the range of column status, which is tinyint… unsigned; give statuses.success a value that the column can hold",
		},
		{
			name: "a status above the type's numbers",
			on:   only(inPostgres),
			sql: jobs + `
				status smallint);
				INSERT INTO jobs VALUES (1, ` + when + ", 0)",
			cfg: `table: {name: jobs}
statuses: {new: [0], error: 1, success: 32768}`,
			refused: "statuses.success: 32768 is out of the range of column status, which is smallint; give statuses.success a value that the column can hold",
		},
		{
			name: "a status below what a CHECK allows",
			on:   []wildKind{inSQLite, inPostgres},
			sql: jobs + `
				status smallint CHECK (status >= 0));
				INSERT INTO jobs VALUES (1, ` + when + ", 0)",
			cfg: `table: {name: jobs}
statuses: {new: [0], error: -1, success: 2}`,
			refused: "statuses.error: table jobs does not take …status… = -1: …; change it to one that the table takes",
		},
		{
			name: "a short varchar",
			sql: jobs + `
				status varchar(6));
				INSERT INTO jobs VALUES (1, ` + when + ", 'NEW')",
			cfg:     "table: {name: jobs}",
			refused: "statuses.success: \"SUCCESS\" is longer than column status allows (…var…(6)); write a shorter one (statuses.success is not given, this is its default)",
		},
		{
			name: "a status that must not be NULL",
			sql: jobs + `
				status varchar(20) NOT NULL);
				INSERT INTO jobs VALUES (1, ` + when + ", 'NEW')",
			cfg: `table: {name: jobs}
statuses: {dead: {set: {status: null}}}`,
			refused: "statuses.dead: column status must not be NULL; give it a value",
		},
		{
			name: "statuses padded with blanks",
			on:   []wildKind{inPostgres, inMySQL},
			sql: jobs + `
				status char(10));
				INSERT INTO jobs VALUES (1, ` + when + ", 'NEW'), (2, " + when + ", 'ERROR'), (3, " + when + ", 'SUCCESS')",
			cfg:     "table: {name: jobs}",
			handled: "1 2",
			rows:    "SELECT id, rtrim(status) FROM jobs",
			want:    []string{"1|SUCCESS", "2|SUCCESS", "3|SUCCESS"},
		},
		{
			name: "a boolean",
			on:   []wildKind{inSQLite, inPostgres, inMySQL},
			sql: jobs + `
				status boolean);
				INSERT INTO jobs VALUES (1, ` + when + ", false), (2, " + when + ", true), (3, " + when + ", NULL)",
			cfg: `table: {name: jobs}
statuses: {new: [false], error: null, success: true}`,
			handled: "1 3",
			rows:    "SELECT id FROM jobs WHERE status",
			want:    []string{"1", "2", "3"},
		},
		{
			name: "flags that may be NULL",
			sql: jobs + `
				done int, failed_at timestamp NULL);
				INSERT INTO jobs VALUES (1, ` + when + ", NULL, NULL), (2, " + when + ", NULL, " + when + "), (3, " + when + ", 1, NULL), (4, " + when + ", 0, NULL)",
			cfg: `table: {name: jobs}
statuses: {new: {when: {done: null, failed_at: null}}, error: {when: {done: null}, set: {failed_at: now}}, success: {set: {done: 1}}}`,
			handled: "1 2",
			rows:    "SELECT id, done FROM jobs",
			want:    []string{"1|1", "2|1", "3|1", "4|0"},
		},
		{
			name: "numbers that are text",
			sql: jobs + `
				status varchar(3));
				INSERT INTO jobs VALUES (1, ` + when + ", '007'), (2, " + when + ", '7'), (3, " + when + ", '7.0')",
			cfg: `table: {name: jobs}
statuses: {new: [007], error: 1e3, success: 0x1}`,
			handled: "1",
			fail:    true,
			rows:    "SELECT id, status FROM jobs",
			want:    []string{"1|1e3", "2|7", "3|7.0"},
		},
		{
			name: "a failure that is a failure already", fail: true, // MySQL counts no row as changed
			sql:     jobs + "status varchar(10)); INSERT INTO jobs VALUES (1, " + when + ", 'ERROR')",
			cfg:     "table: {name: jobs}",
			handled: "1", rows: "SELECT id, status FROM jobs", want: []string{"1|ERROR"},
		},
		{
			name: "a status that a YEAR would make another of",
			on:   only(inMySQL),
			sql: jobs + `
				status year);
				INSERT INTO jobs VALUES (1, ` + when + ", 2001)",
			cfg: `table: {name: jobs}
statuses: {new: [2001], error: 2002, success: 3}`,
			refused: "statuses.success: 3 is out of the range of column status, which is year…; give statuses.success a value that the column can hold",
		},
		{
			name: "a SET without the label",
			on:   only(inMySQL),
			sql: jobs + `
				status SET('NEW', 'ERROR', 'it''s done'));
				INSERT INTO jobs VALUES (1, ` + when + ", 'NEW')",
			cfg:     "table: {name: jobs}",
			refused: "statuses.success: \"SUCCESS\" is none of the labels of column status: NEW, ERROR, it's done; give statuses.success a value that the column can hold (statuses.success is not given, this is its default)",
		},
		{
			name: "a character that the column's character set does not have",
			on:   only(inMySQL),
			sql: jobs + `
				status varchar(20) CHARACTER SET cp1251);
				INSERT INTO jobs VALUES (1, ` + when + ", 'NEW')",
			cfg: `table: {name: jobs}
statuses: {success: erledigt ✓}`,
			refused: "statuses.success: table jobs does not take `status` = 'erledigt ✓': …Incorrect string value…; change it to one that the table takes",
		},
		{
			name: "a character set of the column's own",
			on:   only(inMySQL),
			sql: jobs + `
				status varchar(20) CHARACTER SET cp1251);
				INSERT INTO jobs VALUES (1, ` + when + ", 'НОВЫЙ')",
			cfg: `table: {name: jobs}
statuses: {new: НОВЫЙ, success: ГОТОВО}`,
			handled: "1",
			rows:    "SELECT id, status FROM jobs",
			want:    []string{"1|ГОТОВО"},
		},
		{
			name: "a SET of two labels at once",
			on:   only(inMySQL),
			sql: jobs + `
				status SET('NEW', 'ERROR', 'it''s done'));
				INSERT INTO jobs VALUES (1, ` + when + ", 'NEW')",
			cfg: `table: {name: jobs}
statuses: {success: "NEW,it's done"}`,
			handled: "1",
			rows:    "SELECT id, status FROM jobs",
			want:    []string{"1|NEW,it's done"},
		},
		{
			name: "a status that another table does not have",
			on:   []wildKind{inPostgres, inMySQL},
			sql: `
				CREATE TABLE states (name varchar(20) PRIMARY KEY);
				INSERT INTO states VALUES ('NEW'), ('ERROR');
				` + jobs + `
				status varchar(20), CONSTRAINT known FOREIGN KEY (status) REFERENCES states (name));
				INSERT INTO jobs VALUES (1, ` + when + ", 'NEW')",
			cfg:     "table: {name: jobs}",
			refused: "statuses.success: table jobs does not take …status… = 'SUCCESS': …known…; change it to one that the table takes",
		},
		{
			name: "words where JSON is expected",
			on:   only(inPostgres),
			sql: jobs + `
				status jsonb);
				INSERT INTO jobs VALUES (1, ` + when + ", '\"NEW\"')",
			cfg:     "table: {name: jobs}",
			refused: "statuses.success: table jobs does not take \"status\" = 'SUCCESS': invalid input syntax for type json; change it to one that the table takes",
		},
		{
			name: "words in JSON",
			on:   only(inPostgres),
			sql: jobs + `
				status jsonb);
				INSERT INTO jobs VALUES (1, ` + when + ", '\"NEW\"')",
			cfg: `table: {name: jobs}
statuses: {new: '"NEW"', error: '"ERROR"', success: '"SUCCESS"'}`,
			handled: "1",
			rows:    "SELECT id, status::text FROM jobs",
			want:    []string{"1|\"SUCCESS\""},
		},
		{
			name: "a single character, to which a word would be cut",
			on:   only(inPostgres),
			sql: jobs + `
				status "char");
				INSERT INTO jobs VALUES (1, ` + when + ", 'N')",
			cfg: `table: {name: jobs}
statuses: {new: N, error: E}`,
			refused: "statuses.success: \"SUCCESS\" is longer than column status allows (\"char\"); write a shorter one (statuses.success is not given, this is its default)",
		},
		{
			name: "a single character",
			on:   only(inPostgres),
			sql: jobs + `
				status "char");
				INSERT INTO jobs VALUES (1, ` + when + ", 'N')",
			cfg: `table: {name: jobs}
statuses: {new: N, error: E, success: S}`,
			handled: "1",
			rows:    "SELECT id, status FROM jobs",
			want:    []string{"1|S"},
		},
		{
			name: "a domain that refuses a status",
			on:   only(inPostgres),
			sql: `
				CREATE DOMAIN state AS text CHECK (VALUE IN ('NEW', 'ERROR'));
				` + jobs + `
				status state);
				INSERT INTO jobs VALUES (1, ` + when + ", 'NEW')",
			cfg:     "table: {name: jobs}",
			refused: "statuses.success: table jobs does not take \"status\" = 'SUCCESS': value for domain state violates check constraint \"state_check\"; change it to one that the table takes",
		},
		{
			name: "conditions of many kinds",
			sql: jobs + `
				status varchar(10), active boolean, code varchar(5), n smallint, price decimal(8,2), gone timestamp NULL, kind char(4));
				INSERT INTO jobs VALUES (1, ` + when + ", 'NEW', true, '07', 3, 1.50, NULL, 'a'), (2, " + when + ", 'NEW', false, '07', 3, 1.50, NULL, 'a'), (3, " + when + ", 'NEW', true, '7', 3, 1.50, NULL, 'a'), (4, " + when + ", 'NEW', true, '07', 4, 1.50, NULL, 'a'), (5, " + when + ", 'NEW', true, '07', 3, 1.51, NULL, 'a'), (6, " + when + ", 'NEW', true, '07', 3, 1.50, " + when + ", 'a'), (7, " + when + ", 'NEW', true, NULL, 3, 1.50, NULL, 'b'), (8, " + when + ", 'NEW', true, '08', 3, 1.50, NULL, NULL), (9, " + when + ", 'NEW', NULL, '07', 3, 1.50, NULL, 'a')",
			cfg:     "table: {name: jobs, where: {active: true, code: [07, null], n: 3, price: 1.5, gone: null, kind: [a, b]}}",
			handled: "7 1",
			rows:    "SELECT id FROM jobs WHERE status = 'SUCCESS'",
			want:    []string{"1", "7"},
		},
		{
			name: "an error that is new again",
			fail: true,
			sql: jobs + `
				status varchar(10));
				INSERT INTO jobs VALUES (1, ` + when + ", 'NEW'), (2, " + when + ", 'AGAIN')",
			cfg: `table: {name: jobs}
statuses: {new: [NEW, AGAIN], error: AGAIN, success: SUCCESS}`,
			handled: "2 1",
			rows:    "SELECT id, status FROM jobs",
			want:    []string{"1|AGAIN", "2|AGAIN"},
			warns:   []string{"statuses.error is one of statuses.new: failed records are not told from new ones, and age alone decides when they are tried"},
		},
		{
			name: "an error that is the end",
			sql: jobs + `
				status varchar(10));
				INSERT INTO jobs VALUES (1, ` + when + ", 'NEW'), (2, " + when + ", 'ERROR')",
			cfg: `table: {name: jobs}
statuses: {new: [NEW], error: ERROR, success: SUCCESS, dead: ERROR}`,
			handled: "1",
			fail:    true,
			rows:    "SELECT id, status FROM jobs",
			want:    []string{"1|ERROR", "2|ERROR"},
			warns:   []string{"statuses.error is statuses.dead: a record that fails once is never tried again"},
		},
	})
}
