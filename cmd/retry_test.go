package cmd_test

import "testing"

// Who may only read can have a record explained, and be told how many would be
// put back to new.
func TestAccessOfExplainAndRetry(t *testing.T) {
	t.Parallel()
	s := newPrivateShop(t, map[string]string{"schedule.yaml": "policy: fibonacci\ntiers: [{max_age: 1d, every: 5m}]\n"})
	s.sql("CREATE TABLE BACKLOG (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT, failures INTEGER, last_failure TEXT)",
		"INSERT INTO BACKLOG VALUES (1, 'ERROR', datetime('now', '-1 hour'), 3, datetime('now', '-1 hour'))")
	s.chmod(0o444, "backlog.db")
	s.chmod(0o555, ".")
	defer s.chmod(0o777, ".")
	s.refuses(0, "\ndue           yes: it has failed 3 times, and is due since ", "explain", "1")
	s.refuses(0, "1 record would be put back to new\n", "retry", "1", "--dry-run")
	const readonly = "backlog: the database backlog.db cannot be written to: attempt to write a readonly database"
	s.refuses(1, readonly, "retry", "1")
	s.refuses(1, readonly, "retry", "--all", "--yes")
	if got := s.rows("SELECT status, failures FROM BACKLOG"); got != "ERROR\t3\n" {
		t.Errorf("the row is %q", got)
	}
}

// Many records are put back in several transactions, each of them once, and
// those that are not meant stay as they are.
func TestRetryOfMany(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]string{
		"schedule.yaml": "statuses: {dead: DEAD}\npolicy: fibonacci\ntiers: [{max_age: 1d, every: 5m}]\n",
	})
	s.mustRun("init", "--create-table")
	s.sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)" +
		" INSERT INTO BACKLOG (id, status, date_inserted, failures, last_failure)" +
		" SELECT i, iif(i % 4 = 0, 'DEAD', iif(i % 4 = 1, 'ERROR', iif(i % 4 = 2, 'SUCCESS', 'NEW'))), datetime('2026-01-05 12:00:00', -i || ' minutes'), i % 7, '2026-01-05 11:59:00' FROM n")
	kept := s.rows("SELECT * FROM (SELECT id, status, failures FROM BACKLOG WHERE id % 4 > 1)")
	if got, want := s.mustRun("retry", "--all", "--yes", "--json", "--now", "2026-01-05T12:00:00Z"), `{"selected":2500,"reset":2500,"beyond":1780}`+"\n"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	if got := s.rows("SELECT count(*), max(failures) FROM BACKLOG WHERE id % 4 < 2 AND status = 'NEW'"); got != "2500\t0\n" {
		t.Errorf("records that are new, and their most failures: %q", got)
	}
	if got := s.rows("SELECT * FROM (SELECT id, status, failures FROM BACKLOG WHERE id % 4 > 1)"); got != kept {
		t.Errorf("others were changed")
	}
}
