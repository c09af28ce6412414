package cmd

import "testing"

// TestWildNames: names are quoted wherever they stand, and never taken apart.
func TestWildNames(t *testing.T) {
	testWildRules(t, []wildRule{
		{
			name: "reserved words",
			sql: `CREATE TABLE "order" ("primary" int PRIMARY KEY, "select" varchar(20), "from" timestamp NULL, "where" varchar(20), "group" int, "limit" varchar(200), "user" timestamp NULL, "desc" timestamp NULL);
				INSERT INTO "order" VALUES (1, 'NEW', '2026-02-10 11:00:00', 'table', NULL, NULL, NULL, NULL), (2, 'NEW', '2026-02-10 11:30:00', 'values', NULL, NULL, NULL, NULL), (3, 'NEW', '2026-02-03 11:00:00', 'table', NULL, NULL, NULL, NULL)`,
			cfg: `
table: {name: order, id: primary, status: select, inserted: from, where: {where: table}, attempts: group, last_error: limit, touch: {user: now}, eligible: desc}
statuses: {dead: DEAD}`,
			handled: "1",
			fail:    true,
			rows:    `SELECT "primary", "select", "group", "limit" FROM "order"`,
			want:    []string{"1|ERROR|1|exit status 1", "2|NEW||", "3|DEAD||"},
		},
		{
			name: "names with everything in them",
			sql: `CREATE TABLE "My jobs.todo; -- it's ""new""" ("the ""id"".?" int PRIMARY KEY, "a $1 :x @y` + "`z`" + ` %s" varchar(20), "Zeit (ä) ? / *" timestamp NULL, "1" int, "it's" varchar(20));
				INSERT INTO "My jobs.todo; -- it's ""new""" VALUES (1, 'not yet?', '2026-02-10 11:00:00', NULL, 'a ? b'), (2, 'it''s $1', '2026-02-10 11:00:00', NULL, 'a ? b'), (3, 'not yet?', '2026-02-10 11:00:00', NULL, 'c')`,
			cfg: `
table:
  name: "My jobs.todo; -- it's \"new\""
  id: "the \"id\".?"
  status: "a $1 :x @y` + "`z`" + ` %s"
  inserted: "Zeit (ä) ? / *"
  attempts: "1"
  where: {"it's": "a ? b"}
statuses: {new: ["not yet?"], error: "it's $1", success: "done; --"}`,
			handled: "1 2",
			rows:    `SELECT "the ""id"".?", "a $1 :x @y` + "`z`" + ` %s", "1" FROM "My jobs.todo; -- it's ""new"""`,
			want:    []string{"1|done; --|1", "2|done; --|1", "3|not yet?|"},
		},
		{
			name: "a schema, and a table whose name begins with its name",
			on:   []wildKind{inPostgres, inMySQL},
			sql: `CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted timestamp NULL); INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00:00');
				CREATE TABLE "OURS.jobs" (id int PRIMARY KEY, status varchar(20), date_inserted timestamp NULL); INSERT INTO "OURS.jobs" VALUES (2, 'NEW', '2026-02-10 11:00:00')`,
			cfg:     "table: {schema: OURS, name: OURS.jobs}",
			handled: "2",
			rows:    `SELECT id, status FROM jobs UNION ALL SELECT id, status FROM "OURS.jobs"`,
			want:    []string{"1|NEW", "2|SUCCESS"},
		},
		{
			name:    "a table that is named with its schema",
			on:      []wildKind{inPostgres, inMySQL},
			sql:     "CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted timestamp NULL)",
			cfg:     "table: {name: OURS.jobs}",
			refused: `table ….jobs does not exist in …; if that is schema and name, write table: {schema: …, name: jobs}; set table.name …`,
		},
		{
			name:    "a schema that is not there",
			on:      []wildKind{inPostgres, inMySQL},
			sql:     `CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted timestamp NULL)`,
			cfg:     "table: {schema: OURS.jobs, name: jobs}",
			refused: "table jobs does not exist in …OURS.jobs…; set table.name …table.schema; `backlog init --create-table` creates it; there are no tables…",
		},
		{
			name: "a column that is misspelt",
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted timestamp NULL);
				INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00:00')`,
			cfg:     "table: {name: jobs, status: statuss}",
			refused: `table.status: table jobs has no column "statuss"; did you mean status? the columns are: id, status, date_inserted`,
		},
		{
			name: "a touched column that is misspelt",
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, status varchar(20), date_inserted timestamp NULL);
				INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00:00')`,
			cfg:     "table: {name: jobs, touch: {updated: now}}",
			refused: `table.touch: table jobs has no column "updated"; the columns are: id, status, date_inserted`,
		},
		{
			name: "a column in another case",
			sql: `
				CREATE TABLE jobs (id int PRIMARY KEY, "Status" varchar(20), "dateInserted" timestamp NULL);
				INSERT INTO jobs VALUES (1, 'NEW', '2026-02-10 11:00:00')`,
			cfg:     "table: {name: jobs, status: Status, inserted: dateInserted}",
			handled: "1",
			rows:    `SELECT "Status" FROM jobs`,
			want:    []string{"SUCCESS"},
		},
	})
}
