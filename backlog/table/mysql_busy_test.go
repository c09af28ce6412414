package table_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"backlog/backlog"
	"backlog/backlog/table"
	"backlog/internal/testkit"
)

const mysqlBacklog = "CREATE TABLE BACKLOG (id INT PRIMARY KEY, status VARCHAR(20) DEFAULT 'NEW', date_inserted DATETIME)"

// pendingOf returns the fresh records, the newest first.
func pendingOf(tb testing.TB, s *table.Table, want int) []backlog.Record {
	tb.Helper()
	records, _ := readAll(tb, s, backlog.Query{Lane: backlog.Fresh, Limit: 10})
	if len(records) != want {
		tb.Fatalf("%d records, want %d", len(records), want)
	}
	return records
}

func group(records []backlog.Record) (list []backlog.Settlement) {
	for i := range records {
		list = append(list, backlog.Settlement{Record: &records[i], Target: backlog.RowSuccess, At: noon})
	}
	return list
}

// TestMySQLLockedRows: somebody else's transaction is waited for, and what it
// has changed is left alone.
func TestMySQLLockedRows(t *testing.T) {
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	execMySQL(t, plain, mysqlBacklog)
	execMySQL(t, plain, "INSERT INTO BACKLOG SELECT seq, 'NEW', '2026-02-10 11:00:00' FROM seq_1_to_4")
	s, err := proveMySQL(t, rawURL, plainMapping())
	if err != nil {
		t.Fatal(err)
	}
	records := pendingOf(t, s, 4)
	tx, err := plain.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("UPDATE BACKLOG SET status = 'ON HOLD' WHERE id = 3"); err != nil {
		t.Fatal(err)
	}
	settled := make(chan error)
	var left []backlog.Unsettled
	go func() {
		var err error
		left, err = s.Settle(t.Context(), group(records))
		settled <- err
	}()
	if _, err := plain.Exec("DO SLEEP(0.3)"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-settled:
		t.Fatalf("settled beside a lock: %v", err)
	default:
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-settled; err != nil || len(left) != 1 {
		t.Fatalf("got %v, %v, want one conflict", left, err)
	}
	testkit.Equal(t, "place of the conflict", left[0].Index, 1)
	if !errors.Is(left[0].Err, backlog.ErrConflict) {
		t.Errorf("got %v, want a conflict", left[0].Err)
	}
	pendingOf(t, s, 0)
}

// TestMySQLDeadlock: it is nobody's error.
func TestMySQLDeadlock(t *testing.T) {
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	execMySQL(t, plain, mysqlBacklog)
	execMySQL(t, plain, "INSERT INTO BACKLOG SELECT seq, 'NEW', '2026-02-10 11:00:00' FROM seq_1_to_3")
	execMySQL(t, plain, "CREATE TABLE big (a INT PRIMARY KEY) SELECT seq AS a FROM seq_1_to_1000")
	s, err := proveMySQL(t, rawURL, plainMapping())
	if err != nil {
		t.Fatal(err)
	}
	records := pendingOf(t, s, 3)
	tx, err := plain.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	// The one that has changed less is the victim: ours.
	for _, text := range []string{"UPDATE big SET a = a + 10000", "UPDATE BACKLOG SET date_inserted = date_inserted + INTERVAL 1 SECOND WHERE id = 3"} {
		if _, err := tx.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	settled := make(chan error)
	go func() {
		left, err := s.Settle(t.Context(), group(records))
		if len(left) > 0 {
			err = left[0].Err
		}
		settled <- err
	}()
	if _, err := plain.Exec("DO SLEEP(0.3)"); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("UPDATE BACKLOG SET date_inserted = date_inserted WHERE id = 1"); err != nil {
		t.Fatalf("the other was the victim: %v", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-settled; err != nil {
		t.Error(err)
	}
	pendingOf(t, s, 0)
}

// TestMySQLTriggerRefuses one row: the others are written.
func TestMySQLTriggerRefuses(t *testing.T) {
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	execMySQL(t, plain, mysqlBacklog)
	execMySQL(t, plain, "INSERT INTO BACKLOG SELECT seq, 'NEW', '2026-02-10 11:00:00' FROM seq_1_to_4")
	execMySQL(t, plain, "CREATE TRIGGER tr BEFORE UPDATE ON BACKLOG FOR EACH ROW IF NEW.id = 2 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this one'; END IF")
	s, err := proveMySQL(t, rawURL, plainMapping())
	if err != nil {
		t.Fatal(err)
	}
	left, err := s.Settle(t.Context(), group(pendingOf(t, s, 4)))
	if err != nil || len(left) != 1 {
		t.Fatalf("got %v, %v, want one refused", left, err)
	}
	testkit.Equal(t, "place of the refused one", left[0].Index, 2)
	testkit.Contains(t, "reason", left[0].Err.Error(), "not this one")
	pendingOf(t, s, 1)
}

// A right that only a trigger of one row lacks is no right that every row lacks, also if the row is alone in its group.
func TestMySQLTriggerIsDenied(t *testing.T) {
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	execMySQL(t, plain, mysqlBacklog)
	execMySQL(t, plain, "INSERT INTO BACKLOG SELECT seq, 'NEW', '2026-02-10 11:00:00' FROM seq_1_to_4")
	execMySQL(t, plain, "CREATE TRIGGER tr BEFORE UPDATE ON BACKLOG FOR EACH ROW IF NEW.id = 2 THEN SIGNAL SQLSTATE '42000' SET MESSAGE_TEXT = 'denied', MYSQL_ERRNO = 1142; END IF")
	s, err := proveMySQL(t, rawURL, plainMapping())
	if err != nil {
		t.Fatal(err)
	}
	alone := group(pendingOf(t, s, 4))[2:3]
	left, err := s.Settle(t.Context(), alone)
	if err != nil || len(left) != 1 {
		t.Errorf("record %v: got %v, %v, want it refused", alone[0].Record.Key, left, err)
	}
}

// Errors that pass, and say nothing about the row, refuse no outcome.
func TestMySQLPassingErrors(t *testing.T) {
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	execMySQL(t, plain, mysqlBacklog)
	execMySQL(t, plain, "INSERT INTO BACKLOG SELECT seq, 'NEW', '2026-02-10 11:00:00' FROM seq_1_to_4")
	execMySQL(t, plain, "CREATE TABLE fault (id INT AUTO_INCREMENT PRIMARY KEY, code INT) ENGINE = MyISAM") // a rollback leaves it alone
	execMySQL(t, plain, `CREATE TRIGGER tr BEFORE UPDATE ON BACKLOG FOR EACH ROW BEGIN
		DECLARE found INT DEFAULT (SELECT max(code) FROM fault);
		IF found IS NOT NULL THEN
			DELETE FROM fault LIMIT 1;
			SIGNAL SQLSTATE 'HY000' SET MESSAGE_TEXT = 'for now', MYSQL_ERRNO = found;
		END IF;
	END`)
	s, err := proveMySQL(t, rawURL, plainMapping())
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []int{1412, 1615, 1689, 3101, 1180, 3169, 2013, 9001} {
		execMySQL(t, plain, "UPDATE BACKLOG SET status = 'NEW'")
		execMySQL(t, plain, fmt.Sprintf("INSERT INTO fault (code) SELECT %d FROM seq_1_to_3", code))
		outcomes := group(pendingOf(t, s, 4))
		left, err := s.Settle(t.Context(), outcomes)
		for tries := 0; errors.Is(err, backlog.ErrUnavailable) && tries < 3; tries++ {
			left, err = s.Settle(t.Context(), outcomes)
		}
		if err != nil || len(left) > 0 {
			t.Errorf("error %d: %v, %v", code, left, err)
		}
		pendingOf(t, s, 0)
	}
}

// TestMySQLConnectionsKilled under the store, again and again: the same call
// made again does it.
func TestMySQLConnectionsKilled(t *testing.T) {
	plain, rawURL := newMySQL(t)
	defer plain.Close()
	execMySQL(t, plain, mysqlBacklog)
	execMySQL(t, plain, "INSERT INTO BACKLOG SELECT seq, 'NEW', '2026-02-10 11:00:00' - INTERVAL seq SECOND FROM seq_1_to_10")
	s, err := proveMySQL(t, rawURL, plainMapping())
	if err != nil {
		t.Fatal(err)
	}
	for n := 10; n > 0; n-- {
		var ids []int64
		rows, err := plain.Query("SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var id int64
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		for _, id := range ids {
			plain.Exec("KILL ?", id) // may be gone
		}
		deadline := time.Now().Add(20 * time.Second)
		for done := false; !done && time.Now().Before(deadline); {
			p, err := s.Pending(t.Context(), backlog.Query{Lane: backlog.Fresh, Now: noon, Since: noon.Add(-24 * time.Hour), Limit: 1})
			if err != nil && !errors.Is(err, backlog.ErrUnavailable) {
				t.Fatal(err)
			}
			if err != nil {
				continue
			}
			left, err := s.Settle(t.Context(), group(p.Records))
			if err != nil && !errors.Is(err, backlog.ErrUnavailable) || len(left) > 0 {
				t.Fatal(left, err)
			}
			done = err == nil
		}
	}
	pendingOf(t, s, 0)
}
