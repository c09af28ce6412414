package cmd

import "testing"

// TestWildWrites: what is written beside the status, and that nothing else is.
func TestWildWrites(t *testing.T) {
	const rest = "status varchar(20), date_inserted timestamp NULL, changed timestamp NULL, by_whom varchar(20), claimed int, visits int NOT NULL DEFAULT 0, note varchar(20), other varchar(20)"
	const rows = " VALUES (1, 'NEW', '2026-02-10 11:00:00', NULL, 'them', 7, 0, 'said', 'x'), (2, 'NEW', '2026-02-10 10:00:00', '2026-01-01 00:00:00', NULL, NULL, 41, NULL, NULL), (3, 'SUCCESS', '2026-02-10 10:00:00', NULL, NULL, 7, 5, NULL, NULL)"
	testWildRules(t, []wildRule{
		{
			name: "columns that are touched",
			sql: "CREATE TABLE jobs (id int PRIMARY KEY, " + rest + `);
				INSERT INTO jobs` + rows,
			cfg:     "table: {name: jobs, inserted: {column: date_inserted, keep: true}, touch: {changed: now, by_whom: backlog, claimed: null, visits: +1}, last_error: note}",
			fail:    true,
			handled: "1 2",
			rows:    "SELECT id, status, CASE WHEN changed >= '2026-02-10 12:00:00' THEN 'now' END, by_whom, claimed, visits, note, other FROM jobs WHERE date_inserted IN ('2026-02-10 11:00:00', '2026-02-10 10:00:00')",
			want:    []string{"1|ERROR|now|backlog||1|exit status 1|x", "2|ERROR|now|backlog||42|exit status 1|", "3|SUCCESS|||7|5||"},
		},
		{
			name: "columns that are touched, and an error that is kept",
			sql: "CREATE TABLE jobs (id int PRIMARY KEY, " + rest + `);
				INSERT INTO jobs` + rows,
			cfg: `table: {name: jobs, touch: {by_whom: backlog}}
statuses: {error: keep}`,
			fail:    true,
			warns:   []string{"no error status is written: failed records are not told from new ones, and age alone decides when they are tried"},
			handled: "1 2",
			rows:    "SELECT id, status, by_whom, visits FROM jobs",
			want:    []string{"1|NEW|backlog|0", "2|NEW|backlog|41", "3|SUCCESS||5"},
		},
	})
}
