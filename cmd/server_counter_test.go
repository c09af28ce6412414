package cmd_test

import (
	"os"
	"strings"
	"testing"
)

// A trigger that inserts a SELECT needs the lock of the counter of its table. While another
// session has that lock, no outcome can be written, and the server's error names neither a lock
// nor a row. The outcome is kept and written later, as with any other lock.
func TestCounterLockedByOther(t *testing.T) {
	t.Parallel()
	s := newSite(t, onMySQL, nil)
	s.mustExec("CREATE TABLE changes (no bigint AUTO_INCREMENT PRIMARY KEY, id bigint) ENGINE = InnoDB")
	s.mustExec(`CREATE TRIGGER notes AFTER UPDATE ON "BACKLOG" FOR EACH ROW INSERT INTO changes (id) SELECT new.id FROM (SELECT 1) one`)
	s.mustExec("CREATE TABLE numbers (id bigint PRIMARY KEY)")
	s.mustExec("INSERT INTO numbers VALUES (1), (2)")
	s.configure("a", nil, handling)
	s.fillNew(1)
	s.write("handler.sh", "#!/bin/sh\n: >begun\nuntil [ -e held ]; do sleep 0.05; done\necho $BACKLOG_ID >>handled.log\n")
	d := s.start("once", "--config", "a.yaml", "--max-age", "1d")
	if !eventually(func() bool { return fileIn(s.shop, "begun") }) {
		t.Fatalf("nothing is handled:\n%s", d.log)
	}
	released := make(chan error, 1)
	go func() {
		_, err := s.db.Exec("INSERT INTO changes (id) SELECT IF(id = 2, SLEEP(12), id) FROM numbers ORDER BY id") // longer than a lock is waited for
		released <- err
	}()
	if !eventually(func() bool {
		return s.rows("SELECT count(*) FROM information_schema.PROCESSLIST WHERE state = 'User sleep' AND db = database()") == "1\n"
	}) {
		t.Fatal("the lock is not taken")
	}
	s.write("held", "")
	d.ends()
	if err := <-released; err != nil {
		t.Fatal(err)
	}
	if n := s.count("SUCCESS"); n != 1 || s.read("handled.log") != "1\n" {
		t.Errorf("%d rows are SUCCESS, and %q was handled:\n%s", n, s.read("handled.log"), d.log)
	}
	if strings.Contains(d.log.String(), "refuses") {
		t.Errorf("a lock counts as a refusal:\n%s", d.log)
	}
}

// fileIn reports whether the shop has the file.
func fileIn(s *shop, name string) bool {
	_, err := os.Stat(s.path(name))
	return err == nil
}
