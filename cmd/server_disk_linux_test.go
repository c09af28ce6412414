package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// smallDisk mounts a file system of 2 MiB in the folder disk until the end of the test.
func (s *shop) smallDisk() string {
	s.t.Helper()
	if os.Getuid() != 0 {
		s.t.Skip("only root can mount a small file system")
	}
	disk := s.path("disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=2m"); err != nil {
		s.t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	s.t.Cleanup(func() {
		// A program that another test starts has the files of this process open until it has begun.
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			s.t.Error(err)
		}
	})
	return disk
}

// A full disk is said once; no record is handed out that could not be settled,
// and the daemon goes on when there is room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]string{"handler.sh": slowHandler})
	disk := s.smallDisk()
	x := &site{shop: s, kind: onSQLite}
	var err error
	if x.db, err = openDB(filepath.Join(disk, "backlog.db")); err != nil {
		t.Fatal(err)
	}
	defer x.db.Close()
	for _, text := range onSQLite.table {
		x.mustExec(text)
	}
	const records = 60
	x.fillNew(records)
	s.write("a.yaml", fmt.Sprintf("database: sqlite:disk/backlog.db\nstate: %s\nlog: {format: json}\n%s\n", s.path("a.json"), handling))
	d := s.start("run", "--config", "a.yaml")
	if !eventually(func() bool { return x.count("SUCCESS") > 3 }) {
		t.Fatalf("it does nothing:\n%s", d.log)
	}
	fills := filepath.Join(disk, "full")
	if err := os.WriteFile(fills, make([]byte, 4<<20), 0o644); err == nil {
		t.Fatal("the disk does not get full")
	}
	d.says(`"msg":"no record is dispatched until the database answers again","error":`)
	tried := len(x.deeds("handled.log"))
	if err := os.Remove(fills); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return x.count("SUCCESS") == records }) {
		t.Fatalf("not all is done:\n%s", d.log)
	}
	d.signal(syscall.SIGTERM)
	d.ends()
	if again := x.judge(records); again > 0 {
		t.Errorf("%d records were handled again", again)
	}
	if tried == 2*records {
		t.Error("all records were handed out before the disk was full")
	}
	log := d.log.String()
	for _, text := range []string{"no record is dispatched until the database answers again", "the database answers again"} {
		if n := strings.Count(log, `"msg":"`+text+`"`); n != 1 {
			t.Errorf("it says %d times %q:\n%s", n, text, log)
		}
	}
}
